//! The commands of every program, and what carries them out.

use std::process::ExitCode;

use clap::Subcommand;
use queue_core::{Client, Registry};

#[cfg(feature = "sqlite")]
use super::backup;
#[cfg(feature = "dashboard")]
use super::dashboard;
use super::{
    args::{self, DoctorArgs, EnqueueArgs},
    completions, doctor, enqueue,
    exit::Failure,
    exporter, failures,
    groups::{self, GroupsCommand},
    jobs::{self, JobsCommand},
    keys::{self, KeysCommand},
    limits::{self, LimitsCommand},
    operations::{self, OperationsCommand},
    outbox,
    paused_tasks::{self, TasksCommand},
    queues::{self, QueuesCommand},
    schedules::{self, SchedulesCommand},
    status, stop, tasks,
    topics::{self, TopicsCommand},
    watch, workers,
};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List the tasks in this program, with their queues and parameters; pause and resume tasks
    #[command(after_help = "Examples:
  {bin} tasks
  {bin} tasks --json | jq -r '.tasks[].name'
  {bin} tasks pause mail/send_mail --reason 'the server is down' --until 30m
  {bin} tasks paused                           list the paused tasks")]
    Tasks {
        #[command(subcommand)]
        command: TasksCommand,
    },
    /// Store a job
    #[command(after_help = "Examples:
  {bin} enqueue greet --args '{\"name\":\"Ada\"}'
  {bin} enqueue close_order --args '{\"order_id\":17}' --delay 10m --id close-17
  {bin} enqueue import --args - < import.json
  job=$({bin} enqueue cleanup) && {bin} jobs show \"$job\"")]
    Enqueue(EnqueueArgs),
    /// Print how many jobs each queue has in each state
    #[command(after_help = "Examples:
  {bin} status
  {bin} status --queue orders
  {bin} status --watch                         again every two seconds
  {bin} status --history=24h                   what happened, hour by hour
  {bin} status --json | jq '.queues[] | {queue, ready: .jobs.ready}'")]
    Status(super::status::StatusArgs),
    /// Print state transitions of jobs as they happen, until Ctrl-C
    #[command(after_help = super::watch::HELP)]
    Watch(super::watch::WatchArgs),
    /// List the workers with their host, release, resource usage and last heartbeat
    #[command(after_help = "Examples:
  {bin} workers
  {bin} workers --queue orders
  {bin} workers --json | jq -r '.workers[].release' | sort | uniq -c    progress of a deployment
  {bin} workers show 5f0c3a9d2b7e6418                             running jobs of one worker")]
    Workers {
        #[command(subcommand)]
        command: super::workers::WorkersCommand,
    },
    /// List failures, grouped by their message without numbers, ids and quoted values
    #[command(after_help = "Examples:
  {bin} failures
  {bin} failures --queue orders --task close_order
  {bin} failures show 5f0c3a9d2b7e6418          details of one, and commands to handle it
  {bin} jobs requeue --all --where failure=5f0c3a9d2b7e6418    its dead jobs run again
  {bin} failures --json | jq '.failures[] | select(.count > 100) | .pattern'")]
    Failures {
        #[command(subcommand)]
        command: super::failures::FailuresCommand,
    },
    /// Check the broker and search the queues for damage; repair it with --repair
    #[command(after_help = "Examples:
  {bin} doctor
  {bin} doctor --repair
  {bin} doctor --queue orders --json | jq '.problems[]'

Exit codes:
  0 no fault, or every fault is repaired; there may be warnings, such as \"no live worker serves it\"
  9 a fault that is not repaired")]
    Doctor(DoctorArgs),
    /// List, show and repair jobs
    #[command(after_help = "Examples:
  {bin} jobs list --state dead
  {bin} jobs show orders/close-17
  {bin} jobs requeue --all --queue orders")]
    Jobs {
        #[command(subcommand)]
        command: JobsCommand,
    },
    /// List queues, and stop or resume claiming from them
    #[command(after_help = "Examples:
  {bin} queues list
  {bin} queues pause mail
  {bin} queues resume mail")]
    Queues {
        #[command(subcommand)]
        command: QueuesCommand,
    },
    /// List, show, stop and resume operations on all matching jobs
    #[command(after_help = "Examples:
  {bin} jobs cancel --all --state ready --where 'task=send_mail'    starts one
  {bin} operations list
  {bin} operations stop mail/5f0c3a9d2b7e6418")]
    Operations {
        #[command(subcommand)]
        command: OperationsCommand,
    },
    /// List groups, set their weight, cap and order, pause and resume them
    #[command(after_help = "Examples:
  {bin} groups list --queue mail
  {bin} groups set mail/acme --weight 3 --cap 10
  {bin} groups pause mail/acme")]
    Groups {
        #[command(subcommand)]
        command: GroupsCommand,
    },
    /// List limits and their holders; set concurrency and rate
    #[command(after_help = "Examples:
  {bin} limits list --queue orders
  {bin} limits set orders/stripe --concurrency 4 --rate 100/1m --burst 20
  {bin} limits remove orders/stripe")]
    Limits {
        #[command(subcommand)]
        command: LimitsCommand,
    },
    /// List unique keys and the jobs that hold them; release a key
    #[command(after_help = "Examples:
  {bin} keys release orders/4f1d0c2e9b7a63d5801fb2c4e6a79d35")]
    Keys {
        #[command(subcommand)]
        command: KeysCommand,
    },
    /// List topics and the progress of their subscriptions; publish and read events; set the
    /// retention
    #[command(after_help = "Examples:
  {bin} topics list
  {bin} topics show orders
  {bin} topics publish orders OrderPaid '{\"order\":17}'
  {bin} topics subscribe billing@orders --from start")]
    Topics {
        #[command(subcommand)]
        command: TopicsCommand,
    },
    /// Copy a SQLite database into a new file, while workers and applications use it
    #[cfg(feature = "sqlite")]
    #[command(after_help = super::backup::HELP)]
    Backup(super::backup::BackupArgs),
    /// List, define and change schedules, which create jobs at given times
    #[command(after_help = "Examples:
  {bin} schedules list
  {bin} schedules add nightly --cron '0 3 * * *' --tz Europe/Berlin --task report
  {bin} schedules next reports/nightly -n 5")]
    Schedules {
        #[command(subcommand)]
        command: SchedulesCommand,
    },
    /// Serve the metrics of every queue for Prometheus, including queues without a worker
    #[command(after_help = super::exporter::HELP)]
    Exporter(super::exporter::ExporterArgs),
    /// Serve a dashboard for browsers, read-only unless --allow-actions is given
    #[cfg(feature = "dashboard")]
    #[command(after_help = super::dashboard::HELP)]
    Dashboard(super::dashboard::DashboardArgs),
    /// Print the SQL of the outbox tables, which commit jobs with the data of an application; list
    /// and repair their rows
    #[command(after_help = "Examples:
  {bin} outbox init --dialect postgres > migrations/0007_queue_outbox.sql
  {bin} outbox list --database postgres://shop@db/shop
  {bin} outbox retry --database shop.db mail")]
    Outbox {
        #[command(subcommand)]
        command: super::outbox::OutboxCommand,
    },
    /// Print a shell completion script, which completes commands, options, and names of the broker
    #[command(after_help = "Examples:
  {bin} completions bash > /etc/bash_completion.d/{bin}
  {bin} completions zsh > ~/.zfunc/_{bin}
  {bin} completions fish > ~/.config/fish/completions/{bin}.fish")]
    Completions(super::completions::CompletionsArgs),
}

/// Executes a command. If the program has no tasks (`has_tasks`), jobs of any task can be enqueued.
pub(super) async fn run_command(url: Option<String>, command: Command, has_tasks: bool) -> Result<ExitCode, Failure> {
    let url_or_env = || url.clone().map_or_else(Client::url_from_env, Ok);
    // A command that only reads does not create a database.
    let look = async || Client::connect_existing(&url_or_env()?).await;
    let _listening = stop::exit_at_signal()?;
    match command {
        Command::Tasks { command: TasksCommand::List(format) } => tasks::tasks(&Registry::linked(), &format)?,
        Command::Tasks { command } => paused_tasks::tasks(&look().await?, command).await?,
        Command::Enqueue(args) => {
            // Errors of the command are reported before the broker is connected.
            let job = if has_tasks { enqueue::job(&Registry::linked(), &args)? } else { enqueue::job_by_name(&args)? };
            enqueue::enqueue(&Client::connect(&url_or_env()?).await?, job, &args).await?;
        }
        Command::Status(args) => status::status(&look().await?, &args).await?,
        Command::Workers { command } => workers::workers(&look().await?, command).await?,
        Command::Watch(args) => watch::watch(&look().await?, &args).await?,
        Command::Failures { command } => failures::failures(&look().await?, command, &args::program()).await?,
        Command::Doctor(args) => return doctor::doctor(&look().await?, &args).await,
        Command::Jobs { command } => {
            jobs::check(&command)?;
            jobs::jobs(&look().await?, command).await?;
        }
        Command::Schedules { command: SchedulesCommand::Add(args) } => {
            // Errors of the command are reported before the broker is connected. A program without
            // tasks accepts any task.
            let registry = Registry::linked();
            let known = registry.tasks().next().is_some().then_some(&registry);
            let schedule = schedules::schedule_of_arguments(known, &args)?;
            schedules::add(&Client::connect(&url_or_env()?).await?, schedule, &args).await?;
        }
        Command::Schedules { command } => schedules::schedules(&look().await?, command).await?,
        Command::Limits { command } => limits::limits(&look().await?, command).await?,
        Command::Keys { command } => keys::keys(&look().await?, command).await?,
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
