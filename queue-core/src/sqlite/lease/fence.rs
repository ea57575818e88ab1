//! The second check: fences the lanes that have not changed since the first check.

use rusqlite::{OptionalExtension, params};

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
        let seen = params![queue.key, name, lane.deadline_ms, tx.now, number];
        let fenced: Option<i64> = tx.sql(sql!("fence.sql"))?.query_row(seen, |row| row.get(0)).optional()?;
        if let Some(lane) = fenced {
            deregister(tx, &queue, lane)?;
        }
        answers.push(fenced.is_some());
    }
    Ok(answers)
}

/// Removes the record of the lane's worker if it has no other lane.
fn deregister(tx: &Tx<'_>, queue: &Queue<'_>, lane: i64) -> rusqlite::Result<()> {
    /// Removes the load of a worker without a lane.
    const DEREGISTER_LOAD: &str = "DELETE FROM queue_loads AS worker WHERE queue = ?1 \
        AND process = (SELECT process FROM queue_lanes WHERE lane = ?2) \
        AND NOT EXISTS (SELECT 1 FROM queue_lanes WHERE queue = ?1 \
            AND name BETWEEN worker.process || '.' AND worker.process || '/' AND process = worker.process AND NOT fenced)";
    /// Removes the record of a worker without a lane. Fenced lanes do not count. The name of a lane
    /// begins with its process and a dot, so the index finds it.
    const DEREGISTER: &str = "DELETE FROM queue_workers AS worker WHERE queue = ?1 \
        AND process = (SELECT process FROM queue_lanes WHERE lane = ?2) \
        AND NOT EXISTS (SELECT 1 FROM queue_lanes WHERE queue = ?1 \
            AND name BETWEEN worker.process || '.' AND worker.process || '/' AND process = worker.process AND NOT fenced)";
    tx.sql(DEREGISTER_LOAD)?.execute([queue.key, lane])?;
    tx.sql(DEREGISTER)?.execute([queue.key, lane]).map(drop)
}
