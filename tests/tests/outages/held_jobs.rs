//! What a worker holds at the broker: never more jobs than it may run. The jobs of a worker that
//! dies are charged with a crash, and one that it only held would be charged for nothing.

use std::time::Duration;

use queue_core::{
    Registry,
    broker::{Counter, JobState},
    prelude::*,
};
use queue_tests::{
    folder::folder,
    on_servers,
    patience::{WatchBroker, wait},
    server::{Kind, Server},
};
use queue_worker::Worker;

const CONCURRENCY: usize = 32;
const JOBS: u64 = 6_000;

#[task(queue = "held")]
async fn short() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}

on_servers! {
    a_worker_never_holds_more_jobs_than_it_runs
}

async fn a_worker_never_holds_more_jobs_than_it_runs(kind: Kind) {
    let server = Server::start(kind);
    let most = most_held(&server.url()).await;
    assert!((2..=CONCURRENCY as u64).contains(&most), "{most} jobs were active at once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_sqlite_a_worker_never_holds_more_jobs_than_it_runs() {
    let folder = folder();
    let most = most_held(&format!("sqlite://{}", folder.path().join("queue.db").display())).await;
    assert!((2..=CONCURRENCY as u64).contains(&most), "{most} jobs were active at once");
}

/// The most jobs that were active at once while a worker drained a queue of short ones.
async fn most_held(url: &str) -> u64 {
    let client = Client::connect(url).await.unwrap().watched();
    client.enqueue_all((0..JOBS).map(|_| short::job())).await.unwrap();
    let (inspector, mut most) = (client.inspector(), 0);
    let looking = async {
        loop {
            let stats = inspector.stats("held").await.unwrap();
            most = most.max(stats.count(JobState::Active));
            if stats.total(Counter::Done) == JOBS {
                return;
            }
        }
    };
    // A worker with a client of its own, as in a process of its own.
    let worker = Worker::new(Client::connect(url).await.unwrap().watched())
        .registry(Registry::declared_in(file!()))
        .queue("held")
        .concurrency(CONCURRENCY);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(worker.run(async { drop(stopped.await) }));
    wait("the queue to be drained").on(client.broker()).end_of(looking).await;
    drop(stop);
    assert!(running.await.unwrap().unwrap().is_clean());
    most
}
