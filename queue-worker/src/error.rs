//! The errors of a worker.

/// An error that prevents the start of a worker, or that has stopped it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// Invalid settings, tasks or injected values, one per line. Nothing was started.
    #[error("the worker cannot start: {}", .0.join("\n  and "))]
    Setup(Vec<String>),
    /// The broker returned an error.
    #[error(transparent)]
    Queue(#[from] queue_core::Error),
    /// A background duty of the worker crashed, which is a bug of this library. Its jobs run again
    /// when their lease expires.
    #[error("the worker has stopped unexpectedly: {0}")]
    Died(String),
}
