//! A job, where it is, and the moves that several operations share.

use std::time::Duration;

use queue_core::{
    JobId,
    broker::{BuryReason, ENDED_KEEP, FAILURES_KEPT, Failure, JobRecord, JobState, Priority},
};

use super::Model;

/// A job.
#[derive(Clone, Debug)]
pub struct Job {
    /// Where it is.
    pub place: Place,
    /// What was enqueued.
    pub envelope: Vec<u8>,
    /// Its priority.
    pub priority: Priority,
    /// Of a given id: what tells it from another job of that id.
    pub digest: u64,
    /// How often its handler has failed.
    pub attempts: u32,
    /// How often its process died, as charged.
    pub crashes: u32,
    /// When the first of these crashes was.
    pub first_crash: i64,
    /// How often it wanted to come back later.
    pub snoozes: u32,
    /// Its last failures, oldest first.
    pub failures: Vec<Failure>,
    /// Its result, when it is done and kept.
    pub result: Option<Vec<u8>>,
    /// Why it was cancelled.
    pub note: Option<String>,
}

/// Where a job is: in one place, always.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In one of the lines.
    Ready,
    /// Waits for this time.
    Scheduled(i64),
    /// Waits for its backoff.
    Retry(i64),
    /// Held under this tag.
    Active {
        /// The lane.
        worker: queue_core::broker::PartyName,
        /// The claim number.
        claim: u64,
    },
    /// Waits for a worker that knows this task.
    Parked(String),
    /// Dead since then.
    Dead {
        /// When it died.
        at: i64,
        /// The how manieth that ended.
        order: u64,
        /// Why.
        reason: BuryReason,
    },
    /// Done, cancelled or expired, and kept.
    Ended {
        /// Which of the three.
        state: JobState,
        /// When.
        at: i64,
        /// The how manieth that ended.
        order: u64,
        /// Until when it is kept.
        until: i64,
    },
}

impl Place {
    /// The state of a job in this place.
    pub fn state(&self) -> JobState {
        match self {
            Place::Ready => JobState::Ready,
            Place::Scheduled(_) => JobState::Scheduled,
            Place::Retry(_) => JobState::Retry,
            Place::Active { .. } => JobState::Active,
            Place::Parked(_) => JobState::Parked,
            Place::Dead { .. } => JobState::Dead,
            Place::Ended { state, .. } => *state,
        }
    }

    /// What records say of the time.
    pub fn at(&self) -> Option<i64> {
        match self {
            Place::Scheduled(at) | Place::Retry(at) | Place::Dead { at, .. } | Place::Ended { at, .. } => Some(*at),
            Place::Ready | Place::Active { .. } | Place::Parked(_) => None,
        }
    }

    /// The same place at another time.
    pub fn set_at(&mut self, new: i64) {
        match self {
            Place::Scheduled(at) | Place::Retry(at) | Place::Dead { at, .. } | Place::Ended { at, .. } => *at = new,
            Place::Ready | Place::Active { .. } | Place::Parked(_) => {}
        }
    }

    pub(super) fn order(&self) -> (i64, u64) {
        match self {
            Place::Dead { order, .. } | Place::Ended { order, .. } => (0, *order),
            place => (place.at().unwrap_or(0), 0),
        }
    }
}

impl Job {
    /// What an inspector sees.
    pub fn record(&self, id: &JobId) -> JobRecord {
        let mut record = JobRecord::new(id.clone(), self.place.state(), self.envelope.clone());
        record.priority = self.priority;
        (record.attempts, record.crashes, record.snoozes) = (self.attempts, self.crashes, self.snoozes);
        record.at_ms = self.place.at();
        record.failures.clone_from(&self.failures);
        record.result.clone_from(&self.result);
        record.note.clone_from(&self.note);
        match &self.place {
            Place::Active { worker, claim } => record.tag = Some(format!("{worker}:{claim}")),
            Place::Dead { reason, .. } => record.reason = Some(*reason),
            _ => {}
        }
        record
    }

    pub(super) fn fail(&mut self, at_ms: i64, message: &str) {
        self.failures.push(Failure { at_ms, message: message.to_owned() });
        let old = self.failures.len().saturating_sub(FAILURES_KEPT);
        self.failures.drain(..old);
    }

    /// Bytes that it takes of its queue's limits.
    pub(super) fn size(&self) -> u64 {
        (self.envelope.len() + self.result.as_ref().map_or(0, Vec::len)) as u64
    }
}

impl Model {
    pub(super) fn job(&mut self, id: &JobId) -> &mut Job {
        self.jobs.get_mut(id).expect("a job that an operation has just found is there")
    }

    pub(super) fn make_ready(&mut self, id: &JobId, head: bool) {
        let job = self.job(id);
        job.place = Place::Ready;
        let line = (job.priority, job.crashes > 0);
        self.lines.push(line, id, head);
        self.announce(self.now);
    }

    pub(super) fn wait(&mut self, id: &JobId, place: fn(i64) -> Place, delay: Duration) {
        let at = self.due_after(delay);
        self.job(id).place = place(at);
        self.announce(at);
    }

    /// Makes a record of a job that nobody runs any more, and frees its id.
    pub(super) fn end_unwanted(&mut self, id: &JobId, state: JobState, note: Option<&str>) {
        self.end(id, state, ENDED_KEEP);
        let job = self.job(id);
        job.note = note.map(str::to_owned);
        job.digest = 0;
        self.count(if state == JobState::Cancelled { "cancelled" } else { "expired" }, 1);
    }

    pub(super) fn end(&mut self, id: &JobId, state: JobState, keep: Duration) {
        let (at, until) = (self.now, self.after(keep));
        self.endings += 1;
        let order = self.endings;
        self.job(id).place = Place::Ended { state, at, order, until };
    }

    pub(super) fn bury(&mut self, id: &JobId, reason: BuryReason) {
        let at = self.now;
        self.endings += 1;
        let order = self.endings;
        self.job(id).place = Place::Dead { at, order, reason };
        self.count("dead", 1);
    }
}
