//! Everything together, in an order that only the seed knows.

use queue_conformance::patience::patience;
use queue_tests::proxy::Harm;

use super::{EVERY, Grade, Harming, Row, anything};
use crate::{
    bed::{Bed, Column, Problem, Setup},
    checker::Terms,
    process::Mix,
    recording::Failpoint,
    work::Deed,
};

pub(super) const ROWS: &[Row] = &[Row {
    number: "M73",
    name: "all of it, at random",
    grade: Grade::S,
    columns: EVERY,
    setup: || {
        let setup = Setup::default();
        let deeds = [Deed::Return; 8].into_iter().chain([Deed::Fail(1), Deed::Fail(2), Deed::Panic(1), Deed::Snooze(2)]).collect();
        let mix = Mix { ms: 8, deeds, cancelled: 30, bytes: 300, ..Mix::default() };
        let terms = Terms { drain_ms: 120_000, ..setup.terms };
        Setup {
            workers: 3,
            jobs: 12_000,
            callers: 8,
            pause_ms: 3,
            mix,
            terms,
            server: &["--appendonly", "yes", "--appendfsync", "always"],
            ..setup
        }
    },
    harm: at_random,
    expect: anything,
}];

fn at_random(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        let alone = bed.column() == Column::Sqlite;
        for _ in 0..12 {
            let pause = bed.ms(0, 400);
            bed.pass(pause).await?;
            match bed.rng.u8(..if alone { 5 } else { 12 }) {
                0 => {
                    let worker = bed.any_worker();
                    bed.kill(worker);
                    bed.start_worker()?;
                }
                1 => {
                    let worker = bed.any_worker();
                    bed.stop(worker);
                    let time = bed.ms(10, 3_500);
                    bed.pass(time).await?;
                    bed.go_on(worker);
                }
                2 => {
                    let worker = bed.any_worker();
                    bed.end(worker).await?;
                    bed.start_worker()?;
                }
                3 | 4 => {
                    let n = bed.rng.u32(1..30);
                    let failpoint = if bed.rng.bool() { Failpoint::BeforeFinish(n) } else { Failpoint::AfterClaim(n) };
                    bed.start_worker_with(Some(failpoint), false)?;
                }
                _ if bed.server().is_ok() => to_a_server(bed).await?,
                _ => to_several(bed)?,
            }
        }
        Ok(())
    })
}

/// What servers can suffer of which one takes another's place, and nothing is lost. Sentinels that
/// stand still take a sound master for dead when they go on, and what it takes in meanwhile is
/// lost: that is M41.
fn to_several(bed: &mut Bed) -> Result<(), Problem> {
    if bed.column() == Column::Cluster && bed.rng.bool() {
        bed.move_slot()
    } else {
        bed.hand_over()?;
        bed.settled()
    }
}

/// What only a server and the lines to it can suffer.
async fn to_a_server(bed: &mut Bed) -> Result<(), Problem> {
    match bed.rng.u8(..8) {
        0 => {
            bed.harm("kill", "broker");
            bed.server()?.kill();
            let time = bed.ms(0, 500);
            bed.pass(time).await?;
            bed.server()?.restart();
        }
        1 => {
            bed.harm("stop", "broker");
            bed.server()?.pause();
            let time = bed.ms(10, 4_000);
            bed.pass(time).await?;
            bed.server()?.resume();
        }
        2 => {
            bed.harm("maxmemory", "broker");
            bed.set("maxmemory", "1mb")?;
            let time = bed.ms(10, 800);
            bed.pass(time).await?;
            bed.set("maxmemory", "0")?;
        }
        3 => {
            bed.harm("flush scripts", "broker");
            let _: () = bed.server()?.ask_patiently(&["SCRIPT", "FLUSH"], patience())?;
        }
        _ => {
            let harms = [Harm::BlackHole, Harm::SwallowReplies, Harm::CutReplies, Harm::CutRequests, Harm::Refuse, Harm::Slow, Harm::Hold];
            let harm = harms[bed.rng.usize(..harms.len())];
            if bed.rng.bool() {
                bed.harm_producers(harm);
            } else {
                let worker = bed.any_worker();
                bed.harm_line(worker, harm);
            }
            let time = bed.ms(10, 2_500);
            bed.pass(time).await?;
            bed.clear_lines();
        }
    }
    Ok(())
}
