//! The final state of a broker, for the checker.

use std::collections::{BTreeMap, HashSet};

use queue_core::{
    Client, Error, JobId,
    broker::{Counter, ENTRIES_READ, JobState},
    inspect::{Inspector, JobRecord, UniqueKey},
};

use super::{Problem, broker::Place};
use crate::{
    checker::{Held, HeldKey, HeldSubscription, Snapshot, Told},
    events::TOPIC,
    history::{job_name, now_us},
    process::{UNIQUE, unique_key},
    work::{QUEUE, key_and_digest},
};

/// The contents of a real broker: the listed jobs, and stored jobs that are not listed.
pub(super) async fn take(client: &Client, place: &mut Place) -> Result<Snapshot, Problem> {
    let inspector = client.inspector();
    let (subscriptions, log) = topic(&inspector).await?;
    let (mut jobs, mut lanes) = (Vec::new(), Vec::new());
    for queue in queues(&subscriptions) {
        let (listed, seen) = listed(&inspector, queue).await?;
        jobs.extend(listed);
        let inside = place.inside(queue)?;
        lanes.extend(inside.lanes);
        for id in inside.bodies {
            // A generated id has 16 bytes. A given id has the prefix `=`.
            let id = match id.strip_prefix(b"=") {
                Some(given) => String::from_utf8_lossy(given).into_owned(),
                None => made(&id),
            };
            if let Some(id) = id.parse().ok().filter(|id: &JobId| !seen.contains(id)) {
                let id = job_name(queue, &id);
                jobs.push(Held { id, state: "nowhere".to_owned(), shown: "stored".to_owned(), ..Held::default() });
            }
        }
    }
    let mut keys = Vec::new();
    for unique in 0..UNIQUE {
        let key = UniqueKey::given("work", &unique_key(unique));
        if let Some(holder) = inspector.key_holder(QUEUE, key).await? {
            keys.push(HeldKey { unique, id: holder.id.to_string() });
        }
    }
    let slots = slots(&inspector, &subscriptions).await?;
    let counters = counters(&inspector, &subscriptions).await?;
    let at_ms = i64::try_from(now_us() / 1000)?;
    Ok(Snapshot { at_ms, jobs, lanes, keys, subscriptions, log, slots, counters, ..Snapshot::default() })
}

/// The queue of all jobs, and those of subscriptions.
pub(crate) fn queues(subscriptions: &[HeldSubscription]) -> impl Iterator<Item = &str> {
    std::iter::once(QUEUE).chain(subscriptions.iter().map(|of| of.queue.as_str()))
}

/// The subscriptions of the topic, and the ids of the events in its log.
pub(crate) async fn topic(inspector: &Inspector) -> Result<(Vec<HeldSubscription>, Vec<String>), Error> {
    let Some(topic) = inspector.topic(TOPIC).await? else { return Ok((Vec::new(), Vec::new())) };
    let subscriptions = topic.subscriptions.into_iter().map(|of| HeldSubscription { queue: of.queue, lost: of.lost }).collect();
    let (mut log, mut after) = (Vec::new(), None);
    loop {
        let page = inspector.events(TOPIC, after.as_deref(), ENTRIES_READ).await?;
        let is_last = page.len() < ENTRIES_READ;
        after = page.last().map(|event| event.position.clone());
        log.extend(page.into_iter().filter_map(|event| Some(event.id?.to_string())));
        if is_last {
            return Ok((subscriptions, log));
        }
    }
}

/// The number of held slots of groups and limits. It is that of the limit with most held slots,
/// because one job may hold a slot of each.
pub(crate) async fn slots(inspector: &Inspector, subscriptions: &[HeldSubscription]) -> Result<u64, Error> {
    let mut slots = 0;
    for queue in queues(subscriptions) {
        let mut after = None;
        loop {
            let Some(page) = known(inspector.groups(queue, after, 500).await)? else { break };
            slots += page.groups.iter().map(|group| group.active).sum::<u64>();
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    let limits = known(inspector.limits(QUEUE).await)?.unwrap_or_default();
    Ok(slots + limits.iter().map(|limit| limit.held).max().unwrap_or(0))
}

/// The sums of the counters of the queue of all jobs and of the queues of subscriptions, by name.
pub(crate) async fn counters(inspector: &Inspector, subscriptions: &[HeldSubscription]) -> Result<BTreeMap<String, u64>, Error> {
    let mut counters = BTreeMap::new();
    for queue in queues(subscriptions) {
        let Some(stats) = known(inspector.stats(queue).await)? else { continue };
        for counter in Counter::ALL {
            *counters.entry(counter.name().to_owned()).or_default() += stats.total(counter);
        }
    }
    Ok(counters)
}

/// Empty if the queue does not exist: a run that only publishes events does not create the queue of
/// plain jobs.
pub(crate) fn known<T>(found: Result<T, Error>) -> Result<Option<T>, Error> {
    match found {
        Err(Error::NoSuchQueue { .. }) => Ok(None),
        found => found.map(Some),
    }
}

/// Lists every job of a queue in every state, and shows each.
pub(crate) async fn listed(inspector: &Inspector, queue: &str) -> Result<(Vec<Held>, HashSet<JobId>), Error> {
    let (mut jobs, mut seen) = (Vec::new(), HashSet::new());
    for state in JobState::ALL {
        let mut walk = inspector.walk(queue, state);
        while let Some(jobs_of_page) = known(walk.next().await)?.flatten() {
            for listed in jobs_of_page {
                let address = listed.address;
                let shown = inspector.show(&address).await;
                seen.insert(address.id.clone());
                let mut held = held(state, job_name(queue, &address.id), shown.as_ref().ok());
                if let Some(progress) = shown.ok().and_then(|record| record.progress) {
                    held.progress = progress.message.parse().ok();
                    held.told = inspector.log(&address, 0).await?.lines.iter().filter_map(|line| told(&line.text)).collect();
                }
                jobs.push(held);
            }
        }
    }
    Ok((jobs, seen))
}

/// A log line of a handler of the suite.
fn told(text: &str) -> Option<Told> {
    let mut numbers = text.split(' ').map(|number| number.parse::<u64>().ok());
    let (claim, line, of) = (numbers.next()??, numbers.next()??, numbers.next()??);
    Some(Told { claim, line: line.try_into().ok()?, of: of.try_into().ok()? })
}

/// The text of a generated id.
fn made(bytes: &[u8]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let cut = |from: usize, to: usize| hex.get(from..to).unwrap_or_default().to_owned();
    [cut(0, 8), cut(8, 12), cut(12, 16), cut(16, 20), cut(20, 32)].join("-")
}

fn held(state: JobState, id: String, shown: Option<&JobRecord>) -> Held {
    let mut held = Held { id, state: state.name().to_owned(), ..Held::default() };
    let Some(record) = shown else {
        held.shown = "nothing".to_owned();
        return held;
    };
    held.shown = record.state.name().to_owned();
    (held.attempts, held.crashes) = (record.failures, record.crashes);
    held.reason = record.reason.map(|reason| reason.name().to_owned());
    held.result = record.result().ok().flatten();
    held.lane = record.receipt.as_deref().and_then(|receipt| Some(receipt.rsplit_once(':')?.0.to_owned()));
    held.task = record.task.clone();
    if record.size() > 0 {
        let (key, digest) = key_and_digest(record.stored());
        (held.key, held.digest) = (key, Some(digest));
    }
    held
}
