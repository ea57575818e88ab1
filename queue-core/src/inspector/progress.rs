//! Progress and logs of jobs, for reading and for following.

use std::time::{Duration, SystemTime};

use serde::{Serialize, de::DeserializeOwned};
use tokio::time::Instant;

use super::{Inspector, record::time};
use crate::{
    address::JobAddress,
    broker::{DynBroker, Hints, JobState, LogLevel, ProgressAndLog, StoredLine, StoredProgress, WATCHED, on_broker},
    codec,
    error::{Error, Result},
    json, payload,
};

/// A watcher polls after this time without an announcement, and then at growing intervals, because
/// an announcement may be lost.
const FIRST_NET: Duration = Duration::from_millis(20);

/// The longest pause between two reads.
const LAST_NET: Duration = Duration::from_secs(5);

/// The interval at which its mark is renewed.
const MARKED: Duration = Duration::from_secs(10);
const _: () = assert!(MARKED.as_millis() + LAST_NET.as_millis() < WATCHED.as_millis());

/// The progress of a job, as its handler reported it with
/// [`JobContext::progress`](crate::JobContext::progress).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Progress {
    /// When it was reported, by the broker's clock.
    #[serde(serialize_with = "json::utc")]
    pub at: SystemTime,
    /// In which attempt. A job that runs again keeps its progress until its handler reports a new
    /// one.
    pub attempt: u32,
    /// From 0 to 1; `None` if the handler reported only a value.
    pub fraction: Option<f64>,
    /// In a few words. May be empty.
    pub message: String,
    #[serde(serialize_with = "json::stored")]
    value: Option<Vec<u8>>,
}

/// A line of a job's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LogLine {
    /// When it was reported, by the broker's clock.
    #[serde(serialize_with = "json::utc")]
    pub at: SystemTime,
    /// In which attempt.
    pub attempt: u32,
    /// How serious it is.
    pub level: LogLevel,
    /// The message of the handler.
    pub text: String,
}

/// The log of a job, from a line on, and its progress. From [`Inspector::log`].
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct JobLog {
    /// The progress of the job, if its handler has reported any.
    pub progress: Option<Progress>,
    /// The lines, oldest first.
    pub lines: Vec<LogLine>,
    /// The number of the next line: the value for the next call.
    pub next: u64,
    /// The number of dropped lines since the job was enqueued: the oldest of a log that is longer
    /// than 1,000 lines or 64 KiB, and those for which a broker had no room.
    pub dropped: u64,
}

impl Progress {
    fn new(stored: StoredProgress) -> Self {
        let StoredProgress { at_ms, attempt, fraction, message, value } = stored;
        Progress { at: time(at_ms).unwrap_or(SystemTime::UNIX_EPOCH), attempt, fraction, message, value }
    }

    /// The value of [`progress_value`](crate::JobContext::progress_value); `None` if there was
    /// none.
    ///
    /// # Errors
    /// [`Error::Decode`] if it is not a `T`.
    pub fn value<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        self.with_value(|bytes| codec::decode(bytes))
    }

    /// The same as JSON.
    ///
    /// # Errors
    /// [`Error::Decode`] if it cannot be decoded.
    pub fn value_json(&self) -> Result<Option<String>> {
        self.with_value(payload::to_json)
    }

    fn with_value<T>(&self, decode: impl FnOnce(&[u8]) -> Result<T, String>) -> Result<Option<T>> {
        let decoded = self.value.as_deref().map(decode).transpose();
        decoded.map_err(|problem| Error::Decode { what: "the progress value of a job".to_owned(), problem })
    }
}

impl JobLog {
    fn new(stored: ProgressAndLog) -> Self {
        let line = |StoredLine { at_ms, attempt, level, text }| LogLine {
            at: time(at_ms).unwrap_or(SystemTime::UNIX_EPOCH),
            attempt,
            level,
            text,
        };
        let ProgressAndLog { progress, lines, next, dropped } = stored;
        JobLog { progress: progress.map(Progress::new), lines: lines.into_iter().map(line).collect(), next, dropped }
    }
}

impl Inspector {
    /// The log of a job from this line on, 0 for all that is kept, and its progress.
    ///
    /// # Errors
    /// [`Error::NoSuchJob`].
    pub async fn log(&self, job: &JobAddress, from: u64) -> Result<JobLog> {
        let log = self.progress_and_log(self.until(), job, from).await?;
        log.ok_or_else(|| Error::NoSuchJob(job.to_string()))
    }

    /// Follows the output of a handler: the lines of its log from this one on, and its progress. It
    /// is woken by the broker.
    pub fn follow(&self, job: &JobAddress, from: u64) -> Follow {
        Follow {
            inspector: self.clone(),
            job: job.clone(),
            from: Some(from),
            hints: None,
            marked: None,
            seen: None,
            known: false,
            over: false,
        }
    }

    /// Follows only the progress of a job.
    pub(crate) fn follow_progress(&self, job: &JobAddress) -> Follow {
        Follow { from: None, ..self.follow(job, 0) }
    }

    async fn progress_and_log(&self, until: Instant, job: &JobAddress, from: u64) -> Result<Option<JobLog>> {
        let job = job.clone();
        let ask = move |broker: DynBroker| {
            let job = job.clone();
            async move { broker.progress_and_log(&job.queue, &job.id, from).await }
        };
        Ok(self.ask(until, ask).await?.map(JobLog::new))
    }

    /// How far a job is.
    pub(crate) async fn progress(&self, job: &JobAddress) -> Result<Option<Progress>> {
        Ok(self.progress_and_log(self.until(), job, u64::MAX).await?.and_then(|log| log.progress))
    }

    /// Returns the state of a job, and marks the job as watched.
    async fn watched_state(&self, job: &JobAddress) -> Result<Option<JobState>> {
        let job = job.clone();
        let ask = move |broker: DynBroker| {
            let job = job.clone();
            async move {
                match broker.watch(&job.queue, &job.id).await {
                    // A full broker, and one on which this user may not write, can still be read.
                    Err(Error::BrokerFull { .. } | Error::AccessDenied { .. }) => broker.show(&job.queue, &job.id).await,
                    watched => watched,
                }
            }
        };
        Ok(self.ask(self.until(), ask).await?.map(|job| job.state))
    }
}

/// The live progress and log of a job. From [`Inspector::follow`].
#[derive(Debug)]
pub struct Follow {
    inspector: Inspector,
    job: JobAddress,
    /// From which line on; `None`: the progress is enough.
    from: Option<u64>,
    /// Announcements of reported progress, and of the end of the job.
    hints: Option<(Hints, Hints)>,
    marked: Option<Instant>,
    seen: Option<Progress>,
    /// Whether the job existed at the first poll.
    known: bool,
    over: bool,
}

impl Follow {
    /// Waits for the next lines or the next change of the progress. Returns new lines and the
    /// present progress. If changes follow each other quickly, only the last one may be returned.
    /// `None`: the job has ended, and everything was returned.
    ///
    /// # Errors
    /// [`Error::NoSuchJob`] if the broker did not have the job at the first poll; those of the
    /// broker, after which the call may be repeated.
    pub async fn next(&mut self) -> Result<Option<JobLog>> {
        let mut net = FIRST_NET;
        while !self.over {
            // It subscribes before it reads, so reports in between are not missed.
            let (mut reports, mut ended) = self.hints.take().unwrap_or_else(|| {
                let broker = &self.inspector.broker;
                (broker.progress_hints(&self.job.queue, &self.job.id), broker.ending_hints(&self.job.queue, &self.job.id))
            });
            if let Some(news) = self.poll().await? {
                self.hints = Some((reports, ended));
                return Ok(Some(news));
            }
            if self.over {
                break;
            }
            let wait = async move {
                let announced = tokio::select! {
                    _ = reports.next() => true,
                    _ = ended.next() => true,
                    () = tokio::time::sleep(net) => false,
                };
                (announced, reports, ended)
            };
            let (announced, reports, ended) = on_broker(&self.inspector.broker, wait).await?;
            self.hints = Some((reports, ended));
            net = if announced { FIRST_NET } else { (net * 2).min(LAST_NET) };
        }
        Ok(None)
    }

    /// Reads the new lines. The state is read first, so that the log of an ended job is complete.
    async fn poll(&mut self) -> Result<Option<JobLog>> {
        let state = if self.marked.is_none_or(|at| at.elapsed() >= MARKED) {
            let state = self.inspector.watched_state(&self.job).await?;
            self.marked = Some(Instant::now());
            state
        } else {
            self.inspector.stored(self.inspector.until(), &self.job).await?.map(|job| job.state)
        };
        let log = match state {
            Some(_) => self.inspector.progress_and_log(self.inspector.until(), &self.job, self.from.unwrap_or(u64::MAX)).await?,
            None => None,
        };
        let Some(log) = log else {
            self.over = true;
            return if self.known { Ok(None) } else { Err(Error::NoSuchJob(self.job.to_string())) };
        };
        self.known = true;
        self.over = state.is_some_and(JobState::is_final);
        let is_new = !log.lines.is_empty() || log.progress != self.seen;
        self.seen.clone_from(&log.progress);
        if let Some(from) = &mut self.from {
            *from = log.next;
        }
        Ok(is_new.then_some(log))
    }
}
