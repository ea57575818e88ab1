//! `operations`: changes of all matching jobs. `jobs requeue`, `promote`, `cancel` and `delete`
//! start one with `--all`, and so do `queues drain` and `purge`.

use std::time::SystemTime;

use clap::Subcommand;
use queue_core::{
    Client,
    inspect::{Inspector, NewOperation, Operation, OperationKind, OperationPreview, OperationState, RunOperation},
};
use serde::Serialize;

use super::{
    address::Address,
    again::Listing,
    args::Format,
    exit::{Exit, Failure, note},
    output::{print, print_json, relative_time},
    person,
    progress::Line,
    queues::{self, Unreadable},
    stop::asked_to_stop,
    table::{
        self,
        Column::{self, Field, Made},
    },
};

#[derive(Debug, Subcommand)]
pub(super) enum OperationsCommand {
    /// List the running operations, and the last ones that have ended, of all queues or of one
    #[command(after_help = "Examples:
  {bin} operations list
  {bin} operations list --queue orders --json | jq '.operations[] | select(.state == \"running\") | .operation'")]
    List {
        /// Only this queue
        #[arg(long, value_name = "QUEUE")]
        queue: Option<String>,
        #[command(flatten)]
        listing: Listing,
    },
    /// Show an operation: its jobs, who started it and why, and its progress
    #[command(after_help = "Examples:
  {bin} operations show orders/5f0c3a9d2b7e6418")]
    Show {
        /// The operation, as `operations list` prints it
        #[arg(value_name = "QUEUE/OPERATION")]
        operation: Address,
        #[command(flatten)]
        format: Format,
    },
    /// Stop an operation at its next step; its changes remain
    #[command(after_help = "Examples:
  {bin} operations stop orders/5f0c3a9d2b7e6418")]
    Stop {
        /// The operation, as `operations list` prints it
        #[arg(value_name = "QUEUE/OPERATION")]
        operation: Address,
        #[command(flatten)]
        format: Format,
    },
    /// Resume an operation whose runner has stopped; a worker of the queue does so within a minute
    #[command(after_help = "Examples:
  {bin} operations resume orders/5f0c3a9d2b7e6418")]
    Resume {
        /// The operation, as `operations list` prints it
        #[arg(value_name = "QUEUE/OPERATION")]
        operation: Address,
        #[command(flatten)]
        format: Format,
    },
}

/// The options for starting an operation.
#[derive(Debug, Default, clap::Args)]
pub(super) struct Starting {
    /// Print how many jobs it would affect; change nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Start it and exit; the workers of the queue carry it out
    #[arg(long, conflicts_with = "dry_run")]
    pub(super) detach: bool,
}

pub(super) async fn operations(client: &Client, command: OperationsCommand) -> Result<(), Failure> {
    let inspector = client.inspector();
    match command {
        OperationsCommand::List { queue, listing } => {
            listing.again.print(async || list(client, queue.as_deref(), &listing.format).await).await
        }
        OperationsCommand::Show { operation: Address { queue, name: id }, format } => {
            show(&inspector.operation(&queue, &id).await?, &format)
        }
        OperationsCommand::Stop { operation: Address { queue, name: id }, format } => {
            let stopped = inspector.stop_operation(&queue, &id).await?;
            if format.json { Ok(print_json(&stopped)?) } else { Ok(print(&describe_operation(&stopped))?) }
        }
        OperationsCommand::Resume { operation: Address { queue, name: id }, format } => {
            let operation = inspector.operation(&queue, &id).await?;
            if !operation.is_running() {
                return Err(Failure::new(
                    Exit::WrongState,
                    format!("operation `{queue}/{id}` cannot be resumed: it is {}", operation.state),
                ));
            }
            let ended = follow(inspector.run_operation(&operation).at_once()).await?;
            if format.json { Ok(print_json(&ended)?) } else { Ok(print(&describe_operation(&ended))?) }
        }
    }
}

async fn list(client: &Client, queue: Option<&str>, format: &Format) -> Result<(), Failure> {
    let inspector = client.inspector();
    let queues = queues::selected_queues(client, queue).await?;
    let (found, unreadable) = queues::for_each_queue(queues, async |queue| inspector.operations(queue).await).await?;
    let mut all: Vec<Operation> = found.into_iter().flat_map(|(_, operations)| operations).collect();
    all.sort_by_key(|operation| (!operation.is_running(), std::cmp::Reverse(operation.started_ms)));
    table::list(format, "operations", &all, &COLUMNS, "there are no operations")?;
    Unreadable::report(&unreadable)
}

const COLUMNS: [Column<Operation>; 8] = [
    Field("operation"),
    Field("kind"),
    Field("filter"),
    Field("state"),
    Made("#done", |operation| format!("{}%", operation.percent())),
    Field("changed"),
    Field("started_at"),
    Field("by"),
];

const FACTS: [Column<Operation>; 14] = [
    Field("operation"),
    Field("kind"),
    Made("filter", |operation| {
        Some(&operation.filter).filter(|filter| !filter.is_empty()).map_or_else(|| "none: all jobs".to_owned(), String::clone)
    }),
    Field("state"),
    Made("examined", |operation| format!("{} of about {}, {}%", operation.examined, operation.total, operation.percent())),
    Field("changed"),
    Field("skipped"),
    Field("failed"),
    Field("started_at"),
    Made("last step", |operation| {
        let running = operation.stepped_at().filter(|_| operation.is_running());
        running.map(|at| relative_time(at, SystemTime::now())).unwrap_or_default()
    }),
    Field("ended_at"),
    Field("by"),
    Field("reason"),
    Field("problem"),
];

fn show(operation: &Operation, format: &Format) -> Result<(), Failure> {
    if format.json {
        return Ok(print_json(operation)?);
    }
    Ok(print(&table::facts(operation, &FACTS))?)
}

/// Previews an operation, starts it, or starts it and follows it to its end, depending on the
/// options. `None`: everything was already printed.
pub(super) async fn begin(
    inspector: &Inspector,
    queue: &str,
    new: NewOperation,
    starting: &Starting,
    format: &Format,
) -> Result<Begun, Failure> {
    if starting.dry_run {
        let preview = inspector.preview_operation(queue, &new, EXAMINED_AT_MOST).await?;
        if !format.json {
            let least = if preview.is_whole { "" } else { "at least " };
            print(&format!("{queue}: {least}{} would be {}", jobs(preview.eligible), new.kind.done()))?;
        }
        return Ok(Begun::Previewed(Preview {
            queue: queue.to_owned(),
            kind: new.kind,
            filter: new.filter.to_string(),
            dry_run: true,
            preview,
        }));
    }
    let new = new.by(person::name());
    if starting.detach {
        let operation = inspector.start_operation(queue, &new.detached()).await?;
        if !format.json {
            let address = operation.address();
            print(&format!("{address} is started: the workers of {queue} carry it out; `operations show {address}` prints its progress"))?;
            if inspector.workers_of(queue).await.is_ok_and(|workers| workers.iter().all(|worker| worker.lease_left.is_zero())) {
                note(&format!("no worker serves {queue}: it starts with the next worker, or with `operations resume {address}`"));
            }
        }
        return Ok(Begun::Started(Box::new(operation)));
    }
    let operation = inspector.start_operation(queue, &new).await?;
    Ok(Begun::Started(Box::new(follow(inspector.run_operation(&operation)).await?)))
}

/// The preview of an operation, as JSON.
#[derive(Serialize)]
pub(super) struct Preview {
    queue: String,
    kind: OperationKind,
    filter: String,
    dry_run: bool,
    #[serde(flatten)]
    preview: OperationPreview,
}

/// Its current state.
pub(super) enum Begun {
    Previewed(Preview),
    Started(Box<Operation>),
}

/// The maximum number of jobs that a dry run examines.
const EXAMINED_AT_MOST: u64 = 1_000_000;

/// Executes its steps to the end, and prints the progress.
async fn follow(mut run: RunOperation) -> Result<Operation, Failure> {
    let address = run.operation().address();
    let mut line = Line::new();
    let stopped = asked_to_stop();
    tokio::pin!(stopped);
    loop {
        let step = tokio::select! {
            biased;
            _ = &mut stopped => {
                line.end();
                note(&format!(
                    "{address} continues: a worker of the queue resumes it within a minute, or run `operations resume {address}`; `operations stop {address}` stops it"
                ));
                return Err(Failure::silent(Exit::GivenBack));
            }
            step = run.step() => step,
        };
        match step {
            Ok(true) => {
                let operation = run.operation();
                let (kind, queue, percent, changed) = (operation.kind, &operation.queue, operation.percent(), operation.changed);
                line.show(|| format!("{kind} {queue}: {percent}%, {changed} {}", kind.done()));
            }
            Ok(false) => break,
            Err(error) => {
                line.end();
                if !matches!(error, queue_core::Error::NoSuchOperation(_)) {
                    note(&format!("{address} has not ended: a worker of the queue resumes it, or run `operations resume {address}`"));
                }
                return Err(error.into());
            }
        }
    }
    line.end();
    let operation = run.operation().clone();
    match operation.state {
        OperationState::Completed => Ok(operation),
        OperationState::Running => {
            Err(Failure::new(Exit::WrongState, format!("another runner has taken over {}", describe_operation(&operation))))
        }
        _ => Err(Failure::new(Exit::WrongState, describe_operation(&operation))),
    }
}

/// The progress in one line.
pub(super) fn describe_operation(operation: &Operation) -> String {
    let mut text = format!("{} is {}: {} {}", operation.address(), operation.state, jobs(operation.changed), operation.kind.done());
    if operation.failed > 0 {
        text += &format!(", {} are unchanged, because other jobs hold their unique keys", operation.failed);
    }
    if let Some(problem) = &operation.problem {
        text += &format!(": {problem}");
    }
    text
}

pub(super) fn jobs(n: u64) -> String {
    format!("{n} {}", if n == 1 { "job" } else { "jobs" })
}
