//! The handle of an enqueued job.

use std::{fmt, marker::PhantomData, time::Duration};

use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::Client;
use crate::{
    address::{JobAddress, JobId},
    broker::{Changed, Confirmed, JobState, StoredJob, after, on_broker_until},
    codec,
    envelope::Envelope,
    error::{Error, Result},
    inspector::until_ended,
    outcome::{NIL, stored_result},
    task::{Task, TaskDef, TaskOutput},
};

/// An enqueued job. Store its [`address`](Self::address) to find it later: [`Client::handle`]
/// creates a handle from it.
pub struct Handle<T> {
    client: Client,
    address: JobAddress,
    stored: Stored,
    confirmed: Option<Confirmed>,
    kept: Kept,
    task: PhantomData<fn() -> T>,
}

/// The outcome of an enqueue. From [`Handle::stored`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stored {
    /// It was stored.
    New,
    /// It was not stored: a job of its id exists, or another job holds its key.
    Existing,
    /// It was not stored: the job that holds its key has not started, and has taken over its
    /// payload, its time, or both.
    Replaced,
    /// The job that holds its key runs, or waits for its retry. A job of this payload is `held`
    /// until that one has ended, and runs then.
    Buffered,
}

impl Stored {
    /// The word for it: `new`, `existing`, `replaced` or `buffered`.
    pub fn name(self) -> &'static str {
        match self {
            Stored::New => "new",
            Stored::Existing => "existing",
            Stored::Replaced => "replaced",
            Stored::Buffered => "buffered",
        }
    }
}

impl fmt::Display for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether a job is kept when it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// The handle was created from an address.
    Unknown,
    /// The job was enqueued without a retention, and its task has none.
    No,
    /// The job was enqueued with a retention.
    Yes,
}

impl Kept {
    /// A job that was enqueued with this retention.
    pub(super) fn of(retention: Option<Duration>, task: &TaskDef) -> Self {
        if retention.or(task.retention).is_some_and(|retention| !retention.is_zero()) { Kept::Yes } else { Kept::No }
    }

    /// The job that will run may be another than the one that was enqueued. The retention of
    /// another job is unknown here.
    pub(super) fn of_job(self, own: &JobId, runs: &JobId) -> Self {
        if own == runs { self } else { Kept::Unknown }
    }
}

/// The result of a job, as [`Handle::result`] reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobResult<T> {
    /// The job has not ended yet.
    Pending,
    /// The job is done. Only a job with retention is kept, so that this can be seen.
    Done(T),
    /// The job is a dead letter, with the reason.
    Dead(String),
    /// The job was cancelled.
    Cancelled,
    /// The job expired before it started.
    Expired,
    /// The broker does not have it: kept long enough, deleted, or never enqueued. A job that this
    /// program enqueued without retention is [`Error::NotKept`].
    Gone,
}

impl<T> JobResult<T> {
    /// True if the job has not ended yet.
    pub fn is_pending(&self) -> bool {
        matches!(self, JobResult::Pending)
    }
}

impl<T> Handle<T> {
    pub(super) fn new(client: Client, address: JobAddress, stored: Stored, confirmed: Option<Confirmed>, kept: Kept) -> Self {
        Handle { client, address, stored, confirmed, kept, task: PhantomData }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// The job's address: `queue/id`.
    pub fn address(&self) -> &JobAddress {
        &self.address
    }

    /// Its id.
    pub fn id(&self) -> &JobId {
        &self.address.id
    }

    /// The outcome of the enqueue. The handle is that of the job that will run, which may be
    /// another one. A handle that was created from an address returns [`Stored::Existing`].
    pub fn stored(&self) -> Stored {
        self.stored
    }

    /// True if a job of this given id, or with this key, existed before, so that no second job was
    /// stored.
    pub fn existing(&self) -> bool {
        self.stored == Stored::Existing
    }

    /// The failures that the job survived when it was enqueued, if the [client requested
    /// this](Client::with_durability). It may be less than requested.
    pub fn confirmed(&self) -> Option<Confirmed> {
        self.confirmed
    }

    /// Its state; `None` when the broker does not have it.
    ///
    /// # Errors
    /// Those of the broker.
    pub async fn status(&self) -> Result<Option<JobState>> {
        Ok(self.record(after(self.client.deadline())).await?.map(|record| record.state))
    }

    /// Cancels the job in any state that is not final. The reason becomes the
    /// [`note`](crate::inspect::JobRecord::note) of its record; an empty reason is not stored. The
    /// result of a running job is discarded, and its handler is cancelled: the answer is
    /// [`Changed::WhileActive`](crate::inspect::Changed::WhileActive) then.
    ///
    /// # Errors
    /// [`Error::NoSuchJob`]; [`Error::WrongState`] when it has ended; those of the broker.
    pub async fn cancel(&self, reason: impl Into<String>) -> Result<Changed> {
        self.client.inspector().because(reason).cancel(&self.address).await
    }

    async fn record(&self, until: Instant) -> Result<Option<StoredJob>> {
        let (broker, address) = (self.client.broker().clone(), self.address.clone());
        let asked = on_broker_until(self.client.broker(), until, async move { broker.show(&address.queue, &address.id).await });
        asked.await.map_err(Error::of_question)
    }
}

impl<T: Task> Handle<T>
where
    TaskOutput<T>: DeserializeOwned,
{
    /// Reads the result of the job, without waiting.
    ///
    /// # Errors
    /// Those of the broker; [`Error::NotKept`] for a job that was enqueued without retention and
    /// has ended; [`Error::ResultDropped`] when the result was over 64 KiB, nested too deeply, or
    /// could not be encoded; [`Error::Invalid`] for a job of another task; [`Error::Decode`] when
    /// the result is not of the task's type.
    pub async fn result(&self) -> Result<JobResult<TaskOutput<T>>> {
        self.result_of(self.record(after(self.client.deadline())).await?)
    }

    fn result_of(&self, record: Option<StoredJob>) -> Result<JobResult<TaskOutput<T>>> {
        let Some(record) = record else {
            // A handle exists only for a job that was stored.
            return if self.kept == Kept::No { Err(Error::NotKept(self.address.clone())) } else { Ok(JobResult::Gone) };
        };
        self.check_task(&record)?;
        Ok(match record.state {
            // The worker had not been notified yet that a caller waits: otherwise it stores every
            // result that has content, even `None`.
            JobState::Done if self.kept == Kept::No && record.result.is_none() && has_content::<TaskOutput<T>>() => {
                return Err(Error::NotKept(self.address.clone()));
            }
            JobState::Done => JobResult::Done(self.decode(record.result.as_deref())?),
            JobState::Dead => {
                let reason = record.reason.map_or("dead", |reason| reason.name());
                JobResult::Dead(match record.failures.last() {
                    Some(failure) => format!("{reason}: {}", failure.message),
                    None => reason.to_owned(),
                })
            }
            JobState::Cancelled => JobResult::Cancelled,
            JobState::Expired => JobResult::Expired,
            _ => JobResult::Pending,
        })
    }

    /// Waits until the job has ended, at most for `timeout`. The broker wakes it when the job ends.
    /// Because an announcement may be lost, it also polls: after 20 ms, and then less and less
    /// often, at least every 5 s. Any number of callers may wait for one job.
    ///
    /// A job without retention that ends during a wait is kept for a minute, so that all callers
    /// get its result.
    ///
    /// A job that [expires](crate::Job::expires) becomes `expired` when a worker claims it, and
    /// `wait` returns then. Before, it returns [`JobResult::Pending`]: no worker serves the queue,
    /// or earlier jobs keep the workers busy.
    ///
    /// # Errors
    /// Those of [`result`](Self::result): [`Error::NotKept`] if a job without retention ended
    /// before the wait, or at the moment at which it began. If a broker does not answer, for
    /// example during a failover, the call is repeated. If the broker has not answered once within
    /// `timeout`, its error is returned at most 50 ms later. A job that has not ended is not an
    /// error: the answer is [`JobResult::Pending`].
    pub async fn wait(&self, timeout: Duration) -> Result<JobResult<TaskOutput<T>>> {
        let client = &self.client;
        self.result_of(until_ended(client.broker(), &self.address, client.deadline(), timeout).await?)
    }

    /// An address does not contain the task, so the handle may have the type of another task.
    fn check_task(&self, record: &StoredJob) -> Result<()> {
        let own = T::definition();
        match Envelope::decode(&record.envelope) {
            Ok(job) if job.task != own.name && !own.aliases.contains(&&*job.task) => Err(Error::invalid(
                "job",
                self.address.to_string(),
                format!(
                    "has the task `{}`, and this handle expects the task `{}`: create it with the type of the job's task, `client.handle::<..>(address)`; \
                     if the task was renamed, give it `alias = \"{}\"`",
                    job.task, own.name, job.task
                ),
            )),
            _ => Ok(()),
        }
    }

    fn decode(&self, bytes: Option<&[u8]>) -> Result<TaskOutput<T>> {
        // A result without content is not stored; nil reads back as `()`.
        let bytes = stored_result(bytes.unwrap_or(NIL));
        let bytes = bytes.map_err(|problem| Error::ResultDropped { job: self.address.clone(), problem })?;
        codec::decode(bytes).map_err(|problem| Error::Decode { what: format!("the result of job `{}`", self.address), problem })
    }
}

/// Whether values of this type are stored: all but those of a type of one value that is encoded as
/// nil, such as `()`.
fn has_content<T: DeserializeOwned>() -> bool {
    size_of::<T>() > 0 || codec::decode::<T>(NIL).is_err()
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        Handle::new(self.client.clone(), self.address.clone(), self.stored, self.confirmed, self.kept)
    }
}

impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({})", self.address)
    }
}
