//! What people do: cancel, put back, promote, delete, pause, count.

use std::collections::BTreeSet;

use queue_core::{
    JobId,
    broker::{CancelAnswer, JobState, LaneLease, QueueStats, WorkerRecord},
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

    /// `scheduled` or `retry` → the tail of `ready`, before their time.
    pub fn promote(&mut self, ids: &[JobId]) -> Vec<bool> {
        let mut promote = |id: &JobId| {
            if self.jobs.get(id).is_none_or(|job| !matches!(job.place(), Place::Scheduled(_) | Place::Retry(_))) {
                return false;
            }
            let out = self.leave(id);
            self.back(out, Back::Tail);
            true
        };
        ids.iter().map(&mut promote).collect()
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

    /// The workers that have a lane in this queue, which is named like this.
    pub fn workers(&self, queue: &str) -> Vec<WorkerRecord> {
        let lanes = self.lanes.iter().filter(|(_, lane)| !lane.fenced).map(|(name, lane)| {
            let term_ms = i64::try_from(lane.term.as_millis()).unwrap_or(i64::MAX);
            LaneLease { process: name.process().to_owned(), deadline_ms: lane.deadline, term_ms }
        });
        WorkerRecord::of_lanes(queue, self.now, lanes, |process| self.workers.get(process).cloned())
    }

    /// Depth and counters.
    pub fn stats(&self) -> QueueStats {
        let mut stats = QueueStats::default();
        stats.set_count(JobState::Ready, self.ready.depth() as u64);
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
        stats
    }
}
