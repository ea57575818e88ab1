//! What happens to a SQLite file and those who share it.

use std::time::Duration;

use super::{Grade, Harming, Row, SQLITE, anything, refused};
use crate::{
    bed::{Bed, Setup},
    checker::Terms,
    power::Keeps,
    process::Mix,
};

pub(super) const ROWS: &[Row] = &[
    Row {
        number: "M4b",
        name: "processes are stopped in the middle of what they write",
        grade: Grade::A,
        columns: SQLITE,
        setup: || Setup { workers: 3, pause_ms: 1, mix: Mix { ms: 2, ..Mix::default() }, ..Setup::default() },
        harm: |bed| {
            Box::pin(async move {
                for _ in 0..10 {
                    let worker = bed.any_worker();
                    bed.stop(worker);
                    let (held, pause) = (bed.ms(50, 900), bed.ms(0, 200));
                    bed.pass(held).await?;
                    bed.go_on(worker);
                    bed.pass(pause).await?;
                }
                Ok(())
            })
        },
        expect: anything,
    },
    Row {
        number: "M60",
        name: "eight processes write to the file at once",
        grade: Grade::S,
        columns: SQLITE,
        setup: || Setup { workers: 4, producers: 4, jobs: 3_000, pause_ms: 0, mix: Mix { ms: 1, ..Mix::default() }, ..Setup::default() },
        harm: |bed| {
            Box::pin(async move {
                bed.harm("crowd", "broker");
                bed.progress(1_500).await
            })
        },
        expect: |summary| if summary.refused == 0 { Ok(()) } else { Err(format!("{} enqueues were refused", summary.refused)) },
    },
    Row {
        number: "M61",
        name: "processes are killed in the middle of what they write",
        grade: Grade::S,
        columns: SQLITE,
        setup: || Setup { workers: 4, pause_ms: 1, mix: Mix { ms: 2, ..Mix::default() }, ..Setup::default() },
        harm: |bed| {
            Box::pin(async move {
                for _ in 0..10 {
                    let worker = bed.any_worker();
                    bed.kill(worker);
                    bed.start_worker()?;
                    let pause = bed.ms(10, 250);
                    bed.pass(pause).await?;
                }
                Ok(())
            })
        },
        expect: anything,
    },
    Row {
        number: "M62",
        name: "the power fails, at any moment",
        grade: Grade::A,
        columns: SQLITE,
        setup: || recorded(Setup::default()),
        harm: |bed| cut(bed, Keeps::Everything),
        expect: anything,
    },
    Row {
        number: "M62b",
        name: "the power fails where only the end of processes is to be survived",
        grade: Grade::A,
        columns: SQLITE,
        setup: || {
            let setup = recorded(Setup::default());
            let terms = Terms { volatile: true, ..setup.terms };
            Setup { process_crash: true, terms, ..setup }
        },
        harm: |bed| cut(bed, Keeps::AllButATail),
        expect: anything,
    },
    Row {
        number: "M63",
        name: "the disk is full; jobs are acknowledged; it is freed, and all goes on",
        grade: Grade::S,
        columns: SQLITE,
        setup: || Setup { disk_mb: Some(60), mix: Mix { ms: 20, bytes: 4_000, ..Mix::default() }, pause_ms: 1, ..Setup::default() },
        harm: full,
        expect: refused,
    },
];

/// Jobs that leave a trace when they are done, and enough of them for the log to be merged a few times.
fn recorded(setup: Setup) -> Setup {
    let mix = Mix { kept: 1, cancelled: 0, bytes: 4_000, ..Mix::default() };
    Setup { workers: 2, producers: 2, jobs: 1_000, pause_ms: 1, recorded: true, mix, ..setup }
}

/// How many power cuts one recording is good for.
const CUTS: usize = 100;

fn cut(bed: &mut Bed, keeps: Keeps) -> Harming<'_> {
    Box::pin(async move {
        bed.cut_power(CUTS, keeps).await?;
        bed.power_returns().await
    })
}

fn full(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        for _ in 0..2 {
            bed.progress(100).await?;
            bed.harm("disk full", "broker");
            bed.disk()?.fill()?;
            let time = bed.lease() + bed.ms(0, 1_000);
            bed.pass(time).await?;
            bed.disk()?.free();
            bed.pass(Duration::from_millis(300)).await?;
        }
        Ok(())
    })
}
