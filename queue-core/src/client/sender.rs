//! How the jobs of one client reach one queue.
//!
//! A batch is sent by a producer that has nothing else in flight, and [`Producer::conclude`]
//! repeats it until it is answered. Three kinds of callers make batches of different sizes:
//!
//! - A single caller sends its job at once, from its own thread.
//! - Jobs of several callers are gathered. The I/O thread sends the gathered jobs as soon as fewer
//!   than [`FLIGHTS`] batches are in flight, including that of a caller's thread. All callers of a
//!   client have the same deadline, so those of a batch in flight are answered before those whose
//!   jobs were gathered later.
//! - `enqueue_all` submits whole batches, and has at most [`BULK`] in flight.

use std::{
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    time::{Instant, timeout_at},
};
use tracing::Instrument;

use super::{
    Client, Inner,
    callers::{Callers, Waiter},
    producer::{Answer, Failure, Fate, Producer, Route},
};
use crate::{
    address::topic_at,
    broker::{Enqueue, MAX_BYTES, MAX_ITEMS, NewJob, after, on_broker},
    error::{Error, Result},
};

/// Gathered jobs of a queue. A caller beyond them waits, within its deadline.
const GATHERED: usize = 65_536;

/// Batches of single jobs in flight at once: while the server stores one, the callers of the other
/// enqueue new jobs.
const FLIGHTS: usize = 2;

/// Batches of `enqueue_all` in flight at once.
pub(super) const BULK: usize = 4;

impl Client {
    /// The one way of this client to a queue, made when it is first wanted.
    pub(super) fn sender(&self, queue: &Arc<str>) -> Arc<Sender> {
        let mut senders = self.0.senders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = senders.get(queue) {
            return found.clone();
        }
        let Inner { broker, process, deadline, confirm, served_only, .. } = &*self.0;
        let route = Route {
            broker: broker.clone(),
            queue: queue.clone(),
            process: *process,
            deadline: *deadline,
            confirm: *confirm,
            met: Arc::default(),
            // An event is kept for later subscriptions, so a topic needs no worker.
            served_only: *served_only && topic_at(queue).is_none(),
            // A test enqueues before its worker starts.
            warned: Arc::new(AtomicBool::new(topic_at(queue).is_some() || broker.clock().is_frozen())),
        };
        let made = Sender::new(route);
        senders.insert(queue.clone(), made.clone());
        made
    }
}

/// The sending state of a client for one queue.
#[derive(Debug)]
pub(super) struct Sender {
    route: Route,
    /// Calls of `enqueue` that have not returned.
    callers: AtomicUsize,
    /// A permit for each gathered job.
    room: Arc<Semaphore>,
    /// A permit for each batch of `enqueue_all`.
    bulk: Arc<Semaphore>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    gathered: Vec<Gathered>,
    /// Batches of single jobs in flight.
    flying: usize,
    /// Producers with nothing in flight.
    idle: Vec<Producer>,
}

#[derive(Debug)]
struct Gathered {
    job: NewJob,
    caller: Waiter,
    _room: OwnedSemaphorePermit,
}

impl Sender {
    pub(super) fn new(route: Route) -> Arc<Self> {
        Arc::new(Sender {
            route,
            callers: AtomicUsize::new(0),
            room: Arc::new(Semaphore::new(GATHERED)),
            bulk: Arc::new(Semaphore::new(BULK)),
            state: Mutex::default(),
        })
    }

    /// Stores one job: at once, if no other caller is there, and otherwise with those of other
    /// callers.
    pub(super) async fn enqueue(self: &Arc<Self>, job: NewJob) -> Result<Answer> {
        let until = after(self.route.deadline);
        let _call = Call(self);
        if self.callers.fetch_add(1, Ordering::Relaxed) == 0
            && let Some(_flight) = Lone::try_start(self)
        {
            let answers = self.send_from_here(vec![job], until).await.map_err(|failure| failure.of(0))?;
            return answers.into_iter().next().ok_or_else(|| Error::Internal("an enqueue of one job has no answer".to_owned()));
        }
        let room = self.permit(&self.room, until).await?;
        let (answer, answered) = oneshot::channel();
        self.change(|state| state.gathered.push(Gathered { job, caller: Waiter { until, answer }, _room: room }));
        answered.await.map_err(|_| Error::Internal("a batch came to no end; it is not known whether its jobs are stored".to_owned()))?
    }

    /// Stores one batch of `enqueue_all`. A batch that was begun continues even if its caller is
    /// dropped.
    pub(super) async fn enqueue_batch(self: &Arc<Self>, jobs: Vec<NewJob>) -> Result<Vec<Answer>, Failure> {
        let until = after(self.route.deadline);
        let permit = self.permit(&self.bulk, until).await.map_err(Failure::Refused)?;
        let mut producer = self.producer();
        let request = producer.request(jobs);
        self.conclude(producer, request, Fate::default(), until, Some(permit)).await
    }

    /// Sends a batch once from the caller's thread. The I/O thread does everything that takes
    /// longer, because the caller's runtime may have no clock.
    async fn send_from_here(self: &Arc<Self>, jobs: Vec<NewJob>, until: Instant) -> Result<Vec<Answer>, Failure> {
        let mut producer = self.producer();
        let mut request = producer.request(jobs);
        let mut fate = Fate::default();
        if request.seq > 0 {
            request.until = Some(self.route.end_of_attempt(until).into_std());
            match self.route.attempt(&request).await {
                Ok(answers) => {
                    self.lock().idle.push(producer);
                    return Ok(answers);
                }
                Err(error) => fate = Fate::of(error),
            }
        }
        self.conclude(producer, request, fate, until, None).await
    }

    /// Sends a request on the I/O thread until it is answered or its time is up. The producer is
    /// idle afterwards.
    async fn conclude(
        self: &Arc<Self>,
        mut producer: Producer,
        request: Enqueue,
        fate: Fate,
        until: Instant,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Result<Vec<Answer>, Failure> {
        let sender = self.clone();
        let concluded = async move {
            let outcome = producer.conclude(request, fate, &mut Callers::One(until)).await;
            sender.lock().idle.push(producer);
            drop(permit);
            outcome
        };
        on_broker(&self.route.broker, concluded.in_current_span()).await.map_err(Failure::Refused)?
    }

    /// Takes a permit. Waits for it on the I/O thread: the caller's runtime may have no clock.
    async fn permit(&self, of: &Arc<Semaphore>, until: Instant) -> Result<OwnedSemaphorePermit> {
        if let Ok(permit) = of.clone().try_acquire_owned() {
            return Ok(permit);
        }
        let permit = of.clone().acquire_owned();
        let permit = on_broker(&self.route.broker, async move { timeout_at(until, permit).await }).await?;
        permit.map_err(|_| self.route.late())?.map_err(|_| Error::Internal("a semaphore is closed".to_owned()))
    }

    fn producer(&self) -> Producer {
        let idle = self.lock().idle.pop();
        idle.unwrap_or_else(|| Producer::new(self.route.clone()))
    }

    /// Changes the state, and sends the collected jobs if that has become possible.
    fn change<T>(self: &Arc<Self>, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let changed = change(&mut state);
        let flight = self.next_flight(&mut state);
        drop(state);
        if let Some(flight) = flight {
            self.route.broker.spawn(Box::pin(flight.send()));
        }
        changed
    }

    /// A flight for gathered jobs, where that is worth a request. It must not be dropped under the
    /// lock.
    fn next_flight(self: &Arc<Self>, state: &mut State) -> Option<Flight> {
        let starts = match state.flying {
            0 => !state.gathered.is_empty(),
            flying => flying < FLIGHTS && self.is_worth(state.gathered.len()),
        };
        starts.then(|| {
            state.flying += 1;
            Flight(Some(self.clone()))
        })
    }

    /// Whether `jobs` jobs justify another request while one is in flight: all requests then carry
    /// about the same number.
    fn is_worth(&self, jobs: usize) -> bool {
        jobs >= MAX_ITEMS || jobs > 0 && jobs * FLIGHTS >= self.callers.load(Ordering::Relaxed)
    }

    /// The jobs that are sent next, and their waiting callers.
    fn next_batch(&self, state: &mut State) -> (Vec<NewJob>, Vec<Option<Waiter>>) {
        self.fail_overdue(state);
        let rest = state.gathered.split_off(batch_size(state.gathered.iter().map(|gathered| gathered.job.envelope.len())));
        mem::replace(&mut state.gathered, rest).into_iter().map(|Gathered { job, caller, .. }| (job, Some(caller))).unzip()
    }

    /// Answers gathered callers whose deadline has passed. Their jobs were not sent.
    fn fail_overdue(&self, state: &mut State) {
        let now = Instant::now();
        for Gathered { caller, .. } in state.gathered.extract_if(.., |gathered| gathered.caller.until <= now) {
            drop(caller.answer.send(Err(self.route.late())));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call of `enqueue`.
struct Call<'a>(&'a Sender);

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.callers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The batch of a caller that sends from its own thread. It counts among the [`FLIGHTS`].
struct Lone<'a>(&'a Arc<Sender>);

impl<'a> Lone<'a> {
    /// `None`: batches whose callers no longer wait are still in flight.
    fn try_start(sender: &'a Arc<Sender>) -> Option<Self> {
        let mut state = sender.lock();
        let is_free = state.flying < FLIGHTS;
        state.flying += usize::from(is_free);
        // `drop` takes the lock that is held here: a value is built only if it is returned.
        is_free.then(|| Lone(sender))
    }
}

impl Drop for Lone<'_> {
    fn drop(&mut self) {
        self.0.change(|state| state.flying -= 1);
    }
}

/// One of the [`FLIGHTS`] of collected jobs, from the decision to send it. `None` when it has
/// ended.
struct Flight(Option<Arc<Sender>>);

impl Flight {
    async fn send(mut self) {
        let Some(sender) = self.0.clone() else { return };
        let (jobs, callers) = sender.change(|state| sender.next_batch(state));
        if jobs.is_empty() {
            return self.finish(&sender);
        }
        let mut callers = Callers::Each(callers);
        let mut producer = sender.producer();
        let request = producer.request(jobs);
        let outcome = producer.conclude(request, Fate::default(), &mut callers).await;
        // The producer is made idle before callers are answered, so that a caller that enqueues
        // again takes it.
        sender.lock().idle.push(producer);
        self.finish(&sender);
        callers.answer(outcome);
    }

    fn finish(&mut self, sender: &Arc<Sender>) {
        self.0 = None;
        sender.change(|state| state.flying -= 1);
    }
}

impl Drop for Flight {
    /// Reports to callers that wait for the next flight that this one panicked, or that its thread
    /// has ended.
    fn drop(&mut self) {
        if let Some(sender) = self.0.take() {
            let mut state = sender.lock();
            state.flying -= 1;
            state.gathered.clear();
        }
    }
}

/// How many of these items fit into one request; at least one, where there is any.
fn batch_size(sizes: impl ExactSizeIterator<Item = usize>) -> usize {
    let (mut bytes, all) = (0, sizes.len());
    let fitting = sizes.take(MAX_ITEMS).take_while(|size| {
        bytes += size;
        bytes <= MAX_BYTES
    });
    fitting.count().max(1).min(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_bounded_in_items_and_in_bytes() {
        let size = |sizes: Vec<usize>| batch_size(sizes.into_iter());
        assert_eq!(size(vec![100; 10_000]), MAX_ITEMS);
        assert_eq!(size(vec![256 * 1024; 10]), 4);
        assert_eq!(size(vec![2 * MAX_BYTES, 10]), 1);
        assert_eq!(size(vec![10]), 1);
        assert_eq!(size(vec![]), 0);
    }

    /// Runs a test that might block forever in its own thread.
    #[cfg(feature = "sqlite")]
    #[test]
    fn a_caller_who_is_alone_waits_while_all_batches_are_in_flight() {
        let (tried, answer) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime can be made");
            let client = runtime.block_on(Client::open("sqlite://:memory:")).expect("memory can be opened");
            let sender = client.sender(&"mail".into());
            sender.lock().flying = FLIGHTS;
            tried.send((Lone::try_start(&sender).is_none(), sender.lock().flying)).expect("the test waits for it");
        });
        assert_eq!(answer.recv_timeout(std::time::Duration::from_secs(10)), Ok((true, FLIGHTS)));
    }
}
