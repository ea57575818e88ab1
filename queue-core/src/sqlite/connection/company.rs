//! How long a commit waits for company before it goes to the disk.
//!
//! Whoever was answered comes back at once with the next call, though a little too late for the commit that follows: its callers
//! and those of the one before would take turns for ever, and each trip to the disk carry half of them. So a commit waits for
//! those who may come back, for no more than half of what a trip takes. `PostgreSQL` does so by `commit_delay` and
//! `commit_siblings`, which people set; here both are known.

use std::{
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

use tokio::sync::mpsc::UnboundedReceiver;

/// No commit waits longer, however slow the disk is.
const LONGEST: Duration = Duration::from_millis(1);

/// The share of the latest trip in what is known of them.
const GAIN: f64 = 1.0 / 8.0;

/// What is known of those who share commits.
#[derive(Debug, Default)]
pub(crate) struct Company {
    /// Operations that may be there for the next commit: of those who came while the last ran, or were answered by it.
    expected: usize,
    /// What a trip to the disk takes, on average.
    trip: Duration,
}

impl Company {
    /// A commit came back from the disk after this time.
    pub(crate) fn came_back(&mut self, took: Duration) {
        self.trip = if self.trip.is_zero() { took } else { self.trip.mul_f64(1.0 - GAIN) + took.mul_f64(GAIN) };
    }

    /// So many wait already, and so many that waited for the disk are answered now.
    pub(crate) fn ended(&mut self, waiting: usize, answered: usize) {
        self.expected = waiting + answered;
    }

    /// For the commit that begins.
    pub(crate) fn wait(&self) -> Wait {
        Wait { expected: self.expected, most: (self.trip / 2).min(LONGEST), until: None }
    }
}

/// One commit's wait.
#[derive(Debug)]
pub(crate) struct Wait {
    expected: usize,
    most: Duration,
    until: Option<Instant>,
}

impl Wait {
    /// The next of those who come, once nobody else is there. `there` have come.
    pub(crate) fn next<T>(&mut self, there: usize, receiver: &mut UnboundedReceiver<T>) -> Option<T> {
        if there >= self.expected {
            return None;
        }
        let until = *self.until.get_or_insert_with(|| Instant::now() + self.most);
        receive(receiver, until)
    }
}

/// Waits until then, on this thread.
fn receive<T>(receiver: &mut UnboundedReceiver<T>, until: Instant) -> Option<T> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        if let Poll::Ready(received) = receiver.poll_recv(&mut Context::from_waker(&waker)) {
            return received;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        thread::park_timeout(left);
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    /// A commit that follows one which so many shared, while so many wait.
    fn after(waiting: usize, answered: usize, most: Duration) -> Wait {
        let mut company = Company::default();
        company.ended(waiting, answered);
        Wait { most, ..company.wait() }
    }

    #[test]
    fn who_is_alone_waits_for_nobody() {
        let (_sender, mut receiver) = mpsc::unbounded_channel::<()>();
        for answered in [0, 1] {
            let mut wait = after(0, answered, Duration::ZERO);
            assert_eq!(wait.next(1, &mut receiver), None);
            assert!(wait.until.is_none(), "it has not waited");
        }
    }

    #[test]
    fn those_who_take_turns_are_waited_for() {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let mut wait = after(1, 1, Duration::from_secs(3600));
        thread::scope(|scope| {
            scope.spawn(|| sender.send("back"));
            assert_eq!(wait.next(1, &mut receiver), Some("back"));
        });
    }

    #[test]
    fn who_does_not_come_back_is_not_waited_for_long() {
        let (_sender, mut receiver) = mpsc::unbounded_channel::<()>();
        let mut wait = after(0, 2, Duration::from_millis(1));
        assert_eq!([wait.next(1, &mut receiver), wait.next(1, &mut receiver)], [None; 2]);
        let mut company = Company::default();
        company.came_back(Duration::from_secs(1));
        assert_eq!(company.wait().most, LONGEST);
        let mut company = Company::default();
        (0..100).for_each(|_| company.came_back(Duration::from_micros(300)));
        assert!((149..=151).contains(&company.wait().most.as_micros()), "half of a trip");
    }
}
