//! Aging raises the priority of waiting jobs. A row of `queue_rising` has the time at which a ready
//! job rises by one priority, and the priority that it has reached. The place of a risen job is one
//! of that priority; the column `priority` keeps its own.
//!
//! The row is written when the job joins the line, and deleted when the job is claimed or removed.
//! A row that another program has left is deleted when it is due.

use rusqlite::{OptionalExtension, ToSql, params, types::Value};

use super::{
    groups, limits,
    ready::{self, End},
    row,
};
use crate::{
    broker::{AgingRecord, DUE_ITEMS, JobState},
    sqlite::connection::{
        tx::{Failed, Queue, Tx, after},
        unsigned::Unsigned,
    },
};

/// The stored aging rule of a queue.
pub(crate) fn stored(tx: &Tx<'_>, queue: &Queue<'_>) -> rusqlite::Result<Vec<u8>> {
    const STORED: &str = "SELECT stored FROM queue_aging WHERE queue = ?1";
    if !tx.may_have_aging() {
        return Ok(Vec::new());
    }
    Ok(tx.sql(STORED)?.query_row([queue.key], |row| row.get::<_, Vec<u8>>(0)).optional()?.unwrap_or_default())
}

/// Starts the aging of a job that joins the line at a place.
pub(super) fn start_aging(tx: &Tx<'_>, queue: &Queue<'_>, id: &(impl ToSql + ?Sized), place: i64) -> rusqlite::Result<()> {
    const SET_OUT: &str = "INSERT OR REPLACE INTO queue_rising (queue, id, at, place, level)
                           SELECT queue, id, ?3, ?4, priority FROM queue_jobs WHERE queue = ?1 AND id = ?2";
    let Some(every) = AgingRecord::effective_interval(&stored(tx, queue)?) else { return Ok(()) };
    tx.sql(SET_OUT)?.execute(params![queue.key, id, after(tx.now, every), place]).map(drop)
}

/// Ends the aging of a job that is no longer ready.
pub(super) fn stop_aging(tx: &Tx<'_>, queue: &Queue<'_>, id: &(impl ToSql + ?Sized)) -> rusqlite::Result<()> {
    const REST: &str = "DELETE FROM queue_rising WHERE queue = ?1 AND id = ?2";
    if tx.may_have_aging() {
        tx.sql(REST)?.execute(params![queue.key, id])?;
    }
    Ok(())
}

/// When a ready job rises next. A suspect does not rise.
pub(crate) fn next_raise(tx: &Tx<'_>, queue: &Queue<'_>, id: &[u8]) -> rusqlite::Result<Option<i64>> {
    const RISES: &str = "SELECT at FROM queue_rising WHERE queue = ?1 AND id = ?2 AND level > 0";
    if !tx.may_have_aging() {
        return Ok(None);
    }
    tx.sql(RISES)?.query_row(params![queue.key, id], |row| row.get::<_, i64>(0)).optional()
}

/// A row of `queue_rising` that is due, and the state and crashes of its job.
struct Riser {
    id: Value,
    at: i64,
    level: i64,
    may: bool,
}

/// Raises jobs that have waited for one interval of aging by one priority, to the end of that
/// priority. One call raises at most as many jobs as may become due at once.
pub(crate) fn raise_aged_jobs(tx: &mut Tx<'_>, queue: &Queue<'_>) -> Result<(), Failed> {
    /// Jobs that rise, with the state and the crashes of each. Jobs of the same time rise in the
    /// order of their places.
    const DUE: &str = "SELECT rising.id, rising.at, rising.level, job.state, ifnull(job.crashes, 0) FROM queue_rising AS rising \
        LEFT JOIN queue_jobs AS job ON job.queue = rising.queue AND job.id = rising.id \
        WHERE rising.queue = ?1 AND rising.at <= ?2 ORDER BY rising.at, rising.place LIMIT ?3";
    const DROP: &str = "DELETE FROM queue_rising WHERE queue = ?1 AND id = ?2";
    const LATER: &str = "UPDATE queue_rising SET at = ?3, place = ?4, level = ?5 WHERE queue = ?1 AND id = ?2";
    const PRIORITY: &str = "UPDATE queue_jobs SET priority = ?3 WHERE queue = ?1 AND id = ?2";
    const OWN: &str = "SELECT priority FROM queue_jobs WHERE queue = ?1 AND id = ?2";
    let Some(every) = AgingRecord::effective_interval(&stored(tx, queue)?) else { return Ok(()) };
    let mut left = DUE_ITEMS;
    for _ in 0..3 {
        let read = |row: &rusqlite::Row<'_>| {
            let (at, level, crashes): (i64, i64, u32) = (row.get(1)?, row.get(2)?, row.get(4)?);
            let state = row.get::<_, Option<i64>>(3)?.and_then(|state| row::state(state).ok());
            // A suspect is served before all other jobs, so it does not rise.
            Ok(Riser { id: row.get(0)?, at, level, may: state == Some(JobState::Ready) && crashes == 0 && level > 0 })
        };
        let due: Vec<Riser> = tx.sql(DUE)?.query_map(params![queue.key, tx.now, Unsigned(left)], read)?.collect::<rusqlite::Result<_>>()?;
        if due.is_empty() {
            break;
        }
        left -= due.len();
        for Riser { id, at, level, may } in due {
            if !may {
                tx.sql(DROP)?.execute(params![queue.key, id])?;
                continue;
            }
            let own: Value = tx.sql(OWN)?.query_row(params![queue.key, id], |row| row.get(0))?;
            tx.sql(PRIORITY)?.execute(params![queue.key, id, level - 1])?;
            limits::leave(tx, queue, &id)?;
            let place = ready::push_to_line(tx, queue, &id, End::Tail)?;
            groups::review_group_of(tx, queue, &id)?;
            tx.sql(PRIORITY)?.execute(params![queue.key, id, own])?;
            if level == 1 {
                tx.sql(DROP)?.execute(params![queue.key, id])?;
            } else {
                tx.sql(LATER)?.execute(params![queue.key, id, after(at, every), place, level - 1])?;
            }
        }
    }
    Ok(())
}
