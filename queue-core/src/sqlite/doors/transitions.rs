//! Transitions, for watchers: the old and the new state of a job. `queue_followed` has a row for
//! each queue that a watcher follows or has followed: the end of the mark, the number of the last
//! transition, and how many times a mark began. `queue_transitions` has the last transitions.
//!
//! Triggers write them in the transaction of the change. Because they fire when the column `state`
//! changes, they also record the changes of other releases. They are created with the first mark
//! and dropped with the last one, so a file without a watcher has none.

use std::time::Duration;

use rusqlite::{OptionalExtension, params};

use super::row::{self, ACTIVE, PARKED};
use crate::{
    address::JobId,
    broker::{FOLLOWED, Followed, StoredTransition, Transitions, reason_in, task_in},
    sqlite::connection::{
        triggers,
        tx::{Failed, Queue, Tx, after},
        unsigned::Unsigned,
    },
};

/// The number of rows of expired marks that are removed when another mark is set.
const PRUNED: usize = 100;

/// The mark of a queue: its end, the number of the last transition, and how many times a mark
/// began.
#[derive(Default)]
struct Mark {
    until: i64,
    last: i64,
    begun: i64,
}

/// Marks a queue as followed for `valid_for`. The life changes whenever a mark begins, because no
/// transition was recorded before.
pub(crate) fn follow(tx: &Tx<'_>, queue: &Queue<'_>, valid_for: Duration) -> Result<Followed, Failed> {
    const MARK: &str = "INSERT INTO queue_followed (queue, until, begun, now) VALUES (?1, ?2, ?3, ?4)
        ON CONFLICT DO UPDATE SET until = excluded.until, begun = excluded.begun";
    let Mark { until: before, last, begun } = mark_of(tx, queue)?.unwrap_or_default();
    let latest = after(tx.now, FOLLOWED);
    // A mark that is too far ahead is not valid.
    let was_valid = before > tx.now && before <= latest;
    let until = after(tx.now, valid_for).min(latest).max(if was_valid { before } else { 0 });
    let begun = begun.max(0).saturating_add(i64::from(!was_valid));
    tx.sql(MARK)?.execute(params![queue.key, until, begun, tx.is_of_test().then_some(tx.now)])?;
    if !was_valid {
        prune(tx, PRUNED)?;
    }
    tx.with_triggers(triggers::make)?;
    Ok(Followed::new(last.max(0).unsigned_abs(), was_valid, begun.to_string()))
}

fn mark_of(tx: &Tx<'_>, queue: &Queue<'_>) -> rusqlite::Result<Option<Mark>> {
    const MARKED: &str = "SELECT until, last, begun FROM queue_followed WHERE queue = ?1";
    let read = |row: &rusqlite::Row<'_>| Ok(Mark { until: row.get(0)?, last: row.get(1)?, begun: row.get(2)? });
    tx.sql(MARKED)?.query_row([queue.key], read).optional()
}

/// The transitions after a number.
pub(crate) fn transitions(tx: &Tx<'_>, queue: &Queue<'_>, after: u64, limit: usize) -> Result<Transitions, Failed> {
    const READ: &str = "SELECT number, at, id, head, from_state, to_state, attempts, note FROM queue_transitions
        WHERE queue = ?1 AND number > ?2 ORDER BY number LIMIT ?3";
    let Mark { last, begun, .. } = mark_of(tx, queue)?.unwrap_or_default();
    let mut statement = tx.sql(READ)?;
    let mut rows = statement.query(params![queue.key, i64::try_from(after).unwrap_or(i64::MAX), Unsigned(limit)])?;
    let (mut entries, mut read) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        read += 1;
        let (number, at_ms, id, head): (i64, i64, Vec<u8>, Vec<u8>) = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
        // Values that are not ids are left for the auditor.
        let Ok(id) = JobId::from_bytes(&id) else { continue };
        let mut one = StoredTransition::new(number.max(0).unsigned_abs(), at_ms, id);
        let state = |stored: Option<i64>| stored.and_then(|number| row::state(number).ok());
        (one.from, one.to) = (state(row.get(4)?), state(row.get(5)?));
        one.task = task_in(&head);
        one.attempts = row.get::<_, u32>(6)?;
        one.reason = row.get::<_, Option<Vec<u8>>>(7)?.and_then(|head| reason_in(&head));
        entries.push(one);
    }
    Ok(Transitions::read(entries, after, last.max(0).unsigned_abs(), read < limit).of_life(begun.max(0).to_string()))
}

/// A job that was admitted is parked before it has started. Instead of both transitions, one is
/// recorded, from its previous state.
pub(crate) fn merge_into_parked(tx: &Tx<'_>, queue: &Queue<'_>, id: &[u8]) -> Result<(), Failed> {
    const LAST: &str = "DELETE FROM queue_transitions WHERE queue = ?1 AND id = ?2 AND from_state = ?3
        AND number = (SELECT last FROM queue_followed WHERE queue = ?1)";
    const BACK: &str = "UPDATE queue_followed SET last = last - 1 WHERE queue = ?1";
    const ADMITTED: &str = "UPDATE queue_transitions SET to_state = ?4 WHERE queue = ?1 AND number =
        (SELECT number FROM queue_transitions WHERE queue = ?1 AND id = ?2 AND to_state = ?3 ORDER BY number DESC LIMIT 1)";
    if tx.sql(LAST)?.execute(params![queue.key, id, ACTIVE])? > 0 {
        tx.sql(BACK)?.execute([queue.key])?;
        tx.sql(ADMITTED)?.execute(params![queue.key, id, ACTIVE, PARKED])?;
    }
    Ok(())
}

/// Removes at most `items` rows of expired marks, of all queues of the file. The triggers are
/// dropped with the last row of the file. Returns whether more rows are left.
pub(crate) fn prune(tx: &Tx<'_>, items: usize) -> Result<bool, Failed> {
    Ok(tx.with_triggers(|connection| triggers::prune(connection, tx.now, items))?)
}
