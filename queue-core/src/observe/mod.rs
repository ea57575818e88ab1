//! Observation of the calls to a broker: [`Observe`], and [`Calls`], which holds counters.
//!
//! A client with an observer ([`Client::with_observer`](crate::Client::with_observer)) reports
//! every call to it: its own calls, those of its handles and its
//! [`Inspector`](crate::inspect::Inspector), and those of a worker that uses the client. Any other
//! client calls its broker directly, without overhead.
//!
//! ```
//! use std::sync::Arc;
//!
//! use queue_core::{observe::Calls, prelude::*};
//!
//! #[task]
//! async fn greet(name: String) {}
//!
//! # async fn example() -> queue_core::Result<()> {
//! let calls = Arc::new(Calls::default());
//! let queue = Client::connect("sqlite://:memory:").await?.with_observer(calls.clone());
//! greet::job("Ada".to_owned()).enqueue(&queue).await?;
//! for (verb, calls) in calls.snapshot() {
//!     println!("{verb}: {} calls in {:?}, errors: {:?}", calls.calls, calls.total, calls.errors);
//! }
//! assert_eq!(calls.snapshot()["enqueue"].calls, 1);
//! # Ok(()) }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
//! ```
//!
//! A *verb* is the name of a method of the traits [`Broker`](crate::broker::Broker) and
//! [`Inspect`](crate::broker::Inspect) that sends a request to the broker; [`verbs`] lists them.
//! One call is counted once, even if the broker repeats its request at another server.
//! [`CallOutcome::name`] and the verb have few values each, so both can be labels of a metric.

mod calls;
mod observed;
#[cfg(feature = "otel")]
#[doc(hidden)]
pub mod otel;
#[doc(hidden)]
pub mod spans;

use std::{sync::Arc, time::Duration};

pub use self::calls::{Calls, VerbCalls};
pub(crate) use self::observed::Observed;
use crate::broker::VERBS;

/// Receives every call to a broker. An [`Arc`] of an observer is one, too.
///
/// ```
/// use std::time::Duration;
///
/// use queue_core::observe::{CallOutcome, Observe};
///
/// /// Prints slow calls.
/// struct Slow;
///
/// impl Observe for Slow {
///     fn call(&self, verb: &'static str, outcome: CallOutcome, elapsed: Duration) {
///         if elapsed > Duration::from_millis(100) {
///             eprintln!("{verb} took {elapsed:?}: {}", outcome.name());
///         }
///     }
/// }
/// ```
pub trait Observe: Send + Sync + 'static {
    /// A call of this verb has ended so, after this time. It is called on the thread of the caller,
    /// or on the broker's I/O thread: it must not block. A panic is caught and changes nothing for
    /// the call.
    fn call(&self, verb: &'static str, outcome: CallOutcome, elapsed: Duration);
}

/// Discards all calls.
impl Observe for () {
    fn call(&self, _: &'static str, _: CallOutcome, _: Duration) {}
}

impl<O: Observe + ?Sized> Observe for Arc<O> {
    fn call(&self, verb: &'static str, outcome: CallOutcome, elapsed: Duration) {
        O::call(self, verb, outcome, elapsed);
    }
}

/// How a call to a broker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallOutcome {
    /// It was answered. An answer such as "there is no such job" is an answer.
    Ok,
    /// It returned an error of this [kind](crate::Error::kind). A heartbeat, which renews several
    /// leases, has the error of the first lane whose lease was not renewed.
    Failed(&'static str),
    /// The caller dropped it before it was answered: its deadline passed, or the caller itself was
    /// dropped. The broker may have carried it out. A call that panicked counts here, too.
    Cancelled,
}

impl CallOutcome {
    /// `ok`, the kind of the error, or `cancelled`.
    pub fn name(self) -> &'static str {
        match self {
            CallOutcome::Ok => "ok",
            CallOutcome::Failed(kind) => kind,
            CallOutcome::Cancelled => "cancelled",
        }
    }
}

/// All verbs that an [`Observe`] can receive.
pub fn verbs() -> impl Iterator<Item = &'static str> {
    VERBS.iter().map(|verb| verb.name)
}
