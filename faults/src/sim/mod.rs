//! The worker and the client under simulation: their real code on SQLite in memory, behind links
//! that fail, in virtual time.
//!
//! One seed decides everything: what is enqueued, which requests and replies are lost, late or
//! torn, who is cut off and who dies. Minutes of such a life take milliseconds, and the checker
//! that judges real processes judges them. What is not simulated are threads and files of brokers;
//! and futures whose order tokio leaves to chance, of which the worker has none that matters.

mod link;
mod outcomes;

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
    time::{Duration, UNIX_EPOCH},
};

use queue_core::{
    __private::SqliteBroker,
    Backoff, Client, Error, JobId, Registry,
    broker::{Broker, DynBroker, Inspect, JobState, MAX_ITEMS},
    inspect::{Inspector, RuleOf},
    topics::{Begin, Retention},
};
use queue_worker::Worker;
use tokio::{sync::oneshot, task::JoinHandle, time::Instant};

use self::link::{Link, Weather};
pub use self::outcomes::{OUTCOMES, Outcomes};
use crate::{
    bed::snapshot::{counters, listed, queues, slots, topic as topic_of},
    checker::{Lane, Snapshot, Terms, Verdict, check},
    events::{Subscriber, TOPIC},
    history::{Mark, Memory, ORIGIN_US, Operation, Phase, Recorder},
    process::{self, LIMIT, Mix, Producing},
    recording::RecordingBroker,
    work::{Deed, QUEUE, registry},
};

const LEASE_MS: u64 = 1_500;
const BACKOFF_MS: (u64, u64) = (100, 1_000);

/// Lives as hard as these take an innocent job from more workers than three before it is done.
const MAX_CRASHES: u32 = 20;

/// How long it may take until everything is done, in simulated time.
const DRAIN_MS: u64 = 120_000;

/// A request that was given up arrives within this time, or never.
const LATEST: Duration = Duration::from_secs(9);

/// What came of a life.
#[derive(Debug)]
pub struct Life {
    /// What the checker says.
    pub verdict: Verdict,
    /// What happened in it.
    pub outcomes: Outcomes,
}

/// Simulates one life.
///
/// # Panics
/// When no runtime can be had.
pub fn run(seed: u64) -> Life {
    fastrand::seed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(life(seed))
}

async fn life(seed: u64) -> Life {
    let memory = Memory::begin();
    let weather = Weather::new(seed);
    let broker = SqliteBroker::running(UNIX_EPOCH + Duration::from_micros(ORIGIN_US)).expect("a database in memory can be opened");
    let rules = Rules::ALL[usize::try_from(weather.below(4)).unwrap_or(0)];
    rules.set(&Client::with_broker(broker.clone()).inspector()).await.expect("memory answers");
    let mut world = World { broker, weather, memory, rules, workers: Vec::new(), started: 0, deadlines_us: BTreeMap::new() };
    for _ in 0..=world.weather.below(2) {
        world.start_worker();
    }
    let producers: Vec<JoinHandle<()>> = (0..=world.weather.below(2)).map(|n| world.start_producer(n)).collect();
    for _ in 0..world.weather.below(8) {
        world.something_happens().await;
    }
    world.heal().await;
    let healed = Instant::now();
    let drained = async {
        for producer in producers {
            drop(producer.await);
        }
        while !world.is_drained().await.expect("memory answers") {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let drained = tokio::time::timeout(Duration::from_millis(DRAIN_MS), drained).await.ok();
    let drained_ms = drained.map(|()| u64::try_from(healed.elapsed().as_millis()).unwrap_or(u64::MAX));
    let terms = Terms {
        lease_ms: LEASE_MS,
        backoff_ms: BACKOFF_MS,
        drain_ms: DRAIN_MS,
        max_crashes: MAX_CRASHES,
        groups: matches!(rules, Rules::OfGroups | Rules::OfLimits).then_some((GROUPS, CAP)),
        ordered: if rules == Rules::OfTopics { vec![(Subscriber::Ordered.queue(), GROUPS)] } else { Vec::new() },
        turns: rules == Rules::OfGroups,
        ..Terms::default()
    };
    // Everybody gets the time that there is to speak again.
    tokio::time::sleep_until(healed + Duration::from_millis(terms.resume_ms + 1)).await;
    let snapshot = Snapshot { drained_ms, ..world.snapshot().await.expect("memory answers") };
    world.stop().await;
    let (records, forgotten) = (world.memory.records(), world.weather.forgotten.load(Ordering::SeqCst));
    Life { verdict: check(&records, &snapshot, &terms), outcomes: outcomes::count(&records, forgotten, &world.deadlines_us) }
}

struct World {
    broker: Arc<SqliteBroker>,
    weather: Arc<Weather>,
    memory: Memory,
    rules: Rules,
    workers: Vec<Process>,
    started: u64,
    /// How long each producer tries to enqueue.
    deadlines_us: BTreeMap<String, u64>,
}

/// What the jobs of a life are subject to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rules {
    None,
    OfGroups,
    OfLimits,
    /// They are no jobs but events of a topic, which keeps few of them.
    OfTopics,
}

/// What the workers of a life with a topic serve.
const SUBSCRIBERS: [Subscriber; 3] = [Subscriber::Ordered, Subscriber::Plain, Subscriber::Late];

/// How many groups, or keys of a limit, and how many jobs of each may run.
const GROUPS: u64 = 3;
const CAP: usize = 2;

impl Rules {
    const ALL: [Rules; 4] = [Rules::None, Rules::OfGroups, Rules::OfLimits, Rules::OfTopics];

    async fn set(self, inspector: &Inspector) -> Result<(), Error> {
        let cap = u32::try_from(CAP).ok();
        match self {
            Rules::None => {}
            Rules::OfTopics => inspector.set_retention(TOPIC, Retention { count: Some(10), ..Retention::default() }).await?,
            Rules::OfGroups => drop(inspector.set_group_rule(QUEUE, &RuleOf::Others, |rule| rule.cap = cap).await?),
            Rules::OfLimits => {
                inspector.set_limit(QUEUE, LIMIT, |rule| rule.concurrency = cap).await?;
                inspector.set_limit(QUEUE, process::ALL, |rule| rule.concurrency = Some(1_000)).await?;
            }
        }
        Ok(())
    }
}

/// A simulated worker process.
struct Process {
    name: String,
    link: Arc<Link>,
    stop: Option<oneshot::Sender<()>>,
    running: JoinHandle<()>,
}

impl World {
    /// Whether nothing waits, runs, or is to be taken back.
    async fn is_drained(&self) -> Result<bool, Error> {
        let topic = self.broker.topic(TOPIC).await?;
        let (subscriptions, _) = topic_of(&self.inspector()).await?;
        for queue in queues(&subscriptions) {
            let stats = self.broker.stats(queue).await?;
            let fenced = self.broker.overdue(queue, 0, 1).await?.fenced;
            if fenced > 0 || JobState::ALL.into_iter().any(|state| !state.is_final() && stats.count(state) > 0) {
                return Ok(false);
            }
        }
        Ok(topic.iter().flat_map(|topic| &topic.subscriptions).all(|of| of.behind == Some(0)))
    }

    /// One that nothing befalls.
    fn inspector(&self) -> Inspector {
        Client::with_broker(self.broker.clone()).inspector()
    }

    async fn snapshot(&self) -> Result<Snapshot, Error> {
        let inspector = self.inspector();
        let (subscriptions, log) = topic_of(&inspector).await?;
        let (mut jobs, mut lanes) = (Vec::new(), Vec::new());
        for queue in queues(&subscriptions) {
            let (listed, seen) = listed(&inspector, queue).await?;
            jobs.extend(listed);
            let ids: Vec<JobId> = seen.into_iter().collect();
            for ids in ids.chunks(MAX_ITEMS) {
                let diagnoses = self.broker.diagnose(queue, ids).await?.into_iter().flatten();
                lanes.extend(diagnoses.filter_map(|diagnosis| {
                    let name = diagnosis.job.receipt?.rsplit_once(':')?.0.to_owned();
                    Some(Lane { name, deadline_ms: diagnosis.now_ms + diagnosis.lease_left_ms? })
                }));
            }
        }
        let counters = counters(&inspector, &subscriptions).await?;
        let slots = slots(&inspector, &subscriptions).await?;
        Ok(Snapshot { at_ms: self.broker.clock().now_ms(), jobs, lanes, subscriptions, log, slots, counters, ..Snapshot::default() })
    }

    fn recorder(&self, name: &str) -> Recorder {
        Recorder::simulated(&self.memory, name)
    }

    fn start_worker(&mut self) {
        self.started += 1;
        let name = format!("w{}", self.started);
        let (link, recorder) = (Link::new(self.broker.clone(), self.weather.clone()), self.recorder(&name));
        let broker = RecordingBroker::new(link.clone(), recorder.clone(), None);
        let concurrency = usize::try_from(1 + self.weather.below(8)).unwrap_or(1);
        let mut known = registry(false);
        if self.rules == Rules::OfTopics {
            known = Registry::empty();
            SUBSCRIBERS.iter().for_each(|subscriber| subscriber.register(&mut known));
        }
        let mut worker = Worker::new(Client::with_broker(broker as DynBroker))
            .registry(known)
            .data(recorder.clone())
            // Nothing is read outside of the simulation.
            .release("simulated")
            .concurrency(concurrency)
            .lease(Duration::from_millis(LEASE_MS))
            .grace(Duration::from_secs(2))
            .max_crashes(MAX_CRASHES)
            .backoff(Backoff { base: Duration::from_millis(BACKOFF_MS.0), max: Duration::from_millis(BACKOFF_MS.1) });
        if self.rules != Rules::OfTopics {
            worker = worker.queue(QUEUE);
        }
        recorder.note(Phase::Ok, Operation::Up { concurrency, tasks: vec!["work".to_owned()] });
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(async move {
            let ended = worker.run(async { drop(stopped.await) }).await;
            drop(ended);
        });
        self.workers.push(Process { name, link, stop: Some(stop), running });
    }

    fn start_producer(&mut self, n: u64) -> JoinHandle<()> {
        let link = Link::new(self.broker.clone(), self.weather.clone());
        let mix = Mix {
            ms: 300,
            deeds: vec![Deed::Return, Deed::Return, Deed::Fail(1), Deed::Fail(3), Deed::Panic(1), Deed::Snooze(2)],
            delayed: 4,
            given: 5,
            kept: 5,
            cancelled: 10,
            cancel_ms: 400,
            bytes: 8,
            groups: if matches!(self.rules, Rules::OfGroups | Rules::OfLimits) { GROUPS } else { 0 },
            limited: self.rules == Rules::OfLimits,
            max_attempts: 3,
            ..Mix::default()
        };
        let mix = if self.rules == Rules::OfTopics { Mix { bytes: 8, ..Mix::events(300, GROUPS) } } else { mix };
        let name = format!("p{}", n + 1);
        // Some give up before a single call is given up.
        let deadline = Duration::from_millis(500 + self.weather.below(12_000));
        self.deadlines_us.insert(name.clone(), u64::try_from(deadline.as_micros()).unwrap_or(u64::MAX));
        let producing = Producing {
            client: Client::with_broker(link as DynBroker).with_deadline(deadline),
            recorder: self.recorder(&name),
            first_key: (n + 1) << 40,
            pause: Duration::from_millis(self.weather.below(100)),
            seed: self.weather.below(u64::MAX),
            mix,
        };
        tokio::spawn(producing.run(5 + self.weather.below(20)))
    }

    /// One more thing that nobody wants.
    async fn something_happens(&mut self) {
        tokio::time::sleep(Duration::from_millis(self.weather.below(2_000))).await;
        let worker = usize::try_from(self.weather.below(self.workers.len() as u64)).unwrap_or(0);
        match self.weather.below(if self.rules == Rules::OfTopics { 6 } else { 3 }) {
            3 => self.trim().await,
            4 | 5 => self.rewind().await,
            0 => {
                self.kill(worker);
                self.start_worker();
            }
            1 => {
                let process = &self.workers[worker];
                self.harm("cut off", &process.name);
                process.link.cut.store(true, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(self.weather.below(8_000))).await;
                self.workers[worker].link.cut.store(false, Ordering::SeqCst);
            }
            _ => self.start_worker(),
        }
    }

    /// A person trims the topic; the request may not reach the broker.
    async fn trim(&mut self) {
        let link = Link::new(self.broker.clone(), self.weather.clone());
        if let Ok(trimmed) = Client::with_broker(link as DynBroker).inspector().trim_topic(TOPIC).await {
            self.recorder("driver").note(Phase::Ok, Operation::Trim { entries: trimmed.entries, lost: trimmed.lost });
        }
    }

    /// A person rewinds a subscription, and gives up after some tries.
    async fn rewind(&mut self) {
        let of = SUBSCRIBERS[usize::try_from(self.weather.below(3)).unwrap_or(0)];
        let now_ms = self.broker.clock().now_ms();
        let to = match self.weather.below(3) {
            0 => Mark::Now,
            1 => Mark::Start,
            _ => Mark::AtMs(now_ms - i64::try_from(self.weather.below(2_000)).unwrap_or(0)),
        };
        let link = Link::new(self.broker.clone(), self.weather.clone());
        let inspector = Client::with_broker(link as DynBroker).inspector();
        let tries = 1 + self.weather.below(20);
        self.rewind_with(&inspector, of, to, tries).await;
    }

    async fn rewind_with(&self, inspector: &Inspector, of: Subscriber, to: Mark, tries: u64) {
        let operation = || Operation::Rewind { subscription: of.queue(), to };
        let begin = match to {
            Mark::Now => Begin::Now,
            Mark::Start => Begin::Start,
            Mark::AtMs(at) => Begin::AtMs(at),
        };
        self.recorder("driver").note(Phase::Invoke, operation());
        let mut rewinding = inspector.rewind(TOPIC, of.name(), begin);
        for _ in 0..tries {
            if let Ok(false) = rewinding.step().await {
                self.recorder("driver").note(Phase::Ok, operation());
                return;
            }
        }
    }

    fn harm(&self, name: &str, target: &str) {
        self.recorder("driver").note(Phase::Ok, Operation::Fault { name: name.to_owned(), target: target.to_owned() });
    }

    fn kill(&mut self, worker: usize) {
        let process = self.workers.remove(worker);
        self.harm("kill", &process.name);
        process.running.abort();
        process.link.kill();
        self.recorder(&process.name).note(Phase::Ok, Operation::Down);
    }

    async fn heal(&mut self) {
        self.weather.foul.store(false, Ordering::SeqCst);
        if self.rules == Rules::OfTopics {
            // Requests that were given up have arrived by then. A subscription that somebody has
            // begun to rewind stands until it is rewound.
            tokio::time::sleep(LATEST).await;
            let inspector = self.inspector();
            let topic = inspector.topic(TOPIC).await.expect("memory answers");
            for stands in topic.into_iter().flat_map(|topic| topic.subscriptions).filter(|of| of.rewinding) {
                let of = SUBSCRIBERS.into_iter().find(|of| of.name() == stands.name).expect("it is one of these");
                self.rewind_with(&inspector, of, Mark::Start, u64::MAX).await;
            }
        }
        self.recorder("driver").note(Phase::Ok, Operation::Heal);
    }

    async fn stop(&mut self) {
        for process in &mut self.workers {
            drop(process.stop.take());
            drop(tokio::time::timeout(Duration::from_secs(60), &mut process.running).await);
        }
    }
}
