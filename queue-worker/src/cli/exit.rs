//! Exit codes, and the output of errors.

use std::{io, process::ExitCode};

use queue_core::{Error, outcome::error_text};

use super::output::remark;
use crate::WorkerError;

/// What a script can tell apart. The numbers are documented at [`run`](super::run) and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    Done = 0,
    Unforeseen = 1,
    Usage = 2,
    NotFound = 3,
    WrongState = 4,
    Unavailable = 5,
    Setup = 6,
    GivenBack = 7,
    Unknown = 8,
    Sick = 9,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// Why a command ends early.
#[derive(Debug)]
pub(super) struct Failure {
    exit: Exit,
    message: Option<String>,
}

impl Failure {
    pub(super) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Failure { exit, message: Some(message.into()) }
    }

    /// Everything was said already.
    pub(super) fn silent(exit: Exit) -> Self {
        Failure { exit, message: None }
    }

    /// Whether another queue may have no such failure.
    pub(super) fn is_of_a_queue(&self) -> bool {
        matches!(self.exit, Exit::WrongState | Exit::NotFound | Exit::Unavailable | Exit::Unknown | Exit::Sick)
    }

    /// Its code.
    pub(super) fn exit(&self) -> Exit {
        self.exit
    }

    /// Its code and what is said of it.
    pub(super) fn into_parts(self) -> (Exit, Option<String>) {
        (self.exit, self.message)
    }

    /// Prints it and gives the code.
    pub(super) fn tell(self) -> ExitCode {
        if let Some(message) = &self.message {
            tell(message);
        }
        self.exit.into()
    }
}

/// Prints a problem.
pub(super) fn tell(message: &str) {
    remark(&format!("error: {message}"));
}

/// Prints a remark beside the answer.
pub(super) fn note(message: &str) {
    remark(message);
}

/// The code of an error.
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

impl From<WorkerError> for Failure {
    fn from(error: WorkerError) -> Self {
        match error {
            WorkerError::Queue(error) => error.into(),
            error @ WorkerError::Setup(_) => Failure::new(Exit::Setup, error.to_string()),
            error => Failure::new(Exit::Unforeseen, error_text(&error)),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // The reader has what it wanted, as `head` does.
            io::ErrorKind::BrokenPipe => Failure::silent(Exit::Done),
            _ => Failure::new(Exit::Unforeseen, format!("cannot write to standard output: {error}")),
        }
    }
}
