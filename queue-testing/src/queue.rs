//! The queue of a test.

use std::{
    fmt,
    pin::pin,
    sync::{Arc, mpsc},
    task::{Context, Poll, Wake},
    thread::{self, Thread},
    time::{Duration, SystemTime},
};

use queue_core::{
    __private::{
        SqliteBroker,
        row::{Middlewares, Outgoing},
    },
    Client, Job, JobState, Task, TaskOutput,
    broker::{DynBroker, Ending, SweepLimits},
    inspect::{Inspector, JobRecord},
};
use queue_worker::{__testing::Inline, Worker, WorkerError};
use serde::de::DeserializeOwned;
use tokio::sync::{Mutex, MutexGuard};

use crate::{
    faults::{Fault, Faulty},
    ran::{Drained, End, Ran},
};

/// A drain that has run so many jobs does not end by itself.
const MOST: usize = 100_000;

/// The states of jobs that have not ended.
const WAITING: [JobState; 6] = [JobState::Ready, JobState::Scheduled, JobState::Held, JobState::Retry, JobState::Parked, JobState::Active];

/// A span of time: a [`Duration`], or a text such as `"10m"` or `"1h 30m"`.
pub trait Span {
    /// The time.
    ///
    /// # Panics
    /// If a text is not a span of time.
    fn span(self) -> Duration;
}

impl Span for Duration {
    fn span(self) -> Duration {
        self
    }
}

impl Span for &str {
    #[track_caller]
    fn span(self) -> Duration {
        humantime::parse_duration(self).unwrap_or_else(|error| panic!("time `{self}`: {error}; write it like `10m` or `1h 30m`"))
    }
}

/// A queue of one test.
///
/// The code that is tested enqueues with [`client`](Self::client). Jobs run only when the test
/// calls [`drain`](Self::drain), [`run_one`](Self::run_one) or
/// [`run_in_place`](Self::run_in_place). The clock stands until the test moves it. All tasks that
/// are linked into the test are known, and what they declare is in effect from the beginning:
/// limits, groups, aging, schedules, subscriptions.
///
/// Nothing is shared between two of them, so tests run in parallel. Methods that are not `async`
/// may be called anywhere; the others need a Tokio runtime, as `#[tokio::test]` has one, or
/// [`block_on`](crate::block_on) in a `#[test]`.
pub struct TestQueue {
    client: Client,
    /// The same broker without faults.
    own: Client,
    faulty: Arc<Faulty>,
    memory: Option<Arc<SqliteBroker>>,
    configure: Vec<Box<dyn Fn(Worker) -> Worker + Send + Sync>>,
    worker: Mutex<Option<Inline>>,
}

impl TestQueue {
    /// A queue in memory, whose clock stands at the present.
    #[track_caller]
    pub fn new() -> Self {
        TestQueue::starting_at(SystemTime::now())
    }

    /// The same, with a clock that stands at this time.
    #[track_caller]
    pub fn starting_at(now: SystemTime) -> Self {
        let memory = SqliteBroker::frozen(now).unwrap_or_else(|error| panic!("{error}"));
        TestQueue::of(memory.clone(), Some(memory))
    }

    /// A queue on a Redis or Valkey server, in a namespace of its own. Its clock is the server's,
    /// so that [`advance`](Self::advance) cannot be used. What it stores stays on the server.
    ///
    /// # Panics
    /// If the server cannot be reached, or the URL names a namespace.
    #[track_caller]
    pub fn redis(url: &str) -> Self {
        assert!(!url.contains("namespace="), "URL `{url}`: leave out `namespace=`; each test queue has a namespace of its own");
        let separator = if url.contains('?') { '&' } else { '?' };
        let url = format!("{url}{separator}namespace=test-{:016x}", fastrand::u64(..));
        let client = wait(Client::connect(&url)).unwrap_or_else(|error| panic!("{error}"));
        TestQueue::of(client.broker().clone(), None)
    }

    #[track_caller]
    fn of(broker: DynBroker, memory: Option<Arc<SqliteBroker>>) -> Self {
        let faulty = Faulty::new(broker.clone());
        let (client, own) = (Client::with_broker(faulty.clone()), Client::with_broker(broker));
        let queue = TestQueue { client, own, faulty, memory, configure: Vec::new(), worker: Mutex::default() };
        // What the tasks declare has to be in effect before the first enqueue. If it cannot be, a
        // drain says so: the test may choose its tasks before.
        let worker = wait(queue.start()).ok();
        TestQueue { worker: Mutex::new(worker), ..queue }
    }

    /// Gives a value to every task that takes a `Data<T>`.
    #[must_use]
    pub fn data<T: Send + Sync + 'static>(self, value: T) -> Self {
        self.shared_data(Arc::new(value))
    }

    /// The same with a value that is shared already, which may be a trait object: an
    /// `Arc<dyn Mailer>` for a `Data<dyn Mailer>`.
    #[must_use]
    pub fn shared_data<T: ?Sized + Send + Sync + 'static>(mut self, value: Arc<T>) -> Self {
        self.configure.push(Box::new(move |worker| worker.shared_data(value.clone())));
        *self.worker.get_mut() = None;
        self
    }

    /// Configures the worker that runs the jobs, as the application does: middleware, schedules,
    /// backoff, timeout, a registry.
    ///
    /// # Panics
    /// If two tasks have the same name, or what tasks declare is contradictory: with the message of
    /// a worker that refuses to start.
    #[must_use]
    #[track_caller]
    pub fn worker(mut self, configure: impl Fn(Worker) -> Worker + Send + Sync + 'static) -> Self {
        self.configure.push(Box::new(configure));
        let worker = wait(self.start()).unwrap_or_else(|error| panic!("{error}"));
        *self.worker.get_mut() = Some(worker);
        self
    }

    async fn start(&self) -> Result<Inline, WorkerError> {
        let worker = Worker::new(self.client.clone()).release("test");
        let worker = self.configure.iter().fold(worker, |worker, configure| configure(worker));
        Inline::new(worker, self.own.broker().clone(), self.faulty.waits.clone()).await
    }

    async fn inline(&self) -> MutexGuard<'_, Option<Inline>> {
        let mut worker = self.worker.lock().await;
        if worker.is_none() {
            *worker = Some(done(self.start().await));
        }
        worker
    }

    /// The client with which the tested code enqueues. Handlers get a clone of it.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Lists, shows and changes jobs. [`fail_next`](Self::fail_next) does not concern it.
    pub fn inspector(&self) -> Inspector {
        self.own.inspector()
    }

    /// What the clock shows.
    pub fn now(&self) -> SystemTime {
        self.own.broker().clock().now()
    }

    /// Moves the clock forward. Jobs that are due now run with the next [`drain`](Self::drain), or
    /// at once in a worker of the test's own. Records whose retention has ended are removed.
    ///
    /// Ticks of schedules that were passed over are caught up on as the schedule says, as after a
    /// time without a worker. Use [`drain_for`](Self::drain_for) to run each tick at its time.
    ///
    /// # Panics
    /// On a Redis server.
    #[track_caller]
    pub fn advance(&self, by: impl Span) {
        let Some(memory) = &self.memory else {
            panic!(
                "the clock of a Redis server cannot be moved: use `TestQueue::new()`, or `inspector().promote(..)` for a job that waits for \
                 its time"
            );
        };
        memory.advance(by.span());
        let broker: DynBroker = memory.clone();
        let swept = on_broker(&broker.clone(), async move {
            for queue in broker.queues().await? {
                while broker.sweep(&queue, &SweepLimits::default()).await?.more {}
            }
            Ok::<(), queue_core::Error>(())
        });
        swept.unwrap_or_else(|error| panic!("{error}"));
    }

    /// Makes the next call of [`client`](Self::client) fail, also one of a handler. Call it again
    /// for the calls behind that.
    pub fn fail_next(&self, fault: Fault) {
        self.faulty.fail_next(fault);
    }

    /// The jobs that have not ended, in the order in which they were enqueued.
    ///
    /// # Panics
    /// If the server does not answer.
    #[track_caller]
    pub fn enqueued(&self) -> Vec<JobRecord> {
        self.in_states(None)
    }

    /// Those in a state, or those that have not ended.
    #[track_caller]
    pub(crate) fn in_states(&self, state: Option<JobState>) -> Vec<JobRecord> {
        let inspector = self.inspector();
        let states = state.as_ref().map_or(&WAITING[..], std::slice::from_ref);
        let read = async {
            let mut all = Vec::new();
            for queue in inspector.queues().await? {
                let stats = inspector.stats(&queue).await?;
                for state in states.iter().filter(|state| stats.count(**state) > 0) {
                    let mut walk = inspector.walk(&queue, *state);
                    while let Some(jobs) = walk.next().await? {
                        all.extend(jobs);
                    }
                }
            }
            Ok::<_, queue_core::Error>(all)
        };
        let mut all = wait(read).unwrap_or_else(|error| panic!("{error}"));
        all.sort_by(|one, other| (one.enqueued_at, &one.address.id).cmp(&(other.enqueued_at, &other.address.id)));
        all
    }

    /// Runs jobs until none can start, with the jobs that they enqueue. Jobs that wait for their
    /// time stay.
    ///
    /// # Panics
    /// If jobs enqueue further jobs without end, or two tasks have the same name.
    pub async fn drain(&self) -> Drained {
        self.drain_of(None).await
    }

    /// The same of one queue.
    ///
    /// # Panics
    /// As [`drain`](Self::drain).
    pub async fn drain_queue(&self, queue: &str) -> Drained {
        self.drain_of(Some(queue)).await
    }

    /// Drains, and moves the clock to each time at which a job or a schedule is due, until this
    /// much time has passed: what a worker does in that time.
    ///
    /// # Panics
    /// As [`drain`](Self::drain), and on a Redis server.
    pub async fn drain_for(&self, time: impl Span) -> Drained {
        let end = self.now() + time.span();
        let mut all = self.drain().await;
        loop {
            let left = end.duration_since(self.now()).unwrap_or_default();
            let due = self.inline().await.as_ref().and_then(Inline::next_due).filter(|due| *due <= left);
            let Some(due) = due else {
                self.advance(left);
                return all;
            };
            self.advance(due.max(Duration::from_millis(1)));
            self.drain().await.runs.into_iter().for_each(|ran| all.add(ran));
            assert!(all.total() < MOST, "{MOST} runs have not ended the drain: the last was {}", all.runs[MOST - 1]);
        }
    }

    async fn drain_of(&self, queue: Option<&str>) -> Drained {
        let mut worker = self.inline().await;
        let Some(worker) = worker.as_mut() else { return Drained::default() };
        let mut drained = Drained::default();
        while let Some(ran) = done(worker.next(queue).await) {
            drained.add(ran.into());
            assert!(drained.total() < MOST, "{MOST} runs have not ended the drain: the last was {}", drained.runs[MOST - 1]);
        }
        drained
    }

    /// Runs the next job that can start. `None`: no job can. If it waits for the end of another
    /// job, other jobs run meanwhile.
    pub async fn run_one(&self) -> Option<Ran> {
        let mut worker = self.inline().await;
        let worker = worker.as_mut()?;
        let mut last = None;
        while let Some(ran) = done(worker.next(None).await) {
            last = Some(ran.into());
            if !worker.is_running() {
                break;
            }
        }
        last
    }

    /// Runs a job here and now, as its first attempt, without storing it: its delay, key, group and
    /// limits do not matter. Parameters and result pass through their stored form.
    ///
    /// # Errors
    /// How the run ended, if it was not done.
    ///
    /// # Panics
    /// If the job cannot be enqueued, or its result cannot be stored.
    pub async fn run_in_place<T: Task>(&self, job: Job<T>) -> Result<TaskOutput<T>, End>
    where
        TaskOutput<T>: DeserializeOwned,
    {
        let (address, job) = Outgoing::prepare(job, &Middlewares::default()).unwrap_or_else(|error| panic!("{error}"));
        let mut worker = self.inline().await;
        let Some(worker) = worker.as_mut() else { return Err(End::Returned) };
        match done(worker.run(&address, job.envelope).await) {
            Ending::Ack { result, .. } => {
                let read = queue_core::__private::result_of(result.as_deref());
                Ok(read.unwrap_or_else(|problem| panic!("the result of task `{}`: {problem}", T::definition().name)))
            }
            ending => Err(End::of(ending)),
        }
    }
}

impl Default for TestQueue {
    fn default() -> Self {
        TestQueue::new()
    }
}

impl fmt::Debug for TestQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestQueue").field("client", &self.client).finish_non_exhaustive()
    }
}

fn done<T>(result: Result<T, WorkerError>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

/// Carries something out on the thread of a broker, and waits for it.
fn on_broker<T: Send + 'static>(broker: &DynBroker, work: impl Future<Output = T> + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    broker.spawn(Box::pin(async move { drop(sender.send(work.await)) }));
    receiver.recv().expect("the thread of the broker runs as long as the broker exists")
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits on this thread for what happens on threads of the broker, inside of a runtime or outside.
fn wait<F: Future>(future: F) -> F::Output {
    // Within a task of the runtime, its budget would be used up, and nobody would renew it.
    let mut future = pin!(tokio::task::unconstrained(future));
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
