//! Requests to a worker: claim nothing, claim again, or stop.

use std::{fmt, sync::Arc};

use serde::Serialize;

use super::ProcessId;
use crate::{
    codec,
    error::{Error, Result},
    text::cut,
};

/// The first element of a request as stored.
const VERSION: u64 = 1;

/// The longest stored name of the requester, in bytes; a longer one is cut.
const BY_MAX: usize = 256;

/// The mode of a worker, or the requested mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WorkerMode {
    /// It claims jobs and runs them.
    #[default]
    Works,
    /// It claims nothing. Running jobs continue, and it stays registered.
    Quiet,
    /// It stops: it claims no jobs, its running jobs may end within the grace time, and then it
    /// leaves.
    Stopping,
}

impl WorkerMode {
    const ALL: [WorkerMode; 3] = [WorkerMode::Works, WorkerMode::Quiet, WorkerMode::Stopping];

    /// The word for it everywhere: `works`, `quiet` or `stopping`.
    pub fn name(self) -> &'static str {
        match self {
            WorkerMode::Works => "works",
            WorkerMode::Quiet => "quiet",
            WorkerMode::Stopping => "stopping",
        }
    }

    /// As stored.
    pub(super) fn number(self) -> u8 {
        self as u8
    }

    pub(super) fn of_number(number: u8) -> Option<Self> {
        WorkerMode::ALL.into_iter().find(|mode| mode.number() == number)
    }
}

impl fmt::Display for WorkerMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A request to a worker. The request with the largest number is the latest and applies. A worker
/// processes each request once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct WorkerAsk {
    /// Grows with each request to this worker.
    pub number: u64,
    /// The requested mode.
    pub mode: WorkerMode,
    /// The name of the requester, for the log of the worker.
    pub by: String,
}

impl WorkerAsk {
    /// A request. A name over 256 bytes is cut.
    pub fn new(number: u64, mode: WorkerMode, by: &str) -> Self {
        WorkerAsk { number, mode, by: cut(by.to_owned(), BY_MAX) }
    }

    /// As stored: a MessagePack array.
    pub fn encoded(&self) -> Vec<u8> {
        codec::pack(&(VERSION, self.number, self.mode.number(), &self.by)).expect("texts and numbers can be encoded")
    }

    /// Decodes the stored form. A damaged request, or one of a newer library, counts as no request.
    pub fn decoded(stored: &[u8]) -> Option<Self> {
        let (version, number, mode, by): (u64, u64, u8, String) = codec::unpack(stored).ok()?;
        let mode = WorkerMode::of_number(mode).filter(|_| version == VERSION)?;
        Some(WorkerAsk { number, mode, by })
    }
}

/// A request to a worker.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AskWorker {
    /// The queue in which the worker has last reported its load.
    pub queue: Arc<str>,
    /// The worker.
    pub process: ProcessId,
    /// The request.
    pub ask: WorkerAsk,
}

impl AskWorker {
    /// A request to a worker that has spoken in this queue.
    pub fn new(queue: impl Into<Arc<str>>, process: ProcessId, ask: WorkerAsk) -> Self {
        AskWorker { queue: queue.into(), process, ask }
    }

    /// # Errors
    /// [`Error::Invalid`] for the number 0, which no request has.
    pub(crate) fn check(&self) -> Result<()> {
        if self.ask.number == 0 {
            return Err(Error::invalid("number", "0", "must be at least 1"));
        }
        Ok(())
    }
}

/// The outcome of a request to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkerAsked {
    /// It is stored, and the worker receives it with its next heartbeat. A repeated request gets
    /// the same answer.
    Stored,
    /// Another request has this number, or a larger one.
    Stale,
    /// The worker has not sent a heartbeat in this queue, or has left it.
    Absent,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_comes_back_as_it_was_asked() {
        for mode in WorkerMode::ALL {
            let ask = WorkerAsk::new(7, mode, "ada");
            assert_eq!(WorkerAsk::decoded(&ask.encoded()), Some(ask));
        }
        assert_eq!(WorkerAsk::new(1, WorkerMode::Quiet, &"x".repeat(999)).by.len(), BY_MAX);
    }

    #[test]
    fn the_form_of_a_request_is_what_the_documents_say() {
        assert_eq!(WorkerAsk::new(3, WorkerMode::Stopping, "ada").encoded(), b"\x94\x01\x03\x02\xa3ada");
    }

    #[test]
    fn what_is_damaged_or_of_a_newer_library_asks_for_nothing() {
        let whole = WorkerAsk::new(3, WorkerMode::Stopping, "ada").encoded();
        for other in [&b""[..], b"theirs", &whole[..whole.len() - 1], b"\x94\x02\x03\x02\xa3ada", b"\x94\x01\x03\x09\xa3ada"] {
            assert_eq!(WorkerAsk::decoded(other), None, "{other:?}");
        }
    }
}
