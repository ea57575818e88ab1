//! Exit codes, and the output of errors.

use std::{env, io, process::ExitCode};

use queue_core::{__private::error_text, Error};
use serde_json::json;

use super::output::print_stderr;

/// The exit codes that scripts can distinguish. The numbers are documented in docs/command-line.md
/// and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The command has succeeded.
    Done = 0,
    /// An unexpected error.
    Unforeseen = 1,
    /// The command line is invalid.
    Usage = 2,
    /// The named object does not exist.
    NotFound = 3,
    /// The state of the job does not allow the command.
    WrongState = 4,
    /// The broker is unreachable or full.
    Unavailable = 5,
    /// The setup is invalid.
    Setup = 6,
    /// Jobs were returned at the end of a worker.
    GivenBack = 7,
    /// The broker has not answered.
    Unknown = 8,
    /// There is damage.
    Sick = 9,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// The reason why a command fails.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    message: Option<String>,
}

impl Failure {
    /// With this code and message.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Failure { exit, message: Some(message.into()) }
    }

    /// A failure whose message was already printed.
    pub(super) fn silent(exit: Exit) -> Self {
        Failure { exit, message: None }
    }

    /// Whether the failure concerns only one queue.
    pub(super) fn is_of_a_queue(&self) -> bool {
        matches!(self.exit, Exit::WrongState | Exit::NotFound | Exit::Unavailable | Exit::Unknown | Exit::Sick)
    }

    /// The exit code.
    pub fn exit(&self) -> Exit {
        self.exit
    }

    /// The exit code and the message.
    pub(super) fn into_parts(self) -> (Exit, Option<String>) {
        (self.exit, self.message)
    }

    /// Prints the message and returns the exit code.
    pub fn report(self) -> ExitCode {
        if let Some(message) = &self.message {
            print_error(message);
        }
        self.exit.into()
    }
}

/// Prints a problem: as JSON if the command prints JSON.
pub(super) fn print_error(message: &str) {
    if env::args_os().any(|argument| argument == "--json") {
        print_stderr(&json!({ "error": message }).to_string());
    } else {
        print_stderr(&format!("error: {message}"));
    }
}

/// Prints a line on standard error, in addition to the answer.
pub(super) fn note(message: &str) {
    print_stderr(message);
}

/// The exit code of an error.
pub(super) fn exit_of(error: &Error) -> Exit {
    match error {
        Error::Invalid { .. } | Error::PayloadTooLarge { .. } | Error::Encode { .. } => Exit::Usage,
        Error::NoSuchQueue { .. }
        | Error::NoSuchJob(_)
        | Error::NoSuchSchedule { .. }
        | Error::NoSuchOperation(_)
        | Error::NotKept(_)
        | Error::ResultDropped { .. }
        | Error::NoDatabase { .. }
        | Error::Unserved { .. } => Exit::NotFound,
        Error::WrongState { .. }
        | Error::OperationUnderWay(_)
        | Error::IdConflict(_)
        | Error::EditConflict { .. }
        | Error::KeyHeld { .. }
        | Error::GroupFull { .. } => Exit::WrongState,
        Error::WrongType { .. } => Exit::Sick,
        Error::Unavailable { .. } | Error::BrokerFull { .. } => Exit::Unavailable,
        Error::Ambiguous { .. } | Error::Unknown(_) => Exit::Unknown,
        Error::Config(_)
        | Error::FeatureOff { .. }
        | Error::SchemaTooNew { .. }
        | Error::FeatureUnknown { .. }
        | Error::Evicts { .. }
        | Error::AccessDenied { .. } => Exit::Setup,
        _ => Exit::Unforeseen,
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let message = match &error {
            Error::Unknown(pending) => {
                let cause = std::error::Error::source(&**pending).map_or_else(String::new, error_text);
                format!(
                    "no answer from the broker in time; check with `jobs show {}` whether the job is stored: {cause}",
                    pending.address()
                )
            }
            Error::NoDatabase { path, problem } => {
                format!("no database at {path}: {problem}; `enqueue` or `work` creates one, or check the URL (`--url` or QUEUE_URL)")
            }
            error if error.is_unreachable() => {
                format!("{}; check that it runs, and check the URL (`--url` or QUEUE_URL)", error_text(error))
            }
            error => error_text(error),
        };
        Failure::new(exit_of(&error), message)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // The reader has ended early, as `head` does.
            io::ErrorKind::BrokenPipe => Failure::silent(Exit::Done),
            _ => Failure::new(Exit::Unforeseen, format!("cannot write to standard output: {error}")),
        }
    }
}
