//! `jobs` lists jobs. `show` prints one in detail, `repair` changes them.

use std::time::{Duration, Instant, SystemTime};

use clap::Subcommand;
use queue_core::{
    Client, JobState,
    inspect::{Change, Filter, JobRecord, Running},
};

use super::{
    again::Again,
    args::{Format, state_parser},
    edit::{self, DuplicateArgs, EditArgs},
    exit::{Exit, Failure, note},
    logs,
    output::{print, relative_time, rounded_duration, write},
    progress::Line,
    queues::{self, Unreadable},
    repair::{self, Select},
    search::{self, SearchArgs},
    show,
    table::{
        self,
        Column::{self, Made},
    },
    terms,
};

#[derive(Debug, Subcommand)]
pub(super) enum JobsCommand {
    /// List jobs in the order in which they will start or have ended (jobs of groups and limits
    /// come last)
    #[command(after_help = "Examples:
  {bin} jobs list                              the first of every state
  {bin} jobs list --state dead --queue orders
  {bin} jobs list 'task=send_mail state=dead error~timeout older=2d'
  {bin} jobs list 'unique=shop-7'              the jobs of a unique key
  {bin} jobs list --state ready 'group=acme'   the jobs of a group
  {bin} jobs list 'tag.order=17'               the jobs with a tag
  {bin} jobs list 'waiting=no_worker_for_task' jobs blocked for one reason
  {bin} jobs list --state scheduled --limit 1000 --json | jq -r '.jobs[].job'")]
    List(ListArgs),
    /// Search all queues for jobs, page by page; a job that does not move is found exactly once
    #[command(after_help = "Examples:
  {bin} jobs search 'task=send_mail attempts>=3'
  {bin} jobs search 'tag.order=17'                 all jobs with this tag
  {bin} jobs search 'state=dead error~timeout newer=1h' --queue orders --queue mail
  {bin} jobs search 'id=close-17'                  in any queue; no other job is examined
  {bin} jobs search 'payload~4711' --timeout 10m
  {bin} jobs search 'state=dead' --limit 500 --json | jq -r .cursor

It shows its progress on stderr, and at its end the --after that continues it. With --json: jobs, examined, total, cursor (null at the end) and unreadable queues.
Exit code 5: a master of a cluster is unreachable, and its queues were left out")]
    Search(SearchArgs),
    /// Show a job with its parameters, errors and result
    #[command(after_help = "Examples:
  {bin} jobs show orders/close-17
  {bin} jobs show 01932f1c-8a3e-7cc2-9d1b-3e5f0c6a7b81    the queue may be left out
  {bin} jobs show orders/close-17 --json | jq .payload")]
    Show {
        /// The job
        #[arg(value_name = "QUEUE/ID")]
        job: String,
        #[command(flatten)]
        format: Format,
    },
    /// Show why a job does not run: all reasons, their expected end, and the blocking jobs
    #[command(after_help = "Examples:
  {bin} jobs why orders/close-17
  {bin} jobs why orders/close-17 --json | jq -r '.waiting[].reason'
  {bin} jobs list 'waiting=group_full'         all jobs that wait for this reason")]
    Why {
        /// The job
        #[arg(value_name = "QUEUE/ID")]
        job: String,
        #[command(flatten)]
        format: Format,
    },
    /// Wait until jobs have ended, and print their outcome
    #[command(after_help = "Examples:
  {bin} jobs wait orders/close-17
  {bin} jobs wait orders/close-17 --timeout 10m --json | jq '.jobs[0].result'
  {bin} jobs wait $({bin} enqueue cleanup --retention 1h)

Exit codes: 0 all are done; 3 no such job, or the job or its result was not kept; 4 a job ended in another way, or did not end in time")]
    Wait {
        /// The jobs
        #[arg(required = true, value_name = "QUEUE/ID")]
        jobs: Vec<String>,
        /// The longest time to wait for all of them
        #[arg(long, value_name = "DURATION", value_parser = super::args::duration, default_value = "1day")]
        timeout: std::time::Duration,
        #[command(flatten)]
        format: Format,
    },
    /// Print the log lines of a job's handler, over all attempts
    #[command(after_help = "Examples:
  {bin} jobs logs orders/close-17
  {bin} jobs logs orders/close-17 --follow     new lines and progress, until the job has ended
  {bin} jobs logs orders/close-17 --json | jq -r '.lines[].text'")]
    Logs {
        /// The job
        #[arg(value_name = "QUEUE/ID")]
        job: String,
        /// Print new lines until the job has ended; with --json, one object per line
        #[arg(long, short)]
        follow: bool,
        #[command(flatten)]
        format: Format,
    },
    /// Run dead, cancelled or expired jobs again, with their counters reset
    #[command(after_help = "Examples:
  {bin} jobs requeue orders/close-17 orders/close-18
  {bin} jobs requeue --all                     all dead jobs of all queues
  {bin} jobs requeue --all --queue orders
  {bin} jobs requeue --all --where 'task=send_mail error~timeout'
  {bin} jobs requeue --all --where failure=5f0c3a9d2b7e6418    all with this failure; `failures` lists the fingerprints
  {bin} jobs requeue --all --state cancelled --queue orders")]
    Requeue(Select),
    /// Start scheduled jobs, and jobs that wait for a retry, now
    #[command(after_help = "Examples:
  {bin} jobs promote orders/close-17
  {bin} jobs promote --all --state retry --queue orders    after a failed service has recovered
  {bin} jobs promote --all --state scheduled")]
    Promote(Select),
    /// Cancel jobs; running handlers are cancelled, and their results are discarded
    #[command(after_help = "Examples:
  {bin} jobs cancel orders/close-17 --reason 'ordered twice'
  {bin} jobs cancel --all --state scheduled --queue mail
  {bin} jobs cancel --all --state ready --where 'unique=shop-7'")]
    Cancel {
        #[command(flatten)]
        select: Select,
        /// The reason, for the record of each job
        #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
        reason: String,
    },
    /// Edit a waiting job: parameters, start time, priority, group and attempts
    #[command(after_help = edit::EDIT_HELP)]
    Edit(EditArgs),
    /// Copy a job under a new id, in the same or another queue; the original is unchanged
    #[command(after_help = edit::DUPLICATE_HELP)]
    Duplicate(DuplicateArgs),
    /// Delete jobs that are not running, with their records
    #[command(after_help = "Examples:
  {bin} jobs delete orders/close-17
  {bin} jobs delete --all --state dead --queue orders          asks first
  {bin} jobs delete --all --state dead --where 'older=30d' --yes")]
    Delete {
        #[command(flatten)]
        select: Select,
        /// Delete them without confirmation, with --all; deleted jobs cannot be restored
        #[arg(long, requires = "all", conflicts_with = "dry_run")]
        yes: bool,
    },
}

#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    /// Only jobs that match: FIELD=VALUE, FIELD~PART, != and !~. Fields: task, state, queue, id,
    /// priority, error, failure, reason, note, payload, host, release, unique, group, waiting,
    /// header.NAME, tag.NAME; attempts>=3, older=2d, newer=1h
    #[arg(value_name = "FILTER")]
    pub(super) filter: Vec<String>,
    /// The same as an option, as for commands with --all
    #[arg(long = "where", value_name = "FILTER")]
    pub(super) terms: Vec<String>,
    /// Only jobs in this state
    #[arg(long, value_parser = state_parser())]
    pub(super) state: Option<JobState>,
    /// Only jobs of this queue
    #[arg(long, value_name = "QUEUE")]
    pub(super) queue: Option<String>,
    /// Most jobs to print of each queue and state
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) limit: u64,
    /// How many jobs of each queue and state to skip
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) offset: u64,
    /// Stop after this time, and report how many jobs were examined; the default is 1m with a
    /// filter, and none without
    #[arg(long, value_name = "DURATION", value_parser = super::args::duration)]
    pub(super) timeout: Option<Duration>,
    #[command(flatten)]
    pub(super) format: Format,
    #[command(flatten)]
    pub(super) again: Again,
}

/// The default timeout of a list with a filter, which may take long to find a job.
const PATIENCE: Duration = Duration::from_secs(60);

/// The number of rows that are printed together.
const PAGE: usize = 500;

/// Checks the command before the broker is connected.
pub(super) fn check(command: &JobsCommand) -> Result<(), Failure> {
    match command {
        JobsCommand::List(_)
        | JobsCommand::Search(_)
        | JobsCommand::Show { .. }
        | JobsCommand::Why { .. }
        | JobsCommand::Wait { .. }
        | JobsCommand::Logs { .. }
        | JobsCommand::Duplicate(_) => Ok(()),
        JobsCommand::Edit(args) => edit::check(args),
        JobsCommand::Requeue(select) => repair::check(Change::Requeue, select),
        JobsCommand::Promote(select) => repair::check(Change::Promote, select),
        JobsCommand::Cancel { select, .. } => repair::check(Change::Cancel, select),
        JobsCommand::Delete { select, yes } if *yes && !select.all => {
            Err(Failure::new(Exit::Usage, "`--yes` answers the question of `--all`; jobs that are named are removed without a question"))
        }
        JobsCommand::Delete { select, .. } => repair::check(Change::Delete, select),
    }
}

pub(super) async fn jobs(client: &Client, command: JobsCommand) -> Result<(), Failure> {
    match command {
        JobsCommand::List(args) => args.again.print(async || list(client, &args).await).await,
        JobsCommand::Search(args) => search::search(client, &args).await,
        JobsCommand::Show { job, format } => show::show(client, &job, &format).await,
        JobsCommand::Why { job, format } => show::why(client, &job, &format).await,
        JobsCommand::Wait { jobs, timeout, format } => show::wait(client, &jobs, timeout, &format).await,
        JobsCommand::Logs { job, follow, format } => logs::logs(client, &job, follow, &format).await,
        JobsCommand::Edit(args) => edit::edit(client, &args).await,
        JobsCommand::Duplicate(args) => edit::duplicate(client, &args).await,
        JobsCommand::Requeue(select) => repair::repair(client, Change::Requeue, "", &select).await,
        JobsCommand::Promote(select) => repair::repair(client, Change::Promote, "", &select).await,
        JobsCommand::Cancel { select, reason } => repair::repair(client, Change::Cancel, &reason, &select).await,
        JobsCommand::Delete { select, yes } => {
            let asks = !yes && !select.dry_run;
            repair::delete(client, &select, asks).await
        }
    }
}

/// Prints page by page, so that neither side holds a whole queue in memory.
async fn list(client: &Client, args: &ListArgs) -> Result<(), Failure> {
    let inspector = client.inspector();
    let filter: Filter = terms::filter(&[&args.filter, &args.terms])?;
    let states: Vec<JobState> = filter.states().into_iter().filter(|state| args.state.is_none_or(|only| only == *state)).collect();
    let mut pages = Pages { json: args.format.json, rows: Vec::new(), printed: 0 };
    let mut left_out = false;
    let (queues, mut unreadable) = queues::readable(client, args.queue.as_deref()).await?;
    let queues: Vec<String> = queues.into_iter().filter(|queue| filter.allows_queue(queue)).collect();
    let (began, mut line, mut examined, mut of) = (Instant::now(), Line::new(), 0, None);
    let timeout = args.timeout.or_else(|| (!filter.is_empty()).then_some(PATIENCE)).unwrap_or(Duration::MAX);
    let mut in_time = true;
    'queues: for queue in &queues {
        for state in &states {
            let mut walk = inspector.walk(queue, *state).matching(filter.clone()).with_reasons().from(args.offset).at_most(args.limit);
            loop {
                match walk.step().await {
                    Ok(Some(jobs)) => pages.add(jobs)?,
                    Ok(None) => break,
                    Err(error) => {
                        unreadable.push(Unreadable::from(queue, error)?);
                        continue 'queues;
                    }
                }
                if line.is_due() {
                    let of = match of {
                        Some(of) => of,
                        None => *of.insert(count(client, &queues, &states).await),
                    };
                    line.show(|| {
                        format!("examined {} of {of} jobs, found {}", examined + walk.examined(), pages.printed + pages.rows.len())
                    });
                }
                in_time = began.elapsed() < timeout;
                if !in_time {
                    examined += walk.examined();
                    break 'queues;
                }
            }
            examined += walk.examined();
            left_out |= walk.next_offset().is_some();
        }
    }
    line.end();
    if pages.end()? == 0 && !args.format.json && unreadable.is_empty() && in_time {
        note("no such job");
    }
    if !in_time {
        let of = count(client, &queues, &states).await;
        return Err(Failure::new(
            Exit::WrongState,
            format!(
                "examined {examined} of {of} jobs within {}; raise --timeout, or use `jobs search`, which can be continued",
                humantime::format_duration(timeout)
            ),
        ));
    }
    if left_out {
        note(if filter.is_empty() {
            "there are more: raise --limit, or continue with --offset"
        } else {
            "there may be more matching jobs: raise --limit"
        });
    }
    Unreadable::report(&unreadable)
}

/// The number of jobs of these queues in these states. A queue that cannot be read counts as empty.
async fn count(client: &Client, queues: &[String], states: &[JobState]) -> u64 {
    let (inspector, mut jobs) = (client.inspector(), 0);
    for queue in queues {
        jobs += inspector.stats(queue).await.map_or(0, |stats| states.iter().map(|state| stats.count(*state)).sum());
    }
    jobs
}

/// Collects jobs for one table or one array, and prints each full page.
struct Pages {
    json: bool,
    rows: Vec<JobRecord>,
    printed: usize,
}

impl Pages {
    fn add(&mut self, rows: Vec<JobRecord>) -> Result<(), Failure> {
        self.rows.extend(rows);
        if self.rows.len() >= PAGE { self.print() } else { Ok(()) }
    }

    fn print(&mut self) -> Result<(), Failure> {
        let rows = std::mem::take(&mut self.rows);
        if rows.is_empty() {
            return Ok(());
        }
        if self.json {
            let mut text = String::new();
            for (i, row) in rows.iter().enumerate() {
                text.push_str(if self.printed + i == 0 { "{\"jobs\": [\n  " } else { ",\n  " });
                text.push_str(&serde_json::to_string(row).map_err(std::io::Error::other)?);
            }
            write(&text)?;
        } else {
            let text = table::text(&rows, &COLUMNS);
            // The heading is printed once.
            let text = if self.printed == 0 { text.as_str() } else { text.split_once('\n').map_or("", |(_, rows)| rows) };
            print(text)?;
        }
        self.printed += rows.len();
        Ok(())
    }

    fn end(mut self) -> Result<usize, Failure> {
        self.print()?;
        match (self.json, self.printed) {
            (false, _) => {}
            (true, 0) => print("{\"jobs\": []}")?,
            (true, _) => print("\n]}")?,
        }
        Ok(self.printed)
    }
}

/// The columns of a list of jobs.
pub(super) const COLUMNS: [Column<JobRecord>; 8] = [
    Made("job", |job| job.address.to_string()),
    Made("task", |job| job.task.clone().unwrap_or_else(|| "(unreadable)".to_owned())),
    Made("state", |job| job.state.to_string()),
    Made("#failures", |job| job.failures.to_string()),
    Made("enqueued", |job| job.enqueued_at.map_or_else(String::new, |time| relative_time(time, SystemTime::now()))),
    Made("when", |job| match &job.running {
        Some(running) => runs(running, SystemTime::now()),
        None => job.due_at.or(job.ended_at).map_or_else(String::new, |time| relative_time(time, SystemTime::now())),
    }),
    // For a running job, the column `times` shows that.
    Made("waiting", |job| job.waiting.first().filter(|_| job.running.is_none()).map_or_else(String::new, |reason| reason.brief())),
    Made("error", |job| {
        let reason = job.reason.map(|reason| reason.name());
        match (job.note.as_deref().or(reason), job.last_error()) {
            (Some(why), Some(error)) => format!("{why}: {error}"),
            (why, error) => why.or(error).unwrap_or_default().to_owned(),
        }
    }),
];

/// The time for which a job has run, and its worker: `for 3m 2s on web-1 (4711)`.
pub(super) fn runs(running: &Running, now: SystemTime) -> String {
    let age = rounded_duration(now.duration_since(running.since).unwrap_or_default());
    match (running.host.as_str(), running.pid) {
        ("", _) => format!("for {age} by {}", running.worker),
        (host, 0) => format!("for {age} on {host}"),
        (host, pid) => format!("for {age} on {host} ({pid})"),
    }
}
