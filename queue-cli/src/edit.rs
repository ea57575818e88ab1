//! `jobs edit` and `jobs duplicate`: edit a waiting job, and copy a job.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use queue_core::{
    Client, JobAddress, JobId, Priority, Registry,
    inspect::{Edit, Edited, Seen},
};
use serde::Serialize;

use super::{
    args::{Format, duration, priority_parser, time},
    enqueue::json_of,
    exit::{Exit, Failure, note},
    output::{print, print_json},
};

pub(super) const EDIT_HELP: &str = "Examples:
  {bin} jobs edit orders/close-17 --priority high --in 10m
  {bin} jobs edit orders/close-17 --payload '{\"order\":18}' --dry-run    what would change
  {bin} jobs edit orders/close-17 --at 2030-01-31T08:00:00Z --group acme --max-attempts 3
  {bin} jobs edit orders/close-17 --payload - < order.json --seen \"$SEEN\"   not if somebody has changed it since

A job that runs or has ended is not edited: `jobs requeue` lets a dead one wait, `jobs duplicate` makes a copy.
Exit codes: 0 it has what was asked for; 3 no such job; 4 it does not wait, has changed since, or another job holds its unique key";

pub(super) const DUPLICATE_HELP: &str = "Examples:
  {bin} jobs duplicate orders/close-17
  {bin} jobs duplicate orders/close-17 --queue slow
  {bin} jobs duplicate orders/close-17 --queue slow && {bin} jobs cancel orders/close-17    move it: a worker may start either between the two";

#[derive(Debug, clap::Args)]
pub(super) struct EditArgs {
    /// The job
    #[arg(value_name = "QUEUE/ID")]
    job: String,
    /// Replace all its parameters by this JSON object; `-` reads it from standard input
    #[arg(long, visible_alias = "args", value_name = "JSON")]
    payload: Option<String>,
    /// Start it at this time, as in `2030-01-31T08:00:00Z`; a past time means now
    #[arg(long, value_name = "TIME", value_parser = time)]
    at: Option<SystemTime>,
    /// Start it after this delay, as in `10s`, `1h 30m`; `0s` means now
    #[arg(long = "in", value_name = "DURATION", value_parser = duration, conflicts_with = "at")]
    delay: Option<Duration>,
    /// Give it this priority
    #[arg(long, value_parser = priority_parser())]
    priority: Option<Priority>,
    /// Put it into this group
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Take it out of its group
    #[arg(long, conflicts_with = "group")]
    no_group: bool,
    /// The number of failures after which the job becomes a dead letter, previous ones included; 1
    /// means no retry
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// Change it only if it still has this version, which --dry-run prints
    #[arg(long, value_name = "SEEN", value_parser = parse_seen)]
    seen: Option<Seen>,
    /// Print what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    format: Format,
}

#[derive(Debug, clap::Args)]
pub(super) struct DuplicateArgs {
    /// The job
    #[arg(value_name = "QUEUE/ID")]
    job: String,
    /// Put the copy into this queue instead of the job's own
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    #[command(flatten)]
    format: Format,
}

fn parse_seen(text: &str) -> Result<Seen, String> {
    text.parse().map_err(|error: queue_core::Error| error.to_string())
}

/// Checks the command before the broker is connected.
pub(super) fn check(args: &EditArgs) -> Result<(), Failure> {
    let (timed, grouped) = (args.at.is_some() || args.delay.is_some(), args.group.is_some() || args.no_group);
    if args.payload.is_none() && !timed && !grouped && args.priority.is_none() && args.max_attempts.is_none() {
        let advice = "give --payload, --at or --in, --priority, --group or --no-group, or --max-attempts";
        return Err(Failure::new(Exit::Usage, format!("`jobs edit` changes nothing; {advice}")));
    }
    Ok(())
}

#[derive(Serialize)]
struct Answer<'a> {
    job: String,
    dry_run: bool,
    changes: Vec<Line<'a>>,
    seen: String,
    stale_tags: &'a BTreeMap<String, String>,
}

#[derive(Serialize)]
struct Line<'a> {
    field: &'a str,
    before: &'a str,
    after: &'a str,
}

pub(super) async fn edit(client: &Client, args: &EditArgs) -> Result<(), Failure> {
    let inspector = client.inspector();
    let address = inspector.find(&args.job).await?;
    let mut edit = Edit::new();
    if let Some(payload) = &args.payload {
        let name = inspector.show(&address).await?.task.unwrap_or_default();
        match Registry::linked().get(&name) {
            Some(handler) => edit = edit.task(handler.task),
            None => note(&format!(
                "this program does not have the task `{name}`: the parameters are not checked, and group, limits and tags stay"
            )),
        }
        edit = edit.payload_json(json_of(payload)?);
    }
    edit = match (args.at, args.delay) {
        (Some(at), _) => edit.at(at),
        (None, Some(delay)) => edit.delay(delay),
        (None, None) => edit,
    };
    if let Some(priority) = args.priority {
        edit = edit.priority(priority);
    }
    if args.no_group {
        edit = edit.no_group();
    } else if let Some(group) = &args.group {
        edit = edit.group(group);
    }
    if let Some(attempts) = args.max_attempts {
        edit = edit.max_attempts(attempts);
    }
    if let Some(seen) = &args.seen {
        edit = edit.seen(seen.clone());
    }
    let edited = if args.dry_run { inspector.preview_edit(&address, &edit).await? } else { inspector.edit(&address, &edit).await? };
    print_edit(&edited, args)
}

fn print_edit(edited: &Edited, args: &EditArgs) -> Result<(), Failure> {
    if args.format.json {
        let changes =
            edited.changes.iter().map(|change| Line { field: change.field, before: &change.before, after: &change.after }).collect();
        warn_of_stale_tags(edited);
        let (job, seen) = (edited.job.to_string(), edited.seen.to_string());
        return Ok(print_json(&Answer { job, dry_run: args.dry_run, changes, seen, stale_tags: &edited.stale_tags })?);
    }
    if edited.changes.is_empty() {
        note("the job already has these values; nothing was changed");
    }
    for change in &edited.changes {
        print(&format!("{}: {} -> {}", change.field, change.before, change.after))?;
    }
    warn_of_stale_tags(edited);
    if args.dry_run {
        print(&format!("seen: {}", edited.seen))?;
        note("nothing was changed; leave out --dry-run to do it, with --seen to do it only if the job has not changed");
    }
    Ok(())
}

/// Prints a note for each tag that may come from an old parameter.
fn warn_of_stale_tags(edited: &Edited) {
    for (name, value) in &edited.stale_tags {
        note(&format!(
            "warning: the tag {name}={value} is unchanged, but its parameter has another value now; the worker binary of your application updates such tags: use it"
        ));
    }
}

#[derive(Serialize)]
struct Copy {
    job: String,
    of: String,
}

pub(super) async fn duplicate(client: &Client, args: &DuplicateArgs) -> Result<(), Failure> {
    let inspector = client.inspector();
    let address: JobAddress = inspector.find(&args.job).await?;
    let copy = inspector.duplicate(&address, args.queue.as_deref(), JobId::make()).await?;
    if !copy.served {
        note(&format!("no worker has ever served queue `{}`: the copy waits until one does", copy.job.queue));
    }
    if args.format.json {
        return Ok(print_json(&Copy { job: copy.job.to_string(), of: address.to_string() })?);
    }
    Ok(print(&copy.job.to_string())?)
}
