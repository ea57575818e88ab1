//! The door `end`: a job ends, or its record is removed. An ending releases everything that the job
//! holds.
//!
//! | function | end | other changes |
//! |---|---|---|
//! | [`ack_and_delete`] | gone, through `settle` as well | `done` |
//! | [`complete`] | gone, or `done` with its result during its retention | a chosen id is remembered; `done` |
//! | [`bury`], [`bury_unreadable`] | `dead` | `dead` |
//! | [`cancel`], [`expire`] | `cancelled`, `expired`, kept for a day; a chosen id may be used again | `cancelled`, `expired` |
//! | [`delete`], [`delete_record`] | gone, its remembered id too | nothing |
//! | [`replace_record`] | the record of a cancelled or expired job, when its id is used again | nothing |
//! | all of these, in `note_end_and_notify` | | the job's schedule records its end, and its watchers are notified |
//! | [`repair`] | gone: a row with an invalid id | `repaired` |
//! | [`evict_dead`], [`evict_kept`], [`trim`] | gone: the oldest records of a final state | `dead_evicted` |
//! | [`forget_given_ids`] | remembered ids | nothing |
//!
//! All of them release the job's key and the line of its group: see [`keys`] and [`groups`]. They
//! also update the broker's internal counters (`.kept`, `.kept_bytes`, `.dead_bytes`,
//! `.remembered`).

use std::time::Duration;

use rusqlite::{
    OptionalExtension, ToSql, params,
    types::{Value, ValueRef},
};

use super::{
    Leaving, groups, keys, ready, return_jobs,
    row::{self, ACTIVE, CANCELLED, DEAD, DONE, EXPIRED, PARKED, Receipt},
    settle, watched,
};
use crate::{
    address::JobId,
    broker::{BuryReason, ENDED_KEEP, KeepLimits, parked_under},
    envelope::Envelope,
    sqlite::{
        connection::{
            statement::sql,
            text::Text,
            tx::{Failed, Queue, Tx, after},
            unsigned::Unsigned,
        },
        schedule,
    },
};

/// Acks a job that leaves no record, has a generated id and is not watched. This is the common
/// case, and one statement passes both doors. False: its receipt is not valid.
pub(crate) fn ack_and_delete(tx: &mut Tx<'_>, queue: &Queue<'_>, receipt: Receipt, id: &[u8]) -> Result<bool, Failed> {
    let gone = tx.sql(sql!("end_acked.sql"))?.execute(params![queue.key, id, ACTIVE, receipt.lane, receipt.claim])?;
    if gone == 0 {
        settle::record_stale(tx, receipt, id)?;
        return Ok(false);
    }
    tx.count(queue.key, "done", 1);
    keys::release_key_of(tx, queue, id, true)?;
    if tx.may_have_groups() {
        groups::release_slot_and_unblock(tx, queue, id)?;
    }
    schedule::record_end(tx, queue, id, "done")?;
    Ok(true)
}

/// Notifies the schedule and the watchers of a job of its end.
fn report_end(tx: &mut Tx<'_>, queue: &Queue<'_>, job: &Leaving<'_>, how: &str) -> Result<(), Failed> {
    match job.id {
        ValueRef::Blob(id) => {
            schedule::record_end(tx, queue, id, how)?;
            watched::notify(tx, queue, id)
        }
        // A value that is not an id belongs to no schedule and no caller.
        _ => Ok(()),
    }
}

/// How a done job is kept.
pub(crate) struct Kept<'a> {
    pub(crate) keep: Duration,
    pub(crate) result: Option<&'a [u8]>,
    pub(crate) limits: KeepLimits,
}

/// The job has succeeded.
pub(crate) fn complete(tx: &mut Tx<'_>, queue: &Queue<'_>, job: Leaving<'_>, kept: Option<&Kept<'_>>) -> Result<(), Failed> {
    /// Keeps a done job. Returns its bytes, including those of its result.
    /// ?1 queue, ?2 id, ?3 state done, ?4 pos: until when it is kept, ?5 now, ?6 result.
    const END_DONE: &str = "UPDATE queue_jobs SET state = ?3, rank = 0, pos = ?4, ended = ?5, result = ?6 \
        WHERE queue = ?1 AND id = ?2 RETURNING length(envelope) + ifnull(length(result), 0)";
    if let Some(digest) = job.digest {
        remember_given_id(tx, queue, &job, digest)?;
    }
    report_end(tx, queue, &job, "done")?;
    let id = job.arrives();
    tx.count(queue.key, "done", 1);
    let Some(&Kept { keep, result, limits }) = kept else { return delete_job(tx, queue, &id) };
    keys::release_key_of(tx, queue, &id, false)?;
    let until = after(tx.now, keep);
    let bytes: i64 = tx.sql(END_DONE)?.query_row(params![queue.key, id, DONE, until, tx.now, result], |row| row.get(0))?;
    groups::unblock(tx, queue, &id, false)?;
    tx.count(queue.key, ".kept", 1);
    tx.count(queue.key, ".kept_bytes", bytes);
    // Deletes two records for each one that is added, until a lowered limit is met.
    trim(tx, queue, limits, 2)?;
    Ok(())
}

/// Makes the job a dead letter.
pub(crate) fn bury(tx: &mut Tx<'_>, queue: &Queue<'_>, job: Leaving<'_>, reason: BuryReason) -> Result<(), Failed> {
    /// Makes a dead letter of a job. Returns its bytes.
    const BURY: &str = "UPDATE queue_jobs SET state = ?3, rank = 0, pos = ?4, ended = ?4, note = ?5 \
        WHERE queue = ?1 AND id = ?2 RETURNING length(envelope)";
    report_end(tx, queue, &job, "dead")?;
    let id = job.arrives();
    keys::release_key_of(tx, queue, &id, false)?;
    let bytes: i64 = tx.sql(BURY)?.query_row(params![queue.key, id, DEAD, tx.now, reason.name()], |row| row.get(0))?;
    groups::unblock(tx, queue, &id, false)?;
    tx.count(queue.key, ".dead_bytes", bytes);
    tx.count(queue.key, "dead", 1);
    Ok(())
}

/// Buries at most `items` parked jobs that no release could read in time. Returns their ids, and
/// how many jobs it has examined.
pub(crate) fn bury_unreadable(tx: &mut Tx<'_>, queue: &Queue<'_>, items: usize) -> Result<(Vec<JobId>, usize), Failed> {
    /// Parked jobs whose time to be read has passed: id, note, envelope.
    const UNREADABLE: &str =
        "SELECT id, note, envelope FROM queue_jobs WHERE queue = ?1 AND state = ?2 AND rank = 0 AND pos <= ?3 ORDER BY pos LIMIT ?4";
    let over: Vec<(Value, Option<Text>, Vec<u8>)> = tx
        .sql(UNREADABLE)?
        .query_map(params![queue.key, PARKED, tx.now, Unsigned(items)], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let (mut buried, looked) = (Vec::new(), over.len());
    for (stored, note, envelope) in over {
        let unreadable = note.and_then(|Text(note)| row::unreadable(&note));
        let id = match &stored {
            Value::Blob(id) => JobId::from_bytes(id).ok(),
            _ => None,
        };
        let (Some(unreadable), Some(id)) = (unreadable, id) else {
            return_jobs::keep_parked(tx, queue, &stored)?;
            continue;
        };
        let name = Envelope::decode(&envelope).map(|envelope| parked_under(&envelope.task, &unreadable.releases));
        if !ready::unpark_from(tx, queue, &name.unwrap_or_default(), &stored)? {
            ready::unpark(tx, queue, &stored)?;
        }
        bury(tx, queue, Leaving::only(id.as_bytes()), BuryReason::Undecodable)?;
        buried.push(id);
    }
    Ok((buried, looked))
}

/// Cancels the job.
pub(crate) fn cancel(tx: &mut Tx<'_>, queue: &Queue<'_>, job: Leaving<'_>, note: Option<&str>) -> Result<(), Failed> {
    report_end(tx, queue, &job, "cancelled")?;
    end_without_run(tx, queue, job, CANCELLED, note)?;
    tx.count(queue.key, "cancelled", 1);
    Ok(())
}

/// The job was not started before its expiry.
pub(crate) fn expire(tx: &mut Tx<'_>, queue: &Queue<'_>, job: Leaving<'_>) -> Result<(), Failed> {
    report_end(tx, queue, &job, "expired")?;
    end_without_run(tx, queue, job, EXPIRED, None)?;
    tx.count(queue.key, "expired", 1);
    Ok(())
}

fn end_without_run(tx: &mut Tx<'_>, queue: &Queue<'_>, job: Leaving<'_>, state: i64, note: Option<&str>) -> Result<(), Failed> {
    /// Ends a job that no worker will run any more. Returns its bytes.
    /// ?1 queue, ?2 id, ?3 state (cancelled or expired), ?4 pos: until when it is kept, ?5 now, ?6
    /// reason.
    const UNWANTED: &str = "UPDATE queue_jobs SET state = ?3, rank = 0, pos = ?4, ended = ?5, note = ?6 \
        WHERE queue = ?1 AND id = ?2 RETURNING length(envelope)";
    let (until, id) = (after(tx.now, ENDED_KEEP), job.arrives());
    keys::release_key_of(tx, queue, &id, false)?;
    let bytes: i64 = tx.sql(UNWANTED)?.query_row(params![queue.key, id, state, until, tx.now, note], |row| row.get(0))?;
    groups::unblock(tx, queue, &id, false)?;
    tx.count(queue.key, ".kept", 1);
    tx.count(queue.key, ".kept_bytes", bytes);
    Ok(())
}

/// An operator removes a waiting job.
pub(crate) fn delete(tx: &mut Tx<'_>, queue: &Queue<'_>, job: Leaving<'_>) -> Result<(), Failed> {
    report_end(tx, queue, &job, "deleted")?;
    let id = job.arrives();
    delete_job(tx, queue, &id)?;
    Ok(forget_given_id(tx, queue, &id)?)
}

/// An operator removes the record of an ended job.
pub(crate) fn delete_record(tx: &mut Tx<'_>, queue: &Queue<'_>, id: &[u8], state: i64, bytes: i64) -> Result<(), Failed> {
    remove(tx, queue, id, state, bytes)?;
    Ok(forget_given_id(tx, queue, id)?)
}

/// The record of a cancelled or expired job: its state and its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before {
    pub(crate) state: i64,
    pub(crate) bytes: i64,
}

/// A new job replaces the record of a cancelled or expired job with the same id.
pub(crate) fn replace_record(tx: &mut Tx<'_>, queue: &Queue<'_>, id: &[u8], Before { state, bytes }: Before) -> Result<(), Failed> {
    remove(tx, queue, id, state, bytes)
}

/// Removes a row with an invalid id: such a job could not be ended.
pub(super) fn repair(tx: &mut Tx<'_>, queue: &Queue<'_>, id: &Value) -> Result<(), Failed> {
    delete_job(tx, queue, id)?;
    count_repairs(tx, queue, 1);
    Ok(())
}

/// Counts the repairs of the auditor.
pub(crate) fn count_repairs(tx: &mut Tx<'_>, queue: &Queue<'_>, damages: usize) {
    tx.count(queue.key, "repaired", i64::try_from(damages).unwrap_or(i64::MAX));
}

/// Removes at most `items` dead letters, the oldest first: those that died until then, and more
/// while they exceed `bytes` bytes.
pub(crate) fn evict_dead(tx: &mut Tx<'_>, queue: &Queue<'_>, until: i64, bytes: i64, items: usize) -> Result<usize, Failed> {
    let evicted = evict(tx, queue, DEAD, items, |tx, died| Ok(died <= until || tx.counter(queue.key, ".dead_bytes")? > bytes))?;
    tx.count(queue.key, "dead_evicted", i64::try_from(evicted).unwrap_or(i64::MAX));
    Ok(evicted)
}

/// Removes records whose retention has expired, at most `items` of each state.
pub(crate) fn evict_kept(tx: &mut Tx<'_>, queue: &Queue<'_>, items: usize) -> Result<usize, Failed> {
    let mut evicted = 0;
    for state in [DONE, CANCELLED, EXPIRED] {
        evicted += evict(tx, queue, state, items, |tx, until| Ok(until <= tx.now))?;
    }
    Ok(evicted)
}

/// Removes at most `items` kept jobs while there are more of them than the limits allow.
pub(crate) fn trim(tx: &mut Tx<'_>, queue: &Queue<'_>, limits: KeepLimits, items: usize) -> Result<usize, Failed> {
    let over = |value: i64, limit: u64| u64::try_from(value).unwrap_or(0) > limit;
    let too_many = |tx: &Tx<'_>| {
        Ok::<_, Failed>(over(tx.counter(queue.key, ".kept")?, limits.count) || over(tx.counter(queue.key, ".kept_bytes")?, limits.bytes))
    };
    if !too_many(tx)? {
        return Ok(0);
    }
    // First the expired records, then those with the earliest expiry.
    let mut removed = evict_kept(tx, queue, items)?;
    while removed < items && too_many(tx)? {
        let first = |state| oldest(tx, queue, state).map(|found| found.map(|(_, until, _)| (until, state)));
        let heads = [first(DONE)?, first(CANCELLED)?, first(EXPIRED)?];
        let Some((_, state)) = heads.into_iter().flatten().min() else { break };
        removed += evict(tx, queue, state, 1, |_, _| Ok(true))?;
    }
    Ok(removed)
}

/// The first record of a final state: its id, its `pos` and its bytes.
fn oldest(tx: &Tx<'_>, queue: &Queue<'_>, state: i64) -> rusqlite::Result<Option<(Value, i64, i64)>> {
    /// The first record of a final state: id, pos, bytes.
    const OLDEST: &str = "SELECT id, pos, length(envelope) + ifnull(length(result), 0) FROM queue_jobs \
        WHERE queue = ?1 AND state = ?2 AND rank = 0 ORDER BY pos LIMIT 1";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
    tx.sql(OLDEST)?.query_row(params![queue.key, state], read).optional()
}

/// Removes at most `items` records of a final state, the first ones while `goes` is true for their
/// `pos`.
fn evict(
    tx: &mut Tx<'_>,
    queue: &Queue<'_>,
    state: i64,
    items: usize,
    goes: impl Fn(&Tx<'_>, i64) -> Result<bool, Failed>,
) -> Result<usize, Failed> {
    let mut removed = 0;
    while removed < items {
        let Some((id, pos, bytes)) = oldest(tx, queue, state)? else { break };
        if !goes(tx, pos)? {
            break;
        }
        remove(tx, queue, &id, state, bytes)?;
        removed += 1;
    }
    Ok(removed)
}

/// Forgets at most `items` remembered ids that are older than that, and at most `items` more while
/// there are more than `most`.
pub(crate) fn forget_given_ids(tx: &mut Tx<'_>, queue: &Queue<'_>, until: i64, most: i64, items: usize) -> Result<usize, Failed> {
    /// Removes old remembered ids.
    /// ?1 queue, ?2 ended until then, ?3 limit.
    const FORGET_OLD: &str = "DELETE FROM queue_remembered WHERE queue = ?1 AND id IN \
        (SELECT id FROM queue_remembered WHERE queue = ?1 AND ended <= ?2 ORDER BY ended LIMIT ?3)";
    /// Removes the oldest remembered ids.
    const FORGET_MORE: &str = "DELETE FROM queue_remembered WHERE queue = ?1 AND id IN \
        (SELECT id FROM queue_remembered WHERE queue = ?1 ORDER BY ended LIMIT ?2)";
    let excess = tx.counter(queue.key, ".remembered")?.saturating_sub(most).max(0);
    let mut forgotten = tx.sql(FORGET_OLD)?.execute(params![queue.key, until, Unsigned(items)])?;
    let more = excess.min(i64::try_from(items).unwrap_or(i64::MAX));
    forgotten += tx.sql(FORGET_MORE)?.execute(params![queue.key, more])?;
    tx.count(queue.key, ".remembered", -i64::try_from(forgotten).unwrap_or(i64::MAX));
    Ok(forgotten)
}

/// Remembers the chosen id of a done job.
fn remember_given_id(tx: &mut Tx<'_>, queue: &Queue<'_>, job: &Leaving<'_>, digest: i64) -> rusqlite::Result<()> {
    const REMEMBER: &str = "INSERT INTO queue_remembered (queue, id, digest, ended) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
    let new = tx.sql(REMEMBER)?.execute(params![queue.key, job.id(), digest, tx.now])?;
    tx.count(queue.key, ".remembered", i64::try_from(new).unwrap_or(i64::MAX));
    Ok(())
}

/// Allows a chosen id to be used again.
pub(crate) fn forget_given_id(tx: &mut Tx<'_>, queue: &Queue<'_>, id: &(impl ToSql + ?Sized)) -> rusqlite::Result<()> {
    const FORGET: &str = "DELETE FROM queue_remembered WHERE queue = ?1 AND id = ?2";
    let forgotten = tx.sql(FORGET)?.execute(params![queue.key, id])?;
    tx.count(queue.key, ".remembered", -i64::try_from(forgotten).unwrap_or(0));
    Ok(())
}

/// Removes the record of an ended job, and subtracts it from the broker's internal counters.
fn remove(tx: &mut Tx<'_>, queue: &Queue<'_>, id: &(impl ToSql + ?Sized), state: i64, bytes: i64) -> Result<(), Failed> {
    delete_job(tx, queue, id)?;
    if state == DEAD {
        tx.count(queue.key, ".dead_bytes", -bytes);
    } else {
        tx.count(queue.key, ".kept", -1);
        tx.count(queue.key, ".kept_bytes", -bytes);
    }
    Ok(())
}

/// Removes the row of a job.
fn delete_job(tx: &mut Tx<'_>, queue: &Queue<'_>, id: &(impl ToSql + ?Sized)) -> Result<(), Failed> {
    const GONE: &str = "DELETE FROM queue_jobs WHERE queue = ?1 AND id = ?2";
    tx.sql(GONE)?.execute(params![queue.key, id])?;
    groups::unblock(tx, queue, id, true)?;
    keys::release_key_of(tx, queue, id, true)
}
