//! A paused queue takes jobs in and gives none out.

use rusqlite::params;

use crate::sqlite::connection::tx::{Failed, Tx};

pub(crate) fn set_paused(tx: &mut Tx<'_>, name: &str, paused: bool) -> Result<(), Failed> {
    const PAUSE: &str = "UPDATE queue_queues SET paused = ?2 WHERE queue = ?1";
    let queue = tx.queue_made(name)?;
    tx.sql(PAUSE)?.execute(params![queue.key, paused])?;
    if !paused {
        tx.hint(name, tx.now);
    }
    Ok(())
}
