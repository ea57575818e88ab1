//! Announcements: there is something to do.

use std::time::Instant;

use tokio::sync::watch;

/// A hint of [`Broker::hints`](super::Broker::hints).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hint {
    /// Grows with every announcement.
    pub count: u64,
    /// When the announced job is due; `None`: now.
    pub due: Option<Instant>,
}

/// Announcements of one queue. The latest is kept: a waiter that was late sees that there were some.
#[derive(Clone, Debug)]
pub struct Hints(watch::Receiver<Hint>);

impl Hints {
    /// Wraps the receiving end; the sender keeps counting.
    pub fn new(receiver: watch::Receiver<Hint>) -> Self {
        Hints(receiver)
    }

    /// A source that never announces anything.
    pub fn silent() -> Self {
        Hints(watch::channel(Hint::default()).1)
    }

    /// Waits for an announcement that was not seen yet; forever, if the sender is gone.
    pub async fn next(&mut self) -> Hint {
        match self.0.changed().await {
            Ok(()) => *self.0.borrow_and_update(),
            Err(_) => std::future::pending().await,
        }
    }
}
