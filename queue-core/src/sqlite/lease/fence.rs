//! Look two: ends the lanes that are as they were at the first look.

use rusqlite::params;

use crate::{
    broker::OverdueLane,
    sqlite::connection::{
        statement::sql,
        tx::{Failed, Tx},
    },
};

pub(crate) fn fence(tx: &mut Tx<'_>, queue: &str, overdue: &[OverdueLane]) -> Result<Vec<bool>, Failed> {
    let Some(queue) = tx.queue(queue)? else { return Ok(vec![false; overdue.len()]) };
    let mut answers = Vec::with_capacity(overdue.len());
    for lane in overdue {
        let fenced = tx.sql(sql!("fence.sql"))?.execute(params![queue.key, lane.name.as_str(), lane.deadline_ms, tx.now])?;
        answers.push(fenced == 1);
    }
    Ok(answers)
}
