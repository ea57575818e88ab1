//! What people do to all jobs that match, and callers that wait, while processes die and other
//! servers take over.

use std::time::{Duration, SystemTime};

use queue_core::JobResult;

use super::{EVERY, Grade, Harming, Row, SENTINEL, SEVERAL, anything, missed};
use crate::{
    bed::{Bed, Column, Problem, Setup},
    checker::Terms,
    process::{Mix, take_steps},
    work::Plan,
};
use queue_conformance::patience::patience;

pub(super) const ROWS: &[Row] = &[
    Row {
        number: "M91",
        name: "the process that cancels all jobs that match is killed again and again, while workers run others of the queue",
        grade: Grade::S,
        columns: EVERY,
        setup: busy,
        harm: runner_killed,
        expect: anything,
    },
    Row {
        number: "M92",
        name: "the replica takes over, as planned, while all jobs that match are cancelled",
        grade: Grade::S,
        columns: SEVERAL,
        setup: busy,
        harm: |bed| fails_over(bed, false),
        expect: anything,
    },
    Row {
        number: "M93",
        name: "the master is killed while all jobs that match are cancelled, and its replica lacks the last steps",
        grade: Grade::S,
        columns: SEVERAL,
        setup: || {
            let setup = busy();
            let terms = Terms { volatile: true, ..setup.terms };
            Setup { terms, ..setup }
        },
        harm: |bed| fails_over(bed, true),
        expect: anything,
    },
    Row {
        number: "M94",
        name: "callers wait for jobs during two planned failovers; each soon learns that its job has ended",
        grade: Grade::S,
        columns: SENTINEL,
        setup: busy,
        harm: waits,
        expect: anything,
    },
];

fn busy() -> Setup {
    Setup { workers: 2, jobs: 1_500, pause_ms: 4, mix: Mix { ms: 10, ..Mix::default() }, ..Setup::default() }
}

/// Jobs that stand still.
const STANDING: u64 = 4_000;

/// How many processes that take steps are killed, if the operation has not ended before.
const KILLS: u32 = 10;

fn runner_killed(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        bed.stand(STANDING).await?;
        let operation = bed.cancel_standing(STANDING).await?;
        // A request of a process that was killed may lie on its way, and count as a step later:
        // each process takes steps under a name of its own.
        let mut runners: Vec<Option<String>> = Vec::new();
        let mut kills = 0;
        while kills < KILLS {
            let before = bed.operation(&operation).await.ok_or("the broker does not answer before a process is started")?;
            runners.push(before.runner);
            let mut operator = bed.start_operator(&operation, Duration::from_millis(30))?;
            let (of, known) = (operation.clone(), runners.clone());
            let begun = async |bed: &mut Bed| bed.operation(&of).await.is_some_and(|now| !known.contains(&now.runner) || !now.is_running());
            bed.until("a process to take steps", begun).await?;
            // Most of its life lies between two steps then, also between those of one page.
            operator.slow();
            let life = if bed.column() == Column::Redis { bed.ms(300, 1_500) } else { bed.ms(0, 120) };
            bed.pass(life).await?;
            let ended = bed.operation(&operation).await.is_some_and(|operation| !operation.is_running());
            if ended {
                break;
            }
            bed.harm("kill", "operator");
            operator.kill();
            kills += 1;
        }
        let _last = bed.start_operator(&operation, Duration::ZERO)?;
        let ended = bed.is_carried_out(&operation, STANDING).await?;
        // Taking it over counts as a step, and each page has two.
        if kills < 3 || ended.step < STANDING / 200 + 3 {
            return Err(missed(format!("{kills} processes were killed, and the operation has {} steps", ended.step)).into());
        }
        Ok(())
    })
}

fn fails_over(bed: &mut Bed, is_lossy: bool) -> Harming<'_> {
    Box::pin(async move {
        bed.stand(STANDING).await?;
        let operation = bed.cancel_standing(STANDING).await?;
        // That it was started is not lost.
        bed.settled()?;
        let (inspector, id) = (bed.client.inspector(), operation.clone());
        let runner = tokio::spawn(async move { take_steps(&inspector, &id, Duration::from_millis(100)).await });
        let of = operation.clone();
        bed.until("the operation to be under way", async |bed| bed.operation(&of).await.is_some_and(|now| now.changed > 500)).await?;
        let mut known = 0;
        if is_lossy {
            bed.cut_off_replicas()?;
            known = bed.operation(&operation).await.map_or(0, |now| now.step);
            let lost = bed.ms(200, 400);
            bed.pass(lost).await?;
            // On a slow machine the next step takes longer.
            let of = operation.clone();
            let goes_on = async |bed: &mut Bed| bed.operation(&of).await.is_some_and(|now| now.step > known || !now.is_running());
            bed.until("a step that no replica has", goes_on).await?;
        }
        let before = bed.operation(&operation).await.ok_or("the broker does not answer before anything was done to it")?;
        if is_lossy {
            bed.kill_master()?;
            bed.wait_for_promotion()?;
        } else {
            bed.hand_over()?;
        }
        let own = runner.await??;
        let ended = bed.is_carried_out(&operation, STANDING).await?;
        if own.is_running() || own.changed != ended.changed {
            return Err(format!("its runner believes that it is {own:?}, and it is {ended:?}").into());
        }
        if is_lossy && before.step <= known {
            return Err(missed("the server that takes over lacks no step").into());
        }
        if !before.is_running() {
            return Err(missed("the operation had ended before the other server took over").into());
        }
        if is_lossy { bed.bring_back() } else { Ok(()) }
    })
}

/// Jobs for which a caller waits, and the longest of them in milliseconds.
const AWAITED: u64 = 60;
const LONGEST: u32 = 4_000;

/// A caller looks by itself within five seconds at first, and then every five seconds. By then the
/// first jobs start, and another server takes over.
const LOOKED: Duration = Duration::from_millis(5_200);

/// A caller is told of the end of its job within this time, although it has not looked by itself:
/// it listens to the server that has taken over, and looks when it begins to.
const TOLD_WITHIN: Duration = Duration::from_millis(3_000);

fn waits(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        let mut waiting = Vec::new();
        for n in 0..AWAITED {
            let ms = bed.rng.u32(0..LONGEST);
            let handle = bed.enqueue_one(n, Plan { ms, ..Plan::default() }, LOOKED).await?;
            waiting.push(tokio::spawn(async move { (handle.wait(patience()).await, SystemTime::now(), handle) }));
        }
        bed.pass(LOOKED).await?;
        for _ in 0..2 {
            let pause = bed.ms(100, 800);
            bed.pass(pause).await?;
            bed.hand_over()?;
            bed.settled()?;
        }
        let mut late = Vec::new();
        for waits in waiting {
            let (told, at, handle) = waits.await?;
            match told {
                Ok(JobResult::Done(_)) => {}
                other => return Err(format!("a caller that was there when its job has ended was told {other:?}").into()),
            }
            let ended = bed.client.inspector().show(handle.address()).await?.ended_at.ok_or("a job that is done has no end")?;
            late.push(at.duration_since(ended).unwrap_or_default());
        }
        late.sort_unstable();
        let latest = late.last().copied().unwrap_or_default();
        bed.measured("the latest caller was told after", latest);
        if latest > TOLD_WITHIN {
            return Err(format!("callers were told later than {TOLD_WITHIN:?} after the end of their jobs: {late:?}").into());
        }
        Ok::<(), Problem>(())
    })
}
