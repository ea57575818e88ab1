//! Housekeeping: removes what is kept for a while only.

use std::time::Duration;

use rusqlite::params;

use crate::{
    broker::{RELAY_AGE, SweepLimits, Swept},
    sqlite::{
        connection::{
            statement::sql,
            tx::{Failed, Tx},
            unsigned::Unsigned,
        },
        doors::{end, groups, keys, limits as rates, transitions, watched},
    },
};

pub(crate) fn sweep(tx: &mut Tx<'_>, queue: &str, limits: &SweepLimits) -> Result<Swept, Failed> {
    let mut swept = Swept::default();
    let Some(queue) = tx.queue(queue)? else { return Ok(swept) };
    let (now, items) = (tx.now, limits.items);
    let before = |age: Duration| now.saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
    let number = |limit: u64| i64::try_from(limit).unwrap_or(i64::MAX);
    swept.buried = end::bury_unreadable(tx, &queue, items)?;
    let ages = (before(limits.producers), before(limits.producers.saturating_mul(RELAY_AGE)));
    swept.producers = tx.sql(sql!("sweep_producers.sql"))?.execute(params![queue.key, ages.0, Unsigned(items), ages.1])?;
    swept.remembered = end::forget(tx, &queue, before(limits.remembered), number(limits.remembered_count), items)?;
    swept.dead = end::evict_dead(tx, &queue, before(limits.dead), number(limits.dead_bytes), items)?;
    swept.keys = keys::prune(tx, &queue, items)?;
    swept.waiters = watched::prune(tx, &queue, items)?;
    transitions::prune(tx, items)?;
    swept.groups = groups::prune(tx, &queue, items)?;
    swept.rates = rates::prune(tx, &queue, items)?;
    swept.ended = end::evict_kept(tx, &queue, items)? + end::trim(tx, &queue, limits.keep, items)?;
    let removed = [swept.producers, swept.remembered, swept.dead, swept.ended, swept.keys, swept.waiters, swept.groups, swept.rates];
    swept.more = swept.buried.len() >= items || removed.into_iter().any(|removed| removed >= items);
    Ok(swept)
}
