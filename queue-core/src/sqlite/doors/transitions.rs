//! Transitions, for those who follow a queue: from which state a job goes to which. `queue_followed` has a row for each queue that somebody follows, until when, and the number
//! of the last transition; `queue_transitions` the last of them.
//!
//! Triggers write them, in the transaction of the change: a door writes the column `state`, so nothing goes past them, not even another release. They are made with the first
//! mark and go with the last, so that a file in which nobody follows a queue has none.

use std::time::Duration;

use rusqlite::{OptionalExtension, params};

use super::row;
use crate::{
    address::JobId,
    broker::{FOLLOWED, Followed, StoredTransition, Transitions, task_in},
    sqlite::connection::{
        lenient::{Bytes, Count, Number, Words},
        triggers,
        tx::{Failed, Queue, Tx, after},
    },
};

/// Marks a queue as one that somebody follows, for so long.
pub(crate) fn follow(tx: &Tx<'_>, queue: &Queue<'_>, stands: Duration) -> Result<Followed, Failed> {
    const MARK: &str = "INSERT INTO queue_followed (queue, until) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET until = excluded.until";
    let (before, last) = mark_of(tx, queue)?.unwrap_or_default();
    let latest = after(tx.now, FOLLOWED);
    // A mark that no clock could have set is none.
    let stood = before > tx.now && before <= latest;
    let until = after(tx.now, stands).min(latest).max(if stood { before } else { 0 });
    tx.sql(MARK)?.execute(params![queue.key, until])?;
    tx.with_triggers(triggers::make)?;
    Ok(Followed::new(last.max(0).unsigned_abs(), stood, String::new()))
}

/// Until when somebody follows a queue, and the number of the last transition.
fn mark_of(tx: &Tx<'_>, queue: &Queue<'_>) -> rusqlite::Result<Option<(i64, i64)>> {
    const MARKED: &str = "SELECT until, last FROM queue_followed WHERE queue = ?1";
    let read = |row: &rusqlite::Row<'_>| {
        let (Number(until), Number(last)) = (row.get(0)?, row.get(1)?);
        Ok((until, last))
    };
    tx.sql(MARKED)?.query_row([queue.key], read).optional()
}

/// Transitions behind that of a number.
pub(crate) fn transitions(tx: &Tx<'_>, queue: &Queue<'_>, after: u64, limit: usize) -> Result<Transitions, Failed> {
    const TOLD: &str = "SELECT number, at, id, head, came_from, came_to, attempts, note FROM queue_transitions
        WHERE queue = ?1 AND number > ?2 ORDER BY number LIMIT ?3";
    let last = mark_of(tx, queue)?.map_or(0, |(_, last)| last.max(0).unsigned_abs());
    let mut statement = tx.sql(TOLD)?;
    let mut rows = statement.query(params![queue.key, i64::try_from(after).unwrap_or(i64::MAX), limit])?;
    let (mut told, mut read) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        read += 1;
        let (Number(number), Number(at_ms), Bytes(id), Bytes(head)) = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
        // What is no id is for the auditor to find.
        let Ok(id) = JobId::from_bytes(&id) else { continue };
        let mut one = StoredTransition::new(number.max(0).unsigned_abs(), at_ms, id);
        let state = |stored: Option<Number>| stored.and_then(|Number(number)| row::state(number).ok());
        (one.from, one.to) = (state(row.get(4)?), state(row.get(5)?));
        one.task = task_in(&head);
        one.attempts = row.get::<_, Count>(6)?.0;
        one.reason = row.get::<_, Option<Words>>(7)?.map(|Words(reason)| reason);
        told.push(one);
    }
    Ok(Transitions::read(told, after, last, read < limit))
}

/// Removes at most so many transitions of a queue that nobody follows any more; after the last of the file the triggers go.
pub(crate) fn prune(tx: &Tx<'_>, queue: &Queue<'_>, items: usize) -> Result<(), Failed> {
    const OLD: &str = "DELETE FROM queue_transitions WHERE queue = ?1 AND number IN
        (SELECT number FROM queue_transitions WHERE queue = ?1 ORDER BY number LIMIT ?2)";
    const UNMARK: &str = "DELETE FROM queue_followed WHERE queue = ?1";
    const ANY: &str = "SELECT 1 FROM queue_followed";
    let Some((until, _)) = mark_of(tx, queue)? else { return Ok(()) };
    if until > tx.now && until <= after(tx.now, FOLLOWED) || tx.sql(OLD)?.execute(params![queue.key, items])? == items {
        return Ok(());
    }
    tx.sql(UNMARK)?.execute([queue.key])?;
    if !tx.sql(ANY)?.exists([])? {
        tx.with_triggers(triggers::drop)?;
    }
    Ok(())
}
