//! Progress and log lines of handlers that the scribe has not stored yet.

use queue_core::JobContext;
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::tuning::LAST_PROGRESS;

/// The pending progress of a worker. It outlives a scribe that panics.
pub(crate) struct PendingProgress {
    /// Jobs with progress or log lines to store.
    pub(crate) jobs: Mutex<mpsc::UnboundedReceiver<JobContext>>,
    send_last: mpsc::UnboundedSender<Last>,
    pub(crate) last: Mutex<mpsc::UnboundedReceiver<Last>>,
}

/// The last progress and log lines of a handler that has ended. They are stored at once.
pub(crate) struct Last {
    pub(crate) context: JobContext,
    pub(crate) stored: oneshot::Sender<()>,
}

impl PendingProgress {
    /// No progress, and the sender for jobs with progress.
    pub(crate) fn new() -> (Self, mpsc::UnboundedSender<JobContext>) {
        let (send, jobs) = mpsc::unbounded_channel();
        let (send_last, last) = mpsc::unbounded_channel();
        (PendingProgress { jobs: Mutex::new(jobs), send_last, last: Mutex::new(last) }, send)
    }

    /// Stores the progress and log lines of a handler that has ended. The ending of the job waits
    /// for at most [`LAST_PROGRESS`].
    pub(crate) async fn store(&self, context: &JobContext) {
        let (stored, done) = oneshot::channel();
        if self.send_last.send(Last { context: context.clone(), stored }).is_ok() {
            let _ = tokio::time::timeout(LAST_PROGRESS, done).await;
        }
    }
}
