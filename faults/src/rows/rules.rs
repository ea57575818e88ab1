//! Rules of queues, and people who change them and what waits, under workers that die.

use std::time::Duration;

use super::{BOTH, EVERY, Grade, Harming, Row, Unmet, deaths::killed, missed, taken_back};
use crate::{
    bed::{Bed, Column, Setup},
    checker::{Summary, Terms},
    process::Mix,
    work::{Deed, QUEUE},
};

pub(super) const ROWS: &[Row] = &[
    Row {
        number: "M87",
        name: "workers are killed, while jobs of ordered groups fail, snooze and hold their lines",
        grade: Grade::S,
        columns: EVERY,
        setup: ordered,
        harm: |bed| killed(bed, 12),
        expect: taken_back,
    },
    Row {
        number: "M88",
        name: "workers are killed, while critical jobs never end and jobs of low priority wait for them to rise",
        grade: Grade::S,
        columns: BOTH,
        setup: aging,
        harm: |bed| killed(bed, 6),
        expect: |summary| match summary.aged {
            aged if aged < 20 => Err(missed(format!("{aged} jobs are known to have waited until they had risen"))),
            _ => Ok(()),
        },
    },
    Row {
        number: "M89",
        name: "a person changes how many jobs of a key may run, again and again, while workers are killed",
        grade: Grade::S,
        columns: EVERY,
        setup: limited,
        harm: capped,
        expect: taken_back,
    },
    Row {
        number: "M90",
        name: "waiting jobs are edited while they become due, start and wait for another attempt, and workers are killed; of several servers another one takes over",
        grade: Grade::S,
        columns: EVERY,
        setup: edited,
        harm: edits,
        expect: both_won,
    },
];

fn ordered() -> Setup {
    let deeds = vec![Deed::Return, Deed::Return, Deed::Return, Deed::Return, Deed::Fail(1), Deed::Panic(1), Deed::Snooze(1)];
    let mix = Mix { deeds, groups: 8, given: 10, ..Mix::plain(20) };
    let setup = Setup::default();
    let terms = Terms { ordered: vec![(QUEUE.to_owned(), mix.groups)], ..setup.terms };
    Setup { workers: 3, jobs: 500, pause_ms: 10, mix, terms, ..setup }
}

/// Far more than the workers have slots for.
fn aging() -> Setup {
    let setup = Setup::default();
    let terms = Terms { aging_ms: Some(250), ..setup.terms };
    Setup { concurrency: 4, jobs: 1_500, pause_ms: 12, mix: Mix { low: 20, ..Mix::plain(70) }, terms, ..setup }
}

fn limited() -> Setup {
    let mix = Mix { groups: 4, limited: true, ..Mix::plain(40) };
    let setup = Setup::default();
    let terms = Terms { groups: Some((mix.groups, 2)), turns: false, ..setup.terms };
    Setup { workers: 3, jobs: 800, pause_ms: 10, mix, terms, ..setup }
}

fn edited() -> Setup {
    let deeds = vec![Deed::Return, Deed::Return, Deed::Fail(1), Deed::Snooze(1)];
    let mix = Mix { deeds, delayed: 2, edited: 2, cancel_ms: 300, ..Mix::plain(20) };
    Setup { workers: 3, callers: 16, jobs: 1_000, pause_ms: 10, mix, ..Setup::default() }
}

fn capped(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        for n in 0..30 {
            let pause = bed.ms(20, 160);
            bed.pass(pause).await?;
            let cap = bed.rng.usize(1..=5);
            bed.cap(cap).await;
            if n % 3 == 2 {
                let worker = bed.any_worker();
                bed.until("a worker to begin", async |bed| bed.workers[worker].has_spoken()).await?;
                bed.replace(worker)?;
            }
        }
        Ok(())
    })
}

fn edits(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        bed.harm("edits", "broker");
        killed(bed, 6).await?;
        if matches!(bed.column(), Column::Sentinel | Column::Cluster) {
            bed.hand_over()?;
        }
        bed.pass(Duration::from_millis(500)).await
    })
}

/// Some edits came in time, and some too late.
fn both_won(summary: &Summary) -> Result<(), Unmet> {
    let (came, ran) = (summary.edited, summary.ran_edited);
    if came < 50 || ran < 50 { Err(missed(format!("{came} jobs were edited in time, and {ran} ran so"))) } else { taken_back(summary) }
}
