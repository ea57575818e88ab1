//! Housekeeping: removes expired data.

use std::time::Duration;

use rusqlite::params;

use crate::{
    address::topic_at,
    broker::{CLEANUP_BEHIND, RELAY_AGE, SWEEPER_LEASE, SweepLimits, Swept},
    sqlite::{
        connection::{
            tx::{Failed, Queue, Tx, after},
            unsigned::Unsigned,
        },
        doors::{
            end, groups, keys, limits as rates,
            row::{CANCELLED, DEAD, DONE, EXPIRED, PARKED},
            transitions, watched,
        },
        schedule,
    },
};

pub(crate) fn sweep(tx: &mut Tx<'_>, queue: &str, limits: &SweepLimits) -> Result<Swept, Failed> {
    /// Removes producers that have not been seen for long.
    /// ?1 queue, ?2 the latest time, ?3 limit, ?4 the latest time for answers of a relay.
    const SWEEP_PRODUCERS: &str = "DELETE FROM queue_producers WHERE queue = ?1 AND name IN \
        (SELECT name FROM queue_producers WHERE queue = ?1 AND seen <= ?2 AND (seen <= ?4 \
            OR substr(answers, 1, 1) IS NOT X'FF') LIMIT ?3)";
    let mut swept = Swept::default();
    let Some(queue) = tx.queue(queue)? else { return Ok(swept) };
    let (now, items) = (tx.now, limits.items);
    let before = |age: Duration| now.saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
    let number = |limit: u64| i64::try_from(limit).unwrap_or(i64::MAX);
    if items == 0 {
        return overdue(tx, &queue, limits);
    }
    if is_swept_elsewhere(tx, &queue, limits.sweeper)? {
        swept.elsewhere = true;
        return Ok(swept);
    }
    let looked;
    (swept.buried, looked) = end::bury_unreadable(tx, &queue, items)?;
    let ages = (before(limits.producers), before(limits.producers.saturating_mul(RELAY_AGE)));
    swept.producers = tx.sql(SWEEP_PRODUCERS)?.execute(params![queue.key, ages.0, Unsigned(items), ages.1])?;
    swept.remembered = end::forget_given_ids(tx, &queue, before(limits.remembered), number(limits.remembered_count), items)?;
    swept.dead = end::evict_dead(tx, &queue, before(limits.dead), number(limits.dead_bytes), items)?;
    swept.keys = keys::prune(tx, &queue, items)?;
    swept.waiters = watched::prune(tx, &queue, items)?;
    swept.backfilled = schedule::prune(tx, &queue, items)?;
    let transitions = transitions::prune(tx, items)?;
    let groups;
    (swept.groups, groups) = groups::prune(tx, &queue, items)?;
    let rates;
    (swept.rates, rates) = rates::prune(tx, &queue, items)?;
    swept.ended = end::evict_kept(tx, &queue, items)? + end::trim(tx, &queue, limits.keep, items)?;
    let removed = [looked, swept.producers, swept.remembered, swept.dead, swept.ended, swept.keys, swept.waiters, swept.backfilled];
    swept.more = transitions || groups || rates || removed.into_iter().any(|removed| removed >= items);
    // The sweeper of a topic also trims the log: it always excludes other sweepers.
    store_sweeper(tx, &queue, limits.sweeper, swept.more || topic_at(queue.name).is_some())?;
    store_ages(tx, &queue, limits)?;
    Ok(swept)
}

/// The retention of producers, remembered ids and dead jobs, as the last sweeping worker has
/// reported it.
const AGES: &str = ".ages";

fn store_ages(tx: &Tx<'_>, queue: &Queue<'_>, limits: &SweepLimits) -> Result<(), Failed> {
    let ages = [limits.producers, limits.remembered, limits.dead].map(ms);
    if limits.sweeper != 0 && stored_ages(tx, queue)? != Some(ages) {
        tx.store_position(queue.key, AGES, Some(&ages.map(i64::to_be_bytes).concat()))?;
    }
    Ok(())
}

fn stored_ages(tx: &Tx<'_>, queue: &Queue<'_>) -> Result<Option<[i64; 3]>, Failed> {
    let Some(stored) = tx.place(queue.key, AGES)? else { return Ok(None) };
    let age = |at: usize| stored.get(8 * at..8 * at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(i64::MAX, i64::from_be_bytes);
    Ok(Some([age(0), age(1), age(2)]))
}

/// Chosen ids whose jobs ended before this time are no longer remembered.
pub(crate) fn remembered_since(tx: &Tx<'_>, queue: &Queue<'_>) -> Result<i64, Failed> {
    let age = stored_ages(tx, queue)?.map_or_else(|| ms(SweepLimits::default().remembered), |[_, remembered, _]| remembered);
    Ok(tx.now.saturating_sub(age))
}

fn ms(age: Duration) -> i64 {
    i64::try_from(age.as_millis()).unwrap_or(i64::MAX)
}

/// Whether more than [`CLEANUP_BEHIND`] expired entries of a kind wait.
fn overdue(tx: &Tx<'_>, queue: &Queue<'_>, limits: &SweepLimits) -> Result<Swept, Failed> {
    // An index would cost a write for each enqueue.
    const PRODUCERS: &str = "SELECT 1 FROM queue_producers WHERE queue = ?1 AND seen <= ?2 LIMIT 1 OFFSET ?3";
    const REMEMBERED: &str = "SELECT 1 FROM queue_remembered WHERE queue = ?1 AND ended <= ?2 LIMIT 1 OFFSET ?3";
    const JOBS: &str = "SELECT 1 FROM queue_jobs WHERE queue = ?1 AND state = ?4 AND rank = 0 AND pos <= ?2 LIMIT 1 OFFSET ?3";
    const ENDED: &str =
        "SELECT count(*) FROM (SELECT 1 FROM queue_jobs WHERE queue = ?1 AND state = ?4 AND rank = 0 AND pos <= ?2 LIMIT ?3)";
    const KEYS: &str = "SELECT 1 FROM queue_keys WHERE queue = ?1 AND until <= ?2 LIMIT 1 OFFSET ?3";
    const RATES: &str = "SELECT 1 FROM queue_rates WHERE queue = ?1 AND tat <= ?2 * 1000 AND closed <= ?2 LIMIT 1 OFFSET ?3";
    const GROUPS: &str = "SELECT 1 FROM queue_groups WHERE queue = ?1 AND eligible = 0 AND front IS NULL
        AND start <= (SELECT virtual FROM queue_virtual_times WHERE queue = ?1) AND ?2 LIMIT 1 OFFSET ?3";
    const BACKFILLED: &str = "SELECT 1 FROM queue_backfilled WHERE queue = ?1 AND at <= ?2 LIMIT 1 OFFSET ?3";
    const LANES: &str = "SELECT 1 FROM queue_lanes WHERE queue = ?1 AND NOT fenced AND deadline <= ?2 LIMIT 1 OFFSET ?3";
    const WAITERS: &str = "SELECT 1 FROM queue_watched WHERE queue = ?1 AND until <= ?2 LIMIT 1 OFFSET ?3";
    let count = |found: bool| if found { CLEANUP_BEHIND + 1 } else { 0 };
    let waits_since =
        |sql: &str, upto: i64| Ok::<_, rusqlite::Error>(count(tx.sql(sql)?.exists(params![queue.key, upto, Unsigned(CLEANUP_BEHIND)])?));
    let waits = |sql: &str| waits_since(sql, tx.now);
    let mut swept = Swept::default();
    let ages = stored_ages(tx, queue)?.unwrap_or([limits.producers, limits.remembered, limits.dead].map(ms));
    let [producers, remembered, dead] = ages.map(|age| tx.now.saturating_sub(age));
    (swept.producers, swept.remembered) = (waits_since(PRODUCERS, producers)?, waits_since(REMEMBERED, remembered)?);
    swept.dead = count(tx.sql(JOBS)?.exists(params![queue.key, dead, Unsigned(CLEANUP_BEHIND), DEAD])?);
    swept.parked = count(tx.sql(JOBS)?.exists(params![queue.key, tx.now, Unsigned(CLEANUP_BEHIND), PARKED])?);
    swept.lanes = waits(LANES)?;
    for state in [DONE, CANCELLED, EXPIRED] {
        let inputs = params![queue.key, tx.now, Unsigned(CLEANUP_BEHIND + 1), state];
        swept.ended += tx.sql(ENDED)?.query_row(inputs, |row| Unsigned::<usize>::get(row, 0))?;
    }
    swept.ended = count(swept.ended > CLEANUP_BEHIND);
    (swept.keys, swept.waiters) = (waits(KEYS)?, waits(WAITERS)?);
    swept.backfilled = waits_since(BACKFILLED, schedule::remembered_since(tx))?;
    (swept.groups, swept.rates) = (waits(GROUPS)?, waits(RATES)?);
    Ok(swept)
}

/// The name under which the sweeper that has left expired entries is stored: its number, and the
/// time until which it excludes others.
const SWEEPER: &str = ".sweeper";

/// The sweeper that has left expired entries, and whether it still excludes others. A time that is
/// too far ahead counts as passed.
fn sweeper(tx: &Tx<'_>, queue: &Queue<'_>) -> Result<Option<(u64, bool)>, Failed> {
    let Some(stored) = tx.place(queue.key, SWEEPER)? else { return Ok(None) };
    let number = |at: usize| stored.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_be_bytes);
    let until = number(8).cast_signed();
    Ok(Some((number(0), until > tx.now && until <= after(tx.now, SWEEPER_LEASE))))
}

fn is_swept_elsewhere(tx: &Tx<'_>, queue: &Queue<'_>, me: u64) -> Result<bool, Failed> {
    Ok(me != 0 && sweeper(tx, queue)?.is_some_and(|(other, keeps)| other != me && keeps))
}

fn store_sweeper(tx: &Tx<'_>, queue: &Queue<'_>, me: u64, more: bool) -> Result<(), Failed> {
    if more && me != 0 {
        let until = after(tx.now, SWEEPER_LEASE).cast_unsigned();
        tx.store_position(queue.key, SWEEPER, Some(&[me.to_be_bytes(), until.to_be_bytes()].concat()))?;
    } else if !more && sweeper(tx, queue)?.is_some_and(|(other, keeps)| other == me || !keeps) {
        tx.store_position(queue.key, SWEEPER, None)?;
    }
    Ok(())
}
