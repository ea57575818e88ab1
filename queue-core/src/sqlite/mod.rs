//! The embedded default: a SQLite file that several processes of one machine share.
//!
//! One writer thread per process owns the connection that writes. It commits together the
//! operations that arrived during the last commit: `BEGIN IMMEDIATE`, write-ahead log,
//! `synchronous=FULL`. Reads have their own thread and snapshots. A doorbell wakes the other
//! processes within milliseconds. The states and transitions are those of Redis, in the same order;
//! `schema` describes the tables.

mod audit;
mod backup;
mod connection;
mod doors;
mod enqueue;
#[cfg(feature = "fuzz")]
pub(crate) mod fuzzed;
mod groups;
mod history;
mod inspect;
mod lease;
mod limits;
mod operation;
mod people;
mod progress;
mod schedule;
mod topic;
mod turn;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError},
    thread::JoinHandle,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;

#[cfg(unix)]
use self::connection::sockets;
use self::connection::{
    ballast::Ballast,
    condition,
    doorbell::{Bell, Listeners},
    file::{Access, Lost},
    operation::Commit,
    tx::{ending_of, progress_hint_of, ticks_of, watches_of},
    url,
    writer::Writer,
};
use crate::{
    address::{JobId, check_address},
    alarm::Alarm,
    broker::{
        Advice, Broker, BrokerInfo, Condition, Confirm, Confirmed, CrashRule, DueSchedules, Durability, Enqueue, Enqueued, Extend,
        Extended, Followed, Hints, MAX_ITEMS, OverdueLane, OverdueLanes, ProgressReport, Reclaimed, Register, Registered, ScheduleAnswer,
        SetSchedule, StoredJob, Subscribe, SweepLimits, Swept, Trimmed, Trouble, Turn, TurnAnswer, history::Report, sealed,
    },
    clock::Clock,
    error::{Error, Result},
    io::{BoxFuture, IoThread},
};

pub use self::backup::backup;
pub(crate) use self::connection::url::url;

/// A broker on a SQLite file, or in memory.
pub struct SqliteBroker {
    /// `None` only while it is dropped.
    databases: Option<Databases>,
    /// The thread of the writer, and that of the reader if there is one.
    threads: Vec<JoinHandle<()>>,
    path: Option<PathBuf>,
    lost: Lost,
    durability: Durability,
    listeners: Listeners,
    io: IoThread,
    /// Problems with the location of the file.
    advice: Vec<Advice>,
    /// Dropped after the thread that listens.
    #[cfg(unix)]
    _socket: Option<sockets::Guard>,
}

struct Databases {
    writer: Writer,
    /// The same as the writer for a database in memory, because a second connection would open
    /// another database.
    reader: Writer,
}

impl SqliteBroker {
    /// Opens the database of a `sqlite://` URL, and creates it if it is missing.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a URL or path that cannot be used, [`Error::Config`] for a file that
    /// is not a database or cannot be written, [`Error::SchemaTooNew`], [`Error::Unavailable`] when
    /// another process holds it.
    pub fn open(url: &str) -> Result<Arc<SqliteBroker>> {
        Self::at(url::target(url)?, Access::Make, Clock::default())
    }

    /// Opens the database of a `sqlite://` URL for inspection: a missing database is not created.
    ///
    /// # Errors
    /// Those of [`open`](Self::open), and [`Error::NoDatabase`].
    pub fn open_existing(url: &str) -> Result<Arc<SqliteBroker>> {
        Self::at(url::target(url)?, Access::Existing, Clock::default())
    }

    /// Opens the database at a path, and creates it if it is missing.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn open_path(path: impl AsRef<Path>) -> Result<Arc<SqliteBroker>> {
        Self::open(&url::url(path.as_ref()))
    }

    /// Opens a database in memory whose clock shows this time until [`advance`](Self::advance)
    /// moves it. It has no thread: callers run their own calls. For tests.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn frozen(at: SystemTime) -> Result<Arc<SqliteBroker>> {
        Self::at(url::target("sqlite://:memory:")?, Access::Make, Clock::frozen(at))
    }

    /// The same with a clock that shows this time now and runs like Tokio's clock, which a test can
    /// pause. Its tasks run in the runtime of its callers.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn running(at: SystemTime) -> Result<Arc<SqliteBroker>> {
        Self::at(url::target("sqlite://:memory:")?, Access::Make, Clock::running(at))
    }

    /// Moves a [frozen](Self::frozen) clock forward, and lets waiting workers check for jobs that
    /// are due now.
    pub fn advance(&self, by: Duration) {
        self.listeners.clock().advance(by);
        self.listeners.notify_all();
    }

    fn at(url::Target { path, durability }: url::Target, access: Access, clock: Clock) -> Result<Arc<SqliteBroker>> {
        let file = path.as_deref();
        let lost = Lost::default();
        // Opened first: the path of the doorbell is derived from the file's canonical path.
        let opened = connection::open(file, access, &lost)?;
        let ballast = match (file, access) {
            (None, _) => Ballast::none(),
            (Some(path), Access::Make) => Ballast::of(path),
            (Some(path), _) => Ballast::read_only(path),
        };
        let listeners = Listeners::by(clock);
        let io = IoThread::start("queue-sqlite-io")?;
        let bell = Bell::new(listeners.clone());
        let mut advice = file.map(condition::advice).unwrap_or_default();
        #[cfg(unix)]
        let (socket, bell) = match file.map(|path| sockets::listen(path, listeners.clone(), &io)) {
            Some(Ok((socket, peers))) => (Some(socket), bell.with(peers)),
            Some(Err(problem)) => {
                advice.push(condition::no_notifications(&problem));
                (None, bell)
            }
            None => (None, bell),
        };
        for Advice { problem, advice } in &advice {
            tracing::warn!(broker = opened.location, "{problem}; {advice}");
        }
        let (writer, mut threads) = if listeners.clock().is_of_test() {
            (Writer::inline(opened, bell), Vec::new())
        } else {
            let (writer, thread) = Writer::start(opened, ballast, durability, bell)?;
            (writer, vec![thread])
        };
        let reader = match file {
            Some(_) => {
                let (reader, thread) = Writer::start_reader(connection::open(file, Access::Read, &lost)?)?;
                threads.push(thread);
                reader
            }
            None => writer.clone(),
        };
        Ok(Arc::new(SqliteBroker {
            databases: Some(Databases { writer, reader }),
            threads,
            path,
            lost,
            durability,
            listeners,
            io,
            advice,
            #[cfg(unix)]
            _socket: socket,
        }))
    }

    async fn store(&self, request: &Enqueue, commit: fn(usize) -> Commit) -> Result<Vec<Enqueued>> {
        bounded("jobs", request.jobs.len())?;
        let request = request.clone();
        let bytes = request.jobs.iter().map(|job| job.envelope.len()).sum();
        let until = request.until;
        let call = self.writer().call_until(until, commit(bytes), move |tx| enqueue::enqueue(tx, &request));
        // The clock of a test may be that of its runtime.
        if self.listeners.clock().is_of_test() { call.await } else { self.io.clocked(call).await }
    }

    fn writer(&self) -> &Writer {
        &self.databases().writer
    }

    fn reader(&self) -> &Writer {
        &self.databases().reader
    }

    fn databases(&self) -> &Databases {
        self.databases.as_ref().expect("they are taken away by drop alone")
    }
}

/// Waits for the threads, so that the file is closed and its log is merged when the last handle has
/// been dropped.
impl Drop for SqliteBroker {
    fn drop(&mut self) {
        let Some(Databases { writer, reader }) = self.databases.take() else { return };
        // One after the other: if two connections close at once, each assumes that the other stays
        // open, and neither merges the log.
        drop(reader);
        let reading = self.threads.split_off(self.threads.len().min(1));
        reading.into_iter().for_each(|thread| drop(thread.join()));
        drop(writer);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

impl fmt::Debug for SqliteBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteBroker").field("path", &self.path).finish_non_exhaustive()
    }
}

/// The approximate number of bytes that a task adds to the database with a report.
const REPORT_BYTES: usize = 512;

/// The number of bytes that a mark adds to the file.
const MARK_BYTES: usize = 64;

fn bounded(what: &'static str, items: usize) -> Result<()> {
    if items > MAX_ITEMS {
        return Err(Error::invalid(what, items.to_string(), format!("are more than the {MAX_ITEMS} of one request")));
    }
    Ok(())
}

#[async_trait]
impl Broker for SqliteBroker {
    fn info(&self) -> BrokerInfo {
        BrokerInfo::new("sqlite", self.path.as_deref().map_or_else(|| ":memory:".to_owned(), |path| path.display().to_string()))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        // Another runtime has another clock.
        if self.listeners.clock().is_running() { drop(tokio::spawn(task)) } else { self.io.spawn(task) }
    }

    fn alarm(&self) -> Alarm {
        // A thread does not use Tokio's clock.
        if self.listeners.clock().is_running() { Alarm::default() } else { Alarm::exact() }
    }

    fn clock(&self) -> Clock {
        self.listeners.clock().clone()
    }

    async fn check(&self) -> Result<()> {
        self.writer().call(Commit::Soon, |tx| tx.queue("").map(drop).map_err(Into::into)).await
    }

    async fn register(&self, request: &Register) -> Result<Registered> {
        check_address(&request.queue)?;
        let (request, nonce) = (request.clone(), fastrand::u64(..));
        self.writer().call_until(request.until, Commit::Soon, move |tx| lease::register(tx, &request, nonce)).await
    }

    async fn enqueue(&self, request: &Enqueue) -> Result<Vec<Enqueued>> {
        self.store(request, Commit::Jobs).await
    }

    async fn enqueue_confirmed(&self, request: &Enqueue, confirm: &Confirm) -> Result<(Vec<Enqueued>, Confirmed)> {
        let asked = if self.path.is_some() { confirm.durability } else { Durability::Volatile };
        let durability = self.durability.max(asked);
        let commit = if durability == Durability::PowerLoss { Commit::ConfirmedJobs } else { Commit::Jobs };
        let answers = self.store(request, commit).await?;
        Ok((answers, Confirmed { durability, replicas: 0 }))
    }

    async fn durability(&self) -> Result<Durability> {
        Ok(self.durability)
    }

    async fn condition(&self) -> Result<Condition> {
        let Some(path) = self.path.clone() else { return Ok(Condition::default()) };
        // The writer runs this, so that it checks its file even when it is idle.
        let asked = self.writer().call(Commit::Soon, move |_| Ok(condition::condition(&path))).await;
        let lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match lost {
            Some(why) => Ok(Condition { trouble: Some(Trouble::Lost(why)), ..Condition::default() }),
            None => asked.map(|condition| Condition { advice: self.advice.clone(), ..condition }),
        }
    }

    async fn turn(&self, turn: &Turn) -> Result<TurnAnswer> {
        bounded("finishes", turn.finishes.len())?;
        bounded("claim", turn.claim)?;
        let turn = turn.clone();
        let commit = if turn.finishes.is_empty() { Commit::Soon } else { Commit::Synced };
        self.writer().call(commit, move |tx| turn::turn(tx, &turn)).await
    }

    async fn has_work(&self, _: &str) -> Result<bool> {
        // A check would cost as much as a turn that finds nothing.
        Ok(true)
    }

    async fn extend(&self, lanes: &[Extend]) -> Vec<Result<Extended>> {
        // All calls are sent before the first answer arrives, so they share a commit.
        let calls = lanes.iter().cloned().map(|lane| self.writer().call(Commit::Soon, move |tx| lease::extend(tx, &lane)));
        futures_util::future::join_all(calls).await
    }

    async fn overdue(&self, queue: &str, skip: usize, limit: usize) -> Result<OverdueLanes> {
        let queue = queue.to_owned();
        self.reader().call(Commit::Soon, move |tx| lease::overdue(tx, &queue, skip, limit)).await
    }

    async fn fence(&self, queue: &str, lanes: &[OverdueLane]) -> Result<Vec<bool>> {
        bounded("lanes", lanes.len())?;
        let (queue, lanes) = (queue.to_owned(), lanes.to_vec());
        self.writer().call(Commit::Soon, move |tx| lease::fence(tx, &queue, &lanes)).await
    }

    async fn reclaim(&self, queue: &str, rule: &CrashRule) -> Result<Reclaimed> {
        let (queue, rule) = (queue.to_owned(), *rule);
        self.writer().call(Commit::Soon, move |tx| lease::reclaim(tx, &queue, &rule)).await
    }

    async fn sweep(&self, queue: &str, limits: &SweepLimits) -> Result<Swept> {
        let (queue, limits) = (queue.to_owned(), *limits);
        self.writer().call(Commit::Soon, move |tx| audit::sweep(tx, &queue, &limits)).await
    }

    async fn report(&self, report: &Report) -> Result<()> {
        report.check()?;
        let (report, queue) = (report.clone(), report.queue.clone());
        let ready = self.reader().call(Commit::Soon, move |tx| history::depth(tx, &queue)).await?;
        let bytes = (report.tasks.len() + report.failures.len()) * REPORT_BYTES;
        self.writer().call(Commit::Extra(bytes), move |tx| history::report(tx, &report, ready)).await
    }

    async fn due_schedules(&self, queue: &str, limit: usize) -> Result<DueSchedules> {
        let queue = queue.to_owned();
        self.writer().call(Commit::Soon, move |tx| schedule::due(tx, &queue, limit.clamp(1, MAX_ITEMS))).await
    }

    async fn set_schedule(&self, request: &SetSchedule) -> Result<ScheduleAnswer> {
        request.check()?;
        let commit = if request.added() > 0 { Commit::Jobs(request.added()) } else { Commit::Synced };
        let request = request.clone();
        self.writer().call(commit, move |tx| schedule::set(tx, &request)).await
    }

    fn hints(&self, queue: &str) -> Hints {
        self.listeners.of(queue)
    }

    fn tick_hints(&self, queue: &str) -> Hints {
        self.listeners.of(&ticks_of(queue))
    }

    async fn watch(&self, queue: &str, id: &JobId) -> Result<Option<StoredJob>> {
        let (queue, id) = (queue.to_owned(), id.clone());
        self.writer().call(Commit::Extra(MARK_BYTES), move |tx| people::watch(tx, &queue, &id)).await
    }

    fn ending_hints(&self, queue: &str, id: &JobId) -> Hints {
        self.listeners.of(&ending_of(queue, id))
    }

    fn watch_hints(&self, queue: &str) -> Hints {
        self.listeners.of(&watches_of(queue))
    }

    async fn store_progress(&self, reported: &ProgressReport) -> Result<Vec<bool>> {
        bounded("jobs", reported.jobs.len())?;
        let reported = reported.clone();
        self.writer().call(Commit::Extra(reported.bytes()), move |tx| progress::store(tx, &reported)).await
    }

    fn progress_hints(&self, queue: &str, id: &JobId) -> Hints {
        self.listeners.of(&progress_hint_of(queue, id))
    }

    async fn follow(&self, queue: &str, valid_for: Duration) -> Result<Followed> {
        let queue = queue.to_owned();
        self.writer().call(Commit::Extra(MARK_BYTES), move |tx| people::follow(tx, &queue, valid_for)).await
    }

    async fn subscribe(&self, request: &Subscribe) -> Result<bool> {
        request.check()?;
        let request = request.clone();
        self.writer().call(Commit::Synced, move |tx| topic::subscribe(tx, &request)).await
    }

    async fn trim_topic(&self, topic: &str) -> Result<Trimmed> {
        let topic = topic.to_owned();
        self.writer().call(Commit::Soon, move |tx| topic::trim(tx, &topic)).await
    }

    fn __sealed(&self, _: sealed::Seal) {}
}
