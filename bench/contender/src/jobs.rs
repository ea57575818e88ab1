//! The jobs that every contender runs.

use std::{
    fs::File,
    io::Write,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use tokio::sync::Notify;

use crate::Error;

/// The duration of a job that records its start and end.
const MARKED: Duration = Duration::from_millis(10);

/// The handler of every job. The first letter of the payload selects its action.
#[derive(Debug, Default)]
pub struct Jobs {
    seen: AtomicUsize,
    wanted: AtomicUsize,
    all: Notify,
    latest: Mutex<Option<Instant>>,
    lateness_us: Mutex<Vec<f64>>,
    file: Option<Mutex<File>>,
    /// The reason why the worker no longer runs.
    failure: Mutex<Option<String>>,
}

impl Jobs {
    /// Jobs whose marks go to a file.
    pub(crate) fn marking(file: &Path) -> Result<Self, Error> {
        let file = File::options().create(true).append(true).open(file).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(Jobs { file: Some(Mutex::new(file)), ..Jobs::default() })
    }

    /// Runs one job.
    pub async fn run(&self, payload: &str) {
        if let Some(due_ms) = number(payload, 'd') {
            self.lateness_us.lock().expect("no holder panics").push(now_us() as f64 - due_ms as f64 * 1e3);
        } else if let Some(mark) = number(payload, 'm') {
            self.mark("start", mark);
            tokio::time::sleep(MARKED).await;
            self.mark("end", mark);
        } else if payload.starts_with('s') {
            *self.latest.lock().expect("no holder panics") = Some(Instant::now());
        } else {
            std::hint::black_box(payload);
        }
        if self.seen.fetch_add(1, Ordering::Relaxed) + 1 == self.wanted.load(Ordering::Relaxed) {
            self.all.notify_one();
        }
    }

    /// Sets the number of jobs to wait for, before they are enqueued or started.
    pub fn want(&self, n: usize) {
        self.seen.store(0, Ordering::Relaxed);
        self.wanted.store(n, Ordering::Relaxed);
    }

    /// Waits until they have run, or the worker has failed.
    pub async fn all(&self, patience: Duration) -> Result<(), Error> {
        let waited = tokio::time::timeout(patience, self.all.notified()).await;
        let failure = self.failure.lock().expect("no holder panics").clone();
        let (seen, wanted) = (self.seen.load(Ordering::Relaxed), self.wanted.load(Ordering::Relaxed));
        match (waited, failure) {
            (Ok(()), None) => Ok(()),
            (_, Some(failure)) => Err(format!("the worker failed after {seen} of {wanted} jobs: {failure}").into()),
            (Err(_), None) => Err(format!("only {seen} of {wanted} jobs ran within {patience:?}").into()),
        }
    }

    /// Ends all waits, because the worker no longer runs.
    pub(crate) fn fail(&self, failure: String) {
        *self.failure.lock().expect("no holder panics") = Some(failure);
        self.all.notify_one();
    }

    /// The time of the latest start that was recorded.
    pub(crate) fn latest(&self) -> Option<Instant> {
        self.latest.lock().expect("no holder panics").take()
    }

    /// The lateness of jobs with a due time, in milliseconds, since the last call.
    pub(crate) fn lateness_ms(&self) -> Vec<f64> {
        std::mem::take(&mut *self.lateness_us.lock().expect("no holder panics")).into_iter().map(|us| us / 1e3).collect()
    }

    /// Writes one line in one write. A kill leaves it complete or absent.
    fn mark(&self, phase: &str, number: u64) {
        if let Some(file) = &self.file {
            let line = format!("{phase} {number} {}\n", now_us());
            file.lock().expect("no holder panics").write_all(line.as_bytes()).expect("the disk has room for the marks");
        }
    }
}

/// A payload without an action: 100 bytes in our encoding.
pub(crate) fn noop() -> String {
    "x".repeat(95)
}

fn number(payload: &str, kind: char) -> Option<u64> {
    payload.strip_prefix(kind)?.parse().ok()
}

/// Wall-clock microseconds since 1970; comparable between processes of one machine.
#[must_use]
pub fn now_us() -> u64 {
    let now = SystemTime::UNIX_EPOCH.elapsed().expect("the clock is past 1970");
    u64::try_from(now.as_micros()).expect("fits for ages")
}
