//! The error type of this crate, grouped by what the caller can do.

mod advice;
mod kind;
mod pending;

use std::{error::Error as StdError, sync::Arc};

use self::advice::{advice, it_is};
pub use self::pending::Pending;
use crate::id::{JobAddress, JobId};

/// The source of an error: an error of the operating system, the server or the database.
pub type Cause = Arc<dyn StdError + Send + Sync>;

/// The error of clients, handles, inspectors and brokers.
///
/// The message names the operation, the value and the fix. [`source`](std::error::Error::source)
/// returns the cause.
///
/// *Stored* states whether an enqueue that returned this error has stored the job; "–" means that
/// enqueues do not return it. *Retry* states whether the same call may succeed later without a
/// change. [`is_transient`](Error::is_transient) and [`is_ambiguous`](Error::is_ambiguous) report
/// the two answers to a program.
///
/// | error | stored | retry | action |
/// |---|---|---|---|
/// | [`Invalid`](Error::Invalid) | no | no | correct the field that the message names |
/// | [`PayloadTooLarge`](Error::PayloadTooLarge) | no | no | store the data elsewhere, and pass a reference |
/// | [`Encode`](Error::Encode) | no | no | change the type or the value of the parameter |
/// | [`Decode`](Error::Decode) | – | no | read the value with the type that was stored |
/// | [`Refused`](Error::Refused) | no | no | see the error of the middleware |
/// | [`IdConflict`](Error::IdConflict) | no | no | use another id, or cancel the job that has it |
/// | [`GroupFull`](Error::GroupFull) | no | later | wait, or raise `max_size` of the group |
/// | [`Unserved`](Error::Unserved) | no | no | correct the name of the queue, or start a worker |
/// | [`NoSuchQueue`](Error::NoSuchQueue), [`NoSuchJob`](Error::NoSuchJob), [`NoSuchSchedule`](Error::NoSuchSchedule), [`NoSuchOperation`](Error::NoSuchOperation) | – | no | correct the name or address |
/// | [`NotKept`](Error::NotKept) | – | no | give the job a retention |
/// | [`ResultDropped`](Error::ResultDropped) | – | no | return a smaller result |
/// | [`WrongState`](Error::WrongState) | – | no | read the state of the job; the message names a command that applies |
/// | [`EditConflict`](Error::EditConflict) | – | after reading again | read the job again, and repeat the edit |
/// | [`KeyHeld`](Error::KeyHeld) | – | later | wait until the job that holds the key has ended, or cancel it |
/// | [`OperationUnderWay`](Error::OperationUnderWay) | – | later | wait for the running operation, or stop it |
/// | [`Config`](Error::Config), [`FeatureOff`](Error::FeatureOff), [`Evicts`](Error::Evicts), [`AccessDenied`](Error::AccessDenied) | no | no | correct the configuration of the program or the server |
/// | [`SchemaTooNew`](Error::SchemaTooNew), [`FeatureUnknown`](Error::FeatureUnknown) | no | no | update the program that the message names |
/// | [`NoDatabase`](Error::NoDatabase) | no | no | correct the path, or create the database with an enqueue or a worker |
/// | [`WrongType`](Error::WrongType) | perhaps | no | run `doctor --repair` |
/// | [`Unavailable`](Error::Unavailable) | no | yes | repeat the call |
/// | [`BrokerFull`](Error::BrokerFull) | no | yes | repeat the call when the broker has room again |
/// | [`Ambiguous`](Error::Ambiguous) | perhaps | if the call is idempotent | repeat the call, or read the state first |
/// | [`Unknown`](Error::Unknown) | perhaps | [`Pending::retry`](crate::Pending::retry) | call `retry()`, which never stores a second job |
/// | [`PartlyStored`](Error::PartlyStored) | some | no | enqueue only the items that are not stored |
/// | [`Forgotten`](Error::Forgotten), [`Old`](Error::Old) | – | no | none: the library registers again |
/// | [`Internal`](Error::Internal) | – | no | report it |
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    // --- The call is wrong: correct it. Nothing was stored. ---
    /// A value outside its allowed range or grammar.
    #[error("{field} `{value}` {problem}")]
    Invalid {
        /// The option, parameter or URL part.
        field: &'static str,
        /// The value as given, shortened.
        value: String,
        /// The problem, and the valid form.
        problem: String,
    },
    /// A payload over the cap.
    #[error("the payload of task `{task}` has {size} bytes, more than the {cap} allowed; store it elsewhere and pass a reference")]
    PayloadTooLarge {
        /// The task that it was meant for.
        task: String,
        /// Its size in bytes.
        size: usize,
        /// The cap in bytes.
        cap: usize,
    },
    /// A payload that cannot be written as MessagePack, or is nested too deeply to be read back.
    #[error("cannot encode the payload of task `{task}`: {problem}")]
    Encode {
        /// The task that it was meant for.
        task: String,
        /// The problem.
        problem: String,
    },
    /// Stored bytes that have another form.
    #[error("cannot decode {what}: {problem}")]
    Decode {
        /// The kind of bytes.
        what: String,
        /// The problem.
        problem: String,
    },
    /// A middleware refused the job: its [`enqueue`](crate::Middleware::enqueue) returned an error,
    /// or panicked.
    #[error("a middleware refused the job of task `{task}`, and nothing was stored: {cause}")]
    Refused {
        /// The job's task.
        task: String,
        /// The error of the middleware.
        #[source]
        cause: Cause,
    },
    /// A given id is taken by a job with another task or payload.
    #[error("job `{0}` exists with another payload; use another id, or cancel that job first")]
    IdConflict(JobAddress),
    /// The job's group already has `max_size` ready jobs. Nothing was stored.
    #[error(
        "group `{group}` of queue `{queue}` is full: try again later, or raise its maximum with `groups set '{queue}/{group}' --max-size N`"
    )]
    GroupFull {
        /// The queue.
        queue: String,
        /// The group.
        group: String,
    },
    /// No worker has ever served the queue, and the client enqueues to [served queues
    /// only](crate::Client::served_queues_only). Nothing was stored.
    #[error("no worker has ever served queue `{queue}`{}; nothing was stored", nearest.as_ref().map(|name| format!(": did you mean `{name}`?")).unwrap_or_default())]
    Unserved {
        /// The queue.
        queue: String,
        /// A queue with a name like it.
        nearest: Option<String>,
    },
    /// Nothing was ever enqueued to the queue, and no worker has served it.
    #[error("there is no queue `{queue}`{}", nearest.as_ref().map(|name| format!("; did you mean `{name}`?")).unwrap_or_default())]
    NoSuchQueue {
        /// The queue.
        queue: String,
        /// A queue with a name like it.
        nearest: Option<String>,
    },
    /// No job has this address.
    #[error("there is no job `{0}`; it may have finished without retention")]
    NoSuchJob(String),
    /// No schedule has this address.
    #[error("there is no schedule `{schedule}`; {}", nearest.as_ref().map_or_else(|| "`schedules list` shows the existing ones".to_owned(), |near| format!("did you mean `{near}`?")))]
    NoSuchSchedule {
        /// The address.
        schedule: String,
        /// A schedule of the same queue with a name like it.
        nearest: Option<String>,
    },
    /// No operation has this address.
    #[error("there is no operation `{0}`; `operations list` shows the existing ones")]
    NoSuchOperation(String),
    /// The queue already has a running operation, and a queue runs one at a time. Nothing was
    /// changed.
    #[error("operation `{0}` is still running, and a queue runs one at a time: wait until it ends, or stop it with `operations stop {0}`")]
    OperationUnderWay(String),
    /// A job that was enqueued without retention has ended or was deleted, so its outcome is
    /// unknown.
    #[error(
        "the result of job `{0}` is not available: the job has ended or was deleted, and it was enqueued without retention; give the job `.retention(..)` or its task `retention = \"..\"`, or use `.call(..)`"
    )]
    NotKept(JobAddress),
    /// The job is done, but its result was dropped: it was too large, nested too deeply, or could
    /// not be encoded.
    #[error("the result of job `{job}` was dropped: {problem}")]
    ResultDropped {
        /// The job.
        job: JobAddress,
        /// The reason: its size and the bound, or the value that cannot be encoded.
        problem: String,
    },
    /// A job is in a state in which this cannot be done.
    #[error("cannot {verb} job `{job}`: {}{}", it_is(state), advice(verb, state))]
    WrongState {
        /// The job.
        job: JobAddress,
        /// The operation.
        verb: &'static str,
        /// The state it is in.
        state: &'static str,
    },
    /// A job has changed since the version that an [edit](crate::inspect::Inspector::edit) names.
    /// Nothing was changed.
    #[error("cannot edit job `{job}`: it has changed since you read it: {what}; read it again and repeat the edit")]
    EditConflict {
        /// The job.
        job: JobAddress,
        /// The difference.
        what: String,
    },
    /// The operation would give the job a unique key that another job holds. Nothing was changed.
    #[error("cannot {verb} job `{job}`: job `{holder}` holds its unique key; wait until that job has ended, or cancel it")]
    KeyHeld {
        /// The job.
        job: JobAddress,
        /// The operation.
        verb: &'static str,
        /// The job that holds the key, in the same queue.
        holder: JobId,
    },

    // --- The setup is wrong: correct the configuration. ---
    /// The configuration cannot work.
    #[error("{0}")]
    Config(String),
    /// A URL for a broker that is not compiled in.
    #[error("`{scheme}://` needs the feature `{feature}`; run `cargo add queue-core --features {feature}`")]
    FeatureOff {
        /// The URL's scheme.
        scheme: String,
        /// The feature to add.
        feature: &'static str,
    },
    /// The data was written by a newer version of this library.
    #[error("queue `{queue}` has schema {found}, and this library supports up to {known}; update the library (nothing was written)")]
    SchemaTooNew {
        /// The queue, or the database file.
        queue: String,
        /// The stored schema number.
        found: u64,
        /// The newest number that this library knows.
        known: u64,
    },
    /// The queue has, or would get, a feature that this library or a running worker does not
    /// support. Nothing was written. Update the library or the worker; a worker can also be stopped
    /// first.
    #[error("{by} at {broker} does not support the feature `{feature}`: update it (nothing was written)")]
    FeatureUnknown {
        /// The broker's URL without secrets.
        broker: String,
        /// The feature, such as `priority` or `grouped`.
        feature: String,
        /// The library or worker that does not support it.
        by: &'static str,
    },
    /// A program that only inspects has found no database of this library. It does not create one.
    #[error("no database at {path}: {problem}; enqueue a job or start a worker to create it, or name another file")]
    NoDatabase {
        /// The absolute path of the file.
        path: String,
        /// The problem of the path.
        problem: String,
    },
    /// The server drops keys when its memory is full, and jobs with them.
    #[error("{broker} has `maxmemory-policy {policy}`, which drops jobs when its memory is full; set it to `noeviction`")]
    Evicts {
        /// The broker's URL without secrets.
        broker: String,
        /// The policy.
        policy: String,
    },
    /// The broker denies access to the user or the command.
    #[error("the broker at {broker} denies access: {problem}")]
    AccessDenied {
        /// The broker's URL without secrets.
        broker: String,
        /// The broker's message.
        problem: String,
    },

    /// Another program has written to a key of the broker, so that the queue cannot be used until
    /// `doctor --repair` has renamed the key. The request may have been carried out in part; the
    /// repair completes it.
    #[error(
        "key `{key}`{} at {broker} holds a {found} instead of a {expected}: another program has written to it; run `doctor --repair` to rename it",
        queue.as_ref().map(|queue| format!(" of queue `{queue}`")).unwrap_or_default()
    )]
    WrongType {
        /// The broker's URL without secrets.
        broker: String,
        /// The queue; `None`: it is the list of all queues.
        queue: Option<String>,
        /// The key.
        key: String,
        /// The type that it has, as the server names it.
        found: String,
        /// The type that it should have.
        expected: &'static str,
    },

    // --- The broker's state: wait, or make room. ---
    /// The broker cannot be reached or cannot work now. The request was **not** carried out.
    #[error("the broker at {broker} is unavailable: {problem}")]
    Unavailable {
        /// The broker's URL without secrets.
        broker: String,
        /// The observation.
        problem: String,
        /// The source, if there is one.
        #[source]
        cause: Option<Cause>,
    },
    /// No answer within the deadline, or the connection broke before the answer. The request
    /// **may** have been carried out.
    #[error("the broker at {broker} has not answered: {problem}; the request may have been carried out")]
    Ambiguous {
        /// The broker's URL without secrets.
        broker: String,
        /// How long the caller waited for the answer, or the problem of the connection.
        problem: String,
        /// The source, if there is one.
        #[source]
        cause: Option<Cause>,
    },
    /// The broker has no room; nothing was stored.
    #[error("the broker at {broker} is full: {problem}; nothing was stored")]
    BrokerFull {
        /// The broker's URL without secrets.
        broker: String,
        /// The broker's message.
        problem: String,
    },
    /// One call has stored some of its jobs or events. The others are not stored, or their state is
    /// unknown. A repeated call would store the stored ones a second time, unless they have given
    /// ids. [`EnqueueAllError`](crate::EnqueueAllError) and
    /// [`PublishAllError`](crate::topics::PublishAllError) report the state of each item; `?`
    /// converts them into this error.
    #[error(
        "{} of {given} are stored; the others are not stored, or their state is unknown: {cause}; repeat the call only for the items that are not stored",
        stored.len()
    )]
    PartlyStored {
        /// The addresses of the stored jobs, in order.
        stored: Vec<JobAddress>,
        /// The number of given items; a lower bound if the iterator does not know its length.
        given: usize,
        /// The error of the first item that is not stored.
        #[source]
        cause: Box<Error>,
    },
    /// The broker has no record of this worker or producer, or lacks its latest requests.
    #[error("the broker has no record of `{0}`; register under a new name")]
    Forgotten(String),
    /// A sequence number below the last one answered: a late duplicate, which can be ignored. A
    /// [relay](crate::broker::Enqueue::relayed) also gets it for the last number if it was used for
    /// other rows.
    #[error("sequence {seq} of `{name}` is older than the last one answered")]
    Old {
        /// The worker or producer.
        name: String,
        /// The sequence number sent.
        seq: u64,
    },
    /// An enqueue without an answer: the jobs may or may not be stored.
    /// [`Pending::retry`](crate::Pending::retry) determines which, and never stores a second job.
    /// Its [`source`](std::error::Error::source) is the error of the last try.
    #[error(transparent)]
    Unknown(Box<Pending>),
    /// A bug of this library, or data that another program has written to its keys.
    #[error("unexpected answer from the broker: {0}")]
    Internal(String),
}

impl Error {
    /// True when the same call may succeed later without any change.
    pub fn is_transient(&self) -> bool {
        matches!(self, Error::Unavailable { .. } | Error::Ambiguous { .. } | Error::BrokerFull { .. })
    }

    /// True when the call may have been carried out although it failed.
    pub fn is_ambiguous(&self) -> bool {
        matches!(self, Error::Ambiguous { .. } | Error::Unknown(_) | Error::WrongType { .. } | Error::PartlyStored { .. })
    }

    /// An [`Unavailable`](Self::Unavailable) without a source.
    pub fn unavailable(broker: impl Into<String>, problem: impl Into<String>) -> Self {
        Error::Unavailable { broker: broker.into(), problem: problem.into(), cause: None }
    }

    /// An [`Unavailable`](Self::Unavailable) because no connection could be made.
    #[cfg(feature = "redis")]
    pub(crate) fn unreachable(broker: impl Into<String>, problem: impl Into<String>) -> Self {
        let problem = problem.into();
        Error::unavailable(broker, problem.clone()).caused_by(Unreachable { problem, cause: None })
    }

    /// True when no connection to the broker could be made: it does not run, or the URL is wrong.
    /// False when it was reached and refused.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Error::Unavailable { cause: Some(cause), .. } if cause.is::<Unreachable>())
    }

    /// The same error, marked as requested by a test: a producer does not retry it.
    #[doc(hidden)]
    pub fn injected(self) -> Self {
        self.caused_by(Injected)
    }

    /// Whether a test has requested it.
    pub(crate) fn is_injected(&self) -> bool {
        matches!(self, Error::Unavailable { cause: Some(cause), .. } | Error::Ambiguous { cause: Some(cause), .. } if cause.is::<Injected>())
    }

    /// An [`Ambiguous`](Self::Ambiguous) without a source.
    pub fn ambiguous(broker: impl Into<String>, problem: impl Into<String>) -> Self {
        Error::Ambiguous { broker: broker.into(), problem: problem.into(), cause: None }
    }

    /// The error of a call that only reads: without an answer nothing has changed.
    pub(crate) fn of_question(self) -> Self {
        match self {
            Error::Ambiguous { broker, problem, cause } => Error::Unavailable { broker, problem: format!("no answer: {problem}"), cause },
            error => error,
        }
    }

    /// The same with a source.
    pub fn caused_by(mut self, error: impl StdError + Send + Sync + 'static) -> Self {
        if let Error::Unavailable { cause, .. } | Error::Ambiguous { cause, .. } = &mut self {
            *cause = Some(Arc::new(error));
        }
        self
    }

    /// The same error once more, for each of several callers. Of a pending call only the message is
    /// repeated.
    pub(crate) fn duplicate(&self) -> Self {
        match self {
            Error::Invalid { field, value, problem } => Error::Invalid { field, value: value.clone(), problem: problem.clone() },
            Error::AccessDenied { broker, problem } => Error::AccessDenied { broker: broker.clone(), problem: problem.clone() },
            Error::Unserved { queue, nearest } => Error::Unserved { queue: queue.clone(), nearest: nearest.clone() },
            Error::Evicts { broker, policy } => Error::Evicts { broker: broker.clone(), policy: policy.clone() },
            Error::Unavailable { broker, problem, cause } => {
                Error::Unavailable { broker: broker.clone(), problem: problem.clone(), cause: cause.clone() }
            }
            Error::BrokerFull { broker, problem } => Error::BrokerFull { broker: broker.clone(), problem: problem.clone() },
            Error::FeatureUnknown { broker, feature, by } => Error::FeatureUnknown { broker: broker.clone(), feature: feature.clone(), by },
            Error::SchemaTooNew { queue, found, known } => Error::SchemaTooNew { queue: queue.clone(), found: *found, known: *known },
            Error::Ambiguous { broker, problem, cause } => {
                Error::Ambiguous { broker: broker.clone(), problem: problem.clone(), cause: cause.clone() }
            }
            Error::NoDatabase { path, problem } => Error::NoDatabase { path: path.clone(), problem: problem.clone() },
            Error::WrongType { broker, queue, key, found, expected } => {
                let (broker, queue, key, found) = (broker.clone(), queue.clone(), key.clone(), found.clone());
                Error::WrongType { broker, queue, key, found, expected }
            }
            Error::Forgotten(name) => Error::Forgotten(name.clone()),
            Error::Config(problem) => Error::Config(problem.clone()),
            Error::Internal(problem) => Error::Internal(problem.clone()),
            other => Error::Internal(other.to_string()),
        }
    }

    pub(crate) fn invalid(field: &'static str, value: impl AsRef<str>, problem: impl Into<String>) -> Self {
        Error::Invalid { field, value: shown(value.as_ref()), problem: problem.into() }
    }

    /// The group is the one in which a job should have been.
    pub(crate) fn group_full(queue: &str, group: Option<&str>) -> Self {
        Error::GroupFull { queue: queue.to_owned(), group: group.map(shown).unwrap_or_default() }
    }
}

/// The start of a value, without terminal control characters.
fn shown(value: &str) -> String {
    let mut shown: String = value.chars().take(80).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if shown.len() < value.len() && value.chars().count() > 80 {
        shown.push('…');
    }
    shown
}

/// The cause of an error: the broker could not be reached.
#[derive(Debug, thiserror::Error)]
#[error("{problem}")]
pub(crate) struct Unreachable {
    pub(crate) problem: String,
    #[source]
    pub(crate) cause: Option<Cause>,
}

/// The cause of an error that a test has requested.
#[derive(Debug, thiserror::Error)]
#[error("a test has asked for this failure")]
struct Injected;

/// A `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
