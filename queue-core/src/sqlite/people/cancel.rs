//! R13: cancels jobs that have not ended, or only waiting ones.

use rusqlite::{OptionalExtension, params};

use crate::{
    broker::Changed,
    sqlite::{
        connection::tx::{Failed, Queue, Tx, watches_of},
        doors::{
            end, ready,
            row::{ACTIVE, CANCELLED, DEAD, DONE, EXPIRED, Receipt},
            settle,
        },
    },
};

pub(super) fn cancel(tx: &mut Tx<'_>, queue: &mut Queue<'_>, id: &[u8], reason: Option<&str>) -> Result<Changed, Failed> {
    let (job, changed) = match place(tx, queue, id)? {
        None | Some((DONE | DEAD | CANCELLED | EXPIRED, ..)) => return Ok(Changed::No),
        Some((ACTIVE, lane, claim)) => (settle::cancel(tx, queue, Receipt { lane, claim }, id)?, Changed::WhileActive),
        Some((state, ..)) => (ready::remove_waiting(tx, queue, id, state)?, Changed::Yes),
    };
    end::cancel(tx, queue, job, reason)?;
    if changed == Changed::WhileActive {
        // The workers send a heartbeat at once, which returns the cancelled jobs.
        tx.hint(&watches_of(queue.name), tx.now);
    }
    Ok(changed)
}

/// False: the job does not exist, has ended or is active.
pub(crate) fn cancel_waiting(tx: &mut Tx<'_>, queue: &mut Queue<'_>, id: &[u8], reason: Option<&str>) -> Result<bool, Failed> {
    let state = match place(tx, queue, id)? {
        None | Some((DONE | DEAD | CANCELLED | EXPIRED | ACTIVE, ..)) => return Ok(false),
        Some((state, ..)) => state,
    };
    let job = ready::remove_waiting(tx, queue, id, state)?;
    end::cancel(tx, queue, job, reason)?;
    Ok(true)
}

fn place(tx: &Tx<'_>, queue: &Queue<'_>, id: &[u8]) -> rusqlite::Result<Option<(i64, i64, i64)>> {
    const PLACE: &str = "SELECT state, rank, pos FROM queue_jobs WHERE queue = ?1 AND id = ?2";
    tx.sql(PLACE)?.query_row(params![queue.key, id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()
}
