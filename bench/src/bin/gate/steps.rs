//! The counted steps: the same for every broker, always in the same order.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use queue_core::{
    __private::Envelope,
    JobId, Registry,
    broker::{BuryReason, DynBroker, Ending, Enqueue, Finish, NewJob, PartyName, ProcessId, Register, Turn},
    prelude::*,
};
use queue_worker::Worker;
use tokio::sync::Notify;

use crate::Error;

const QUEUE: &str = "gate";
const LEASE: Duration = Duration::from_secs(600);

/// The number of repetitions of a step, so that one-time work does not count.
pub(crate) const ROUNDS: usize = 40;

/// A producer and a lane that call the broker directly, without the timing of a client or a worker.
pub(crate) struct Hands {
    broker: DynBroker,
    queue: &'static str,
    producer: PartyName,
    worker: PartyName,
    envelope: Vec<u8>,
    keep: Option<Duration>,
    enqueues: u64,
    turns: u64,
}

impl Hands {
    /// In the queue of the worker.
    pub(crate) async fn new(client: &Client) -> Result<Self, Error> {
        Hands::in_queue(QUEUE, client).await
    }

    pub(crate) async fn in_queue(queue: &'static str, client: &Client) -> Result<Self, Error> {
        let broker = client.broker().clone();
        let process = ProcessId::random();
        let producer = broker.register(&Register::producer(queue, process)).await?.name;
        let worker = broker.register(&Register::lane(queue, process, LEASE)).await?.name;
        let envelope = Envelope::new("nothing", &[b'x'; 100]).encode()?;
        let mut hands = Hands { broker, queue, producer, worker, envelope, keep: None, enqueues: 0, turns: 0 };
        // The first call of each kind prepares statements and loads scripts.
        hands.enqueue(1).await?;
        let claimed = hands.turn(1, Vec::new()).await?;
        hands.turn(0, claimed).await?;
        Ok(hands)
    }

    /// Their jobs are kept for an hour.
    pub(crate) fn keeping(mut self) -> Self {
        self.keep = Some(Duration::from_secs(3600));
        self
    }

    /// Their jobs have payloads of three kilobytes.
    pub(crate) fn with_large_jobs(mut self) -> Result<Self, Error> {
        self.envelope = Envelope::new("nothing", &[b'x'; 3000]).encode()?;
        Ok(self)
    }

    /// Their queue has a dead job.
    pub(crate) async fn beside_a_dead_job(mut self) -> Result<Self, Error> {
        self.enqueue(1).await?;
        let mut claimed = self.turn(1, Vec::new()).await?;
        claimed[0].ending = Ending::Bury { reason: BuryReason::Failed, error: Some("it failed".to_owned()) };
        self.turn(0, claimed).await?;
        Ok(self)
    }

    /// One request with `n` jobs.
    pub(crate) async fn enqueue(&mut self, n: usize) -> Result<(), Error> {
        self.enqueues += 1;
        let jobs = (0..n).map(|_| NewJob::new(JobId::make(), self.envelope.clone())).collect();
        self.broker.enqueue(&Enqueue::new(self.queue, self.producer.clone(), self.enqueues, jobs)).await?;
        Ok(())
    }

    /// One turn that finishes these jobs and claims `claim` jobs. Returns the finishes of the
    /// claimed jobs.
    pub(crate) async fn turn(&mut self, claim: usize, finishes: Vec<Finish>) -> Result<Vec<Finish>, Error> {
        self.turns += 1;
        let turn = Turn::new(self.queue, self.worker.clone(), self.turns, LEASE).claim(claim).finish(finishes);
        let answer = self.broker.turn(&turn).await?;
        if answer.deliveries.len() != claim || !answer.stale.is_empty() {
            return Err(format!("a turn for {claim} jobs brought {}, and {} stale", answer.deliveries.len(), answer.stale.len()).into());
        }
        let keep = self.keep;
        Ok(answer.deliveries.iter().map(|delivery| Finish::new(delivery, Ending::Ack { result: None, keep })).collect())
    }
}

/// Counts runs.
#[derive(Debug, Default)]
struct Ran(AtomicUsize, Notify);

/// Does nothing; a payload of 100 bytes.
#[task(queue = "gate")]
async fn nothing(d: String, ran: Data<Arc<Ran>>) {
    std::hint::black_box(d);
    ran.0.fetch_add(1, Ordering::Relaxed);
    ran.1.notify_one();
}

fn jobs(n: usize) -> impl Iterator<Item = Job<nothing>> + Send {
    let parameter = "x".repeat(95);
    (0..n).map(move |_| nothing::job(parameter.clone()))
}

/// One job after the other, each awaited.
pub(crate) async fn one_by_one(client: &Client, n: usize) -> Result<(), Error> {
    for job in jobs(n) {
        client.enqueue(job).await?;
    }
    Ok(())
}

/// All in one call.
pub(crate) async fn at_once(client: &Client, n: usize) -> Result<(), Error> {
    client.enqueue_all(jobs(n)).await?;
    Ok(())
}

/// A worker that runs these jobs, which are already stored.
pub(crate) async fn worker(client: &Client, concurrency: usize, n: usize) -> Result<(), Error> {
    let ran = Arc::new(Ran::default());
    let worker = Worker::new(client.clone()).registry(Registry::empty()).register::<nothing>().data(ran.clone());
    let all = async {
        while ran.0.load(Ordering::Relaxed) < n {
            ran.1.notified().await;
        }
    };
    let stopped = worker.concurrency(concurrency).run(all).await?;
    if stopped.finished < n as u64 { Err(format!("{} of {n} jobs ran", stopped.finished).into()) } else { Ok(()) }
}
