//! What happens to worker processes.

use queue_core::broker::JobState;
use queue_tests::proxy::Harm;

use super::{BOTH, EVERY, Grade, Harming, REDIS, Row, anything, missed, no_duplicates, taken_back};
use crate::{
    bed::{Bed, Setup},
    checker::Terms,
    process::Mix,
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
        number: "M6",
        name: "handlers block every thread of the runtime for two leases",
        grade: Grade::S,
        columns: BOTH,
        setup: || {
            let setup = Setup::default();
            let terms = Terms { renewals: true, lease_ms: 3_000, ..setup.terms };
            let mix = Mix { deeds: vec![Deed::Block], ..Mix::plain(6_000) };
            Setup { jobs: 16, concurrency: 4, mix, terms, ..setup }
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
        number: "M13",
        name: "SIGTERM, again and again",
        grade: Grade::S,
        columns: EVERY,
        setup: || Setup { jobs: 3_000, mix: Mix { ms: 40, ..Mix::default() }, ..Setup::default() },
        harm: terminated,
        // Who is in a hurry gives back what runs.
        expect: |summary| match summary.duplicates.keys().find(|cause| **cause != "return") {
            Some(cause) => Err(format!("jobs ran twice, by {cause}").into()),
            None => Ok(()),
        },
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
        number: "M57",
        name: "jobs are cancelled while they start, end and wait for another attempt",
        grade: Grade::S,
        columns: BOTH,
        setup: || {
            let mix =
                Mix { ms: 10, deeds: vec![Deed::Return, Deed::Fail(1), Deed::Snooze(1)], cancelled: 2, cancel_ms: 120, ..Mix::default() };
            Setup { callers: 16, jobs: 3_000, pause_ms: 2, mix, ..Setup::default() }
        },
        harm: |bed| {
            Box::pin(async move {
                bed.harm("cancels", "broker");
                bed.progress(1_000).await
            })
        },
        expect: |summary| {
            let (came, late) = (summary.cancelled, summary.too_late);
            if came > 100 && late > 100 {
                no_duplicates(summary)
            } else {
                Err(missed(format!("{came} cancels came in time and {late} too late")))
            }
        },
    },
];

fn zombie(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        for round in 1..=2 {
            bed.progress(round * 150).await?;
            let worker = bed.any_worker();
            bed.stop(worker);
            // A suspect after a lease, taken back a fifth of one later; then its heirs run what it
            // still believes to hold.
            let held = bed.lease() * 2 + bed.ms(0, 800);
            bed.pass(held).await?;
            bed.go_on(worker);
        }
        Ok(())
    })
}

fn terminated(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        for _ in 0..25 {
            let pause = bed.ms(0, 300);
            bed.pass(pause).await?;
            let worker = bed.any_worker();
            let name = bed.workers[worker].name().to_owned();
            bed.harm("terminate", &name);
            // Some are in a hurry, and some have only just begun.
            let (twice, at_once) = (bed.rng.bool(), bed.rng.u8(..4) == 0);
            if twice {
                bed.workers[worker].signal("-TERM");
            }
            let heard = bed.workers[worker].has_spoken();
            let code = bed.end(worker).await?;
            // One that has only just been started may end by the signal itself.
            if !(code == Some(0) || twice && code == Some(3) || !heard && code.is_none()) {
                return Err(format!("{name} was told to stop and ended with {code:?}").into());
            }
            let next = bed.start_worker()?;
            if at_once {
                bed.until("a worker to be at work", async |bed| bed.workers[next].has_spoken()).await?;
                bed.harm("terminate", bed.workers[next].name());
                bed.end(next).await?;
                bed.start_worker()?;
            }
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
        bed.end(worker).await?;
        bed.start_worker()?;
        Ok(())
    })
}

fn rolling(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        bed.until("jobs of an unknown task to be set aside", async |bed| bed.depth(JobState::Parked).await > 20).await?;
        bed.harm("deploy", "workers");
        for _ in 0..bed.setup().workers {
            let worker = bed.any_worker();
            bed.end(worker).await?;
            bed.start_worker_with(None, true)?;
        }
        Ok(())
    })
}
