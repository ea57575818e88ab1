//! The final state of a broker, as the checker wants it.

use std::collections::{BTreeMap, HashSet};

use queue_core::{
    Client, Error, Inspector, JobId, JobRecord, UniqueKey,
    broker::{Counter, JobState, QueueStats},
};

use super::{
    Problem,
    broker::{Inside, Place},
};
use crate::{
    checker::{Held, HeldKey, Snapshot, Told},
    history::now_us,
    process::{UNIQUE, unique_key},
    work::{QUEUE, key_and_digest},
};

/// What a real broker holds: what it lists, and what is stored and listed nowhere.
pub(super) async fn take(client: &Client, place: &mut Place) -> Result<Snapshot, Problem> {
    let inspector = client.inspector();
    let (mut jobs, seen) = listed(&inspector).await?;
    let Inside { lanes, bodies } = place.inside()?;
    for id in bodies {
        // A made id has 16 bytes, a given one stands behind a `=`.
        let id = match id.strip_prefix(b"=") {
            Some(given) => String::from_utf8_lossy(given).into_owned(),
            None => made(&id),
        };
        if id.parse().is_ok_and(|id: JobId| !seen.contains(&id)) {
            jobs.push(Held { id, state: "nowhere".to_owned(), shown: "stored".to_owned(), ..Held::default() });
        }
    }
    let mut keys = Vec::new();
    for unique in 0..UNIQUE {
        let key = UniqueKey::given("work", &unique_key(unique));
        if let Some(holder) = inspector.key_holder(QUEUE, key).await? {
            keys.push(HeldKey { unique, id: holder.id.to_string() });
        }
    }
    let slots = slots(&inspector).await?;
    let counters = counters(&inspector.stats(QUEUE).await?);
    let at_ms = i64::try_from(now_us() / 1000)?;
    Ok(Snapshot { at_ms, jobs, lanes, keys, slots, counters, ..Snapshot::default() })
}

/// How many slots of groups and limits are held: by the limit of which most are held, as one job may hold one of each.
pub(crate) async fn slots(inspector: &Inspector) -> Result<u64, Error> {
    let (mut slots, mut after) = (0, None);
    loop {
        let page = inspector.groups(QUEUE, after, 500).await?;
        slots += page.groups.iter().map(|group| group.active).sum::<u64>();
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let limits = inspector.limits(QUEUE).await?;
    Ok(slots + limits.iter().map(|limit| limit.held).max().unwrap_or(0))
}

/// The counters of a queue, by name.
pub(crate) fn counters(stats: &QueueStats) -> BTreeMap<String, u64> {
    Counter::ALL.map(|counter| (counter.name().to_owned(), stats.total(counter))).into()
}

/// Lists every job in every state, and shows each.
pub(crate) async fn listed(inspector: &Inspector) -> Result<(Vec<Held>, HashSet<JobId>), Error> {
    let (mut jobs, mut seen) = (Vec::new(), HashSet::new());
    for state in JobState::ALL {
        let mut walk = inspector.walk(QUEUE, state);
        while let Some(jobs_of_page) = walk.next().await? {
            for listed in jobs_of_page {
                let address = listed.address;
                let shown = inspector.show(&address).await;
                seen.insert(address.id.clone());
                let mut held = held(state, &address.id, shown.as_ref().ok());
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

/// A line that a handler of the suite told.
fn told(text: &str) -> Option<Told> {
    let mut numbers = text.split(' ').map(|number| number.parse::<u64>().ok());
    let (claim, line, of) = (numbers.next()??, numbers.next()??, numbers.next()??);
    Some(Told { claim, line: line.try_into().ok()?, of: of.try_into().ok()? })
}

/// The text of a made id.
fn made(bytes: &[u8]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let cut = |from: usize, to: usize| hex.get(from..to).unwrap_or_default().to_owned();
    [cut(0, 8), cut(8, 12), cut(12, 16), cut(16, 20), cut(20, 32)].join("-")
}

fn held(state: JobState, id: &JobId, shown: Option<&JobRecord>) -> Held {
    let mut held = Held { id: id.to_string(), state: state.name().to_owned(), ..Held::default() };
    let Some(record) = shown else {
        held.shown = "nothing".to_owned();
        return held;
    };
    held.shown = record.state.name().to_owned();
    (held.attempts, held.crashes) = (record.failures, record.crashes);
    held.reason = record.reason.map(|reason| reason.name().to_owned());
    held.result = record.result().ok().flatten();
    held.lane = record.tag.as_deref().and_then(|tag| Some(tag.rsplit_once(':')?.0.to_owned()));
    held.task = record.task.clone();
    if record.size() > 0 {
        let (key, digest) = key_and_digest(record.stored());
        (held.key, held.digest) = (key, Some(digest));
    }
    held
}
