//! What people do: cancel, put back, delete, pause, count.

use queue_core::{
    JobId,
    broker::{CancelAnswer, JobState, QueueStats},
};

use super::{
    Model, Place,
    doors::{Back, By, End},
};

impl Model {
    /// R13.
    pub fn cancel(&mut self, ids: &[JobId]) -> Vec<CancelAnswer> {
        ids.iter().map(|id| self.cancel_one(id)).collect()
    }

    fn cancel_one(&mut self, id: &JobId) -> CancelAnswer {
        let Some(job) = self.jobs.get(id).filter(|job| !job.place().state().is_final()) else { return CancelAnswer::NotFound };
        let place = job.place().clone();
        let (out, answer) = match self.settle(id, By::Others) {
            Some(out) => (out, CancelAnswer::CancelledActive),
            None => (self.leave(id), CancelAnswer::Cancelled),
        };
        if let Place::Active { lane, claim } = place {
            self.note_gone(&lane, id, claim);
        }
        self.end(out, End::Cancelled(None));
        answer
    }

    /// `dead` → `ready`.
    pub fn requeue(&mut self, ids: &[JobId]) -> Vec<bool> {
        let mut requeue = |id: &JobId| {
            if self.jobs.get(id).is_none_or(|job| job.place().state() != JobState::Dead) {
                return false;
            }
            let job = self.jobs.edit(id);
            (job.attempts, job.crashes, job.snoozes) = (0, 0, 0);
            let out = self.leave(id);
            self.back(out, Back::Tail);
            self.count("requeued", 1);
            true
        };
        ids.iter().map(&mut requeue).collect()
    }

    /// Removes jobs that are not active.
    pub fn delete(&mut self, ids: &[JobId]) -> Vec<bool> {
        let mut delete = |id: &JobId| {
            if self.jobs.get(id).is_none_or(|job| job.place().state() == JobState::Active) {
                return false;
            }
            let out = self.leave(id);
            self.end(out, End::Removed);
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
        if self.ready.depth() > 0 {
            stats.depth.insert(JobState::Ready, self.ready.depth() as u64);
        }
        for job in self.jobs.values().filter(|job| *job.place() != Place::Ready) {
            *stats.depth.entry(job.place().state()).or_default() += 1;
        }
        stats.counters = self.counters.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        stats.lanes = self.lanes.values().filter(|lane| !lane.fenced && lane.deadline > self.now).count() as u64;
        stats.paused = self.paused;
        stats
    }
}
