//! Jobs that write down when they start and when they end, and the journal in which they do.
//!
//! A line has a word, the job's number, its attempt, its crashes and the process.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::Path,
};

use queue_core::prelude::*;

/// A file to which several processes append.
#[derive(Debug)]
pub struct Journal(File);

impl Journal {
    /// Opens it.
    ///
    /// # Panics
    /// When it cannot be opened.
    pub fn open(path: &Path) -> Self {
        Journal(OpenOptions::new().create(true).append(true).open(path).expect("the journal can be opened"))
    }

    /// One write per line, so that the lines of several processes do not mix.
    fn note(&self, word: &str, number: u32, ctx: &JobContext) {
        let line = format!("{word} {number} {} {} {}\n", ctx.attempt(), ctx.crashes(), std::process::id());
        (&self.0).write_all(line.as_bytes()).expect("the journal can be written");
    }
}

/// Takes so many milliseconds.
#[task(queue = "chronicle")]
pub async fn record(number: u32, ms: u64, journal: State<Journal>, ctx: JobContext) {
    journal.note("start", number, &ctx);
    tokio::time::sleep(Duration::from_millis(ms)).await;
    journal.note("end", number, &ctx);
}

/// Takes its process along, every time.
#[task(queue = "chronicle")]
pub async fn abort(number: u32, journal: State<Journal>, ctx: JobContext) {
    journal.note("start", number, &ctx);
    std::process::abort();
}
