//! Look two: ends the lanes that are as they were at the first look.

use rusqlite::params;

use super::overdue::UNREADABLE;
use crate::{
    broker::OverdueLane,
    sqlite::connection::{
        statement::sql,
        tx::{Failed, Queue, Tx},
    },
};

pub(crate) fn fence(tx: &mut Tx<'_>, queue: &str, overdue: &[OverdueLane]) -> Result<Vec<bool>, Failed> {
    let Some(queue) = tx.queue(queue)? else { return Ok(vec![false; overdue.len()]) };
    let mut answers = Vec::with_capacity(overdue.len());
    for lane in overdue {
        let name = lane.name.as_str();
        let number: Option<i64> = name.strip_prefix(UNREADABLE).and_then(|number| number.parse().ok());
        let fenced = tx.sql(sql!("fence.sql"))?.execute(params![queue.key, name, lane.deadline_ms, tx.now, number])?;
        if fenced == 1 {
            deregister(tx, &queue, lane.name.process())?;
        }
        answers.push(fenced == 1);
    }
    Ok(answers)
}

/// A lane of this worker is one no more: with the last of them goes the worker's record.
fn deregister(tx: &Tx<'_>, queue: &Queue<'_>, process: &str) -> rusqlite::Result<()> {
    /// Removes the load of a worker that has no lane any more.
    const DEREGISTER_LOAD: &str = "DELETE FROM queue_loads WHERE queue = ?1 AND process = ?2 \
        AND NOT EXISTS (SELECT 1 FROM queue_lanes WHERE queue = ?1 \
            AND name BETWEEN ?2 || '.' AND ?2 || '/' AND process = ?2 AND NOT fenced)";
    /// Removes the record of a worker that has no lane any more. A fenced lane is none. The name of
    /// a lane begins with its process and a point: so the index finds it.
    const DEREGISTER: &str = "DELETE FROM queue_workers WHERE queue = ?1 AND process = ?2 \
        AND NOT EXISTS (SELECT 1 FROM queue_lanes WHERE queue = ?1 \
            AND name BETWEEN ?2 || '.' AND ?2 || '/' AND process = ?2 AND NOT fenced)";
    tx.sql(DEREGISTER_LOAD)?.execute(params![queue.key, process])?;
    tx.sql(DEREGISTER)?.execute(params![queue.key, process]).map(drop)
}
