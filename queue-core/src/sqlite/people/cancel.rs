//! R13: a job that has not ended is cancelled, whatever its state.

use rusqlite::{OptionalExtension, params};

use crate::{
    address::JobId,
    broker::CancelAnswer,
    sqlite::{
        connection::{
            lenient::Number,
            tx::{Failed, Tx},
        },
        doors::{
            end, ready,
            row::{ACTIVE, CANCELLED, DEAD, DONE, EXPIRED, Tag},
            settle,
        },
    },
};

pub(crate) fn cancel(tx: &mut Tx<'_>, queue: &str, ids: &[JobId]) -> Result<Vec<CancelAnswer>, Failed> {
    const PLACE: &str = "SELECT state, rank, pos FROM queue_jobs WHERE queue = ?1 AND id = ?2";
    let Some(queue) = tx.queue(queue)? else { return Ok(vec![CancelAnswer::NotFound; ids.len()]) };
    let mut answers = Vec::with_capacity(ids.len());
    for id in ids {
        let id = id.as_bytes();
        let place: Option<(Number, Number, Number)> =
            tx.sql(PLACE)?.query_row(params![queue.key, id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()?;
        let (job, answer) = match place {
            None | Some((Number(DONE | DEAD | CANCELLED | EXPIRED), ..)) => {
                answers.push(CancelAnswer::NotFound);
                continue;
            }
            Some((Number(ACTIVE), Number(lane), Number(claim))) => {
                (settle::cancel(tx, Tag { lane, claim }, id)?, CancelAnswer::CancelledActive)
            }
            Some((Number(state), ..)) => (ready::leave(tx, &queue, id, state)?, CancelAnswer::Cancelled),
        };
        end::cancelled(tx, &queue, job, None)?;
        answers.push(answer);
    }
    Ok(answers)
}
