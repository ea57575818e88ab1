//! The outcomes of runs for the application: the return value of the handler, and the cases that
//! the worker adds. The worker converts them to an [`Ending`](crate::broker::Ending) for the
//! broker.

mod failure;

use std::{
    any::Any,
    cell::RefCell,
    error::Error as StdError,
    fmt, iter, mem,
    panic::{self, AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::Once,
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};

pub use self::failure::Failure;
use crate::{
    codec::{self, Form, Writer},
    envelope::{ERROR_MAX, RESULT_MAX},
    error::Error,
    text::cut,
};

/// How a run of a job ended.
///
/// A handler uses the first nine to choose what happens to its job. Return one (`-> Outcome`, `->
/// Result<Outcome, E>`), or return it as an error: `Err(Outcome::Snooze(..))?` works in a function
/// that returns `anyhow::Result`, or any other error type that keeps its sources or is transparent.
///
/// The worker uses the others for runs that end in another way. A [`Middleware`](crate::Middleware)
/// sees all of them.
///
/// ```
/// use queue_core::{TestContext, prelude::*};
///
/// #[task(queue = "payments")]
/// async fn charge(order: u64, ctx: JobContext) -> Result<Outcome, std::io::Error> {
///     Ok(match order {
///         0 => Outcome::Bury("there is no order 0".to_owned()),               // never retried
///         order if order % 2 == 1 => Outcome::Snooze(Duration::from_secs(60)), // later, not counted as an attempt
///         _ if ctx.rate_limited() == 0 => Outcome::RateLimited(Duration::from_secs(30)), // the service answered 429
///         _ => Outcome::Done,
///     })
/// }
///
/// # async fn test() -> Result<(), std::io::Error> {
/// let context = TestContext::new().build();
/// assert_eq!(charge(17, context.clone()).await?, Outcome::Snooze(Duration::from_secs(60)));
/// assert_eq!(charge(18, context).await?, Outcome::RateLimited(Duration::from_secs(30)));
/// # Ok(()) }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(test()).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Done: as if `()` had been returned.
    Done,
    /// Failed: retried with the task's backoff; counts an attempt.
    Retry(Failure),
    /// Failed: retried after this time; counts an attempt.
    RetryAfter(Duration, Failure),
    /// Postponed: runs again after this time, at most 100 years; counts a snooze, not an attempt.
    Snooze(Duration),
    /// A service rejects requests for this long (a 429). The first limit of the job that has a rate
    /// starts no job until then, at most for a day; afterwards this job starts first. If the job
    /// has no limit, its group is paused for this time. Without a group, only the job waits. Counts
    /// neither an attempt nor a snooze; the thousandth time makes the job a dead letter.
    RateLimited(Duration),
    /// The same for the limit of this name. If the job does not have this limit, only the job
    /// waits.
    RateLimitedBy(String, Duration),
    /// This round is done, and the next starts after this time. Resets attempts, crashes, snoozes
    /// and rate limits.
    Repeat(Duration),
    /// The job is no longer wanted: → `cancelled`, with the reason.
    Cancel(String),
    /// The job can never succeed: → `dead`, with the reason.
    Bury(String),
    /// Done, with this result. Only if the job has a retention and its handler returned a value.
    DoneWith(Encoded),
    /// The handler returned an error: the chain of its messages, at most 8 KiB.
    /// Retried with the task's backoff; counts an attempt. If the run was cancelled for another
    /// reason than its timeout, its job is returned uncharged.
    Failed(Failure),
    /// The handler panicked, with this message and its file and line. Retried with the task's
    /// backoff; counts an attempt.
    Panicked(String),
    /// The handler was cancelled for this reason, did not return, and was dropped. A timeout counts
    /// an attempt, and the job is retried with the task's backoff. Otherwise the job is returned
    /// uncharged. In a run that was not cancelled, this counts as failed.
    Stopped(CancelCause),
    /// The parameters could not be decoded, for this reason: → `parked` for another release, and
    /// `dead` if none can in time.
    Undecodable(String),
}

impl Outcome {
    /// The outcome of a handler that returns `Err(error)`: the outcome among the error's sources,
    /// or else [`Outcome::Failed`]. For a middleware.
    pub fn failed(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        let error = error.into();
        outcome_in(error.as_ref()).unwrap_or_else(|| Outcome::Failed(Failure::of(error)))
    }

    /// [`Outcome::Retry`] because of this error, with the messages of its sources.
    ///
    /// ```
    /// # use queue_core::Outcome;
    /// # fn read() -> std::io::Result<String> { std::fs::read_to_string("/nowhere") }
    /// # fn example() -> Outcome {
    /// match read() {
    ///     Ok(_) => Outcome::Done,
    ///     Err(error) => Outcome::retry(error),
    /// }
    /// # }
    /// # assert!(example().to_string().starts_with("retry: "));
    /// ```
    pub fn retry(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Outcome::Retry(Failure::of(error))
    }

    /// [`Outcome::RetryAfter`] because of this error, with the messages of its sources.
    pub fn retry_after(delay: Duration, error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Outcome::RetryAfter(delay, Failure::of(error))
    }

    /// [`Outcome::Bury`] because of this error, with the messages of its sources.
    pub fn bury(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Outcome::Bury(Failure::of(error).into_text())
    }

    /// The same, without a result that its type cannot read back.
    pub(crate) fn readable(self, check: Option<ReadBack>) -> Self {
        match self {
            Outcome::DoneWith(result) => Outcome::DoneWith(result.read_back(check)),
            other => other,
        }
    }

    /// Whether the run succeeded: [`Done`](Outcome::Done), [`DoneWith`](Outcome::DoneWith) or
    /// [`Repeat`](Outcome::Repeat).
    pub fn is_done(&self) -> bool {
        matches!(self, Outcome::Done | Outcome::DoneWith(_) | Outcome::Repeat(_))
    }
}

/// Why a run was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CancelCause {
    /// An operator or the application cancelled the job.
    Cancelled,
    /// Its lease was lost: its result will be discarded.
    LeaseLost,
    /// The handler ran longer than its timeout.
    TimedOut,
    /// The worker stops, and the last second of its grace time has begun (or the last quarter, if
    /// that is shorter).
    Shutdown,
}

/// A result in its stored form. If it is too large, nested too deeply, or cannot be encoded or
/// decoded again, it has the reason, which is stored in its place. A program that reads the result
/// gets [`Error::ResultDropped`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    stored: Result<Vec<u8>, String>,
    /// Whether serde may be unable to read it back.
    is_doubtful: bool,
}

/// Reads a result back, to see whether its type can.
pub type ReadBack = fn(&[u8]) -> Result<(), String>;

impl Encoded {
    /// Encodes a result.
    pub fn of<T: Serialize + DeserializeOwned>(value: &T) -> Self {
        Encoded::written(value).read_back(Some(read_back::<T>))
    }

    /// Encodes one without a check that it can be read back.
    fn written<T: Serialize + ?Sized>(value: &T) -> Self {
        let mut bytes = Vec::with_capacity(codec::USUAL);
        let mut writer = Writer::new(&mut bytes, Form::Array);
        let (written, is_doubtful) = (value.serialize(&mut writer), writer.is_doubtful);
        let stored = match written {
            Err(problem) => Err(unfit(&problem)),
            Ok(()) if bytes.len() > RESULT_MAX => Err(format!(
                "it has {} bytes, at most {RESULT_MAX} are kept; return less, or store it elsewhere and return a reference",
                bytes.len()
            )),
            Ok(()) => codec::scan(&bytes).map(|()| bytes).map_err(|problem| format!("it could not be read back: {problem}")),
        };
        Encoded { stored, is_doubtful }
    }

    /// Replaces a result that cannot be read back by the reason.
    fn read_back(mut self, check: Option<ReadBack>) -> Self {
        if let (Ok(bytes), Some(check), true) = (&self.stored, check, self.is_doubtful)
            && let Err(problem) = check(bytes)
        {
            self.stored = Err(unfit(&problem));
        }
        Encoded { is_doubtful: false, ..self }
    }

    /// A result that was stored before.
    pub(crate) fn stored(bytes: &[u8]) -> Self {
        let stored = stored_result(bytes).map(<[u8]>::to_vec);
        Encoded { stored, is_doubtful: false }
    }

    /// Decodes the result as a `T`.
    ///
    /// # Errors
    /// [`Error::Decode`] if it is not a `T`, or could not be encoded.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let decoded = self.stored.as_deref().map_err(Clone::clone).and_then(codec::decode);
        decoded.map_err(|problem| Error::Decode { what: "the result of a run".to_owned(), problem })
    }

    /// The stored bytes, and the reason if they are not the result.
    pub fn into_stored(self) -> (Vec<u8>, Option<String>) {
        match self.stored {
            Ok(bytes) => (bytes, None),
            Err(problem) => {
                let problem = codec::shortened(problem);
                ([&[DROPPED], problem.as_bytes()].concat(), Some(problem))
            }
        }
    }
}

/// The check of results of this type.
pub(crate) fn read_back<T: DeserializeOwned>(bytes: &[u8]) -> Result<(), String> {
    codec::read_back::<T>(bytes).map_err(|problem| problem.to_string())
}

fn unfit(problem: &impl fmt::Display) -> String {
    codec::shortened(format!("it cannot be encoded: {problem}"))
}

/// The first byte of a dropped result: the reason follows. No MessagePack value begins with this
/// byte.
const DROPPED: u8 = 0xc1;

/// The encoded form of a result without content. It is not stored.
pub(crate) const NIL: &[u8] = &[0xc0];

/// The stored result, or the reason that is stored in its place.
pub(crate) fn stored_result(bytes: &[u8]) -> Result<&[u8], String> {
    match bytes {
        [DROPPED, reason @ ..] if !reason.is_empty() => Err(String::from_utf8_lossy(reason).into_owned()),
        _ => Ok(bytes),
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SHOWN.with_borrow_mut(|shown| {
            if let Some(shown) = shown {
                *shown = Some(self.clone());
            }
        });
        match self {
            Outcome::Done => write!(f, "done"),
            Outcome::Retry(why) => write!(f, "retry: {why}"),
            Outcome::RetryAfter(delay, why) => write!(f, "retry after {delay:?}: {why}"),
            Outcome::Snooze(delay) => write!(f, "snooze for {delay:?}"),
            Outcome::RateLimited(delay) => write!(f, "rate limited for {delay:?}"),
            Outcome::RateLimitedBy(name, delay) => write!(f, "rate limited by {name} for {delay:?}"),
            Outcome::Repeat(delay) => write!(f, "repeat after {delay:?}"),
            Outcome::Cancel(why) => write!(f, "cancel: {why}"),
            Outcome::Bury(why) => write!(f, "bury: {why}"),
            Outcome::DoneWith(_) => write!(f, "done, with a result"),
            Outcome::Failed(error) => write!(f, "{error}"),
            Outcome::Panicked(message) => write!(f, "panicked: {message}"),
            Outcome::Stopped(CancelCause::TimedOut) => write!(f, "timed out"),
            Outcome::Stopped(CancelCause::Cancelled) => write!(f, "stopped: the job was cancelled"),
            Outcome::Stopped(CancelCause::LeaseLost) => write!(f, "stopped: the lease was lost"),
            Outcome::Stopped(CancelCause::Shutdown) => write!(f, "stopped: the worker is stopping"),
            Outcome::Undecodable(problem) => write!(f, "undecodable: {problem}"),
        }
    }
}

impl StdError for Outcome {}

/// The return types of task functions: `()`, an [`Outcome`], or `Result<T, E>` of a serializable
/// `T` or an [`Outcome`], and any error `E` that converts into a boxed one.
#[diagnostic::on_unimplemented(
    message = "a task cannot return `{Self}`",
    label = "not `()`, an `Outcome`, or a `Result`",
    note = "return `()`, `Outcome`, or `Result<T, E>` where `T` is serialisable (`#[derive(Serialize, Deserialize)]`) and `E` converts into `Box<dyn Error + Send + Sync>`"
)]
pub trait TaskReturn {
    /// The return type of [`Handle::result`](crate::Handle::result).
    type Output;
    /// Erases the types. The result is encoded only if it is `wanted`.
    fn end(self, wanted: bool) -> Outcome;
}

/// The `Ok` types of a task's `Result`.
#[diagnostic::on_unimplemented(
    message = "a task cannot return `Result<{Self}, _>`",
    label = "the result of a task must be serialisable",
    note = "derive `serde::Serialize` and `serde::Deserialize` for `{Self}`, or return `Result<(), E>`"
)]
pub trait TaskResult {
    /// The return type of [`Handle::result`](crate::Handle::result).
    type Output;
    /// Erases the type. The result is encoded only if it is `wanted`.
    fn end_ok(self, wanted: bool) -> Outcome;
}

/// The `Err` types of a task's `Result`.
#[diagnostic::on_unimplemented(
    message = "a task cannot fail with `{Self}`",
    label = "this error does not convert into `Box<dyn Error + Send + Sync>`",
    note = "implement `std::error::Error` for `{Self}`, or use `anyhow::Error`, `eyre::Report` or `String`"
)]
pub trait TaskFailure {
    /// Boxes it.
    fn boxed(self) -> Box<dyn StdError + Send + Sync>;
}

#[diagnostic::do_not_recommend]
impl<E: Into<Box<dyn StdError + Send + Sync>>> TaskFailure for E {
    fn boxed(self) -> Box<dyn StdError + Send + Sync> {
        self.into()
    }
}

impl TaskReturn for () {
    type Output = ();
    fn end(self, _: bool) -> Outcome {
        Outcome::Done
    }
}

impl TaskReturn for Outcome {
    type Output = ();
    fn end(self, _: bool) -> Outcome {
        self
    }
}

impl<T: TaskResult, E: TaskFailure> TaskReturn for Result<T, E> {
    type Output = T::Output;
    fn end(self, wanted: bool) -> Outcome {
        match self {
            Ok(value) => value.end_ok(wanted),
            Err(error) => Outcome::failed(error.boxed()),
        }
    }
}

impl TaskResult for Outcome {
    type Output = ();
    fn end_ok(self, wanted: bool) -> Outcome {
        TaskReturn::end(self, wanted)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Serialize> TaskResult for T {
    type Output = T;
    fn end_ok(self, wanted: bool) -> Outcome {
        match wanted.then(|| Encoded::written(&self)) {
            // A type of one value that is encoded as nil, such as `()`, has no content. A `None`
            // has.
            Some(Encoded { stored: Ok(nil), .. }) if size_of::<T>() == 0 && nil == NIL => Outcome::Done,
            encoded => encoded.map_or(Outcome::Done, Outcome::DoneWith),
        }
    }
}

/// Links, at most, of an error and its sources: an error may be its own source.
const LINKS: usize = 32;

/// An error and its sources.
pub(crate) fn links<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    iter::successors(Some(error), |&error| error.source()).take(LINKS)
}

/// The outcome among an error and its sources.
fn outcome_in(error: &(dyn StdError + 'static)) -> Option<Outcome> {
    links(error).find_map(|error| error.downcast_ref::<Outcome>().cloned().or_else(|| wrapped(error)))
}

thread_local! {
    /// The outcome that was displayed while the message of an error is being formatted.
    static SHOWN: RefCell<Option<Option<Outcome>>> = const { RefCell::new(None) };
}

/// The outcome in an error that only wraps it: a boxed `anyhow::Error` or `eyre::Report`, or a
/// transparent error of `thiserror`. Such an error has a private type, and its sources skip its
/// content. It adds no text: an error that displays exactly like an outcome is that outcome.
fn wrapped(error: &(dyn StdError + 'static)) -> Option<Outcome> {
    SHOWN.set(Some(None));
    let text = error.to_string();
    let outcome = SHOWN.take().flatten()?;
    (outcome.to_string() == text).then_some(outcome)
}

/// The messages of an error and its sources, joined by `: `, at most 8 KiB.
pub fn error_text(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    for error in links(error).skip(1) {
        let message = error.to_string();
        // Many errors repeat their source in their own message.
        if !text.ends_with(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        if text.len() > ERROR_MAX {
            break;
        }
    }
    cut(text, ERROR_MAX)
}

thread_local! {
    /// The place of the last panic of this thread, as `src/close.rs:12:5`.
    static PANICKED_AT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Longest place of a panic, in bytes. Of a longer one the end is kept: the file and the line.
const PLACE_MAX: usize = 200;

/// Keeps the place of every panic from now on, for [`panic_text`]. The hook that is installed by
/// then is called as before. A hook that the application installs later replaces it.
#[doc(hidden)]
pub fn keep_panic_places() {
    static ONCE: Once = Once::new();
    if std::thread::panicking() {
        return;
    }
    ONCE.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            let place = panic.location().map(|at| format!("{}:{}:{}", within_package(at.file()), at.line(), at.column()));
            // A panic while the thread ends has no place to keep it.
            let _ = PANICKED_AT.try_with(|at| at.replace(place));
            others(panic);
        }));
    });
}

/// The path of a source file without the folders of the machine that compiled it. A file of another
/// package has an absolute path: its place begins with the folder of the package.
fn within_package(file: &str) -> &str {
    if !Path::new(file).is_absolute() {
        return file;
    }
    let folders = file.replace('\\', "/");
    // A file that a build script has made is in no folder of its package.
    let of_package = ["/src/", "/tests/", "/examples/", "/benches/"].iter().filter_map(|folder| folders.rfind(folder)).max();
    let package = of_package.filter(|_| !folders.contains("/target/")).unwrap_or(folders.len());
    folders[..package].rfind('/').map_or(file, |at| &file[at + 1..])
}

/// Forgets the panics of this thread that were caught before: the next one may be resumed from
/// another thread, and then has no place here.
#[doc(hidden)]
pub fn forget_panic_place() {
    let _ = PANICKED_AT.try_with(|at| at.take());
}

/// The message of a panic with its place, cut to fit into an error history. It must be called by
/// the thread that caught the panic.
pub fn panic_text(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned()).or_else(|| panic.downcast_ref::<String>().cloned());
    let place = PANICKED_AT.try_with(|at| at.take()).ok().flatten();
    drop_catching_panics(panic);
    let text = text.unwrap_or_else(|| "without a message".to_owned());
    let Some(place) = place else { return cut(text, ERROR_MAX - 64) };
    let from = (place.len().saturating_sub(PLACE_MAX)..=place.len()).find(|at| place.is_char_boundary(*at)).unwrap_or(0);
    let place = &place[from..];
    format!("{} ({place})", cut(text, ERROR_MAX - 64 - PLACE_MAX - 3))
}

/// Drops a value of the application's, which may panic.
pub(crate) fn drop_catching_panics<T>(value: T) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        // The drop of the panic's value may panic as well, without end.
        mem::forget(panic);
    }
}

#[cfg(test)]
mod tests;
