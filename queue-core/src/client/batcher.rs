//! Smart batching.
//!
//! A queue has a *batcher* on the broker's I/O thread. While its calls are in flight, further jobs gather and leave as the next batch. Who is alone sends
//! from where it is: a lone job is handed to nobody. Bulk enqueues go beside, in a few lanes.

use std::{
    collections::VecDeque,
    mem,
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::{
    sync::{
        Mutex as AsyncMutex, Notify, OwnedMutexGuard, Semaphore,
        mpsc::{self, error::TrySendError},
        oneshot,
    },
    time::{Instant, sleep, timeout_at},
};

use super::{
    callers::{Callers, Waiter},
    producer::{Answer, Failure, Line, Producer, after},
};
use crate::{
    broker::{Enqueue, MAX_BYTES, MAX_ITEMS, NewJob},
    error::{Error, Result},
    io::on_broker,
};

/// Jobs that wait for the batcher before `enqueue` itself has to wait.
const WAITING: usize = 65_536;

/// How often the batcher looks, while all lanes are busy, whose time is up.
const LOOK: Duration = Duration::from_millis(20);

/// Batches of single jobs in flight at once: while the server stores one, the callers of the other come back with new jobs.
const LANES: usize = 2;

/// Bulk enqueues of one queue in flight at once, each under a producer of its own.
pub(super) const BULK_LANES: usize = 4;

/// The ways of one client into one queue.
#[derive(Debug)]
pub(super) struct Producers {
    line: Line,
    singles: Singles,
    bulk: Bulk,
}

/// A way for single jobs.
#[derive(Debug)]
struct Singles {
    /// Who sends them, if not the batcher alone: a caller who is alone.
    single: Arc<AsyncMutex<Producer>>,
    crowd: Arc<Crowd>,
    /// `None` until the first job; a new one takes the place of one that has ended.
    batcher: Mutex<Option<mpsc::Sender<Waiting>>>,
}

/// The bulk lanes, and the producers that none of them uses now.
#[derive(Clone, Debug)]
struct Bulk {
    lanes: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<Producer>>>,
}

/// Those who wait for single jobs to be stored.
#[derive(Debug, Default)]
struct Crowd {
    /// How many there are.
    size: AtomicUsize,
    /// Rung when a batch beside that in flight is worth its call.
    bell: Notify,
}

impl Crowd {
    /// Whether so many jobs are worth a call beside another: all lanes then carry about the same.
    fn is_worth(&self, jobs: usize) -> bool {
        jobs >= MAX_ITEMS || jobs * LANES >= self.size.load(Ordering::Relaxed)
    }
}

/// One who waits for a single job to be stored.
struct Caller<'a> {
    among: &'a Crowd,
    is_alone: bool,
}

impl<'a> Caller<'a> {
    fn among(crowd: &'a Crowd) -> Self {
        Caller { among: crowd, is_alone: crowd.size.fetch_add(1, Ordering::Relaxed) == 0 }
    }
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        self.among.size.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct Waiting {
    job: NewJob,
    caller: Waiter,
}

impl Producers {
    pub(super) fn new(line: Line) -> Self {
        Producers { singles: Singles::new(&line), line, bulk: Bulk { lanes: Arc::new(Semaphore::new(BULK_LANES)), idle: Arc::default() } }
    }

    /// Stores one job, in the company of others that come at the same time.
    pub(super) async fn enqueue(&self, job: NewJob) -> Result<Answer> {
        self.singles.enqueue(&self.line, job).await
    }

    /// Stores one bounded batch, beside at most three others. Once begun, it goes on although its caller is dropped.
    pub(super) async fn enqueue_batch(&self, jobs: Vec<NewJob>) -> Result<Vec<Answer>, Failure> {
        let until = after(self.line.deadline);
        let Bulk { lanes, idle } = self.bulk.clone();
        let line = self.line.clone();
        let stored = on_broker(&self.line.broker, async move {
            let closed = |_| Failure::Refused(Error::Internal("the bulk lanes are closed".to_owned()));
            let late = |_| Failure::Refused(line.late());
            let lane = timeout_at(until, lanes.acquire_owned()).await.map_err(late)?.map_err(closed)?;
            let spare = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let mut producer = spare.unwrap_or_else(|| Producer::new(line.clone()));
            let outcome = producer.send(jobs, &mut Callers::One(until)).await;
            idle.lock().unwrap_or_else(PoisonError::into_inner).push(producer);
            drop(lane);
            outcome
        });
        stored.await.map_err(Failure::Refused)?
    }
}

impl Singles {
    fn new(line: &Line) -> Self {
        Singles { single: Arc::new(AsyncMutex::new(Producer::new(line.clone()))), crowd: Arc::default(), batcher: Mutex::default() }
    }

    async fn enqueue(&self, line: &Line, job: NewJob) -> Result<Answer> {
        let until = after(line.deadline);
        let caller = Caller::among(&self.crowd);
        let job = match self.single.clone().try_lock_owned() {
            Ok(mut producer) if caller.is_alone => match producer.next(job, until) {
                Ok(request) => return enqueue_alone(line, producer, request, until).await,
                Err(job) => job,
            },
            _ => job,
        };
        let gone = || Error::Internal("the batcher of this client has ended; it is not known whether the job is stored".to_owned());
        let (answer, answered) = oneshot::channel();
        let batcher = self.batcher(line);
        match batcher.try_send(Waiting { job, caller: Waiter { until, answer } }) {
            Ok(()) => {}
            Err(TrySendError::Closed(_)) => return Err(gone()),
            Err(TrySendError::Full(waiting)) => {
                let (full, late) = (batcher.clone(), line.late());
                let sent = async move { timeout_at(until, full.send(waiting)).await };
                on_broker(&line.broker, sent).await?.map_err(|_| late)?.map_err(|_| gone())?;
            }
        }
        if self.crowd.is_worth(batcher.max_capacity() - batcher.capacity()) {
            self.crowd.bell.notify_one();
        }
        answered.await.map_err(|_| gone())?
    }

    fn batcher(&self, line: &Line) -> mpsc::Sender<Waiting> {
        let mut batcher = self.batcher.lock().unwrap_or_else(PoisonError::into_inner);
        match &*batcher {
            Some(sender) if !sender.is_closed() => sender.clone(),
            _ => {
                let (sender, receiver) = mpsc::channel(WAITING);
                let lanes = VecDeque::from([self.single.clone(), Arc::new(AsyncMutex::new(Producer::new(line.clone())))]);
                let sending = Batcher { line: line.clone(), crowd: self.crowd.clone(), idle: lanes, gathered: Vec::new() };
                line.broker.spawn(Box::pin(sending.run(receiver)));
                *batcher = Some(sender.clone());
                sender
            }
        }
    }
}

/// Sends a request from here, once. What takes longer happens on the I/O thread: this may be no runtime with a clock.
async fn enqueue_alone(line: &Line, mut producer: OwnedMutexGuard<Producer>, request: Enqueue, until: Instant) -> Result<Answer> {
    let answers = match line.attempt(&request).await {
        Ok(answers) => Ok(answers),
        Err(error) => {
            let concluded = async move { producer.conclude(request, Some(error), &mut Callers::One(until)).await };
            on_broker(&line.broker, concluded).await?
        }
    };
    let answers = answers.map_err(|failure| failure.of(0))?;
    answers.into_iter().next().ok_or_else(|| Error::Internal("an enqueue of one job has no answer".to_owned()))
}

/// Sends what gathers, in batches.
struct Batcher {
    line: Line,
    crowd: Arc<Crowd>,
    /// Producers with nothing in flight. They take turns, so that each has a name before long: who is alone needs that of his.
    idle: VecDeque<Arc<AsyncMutex<Producer>>>,
    /// What was left over by the last batch.
    gathered: Vec<Waiting>,
}

impl Batcher {
    /// Ends when the last client is gone and everything that it gave is answered.
    async fn run(mut self, mut waiting: mpsc::Receiver<Waiting>) {
        let mut flying = FuturesUnordered::new();
        let mut look = pin!(sleep(LOOK));
        loop {
            if flying.is_empty() && self.gathered.is_empty() && waiting.recv_many(&mut self.gathered, MAX_ITEMS).await == 0 {
                return;
            }
            while !self.idle.is_empty() && (flying.is_empty() || self.crowd.is_worth(self.gathered.len() + waiting.len())) {
                while self.gathered.len() < MAX_ITEMS
                    && let Ok(job) = waiting.try_recv()
                {
                    self.gathered.push(job);
                }
                let Some(lane) = self.free_lane() else { break };
                let Some(batch) = self.next_batch() else { break };
                self.idle.retain(|idle| !Arc::ptr_eq(idle, OwnedMutexGuard::mutex(&lane)));
                flying.push(batch.send(lane));
            }
            tokio::select! {
                Some(lane) = flying.next() => self.idle.push_back(lane),
                () = look.as_mut(), if !flying.is_empty() => {
                    self.tell_those_due(&mut waiting);
                    look.as_mut().reset(Instant::now() + LOOK);
                }
                () = self.crowd.bell.notified(), if !self.idle.is_empty() && !flying.is_empty() => {}
                else => {}
            }
        }
    }

    /// `None`: all that are idle are kept by one who sends by himself, and he need not be run while he does.
    fn free_lane(&self) -> Option<OwnedMutexGuard<Producer>> {
        self.idle.iter().find_map(|lane| lane.clone().try_lock_owned().ok())
    }

    /// Tells those whose time is up before a lane was free. Nothing of theirs was sent.
    fn tell_those_due(&mut self, waiting: &mut mpsc::Receiver<Waiting>) {
        while self.gathered.len() < WAITING
            && let Ok(job) = waiting.try_recv()
        {
            self.gathered.push(job);
        }
        let now = Instant::now();
        for Waiting { caller, .. } in self.gathered.extract_if(.., |waiting| waiting.caller.until <= now) {
            drop(caller.answer.send(Err(self.line.late())));
        }
    }

    /// `None`: nobody is left who waits.
    fn next_batch(&mut self) -> Option<Batch> {
        let size = batch_size(self.gathered.iter().map(|waiting| waiting.job.envelope.len())).min(self.gathered.len());
        let rest = self.gathered.split_off(size);
        let now = Instant::now();
        let mut batch = Batch { jobs: Vec::with_capacity(size), callers: Vec::with_capacity(size) };
        for Waiting { job, caller } in mem::replace(&mut self.gathered, rest) {
            if caller.until <= now {
                // It waited behind a batch that used up its time. Nothing of it was sent.
                drop(caller.answer.send(Err(self.line.late())));
                continue;
            }
            batch.jobs.push(job);
            batch.callers.push(Some(caller));
        }
        (!batch.jobs.is_empty()).then_some(batch)
    }
}

/// Jobs that travel together, and who waits for them.
struct Batch {
    jobs: Vec<NewJob>,
    callers: Vec<Option<Waiter>>,
}

impl Batch {
    /// Gives the lane back.
    async fn send(self, mut lane: OwnedMutexGuard<Producer>) -> Arc<AsyncMutex<Producer>> {
        let mut callers = Callers::Each(self.callers);
        let outcome = lane.send(self.jobs, &mut callers).await;
        // Unlocked before anybody hears: who comes back alone wants it.
        let idle = OwnedMutexGuard::mutex(&lane).clone();
        drop(lane);
        callers.answer(outcome);
        idle
    }
}

/// How many of these items fit into one request; at least one.
fn batch_size(sizes: impl Iterator<Item = usize>) -> usize {
    let mut bytes = 0;
    let fitting = sizes.take(MAX_ITEMS).take_while(|size| {
        bytes += size;
        bytes <= MAX_BYTES
    });
    fitting.count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_bounded_in_items_and_in_bytes() {
        assert_eq!(batch_size(std::iter::repeat_n(100, 10_000)), MAX_ITEMS);
        assert_eq!(batch_size(std::iter::repeat_n(256 * 1024, 10)), 4);
        assert_eq!(batch_size([2 * MAX_BYTES, 10].into_iter()), 1);
        assert_eq!(batch_size([10].into_iter()), 1);
    }
}
