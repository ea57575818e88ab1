//! The command line of a worker binary.
//!
//! `args` defines the arguments, one file per noun carries out its commands, `output` writes tables
//! and JSON, and `exit` converts errors into exit codes. All commands except `work` use only
//! [`Client`] and [`Inspector`](queue_core::Inspector).

mod again;
mod answers;
mod args;
#[cfg(feature = "sqlite")]
mod backup;
mod completions;
mod condition;
#[cfg(feature = "dashboard")]
mod dashboard;
mod doctor;
mod drains;
mod edit;
mod enqueue;
mod exit;
mod exporter;
mod failures;
mod groups;
mod history;
mod jobs;
mod limits;
mod log;
mod logs;
mod operations;
mod outbox;
mod output;
mod parked;
mod paused_tasks;
mod pauses;
mod person;
mod queues;
mod repair;
mod schedules;
mod search;
mod show;
mod status;
mod stop;
mod tasks;
mod terms;
mod topics;
#[cfg(feature = "otel")]
mod traces;
mod watch;
mod work;
mod workers;

use std::{error::Error, process::ExitCode};

use queue_core::{Client, registry::Registry};

use self::{
    args::{Args, Command},
    exit::{Exit, Failure},
    schedules::SchedulesCommand,
    tasks::TasksArgs,
};
use crate::Worker;

/// Runs the command line of a worker binary: this is its whole `main`.
///
/// `setup` gives the worker the values that its tasks need. It runs only for `work`: `--help`,
/// `status` and `enqueue` need neither a database nor a configuration of the application.
///
/// ```no_run
/// use std::process::ExitCode;
/// # struct Shop;
/// # impl Shop { async fn open() -> Result<Shop, std::io::Error> { Ok(Shop) } }
///
/// #[tokio::main]
/// async fn main() -> ExitCode {
///     queue_worker::run(async |worker| Ok(worker.data(Shop::open().await?))).await
/// }
/// ```
///
/// # Commands
///
/// | command | effect |
/// |---|---|
/// | `work`, or none | runs jobs until SIGTERM, SIGINT (Ctrl-C), SIGHUP or SIGQUIT; waits for an unreachable broker |
/// | `tasks`; `tasks list`, `pause`, `resume` | lists the tasks in this program and their parameters; pauses tasks |
/// | `enqueue TASK --args JSON` | stores a job |
/// | `status` | prints the number of jobs of each queue by state, and its workers |
/// | `watch` | prints state transitions of jobs until it is stopped |
/// | `workers`; `workers show`, `quiet`, `resume`, `stop` | lists the workers: host, process, release, queues, resource usage; controls them |
/// | `failures` | lists failures, grouped by their pattern |
/// | `doctor` | checks the broker, and searches the queues for damage; `--repair` repairs it |
/// | `jobs list`, `search`, `show`, `why`, `wait`, `logs` | reads jobs |
/// | `jobs requeue`, `promote`, `cancel`, `edit`, `duplicate`, `release-key`, `delete` | changes jobs |
/// | `queues list`, `set`, `pause`, `resume`, `drain`, `purge` | lists queues; sets aging; stops and resumes claims; removes jobs |
/// | `operations list`, `show`, `stop`, `resume` | shows and controls operations on all matching jobs |
/// | `groups list`, `show`, `set`, `pause`, `resume`, `drain`, `cancel` | shows groups, sets their rules, cancels their jobs |
/// | `limits list`, `show`, `set`, `remove` | shows limits and their holders, and sets them at run time |
/// | `topics list`, `show`, `publish`, `read`, `subscribe`, `unsubscribe`, `rewind`, `set`, `trim` | shows topics and their subscriptions, publishes and reads events, sets retention |
/// | `schedules list`, `show`, `next`, `add`, `pause`, `resume`, `run`, `backfill`, `remove` | shows and changes schedules |
/// | `outbox init`, `list`, `retry`, `drop`, `release` | prints the SQL that creates the tables of an outbox, shows its rows and repairs them |
/// | `backup FILE` | copies a SQLite database into a file, while it is used (feature `sqlite`) |
/// | `exporter` | serves the metrics of every queue for Prometheus |
/// | `dashboard` | serves the dashboard (feature `dashboard`) |
/// | `completions SHELL` | prints a completion script |
///
/// Only `work`, `enqueue` and `schedules add` create a SQLite database that does not exist.
///
/// The queue is that of `--url`, else of the environment variable `QUEUE_URL`, else
/// `sqlite://queue.db` (feature `sqlite`, which is not a default). Every command has `--help` with
/// examples, and `--json` where it prints data.
///
/// The commands use the tasks that are linked into the program. The linker drops a crate of tasks
/// that nothing names: write `use shop_tasks as _;` in the binary.
///
/// # Exit codes
///
/// | code | meaning |
/// |---|---|
/// | 0 | done; `work`: stopped, and every job had ended |
/// | 1 | unexpected error |
/// | 2 | invalid command line or parameters: nothing was done |
/// | 3 | no such job or queue, or no database at the path; nothing was created |
/// | 4 | the job's state does not allow the command, or its id or key is taken by another job, or its group is full |
/// | 5 | the broker is unreachable or full: nothing was stored, try again. Lists: a cluster master is unreachable, and its queues are missing |
/// | 6 | invalid setup: settings, tasks, injected values, `setup` itself, credentials, versions |
/// | 7 | `work`: stopped, and jobs that had not ended were released, or are stuck |
/// | 8 | no answer from the broker: the request may have been carried out |
/// | 9 | `doctor`: a fault that is not repaired (advice alone is 0). Other commands: another program wrote to a key of the broker |
///
/// Commands other than `work` that a signal ends exit with 128 and the number of the signal;
/// `watch` and `--watch` exit with 0.
pub async fn run<F, W>(setup: F) -> ExitCode
where
    // Not `AsyncFnOnce`: of `|worker| async move { .. }` the compiler would not know the type of `worker`.
    F: FnOnce(Worker) -> W,
    W: Future<Output = Result<Worker, Box<dyn Error + Send + Sync>>>,
{
    match args::read() {
        Ok(args) => ended(obey(args, setup).await),
        Err(help_or_mistake) => help_or_mistake,
    }
}

/// The command line of the program `queue` of the crate `queue-cli`: every command, without tasks.
/// `enqueue` takes any task by its name and needs `--queue`. `work` fails, because there are no
/// tasks to run.
#[doc(hidden)]
pub async fn operate() -> ExitCode {
    let args = match args::read_or_help() {
        Ok(args) => args,
        Err(help_or_mistake) => return help_or_mistake,
    };
    let answer = match &args.command {
        Some(Command::Work(_)) => {
            Err(Failure::new(Exit::Setup, "this program has no tasks to run; start the worker binary of your application"))
        }
        Some(Command::Enqueue(enqueue)) => match stop::at_signals() {
            Ok(_listening) => enqueue_by_name(&args, enqueue).await,
            Err(failure) => Err(failure),
        },
        _ => obey(args, async |worker| Ok(worker)).await,
    };
    ended(answer)
}

async fn enqueue_by_name(args: &Args, enqueue: &args::EnqueueArgs) -> Result<ExitCode, Failure> {
    let job = enqueue::job_by_name(enqueue)?;
    let url = args.url.clone().map_or_else(Client::url_from_env, Ok)?;
    enqueue::enqueue(&Client::connect(&url).await?, job, enqueue).await?;
    Ok(ExitCode::SUCCESS)
}

fn ended(answer: Result<ExitCode, Failure>) -> ExitCode {
    answer.unwrap_or_else(Failure::tell)
}

async fn obey<F, W>(args: Args, setup: F) -> Result<ExitCode, Failure>
where
    F: FnOnce(Worker) -> W,
    W: Future<Output = Result<Worker, Box<dyn Error + Send + Sync>>>,
{
    let Args { url, command } = args;
    let url_or_env = || url.clone().map_or_else(Client::url_from_env, Ok);
    // Where there is no database, who looks makes none.
    let look = async || Client::connect_existing(&url_or_env()?).await;
    let command = match command.unwrap_or_default() {
        Command::Work(args) => return work::work(url.as_deref(), args, setup).await,
        command => command,
    };
    let _listening = stop::at_signals()?;
    match command {
        Command::Work(_) => unreachable!("it has its own way to stop"),
        Command::Tasks(TasksArgs { command: Some(command), .. }) => paused_tasks::tasks(&look().await?, command).await?,
        Command::Tasks(args) => tasks::tasks(&Registry::linked(), &args.format)?,
        Command::Enqueue(args) => {
            // What is wrong with the command is told before the broker is reached for.
            let job = enqueue::job(&Registry::linked(), &args)?;
            enqueue::enqueue(&Client::connect(&url_or_env()?).await?, job, &args).await?;
        }
        Command::Status(args) => status::status(&look().await?, &args).await?,
        Command::Workers(args) => workers::workers(&look().await?, &args).await?,
        Command::Watch(args) => watch::watch(&look().await?, &args).await?,
        Command::Failures(args) => failures::failures(&look().await?, &args, &args::program()).await?,
        Command::Doctor(args) => return doctor::doctor(&look().await?, &args).await,
        Command::Jobs { command } => {
            jobs::check(&command)?;
            jobs::jobs(&look().await?, command).await?;
        }
        Command::Schedules { command: SchedulesCommand::Add(args) } => {
            // What is wrong with the command is told before the broker is reached for. A program without tasks takes any.
            let registry = Registry::linked();
            let known = registry.tasks().next().is_some().then_some(&registry);
            let schedule = schedules::described(known, &args)?;
            schedules::add(&Client::connect(&url_or_env()?).await?, schedule, &args).await?;
        }
        Command::Schedules { command } => schedules::schedules(&look().await?, command).await?,
        Command::Limits { command } => limits::limits(&look().await?, command).await?,
        Command::Topics { command } => {
            topics::check(&Registry::linked(), &command)?;
            topics::topics(&look().await?, command).await?;
        }
        Command::Operations { command } => operations::operations(&look().await?, command).await?,
        Command::Groups { command } => groups::groups(&look().await?, command).await?,
        Command::Queues { command } => queues::queues(&look().await?, command).await?,
        Command::Outbox { command } => outbox::outbox(command).await?,
        #[cfg(feature = "sqlite")]
        Command::Backup(args) => backup::backup(&look().await?, &args)?,
        Command::Exporter(args) => exporter::exporter(&look().await?, &args).await?,
        #[cfg(feature = "dashboard")]
        Command::Dashboard(args) => dashboard::dashboard(look, args).await?,
        Command::Completions(args) => completions::completions(&args)?,
    }
    Ok(ExitCode::SUCCESS)
}
