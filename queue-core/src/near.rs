//! Tasks of ours in a runtime of the application, where a hop to the I/O thread would be a good part of what they wait for.
//!
//! That runtime is not ours: it may end before the task, stand still, or be nowhere driven; and a task of it that waits for us
//! without giving its thread back may keep the very thread on which ours is to run. So whoever is a guest there, was woken and has not
//! been run for [`PATIENCE`], goes home, to the I/O thread, and stays there.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError, TryLockError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use futures_util::task::AtomicWaker;
use tokio::{
    runtime::{self, Handle},
    task,
};

use crate::{broker::DynBroker, io::BoxFuture};

/// How long a guest that was woken waits to be run. A busy machine takes some of it.
const PATIENCE: Duration = Duration::from_millis(50);

/// The runtime of a task of the application.
#[derive(Debug)]
pub struct Near {
    runtime: Handle,
    home: Handle,
}

impl Near {
    /// That of the task that calls this; work on a runtime's blocking pool is one as well. Who is no task, or one of the I/O thread,
    /// is near to nothing else.
    #[cfg_attr(not(feature = "sqlite"), allow(dead_code, reason = "only an embedded broker is near to anything"))]
    pub(crate) fn to(home: &Handle) -> Option<Self> {
        task::try_id()?;
        let runtime = Handle::try_current().ok().filter(|runtime| runtime.id() != home.id())?;
        Some(Near { runtime, home: home.clone() })
    }

    /// Which runtime it is.
    pub(crate) fn id(&self) -> runtime::Id {
        self.runtime.id()
    }

    /// Runs a task of this broker within it. The clock is that of the I/O thread, where the broker comes to its end as well.
    pub(crate) fn spawn(self, broker: DynBroker, task: BoxFuture<'static, ()>) {
        let stay = Arc::new(Stay {
            guest: Mutex::new(Some((task, broker))),
            home: self.home,
            runtime: AtomicWaker::new(),
            woken: AtomicBool::new(false),
            runs: AtomicU64::new(0),
            watched: AtomicBool::new(false),
        });
        // It has to be run for a first time.
        stay.wake_by_ref();
        drop(self.runtime.spawn(Guest(stay)));
    }
}

/// What the runtime has of it.
struct Guest(Arc<Stay>);

/// A task, as long as it is not at home.
struct Stay {
    guest: Mutex<Option<(BoxFuture<'static, ()>, DynBroker)>>,
    home: Handle,
    /// Wakes it in the runtime.
    runtime: AtomicWaker,
    /// Since it was last run.
    woken: AtomicBool,
    /// How often it was run.
    runs: AtomicU64,
    /// Whether somebody at home looks whether it is run.
    watched: AtomicBool,
}

impl Future for Guest {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let stay = &self.0;
        stay.runtime.register(context.waker());
        let mut guest = stay.guest.lock().unwrap_or_else(PoisonError::into_inner);
        // Meanwhile it is nowhere: one that panics is not taken home.
        let Some((mut task, broker)) = guest.take() else { return Poll::Ready(()) };
        stay.woken.store(false, Ordering::SeqCst);
        stay.runs.fetch_add(1, Ordering::SeqCst);
        let waker = Waker::from(stay.clone());
        let polled = {
            let _clock = stay.home.enter();
            task.as_mut().poll(&mut Context::from_waker(&waker))
        };
        match polled {
            Poll::Pending => *guest = Some((task, broker)),
            // Whoever is the last to let go of a broker waits until it has closed.
            Poll::Ready(()) => drop(stay.home.spawn(async move { drop((task, broker)) })),
        }
        polled
    }
}

impl Wake for Stay {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        self.runtime.wake();
        if !self.watched.swap(true, Ordering::SeqCst) {
            drop(self.home.spawn(self.clone().watch()));
        }
    }
}

impl Stay {
    /// Looks at it until it was not woken for a while.
    async fn watch(self: Arc<Self>) {
        loop {
            let (woken, runs) = (self.woken.load(Ordering::SeqCst), self.runs.load(Ordering::SeqCst));
            tokio::time::sleep(PATIENCE).await;
            if self.runs.load(Ordering::SeqCst) != runs {
                continue;
            }
            if woken && self.go_home() {
                return;
            } else if woken {
                continue;
            }
            self.watched.store(false, Ordering::SeqCst);
            // Whoever wakes it from now on sends another, unless it is this one that still sees it.
            if !self.woken.load(Ordering::SeqCst) || self.watched.swap(true, Ordering::SeqCst) {
                return;
            }
        }
    }

    /// False: it is being run.
    fn go_home(&self) -> bool {
        let guest = match self.guest.try_lock() {
            Ok(mut guest) => guest.take(),
            Err(TryLockError::Poisoned(guest)) => guest.into_inner().take(),
            Err(TryLockError::WouldBlock) => return false,
        };
        if let Some((task, broker)) = guest {
            drop(self.home.spawn(async move {
                task.await;
                drop(broker);
            }));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::io::IoThread;

    #[tokio::test]
    async fn who_is_no_task_or_one_of_the_thread_itself_is_near_to_nothing_else() {
        let io = IoThread::start("near").unwrap();
        let home = io.handle().clone();
        assert!(Near::to(&home).is_none());
        let near = tokio::spawn(async move { Near::to(&home).map(|near| near.id()) });
        assert_eq!(near.await.unwrap(), Some(Handle::current().id()));
        let (tell, told) = oneshot::channel();
        let home = io.handle().clone();
        io.spawn(Box::pin(async move { tell.send(Near::to(&home).is_none()).unwrap() }));
        assert!(told.await.unwrap());
    }
}
