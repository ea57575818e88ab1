//! `queues`: the list of queues, aging, pause and resume.

use std::{pin::pin, time::Duration};

use clap::Subcommand;
use futures_util::{StreamExt, stream};
use queue_core::{
    __private::error_text,
    Client, Error,
    broker::QueueStats,
    inspect::{Aging, OperationKind, PauseOf},
};
use serde::Serialize;
use serde_json::json;

use super::{
    again::Listing,
    answers::change_each,
    args::{Format, aging},
    drains::{self, DrainArgs},
    exit::{Exit, Failure, note, print_error},
    output::{exact_duration, print, print_json},
    pauses::{self, PauseArgs},
    table::{
        self,
        Column::{self, Field, Made},
        Of,
    },
};

#[derive(Debug, Subcommand)]
pub(super) enum QueuesCommand {
    /// List the queues
    #[command(after_help = "Examples:
  {bin} queues list
  {bin} queues list --watch
  {bin} queues list --json")]
    List(Listing),
    /// Stop all workers from claiming; running jobs continue, and enqueues are accepted
    #[command(after_help = "Examples:
  {bin} queues pause mail orders
  {bin} queues pause mail --reason 'the database moves' --until 30m
  {bin} queues pause mail --until 2030-01-31T08:00:00Z")]
    Pause {
        /// The queues
        #[arg(required = true, value_name = "QUEUE")]
        queues: Vec<String>,
        #[command(flatten)]
        pause: PauseArgs,
        #[command(flatten)]
        format: Format,
    },
    /// Set the aging of queues: waiting jobs rise by one priority after each interval
    #[command(after_help = "Examples:
  {bin} queues set mail --aging 60s
  {bin} queues set mail --aging off
  {bin} queues set mail --aging declared     as the tasks declare it")]
    Set {
        /// The queue
        queue: String,
        /// An interval, `off`, or `declared`
        #[arg(long, value_name = "TIME", value_parser = aging)]
        aging: Aging,
        #[command(flatten)]
        format: Format,
    },
    /// Remove all waiting jobs: ready, scheduled, held and parked jobs, and jobs that wait for a
    /// retry; running jobs continue
    #[command(after_help = "Examples:
  {bin} queues drain mail --dry-run
  {bin} queues drain mail --yes --reason 'a wrong import'
  {bin} queues drain mail --yes --detach              the workers of the queue do it")]
    Drain(DrainArgs),
    /// Remove all jobs except running jobs: waiting jobs, and the records of ended jobs
    #[command(after_help = "Examples:
  {bin} queues purge mail --dry-run
  {bin} queues purge mail")]
    Purge(DrainArgs),
    /// Remove a queue that nothing uses: its name, and its history
    #[command(after_help = "Examples:
  {bin} queues remove mial

A queue that something uses is not removed: jobs, live workers, schedules, rules, limits, pauses,
aging, a subscription, given ids and unique keys that are remembered, and outboxes. Programs that
enqueue to it create it again.")]
    Remove {
        /// The queue
        queue: String,
        #[command(flatten)]
        format: Format,
    },
    /// Let workers claim again
    #[command(after_help = "Examples:
  {bin} queues resume mail")]
    Resume {
        /// The queues
        #[arg(required = true, value_name = "QUEUE")]
        queues: Vec<String>,
        #[command(flatten)]
        format: Format,
    },
}

/// The number of queues that are read concurrently.
const ASKED: usize = 32;

/// A queue that cannot be read, because another program wrote to one of its keys, or because its
/// server is unreachable. The other queues are shown without it.
#[derive(Debug, Serialize)]
pub(super) struct Unreadable {
    queue: String,
    problem: String,
    #[serde(skip)]
    exit: Exit,
}

impl Unreadable {
    /// The error of a queue, if the other queues can still be shown.
    pub(super) fn from(queue: &str, error: Error) -> Result<Self, Failure> {
        match error {
            Error::WrongType { .. } => Ok(Unreadable { queue: queue.to_owned(), problem: error_text(&error), exit: Exit::Sick }),
            Error::Unavailable { .. } => {
                let problem = format!("`{queue}` is unreachable: {}", error_text(&error));
                Ok(Unreadable { queue: queue.to_owned(), problem, exit: Exit::Unavailable })
            }
            error => Err(error.into()),
        }
    }

    /// A failure at a queue, after which the command continues with the other queues.
    pub(super) fn of_failure(queue: &str, failure: Failure) -> Self {
        let (exit, problem) = failure.into_parts();
        Unreadable { queue: queue.to_owned(), problem: problem.unwrap_or_else(|| format!("`{queue}` was not changed")), exit }
    }

    /// Reports these queues at the end of a command, and fails if there are any.
    pub(super) fn report(all: &[Unreadable]) -> Result<(), Failure> {
        for Unreadable { problem, .. } in all {
            print_error(problem);
        }
        all.first().map_or(Ok(()), |first| Err(Failure::silent(first.exit)))
    }
}

/// The figures of some queues, and those that cannot be read.
pub(super) async fn read_stats(client: &Client, queues: Vec<String>) -> Result<(Vec<(String, QueueStats)>, Vec<Unreadable>), Failure> {
    let inspector = client.inspector();
    for_each_queue(queues, async |queue| inspector.stats(queue).await).await
}

/// Calls `ask` for each queue, for many concurrently, so that the queues of an unresponsive server
/// cost its timeout only once.
pub(super) async fn for_each_queue<T>(
    queues: Vec<String>,
    ask: impl AsyncFn(&str) -> Result<T, Error>,
) -> Result<(Vec<(String, T)>, Vec<Unreadable>), Failure> {
    let ask = &ask;
    let mut answers = pin!(stream::iter(queues).map(|queue| async move { (ask(&queue).await, queue) }).buffered(ASKED));
    let (mut answered, mut unreadable) = (Vec::new(), Vec::new());
    while let Some((answer, queue)) = answers.next().await {
        match answer {
            Ok(answer) => answered.push((queue, answer)),
            Err(error) => unreadable.push(Unreadable::from(&queue, error)?),
        }
    }
    Ok((answered, unreadable))
}

/// The readable queues, of one or all, and the unreadable ones. A named queue is not checked here;
/// the caller does that.
pub(super) async fn readable(client: &Client, queue: Option<&str>) -> Result<(Vec<String>, Vec<Unreadable>), Failure> {
    let queues = selected_queues(client, queue).await?;
    if queues.len() < 2 {
        return Ok((queues, Vec::new()));
    }
    let (figures, unreadable) = read_stats(client, queues).await?;
    Ok((figures.into_iter().map(|(queue, _)| queue).collect(), unreadable))
}

pub(super) async fn queues(client: &Client, command: QueuesCommand) -> Result<(), Failure> {
    let inspector = client.inspector();
    match command {
        QueuesCommand::List(listing) => listing.again.print(async || list(client, &listing.format).await).await,
        QueuesCommand::Pause { queues, pause, format } => {
            change_each("queues", &check_names(client, queues).await?, &format, async |queue| {
                inspector.pause_as(queue, PauseOf::Queue, pause.pausing()).await?;
                Ok((format!("{queue} is paused{}", pause.end()), json!({ "queue": queue, "paused": true })))
            })
            .await
        }
        QueuesCommand::Set { queue, aging, format } => {
            let known = check_names(client, vec![queue]).await?.remove(0);
            let every = inspector.set_aging(&known, aging).await?;
            if format.json {
                return Ok(print_json(&json!({ "queue": known, "aging_ms": every.map(in_ms) }))?);
            }
            let what = match every {
                Some(every) => format!("a waiting job of {known} rises by one priority every {}", exact_duration(every)),
                None => format!("waiting jobs of {known} do not rise"),
            };
            Ok(print(&what)?)
        }
        QueuesCommand::Drain(args) => drains::drain(client, OperationKind::Drain, args).await,
        QueuesCommand::Purge(args) => drains::drain(client, OperationKind::Purge, args).await,
        QueuesCommand::Remove { queue, format } => {
            let queue = check_names(client, vec![queue]).await?.remove(0);
            let used = inspector.remove_queue(&queue).await?;
            if !used.is_empty() {
                let problem = format!("queue `{queue}` is not removed: it has {}; `doctor` and `status` show more", used.join(", "));
                return Err(Failure::new(Exit::WrongState, problem));
            }
            if format.json {
                return Ok(print_json(&json!({ "queue": queue, "removed": true }))?);
            }
            Ok(print(&format!("{queue} is removed"))?)
        }
        QueuesCommand::Resume { queues, format } => {
            change_each("queues", &check_names(client, queues).await?, &format, async |queue| {
                inspector.resume(queue).await?;
                Ok((format!("{queue} is resumed"), json!({ "queue": queue, "paused": false })))
            })
            .await
        }
    }
}

async fn list(client: &Client, format: &Format) -> Result<(), Failure> {
    let (figures, unreadable) = self::read_stats(client, client.inspector().queues().await?).await?;
    let rows: Vec<_> = figures.into_iter().map(|(queue, record)| Of { queue, record }).collect();
    if unreadable.is_empty() || !rows.is_empty() || format.json {
        table::list(format, "queues", &rows, &COLUMNS, &no_queues_message(client))?;
    }
    Unreadable::report(&unreadable)
}

const COLUMNS: [Column<Of<QueueStats>>; 5] = [
    Field("queue"),
    Field("workers"),
    Field("lanes"),
    Made("#aging", |row| row.record.aging.map(exact_duration).unwrap_or_default()),
    Made("paused", |row| pauses::describe_pause(row.record.pause.as_ref(), 100)),
];

fn in_ms(every: Duration) -> u64 {
    u64::try_from(every.as_millis()).unwrap_or(u64::MAX)
}

/// One queue that must exist, or all.
pub(super) async fn selected_queues(client: &Client, queue: Option<&str>) -> Result<Vec<String>, Failure> {
    match queue {
        Some(queue) => check_names(client, vec![queue.to_owned()]).await,
        None => Ok(client.inspector().queues().await?),
    }
}

/// The queues of a list: all, or the named one. The named queue need not exist, because its
/// settings may exist before its first job.
pub(super) async fn of_list(client: &Client, queue: Option<&str>) -> Result<Vec<String>, Failure> {
    match queue {
        Some(queue) => Ok(vec![queue.to_owned()]),
        None => selected_queues(client, None).await,
    }
}

/// Prints a note for a setting before the first job of the queue, because the name may be
/// misspelled.
pub(super) async fn warn_if_unknown(client: &Client, queue: &str) {
    let Ok(queues) = client.inspector().queues().await else { return };
    if !queues.iter().any(|known| known == queue) {
        note(&format!("there is no queue `{queue}` yet: the setting is stored for its first job ({})", advice(client, queue, &queues)));
    }
}

fn advice(client: &Client, name: &str, queues: &[String]) -> String {
    match queue_core::__private::nearest(name, queues.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None if queues.is_empty() => no_queues_message(client),
        None => format!("there are {}", queues.iter().map(|queue| format!("`{queue}`")).collect::<Vec<_>>().join(", ")),
    }
}

/// The same names, if all of them exist. If one is misspelled, nothing is changed.
async fn check_names(client: &Client, names: Vec<String>) -> Result<Vec<String>, Failure> {
    names.iter().try_for_each(|name| queue_core::__private::check_queue(name))?;
    let queues = match client.inspector().queues().await {
        Ok(queues) => queues,
        // In a cluster the server of each queue may still answer.
        Err(Error::Unavailable { .. }) => return Ok(names),
        Err(error) => return Err(error.into()),
    };
    for name in &names {
        if queues.contains(name) {
            continue;
        }
        return Err(Failure::new(Exit::NotFound, format!("there is no queue `{name}`: {}", advice(client, name, &queues))));
    }
    Ok(names)
}

fn no_queues_message(client: &Client) -> String {
    format!("nothing was ever enqueued at {}", client.info().location)
}
