//! The command line: the commands of the program `queue`, and of worker binaries, which add `work`
//! (`queue_worker::run`).
//!
//! `args` defines the arguments, one file per noun carries out its commands, `output` writes tables
//! and JSON, and `exit` converts errors into exit codes. All commands use only [`Client`] and
//! [`Inspector`](queue_core::Inspector).

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
mod workers;

use std::process::ExitCode;

use queue_core::{Client, registry::Registry};

use self::{
    args::{Command, Operator, Read},
    exit::{Exit, Failure},
    schedules::SchedulesCommand,
    tasks::TasksArgs,
};
/// Carries out the command line of the program `queue`: every command, without tasks. `enqueue`
/// takes any task by its name and needs `--queue`. `work` fails, because there are no tasks to run.
pub async fn operate() -> ExitCode {
    let refuse = async |_: Option<String>, _: Operator| {
        Err(Failure::new(Exit::Setup, "this program has no tasks to run; start the worker binary of your application"))
    };
    carry_out(args::operator_command(), false, refuse).await
}

/// For `queue_worker::run`, which adds `work`. It may change in any release.
#[doc(hidden)]
pub mod __worker {
    use std::process::ExitCode;

    use super::args;
    pub use super::{
        args::duration,
        exit::{Exit, Failure},
        log::{AllEvents, Log},
        stop::at_signals,
    };

    /// Carries out the command line of a worker binary. Without a command it runs `work`, whose
    /// options are `W`.
    pub async fn run<W: clap::Args + Default>(
        command: clap::Command,
        work: impl AsyncFnOnce(Option<String>, W) -> Result<ExitCode, Failure>,
    ) -> ExitCode {
        super::carry_out(args::with_commands(command), true, work).await
    }

    /// All commands of a worker binary, for a test of them.
    pub fn commands(command: clap::Command) -> clap::Command {
        args::with_commands(command)
    }
}

async fn carry_out<W: clap::Args + Default>(
    program: clap::Command,
    has_tasks: bool,
    work: impl AsyncFnOnce(Option<String>, W) -> Result<ExitCode, Failure>,
) -> ExitCode {
    let done = match args::read(program.clone()) {
        Ok(Read { url, command: Ok(options) }) => work(url, options).await,
        Ok(Read { url, command: Err(command) }) => obey(url, command, has_tasks, program).await,
        Err(help_or_mistake) => return help_or_mistake,
    };
    done.unwrap_or_else(Failure::tell)
}

/// Carries out a command. If the program is not one that `has_tasks`, jobs of all tasks can be
/// enqueued.
async fn obey(url: Option<String>, command: Command, has_tasks: bool, program: clap::Command) -> Result<ExitCode, Failure> {
    let url_or_env = || url.clone().map_or_else(Client::url_from_env, Ok);
    // Where there is no database, who looks makes none.
    let look = async || Client::connect_existing(&url_or_env()?).await;
    let _listening = stop::at_signals()?;
    match command {
        Command::Tasks(TasksArgs { command: Some(command), .. }) => paused_tasks::tasks(&look().await?, command).await?,
        Command::Tasks(args) => tasks::tasks(&Registry::linked(), &args.format)?,
        Command::Enqueue(args) => {
            // What is wrong with the command is told before the broker is reached for.
            let job = if has_tasks { enqueue::job(&Registry::linked(), &args)? } else { enqueue::job_by_name(&args)? };
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
        Command::Completions(args) => completions::completions(&args, program)?,
    }
    Ok(ExitCode::SUCCESS)
}
