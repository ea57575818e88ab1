//! Runs rows, once or for as long as there is time.

use std::{
    collections::BTreeMap,
    panic::AssertUnwindSafe,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use futures_util::FutureExt;

use crate::{
    bed::{Bed, Column, Ended},
    checker::Verdict,
    rows::Row,
};

/// What came of one run.
#[derive(Debug)]
pub struct Outcome {
    /// What replays it.
    pub seed: u64,
    /// How long it took.
    pub time: Duration,
    /// What the checker said; or why there was no run to check, or its harm has hit nothing.
    pub verdict: Result<Verdict, String>,
    /// What the row has measured, in milliseconds.
    pub figures: BTreeMap<&'static str, f64>,
    /// How often the server waited for its disk.
    pub disk_waits: u64,
    /// Where the histories are kept, when a promise was broken.
    pub histories: Option<PathBuf>,
    /// What the row expected and did not see.
    pub unmet: Option<String>,
}

impl Outcome {
    /// Whether every promise held, and the row saw what it expected.
    pub fn held(&self) -> bool {
        self.unmet.is_none() && self.verdict.as_ref().is_ok_and(|verdict| verdict.violations.is_empty())
    }
}

/// Runs one row once. `program` is the binary of this crate, which becomes the processes.
pub async fn once(row: &Row, column: Column, seed: u64, program: &Path) -> Outcome {
    let began = Instant::now();
    // A server that does not start again is told by a panic.
    let verdict = AssertUnwindSafe(attempt(row, column, seed, program)).catch_unwind().await;
    let verdict = verdict.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(text.unwrap_or("the run panicked").to_owned())
    });
    let (verdict, histories, disk_waits, figures) = match verdict {
        Ok(Ended { verdict, histories, disk_waits, figures }) => (Ok(verdict), histories, disk_waits, figures),
        Err(problem) => (Err(problem), None, 0, BTreeMap::new()),
    };
    let unmet = verdict.as_ref().ok().and_then(|verdict| (row.expect)(&verdict.summary).err());
    Outcome { seed, time: began.elapsed(), verdict, figures, disk_waits, histories, unmet }
}

async fn attempt(row: &Row, column: Column, seed: u64, program: &Path) -> Result<Ended, String> {
    let mut bed = Bed::start(column, (row.setup)(), seed, program).await.map_err(|problem| problem.to_string())?;
    (row.harm)(&mut bed).await.map_err(|problem| problem.to_string())?;
    bed.finish().await.map_err(|problem| problem.to_string())
}
