//! Clocks that are wrong: those of workers, and that of the broker.

use std::time::Duration;

use queue_core::broker::{Counter, JobState};

use super::{Grade, Harming, REDIS, Row, SENTINEL, SQLITE, Unmet, anything, taken_back};
use crate::{
    bed::{Bed, Problem, Setup},
    checker::{Summary, Terms},
    process::Mix,
};

pub(super) const ROWS: &[Row] = &[
    Row {
        number: "M52",
        name: "clocks of workers are wrong by an hour and a day, either way",
        grade: Grade::S,
        columns: REDIS,
        setup: || Setup { mix: Mix { ms: 40, delayed: 3, ..Mix::default() }, ..Setup::default() },
        harm: wrong_clocks,
        expect: anything,
    },
    Row {
        number: "M53",
        name: "the server's clock is put forward by an hour, then back by two, and a worker is killed before each step",
        grade: Grade::S,
        columns: REDIS,
        setup: moved,
        harm: moved_server,
        expect: in_time,
    },
    Row {
        number: "M53b",
        name: "a server whose clock is ten minutes slower takes over, and a worker is killed just before",
        grade: Grade::S,
        columns: SENTINEL,
        setup: moved,
        harm: slower_heir,
        expect: in_time,
    },
    Row {
        number: "M53c",
        name: "the clock of the machine with the file was an hour ahead under a worker that was killed",
        grade: Grade::S,
        columns: SQLITE,
        setup: moved,
        harm: moved_machine,
        expect: in_time,
    },
];

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;

/// Long jobs, so that a worker that dies holds some; none of them waits for a time, which a clock
/// that is wrong makes wrong.
fn moved() -> Setup {
    let setup = Setup::default();
    let terms = Terms { clock_moves: true, ..setup.terms };
    Setup { jobs: 1_000, own_clocks: true, mix: Mix::plain(400), terms, ..setup }
}

/// How much longer than its lease the jobs of a dead worker wait, whatever the clock does: a pass,
/// the time between two looks, and a claim.
const BEYOND_THE_LEASE: Duration = Duration::from_secs(12);

fn in_time(summary: &Summary) -> Result<(), Unmet> {
    taken_back(summary)?;
    let longest = Duration::from_millis(summary.recovery_ms.last().copied().unwrap_or(0));
    let allowed = Duration::from_millis(moved().terms.lease_ms) + BEYOND_THE_LEASE;
    if longest <= allowed { Ok(()) } else { Err(format!("a job of a worker that was killed waited {longest:?}").into()) }
}

fn wrong_clocks(bed: &mut Bed) -> Harming<'_> {
    const HOUR_MS: i64 = 1_000 * HOUR;
    Box::pin(async move {
        for moved_ms in [HOUR_MS, -HOUR_MS, 24 * HOUR_MS, -24 * HOUR_MS] {
            let worker = bed.start_worker_at(moved_ms)?;
            let name = bed.workers[worker].name().to_owned();
            bed.harm("wrong clock", &name);
            let right = bed.any_worker();
            // Its jobs are taken back by those whose clocks are wrong.
            bed.kill(right);
            bed.start_worker()?;
            let pause = bed.ms(300, 900);
            bed.pass(pause).await?;
        }
        Ok(())
    })
}

fn moved_server(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        bed.progress(50).await?;
        for wrong_by in [HOUR, -HOUR, 0] {
            killed(bed).await?;
            bed.move_clock(wrong_by)?;
            recovered(bed).await?;
        }
        Ok(())
    })
}

fn slower_heir(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        bed.progress(50).await?;
        bed.move_clock(10 * MINUTE)?;
        // All leases are renewed by the faster clock.
        let renewed = bed.lease();
        bed.pass(renewed).await?;
        killed(bed).await?;
        bed.hand_over()?;
        recovered(bed).await
    })
}

fn moved_machine(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        bed.progress(50).await?;
        while bed.workers.iter().any(|worker| worker.is_alive()) {
            let worker = bed.any_worker();
            bed.end(worker).await?;
        }
        let ahead = bed.start_worker_at(1_000 * HOUR)?;
        bed.until("the worker to run jobs", async |bed| bed.workers[ahead].has_spoken()).await?;
        let pause = bed.ms(500, 1_000);
        bed.pass(pause).await?;
        bed.kill(ahead);
        bed.start_worker()?;
        bed.start_worker()?;
        recovered(bed).await
    })
}

/// Kills a worker at a time at which it holds jobs.
async fn killed(bed: &mut Bed) -> Result<(), Problem> {
    let pause = bed.ms(300, 900);
    bed.pass(pause).await?;
    let worker = bed.any_worker();
    bed.kill(worker);
    bed.start_worker()?;
    Ok(())
}

/// Waits until jobs of a worker that was killed were taken back once more, and wait for nothing:
/// not for a time by the clock of now.
async fn recovered(bed: &mut Bed) -> Result<(), Problem> {
    let before = bed.counter(Counter::Reclaimed).await;
    let taken_back = async |bed: &mut Bed| bed.counter(Counter::Reclaimed).await > before && bed.depth(JobState::Retry).await == 0;
    bed.until("jobs to be taken back", taken_back).await
}
