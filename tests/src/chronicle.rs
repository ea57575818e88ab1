//! Jobs that record their start and their end, and their journal.
//!
//! A line has a word, the job's number, its attempt, its crashes, the process and the time in
//! microseconds since 1970.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::Path,
    time::SystemTime,
};

use queue_core::prelude::*;

/// A file to which several processes append.
#[derive(Debug)]
pub struct Journal(File);

impl Journal {
    /// Opens the journal.
    ///
    /// # Panics
    /// If it cannot be opened.
    pub fn open(path: &Path) -> Self {
        Journal(OpenOptions::new().create(true).append(true).open(path).expect("the journal can be opened"))
    }

    /// Records the result of an enqueue.
    pub fn note_enqueue(&self, word: &str, number: u32) {
        self.write(word, number, 0, 0);
    }

    fn note(&self, word: &str, number: u32, ctx: &JobContext) {
        self.write(word, number, ctx.attempt(), ctx.crashes());
    }

    /// One write per line, so that the lines of several processes do not mix.
    fn write(&self, word: &str, number: u32, attempt: u32, crashes: u32) {
        let line = format!("{word} {number} {attempt} {crashes} {} {}\n", std::process::id(), micros(SystemTime::now()));
        (&self.0).write_all(line.as_bytes()).expect("the journal can be written");
    }
}

/// A time in the format of the journal.
///
/// # Panics
/// If it is before 1970.
pub fn micros(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).expect("the clock is past 1970");
    u64::try_from(since.as_micros()).expect("it fits for ages")
}

/// Runs for `ms` milliseconds.
#[task(queue = "chronicle")]
pub async fn record(number: u32, ms: u64, journal: Data<Journal>, ctx: JobContext) {
    journal.note("start", number, &ctx);
    tokio::time::sleep(Duration::from_millis(ms)).await;
    journal.note("end", number, &ctx);
}

/// Aborts its process at every run.
#[task(queue = "chronicle")]
pub async fn abort(number: u32, journal: Data<Journal>, ctx: JobContext) {
    journal.note("start", number, &ctx);
    std::process::abort();
}
