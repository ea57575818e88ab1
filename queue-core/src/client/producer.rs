//! Smart batching, and the producer protocol under it.
//!
//! A queue has one *batcher* on the broker's I/O thread. While one of its calls is in flight, further jobs gather and leave
//! as the next batch; at low load each leaves alone, at once. A batch is sent again under the same sequence number until
//! it is answered or its time is up; then its callers hold a [`Pending`], and the batcher goes on under a new name, since
//! the old number could no longer be repeated safely once a later one was accepted.

use std::{
    mem,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::{OnceCell, Semaphore, mpsc, oneshot};

use crate::{
    address::JobAddress,
    broker::{DynBroker, Enqueue, Enqueued, MAX_BYTES, MAX_ITEMS, NewJob, PartyName, ProcessId, Register},
    error::{Error, Result},
};

/// Jobs that wait for the batcher before `enqueue` itself has to wait.
const WAITING: usize = 4096;

/// Bulk enqueues of one queue in flight at once, each under a producer of its own.
pub(super) const BULK_LANES: usize = 4;

/// The first pause before a request is sent again; doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// What became of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Stored,
    Existing,
    IdConflict,
}

impl From<Enqueued> for Answer {
    fn from(enqueued: Enqueued) -> Self {
        match enqueued {
            Enqueued::Stored => Answer::Stored,
            Enqueued::Existing => Answer::Existing,
            Enqueued::IdConflict => Answer::IdConflict,
        }
    }
}

/// The ways of one client into one queue.
#[derive(Debug)]
pub(super) struct Producers {
    line: Line,
    batcher: OnceCell<mpsc::Sender<Waiting>>,
    idle: Mutex<Vec<Producer>>,
    bulk: Semaphore,
}

#[derive(Debug)]
struct Waiting {
    job: NewJob,
    answer: oneshot::Sender<Result<Answer>>,
}

impl Producers {
    pub(super) fn new(broker: DynBroker, queue: Arc<str>, process: ProcessId, deadline: Duration) -> Self {
        Producers {
            line: Line { broker, queue, process, deadline },
            batcher: OnceCell::new(),
            idle: Mutex::default(),
            bulk: Semaphore::new(BULK_LANES),
        }
    }

    /// Stores one job, in the company of others that come at the same time.
    pub(super) async fn enqueue(&self, job: NewJob) -> Result<Answer> {
        let batcher = self.batcher.get_or_init(async || self.start_batcher()).await;
        let (answer, answered) = oneshot::channel();
        let gone = || Error::Internal("the batcher of this client has ended".to_owned());
        batcher.send(Waiting { job, answer }).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }

    /// Stores one bounded batch, beside at most three others.
    pub(super) async fn enqueue_batch(&self, jobs: Vec<NewJob>) -> Result<Vec<Answer>> {
        let _lane = self.bulk.acquire().await.map_err(|_| Error::Internal("the bulk lanes are closed".to_owned()))?;
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        // If this future is dropped, so is the producer, whose last number may or may not have arrived.
        let mut producer = idle.unwrap_or_else(|| Producer::new(self.line.clone()));
        let answers = producer.send(jobs).await.map_err(|failure| failure.of(None))?;
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(producer);
        Ok(answers)
    }

    fn start_batcher(&self) -> mpsc::Sender<Waiting> {
        let (sender, receiver) = mpsc::channel(WAITING);
        self.line.broker.spawn(Box::pin(run_batcher(Producer::new(self.line.clone()), receiver)));
        sender
    }
}

/// Ends when the last client is gone and everything that it gave is answered.
async fn run_batcher(mut producer: Producer, mut waiting: mpsc::Receiver<Waiting>) {
    let mut gathered: Vec<Waiting> = Vec::with_capacity(MAX_ITEMS);
    let mut answers = Vec::with_capacity(MAX_ITEMS);
    loop {
        if gathered.is_empty() && waiting.recv_many(&mut gathered, MAX_ITEMS).await == 0 {
            return;
        }
        let size = batch_size(gathered.iter().map(|waiting| waiting.job.envelope.len()));
        let rest = gathered.split_off(size);
        let mut jobs = Vec::with_capacity(size);
        for Waiting { job, answer } in mem::replace(&mut gathered, rest) {
            jobs.push(job);
            answers.push(answer);
        }
        // Nobody waits any more who was dropped meanwhile; the others' answers are what counts.
        match producer.send(jobs).await {
            Ok(results) => answers.drain(..).zip(results).for_each(|(answer, result)| drop(answer.send(Ok(result)))),
            Err(failure) => answers.drain(..).enumerate().for_each(|(i, answer)| drop(answer.send(Err(failure.of(Some(i)))))),
        }
    }
}

/// How many of these items fit into one request; at least one.
pub(super) fn batch_size(sizes: impl Iterator<Item = usize>) -> usize {
    let mut bytes = 0;
    let fitting = sizes.take(MAX_ITEMS).take_while(|size| {
        bytes += size;
        bytes <= MAX_BYTES
    });
    fitting.count().max(1)
}

/// Where a producer sends to, on whose behalf, and for how long it tries.
#[derive(Clone, Debug)]
struct Line {
    broker: DynBroker,
    queue: Arc<str>,
    process: ProcessId,
    deadline: Duration,
}

/// One registered name with its sequence. One request in flight at a time.
#[derive(Debug)]
struct Producer {
    line: Line,
    name: Option<PartyName>,
    seq: u64,
}

/// Why a batch has no answers.
enum Failure {
    /// It was not stored.
    Refused(Error),
    /// It may have been.
    Unknown(Arc<Lost>),
}

/// A batch without an answer. Its name and number are kept for asking again, and for nothing else.
#[derive(Debug)]
struct Lost {
    line: Line,
    request: Enqueue,
}

impl Producer {
    fn new(line: Line) -> Self {
        Producer { line, name: None, seq: 0 }
    }

    async fn send(&mut self, jobs: Vec<NewJob>) -> Result<Vec<Answer>, Failure> {
        let until = Instant::now() + self.line.deadline;
        let mut jobs = jobs;
        loop {
            let name = match &self.name {
                Some(name) => name.clone(),
                None => self.register(until).await?,
            };
            self.seq += 1;
            let request = Enqueue::new(self.line.queue.clone(), name, self.seq, jobs);
            match self.line.settle(&request, until).await {
                Ok(answers) => return Ok(answers),
                // Nothing of this number was stored, so it may be sent under a new name.
                Err(Unsettled::Refused(Error::Forgotten(_))) if Instant::now() < until => {
                    self.name = None;
                    jobs = request.jobs;
                }
                Err(Unsettled::Refused(error)) => return Err(Failure::Refused(error)),
                Err(Unsettled::Unknown) => {
                    self.name = None;
                    return Err(Failure::Unknown(Arc::new(Lost { line: self.line.clone(), request })));
                }
            }
        }
    }

    async fn register(&mut self, until: Instant) -> Result<PartyName, Failure> {
        let request = Register::producer(self.line.queue.clone(), self.line.process);
        let mut pause = FIRST_PAUSE;
        loop {
            match self.line.broker.register(&request).await {
                Ok(name) => {
                    (self.name, self.seq) = (Some(name.clone()), 0);
                    return Ok(name);
                }
                // A name that was given and lost is nobody's.
                Err(error) if may_pass(&error) && Instant::now() + pause < until => rest(&mut pause).await,
                Err(Error::Ambiguous { broker, after }) => {
                    let problem = format!("no answer within {after:?}");
                    return Err(Failure::Refused(Error::Unavailable { broker, problem }));
                }
                Err(error) => return Err(Failure::Refused(error)),
            }
        }
    }
}

/// Why a request was given up.
enum Unsettled {
    Refused(Error),
    Unknown,
}

impl Line {
    /// Sends one request, unchanged, until it is answered or the time is up.
    async fn settle(&self, request: &Enqueue, until: Instant) -> Result<Vec<Answer>, Unsettled> {
        let mut pause = FIRST_PAUSE;
        let mut may_have_arrived = false;
        loop {
            let error = match self.broker.enqueue(request).await {
                Ok(answers) => return Ok(answers.into_iter().map(Answer::from).collect()),
                Err(error) => error,
            };
            may_have_arrived |= matches!(error, Error::Ambiguous { .. });
            if may_pass(&error) && Instant::now() + pause < until {
                rest(&mut pause).await;
                continue;
            }
            return Err(if may_have_arrived { Unsettled::Unknown } else { Unsettled::Refused(error) });
        }
    }
}

/// A full broker is not waited for: its users have to hear of it.
fn may_pass(error: &Error) -> bool {
    matches!(error, Error::Ambiguous { .. } | Error::Unavailable { .. })
}

async fn rest(pause: &mut Duration) {
    tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
    *pause = (*pause * 2).min(LONGEST_PAUSE);
}

impl Failure {
    /// The error for the job at this position of the batch, or for all of them.
    fn of(&self, position: Option<usize>) -> Error {
        match self {
            Failure::Refused(error) => error.duplicate(),
            Failure::Unknown(lost) => {
                let positions = match position {
                    Some(position) => position..position + 1,
                    None => 0..lost.request.jobs.len(),
                };
                Error::Unknown(Box::new(Pending::new(lost.clone(), positions)))
            }
        }
    }
}

/// An enqueue without an answer: its jobs may or may not be stored.
///
/// ```no_run
/// # use queue_core::{prelude::*, Error};
/// # #[task] async fn close(order_id: u64) {}
/// # async fn example(queue: Client) -> queue_core::Result<()> {
/// match close::job(17).enqueue(&queue).await {
///     Err(Error::Unknown(pending)) => {
///         // Later, when the broker is back: it is stored once, whether the first call had arrived or not.
///         for (address, existed) in pending.retry().await? {
///             println!("{address} is stored; existed before: {existed}");
///         }
///     }
///     other => drop(other?),
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Pending {
    lost: Arc<Lost>,
    positions: std::ops::Range<usize>,
    jobs: Vec<JobAddress>,
}

impl Pending {
    fn new(lost: Arc<Lost>, positions: std::ops::Range<usize>) -> Self {
        let queue = &lost.request.queue;
        let jobs = lost.request.jobs[positions.clone()].iter().map(|job| JobAddress { queue: queue.clone(), id: job.id.clone() }).collect();
        Pending { lost, positions, jobs }
    }

    /// The jobs that it is about.
    pub fn jobs(&self) -> &[JobAddress] {
        &self.jobs
    }

    /// Sends the same request again, for as long as an enqueue is tried. Says of each job whether it existed before.
    ///
    /// # Errors
    /// [`Error::Unknown`] again, without an answer. [`Error::Forgotten`], when the broker no longer has the producer, so that
    /// it cannot be known: look for the jobs by their addresses. [`Error::IdConflict`] for the first job that is in conflict.
    pub async fn retry(self) -> Result<Vec<(JobAddress, bool)>> {
        let until = Instant::now() + self.lost.line.deadline;
        let answers = match self.lost.line.settle(&self.lost.request, until).await {
            Ok(answers) => answers,
            Err(Unsettled::Refused(error @ (Error::Forgotten(_) | Error::Old { .. }))) => return Err(error),
            // Whatever is said now, the first sending may have arrived.
            Err(Unsettled::Refused(_) | Unsettled::Unknown) => return Err(Error::Unknown(Box::new(self))),
        };
        self.jobs
            .into_iter()
            .zip(&answers[self.positions])
            .map(|(address, answer)| match answer {
                Answer::Stored => Ok((address, false)),
                Answer::Existing => Ok((address, true)),
                Answer::IdConflict => Err(Error::IdConflict(address)),
            })
            .collect()
    }
}
