//! `workers quiet`, `workers resume` and `workers stop`: asks workers, and waits until each has
//! confirmed the request.

use std::{
    collections::BTreeMap,
    io,
    time::{Duration, Instant},
};

use queue_core::{
    Client,
    broker::{ProcessId, WorkerAsked},
    inspect::{WorkerMode, WorkerRecord},
};

use serde_json::{Value, json};

use super::{find_worker, live_workers, missing, queue_names};
use crate::{
    args::{Format, duration},
    exit::{Exit, Failure, note},
    output::{print, print_json, short},
    person,
};

/// The interval between two polls.
const POLL: Duration = Duration::from_millis(300);

/// The interval between two lines of progress.
const NOTED: Duration = Duration::from_secs(5);

/// The maximum number of workers that a question names.
const NAMED: usize = 20;

#[derive(Debug, clap::Args)]
pub(crate) struct AskArgs {
    /// Their ids, as `workers` prints them
    #[arg(value_name = "WORKER", required_unless_present_any = ["all", "release", "queue"], conflicts_with_all = ["all", "release", "queue"])]
    workers: Vec<ProcessId>,
    /// All workers that are alive
    #[arg(long)]
    all: bool,
    /// All workers that serve this queue
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    /// All workers of this release, as after a deployment of the next one
    #[arg(long, value_name = "RELEASE")]
    release: Option<String>,
    /// Ask all of them without a question
    #[arg(long, short)]
    yes: bool,
    /// Do not wait until each worker has confirmed the request
    #[arg(long)]
    no_wait: bool,
    /// How long to wait for the workers to confirm
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration, conflicts_with = "no_wait")]
    timeout: Duration,
    #[command(flatten)]
    format: Format,
}

/// The outcomes of the requests: a line for each, or with `--json` one list.
struct Report {
    mode: WorkerMode,
    json: bool,
    rows: Vec<Value>,
}

impl Report {
    fn add(&mut self, worker: ProcessId, outcome: &str, line: &str) -> io::Result<()> {
        self.rows.push(json!({ "worker": worker.to_string(), "asked": self.mode.name(), "outcome": outcome }));
        if self.json { Ok(()) } else { print(line) }
    }

    fn end(&self) -> io::Result<()> {
        if self.json { print_json(&json!({ "workers": self.rows })) } else { Ok(()) }
    }
}

pub(super) async fn ask(client: &Client, args: &AskArgs, mode: WorkerMode) -> Result<(), Failure> {
    let inspector = client.inspector();
    let chosen = selected_workers(client, args, mode).await?;
    let by = requester();
    // No request is sent if one of the workers cannot receive it.
    if let Some(worker) = chosen.iter().find(|worker| worker.reports_to.is_none()) {
        let text = format!(
            "worker {} has not sent a heartbeat yet: it has just started, or its release cannot be controlled; try again in 5 s, or send it SIGTERM",
            worker.id
        );
        return Err(Failure::new(Exit::WrongState, text));
    }
    let mut asked = BTreeMap::new();
    for worker in chosen {
        let number = inspector.ask_worker(&worker, mode, &by).await?;
        asked.insert(worker.id, number);
    }
    let mut report = Report { mode, json: args.format.json, rows: Vec::new() };
    let ended = if args.no_wait {
        asked.into_keys().try_for_each(|id| report.add(id, "asked", &format!("{id} was asked: {mode}"))).map_err(Failure::from)
    } else {
        wait(client, asked, args.timeout, &by, &mut report).await
    };
    report.end()?;
    ended
}

/// The workers that the options select. If they are not named one by one, the operator confirms the
/// list first.
async fn selected_workers(client: &Client, args: &AskArgs, mode: WorkerMode) -> Result<Vec<WorkerRecord>, Failure> {
    let workers = client.inspector().workers().await?;
    if !args.workers.is_empty() {
        return args.workers.iter().map(|id| find_worker(&workers, *id)).collect();
    }
    let is_chosen = |worker: &&WorkerRecord| {
        args.queue.as_ref().is_none_or(|queue| worker.queues.contains(queue))
            && args.release.as_ref().is_none_or(|release| worker.release == *release)
    };
    let chosen: Vec<WorkerRecord> = live_workers(&workers).filter(is_chosen).cloned().collect();
    if chosen.is_empty() {
        return Err(Failure::new(Exit::NotFound, format!("no such worker is alive: {}", missing(&workers))));
    }
    if !args.yes {
        let some: Vec<String> = chosen.iter().take(NAMED).map(line).collect();
        let more = if chosen.len() > NAMED { format!("\n  and {} more", chosen.len() - NAMED) } else { String::new() };
        let (count, what) = (chosen.len(), mode.name());
        person::confirm(false, &format!("{count} workers are asked ({what}):\n  {}{more}\n", some.join("\n  ")))?;
    }
    Ok(chosen)
}

fn line(worker: &WorkerRecord) -> String {
    format!("{} {} {} ({})", worker.id, worker.host, short(&worker.release, 40), queue_names(&worker.queues))
}

/// Waits until each worker has confirmed the request, or has ended.
async fn wait(
    client: &Client,
    mut open: BTreeMap<ProcessId, u64>,
    timeout: Duration,
    by: &str,
    report: &mut Report,
) -> Result<(), Failure> {
    let (inspector, mode, end, mut noted) = (client.inspector(), report.mode, Instant::now() + timeout, Instant::now());
    let mut left = Vec::new();
    while !open.is_empty() {
        let now: BTreeMap<ProcessId, WorkerRecord> = inspector.workers().await?.into_iter().map(|worker| (worker.id, worker)).collect();
        let (mut done, mut again) = (Vec::new(), Vec::new());
        for (id, number) in &open {
            match now.get(id).filter(|worker| !worker.lease_left.is_zero()) {
                None => done.push((*id, false)),
                Some(worker) if worker.load.is_some_and(|load| load.received >= *number) => done.push((*id, true)),
                // The worker now reports in another queue, or the broker has lost the request.
                Some(worker) if worker.asked.as_ref().is_none_or(|ask| ask.number < *number) => again.push((worker.clone(), *number)),
                Some(_) => {}
            }
        }
        for (worker, number) in again {
            if inspector.ask_again(&worker, number, mode, by).await? == WorkerAsked::Stale {
                return Err(Failure::new(Exit::WrongState, format!("another request for worker {} arrived in the meantime", worker.id)));
            }
        }
        for (id, has_confirmed) in done {
            open.remove(&id);
            match (has_confirmed, mode) {
                (true, _) => report.add(id, "confirmed", &format!("{id} {mode}"))?,
                (false, WorkerMode::Stopping) => report.add(id, "left", &format!("{id} has left"))?,
                (false, _) => left.push(id.to_string()),
            }
        }
        if open.is_empty() {
            break;
        }
        if Instant::now() >= end {
            let ids: Vec<String> = open.keys().map(ToString::to_string).collect();
            let text = format!(
                "these workers have not confirmed the request within {timeout:?}: {}; the request stays stored, and `workers` shows when they have followed it",
                ids.join(", ")
            );
            return Err(Failure::new(Exit::Unavailable, text));
        }
        if noted.elapsed() >= NOTED {
            noted = Instant::now();
            note(&format!("{} workers have not confirmed the request yet", open.len()));
        }
        tokio::time::sleep(POLL).await;
    }
    if left.is_empty() {
        return Ok(());
    }
    Err(Failure::new(Exit::NotFound, format!("these workers left before they confirmed the request: {}", left.join(", "))))
}

/// The author of the request, for the log of the worker.
fn requester() -> String {
    let name = person::name();
    format!("{} with the command line", if name.is_empty() { "an unknown user" } else { &name })
}
