//! Limits: their list, their changes, and the holders of their keys.

use rusqlite::{OptionalExtension, params};

use crate::{
    address::JobId,
    broker::{CHAINS_COUNTED, LIMIT_RULES, LIMIT_STEP, LimitKey, LimitKeys, LimitRule, LimitSet, SetLimit, StoredLimit, StoredLimitKey},
    error,
    sqlite::{
        connection::{
            operation::Commit,
            schema::Feature,
            tx::{Failed, Queue, Tx},
            unsigned::Unsigned,
            writer::Writer,
        },
        doors::{ledger::Ledger, limits, row::CHAINED},
    },
};

pub(crate) fn list(tx: &mut Tx<'_>, queue: &str, name: Option<&str>) -> Result<Vec<StoredLimit>, Failed> {
    const LIMITS: &str = "SELECT name, stored FROM queue_limits WHERE queue = ?1 AND (?2 IS NULL OR name = ?2) ORDER BY name";
    const HELD: &str = "SELECT count(*) FROM queue_slots WHERE queue = ?1 AND key >= ?2 AND key < ?3";
    let Some(queue) = tx.queue(queue)? else { return Ok(Vec::new()) };
    let name = name.map(LimitKey::name);
    let mut limits = tx.sql(LIMITS)?;
    let found: Vec<(Vec<u8>, Vec<u8>)> = limits
        .query_map(params![queue.key, name], |row| Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, Vec<u8>>(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let mut answer = Vec::new();
    for (name, stored) in found {
        let (first, last) = bounds(&name);
        let held: u64 = tx.sql(HELD)?.query_row(params![queue.key, first, last], |row| Unsigned::get(row, 0))?;
        let (mut full, mut rated) = (0, 0);
        for (key, jobs) in count_waiting(tx, &queue, &first, &last)? {
            if Ledger::default().is_full(tx, &queue, &key)? {
                full += jobs;
            } else if opens_at(tx, &queue, &key)?.is_some() {
                rated += jobs;
            }
        }
        answer.push(StoredLimit::new(stored, held, full, rated));
    }
    Ok(answer)
}

/// The number of jobs that wait for each key in a range, whose bounds are excluded.
fn count_waiting(tx: &Tx<'_>, queue: &Queue<'_>, first: &[u8], last: &[u8]) -> Result<Vec<(LimitKey, u64)>, Failed> {
    const WAITING: &str = "SELECT chains.shut, count(*) FROM
            (SELECT chain, shut FROM queue_chains WHERE queue = ?1 AND shut >= ?2 AND shut < ?3 ORDER BY shut LIMIT ?4) AS chains
        CROSS JOIN queue_jobs AS job ON job.queue = ?1 AND job.state = ?5 AND job.rank = chains.chain GROUP BY chains.shut";
    let mut waiting = tx.sql(WAITING)?;
    let mut rows = waiting.query(params![queue.key, first, last, Unsigned(CHAINS_COUNTED), CHAINED])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.extend(LimitKey::from_bytes(&row.get::<_, Vec<u8>>(0)?).zip(Some(Unsigned::get(row, 1)?)));
    }
    Ok(found)
}

/// The bounds of the keys of a limit.
fn bounds(name: &[u8]) -> (Vec<u8>, Vec<u8>) {
    (name.to_vec(), [name, &[0xff; LimitKey::BYTES]].concat())
}

pub(crate) fn keys(tx: &mut Tx<'_>, queue: &str, which: &LimitKeys) -> Result<Vec<StoredLimitKey>, Failed> {
    let Some(queue) = tx.queue(queue)? else {
        return Ok(match which {
            LimitKeys::These(keys) => keys.iter().map(|key| StoredLimitKey::new(*key, LimitRule::default())).collect(),
            LimitKeys::Of { .. } => Vec::new(),
        });
    };
    let names: Vec<Vec<u8>> = match which {
        LimitKeys::These(keys) => keys.iter().take(which.limit()).map(|key| key.as_bytes().to_vec()).collect(),
        LimitKeys::Of { name, after, .. } => {
            let (first, last) = bounds(&LimitKey::name(name));
            keys_from(tx, &queue, after.map_or(first, |after| next_bytes(after.as_bytes())), &last, which.limit())?
        }
    };
    let keys = names.iter().filter_map(|key| LimitKey::from_bytes(key));
    keys.map(|key| stored_key(tx, &queue, key)).collect()
}

/// The keys of a limit that are held or waited for, from one on. Each is searched for separately,
/// because a key may have many slots and many waiting chains.
fn keys_from(tx: &Tx<'_>, queue: &Queue<'_>, mut from: Vec<u8>, last: &[u8], limit: usize) -> Result<Vec<Vec<u8>>, Failed> {
    const HELD: &str = "SELECT key FROM queue_slots WHERE queue = ?1 AND key >= ?2 AND key < ?3 ORDER BY key LIMIT 1";
    const SHUT: &str =
        "SELECT shut FROM queue_chains WHERE queue = ?1 AND shut IS NOT NULL AND shut >= ?2 AND shut < ?3 ORDER BY shut LIMIT 1";
    let mut names = Vec::new();
    while names.len() < limit {
        let next = |sql: &str| tx.sql(sql)?.query_row(params![queue.key, from, last], |row| row.get::<_, Vec<u8>>(0)).optional();
        let Some(name) = [next(HELD)?, next(SHUT)?].into_iter().flatten().min() else { break };
        from = next_bytes(&name);
        names.push(name);
    }
    Ok(names)
}

/// The smallest bytes after these.
fn next_bytes(bytes: &[u8]) -> Vec<u8> {
    [bytes, &[0]].concat()
}

fn stored_key(tx: &Tx<'_>, queue: &Queue<'_>, key: LimitKey) -> Result<StoredLimitKey, Failed> {
    const NEXT: &str = "SELECT id FROM queue_chains AS chains CROSS JOIN queue_jobs AS job ON job.queue = ?1 AND job.state = ?3 AND job.rank = chains.chain
        WHERE chains.queue = ?1 AND chains.shut = ?2 ORDER BY chains.start, chains.ticket, job.pos LIMIT 1";
    let bytes = key.as_bytes();
    let mut stored = StoredLimitKey::new(key, limits::rule(tx, queue, &key)?);
    stored.held = u64::try_from(limits::held(tx, queue, &key)?).unwrap_or_default();
    stored.holders = limits::holders(tx, queue, &key)?;
    stored.waiting = count_waiting(tx, queue, bytes, &[bytes, &[0]].concat())?.into_iter().map(|(_, jobs)| jobs).sum();
    let next: Option<Vec<u8>> = tx.sql(NEXT)?.query_row(params![queue.key, bytes, CHAINED], |row| row.get(0)).optional()?;
    stored.next = next.and_then(|id| JobId::from_bytes(&id).ok());
    stored.until_ms = opens_at(tx, queue, &key)?;
    Ok(stored)
}

/// The time at which a key permits the first waiting job, if a slot is free; `None`: now.
fn opens_at(tx: &Tx<'_>, queue: &Queue<'_>, key: &LimitKey) -> Result<Option<i64>, Failed> {
    let at = Ledger::default().opens_at(tx, queue, key, 1)?;
    Ok(limits::kept_until(tx, queue, key, at)?)
}

/// The largest number of bytes that a limit adds to the file.
const LIMIT_BYTES: usize = 2048;

/// Changes a limit, if it is stored as it was read. Then its keys may have room.
pub(crate) async fn change(writer: &Writer, request: &SetLimit) -> error::Result<LimitSet> {
    request.check()?;
    let commit = if request.stored.is_empty() { Commit::Synced } else { Commit::Extra(LIMIT_BYTES) };
    let (wanted, queue, name) = (request.clone(), request.queue.clone(), LimitKey::name(&request.name));
    let answer = writer.call(commit, move |tx| set(tx, &wanted)).await?;
    let mut from = (answer == LimitSet::Set).then(Vec::new);
    while let Some(behind) = from {
        let queue = queue.clone();
        from = writer.call(Commit::Soon, move |tx| review(tx, &queue, &name, &behind)).await?;
    }
    Ok(answer)
}

fn set(tx: &mut Tx<'_>, request: &SetLimit) -> Result<LimitSet, Failed> {
    const STORE: &str = "INSERT OR REPLACE INTO queue_limits (queue, name, stored) VALUES (?1, ?2, ?3)";
    const REMOVE: &str = "DELETE FROM queue_limits WHERE queue = ?1 AND name = ?2";
    const LIMITS: &str = "SELECT count(*) FROM queue_limits WHERE queue = ?1";
    const LIMIT: &str = "SELECT stored FROM queue_limits WHERE queue = ?1 AND name = ?2";
    let queue = tx.queue_or_create(&request.queue)?;
    tx.note(Feature::Groups)?;
    let name = LimitKey::name(&request.name);
    let stored: Option<Vec<u8>> = tx.sql(LIMIT)?.query_row(params![queue.key, name], |row| row.get(0)).optional()?;
    let known = stored.as_deref().unwrap_or_default();
    if known == request.stored {
        return Ok(LimitSet::Set);
    }
    if known != request.expected {
        return Ok(LimitSet::Stale);
    }
    if request.stored.is_empty() {
        tx.sql(REMOVE)?.execute(params![queue.key, name])?;
        return Ok(LimitSet::Set);
    }
    let limits: usize = tx.sql(LIMITS)?.query_row([queue.key], |row| Unsigned::get(row, 0))?;
    if stored.is_none() && limits >= LIMIT_RULES {
        return Err(request.too_many().into());
    }
    tx.sql(STORE)?.execute(params![queue.key, name, request.stored])?;
    Ok(LimitSet::Set)
}

/// Reviews some of the keys under which chains are shut: those after a key. Returns the last of
/// them, if there are more.
fn review(tx: &mut Tx<'_>, queue: &str, name: &[u8], after: &[u8]) -> Result<Option<Vec<u8>>, Failed> {
    const SHUT: &str = "SELECT DISTINCT shut FROM queue_chains WHERE queue = ?1 AND shut > ?2 AND shut < ?3 ORDER BY shut LIMIT ?4";
    let Some(queue) = tx.queue(queue)? else { return Ok(None) };
    let (first, last) = bounds(name);
    let first = if after.is_empty() { first } else { after.to_vec() };
    let keys: Vec<Vec<u8>> = tx
        .sql(SHUT)?
        .query_map(params![queue.key, first, last, Unsigned(LIMIT_STEP)], |row| row.get::<_, Vec<u8>>(0))?
        .collect::<rusqlite::Result<_>>()?;
    for key in keys.iter().filter_map(|key| LimitKey::from_bytes(key)) {
        limits::recheck_key(tx, &queue, &key)?;
    }
    Ok(keys.last().filter(|_| keys.len() == LIMIT_STEP).cloned())
}
