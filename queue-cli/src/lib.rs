//! The command line: the commands of the program `queue`, and of worker binaries, which add `work`
//! (`queue_worker::run`).
//!
//! `args` parses the arguments, and `commands` lists the commands. Each noun has a file that
//! executes its commands. `output` writes tables and JSON, and `exit` converts errors into exit
//! codes. All commands use only [`Client`](queue_core::Client) and
//! [`Inspector`](queue_core::inspect::Inspector).

mod address;
mod again;
mod answers;
mod args;
#[cfg(feature = "sqlite")]
mod backup;
mod commands;
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
mod keys;
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
mod progress;
mod queues;
mod repair;
mod schedules;
mod search;
mod show;
mod status;
mod stop;
mod table;
mod tasks;
mod terms;
mod topics;
#[cfg(feature = "otel")]
mod traces;
mod watch;
mod workers;

use std::process::ExitCode;

use self::{
    args::{Operator, Read},
    exit::{Exit, Failure},
};
/// Executes the command line of the program `queue`: every command, without tasks. `enqueue`
/// accepts any task by its name and needs `--queue`. `work` fails, because there are no tasks to
/// run.
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
        stop::exit_at_signal,
    };

    /// Executes the command line of a worker binary. Without a command it runs `work`. `W` is the
    /// type of its options.
    pub async fn run<W: clap::Args + Default>(
        command: clap::Command,
        work: impl AsyncFnOnce(Option<String>, W) -> Result<ExitCode, Failure>,
    ) -> ExitCode {
        super::carry_out(args::with_commands(command), true, work).await
    }

    /// All commands of a worker binary, for tests.
    pub fn commands(command: clap::Command) -> clap::Command {
        args::with_commands(command)
    }
}

async fn carry_out<W: clap::Args + Default>(
    program: clap::Command,
    has_tasks: bool,
    work: impl AsyncFnOnce(Option<String>, W) -> Result<ExitCode, Failure>,
) -> ExitCode {
    completions::answer(&program).await;
    let done = match args::read(program) {
        Ok(Read { url, command: Ok(options) }) => work(url, options).await,
        Ok(Read { url, command: Err(command) }) => commands::run_command(url, command, has_tasks).await,
        Err(help_or_mistake) => return help_or_mistake,
    };
    done.unwrap_or_else(Failure::report)
}
