//! `queues drain` and `queues purge`: remove all waiting jobs, or all jobs except running ones.

use queue_core::{
    Client, JobState,
    inspect::{Inspector, NewOperation, OperationKind},
};

use super::{
    args::Format,
    exit::Failure,
    operations::{self, Begun, Starting},
    output::{print, print_json},
    person, queues,
};

#[derive(Debug, clap::Args)]
pub(super) struct DrainArgs {
    /// The queue
    queue: String,
    /// Remove them without a question
    #[arg(long)]
    yes: bool,
    /// Why, for the history
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
    #[command(flatten)]
    starting: Starting,
    #[command(flatten)]
    format: Format,
}

pub(super) async fn drain(client: &Client, kind: OperationKind, args: DrainArgs) -> Result<(), Failure> {
    let queue = queues::selected_queues(client, Some(&args.queue)).await?.remove(0);
    let inspector = client.inspector().because(args.reason);
    if !args.starting.dry_run && !args.yes {
        let jobs = count(&inspector, kind, &queue).await?;
        if jobs > 0 {
            person::confirm(false, &format!("{} of {queue} will be removed permanently", operations::jobs(jobs)))?;
        }
    }
    match operations::begin(&inspector, &queue, NewOperation::all_of(kind), &args.starting, &args.format).await? {
        Begun::Previewed(preview) if args.format.json => Ok(print_json(&preview)?),
        Begun::Previewed(_) => Ok(()),
        Begun::Started(operation) if args.format.json => Ok(print_json(&operation)?),
        Begun::Started(operation) if operation.is_running() => Ok(()),
        Begun::Started(operation) => Ok(print(&format!("{queue}: {} removed", operations::jobs(operation.changed)))?),
    }
}

/// The number of jobs to remove.
async fn count(inspector: &Inspector, kind: OperationKind, queue: &str) -> Result<u64, Failure> {
    let stats = inspector.stats(queue).await?;
    const WAITING: [JobState; 5] = [JobState::Ready, JobState::Scheduled, JobState::Held, JobState::Parked, JobState::Retry];
    let is_removed = |state: &JobState| match kind {
        OperationKind::Drain => WAITING.contains(state),
        _ => *state != JobState::Active,
    };
    Ok(JobState::ALL.into_iter().filter(is_removed).map(|state| stats.count(state)).sum())
}
