//! How much the queues of a worker keep of what has ended.

use std::time::Duration;

use super::Worker;

/// # How much a queue keeps
///
/// Each worker applies its own limits when it ends jobs and every minute or so, so all workers of a queue should have the same.
/// Where a limit is exceeded, the oldest are removed first.
impl Worker {
    /// How many done jobs with a retention each queue keeps, at most. Default: 1,000,000.
    pub fn retention_count(mut self, jobs: u64) -> Self {
        self.settings.sweep.keep.count = jobs;
        self
    }

    /// How many bytes the done jobs with a retention of each queue may have, with their results. Default: 256 MiB.
    pub fn retention_bytes(mut self, bytes: u64) -> Self {
        self.settings.sweep.keep.bytes = bytes;
        self
    }

    /// How long dead jobs are kept. Default: 180 days.
    pub fn dead_retention(mut self, retention: Duration) -> Self {
        self.settings.sweep.dead = retention;
        self
    }

    /// How many bytes the dead jobs of each queue may have. Default: 256 MiB.
    pub fn dead_retention_bytes(mut self, bytes: u64) -> Self {
        self.settings.sweep.dead_bytes = bytes;
        self
    }

    /// How long a given id is remembered after its job is done: enqueuing it again meanwhile stores nothing. Default: 24 h.
    pub fn id_retention(mut self, retention: Duration) -> Self {
        self.settings.sweep.remembered = retention;
        self
    }

    /// How many given ids of done jobs each queue remembers, at most. Default: 1,000,000.
    pub fn id_retention_count(mut self, ids: u64) -> Self {
        self.settings.sweep.remembered_count = ids;
        self
    }

    /// How long a producer that enqueues nothing is kept: the time within which a call whose fate is unknown can be settled by its
    /// `retry()`. On Redis it may take twice as long. At least a minute. Default: 24 h.
    pub fn producer_retention(mut self, retention: Duration) -> Self {
        self.settings.sweep.producers = retention;
        self
    }

    /// A crash later than this after a job's first crash starts a new count towards [`max_crashes`](Self::max_crashes). Default: 72 h.
    pub fn crash_window(mut self, window: Duration) -> Self {
        self.settings.crashes.window = window;
        self
    }
}
