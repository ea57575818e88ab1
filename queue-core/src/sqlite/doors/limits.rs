//! Limits: which chains may start. A chain is a group, a priority, and limit keys. Its ready jobs
//! are in the state `CHAINED`, with the number of the chain as rank. A chain is *open*, or *shut*
//! under a key that permitted none of its jobs to start.
//!
//! | table | a row |
//! |---|---|
//! | `queue_limited` | a job with limits, while the job or its record exists |
//! | `queue_chains` | a chain with a ready job: its ticket (the smallest is next in its group and priority), and the key under which it is shut |
//! | `queue_slots` | a running job and one of its keys: the rows are the slots, without a separate counter |
//! | `queue_rates` | a key of a limit with a rate: its theoretical arrival time in microseconds, and the time until which it is closed |
//! | `queue_wakes` | a key under which chains are shut, and the time from which it has, or may have, room; 0: now |
//! | `queue_limits` | the declared and the set values of a limit |
//!
//! A chain is open until a claim examines it: the claim shuts the chains whose jobs cannot start. A
//! transaction that gives a key room adds it to the wakes. For this reason no job waits that may
//! start, and no claim examines shut chains.
//!
//! A chain that waits keeps its place until one of its jobs starts: its ticket is smaller than
//! [`TICKETS`], and those of chains that have not waited are not. Until then no chain of its group
//! that has not waited, and has no higher priority, takes a start from its key.

use rusqlite::{OptionalExtension, ToSql, params};

use super::{ledger::Ledger, row::CHAINED, turns};
use crate::{
    address::JobId,
    broker::{
        GroupName, HOLDERS_NAMED, JobLimits, LONGEST_CLOSED, LimitKey, LimitRecord, LimitRule, NewJob, Priority, StoredLimitKey, TICKETS,
        Used, gcra,
    },
    sqlite::connection::{
        schema::Feature,
        tx::{Queue, Tx},
        unsigned::Unsigned,
    },
};

/// The group of jobs that have limits but no group. It has no share: its jobs are served among the
/// plain jobs.
pub(crate) const NO_GROUP: &[u8] = b"\0\0";

/// The priority of the job that blocks the line of an ordered group.
pub(super) const FRONT: i64 = -1;

/// The limits of a job.
pub(crate) struct Limited {
    pub(crate) keys: Vec<LimitKey>,
    stored: Vec<u8>,
    pub(super) cost: u32,
}

/// The condition under which a key permits the next job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// A slot is free.
    Slot,
    /// This time has come, in milliseconds.
    At(i64),
    /// The jobs that wait for the key have started.
    Others,
}

/// The limits of a job, if it has any.
pub(crate) fn of(tx: &Tx<'_>, queue: &Queue<'_>, id: &(impl ToSql + ?Sized)) -> rusqlite::Result<Option<Limited>> {
    const OF: &str = "SELECT keys, cost FROM queue_limited WHERE queue = ?1 AND id = ?2";
    if !tx.may_have_limits() {
        return Ok(None);
    }
    let read = |row: &rusqlite::Row<'_>| {
        let (stored, cost): (Vec<u8>, i64) = (row.get(0)?, row.get(1)?);
        Ok(Limited { keys: JobLimits::keys_of(&stored), stored, cost: u32::try_from(cost).unwrap_or(1).max(1) })
    };
    tx.sql(OF)?.query_row(params![queue.key, id], read).optional()
}

/// Stores the limits of a new job. The job then has a stored group, too.
pub(super) fn note(tx: &mut Tx<'_>, queue: &Queue<'_>, job: &NewJob) -> rusqlite::Result<()> {
    const NOTE: &str = "INSERT OR REPLACE INTO queue_limited (queue, id, keys, cost) VALUES (?1, ?2, ?3, ?4)";
    let Some(limits) = &job.limits else { return Ok(()) };
    tx.note(Feature::Groups)?;
    tx.note(Feature::Limits)?;
    tx.sql(NOTE)?.execute(params![queue.key, job.id.as_bytes(), limits.chain(), limits.cost]).map(drop)
}

/// The stored group of a new job.
pub(super) fn group_of(job: &NewJob) -> Option<Vec<u8>> {
    job.group.as_ref().map(GroupName::stored).or_else(|| job.limits.is_some().then(|| NO_GROUP.to_vec()))
}

/// Removes the limits of a deleted job.
pub(super) fn forget(tx: &Tx<'_>, queue: &Queue<'_>, id: &(impl ToSql + ?Sized)) -> rusqlite::Result<()> {
    const FORGET: &str = "DELETE FROM queue_limited WHERE queue = ?1 AND id = ?2";
    if tx.may_have_limits() {
        tx.sql(FORGET)?.execute(params![queue.key, id])?;
    }
    Ok(())
}

/// The effective rule of the limit of a key.
pub(crate) fn rule(tx: &Tx<'_>, queue: &Queue<'_>, key: &LimitKey) -> rusqlite::Result<LimitRule> {
    const RULE: &str = "SELECT stored FROM queue_limits WHERE queue = ?1 AND name = ?2";
    let name = &key.as_bytes()[..LimitKey::NAME];
    let stored: Option<Vec<u8>> = tx.sql(RULE)?.query_row(params![queue.key, name], |row| row.get(0)).optional()?;
    Ok(stored.map(|stored| LimitRecord::effective_rule(&stored)).unwrap_or_default())
}

/// The number of jobs that hold a slot of a key.
pub(crate) fn held(tx: &Tx<'_>, queue: &Queue<'_>, key: &LimitKey) -> rusqlite::Result<i64> {
    const HELD: &str = "SELECT count(*) FROM queue_slots WHERE queue = ?1 AND key = ?2";
    tx.sql(HELD)?.query_row(params![queue.key, key.as_bytes()], |row| row.get(0))
}

/// The number of ready jobs with limits, counted up to `most`: those without a group if `is_plain`,
/// and otherwise those of groups.
pub(super) fn count(tx: &Tx<'_>, queue: &Queue<'_>, is_plain: bool, most: u64) -> rusqlite::Result<u64> {
    const PLAIN: &str = "SELECT count(*) FROM (SELECT 1 FROM queue_chains AS chains CROSS JOIN queue_jobs AS jobs
        ON jobs.queue = chains.queue AND jobs.state = ?2 AND jobs.rank = chains.chain
        WHERE chains.queue = ?1 AND chains.name = ?3 LIMIT ?4)";
    const GROUPED: &str = "SELECT count(*) FROM (SELECT 1 FROM queue_chains AS chains CROSS JOIN queue_jobs AS jobs
        ON jobs.queue = chains.queue AND jobs.state = ?2 AND jobs.rank = chains.chain
        WHERE chains.queue = ?1 AND chains.name > ?3 LIMIT ?4)";
    let count = if is_plain { PLAIN } else { GROUPED };
    tx.sql(count)?.query_row(params![queue.key, CHAINED, NO_GROUP, Unsigned(most)], |row| Unsigned::get(row, 0))
}

/// Opens the chain of a ready job as the last one of its group and priority, unless it exists.
/// Returns its number.
pub(super) fn join(tx: &Tx<'_>, queue: &Queue<'_>, name: &[u8], priority: i64, limited: &Limited) -> rusqlite::Result<i64> {
    const JOIN: &str = "INSERT INTO queue_chains (queue, name, priority, keys, ticket) VALUES (?1, ?2, ?3, ?4, 1 + max(?5,
        ifnull((SELECT max(ticket) FROM queue_chains WHERE queue = ?1 AND name = ?2 AND priority = ?3 AND shut IS NULL), 0)))
        ON CONFLICT DO NOTHING";
    const CHAIN: &str = "SELECT chain FROM queue_chains WHERE queue = ?1 AND name = ?2 AND priority = ?3 AND keys = ?4";
    tx.sql(JOIN)?.execute(params![queue.key, name, priority, limited.stored, TICKETS])?;
    tx.sql(CHAIN)?.query_row(params![queue.key, name, priority, limited.stored], |row| row.get::<_, i64>(0))
}

/// Moves an open chain of which a job has started behind the others of its group and priority.
pub(super) fn to_end(tx: &Tx<'_>, chain: i64) -> rusqlite::Result<()> {
    const TO_END: &str = "UPDATE queue_chains SET ticket = 1 + max(?2, ifnull((SELECT max(ticket) FROM queue_chains AS other
        WHERE other.queue = queue_chains.queue AND other.name = queue_chains.name AND other.priority = queue_chains.priority AND other.shut IS NULL), 0))
        WHERE chain = ?1";
    tx.sql(TO_END)?.execute(params![chain, TICKETS]).map(drop)
}

/// The first chains of a group in the order of their keys: at most this number for each
/// priority.
pub(crate) fn chains(tx: &Tx<'_>, queue: &Queue<'_>, name: &[u8], most: usize) -> rusqlite::Result<Vec<i64>> {
    const CHAINS: &str = "SELECT chain FROM queue_chains WHERE queue = ?1 AND name = ?2 AND priority >= 0 ORDER BY keys, priority LIMIT ?3";
    let most = most * (usize::from(Priority::Low.number()) + 1);
    tx.sql(CHAINS)?.query_map(params![queue.key, name, Unsigned(most)], |row| row.get::<_, i64>(0))?.collect()
}

/// Whether a chain has a ready job.
fn has_jobs(tx: &Tx<'_>, queue: &Queue<'_>, chain: i64) -> rusqlite::Result<bool> {
    const ANY: &str = "SELECT EXISTS (SELECT 1 FROM queue_jobs WHERE queue = ?1 AND state = ?2 AND rank = ?3)";
    tx.sql(ANY)?.query_row(params![queue.key, CHAINED, chain], |row| row.get(0))
}

/// Removes a chain without jobs. True: it was removed.
pub(super) fn drop_empty(tx: &Tx<'_>, queue: &Queue<'_>, chain: i64) -> rusqlite::Result<bool> {
    let is_empty = !has_jobs(tx, queue, chain)?;
    if is_empty {
        turns::remove(tx, queue, chain)?;
    }
    Ok(is_empty)
}

/// A job leaves the line. If its chain is shut, the key may have waited for this job, and may now
/// permit jobs with a lower cost.
pub(super) fn leave(tx: &mut Tx<'_>, queue: &Queue<'_>, id: &(impl ToSql + ?Sized)) -> rusqlite::Result<()> {
    if tx.may_have_limits()
        && let Some(key) = shut_under(tx, queue, id)?
    {
        recheck_key(tx, queue, &key)?;
    }
    Ok(())
}

/// Removes the chains of a job that has left the line, if they are empty. If a removed chain was
/// shut, its key is checked again.
pub(super) fn left(tx: &mut Tx<'_>, queue: &Queue<'_>, name: &[u8], limited: &Limited) -> rusqlite::Result<()> {
    const CHAINS: &str = "SELECT chain, shut FROM queue_chains WHERE queue = ?1 AND name = ?2 AND keys = ?3";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, Option<Vec<u8>>>(1)?));
    let chains: Vec<(i64, Option<Vec<u8>>)> =
        tx.sql(CHAINS)?.query_map(params![queue.key, name, limited.stored], read)?.collect::<rusqlite::Result<_>>()?;
    for (chain, shut) in chains {
        let is_empty = drop_empty(tx, queue, chain)?;
        if let Some(key) = shut.filter(|_| is_empty).and_then(|key| LimitKey::from_bytes(&key)) {
            recheck_key(tx, queue, &key)?;
        }
    }
    Ok(())
}

/// Whether a group has an open chain.
pub(super) fn has_open(tx: &Tx<'_>, queue: &Queue<'_>, name: &[u8]) -> rusqlite::Result<bool> {
    const ANY: &str = "SELECT EXISTS (SELECT 1 FROM queue_chains WHERE queue = ?1 AND name = ?2 AND shut IS NULL)";
    if !tx.may_have_limits() {
        return Ok(false);
    }
    tx.sql(ANY)?.query_row(params![queue.key, name], |row| row.get(0))
}

/// Whether a job is in an open chain.
pub(super) fn is_open(tx: &Tx<'_>, queue: &Queue<'_>, id: &[u8]) -> rusqlite::Result<bool> {
    const OPEN: &str = "SELECT EXISTS (SELECT 1 FROM queue_jobs JOIN queue_chains ON chain = rank WHERE queue_jobs.queue = ?1 AND id = ?2 AND state = ?3 AND shut IS NULL)";
    tx.sql(OPEN)?.query_row(params![queue.key, id, CHAINED], |row| row.get(0))
}

/// The number of jobs of a group in chains.
pub(super) fn depth(tx: &Tx<'_>, queue: &Queue<'_>, name: &[u8]) -> rusqlite::Result<u64> {
    const DEPTH: &str = "SELECT count(*) FROM queue_chains AS chains CROSS JOIN queue_jobs AS job
        ON job.queue = ?1 AND job.state = ?3 AND job.rank = chains.chain WHERE chains.queue = ?1 AND chains.name = ?2";
    tx.sql(DEPTH)?.query_row(params![queue.key, name, CHAINED], |row| Unsigned::get(row, 0))
}

/// The number of jobs of a group in chains of this priority or a higher one.
pub(crate) fn ahead(tx: &Tx<'_>, queue: &Queue<'_>, name: &[u8], priority: i64) -> rusqlite::Result<u64> {
    const AHEAD: &str = "SELECT count(*) FROM queue_chains AS chains CROSS JOIN queue_jobs AS job
        ON job.queue = ?1 AND job.state = ?4 AND job.rank = chains.chain WHERE chains.queue = ?1 AND chains.name = ?2 AND chains.priority <= ?3";
    tx.sql(AHEAD)?.query_row(params![queue.key, name, priority, CHAINED], |row| Unsigned::get(row, 0))
}

/// The chain of a ready job.
pub(super) fn chain_of(tx: &Tx<'_>, queue: &Queue<'_>, id: &(impl ToSql + ?Sized)) -> rusqlite::Result<Option<i64>> {
    const CHAIN: &str = "SELECT rank FROM queue_jobs WHERE queue = ?1 AND id = ?2 AND state = ?3";
    tx.sql(CHAIN)?.query_row(params![queue.key, id, CHAINED], |row| row.get(0)).optional()
}

/// The priority of a chain.
pub(crate) fn priority(tx: &Tx<'_>, chain: i64) -> rusqlite::Result<i64> {
    const PRIORITY: &str = "SELECT priority FROM queue_chains WHERE chain = ?1";
    tx.sql(PRIORITY)?.query_row([chain], |row| row.get::<_, i64>(0))
}

/// Some of the jobs that hold a slot of a key.
pub(crate) fn holders(tx: &Tx<'_>, queue: &Queue<'_>, key: &LimitKey) -> rusqlite::Result<Vec<JobId>> {
    const HOLDERS: &str = "SELECT id FROM queue_slots WHERE queue = ?1 AND key = ?2 ORDER BY id LIMIT ?3";
    let mut holders = tx.sql(HOLDERS)?;
    let ids = holders.query_map(params![queue.key, key.as_bytes(), Unsigned(HOLDERS_NAMED)], |row| row.get::<_, Vec<u8>>(0))?;
    Ok(ids.collect::<rusqlite::Result<Vec<_>>>()?.iter().filter_map(|id| JobId::from_bytes(id).ok()).collect())
}

/// The key under which the chain of a job is shut.
fn shut_under(tx: &Tx<'_>, queue: &Queue<'_>, id: &(impl ToSql + ?Sized)) -> rusqlite::Result<Option<LimitKey>> {
    const SHUT: &str = "SELECT shut FROM queue_jobs JOIN queue_chains ON chain = rank WHERE queue_jobs.queue = ?1 AND id = ?2 AND state = ?3 AND shut IS NOT NULL";
    let shut: Option<Vec<u8>> = tx.sql(SHUT)?.query_row(params![queue.key, id, CHAINED], |row| row.get(0)).optional()?;
    Ok(shut.and_then(|key| LimitKey::from_bytes(&key)))
}

/// The time until which a key is reserved for a waiting job with a higher cost. `until`: the time
/// for the key itself.
pub(crate) fn kept_until(tx: &Tx<'_>, queue: &Queue<'_>, key: &LimitKey, until: Option<i64>) -> rusqlite::Result<Option<i64>> {
    const WAKE: &str = "SELECT at FROM queue_wakes WHERE queue = ?1 AND key = ?2 AND at > ?3";
    let known = until.map_or(tx.now, |at| at.max(tx.now));
    let kept = tx.sql(WAKE)?.query_row(params![queue.key, key.as_bytes(), known], |row| row.get::<_, i64>(0)).optional()?;
    Ok(kept.or(until))
}

/// The same for a job that does not wait for the key yet. A stored time beyond the longest debt of
/// the rule is ignored, because a wrong clock has set it.
pub(super) fn reserved_until(
    tx: &Tx<'_>,
    queue: &Queue<'_>,
    key: &LimitKey,
    rule: &LimitRule,
    until: Option<i64>,
) -> rusqlite::Result<Option<i64>> {
    if rule.rate.is_none() {
        return Ok(until);
    }
    let latest = tx.now.saturating_add(gcra::most(rule) / 1000 + 1).max(until.unwrap_or_default());
    let kept = kept_until(tx, queue, key, until)?.filter(|at| *at <= latest);
    Ok(if kept.is_some() && is_waited_for(tx, queue, key)? { kept } else { until })
}

/// The keys that block the start of a job now.
pub(crate) fn held_back_by(tx: &Tx<'_>, queue: &Queue<'_>, id: &[u8]) -> rusqlite::Result<Vec<StoredLimitKey>> {
    let Some(limited) = of(tx, queue, id)? else { return Ok(Vec::new()) };
    let (mut ledger, mut found, shut_under) = (Ledger::default(), Vec::new(), shut_under(tx, queue, id)?);
    for key in &limited.keys {
        let (is_full, mut until) = (ledger.is_full(tx, queue, key)?, ledger.opens_at(tx, queue, key, limited.cost)?);
        let rule = rule(tx, queue, key)?;
        if !is_full {
            let is_under = shut_under == Some(*key);
            until = if is_under { kept_until(tx, queue, key, until)? } else { reserved_until(tx, queue, key, &rule, until)? };
        }
        if !is_full && until.is_none() {
            continue;
        }
        let mut stored = StoredLimitKey::new(*key, rule);
        stored.held = u64::try_from(held(tx, queue, key)?).unwrap_or_default();
        stored.holders = holders(tx, queue, key)?;
        stored.until_ms = until;
        found.push(stored);
    }
    Ok(found)
}

/// Whether an open chain waits, or a key may have room.
pub(super) fn waits(tx: &Tx<'_>, queue: &Queue<'_>) -> rusqlite::Result<bool> {
    const WAITS: &str = "SELECT EXISTS (SELECT 1 FROM queue_wakes WHERE queue = ?1 AND at <= ?2)
        OR EXISTS (SELECT 1 FROM queue_groups AS groups WHERE groups.queue = ?1 AND eligible & 1 AND EXISTS (
            SELECT 1 FROM queue_chains AS chains WHERE chains.queue = ?1 AND chains.name = groups.name AND shut IS NULL))";
    tx.sql(WAITS)?.query_row(params![queue.key, tx.now], |row| row.get(0))
}

/// The time at which the next key permits a job that waits for it. Keys that may have room now are
/// excluded, because they count as waiting work.
pub(super) fn next_due(tx: &Tx<'_>, queue: &Queue<'_>) -> rusqlite::Result<Option<i64>> {
    const NEXT: &str = "SELECT min(at) FROM queue_wakes WHERE queue = ?1 AND at > ?2";
    if !tx.may_have_limits() {
        return Ok(None);
    }
    tx.sql(NEXT)?.query_row(params![queue.key, tx.now], |row| row.get(0))
}

pub(super) fn is_waited_for(tx: &Tx<'_>, queue: &Queue<'_>, key: &LimitKey) -> rusqlite::Result<bool> {
    const ANY: &str = "SELECT EXISTS (SELECT 1 FROM queue_chains WHERE queue = ?1 AND shut = ?2)";
    tx.sql(ANY)?.query_row(params![queue.key, key.as_bytes()], |row| row.get(0))
}

/// Stores the time from which a key has room.
pub(super) fn wake(tx: &mut Tx<'_>, queue: &Queue<'_>, key: &LimitKey, at: i64) -> rusqlite::Result<()> {
    const WAKE: &str = "INSERT INTO queue_wakes (queue, key, at) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET at = excluded.at";
    tx.sql(WAKE)?.execute(params![queue.key, key.as_bytes(), at])?;
    tx.hint(queue.name, at.max(tx.now));
    Ok(())
}

/// A key may have room again: the next claim examines it. Until then it is not reserved for a job
/// with a higher cost.
pub(crate) fn recheck_key(tx: &mut Tx<'_>, queue: &Queue<'_>, key: &LimitKey) -> rusqlite::Result<()> {
    const REST: &str = "DELETE FROM queue_wakes WHERE queue = ?1 AND key = ?2";
    if is_waited_for(tx, queue, key)? {
        wake(tx, queue, key, 0)
    } else {
        tx.sql(REST)?.execute(params![queue.key, key.as_bytes()]).map(drop)
    }
}

/// Releases the slots of a job that ran.
pub(super) fn give_slots_back(tx: &mut Tx<'_>, queue: &Queue<'_>, id: &(impl ToSql + ?Sized)) -> rusqlite::Result<()> {
    const GIVE: &str = "DELETE FROM queue_slots WHERE queue = ?1 AND key = ?2 AND id = ?3";
    let Some(limited) = of(tx, queue, id)? else { return Ok(()) };
    for key in &limited.keys {
        tx.sql(GIVE)?.execute(params![queue.key, key.as_bytes(), id])?;
        recheck_key(tx, queue, key)?;
    }
    Ok(())
}

/// Occupies a slot of each key of a job that has started.
pub(crate) fn start(tx: &Tx<'_>, queue: &Queue<'_>, id: &(impl ToSql + ?Sized)) -> rusqlite::Result<()> {
    const TAKE: &str = "INSERT OR IGNORE INTO queue_slots (queue, key, id) VALUES (?1, ?2, ?3)";
    let Some(limited) = of(tx, queue, id)? else { return Ok(()) };
    limited.keys.iter().try_for_each(|key| tx.sql(TAKE)?.execute(params![queue.key, key.as_bytes(), id]).map(drop))
}

/// Closes a limit of a job until a time: the limit with this name, or without a name the first one
/// with a rate, or else the first one. False: the job has no such limit.
pub(crate) fn close(tx: &Tx<'_>, queue: &Queue<'_>, id: &[u8], until: i64, name: Option<&str>) -> rusqlite::Result<bool> {
    let Some(limited) = of(tx, queue, id)? else { return Ok(false) };
    let mut chosen = match name {
        Some(name) => limited.keys.iter().find(|key| key.is_of(name)),
        None => limited.keys.first(),
    };
    for key in limited.keys.iter().rev().filter(|_| name.is_none()) {
        if rule(tx, queue, key)?.rate.is_some() {
            chosen = Some(key);
        }
    }
    let Some(key) = chosen else { return Ok(false) };
    let longest = i64::try_from(LONGEST_CLOSED.as_millis()).unwrap_or(i64::MAX);
    let mut ledger = Ledger::default();
    let state = ledger.state(tx, queue, key)?;
    (state.closed, state.dirty) = (state.closed.max(until.min(tx.now + longest)), true);
    ledger.write(tx, queue)?;
    Ok(true)
}

/// Refunds the charge of a job that has not started to the rates.
pub(crate) fn refund(tx: &mut Tx<'_>, queue: &Queue<'_>, id: &[u8]) -> rusqlite::Result<()> {
    let Some(limited) = of(tx, queue, id)? else { return Ok(()) };
    let mut ledger = Ledger::default();
    ledger.take(tx, queue, &limited, true)?;
    ledger.write(tx, queue)?;
    limited.keys.iter().try_for_each(|key| recheck_key(tx, queue, key))
}

/// Corrects the charge of a job by the usage of its run. The slots of the job were released before,
/// so that the keys are examined again.
pub(crate) fn correct(tx: &Tx<'_>, queue: &Queue<'_>, id: &[u8], used: &Used) -> rusqlite::Result<()> {
    let Some(limited) = of(tx, queue, id)? else { return Ok(()) };
    let mut ledger = Ledger::default();
    ledger.correct(tx, queue, &limited, used)?;
    ledger.write(tx, queue)
}

/// Removes the rates of keys whose theoretical arrival time has passed, at most `items`. Closed
/// keys are kept, and skipped. For this reason the call examines ten times as many keys, and the
/// next sweep continues behind them. Returns how many it has removed, and whether more may be left.
pub(crate) fn prune(tx: &Tx<'_>, queue: &Queue<'_>, items: usize) -> rusqlite::Result<(usize, bool)> {
    const OVER: &str = "SELECT key, tat, closed <= ?3 FROM queue_rates WHERE queue = ?1 AND tat <= ?2 AND (tat, key) > (?4, ?5) ORDER BY tat, key LIMIT ?6";
    const FORGET: &str = "DELETE FROM queue_rates WHERE queue = ?1 AND key = ?2";
    const PLACE: &str = ".rates";
    let place = tx.place(queue.key, PLACE)?;
    let tat = place.as_ref().and_then(|place| place.get(..8)?.try_into().ok()).map_or(i64::MIN, i64::from_be_bytes);
    let key = place.as_ref().and_then(|place| place.get(8..)).unwrap_or_default();
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, i64>(1)?, row.get::<_, bool>(2)?));
    let most = 10 * items;
    let inputs = params![queue.key, tx.micros(), tx.now, tat, key, Unsigned(most)];
    let looked: Vec<(Vec<u8>, i64, bool)> = tx.sql(OVER)?.query_map(inputs, read)?.collect::<rusqlite::Result<_>>()?;
    let (mut removed, mut passed) = (0_usize, 0_usize);
    for (key, _, is_over) in &looked {
        if removed == items {
            break;
        }
        passed += 1;
        if *is_over {
            removed += tx.sql(FORGET)?.execute(params![queue.key, key])?;
        }
    }
    let last = looked.get(passed.saturating_sub(1)).filter(|_| looked.len() == most || passed < looked.len());
    let stored = last.map(|(key, tat, _)| [&tat.to_be_bytes()[..], key].concat());
    if stored.is_some() || place.is_some() {
        tx.store_position(queue.key, PLACE, stored.as_deref())?;
    }
    Ok((removed, last.is_some()))
}
