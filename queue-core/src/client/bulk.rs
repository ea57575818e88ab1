//! Many jobs at once.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use futures_util::{
    FutureExt,
    stream::{FuturesUnordered, StreamExt},
};
use tracing::Instrument;

use super::{
    Client, Handle, Job,
    handle::Kept,
    prepare::Prepared,
    producer::{Answer, Failure},
    sender::BULK,
};
use crate::{
    address::JobAddress,
    broker::{MAX_BYTES, MAX_ITEMS, NewJob},
    error::{Error, Result},
    observe::spans,
    task::Task,
};

/// Some items of an `enqueue_all` were not stored. [`answers`](Self::answers) has one entry per item that was taken from the
/// iterator, in order.
pub struct EnqueueAllError<T> {
    /// The answer for each item.
    pub answers: Vec<Result<Handle<T>>>,
}

impl<T> EnqueueAllError<T> {
    /// How many items were stored.
    pub fn stored(&self) -> usize {
        self.answers.iter().filter(|answer| answer.is_ok()).count()
    }

    /// The position and error of the first item that was not stored.
    pub fn first(&self) -> Option<(usize, &Error)> {
        self.answers.iter().enumerate().find_map(|(i, answer)| answer.as_ref().err().map(|error| (i, error)))
    }
}

impl<T> fmt::Display for EnqueueAllError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} jobs were not stored", self.answers.len() - self.stored(), self.answers.len())?;
        match self.first() {
            Some((position, error)) => write!(f, "; the first is item {position}: {error}"),
            None => Ok(()),
        }
    }
}

impl<T> fmt::Debug for EnqueueAllError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EnqueueAllError({self})")
    }
}

impl<T> std::error::Error for EnqueueAllError<T> {}

/// For `?`: the error of the first item that was not stored. The answers for the other items are lost.
impl<T> From<EnqueueAllError<T>> for Error {
    fn from(all: EnqueueAllError<T>) -> Self {
        let first = all.answers.into_iter().find_map(Result::err);
        first.unwrap_or_else(|| Error::Internal("an enqueue failed and names no item that did".to_owned()))
    }
}

/// Most bytes and jobs that are held for several queues together until a batch of one of them is full.
const HELD_BYTES: usize = 4 * MAX_BYTES;
const HELD_ITEMS: usize = 8 * MAX_ITEMS;

/// A batch of one queue that is being filled.
#[derive(Default)]
struct Batch {
    positions: Vec<usize>,
    addresses: Vec<(JobAddress, Option<Duration>)>,
    jobs: Vec<NewJob>,
    bytes: usize,
}

/// The answers so far, by position.
struct Answers<T> {
    client: Client,
    answers: Vec<Option<Result<Handle<T>>>>,
    failed: bool,
    /// Whether the broker refused a batch: there is no point in giving it more.
    stop: bool,
}

impl<T: Task> Answers<T> {
    fn set(&mut self, position: usize, answer: Result<Handle<T>>) {
        self.failed |= answer.is_err();
        self.answers[position] = Some(answer);
    }

    fn take(&mut self, (positions, addresses, result): Answered) {
        match result {
            Ok(answers) => {
                for ((position, (address, retention)), answer) in positions.into_iter().zip(addresses).zip(answers) {
                    let (client, own) = (self.client.clone(), address.id.clone());
                    let handle = answer.of(address).map(|(address, stored, confirmed)| {
                        let kept = Kept::of(retention, T::definition()).of_job(&own, &address.id);
                        Handle::new(client, address, stored, confirmed, kept)
                    });
                    self.set(position, handle);
                }
            }
            Err(failure) => {
                self.stop = true;
                positions.into_iter().enumerate().for_each(|(i, position)| self.set(position, Err(failure.of(i))));
            }
        }
    }
}

/// A batch that came back: positions, addresses and retentions of its jobs, and their answers.
type Answered = (Vec<usize>, Vec<(JobAddress, Option<Duration>)>, Result<Vec<Answer>, Failure>);

/// The batches that are being filled, by queue.
#[derive(Default)]
struct Batches {
    by_queue: HashMap<Arc<str>, Batch>,
    items: usize,
    bytes: usize,
}

impl Batches {
    /// Adds a job, and gives the batch that has to leave for it.
    fn add(&mut self, position: usize, Prepared { address, job, retention }: Prepared) -> Option<(Arc<str>, Batch)> {
        let (queue, size) = (address.queue.clone(), job.envelope.len());
        let batch = self.by_queue.entry(queue.clone()).or_default();
        let full = batch.jobs.len() == MAX_ITEMS || (batch.bytes + size > MAX_BYTES && !batch.jobs.is_empty());
        let leaves = full.then(|| (queue, std::mem::take(batch)));
        batch.bytes += size;
        batch.positions.push(position);
        batch.addresses.push((address, retention));
        batch.jobs.push(job);
        self.bytes += size;
        self.items += 1;
        let leaves = leaves.or_else(|| (self.bytes > HELD_BYTES || self.items > HELD_ITEMS).then(|| self.largest()).flatten());
        if let Some((_, batch)) = &leaves {
            self.bytes -= batch.bytes;
            self.items -= batch.jobs.len();
        }
        leaves
    }

    fn largest(&mut self) -> Option<(Arc<str>, Batch)> {
        let queue = self.by_queue.iter().max_by_key(|(_, batch)| (batch.bytes, batch.jobs.len()))?.0.clone();
        self.by_queue.remove_entry(&queue)
    }
}

/// Stores the jobs of an iterator within a span.
pub(super) async fn enqueue_all<T: Task>(
    client: &Client,
    jobs: Box<dyn Iterator<Item = Job<T>> + Send + '_>,
) -> Result<Vec<Handle<T>>, EnqueueAllError<T>> {
    let span = spans::enqueue_all(T::definition().name);
    let stored = store_all(client, jobs).instrument(span.clone()).await;
    span.record("jobs", stored.as_ref().map_or_else(EnqueueAllError::stored, Vec::len));
    stored.inspect_err(|error| spans::refused(&span, error))
}

async fn store_all<T: Task>(
    client: &Client,
    jobs: Box<dyn Iterator<Item = Job<T>> + Send + '_>,
) -> Result<Vec<Handle<T>>, EnqueueAllError<T>> {
    let definition = T::definition();
    let mut answers =
        Answers { client: client.clone(), answers: Vec::with_capacity(jobs.size_hint().0.min(100_000)), failed: false, stop: false };
    let mut batches = Batches::default();
    let mut in_flight = FuturesUnordered::new();
    let send = |queue: Arc<str>, batch: Batch| async move {
        let result = client.sender(&queue).enqueue_batch(batch.jobs).await;
        (batch.positions, batch.addresses, result)
    };
    for job in jobs {
        let position = answers.answers.len();
        answers.answers.push(None);
        let prepared = match job.prepare(definition, client.on_enqueue()) {
            Ok(prepared) => prepared,
            Err(error) => {
                answers.set(position, Err(error));
                continue;
            }
        };
        let Some((queue, batch)) = batches.add(position, prepared) else { continue };
        in_flight.push(send(queue, batch));
        // The first look sends it; it travels while the next one is filled.
        while let Some(Some(answered)) = in_flight.next().now_or_never() {
            answers.take(answered);
        }
        while in_flight.len() >= BULK {
            if let Some(answered) = in_flight.next().await {
                answers.take(answered);
            }
        }
        if answers.stop {
            break;
        }
    }
    let stopped = answers.stop;
    for (queue, batch) in batches.by_queue {
        if batch.jobs.is_empty() {
            continue;
        }
        if stopped {
            let why = "an earlier batch was refused, this one was not sent";
            let broker = client.info().location;
            for position in batch.positions {
                answers.set(position, Err(Error::unavailable(&broker, why)));
            }
        } else {
            in_flight.push(send(queue, batch));
        }
    }
    while let Some(answered) = in_flight.next().await {
        answers.take(answered);
    }
    let failed = answers.failed;
    let answers = answers.answers.into_iter().flatten();
    if failed { Err(EnqueueAllError { answers: answers.collect() }) } else { Ok(answers.flatten().collect()) }
}
