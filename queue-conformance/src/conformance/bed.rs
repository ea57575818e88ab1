//! The environment of a case: a broker, a separate queue, and short forms of frequent operations.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use queue_core::{
    __private::Envelope,
    Client, JobId,
    broker::{
        Counter, CrashRule, Delivery, Due, DynBroker, Ending, Enqueue, Enqueued, Extend, Finish, Hints, JobState, NewJob, PartyName,
        PauseOf, Pausing, Priority, ProcessId, QueueStats, Reclaimed, Register, SetPause, StoredJob, Turn, TurnAnswer, WorkerInfo,
    },
    inspect::Inspector,
};

use crate::patience;

/// The storage of a broker. Each case creates one, and dropping it cleans up.
#[async_trait]
pub trait Storage: Send + 'static {
    /// A broker on this storage, as in another process.
    async fn open(&mut self) -> DynBroker;

    /// Saves all stored data, as a backup does. No broker is open.
    async fn save(&mut self);

    /// Restores the data of [`save`](Self::save). No broker is open. A storage that cannot be
    /// backed up may be empty afterwards.
    async fn restore(&mut self);
}

/// A broker and a queue for one case.
pub struct Bed {
    /// The broker.
    pub broker: DynBroker,
    /// The case's own queue.
    pub queue: Arc<str>,
    storage: Box<dyn Storage>,
}

impl std::fmt::Debug for Bed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bed").field("broker", &self.broker).field("queue", &self.queue).finish_non_exhaustive()
    }
}

/// A lease that is longer than every case.
pub(super) const LONG: Duration = Duration::from_secs(600);

/// A lease that expires at once.
pub(super) const SHORT: Duration = Duration::from_millis(1);

impl Bed {
    /// Opens a broker on a storage.
    pub async fn new(mut storage: Box<dyn Storage>) -> Bed {
        let broker = opened(&mut storage).await;
        broker.check().await.expect("the broker is fit for work");
        let queue: Arc<str> = format!("suite-{:016x}", fastrand::u64(..)).into();
        Bed { broker, queue, storage }
    }

    /// The same broker, another queue.
    #[must_use]
    pub fn in_queue(mut self, queue: &str) -> Bed {
        self.queue = queue.into();
        self
    }

    /// A second broker on the same storage.
    pub async fn another_process(&mut self) -> DynBroker {
        opened(&mut self.storage).await
    }

    /// Backs up the storage. Other brokers of the case must be dropped first.
    pub async fn save(mut self) -> Bed {
        drop(self.broker);
        self.storage.save().await;
        self.broker = opened(&mut self.storage).await;
        self
    }

    /// Restores the backup.
    pub async fn restore(mut self) -> Bed {
        drop(self.broker);
        self.storage.restore().await;
        self.broker = opened(&mut self.storage).await;
        self
    }

    /// An inspector for reading and repairing.
    pub fn inspector(&self) -> Inspector {
        Client::with_broker(self.broker.clone()).inspector()
    }

    /// A lane of a new process that keeps its lease.
    pub async fn lane(&self) -> Lane {
        self.lane_of(ProcessId::random(), LONG).await
    }

    /// A lane whose lease expires at once, as for a crashed process.
    pub async fn dying_lane(&self) -> Lane {
        self.lane_of(ProcessId::random(), SHORT).await
    }

    /// A lane of this process, with this lease.
    pub async fn lane_of(&self, process: ProcessId, lease: Duration) -> Lane {
        self.lane_saying(process, lease, WorkerInfo::default()).await
    }

    /// The same with this information about its worker.
    pub async fn lane_saying(&self, process: ProcessId, lease: Duration, info: WorkerInfo) -> Lane {
        Lane::of(&self.broker, &self.queue, process, lease, info).await
    }

    /// A producer.
    pub async fn producer(&self) -> Producer {
        Producer::on(&self.broker, &self.queue).await
    }

    /// Enqueues `n` jobs, due now, at normal priority.
    pub async fn put(&self, n: usize) -> Vec<JobId> {
        let mut producer = self.producer().await;
        let mut ids = Vec::with_capacity(n);
        for piece in (0..n).collect::<Vec<_>>().chunks(500) {
            let jobs: Vec<NewJob> = piece.iter().map(|n| NewJob::new(JobId::make(), envelope(&n.to_string()))).collect();
            ids.extend(jobs.iter().map(|job| job.id.clone()));
            producer.stored(jobs).await;
        }
        ids
    }

    /// Enqueues one job and returns the answer.
    pub async fn put_job(&self, job: NewJob) -> Enqueued {
        self.producer().await.send(vec![job]).await.remove(0)
    }

    /// Enqueues a job that is due later.
    pub async fn put_later(&self, delay: Duration) -> JobId {
        let mut job = NewJob::new(JobId::make(), envelope("later"));
        job.due = Due::After(delay);
        let id = job.id.clone();
        assert_eq!(self.put_job(job).await, Enqueued::Stored);
        id
    }

    /// Enqueues a job of this priority.
    pub async fn put_at(&self, priority: Priority) -> JobId {
        let mut job = NewJob::new(JobId::make(), envelope(priority.name()));
        job.priority = priority;
        let id = job.id.clone();
        assert_eq!(self.put_job(job).await, Enqueued::Stored);
        id
    }

    /// Enqueues a job under a given id, with this payload.
    pub async fn put_given(&self, id: &str, payload: &str) -> Enqueued {
        self.put_job(given(id, payload)).await
    }

    /// Depth and counters.
    pub async fn stats(&self) -> QueueStats {
        self.broker.stats(&self.queue).await.expect("statistics can be read")
    }

    /// The number of jobs in a state.
    pub async fn depth(&self, state: JobState) -> u64 {
        self.stats().await.count(state)
    }

    /// A counter.
    pub async fn counter(&self, counter: Counter) -> u64 {
        self.stats().await.total(counter)
    }

    /// Everything about a job.
    pub async fn show(&self, id: &JobId) -> Option<StoredJob> {
        self.broker.show(&self.queue, id).await.expect("a job can be looked at")
    }

    /// A job's state.
    pub async fn state(&self, id: &JobId) -> Option<JobState> {
        self.show(id).await.map(|record| record.state)
    }

    /// The ids of a state, all pages.
    pub async fn ids(&self, state: JobState) -> Vec<JobId> {
        let (mut ids, mut walk) = (Vec::new(), self.inspector().walk(&self.queue, state));
        while let Some(jobs) = walk.next().await.expect("jobs can be listed") {
            ids.extend(jobs.into_iter().map(|job| job.address.id));
        }
        ids
    }

    /// Waits until the leases of these lanes have expired, fences the lanes and reclaims their
    /// jobs.
    pub async fn reclaim(&self, lanes: &[&Lane], rule: CrashRule) -> Reclaimed {
        self.fence(lanes).await;
        self.sweep(lanes.len(), rule).await
    }

    /// Reclaims the jobs of `lanes` fenced lanes.
    pub async fn sweep(&self, lanes: usize, rule: CrashRule) -> Reclaimed {
        let mut all = Reclaimed::default();
        while all.forgotten < lanes {
            let step = self.broker.reclaim(&self.queue, &rule).await.expect("a sweep is answered");
            all.returned += step.returned;
            all.charged += step.charged;
            all.buried.extend(step.buried);
            all.forgotten += step.forgotten;
        }
        all
    }

    /// Waits until the leases of these lanes have expired, and fences the lanes.
    pub async fn fence(&self, lanes: &[&Lane]) {
        let seen = eventually("the leases end", async || {
            let seen = self.broker.overdue(&self.queue, 0, 500).await.expect("suspects can be read").expired;
            let seen: Vec<_> = seen.into_iter().filter(|seen| lanes.iter().any(|lane| lane.name == seen.name)).collect();
            (seen.len() == lanes.len()).then_some(seen)
        })
        .await;
        let fenced = self.broker.fence(&self.queue, &seen).await.expect("a fence is answered");
        assert!(fenced.iter().all(|fenced| *fenced), "{fenced:?}");
    }
}

/// A broker whose state is shown when a wait times out.
async fn opened(storage: &mut Box<dyn Storage>) -> DynBroker {
    let broker = storage.open().await;
    patience::watch(&broker);
    broker
}

/// A job under a given id.
pub(super) fn given(id: &str, payload: &str) -> NewJob {
    let bytes = envelope(payload);
    let mut job = NewJob::new(JobId::given(id).expect("the id is a name"), bytes.clone());
    job.digest = Envelope::decode(&bytes).expect("it was just encoded").digest();
    job
}

/// A registered lane, and the sequence of its turns.
#[derive(Debug)]
pub struct Lane {
    /// The broker.
    pub broker: DynBroker,
    /// The queue.
    pub queue: Arc<str>,
    /// Its name.
    pub name: PartyName,
    /// Its last answered turn.
    pub answered: u64,
    /// The lease that its turns ask for.
    pub lease: Duration,
}

impl Lane {
    /// A lane of a new process that keeps its lease.
    pub async fn on(broker: &DynBroker, queue: &str) -> Lane {
        Lane::of(broker, &queue.into(), ProcessId::random(), LONG, WorkerInfo::default()).await
    }

    async fn of(broker: &DynBroker, queue: &Arc<str>, process: ProcessId, lease: Duration, info: WorkerInfo) -> Lane {
        let request = Register::lane(queue.clone(), process, lease).with_info(info);
        let name = broker.register(&request).await.expect("a lane can register").name;
        Lane { broker: broker.clone(), queue: queue.clone(), name, answered: 0, lease }
    }

    /// The next turn, to be filled and sent.
    pub fn next(&self) -> Turn {
        Turn::new(self.queue.clone(), self.name.clone(), self.answered + 1, self.lease)
    }

    /// Sends a turn that must be answered.
    pub async fn send(&mut self, turn: &Turn) -> TurnAnswer {
        let answer = self.broker.turn(turn).await.expect("the turn is answered");
        self.answered = turn.seq;
        answer
    }

    /// A turn that only claims.
    pub async fn claim(&mut self, n: usize) -> Vec<Delivery> {
        let turn = self.next().claim(n);
        self.send(&turn).await.deliveries
    }

    /// Claims one job, which must be ready.
    pub async fn claim_one(&mut self) -> Delivery {
        self.claim(1).await.pop().expect("a job is ready")
    }

    /// Waits until a job is ready, and claims it.
    pub async fn wait_for_one(&mut self) -> Delivery {
        eventually("a job is ready", async || self.claim(1).await.pop()).await
    }

    /// Sends one finish. Returns false if it was stale.
    pub async fn end(&mut self, delivery: &Delivery, ending: Ending) -> bool {
        let turn = self.next().finish(vec![finish(delivery, ending)]);
        self.send(&turn).await.stale.is_empty()
    }

    /// Acknowledges these deliveries. No ack may be stale.
    pub async fn ack(&mut self, deliveries: &[Delivery]) {
        for piece in deliveries.chunks(500) {
            let turn = self.next().finish(piece.iter().map(|delivery| finish(delivery, ack())).collect());
            assert!(self.send(&turn).await.stale.is_empty(), "an acknowledgement is stale");
        }
    }

    /// A heartbeat that asks for this lease.
    pub fn heartbeat(&self, lease: Duration) -> Extend {
        Extend::new(self.queue.clone(), self.name.clone(), self.answered, lease)
    }
}

/// A registered producer.
#[derive(Debug)]
pub struct Producer {
    broker: DynBroker,
    queue: Arc<str>,
    /// Its name.
    pub name: PartyName,
    /// Its last sequence number.
    pub seq: u64,
}

impl Producer {
    /// A producer of a new process.
    pub async fn on(broker: &DynBroker, queue: &str) -> Producer {
        let register = Register::producer(queue, ProcessId::random());
        let name = broker.register(&register).await.expect("a producer can register").name;
        Producer { broker: broker.clone(), queue: queue.into(), name, seq: 0 }
    }

    /// The next request, to be sent.
    pub fn next(&self, jobs: Vec<NewJob>) -> Enqueue {
        Enqueue::new(self.queue.clone(), self.name.clone(), self.seq + 1, jobs)
    }

    /// Sends jobs. Returns an answer for each.
    pub async fn send(&mut self, jobs: Vec<NewJob>) -> Vec<Enqueued> {
        let request = self.next(jobs);
        let answers = self.broker.enqueue(&request).await.expect("the enqueue is answered");
        assert_eq!(answers.len(), request.jobs.len(), "an answer for each job");
        self.seq = request.seq;
        answers
    }

    /// Sends jobs that must be stored.
    pub async fn stored(&mut self, jobs: Vec<NewJob>) {
        assert!(self.send(jobs).await.iter().all(|answer| *answer == Enqueued::Stored));
    }
}

/// An envelope around some text.
pub fn envelope(text: &str) -> Vec<u8> {
    Envelope::new("suite.task", text.as_bytes()).encode().expect("a small envelope can be encoded")
}

/// The finish of a delivery.
pub fn finish(delivery: &Delivery, ending: Ending) -> Finish {
    Finish::new(delivery, ending)
}

/// An ack that keeps nothing.
pub fn ack() -> Ending {
    Ending::Ack { result: None, keep: None }
}

/// A failure with a retry after this delay.
pub fn nack(delay: Duration) -> Ending {
    Ending::Nack { delay, error: "it failed".to_owned() }
}

/// Repeats a request until it has an answer.
#[track_caller]
pub fn eventually<T>(what: &str, ask: impl AsyncFnMut() -> Option<T>) -> impl Future<Output = T> {
    patience::wait(what).every(Duration::from_millis(2)).some(ask)
}

/// Waits until this new listener of this broker and queue receives announcements, and has no
/// pending ones.
pub(super) async fn hears_of_nothing_yet(broker: &DynBroker, queue: &Arc<str>, mut hints: Hints) -> Hints {
    // The end of a pause is announced. A listener receives nothing before its subscription, which
    // all listeners of the queue share, is active.
    let mut pauses = broker.hints(queue);
    eventually("a pause is announced", async || {
        let pause = SetPause::pause(queue.clone(), PauseOf::Queue, Pausing::new().lasting(LONG));
        broker.set_pause(&pause).await.expect("it can be paused");
        tokio::time::timeout(Duration::from_millis(100), pauses.next()).await.ok()
    })
    .await;
    broker.set_pause(&SetPause::resume(queue.clone(), PauseOf::Queue)).await.expect("it can go on");
    while tokio::time::timeout(Duration::from_millis(100), hints.next()).await.is_ok() {}
    hints
}
