//! Runs rows, once or for as long as there is time.

use std::{
    collections::BTreeMap,
    panic::AssertUnwindSafe,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use futures_util::FutureExt;

use crate::{
    bed::{Bed, Column, Ended, Problem},
    checker::Verdict,
    rows::{Row, Unmet, missed},
};

/// What came of one run.
#[derive(Debug)]
pub struct Outcome {
    /// What replays it.
    pub seed: u64,
    /// How long it took.
    pub time: Duration,
    /// What the checker said; or why there was no run to check.
    pub verdict: Result<Verdict, Unmet>,
    /// What the row has measured, in milliseconds.
    pub figures: BTreeMap<&'static str, f64>,
    /// How often the server waited for its disk.
    pub disk_waits: u64,
    /// Where the histories are kept, when a promise was broken.
    pub histories: Option<PathBuf>,
    /// What the row expected and did not see.
    pub unmet: Option<Unmet>,
}

impl Outcome {
    /// Whether every promise held, and the row saw what it expected.
    pub fn held(&self) -> bool {
        self.problem().is_none() && self.verdict.as_ref().is_ok_and(|verdict| verdict.violations.is_empty())
    }

    /// Why there was no run to check, or what the row expected and did not see.
    pub fn problem(&self) -> Option<&Unmet> {
        self.verdict.as_ref().err().or(self.unmet.as_ref())
    }

    /// Why the run shows nothing, if its fault missed its moment. A promise that was broken counts
    /// all the same.
    pub fn inconclusive(&self) -> Option<&str> {
        let kept = self.verdict.as_ref().map_or(true, |verdict| verdict.violations.is_empty());
        match self.problem() {
            Some(Unmet::Inconclusive(why)) if kept => Some(why),
            _ => None,
        }
    }
}

/// How often an inconclusive run is repeated, each time with the next seed.
pub const REPEATS: u64 = 3;

/// Runs one row until a run is conclusive, at most [`REPEATS`] times more than once. `program` is
/// the binary of this crate, which becomes the processes. All runs are told as they end.
pub async fn conclusively(row: &Row, column: Column, seed: u64, program: &Path, mut told: impl FnMut(&Outcome)) -> Outcome {
    let mut outcome = once(row, column, seed, program).await;
    told(&outcome);
    for next in (seed + 1..).take(usize::try_from(REPEATS).unwrap_or(0)) {
        if outcome.inconclusive().is_none() {
            break;
        }
        outcome = once(row, column, next, program).await;
        told(&outcome);
    }
    outcome
}

/// Runs one row once.
pub async fn once(row: &Row, column: Column, seed: u64, program: &Path) -> Outcome {
    let began = Instant::now();
    // A server that does not start again is told by a panic.
    let verdict = AssertUnwindSafe(Box::pin(attempt(row, column, seed, program))).catch_unwind().await;
    let verdict = verdict.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Unmet::Broken(text.unwrap_or("the run panicked").to_owned()))
    });
    let (verdict, histories, disk_waits, figures) = match verdict {
        Ok(Ended { verdict, histories, disk_waits, figures }) => (Ok(verdict), histories, disk_waits, figures),
        Err(problem) => (Err(problem), None, 0, BTreeMap::new()),
    };
    let unmet = verdict.as_ref().ok().and_then(|verdict| match verdict.summary.too_late_to_hit {
        true => Some(missed("all work had ended before the first fault")),
        false => (row.expect)(&verdict.summary).err(),
    });
    Outcome { seed, time: began.elapsed(), verdict, figures, disk_waits, histories, unmet }
}

/// Its steps are boxed: without optimization, their futures in one frame overflow the stack of a
/// test.
async fn attempt(row: &Row, column: Column, seed: u64, program: &Path) -> Result<Ended, Unmet> {
    let mut bed = Box::pin(Bed::start(column, (row.setup)(), seed, program)).await.map_err(unmet)?;
    Box::pin((row.harm)(&mut bed)).await.map_err(unmet)?;
    Box::pin(bed.finish()).await.map_err(unmet)
}

fn unmet(problem: Problem) -> Unmet {
    problem.downcast::<Unmet>().map_or_else(|other| Unmet::Broken(other.to_string()), |unmet| *unmet)
}
