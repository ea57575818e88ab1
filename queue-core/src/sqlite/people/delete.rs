//! Removes a job or its record in any state but `active`. Its id may be used again.

use rusqlite::{OptionalExtension, params};

use crate::{
    broker::Changed,
    sqlite::{
        connection::tx::{Failed, Queue, Tx},
        doors::{
            end, ready,
            row::{ACTIVE, CANCELLED, DEAD, DONE, EXPIRED},
        },
    },
};

pub(super) fn delete(tx: &mut Tx<'_>, queue: &mut Queue<'_>, id: &[u8]) -> Result<Changed, Failed> {
    Ok(if remove(tx, queue, id)? { Changed::Yes } else { Changed::No })
}

/// False: there is no job with this id, or it is active.
pub(crate) fn remove(tx: &mut Tx<'_>, queue: &mut Queue<'_>, id: &[u8]) -> Result<bool, Failed> {
    /// State and bytes of a job that may be removed.
    const DELETE: &str =
        "SELECT state, length(envelope) + ifnull(length(result), 0) FROM queue_jobs WHERE queue = ?1 AND id = ?2 AND state <> ?3";
    let found: Option<(i64, i64)> =
        tx.sql(DELETE)?.query_row(params![queue.key, id, ACTIVE], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    match found {
        None => return Ok(false),
        Some((state @ (DONE | DEAD | CANCELLED | EXPIRED), bytes)) => end::delete_record(tx, queue, id, state, bytes)?,
        Some((state, _)) => {
            let job = ready::remove_waiting(tx, queue, id, state)?;
            end::delete(tx, queue, job)?;
        }
    }
    Ok(true)
}
