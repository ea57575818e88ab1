//! A watcher of the queue, while other servers take over.

use std::time::Duration;

use super::{Grade, Harming, Row, SEVERAL, anything};
use crate::{
    bed::{Bed, Problem, Setup, Watcher},
    checker::Terms,
    process::Mix,
    work::Plan,
};

pub(super) const ROWS: &[Row] = &[Row {
    number: "M95",
    name: "a watcher reads during a planned failover, and during one after a crash that loses the last transitions: each gap is reported, and there is no other",
    grade: Grade::S,
    columns: SEVERAL,
    setup: busy,
    harm: watched,
    expect: anything,
}];

/// Jobs come and run until the end. What was acknowledged in the last moment before a crash may be
/// lost.
fn busy() -> Setup {
    let setup = Setup::default();
    let terms = Terms { volatile: true, ..setup.terms };
    Setup { jobs: 8_000, pause_ms: 10, mix: Mix { ms: 10, ..Mix::default() }, terms, ..setup }
}

/// Jobs of which a watcher hears in the end.
const HEARD: u64 = 20;

/// Waits until the watcher has read what happens now.
async fn reads_on(bed: &mut Bed, watcher: &Watcher) -> Result<(), Problem> {
    let told = watcher.told();
    bed.until("the watcher to read on", async |_| watcher.told() > told + 200).await
}

fn watched(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        bed.progress(100).await?;
        let watcher = bed.watch().await?;
        let pause = bed.ms(300, 900);
        bed.pass(pause).await?;
        bed.hand_over()?;
        bed.settled()?;
        reads_on(bed, &watcher).await?;
        let planned = watcher.losses();
        bed.cut_off_replicas()?;
        let lacks = bed.ms(200, 400);
        bed.pass(lacks).await?;
        reads_on(bed, &watcher).await?;
        // It reads through the crash, or is busy with something else. When it reads again, the
        // server that has taken over has given the numbers that it has read, and more, to other
        // transitions.
        watcher.reads(bed.ms(0, 1).is_zero());
        bed.kill_master()?;
        bed.wait_for_promotion()?;
        let busy = bed.ms(1_500, 2_500);
        bed.pass(busy).await?;
        watcher.reads(true);
        reads_on(bed, &watcher).await?;
        watcher.is_whole()?;
        watcher.knows_the_state_of_each_job(bed).await?;
        let all = watcher.losses();
        if planned == 0 || all == planned {
            return Err(format!(
                "a watcher was told of {planned} losses when the replica had taken over, and of {all} when that had crashed"
            )
            .into());
        }
        bed.bring_back()?;
        for n in 0..HEARD {
            let handle = bed.enqueue_one(n, Plan { ms: 5, ..Plan::default() }, Duration::ZERO).await?;
            watcher.hears_of(bed, handle.id()).await?;
        }
        watcher.is_whole()?;
        Ok::<(), Problem>(())
    })
}
