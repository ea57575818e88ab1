//! The progress and log lines of a running handler, buffered until the worker has stored them.

use std::{
    collections::VecDeque,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use serde::{Serialize, de::DeserializeOwned};

use super::JobContext;
use crate::{
    broker::{JobProgress, LOG_BYTES, LOG_LINES, LineNow, LogLevel, PROGRESS_VALUE, PartyName, ProgressNow},
    codec::{self, Form},
    error::{Error, Result},
};

/// The progress and log lines that are not stored yet.
#[derive(Default)]
pub(super) struct Reports {
    /// Whether there is a report; most handlers report nothing.
    any: AtomicBool,
    /// Whether reports were taken that may not be stored yet.
    in_flight: AtomicBool,
    /// Made with the first word.
    pending: Mutex<Option<Box<Pending>>>,
}

#[derive(Default)]
struct Pending {
    /// The progress as it is now, and whether it has changed. It is numbered.
    progress: Option<(ProgressNow, Instant)>,
    seq: u64,
    has_changed: bool,
    /// The number of the first line.
    first: u64,
    lines: VecDeque<(LineNow, Instant)>,
    bytes: usize,
}

impl Pending {
    fn set_progress(&mut self, change: impl FnOnce(Option<ProgressNow>) -> ProgressNow) {
        self.seq += 1;
        let now = self.progress.take().map(|(now, _)| now);
        self.progress = Some((ProgressNow { seq: self.seq, ..change(now) }, Instant::now()));
        self.has_changed = true;
    }

    fn add(&mut self, line: LineNow, at: Instant) {
        self.bytes += line.text.len();
        self.lines.push_back((line, at));
        while self.lines.len() > LOG_LINES || self.bytes > LOG_BYTES {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        if let Some((line, _)) = self.lines.pop_front() {
            self.bytes -= line.text.len();
            self.first += 1;
        }
    }
}

impl JobContext {
    /// Reports the progress of the job: a fraction from 0 to 1 and a message of at most 256 bytes.
    /// Operators see it with the job; programs read it with
    /// [`Handle::progress`](crate::Handle::progress). The worker stores the last state about four
    /// times a second; the handler does not wait for it. It survives retries until the next run
    /// reports.
    ///
    /// ```
    /// use queue_core::prelude::*;
    ///
    /// #[task]
    /// async fn resize(images: Vec<String>, ctx: JobContext) {
    ///     for (at, image) in images.iter().enumerate() {
    ///         ctx.progress(at as f64 / images.len() as f64, image);
    ///         // …
    ///     }
    /// }
    /// ```
    pub fn progress(&self, fraction: f64, message: impl Into<String>) {
        let message = message.into();
        self.change(|pending| {
            pending.set_progress(|now| ProgressNow::new(0, Some(fraction), message, now.and_then(|now| now.value)));
        });
    }

    /// Stores a value with the progress, for a program that shows it: counts, or the name of a
    /// step. At most 4 KiB when encoded. The type must implement `Serialize` and
    /// `DeserializeOwned`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a value that cannot be encoded or read back, is nested more than 64
    /// deep, or is larger.
    pub fn progress_value<T: Serialize + DeserializeOwned>(&self, value: &T) -> Result<()> {
        let wrong = |what: &str, problem: &str| {
            let job = format!("of job `{}/{}` of task `{}` {problem}", self.queue(), self.id(), self.task());
            Error::invalid("progress value", what, job)
        };
        let unfit = |problem: String| wrong(std::any::type_name::<T>(), &codec::shortened(format!("cannot be encoded: {problem}")));
        let mut encoded = Vec::new();
        codec::encode_readable(&mut encoded, value, Form::Array).map_err(|problem| unfit(problem.to_string()))?;
        if encoded.len() > PROGRESS_VALUE {
            let problem = format!("is larger than the {PROGRESS_VALUE} bytes that are kept; store it elsewhere, and its key here");
            return Err(wrong(&format!("{} bytes", encoded.len()), &problem));
        }
        codec::scan(&encoded).map_err(unfit)?;
        self.change(|pending| {
            pending.set_progress(|now| {
                let (fraction, message) = now.map_or((None, String::new()), |now| (now.fraction, now.message));
                ProgressNow::new(0, fraction, message, Some(encoded))
            });
        });
        Ok(())
    }

    /// Adds a line to the job's log, at most 2 KiB, of level `info`. The log is kept as long as the
    /// job, over retries too: its last 1,000 lines and 64 KiB. The worker stores it about four
    /// times a second, and before the job ends.
    pub fn log(&self, text: impl Into<String>) {
        self.log_at(LogLevel::Info, text);
    }

    /// Adds a line of another level to the job's log.
    pub fn log_at(&self, level: LogLevel, text: impl Into<String>) {
        let line = LineNow::new(level, text);
        self.change(|pending| pending.add(line, Instant::now()));
    }

    fn change(&self, change: impl FnOnce(&mut Pending)) {
        change(self.pending().get_or_insert_default());
        // The reader of the reports resets this first.
        if !self.0.reports.any.swap(true, Ordering::AcqRel)
            && let Some(reporting) = &self.0.init.environment.reporting
        {
            // The worker has ended: its jobs change nothing any more.
            let _ = reporting.send(self.clone());
        }
    }

    /// Whether the handler has reported progress or log lines that may not be stored yet.
    #[doc(hidden)]
    pub fn has_reports(&self) -> bool {
        self.0.reports.any.load(Ordering::Acquire) || self.0.reports.in_flight.load(Ordering::Acquire)
    }

    /// The reports that were read have been stored, returned or abandoned.
    #[doc(hidden)]
    pub fn reported_was_sent(&self) {
        self.0.reports.in_flight.store(false, Ordering::Release);
    }

    /// The lane that holds the job.
    #[doc(hidden)]
    pub fn lane(&self) -> Option<&PartyName> {
        self.0.init.lane.as_ref()
    }

    /// Returns the reports since the last call, at most about `bytes` bytes.
    #[doc(hidden)]
    pub fn take_reported(&self, bytes: usize) -> JobProgress {
        // In this order: at no moment all reports seem to be sent.
        self.0.reports.in_flight.store(true, Ordering::Release);
        self.0.reports.any.store(false, Ordering::Release);
        let mut stored = self.pending();
        let pending = stored.get_or_insert_default();
        let mut reported = JobProgress::new(self.id().clone(), self.claim(), self.attempt());
        if std::mem::take(&mut pending.has_changed) {
            let age = |(now, at): (ProgressNow, Instant)| ProgressNow { age: at.elapsed(), ..now };
            reported.progress = pending.progress.clone().map(age);
        }
        reported.first = pending.first;
        let mut taken = 0;
        while taken <= bytes
            && let Some((line, at)) = pending.lines.pop_front()
        {
            taken += line.text.len();
            reported.lines.push(LineNow { age: at.elapsed(), ..line });
        }
        pending.first += reported.lines.len() as u64;
        pending.bytes -= taken;
        let is_left = !pending.lines.is_empty();
        drop(stored);
        if is_left {
            self.change(|_| {});
        }
        reported
    }

    /// Returns reports that could not be stored.
    #[doc(hidden)]
    pub fn put_back_reported(&self, reported: JobProgress) {
        self.change(|pending| {
            pending.has_changed |= reported.progress.is_some();
            if reported.first + reported.lines.len() as u64 != pending.first {
                return;
            }
            let now = Instant::now();
            for line in reported.lines.into_iter().rev() {
                if pending.lines.len() >= LOG_LINES || pending.bytes + line.text.len() > LOG_BYTES {
                    break;
                }
                pending.first -= 1;
                pending.bytes += line.text.len();
                let at = now.checked_sub(line.age).unwrap_or(now);
                pending.lines.push_front((line, at));
            }
        });
    }

    fn pending(&self) -> MutexGuard<'_, Option<Box<Pending>>> {
        self.0.reports.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use crate::{TestContext, broker::LOG_LINES};

    #[test]
    fn reports_are_taken_once_and_again_if_they_were_not_stored() {
        let context = TestContext::new().build();
        assert!(!context.has_reports());
        context.progress(0.25, "begins");
        context.progress_value(&7).unwrap();
        context.log("a");
        context.log("b");
        let reported = context.take_reported(1 << 20);
        let progress = reported.progress.clone().unwrap();
        assert_eq!((progress.seq, progress.fraction, &*progress.message, progress.value), (2, Some(0.25), "begins", Some(vec![7])));
        assert_eq!((reported.first, reported.lines.len(), context.has_reports()), (0, 2, true), "it is on its way");
        context.reported_was_sent();
        assert!(!context.has_reports());
        context.log("c");
        context.put_back_reported(reported);
        let again = context.take_reported(1 << 20);
        let texts: Vec<&str> = again.lines.iter().map(|line| &*line.text).collect();
        assert_eq!((again.first, texts, again.progress.unwrap().seq), (0, vec!["a", "b", "c"], 2));
        context.log("d");
        let last = context.take_reported(1 << 20);
        assert_eq!((last.first, last.lines.len(), last.progress), (3, 1, None));
    }

    #[test]
    fn of_too_much_the_oldest_is_dropped_and_its_numbers_with_it() {
        let context = TestContext::new().build();
        for n in 0..LOG_LINES + 7 {
            context.log(n.to_string());
        }
        let reported = context.take_reported(1 << 20);
        assert_eq!((reported.first, reported.lines.len(), &*reported.lines[0].text), (7, LOG_LINES, "7"));
        // A part of the log at a time.
        context.log("x".repeat(100));
        context.log("y".repeat(100));
        assert_eq!(context.take_reported(50).lines.len(), 1);
        context.reported_was_sent();
        assert!(context.has_reports(), "one is left");
        assert_eq!(context.take_reported(50).first, LOG_LINES as u64 + 8);
        context.reported_was_sent();
        assert!(!context.has_reports());
        let problem = context.progress_value(&"x".repeat(5000)).unwrap_err().to_string();
        let (job, task) = (format!("{}/{}", context.queue(), context.id()), context.task());
        assert_eq!(
            problem,
            format!(
                "progress value `5003 bytes` of job `{job}` of task `{task}` is larger than the 4096 bytes that are kept; store it elsewhere, and its key here"
            )
        );
        let problem = context.progress_value(&std::path::PathBuf::from(std::ffi::OsStr::from_bytes(b"\xff"))).unwrap_err().to_string();
        assert!(
            problem.starts_with(&format!("progress value `std::path::PathBuf` of job `{job}` of task `{task}` cannot be encoded: ")),
            "{problem}"
        );
        let deep = (0..70).fold(serde_json::Value::Null, |inner, _| serde_json::Value::Array(vec![inner]));
        let problem = context.progress_value(&deep).unwrap_err().to_string();
        assert!(problem.contains("cannot be encoded: it is nested more than 64 deep"), "{problem}");
        #[derive(serde::Serialize, serde::Deserialize)]
        #[serde(untagged)]
        enum Wide {
            Size { bytes: u128 },
        }
        let problem = context.progress_value(&[Wide::Size { bytes: 1 }]).unwrap_err().to_string();
        assert!(problem.contains("of task `") && problem.contains("cannot be encoded: `[0]`: it cannot be read back: "), "{problem}");
        context.progress(f64::NAN, "z".repeat(1000));
        let progress = context.take_reported(0).progress.unwrap();
        assert_eq!((progress.fraction, progress.message.len() <= 256), (None, true));
    }
}
