//! The triggers that record transitions. A file has them only while the mark of a watcher of one of
//! its queues is valid.

use rusqlite::{Connection, OptionalExtension, params};

use super::{tx::after, unsigned::Unsigned};
use crate::broker::FOLLOWED;

/// Creates the triggers that record transitions, if they are missing.
pub(crate) fn make(connection: &Connection) -> rusqlite::Result<()> {
    if count(connection)? == 3 {
        return Ok(());
    }
    connection.execute_batch(include_str!("transitions.sql"))
}

/// Ends the expired marks of all queues of the file, and removes at most `items` rows that were
/// recorded under them. A file without a valid mark needs no triggers. The row of a queue is kept:
/// its next mark continues with the numbers. Returns whether more rows are left.
pub(crate) fn prune(connection: &Connection, now: i64, items: usize) -> rusqlite::Result<bool> {
    const LAPSED: &str = "SELECT queue FROM queue_followed WHERE until IS NOT 0 AND NOT coalesce(until > ?1 AND until <= ?2, 0) LIMIT 1";
    const OLD: &str = "DELETE FROM queue_transitions WHERE queue = ?1 AND number IN
        (SELECT number FROM queue_transitions WHERE queue = ?1 ORDER BY number LIMIT ?2)";
    const OVER: &str = "UPDATE queue_followed SET until = 0 WHERE queue = ?1";
    const ANY: &str = "SELECT 1 FROM queue_followed WHERE until IS NOT 0";
    // Twice the longest mark: the clock of the process that has set the mark may be ahead.
    let latest = after(now, FOLLOWED * 2);
    let mut room = items;
    loop {
        let lapsed: Option<i64> = connection.prepare_cached(LAPSED)?.query_row(params![now, latest], |row| row.get(0)).optional()?;
        let Some(queue) = lapsed else { break };
        let gone = connection.prepare_cached(OLD)?.execute(params![queue, Unsigned(room)])?;
        if gone >= room {
            return Ok(true);
        }
        connection.prepare_cached(OVER)?.execute([queue])?;
        room -= gone + 1;
    }
    if connection.prepare_cached(ANY)?.exists([])? || count(connection)? == 0 {
        return Ok(false);
    }
    connection.execute_batch(
        "DROP TRIGGER IF EXISTS queue_transition_new; DROP TRIGGER IF EXISTS queue_transition_change; DROP TRIGGER IF EXISTS queue_transition_removed",
    )?;
    Ok(false)
}

/// The number of these triggers.
fn count(connection: &Connection) -> rusqlite::Result<i64> {
    const COUNT: &str = "SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND name IN ('queue_transition_new', 'queue_transition_change', 'queue_transition_removed')";
    connection.prepare_cached(COUNT)?.query_row([], |row| row.get(0))
}
