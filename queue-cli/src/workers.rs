//! `workers` lists workers; `workers show` lists the jobs of one. `ask` sends requests to workers.

mod ask;

use std::time::SystemTime;

use clap::Subcommand;
use queue_core::{
    Client,
    broker::{ProcessId, bytes},
    inspect::{JobRecord, WorkerJobs, WorkerMode, WorkerRecord},
};
use serde::Serialize;

use self::ask::AskArgs;
use super::{
    again::{Again, QueueArgs},
    args::Format,
    exit::{Exit, Failure},
    logs,
    output::{print, print_json, relative_time, rounded_duration, short},
    queues::{self, Unreadable},
    table::{
        self,
        Column::{self, Field, Made},
    },
};

#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    of: QueueArgs,
    #[command(flatten)]
    again: Again,
}

#[derive(Debug, Subcommand)]
pub(super) enum WorkersCommand {
    /// List workers, what they run and their resource usage
    #[command(after_help = "Examples:
  {bin} workers list --queue orders
  {bin} workers list --watch")]
    List(ListArgs),
    /// Show a worker and its running jobs with their progress
    #[command(after_help = "Examples:
  {bin} workers show 5f0c3a9d2b7e6418
  {bin} workers show 5f0c3a9d2b7e6418 --json | jq -r '.jobs[].job'")]
    Show {
        /// Its id, as `workers` prints it
        worker: ProcessId,
        #[command(flatten)]
        format: Format,
    },
    /// Ask workers to claim nothing: running jobs continue, and the workers stay registered
    #[command(after_help = "Examples:
  {bin} workers quiet 5f0c3a9d2b7e6418
  {bin} workers quiet --release v41            list them
  {bin} workers quiet --release v41 --yes      before a new release replaces them")]
    Quiet(AskArgs),
    /// Ask quiet workers to claim again
    #[command(after_help = "Examples:
  {bin} workers resume 5f0c3a9d2b7e6418
  {bin} workers resume --all --yes")]
    Resume(AskArgs),
    /// Ask workers to stop, as SIGTERM does: running jobs may finish within the grace time
    #[command(after_help = "Examples:
  {bin} workers stop 5f0c3a9d2b7e6418
  {bin} workers stop --queue orders --release v41 --yes --no-wait")]
    Stop(AskArgs),
}

/// Most jobs of a worker that are shown.
const SHOWN: usize = 100;

/// Most workers that an error names.
const ALIVE: usize = 10;

/// Most queues of a worker that a table names.
const NAMED: usize = 3;

const COLUMNS: [Column<WorkerRecord>; 13] = [
    Field("worker"),
    Field("host"),
    Made("#pid", |worker| if worker.pid == 0 { String::new() } else { worker.pid.to_string() }),
    Field("release"),
    Field("queues"),
    Made("#tasks", |worker| worker.task_count.to_string()),
    Field("lanes"),
    Made("#busy", |worker| worker.load.map_or_else(unknown_worker, |load| format!("{}/{}", load.busy, load.slots))),
    Made("#memory", |worker| worker.load.and_then(|load| load.memory).map_or_else(unknown_worker, bytes)),
    Made("#cpu", |worker| worker.load.and_then(|load| load.cores()).map_or_else(unknown_worker, |cores| format!("{cores:.2}"))),
    Made("mode", mode),
    Made("since", |worker| worker.since.map_or_else(String::new, |since| relative_time(since, SystemTime::now()))),
    Made("seen", |worker| {
        let over = if worker.lease_left.is_zero() { ", lease expired" } else { "" };
        format!("{} ago{over}", rounded_duration(worker.lease_age))
    }),
];

fn unknown_worker() -> String {
    "unknown".to_owned()
}

/// The mode of the worker, and its unconfirmed request. It is empty for a worker in normal
/// operation.
fn mode(worker: &WorkerRecord) -> String {
    let mode = Some(worker.mode()).filter(|mode| *mode != WorkerMode::Works).map(|mode| mode.to_string()).unwrap_or_default();
    match worker.unconfirmed_request() {
        Some(ask) => format!("{mode}{}asked: {}", if mode.is_empty() { "" } else { ", " }, ask.mode),
        None => mode,
    }
}

/// The first of some queues, and how many more there are.
fn queue_names(queues: &[String]) -> String {
    let (first, more) = queues.split_at(queues.len().min(NAMED));
    let first = first.iter().map(|queue| short(queue, 40)).collect::<Vec<_>>().join(", ");
    if more.is_empty() { first } else { format!("{first} and {} more", more.len()) }
}

pub(super) async fn workers(client: &Client, command: WorkersCommand) -> Result<(), Failure> {
    match command {
        WorkersCommand::List(ListArgs { of, again }) => again.print(async || list(client, &of).await).await,
        WorkersCommand::Show { worker, format } => show(client, worker, &format).await,
        WorkersCommand::Quiet(args) => ask::ask(client, &args, WorkerMode::Quiet).await,
        WorkersCommand::Resume(args) => ask::ask(client, &args, WorkerMode::Works).await,
        WorkersCommand::Stop(args) => ask::ask(client, &args, WorkerMode::Stopping).await,
    }
}

async fn list(client: &Client, args: &QueueArgs) -> Result<(), Failure> {
    let inspector = client.inspector();
    let queues = queues::selected_queues(client, args.queue.as_deref()).await?;
    let (records, unreadable) = queues::for_each_queue(queues, async |queue| inspector.workers_of(queue).await).await?;
    let mut workers = WorkerRecord::merged(records.into_iter().flat_map(|(_, workers)| workers));
    if args.queue.is_some() && workers.iter().any(|worker| worker.load.is_none()) {
        // The worker may report in another of its queues. Errors of that queue are reported when
        // that queue is listed.
        let elsewhere = inspector.workers().await.unwrap_or_default();
        for worker in workers.iter_mut().filter(|worker| worker.load.is_none()) {
            if let Some(other) = elsewhere.iter().find(|other| other.id == worker.id) {
                (worker.load, worker.reports_to, worker.asked) = (other.load, other.reports_to.clone(), other.asked.clone());
            }
        }
    }
    table::list(&args.format, "workers", &workers, &COLUMNS, "no worker is registered")?;
    Unreadable::report(&unreadable)
}

/// The worker with this id. The error lists the live workers.
fn find_worker(workers: &[WorkerRecord], id: ProcessId) -> Result<WorkerRecord, Failure> {
    let found = workers.iter().find(|worker| worker.id == id).cloned();
    found.ok_or_else(|| Failure::new(Exit::NotFound, format!("there is no worker {id}: {}", missing(workers))))
}

fn live_workers(workers: &[WorkerRecord]) -> impl Iterator<Item = &WorkerRecord> {
    workers.iter().filter(|worker| !worker.lease_left.is_zero())
}

/// The error with the live workers.
fn missing(workers: &[WorkerRecord]) -> String {
    let alive: Vec<String> = live_workers(workers).map(|worker| worker.id.to_string()).collect();
    match alive.len() {
        0 => "no worker is alive".to_owned(),
        all => {
            let more = if all > ALIVE { format!(" and {} more; `workers` lists them", all - ALIVE) } else { String::new() };
            format!("live workers: {}{more}", alive[..all.min(ALIVE)].join(", "))
        }
    }
}

async fn show(client: &Client, id: ProcessId, format: &Format) -> Result<(), Failure> {
    let worker = find_worker(&client.inspector().workers().await?, id)?;
    let held = client.inspector().jobs_of_worker(&worker, SHOWN).await?;
    if format.json {
        return Ok(print_json(&Shown { worker: &worker, jobs: &held.jobs, is_whole: held.is_whole })?);
    }
    Ok(print(&text(&worker, &held))?)
}

/// A worker with its jobs, as JSON.
#[derive(Serialize)]
struct Shown<'a> {
    worker: &'a WorkerRecord,
    jobs: &'a [JobRecord],
    is_whole: bool,
}

fn text(worker: &WorkerRecord, held: &WorkerJobs) -> String {
    let mut text = table::facts(worker, &COLUMNS);
    text.push_str("\n\n");
    if held.jobs.is_empty() {
        text.push_str("no job runs on it");
    } else {
        text.push_str(&table::text(&held.jobs, &JOBS));
    }
    if !held.is_whole {
        text.push_str("\nmore jobs of it are not shown");
    }
    text
}

const JOBS: [Column<JobRecord>; 5] = [
    Field("job"),
    Made("task", |job| job.task.clone().unwrap_or_else(|| "(unreadable)".to_owned())),
    Made("#attempt", |job| (job.failures + 1).to_string()),
    Made("runs for", |job| {
        let since = job.running.as_ref().map(|running| SystemTime::now().duration_since(running.since).unwrap_or_default());
        since.map(rounded_duration).unwrap_or_default()
    }),
    Made("progress", |job| job.progress.as_ref().map(|progress| short(&logs::describe_progress(progress), 60)).unwrap_or_default()),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_names_the_first_queues() {
        let queues: Vec<String> = ["a", "b", "c", "d", "e"].map(str::to_owned).into();
        assert_eq!(queue_names(&queues[..3]), "a, b, c");
        assert_eq!(queue_names(&queues), "a, b, c and 2 more");
    }
}
