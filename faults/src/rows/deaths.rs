//! Processes that end by a hand that is not theirs, and what comes after them.

use std::time::Duration;

use super::{BOTH, EVERY, Grade, Harming, Row, Unmet, missed, taken_back};
use crate::{
    bed::{Bed, Setup},
    checker::{RateTerms, Summary, Terms},
    process::{Mix, UNIQUE},
    recording::Failpoint,
    work::Deed,
};

pub(super) const ROWS: &[Row] = &[
    Row {
        number: "M1",
        name: "workers are killed",
        grade: Grade::S,
        columns: EVERY,
        setup: || Setup { workers: 3, jobs: 3_000, mix: Mix { ms: 40, ..Mix::default() }, ..Setup::default() },
        harm: |bed| killed(bed, 25),
        expect: taken_back,
    },
    Row {
        number: "M1b",
        name: "workers with the default lease are killed",
        grade: Grade::S,
        columns: BOTH,
        setup: || {
            let setup = Setup::default();
            // So long that each holds jobs when it dies, and rarely enough that nobody waits for a
            // free worker.
            let terms = Terms { lease_ms: Terms::default().lease_ms, drain_ms: 90_000, ..setup.terms };
            Setup { workers: 16, concurrency: 2, jobs: 500, callers: 1, pause_ms: 40, mix: Mix::plain(2_000), terms, ..setup }
        },
        harm: |bed| killed(bed, 14),
        expect: in_time,
    },
    Row {
        number: "M2",
        name: "a worker dies between the end of a handler and its ack",
        grade: Grade::S,
        columns: EVERY,
        setup: Setup::default,
        harm: |bed| dies_at(bed, Failpoint::BeforeFinish),
        expect: taken_back,
    },
    Row {
        number: "M3",
        name: "a worker dies between the reply to its claim and the start",
        grade: Grade::S,
        columns: BOTH,
        setup: Setup::default,
        harm: |bed| dies_at(bed, Failpoint::AfterClaim),
        expect: died,
    },
    Row {
        number: "M8",
        name: "a job aborts its process three times, with innocents beside it",
        grade: Grade::S,
        columns: BOTH,
        setup: || poison(Deed::Abort),
        harm: |bed| Box::pin(async move { bed.progress(300).await }),
        expect: died,
    },
    Row {
        number: "M9",
        name: "a job takes more memory than its process may have, with innocents beside it",
        grade: Grade::A,
        columns: BOTH,
        setup: || Setup { memory_mb: Some(4_000), ..poison(Deed::Eat) },
        harm: |bed| Box::pin(async move { bed.progress(300).await }),
        expect: died,
    },
    Row {
        number: "M56",
        name: "workers are killed, while jobs with a few unique keys are cancelled, fail, die and come back",
        grade: Grade::S,
        columns: EVERY,
        setup: unique,
        harm: |bed| killed(bed, 20),
        expect: taken_back,
    },
    Row {
        number: "M74",
        name: "workers are killed, while jobs of a few groups, each with a cap, fail, die, are cancelled and come back",
        grade: Grade::S,
        columns: EVERY,
        setup: grouped,
        harm: |bed| killed(bed, 20),
        expect: taken_back,
    },
    Row {
        number: "M75",
        name: "workers are killed, while jobs with two limits, by a few keys of which two may run, fail, die, are cancelled and come back",
        grade: Grade::S,
        columns: EVERY,
        setup: limited,
        harm: |bed| killed(bed, 20),
        expect: taken_back,
    },
    Row {
        number: "M78",
        name: "workers are killed at full speed, while each of a thousand keys of a limit lets one job run",
        grade: Grade::S,
        columns: BOTH,
        setup: many_keys,
        harm: |bed| killed(bed, 20),
        expect: taken_back,
    },
    Row {
        number: "M77",
        name: "workers are killed, while handlers say that they have used more of a rate than was charged",
        grade: Grade::S,
        columns: EVERY,
        setup: rated,
        harm: |bed| killed(bed, 10),
        expect: taken_back,
    },
    Row {
        number: "M76",
        name: "workers are killed, while handlers tell progress and logs",
        grade: Grade::S,
        columns: BOTH,
        setup: || {
            let mix = Mix { deeds: vec![Deed::Tell(8)], kept: 1, ..Mix::plain(900) };
            Setup { workers: 3, jobs: 300, mix, ..Setup::default() }
        },
        harm: |bed| killed(bed, 10),
        expect: taken_back,
    },
    Row {
        number: "M18",
        name: "workers are killed, and their successors have the same host and process number",
        grade: Grade::S,
        columns: BOTH,
        setup: || Setup { workers: 3, pid: Some(4_242), mix: Mix { ms: 40, ..Mix::default() }, ..Setup::default() },
        harm: |bed| killed(bed, 6),
        expect: taken_back,
    },
];

/// Each job has one of a few keys: most are skipped.
fn unique() -> Setup {
    let deeds = vec![Deed::Return, Deed::Return, Deed::Fail(1), Deed::Fail(3), Deed::Panic(1), Deed::Snooze(1)];
    let mix = Mix {
        ms: 40,
        deeds,
        given: 0,
        delayed: 6,
        kept: 6,
        cancelled: 6,
        cancel_ms: 60,
        max_attempts: 3,
        unique: UNIQUE,
        ..Mix::default()
    };
    Setup { workers: 3, jobs: 4_000, mix, ..Setup::default() }
}

/// Each job has one of a few groups, of which two jobs may run at once.
fn grouped() -> Setup {
    let deeds = vec![Deed::Return, Deed::Return, Deed::Return, Deed::Fail(1), Deed::Panic(1), Deed::Snooze(1)];
    let mix = Mix { ms: 40, deeds, cancelled: 10, cancel_ms: 60, groups: 5, ..Mix::default() };
    let setup = Setup::default();
    let terms = Terms { groups: Some((mix.groups, 2)), ..setup.terms };
    // So few slots that groups wait until they are served, too.
    Setup { workers: 3, concurrency: 2, jobs: 2_000, mix, terms, ..setup }
}

/// The same where these are keys of a limit.
fn limited() -> Setup {
    let setup = grouped();
    let terms = Terms { turns: false, ..setup.terms };
    Setup { concurrency: Setup::default().concurrency, mix: Mix { limited: true, ..setup.mix }, terms, ..setup }
}

/// Short jobs, each with one of many keys that let one job run.
fn many_keys() -> Setup {
    let mix = Mix { groups: 1_000, limited: true, ..Mix::plain(1) };
    let setup = Setup::default();
    let terms = Terms { groups: Some((mix.groups, 1)), turns: false, ..setup.terms };
    Setup { workers: 3, jobs: 8_000, mix, terms, ..setup }
}

/// Each job has a limit with a rate, and its run has used three times of what it was charged.
fn rated() -> Setup {
    let rate = RateTerms { per_second: 60, burst: 20, used: 3 };
    let mix = Mix { ms: 400, deeds: vec![Deed::Use(rate.used)], groups: 5, limited: true, ..Mix::plain(400) };
    let setup = Setup::default();
    let terms = Terms { groups: Some((mix.groups, 100)), turns: false, rate: Some(rate), ..setup.terms };
    Setup { workers: 3, jobs: 400, mix, terms, ..setup }
}

/// One job in sixty does this.
fn poison(deed: Deed) -> Setup {
    let mut deeds = vec![Deed::Return; 59];
    deeds.push(deed);
    Setup { jobs: 400, mix: Mix { ms: 30, deeds, cancelled: 0, ..Mix::default() }, ..Setup::default() }
}

fn died(summary: &Summary) -> Result<(), Unmet> {
    if summary.faults.contains_key("died") { Ok(()) } else { Err(missed("no process died")) }
}

pub(super) fn killed(bed: &mut Bed, times: u32) -> Harming<'_> {
    Box::pin(async move {
        for _ in 0..times {
            let pause = bed.ms(20, 600);
            bed.pass(pause).await?;
            let worker = bed.any_worker();
            // A process that a busy machine has not started yet holds no job: its death would harm
            // nobody.
            bed.until("a worker to begin", async |bed| bed.workers[worker].has_spoken()).await?;
            bed.kill(worker);
            bed.start_worker()?;
        }
        Ok(())
    })
}

fn dies_at(bed: &mut Bed, failpoint: fn(u32) -> Failpoint) -> Harming<'_> {
    Box::pin(async move {
        for _ in 0..3 {
            let turn = bed.rng.u32(1..20);
            bed.start_worker_with(Some(failpoint(turn)), false)?;
            let pause = bed.ms(200, 900);
            bed.pass(pause).await?;
        }
        Ok(())
    })
}

/// From a kill to the next start of a job at the default lease of 30 s: the lease, a fifth of it to
/// look again, and the time between two looks.
const RECOVERY: Duration = Duration::from_secs(41);

/// Then somebody has to claim it.
const CLAIM: Duration = Duration::from_secs(1);

fn in_time(summary: &Summary) -> Result<(), Unmet> {
    taken_back(summary)?;
    let longest = Duration::from_millis(summary.recovery_ms.last().copied().unwrap_or(0));
    if longest <= RECOVERY + CLAIM { Ok(()) } else { Err(format!("a job of a worker that was killed waited {longest:?}").into()) }
}
