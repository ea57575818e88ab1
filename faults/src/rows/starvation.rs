//! Nothing starves, and nothing is searched for in vain: suspects, poison beside long jobs, names
//! that are used once, and queues in which nothing may start.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use queue_conformance::patience::patience;
use queue_core::{
    broker::{Counter, JobState, PauseOf, Pausing, SetPause, SweepLimits},
    inspect::{GroupName, RuleOf},
};

use super::{BOTH, Grade, Harming, Row, Unmet, anything, deaths::killed, missed, taken_back};
use crate::{
    bed::{Bed, Problem, Setup},
    checker::{Resources, Terms},
    events::Subscriber,
    process::{LIMIT, Mix},
    work::{Deed, QUEUE},
};

pub(super) const ROWS: &[Row] = &[
    Row {
        number: "M96",
        name: "workers are killed again and again while they run jobs of hundreds of groups",
        grade: Grade::S,
        columns: BOTH,
        setup: || {
            let mix = Mix { from_ms: 200, groups: u64::MAX, bulk: true, ..Mix::plain(300) };
            let setup = Setup::default();
            let terms = Terms { drain_ms: 180_000, ..setup.terms };
            Setup { workers: 4, concurrency: 32, jobs: 600, callers: 1, mix, terms, ..setup }
        },
        harm: suspects,
        expect: taken_back,
    },
    Row {
        number: "M97",
        name: "a job kills its process again and again while long jobs run",
        grade: Grade::S,
        columns: BOTH,
        setup: || {
            let mix = Mix { from_ms: LONG_MS, bulk: true, ..Mix::plain(LONG_MS) };
            let setup = Setup::default();
            let terms = Terms { drain_ms: 300_000, ..setup.terms };
            Setup { jobs: LONG_JOBS, callers: 1, mix, terms, ..setup }
        },
        harm: poison_beside_long_jobs,
        expect: |summary| if summary.faults.contains_key("died") { Ok(()) } else { Err(missed("no process died")) },
    },
    Row {
        number: "M98",
        name: "each job has a group, a key of a limit, and a unique key or an id that no other job has",
        grade: Grade::S,
        columns: BOTH,
        setup: || {
            let mix = Mix { once: true, bulk: true, ..Mix::plain(2) };
            let setup = Setup::default();
            let terms = Terms { drain_ms: 180_000, ..setup.terms };
            Setup { workers: 3, concurrency: 32, jobs: FLOOD, callers: 2, pause_ms: 200, mix, terms, ..setup }
        },
        harm: flood,
        expect: anything,
    },
    Row {
        number: "M99",
        name: "workers poll while each of hundreds of groups is full, paused, at a limit or has suspects alone, and a subscription reads events of full groups",
        grade: Grade::S,
        columns: BOTH,
        setup: || {
            let mix = Mix { from_ms: 2_000, once: true, bulk: true, ..Mix::plain(2_500) };
            let setup = Setup::default();
            // The subscription is a queue of its own, and so is its topic.
            let slack = Resources { keys: 60, ..setup.terms.slack };
            let terms = Terms { drain_ms: 180_000, slack, ..setup.terms };
            Setup { concurrency: 32, jobs: BLOCKED, callers: 1, mix, terms, ..setup }
        },
        harm: blocked,
        expect: taken_back,
    },
];

/// As many suspects as one claim examines, and more.
const SUSPECTS: u64 = 300;

/// Jobs that come while they wait.
const FRESH: u64 = 200;

/// Makes hundreds of suspects, kills workers that run some of them, and lets jobs of other groups
/// come.
fn suspects(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        let mut charged = 0;
        while charged < SUSPECTS {
            bed.until("jobs to run or to be suspects", async |bed| {
                let (active, crashed) = (bed.depth(JobState::Active).await, bed.counter(Counter::Crashed).await);
                active + crashed >= (charged + 100).min(SUSPECTS)
            })
            .await?;
            for worker in 0..bed.workers.len() {
                if bed.workers[worker].is_alive() {
                    bed.kill(worker);
                    bed.start_worker()?;
                }
            }
            charged += 100;
        }
        bed.until("the jobs of dead workers to be suspects", async |bed| bed.counter(Counter::Crashed).await >= SUSPECTS / 2).await?;
        killed(bed, 4).await?;
        let jobs = bed.setup().jobs;
        let left = jobs - bed.counter(Counter::Done).await;
        if left < 100 {
            return Err(missed(format!("only {left} jobs were left when others came")).into());
        }
        let fresh = bed.enqueue(FRESH, Mix { groups: u64::MAX, bulk: true, ..Mix::plain(5) }).await;
        let begun = Instant::now();
        bed.until_within("jobs of other groups to start", patience() * 3, async |bed| {
            bed.started(&fresh).is_ok_and(|started| started as u64 == FRESH)
        })
        .await?;
        bed.measured("hundreds of jobs start beside suspects", begun.elapsed());
        let behind = (jobs + FRESH).saturating_sub(bed.counter(Counter::Done).await);
        if behind < left / 2 {
            return Err(
                format!("{left} suspects waited when {FRESH} jobs of other groups came, and {behind} when these had started").into()
            );
        }
        Ok(())
    })
}

const LONG_JOBS: u64 = 14;

/// Longer than it takes to find the job that kills its process.
const LONG_MS: u32 = 60_000;

/// The poison is buried before any of the jobs has ended that became suspects with it.
fn poison_beside_long_jobs(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        bed.until("the long jobs to run", async |bed| bed.depth(JobState::Active).await == LONG_JOBS).await?;
        let begun = Instant::now();
        bed.enqueue(1, Mix { deeds: vec![Deed::Abort], ..Mix::plain(0) }).await;
        let long = Duration::from_millis(LONG_MS.into()) * 3;
        bed.until_within("the poison to be buried", long, async |bed| bed.depth(JobState::Dead).await == 1).await?;
        bed.measured("a job that kills its process is buried beside long jobs", begun.elapsed());
        match bed.counter(Counter::Done).await {
            0 => Ok(()),
            done => Err(format!("{done} long jobs had ended before the poison was buried, after {:?}", begun.elapsed()).into()),
        }
    })
}

const FLOOD: u64 = 20_000;

/// How long a given id is remembered.
const REMEMBERED: Duration = Duration::from_secs(1);

/// What is swept while jobs come: where it is stored on Redis, and in a file.
const FAILURE_PATTERNS: [(&str, &str, &str); 4] = [
    ("given ids", "remembered", "queue_remembered"),
    ("unique keys", "unique", "queue_keys"),
    ("rates", "tat", "queue_rates"),
    ("groups", "rested", "queue_groups"),
];

/// Of each kind: how many entries there are.
fn entries(bed: &mut Bed) -> Result<BTreeMap<&'static str, u64>, Problem> {
    if let Ok(path) = bed.file() {
        let file = rusqlite::Connection::open(path)?;
        let rows = |table: &str| file.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get::<_, u32>(0).map(u64::from));
        return Ok(FAILURE_PATTERNS.iter().map(|(kind, _, table)| rows(table).map(|rows| (*kind, rows))).collect::<Result<_, _>>()?);
    }
    let server = bed.server()?;
    let count = |name: &str| {
        let verb = if ["unique", "tat"].contains(&name) { "HLEN" } else { "ZCARD" };
        server.ask_patiently::<u64>(&[verb, &format!("queue:{{{QUEUE}}}:{name}")], patience())
    };
    Ok(FAILURE_PATTERNS.iter().map(|(kind, name, _)| count(name).map(|count| (*kind, count))).collect::<Result<_, _>>()?)
}

/// One sweeps while jobs come, as a janitor does. Gives how long it took until it had left nothing.
async fn sweep(bed: &mut Bed, until: impl AsyncFn(&mut Bed) -> bool) -> Result<(), Problem> {
    let (broker, begun) = (bed.client.broker().clone(), Instant::now());
    let limits = SweepLimits { remembered: REMEMBERED, sweeper: 1, ..SweepLimits::default() };
    while !until(bed).await {
        if begun.elapsed() > patience() * 5 {
            return Err(Unmet::Broken(format!("entries are left that have expired: {:?}", entries(bed)?)).into());
        }
        let asked = Instant::now();
        let swept = broker.sweep(QUEUE, &limits).await?;
        let took = asked.elapsed();
        bed.pass(if swept.more { took } else { took + Duration::from_millis(50) }).await?;
    }
    Ok(())
}

/// Thousands of names come that are used once. Meanwhile one sweeps: it keeps up, and nothing is
/// left.
fn flood(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        let rate = "1000/1s".parse()?;
        bed.client.inspector().set_limit(QUEUE, LIMIT, |rule| (rule.rate, rule.burst) = (Some(rate), Some(1))).await?;
        bed.harm("names that are used once", "broker");
        sweep(bed, async |bed| bed.counter(Counter::Done).await >= FLOOD).await?;
        let behind = entries(bed)?;
        // Starts of groups are forgotten when the virtual time has passed them, or when nothing
        // waits.
        let most = |kind: &str| if kind == "rates" { FLOOD } else { FLOOD / 2 } * 4 / 5;
        if behind.iter().any(|(kind, entries)| *kind != "groups" && *entries > most(kind)) {
            return Err(format!("the sweep does not keep up with {FLOOD} jobs: {behind:?}").into());
        }
        let begun = Instant::now();
        sweep(bed, async |bed| entries(bed).is_ok_and(|entries| entries.values().all(|entries| *entries == 0))).await?;
        bed.measured("the last entries of a flood are removed", begun.elapsed());
        Ok(())
    })
}

const BLOCKED: u64 = 300;

/// A subscription whose events have a group each, none of which may run.
const FULL: Subscriber = Subscriber::Slow;
const EVENTS: u64 = 100;

/// For how long calls are counted.
const COUNTED: Duration = Duration::from_secs(6);

/// Calls of the workers in a while, and scripts of the server where there is one.
async fn calls(bed: &mut Bed) -> Result<(usize, u64), Problem> {
    // What is not polled for is over: claims that put groups aside, and searches that go on.
    bed.pass(Duration::from_secs(3)).await?;
    let before = (bed.renewals()?, scripts(bed)?);
    bed.pass(COUNTED).await?;
    Ok((bed.renewals()? - before.0, scripts(bed)? - before.1))
}

fn scripts(bed: &mut Bed) -> Result<u64, Problem> {
    let Ok(server) = bed.server() else { return Ok(0) };
    let info: String = server.ask_patiently(&["INFO", "commandstats"], patience())?;
    let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")).unwrap_or_default();
    Ok(line.split(',').next().and_then(|calls| calls.parse().ok()).unwrap_or(0))
}

/// Blocks all groups, in one way after the other, and counts what the workers ask.
fn blocked(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        let (inspector, broker) = (bed.client.inspector(), bed.client.broker().clone());
        inspector.pause(QUEUE).await?;
        // Each job has a key of its own.
        inspector.set_limit(QUEUE, LIMIT, |rule| rule.concurrency = Some(1)).await?;
        let cap = async |queue: &str, groups: &[GroupName], cap: Option<u32>| {
            for group in groups {
                inspector.set_group_rule(queue, &RuleOf::Group(group.clone()), |rule| rule.cap = cap).await?;
            }
            Ok::<_, Problem>(())
        };
        let full = (0..EVENTS).map(|n| GroupName::new(format!("group-{n}"))).collect::<Result<Vec<_>, _>>()?;
        cap(&FULL.queue(), &full, Some(0)).await?;
        bed.start_worker_of(&[FULL])?;
        bed.enqueue(EVENTS, Mix { groups: EVENTS, events: true, ..Mix::plain(5) }).await;
        bed.until("all events to be read", async |bed| {
            let stats = bed.client.inspector().stats(&FULL.queue()).await;
            stats.is_ok_and(|stats| stats.count(JobState::Ready) == EVENTS)
        })
        .await?;
        bed.until("the jobs to be stored", async |bed| bed.counter(Counter::Enqueued).await >= BLOCKED).await?;
        bed.until("no job to run", async |bed| bed.depth(JobState::Active).await == 0).await?;
        let groups: Vec<_> = inspector.groups(QUEUE, None, 500).await?.groups.into_iter().map(|group| group.name).collect();
        let mut counted = BTreeMap::new();
        cap(QUEUE, &groups, Some(0)).await?;
        inspector.resume(QUEUE).await?;
        counted.insert("full", calls(bed).await?);
        for group in &groups {
            broker.set_pause(&SetPause::pause(QUEUE, PauseOf::Group(group.clone()), Pausing::new())).await?;
        }
        cap(QUEUE, &groups, None).await?;
        counted.insert("paused", calls(bed).await?);
        inspector.set_limit(QUEUE, LIMIT, |rule| rule.concurrency = Some(0)).await?;
        for group in &groups {
            broker.set_pause(&SetPause::resume(QUEUE, PauseOf::Group(group.clone()))).await?;
        }
        counted.insert("limited", calls(bed).await?);
        inspector.set_limit(QUEUE, LIMIT, |rule| rule.concurrency = Some(1)).await?;
        bed.until("jobs to run", async |bed| bed.depth(JobState::Active).await >= 40).await?;
        for worker in 0..bed.workers.len() {
            if bed.workers[worker].is_alive() {
                bed.kill(worker);
            }
        }
        cap(QUEUE, &groups, Some(0)).await?;
        for _ in 0..bed.setup().workers {
            bed.start_worker()?;
        }
        bed.start_worker_of(&[FULL])?;
        bed.until("the jobs of dead workers to be suspects", async |bed| {
            bed.depth(JobState::Active).await + bed.depth(JobState::Retry).await == 0 && bed.counter(Counter::Crashed).await > 0
        })
        .await?;
        counted.insert("suspects", calls(bed).await?);
        cap(QUEUE, &groups, None).await?;
        cap(&FULL.queue(), &full, None).await?;
        bed.handled(FULL, EVENTS).await?;
        bed.until_within("all jobs to end", patience() * 5, async |bed| bed.counter(Counter::Done).await >= BLOCKED).await?;
        let idle = calls(bed).await?;
        let most = (idle.0 + idle.0 / 2 + 10, idle.1 + idle.1 / 2 + 10);
        eprintln!("in {COUNTED:?} an idle queue cost {idle:?} calls and scripts, and a blocked one {counted:?}");
        match counted.iter().find(|(_, calls)| calls.0 > most.0 || calls.1 > most.1) {
            None => Ok(()),
            Some((how, calls)) => {
                Err(format!("in {COUNTED:?} a queue whose groups are {how} cost {calls:?} calls and scripts, an idle one {idle:?}").into())
            }
        }
    })
}
