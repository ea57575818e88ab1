//! Why a worker does not run.

/// What keeps a worker from starting, or made it stop.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// Settings, tasks or injected values that cannot work, one per line. Nothing was started.
    #[error("the worker cannot start: {}", .0.join("\n  and "))]
    Setup(Vec<String>),
    /// The broker refused.
    #[error(transparent)]
    Queue(#[from] queue_core::Error),
    /// A background duty of the worker crashed, which is a bug of this library. Its jobs run again
    /// when their lease expires.
    #[error("the worker has stopped unexpectedly: {0}")]
    Died(String),
}
