//! A job that waits for its time is to start now.

use crate::{
    address::JobId,
    sqlite::{
        connection::tx::{Failed, Tx},
        doors::ready,
    },
};

pub(crate) fn promote(tx: &mut Tx<'_>, queue: &str, ids: &[JobId]) -> Result<Vec<bool>, Failed> {
    let Some(mut queue) = tx.queue(queue)? else { return Ok(vec![false; ids.len()]) };
    let mut answers = Vec::with_capacity(ids.len());
    for id in ids {
        answers.push(ready::promote_early(tx, &mut queue, id.as_bytes())?);
    }
    tx.save(&queue)?;
    Ok(answers)
}
