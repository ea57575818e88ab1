//! Callers that wait for the end of a job: `queue_watched` has a row for each such job, with the
//! time until which a caller waits. `end` notifies them, and removes the row.

use rusqlite::{OptionalExtension, ToSql, params};

use super::row::{CANCELLED, DEAD, DONE, EXPIRED};
use crate::{
    address::JobId,
    broker::{MOST_WATCHED, WATCHED},
    sqlite::connection::{
        tx::{Failed, Queue, Tx, after, ending_of, watches_of},
        unsigned::Unsigned,
    },
};

/// Marks a job as watched until its end, unless it has ended.
pub(crate) fn watch(tx: &mut Tx<'_>, queue: &Queue<'_>, id: &JobId) -> Result<(), Failed> {
    const STATE: &str = "SELECT state FROM queue_jobs WHERE queue = ?1 AND id = ?2";
    const ROOM: &str = "SELECT count(*) < ?2 FROM queue_watched WHERE queue = ?1";
    const MARK: &str = "INSERT OR REPLACE INTO queue_watched (queue, id, until) VALUES (?1, ?2, ?3)";
    let state: Option<i64> = tx.sql(STATE)?.query_row(params![queue.key, id.as_bytes()], |row| row.get(0)).optional()?;
    let waits = state.is_some_and(|state| ![DONE, DEAD, CANCELLED, EXPIRED].contains(&state));
    let has_room = || tx.sql(ROOM)?.query_row(params![queue.key, Unsigned(MOST_WATCHED)], |row| row.get::<_, bool>(0));
    // Expired marks of callers do not count against the limit.
    if waits && (has_room()? || prune(tx, queue, 100)? > 0) {
        tx.sql(MARK)?.execute(params![queue.key, id.as_bytes(), after(tx.now, WATCHED)])?;
        tx.mark_watched();
        tx.hint(&watches_of(queue.name), tx.now);
    }
    Ok(())
}

/// Whether a caller waits for the end of this job.
pub(crate) fn is_watched(tx: &Tx<'_>, queue: &Queue<'_>, id: &[u8]) -> rusqlite::Result<bool> {
    const WATCHED: &str = "SELECT 1 FROM queue_watched WHERE queue = ?1 AND id = ?2";
    Ok(tx.may_have_watchers() && tx.sql(WATCHED)?.exists(params![queue.key, id])?)
}

/// Notifies the callers that wait for the end of a job.
pub(super) fn notify(tx: &mut Tx<'_>, queue: &Queue<'_>, id: &[u8]) -> Result<(), Failed> {
    if tx.may_have_watchers()
        && remove_mark(tx, queue, &id)?
        && let Ok(id) = JobId::from_bytes(id)
    {
        tx.hint(&ending_of(queue.name, &id), tx.now);
    }
    Ok(())
}

fn remove_mark(tx: &Tx<'_>, queue: &Queue<'_>, id: &impl ToSql) -> rusqlite::Result<bool> {
    const FORGET: &str = "DELETE FROM queue_watched WHERE queue = ?1 AND id = ?2";
    Ok(tx.sql(FORGET)?.execute(params![queue.key, id])? > 0)
}

/// Removes at most `items` marks of callers that have stopped waiting.
pub(crate) fn prune(tx: &Tx<'_>, queue: &Queue<'_>, items: usize) -> rusqlite::Result<usize> {
    const PRUNE: &str =
        "DELETE FROM queue_watched WHERE (queue, id) IN (SELECT queue, id FROM queue_watched WHERE queue = ?1 AND until <= ?2 LIMIT ?3)";
    if !tx.may_have_watchers() {
        return Ok(0);
    }
    tx.sql(PRUNE)?.execute(params![queue.key, tx.now, Unsigned(items)])
}
