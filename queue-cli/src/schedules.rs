//! `schedules`: the list of schedules, their ticks, and their changes.

use std::time::{Duration, SystemTime};

use clap::Subcommand;
use queue_core::{
    Client, RawJob, Registry,
    broker::Priority,
    schedule::{CatchUp, Overlap, Schedule, ScheduleAddress, ScheduleRecord},
};
use serde::Serialize;
use serde_json::json;

use super::{
    again::QueueArgs,
    args::{Format, duration, priority_parser, time},
    exit::{Exit, Failure, note},
    output::{print, print_json, relative_time, rounded_duration, utc},
    queues,
    table::{
        self,
        Column::{self, Field, Made},
    },
    tasks,
};

#[derive(Debug, Subcommand)]
pub(super) enum SchedulesCommand {
    /// List the schedules, ordered by their next tick
    #[command(after_help = "Examples:
  {bin} schedules list
  {bin} schedules list --queue reports --json | jq -r '.schedules[] | select(.paused) | .schedule'")]
    List(QueueArgs),
    /// Show a schedule: its description, next ticks, last runs and events
    #[command(after_help = "Examples:
  {bin} schedules show reports/nightly")]
    Show {
        /// The schedule
        #[arg(value_name = "QUEUE/SCHEDULE")]
        schedule: ScheduleAddress,
        #[command(flatten)]
        format: Format,
    },
    /// Print when a schedule ticks next
    #[command(after_help = "Examples:
  {bin} schedules next reports/nightly -n 5")]
    Next {
        /// The schedule
        #[arg(value_name = "QUEUE/SCHEDULE")]
        schedule: ScheduleAddress,
        /// Number of ticks to print
        #[arg(short, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
        n: u16,
        #[command(flatten)]
        format: Format,
    },
    /// Create a schedule, or change the one of this name
    #[command(after_help = "Examples:
  {bin} schedules add nightly --cron '0 3 * * MON-FRI' --tz Europe/Berlin --task report --args '{\"customer\":7}'
  {bin} schedules add poll --every 90s --task poll --overlap skip --catch-up 'all(100)'

An expression has the fields minute, hour, day, month, weekday, or six with the second before them, or is @hourly and the like.
MON, JAN, L (last day), W (workday) and # (MON#1, FRI#L) are read.")]
    Add(AddArgs),
    /// Pause schedules; their jobs continue
    #[command(after_help = "Examples:
  {bin} schedules pause reports/nightly")]
    Pause {
        /// The schedules
        #[arg(required = true, value_name = "QUEUE/SCHEDULE")]
        schedules: Vec<ScheduleAddress>,
        #[command(flatten)]
        format: Format,
    },
    /// Resume schedules; ticks missed during the pause are skipped
    #[command(after_help = "Examples:
  {bin} schedules resume reports/nightly")]
    Resume {
        /// The schedules
        #[arg(required = true, value_name = "QUEUE/SCHEDULE")]
        schedules: Vec<ScheduleAddress>,
        #[command(flatten)]
        format: Format,
    },
    /// Create a job of a schedule now, even if the schedule is paused
    #[command(after_help = "Examples:
  job=$({bin} schedules run reports/nightly) && {bin} jobs show \"$job\"")]
    Run {
        /// The schedule
        #[arg(value_name = "QUEUE/SCHEDULE")]
        schedule: ScheduleAddress,
        #[command(flatten)]
        format: Format,
    },
    /// Create the jobs of all ticks in a time range; jobs that exist, or were backfilled within 24
    /// hours, are not created again
    #[command(after_help = "Examples:
  {bin} schedules backfill reports/nightly --from 2026-03-01T00:00:00Z --to 2026-03-07T00:00:00Z")]
    Backfill {
        /// The schedule
        #[arg(value_name = "QUEUE/SCHEDULE")]
        schedule: ScheduleAddress,
        /// The first tick is not before this time, as in `2026-03-01T00:00:00Z`
        #[arg(long, value_name = "TIME", value_parser = time)]
        from: SystemTime,
        /// The last tick is not after this time
        #[arg(long, value_name = "TIME", value_parser = time)]
        to: SystemTime,
        #[command(flatten)]
        format: Format,
    },
    /// Remove schedules; their jobs stay. A declared schedule is created again within a minute:
    /// pause it instead
    #[command(after_help = "Examples:
  {bin} schedules remove reports/nightly")]
    Remove {
        /// The schedules
        #[arg(required = true, value_name = "QUEUE/SCHEDULE")]
        schedules: Vec<ScheduleAddress>,
        #[command(flatten)]
        format: Format,
    },
}

#[derive(Debug, clap::Args)]
pub(super) struct AddArgs {
    /// Its name, unique in its queue
    name: String,
    /// When it ticks: a cron expression
    #[arg(long, value_name = "EXPR", required_unless_present = "every", conflicts_with = "every")]
    cron: Option<String>,
    /// When it ticks: an interval, as in `90s`
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    every: Option<Duration>,
    /// The time zone of the expression, as in `Europe/Berlin`
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    tz: String,
    /// The task of its jobs, as `tasks` lists it
    #[arg(long, value_name = "TASK")]
    task: String,
    /// Their parameters by name, as a JSON object
    #[arg(long, visible_alias = "payload", value_name = "JSON", default_value = "{}")]
    args: String,
    /// Put the jobs into this queue instead of their task's queue
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    /// Start the jobs before waiting jobs of lower priority
    #[arg(long, value_parser = priority_parser())]
    priority: Option<Priority>,
    /// Policy for a tick while the last job has not ended: allow, skip, buffer_one, cancel_running
    #[arg(long, value_name = "POLICY", default_value = "allow", value_parser = overlap)]
    overlap: Overlap,
    /// Policy for missed ticks: skip, last, all(N)
    #[arg(long, value_name = "POLICY", default_value = "last", value_parser = catch_up)]
    catch_up: CatchUp,
    /// Missed ticks older than this are skipped
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    catch_up_window: Option<Duration>,
    /// Delay each tick by up to this time; the delay of a tick is always the same
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    jitter: Option<Duration>,
    /// Pause it after this number of dead letters in a row
    #[arg(long, value_name = "N", default_value_t = 0)]
    pause_after_dead: u32,
    #[command(flatten)]
    format: Format,
}

fn overlap(text: &str) -> Result<Overlap, String> {
    Overlap::parse(text).map_err(|error| error.problem)
}

fn catch_up(text: &str) -> Result<CatchUp, String> {
    CatchUp::parse(text).map_err(|error| error.problem)
}

/// The schedule that the arguments describe. `registry` has the tasks of this program. Without it,
/// parameters are not checked.
pub(super) fn schedule_of_arguments(registry: Option<&Registry>, args: &AddArgs) -> Result<Schedule, Failure> {
    let mut job = match registry {
        Some(registry) => RawJob::from_json(tasks::find(registry, &args.task)?, &args.args)?,
        None if args.queue.is_none() => {
            let advice = "name it with --queue, or use the worker binary of your application";
            return Err(Failure::new(Exit::Usage, format!("this program does not know the queue of the task `{}`: {advice}", args.task)));
        }
        None => super::enqueue::raw_job(&args.task, &args.args)?,
    };
    if let Some(queue) = &args.queue {
        job = job.queue(queue);
    }
    if let Some(priority) = args.priority {
        job = job.priority(priority);
    }
    let schedule = match (&args.cron, args.every) {
        (Some(cron), _) => Schedule::cron(&args.name, cron),
        (None, every) => Schedule::every(&args.name, every.unwrap_or_default()),
    };
    let schedule = schedule.tz(&args.tz).overlap(args.overlap).catch_up(args.catch_up).pause_after_dead(args.pause_after_dead);
    let schedule = args.jitter.into_iter().fold(schedule, Schedule::jitter);
    Ok(args.catch_up_window.into_iter().fold(schedule, Schedule::catch_up_window).raw_job(job))
}

/// Creates the schedule, and prints its address.
pub(super) async fn add(client: &Client, schedule: Schedule, args: &AddArgs) -> Result<(), Failure> {
    let record = client.schedules().upsert(schedule).await?;
    if args.format.json {
        return Ok(print_json(&record)?);
    }
    print(&record.schedule.to_string())?;
    let next = record.next.map_or_else(String::new, |next| format!(", next {}", relative_time(next, SystemTime::now())));
    note(&format!("{} ({}){next}", record.words, record.tz));
    let queue = &record.schedule.queue;
    if client.inspector().workers_of(queue).await?.iter().all(|worker| worker.lease_left.is_zero()) {
        note(&format!("no live worker serves `{queue}`: it ticks when one is started"));
    }
    Ok(())
}

pub(super) async fn schedules(client: &Client, command: SchedulesCommand) -> Result<(), Failure> {
    let schedules = client.schedules();
    match command {
        SchedulesCommand::List(QueueArgs { queue, format }) => {
            let mut records = Vec::new();
            for queue in queues::selected_queues(client, queue.as_deref()).await? {
                records.extend(schedules.list(&queue).await?);
            }
            let none = "there are no schedules: declare one at its task, or create one with `schedules add`";
            table::list(&format, "schedules", &records, &COLUMNS, none)
        }
        SchedulesCommand::Show { schedule, format } => show(client, &schedule, &format).await,
        SchedulesCommand::Next { schedule, n, format } => {
            let next: Vec<String> = schedules.next(&schedule, n.into()).await?.into_iter().filter_map(utc).collect();
            if format.json {
                return Ok(print_json(&json!({ "schedule": schedule, "ticks": next }))?);
            }
            if next.is_empty() {
                note("it does not tick: it is paused or has ended");
                return Ok(());
            }
            Ok(print(&next.join("\n"))?)
        }
        SchedulesCommand::Add(_) => unreachable!("it was carried out before the broker was reached for"),
        SchedulesCommand::Pause { schedules: all, format } => {
            change_each(all, &format, ["is paused", "was paused already"], async |schedule| schedules.pause(schedule).await).await
        }
        SchedulesCommand::Resume { schedules: all, format } => {
            change_each(all, &format, ["ticks again", "was not paused"], async |schedule| schedules.resume(schedule).await).await
        }
        SchedulesCommand::Run { schedule, format } => {
            let job = schedules.run_now(&schedule).await?;
            if format.json { Ok(print_json(&json!({ "job": job.to_string() }))?) } else { Ok(print(&job.to_string())?) }
        }
        SchedulesCommand::Backfill { schedule, from, to, format } => {
            let made = schedules.backfill(&schedule, from, to).await?;
            if format.json {
                return Ok(print_json(&json!({ "ticks": made.ticks, "jobs": made.jobs }))?);
            }
            let s = |n: usize| if n == 1 { "" } else { "s" };
            print(&format!("{} tick{}, {} job{} made", made.ticks, s(made.ticks), made.jobs, s(made.jobs)))?;
            if made.ticks == 0 {
                note(&format!("{schedule} has no tick in this time range"));
            } else if made.jobs < made.ticks {
                note("the others exist, or were created by a backfill within the last 24 hours");
            }
            Ok(())
        }
        SchedulesCommand::Remove { schedules: all, format } => {
            let remove = async |schedule: &ScheduleAddress| match schedules.remove(schedule).await? {
                true => Ok(true),
                false => Err(schedules.no_such(schedule).await),
            };
            change_each(all, &format, ["is removed", ""], remove).await
        }
    }
}

/// Changes schedules one after the other, and prints for each whether it was changed.
async fn change_each(
    all: Vec<ScheduleAddress>,
    format: &Format,
    outcomes: [&str; 2],
    change: impl AsyncFn(&ScheduleAddress) -> queue_core::Result<bool>,
) -> Result<(), Failure> {
    let mut changes = Vec::new();
    for schedule in all {
        let changed = change(&schedule).await?;
        if !format.json {
            print(&format!("{schedule} {}", outcomes[usize::from(!changed)]))?;
        }
        changes.push(Changed { schedule, changed });
    }
    if format.json { Ok(print_json(&json!({ "schedules": changes }))?) } else { Ok(()) }
}

#[derive(Serialize)]
struct Changed {
    schedule: ScheduleAddress,
    changed: bool,
}

const COLUMNS: [Column<ScheduleRecord>; 7] = [
    Field("schedule"),
    Field("task"),
    Made("when", |record| record.words.clone()),
    Made("zone", |record| record.tz.clone()),
    Made("next", |record| match (&record.paused, record.next) {
        (Some(_), _) => "paused".to_owned(),
        (None, Some(next)) => relative_time(next, SystemTime::now()),
        (None, None) => "over".to_owned(),
    }),
    Made("last", |record| {
        let last = record.runs.first().map_or_else(String::new, |run| run.outcome.clone().unwrap_or_else(|| "runs".to_owned()));
        if record.dead_in_a_row > 1 { format!("{last} ({} dead in a row)", record.dead_in_a_row) } else { last }
    }),
    Field("skipped"),
];

async fn show(client: &Client, schedule: &ScheduleAddress, format: &Format) -> Result<(), Failure> {
    let schedules = client.schedules();
    let Some(record) = schedules.get(schedule).await? else { return Err(schedules.no_such(schedule).await.into()) };
    if format.json {
        return Ok(print_json(&record)?);
    }
    let now = SystemTime::now();
    let at = |time: SystemTime| format!("{} ({})", utc(time).unwrap_or_default(), relative_time(time, now));
    let mut lines = vec![
        ("schedule", record.schedule.to_string()),
        ("when", format!("{}: {} ({})", record.expression, record.words, record.tz)),
        ("job", format!("{} {}", record.task, record.args.as_ref().map(ToString::to_string).unwrap_or_default())),
        ("overlap", record.overlap.clone()),
        ("catch up", record.catch_up.clone()),
    ];
    lines.extend(record.catch_up_window_ms.map(|ms| ("window", rounded_duration(Duration::from_millis(ms)))));
    lines.extend(Some(record.jitter()).filter(|jitter| !jitter.is_zero()).map(|jitter| ("jitter", rounded_duration(jitter))));
    lines.extend(record.paused.clone().map(|why| ("paused", why)));
    lines.extend(record.problem.clone().map(|problem| ("problem", problem)));
    lines.extend(record.undeclared_since.map(|since| ("undeclared", format!("since {}: no live worker declares it", at(since)))));
    lines.extend((!record.declared_by.is_empty()).then(|| ("declared by", record.declared_by.join(", "))));
    lines.push(("made", format!("{} ticks, {} skipped", record.made, record.skipped)));
    lines.extend(record.waiting.map(|tick| ("waiting", format!("the tick of {} waits for the previous job", at(tick)))));
    lines.extend(record.next_ticks(5).unwrap_or_default().into_iter().map(|tick| ("next", at(tick))));
    for run in &record.runs {
        let job = run.job.as_ref().map(ToString::to_string).unwrap_or_default();
        lines
            .push(("run", format!("{} {job} {}", run.tick.map(at).unwrap_or_default(), run.outcome.as_deref().unwrap_or("has not ended"))));
    }
    for event in &record.events {
        let when = event.at.map(at).unwrap_or_default();
        let range = match (event.from.and_then(utc), event.to.and_then(utc)) {
            (Some(from), Some(to)) if event.ticks > 1 => format!(", {} ticks from {from} to {to}", event.ticks),
            (Some(from), _) => format!(", the tick of {from}"),
            _ => String::new(),
        };
        lines.push(("event", format!("{when} {}{range}", event.what)));
    }
    Ok(print(&table::lines(lines))?)
}
