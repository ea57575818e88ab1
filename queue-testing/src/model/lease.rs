//! R6 and R7: beats, and what becomes of the jobs of a lane that was not heard of.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use queue_core::{
    JobId, Result,
    broker::{Ahead, BuryReason, CrashRule, Extend, Extended, PartyName, RECLAIM_ITEMS, Reclaimed, Suspect, Suspects},
};

use super::{
    Model, Place,
    doors::{Back, By, End},
    enqueue::forgotten,
};

/// A lane.
#[derive(Clone, Debug)]
pub(super) struct Worker {
    pub(super) seq: u64,
    pub(super) deadline: i64,
    /// How long its lease is.
    term: Duration,
    pub(super) fenced: bool,
    /// Jobs that were cancelled under it, for which it has not answered.
    gone: BTreeSet<(JobId, u64)>,
    /// Claim number, ids and stale positions of its last turn.
    pub(super) last: (u64, Vec<JobId>, Vec<usize>),
}

impl Worker {
    pub(super) fn new(deadline: i64, term: Duration) -> Self {
        Worker { seq: 0, deadline, term, fenced: false, gone: BTreeSet::new(), last: (0, Vec::new(), Vec::new()) }
    }
}

impl Model {
    /// A beat.
    pub fn extend(&mut self, beat: &Extend) -> Result<Extended> {
        let deadline = self.after(beat.lease);
        let found = self.workers.get_mut(&beat.worker).filter(|worker| !worker.fenced && worker.seq >= beat.answered);
        let worker = found.ok_or_else(|| forgotten(&beat.worker))?;
        worker.deadline = deadline;
        Ok(Extended::new(worker.gone.iter().cloned().collect()))
    }

    /// A lane was seen to have this deadline: what its last beat came to.
    pub fn set_deadline(&mut self, suspect: &Suspect) {
        if let Some(worker) = self.workers.get_mut(&suspect.worker) {
            worker.deadline = suspect.deadline_ms;
        }
    }

    /// Notes that a job was cancelled under a lane.
    pub(super) fn note_gone(&mut self, worker: &PartyName, id: &JobId, claim: u64) {
        if let Some(worker) = self.workers.get_mut(worker) {
            worker.gone.insert((id.clone(), claim));
        }
    }

    /// The lane has answered for it.
    pub(super) fn answered(&mut self, worker: &PartyName, id: &JobId, claim: u64) {
        if let Some(worker) = self.workers.get_mut(worker) {
            worker.gone.remove(&(id.clone(), claim));
        }
    }

    /// The lanes that are registered and not fenced, and when their leases end.
    pub fn lanes(&self) -> impl Iterator<Item = (&PartyName, i64)> {
        self.workers.iter().filter(|(_, worker)| !worker.fenced).map(|(name, worker)| (name, worker.deadline))
    }

    /// Look one.
    pub fn suspects(&self, limit: usize) -> Suspects {
        let mut expired: Vec<Suspect> = self
            .workers
            .iter()
            .filter(|(_, worker)| !worker.fenced && worker.deadline <= self.now)
            .map(|(name, worker)| Suspect { worker: name.clone(), deadline_ms: worker.deadline })
            .collect();
        expired.sort_by_key(|suspect| suspect.deadline_ms);
        expired.truncate(limit);
        let ahead = self.workers.iter().filter(|(_, worker)| !worker.fenced && worker.deadline > self.after(worker.term));
        let ahead = ahead
            .map(|(name, worker)| Ahead { suspect: Suspect { worker: name.clone(), deadline_ms: worker.deadline }, term: worker.term });
        let ahead = ahead.take(limit).collect();
        Suspects::new(expired, self.workers.values().filter(|worker| worker.fenced).count()).ahead(ahead)
    }

    /// Look two.
    pub fn fence(&mut self, suspects: &[Suspect]) -> Vec<bool> {
        let now = self.now;
        let mut fence = |suspect: &Suspect| {
            let Some(term) = self.workers.get(&suspect.worker).map(|worker| worker.term) else { return false };
            let latest = self.after(term);
            let Some(worker) = self.workers.get_mut(&suspect.worker) else { return false };
            let stands = (now + 1..=latest).contains(&worker.deadline);
            if worker.fenced || worker.deadline != suspect.deadline_ms || stands {
                return false;
            }
            worker.fenced = true;
            true
        };
        suspects.iter().map(&mut fence).collect()
    }

    /// The jobs of the fenced lanes of one process are judged together; those that go free go first.
    pub fn sweep_fenced(&mut self, rule: &CrashRule) -> Reclaimed {
        let (mut reclaimed, mut forgotten) = (Reclaimed::default(), 0);
        let mut processes: BTreeMap<String, Vec<PartyName>> = BTreeMap::new();
        for (name, _) in self.workers.iter().filter(|(_, worker)| worker.fenced) {
            processes.entry(name.process().to_owned()).or_default().push(name.clone());
        }
        for (process, lanes) in processes {
            let mut held: Vec<(u64, JobId)> = Vec::new();
            let mut has_suspect = false;
            for (id, job) in self.jobs.iter() {
                let Place::Active { worker, claim } = job.place() else { continue };
                if worker.process() == process {
                    // Also one that a lane of the process holds whose own lease still stands.
                    has_suspect |= job.crashes > 0;
                    if lanes.contains(worker) {
                        held.push((*claim, id.clone()));
                    }
                }
            }
            held.sort();
            // Then it has not died: these lanes were forgotten, and it goes on under other names.
            let lives = self.workers.iter().any(|(name, other)| name.process() == process && !other.fenced && other.deadline > self.now);
            let (charged, free): (Vec<JobId>, Vec<JobId>) =
                held.into_iter().map(|(_, id)| id).partition(|id| !lives && (!has_suspect || self.jobs[id].crashes > 0));
            let all = free.len() + charged.len();
            let room = RECLAIM_ITEMS - reclaimed.moved();
            let released = free.len().min(room);
            for id in free[..released].iter().rev() {
                let out = self.settle(id, By::Others).expect("a held job is active");
                self.back(out, Back::Head);
            }
            reclaimed.released += released;
            forgotten += if lives { released } else { 0 };
            for id in charged.iter().take(room - released) {
                if self.charge(id, rule) {
                    reclaimed.buried.push(id.clone());
                } else {
                    reclaimed.charged += 1;
                }
            }
            if all > room {
                break;
            }
            reclaimed.forgotten += lanes.len();
            for lane in lanes {
                self.workers.remove(&lane);
            }
        }
        self.count("reclaimed", reclaimed.moved());
        self.count("crashed", reclaimed.charged + reclaimed.buried.len());
        self.count("forgotten", forgotten);
        reclaimed
    }

    /// True: that was one crash too many.
    fn charge(&mut self, id: &JobId, rule: &CrashRule) -> bool {
        let now = self.now;
        let window = i64::try_from(rule.window.as_millis()).unwrap_or(i64::MAX);
        let job = self.jobs.edit(id);
        if job.crashes == 0 || now.saturating_sub(job.first_crash) > window {
            (job.crashes, job.first_crash) = (0, now);
        }
        job.crashes += 1;
        job.fail(now, "the process that ran it died, or lost the broker");
        let crashes = job.crashes;
        let out = self.settle(id, By::Others).expect("a held job is active");
        let too_many = crashes >= rule.max_crashes;
        if too_many {
            self.end(out, End::Dead(BuryReason::Crashed));
        } else {
            self.back(out, Back::Retry(rule.delay.saturating_mul(crashes)));
        }
        too_many
    }
}
