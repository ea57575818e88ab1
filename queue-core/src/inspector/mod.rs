//! Inspection and administration of jobs and queues. `record` is the readable form of a job.
//! `change` changes jobs, `edit` edits a waiting job, `duplicate` copies one, and
//! `clear` cancels the jobs of a group. `walk` lists all jobs of a state, `search` finds matching
//! jobs in all queues, and `why` lists the reasons why a job does not run. `workers` lists workers,
//! `held` lists the jobs of a worker, and `ask` sends requests to it. `operations` changes all
//! matching jobs, in steps that survive a crash of their runner. `topics` shows topics and
//! subscriptions, and `rewind` sets the position of a subscription. `differences` compares releases
//! and clocks, and `exposition` writes metrics.

mod aging;
mod ask;
mod change;
mod clear;
mod differences;
mod duplicate;
mod edit;
mod exposition;
mod filter;
mod groups;
mod held;
mod limits;
mod operations;
mod pauses;
mod progress;
mod reason;
mod record;
mod rewind;
mod search;
mod seen;
mod topics;
mod waits;
mod walk;
mod why;
mod workers;

pub use self::{
    aging::declare_aging,
    clear::{ClearGroup, Cleared},
    differences::Difference,
    duplicate::Duplicated,
    edit::{Edit, EditChange, Edited, Seen},
    exposition::EXPOSED,
    filter::Filter,
    groups::declare_groups,
    held::WorkerJobs,
    limits::{LimitInfo, LimitKeyInfo, declare_limits},
    operations::{NewOperation, OperationPreview, RunOperation},
    progress::{Follow, JobLog, LogLine, Progress},
    reason::Reason,
    record::{AttemptError, JobRecord, Page, Running, UnreadableBy},
    rewind::{RewindPreview, Rewinding},
    search::{Found, Search},
    topics::{EventInfo, SubscriptionInfo, TopicInfo},
    walk::Walk,
    why::waiting_in,
};
pub(crate) use self::{seen::SeenQueues, waits::until_ended};

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{
    address::{JobAddress, JobId, check_queue},
    broker::{Audit, Condition, Damage, Durability, DynBroker, JobState, StoredJob, after, on_broker, on_broker_until},
    error::{Error, Result},
    text::cut,
};

/// Bytes, at most, of the reason of a cancel.
const REASON_MAX: usize = 1024;

/// Lists, shows and repairs jobs and queues, for command lines and dashboards. From
/// [`Client::inspector`](crate::Client::inspector).
///
/// It works in any async runtime, because the broker's own thread does the I/O. Every call except
/// [`audit`](Self::audit) returns within the [deadline](crate::Client::with_deadline) of its
/// client, with [`Error::Ambiguous`] if there is no answer by then.
///
/// ```
/// use queue_core::{broker::JobState, prelude::*};
///
/// #[task(queue = "mail")]
/// async fn send(to: String) {}
///
/// # async fn example() -> queue_core::Result<()> {
/// let client = Client::connect("sqlite://:memory:").await?;
/// let sent = send::job("ada@example.com".to_owned()).enqueue(&client).await?;
///
/// let inspector = client.inspector();
/// assert_eq!(inspector.stats("mail").await?.count(JobState::Ready), 1);
/// inspector.because("wrong address").cancel(sent.address()).await?;
///
/// let job = client.inspector().show(sent.address()).await?;
/// assert_eq!((job.state, job.note.as_deref()), (JobState::Cancelled, Some("wrong address")));
/// # Ok(()) }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Inspector {
    broker: DynBroker,
    deadline: Duration,
    seen: Arc<SeenQueues>,
    /// Why it cancels, or pauses a group.
    reason: Option<Arc<str>>,
}

impl Inspector {
    pub(crate) fn new(broker: DynBroker, deadline: Duration, seen: Arc<SeenQueues>) -> Self {
        Inspector { broker, deadline, seen, reason: None }
    }

    /// The same inspector with a reason for its cancels: the record of each cancelled job has it as
    /// its [`note`](JobRecord::note), and so has the [pause](crate::inspect::StoredGroup::pause) of
    /// a group that it pauses. A text over 1 KiB is cut.
    ///
    /// ```no_run
    /// # use queue_core::{Client, JobAddress};
    /// # async fn example(client: Client, job: JobAddress) -> queue_core::Result<()> {
    /// client.inspector().because("ordered twice, ticket 4711").cancel(&job).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into()).filter(|reason| !reason.is_empty()).map(|reason| cut(reason, REASON_MAX).into());
        self
    }

    /// The failures that acknowledged jobs survive, at least. A server whose settings cannot be
    /// read may be more durable.
    ///
    /// # Errors
    /// Those of the broker.
    pub async fn durability(&self) -> Result<Durability> {
        self.ask(self.until(), |broker| async move { broker.durability().await }).await
    }

    /// How much room the broker has, and whether it refuses new jobs.
    ///
    /// # Errors
    /// Those of the broker.
    pub async fn condition(&self) -> Result<Condition> {
        self.ask(self.until(), |broker| async move { broker.condition().await }).await
    }

    /// The queues to which a job was ever enqueued, or that a worker serves, sorted by name.
    ///
    /// # Errors
    /// Those of the broker, here and below.
    pub async fn queues(&self) -> Result<Vec<String>> {
        self.ask(self.until(), |broker| async move { broker.queues().await }).await
    }

    /// Searches a queue for damage that another program did, and repairs it if `how` allows.
    /// Workers audit their queues by themselves, by comparing numbers of jobs and places. A
    /// [thorough](Audit::thorough) audit reads all jobs; others work meanwhile.
    ///
    /// # Errors
    /// Those of the broker.
    pub async fn audit(&self, queue: &str, how: Audit) -> Result<Vec<Damage>> {
        check_queue(queue)?;
        let (queue, broker) = (queue.to_owned(), self.broker.clone());
        // No deadline: it is a long series of calls, each of which ends.
        on_broker(&self.broker, async move { broker.audit(&queue, how).await }).await?
    }

    /// Checks whether the list of all queues can be read. If another program has replaced its key,
    /// [`queues`](Self::queues) fails. With `repair` the key is renamed. Each queue is listed again
    /// when its workers audit it, within minutes, or when a worker or producer registers with it.
    ///
    /// # Errors
    /// Those of the broker.
    pub async fn audit_queues(&self, repair: bool) -> Result<Vec<Damage>> {
        self.run(|broker| async move { broker.audit_queues(repair).await }).await
    }

    /// A page of the jobs in one state, at most `limit` (1 to 500), from `offset`: 0, the
    /// [`next`](Page::next) of the page before, a number of jobs to leave out, or
    /// [`LAST`](crate::broker::LAST) for the last page. The `next` of a page is the fastest way to
    /// continue.
    ///
    /// A page may be empty although the listing continues: it has ended only if `next` is `None`.
    /// [`walk`](Self::walk) follows the pages, and [`change_all`](Self::change_all) changes all
    /// jobs of a state.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a limit out of range; [`Error::NoSuchQueue`].
    pub async fn list(&self, queue: &str, state: JobState, offset: u64, limit: usize) -> Result<Page> {
        check_queue(queue)?;
        if !(1..=500).contains(&limit) {
            return Err(Error::invalid("limit", limit.to_string(), "is not between 1 and 500"));
        }
        let of = queue.to_owned();
        let ask = move |broker: DynBroker| {
            let of = of.clone();
            async move { broker.list(&of, state, offset, limit).await }
        };
        let stored = self.ask(self.until(), ask).await?;
        let is_nothing = offset == 0 && stored.jobs.is_empty() && stored.next.is_none();
        let stored = self.found_of(queue, stored, is_nothing).await?;
        Ok(Page { jobs: self.records(queue, stored.jobs).await?, next: stored.next })
    }

    /// Jobs as a listing has them.
    async fn records(&self, queue: &str, jobs: Vec<StoredJob>) -> Result<Vec<JobRecord>> {
        let mut jobs: Vec<JobRecord> = jobs.into_iter().map(|job| JobRecord::new(queue, job)).collect();
        if jobs.iter().any(|job| job.running.is_some()) {
            let workers = self.workers_of(queue).await?;
            jobs.iter_mut().filter_map(|job| job.running.as_mut()).for_each(|running| running.find(&workers));
        }
        Ok(jobs)
    }

    /// Everything about one job but its [log](Self::log).
    ///
    /// # Errors
    /// [`Error::NoSuchJob`].
    pub async fn show(&self, job: &JobAddress) -> Result<JobRecord> {
        let stored = self.stored(self.until(), job).await?.ok_or_else(|| Error::NoSuchJob(job.to_string()))?;
        self.record_of(job, stored).await
    }

    async fn record_of(&self, job: &JobAddress, stored: StoredJob) -> Result<JobRecord> {
        let mut record = JobRecord::new(&job.queue, stored);
        if let Some(running) = &mut record.running {
            running.find(&self.workers_of(&job.queue).await?);
        }
        record.progress = self.progress(job).await?;
        Ok(record)
    }

    /// Waits until a job has ended, at most for `timeout`, and returns its record, as
    /// [`show`](Self::show) does. The broker notifies it. A job that has not ended after `timeout`
    /// is not an error: its record has the state. [`Handle::wait`](crate::Handle::wait) returns its
    /// result as well, with its type.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use queue_core::{Client, JobAddress};
    /// # async fn example(client: Client, job: JobAddress) -> queue_core::Result<()> {
    /// let ended = client.inspector().wait(&job, Duration::from_secs(60)).await?;
    /// println!("{} is {}", ended.address, ended.state);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::NoSuchJob`], also for a job that has ended without being kept. A job without
    /// retention that ends during the wait is kept for a minute. If the broker does not answer, the
    /// request is repeated until the timeout.
    pub async fn wait(&self, job: &JobAddress, timeout: Duration) -> Result<JobRecord> {
        let stored = until_ended(&self.broker, job, self.deadline, timeout).await?.ok_or_else(|| Error::NoSuchJob(job.to_string()))?;
        self.record_of(job, stored).await
    }

    /// Finds a job by `queue/id`, or by its id in all registered queues.
    ///
    /// # Errors
    /// [`Error::NoSuchJob`]; [`Error::Invalid`] if the id is found in several queues.
    pub async fn find(&self, text: &str) -> Result<JobAddress> {
        if text.contains('/') {
            return text.parse();
        }
        let id: JobId = text.parse()?;
        let (until, mut found) = (self.until(), Vec::new());
        for queue in self.ask(until, |broker| async move { broker.queues().await }).await? {
            let address = JobAddress { queue: queue.into(), id: id.clone() };
            if self.stored(until, &address).await?.is_some() {
                found.push(address);
            }
        }
        match found.as_slice() {
            [] => Err(Error::NoSuchJob(text.to_owned())),
            [one] => Ok(one.clone()),
            several => {
                let places: Vec<String> = several.iter().map(ToString::to_string).collect();
                Err(Error::invalid("job", text, format!("is in several queues; name one of {}", places.join(", "))))
            }
        }
    }

    async fn stored(&self, until: Instant, job: &JobAddress) -> Result<Option<StoredJob>> {
        let job = job.clone();
        self.ask(until, move |broker| {
            let job = job.clone();
            async move { broker.show(&job.queue, &job.id).await }
        })
        .await
    }

    /// When a call that begins now has to end.
    fn until(&self) -> Instant {
        after(self.deadline)
    }

    /// A question. Without an answer nothing has changed.
    async fn ask<T, F>(&self, until: Instant, question: impl Fn(DynBroker) -> F + Send + 'static) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        self.repeat(until, question).await.map_err(Error::of_question)
    }

    /// A request that may be carried out twice is sent twice: the first request after the restart
    /// of a server finds a broken connection.
    async fn repeat<T, F>(&self, until: Instant, request: impl Fn(DynBroker) -> F + Send + 'static) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let broker = self.broker.clone();
        let asked = async move {
            match request(broker.clone()).await {
                Err(Error::Ambiguous { .. }) => request(broker).await,
                answer => answer,
            }
        };
        on_broker_until(&self.broker, until, asked).await
    }

    async fn run<T, F>(&self, work: impl FnOnce(DynBroker) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        self.run_until(self.until(), work).await
    }

    /// On the broker's thread, so that any runtime will do.
    async fn run_until<T, F>(&self, until: Instant, work: impl FnOnce(DynBroker) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        on_broker_until(&self.broker, until, work(self.broker.clone())).await
    }
}
