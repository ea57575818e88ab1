//! What is done to all jobs that match: how fast, for how long a step keeps the server to itself, and how much a worker at full speed is slowed down beside it.

use std::time::{Duration, Instant};

use futures_util::FutureExt;
use queue_core::{Client, NewOperation, OperationKind, OperationState};

use super::process::process;
use crate::{
    Error,
    frame::{Figure, Reading, Readings},
    server::Server,
    worker::{Running, jobs},
};

pub(crate) fn figures() -> Vec<Figure> {
    let bulk = "A million jobs that are due in a day: how many of them an operation cancels in a second, how many it requeues then, and how many it deletes in the end; and the CPU time \
                of the longest script meanwhile.";
    let beside = "A worker of concurrency 256 that finds 400,000 jobs, while an operation cancels, requeues or deletes 200,000 others of the same queue from the same process: jobs per \
                  second of the worker until the operation has ended, beside `process` in the same run. At least four fifths are asked for.";
    vec![
        Figure::redis("operations", bulk, |server| bulk_changes(server).boxed()).by_cpu().most_runs(2),
        Figure::redis("operations_beside", beside, |server| beside_a_worker(server).boxed()).most_runs(3),
    ]
}

const QUEUE: &str = "bench";

const JOBS: usize = 1_000_000;

async fn put_later(client: &Client, n: usize) -> Result<(), Error> {
    client.enqueue_all(jobs(n).map(|job| job.delay(Duration::from_secs(24 * 3600)))).await?;
    Ok(())
}

/// Jobs per second of an operation that has to change `jobs` of them.
async fn operate(client: &Client, kind: OperationKind, filter: &str, n: usize) -> Result<f64, Error> {
    let (inspector, begun) = (client.inspector(), Instant::now());
    let started = inspector.start_operation(QUEUE, &NewOperation::new(kind, filter.parse()?)).await?;
    let mut run = inspector.run_operation(&started);
    while run.step().await? {}
    let ended = run.operation();
    if ended.state != OperationState::Completed || ended.changed != n as u64 {
        return Err(format!("a {kind} of {n} jobs is {} and has changed {}", ended.state, ended.changed).into());
    }
    Ok(n as f64 / begun.elapsed().as_secs_f64())
}

async fn bulk_changes(server: &Server) -> Readings {
    let client = Client::connect(&server.url()).await?;
    put_later(&client, JOBS).await?;
    server.watch_slow()?;
    let mut readings = Vec::new();
    for (kind, filter) in
        [(OperationKind::Cancel, "state=scheduled"), (OperationKind::Requeue, "state=cancelled"), (OperationKind::Delete, "state=ready")]
    {
        readings.push(Reading::new(format!("_{kind}"), operate(&client, kind, filter, JOBS).await?, "jobs/s"));
    }
    readings.push(server.longest_script()?);
    Ok(readings)
}

/// Jobs that the operation changes beside the worker, and those that wait for the worker.
const OTHERS: usize = 200_000;
const WAITING: usize = 400_000;

async fn beside_a_worker(server: &Server) -> Readings {
    let usual = process(&server.url(), 256, OTHERS).await?;
    let mut readings = Vec::new();
    for (kind, filter) in [
        (OperationKind::Cancel, "state=scheduled"),
        (OperationKind::Requeue, "state=cancelled"),
        (OperationKind::Delete, "state=scheduled"),
    ] {
        server.flush()?;
        let client = Client::connect(&server.url()).await?;
        put_later(&client, OTHERS).await?;
        if kind == OperationKind::Requeue {
            operate(&client, OperationKind::Cancel, "state=scheduled", OTHERS).await?;
        }
        client.enqueue_all(jobs(WAITING)).await?;
        let running = Running::start(&client, 256);
        // What is requeued runs as well.
        running.counter.want(WAITING + OTHERS);
        while running.counter.first().is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let (before, begun) = (running.counter.seen(), Instant::now());
        operate(&client, kind, filter, OTHERS).await?;
        let (seen, took) = (running.counter.seen(), begun.elapsed());
        running.stop().await;
        if seen >= WAITING {
            return Err(
                format!("the worker has drained its queue before the {kind} of {OTHERS} jobs had ended: it was not at full speed").into()
            );
        }
        let rate = (seen - before) as f64 / took.as_secs_f64();
        readings.push(Reading::new(format!("_{kind}"), rate, "jobs/s").beside(usual, "`process` without it, in the same run"));
    }
    Ok(readings)
}
