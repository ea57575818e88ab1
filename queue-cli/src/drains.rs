//! `queues drain` and `queues purge`: all jobs that wait go, or all but those that run.

use queue_core::{Client, NewOperation, OperationKind};

use super::{
    args::Format,
    exit::{Exit, Failure},
    operations::{self, Begun, Starting},
    output::{print, print_json},
    person, queues,
};

#[derive(Debug, clap::Args)]
pub(super) struct DrainArgs {
    /// The queue
    queue: String,
    /// The name of the queue once more, as what is removed cannot be brought back; on a terminal it is asked for
    #[arg(long, value_name = "QUEUE")]
    confirm: Option<String>,
    /// Why, for the history
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
    #[command(flatten)]
    starting: Starting,
    #[command(flatten)]
    format: Format,
}

pub(super) async fn drain(client: &Client, kind: OperationKind, args: DrainArgs) -> Result<(), Failure> {
    let queue = queues::chosen(client, Some(&args.queue)).await?.remove(0);
    if !args.starting.dry_run {
        confirm(kind, &queue, args.confirm)?;
    }
    let inspector = client.inspector().because(args.reason);
    match operations::begin(&inspector, &queue, NewOperation::all_of(kind), &args.starting, &args.format).await? {
        Begun::Looked(answer) if args.format.json => Ok(print_json(&answer)?),
        Begun::Looked(_) => Ok(()),
        Begun::Started(operation) if args.format.json => Ok(print_json(&operation)?),
        Begun::Started(operation) if operation.is_running() => Ok(()),
        Begun::Started(operation) => Ok(print(&format!("{queue}: {} removed", operations::jobs(operation.changed)))?),
    }
}

/// A person has to write the name.
fn confirm(kind: OperationKind, queue: &str, given: Option<String>) -> Result<(), Failure> {
    let what = match kind {
        OperationKind::Drain => "all waiting jobs",
        _ => "all jobs except running jobs, and the records of ended jobs,",
    };
    let given = match given {
        Some(given) => Some(given),
        None => person::answer(&format!("{what} of {queue} will be removed permanently; write its name to confirm"))?,
    };
    let Some(given) = given else {
        let problem =
            format!("{what} of {queue} would be removed permanently; add `--confirm {queue}` to remove them, or --dry-run to count them");
        return Err(Failure::new(Exit::Usage, problem));
    };
    if given == queue {
        return Ok(());
    }
    Err(Failure::new(Exit::Usage, format!("`{given}` is not the name of the queue, `{queue}`: nothing was removed")))
}
