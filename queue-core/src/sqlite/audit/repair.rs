//! The part of the auditor that repairs the findings, through the doors.

use rusqlite::{params, types::Value};

use super::find::{Check, Found};
use crate::{
    broker::{LimitKey, WorkerInfo},
    sqlite::{
        connection::tx::{Failed, Queue, Tx},
        doors::{
            groups, keys, limits,
            ready::{self, End},
            return_jobs, settle, tags, turns,
        },
        schedule,
    },
};

pub(super) fn repair(tx: &mut Tx<'_>, queue: &mut Queue<'_>, check: Check, (subject, more): &Found) -> Result<(), Failed> {
    match (check, subject, more) {
        (Check::LeaseEndless, _, lane) => {
            tx.sql("UPDATE queue_lanes SET deadline = ?2 WHERE lane = ?1")?.execute(params![lane, tx.now])?;
        }
        (Check::LeaseTooLong, _, lane) => {
            tx.sql("UPDATE queue_lanes SET deadline = ?2 + duration WHERE lane = ?1")?.execute(params![lane, tx.now])?;
        }
        (Check::RecordWithoutLane, worker, _) => {
            tx.sql("DELETE FROM queue_workers WHERE queue = ?1 AND process = CAST(?2 AS TEXT)")?.execute(params![queue.key, worker])?;
            tx.sql("DELETE FROM queue_loads WHERE queue = ?1 AND process = CAST(?2 AS TEXT)")?.execute(params![queue.key, worker])?;
        }
        (Check::WorkerWithoutRecord, worker, _) => {
            const STORE: &str = "INSERT OR REPLACE INTO queue_workers (queue, process, record) VALUES (?1, CAST(?2 AS TEXT), ?3)";
            tx.sql(STORE)?.execute(params![queue.key, worker, WorkerInfo::default().stored(tx.now)])?;
        }
        (Check::HeldByNobody, id, lane) => return_orphaned_active(tx, queue, id, lane)?,
        (Check::WithoutPlace, id, _) => return_jobs::reset_rank(tx, queue, id)?,
        // A worker that does not know the task of a parked job parks it again.
        (Check::WithoutLine | Check::ParkedStray, id, _) => return_jobs::repair(tx, queue, ready::leaving_stray(id), End::Tail)?,
        (Check::ParkedHollow, id, _) => ready::unpark(tx, queue, id)?,
        (Check::KeyLeaked, Value::Blob(key), _) => keys::pass_on(tx, queue, key)?,
        (Check::HeldForNobody, Value::Blob(id), _) => keys::repair_held(tx, queue, id)?,
        (Check::KeyMissing, Value::Blob(id), _) => keys::acquire_free_key(tx, queue, id)?,
        (Check::RunWithoutJob, id, _) => {
            if let Value::Blob(bytes) = id {
                schedule::record_end(tx, queue, bytes, "deleted")?;
            }
            tx.sql("DELETE FROM queue_ticked WHERE queue = ?1 AND id = ?2")?.execute(params![queue.key, id])?;
        }
        (Check::SlotLeaked, id, Value::Blob(name)) => {
            tx.sql("DELETE FROM queue_holders WHERE queue = ?1 AND name = ?2 AND id = ?3")?.execute(params![queue.key, name, id])?;
            groups::review(tx, queue, name)?;
        }
        (Check::SlotMissing, id, Value::Blob(name)) => {
            const TAKE: &str = "INSERT OR IGNORE INTO queue_holders (queue, name, id) VALUES (?1, ?2, ?3)";
            tx.sql(TAKE)?.execute(params![queue.key, name, id])?;
            groups::review(tx, queue, name)?;
        }
        (Check::LineLeaked, Value::Blob(name), _) => {
            tx.sql("UPDATE queue_groups SET front = NULL WHERE queue = ?1 AND name = ?2")?.execute(params![queue.key, name])?;
            groups::review(tx, queue, name)?;
        }
        (Check::LimitSlotLeaked, id, key) => {
            tx.sql("DELETE FROM queue_slots WHERE queue = ?1 AND key = ?2 AND id = ?3")?.execute(params![queue.key, key, id])?;
            recheck_key(tx, queue, key)?;
        }
        (Check::LimitSlotMissing, id, _) => limits::start(tx, queue, id)?,
        (Check::LimitAsleep, key, _) => recheck_key(tx, queue, key)?,
        (Check::LimitHollow, Value::Integer(chain), _) => turns::remove(tx, queue, *chain)?,
        (Check::GroupIndexWrong, Value::Blob(name), _) => groups::review(tx, queue, name)?,
        (Check::TagLeaked | Check::TagStrange, id, digest) => {
            tx.sql("DELETE FROM queue_tags WHERE queue = ?1 AND id = ?2 AND digest = ?3")?.execute(params![queue.key, id, digest])?;
        }
        (Check::TagMissing, Value::Blob(id), Value::Blob(envelope)) => tags::store(tx, queue, id, envelope)?,
        _ => {}
    }
    Ok(())
}

/// Repairs an active job whose lane does not exist.
fn return_orphaned_active(tx: &mut Tx<'_>, queue: &mut Queue<'_>, id: &Value, lane: &Value) -> Result<(), Failed> {
    /// Recreates a lost lane as a fenced one.
    const LOST_LANE: &str =
        "INSERT OR IGNORE INTO queue_lanes (lane, queue, name, process, deadline, fenced) VALUES (?1, ?2, 'lost.' || ?1, 'lost', 0, 1)";
    const LAST_LANE: &str = "SELECT ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'queue_lanes'), 0)";
    // A number that was never assigned must not be used: later lanes would get larger numbers.
    let last: i64 = tx.sql(LAST_LANE)?.query_row([], |row| row.get(0))?;
    match lane {
        // Recreates the lane as a fenced one: the next reclaim takes the job back as it does for
        // crashed workers.
        Value::Integer(lane @ 1..) if *lane <= last => {
            tx.sql(LOST_LANE)?.execute(params![lane, queue.key])?;
        }
        _ => {
            let job = settle::orphan(tx, queue, id)?;
            return_jobs::repair(tx, queue, job, End::Head)?;
        }
    }
    Ok(())
}

fn recheck_key(tx: &mut Tx<'_>, queue: &Queue<'_>, key: &Value) -> Result<(), Failed> {
    let Value::Blob(key) = key else { return Ok(()) };
    Ok(LimitKey::from_bytes(key).map_or(Ok(()), |key| limits::recheck_key(tx, queue, &key))?)
}
