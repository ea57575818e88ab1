//! A job or its record is removed, whatever its state but `active`, and its id is free.

use rusqlite::{OptionalExtension, params};

use crate::{
    address::JobId,
    sqlite::{
        connection::{
            statement::sql,
            tx::{Failed, Tx},
        },
        doors::{
            end, ready,
            row::{ACTIVE, CANCELLED, DEAD, DONE, EXPIRED},
        },
    },
};

pub(crate) fn delete(tx: &mut Tx<'_>, queue: &str, ids: &[JobId]) -> Result<Vec<bool>, Failed> {
    let Some(queue) = tx.queue(queue)? else { return Ok(vec![false; ids.len()]) };
    let mut answers = Vec::with_capacity(ids.len());
    for id in ids {
        let id = id.as_bytes();
        let found: Option<(i64, i64)> =
            tx.sql(sql!("delete.sql"))?.query_row(params![queue.key, id, ACTIVE], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        answers.push(found.is_some());
        match found {
            None => {}
            Some((state @ (DONE | DEAD | CANCELLED | EXPIRED), bytes)) => end::delete_record(tx, &queue, id, state, bytes)?,
            Some((state, _)) => {
                let job = ready::leave(tx, &queue, id, state)?;
                end::delete(tx, &queue, job)?;
            }
        }
    }
    Ok(answers)
}
