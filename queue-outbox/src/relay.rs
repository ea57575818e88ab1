//! The relay: sends the rows of an outbox to the broker.

mod queue;

use std::{collections::BTreeMap, fmt, pin::pin, sync::Arc, time::Duration};

use futures_util::{
    FutureExt,
    future::{Either, join_all, select},
};
use queue_core::{
    Client,
    broker::{ProcessId, history::Report},
    inspect::{OutboxDepth, OutboxRecord},
};
use tokio::{sync::watch, time::Instant};

use self::queue::Queue;
use crate::{
    bell::{self, Bell},
    completion::Cleanup,
    desk::OutboxQueue,
    error::{Error, Result},
    store::{Store, Take, Taken},
};

/// The polling interval of an idle relay, with jitter. A relay that has just sent rows polls every
/// [`BUSY`] for [`AWAKE`].
const POLL: Duration = Duration::from_secs(1);
const BUSY: Duration = Duration::from_millis(20);
const AWAKE: Duration = Duration::from_secs(1);

/// The pause after an error of the database.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The maximum time for the release of the cleanup's lease at the end.
const CLEANUP_RELEASED: Duration = Duration::from_secs(1);

/// The interval at which rows are counted and reported.
const COUNT: Duration = Duration::from_secs(10);

/// The default maximum number of rows of a queue. With more rows, the outbox is full.
const MOST_ROWS: i64 = 1_000_000;

/// The maximum time for a report to the broker. Rows do not wait longer for it.
const REPORT: Duration = Duration::from_secs(2);

/// The interval at which persistent trouble is logged.
const AGAIN: Duration = Duration::from_secs(60);

/// Sends the rows of an outbox to the broker, for all of its queues. Several relays can run at
/// once, in one process or in several.
///
/// ```no_run
/// # #[cfg(feature = "sqlite")]
/// # mod example {
/// # use queue_core::Client;
/// # use queue_outbox::Relay;
/// # async fn example(shutdown: impl Future) -> Result<(), Box<dyn std::error::Error>> {
/// let queue = Client::open("redis://127.0.0.1").await?;
/// let relay = Relay::sqlite("shop.db");
/// relay.run(&queue, shutdown).await;
/// # Ok(()) }
/// # }
/// ```
pub struct Relay {
    make: Box<dyn Fn() -> Box<dyn Store> + Send + Sync>,
    what: String,
    most_rows: i64,
    max_age: Option<Duration>,
    /// The queue that receives its reports.
    home: Option<Arc<str>>,
}

/// The result of a relay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Relayed {
    /// Rows that the broker has stored now or had stored before.
    pub sent: u64,
    /// Rows that were set aside for good: the column `refused` of `queue_outbox` has the reason.
    pub refused: u64,
    /// The number of times that a row was put off, because its group was full, or because a worker
    /// of an older release does not support a feature of its job.
    pub put_off: u64,
    /// Jobs that may have been stored a second time, because the broker or the database has lost
    /// acknowledged data.
    pub perhaps_twice: u64,
}

impl Relay {
    pub(crate) fn of(what: impl Into<String>, make: impl Fn() -> Box<dyn Store> + Send + Sync + 'static) -> Self {
        Relay { make: Box::new(make), what: what.into(), most_rows: MOST_ROWS, max_age: None, home: None }
    }

    /// The store of its database.
    pub(crate) fn store(&self) -> Box<dyn Store> {
        (self.make)()
    }

    /// Refuses new rows of a queue while the outbox has more than this number of them. The relay
    /// counts every ten seconds. Default: 1,000,000.
    #[must_use]
    pub fn max_rows(mut self, rows: u32) -> Self {
        self.most_rows = rows.into();
        self
    }

    /// Refuses new rows of a queue while its oldest unsent row is older than this. The relay checks
    /// every ten seconds. Default: no bound, so that an outage of the broker refuses no transaction
    /// of the application.
    #[must_use]
    pub fn max_age(mut self, age: Duration) -> Self {
        self.max_age = Some(age);
        self
    }

    /// Reports the outbox in this queue of the broker, which is the first queue of its worker.
    #[doc(hidden)]
    #[must_use]
    pub fn reporting_in(mut self, queue: Arc<str>) -> Self {
        self.home = Some(queue);
        self
    }

    /// Sends rows until `shutdown` completes. Then it waits for at most five seconds for the
    /// answers to its requests, and releases its leases.
    ///
    /// It never fails. While the database or the broker is unavailable it tries again, and the rows
    /// wait.
    pub async fn run(&self, client: &Client, shutdown: impl Future) -> Relayed {
        let (mut cleanup, sends) = (Cleanup::new(self.store()), self.send(client, shutdown));
        let relayed = match select(pin!(sends), pin!(cleanup.run(&self.what, client))).await {
            Either::Left((relayed, _)) => relayed,
            Either::Right((never, _)) => match never {},
        };
        // If this fails, the lease of the cleanup expires.
        drop(tokio::time::timeout(CLEANUP_RELEASED, cleanup.release()).await);
        relayed
    }

    async fn send(&self, client: &Client, shutdown: impl Future) -> Relayed {
        let mut run = Run {
            store: self.store(),
            client: client.clone(),
            broker: client.info().location,
            queues: BTreeMap::new(),
            relayed: Relayed::default(),
            bell: None,
            counted: None,
            relay: self,
            process: ProcessId::random(),
            reports: 0,
        };
        let mut trouble = Trouble::default();
        let mut shutdown = pin!(shutdown);
        let mut pause = FIRST_PAUSE;
        let mut awake_until = Instant::now();
        while shutdown.as_mut().now_or_never().is_none() {
            let wait = match run.round().await {
                Ok(true) => {
                    trouble.ended(&self.what);
                    (pause, awake_until) = (FIRST_PAUSE, Instant::now() + AWAKE);
                    continue;
                }
                Ok(false) => {
                    trouble.ended(&self.what);
                    pause = FIRST_PAUSE;
                    if Instant::now() < awake_until { BUSY } else { POLL.mul_f64(0.75 + fastrand::f64() / 2.0) }
                }
                Err(error) => {
                    trouble.occurred(&self.what, &error);
                    run.lost();
                    let wait = pause.mul_f64(0.5 + fastrand::f64() / 2.0);
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    wait
                }
            };
            let woken = tokio::time::timeout(wait, run.woken());
            if let Either::Right(_) = select(pin!(woken), shutdown.as_mut()).await {
                break;
            }
        }
        let done: Vec<_> = run.queues.iter().filter_map(|(name, queue)| Some((name.as_str(), queue.done.as_ref()?))).collect();
        if let Err(error) = run.store.release(&done).await {
            tracing::debug!(%error, "cannot release the leases of the outbox; they expire");
        }
        run.relayed
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay")
            .field("database", &self.what)
            .field("most_rows", &self.most_rows)
            .field("max_age", &self.max_age)
            .finish_non_exhaustive()
    }
}

/// A running relay.
struct Run<'r> {
    relay: &'r Relay,
    store: Box<dyn Store>,
    client: Client,
    /// The location of the broker.
    broker: String,
    queues: BTreeMap<String, Queue>,
    relayed: Relayed,
    /// The identity of the database and its bell, once it was reached.
    bell: Option<(Vec<u8>, Arc<Bell>, watch::Receiver<()>)>,
    counted: Option<Instant>,
    /// The identity of the relay in its reports to the broker.
    process: ProcessId,
    reports: u64,
}

impl Run<'_> {
    /// Sends one request for each queue that has rows and can be served. Returns true if more work
    /// may be ready at once.
    async fn round(&mut self) -> Result<bool> {
        if self.bell.is_none() {
            let database = self.store.open().await?;
            let bell = bell::of(&database);
            let woken = bell.subscribe();
            self.bell = Some((database, bell, woken));
        }
        if let Some((.., woken)) = &mut self.bell {
            woken.mark_unchanged();
        }
        self.queues.values_mut().for_each(|queue| queue.has_rows = false);
        for queue in self.store.queues().await? {
            self.queues.entry(queue).or_default().has_rows = true;
        }
        self.queues.retain(|_, queue| !queue.is_idle());
        if self.counted.is_none_or(|counted| counted.elapsed() >= COUNT) {
            self.counted = Some(Instant::now());
            // Rows can be sent even if they cannot be counted.
            if let Err(error) = self.count().await {
                tracing::warn!(database = self.relay.what, %error, "the rows of the outbox cannot be counted, or their bound cannot be set; it has no bound");
                self.counted = Some(Instant::now() + AGAIN.saturating_sub(COUNT));
                self.store.disconnect();
            }
        }
        let now = Instant::now();
        for (name, queue) in &mut self.queues {
            if queue.is_due(now)
                && queue.request.is_none()
                && let Err(error) = take(self.store.as_mut(), &self.client, &self.broker, name, queue).await
            {
                met(self.store.as_mut(), name, queue, &error).await?;
            }
        }
        let sent = self.queues.iter_mut().filter(|(_, queue)| queue.is_due(now)).map(|(name, queue)| queue.send(&self.client, name));
        let sent: Vec<bool> = join_all(sent).await;
        // Names that are unknown to the broker, or that it has for another purpose.
        for (name, queue) in &mut self.queues {
            if let Some((fresh, all)) = queue.renamed.take()
                && let Some(request) = queue.request.take()
            {
                let fresh = crate::store::Name { broker: self.broker.clone(), producer: fresh };
                if let Err(error) = self.store.rename(name, &request, &fresh, all).await {
                    met(self.store.as_mut(), name, queue, &error).await?;
                }
            }
            queue.count(&mut self.relayed);
        }
        Ok(sent.into_iter().any(|sent| sent))
    }

    /// Counts the rows, marks the queues with too many or too old rows, and reports.
    async fn count(&mut self) -> Result<()> {
        let most = self.relay.most_rows;
        let mut queues = self.store.figures(most.saturating_add(1)).await?;
        for queue in &mut queues {
            let rows = queue.waiting.saturating_add(queue.refused);
            let is_old = self.relay.max_age.is_some_and(|most| queue.oldest.is_some_and(|age| age > most));
            queue.full = is_old || i64::try_from(rows).is_ok_and(|rows| rows > most);
        }
        let full: Vec<String> = queues.iter().filter(|queue| queue.full).map(|queue| queue.queue.clone()).collect();
        let marked = self.store.set_full(&full).await;
        self.report(queues).await;
        marked
    }

    /// Reports the outbox for `status`. Without an answer, the next report contains the figures.
    async fn report(&mut self, queues: Vec<OutboxQueue>) {
        let first = queues.iter().find(|queue| !queue.queue.starts_with('@')).map(|queue| queue.queue.as_str().into());
        let (Some(home), Some((database, ..))) = (self.relay.home.clone().or(first), &self.bell) else { return };
        let depth = |queue: OutboxQueue| {
            let mut depth = OutboxDepth::new(queue.queue);
            (depth.waiting, depth.refused, depth.in_flight) = (queue.waiting, queue.refused, queue.in_flight);
            (depth.oldest, depth.holder, depth.full) = (queue.oldest, queue.holder, queue.full);
            depth
        };
        let (most_rows, max_age) = (self.relay.most_rows.unsigned_abs(), self.relay.max_age);
        let record = OutboxRecord::new(database, &self.relay.what, most_rows, max_age, queues.into_iter().map(depth).collect());
        self.reports += 1;
        let report = Report::new(home, self.process, self.reports).outbox(record);
        match tokio::time::timeout(REPORT, self.client.broker().report(&report)).await {
            Ok(Ok(())) => {}
            // The requests that send rows report an unreachable broker.
            Ok(Err(error)) => tracing::debug!(%error, "cannot report the state of the outbox to the broker"),
            Err(_) => tracing::debug!("the broker has not answered the report of the outbox in time"),
        }
    }

    /// The database is unreachable. The requests in flight are read from it again later.
    fn lost(&mut self) {
        self.store.disconnect();
        self.bell = None;
        self.queues.values_mut().for_each(|queue| queue.count(&mut self.relayed));
        self.queues.clear();
    }

    /// Waits until rows were stored since the last round began.
    async fn woken(&mut self) {
        match &mut self.bell {
            Some((.., woken)) => {
                let _ = woken.changed().await;
            }
            None => std::future::pending().await,
        }
    }
}

/// The database has rejected a transaction for a queue: its row may be locked, or one of its rows
/// may be unreadable. Other queues do not wait for that. Returns an error if the database is
/// unreachable.
async fn met(store: &mut dyn Store, name: &str, queue: &mut Queue, error: &Error) -> Result<()> {
    store.disconnect();
    store.open().await?;
    queue.failed(name, error);
    Ok(())
}

/// Ends the previous request and takes the next one. Registers a new name if there is none.
async fn take(store: &mut dyn Store, client: &Client, broker: &str, name: &str, queue: &mut Queue) -> Result<()> {
    let done = queue.done.take();
    let mut fresh: Option<String> = None;
    for _ in 0..2 {
        let take = Take { queue: name, broker, name: fresh.as_deref(), done: done.as_ref().filter(|_| fresh.is_none()) };
        match store.take(&take).await? {
            Taken::Request(request) => queue.took(request),
            Taken::Nothing => {}
            Taken::Leased => queue.is_served_elsewhere(),
            Taken::NotHere(why) => queue.failed(name, &why),
            Taken::Nameless => match queue::register(client, name).await {
                Ok(producer) => {
                    fresh = Some(producer);
                    continue;
                }
                Err(error) => queue.failed(name, &error),
            },
        }
        break;
    }
    Ok(())
}

/// The present problem of the database, which is logged once and then each minute.
#[derive(Default)]
struct Trouble {
    since: Option<Instant>,
    logged: Option<Instant>,
}

impl Trouble {
    fn occurred(&mut self, what: &str, error: &dyn fmt::Display) {
        let now = Instant::now();
        self.since.get_or_insert(now);
        if self.logged.is_none_or(|logged| now >= logged + AGAIN) {
            self.logged = Some(now);
            tracing::warn!(database = what, %error, "cannot read the outbox; its jobs wait");
        }
    }

    fn ended(&mut self, what: &str) {
        if let Some(since) = self.since.take() {
            self.logged = None;
            tracing::info!(database = what, seconds = since.elapsed().as_secs(), "the outbox can be read again");
        }
    }
}
