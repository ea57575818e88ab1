//! How a run is laid out.

use crate::{checker::Terms, events::Subscriber, process::Mix};

/// How a run is laid out before anything is harmed.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Worker processes.
    pub workers: usize,
    /// Jobs at once of each.
    pub concurrency: usize,
    /// Whether workers know tomorrow's task.
    pub tomorrow: bool,
    /// One tick of a schedule in so many is sent so late that somebody else has the schedule; 0:
    /// none.
    pub late_ticks: u32,
    /// What each worker serves: the first the first of these, and so on, again and again. Without
    /// any, all serve the queue of all jobs.
    pub subscribers: &'static [&'static [Subscriber]],
    /// Jobs that are enqueued, over all producers.
    pub jobs: u64,
    /// Producer processes.
    pub producers: u64,
    /// Callers of each.
    pub callers: u64,
    /// Between two enqueues of a caller, in milliseconds.
    pub pause_ms: u64,
    /// How long an enqueue is tried, in milliseconds.
    pub deadline_ms: u64,
    /// What the jobs are.
    pub mix: Mix,
    /// Options of the server.
    pub server: &'static [&'static str],
    /// Whether the server measures commands by the CPU time that they take.
    pub by_cpu: bool,
    /// Whether the clocks of the servers can be moved.
    pub own_clocks: bool,
    /// Megabytes of a file system of its own for the SQLite file; `None`: where temporary files
    /// lie.
    pub disk_mb: Option<u32>,
    /// Megabytes of address space that a worker may have; `None`: as many as it likes.
    pub memory_mb: Option<u64>,
    /// Whether everything that processes do to the SQLite file is written down, for cutting the
    /// power.
    pub recorded: bool,
    /// Whether the SQLite file keeps what it acknowledged when processes die, and no more.
    pub process_crash: bool,
    /// What all workers are told when they ask for their process number; `None`: the truth.
    pub pid: Option<u32>,
    /// What was agreed on.
    pub terms: Terms,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            workers: 2,
            concurrency: 8,
            tomorrow: false,
            late_ticks: 0,
            subscribers: &[],
            jobs: 1_500,
            producers: 1,
            callers: 4,
            pause_ms: 4,
            deadline_ms: 5_000,
            mix: Mix::default(),
            server: &["--appendonly", "yes", "--appendfsync", "everysec"],
            by_cpu: false,
            own_clocks: false,
            disk_mb: None,
            memory_mb: None,
            recorded: false,
            process_crash: false,
            pid: None,
            terms: Terms { lease_ms: 1_500, backoff_ms: (100, 1_000), ..Terms::default() },
        }
    }
}
