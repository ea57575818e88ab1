//! Retention limits of a worker's queues.

use std::time::Duration;

use super::Worker;

/// # How much a queue keeps
///
/// Each worker applies its own limits when it ends jobs and about once a minute, so all workers of
/// a queue should have the same. If a limit is exceeded, the oldest jobs are removed first.
impl Worker {
    /// Most done jobs with a retention that each queue keeps.
    /// Default: 1,000,000.
    pub fn retention_count(mut self, jobs: u64) -> Self {
        self.settings.sweep.keep.count = jobs;
        self
    }

    /// Most bytes of the done jobs with a retention of each queue, with their results. Default: 256
    /// MiB.
    pub fn retention_bytes(mut self, bytes: u64) -> Self {
        self.settings.sweep.keep.bytes = bytes;
        self
    }

    /// How long dead jobs are kept. Range: 0 to 100 years. Default: 180 days.
    pub fn dead_retention(mut self, retention: Duration) -> Self {
        self.settings.sweep.dead = retention;
        self
    }

    /// Most bytes of the dead jobs of each queue. Default: 256 MiB.
    pub fn dead_retention_bytes(mut self, bytes: u64) -> Self {
        self.settings.sweep.dead_bytes = bytes;
        self
    }

    /// How long a given id is remembered after its job is done: until then, enqueuing it again
    /// stores nothing. Range: 0 to 100 years. Default: 24 h.
    pub fn id_retention(mut self, retention: Duration) -> Self {
        self.settings.sweep.remembered = retention;
        self
    }

    /// Most given ids of done jobs that each queue remembers. Default: 1,000,000.
    pub fn id_retention_count(mut self, ids: u64) -> Self {
        self.settings.sweep.remembered_count = ids;
        self
    }

    /// How long an idle producer is kept: the time within which `retry()` can settle an enqueue
    /// with an unknown outcome. On Redis, the producer may be kept twice as long. Range: 60 s to
    /// 100 years. Default: 24 h.
    pub fn producer_retention(mut self, retention: Duration) -> Self {
        self.settings.sweep.producers = retention;
        self
    }

    /// A crash later than this after a job's first crash starts a new count toward
    /// [`max_crashes`](Self::max_crashes). Range: 0 to 100 years. Default: 72 h.
    pub fn crash_window(mut self, window: Duration) -> Self {
        self.settings.crashes.window = window;
        self
    }
}
