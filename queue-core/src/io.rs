//! The I/O thread: a thread of a broker's own with a small runtime, so that a handler that blocks its runtime delays no
//! heartbeat and no reply.

use std::{
    future::Future,
    pin::Pin,
    sync::Mutex,
    task::{Context, Poll},
    thread::JoinHandle,
};

use tokio::{
    runtime::{self, Handle},
    sync::oneshot,
    task,
};
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

    /// The runtime of the task that calls this. Whoever is no task, or one of this thread, is near to nothing else.
    pub(crate) fn near(&self) -> Option<Near> {
        task::try_id()?;
        let runtime = Handle::try_current().ok().filter(|runtime| runtime.id() != self.handle.id())?;
        Some(Near { runtime, home: self.handle.clone() })
    }

    /// The runtime, for code that opens sockets on it.
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }
}

/// A runtime of the application, for what serves nobody but its tasks: they wake it, and it them, without a hop to another thread.
#[derive(Debug)]
pub struct Near {
    runtime: Handle,
    home: Handle,
}

impl Near {
    /// Which runtime it is.
    pub(crate) fn id(&self) -> runtime::Id {
        self.runtime.id()
    }

    /// Runs a task within it, and on the I/O thread from when it has ended. The clock is that of the I/O thread in both.
    pub(crate) fn spawn(self, task: BoxFuture<'static, ()>) {
        drop(self.runtime.spawn(Guest { task: Some(task), home: self.home }));
    }
}

/// A task in a runtime that may end before it.
struct Guest {
    task: Option<BoxFuture<'static, ()>>,
    home: Handle,
}

impl Future for Guest {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // Meanwhile it is nowhere: one that panics is not taken home.
        let Some(mut task) = self.task.take() else { return Poll::Ready(()) };
        let _clock = self.home.enter();
        let polled = task.as_mut().poll(context);
        self.task = polled.is_pending().then_some(task);
        polled
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            drop(self.home.spawn(task));
        }
    }
}

/// Runs `work` on the broker's I/O thread, whatever runtime this is called from, or none. Dropping the caller does not end it.
pub(crate) async fn on_broker<T: Send + 'static>(broker: &DynBroker, work: impl Future<Output = T> + Send + 'static) -> Result<T> {
    let (sender, receiver) = oneshot::channel();
    broker.spawn(Box::pin(async move {
        // A caller that was dropped has no use for the result.
        let _ = sender.send(work.await);
    }));
    let ended = || Error::Unavailable { broker: broker.info().location, problem: "its I/O thread has ended".to_owned() };
    receiver.await.map_err(|_| ended())
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

#[cfg(test)]
mod tests {
    use std::{panic::AssertUnwindSafe, task::Waker};

    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn who_is_no_task_or_one_of_the_thread_itself_is_near_to_nothing_else() {
        let io = std::sync::Arc::new(IoThread::start("near").unwrap());
        assert!(io.near().is_none());
        let (here, there) = (io.clone(), io.clone());
        let here = tokio::spawn(async move { here.near().map(|near| near.id()) });
        assert_eq!(here.await.unwrap(), Some(Handle::current().id()));
        let (tell, told) = oneshot::channel();
        io.spawn(Box::pin(async move { tell.send(there.near().is_none()).unwrap() }));
        assert!(told.await.unwrap());
    }

    #[test]
    fn a_guest_that_panics_is_not_taken_home() {
        let io = IoThread::start("near").unwrap();
        let mut guest = Guest { task: Some(Box::pin(async { panic!("on purpose") })), home: io.handle().clone() };
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| guest.poll_unpin(&mut Context::from_waker(Waker::noop()))));
        assert!(polled.is_err() && guest.task.is_none());
    }
}
