//! The index of tags: `queue_tags` has a row for each tag of a job. Triggers delete the rows
//! together with the job, and when its envelope is replaced.

use rusqlite::params;

use crate::{
    envelope::tags::tag_digests,
    sqlite::connection::tx::{Queue, Tx},
};

/// Adds the tags of a job whose envelope is stored to the index. Writes nothing for a job without
/// tags.
pub(crate) fn store(tx: &Tx<'_>, queue: &Queue<'_>, id: &[u8], envelope: &[u8]) -> rusqlite::Result<()> {
    /// Deletes the tags together with the row of a job, even if another program deletes the row, or
    /// a library that does not know tags. Files without tags have no trigger.
    const GONE: &str = "CREATE TRIGGER IF NOT EXISTS queue_tags_gone AFTER DELETE ON queue_jobs \
        BEGIN DELETE FROM queue_tags WHERE queue = OLD.queue AND id = OLD.id; END";
    /// Deletes the tags when the envelope is replaced. The tags of the new envelope are added
    /// afterwards. Files without tags have no trigger.
    const CHANGED: &str = "CREATE TRIGGER IF NOT EXISTS queue_tags_changed AFTER UPDATE OF envelope \
            ON queue_jobs WHEN OLD.envelope IS NOT NEW.envelope \
        BEGIN DELETE FROM queue_tags WHERE queue = OLD.queue AND id = OLD.id; END";
    const NOTE: &str = "INSERT OR IGNORE INTO queue_tags (queue, digest, id) VALUES (?1, ?2, ?3)";
    let digests = tag_digests(envelope);
    if digests.is_empty() {
        return Ok(());
    }
    tx.sql(GONE)?.execute([])?;
    tx.sql(CHANGED)?.execute([])?;
    for digest in digests {
        tx.sql(NOTE)?.execute(params![queue.key, digest, id])?;
    }
    Ok(())
}
