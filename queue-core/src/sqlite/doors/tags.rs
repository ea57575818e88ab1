//! The index of tags: `queue_tags` has a row for each tag of a job. Triggers take the rows along
//! with the job, and with an envelope that is replaced.

use rusqlite::params;

use crate::{
    envelope::tags::tag_digests,
    sqlite::connection::tx::{Queue, Tx},
};

/// Notes the tags of a job whose envelope is stored. Of a job without tags nothing is written.
pub(crate) fn note(tx: &Tx<'_>, queue: &Queue<'_>, id: &[u8], envelope: &[u8]) -> rusqlite::Result<()> {
    /// The row of a job takes its tags along, whichever program removes it: a library that knows
    /// none, too. Without tags there is no trigger.
    const GONE: &str = "CREATE TRIGGER IF NOT EXISTS queue_tags_gone AFTER DELETE ON queue_jobs \
        BEGIN DELETE FROM queue_tags WHERE queue = OLD.queue AND id = OLD.id; END";
    /// Another envelope takes the tags along; those that it has are noted behind it. Without tags
    /// there is no trigger.
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
