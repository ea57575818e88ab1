//! The index of tags: `queue_tags` has a row for each tag of a job. Triggers take the rows along with the job, and with an envelope that is replaced.

use rusqlite::params;

use crate::{
    envelope::tags::tag_digests,
    sqlite::connection::{
        statement::sql,
        tx::{Queue, Tx},
    },
};

/// Notes the tags of a job whose envelope is stored. Of a job without tags nothing is written.
pub(crate) fn note(tx: &Tx<'_>, queue: &Queue<'_>, id: &[u8], envelope: &[u8]) -> rusqlite::Result<()> {
    const NOTE: &str = "INSERT OR IGNORE INTO queue_tags (queue, digest, id) VALUES (?1, ?2, ?3)";
    let digests = tag_digests(envelope);
    if digests.is_empty() {
        return Ok(());
    }
    tx.sql(sql!("tags_gone.sql"))?.execute([])?;
    tx.sql(sql!("tags_changed.sql"))?.execute([])?;
    for digest in digests {
        tx.sql(NOTE)?.execute(params![queue.key, digest, id])?;
    }
    Ok(())
}
