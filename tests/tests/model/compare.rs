//! When two answers or two jobs are the same.

use std::{fmt::Debug, time::Duration};

use futures_util::future::join_all;
use queue_conformance::model::Model;
use queue_core::{
    Error, JobId, LimitKey,
    broker::{
        BuryReason, Counter, DynBroker, GroupName, JobState, Priority, Scan, StoredJob, StoredRemarks, TurnAnswer, UniqueKey, WorkerLoad,
        WorkerRecord,
    },
    envelope::Envelope,
};

/// What is wrong.
pub(crate) type Check<T = ()> = Result<T, String>;

pub(crate) fn same<T: PartialEq + Debug>(what: &str, model: &T, broker: &T) -> Check {
    if model == broker { Ok(()) } else { Err(format!("{what}: the model has\n  {model:?}\nand the broker\n  {broker:?}")) }
}

/// An answer, with its error in one word.
pub(crate) fn outcome<T>(result: Result<T, Error>) -> Result<T, String> {
    result.map_err(|error| match error {
        Error::Forgotten(_) => "forgotten".to_owned(),
        Error::Old { .. } => "old".to_owned(),
        other => other.to_string(),
    })
}

fn sorted(ids: &[JobId]) -> Vec<JobId> {
    let mut ids = ids.to_vec();
    ids.sort();
    ids
}

/// Two answers to a turn. A replay says nothing of the queue that could not have changed since.
pub(crate) fn same_turn(model: &TurnAnswer, broker: &TurnAnswer, spurious: bool) -> Check {
    same("stale positions", &model.stale, &broker.stale)?;
    same("deliveries", &model.deliveries, &broker.deliveries)?;
    same("parked", &model.parked, &broker.parked)?;
    same("paused", &model.paused, &broker.paused)?;
    same("set aside", &sorted(&model.aside), &sorted(&broker.aside))?;
    same("what goes on", &model.resumed, &broker.resumed)?;
    let whole_ms = |due: Duration| due.as_nanos().div_ceil(1_000_000);
    same("next due", &model.next_due.map(whole_ms), &broker.next_due.map(whole_ms))?;
    if !spurious {
        same("suspects", &model.suspects, &broker.suspects)?;
    }
    if model.more != broker.more && !(spurious && broker.more && !broker.paused) {
        return same("more", &model.more, &broker.more);
    }
    Ok(())
}

/// A job as people see it, but for the times.
#[derive(PartialEq, Debug)]
struct Face {
    state: JobState,
    envelope: Vec<u8>,
    priority: Priority,
    attempts: u32,
    crashes: u32,
    snoozes: u32,
    releases: u32,
    tag: Option<String>,
    failures: Vec<String>,
    reason: Option<BuryReason>,
    result: Option<Vec<u8>>,
    note: Option<String>,
    unreadable: Option<Vec<String>>,
    unique: Option<UniqueKey>,
    group: Option<GroupName>,
    limits: Vec<LimitKey>,
}

fn face(record: StoredJob) -> Face {
    // What is over keeps no crashes in one broker, and keeps them in the other.
    let over = record.state.is_final() && record.state != JobState::Dead;
    Face {
        state: record.state,
        envelope: record.envelope,
        priority: record.priority,
        attempts: record.attempts,
        crashes: if over { 0 } else { record.crashes },
        snoozes: record.snoozes,
        releases: record.releases,
        tag: record.tag,
        failures: record.failures.into_iter().map(|failure| failure.message).collect(),
        reason: record.reason,
        result: record.result,
        note: record.note.filter(|note| !note.is_empty()),
        unreadable: record.unreadable.map(|unreadable| unreadable.releases),
        unique: record.unique,
        group: record.group,
        limits: record.limits,
    }
}

/// Every job that ever was, every list, and the counts. Times may differ by what the step took, in milliseconds; the broker's are adopted.
pub(crate) async fn same_jobs(model: &mut Model, broker: &DynBroker, queue: &str, ids: &[JobId], took: i64) -> Check {
    let records = join_all(ids.iter().map(|id| broker.show(queue, id))).await;
    for (id, found) in ids.iter().zip(records) {
        let found = found.map_err(|error| error.to_string())?;
        let at = found.as_ref().and_then(|record| record.at_ms);
        let rises = found.as_ref().and_then(|record| record.rises_ms);
        let known = model.jobs.get(id).map(|job| job.record(id));
        let known_rises = known.as_ref().and_then(|record| record.rises_ms);
        same(&format!("job {id}"), &known.map(face), &found.map(face))?;
        if model.jobs.contains_key(id) {
            match (known_rises, rises) {
                (Some(known), Some(rises)) if (known - 1..=known.saturating_add(took)).contains(&rises) => {
                    model.jobs.set_rises(id, rises);
                }
                (known, rises) => same(&format!("rise of job {id}, which may be {took} ms later"), &known, &rises)?,
            }
            let known = model.jobs.get(id).and_then(|job| job.place().at());
            match (known, at) {
                (Some(known), Some(at)) if (known - 1..=known.saturating_add(took)).contains(&at) => model.jobs.set_at(id, at),
                (known, at) => same(&format!("time of job {id}, which may be {took} ms later"), &known, &at)?,
            }
        }
    }
    let told = join_all(ids.iter().map(|id| broker.remarks(queue, id, 0))).await;
    for (id, found) in ids.iter().zip(told) {
        let found = found.map_err(|error| error.to_string())?;
        same(&format!("what was told of job {id}"), &model.remarks(id, 0).map(timeless), &found.map(timeless))?;
    }
    same_lists(model, broker, queue).await
}

/// What was told of a job, but for the times.
fn timeless(mut told: StoredRemarks) -> StoredRemarks {
    told.progress.iter_mut().for_each(|progress| progress.at_ms = 0);
    told.lines.iter_mut().for_each(|line| line.at_ms = 0);
    told
}

async fn same_lists(model: &mut Model, broker: &DynBroker, queue: &str) -> Check {
    let pages = join_all(JobState::ALL.map(|state| broker.list(queue, state, 0, 500))).await;
    for (state, page) in JobState::ALL.into_iter().zip(pages) {
        let seen: Vec<JobId> = page.map_err(|error| error.to_string())?.jobs.into_iter().map(|job| job.id).collect();
        let known = model.ids(state);
        let sorted = |ids: &[JobId]| {
            let mut ids = ids.to_vec();
            ids.sort();
            ids
        };
        same(&format!("members of {state}"), &sorted(&known), &sorted(&seen))?;
        if state == JobState::Ready {
            let strict = |ids: &[JobId]| ids.iter().filter(|id| !model.ready.loose.contains(*id)).cloned().collect::<Vec<_>>();
            same("order of ready", &strict(&known), &strict(&seen))?;
            model.ready.reorder(&seen);
            model.reorder_groups(&seen);
        }
    }
    let found = broker.stats(queue).await.map_err(|error| error.to_string())?;
    let known = model.stats();
    for counter in Counter::ALL {
        same(&format!("counter {counter}"), &known.total(counter), &found.total(counter))?;
    }
    for state in JobState::ALL {
        same(&format!("depth of {state}"), &known.count(state), &found.count(state))?;
    }
    let scan = Scan::new(queue, &JobState::ALL, 500).tagged("all", "yes");
    let found_by_tag = broker.scan(&scan).await.map_err(|error| error.to_string())?;
    let has_tag = |id: &&JobId| Envelope::decode(&model.jobs[id].envelope).is_ok_and(|envelope| envelope.tags.contains_key("all"));
    let known_by_tag: Vec<JobId> = model.jobs.keys().filter(has_tag).cloned().collect();
    let seen_by_tag: Vec<JobId> = found_by_tag.jobs.into_iter().map(|job| job.id).collect();
    same("jobs with a tag", &sorted(&known_by_tag), &sorted(&seen_by_tag))?;
    same("entries of a tag", &(known_by_tag.len() as u64), &found_by_tag.of.unwrap_or_default())?;
    let said = |load: WorkerLoad| (load.busy, load.slots);
    let workers = |workers: Vec<WorkerRecord>| {
        workers.into_iter().map(|worker| (worker.id, worker.release, worker.lanes, worker.load.map(said), worker.asked)).collect::<Vec<_>>()
    };
    let listed = broker.workers(queue).await.map_err(|error| error.to_string())?;
    same("workers", &workers(model.workers(queue)), &workers(listed))?;
    same("aging", &known.aging, &found.aging)?;
    same("paused", &known.paused, &found.paused)
}
