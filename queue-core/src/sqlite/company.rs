//! Enqueues that come together.
//!
//! Whoever awaits an enqueue before the next is back soon after its commit. Two who take turns at that cost two commits, and
//! one if the first to be back waits for the other: half the waiting for the disk, for both.

use std::{
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

use tokio::sync::mpsc::UnboundedReceiver;

/// A commit is kept open no longer than this.
const LONGEST: Duration = Duration::from_millis(1);

/// Who is expected in the next commit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Company {
    /// The enqueues that the last commit answered, and those that it kept waiting. Who comes alone waits for nobody.
    pub(super) size: usize,
    /// How long the last commit took: to wait longer costs more than another commit.
    pub(super) patience: Duration,
}

impl Company {
    pub(super) fn commit_took(&mut self, time: Duration) {
        self.patience = time.min(LONGEST);
    }
}

/// What comes next, if it comes in time.
pub(super) fn next<T>(receiver: &mut UnboundedReceiver<T>, until: Instant) -> Option<T> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        if let Poll::Ready(next) = receiver.poll_recv(&mut Context::from_waker(&waker)) {
            return next;
        }
        // The runtime's timers are too coarse for this, and this thread has none.
        thread::park_timeout(until.checked_duration_since(Instant::now())?);
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
