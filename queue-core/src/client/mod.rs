//! Enqueues: [`Client`], the typed [`Job`], its [`Handle`].

mod bulk;
mod callers;
mod clock;
mod events;
mod handle;
mod job;
mod limits;
mod pending;
mod prepare;
mod producer;
mod progress;
#[doc(hidden)]
pub(crate) mod row;
mod sender;
mod unique;
mod unserved;
mod url;
mod watch;

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

pub use self::{
    bulk::EnqueueAllError,
    events::{PublishAllError, Published},
    handle::{Handle, JobResult, Stored},
    job::{Job, RawJob},
    progress::ProgressWatch,
    watch::{Lost, Transition, Watch, Watched},
};
use tracing::{Instrument, Span};

use self::{handle::Kept, prepare::Prepared, sender::Sender};
use crate::{
    address::JobAddress,
    broker::{BrokerInfo, Confirm, Confirmed, Durability, DynBroker, Enqueue, Enqueued, ProcessId, on_broker},
    draft::{EnqueueStack, OnEnqueue},
    error::{Error, Result},
    inspector::{Inspector, SeenQueues},
    io::BoxFuture,
    observe::{Observe, Observed, spans},
    task::{Task, limits_of},
};
pub use crate::{broker::LONGEST, error::Pending};

/// How long the client tries an enqueue before it returns [`Error::Unknown`] or
/// [`Error::Unavailable`], unless [`with_deadline`](Client::with_deadline) sets another time.
pub const ENQUEUE_DEADLINE: Duration = Duration::from_secs(15);

/// Between two attempts of [`Client::from_env`] to reach a server.
const PAUSE: Duration = Duration::from_secs(1);

/// The URL of the queue of a program without `QUEUE_URL`. It needs the feature `sqlite`.
pub(crate) const DEFAULT_URL: &str = "sqlite://queue.db";

/// Connects an application to its queue. Cheap to clone; clones share connections and batches.
///
/// ```
/// use queue_core::prelude::*;
///
/// #[task(queue = "orders")]
/// async fn close_unpaid_order(order_id: u64) {
///     println!("closing {order_id}");
/// }
///
/// # async fn example() -> queue_core::Result<()> {
/// let queue = Client::connect("sqlite://:memory:").await?;
/// let handle = close_unpaid_order::job(17).delay(Duration::from_secs(600)).enqueue(&queue).await?;
/// assert_eq!(handle.address().queue.as_ref(), "orders");
/// # Ok(()) }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    broker: DynBroker,
    process: ProcessId,
    deadline: Duration,
    /// The durability for which an enqueue waits after the jobs are stored.
    confirm: Option<Confirm>,
    /// Whether an enqueue to a queue that no worker has ever served is refused.
    served_only: bool,
    /// The middleware that each job passes before it is encoded.
    on_enqueue: EnqueueStack,
    senders: Mutex<HashMap<Arc<str>, Arc<Sender>>>,
    /// Queues that exist.
    seen: Arc<SeenQueues>,
    /// Limits that exist: queue and name.
    limits: Mutex<HashSet<(Arc<str>, String)>>,
}

impl Inner {
    fn of(broker: DynBroker, on_enqueue: EnqueueStack) -> Self {
        Inner {
            broker,
            process: ProcessId::random(),
            deadline: ENQUEUE_DEADLINE,
            confirm: None,
            served_only: false,
            on_enqueue,
            senders: Mutex::default(),
            seen: Arc::default(),
            limits: Mutex::default(),
        }
    }
}

impl Client {
    /// Connects to the broker that a URL names, and checks its version, access and settings.
    ///
    /// | URL | broker |
    /// |---|---|
    /// | `sqlite://queue.db`, `sqlite:///var/lib/app/queue.db` | a SQLite file, created if it is missing |
    /// | `sqlite://queue.db?durability=process-crash` | the same, faster: a power loss may lose the last jobs |
    /// | `sqlite://:memory:` | SQLite in memory, for tests |
    /// | `redis://[[user]:password@]host[:port][/db]` | Redis from 7.0, or Valkey |
    /// | `redis+sentinel://[[user]:password@]host[:port],host…/service[/db]` | the master that these sentinels know |
    /// | `redis+cluster://[[user]:password@]host[:port],host…` | the cluster of these nodes |
    /// | `rediss://…`, `rediss+sentinel://…`, `rediss+cluster://…` | the same over TLS |
    ///
    /// A `redis` URL may have parameters after a `?`, separated by `&`:
    ///
    /// | parameter | meaning |
    /// |---|---|
    /// | `namespace=NAME` | prefix of all keys; it separates applications on one Redis. Default: `queue` |
    /// | `password_file=PATH` | file with the password; it is read again for every new connection |
    /// | `ca=PATH` | certificates (PEM) to trust instead of the usual ones; for `rediss` |
    /// | `cert=PATH`, `key=PATH` | the client's certificate and its key (PEM); for `rediss` |
    /// | `sentinel_user=`, `sentinel_password=`, `sentinel_password_file=` | user and password for the sentinels, if they require them |
    ///
    /// # Errors
    /// [`Error::Invalid`] for a URL that cannot be read, [`Error::FeatureOff`],
    /// [`Error::Unavailable`], [`Error::AccessDenied`], [`Error::SchemaTooNew`], and
    /// [`Error::Config`] for a broker whose settings lose jobs.
    pub async fn connect(url: &str) -> Result<Client> {
        let client = Client::open(url).await?;
        client.check().await?;
        Ok(client)
    }

    /// Connects like [`connect`](Self::connect), for programs that inspect and repair, such as the
    /// command line. If a `sqlite://` URL names a file without a database of this library, nothing
    /// is created or changed. A server that [evicts](Error::Evicts) can be inspected, too.
    ///
    /// # Errors
    /// Those of [`connect`](Self::connect) except `Evicts`, and [`Error::NoDatabase`].
    pub async fn connect_existing(url: &str) -> Result<Client> {
        let client = Client::with_broker(url::open(url, url::Missing::Refused).await?);
        match client.check().await {
            Ok(()) | Err(Error::Evicts { .. }) => Ok(client),
            Err(error) => Err(error),
        }
    }

    async fn check(&self) -> Result<()> {
        let checked = self.broker().clone();
        on_broker(self.broker(), async move { checked.check().await }).await?
    }

    /// Creates a client without checking the broker: the first call connects to the server. For a
    /// worker, which waits for a broker that cannot be reached yet.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a URL that cannot be read, [`Error::FeatureOff`]; for a SQLite file
    /// also those of [`connect`](Self::connect), since it is opened.
    pub async fn open(url: &str) -> Result<Client> {
        Ok(Client::with_broker(url::open(url, url::Missing::Made).await?))
    }

    /// Connects to the URL in the environment variable `QUEUE_URL`, or else to `sqlite://queue.db`
    /// (feature `sqlite`). While a server cannot be reached, it waits, as a worker does, and logs
    /// that it waits. To start without the server, use [`open`](Self::open) with
    /// [`url_from_env`](Self::url_from_env).
    ///
    /// # Errors
    /// Those of [`connect`](Self::connect), except for the [transient](Error::is_transient) ones.
    pub async fn from_env() -> Result<Client> {
        let client = Client::open(&Client::url_from_env()?).await?;
        let (mut waits, begun) = (false, Instant::now());
        loop {
            match client.check().await {
                Err(error) if error.is_transient() => {
                    if !waits {
                        tracing::warn!(%error, "the broker does not answer; the client retries until it answers");
                    }
                    waits = true;
                    on_broker(client.broker(), tokio::time::sleep(PAUSE)).await?;
                }
                Err(error) => return Err(error),
                Ok(()) => {
                    if waits {
                        tracing::warn!(broker = client.info().location, lasted = ?begun.elapsed(), "the broker answers again");
                    }
                    return Ok(client);
                }
            }
        }
    }

    /// The URL that [`from_env`](Self::from_env) connects to.
    ///
    /// # Errors
    /// When `QUEUE_URL` is empty or not Unicode, or is not set and the feature `sqlite` is off.
    pub fn url_from_env() -> Result<String> {
        match std::env::var("QUEUE_URL") {
            Ok(url) if url.is_empty() && cfg!(feature = "sqlite") => {
                Err(Error::invalid("QUEUE_URL", "", format!("is empty: set it to a URL, or unset it for the default, `{DEFAULT_URL}`")))
            }
            Ok(url) if url.is_empty() => {
                Err(Error::invalid("QUEUE_URL", "", "is empty: set it to a URL, such as `redis://127.0.0.1:6379`"))
            }
            Ok(url) => Ok(url),
            Err(std::env::VarError::NotPresent) if cfg!(feature = "sqlite") => Ok(DEFAULT_URL.to_owned()),
            Err(std::env::VarError::NotPresent) => Err(Error::Config(format!(
                "QUEUE_URL is not set, and its default `{DEFAULT_URL}` needs the feature `sqlite`; set QUEUE_URL, for example to \
                 `redis://127.0.0.1:6379`, or run `cargo add queue-core --features sqlite`"
            ))),
            Err(std::env::VarError::NotUnicode(_)) => {
                Err(Error::invalid("QUEUE_URL", "***", "is not Unicode; percent-encode the other bytes"))
            }
        }
    }

    /// The URL of a SQLite file: `sqlite://` and its path, with the characters that have a meaning
    /// in URLs as `%XX`.
    ///
    /// ```
    /// # use queue_core::Client;
    /// assert_eq!(Client::sqlite_url("/var/lib/shop/100%.db"), "sqlite:///var/lib/shop/100%25.db");
    /// ```
    #[cfg(feature = "sqlite")]
    pub fn sqlite_url(path: impl AsRef<std::path::Path>) -> String {
        crate::sqlite::url(path.as_ref())
    }

    /// A client of a broker that exists already.
    pub fn with_broker(broker: DynBroker) -> Client {
        let on_enqueue = EnqueueStack::by(broker.clock());
        // So that calls have spans.
        #[cfg(feature = "otel")]
        let broker = Arc::new(Observed::new(broker, ()));
        Client(Arc::new(Inner::of(broker, on_enqueue)))
    }

    /// A client of the same broker with another deadline. Default: [`ENQUEUE_DEADLINE`].
    ///
    /// Every call of this client, of its handles and of its inspector returns within the deadline
    /// plus 50 ms, in every state of the connection and the broker. An enqueue uses the whole
    /// deadline: a broker that comes back in time gets the job. A request without an answer is sent
    /// again after a third of the deadline, for the third time on another connection if it is
    /// longer than 1.5 s. After the deadline:
    ///
    /// - If the job was not sent, the enqueue returns [`Error::Unavailable`]. The job is not
    ///   stored, and will not be.
    /// - If the job was sent and has no answer, the enqueue returns [`Error::Unknown`]. The job may
    ///   be stored, now or a little later; `retry()` finds out.
    /// - [`enqueue_all`](Self::enqueue_all) applies the deadline to each of its batches, and sends
    ///   no further batch after a failed one. So it returns within the deadline after the broker's
    ///   last answer.
    /// - [`Inspector::audit`](crate::inspect::Inspector::audit) has no deadline; its time grows
    ///   with the number of jobs.
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Client {
        self.like(deadline, self.0.confirm)
    }

    /// A client of the same broker whose enqueues wait until the jobs survive `durability`, for two
    /// seconds at most. The handle reports which failures the jobs [survive](Handle::confirmed).
    /// Keep this client: each client registers its own producers.
    ///
    /// On Redis from 7.2 and on Valkey, [`PowerLoss`](crate::broker::Durability::PowerLoss) waits
    /// until the server's log is on its disk (`WAITAOF`); older servers, and servers without a log,
    /// cannot confirm it. A SQLite file that was opened with `?durability=process-crash` is synced
    /// for this enqueue.
    ///
    /// ```no_run
    /// # use queue_core::{prelude::*, broker::Durability};
    /// # #[task] async fn pay_out(order_id: u64) {}
    /// # async fn example(queue: Client) -> queue_core::Result<()> {
    /// let safe = queue.with_durability(Durability::PowerLoss);
    /// let job = pay_out::job(17).enqueue(&safe).await?;
    /// if job.confirmed().is_none_or(|confirmed| confirmed.durability < Durability::PowerLoss) {
    ///     eprintln!("{} is stored, and a loss of power could lose it", job.address());
    /// }
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn with_durability(&self, durability: Durability) -> Client {
        let replicas = self.0.confirm.map_or(0, |confirm| confirm.replicas);
        self.like(self.0.deadline, Some(Confirm { durability, replicas }))
    }

    /// A client of the same broker whose enqueues wait until this many replicas of a Redis server
    /// have the jobs (`WAIT`), for two seconds at most. The handle reports [how many replicas have
    /// confirmed them](Handle::confirmed). Jobs on a replica survive the loss of the master.
    #[must_use]
    pub fn with_replicas(&self, replicas: u32) -> Client {
        let durability = self.0.confirm.map_or(Durability::Volatile, |confirm| confirm.durability);
        self.like(self.0.deadline, Some(Confirm { durability, replicas }))
    }

    /// A client of the same broker, with this middleware around enqueues.
    pub(crate) fn with_on_enqueue(&self, last: impl OnEnqueue + 'static) -> Client {
        let mut all = self.0.on_enqueue.clone();
        all.push(last);
        self.changed(|inner| inner.on_enqueue = all)
    }

    /// A client of the same broker whose calls this observer counts and times: also those of its
    /// handles, of its [inspector](Self::inspector), and of a worker that is made with it. Default:
    /// none, and then calls go to the broker directly. Call it again for a second observer. Keep
    /// this client: each client registers its own producers.
    ///
    /// The module [`observe`](crate::observe) has an example, and an observer with counters.
    #[must_use]
    pub fn with_observer(&self, observer: impl Observe) -> Client {
        let observed = Arc::new(Observed::new(self.0.broker.clone(), observer));
        self.changed(|inner| inner.broker = observed)
    }

    /// A client of the same broker that refuses an enqueue to a queue which no worker has ever
    /// served, with [`Error::Unserved`], so a misspelled name is an error instead of a job that
    /// waits forever. Without it the log has a warning.
    ///
    /// The check runs when the client first uses a queue. Start the workers of a new queue before
    /// its producers.
    ///
    /// ```
    /// # use queue_core::{Error, prelude::*};
    /// # #[task(queue = "orders")] async fn close(order_id: u64) {}
    /// # async fn example() -> queue_core::Result<()> {
    /// # let queue = Client::connect("sqlite://:memory:").await?;
    /// let queue = queue.served_queues_only();
    /// let refused = close::job(17).queue("ordres").enqueue(&queue).await;
    /// assert!(matches!(refused, Err(Error::Unserved { .. })));
    /// # Ok(()) }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    #[must_use]
    pub fn served_queues_only(&self) -> Client {
        self.changed(|inner| inner.served_only = true)
    }

    /// Sends a request of a relay once.
    ///
    /// # Errors
    /// Those of the broker, and [`Error::Ambiguous`] if the jobs are stored but not as this client
    /// [asks](Self::with_durability).
    #[doc(hidden)]
    pub async fn enqueue_relayed(&self, request: &Enqueue) -> Result<Vec<Enqueued>> {
        let Some(asked) = &self.0.confirm else { return self.broker().enqueue(request).await };
        let (answers, confirmed) = self.broker().enqueue_confirmed(request, asked).await?;
        if !confirmed.is(*asked) {
            let problem = format!(
                "it has not confirmed the durability `{}` with {} replicas that the client asks for, but `{}` with {}",
                asked.durability, asked.replicas, confirmed.durability, confirmed.replicas
            );
            return Err(Error::ambiguous(self.info().location, problem));
        }
        Ok(answers)
    }

    pub(crate) fn like(&self, deadline: Duration, confirm: Option<Confirm>) -> Client {
        self.changed(|inner| (inner.deadline, inner.confirm) = (deadline, confirm))
    }

    /// A client with separate producers.
    fn changed(&self, change: impl FnOnce(&mut Inner)) -> Client {
        let Inner { broker, deadline, confirm, served_only, on_enqueue, .. } = &*self.0;
        let mut inner = Inner::of(broker.clone(), on_enqueue.clone());
        (inner.deadline, inner.confirm, inner.served_only) = (*deadline, *confirm, *served_only);
        change(&mut inner);
        Client(Arc::new(inner))
    }

    /// The broker of this client.
    pub fn broker(&self) -> &DynBroker {
        &self.0.broker
    }

    /// The kind and location of the broker, for messages.
    pub fn info(&self) -> BrokerInfo {
        self.0.broker.info()
    }

    /// Lists, shows and repairs jobs and queues.
    pub fn inspector(&self) -> Inspector {
        Inspector::new(self.0.broker.clone(), self.0.deadline, self.0.seen.clone())
    }

    /// Stores a job. After `Ok`, the job runs, or an operator can read why it does not.
    ///
    /// A single call leaves at once. While calls to a queue are in flight, further calls gather and
    /// leave together.
    ///
    /// # Errors
    /// Of the job: [`Error::Invalid`], [`Error::PayloadTooLarge`], [`Error::Encode`],
    /// [`Error::IdConflict`], and [`Error::Refused`] by a [middleware](Self::with_middleware). Of
    /// the broker: [`Error::BrokerFull`] and [`Error::Unavailable`] (nothing was stored),
    /// [`Error::Unknown`] (the job may be stored; `retry()` finds out).
    pub async fn enqueue<T: Task>(&self, job: Job<T>) -> Result<Handle<T>> {
        let definition = T::definition();
        let span = spans::enqueue(definition.name, job.queue_or(definition.queue));
        let prepared = span.in_scope(|| job.prepare(definition, self.on_enqueue()));
        let kept = Kept::of(prepared.as_ref().ok().and_then(|prepared| prepared.retention), definition);
        let own = prepared.as_ref().ok().map(|prepared| prepared.address.id.clone());
        let (address, stored, confirmed) = self.enqueue_prepared(prepared, span).await?;
        let kept = own.map_or(kept, |own| kept.of_job(&own, &address.id));
        Ok(Handle::new(self.clone(), address, stored, confirmed, kept))
    }

    /// Stores many jobs, in bounded batches, as the iterator gives them. Each item gets its own
    /// answer.
    ///
    /// The iterator may borrow. It is part of the future, and so has to be `Send`; collect an
    /// iterator that is not.
    ///
    /// # Errors
    /// [`EnqueueAllError`], with the answer for every item that was taken from the iterator. After
    /// a batch that the broker refused, no further item is taken.
    pub fn enqueue_all<'a, T, I>(&'a self, jobs: I) -> BoxFuture<'a, Result<Vec<Handle<T>>, EnqueueAllError<T>>>
    where
        T: Task,
        I: IntoIterator<Item = Job<T>>,
        I::IntoIter: Send + 'a,
    {
        // Neither the future nor the data in it may name the iterator's type: inside of another
        // future, the compiler cannot prove that a future over an iterator of references is `Send`.
        Box::pin(bulk::enqueue_all(self, Box::new(jobs.into_iter())))
    }

    /// Stores a job by the name of its task. Returns which job will run, and the outcome for this
    /// one. For programs that do not have the task's type.
    ///
    /// # Errors
    /// Those of [`enqueue`](Self::enqueue).
    pub async fn enqueue_raw(&self, job: RawJob) -> Result<(JobAddress, Stored)> {
        let span = spans::enqueue(job.task(), job.its_queue());
        let prepared = span.in_scope(|| job.prepare(self.on_enqueue()));
        self.enqueue_prepared(prepared, span).await.map(|(address, stored, _)| (address, stored))
    }

    pub(crate) fn on_enqueue(&self) -> &EnqueueStack {
        &self.0.on_enqueue
    }

    /// How long a call of this client may take.
    pub(crate) fn deadline(&self) -> Duration {
        self.0.deadline
    }

    /// A handle of a job that was enqueued before, perhaps by another process.
    pub fn handle<T: Task>(&self, address: JobAddress) -> Handle<T> {
        Handle::new(self.clone(), address, Stored::Existing, None, Kept::Unknown)
    }

    /// Rejects limits that this program's tasks, the workers and the operators have not created: a
    /// job would run without them.
    pub(crate) async fn check_limits(&self, queue: &Arc<str>, names: &[String]) -> Result<()> {
        let seen = || self.0.limits.lock().unwrap_or_else(PoisonError::into_inner);
        for name in names {
            let here: Vec<&str> = limits_of(queue).collect();
            if here.contains(&name.as_str()) || seen().contains(&(queue.clone(), name.clone())) {
                continue;
            }
            let there = match self.inspector().limits(queue).await {
                // The job will be its first one.
                Err(Error::NoSuchQueue { .. }) => Vec::new(),
                there => there?,
            };
            if !there.iter().any(|limit| limit.name == *name) {
                let known = here.into_iter().chain(there.iter().map(|limit| limit.name.as_str()));
                return Err(Error::invalid("limit", name, limits::unknown(queue, name, known)));
            }
            seen().extend(there.into_iter().map(|limit| (queue.clone(), limit.name)));
        }
        Ok(())
    }

    /// Stores a job within the span of its enqueue.
    async fn enqueue_prepared(&self, prepared: Result<Prepared>, span: Span) -> Result<(JobAddress, Stored, Option<Confirmed>)> {
        let stored = async {
            let Prepared { address, job, limits, .. } = prepared?;
            self.check_limits(&address.queue, &limits).await?;
            span.record("job", tracing::field::display(&address));
            self.sender(&address.queue).enqueue(job).await?.of(address)
        };
        stored.instrument(span.clone()).await.inspect_err(|error| spans::refused(&span, error))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(&self.info().location).finish()
    }
}
