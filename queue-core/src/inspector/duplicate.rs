//! Copies of jobs.

use std::time::Duration;

use super::Inspector;
use crate::{
    address::{JobAddress, JobId, check_queue},
    broker::{Due, Enqueue, Enqueued, JobLimits, JobState, NewJob, ProcessId, Register, StoredJob, Unique},
    envelope::{ENVELOPE_VERSION, Envelope, stamp},
    error::{Error, Result},
};

/// How long the copy is waited for before its request is sent again.
const AGAIN: Duration = Duration::from_millis(100);

/// A copy of a job, for [`Inspector::duplicate`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Duplicated {
    /// The copy.
    pub job: JobAddress,
    /// Whether workers serve its queue, or have served it.
    pub served: bool,
}

impl Inspector {
    /// Stores a copy of a job in any state under a new id, in its queue or in another one. The copy
    /// has the job's parameters, headers, priority, group, limits and options. It has the job's
    /// time if the job is scheduled. It has the job's key, which no other job may hold. It has no
    /// failures and does not belong to a schedule. It expires with the job, unless that job has
    /// ended.
    ///
    /// The job stays as it is. To move a job into another queue, cancel it once the copy is stored:
    /// those are two transitions, and a worker may start either job between them.
    ///
    /// The caller makes the id with [`JobId::make`]. A caller without an answer repeats the call
    /// with the same id, and no second copy is stored. An existing job with this id and the same
    /// task and parameters counts as the copy.
    ///
    /// ```
    /// use queue_core::{JobId, prelude::*};
    ///
    /// #[task]
    /// async fn greet(name: String) {}
    ///
    /// # async fn example() -> queue_core::Result<()> {
    /// # let queue = Client::connect("sqlite://:memory:").await?;
    /// let handle = greet::job("Ada".to_owned()).enqueue(&queue).await?;
    /// let copy = queue.inspector().duplicate(handle.address(), Some("slow"), JobId::make()).await?;
    /// assert_eq!(queue.inspector().show(&copy.job).await?.payload_json()?, r#"{"name":"Ada"}"#);
    /// # Ok(()) }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Error::NoSuchJob`]; [`Error::IdConflict`] when another job has the id; [`Error::KeyHeld`]
    /// when the job, or another one, holds its key in that queue; [`Error::GroupFull`];
    /// [`Error::Decode`] for a job that cannot be decoded; [`Error::Invalid`] for a name of a queue
    /// outside the grammar; those of an enqueue.
    pub async fn duplicate(&self, job: &JobAddress, queue: Option<&str>, id: JobId) -> Result<Duplicated> {
        let into = queue.unwrap_or(&job.queue);
        check_queue(into)?;
        let copy = JobAddress { queue: into.into(), id };
        let until = self.until();
        let stored = self.stored(until, job).await?.ok_or_else(|| Error::NoSuchJob(job.to_string()))?;
        if let Some(there) = self.stored(until, &copy).await? {
            // A repeated call finds the copy.
            let is_copy = copy != *job && is_like(&there, &stored)?;
            return if is_copy { Ok(Duplicated { job: copy, served: true }) } else { Err(Error::IdConflict(copy)) };
        }
        let new = copied(job, &copy.id, stored)?;
        let group = new.group.clone();
        let address = copy.clone();
        let sent = self.run_until(until, move |broker| async move {
            let producer = broker.register(&Register::producer(&*address.queue, ProcessId::random())).await?;
            let mut new = new;
            stamp(&mut new.envelope, producer.now_ms);
            let request = Enqueue::new(&*address.queue, producer.name, 1, vec![new]);
            loop {
                match broker.enqueue(&request).await {
                    // The same request under the same number: it is carried out once. The caller's
                    // deadline ends it.
                    Err(Error::Ambiguous { .. }) => tokio::time::sleep(AGAIN).await,
                    answer => return Ok((answer?, producer.served)),
                }
            }
        });
        let (answers, served) = sent.await?;
        match answers.into_iter().next() {
            Some(Enqueued::Duplicate(holder) | Enqueued::Replaced(holder) | Enqueued::Buffered(holder)) => {
                Err(Error::KeyHeld { job: job.clone(), verb: "duplicate", holder })
            }
            Some(Enqueued::IdConflict) => Err(Error::IdConflict(copy)),
            Some(Enqueued::GroupFull) => Err(Error::group_full(&copy.queue, group.as_ref().map(|group| group.as_str()))),
            _ => Ok(Duplicated { job: copy, served }),
        }
    }
}

/// Whether two jobs have the same task and parameters.
fn is_like(one: &StoredJob, other: &StoredJob) -> Result<bool> {
    let (one, other) = (Envelope::decode(&one.envelope)?, Envelope::decode(&other.envelope)?);
    Ok((one.task, one.payload) == (other.task, other.payload))
}

/// A new job like a stored one.
fn copied(job: &JobAddress, id: &JobId, stored: StoredJob) -> Result<NewJob> {
    let mut envelope = Envelope::decode(&stored.envelope)?;
    if envelope.version > ENVELOPE_VERSION {
        let problem =
            "was enqueued by a newer release in a format that this program cannot read; duplicate it with a program of that release";
        return Err(Error::invalid("job", job.to_string(), problem));
    }
    let at = stored.at_ms.filter(|_| matches!(stored.state, JobState::Scheduled | JobState::Held));
    (envelope.enqueued_ms, envelope.delay_ms, envelope.at_ms) = (None, None, at);
    (envelope.tick_ms, envelope.schedule) = (None, None);
    if stored.state.is_final() {
        envelope.expires_ms = None;
    }
    let mut new = NewJob::new(id.clone(), envelope.encode()?);
    new.due = at.map_or(Due::Now, Due::AtMs);
    new.priority = stored.priority;
    new.group = stored.group;
    new.limits = JobLimits::new(stored.limits, envelope.cost.unwrap_or(1)).map(Box::new);
    new.unique = stored.unique.map(|key| Box::new(Unique::new(key)));
    if id.is_given() {
        new.digest = envelope.digest();
    }
    Ok(new)
}
