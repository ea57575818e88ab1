//! What is done to all jobs that match: how fast, for how long a step keeps the server to itself,
//! and how much a worker at full speed is slowed down beside it.

use std::time::{Duration, Instant};

use futures_util::FutureExt;
use queue_core::{
    Client,
    inspect::{NewOperation, OperationKind, OperationState, RunOperation},
};

use crate::{
    Error,
    frame::{Figure, Reading, Readings},
    server::Server,
    worker::{Running, jobs},
};

pub(crate) fn figures() -> Vec<Figure> {
    let bulk = "A million jobs that are due in a day: how many of them an operation cancels in a second, how many it requeues then, and how many it deletes in the end; and the CPU time \
                of the longest script meanwhile.";
    let beside = "A worker of concurrency 256 that finds 3,000,000 jobs, while an operation cancels, requeues or deletes a million others of the same queue from the same process: jobs per \
                  second of the worker in two spans of a second in which the operation takes its steps, between two spans in which it takes none. The worker has run for a second before. At least \
                  four fifths are asked for.";
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

/// In a build that is not optimized the figure is a test that it can be taken.
const SMALLER: usize = if cfg!(debug_assertions) { 20 } else { 1 };

/// Jobs that the operation may change beside the worker, and those that wait for the worker:
/// neither comes to an end within five spans.
const OTHERS: usize = JOBS / SMALLER;
const WAITING: usize = 3_000_000 / SMALLER;

/// The worker is measured for this long without the operation, twice with it, and once more without
/// it. What it does in the span before that does not count: it begins then.
const SPAN: Duration = Duration::from_secs(1);

async fn beside_a_worker(server: &Server) -> Readings {
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
        let inspector = client.inspector();
        let started = inspector.start_operation(QUEUE, &NewOperation::new(kind, filter.parse()?)).await?;
        let mut run = inspector.run_operation(&started);
        let running = Running::start(&client, 256);
        running.counter.want(usize::MAX);
        while running.counter.first().is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let _begins = span(&running, None).await?;
        let before = span(&running, None).await?;
        let beside = (span(&running, Some(&mut run)).await? + span(&running, Some(&mut run)).await?) / 2.0;
        let alone = (before + span(&running, None).await?) / 2.0;
        running.stop().await;
        if run.operation().changed == 0 {
            return Err(format!("the {kind} has changed no job").into());
        }
        readings
            .push(Reading::new(format!("_{kind}"), beside, "jobs/s").beside(alone, "the same worker while the operation takes no step"));
    }
    Ok(readings)
}

/// Jobs per second of a worker at full speed for some time, in which the operation takes its steps,
/// with the rests that it takes of its own.
async fn span(running: &Running, run: Option<&mut RunOperation>) -> Result<f64, Error> {
    let (before, begun) = (running.counter.seen(), Instant::now());
    match run {
        None => tokio::time::sleep(SPAN).await,
        Some(run) => {
            while begun.elapsed() < SPAN {
                if !run.step().await? {
                    return Err(format!("the operation has ended before the worker was measured: {}", run.operation().state).into());
                }
            }
        }
    }
    let (seen, took) = (running.counter.seen(), begun.elapsed());
    if seen >= WAITING {
        return Err(format!("the worker has drained {WAITING} jobs before it was measured: it was not at full speed").into());
    }
    Ok((seen - before) as f64 / took.as_secs_f64())
}
