//! The triggers that tell of transitions. A file has them only while somebody follows a queue of it.

use rusqlite::Connection;

/// Makes the triggers that tell of transitions, where they are missing.
pub(crate) fn make(connection: &Connection) -> rusqlite::Result<()> {
    const MADE: &str = "SELECT count(*) = 3 FROM sqlite_schema WHERE type = 'trigger' AND name IN ('queue_told_new', 'queue_told_change', 'queue_told_gone')";
    if connection.prepare_cached(MADE)?.query_row([], |row| row.get(0))? {
        return Ok(());
    }
    connection.execute_batch(include_str!("migrations/told.sql"))
}

/// Drops them.
pub(crate) fn drop(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "DROP TRIGGER IF EXISTS queue_told_new; DROP TRIGGER IF EXISTS queue_told_change; DROP TRIGGER IF EXISTS queue_told_gone",
    )
}
