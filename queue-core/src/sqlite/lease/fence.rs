//! Look two: ends the lanes that are as they were at the first look.

use rusqlite::params;

use crate::{
    broker::Suspect,
    sqlite::connection::{
        statement::sql,
        tx::{Failed, Tx},
    },
};

pub(crate) fn fence(tx: &mut Tx<'_>, queue: &str, suspects: &[Suspect]) -> Result<Vec<bool>, Failed> {
    let Some(queue) = tx.queue(queue)? else { return Ok(vec![false; suspects.len()]) };
    let mut answers = Vec::with_capacity(suspects.len());
    for suspect in suspects {
        let fenced = tx.sql(sql!("fence.sql"))?.execute(params![queue.key, suspect.worker.as_str(), suspect.deadline_ms, tx.now])?;
        answers.push(fenced == 1);
    }
    Ok(answers)
}
