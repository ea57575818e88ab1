//! A queue in which every key holds something, and copies of it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use queue_conformance::{Changes as _, conformance::eventually};
use queue_core::{
    __private::{Envelope, RedisBroker},
    JobId,
    broker::{
        CrashRule, Delivery, Due, DynBroker, Ending, Enqueue, Extend, FOLLOWED, NewJob, Operate, OperationDeed, OperationKind, PartyName,
        Priority, ProcessId, Register, StartOperation, Turn, WorkerLoad,
    },
};
use queue_tests::server::{self, Server};
use redis::aio::MultiplexedConnection;

/// A lease that no case outlives.
pub(crate) const LONG: Duration = Duration::from_secs(600);

/// The task of parked jobs.
pub(crate) const UNKNOWN: &str = "unknown";

/// Nobody is buried for crashes here.
pub(crate) const RULE: CrashRule = CrashRule { max_crashes: 1000, tasks: &[], window: LONG, delay: Duration::ZERO };

/// What lies in the queue, by names that cases use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contents {
    /// Every job that has not ended.
    pub(crate) pending: BTreeMap<String, JobId>,
    /// Jobs that have, and are kept.
    pub(crate) ended: BTreeMap<String, JobId>,
    /// Deliveries of the lane that lives.
    pub(crate) held: BTreeMap<String, Delivery>,
}

/// The queue as it should be, of which each case gets a copy.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) queue: String,
    /// The keys that exist, without what they begin with, where there are keys.
    pub(crate) kinds: Vec<String>,
    pub(crate) contents: Contents,
    lane: PartyName,
    answered: u64,
    producer: PartyName,
    stored: u64,
}

/// One case's queue.
pub(crate) struct Case {
    pub(crate) broker: DynBroker,
    pub(crate) queue: Arc<str>,
    pub(crate) scene: Arc<Scene>,
}

/// Whoever has the data in his hands, past the broker.
#[async_trait]
pub(crate) trait Hands: Send {
    /// All leases are over.
    async fn end_leases(&mut self, case: &Case);

    /// Everything that waits for its time is due.
    async fn make_due(&mut self, case: &Case);
}

/// The hand at the server's command line.
pub(crate) struct Keeper {
    pub(crate) connection: MultiplexedConnection,
}

#[async_trait]
impl Hands for Keeper {
    async fn end_leases(&mut self, case: &Case) {
        self.set_scores(case, "leases").await;
    }

    async fn make_due(&mut self, case: &Case) {
        self.set_scores(case, "scheduled").await;
        self.set_scores(case, "retry").await;
    }
}

impl Keeper {
    pub(crate) async fn new(server: &Server) -> Keeper {
        Keeper { connection: server::connect(&server.url()).await }
    }

    pub(crate) async fn ask<T: redis::FromRedisValue>(&mut self, command: &redis::Cmd) -> T {
        command.query_async(&mut self.connection).await.expect("the server answers")
    }

    /// Gives everything in a sorted set the score 1.
    async fn set_scores(&mut self, case: &Case, kind: &str) {
        let key = case.key(kind);
        let members: Vec<Vec<u8>> = self.ask(redis::cmd("ZRANGE").arg(&key).arg(0).arg(-1)).await;
        if !members.is_empty() {
            let mut command = redis::cmd("ZADD");
            command.arg(key);
            for member in members {
                command.arg(1).arg(member);
            }
            self.ask::<i64>(&command).await;
        }
    }

    /// All that is stored of a queue.
    pub(crate) async fn digest(&mut self, case: &Case) -> String {
        const ALL: &str = "
            local keys = redis.call('KEYS', ARGV[1])
            table.sort(keys)
            for at, key in ipairs(keys) do keys[at] = key .. redis.sha1hex(redis.call('DUMP', key)) end
            return table.concat(keys, ' ')";
        self.ask(redis::cmd("EVAL").arg(ALL).arg(0).arg(case.key("*"))).await
    }

    pub(crate) async fn remove(&mut self, case: &Case) {
        let keys: Vec<String> = case.scene.kinds.iter().map(|kind| case.key(kind)).collect();
        self.ask::<i64>(redis::cmd("UNLINK").arg(keys)).await;
    }
}

impl Case {
    pub(crate) fn key(&self, kind: &str) -> String {
        key(&self.queue, kind)
    }

    pub(crate) fn id(&self, name: &str) -> JobId {
        let contents = &self.scene.contents;
        contents.pending.get(name).or_else(|| contents.ended.get(name)).unwrap_or_else(|| panic!("there is no job {name}")).clone()
    }

    /// The next turn of the lane that lives.
    pub(crate) fn turn(&self) -> Turn {
        Turn::new(self.queue.clone(), self.scene.lane.clone(), self.scene.answered + 1, LONG)
    }

    /// Its last turn, once more.
    pub(crate) fn last_turn(&self) -> Turn {
        Turn::new(self.queue.clone(), self.scene.lane.clone(), self.scene.answered, LONG)
    }

    pub(crate) fn enqueue(&self, jobs: Vec<NewJob>) -> Enqueue {
        Enqueue::new(self.queue.clone(), self.scene.producer.clone(), self.scene.stored + 1, jobs)
    }

    pub(crate) fn heartbeat(&self) -> Extend {
        Extend::new(self.queue.clone(), self.scene.lane.clone(), self.scene.answered, LONG).with_load(WorkerLoad::new(1, 2))
    }
}

fn key(queue: &str, kind: &str) -> String {
    format!("queue:{{{queue}}}:{kind}")
}

pub(crate) fn job(text: &str) -> NewJob {
    NewJob::new(JobId::make(), envelope(text))
}

pub(crate) fn given(id: &str, text: &str) -> NewJob {
    let mut job = NewJob::new(JobId::given(id).expect("it is a name"), envelope(text));
    job.digest = Envelope::decode(&job.envelope).expect("it was just encoded").digest();
    job
}

fn envelope(text: &str) -> Vec<u8> {
    Envelope::new("a.task", text.as_bytes()).encode().expect("it is small")
}

/// The same of a job with tags.
fn tagged(text: &str) -> Vec<u8> {
    let mut envelope = Envelope::new("a.task", text.as_bytes());
    envelope.tags = [("name", text), ("scene", "corrupt")].map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    envelope.encode().expect("it is small")
}

/// A lane, and how far it is.
struct Hand {
    name: PartyName,
    answered: u64,
}

struct Builder {
    broker: DynBroker,
    queue: String,
    producer: Hand,
    contents: Contents,
}

impl Builder {
    async fn lane(&self, lease: Duration) -> Hand {
        let request = Register::lane(self.queue.as_str(), ProcessId::random(), lease);
        Hand { name: self.broker.register(&request).await.expect("a lane registers").name, answered: 0 }
    }

    async fn put(&mut self, name: &str, job: NewJob) {
        self.contents.pending.insert(name.to_owned(), job.id.clone());
        self.producer.answered += 1;
        let request = Enqueue::new(self.queue.as_str(), self.producer.name.clone(), self.producer.answered, vec![job]);
        self.broker.enqueue(&request).await.expect("a job is stored");
    }

    async fn turn(&self, lane: &mut Hand, lease: Duration, claim: usize, end: Option<(&Delivery, Ending)>) -> Vec<Delivery> {
        lane.answered += 1;
        let mut turn = Turn::new(self.queue.as_str(), lane.name.clone(), lane.answered, lease).claim(claim);
        turn.suspect = false;
        turn.finishes = end.into_iter().map(|(delivery, ending)| super::deeds::finish(delivery, ending)).collect();
        let answer = self.broker.turn(&turn).await.expect("a turn is answered");
        assert!(answer.stale.is_empty());
        answer.deliveries
    }

    /// Puts a job, and claims it: nothing else is ready by then.
    async fn claimed(&mut self, lane: &mut Hand, lease: Duration, name: &str, job: NewJob) -> Delivery {
        self.put(name, job).await;
        let mut claimed = self.turn(lane, lease, 1, None).await;
        assert_eq!(claimed.len(), 1, "{name}");
        claimed.remove(0)
    }

    async fn ended(&mut self, lane: &mut Hand, name: &str, job: NewJob, ending: Ending) {
        let delivery = self.claimed(lane, LONG, name, job).await;
        self.turn(lane, LONG, 0, Some((&delivery, ending))).await;
    }

    /// Fences the one lane whose lease is over.
    async fn fence(&self, lane: &Hand) {
        let suspect = eventually("its lease ends", async || {
            let expired = self.broker.overdue(&self.queue, 0, 10).await.expect("suspects are named").expired;
            expired.into_iter().find(|seen| seen.name == lane.name)
        })
        .await;
        assert_eq!(self.broker.fence(&self.queue, &[suspect]).await.expect("a lane is fenced"), [true]);
    }
}

impl Scene {
    /// On a server.
    pub(crate) async fn build(server: &Server) -> Arc<Scene> {
        let broker: DynBroker = RedisBroker::connect(&server.url()).await.expect("the server is there");
        let mut scene = Scene::build_on(&broker).await;
        let begin = key(&scene.queue, "");
        scene.kinds = Keeper::new(server).await.ask(redis::cmd("KEYS").arg("queue:{scene}:*")).await;
        scene.kinds.iter_mut().for_each(|kind| *kind = kind[begin.len()..].to_owned());
        scene.kinds.sort();
        Arc::new(scene)
    }

    /// On any broker.
    pub(crate) async fn build_on(broker: &DynBroker) -> Scene {
        const SHORT: Duration = Duration::from_millis(1);
        let queue = "scene".to_owned();
        let request = Register::producer(queue.as_str(), ProcessId::random());
        let producer = Hand { name: broker.register(&request).await.expect("a producer registers").name, answered: 0 };
        let mut builder = Builder { broker: broker.clone(), queue: queue.clone(), producer, contents: Contents::default() };

        // One that was held when its process died, ready again among the suspects.
        let mut dying = builder.lane(SHORT).await;
        builder.claimed(&mut dying, SHORT, "suspect", job("suspect")).await;
        builder.fence(&dying).await;
        broker.reclaim(&queue, &RULE).await.expect("a sweep is answered");
        let mut lane = builder.lane(LONG).await;
        builder.turn(&mut lane, LONG, 0, None).await;
        let heartbeat = Extend::new(builder.queue.as_str(), lane.name.clone(), lane.answered, LONG).with_load(WorkerLoad::new(1, 2));
        builder.broker.extend(&[heartbeat]).await.remove(0).expect("a heartbeat is taken");
        // A lane that is fenced and not swept, and one whose lease is over.
        let mut fenced = builder.lane(SHORT).await;
        builder.claimed(&mut fenced, SHORT, "fenced", job("fenced")).await;
        builder.fence(&fenced).await;
        let mut over = builder.lane(SHORT).await;
        builder.claimed(&mut over, SHORT, "over", job("over")).await;

        let error = || "it failed".to_owned();
        let keep = Ending::Ack { result: Some(vec![1]), keep: Some(LONG) };
        builder.ended(&mut lane, "kept", job("kept"), keep).await;
        let bury = Ending::Bury { reason: queue_core::broker::BuryReason::Failed, error: Some(error()) };
        builder.ended(&mut lane, "dead", job("dead"), bury).await;
        builder.ended(&mut lane, "gone", given("gone", "gone"), Ending::Ack { result: None, keep: None }).await;
        builder.contents.pending.remove("gone");
        for name in ["kept", "dead"] {
            let id = builder.contents.pending.remove(name).expect("it was put");
            builder.contents.ended.insert(name.to_owned(), id);
        }
        let mut retry = job("retry");
        retry.envelope = tagged("retry");
        builder.ended(&mut lane, "retry", retry, Ending::Nack { delay: LONG, error: error() }).await;
        builder.ended(&mut lane, "snoozed", job("snoozed"), Ending::Snooze { delay: LONG }).await;
        builder.ended(&mut lane, "parked", job("parked"), Ending::Park { task: UNKNOWN.to_owned() }).await;
        for name in ["h0", "h1", "h2", "h3", "h4", "h5", "h6", "h7", "h8", "h9"] {
            let mut job = job(name);
            job.priority = if name == "h7" { Priority::Low } else { Priority::default() };
            let delivery = builder.claimed(&mut lane, LONG, name, job).await;
            builder.contents.held.insert(name.to_owned(), delivery);
        }
        let delivery = builder.claimed(&mut lane, LONG, "cancelled", job("cancelled")).await;
        broker.cancel(&queue, std::slice::from_ref(&delivery.id)).await.expect("a job is cancelled");
        builder.contents.held.insert("cancelled".to_owned(), delivery);

        for (name, priority) in [("r0", Priority::Critical), ("r1", Priority::High), ("r2", Priority::Normal), ("r3", Priority::Low)] {
            let mut job = job(name);
            job.priority = priority;
            if name == "r1" {
                job.envelope = tagged(name);
            }
            builder.put(name, job).await;
        }
        builder.put("given", given("given", "given")).await;
        builder.put("tomb", job("tomb")).await;
        broker.cancel(&queue, std::slice::from_ref(&builder.contents.pending["tomb"])).await.expect("a job is cancelled");
        for name in ["cancelled", "tomb"] {
            let id = builder.contents.pending.remove(name).expect("it was put");
            builder.contents.ended.insert(name.to_owned(), id);
        }
        let mut later = job("later");
        (later.due, later.priority) = (Due::After(LONG), Priority::Critical);
        builder.put("later", later).await;

        broker.follow(&queue, FOLLOWED).await.expect("it can be followed");
        builder.put("followed", job("followed")).await;
        let (kind, filter, runner) = (OperationKind::Cancel, "id=none".to_owned(), Some("one".into()));
        let start = StartOperation { kind, filter, by: None, reason: None, total: 0, runner };
        broker.operate(&Operate::new(queue.clone(), "one", OperationDeed::Start(start))).await.expect("an operation is started");

        let (contents, stored, producer) = (builder.contents, builder.producer.answered, builder.producer.name);
        Scene { queue, kinds: Vec::new(), contents, lane: lane.name, answered: lane.answered, producer, stored }
    }

    /// A copy under a name of its own.
    pub(crate) async fn copied(self: &Arc<Scene>, broker: &DynBroker, keeper: &mut Keeper, number: usize) -> Case {
        let case = Case { broker: broker.clone(), queue: format!("case-{number}").into(), scene: self.clone() };
        let mut copies = redis::pipe();
        for kind in &self.kinds {
            copies.cmd("COPY").arg(key(&self.queue, kind)).arg(case.key(kind));
        }
        let copied: Vec<i64> = copies.query_async(&mut keeper.connection).await.expect("keys can be copied");
        assert!(copied.iter().all(|copied| *copied == 1));
        case
    }
}
