//! Many jobs at once.

use std::{collections::HashMap, fmt, sync::Arc};

use futures_util::stream::{FuturesUnordered, StreamExt};

use super::{
    Client, Handle, Job,
    job::Prepared,
    producer::{Answer, BULK_LANES},
};
use crate::{
    address::JobAddress,
    broker::{MAX_BYTES, MAX_ITEMS, NewJob},
    error::{Error, Result},
    task::Task,
};

/// Some items of an `enqueue_all` were not stored. [`answers`](Self::answers) has one entry per item that was taken from the
/// iterator, in order.
pub struct EnqueueAllError<T> {
    /// What became of each item.
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

/// A batch of one queue that is being filled.
#[derive(Default)]
struct Batch {
    positions: Vec<usize>,
    addresses: Vec<JobAddress>,
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

impl<T> Answers<T> {
    fn set(&mut self, position: usize, answer: Result<Handle<T>>) {
        self.failed |= answer.is_err();
        self.answers[position] = Some(answer);
    }

    fn take(&mut self, (positions, addresses, result): (Vec<usize>, Vec<JobAddress>, Result<Vec<Answer>>)) {
        match result {
            Ok(answers) => {
                for ((position, address), answer) in positions.into_iter().zip(addresses).zip(answers) {
                    let answer = match answer {
                        Answer::IdConflict => Err(Error::IdConflict(address)),
                        answer => Ok(Handle::new(self.client.clone(), address, answer == Answer::Existing)),
                    };
                    self.set(position, answer);
                }
            }
            Err(error) => {
                self.stop = true;
                let mut rest = positions.into_iter();
                let first = rest.next();
                // The first item carries the pending call of the whole batch; the others say the same without it.
                rest.for_each(|position| self.set(position, Err(error.duplicate())));
                if let Some(first) = first {
                    self.set(first, Err(error));
                }
            }
        }
    }
}

pub(super) async fn enqueue_all<T: Task>(
    client: &Client,
    jobs: impl Iterator<Item = Job<T>>,
) -> Result<Vec<Handle<T>>, EnqueueAllError<T>> {
    let definition = T::definition();
    let mut answers =
        Answers { client: client.clone(), answers: Vec::with_capacity(jobs.size_hint().0.min(100_000)), failed: false, stop: false };
    let mut batches: HashMap<Arc<str>, Batch> = HashMap::new();
    let mut in_flight = FuturesUnordered::new();
    let send = |queue: Arc<str>, batch: Batch| async move {
        let result = client.producers(&queue).enqueue_batch(batch.jobs).await;
        (batch.positions, batch.addresses, result)
    };
    for job in jobs {
        let position = answers.answers.len();
        answers.answers.push(None);
        let Prepared { address, job } = match job.prepare(definition) {
            Ok(prepared) => prepared,
            Err(error) => {
                answers.set(position, Err(error));
                continue;
            }
        };
        let queue = address.queue.clone();
        let batch = batches.entry(queue.clone()).or_default();
        let full = batch.jobs.len() == MAX_ITEMS || (batch.bytes + job.envelope.len() > MAX_BYTES && !batch.jobs.is_empty());
        if full {
            in_flight.push(send(queue, std::mem::take(batch)));
        }
        batch.bytes += job.envelope.len();
        batch.positions.push(position);
        batch.addresses.push(address);
        batch.jobs.push(job);
        while in_flight.len() >= BULK_LANES {
            if let Some(answered) = in_flight.next().await {
                answers.take(answered);
            }
        }
        if answers.stop {
            break;
        }
    }
    let stopped = answers.stop;
    for (queue, batch) in batches {
        if batch.jobs.is_empty() {
            continue;
        }
        if stopped {
            let why = "an earlier batch was refused, this one was not sent";
            let broker = client.info().location;
            for position in batch.positions {
                answers.set(position, Err(Error::Unavailable { broker: broker.clone(), problem: why.to_owned() }));
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
