//! A worker behind a line that can be cut, and its tasks.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use queue_conformance::failing::{FailingBroker, Fault};
use queue_core::{
    __private::SqliteBroker,
    CancelCause, Registry,
    broker::{Counter, DynBroker},
    prelude::*,
};
use queue_tests::patience::{until, wait};
use queue_worker::{Shutdown, Stopped, Worker};
use tokio::task::JoinHandle;

pub(crate) const LEASE: Duration = Duration::from_secs(2);

/// What handlers tell their test, by job.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) runs: Mutex<HashMap<u32, Vec<String>>>,
    pub(crate) open: tokio::sync::watch::Sender<bool>,
}

impl Seen {
    pub(crate) fn note(&self, job: u32, what: impl Into<String>) {
        self.runs.lock().unwrap().entry(job).or_default().push(what.into());
    }

    pub(crate) fn of(&self, job: u32) -> Vec<String> {
        self.runs.lock().unwrap().get(&job).cloned().unwrap_or_default()
    }

    pub(crate) fn starts(&self) -> usize {
        self.runs.lock().unwrap().values().flatten().filter(|note| *note == "start").count()
    }

    async fn wait(&self) {
        let mut open = self.open.subscribe();
        open.wait_for(|open| *open).await.expect("the sender lives as long as this");
    }
}

#[task(queue = "quick")]
pub(crate) async fn quick(job: u32, seen: Data<Seen>) {
    seen.note(job, "start");
}

#[task(queue = "slow", retention = "1h")]
pub(crate) async fn slow(job: u32, seen: Data<Seen>, ctx: JobContext) {
    seen.note(job, "start");
    tokio::select! {
        () = seen.wait() => seen.note(job, "end"),
        cause = ctx.cancelled() => seen.note(job, format!("{cause:?}")),
    }
}

#[task(queue = "slow", on_isolation = "cancel", retention = "1h")]
pub(crate) async fn gives_way(job: u32, seen: Data<Seen>, ctx: JobContext) {
    seen.note(job, "start");
    let cause = ctx.cancelled().await;
    assert_eq!(cause, CancelCause::LeaseLost);
    seen.note(job, "gave way");
}

#[task(queue = "quick")]
pub(crate) async fn long(job: u32, seen: Data<Seen>) {
    seen.note(job, "start");
    seen.wait().await;
}

/// Cuts off its own worker and blocks everything for longer than a lease: the first that runs.
#[task(queue = "quick")]
pub(crate) async fn cuts_off(job: u32, seen: Data<Seen>, cut: Data<FailingBroker>) {
    seen.note(job, "start");
    if seen.starts() == 1 {
        cut.fail(Fault::RequestLost, u32::MAX);
        std::thread::sleep(LEASE * 3 / 2);
        seen.note(job, "end");
    }
}

/// A broker that works, and the same one behind a line that can be cut.
pub(crate) struct Scene {
    pub(crate) sound: Client,
    pub(crate) cut: Arc<FailingBroker>,
    pub(crate) seen: Arc<Seen>,
    pub(crate) shutdown: Shutdown,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let inner = SqliteBroker::open("sqlite::memory:").unwrap() as DynBroker;
        let cut = FailingBroker::new(inner.clone());
        Scene { sound: Client::with_broker(inner), cut, seen: Arc::default(), shutdown: Shutdown::new() }
    }

    /// A worker behind the line.
    pub(crate) fn worker(&self) -> Worker {
        let client = Client::with_broker(self.cut.clone() as DynBroker);
        self.worker_of(client).lease(LEASE).concurrency(16).grace(Duration::from_secs(5))
    }

    /// A worker of the tasks of this file alone: others that are linked in want states of their
    /// own.
    pub(crate) fn worker_of(&self, client: Client) -> Worker {
        let worker = Worker::new(client).registry(Registry::empty());
        worker
            .register::<quick>()
            .register::<long>()
            .register::<slow>()
            .register::<gives_way>()
            .register::<cuts_off>()
            .shared_data(self.seen.clone())
            .shared_data(self.cut.clone())
    }

    pub(crate) fn start(&self, worker: Worker) -> JoinHandle<Stopped> {
        let running = worker.run_with(self.shutdown.clone());
        tokio::spawn(async { running.await.unwrap() })
    }

    pub(crate) async fn end(self, running: JoinHandle<Stopped>) -> Stopped {
        self.cut.fail(Fault::RequestLost, 0);
        self.shutdown.drain();
        wait("the worker ends").end_of(running).await.unwrap()
    }

    pub(crate) async fn returned(&self, queue: &str) -> u64 {
        self.sound.inspector().stats(queue).await.unwrap().total(Counter::Returned)
    }

    pub(crate) async fn seen(&self, job: u32, what: &str) {
        until(what, async || self.seen.of(job).iter().any(|note| note == what)).await;
    }
}
