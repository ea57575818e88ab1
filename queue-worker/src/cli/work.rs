//! `work`: runs jobs.

use std::{error::Error, future::poll_fn, pin::pin, process::ExitCode, task::Poll, time::Duration};

use queue_core::{Client, outcome::error_text};

use super::{
    args::WorkArgs,
    exit::{Exit, Failure},
    log::Log,
};
use crate::{QueueConfig, Worker, patience::Patience, shutdown, time::now, tuning::LONGEST_PAUSE};

pub(super) async fn work<F, W>(url: Option<&str>, args: WorkArgs, setup: F) -> Result<ExitCode, Failure>
where
    F: FnOnce(Worker) -> W,
    W: Future<Output = Result<Worker, Box<dyn Error + Send + Sync>>>,
{
    let log = Log::begin(args.job_log)?;
    let ended = run(url, args, setup).await;
    // The runtime of the program waits for every thread that a handler has left behind, and standard error may be read by nobody.
    shutdown::exit_soon(LEAVES, ended.as_ref().map_or_else(Failure::exit, |exit| *exit) as i32);
    // Before the last spans, which may take longer than the program has.
    let code = ended.map_or_else(Failure::tell, ExitCode::from);
    log.end().await;
    Ok(code)
}

/// How long the program may take for its end.
const LEAVES: Duration = Duration::from_secs(1);

async fn run<F, W>(url: Option<&str>, args: WorkArgs, setup: F) -> Result<Exit, Failure>
where
    F: FnOnce(Worker) -> W,
    W: Future<Output = Result<Worker, Box<dyn Error + Send + Sync>>>,
{
    // Until the worker listens, a signal ends the program, also while it waits for its broker (see `Worker::run`) or for its setup.
    let starting = super::stop::at_signals()?;
    let client = match url {
        Some(url) => opened(url).await?,
        None => opened(&Client::url_from_env()?).await?,
    };
    let location = client.info().location;
    let worker = setup(Worker::new(client))
        .await
        .map_err(|error| Failure::new(Exit::Setup, format!("the setup of this worker failed: {}", error_text(error.as_ref()))))?;
    let worker = configured(worker, args);
    worker.check()?;
    let tasks: Vec<&str> = worker.tasks().tasks().map(|task| task.name).collect();
    tracing::info!(broker = location, queues = worker.queue_names().join(","), tasks = tasks.join(","), "starting; Ctrl-C stops");
    let mut running = pin!(worker.run_until_signal());
    let begun = poll_fn(|context| Poll::Ready(running.as_mut().poll(context))).await;
    drop(starting);
    let stopped = match begun {
        Poll::Ready(stopped) => stopped?,
        Poll::Pending => running.await?,
    };
    tracing::info!(finished = stopped.finished, "stopped");
    if stopped.is_clean() {
        return Ok(Exit::Done);
    }
    tracing::warn!(
        "stopped before all jobs had ended: {} released, {} stuck, {} unconfirmed; they will run again",
        stopped.released,
        stopped.stuck,
        stopped.unconfirmed
    );
    Ok(Exit::GivenBack)
}

/// A database file cannot be opened while its disk is full or another process holds its lock. That is waited for, as the worker waits for a server.
async fn opened(url: &str) -> queue_core::Result<Client> {
    let (mut patience, begun) = (Patience::new(LONGEST_PAUSE), now());
    loop {
        match Client::open(url).await {
            Ok(client) => {
                if patience.tries() > 0 {
                    let lasted = now().saturating_duration_since(begun);
                    tracing::warn!(broker = client.info().location, ?lasted, "the broker answers again");
                }
                return Ok(client);
            }
            Err(error) if error.is_transient() => {
                patience.failed();
                if patience.tries() == 1 {
                    tracing::warn!(%error, "the broker does not answer; the worker retries until it answers");
                }
                patience.pause().await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// The command line goes before what the program says.
fn configured(mut worker: Worker, args: WorkArgs) -> Worker {
    if !args.queue.is_empty() {
        worker = worker.only_queues(args.queue.into_iter().map(|(queue, weight)| QueueConfig::new(queue).weight(weight)).collect());
    }
    if let Some(jobs) = args.concurrency {
        worker = worker.concurrency(jobs);
    }
    if let Some(grace) = args.grace {
        worker = worker.grace(grace);
    }
    if let Some(address) = args.health {
        worker = worker.health(address);
    }
    worker.exit_if_stuck(Exit::GivenBack as i32)
}
