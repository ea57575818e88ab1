//! The settings of a worker: queues, limits, times.

use std::{fmt, sync::Arc, time::Duration};

use queue_core::{
    __private::DEFAULT_MAX_ATTEMPTS,
    Backoff, Failure,
    broker::{CrashRule, SweepLimits},
};

/// How long a cancelled handler may run before it is dropped.
pub(crate) const CANCEL_GRACE: Duration = Duration::from_secs(1);

/// How long the worker waits for a cancelled handler that cannot be dropped because it blocks its
/// thread.
pub(crate) const STUCK: Duration = Duration::from_millis(500);

/// With [`Worker::exit_if_stuck`](crate::Worker::exit_if_stuck), the process exits this long after
/// such a handler was reported as stuck. This leaves time for the last requests, and for the end of
/// the program.
pub(crate) const LAST_DEEDS: Duration = Duration::from_millis(1250);

/// How long the last turns may take when the broker does not answer. With the default grace time,
/// everything ends within the 30 seconds that service managers usually allow.
pub(crate) const LAST_TURNS: Duration = Duration::from_secs(2);

/// One queue that a worker serves.
///
/// ```
/// use queue_worker::QueueConfig;
///
/// let orders = QueueConfig::new("orders").weight(3).limit(10);
/// # drop(orders);
/// ```
#[derive(Clone, Debug)]
pub struct QueueConfig {
    pub(crate) name: String,
    pub(crate) weight: u32,
    pub(crate) limit: Option<usize>,
}

impl QueueConfig {
    /// A queue with weight 1 and without a limit.
    pub fn new(name: impl Into<String>) -> Self {
        QueueConfig { name: name.into(), weight: 1, limit: None }
    }

    /// The queue's share of the free slots while other queues also have ready jobs: 3 gets three
    /// times as many as 1. Range: 1 or more. Default: 1.
    #[must_use]
    pub fn weight(mut self, weight: u32) -> Self {
        self.weight = weight;
        self
    }

    /// Most jobs of the queue that run at once in this process. Range: 1 or more. Default: the
    /// worker's concurrency.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }
}

impl From<&str> for QueueConfig {
    fn from(name: &str) -> Self {
        QueueConfig::new(name)
    }
}

impl From<String> for QueueConfig {
    fn from(name: String) -> Self {
        QueueConfig::new(name)
    }
}

/// A failed attempt, for [`Worker::custom_backoff`](crate::Worker::custom_backoff).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FailedAttempt<'a> {
    /// The task's name.
    pub task: &'a str,
    /// The queue.
    pub queue: &'a str,
    /// Which attempt failed, from 1.
    pub attempt: u32,
    /// The error's messages.
    pub error: &'a str,
    /// The failure, with the error itself if there was one:
    /// `failed.failure.find::<std::io::Error>()`.
    pub failure: &'a Failure,
    /// The delay without a custom backoff.
    pub delay: Duration,
}

/// The delay of [`Worker::custom_backoff`](crate::Worker::custom_backoff).
#[derive(Clone)]
pub(crate) struct CustomBackoff(pub(crate) Arc<dyn Fn(&FailedAttempt<'_>) -> Duration + Send + Sync>);

impl fmt::Debug for CustomBackoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CustomBackoff")
    }
}

/// Everything that can be set, with its default.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) concurrency: usize,
    pub(crate) strict_order: bool,
    pub(crate) lease: Duration,
    pub(crate) grace: Duration,
    /// The exit code of the process if handlers are stuck.
    pub(crate) exit: Option<i32>,
    pub(crate) max_attempts: u32,
    pub(crate) timeout: Option<Duration>,
    pub(crate) backoff: Backoff,
    pub(crate) custom_backoff: Option<CustomBackoff>,
    pub(crate) retention: Option<Duration>,
    pub(crate) crashes: CrashRule,
    pub(crate) sweep: SweepLimits,
    /// How long a job waits for a release that can read it.
    pub(crate) unreadable_for: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            concurrency: 64,
            strict_order: false,
            lease: Duration::from_secs(30),
            grace: Duration::from_secs(25),
            exit: None,
            max_attempts: DEFAULT_MAX_ATTEMPTS,
            timeout: None,
            backoff: Backoff::DEFAULT,
            custom_backoff: None,
            retention: None,
            crashes: CrashRule::default(),
            sweep: SweepLimits::default(),
            unreadable_for: Duration::from_secs(24 * 3600),
        }
    }
}

impl Settings {
    /// The time between two heartbeats: a sixth of the lease, but at most five seconds. It bounds
    /// how late a handler is cancelled. It must be shorter than the time between the reclaimer's
    /// two checks. Otherwise the different ends of a crashed process's leases could look like
    /// heartbeats.
    pub(crate) fn heartbeat_interval(&self) -> Duration {
        (self.lease / 6).min(Duration::from_secs(5))
    }

    /// The time that a handler has to end after a stop of the worker has cancelled it. It is the
    /// last part of the grace time. The handler is dropped at its end.
    pub(crate) fn notice(&self) -> Duration {
        (self.grace / 4).min(CANCEL_GRACE)
    }

    /// The time between two checks for handlers that should have ended.
    pub(crate) fn tick(&self) -> Duration {
        self.heartbeat_interval().min(Duration::from_secs(1))
    }

    /// The time between two passes of the reclaimer, and between its two checks of a lane. Five and
    /// six seconds with the default lease; in proportion with a shorter one.
    pub(crate) fn reclaim(&self) -> (Duration, Duration) {
        (self.heartbeat_interval(), (self.lease / 5).min(Duration::from_secs(6)))
    }
}
