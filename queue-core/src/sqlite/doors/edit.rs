//! Edits: a waiting job becomes what an operator requests, if it has not changed since it was read.
//! All checks precede the first write.
//!
//! An edit may release and acquire the [key](keys), the line of an ordered group, and the place in
//! the line. A job whose place does not change keeps it.

use rusqlite::{OptionalExtension, params};

use super::{
    Leaving, groups, keys, limits,
    ready::{self, End},
    row::{self, HELD, PARKED, RETRY, SCHEDULED},
    tags,
};
use crate::{
    broker::{EditJob, EditedJob, GroupName, JobState, NewJob, SeenJob},
    sqlite::connection::{
        statement::sql,
        tx::{Failed, Queue, Tx},
    },
};

/// The present state of a job.
struct Own {
    state: i64,
    envelope: Vec<u8>,
    priority: i64,
    at: Option<i64>,
    group: Option<GroupName>,
    regroups: bool,
}

pub(crate) fn edit(tx: &mut Tx<'_>, queue: &Queue<'_>, request: &EditJob) -> Result<EditedJob, Failed> {
    const EDIT: &str = "UPDATE queue_jobs SET envelope = ?3, priority = ?4, digest = ?5 WHERE queue = ?1 AND id = ?2";
    let id = request.id.as_bytes();
    let Some(own) = read_own(tx, queue, request)? else { return Ok(EditedJob::Missing) };
    let state = row::state(own.state)?;
    if state == JobState::Active || state.is_final() {
        return Ok(EditedJob::Closed(state));
    }
    let rekeys = match (request.unique, keys::key_of(tx, queue, id)?) {
        (Some(key), Some(before)) => Some(key).filter(|key| *key != before),
        _ => None,
    };
    let (retimes, priority) = (!request.is_time(own.at, tx.now), i64::from(request.priority.number()));
    if !retimes && rekeys.is_none() && !own.regroups && own.envelope == request.envelope && own.priority == priority {
        return Ok(EditedJob::AsWanted);
    }
    if !is_seen(&own, &request.seen) || !request.is_time_seen(own.at, tx.now) {
        return Ok(EditedJob::Differs);
    }
    if let Some(holder) = rekeys.map(|key| keys::holder(tx, queue, &key)).transpose()?.flatten().filter(|holder| holder.id != request.id) {
        return Ok(EditedJob::Held(holder.id));
    }
    let wanted = wanted(request);
    if request.group != own.group && groups::is_full(tx, queue, &wanted)? {
        return Ok(EditedJob::GroupFull);
    }

    let leaves = match state {
        JobState::Held => rekeys.is_some(),
        JobState::Parked => retimes || request.is_new_payload,
        JobState::Ready => retimes || own.regroups || own.priority != priority,
        _ => retimes,
    };
    let leaving = if leaves { Some(ready::remove_waiting(tx, queue, id, own.state)?) } else { None };
    if leaves {
        // The job is scheduled until its new data is stored. Its time tells the triggers for
        // watchers its old state.
        tx.sql(sql!("return_to_waiting.sql"))?.execute(params![queue.key, id, SCHEDULED, -1 - own.state])?;
        groups::review_group_of(tx, queue, id)?;
    } else if let Some(at) = request.at_ms.filter(|_| retimes) {
        tx.sql(sql!("return_to_waiting.sql"))?.execute(params![queue.key, id, HELD, at])?;
    }
    let digest = request.id.is_given().then(|| request.digest.cast_signed());
    tx.sql(EDIT)?.execute(params![queue.key, id, request.envelope, priority, digest])?;
    tags::store(tx, queue, id, &request.envelope)?;
    if own.regroups {
        replace_group(tx, queue, &own, &wanted)?;
    }
    if let Some(key) = rekeys {
        keys::replace(tx, queue, id, &key)?;
    }
    if let Some(job) = leaving {
        push_or_schedule(tx, queue, job, &own, request.at_ms.or(own.at).unwrap_or(tx.now))?;
    }
    Ok(EditedJob::Yes)
}

fn read_own(tx: &Tx<'_>, queue: &Queue<'_>, request: &EditJob) -> Result<Option<Own>, Failed> {
    const OWN: &str = "SELECT state, envelope, priority, pos FROM queue_jobs WHERE queue = ?1 AND id = ?2";
    let id = request.id.as_bytes();
    let read = |row: &rusqlite::Row<'_>| {
        let (state, envelope, priority, pos): (i64, Vec<u8>, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
        let at = matches!(state, SCHEDULED | RETRY | HELD).then_some(pos);
        Ok(Own { state, envelope, priority, at, group: None, regroups: false })
    };
    let Some(mut own) = tx.sql(OWN)?.query_row(params![queue.key, id], read).optional()? else { return Ok(None) };
    own.group = groups::name_of(tx, queue, id)?;
    let limits = limits::of(tx, queue, id)?.map(|limited| (limited.keys, limited.cost));
    let wanted = request.limits.as_ref().map(|limits| (limits.keys().to_vec(), limits.cost));
    own.regroups = own.group != request.group || limits != wanted;
    Ok(Some(own))
}

/// Whether a job is as it was read, apart from its time.
fn is_seen(own: &Own, seen: &SeenJob) -> bool {
    own.envelope == seen.envelope && own.priority == i64::from(seen.priority.number()) && own.group == seen.group
}

/// The requested group and limits, in the form of a new job.
fn wanted(request: &EditJob) -> NewJob {
    let mut job = NewJob::new(request.id.clone(), Vec::new());
    (job.group, job.limits) = (request.group.clone(), request.limits.clone());
    job
}

/// Changes the group or the limits of a job that is in no line. The job may block the line of its
/// old group.
fn replace_group(tx: &mut Tx<'_>, queue: &Queue<'_>, own: &Own, wanted: &NewJob) -> Result<(), Failed> {
    let id = wanted.id.as_bytes();
    if own.group == wanted.group && own.group.is_some() {
        limits::forget(tx, queue, id)?;
    } else {
        groups::unblock(tx, queue, id, true)?;
    }
    Ok(groups::store_group_of(tx, queue, wanted)?)
}

/// Lets the job wait again, at the tail of its line or for its time.
fn push_or_schedule(tx: &mut Tx<'_>, queue: &Queue<'_>, job: Leaving<'_>, own: &Own, at: i64) -> Result<(), Failed> {
    const READABLE: &str = "UPDATE queue_jobs SET note = NULL WHERE queue = ?1 AND id = ?2";
    let id = job.arrives();
    if own.state == PARKED {
        tx.sql(READABLE)?.execute(params![queue.key, id])?;
    }
    if at > tx.now {
        let state = if own.state == RETRY { RETRY } else { SCHEDULED };
        tx.sql(sql!("return_to_waiting.sql"))?.execute(params![queue.key, id, state, at])?;
    } else {
        ready::push(tx, queue, &id, End::Tail)?;
    }
    tx.hint(queue.name, at);
    Ok(())
}
