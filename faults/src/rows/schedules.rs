//! Schedules, under workers that die and clocks that jump.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use queue_core::schedule::{CatchUp, Overlap, Schedule};

use super::{BOTH, EVERY, Grade, Harming, Row, Unmet, missed};
use crate::{
    bed::{Bed, Column, Problem, Setup, Wanted},
    checker::{Summary, Terms},
    process::Mix,
};

pub(super) const ROWS: &[Row] = &[
    Row {
        number: "M54",
        name: "ten workers are killed and started again at random under schedules; of several servers another one takes over in the middle",
        grade: Grade::S,
        columns: EVERY,
        setup: || Setup { workers: 10, concurrency: 4, late_ticks: 6, jobs: 300, pause_ms: 20, mix: Mix::plain(5), ..Setup::default() },
        harm: flapping,
        expect: ticked,
    },
    Row {
        number: "M54b",
        name: "the server's clock steps forth by an hour and back under schedules, and workers are killed",
        grade: Grade::S,
        columns: STEPPING,
        setup: moving,
        harm: stepping,
        expect: ticked,
    },
    Row {
        number: "M55",
        name: "schedules across both changes of the clocks of a zone, a leap day, an outage of 26 hours and a change of the expression",
        grade: Grade::S,
        columns: BOTH,
        setup: moving,
        harm: across,
        expect: ticked,
    },
];

/// Where the clock of the server can be moved.
const STEPPING: &[Column] = &[Column::Redis, Column::Sentinel];

const SECOND: i64 = 1_000;
const HOUR: i64 = 3_600;

/// Of so many ticks at least the workers must have heard.
const HEARD: usize = 10;

fn ticked(summary: &Summary) -> Result<(), Unmet> {
    if summary.ticks >= HEARD { Ok(()) } else { Err(missed(format!("{} ticks were made", summary.ticks))) }
}

/// No job waits for a time, which a clock that is wrong makes wrong.
fn moving() -> Setup {
    let setup = Setup::default();
    let terms = Terms { clock_moves: true, ..setup.terms };
    Setup { workers: 3, jobs: 300, pause_ms: 20, own_clocks: true, mix: Mix::plain(5), terms, ..setup }
}

/// Schedules that tick each second or two, of every way of overlap and expression.
async fn often(bed: &mut Bed) -> Result<(), Problem> {
    let second = Duration::from_secs(1);
    for (period_ms, schedule) in [
        (SECOND, Schedule::every("every", second)),
        (SECOND, Schedule::cron("cron", "* * * * * *").tz("Europe/Berlin")),
        (SECOND, Schedule::every("skips", second).overlap(Overlap::Skip)),
        (2 * SECOND, Schedule::every("buffers", 2 * second).overlap(Overlap::BufferOne)),
    ] {
        bed.schedule(schedule.catch_up(CatchUp::All(100)), |record| Wanted::every(period_ms, record)).await?;
    }
    Ok(())
}

fn replaced(bed: &mut Bed, wrong_by: i64) -> Result<(), Problem> {
    let worker = bed.any_worker();
    bed.kill(worker);
    // On a file, the clock of the worker is that of the broker.
    if wrong_by == 0 || bed.column() == Column::Sqlite {
        bed.start_worker()?
    } else {
        bed.start_worker_at(1_000 * wrong_by)?
    };
    Ok(())
}

fn flapping(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        const KILLS: usize = 24;
        often(bed).await?;
        for n in 0..KILLS {
            let pause = bed.ms(20, 400);
            bed.pass(pause).await?;
            replaced(bed, [0, HOUR, 0, -HOUR][n % 4])?;
            if n == KILLS / 4 {
                // All at once.
                for worker in 0..bed.workers.len() {
                    if bed.workers[worker].is_alive() {
                        bed.kill(worker);
                    }
                }
                for _ in 0..bed.setup().workers {
                    bed.start_worker()?;
                }
            }
            if n == KILLS / 2 && matches!(bed.column(), Column::Sentinel | Column::Cluster) {
                bed.hand_over()?;
            }
        }
        bed.ticked().await
    })
}

fn stepping(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        often(bed).await?;
        bed.ticked().await?;
        bed.move_clock(HOUR)?;
        // Whoever starts asks what is due; others ask within half a minute.
        replaced(bed, 0)?;
        bed.ticked().await?;
        bed.ticked().await?;
        replaced(bed, 0)?;
        if bed.column() == Column::Sentinel {
            // A server takes over whose clock is right.
            bed.hand_over()?;
        } else {
            bed.move_clock(0)?;
        }
        for _ in 0..6 {
            let pause = bed.ms(100, 500);
            bed.pass(pause).await?;
            replaced(bed, 0)?;
        }
        bed.pass(Duration::from_secs(2)).await
    })
}

/// 30 March 2031, 02:30 in Berlin does not exist: 03:00 is 01:00 in UTC.
const GAP: i64 = 1_932_598_800;
/// 26 October 2031, 02:30 in Berlin is there twice, an hour apart.
const TWICE: i64 = 1_950_741_000;
/// 29 February 2032, noon.
const LEAP: i64 = 1_961_668_800;

fn across(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        // Each second, and from the change on each leap day.
        let leap = |name: &str| Schedule::cron(name, "0 12 29 2 *").catch_up(CatchUp::Skip);
        bed.schedule(Schedule::cron("changed", "* * * * * *").catch_up(CatchUp::Skip), |record| Wanted::every(SECOND, record)).await?;
        for _ in 0..3 {
            bed.ticked().await?;
        }
        bed.schedule(leap("changed"), |record| Wanted::seconds_and(record, &[1_000 * LEAP])).await?;
        bed.schedule(leap("leap"), |_| Wanted::Made(vec![1_000 * LEAP])).await?;
        let half_past_two = Schedule::cron("berlin", "30 2 * * *").tz("Europe/Berlin").catch_up(CatchUp::Skip);
        bed.schedule(half_past_two, |_| Wanted::Made(vec![1_000 * GAP, 1_000 * TWICE])).await?;
        // It begins half an hour after the leap day's noon.
        let hours = (1..=26).map(|hour| 1_000 * (LEAP + hour * HOUR)).collect();
        let start = UNIX_EPOCH + Duration::from_secs((LEAP + HOUR / 2).unsigned_abs());
        bed.schedule(Schedule::cron("hourly", "@hourly").catch_up(CatchUp::All(100)).start(start), |_| Wanted::Made(hours)).await?;

        for (name, tick) in [("berlin", GAP), ("berlin", TWICE)] {
            jump(bed, tick - 3)?;
            last(bed, name, tick).await?;
        }
        jump(bed, TWICE + HOUR - 3)?;
        bed.pass(Duration::from_secs(6)).await?;
        jump(bed, LEAP - 3)?;
        last(bed, "leap", LEAP).await?;
        last(bed, "changed", LEAP).await?;
        jump(bed, LEAP + 26 * HOUR + HOUR / 2)?;
        last(bed, "hourly", LEAP + 26 * HOUR).await
    })
}

/// Waits until a schedule has made this tick, in seconds since 1970.
async fn last(bed: &mut Bed, name: &str, tick: i64) -> Result<(), Problem> {
    let at = UNIX_EPOCH + Duration::from_secs(tick.unsigned_abs());
    let made = async |bed: &mut Bed| bed.schedule_record(name).await.is_some_and(|record| record.last == Some(at));
    bed.until(&format!("the tick {tick} of {name}"), made).await
}

/// Lets the broker believe that it is this time, in seconds since 1970. On a file, all workers are
/// killed, and others begin at that time.
fn jump(bed: &mut Bed, to: i64) -> Result<(), Problem> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let by = to - i64::try_from(now)?;
    if bed.column() == Column::Sqlite {
        bed.harm("move clock", "broker");
        for worker in 0..bed.workers.len() {
            if bed.workers[worker].is_alive() {
                bed.kill(worker);
            }
        }
        for _ in 0..bed.setup().workers {
            bed.start_worker_at(1_000 * by)?;
        }
        return Ok(());
    }
    bed.move_clock(by)?;
    replaced(bed, 0)
}
