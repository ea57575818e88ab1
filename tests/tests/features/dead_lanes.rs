//! Checks of many lanes. Thousands of workers die together: one worker removes their lanes after one
//! wait for the second check. Where all live, a check is one call.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream::iter};
use queue_conformance::conformance::{Bed, Storage};
use queue_core::{
    Registry, Result,
    broker::{Broker, DynBroker, MAX_ITEMS, OverdueLane, OverdueLanes, PartyName, ProcessId, Register, Wrapper},
    prelude::*,
};
use queue_tests::{
    patience::{WatchBroker, until},
    server::Kind,
    storages::{Server, SqliteMemory},
};
use queue_worker::{Shutdown, Stopped, Worker, WorkerError};
use tokio::task::JoinHandle;

/// Many times what one call lists.
const LANES: usize = 5_000;

#[task(queue = "dead")]
async fn run() {}

/// Notes the pages that are asked for, and which lanes have been listed before the first of them is
/// fenced.
#[derive(Debug)]
struct Notes {
    inner: DynBroker,
    pages: Mutex<Vec<usize>>,
    listed: Mutex<BTreeSet<PartyName>>,
    fences: Mutex<usize>,
}

impl Wrapper for Notes {
    fn inner(&self) -> &dyn Broker {
        &*self.inner
    }

    async fn overdue(&self, queue: &str, skip: usize, limit: usize) -> Result<OverdueLanes> {
        let overdue = self.inner.overdue(queue, skip, limit).await?;
        self.pages.lock().unwrap().push(skip);
        if *self.fences.lock().unwrap() == 0 {
            self.listed.lock().unwrap().extend(overdue.expired.iter().map(|lane| lane.name.clone()));
        }
        Ok(overdue)
    }

    async fn fence(&self, queue: &str, overdue: &[OverdueLane]) -> Result<Vec<bool>> {
        *self.fences.lock().unwrap() += 1;
        self.inner.fence(queue, overdue).await
    }
}

#[tokio::test]
async fn thousands_of_dead_lanes_are_removed_from_sqlite() {
    are_removed(Box::new(SqliteMemory::new())).await;
}

#[tokio::test]
async fn thousands_of_dead_lanes_are_removed_from_redis() {
    are_removed(Box::new(Server::new(Kind::Redis))).await;
}

async fn are_removed(storage: Box<dyn Storage>) {
    let bed = Bed::new(storage).await.in_queue("dead");
    register(&bed, LANES, Duration::from_millis(1)).await;
    let began = Instant::now();
    let (notes, shutdown, running) = work(&bed);
    until("the lanes to be removed", async || {
        let overdue = bed.broker.overdue("dead", 0, 1).await.expect("lanes are listed");
        overdue.expired.is_empty() && overdue.fenced == 0
    })
    .await;
    println!("{LANES} dead lanes were removed in {:?}, of which 600 ms are the wait for the second check", began.elapsed());
    assert_eq!(notes.listed.lock().unwrap().len(), LANES, "all have their first check before the first is fenced");
    assert!(*notes.fences.lock().unwrap() <= 2 * LANES / MAX_ITEMS, "they are fenced page by page: {}", notes.fences.lock().unwrap());
    shutdown.drain();
    running.await.expect("the worker has not panicked").expect("the worker ends in order");
}

#[tokio::test]
async fn longer_leases_cost_no_calls_on_sqlite() {
    cost_no_calls(Box::new(SqliteMemory::new())).await;
}

#[tokio::test]
async fn longer_leases_cost_no_calls_on_redis() {
    cost_no_calls(Box::new(Server::new(Kind::Redis))).await;
}

/// More lanes than a page lists live, and have longer leases than another one.
async fn cost_no_calls(storage: Box<dyn Storage>) {
    let bed = Bed::new(storage).await.in_queue("dead");
    register(&bed, 1, Duration::from_secs(300)).await;
    register(&bed, MAX_ITEMS + 100, Duration::from_secs(600)).await;
    let (notes, shutdown, running) = work(&bed);
    let pages = || notes.pages.lock().unwrap().clone();
    until("five checks", async || pages().iter().filter(|skip| **skip == 0).count() >= 5).await;
    assert!(pages().iter().all(|skip| *skip == 0), "each check is one call: {:?}", pages());
    shutdown.drain();
    running.await.expect("the worker has not panicked").expect("the worker ends in order");
}

/// Registers lanes, of a process each.
async fn register(bed: &Bed, lanes: usize, lease: Duration) {
    let register = async |_| {
        let lane = Register::lane("dead", ProcessId::random(), lease);
        bed.broker.register(&lane).await.expect("a lane registers");
    };
    iter(0..lanes).map(register).buffer_unordered(16).collect::<Vec<()>>().await;
}

/// Starts a worker.
fn work(bed: &Bed) -> (Arc<Notes>, Shutdown, JoinHandle<Result<Stopped, WorkerError>>) {
    let notes = Arc::new(Notes { inner: bed.broker.clone(), pages: Mutex::default(), listed: Mutex::default(), fences: Mutex::default() });
    let client = Client::with_broker(notes.clone()).watched();
    let shutdown = Shutdown::new();
    let worker = Worker::new(client).registry(Registry::empty()).register::<run>().lease(Duration::from_secs(3));
    let running = tokio::spawn(worker.run_with(shutdown.clone()));
    (notes, shutdown, running)
}
