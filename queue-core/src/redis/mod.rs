//! Redis from 7.0 and Valkey: one server, a master that sentinels monitor, or a cluster.
//!
//! Every transition is one script, which reads and checks before it writes. A script recognizes a
//! replay of a request and repeats its answer. `keys` describes the data. `link` supervises
//! connections and handles broken, silent and demoted servers. `servers` finds the server that
//! holds a queue, with `sentinel` and `cluster`. If a request may have been carried out, its caller
//! decides whether it is sent again. Each server has one connection for requests, one for
//! heartbeats, and one for announcements.

mod audit;
mod connection;
mod enqueue;
#[cfg(feature = "fuzz")]
pub(crate) mod fuzz;
mod groups;
mod history;
mod keys;
mod lease;
mod limits;
mod operation;
mod people;
mod progress;
mod schedule;
mod script;
mod topic;
mod turn;
mod values;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use redis::{Cmd, Value};

use self::{
    connection::{
        hints::Announcements,
        misfits,
        servers::{Purpose, Servers},
        url,
    },
    keys::Keys,
    script::{KEYS, REMOVE_QUEUE, Script},
    turn::KnownQueues,
    values::{array, bytes, ms, next, text},
};
use crate::{
    address::{JobId, check_queue},
    alarm::Alarm,
    broker::{
        AgingSet, AskWorker, Audit, Broker, BrokerInfo, Change, Changed, Condition, Confirm, Confirmed, CrashRule, Damage, Diagnosis,
        DueSchedules, Durability, EditJob, EditedJob, Enqueue, Enqueued, Extend, Extended, Followed, GroupList, GroupPage, GroupSet, Hints,
        Inspect, JobState, KeyHolder, KeyPage, LimitKeys, LimitSet, MAX_ITEMS, Operate, Operated, Operation, OverdueLane, OverdueLanes,
        Pauses, ProgressAndLog, ProgressReport, QueueStats, Reclaimed, Register, Registered, Retention, Rewind, Rewound, Scan, Scanned,
        ScheduleAnswer, ScheduleList, SchedulePage, SetAging, SetGroup, SetLimit, SetPause, SetSchedule, StoredEvent, StoredJob,
        StoredLimit, StoredLimitKey, StoredPage, StoredTopic, Subscribe, SweepLimits, Swept, Transitions, Trimmed, Turn, TurnAnswer,
        UniqueKey, WorkerAsked, WorkerRecord,
        history::{FailurePattern, History, HistorySpan, Report},
        sealed,
    },
    clock::Clock,
    error::{Error, Result},
    io::{BoxFuture, IoThread},
};

/// The schema that this library writes.
const SCHEMA: u64 = 1;

/// A broker on Redis or Valkey.
pub struct RedisBroker {
    location: Arc<str>,
    keys: Keys,
    servers: Arc<Servers>,
    announcements: Arc<Announcements>,
    known: KnownQueues,
    io: IoThread,
}

impl RedisBroker {
    /// A broker on the servers of a `redis://`, `redis+sentinel://` or `redis+cluster://` URL
    /// (`rediss` for TLS). The first call connects, or [`check`](Broker::check).
    ///
    /// # Errors
    /// [`Error::Invalid`] for a URL that cannot be read, [`Error::FeatureOff`].
    pub async fn connect(url: &str) -> Result<Arc<RedisBroker>> {
        Self::connected(url, false).await
    }

    /// For tests: calls never use the plain scripts.
    ///
    /// # Errors
    /// Those of [`connect`](Self::connect).
    #[doc(hidden)]
    pub async fn __by_full_scripts(url: &str) -> Result<Arc<RedisBroker>> {
        Self::connected(url, true).await
    }

    async fn connected(url: &str, full: bool) -> Result<Arc<RedisBroker>> {
        let target = url::target(url)?;
        let io = IoThread::start("queue-redis-io")?;
        let location: Arc<str> = target.location.into();
        let keys = Keys::new(&target.namespace);
        let servers = Arc::new(Servers::start(keys.clone(), target.engine, &location, &io)?);
        let announcements = Announcements::start(servers.clone(), keys.clone(), &io);
        Ok(Arc::new(RedisBroker { location, keys, servers, announcements, known: KnownQueues::new(full), io }))
    }

    /// Calls a script on the connection for heartbeats.
    async fn script(&self, queue: &str, script: &Script, call: Cmd) -> Result<Value> {
        self.servers.script(Purpose::Heartbeats, queue, script, call).await
    }

    /// Sends a read command of a queue on the connection for heartbeats.
    async fn read(&self, queue: &str, command: &Cmd) -> Result<Value> {
        self.servers.command(Purpose::Heartbeats, queue, command).await
    }
}

impl fmt::Debug for RedisBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisBroker").field("location", &self.location).finish_non_exhaustive()
    }
}

fn bounded(what: &'static str, items: usize) -> Result<()> {
    if items > MAX_ITEMS {
        return Err(Error::invalid(what, items.to_string(), format!("are more than the {MAX_ITEMS} of one request")));
    }
    Ok(())
}

#[async_trait]
impl Broker for RedisBroker {
    fn info(&self) -> BrokerInfo {
        BrokerInfo::new("redis", &*self.location)
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.io.spawn(task);
    }

    fn alarm(&self) -> Alarm {
        Alarm::exact()
    }

    fn clock(&self) -> Clock {
        Clock::default()
    }

    async fn check(&self) -> Result<()> {
        self.servers.check().await
    }

    async fn register(&self, request: &Register) -> Result<Registered> {
        lease::register(self, request).await
    }

    async fn enqueue(&self, request: &Enqueue) -> Result<Vec<Enqueued>> {
        enqueue::enqueue(self, request).await
    }

    async fn enqueue_confirmed(&self, request: &Enqueue, confirm: &Confirm) -> Result<(Vec<Enqueued>, Confirmed)> {
        enqueue::enqueue_confirmed(self, request, confirm).await
    }

    async fn durability(&self) -> Result<Durability> {
        self.servers.durability().await
    }

    async fn condition(&self) -> Result<Condition> {
        self.servers.condition().await
    }

    async fn turn(&self, turn: &Turn) -> Result<TurnAnswer> {
        bounded("finishes", turn.finishes.len())?;
        bounded("claim", turn.claim)?;
        turn::turn(self, turn).await
    }

    async fn has_work(&self, queue: &str) -> Result<bool> {
        turn::has_work(self, queue).await
    }

    async fn extend(&self, lanes: &[Extend]) -> Vec<Result<Extended>> {
        lease::extend(self, lanes).await
    }

    async fn overdue(&self, queue: &str, skip: usize, limit: usize) -> Result<OverdueLanes> {
        lease::overdue(self, queue, skip, limit).await
    }

    async fn fence(&self, queue: &str, lanes: &[OverdueLane]) -> Result<Vec<bool>> {
        lease::fence(self, queue, lanes).await
    }

    async fn reclaim(&self, queue: &str, rule: &CrashRule) -> Result<Reclaimed> {
        lease::sweep(self, queue, rule).await
    }

    async fn sweep(&self, queue: &str, limits: &SweepLimits) -> Result<Swept> {
        audit::sweep(self, queue, limits).await
    }

    async fn report(&self, report: &Report) -> Result<()> {
        history::report(self, report).await
    }

    async fn due_schedules(&self, queue: &str, limit: usize) -> Result<DueSchedules> {
        schedule::due(self, queue, limit).await
    }

    async fn set_schedule(&self, request: &SetSchedule) -> Result<ScheduleAnswer> {
        schedule::set(self, request).await
    }

    fn hints(&self, queue: &str) -> Hints {
        self.announcements.of(queue)
    }

    fn tick_hints(&self, queue: &str) -> Hints {
        self.announcements.ticks_of(queue)
    }

    async fn watch(&self, queue: &str, id: &JobId) -> Result<Option<StoredJob>> {
        people::watch(self, queue, id).await
    }

    fn ending_hints(&self, queue: &str, id: &JobId) -> Hints {
        self.announcements.endings_of(queue, id)
    }

    fn watch_hints(&self, queue: &str) -> Hints {
        self.announcements.watches_of(queue)
    }

    async fn store_progress(&self, reported: &ProgressReport) -> Result<Vec<bool>> {
        progress::store(self, reported).await
    }

    fn progress_hints(&self, queue: &str, id: &JobId) -> Hints {
        self.announcements.progress_hint_of(queue, id)
    }

    async fn follow(&self, queue: &str, valid_for: Duration) -> Result<Followed> {
        people::follow(self, queue, valid_for).await
    }

    async fn subscribe(&self, request: &Subscribe) -> Result<bool> {
        topic::subscribe(self, request).await
    }

    async fn trim_topic(&self, topic: &str) -> Result<Trimmed> {
        topic::trim(self, topic).await
    }

    fn __sealed(&self, _: sealed::Seal) {}
}

#[async_trait]
impl Inspect for RedisBroker {
    async fn queues(&self) -> Result<Vec<String>> {
        people::queues(self).await
    }

    async fn stats(&self, queue: &str) -> Result<QueueStats> {
        people::stats(self, queue).await
    }

    async fn history(&self, queue: &str, span: HistorySpan) -> Result<History> {
        history::history(self, queue, span).await
    }

    async fn failures(&self, queue: &str) -> Result<Vec<FailurePattern>> {
        history::failures(self, queue).await
    }

    async fn workers(&self, queue: &str) -> Result<Vec<WorkerRecord>> {
        people::workers(self, queue).await
    }

    async fn list(&self, queue: &str, state: JobState, offset: u64, limit: usize) -> Result<StoredPage> {
        people::list(self, queue, state, offset, limit.clamp(1, MAX_ITEMS)).await
    }

    async fn scan(&self, request: &Scan) -> Result<Scanned> {
        people::scan(self, request).await
    }

    async fn show(&self, queue: &str, id: &JobId) -> Result<Option<StoredJob>> {
        Ok(people::show(self, queue, std::slice::from_ref(id)).await?.pop())
    }

    async fn diagnose(&self, queue: &str, ids: &[JobId]) -> Result<Vec<Option<Diagnosis>>> {
        people::diagnose(self, queue, ids).await
    }

    async fn progress_and_log(&self, queue: &str, id: &JobId, from: u64) -> Result<Option<ProgressAndLog>> {
        progress::read(self, queue, id, from).await
    }

    async fn schedules(&self, queue: &str, which: &ScheduleList) -> Result<SchedulePage> {
        schedule::list(self, queue, which).await
    }

    async fn change(&self, queue: &str, change: Change, reason: Option<&str>, ids: &[JobId]) -> Result<Vec<Changed>> {
        people::change(self, queue, change, reason, ids).await
    }

    async fn key_holder(&self, queue: &str, key: &UniqueKey) -> Result<Option<KeyHolder>> {
        people::key_holder(self, queue, key, false).await
    }

    async fn keys(&self, queue: &str, after: Option<&str>, limit: usize) -> Result<KeyPage> {
        let after = after.unwrap_or("0");
        let cursor: u64 = after.parse().map_err(|_| Error::invalid("cursor", after, "is not a cursor of this broker"))?;
        let mut call = KEYS.call(&self.keys, queue);
        call.arg(cursor).arg(limit.clamp(1, MAX_ITEMS));
        let mut values = array(self.script(queue, &KEYS, call).await?)?.into_iter();
        let mut page = KeyPage { next: Some(text(next(&mut values)?)?).filter(|next| next != "0"), ..KeyPage::default() };
        while let Some(key) = values.next() {
            let mut holder = KeyHolder::new(JobId::from_bytes(&bytes(next(&mut values)?)?)?);
            holder.until_ms = text(next(&mut values)?)?.parse().ok();
            holder.next = Some(bytes(next(&mut values)?)?).filter(|id| !id.is_empty()).map(|id| JobId::from_bytes(&id)).transpose()?;
            page.keys.extend(UniqueKey::from_bytes(&bytes(key)?).map(|key| (key, holder)));
        }
        Ok(page)
    }

    async fn edit(&self, request: &EditJob) -> Result<EditedJob> {
        people::edit(self, request).await
    }

    async fn release_key(&self, queue: &str, key: &UniqueKey) -> Result<Option<KeyHolder>> {
        people::key_holder(self, queue, key, true).await
    }

    async fn audit(&self, queue: &str, how: Audit) -> Result<Vec<Damage>> {
        check_queue(queue)?;
        audit::audit(self, queue, how).await
    }

    async fn audit_queues(&self, repair: bool) -> Result<Vec<Damage>> {
        misfits::audit_registry(self, repair).await
    }

    async fn remove_queue(&self, queue: &str) -> Result<Vec<String>> {
        check_queue(queue)?;
        let mut call = REMOVE_QUEUE.call(&self.keys, queue);
        call.arg(ms(SweepLimits::default().remembered));
        let used = self.script(queue, &REMOVE_QUEUE, call).await?;
        let used: Vec<String> = array(used)?.into_iter().map(text).collect::<Result<_>>()?;
        if used.is_empty() {
            let registry = self.keys.queues();
            self.servers.command(Purpose::Heartbeats, &registry, redis::cmd("SREM").arg(&registry).arg(queue)).await?;
            // A caller that registered in the meantime has found the name on the list. If it
            // registers only now, the name is missing until the next registration, or until a
            // worker of the queue audits it.
            self.restore_registration(queue).await?;
        }
        Ok(used)
    }

    async fn groups(&self, queue: &str, which: &GroupList) -> Result<GroupPage> {
        groups::list(self, queue, which).await
    }

    async fn set_group(&self, request: &SetGroup) -> Result<GroupSet> {
        groups::set(self, request).await
    }

    async fn limits(&self, queue: &str, name: Option<&str>) -> Result<Vec<StoredLimit>> {
        limits::list(self, queue, name).await
    }

    async fn limit_keys(&self, queue: &str, which: &LimitKeys) -> Result<Vec<StoredLimitKey>> {
        limits::keys(self, queue, which).await
    }

    async fn set_limit(&self, request: &SetLimit) -> Result<LimitSet> {
        limits::set(self, request).await
    }

    async fn set_aging(&self, request: &SetAging) -> Result<AgingSet> {
        people::set_aging(self, request).await
    }

    async fn topics(&self) -> Result<Vec<String>> {
        topic::list(self).await
    }

    async fn topic(&self, topic: &str) -> Result<Option<StoredTopic>> {
        topic::show(self, topic).await
    }

    async fn read_topic(&self, topic: &str, after: Option<&str>, limit: usize) -> Result<Vec<StoredEvent>> {
        topic::read(self, topic, after, limit).await
    }

    async fn set_retention(&self, topic: &str, retention: Retention) -> Result<()> {
        topic::set_retention(self, topic, retention).await
    }

    async fn unsubscribe(&self, topic: &str, subscription: &str) -> Result<bool> {
        topic::unsubscribe(self, topic, subscription).await
    }

    async fn ask_worker(&self, request: &AskWorker) -> Result<WorkerAsked> {
        people::ask_worker(self, request).await
    }

    async fn rewind(&self, request: &Rewind) -> Result<Rewound> {
        topic::rewind(self, request).await
    }

    async fn transitions(&self, queue: &str, after: u64, limit: usize) -> Result<Transitions> {
        people::transitions(self, queue, after, limit).await
    }

    async fn operations(&self, queue: &str) -> Result<Vec<Operation>> {
        operation::operations(self, queue).await
    }

    async fn operate(&self, request: &Operate) -> Result<Operated> {
        operation::operate(self, request).await
    }

    async fn pauses(&self, queue: &str) -> Result<Pauses> {
        people::pauses(self, queue).await
    }

    async fn set_pause(&self, request: &SetPause) -> Result<()> {
        people::set_pause(self, request).await
    }
}
