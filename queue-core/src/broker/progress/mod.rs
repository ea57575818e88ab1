//! The progress and the log lines that a handler reports while it runs.

mod stored;

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

#[cfg(feature = "sqlite")]
pub(crate) use self::stored::stored_at;
#[cfg(any(feature = "redis", feature = "sqlite"))]
pub(crate) use self::stored::{Log, progress_of, progress_stored};
use super::PartyName;
use crate::{
    address::{JobId, serde_as_text},
    error::{Error, Result},
};

/// Most bytes of a line of a job's log; a longer one is cut.
pub const LINE_MAX: usize = 2 * 1024;

/// Most lines of a job's log. The oldest are dropped.
pub const LOG_LINES: usize = 1000;

/// Most bytes of a job's log. The oldest lines are dropped.
pub const LOG_BYTES: usize = 64 * 1024;

/// Most bytes of the message of a job's progress; a longer one is cut.
pub const PROGRESS_MESSAGE: usize = 256;

/// Most bytes of the encoded value of a job's progress.
pub const PROGRESS_VALUE: usize = 4 * 1024;

/// How serious a line of a job's log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum LogLevel {
    /// Something has failed.
    Error,
    /// Something may go wrong.
    Warn,
    /// Normal events.
    Info,
    /// Details for programmers.
    Debug,
    /// Every step.
    Trace,
}

impl LogLevel {
    /// All, the most serious first.
    pub const ALL: [LogLevel; 5] = [LogLevel::Error, LogLevel::Warn, LogLevel::Info, LogLevel::Debug, LogLevel::Trace];

    /// The word for it: `error`, `warn`, `info`, `debug` or `trace`.
    pub fn name(self) -> &'static str {
        match self {
            LogLevel::Error => "error",
            LogLevel::Warn => "warn",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
            LogLevel::Trace => "trace",
        }
    }

    /// The stored number.
    pub(crate) fn number(self) -> u8 {
        self as u8
    }

    pub(crate) fn from_number(number: u8) -> Option<Self> {
        LogLevel::ALL.get(usize::from(number)).copied()
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for LogLevel {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        LogLevel::ALL
            .into_iter()
            .find(|level| level.name() == text)
            .ok_or_else(|| Error::invalid("level", text, "is unknown; use one of error, warn, info, debug, trace"))
    }
}

serde_as_text!(LogLevel);

/// A request to store the progress and the log lines of a lane's jobs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProgressReport {
    /// The queue.
    pub queue: Arc<str>,
    /// The lane that holds the jobs.
    pub lane: PartyName,
    /// Progress and log lines by job, at most [`MAX_ITEMS`](super::MAX_ITEMS).
    pub jobs: Vec<JobProgress>,
}

/// The progress and the log lines of one job.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct JobProgress {
    /// The job.
    pub id: JobId,
    /// The claim number of its delivery.
    pub claim: u64,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// Its progress, if that has changed.
    pub progress: Option<ProgressNow>,
    /// The number of the first line among all lines of this delivery, from 0. A missing number
    /// means a dropped line.
    pub first: u64,
    /// The lines, oldest first.
    pub lines: Vec<LineNow>,
}

/// The progress of a job, as its handler reports it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ProgressNow {
    /// Grows with each change of progress in the delivery. A smaller number changes nothing.
    pub seq: u64,
    /// How long ago it was reported.
    pub age: Duration,
    /// From 0 to 1.
    pub fraction: Option<f64>,
    /// At most [`PROGRESS_MESSAGE`] bytes; empty: none.
    pub message: String,
    /// An encoded value of the application's, at most [`PROGRESS_VALUE`] bytes.
    pub value: Option<Vec<u8>>,
}

/// A line of a job's log, as its handler reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LineNow {
    /// How long ago it was reported.
    pub age: Duration,
    /// How serious it is.
    pub level: LogLevel,
    /// At most [`LINE_MAX`] bytes.
    pub text: String,
}

impl ProgressReport {
    /// A request without jobs yet.
    pub fn new(queue: impl Into<Arc<str>>, lane: PartyName) -> Self {
        ProgressReport { queue: queue.into(), lane, jobs: Vec::new() }
    }

    /// About how many bytes it adds.
    #[cfg_attr(not(feature = "sqlite"), allow(dead_code, reason = "for the broker that has to make room"))]
    pub(crate) fn bytes(&self) -> usize {
        self.jobs.iter().map(JobProgress::bytes).sum()
    }
}

impl JobProgress {
    /// This delivery has reported nothing yet.
    pub fn new(id: JobId, claim: u64, attempt: u32) -> Self {
        JobProgress { id, claim, attempt, progress: None, first: 0, lines: Vec::new() }
    }

    /// About how many bytes it has.
    pub fn bytes(&self) -> usize {
        const REST: usize = 64;
        let progress = self.progress.as_ref().map_or(0, |now| REST + now.message.len() + now.value.as_ref().map_or(0, Vec::len));
        REST + progress + self.lines.iter().map(|line| 32 + line.text.len()).sum::<usize>()
    }
}

impl ProgressNow {
    /// A change of the progress. A fraction outside 0 to 1 is clamped; NaN is stored as none.
    pub fn new(seq: u64, fraction: Option<f64>, message: impl Into<String>, value: Option<Vec<u8>>) -> Self {
        let fraction = fraction.filter(|fraction| !fraction.is_nan()).map(|fraction| fraction.clamp(0.0, 1.0));
        ProgressNow { seq, age: Duration::ZERO, fraction, message: crate::text::cut(message.into(), PROGRESS_MESSAGE), value }
    }
}

impl LineNow {
    /// A line that is logged now.
    pub fn new(level: LogLevel, text: impl Into<String>) -> Self {
        LineNow { age: Duration::ZERO, level, text: crate::text::cut(text.into(), LINE_MAX) }
    }
}

/// The progress of a job, as it is stored.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StoredProgress {
    /// When it was reported, in broker milliseconds since 1970.
    pub at_ms: i64,
    /// In which attempt.
    pub attempt: u32,
    /// From 0 to 1.
    pub fraction: Option<f64>,
    /// The message of the handler; may be empty.
    pub message: String,
    /// The encoded value.
    pub value: Option<Vec<u8>>,
}

/// A line of a job's log, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredLine {
    /// When it was reported, in broker milliseconds since 1970.
    pub at_ms: i64,
    /// In which attempt.
    pub attempt: u32,
    /// How serious it is.
    pub level: LogLevel,
    /// The text of the handler.
    pub text: String,
}

/// The stored progress of a job, and lines of its log.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ProgressAndLog {
    /// Its progress.
    pub progress: Option<StoredProgress>,
    /// Lines of its log, oldest first, from the requested one.
    pub lines: Vec<StoredLine>,
    /// The number after that of the last line.
    pub next: u64,
    /// The number of dropped lines since the job was enqueued.
    pub dropped: u64,
}

impl StoredProgress {
    /// A progress that was reported at this time.
    pub fn new(at_ms: i64, attempt: u32, now: &ProgressNow) -> Self {
        StoredProgress { at_ms, attempt, fraction: now.fraction, message: now.message.clone(), value: now.value.clone() }
    }
}

impl StoredLine {
    /// A line that was logged at this time.
    pub fn new(at_ms: i64, attempt: u32, now: &LineNow) -> Self {
        StoredLine { at_ms, attempt, level: now.level, text: now.text.clone() }
    }
}

impl ProgressAndLog {
    /// The stored progress and log.
    pub fn new(progress: Option<StoredProgress>, lines: Vec<StoredLine>, next: u64, dropped: u64) -> Self {
        ProgressAndLog { progress, lines, next, dropped }
    }
}
