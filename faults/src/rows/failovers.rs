//! What happens to several servers of which one takes another's place.

use super::{CLUSTER, Grade, Harming, Row, SENTINEL, SEVERAL, anything};
use crate::{
    bed::{Bed, Problem, Setup},
    checker::Terms,
    process::Mix,
};

pub(super) const ROWS: &[Row] = &[
    Row {
        number: "M38",
        name: "two planned failovers",
        grade: Grade::S,
        columns: SEVERAL,
        setup: steady,
        harm: |bed| twice(bed, Bed::hand_over),
        expect: anything,
    },
    Row {
        number: "M39",
        name: "the master is killed, and its replica may lack the last writes",
        grade: Grade::S,
        columns: SENTINEL,
        setup: lossy,
        harm: master_killed,
        expect: anything,
    },
    Row {
        number: "M41",
        name: "the master is killed, and the sentinels stand still",
        grade: Grade::A,
        columns: SENTINEL,
        setup: lossy,
        harm: |bed| {
            Box::pin(async move {
                bed.progress(100).await?;
                bed.kill_master()?;
                // Long before they would take it for dead. Nobody names another master, and workers
                // ask again and again.
                bed.pause_sentinels(true)?;
                let away = bed.ms(2_000, 6_000);
                bed.pass(away).await?;
                bed.pause_sentinels(false)?;
                bed.wait_for_promotion()
            })
        },
        expect: anything,
    },
    Row {
        number: "M47",
        name: "the slot of the queue moves to another node",
        grade: Grade::A,
        columns: CLUSTER,
        setup: steady,
        harm: |bed| twice(bed, Bed::move_slot),
        expect: anything,
    },
    Row {
        number: "M48",
        name: "a master of the cluster is killed, and its replica may lack the last writes",
        grade: Grade::A,
        columns: CLUSTER,
        setup: lossy,
        harm: master_killed,
        expect: anything,
    },
];

fn steady() -> Setup {
    Setup { mix: Mix { ms: 30, ..Mix::default() }, pause_ms: 10, ..Setup::default() }
}

/// Replication is asynchronous: what was acknowledged in the last moment may be lost, and nothing
/// else.
fn lossy() -> Setup {
    let setup = steady();
    let terms = Terms { volatile: true, ..setup.terms };
    Setup { terms, ..setup }
}

fn twice(bed: &mut Bed, harm: fn(&mut Bed) -> Result<(), Problem>) -> Harming<'_> {
    Box::pin(async move {
        for _ in 0..2 {
            let pause = bed.ms(300, 1_200);
            bed.pass(pause).await?;
            harm(bed)?;
        }
        Ok(())
    })
}

fn master_killed(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        bed.progress(100).await?;
        let pause = bed.ms(0, 500);
        bed.pass(pause).await?;
        bed.kill_master()?;
        bed.wait_for_promotion()?;
        let pause = bed.ms(500, 1_500);
        bed.pass(pause).await?;
        bed.bring_back()
    })
}
