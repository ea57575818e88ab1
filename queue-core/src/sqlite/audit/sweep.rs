//! Housekeeping: what is kept for a while only.

use rusqlite::{params, types::Value};

use crate::broker::{KeepLimits, SweepLimits, Swept};
use crate::sqlite::{
    connection::lenient::Number,
    connection::tx::{Failed, Tx},
    doors::row::{CANCELLED, DEAD, DONE, EXPIRED},
};

pub(crate) fn sweep(tx: &mut Tx<'_>, queue: &str, limits: &SweepLimits) -> Result<Swept, Failed> {
    let mut swept = Swept::default();
    let Some(queue) = tx.queue(queue)? else { return Ok(swept) };
    let key = queue.key;
    let now = tx.now;
    let before = |age: std::time::Duration| now.saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX));

    swept.producers = tx
        .sql(
            "DELETE FROM queue_producers WHERE queue = ?1 AND name IN
             (SELECT name FROM queue_producers WHERE queue = ?1 AND seen <= ?2 LIMIT ?3)",
        )?
        .execute(params![key, before(limits.producers), limits.items])?;

    let count = tx.counter(key, ".tombstones")?;
    let excess = count.saturating_sub(i64::try_from(limits.tombstone_count).unwrap_or(i64::MAX)).max(0);
    swept.tombstones = tx
        .sql(
            "DELETE FROM queue_tombstones WHERE queue = ?1 AND id IN
             (SELECT id FROM queue_tombstones WHERE queue = ?1 AND ended <= ?2 ORDER BY ended LIMIT ?3)",
        )?
        .execute(params![key, before(limits.tombstones), limits.items])?;
    swept.tombstones += tx
        .sql(
            "DELETE FROM queue_tombstones WHERE queue = ?1 AND id IN
             (SELECT id FROM queue_tombstones WHERE queue = ?1 ORDER BY ended LIMIT ?2)",
        )?
        .execute(params![key, excess.min(i64::try_from(limits.items).unwrap_or(i64::MAX))])?;

    tx.count(key, ".tombstones", -i64::try_from(swept.tombstones).unwrap_or(i64::MAX));

    let dead_before = before(limits.dead);
    let dead_bytes = i64::try_from(limits.dead_bytes).unwrap_or(i64::MAX);
    swept.dead = evict(tx, key, DEAD, limits.items, |tx, died| Ok(died <= dead_before || tx.counter(key, ".dead_bytes")? > dead_bytes))?;
    tx.count(key, "dead_evicted", i64::try_from(swept.dead).unwrap_or(i64::MAX));

    for state in [DONE, CANCELLED, EXPIRED] {
        swept.ended += evict(tx, key, state, limits.items, |tx, until| Ok(until <= tx.now))?;
    }
    swept.ended += trim_kept(tx, key, limits.keep, limits.items)?;
    Ok(swept)
}

/// Removes at most `items` kept jobs while there are too many of them.
pub(crate) fn trim_kept(tx: &mut Tx<'_>, queue: i64, limits: KeepLimits, items: usize) -> Result<usize, Failed> {
    let mut removed = 0;
    if !too_many(tx, queue, limits)? {
        return Ok(removed);
    }
    for state in [DONE, CANCELLED, EXPIRED] {
        removed += evict(tx, queue, state, items - removed, |tx, _| too_many(tx, queue, limits))?;
    }
    Ok(removed)
}

fn too_many(tx: &Tx<'_>, queue: i64, limits: KeepLimits) -> Result<bool, Failed> {
    let over = |value: i64, limit: u64| u64::try_from(value).unwrap_or(0) > limit;
    Ok(over(tx.counter(queue, ".kept")?, limits.count) || over(tx.counter(queue, ".kept_bytes")?, limits.bytes))
}

/// Removes the first jobs of a final state, at most `items`, for as long as `goes` says so of their `pos`.
fn evict(
    tx: &mut Tx<'_>,
    queue: i64,
    state: i64,
    items: usize,
    goes: impl Fn(&Tx<'_>, i64) -> Result<bool, Failed>,
) -> Result<usize, Failed> {
    let mut removed = 0;
    while removed < items {
        let first = {
            let mut first = tx.sql(
                "SELECT id, pos, length(envelope) + ifnull(length(result), 0) FROM queue_jobs
                 WHERE queue = ?1 AND state = ?2 AND rank = 0 ORDER BY pos LIMIT 1",
            )?;
            let mut rows = first.query(params![queue, state])?;
            match rows.next()? {
                Some(row) => Some((row.get::<_, Value>(0)?, row.get::<_, Number>(1)?.0, row.get::<_, Number>(2)?.0)),
                None => None,
            }
        };
        let Some((id, pos, bytes)) = first else { break };
        if !goes(tx, pos)? {
            break;
        }
        tx.remove_ended(queue, &id, state, bytes)?;
        removed += 1;
    }
    Ok(removed)
}
