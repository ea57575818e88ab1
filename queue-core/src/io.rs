//! The I/O thread: a thread of a broker's own with a small runtime, so that a handler that blocks its runtime delays no
//! heartbeat and no reply.

use std::{future::Future, pin::Pin, sync::Mutex, thread::JoinHandle};

use tokio::{runtime::Handle, sync::oneshot, time::Instant};
use tokio_util::context::TokioContext;

use crate::{
    broker::DynBroker,
    error::{Error, Result},
};

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
                // Ends when the sender is dropped, whatever tasks are left.
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

    /// Lets a future that waits with deadlines be awaited in any runtime, or in none: the clock is that of this thread's.
    pub(crate) fn clocked<F: Future>(&self, work: F) -> TokioContext<F> {
        TokioContext::new(work, self.handle.clone())
    }

    /// The runtime, for code that opens sockets on it.
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }
}

/// Runs `work` on the broker's I/O thread, whatever runtime this is called from, or none. Dropping the caller does not end it.
pub(crate) async fn on_broker<T: Send + 'static>(broker: &DynBroker, work: impl Future<Output = T> + Send + 'static) -> Result<T> {
    let (sender, receiver) = oneshot::channel();
    broker.spawn(Box::pin(async move {
        // A caller that was dropped has no use for the result.
        let _ = sender.send(work.await);
    }));
    let ended = || Error::unavailable(broker.info().location, "its I/O thread has ended");
    receiver.await.map_err(|_| ended())
}

/// The same for a caller who wants to know by then.
///
/// # Errors
/// [`Error::Ambiguous`] when the time is up.
pub(crate) async fn on_broker_until<T: Send + 'static>(
    broker: &DynBroker,
    until: Instant,
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let begun = Instant::now();
    let timed = async move { tokio::time::timeout_at(until, work).await };
    let late = |_| Error::ambiguous(broker.info().location, format!("waited {:.1?}", begun.elapsed()));
    on_broker(broker, timed).await?.map_err(late)?
}

impl Drop for IoThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        let thread = self.thread.lock().ok().and_then(|mut thread| thread.take());
        if let Some(thread) = thread {
            // The last handle may be dropped by a task on the thread itself, which cannot wait for its own end.
            if thread.thread().id() != std::thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}
