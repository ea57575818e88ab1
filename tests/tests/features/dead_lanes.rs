//! Thousands of workers die together: one worker removes their lanes after one wait for the second check.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream::iter};
use queue_conformance::conformance::{Bed, Storage};
use queue_core::{
    Registry,
    broker::{ProcessId, Register},
    prelude::*,
};
use queue_tests::{
    patience::{WatchBroker, until},
    server::Kind,
    storages::{Server, SqliteMemory},
};
use queue_worker::{Shutdown, Worker};

/// Many times what one call lists.
const LANES: usize = 5_000;

#[task(queue = "dead")]
async fn run() {}

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
    let register = async |_| {
        let lane = Register::lane("dead", ProcessId::random(), Duration::from_millis(1));
        bed.broker.register(&lane).await.expect("a lane registers");
    };
    iter(0..LANES).map(register).buffer_unordered(16).collect::<Vec<()>>().await;
    let client = Client::with_broker(bed.broker.clone()).watched();
    let shutdown = Shutdown::new();
    let began = Instant::now();
    let worker = Worker::new(client).registry(Registry::empty()).register::<run>().lease(Duration::from_secs(3));
    let running = tokio::spawn(worker.run_with(shutdown.clone()));
    until("the lanes to be removed", async || {
        let overdue = bed.broker.overdue("dead", 0, 1).await.expect("lanes are listed");
        overdue.expired.is_empty() && overdue.fenced == 0
    })
    .await;
    println!("{LANES} dead lanes were removed in {:?}, of which 600 ms are the wait for the second check", began.elapsed());
    shutdown.drain();
    running.await.expect("the worker has not panicked").expect("the worker ends in order");
}
