//! A process for tests that kill it or its servers: a worker, or a producer if it is called with
//! `enqueue`.
//!
//! `JOURNAL` names its journal, `QUEUES` the queues, and `LEASE_MS` a worker's lease. `FIRST` is
//! the number of a producer's first job, and `REPLICAS` the number of replicas that must have its
//! jobs.

use std::{
    path::Path,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use queue_core::{Client, Error};
use queue_tests::chronicle::{Journal, record};
use queue_worker::Worker;
use tokio::signal::unix::{SignalKind, signal};

/// The minimum number of concurrent enqueues, and the pause after each: about two hundred jobs per
/// second.
const ENQUEUES: u32 = 4;
const REST: Duration = Duration::from_millis(20);

/// The duration of a job, in milliseconds.
const WORK_MS: u64 = 5;

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = match std::env::args().nth(1).as_deref() {
        Some("enqueue") => produce().await.map(|()| true),
        _ => work().await,
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(3),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn journal() -> Outcome<Journal> {
    Ok(Journal::open(Path::new(&std::env::var("JOURNAL")?)))
}

fn queues() -> Vec<String> {
    std::env::var("QUEUES").map(|queues| queues.split(',').map(str::to_owned).collect()).unwrap_or_default()
}

async fn work() -> Outcome<bool> {
    let lease = Duration::from_millis(std::env::var("LEASE_MS")?.parse()?);
    let mut worker = Worker::new(Client::from_env().await?).data(journal()?).concurrency(8).lease(lease);
    for queue in queues() {
        worker = worker.queue(queue);
    }
    let stopped = worker.run_until_signal().await?;
    if !stopped.is_clean() {
        eprintln!("{stopped:?}");
    }
    Ok(stopped.is_clean())
}

/// Enqueues one job after the other, several at a time, until SIGTERM. Pending enqueues are then
/// settled.
async fn produce() -> Outcome<()> {
    let (client, journal, queues) = (Client::from_env().await?, journal()?, queues());
    let mut client = client.with_deadline(Duration::from_secs(20));
    if let Ok(replicas) = std::env::var("REPLICAS") {
        client = client.with_replicas(replicas.parse()?);
    }
    let first: u32 = std::env::var("FIRST")?.parse()?;
    // Each loop uses one queue, so that an unreachable queue does not affect the others.
    let n_queues = u32::try_from(queues.len())?;
    let loops = ENQUEUES.next_multiple_of(n_queues);
    let stop = Arc::new(AtomicBool::new(false));
    let mut told = signal(SignalKind::terminate())?;
    let flag = stop.clone();
    tokio::spawn(async move {
        told.recv().await;
        flag.store(true, Ordering::Relaxed);
    });
    let one_after_the_other = async |mut number: u32| {
        let queue = &queues[(number % n_queues) as usize];
        while !stop.load(Ordering::Relaxed) {
            journal.note_enqueue("sent", number);
            journal.note_enqueue(enqueue(&client, number, queue).await, number);
            number += loops;
            tokio::time::sleep(REST).await;
        }
    };
    join_all((first..first + loops).map(one_after_the_other)).await;
    Ok(())
}

/// Enqueues a job, and retries until the answer is known.
async fn enqueue(client: &Client, number: u32, queue: &str) -> &'static str {
    let mut pending = match record::job(number, WORK_MS).queue(queue).enqueue(client).await {
        Err(Error::Unknown(pending)) => pending,
        Err(error) => {
            eprintln!("job {number} is refused: {error}");
            return "refused";
        }
        Ok(handle) if handle.confirmed().is_some_and(|confirmed| confirmed.replicas == 0) => return "unconfirmed",
        Ok(_) => return "stored",
    };
    for _ in 0..3 {
        pending = match pending.retry().await {
            Err(Error::Unknown(pending)) => pending,
            Err(_) => return "unknown",
            Ok(_) => return "stored",
        };
    }
    "unknown"
}
