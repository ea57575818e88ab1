//! What lies between a simulated process and its broker: requests and replies are lost, late, or
//! torn.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use fastrand::Rng;
use queue_core::{
    __private::{SqliteBroker, subscription_at},
    BoxFuture, Error, JobId, Result,
    broker::{
        Announcer, Broker, BrokerInfo, CALL_DEADLINE, Change, Changed, Confirm, Confirmed, CrashRule, DueSchedules, Enqueue, Enqueued,
        Extend, Extended, Followed, Hints, Inspect, JobState, OverdueLane, OverdueLanes, ProgressReport, Reclaimed, Register, Registered,
        Rewind, Rewound, ScheduleAnswer, SetSchedule, StoredJob, Subscribe, SweepLimits, Swept, Trimmed, Turn, TurnAnswer, Wrapper,
        history::Report,
    },
};
use tokio::task::AbortHandle;

/// What all links of a simulation share.
#[derive(Debug)]
pub(super) struct Weather {
    /// Whether harm is done at all.
    pub(super) foul: AtomicBool,
    rng: Mutex<Rng>,
    /// How often a lane was told with its turn that the broker does not know it.
    pub(super) forgotten: AtomicUsize,
    /// Who listens to what.
    listeners: Mutex<BTreeMap<String, Vec<Announcer>>>,
}

impl Weather {
    pub(super) fn new(seed: u64) -> Arc<Weather> {
        Arc::new(Weather {
            foul: AtomicBool::new(true),
            rng: Mutex::new(Rng::with_seed(seed)),
            forgotten: AtomicUsize::new(0),
            listeners: Mutex::default(),
        })
    }

    /// A number below this one.
    pub(super) fn below(&self, n: u64) -> u64 {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner).u64(..n)
    }

    fn listeners(&self) -> MutexGuard<'_, BTreeMap<String, Vec<Announcer>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hints for one more listener. Tokio leaves to chance in which order the listeners of one
    /// announcer are woken: each has an announcer of its own.
    fn hints(self: &Arc<Self>, name: String, of_broker: impl FnOnce() -> Hints) -> Hints {
        let announcer = Announcer::new();
        let hints = announcer.hints();
        let mut listeners = self.listeners();
        let of_name = listeners.entry(name.clone()).or_default();
        of_name.push(announcer);
        if of_name.len() == 1 {
            let (mut heard, weather) = (of_broker(), self.clone());
            tokio::spawn(async move {
                loop {
                    let due = heard.next().await.due;
                    let mut listeners = weather.listeners();
                    let of_name = listeners.entry(name.clone()).or_default();
                    of_name.retain(Announcer::has_listeners);
                    of_name.iter().for_each(|listener| listener.announce(due));
                    if of_name.is_empty() {
                        return;
                    }
                }
            });
        }
        hints
    }
}

/// The broker of one process.
pub(super) struct Link {
    broker: Arc<SqliteBroker>,
    weather: Arc<Weather>,
    /// Whether this process reaches nobody.
    pub(super) cut: AtomicBool,
    tasks: Mutex<Vec<AbortHandle>>,
}

impl Link {
    pub(super) fn new(broker: Arc<SqliteBroker>, weather: Arc<Weather>) -> Arc<Link> {
        Arc::new(Link { broker, weather, cut: AtomicBool::new(false), tasks: Mutex::default() })
    }

    /// Ends everything that the process does on its I/O thread, at once.
    pub(super) fn kill(&self) {
        self.cut.store(true, Ordering::SeqCst);
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).drain(..).for_each(|task| task.abort());
    }

    /// Half of the listeners get no hints, so that they depend on their polls.
    fn hear(&self, name: String, hints: impl FnOnce(&SqliteBroker) -> Hints) -> Hints {
        if self.weather.below(2) == 0 { Hints::silent() } else { self.weather.hints(name, || hints(&self.broker)) }
    }

    /// Carries a request to the broker, or not, and its reply back, or not. It is carried out when
    /// it is polled.
    async fn call<T: Send + 'static>(&self, request: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
        let foul = self.weather.foul.load(Ordering::SeqCst);
        let cut = self.cut.load(Ordering::SeqCst);
        let wait = async |ms: u64| tokio::time::sleep(Duration::from_millis(self.weather.below(ms + 1))).await;
        let dice = if cut {
            90 + self.weather.below(2)
        } else if foul {
            self.weather.below(100)
        } else {
            0
        };
        match dice {
            // Refused, or lost on the way there: at once, or without a word.
            90 => {
                wait(20).await;
                Err(Error::unavailable("simulated", "refused"))
            }
            91 | 92 => {
                tokio::time::sleep(CALL_DEADLINE).await;
                Err(ambiguous())
            }
            93 => {
                wait(20).await;
                Err(ambiguous())
            }
            // Carried out, and nobody hears of it.
            94..=96 => {
                wait(20).await;
                let _ = request.await;
                wait(if dice == 94 { 5_000 } else { 20 }).await;
                Err(ambiguous())
            }
            // Given up, and carried out much later.
            97 | 98 => {
                let late = self.weather.below(8_000);
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(late)).await;
                    let _ = request.await;
                });
                wait(5_000).await;
                Err(ambiguous())
            }
            99 => {
                wait(4_000).await;
                let reply = request.await;
                wait(900).await;
                reply
            }
            _ => {
                wait(4).await;
                let reply = request.await;
                wait(4).await;
                reply
            }
        }
    }
}

fn ambiguous() -> Error {
    Error::ambiguous("simulated", format!("{CALL_DEADLINE:?} have passed"))
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("cut", &self.cut).finish_non_exhaustive()
    }
}

/// Every call of a worker or a producer meets the weather, except for `audit`, `condition` and
/// `durability`. Calls of operators do not, except for changes and rewinds: operators read
/// only after a life has ended.
impl Wrapper for Link {
    fn inner(&self) -> &dyn Broker {
        &*self.broker
    }

    fn info(&self) -> BrokerInfo {
        BrokerInfo::new("simulated", "simulated")
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.retain(|task| !task.is_finished());
        tasks.push(tokio::spawn(task).abort_handle());
    }

    async fn check(&self) -> Result<()> {
        let broker = self.broker.clone();
        self.call(async move { broker.check().await }).await
    }

    async fn register(&self, request: &Register) -> Result<Registered> {
        let (broker, request) = (self.broker.clone(), request.clone());
        self.call(async move { broker.register(&request).await }).await
    }

    async fn enqueue(&self, request: &Enqueue) -> Result<Vec<Enqueued>> {
        let (broker, request) = (self.broker.clone(), request.clone());
        self.call(async move { broker.enqueue(&request).await }).await
    }

    async fn enqueue_confirmed(&self, request: &Enqueue, confirm: &Confirm) -> Result<(Vec<Enqueued>, Confirmed)> {
        let (broker, request, confirm) = (self.broker.clone(), request.clone(), *confirm);
        self.call(async move { broker.enqueue_confirmed(&request, &confirm).await }).await
    }

    async fn turn(&self, turn: &Turn) -> Result<TurnAnswer> {
        let (broker, turn, weather) = (self.broker.clone(), turn.clone(), self.weather.clone());
        let call = async move {
            let answer = broker.turn(&turn).await;
            weather.forgotten.fetch_add(usize::from(matches!(answer, Err(Error::Forgotten(_)))), Ordering::SeqCst);
            answer
        };
        self.call(call).await
    }

    async fn has_work(&self, queue: &str) -> Result<bool> {
        let (broker, queue) = (self.broker.clone(), queue.to_owned());
        let call = async move {
            // As Redis answers: SQLite always says yes.
            let waits = [JobState::Ready, JobState::Scheduled, JobState::Retry, JobState::Parked];
            let stats = broker.stats(&queue).await?;
            Ok(subscription_at(&queue).is_some() || waits.into_iter().any(|state| stats.count(state) > 0))
        };
        self.call(call).await
    }

    /// Torn: each lane fares for itself.
    async fn extend(&self, lanes: &[Extend]) -> Vec<Result<Extended>> {
        let heartbeats = lanes.iter().map(|lane| {
            let (broker, lane) = (self.broker.clone(), [lane.clone()]);
            self.call(async move { broker.extend(&lane).await.pop().expect("an answer for each lane") })
        });
        futures_util::future::join_all(heartbeats).await
    }

    async fn overdue(&self, queue: &str, skip: usize, limit: usize) -> Result<OverdueLanes> {
        let (broker, queue) = (self.broker.clone(), queue.to_owned());
        self.call(async move { broker.overdue(&queue, skip, limit).await }).await
    }

    async fn fence(&self, queue: &str, overdue: &[OverdueLane]) -> Result<Vec<bool>> {
        let (broker, queue, overdue) = (self.broker.clone(), queue.to_owned(), overdue.to_vec());
        self.call(async move { broker.fence(&queue, &overdue).await }).await
    }

    async fn reclaim(&self, queue: &str, rule: &CrashRule) -> Result<Reclaimed> {
        let (broker, queue, rule) = (self.broker.clone(), queue.to_owned(), *rule);
        self.call(async move { broker.reclaim(&queue, &rule).await }).await
    }

    async fn sweep(&self, queue: &str, limits: &SweepLimits) -> Result<Swept> {
        let (broker, queue, limits) = (self.broker.clone(), queue.to_owned(), *limits);
        self.call(async move { broker.sweep(&queue, &limits).await }).await
    }

    async fn report(&self, report: &Report) -> Result<()> {
        let (broker, report) = (self.broker.clone(), report.clone());
        self.call(async move { broker.report(&report).await }).await
    }

    async fn due_schedules(&self, queue: &str, limit: usize) -> Result<DueSchedules> {
        let (broker, queue) = (self.broker.clone(), queue.to_owned());
        self.call(async move { broker.due_schedules(&queue, limit).await }).await
    }

    async fn set_schedule(&self, request: &SetSchedule) -> Result<ScheduleAnswer> {
        let (broker, request) = (self.broker.clone(), request.clone());
        self.call(async move { broker.set_schedule(&request).await }).await
    }

    async fn watch(&self, queue: &str, id: &JobId) -> Result<Option<StoredJob>> {
        let (broker, queue, id) = (self.broker.clone(), queue.to_owned(), id.clone());
        self.call(async move { broker.watch(&queue, &id).await }).await
    }

    async fn follow(&self, queue: &str, stands: Duration) -> Result<Followed> {
        let (broker, queue) = (self.broker.clone(), queue.to_owned());
        self.call(async move { broker.follow(&queue, stands).await }).await
    }

    async fn store_progress(&self, reported: &ProgressReport) -> Result<Vec<bool>> {
        let (broker, reported) = (self.broker.clone(), reported.clone());
        self.call(async move { broker.store_progress(&reported).await }).await
    }

    async fn subscribe(&self, request: &Subscribe) -> Result<bool> {
        let (broker, request) = (self.broker.clone(), request.clone());
        self.call(async move { broker.subscribe(&request).await }).await
    }

    async fn trim_topic(&self, topic: &str) -> Result<Trimmed> {
        let (broker, topic) = (self.broker.clone(), topic.to_owned());
        self.call(async move { broker.trim_topic(&topic).await }).await
    }

    /// A life has no schedules.
    fn tick_hints(&self, _: &str) -> Hints {
        Hints::silent()
    }

    fn watch_hints(&self, queue: &str) -> Hints {
        self.hear(format!("watch {queue}"), |broker| broker.watch_hints(queue))
    }

    fn progress_hints(&self, queue: &str, id: &JobId) -> Hints {
        self.hear(format!("progress {queue} {id}"), |broker| broker.progress_hints(queue, id))
    }

    fn ending_hints(&self, queue: &str, id: &JobId) -> Hints {
        self.hear(format!("ending {queue} {id}"), |broker| broker.ending_hints(queue, id))
    }

    fn hints(&self, queue: &str) -> Hints {
        self.hear(queue.to_owned(), |broker| broker.hints(queue))
    }

    async fn rewind(&self, request: &Rewind) -> Result<Rewound> {
        let (broker, request) = (self.broker.clone(), request.clone());
        self.call(async move { broker.rewind(&request).await }).await
    }

    async fn change(&self, queue: &str, change: Change, reason: Option<&str>, ids: &[JobId]) -> Result<Vec<Changed>> {
        let (broker, queue, reason, ids) = (self.broker.clone(), queue.to_owned(), reason.map(str::to_owned), ids.to_vec());
        self.call(async move { broker.change(&queue, change, reason.as_deref(), &ids).await }).await
    }
}

#[cfg(test)]
mod tests {
    use queue_core::broker::{Caller, VERBS};

    /// A verb that is not written here passes without weather.
    #[test]
    fn each_call_of_a_worker_or_a_producer_meets_the_weather() {
        let source = include_str!("link.rs");
        let is_calm = |name| ["audit", "condition", "durability"].contains(&name);
        let calls = VERBS.iter().filter(|verb| matches!(verb.callers[0], Caller::Worker | Caller::Producer) && !is_calm(verb.name));
        let missing: Vec<_> = calls.filter(|verb| !source.contains(&format!("async fn {}(", verb.name))).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
