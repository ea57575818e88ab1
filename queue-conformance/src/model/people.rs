//! What people do: change jobs, pause, count.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use queue_core::{
    JobId, LimitKey,
    broker::{
        AskWorker, Change, Changed, GroupName, HEADS, JobState, LaneLease, OutboxRecord, QueueStats, StoredWorker, WorkerAsk, WorkerAsked,
        WorkerRecord,
    },
    envelope::Envelope,
};

use super::{
    Model, Place,
    doors::{Back, By, End, Job},
};

impl Model {
    /// One answer per id, in order.
    pub fn change(&mut self, change: Change, reason: Option<&str>, ids: &[JobId]) -> Vec<Changed> {
        ids.iter()
            .map(|id| match change {
                Change::Cancel => self.cancel(id, reason),
                Change::Requeue => self.requeue(id),
                Change::Promote => self.promote(id).into(),
                Change::Delete => self.delete(id).into(),
            })
            .collect()
    }

    /// R13.
    fn cancel(&mut self, id: &JobId, reason: Option<&str>) -> Changed {
        let Some(job) = self.jobs.get(id).filter(|job| !job.place().state().is_final()) else { return Changed::No };
        let place = job.place().clone();
        let (out, changed) = match self.settle(id, By::Others) {
            Some(out) => (out, Changed::WhileActive),
            None => (self.leave(id), Changed::Yes),
        };
        if let Place::Active { lane, claim } = place {
            self.note_gone(&lane, id, claim);
            self.watch_told = true;
        }
        self.end(out, End::Cancelled(reason.map(str::to_owned)));
        changed
    }

    /// The same with a job that waits. False: there is none of this id, it has ended, or it runs.
    pub(super) fn cancel_waiting(&mut self, id: &JobId, reason: Option<&str>) -> bool {
        let runs = self.jobs.get(id).is_some_and(|job| matches!(job.place(), Place::Active { .. }));
        !runs && self.cancel(id, reason) != Changed::No
    }

    /// `dead`, `cancelled` or `expired` → `ready`.
    fn requeue(&mut self, id: &JobId) -> Changed {
        if self.jobs.get(id).is_none_or(|job| !Change::Requeue.applies_to(job.place().state())) {
            return Changed::No;
        }
        if let Some(younger) = self.younger(id) {
            return Changed::Held(younger);
        }
        let job = self.jobs.edit(id);
        (job.attempts, job.crashes, job.snoozes, job.rate_limited, job.releases, job.note) = (0, 0, 0, 0, (0, None), None);
        if let Some(anew) = Envelope::without_expiry(&job.envelope) {
            job.envelope = anew;
        }
        let out = self.leave(id);
        self.back(out, Back::Tail);
        self.count("requeued", 1);
        Changed::Yes
    }

    /// `scheduled` or `retry` → the tail of `ready`, before their time.
    fn promote(&mut self, id: &JobId) -> bool {
        if self.jobs.get(id).is_none_or(|job| !matches!(job.place(), Place::Scheduled(_) | Place::Retry(_))) {
            return false;
        }
        let out = self.leave(id);
        self.back(out, Back::Tail);
        true
    }

    /// Removes a job that is not active.
    pub(super) fn delete(&mut self, id: &JobId) -> bool {
        if self.jobs.get(id).is_none_or(|job| job.place().state() == JobState::Active) {
            return false;
        }
        let out = self.leave(id);
        self.end(out, End::Removed);
        true
    }

    /// Something is asked of a worker that has said what it uses.
    pub fn ask_worker(&mut self, request: &AskWorker) -> WorkerAsked {
        let worker = request.process.to_string();
        if !self.loads.contains_key(&worker) {
            return WorkerAsked::Absent;
        }
        if self.asked.get(&worker).is_some_and(|ask| ask.number >= request.ask.number && *ask != request.ask) {
            return WorkerAsked::Stale;
        }
        self.asked.insert(worker, request.ask.clone());
        WorkerAsked::Stored
    }

    /// The workers that have a lane in this queue, which is named like this.
    pub fn workers(&self, queue: &str) -> Vec<WorkerRecord> {
        let lanes = self.lanes.iter().filter(|(_, lane)| !lane.fenced).map(|(name, lane)| {
            let term_ms = i64::try_from(lane.term.as_millis()).unwrap_or(i64::MAX);
            LaneLease { process: name.process().to_owned(), deadline_ms: lane.deadline, term_ms }
        });
        WorkerRecord::of_lanes(queue, self.now, lanes, |process| {
            let [record, load] = [&self.workers, &self.loads].map(|stored| stored.get(process).cloned());
            StoredWorker { record, load, asked: self.asked.get(process).map(WorkerAsk::encoded) }
        })
    }

    /// Depth and counters.
    pub fn stats(&self) -> QueueStats {
        let mut stats = QueueStats::default();
        stats.set_count(JobState::Ready, (self.ready.depth() + self.groups.depth()) as u64);
        for job in self.jobs.values().filter(|job| *job.place() != Place::Ready) {
            let state = job.place().state();
            stats.set_count(state, stats.count(state) + 1);
        }
        for (name, value) in &self.counters {
            stats.set_total(name, *value);
        }
        let standing = || self.lanes.iter().filter(|(_, lane)| !lane.fenced && lane.deadline > self.now);
        stats.lanes = standing().count() as u64;
        stats.workers = standing().map(|(name, _)| name.process()).collect::<BTreeSet<_>>().len() as u64;
        stats.paused = self.paused;
        let outboxes = self.outboxes.iter().filter_map(|(name, (_, stored))| OutboxRecord::read(name, stored, self.now));
        stats.outboxes = OutboxRecord::merged(outboxes);
        stats.aging = self.aging();
        for since in self.ready.priorities().iter().filter_map(|line| self.since(line)) {
            stats.note_ready_since(since, self.now);
        }
        // A group whose jobs all wait for limits has no turn.
        let may_start = |jobs: &VecDeque<JobId>| jobs.iter().any(|id| self.held_back(id).is_none());
        let mut next = self.groups.next(HEADS);
        next.retain(|group| self.groups.priorities(group).any(may_start));
        for since in next.iter().filter_map(|group| self.groups_since(group)) {
            stats.note_ready_since(since, self.now);
        }
        // None of these tells its age: some groups that may not be served.
        if stats.oldest.is_none() {
            let others = self.groups.names().filter(|name| !next.contains(name)).take(HEADS);
            for since in others.filter_map(|group| self.groups_since(group)) {
                stats.note_ready_since(since, self.now);
            }
        }
        stats
    }

    /// How long the oldest ready job of a group has waited, of the first ones of each priority and chain.
    pub(in crate::model) fn oldest_of(&self, group: &GroupName) -> Option<Duration> {
        let since = self.groups_since(group)?;
        Some(Duration::from_millis(u64::try_from(self.now.saturating_sub(since)).unwrap_or(0)))
    }

    fn groups_since(&self, group: &GroupName) -> Option<i64> {
        self.groups.priorities(group).filter_map(|jobs| self.since(jobs)).min()
    }

    /// Since when the oldest job of a line could start: of each of its chains the first ones are looked at.
    fn since(&self, line: &VecDeque<JobId>) -> Option<i64> {
        let mut chains: BTreeMap<(usize, &[LimitKey]), Vec<&Job>> = BTreeMap::new();
        for job in line.iter().map(|id| &self.jobs[id]) {
            let keys = job.limit_keys();
            chains.entry((keys.len(), keys)).or_default().push(job);
        }
        let heads = chains.values().take(HEADS);
        heads.filter_map(|jobs| jobs.iter().take(HEADS).find_map(|job| self.ready_since(job))).min()
    }

    /// Since when a job could start. `None` if that is not known: it waited for another time meanwhile, or its task repeats.
    fn ready_since(&self, job: &Job) -> Option<i64> {
        let envelope = Envelope::decode(&job.envelope).ok()?;
        let repeats = self.tasks.get(&*envelope.task).is_some_and(|(_, repeats)| *repeats);
        envelope
            .startable_ms()
            .filter(|_| job.attempts == 0 && job.snoozes == 0 && job.rate_limited == 0 && job.crashes == 0 && !job.odd && !repeats)
    }
}
