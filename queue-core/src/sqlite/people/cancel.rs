//! R13: a job that has not ended is cancelled, whatever its state.

use rusqlite::{OptionalExtension, params};

use crate::{
    broker::Changed,
    sqlite::{
        connection::{
            lenient::Number,
            tx::{Failed, Queue, Tx},
        },
        doors::{
            end, ready,
            row::{ACTIVE, CANCELLED, DEAD, DONE, EXPIRED, Tag},
            settle,
        },
    },
};

pub(super) fn cancel(tx: &mut Tx<'_>, queue: &mut Queue<'_>, id: &[u8], reason: Option<&str>) -> Result<Changed, Failed> {
    const PLACE: &str = "SELECT state, rank, pos FROM queue_jobs WHERE queue = ?1 AND id = ?2";
    let place: Option<(Number, Number, Number)> =
        tx.sql(PLACE)?.query_row(params![queue.key, id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()?;
    let (job, changed) = match place {
        None | Some((Number(DONE | DEAD | CANCELLED | EXPIRED), ..)) => return Ok(Changed::No),
        Some((Number(ACTIVE), Number(lane), Number(claim))) => (settle::cancel(tx, queue, Tag { lane, claim }, id)?, Changed::WhileActive),
        Some((Number(state), ..)) => (ready::leave(tx, queue, id, state)?, Changed::Yes),
    };
    end::cancelled(tx, queue, job, reason)?;
    Ok(changed)
}
