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
    envelope::tags::has_tags,
    error::{Error, Result},
    observe::spans,
    task::Task,
};

/// Some items of an `enqueue_all` were not stored. [`answers`](Self::answers) has one entry per
/// item that was taken from the iterator, in order. To store the rest, repeat the items whose
/// answer is an error, and those after the last answer. For an [`Error::Unknown`], call `retry()`
/// instead.
pub struct EnqueueAllError<T> {
    /// The answer for each item.
    pub answers: Vec<Result<Handle<T>>>,
    /// How many items were not taken, as reported by the iterator.
    rest: usize,
}

impl<T> EnqueueAllError<T> {
    /// How many items were stored.
    pub fn stored(&self) -> usize {
        self.answers.iter().filter(|answer| answer.is_ok()).count()
    }

    /// How many items may be stored: the broker has not answered.
    pub fn unknown(&self) -> usize {
        self.answers.iter().filter(|answer| answer.as_ref().is_err_and(Error::is_ambiguous)).count()
    }

    /// The number of given items: those of [`answers`](Self::answers), and those left in the
    /// iterator, by its lower bound.
    pub fn given(&self) -> usize {
        self.answers.len() + self.rest
    }

    /// The position and error of the first item that was not stored.
    pub fn first(&self) -> Option<(usize, &Error)> {
        self.answers.iter().enumerate().find_map(|(i, answer)| answer.as_ref().err().map(|error| (i, error)))
    }
}

impl<T> fmt::Display for EnqueueAllError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (stored, unknown, given) = (self.stored(), self.unknown(), self.given());
        write!(f, "{} of {given} jobs were not stored, {stored} were stored", given - stored - unknown)?;
        if unknown > 0 {
            write!(f, ", {unknown} may be stored")?;
        }
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

/// For `?`: [`Error::PartlyStored`] if some items are stored. If none is stored, the error of the
/// first item whose fate is unknown, or else of the first item.
impl<T> From<EnqueueAllError<T>> for Error {
    fn from(all: EnqueueAllError<T>) -> Self {
        let given = all.given();
        let (stored, failed): (Vec<_>, Vec<_>) = all.answers.into_iter().partition(Result::is_ok);
        let mut failed: Vec<Error> = failed.into_iter().filter_map(Result::err).collect();
        let at = failed.iter().position(Error::is_ambiguous).unwrap_or(0);
        let first = (at < failed.len()).then(|| failed.swap_remove(at));
        let cause = first.unwrap_or_else(|| Error::Internal("an enqueue failed without naming a failed item".to_owned()));
        let stored: Vec<JobAddress> = stored.into_iter().flatten().map(|handle| handle.address().clone()).collect();
        if stored.is_empty() { cause } else { Error::PartlyStored { stored, given, cause: Box::new(cause) } }
    }
}

/// The most bytes and jobs that are held for several queues together until one of their batches is
/// full.
const HELD_BYTES: usize = 4 * MAX_BYTES;
const HELD_ITEMS: usize = 8 * MAX_ITEMS;

/// A batch of one queue that is being filled.
#[derive(Default)]
struct Batch {
    positions: Vec<usize>,
    addresses: Vec<(JobAddress, Option<Duration>)>,
    jobs: Vec<NewJob>,
    bytes: usize,
    weight: usize,
}

/// How many plain jobs a job counts for in a batch. The broker does more for one with a given id, a
/// group, limits, a unique key or tags: 500 of those with everything would keep a Redis server busy
/// for over 20 ms.
fn weight(job: &NewJob) -> usize {
    let has = [job.id.is_given(), job.group.is_some(), job.limits.is_some(), job.unique.is_some(), has_tags(&job.envelope)];
    1 + 5 * has.into_iter().filter(|has| *has).count()
}

/// The answers so far, by position.
struct Answers<T> {
    client: Client,
    answers: Vec<Option<Result<Handle<T>>>>,
    failed: bool,
    /// Whether the broker refused a batch: further batches would be refused too.
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

/// An answered batch: positions, addresses and retentions of its jobs, and their answers.
type Answered = (Vec<usize>, Vec<(JobAddress, Option<Duration>)>, Result<Vec<Answer>, Failure>);

/// The batches that are being filled, by queue.
#[derive(Default)]
struct Batches {
    by_queue: HashMap<Arc<str>, Batch>,
    items: usize,
    bytes: usize,
}

impl Batches {
    /// Adds a job, and returns the batch that has to be sent before.
    fn add(&mut self, position: usize, Prepared { address, job, retention, .. }: Prepared) -> Option<(Arc<str>, Batch)> {
        let (queue, size) = (address.queue.clone(), job.envelope.len());
        let batch = self.by_queue.entry(queue.clone()).or_default();
        let weight = weight(&job);
        let full = batch.weight + weight > MAX_ITEMS || (batch.bytes + size > MAX_BYTES && !batch.jobs.is_empty());
        let leaves = full.then(|| (queue, std::mem::take(batch)));
        batch.bytes += size;
        batch.weight += weight;
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
    let mut jobs = jobs;
    for job in jobs.by_ref() {
        let position = answers.answers.len();
        answers.answers.push(None);
        let prepared = match job.prepare(definition, client.on_enqueue()) {
            Ok(prepared) => client.check_limits(&prepared.address.queue, &prepared.limits).await.map(|()| prepared),
            error => error,
        };
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                answers.set(position, Err(error));
                continue;
            }
        };
        let Some((queue, batch)) = batches.add(position, prepared) else { continue };
        in_flight.push(send(queue, batch));
        // The first poll sends it. It is in flight while the next one is filled.
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
    let (failed, rest) = (answers.failed, jobs.size_hint().0);
    let answers = answers.answers.into_iter().flatten();
    if failed { Err(EnqueueAllError { answers: answers.collect(), rest }) } else { Ok(answers.flatten().collect()) }
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use super::*;
    use crate::{
        JobId, Stored,
        broker::{GroupName, Unique, UniqueKey},
        envelope::Envelope,
    };

    #[test]
    fn a_batch_has_fewer_jobs_if_they_have_keys_groups_or_tags() {
        let first_batch = |change: &dyn Fn(&mut NewJob)| {
            let mut batches = Batches::default();
            let mut left = (0..).find_map(|position| {
                let mut job = NewJob::new(JobId::make(), Envelope::new("mail", &[0x80]).encode().unwrap());
                change(&mut job);
                let address = JobAddress { queue: "mail".into(), id: job.id.clone() };
                batches.add(position, Prepared { address, job, retention: None, limits: Vec::new() })
            });
            left.take().map_or(0, |(_, batch)| batch.jobs.len())
        };
        let key = |job: &mut NewJob| job.unique = Some(Box::new(Unique::new(UniqueKey::of("mail", b"1"))));
        let tag = |job: &mut NewJob| {
            let mut envelope = Envelope::new("mail", &[0x80]);
            envelope.tags.insert("customer".to_owned(), "7".to_owned());
            job.envelope = envelope.encode().unwrap();
        };
        assert_eq!(first_batch(&|_| {}), MAX_ITEMS);
        assert_eq!(first_batch(&key), MAX_ITEMS / 6);
        let all = |job: &mut NewJob| {
            key(job);
            tag(job);
            job.id = JobId::given("mine").unwrap();
            job.group = Some(GroupName::new("ada").unwrap());
        };
        assert_eq!(first_batch(&all), MAX_ITEMS / 21);
    }

    #[tokio::test]
    async fn an_error_of_many_reports_exactly_what_is_stored() {
        let client = Client::open("sqlite://:memory:").await.unwrap();
        let address = |id: &str| JobAddress { queue: "mail".into(), id: JobId::given(id).unwrap() };
        let stored = |id: &str| Ok(Handle::<()>::new(client.clone(), address(id), Stored::New, None, Kept::No));
        let full = || Error::BrokerFull { broker: "here".to_owned(), problem: "no memory".to_owned() };
        let some =
            EnqueueAllError { answers: vec![stored("a"), Err(full()), stored("b"), Err(Error::ambiguous("here", "silence"))], rest: 5 };
        assert_eq!((some.stored(), some.unknown(), some.given()), (2, 1, 9));
        assert!(some.to_string().starts_with("6 of 9 jobs were not stored, 2 were stored, 1 may be stored"), "{some}");
        let error = Error::from(some);
        assert!(error.is_ambiguous() && !error.is_transient(), "repeating the call would store two of them again");
        let message = error.to_string();
        assert!(message.starts_with("2 of 9 are stored"), "{message}");
        let Error::PartlyStored { stored, given: 9, .. } = error else { panic!("{error:?}") };
        assert_eq!(stored, [address("a"), address("b")]);
        // Where nothing is stored, the message is that of the cause.
        let none = EnqueueAllError::<()> { answers: vec![Err(full()), Err(full())], rest: 0 };
        assert!(matches!(Error::from(none), Error::BrokerFull { .. }));
    }
}
