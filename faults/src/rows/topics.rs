//! Topics: several subscriptions of a log, whose workers and readers are harmed.

use std::time::Duration;

use queue_core::{
    broker::{Condition, Counter, JobState},
    topics::Retention,
};

use super::{BOTH, EVERY, Grade, Harming, REDIS, Row, SEVERAL, Unmet, missed, taken_back};
use crate::{
    bed::{Bed, Setup},
    checker::{Resources, Summary, Terms},
    events::Subscriber,
    history::{Mark, now_us},
    process::Mix,
};

pub(super) const ROWS: &[Row] = &[
    Row {
        number: "M79",
        name: "workers of three subscriptions are killed while they read a topic, one of them in order by groups, and a fourth begins in the middle",
        grade: Grade::S,
        columns: EVERY,
        // Slow enough that the fourth subscription begins while events are published.
        setup: || Setup { pause_ms: 40, ..topic(Mix::events(30, GROUPS), ALL_OF_THREE) },
        harm: killed,
        expect: |summary| taken_back(summary).and_then(|()| handled(summary, &[Subscriber::Ordered, Subscriber::Plain, Subscriber::Late])),
    },
    Row {
        number: "M80",
        name: "a subscription is slow, then all its workers stand still, beside one that is fast",
        grade: Grade::S,
        columns: BOTH,
        setup: || topic(Mix::events(10, GROUPS), APART),
        harm: slow,
        expect: fast,
    },
    Row {
        number: "M81",
        name: "a topic that keeps few events is trimmed again and again while subscriptions read it, and workers are killed",
        grade: Grade::S,
        columns: EVERY,
        setup: || topic(Mix::events(20, GROUPS), ALL_OF_THREE),
        harm: |bed| trimmed(bed, Retention { count: Some(20), ..Retention::default() }),
        expect: |summary| {
            if summary.lost_events > 0 {
                return Err(format!("{} events were lost, which all subscriptions had time to read", summary.lost_events).into());
            }
            if summary.trimmed < 200 { Err(missed(format!("{} events were removed", summary.trimmed))) } else { Ok(()) }
        },
    },
    Row {
        number: "M82",
        name: "the same, and the topic waits for no subscription: what they had not read is counted",
        grade: Grade::S,
        columns: BOTH,
        setup: || topic(Mix::events(20, GROUPS), ALL_OF_THREE),
        harm: |bed| trimmed(bed, Retention { count: Some(20), lag: Some(Duration::ZERO), ..Retention::default() }),
        expect: |summary| {
            if summary.lost_events > 0 { Ok(()) } else { Err(missed("no subscription has lost an event")) }
        },
    },
    Row {
        number: "M83",
        name: "subscriptions are rewound to the start, to a time and to now while their workers are killed, and one who rewinds dies",
        grade: Grade::S,
        columns: EVERY,
        setup: || Setup { jobs: 500, ..topic(Mix::events(15, GROUPS), ALL_OF_THREE) },
        harm: rewound,
        expect: |summary| match summary.again {
            again if again > 50 => Ok(()),
            again => Err(missed(format!("{again} events were handled again"))),
        },
    },
    Row {
        number: "M84",
        name: "two planned failovers while subscriptions read a topic",
        grade: Grade::S,
        columns: SEVERAL,
        setup: || topic(Mix::events(20, GROUPS), ALL_OF_THREE),
        harm: handed_over,
        expect: |summary| handled(summary, &[Subscriber::Ordered, Subscriber::Plain, Subscriber::Slow]),
    },
    Row {
        number: "M85",
        name: "the master of a topic is killed, and its replica lacks the last entries and what was read of them",
        grade: Grade::S,
        columns: SEVERAL,
        setup: lossy,
        harm: master_killed,
        expect: |summary| match summary.forgotten_events {
            0 => Err(missed("the replica lacked no event")),
            _ => handled(summary, &[Subscriber::Ordered, Subscriber::Plain, Subscriber::Slow]),
        },
    },
    Row {
        number: "M86",
        name: "the server of a topic is full and refuses events, while those that were read are handled",
        grade: Grade::S,
        columns: REDIS,
        setup: || topic(Mix { bytes: 2_000, ..Mix::events(20, GROUPS) }, ALL_OF_THREE),
        harm: full,
        expect: |summary| match summary.refused {
            0 => Err(missed("no event was refused")),
            _ => handled(summary, &[Subscriber::Ordered, Subscriber::Plain, Subscriber::Slow]),
        },
    },
];

const GROUPS: u64 = 5;

/// What each worker serves.
const ALL_OF_THREE: &[&[Subscriber]] = &[&[Subscriber::Ordered, Subscriber::Plain, Subscriber::Slow]];
const APART: &[&[Subscriber]] = &[&[Subscriber::Ordered, Subscriber::Plain], &[Subscriber::Slow]];

fn topic(mix: Mix, subscribers: &'static [&'static [Subscriber]]) -> Setup {
    let setup = Setup::default();
    // Each subscription is a queue, with some twenty keys.
    let slack = Resources { keys: 100, ..setup.terms.slack };
    let terms = Terms { ordered: vec![(Subscriber::Ordered.queue(), mix.groups)], slack, ..setup.terms };
    Setup { workers: 4, jobs: 600, pause_ms: 15, mix, subscribers, terms, ..setup }
}

/// The topic was busy.
fn handled(summary: &Summary, by: &[Subscriber]) -> Result<(), Unmet> {
    for subscriber in by {
        let handled = summary.handled.get(&subscriber.queue()).copied().unwrap_or(0);
        if handled < 50 {
            return Err(missed(format!("{} has handled {handled} events of {}", subscriber.queue(), summary.events)));
        }
    }
    Ok(())
}

async fn kill_one(bed: &mut Bed) -> Result<(), crate::bed::Problem> {
    let worker = bed.any_worker();
    // A process that a busy machine has not started yet holds no job: its death would harm nobody.
    bed.until("a worker to begin", async |bed| bed.workers[worker].has_spoken()).await?;
    bed.replace(worker).map(drop)
}

fn killed(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        for n in 0..12 {
            let pause = bed.ms(20, 400);
            bed.pass(pause).await?;
            kill_one(bed).await?;
            if n == 0 {
                bed.start_worker_of(&[Subscriber::Late])?;
            }
        }
        Ok(())
    })
}

fn slow(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        bed.handled(Subscriber::Plain, 100).await?;
        let slow: Vec<usize> = (0..bed.workers.len()).filter(|n| bed.workers[*n].subscribers().contains(&Subscriber::Slow)).collect();
        for worker in &slow {
            bed.stop(*worker);
        }
        let away = bed.lease() + bed.ms(500, 1_500);
        bed.pass(away).await?;
        for worker in slow {
            bed.go_on(worker);
        }
        Ok(())
    })
}

/// An event waits for as long as that at most where nobody harms its subscription.
const SOON_MS: u64 = 1_500;

fn fast(summary: &Summary) -> Result<(), Unmet> {
    let waited = |of: Subscriber| summary.waited_ms.get(&of.queue()).copied().unwrap_or(0);
    let (plain, slow) = (waited(Subscriber::Plain), waited(Subscriber::Slow));
    if slow < 2 * SOON_MS {
        return Err(missed(format!("no event waited longer than {slow} ms in the slow subscription")));
    }
    if plain > SOON_MS {
        return Err(format!("an event waited {plain} ms in the fast subscription, and {slow} ms in the slow one").into());
    }
    handled(summary, &[Subscriber::Plain, Subscriber::Ordered])
}

fn trimmed(bed: &mut Bed, keep: Retention) -> Harming<'_> {
    Box::pin(async move {
        bed.keep(keep).await?;
        for n in 0..40 {
            let pause = bed.ms(10, 120);
            bed.pass(pause).await?;
            bed.trim().await;
            if n % 8 == 7 {
                kill_one(bed).await?;
            }
        }
        Ok(())
    })
}

fn handed_over(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        bed.handled(Subscriber::Plain, 40).await?;
        for _ in 0..2 {
            let pause = bed.ms(100, 600);
            bed.pass(pause).await?;
            bed.hand_over()?;
        }
        Ok(())
    })
}

/// Replication is asynchronous: what was acknowledged in the last moment may be lost, and nothing
/// else.
fn lossy() -> Setup {
    let setup = Setup { jobs: 1_000, ..topic(Mix::events(20, GROUPS), ALL_OF_THREE) };
    let terms = Terms { volatile: true, ..setup.terms };
    Setup { terms, ..setup }
}

fn master_killed(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        bed.handled(Subscriber::Plain, 100).await?;
        // What was published until then is not lost.
        bed.settled()?;
        bed.cut_off_replicas()?;
        let lacks = bed.ms(200, 600);
        bed.pass(lacks).await?;
        bed.kill_master()?;
        bed.wait_for_promotion()?;
        let pause = bed.ms(500, 1_500);
        bed.pass(pause).await?;
        bed.bring_back()
    })
}

/// How many events of the slow subscription are read before the server is full.
const WORK: u64 = 8;

/// Its events that are read and have not ended.
async fn waiting(bed: &Bed) -> u64 {
    let stats = bed.client.inspector().stats(&Subscriber::Slow.queue()).await;
    stats.map_or(0, |stats| stats.count(JobState::Ready) + stats.count(JobState::Active))
}

/// Its events that have ended.
async fn ended(bed: &Bed) -> u64 {
    let stats = bed.client.inspector().stats(&Subscriber::Slow.queue()).await;
    stats.map_or(0, |stats| stats.total(Counter::Done))
}

fn full(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        bed.handled(Subscriber::Plain, 40).await?;
        for _ in 0..2 {
            // It has read ahead what it handles then.
            bed.until("the slow subscription to have work", async |bed| waiting(bed).await >= WORK).await?;
            bed.harm("maxmemory", "broker");
            bed.set("maxmemory", "1mb")?;
            bed.until_told("the server to say that it is full", Condition::is_full).await?;
            let (work, before) = (waiting(bed).await, ended(bed).await);
            let time = bed.lease() + bed.ms(0, 500);
            bed.pass(time).await?;
            let handled = ended(bed).await - before;
            if handled < work.min(WORK) / 2 {
                return Err(format!("of {work} events that were read {handled} were handled while the server was full").into());
            }
            bed.set("maxmemory", "0")?;
            bed.until_told("the server to take events again", |condition| condition.trouble.is_none()).await?;
            bed.pass(Duration::from_millis(200)).await?;
        }
        Ok(())
    })
}

fn rewound(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        let began_ms = now_us() / 1000;
        bed.handled(Subscriber::Plain, 60).await?;
        for n in 0..3 {
            let pause = bed.ms(100, 500);
            bed.pass(pause).await?;
            kill_one(bed).await?;
            bed.rewind(Subscriber::Plain, Mark::Start, n == 1).await?;
            kill_one(bed).await?;
        }
        bed.rewind(Subscriber::Slow, Mark::Now, false).await?;
        // To the middle of what it has handled so far.
        let middle_ms = i64::try_from((began_ms + now_us() / 1000) / 2)?;
        bed.rewind(Subscriber::Ordered, Mark::AtMs(middle_ms), true).await
    })
}
