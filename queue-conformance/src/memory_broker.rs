//! A broker in plain memory, without threads and with a [`Clock`] that belongs to the test: under paused time it is as fast as the
//! processor, and always does the same. It is the [`Model`] behind the trait, and passes the conformance suite like every other.
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use queue_core::{Client, broker::{DynBroker, ProcessId, Register, Turn}, prelude::*};
//! use queue_conformance::memory_broker::MemoryBroker;
//!
//! #[task(queue = "letters")]
//! async fn remind(_customer: u64) -> Result<(), std::io::Error> {
//!     Ok(())
//! }
//!
//! #[tokio::main(flavor = "current_thread", start_paused = true)]
//! async fn main() -> Result<(), queue_core::Error> {
//!     let broker: DynBroker = Arc::new(MemoryBroker::new());
//!     let job = remind::job(7).delay(Duration::from_secs(24 * 3600));
//!     job.enqueue(&Client::with_broker(broker.clone())).await?;
//!     tokio::time::advance(Duration::from_secs(24 * 3600 + 1)).await;
//!
//!     let lease = Duration::from_secs(30);
//!     let worker = broker.register(&Register::lane("letters", ProcessId::random(), lease)).await?.name;
//!     let turn = Turn::new("letters", worker, 1, lease).claim(1);
//!     assert_eq!(broker.turn(&turn).await?.deliveries.len(), 1);
//!     Ok(())
//! }
//! ```

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use queue_core::{
    BoxFuture, Error, JobId, Result,
    address::{check_address, subscription_address, subscription_at, topic_at},
    alarm::Alarm,
    broker::{
        AgingSet, Announcer, AskWorker, Audit, Broker, BrokerInfo, Change, Changed, Condition, Confirm, Confirmed, CrashRule, Damage,
        DueSchedules, Durability, DynBroker, ENTRIES_READ, EditJob, EditedJob, Enqueue, Enqueued, Extend, Extended, Followed, GroupList,
        GroupPage, GroupSet, Hints, Inspect, JobState, KeyHolder, LAST, LimitKeys, LimitSet, MAX_ITEMS, Operate, Operated, Operation,
        OverdueLane, OverdueLanes, Pauses, QueueStats, Reclaimed, Register, Registered, Remarks, Retention, Rewind, Rewound, Scan, Scanned,
        ScheduleAnswer, ScheduleList, SchedulePage, SetAging, SetGroup, SetLimit, SetPause, SetSchedule, Standing, StoredEvent, StoredJob,
        StoredLimit, StoredLimitKey, StoredPage, StoredRemarks, StoredTopic, Subscribe, SweepLimits, Swept, Transitions, Trimmed, Turn,
        TurnAnswer, UniqueKey, WorkerAsked, WorkerRecord,
        history::{FailureKind, History, HistorySpan, Report, StoredHistory},
        sealed,
    },
};
use tokio::time::Instant;

use crate::{
    Clock,
    conformance::Storage,
    model::{Model, Topic},
};

/// Handles on one memory; a clone is another process on the same.
#[derive(Clone)]
pub struct MemoryBroker {
    queues: Arc<Mutex<BTreeMap<String, Queue>>>,
    topics: Arc<Mutex<BTreeMap<String, Topic>>>,
    clock: Clock,
}

#[derive(Default)]
struct Queue {
    model: Model,
    /// One for each listener: tokio leaves to chance in which order the listeners of one are woken.
    listeners: Vec<Announcer>,
    /// The same for those who make the ticks of its schedules.
    tickers: Vec<Announcer>,
    /// The same for those who wait for the end of a job.
    watchers: Vec<(JobId, Announcer)>,
    /// The same for workers, that somebody waits for a job.
    wanted: Vec<Announcer>,
    /// The same for those who want to know what is told of a job.
    readers: Vec<(JobId, Announcer)>,
    registered: bool,
}

impl MemoryBroker {
    /// An empty one. Its clock begins with this machine's.
    pub fn new() -> MemoryBroker {
        MemoryBroker::with_clock(Clock::new())
    }

    /// An empty one with this clock.
    pub fn with_clock(clock: Clock) -> MemoryBroker {
        MemoryBroker { queues: Arc::default(), topics: Arc::default(), clock }
    }

    /// The broker's clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The state of a queue, for those who look from outside.
    pub fn model(&self, queue: &str) -> Model {
        self.lock().get(queue).map(|queue| queue.model.clone()).unwrap_or_default()
    }

    /// Copies everything that is stored, as a backup does.
    pub fn backup(&self) -> BTreeMap<String, Model> {
        self.lock().iter().map(|(name, queue)| (name.clone(), queue.model.clone())).collect()
    }

    /// Puts everything back to what it was. What came after is lost.
    pub fn restore(&self, backup: &BTreeMap<String, Model>) {
        for (name, queue) in self.lock().iter_mut() {
            queue.model = backup.get(name).cloned().unwrap_or_default();
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Queue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn topics(&self) -> MutexGuard<'_, BTreeMap<String, Topic>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the workers of a subscription that there is something to read.
    fn tell(&self, subscription: &str, topic: &str) {
        let now = self.clock.now_ms();
        if let Some(queue) = self.lock().get_mut(&subscription_address(subscription, topic)) {
            announce(&mut queue.listeners, now, now);
        }
    }

    /// One transition, at one time, and then the announcement of what it brought.
    fn transition<T>(&self, queue: &str, work: impl FnOnce(&mut Model) -> T) -> T {
        let mut queues = self.lock();
        let queue = queues.entry(queue.to_owned()).or_default();
        queue.model.now = self.clock.now_ms();
        let done = work(&mut queue.model);
        queue.model.tell_transitions();
        if let Some(at) = queue.model.take_announcement() {
            announce(&mut queue.listeners, at, queue.model.now);
        }
        if let Some(at) = queue.model.take_tick_announcement() {
            announce(&mut queue.tickers, at, queue.model.now);
        }
        if queue.model.take_watch() {
            queue.wanted.retain(Announcer::is_heard);
            queue.wanted.iter().for_each(|announcer| announcer.announce(None));
        }
        for ended in queue.model.take_endings() {
            queue.watchers.retain(|(_, announcer)| announcer.is_heard());
            queue.watchers.iter().filter(|(id, _)| *id == ended).for_each(|(_, announcer)| announcer.announce(None));
        }
        for of in queue.model.take_remarked() {
            queue.readers.retain(|(_, announcer)| announcer.is_heard());
            queue.readers.iter().filter(|(id, _)| *id == of).for_each(|(_, announcer)| announcer.announce(None));
        }
        done
    }

    fn read<T: Default>(&self, queue: &str, work: impl FnOnce(&Model) -> T) -> T {
        let now = self.clock.now_ms();
        self.lock().get_mut(queue).map_or_else(T::default, |queue| {
            queue.model.now = now;
            work(&queue.model)
        })
    }
}

fn announce(listeners: &mut Vec<Announcer>, at: i64, now: i64) {
    let wait = u64::try_from(at.saturating_sub(now)).unwrap_or(0);
    let due = (wait > 0).then(|| Instant::now().checked_add(Duration::from_millis(wait))).flatten().map(Instant::into_std);
    // Beyond all calendars: nobody has to hear of it.
    if wait == 0 || due.is_some() {
        listeners.retain(Announcer::is_heard);
        listeners.iter().for_each(|listener| listener.announce(due));
    }
}

impl Default for MemoryBroker {
    fn default() -> Self {
        MemoryBroker::new()
    }
}

impl fmt::Debug for MemoryBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBroker").finish_non_exhaustive()
    }
}

fn bounded(field: &'static str, items: usize) -> Result<()> {
    if items > MAX_ITEMS {
        let problem = format!("are more than the {MAX_ITEMS} of one request");
        return Err(Error::Invalid { field, value: items.to_string(), problem });
    }
    Ok(())
}

#[async_trait]
impl Broker for MemoryBroker {
    fn info(&self) -> BrokerInfo {
        BrokerInfo::new("memory", "memory")
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        tokio::spawn(task);
    }

    fn alarm(&self) -> Alarm {
        Alarm::default()
    }

    fn clock(&self) -> queue_core::clock::Clock {
        queue_core::clock::Clock::default()
    }

    async fn check(&self) -> Result<()> {
        Ok(())
    }

    async fn register(&self, request: &Register) -> Result<Registered> {
        check_address(&request.queue)?;
        let name = self.transition(&request.queue, |model| model.register(request, fastrand::u64(..)));
        self.lock().entry(request.queue.to_string()).or_default().registered = true;
        Ok(name)
    }

    async fn enqueue(&self, request: &Enqueue) -> Result<Vec<Enqueued>> {
        bounded("jobs", request.jobs.len())?;
        let Some(topic) = topic_at(&request.queue) else { return self.transition(&request.queue, |model| model.enqueue(request)) };
        let answers = self.transition(&request.queue, |model| model.number(request))?;
        if let Some(events) = answers {
            let names = {
                let mut topics = self.topics();
                let of = topics.entry(topic.to_owned()).or_default();
                of.publish(events, self.clock.now_ms());
                of.names()
            };
            names.iter().for_each(|name| self.tell(name, topic));
        }
        Ok(vec![Enqueued::Stored; request.jobs.len()])
    }

    async fn enqueue_confirmed(&self, request: &Enqueue, _: &Confirm) -> Result<(Vec<Enqueued>, Confirmed)> {
        Ok((self.enqueue(request).await?, Confirmed { durability: Durability::Volatile, replicas: 0 }))
    }

    async fn durability(&self) -> Result<Durability> {
        Ok(Durability::Volatile)
    }

    async fn condition(&self) -> Result<Condition> {
        Ok(Condition::default())
    }

    async fn turn(&self, turn: &Turn) -> Result<TurnAnswer> {
        bounded("finishes", turn.finishes.len())?;
        bounded("claim", turn.claim)?;
        let Some((subscription, topic)) = subscription_at(&turn.queue) else {
            return self.transition(&turn.queue, |model| model.turn(turn, None));
        };
        let mut topics = self.topics();
        self.transition(&turn.queue, |model| {
            let is_new = model.is_next(turn);
            let more = is_new && topics.get_mut(topic).is_some_and(|topic| topic.feed(subscription, model, turn.claim));
            let mut answer = model.turn(turn, None)?;
            answer.more |= more;
            Ok(answer)
        })
    }

    async fn has_work(&self, queue: &str) -> Result<bool> {
        // A subscription may have something to read.
        Ok(subscription_at(queue).is_some() || self.read(queue, Model::has_work))
    }

    async fn extend(&self, lanes: &[Extend]) -> Vec<Result<Extended>> {
        lanes.iter().map(|lane| self.transition(&lane.queue, |model| model.extend(lane))).collect()
    }

    async fn overdue(&self, queue: &str, limit: usize) -> Result<OverdueLanes> {
        Ok(self.read(queue, |model| model.overdue(limit)))
    }

    async fn fence(&self, queue: &str, lanes: &[OverdueLane]) -> Result<Vec<bool>> {
        bounded("lanes", lanes.len())?;
        Ok(self.transition(queue, |model| model.fence(lanes)))
    }

    async fn reclaim(&self, queue: &str, rule: &CrashRule) -> Result<Reclaimed> {
        Ok(self.transition(queue, |model| model.reclaim(rule)))
    }

    async fn sweep(&self, queue: &str, limits: &SweepLimits) -> Result<Swept> {
        Ok(self.transition(queue, |model| model.sweep(limits, topic_at(queue).is_some())))
    }

    async fn report(&self, report: &Report) -> Result<()> {
        report.check()?;
        self.transition(&report.queue, |model| model.report(report));
        Ok(())
    }

    async fn due_schedules(&self, queue: &str, limit: usize) -> Result<DueSchedules> {
        Ok(self.transition(queue, |model| model.due_schedules(limit.clamp(1, MAX_ITEMS))))
    }

    async fn set_schedule(&self, request: &SetSchedule) -> Result<ScheduleAnswer> {
        request.check()?;
        let answer = self.transition(&request.queue, |model| model.set_schedule(request));
        self.lock().entry(request.queue.to_string()).or_default().registered = true;
        Ok(answer)
    }

    fn hints(&self, queue: &str) -> Hints {
        let announcer = Announcer::new();
        let hints = announcer.hints();
        self.lock().entry(queue.to_owned()).or_default().listeners.push(announcer);
        hints
    }

    fn tick_hints(&self, queue: &str) -> Hints {
        let announcer = Announcer::new();
        let hints = announcer.hints();
        self.lock().entry(queue.to_owned()).or_default().tickers.push(announcer);
        hints
    }

    async fn watch(&self, queue: &str, id: &JobId) -> Result<Option<StoredJob>> {
        Ok(self.transition(queue, |model| {
            model.watch(id);
            model.jobs.get(id).map(|job| job.record(id))
        }))
    }

    fn ending_hints(&self, queue: &str, id: &JobId) -> Hints {
        let announcer = Announcer::new();
        let hints = announcer.hints();
        self.lock().entry(queue.to_owned()).or_default().watchers.push((id.clone(), announcer));
        hints
    }

    fn watch_hints(&self, queue: &str) -> Hints {
        let announcer = Announcer::new();
        let hints = announcer.hints();
        self.lock().entry(queue.to_owned()).or_default().wanted.push(announcer);
        hints
    }

    async fn remark(&self, remarks: &Remarks) -> Result<Vec<bool>> {
        bounded("jobs", remarks.jobs.len())?;
        self.transition(&remarks.queue, |model| model.remark(remarks))
    }

    fn remark_hints(&self, queue: &str, id: &JobId) -> Hints {
        let announcer = Announcer::new();
        let hints = announcer.hints();
        self.lock().entry(queue.to_owned()).or_default().readers.push((id.clone(), announcer));
        hints
    }

    async fn follow(&self, queue: &str, stands: Duration) -> Result<Followed> {
        let is_known = self.lock().get(queue).is_some_and(|queue| queue.registered);
        Ok(if is_known { self.transition(queue, |model| model.follow(stands)) } else { Followed::default() })
    }

    async fn subscribe(&self, request: &Subscribe) -> Result<bool> {
        request.check()?;
        let made = self.topics().entry(request.topic.to_string()).or_default().subscribe(request, self.clock.now_ms());
        self.tell(&request.name, &request.topic);
        Ok(made)
    }

    async fn trim_topic(&self, topic: &str) -> Result<Trimmed> {
        Ok(self.topics().get_mut(topic).map(|topic| topic.trim(self.clock.now_ms())).unwrap_or_default())
    }

    fn __sealed(&self, _: sealed::Seal) {}
}

#[async_trait]
impl Inspect for MemoryBroker {
    async fn queues(&self) -> Result<Vec<String>> {
        Ok(self.lock().iter().filter(|(name, queue)| queue.registered && topic_at(name).is_none()).map(|(name, _)| name.clone()).collect())
    }

    async fn stats(&self, queue: &str) -> Result<QueueStats> {
        Ok(self.read(queue, Model::stats))
    }

    async fn history(&self, queue: &str, span: HistorySpan) -> Result<History> {
        let now_ms = self.clock.now_ms();
        let nothing = || History::read(queue, span, StoredHistory { now_ms, ..StoredHistory::default() });
        Ok(self.lock().get_mut(queue).map_or_else(nothing, |known| {
            known.model.now = now_ms;
            known.model.history(queue, span)
        }))
    }

    async fn failures(&self, queue: &str) -> Result<Vec<FailureKind>> {
        Ok(self.read(queue, Model::failures))
    }

    async fn workers(&self, queue: &str) -> Result<Vec<WorkerRecord>> {
        Ok(self.read(queue, |model| model.workers(queue)))
    }

    async fn list(&self, queue: &str, state: JobState, offset: u64, limit: usize) -> Result<StoredPage> {
        Ok(self.read(queue, |model| {
            let all = model.ids(state);
            let from = if offset == LAST { all.len().saturating_sub(limit) } else { usize::try_from(offset).unwrap_or(usize::MAX) };
            let mut ids = all.into_iter().skip(from);
            let records = ids.by_ref().take(limit).map(|id| model.jobs[&id].record(&id).listed()).collect();
            StoredPage::new(records, ids.next().map(|_| offset + limit as u64))
        }))
    }

    async fn scan(&self, request: &Scan) -> Result<Scanned> {
        self.read(&request.queue, |model| Some(model.scan(request))).unwrap_or_else(|| Ok(Scanned::default()))
    }

    async fn show(&self, queue: &str, id: &JobId) -> Result<Option<StoredJob>> {
        Ok(self.read(queue, |model| model.jobs.get(id).map(|job| job.record(id))))
    }

    async fn transitions(&self, queue: &str, after: u64, limit: usize) -> Result<Transitions> {
        Ok(self.read(queue, |model| model.transitions(after, limit)))
    }

    async fn standing(&self, queue: &str, ids: &[JobId]) -> Result<Vec<Option<Standing>>> {
        bounded("ids", ids.len())?;
        let mut standings = self.read(queue, |model| model.standing(ids));
        standings.resize(ids.len(), None);
        Ok(standings)
    }

    async fn remarks(&self, queue: &str, id: &JobId, from: u64) -> Result<Option<StoredRemarks>> {
        Ok(self.read(queue, |model| model.remarks(id, from)))
    }

    async fn schedules(&self, queue: &str, which: &ScheduleList) -> Result<SchedulePage> {
        let now_ms = self.clock.now_ms();
        Ok(self.lock().get_mut(queue).map_or_else(
            || SchedulePage::new(now_ms, Vec::new(), None),
            |queue| {
                queue.model.now = now_ms;
                queue.model.list_schedules(which)
            },
        ))
    }

    async fn change(&self, queue: &str, change: Change, reason: Option<&str>, ids: &[JobId]) -> Result<Vec<Changed>> {
        bounded("ids", ids.len())?;
        Ok(self.transition(queue, |model| model.change(change, reason, ids)))
    }

    async fn edit(&self, request: &EditJob) -> Result<EditedJob> {
        Ok(self.transition(&request.queue, |model| model.edit(request)))
    }

    async fn key_holder(&self, queue: &str, key: &UniqueKey) -> Result<Option<KeyHolder>> {
        Ok(self.read(queue, |model| model.key_holder(key)))
    }

    async fn release_key(&self, queue: &str, key: &UniqueKey) -> Result<Option<KeyHolder>> {
        Ok(self.transition(queue, |model| model.release_key(key)))
    }

    async fn groups(&self, queue: &str, which: &GroupList) -> Result<GroupPage> {
        Ok(self.read(queue, |model| model.list_groups(which)))
    }

    async fn set_group(&self, request: &SetGroup) -> Result<GroupSet> {
        request.check()?;
        let set = self.transition(&request.queue, |model| model.set_group(request));
        self.lock().entry(request.queue.to_string()).or_default().registered = true;
        set
    }

    async fn limits(&self, queue: &str, name: Option<&str>) -> Result<Vec<StoredLimit>> {
        Ok(self.read(queue, |model| model.list_limits(name)))
    }

    async fn limit_keys(&self, queue: &str, which: &LimitKeys) -> Result<Vec<StoredLimitKey>> {
        Ok(self.read(queue, |model| model.limit_keys(which)))
    }

    async fn set_limit(&self, request: &SetLimit) -> Result<LimitSet> {
        request.check()?;
        let set = self.transition(&request.queue, |model| model.set_limit(request));
        self.lock().entry(request.queue.to_string()).or_default().registered = true;
        set
    }

    async fn set_aging(&self, request: &SetAging) -> Result<AgingSet> {
        request.check()?;
        let set = self.transition(&request.queue, |model| model.set_aging(request));
        self.lock().entry(request.queue.to_string()).or_default().registered = true;
        Ok(set)
    }

    async fn topics(&self) -> Result<Vec<String>> {
        Ok(MemoryBroker::topics(self).keys().cloned().collect())
    }

    async fn topic(&self, topic: &str) -> Result<Option<StoredTopic>> {
        Ok(MemoryBroker::topics(self).get(topic).map(|of| of.show(topic, self.clock.now_ms())))
    }

    async fn read_topic(&self, topic: &str, after: Option<&str>, limit: usize) -> Result<Vec<StoredEvent>> {
        let limit = limit.clamp(1, ENTRIES_READ);
        Ok(MemoryBroker::topics(self).get(topic).map(|of| of.read(after, limit)).unwrap_or_default())
    }

    async fn set_retention(&self, topic: &str, retention: Retention) -> Result<()> {
        retention.check()?;
        MemoryBroker::topics(self).entry(topic.to_owned()).or_default().set_retention(retention);
        Ok(())
    }

    async fn unsubscribe(&self, topic: &str, subscription: &str) -> Result<bool> {
        Ok(MemoryBroker::topics(self).get_mut(topic).is_some_and(|of| of.unsubscribe(subscription)))
    }

    async fn ask_worker(&self, request: &AskWorker) -> Result<WorkerAsked> {
        Ok(self.transition(&request.queue, |model| model.ask_worker(request)))
    }

    async fn rewind(&self, request: &Rewind) -> Result<Rewound> {
        request.check()?;
        let queue = subscription_address(&request.name, &request.topic);
        let mut topics = MemoryBroker::topics(self);
        let Some(topic) = topics.get_mut(&*request.topic) else { return Ok(Rewound::Nobody) };
        let done = self.transition(&queue, |model| topic.rewind(request, model));
        drop(topics);
        if matches!(done, Ok(Rewound::Ended)) {
            self.tell(&request.name, &request.topic);
        }
        done
    }

    async fn operations(&self, queue: &str) -> Result<Vec<Operation>> {
        Ok(self.read(queue, Model::operations))
    }

    async fn operate(&self, request: &Operate) -> Result<Operated> {
        request.check()?;
        self.transition(&request.queue, |model| model.operate(request))
    }

    async fn pauses(&self, queue: &str) -> Result<Pauses> {
        Ok(self.read(queue, Model::pauses))
    }

    async fn set_pause(&self, request: &SetPause) -> Result<()> {
        request.check()?;
        self.transition(&request.queue, |model| model.set_pause(request))
    }

    async fn audit(&self, queue: &str, how: Audit) -> Result<Vec<Damage>> {
        Ok(self.transition(queue, |model| model.audit(how)))
    }

    async fn audit_queues(&self, _: bool) -> Result<Vec<Damage>> {
        // The list of the queues is made of the queues.
        Ok(Vec::new())
    }
}

/// The memory as the conformance suite opens it.
#[derive(Debug, Default)]
pub struct Memory {
    broker: Option<MemoryBroker>,
    saved: BTreeMap<String, Model>,
}

impl Memory {
    /// An empty one.
    pub fn new() -> Self {
        Memory::default()
    }
}

#[async_trait]
impl Storage for Memory {
    async fn open(&mut self) -> DynBroker {
        Arc::new(self.broker.get_or_insert_with(MemoryBroker::new).clone())
    }

    async fn save(&mut self) {
        self.saved = self.broker.as_ref().map(MemoryBroker::backup).unwrap_or_default();
    }

    async fn restore(&mut self) {
        if let Some(broker) = &self.broker {
            broker.restore(&self.saved);
        }
    }
}
