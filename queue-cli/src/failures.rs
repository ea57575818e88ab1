//! `failures`: failures of runs, grouped by fingerprint.

use std::time::SystemTime;

use clap::Subcommand;
use queue_core::{
    Client,
    inspect::{FailurePattern, Fingerprint},
};

use super::{
    args::Format,
    exit::{Exit, Failure},
    output::{plain, print, relative_time, short, utc},
    queues::{self, Unreadable},
    table::{
        self,
        Column::{self, Field, Made},
        Of,
    },
};

#[derive(Debug, Subcommand)]
pub(super) enum FailuresCommand {
    /// List failures, grouped by their message without numbers, ids and quoted values
    #[command(after_help = "Examples:
  {bin} failures list --queue orders --task close_order")]
    List(ListArgs),
    /// Show a failure in detail, with commands to handle it
    #[command(after_help = "Examples:
  {bin} failures show 5f0c3a9d2b7e6418
  {bin} jobs requeue --all --where failure=5f0c3a9d2b7e6418    its dead jobs run again")]
    Show {
        /// The fingerprint, as `failures` prints it
        fingerprint: Fingerprint,
        /// Only this queue
        #[arg(long, value_name = "QUEUE")]
        queue: Option<String>,
        #[command(flatten)]
        format: Format,
    },
}

#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    /// Only this queue
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    /// Only this task
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
    #[command(flatten)]
    format: Format,
}

pub(super) async fn failures(client: &Client, command: FailuresCommand, bin: &str) -> Result<(), Failure> {
    let (args, fingerprint) = match command {
        FailuresCommand::List(list) => (list, None),
        FailuresCommand::Show { fingerprint, queue, format } => (ListArgs { queue, task: None, format }, Some(fingerprint)),
    };
    let inspector = client.inspector();
    let queues = queues::selected_queues(client, args.queue.as_deref()).await?;
    let (kinds, unreadable) = queues::for_each_queue(queues, async |queue| inspector.failures(queue).await).await?;
    let mut rows = Of::each(kinds);
    rows.retain(|Of { record: failure, .. }: &Of<FailurePattern>| {
        fingerprint.is_none_or(|print| print == failure.fingerprint)
            && args.task.as_ref().is_none_or(|task| failure.tasks.iter().any(|(name, _)| name == task))
    });
    rows.sort_by_key(|row| std::cmp::Reverse(row.record.last_at));
    if let Some(print) = fingerprint.filter(|_| rows.is_empty() && unreadable.is_empty()) {
        return Err(Failure::new(Exit::NotFound, format!("there is no failure with the fingerprint {print}; `failures` lists them")));
    }
    if fingerprint.is_some() && !args.format.json {
        print_all(&rows.iter().map(|row| text(row, bin)).collect::<Vec<_>>())?;
    } else if args.format.json || unreadable.is_empty() || !rows.is_empty() {
        table::list(&args.format, "failures", &rows, &COLUMNS, "there are no failures")?;
    }
    Unreadable::report(&unreadable)
}

fn print_all(texts: &[String]) -> Result<(), Failure> {
    Ok(print(&texts.join("\n\n"))?)
}

const COLUMNS: [Column<Of<FailurePattern>>; 8] = [
    Field("fingerprint"),
    Field("queue"),
    Field("count"),
    Field("last_at"),
    Field("first_at"),
    Made("tasks", |row| latest_name(&row.record.tasks)),
    Made("releases", |row| latest_name(&row.record.releases)),
    Made("failure", |row| pattern(&row.record).to_owned()),
];

fn pattern(failure: &FailurePattern) -> &str {
    if failure.fingerprint == Fingerprint::OTHERS { "(other failures with too many different messages)" } else { &failure.pattern }
}

/// The name with the latest failure, and the number of the others.
fn latest_name(names: &[(String, u64)]) -> String {
    let name = names.last().map_or("", |(name, _)| name.as_str());
    if names.len() > 1 { format!("{} and {} more", short(name, 30), names.len() - 1) } else { short(name, 30) }
}

fn text(Of { queue, record: failure }: &Of<FailurePattern>, bin: &str) -> String {
    let now = SystemTime::now();
    let time = |time| format!("{}{}", relative_time(time, now), utc(time).map(|time| format!(" ({time})")).unwrap_or_default());
    let names = |names: &[(String, u64)]| {
        let counted = names.iter().rev().map(|(name, count)| format!("{} {count}", if name.is_empty() { "(unknown)" } else { name }));
        counted.collect::<Vec<_>>().join(", ")
    };
    let jobs: Vec<String> = failure.jobs.iter().rev().map(|id| format!("{queue}/{id}")).collect();
    let print = failure.fingerprint;
    let mut lines = vec![
        ("fingerprint", print.to_string()),
        ("queue", queue.clone()),
        ("failure", plain(pattern(failure))),
        ("last text", plain(&failure.message)),
        ("count", failure.count.to_string()),
        ("last", time(failure.last_at)),
        ("first", time(failure.first_at)),
        ("tasks", names(&failure.tasks)),
        ("releases", names(&failure.releases)),
        ("last jobs", jobs.join(", ")),
    ];
    if print != Fingerprint::OTHERS {
        let of = format!("--queue {queue} --where failure={print}");
        lines.extend([
            ("list them", format!("{bin} jobs list --queue {queue} failure={print}")),
            ("run again", format!("{bin} jobs requeue --all {of}")),
            ("try now", format!("{bin} jobs promote --all --state retry {of}")),
            ("cancel", format!("{bin} jobs cancel --all --state retry {of}")),
        ]);
    }
    lines.retain(|(_, value)| !value.is_empty());
    lines.iter().map(|(name, value)| format!("{name:<13}{value}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_what_failed_last() {
        let names = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), 1)).collect::<Vec<_>>();
        assert_eq!(latest_name(&names(&[])), "");
        assert_eq!(latest_name(&names(&["mail"])), "mail");
        assert_eq!(latest_name(&names(&["bill", "mail"])), "mail and 1 more");
    }
}
