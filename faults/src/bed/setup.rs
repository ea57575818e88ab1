//! The setup of a run.

use crate::{checker::Terms, events::Subscriber, process::Mix};

/// The setup of a run before faults are injected.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Worker processes.
    pub workers: usize,
    /// The concurrency of each worker.
    pub concurrency: usize,
    /// Whether workers have tomorrow's task.
    pub tomorrow: bool,
    /// The fraction of ticks, as a divisor, that are sent so late that another worker has the
    /// schedule. 0 means none.
    pub late_ticks: u32,
    /// The subscriptions of each worker: the workers use the entries in rotation. If it is empty,
    /// all workers serve the queue of all jobs.
    pub subscribers: &'static [&'static [Subscriber]],
    /// The number of jobs, over all producers.
    pub jobs: u64,
    /// Producer processes.
    pub producers: u64,
    /// The number of callers of each producer.
    pub callers: u64,
    /// The pause between two enqueues of a caller, in milliseconds.
    pub pause_ms: u64,
    /// The deadline of an enqueue, in milliseconds.
    pub deadline_ms: u64,
    /// The mix of jobs.
    pub mix: Mix,
    /// Options of the server.
    pub server: &'static [&'static str],
    /// Whether the server measures commands by the CPU time that they take.
    pub by_cpu: bool,
    /// Whether the clocks of the servers can be moved.
    pub own_clocks: bool,
    /// The size of a separate file system for the SQLite file, in megabytes. `None` for the folder
    /// of temporary files.
    pub disk_mb: Option<u32>,
    /// The maximum address space of a worker, in megabytes. `None` for no limit.
    pub memory_mb: Option<u64>,
    /// Whether all operations of processes on the SQLite file are recorded, for power cuts.
    pub recorded: bool,
    /// Whether the SQLite file is only durable against crashes of processes.
    pub process_crash: bool,
    /// The process id that all workers get from the system. `None` for the real one.
    pub pid: Option<u32>,
    /// The guarantees of the run.
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
