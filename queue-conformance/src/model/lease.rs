//! R6 and R7: beats, and what becomes of the jobs of a lane that was not heard of.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use queue_core::{
    JobId, Result,
    broker::{Ahead, BuryReason, CrashRule, Extend, Extended, OverdueLane, OverdueLanes, PartyName, RECLAIM_ITEMS, Reclaimed},
};

use super::{
    Model, Place,
    doors::{Back, By, End},
    enqueue::forgotten,
};

/// A lane.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    pub(super) seq: u64,
    pub(super) deadline: i64,
    /// How long its lease is.
    pub(super) term: Duration,
    pub(super) fenced: bool,
    /// Its worker has stopped and left jobs behind.
    leaving: bool,
    /// Jobs that were cancelled under it, for which it has not answered.
    gone: BTreeSet<(JobId, u64)>,
    /// Claim number, ids and stale positions of its last turn.
    pub(super) last: (u64, Vec<JobId>, Vec<usize>),
}

impl Lane {
    pub(super) fn new(deadline: i64, term: Duration) -> Self {
        Lane { seq: 0, deadline, term, fenced: false, leaving: false, gone: BTreeSet::new(), last: (0, Vec::new(), Vec::new()) }
    }
}

impl Model {
    /// A beat.
    pub fn extend(&mut self, beat: &Extend) -> Result<Extended> {
        let deadline = self.after(beat.lease);
        let found = self.lanes.get_mut(&beat.lane).filter(|lane| !lane.fenced && lane.seq >= beat.answered);
        let lane = found.ok_or_else(|| forgotten(&beat.lane))?;
        lane.deadline = deadline;
        lane.leaving |= beat.leaving;
        if let Some(load) = &beat.load {
            self.loads.insert(beat.lane.process().to_owned(), load.stored(self.now));
        }
        let asked = beat.load.as_ref().and_then(|_| self.asked.get(beat.lane.process()).cloned());
        let lane = &self.lanes[&beat.lane];
        Ok(Extended::new(lane.gone.iter().cloned().collect()).asking(asked))
    }

    /// A lane was seen to have this deadline: what its last beat came to.
    pub fn set_deadline(&mut self, seen: &OverdueLane) {
        if let Some(lane) = self.lanes.get_mut(&seen.name) {
            lane.deadline = seen.deadline_ms;
        }
    }

    /// Notes that a job was cancelled under a lane.
    pub(super) fn note_gone(&mut self, lane: &PartyName, id: &JobId, claim: u64) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.gone.insert((id.clone(), claim));
        }
    }

    /// The lane has answered for it.
    pub(super) fn answered(&mut self, lane: &PartyName, id: &JobId, claim: u64) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.gone.remove(&(id.clone(), claim));
        }
    }

    /// No lane has to hear of this job any more.
    pub(super) fn forget_gone(&mut self, id: &JobId) {
        self.lanes.values_mut().for_each(|lane| lane.gone.retain(|(known, _)| known != id));
    }

    /// The lanes that are registered and not fenced, and when their leases end.
    pub fn lanes(&self) -> impl Iterator<Item = (&PartyName, i64)> {
        self.lanes.iter().filter(|(_, lane)| !lane.fenced).map(|(name, lane)| (name, lane.deadline))
    }

    /// The first check.
    pub fn overdue(&self, limit: usize) -> OverdueLanes {
        let mut expired: Vec<OverdueLane> = self
            .lanes
            .iter()
            .filter(|(_, lane)| !lane.fenced && lane.deadline <= self.now)
            .map(|(name, lane)| OverdueLane { name: name.clone(), deadline_ms: lane.deadline })
            .collect();
        expired.sort_by_key(|lane| lane.deadline_ms);
        expired.truncate(limit);
        let ahead = self.lanes.iter().filter(|(_, lane)| !lane.fenced && lane.deadline > self.after(lane.term));
        let ahead =
            ahead.map(|(name, lane)| Ahead { lane: OverdueLane { name: name.clone(), deadline_ms: lane.deadline }, term: lane.term });
        let ahead = ahead.take(limit).collect();
        OverdueLanes::new(expired, self.lanes.values().filter(|lane| lane.fenced).count()).ahead(ahead)
    }

    /// The second check.
    pub fn fence(&mut self, overdue: &[OverdueLane]) -> Vec<bool> {
        let now = self.now;
        let mut fence = |seen: &OverdueLane| {
            let Some(term) = self.lanes.get(&seen.name).map(|lane| lane.term) else { return false };
            let latest = self.after(term);
            let Some(lane) = self.lanes.get_mut(&seen.name) else { return false };
            let stands = (now + 1..=latest).contains(&lane.deadline);
            if lane.fenced || lane.deadline != seen.deadline_ms || stands {
                return false;
            }
            lane.fenced = true;
            self.deregister(&seen.name);
            true
        };
        overdue.iter().map(&mut fence).collect()
    }

    /// A lane is one no more: with the last of its worker goes the worker's record.
    fn deregister(&mut self, lane: &PartyName) {
        if !self.lanes.iter().any(|(name, other)| name.process() == lane.process() && !other.fenced) {
            self.workers.remove(lane.process());
            self.loads.remove(lane.process());
            self.asked.remove(lane.process());
        }
    }

    /// The jobs of the fenced lanes of one process are judged together; those that go free go first.
    pub fn reclaim(&mut self, rule: &CrashRule) -> Reclaimed {
        let (mut reclaimed, mut forgotten) = (Reclaimed::default(), 0);
        let mut processes: BTreeMap<String, Vec<PartyName>> = BTreeMap::new();
        for (name, _) in self.lanes.iter().filter(|(_, lane)| lane.fenced) {
            processes.entry(name.process().to_owned()).or_default().push(name.clone());
        }
        for (process, lanes) in processes {
            let mut held: Vec<(u64, JobId, PartyName)> = Vec::new();
            let mut has_suspect = false;
            for (id, job) in self.jobs.iter() {
                let Place::Active { lane, claim } = job.place() else { continue };
                if lane.process() == process {
                    // Also one that a lane of the process holds whose own lease still stands.
                    has_suspect |= self.is_suspected(id, lane, *claim);
                    if lanes.contains(lane) {
                        held.push((*claim, id.clone(), lane.clone()));
                    }
                }
            }
            held.sort();
            // Then it has not died: these lanes were forgotten, and it goes on under other names.
            let lives = self.lanes.iter().any(|(name, other)| name.process() == process && !other.fenced && other.deadline > self.now);
            let (mut charged, mut free) = (Vec::new(), Vec::new());
            for (claim, id, lane) in held {
                let (leaves, until) = (self.lanes[&lane].leaving, self.lanes[&lane].deadline.min(self.now));
                let is_charged = !leaves && !lives && (!has_suspect || self.is_suspected(&id, &lane, claim));
                let ran = until.saturating_sub(claim.cast_signed()).max(0);
                if is_charged { charged.push((id, ran)) } else { free.push((id, leaves)) }
            }
            let all = free.len() + charged.len();
            let room = RECLAIM_ITEMS - reclaimed.moved();
            let released = free.len().min(room);
            let mut stopped = 0;
            for (id, leaves) in free[..released].iter().rev() {
                if self.end_stopped(id, By::Others) {
                    stopped += 1;
                    continue;
                }
                let out = self.settle(id, By::Others).expect("a held job is active");
                if *leaves {
                    let now = self.now;
                    self.jobs.edit(id).release(now);
                }
                self.come_back(out, Back::Head);
            }
            reclaimed.released += released - stopped;
            forgotten += if lives { released } else { 0 };
            for (id, ran) in charged.iter().take(room - released) {
                if self.end_stopped(id, By::Others) {
                    stopped += 1;
                } else if self.charge(id, *ran, rule) {
                    reclaimed.buried.push(id.clone());
                } else {
                    reclaimed.charged += 1;
                }
            }
            self.count("reclaimed", stopped);
            if all > room {
                break;
            }
            reclaimed.forgotten += lanes.len();
            for lane in lanes {
                self.lanes.remove(&lane);
            }
        }
        self.count("reclaimed", reclaimed.moved());
        self.count("crashed", reclaimed.charged + reclaimed.buried.len());
        self.count("forgotten", forgotten);
        reclaimed
    }

    /// Whether a job has crashed, and its process has lived no longer in this run than it may have in that one, as far as is known of it.
    fn is_suspected(&self, id: &JobId, lane: &PartyName, claim: u64) -> bool {
        let (job, lane) = (&self.jobs[id], &self.lanes[lane]);
        let term = i64::try_from(lane.term.as_millis()).unwrap_or(i64::MAX);
        let renewed = Some(lane.deadline.saturating_sub(term)).filter(|renewed| lane.fenced && (0..=self.now).contains(renewed));
        job.crashes > 0 && renewed.unwrap_or(0).saturating_sub(claim.cast_signed()) <= job.ran
    }

    /// True: that was one crash too many.
    fn charge(&mut self, id: &JobId, ran: i64, rule: &CrashRule) -> bool {
        let now = self.now;
        let window = i64::try_from(rule.window.as_millis()).unwrap_or(i64::MAX);
        let job = self.jobs.edit(id);
        if job.crashes == 0 || now.saturating_sub(job.first_crash) > window {
            (job.crashes, job.first_crash, job.ran) = (0, now, 0);
        }
        job.ran = job.ran.max(ran);
        job.crashes += 1;
        job.fail(now, "the process that ran it died, or lost the broker");
        let crashes = job.crashes;
        let out = self.settle(id, By::Others).expect("a held job is active");
        let too_many = crashes >= rule.most_of(&self.jobs[id].envelope);
        if too_many {
            self.end(out, End::Dead(BuryReason::Crashed));
        } else {
            self.come_back(out, Back::Retry(rule.delay.saturating_mul(crashes)));
        }
        too_many
    }
}
