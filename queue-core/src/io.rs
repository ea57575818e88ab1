//! The I/O thread: a thread of a broker's own with a small runtime, so that a handler that blocks
//! its runtime delays no heartbeat and no reply.

use std::{future::Future, pin::Pin, sync::Mutex, thread::JoinHandle};

use tokio::{runtime::Handle, sync::oneshot};
use tokio_util::context::TokioContext;

use crate::error::{Error, Result};

/// A boxed future for [`Broker::spawn`](crate::broker::Broker::spawn).
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A thread with a current-thread runtime. Dropping it ends the thread and every task on it.
#[derive(Debug)]
pub(crate) struct IoThread {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl IoThread {
    pub(crate) fn start(name: &str) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Error::Config(format!("cannot start the broker's I/O thread: {error}")))?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                // Ends when the sender is dropped, even if tasks are left.
                let _ = runtime.block_on(stopped);
                runtime.shutdown_background();
            })
            .map_err(|error| Error::Config(format!("cannot start the broker's I/O thread: {error}")))?;
        Ok(IoThread { handle, stop: Some(stop), thread: Mutex::new(Some(thread)) })
    }

    /// Runs a task on this thread, from any thread.
    pub(crate) fn spawn(&self, task: BoxFuture<'static, ()>) {
        drop(self.handle.spawn(task));
    }

    /// Lets a future that waits with deadlines be awaited in any runtime, or in none: the clock is
    /// that of this thread's.
    pub(crate) fn clocked<F: Future>(&self, work: F) -> TokioContext<F> {
        TokioContext::new(work, self.handle.clone())
    }

    /// The runtime, for code that opens sockets on it.
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for IoThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        let thread = self.thread.lock().ok().and_then(|mut thread| thread.take());
        if let Some(thread) = thread {
            // The last handle may be dropped by a task on the thread itself, which cannot wait for
            // its own end.
            if thread.thread().id() != std::thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}
