//! Housekeeping: removes what is kept for a while only.

use std::time::Duration;

use rusqlite::params;

use crate::{
    broker::{RELAY_AGE, SWEEPER_LEASE, SweepLimits, Swept},
    sqlite::{
        connection::{
            statement::sql,
            tx::{Failed, Queue, Tx, after},
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
    if is_swept_elsewhere(tx, &queue, limits.sweeper)? {
        swept.elsewhere = true;
        return Ok(swept);
    }
    let looked;
    (swept.buried, looked) = end::bury_unreadable(tx, &queue, items)?;
    let ages = (before(limits.producers), before(limits.producers.saturating_mul(RELAY_AGE)));
    swept.producers = tx.sql(sql!("sweep_producers.sql"))?.execute(params![queue.key, ages.0, Unsigned(items), ages.1])?;
    swept.remembered = end::forget(tx, &queue, before(limits.remembered), number(limits.remembered_count), items)?;
    swept.dead = end::evict_dead(tx, &queue, before(limits.dead), number(limits.dead_bytes), items)?;
    swept.keys = keys::prune(tx, &queue, items)?;
    swept.waiters = watched::prune(tx, &queue, items)?;
    let transitions = transitions::prune(tx, items)?;
    let groups;
    (swept.groups, groups) = groups::prune(tx, &queue, items)?;
    swept.rates = rates::prune(tx, &queue, items)?;
    swept.ended = end::evict_kept(tx, &queue, items)? + end::trim(tx, &queue, limits.keep, items)?;
    let removed = [looked, swept.producers, swept.remembered, swept.dead, swept.ended, swept.keys, swept.waiters, swept.rates];
    swept.more = transitions || groups || removed.into_iter().any(|removed| removed >= items);
    note_sweeper(tx, &queue, limits.sweeper, swept.more)?;
    Ok(swept)
}

/// Under which name it is noted who has left expired entries in a queue: its number, and until when it keeps others away.
const SWEEPER: &str = ".sweeper";

/// Who has left expired entries, and until when it keeps others away. A time that no clock could have set is over.
fn sweeper(tx: &Tx<'_>, queue: &Queue<'_>) -> Result<Option<(u64, bool)>, Failed> {
    let Some(stored) = tx.place(queue.key, SWEEPER)? else { return Ok(None) };
    let number = |at: usize| stored.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_be_bytes);
    let until = number(8).cast_signed();
    Ok(Some((number(0), until > tx.now && until <= after(tx.now, SWEEPER_LEASE))))
}

fn is_swept_elsewhere(tx: &Tx<'_>, queue: &Queue<'_>, me: u64) -> Result<bool, Failed> {
    Ok(me != 0 && sweeper(tx, queue)?.is_some_and(|(other, keeps)| other != me && keeps))
}

fn note_sweeper(tx: &Tx<'_>, queue: &Queue<'_>, me: u64, more: bool) -> Result<(), Failed> {
    if more && me != 0 {
        let until = after(tx.now, SWEEPER_LEASE).cast_unsigned();
        tx.note_place(queue.key, SWEEPER, Some(&[me.to_be_bytes(), until.to_be_bytes()].concat()))?;
    } else if !more && sweeper(tx, queue)?.is_some_and(|(other, keeps)| other == me || !keeps) {
        tx.note_place(queue.key, SWEEPER, None)?;
    }
    Ok(())
}
