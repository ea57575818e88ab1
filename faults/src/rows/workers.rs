//! What happens to worker processes.

use std::time::Duration;

use queue_core::broker::State;
use queue_tests::proxy::Harm;

use super::{BOTH, EVERY, Grade, Harming, REDIS, Row, anything, no_duplicates, taken_back};
use crate::{
    bed::{Bed, Setup},
    checker::Terms,
    process::Mix,
    recording::Failpoint,
    work::Deed,
};

pub(super) const ROWS: &[Row] = &[
    Row {
        number: "M4",
        name: "a worker is stopped beyond its lease, and resumes",
        grade: Grade::S,
        columns: EVERY,
        setup: || Setup { mix: Mix { ms: 60, ..Mix::default() }, ..Setup::default() },
        harm: zombie,
        expect: taken_back,
    },
    Row {
        number: "M1",
        name: "workers are killed",
        grade: Grade::S,
        columns: EVERY,
        setup: || Setup { workers: 3, mix: Mix { ms: 40, ..Mix::default() }, ..Setup::default() },
        harm: killed,
        expect: taken_back,
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
        expect: anything,
    },
    Row {
        number: "M6",
        name: "handlers block every thread of the runtime for two leases",
        grade: Grade::S,
        columns: BOTH,
        setup: || {
            let setup = Setup::default();
            let terms = Terms { renewals: true, lease_ms: 3_000, ..setup.terms };
            Setup { jobs: 16, concurrency: 4, mix: Mix { deeds: vec![Deed::Block], ..Mix::plain(6_000) }, terms, ..setup }
        },
        harm: |bed| Box::pin(async move { bed.progress(10).await }),
        expect: no_duplicates,
    },
    Row {
        number: "M7",
        name: "handlers panic",
        grade: Grade::S,
        columns: BOTH,
        setup: || Setup { mix: Mix { deeds: vec![Deed::Panic(2), Deed::Return], max_attempts: 2, ..Mix::default() }, ..Setup::default() },
        harm: |bed| Box::pin(async move { bed.progress(500).await }),
        expect: no_duplicates,
    },
    Row {
        number: "M8",
        name: "a job aborts its process three times, with innocents beside it",
        grade: Grade::S,
        columns: BOTH,
        setup: || {
            // One in some two hundred is poison.
            let mut deeds = vec![Deed::Return; 199];
            deeds.push(Deed::Abort);
            Setup { jobs: 400, mix: Mix { ms: 30, deeds, cancelled: 0, ..Mix::default() }, ..Setup::default() }
        },
        harm: |bed| Box::pin(async move { bed.progress(300).await }),
        expect: anything,
    },
    Row {
        number: "M13",
        name: "SIGTERM, again and again",
        grade: Grade::S,
        columns: EVERY,
        setup: || Setup { mix: Mix { ms: 40, ..Mix::default() }, ..Setup::default() },
        harm: terminated,
        expect: no_duplicates,
    },
    Row {
        number: "M14",
        name: "SIGTERM while the broker does not answer",
        grade: Grade::S,
        columns: REDIS,
        setup: || Setup { mix: Mix { ms: 40, ..Mix::default() }, ..Setup::default() },
        harm: terminated_alone,
        expect: anything,
    },
    Row {
        number: "M15",
        name: "a rolling deployment brings a task that old workers do not know",
        grade: Grade::S,
        columns: BOTH,
        setup: || Setup { jobs: 600, mix: Mix { tomorrow: 3, ..Mix::default() }, ..Setup::default() },
        harm: rolling,
        expect: no_duplicates,
    },
    Row {
        number: "M52",
        name: "clocks of workers are wrong by an hour and a day, either way",
        grade: Grade::S,
        columns: REDIS,
        setup: || Setup { mix: Mix { ms: 40, delayed: 3, ..Mix::default() }, ..Setup::default() },
        harm: wrong_clocks,
        expect: anything,
    },
];

fn zombie(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        for round in 1..=2 {
            bed.progress(round * 150).await?;
            let worker = bed.any_worker();
            bed.stop(worker);
            // A suspect after a lease, taken back a fifth of one later; then its heirs run what it still believes to hold.
            let held = bed.lease() * 2 + bed.ms(0, 800);
            bed.pass(held).await?;
            bed.go_on(worker);
        }
        Ok(())
    })
}

fn killed(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        for _ in 0..4 {
            let pause = bed.ms(100, 900);
            bed.pass(pause).await?;
            let worker = bed.any_worker();
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

fn terminated(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        for _ in 0..8 {
            let pause = bed.ms(0, 400);
            bed.pass(pause).await?;
            let worker = bed.any_worker();
            let name = bed.workers[worker].name().to_owned();
            bed.harm("terminate", &name);
            let code = bed.end(worker, Duration::from_secs(20)).await?;
            if code != Some(0) {
                return Err(format!("{name} was told to stop and ended with {code:?}").into());
            }
            bed.start_worker()?;
        }
        Ok(())
    })
}

fn terminated_alone(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        bed.progress(100).await?;
        let worker = bed.any_worker();
        bed.harm_line(worker, Harm::BlackHole);
        let pause = bed.ms(0, 500);
        bed.pass(pause).await?;
        // Its grace time, and a call deadline on each side.
        bed.end(worker, Duration::from_secs(22)).await?;
        bed.start_worker()?;
        Ok(())
    })
}

fn rolling(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        bed.until("jobs of an unknown task to be set aside", Duration::from_secs(20), async |bed| bed.depth(State::Parked).await > 20)
            .await?;
        bed.harm("deploy", "workers");
        for _ in 0..bed.setup().workers {
            let worker = bed.any_worker();
            bed.end(worker, Duration::from_secs(20)).await?;
            bed.start_worker_with(None, true)?;
        }
        Ok(())
    })
}

fn wrong_clocks(bed: &mut Bed) -> Harming<'_> {
    const HOUR_MS: i64 = 3_600_000;
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
