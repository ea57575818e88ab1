//! Items that the expansion of the macros uses, so that a crate with tasks depends only on this
//! crate, and items that the other crates of this workspace share. Not part of the public
//! interface.

#[cfg(feature = "fuzz")]
pub mod fuzz;

use std::time::{Duration, SystemTime, UNIX_EPOCH};
pub use std::{option::Option, vec::Vec};

#[cfg(feature = "process")]
pub use crate::process::*;
#[cfg(feature = "redis")]
pub use crate::redis::RedisBroker;
#[cfg(feature = "sqlite")]
pub use crate::sqlite::{SqliteBroker, backup};
pub use crate::text::{is_control, plain, redacted};
pub use crate::{
    address::{check_name, check_queue, subscription_at},
    alarm::Alarm,
    client::{ENQUEUE_DEADLINE, LONGEST},
    context::{
        ContextInit, DataMap, Environment, LeaseClock,
        completion::{Completion, EffectsKey, Endings, FoundEnding, StoredEnding, effects_before, effects_key},
    },
    envelope::{ENVELOPE_VERSION, Envelope},
    event::{DeclaredEvent, declared_events},
    handler::{Call, HandlerDef, RunFn, Runnable, Wanted},
    inspector::{EXPOSED, declare_aging, declare_groups, declare_limits, waiting_in},
    middleware::Stack,
    outcome::{Encoded, error_text, forget_panic_place, keep_panic_places, panic_text},
    payload::{map_from_json, to_json},
    registry::Submitted,
    task::{DEFAULT_MAX_ATTEMPTS, ParamDef, ScheduleDef, SubscriptionDef, WithLimits},
};

/// The stored form of values of the application.
pub mod codec {
    pub use crate::codec::{encode, from_json};
}

/// Jobs as rows of another database.
pub mod row {
    pub use crate::client::row::*;
}
pub use inventory;

/// The nearest of some words, for "did you mean".
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    crate::text::nearest(word, known)
}

/// The next time at which clocks in UTC show `HH:MM`, for the command line and the dashboard.
pub fn next_time_of_day(text: &str, now: SystemTime) -> Option<SystemTime> {
    const DAY: u64 = 24 * 60 * 60;
    let (hours, minutes) = text.split_once(':')?;
    let number = |digits: &str, below: u64| {
        let is_number = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_digit());
        digits.parse::<u64>().ok().filter(|number| is_number && *number < below)
    };
    let of_day = number(hours, 24)? * 3600 + number(minutes, 60)? * 60;
    let today = now.duration_since(UNIX_EPOCH).ok()?.as_secs() / DAY * DAY;
    let at = UNIX_EPOCH + Duration::from_secs(today + of_day);
    Some(if at > now { at } else { at + Duration::from_secs(DAY) })
}

/// JSON in its original form, with each float as written.
///
/// # Errors
/// The problem of the text.
pub fn json(text: &str) -> Result<serde_json::Value, String> {
    crate::codec::any_json::read(text).map_err(|problem| problem.to_string())
}

/// The JSON form of a value after it was stored.
///
/// # Errors
/// Why it cannot be stored.
pub fn stored_json(value: &(impl serde::Serialize + ?Sized)) -> Result<serde_json::Value, String> {
    let bytes = crate::codec::encode(value).map_err(|problem| problem.to_string())?;
    crate::payload::to_value(&bytes)
}

/// Reads a result as it is stored; one without content is not.
///
/// # Errors
/// Why it is not a `T`, or why the result was dropped.
pub fn result_of<T: DeserializeOwned>(stored: Option<&[u8]>) -> Result<T, String> {
    stored_result(stored.unwrap_or(NIL)).and_then(crate::codec::decode)
}

pub use crate::handler::Returned;
pub use crate::inject::Injected;
pub use crate::outcome::ReadBack;
pub use crate::parameter::{Access, Field, Group, Has, Lacks, Tag, is_word, of_injected, of_payload};
pub use crate::payload::{
    Fields, OfEvent, OfTask, Param, PayloadReader, PayloadWriter, check_fields, fields_from_json, given_fields, json_object, read_fields,
};
use crate::{
    context::JobContext,
    handler::Handler,
    io::BoxFuture,
    outcome::{NIL, Outcome, TaskReturn, stored_result},
    task::Task,
};
pub use serde;
use serde::de::DeserializeOwned;

/// Runs an async handler.
pub fn run<T, F>(handler: F, wants_result: Wanted) -> BoxFuture<'static, Outcome>
where
    T: Task,
    F: Future<Output = T::Return> + Send + 'static,
{
    Box::pin(async move { handler.await.end(wants_result.now()).readable(T::READ_BACK) })
}

/// Selects [`run`] for a task whose parameters come from the worker. `FIT` is true if the worker
/// can provide all of them.
#[derive(Debug)]
pub struct Given<const FIT: bool>;

impl Given<true> {
    /// Runs an async handler.
    pub fn run<T, F>(handler: F, wants_result: Wanted) -> BoxFuture<'static, Outcome>
    where
        T: Task,
        F: Future<Output = T::Return> + Send + 'static,
    {
        run::<T, F>(handler, wants_result)
    }
}

impl Given<false> {
    /// A program that needs this does not compile. This function exists so that there is only one
    /// compiler error: a value that a worker cannot provide is often not `Send` either.
    pub fn run<T, F>(_: F, _: Wanted) -> BoxFuture<'static, Outcome> {
        unreachable!("a parameter that a worker cannot give does not compile")
    }
}

/// A payload struct about to be handled. Method lookup prefers the `handle` without a reference. A
/// struct without a [`Handler`] therefore gets one compiler error, from [`Returned`], and none from
/// its run.
#[derive(Debug)]
pub struct Handling<H>(pub H);

/// With a handler.
pub trait Handled {
    /// Runs it.
    fn handle(self, context: JobContext, wants_result: Wanted) -> BoxFuture<'static, Outcome>;
}

impl<H: Handler> Handled for Handling<H> {
    fn handle(self, context: JobContext, wants_result: Wanted) -> BoxFuture<'static, Outcome> {
        Box::pin(async move { self.0.run(context).await.end(wants_result.now()) })
    }
}

/// Without one: this compiles, and the program does not.
pub trait Unhandled {
    /// Never runs.
    fn handle(self, context: JobContext, wants_result: Wanted) -> BoxFuture<'static, Outcome>;
}

impl<H> Unhandled for &Handling<H> {
    fn handle(self, _: JobContext, _: Wanted) -> BoxFuture<'static, Outcome> {
        unreachable!("a task without a handler does not compile")
    }
}

/// In scope where serde derives for a struct: if serde rejects an attribute, its error is the only
/// one; missing impls cause no further errors.
pub trait NotDerived {
    /// This compiles, and the program does not.
    ///
    /// # Errors
    /// Never.
    fn serialize<T, S: serde::Serializer>(_: &T, _: S) -> Result<S::Ok, S::Error> {
        unreachable!("an attribute that serde refuses does not compile")
    }

    /// The same.
    ///
    /// # Errors
    /// Never.
    fn deserialize<'de, T, D: serde::Deserializer<'de>>(_: D) -> Result<T, D::Error> {
        unreachable!("an attribute that serde refuses does not compile")
    }
}

impl<T> NotDerived for T {}

/// The default of a parameter.
pub fn default_of<T: Default>() -> T {
    T::default()
}

/// The address of the queue of a subscription, of `N` bytes.
pub const fn subscription_address<const N: usize>(subscription: &str, topic: &str) -> [u8; N] {
    let (subscription, topic) = (subscription.as_bytes(), topic.as_bytes());
    let (mut address, mut at) = ([b'@'; N], 0);
    while at < N {
        if at < subscription.len() {
            address[at] = subscription[at];
        } else if at > subscription.len() {
            address[at] = topic[at - subscription.len() - 1];
        }
        at += 1;
    }
    address
}

/// The bytes of names as a text.
pub const fn text(bytes: &'static [u8]) -> &'static str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => panic!("names are ASCII"),
    }
}

/// Ends a blocking handler.
pub fn end<T: Task>(returned: T::Return, wants_result: &Wanted) -> Outcome {
    returned.end(wants_result.now()).readable(T::READ_BACK)
}

/// A run that ended before its handler began.
pub fn ended(end: Outcome) -> BoxFuture<'static, Outcome> {
    Box::pin(std::future::ready(end))
}
