//! Helpers of the worker's tests.

#![allow(dead_code, unused_imports, reason = "each test file uses a part of it")]

use std::{
    net::SocketAddr,
    panic::Location,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

pub(crate) use queue_conformance::{
    patience::{WatchBroker, patience, wait},
    port::free_address,
};
use queue_core::{
    JobAddress, JobId, Registry,
    broker::{Delivery, Enqueue, JobState, NewJob, ProcessId, Register, Turn},
    prelude::*,
};
use queue_worker::{Stopped, Worker};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::Notify,
};

/// The calls that handlers report to their test.
#[derive(Default)]
pub(crate) struct Probe {
    log: Mutex<Vec<String>>,
    changed: Notify,
    running: AtomicUsize,
    most: AtomicUsize,
    /// Handlers wait for this gate, and a test opens it.
    pub(crate) gate: Gate,
}

impl Probe {
    /// Records an event.
    pub(crate) fn note(&self, what: impl Into<String>) {
        self.log.lock().unwrap().push(what.into());
        self.changed.notify_waiters();
    }

    /// All records so far.
    pub(crate) fn notes(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// How often this was recorded.
    pub(crate) fn count(&self, what: &str) -> usize {
        self.log.lock().unwrap().iter().filter(|note| *note == what).count()
    }

    /// Waits until this was recorded at least `times` times.
    pub(crate) async fn noted(&self, what: &str, times: usize) {
        let noted = async {
            loop {
                let changed = self.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if self.count(what) >= times {
                    return;
                }
                changed.await;
            }
        };
        wait(format!("`{what}` to be noted {times} times")).seeing(|| format!("noted: {:?}", self.notes())).end_of(noted).await;
    }

    /// Counts a running handler, until the returned value is dropped.
    pub(crate) fn enter(self: &Arc<Self>) -> Inside {
        let now = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        Inside(self.clone())
    }

    /// Handlers that are running now.
    pub(crate) fn inside(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }

    /// The maximum number of handlers that ran at once.
    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

/// A handler that is running.
pub(crate) struct Inside(Arc<Probe>);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A gate at which handlers wait, async or on their thread.
#[derive(Default)]
pub(crate) struct Gate {
    open: Mutex<bool>,
    threads: std::sync::Condvar,
    tasks: Notify,
}

impl Gate {
    pub(crate) fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.threads.notify_all();
        self.tasks.notify_waiters();
    }

    pub(crate) async fn passed(&self) {
        loop {
            let opened = self.tasks.notified();
            tokio::pin!(opened);
            opened.as_mut().enable();
            if *self.open.lock().unwrap() {
                return;
            }
            opened.await;
        }
    }

    /// Blocks the thread, which handlers should not do.
    pub(crate) fn block(&self) {
        let open = self.open.lock().unwrap();
        drop(self.threads.wait_timeout_while(open, patience(), |open| !*open).unwrap());
    }
}

/// A broker in memory. Waits that time out show its state.
pub(crate) async fn memory() -> Client {
    Client::connect("sqlite://:memory:").await.unwrap().watched()
}

/// A worker of the tasks of the calling file, with a probe and a short backoff.
#[track_caller]
pub(crate) fn worker(client: &Client, probe: &Arc<Probe>) -> Worker {
    let backoff = Backoff { base: Duration::from_millis(20), max: Duration::from_millis(40) };
    let registry = Registry::declared_in(Location::caller().file());
    Worker::new(client.clone()).registry(registry).shared_data(probe.clone()).backoff(backoff).grace(Duration::from_secs(5))
}

/// Runs the worker until `until` is ready.
pub(crate) async fn run(worker: Worker, until: impl Future<Output = ()> + Send) -> Stopped {
    wait("the worker to end").times(2).end_of(worker.run(until)).await.unwrap()
}

/// Waits until a condition holds, and checks it repeatedly.
#[track_caller]
pub(crate) fn until<F: Future<Output = bool>>(what: &str, holds: impl FnMut() -> F) -> impl Future<Output = ()> {
    wait(what).until(holds)
}

/// Waits until a job is in this state.
pub(crate) async fn until_state<T: Send + 'static>(handle: &Handle<T>, state: Option<JobState>) {
    until(&format!("job {} to become {state:?}", handle.address()), || async { handle.status().await.unwrap() == state }).await;
}

/// Waits until a worker has registered with this queue.
pub(crate) async fn until_registered(client: &Client, queue: &str) {
    until("a worker to register", || async { client.inspector().stats(queue).await.is_ok_and(|stats| stats.lanes > 0) }).await;
}

/// The same for a job without a type.
pub(crate) async fn address_in(client: &Client, job: &JobAddress, state: JobState) {
    until(&format!("job {job} to become {state}"), || async { client.inspector().show(job).await.unwrap().state == state }).await;
}

/// Claims jobs and sends no further request, like a process that was killed.
pub(crate) async fn claim_and_die(client: &Client, queue: &str, jobs: usize) -> Vec<Delivery> {
    let lease = Duration::from_millis(50);
    let name = client.broker().register(&Register::lane(queue, ProcessId::random(), lease)).await.unwrap().name;
    let answer = client.broker().turn(&Turn::new(queue, name, 1, lease).claim(jobs)).await.unwrap();
    assert_eq!(answer.deliveries.len(), jobs, "there was enough to claim");
    answer.deliveries
}

/// Stores bytes as a job, even if they are invalid.
pub(crate) async fn enqueue_bytes(client: &Client, queue: &str, envelope: Vec<u8>) -> JobAddress {
    let producer = client.broker().register(&Register::producer(queue, ProcessId::random())).await.unwrap().name;
    let id = JobId::make();
    client.broker().enqueue(&Enqueue::new(queue, producer, 1, vec![NewJob::new(id.clone(), envelope)])).await.unwrap();
    format!("{queue}/{id}").parse().unwrap()
}

/// Waits until the worker has reached its broker and reports that.
pub(crate) async fn until_healthy(address: SocketAddr) {
    until_health(address, r#""status":"ok""#).await;
}

/// Waits until the health of the worker contains this text.
pub(crate) async fn until_health(address: SocketAddr, said: &str) {
    until(said, || async { ask(address, "GET /health").await.contains(said) }).await;
}

/// Sends a request and returns the whole answer.
pub(crate) async fn ask(address: SocketAddr, request: &str) -> String {
    let exchange = async {
        let mut stream = loop {
            match TcpStream::connect(address).await {
                Ok(stream) => break stream,
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        };
        stream.write_all(format!("{request} HTTP/1.1\r\nhost: localhost\r\naccept: */*\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    wait(format!("an answer to {request}")).end_of(exchange).await
}
