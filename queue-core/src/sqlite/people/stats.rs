//! Which queues there are, and the numbers of one.

use rusqlite::{Row, params};

use crate::{
    broker::QueueStats,
    sqlite::{
        connection::{
            lenient::{Number, Words},
            tx::{Failed, Tx},
        },
        doors::ready,
    },
};

pub(crate) fn queues(tx: &mut Tx<'_>) -> Result<Vec<String>, Failed> {
    const QUEUES: &str = "SELECT name FROM queue_queues ORDER BY name";
    let mut names = tx.sql(QUEUES)?;
    Ok(names.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?)
}

pub(crate) fn stats(tx: &mut Tx<'_>, queue: &str) -> Result<QueueStats, Failed> {
    // Names that begin with a dot are the broker's own.
    const COUNTERS: &str = "SELECT name, value FROM queue_counters WHERE queue = ?1 AND name NOT LIKE '.%'";
    const LANES: &str = "SELECT count(*), count(DISTINCT process) FROM queue_lanes WHERE queue = ?1 AND NOT fenced AND deadline > ?2";
    let Some(queue) = tx.queue(queue)? else { return Ok(QueueStats::default()) };
    let mut counters = tx.sql(COUNTERS)?;
    let read = |row: &Row<'_>| Ok((row.get::<_, Words>(0)?.0, row.get::<_, Number>(1)?.0.max(0).unsigned_abs()));
    let mut stats = QueueStats::default();
    for (state, jobs) in ready::depth(tx, &queue)? {
        stats.set_count(state, jobs);
    }
    for counter in counters.query_map([queue.key], read)? {
        let (name, total): (String, u64) = counter?;
        stats.set_total(&name, total);
    }
    (stats.lanes, stats.workers) = tx.sql(LANES)?.query_row(params![queue.key, tx.now], |row| Ok((row.get(0)?, row.get(1)?)))?;
    stats.paused = queue.paused;
    Ok(stats)
}
