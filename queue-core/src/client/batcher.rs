//! Smart batching.
//!
//! A queue has one *batcher* on the broker's I/O thread. While one of its calls is in flight, further jobs gather and leave
//! as the next batch. Who is alone sends from where it is: a lone job is handed to nobody. Bulk enqueues go beside, in a few lanes.

use std::{
    mem,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{
    sync::{Mutex as AsyncMutex, OwnedMutexGuard, Semaphore, mpsc, oneshot},
    time::Instant,
};

use super::producer::{Answer, Failure, Line, Producer, after};
use crate::{
    broker::{Enqueue, MAX_BYTES, MAX_ITEMS, NewJob},
    error::{Error, Result},
    io::on_broker,
};

/// Jobs that wait for the batcher before `enqueue` itself has to wait.
const WAITING: usize = 4096;

/// Bulk enqueues of one queue in flight at once, each under a producer of its own.
pub(super) const BULK_LANES: usize = 4;

/// The ways of one client into one queue.
#[derive(Debug)]
pub(super) struct Producers {
    line: Line,
    /// Who sends single jobs: the batcher, or a caller who is alone.
    single: Arc<AsyncMutex<Producer>>,
    /// Callers whose single jobs are on their way.
    callers: AtomicUsize,
    /// `None` until the first job; a new one takes the place of one that has ended.
    batcher: Mutex<Option<mpsc::Sender<Waiting>>>,
    bulk: Bulk,
}

/// The bulk lanes, and the producers that none of them uses now.
#[derive(Clone, Debug)]
struct Bulk {
    lanes: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<Producer>>>,
}

/// One who waits for a single job to be stored.
struct Caller<'a> {
    among: &'a AtomicUsize,
    is_alone: bool,
}

impl<'a> Caller<'a> {
    fn among(callers: &'a AtomicUsize) -> Self {
        Caller { among: callers, is_alone: callers.fetch_add(1, Ordering::Relaxed) == 0 }
    }
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        self.among.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct Waiting {
    job: NewJob,
    /// When its caller wants to know.
    until: Instant,
    answer: oneshot::Sender<Result<Answer>>,
}

impl Producers {
    pub(super) fn new(line: Line) -> Self {
        Producers {
            single: Arc::new(AsyncMutex::new(Producer::new(line.clone()))),
            line,
            callers: AtomicUsize::new(0),
            batcher: Mutex::default(),
            bulk: Bulk { lanes: Arc::new(Semaphore::new(BULK_LANES)), idle: Arc::default() },
        }
    }

    /// Stores one job, in the company of others that come at the same time.
    pub(super) async fn enqueue(&self, job: NewJob) -> Result<Answer> {
        let until = after(self.line.deadline);
        let caller = Caller::among(&self.callers);
        let job = match self.single.clone().try_lock_owned() {
            Ok(mut producer) if caller.is_alone => match producer.next(job) {
                Ok(request) => return self.enqueue_alone(producer, request, until).await,
                Err(job) => job,
            },
            _ => job,
        };
        let gone = || Error::Internal("the batcher of this client has ended; it is not known whether the job is stored".to_owned());
        let (answer, answered) = oneshot::channel();
        self.batcher().send(Waiting { job, until, answer }).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }

    /// Sends a request from here, once. What takes longer happens on the I/O thread: this may be no runtime with a clock.
    async fn enqueue_alone(&self, mut producer: OwnedMutexGuard<Producer>, request: Enqueue, until: Instant) -> Result<Answer> {
        let answers = match self.line.attempt(&request).await {
            Ok(answers) => Ok(answers),
            Err(error) => {
                let concluded = async move { producer.conclude(request, Some(error), until).await };
                on_broker(&self.line.broker, concluded).await?
            }
        };
        let answers = answers.map_err(|failure| failure.of(0))?;
        answers.into_iter().next().ok_or_else(|| Error::Internal("an enqueue of one job has no answer".to_owned()))
    }

    /// Stores one bounded batch, beside at most three others. Once begun, it goes on although its caller is dropped.
    pub(super) async fn enqueue_batch(&self, jobs: Vec<NewJob>) -> Result<Vec<Answer>, Failure> {
        let closed = || Failure::Refused(Error::Internal("the bulk lanes are closed".to_owned()));
        let Bulk { lanes, idle } = self.bulk.clone();
        let lane = lanes.acquire_owned().await.map_err(|_| closed())?;
        let line = self.line.clone();
        let stored = on_broker(&self.line.broker, async move {
            let spare = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let mut producer = spare.unwrap_or_else(|| Producer::new(line.clone()));
            let outcome = producer.send(jobs, after(line.deadline)).await;
            idle.lock().unwrap_or_else(PoisonError::into_inner).push(producer);
            drop(lane);
            outcome
        });
        stored.await.map_err(Failure::Refused)?
    }

    fn batcher(&self) -> mpsc::Sender<Waiting> {
        let mut batcher = self.batcher.lock().unwrap_or_else(PoisonError::into_inner);
        match &*batcher {
            Some(sender) if !sender.is_closed() => sender.clone(),
            _ => {
                let (sender, receiver) = mpsc::channel(WAITING);
                self.line.broker.spawn(Box::pin(run_batcher(self.single.clone(), self.line.clone(), receiver)));
                *batcher = Some(sender.clone());
                sender
            }
        }
    }
}

/// Ends when the last client is gone and everything that it gave is answered.
async fn run_batcher(producer: Arc<AsyncMutex<Producer>>, line: Line, mut waiting: mpsc::Receiver<Waiting>) {
    let mut gathered = Vec::new();
    let mut answers = Vec::new();
    loop {
        if gathered.is_empty() && waiting.recv_many(&mut gathered, MAX_ITEMS).await == 0 {
            return;
        }
        let mut producer = producer.lock().await;
        let size = batch_size(gathered.iter().map(|waiting| waiting.job.envelope.len()));
        let rest = if size == gathered.len() { Vec::new() } else { gathered.split_off(size) };
        let mut jobs = Vec::with_capacity(size);
        let now = Instant::now();
        let mut until = now;
        for Waiting { job, until: its_end, answer } in mem::replace(&mut gathered, rest) {
            if its_end < now {
                // It waited behind a batch that used up its time. Nothing of it was sent.
                drop(answer.send(Err(line.unavailable("it did not answer to the jobs before this one"))));
                continue;
            }
            until = until.max(its_end);
            jobs.push(job);
            answers.push(answer);
        }
        if jobs.is_empty() {
            continue;
        }
        // Nobody waits any more who was dropped meanwhile; the others' answers are what counts.
        match producer.send(jobs, until).await {
            Ok(results) => answers.drain(..).zip(results).for_each(|(answer, result)| drop(answer.send(Ok(result)))),
            Err(failure) => answers.drain(..).enumerate().for_each(|(i, answer)| drop(answer.send(Err(failure.of(i))))),
        }
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
