//! What happens between processes and their server.

use std::time::Duration;

use queue_tests::proxy::Harm;

use super::{Grade, Harming, REDIS, Row, anything, no_duplicates, taken_back};
use crate::{
    bed::{Bed, Setup},
    process::Mix,
};

pub(super) const ROWS: &[Row] = &[
    Row {
        number: "M19",
        name: "replies to enqueues are cut off while workers run the jobs and callers try again",
        grade: Grade::S,
        columns: REDIS,
        setup: || Setup { callers: 16, pause_ms: 2, deadline_ms: 300, mix: Mix { ms: 0, ..Mix::default() }, ..Setup::default() },
        harm: |bed| on_and_off(bed, Harm::CutReplies, true),
        expect: no_duplicates,
    },
    Row {
        number: "M20",
        name: "requests of enqueues are lost",
        grade: Grade::S,
        columns: REDIS,
        setup: || Setup { callers: 16, pause_ms: 2, mix: Mix { ms: 0, ..Mix::default() }, ..Setup::default() },
        harm: |bed| on_and_off(bed, Harm::CutRequests, true),
        expect: no_duplicates,
    },
    Row {
        number: "M21",
        name: "replies to claims and acks are cut off",
        grade: Grade::S,
        columns: REDIS,
        setup: Setup::default,
        harm: |bed| on_and_off(bed, Harm::CutReplies, false),
        expect: no_duplicates,
    },
    Row {
        number: "M22",
        name: "replies to claims and acks are swallowed",
        grade: Grade::S,
        columns: REDIS,
        setup: || Setup { pause_ms: 20, ..Setup::default() },
        harm: |bed| for_a_while(bed, Harm::SwallowReplies, 300, 2_500),
        expect: anything,
    },
    Row {
        number: "M23",
        name: "acks are held back beyond the lease",
        grade: Grade::S,
        columns: REDIS,
        setup: || Setup { mix: Mix { ms: 40, ..Mix::default() }, ..Setup::default() },
        harm: |bed| for_a_while(bed, Harm::Hold, 3_200, 4_000),
        expect: taken_back,
    },
    Row {
        number: "M25",
        name: "a connection is a black hole",
        grade: Grade::S,
        columns: REDIS,
        setup: || Setup { jobs: 800, pause_ms: 20, ..Setup::default() },
        harm: black_hole,
        expect: anything,
    },
    Row {
        number: "M26",
        name: "a line is slow, then drips",
        grade: Grade::A,
        columns: REDIS,
        setup: || Setup { pause_ms: 10, ..Setup::default() },
        harm: |bed| {
            Box::pin(async move {
                for harm in [Harm::Slow, Harm::Drip] {
                    let worker = bed.any_worker();
                    bed.harm_line(worker, harm);
                    let time = bed.ms(500, 1500);
                    bed.pass(time).await?;
                    bed.clear_lines();
                }
                Ok(())
            })
        },
        expect: no_duplicates,
    },
    Row {
        number: "M27",
        name: "every connection is reset again and again",
        grade: Grade::S,
        columns: REDIS,
        setup: Setup::default,
        harm: |bed| {
            Box::pin(async move {
                for _ in 0..20 {
                    let worker = bed.any_worker();
                    bed.harm_line(worker, Harm::Refuse);
                    bed.harm_producers(Harm::Refuse);
                    let (off, on) = (bed.ms(10, 60), bed.ms(20, 200));
                    bed.pass(off).await?;
                    bed.clear_lines();
                    bed.pass(on).await?;
                }
                Ok(())
            })
        },
        expect: no_duplicates,
    },
    Row {
        number: "M28",
        name: "one worker is cut off, and comes back",
        grade: Grade::S,
        columns: REDIS,
        setup: || Setup { mix: Mix { ms: 60, ..Mix::default() }, ..Setup::default() },
        harm: |bed| for_a_while(bed, Harm::Refuse, 3_000, 4_000),
        expect: taken_back,
    },
    Row {
        number: "M70",
        name: "replies to enqueues of many are cut off",
        grade: Grade::A,
        columns: REDIS,
        setup: || {
            let mix = Mix { bulk: true, kept: 0, ..Mix::plain(0) };
            Setup { jobs: 20_000, callers: 4, pause_ms: 20, deadline_ms: 300, concurrency: 64, mix, ..Setup::default() }
        },
        harm: |bed| on_and_off(bed, Harm::CutReplies, true),
        expect: no_duplicates,
    },
    Row {
        number: "M68",
        name: "calls to the broker never return",
        grade: Grade::S,
        columns: REDIS,
        setup: || Setup { jobs: 800, pause_ms: 20, ..Setup::default() },
        harm: |bed| {
            Box::pin(async move {
                bed.progress(50).await?;
                for worker in 0..bed.workers.len() {
                    bed.harm_line(worker, Harm::SwallowReplies);
                }
                // Beyond the deadline of a call: whoever waits for one gives it up, and its
                // connection after the second.
                bed.pass(Duration::from_secs(6)).await?;
                bed.clear_lines();
                bed.has_hit_replies()
            })
        },
        expect: anything,
    },
];

/// Short harm to the lines of all producers, or of one worker after the other.
fn on_and_off(bed: &mut Bed, harm: Harm, producers: bool) -> Harming<'_> {
    Box::pin(async move {
        for _ in 0..20 {
            if producers {
                bed.harm_producers(harm);
            } else {
                let worker = bed.any_worker();
                bed.harm_line(worker, harm);
            }
            let (off, on) = (bed.ms(10, 120), bed.ms(5, 120));
            bed.pass(off).await?;
            bed.clear_lines();
            bed.pass(on).await?;
        }
        if harm == Harm::CutReplies { bed.has_hit_replies() } else { Ok(()) }
    })
}

/// Harm to the line of one worker at work.
fn for_a_while(bed: &mut Bed, harm: Harm, from_ms: u64, to_ms: u64) -> Harming<'_> {
    Box::pin(async move {
        bed.progress(100).await?;
        let worker = bed.any_worker();
        bed.harm_line(worker, harm);
        let time = bed.ms(from_ms, to_ms);
        bed.pass(time).await?;
        bed.clear_lines();
        if harm == Harm::SwallowReplies { bed.has_hit_replies() } else { Ok(()) }
    })
}

fn black_hole(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        bed.progress(50).await?;
        let worker = bed.any_worker();
        bed.harm_line(worker, Harm::BlackHole);
        bed.harm_producers(Harm::BlackHole);
        let time = bed.ms(2_000, 7_000);
        bed.pass(time).await?;
        bed.clear_lines();
        Ok(())
    })
}
