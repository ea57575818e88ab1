//! What people do, and housekeeping.

use queue_core::{
    JobId,
    broker::{CancelAnswer, JobState, KeepLimits, QueueStats, SweepLimits, Swept},
};

use super::{Model, Place};

impl Model {
    /// R13.
    pub fn cancel(&mut self, ids: &[JobId]) -> Vec<CancelAnswer> {
        ids.iter().map(|id| self.cancel_one(id)).collect()
    }

    fn cancel_one(&mut self, id: &JobId) -> CancelAnswer {
        let Some(job) = self.jobs.get(id).filter(|job| !job.place.state().is_final()) else { return CancelAnswer::NotFound };
        let mut answer = CancelAnswer::Cancelled;
        match job.place.clone() {
            Place::Active { worker, claim } => {
                self.note_gone(&worker, id, claim);
                answer = CancelAnswer::CancelledActive;
            }
            Place::Ready => self.leave_line(id),
            _ => {}
        }
        self.end_unwanted(id, JobState::Cancelled, None);
        answer
    }

    fn leave_line(&mut self, id: &JobId) {
        self.lines.remove(id);
        self.loose.insert(id.clone());
    }

    /// `dead` → `ready`.
    pub fn requeue(&mut self, ids: &[JobId]) -> Vec<bool> {
        let mut requeue = |id: &JobId| {
            let Some(job) = self.jobs.get_mut(id).filter(|job| job.place.state() == JobState::Dead) else { return false };
            (job.attempts, job.crashes, job.snoozes) = (0, 0, 0);
            self.make_ready(id, false);
            self.count("requeued", 1);
            true
        };
        ids.iter().map(&mut requeue).collect()
    }

    /// Removes jobs that are not active.
    pub fn delete(&mut self, ids: &[JobId]) -> Vec<bool> {
        let mut delete = |id: &JobId| {
            match self.jobs.get(id).map(|job| job.place.state()) {
                None | Some(JobState::Active) => return false,
                Some(JobState::Ready) => self.leave_line(id),
                Some(_) => {}
            }
            self.jobs.remove(id);
            self.tombstones.remove(id);
            true
        };
        ids.iter().map(&mut delete).collect()
    }

    /// Stops claims, or lets them go on.
    pub fn set_paused(&mut self, paused: bool) {
        self.paused = paused;
        if !paused {
            self.announce(self.now);
        }
    }

    /// Depth and counters.
    pub fn stats(&self) -> QueueStats {
        let mut stats = QueueStats::default();
        for job in self.jobs.values() {
            *stats.depth.entry(job.place.state()).or_default() += 1;
        }
        stats.counters = self.counters.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        stats.workers = self.workers.values().filter(|worker| !worker.fenced && worker.deadline > self.now).count() as u64;
        stats.paused = self.paused;
        stats
    }

    /// Brings the lines into the order that a listing of `ready` has.
    pub fn reorder(&mut self, seen: &[JobId]) {
        self.lines.reorder(seen);
    }

    /// One round of housekeeping.
    pub fn sweep(&mut self, limits: &SweepLimits) -> Swept {
        let before = |age: std::time::Duration| self.now.saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
        let mut swept = Swept::default();

        let end = before(limits.producers);
        let idle: Vec<_> = self.producers.iter().filter(|(_, producer)| producer.seen <= end).map(|(name, _)| name.clone()).collect();
        for name in idle.iter().take(limits.items) {
            self.producers.remove(name);
            swept.producers += 1;
        }

        let end = before(limits.tombstones);
        let mut tombstones: Vec<(i64, JobId)> = self.tombstones.iter().map(|(id, (_, at))| (*at, id.clone())).collect();
        tombstones.sort();
        let excess = tombstones.len().saturating_sub(usize::try_from(limits.tombstone_count).unwrap_or(usize::MAX));
        for (n, (at, id)) in tombstones.iter().enumerate().take(limits.items) {
            if *at <= end || n < excess {
                self.tombstones.remove(id);
                swept.tombstones += 1;
            }
        }

        let end = before(limits.dead);
        for id in self.ids(JobState::Dead).into_iter().take(limits.items) {
            let bytes: u64 =
                self.jobs.values().filter(|job| job.place.state() == JobState::Dead).map(|job| job.envelope.len() as u64).sum();
            if self.jobs[&id].place.at() > Some(end) && bytes <= limits.dead_bytes {
                break;
            }
            self.jobs.remove(&id);
            self.tombstones.remove(&id);
            swept.dead += 1;
        }
        self.count("dead_evicted", swept.dead);

        let now = self.now;
        let is_over = |place: &Place| matches!(place, Place::Ended { until, .. } if *until <= now);
        let over: Vec<JobId> =
            self.jobs.iter().filter(|(_, job)| is_over(&job.place)).map(|(id, _)| id.clone()).take(limits.items).collect();
        swept.ended = over.len();
        for id in over {
            self.jobs.remove(&id);
        }
        swept.ended += self.trim(limits.keep, limits.items - swept.ended);
        swept
    }

    /// Removes at most so many kept jobs, the oldest first, while there are too many of them.
    pub(super) fn trim(&mut self, limits: KeepLimits, items: usize) -> usize {
        let mut removed = 0;
        while removed < items {
            let kept = || self.jobs.iter().filter(|(_, job)| matches!(job.place, Place::Ended { .. }));
            let bytes: u64 = kept().map(|(_, job)| job.size()).sum();
            if kept().count() as u64 <= limits.count && bytes <= limits.bytes {
                break;
            }
            let Some(oldest) = kept().min_by_key(|(_, job)| job.place.order()).map(|(id, _)| id.clone()) else { break };
            self.jobs.remove(&oldest);
            removed += 1;
        }
        removed
    }
}
