//! Unique keys: each is held by at most one job. Enqueue and `return_jobs` acquire a key. `end`
//! releases it, and `admit` releases it if the job holds it only until it starts. The key then
//! passes to the job that is `held` for it, and that job waits in the line.
//!
//! | table | a row |
//! |---|---|
//! | `queue_keyed` | a job that was enqueued with a unique key, while the job or its record exists |
//! | `queue_keys` | a key that a job holds: its holder, the end and the duration of its hold time, and the job that is `held` for it |

use rusqlite::{OptionalExtension, ToSql, params};

use super::{
    Leaving, end, groups, limits,
    ready::{self, End},
    row::{ACTIVE, CANCELLED, CHAINED, DEAD, DONE, EXPIRED, HELD, LINED, LINED_SUSPECT, PARKED, READY, RETRY, SCHEDULED, SUSPECT},
    tags,
};
use crate::{
    address::JobId,
    broker::{Enqueued, Hold, KeyHolder, NewJob, OnConflict, Unique, UniqueKey, superseded_by},
    sqlite::connection::{
        schema::Feature,
        statement::sql,
        tx::{Failed, Queue, Tx, after},
        unsigned::Unsigned,
    },
};

/// The names in `queue_keyed` for the hold of a key.
const UNTIL_STARTED: &str = "started";
const WITHIN: &str = "within";

fn name(hold: Hold) -> &'static str {
    match hold {
        Hold::UntilEnded => "ended",
        Hold::UntilStarted => UNTIL_STARTED,
        Hold::Within(_) => WITHIN,
    }
}

/// A row of `queue_keyed`.
struct Keyed {
    key: Vec<u8>,
    hold: String,
    first: i64,
}

/// A row of `queue_keys`.
struct Held {
    id: Vec<u8>,
    until: Option<i64>,
    next: Option<Vec<u8>>,
}

fn stored_key_of(tx: &Tx<'_>, queue: &Queue<'_>, id: &(impl ToSql + ?Sized)) -> rusqlite::Result<Option<Keyed>> {
    const KEYED: &str = "SELECT key, hold, first FROM queue_keyed WHERE queue = ?1 AND id = ?2";
    if !tx.may_have_keys() {
        return Ok(None);
    }
    let read = |row: &rusqlite::Row<'_>| {
        let (key, hold, first): (Vec<u8>, String, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(Keyed { key, hold, first })
    };
    tx.sql(KEYED)?.query_row(params![queue.key, id], read).optional()
}

/// The key of a job.
pub(crate) fn key_of(tx: &Tx<'_>, queue: &Queue<'_>, id: &[u8]) -> rusqlite::Result<Option<UniqueKey>> {
    Ok(stored_key_of(tx, queue, id)?.and_then(|keyed| UniqueKey::from_bytes(&keyed.key)))
}

/// The holder of a key. A key is free if its stored holder could not hold it.
fn holder_of(tx: &Tx<'_>, queue: &Queue<'_>, key: &[u8]) -> rusqlite::Result<Option<Held>> {
    /// The holder of a key, the job that waits for it, and whether the holder is valid: it exists,
    /// has not ended, and is not held itself.
    const KEYS_HELD: &str = "SELECT id, until, duration, (SELECT jobs.id FROM queue_jobs AS jobs WHERE jobs.queue = ?1 \
            AND jobs.id = queue_keys.next AND state = ?7), \
        EXISTS (SELECT 1 FROM queue_jobs AS jobs JOIN queue_keyed AS keyed ON keyed.queue = ?1 AND keyed.id = jobs.id \
        WHERE jobs.queue = ?1 AND jobs.id = queue_keys.id AND keyed.key = ?2 AND state NOT IN (?3, ?4, ?5, ?6, ?7)) \
        FROM queue_keys WHERE queue = ?1 AND key = ?2";
    let read = |row: &rusqlite::Row<'_>| {
        let (id, until, duration, next): (Vec<u8>, Option<i64>, Option<i64>, Option<Vec<u8>>) =
            (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
        let latest = tx.now.saturating_add(duration.unwrap_or(0));
        let until = until.map(|until| until.min(latest));
        Ok((Held { id, until, next }, row.get::<_, bool>(4)?))
    };
    let ended = params![queue.key, key, DONE, DEAD, CANCELLED, EXPIRED, HELD];
    let found = tx.sql(KEYS_HELD)?.query_row(ended, read).optional()?;
    Ok(found.filter(|(held, lives)| held.until.map_or(*lives, |until| until > tx.now)).map(|(held, _)| held))
}

/// The holder of a key, for reports.
pub(crate) fn holder(tx: &Tx<'_>, queue: &Queue<'_>, key: &UniqueKey) -> Result<Option<KeyHolder>, Failed> {
    let Some(held) = holder_of(tx, queue, key.as_bytes())? else { return Ok(None) };
    let mut holder = KeyHolder::new(JobId::from_bytes(&held.id)?);
    holder.until_ms = held.until;
    holder.next = held.next.as_deref().map(JobId::from_bytes).transpose()?;
    Ok(Some(holder))
}

/// Releases a key from the job that holds it, for an operator. The job lacks the key until it waits
/// again, and the auditor accepts this.
pub(crate) fn release(tx: &mut Tx<'_>, queue: &Queue<'_>, key: &UniqueKey) -> Result<Option<KeyHolder>, Failed> {
    const TAKEN: &str = "UPDATE queue_keyed SET first = 0 WHERE queue = ?1 AND id = ?2 AND key = ?3";
    let holder = holder(tx, queue, key)?;
    if let Some(holder) = &holder {
        tx.sql(TAKEN)?.execute(params![queue.key, holder.id.as_bytes(), key.as_bytes()])?;
        pass_on(tx, queue, key.as_bytes())?;
    }
    Ok(holder)
}

/// Gives a free key to a job. Jobs that wait for the key continue to wait.
fn assign(tx: &Tx<'_>, queue: &Queue<'_>, key: &[u8], id: &(impl ToSql + ?Sized), duration: Option<i64>) -> rusqlite::Result<()> {
    /// Gives a key to a job. Jobs that wait for the key continue to wait.
    /// ?1 queue, ?2 key, ?3 id, ?4 the end of the hold time, ?5 its duration: nothing without a
    /// hold time.
    const GIVE: &str = "INSERT INTO queue_keys (queue, key, id, until, duration) VALUES (?1, ?2, ?3, ?4, ?5) \
        ON CONFLICT DO UPDATE SET id = excluded.id, until = excluded.until, duration = excluded.duration";
    let until = duration.map(|duration| tx.now.saturating_add(duration));
    tx.sql(GIVE)?.execute(params![queue.key, key, id, until, duration]).map(drop)
}

/// Stores the key of a new job.
fn store_key_of(tx: &mut Tx<'_>, queue: &Queue<'_>, job: &NewJob, unique: &Unique) -> rusqlite::Result<()> {
    const KEYS_NOTE: &str = "INSERT OR REPLACE INTO queue_keyed (queue, id, key, hold, first) VALUES (?1, ?2, ?3, ?4, ?5)";
    tx.note(Feature::Keys)?;
    let (key, hold) = (unique.key.as_bytes(), name(unique.hold));
    tx.sql(KEYS_NOTE)?.execute(params![queue.key, job.id.as_bytes(), key, hold, tx.now]).map(drop)
}

/// A job that was just stored acquires its key, which is free.
pub(crate) fn acquire(tx: &mut Tx<'_>, queue: &Queue<'_>, job: &NewJob, unique: &Unique) -> rusqlite::Result<()> {
    store_key_of(tx, queue, job, unique)?;
    let duration = match unique.hold {
        Hold::Within(time) => Some(after(tx.now, time).saturating_sub(tx.now)),
        Hold::UntilEnded | Hold::UntilStarted => None,
    };
    assign(tx, queue, unique.key.as_bytes(), job.id.as_bytes(), duration)
}

/// The answer for a new job whose key another job holds. `at`: when it is due; `before`: the record
/// with its id, if the new job replaces it.
pub(crate) fn conflict(
    tx: &mut Tx<'_>,
    queue: &Queue<'_>,
    job: &NewJob,
    unique: &Unique,
    at: i64,
    before: Option<end::Before>,
) -> Result<Option<Enqueued>, Failed> {
    const STATE: &str = "SELECT state FROM queue_jobs WHERE queue = ?1 AND id = ?2";
    const PAYLOAD: &str = "UPDATE queue_jobs SET envelope = ?3 WHERE queue = ?1 AND id = ?2";
    const WAITS: &str = "UPDATE queue_keys SET next = ?3 WHERE queue = ?1 AND key = ?2";
    if !tx.may_have_keys() {
        return Ok(None);
    }
    let key = unique.key.as_bytes();
    let Some(held) = holder_of(tx, queue, key)? else { return Ok(None) };
    if held.until.is_some() || unique.on_conflict == OnConflict::Skip || matches!(unique.hold, Hold::Within(_)) {
        return Ok(Some(Enqueued::Duplicate(JobId::from_bytes(&held.id)?)));
    }
    let replaces = unique.on_conflict == OnConflict::Replace;
    let changed = held.next.as_ref().unwrap_or(&held.id);
    let state: i64 = tx.sql(STATE)?.query_row(params![queue.key, changed], |row| row.get(0))?;
    if state == ACTIVE || matches!(state, RETRY | PARKED) && !replaces {
        if let Some(before) = before {
            end::replace_record(tx, queue, job.id.as_bytes(), before)?;
        }
        ready::store_held(tx, queue, job, at)?;
        store_key_of(tx, queue, job, unique)?;
        tx.sql(WAITS)?.execute(params![queue.key, key, job.id.as_bytes()])?;
        return Ok(Some(Enqueued::Buffered(job.id.clone())));
    }
    if !(replaces && unique.keep_payload) {
        tx.sql(PAYLOAD)?.execute(params![queue.key, changed, job.envelope])?;
        tags::store(tx, queue, changed, &job.envelope)?;
    }
    if replaces && !matches!(state, RETRY | PARKED) {
        let first = stored_key_of(tx, queue, changed)?.map_or(tx.now, |keyed| keyed.first.min(tx.now));
        let latest = unique.max_wait.map_or(i64::MAX, |wait| after(first, wait));
        reschedule(tx, queue, changed, state, job, at.min(latest))?;
    }
    let id = JobId::from_bytes(changed)?;
    Ok(Some(if held.next.is_some() { Enqueued::Buffered(id) } else { Enqueued::Replaced(id) }))
}

/// Gives a job that has not started the time and the priority of another job.
fn reschedule(tx: &mut Tx<'_>, queue: &Queue<'_>, id: &[u8], state: i64, job: &NewJob, at: i64) -> Result<(), Failed> {
    const PRIORITY: &str = "UPDATE queue_jobs SET priority = ?3 WHERE queue = ?1 AND id = ?2 AND priority <> ?3";
    let moves = tx.sql(PRIORITY)?.execute(params![queue.key, id, job.priority.number()])? > 0;
    if state == HELD {
        tx.sql(sql!("return_to_waiting.sql"))?.execute(params![queue.key, id, HELD, at])?;
    } else if moves || at > tx.now || !matches!(state, READY | SUSPECT | LINED | LINED_SUSPECT | CHAINED) {
        wait_or_push(tx, queue, id, at)?;
    }
    Ok(())
}

/// Lets a job that has not started wait until this time. If the time has passed, the job joins the
/// line.
fn wait_or_push(tx: &mut Tx<'_>, queue: &Queue<'_>, id: &[u8], at: i64) -> rusqlite::Result<()> {
    limits::leave(tx, queue, id)?;
    if at > tx.now {
        tx.sql(sql!("return_to_waiting.sql"))?.execute(params![queue.key, id, SCHEDULED, at])?;
        groups::review_group_of(tx, queue, id)?;
    } else {
        ready::push(tx, queue, id, End::Tail)?;
        groups::review_group_of(tx, queue, id)?;
        // Not every caller saves the queue.
        tx.save(queue)?;
    }
    tx.hint(queue.name, at);
    Ok(())
}

/// Acquires the key of a job that returns to a waiting state. Returns the job that has acquired it
/// meanwhile.
pub(crate) fn reacquire(tx: &Tx<'_>, queue: &Queue<'_>, id: &(impl ToSql + ?Sized)) -> Result<Option<JobId>, Failed> {
    const ANEW: &str = "UPDATE queue_keyed SET first = ?3 WHERE queue = ?1 AND id = ?2";
    let Some(Keyed { key, hold, .. }) = stored_key_of(tx, queue, id)?.filter(|keyed| keyed.hold != WITHIN) else { return Ok(None) };
    tx.sql(ANEW)?.execute(params![queue.key, id, tx.now])?;
    match holder_of(tx, queue, &key)? {
        // The key with a hold time belongs to another declaration. It does not prevent a later run
        // of this job.
        Some(Held { until: Some(_), .. }) => Ok(None),
        Some(held) if is_same(id, &held.id)? => Ok(None),
        Some(held) => Ok(Some(JobId::from_bytes(&held.id)?)),
        None => {
            debug_assert!(hold != WITHIN);
            assign(tx, queue, &key, id, None)?;
            Ok(None)
        }
    }
}

fn is_same(id: &(impl ToSql + ?Sized), other: &[u8]) -> rusqlite::Result<bool> {
    let value = id.to_sql()?;
    let value = match &value {
        rusqlite::types::ToSqlOutput::Borrowed(value) => *value,
        rusqlite::types::ToSqlOutput::Owned(value) => value.into(),
        _ => return Ok(false),
    };
    Ok(value == rusqlite::types::ValueRef::Blob(other))
}

/// Acquires the key of a job that returns to a waiting state. `None`: a younger job has the key,
/// and this one has ended.
pub(super) fn reacquire_or_cancel<'a>(tx: &mut Tx<'_>, queue: &Queue<'_>, job: Leaving<'a>) -> Result<Option<Leaving<'a>>, Failed> {
    match reacquire(tx, queue, &job.id())? {
        None => Ok(Some(job)),
        Some(younger) => {
            end::cancel(tx, queue, job, Some(&superseded_by(&younger)))?;
            Ok(None)
        }
    }
}

/// Releases the key of a job that has started, if the job holds it only until then.
pub(crate) fn release_at_start(tx: &mut Tx<'_>, queue: &Queue<'_>, id: &[u8]) -> Result<(), Failed> {
    match stored_key_of(tx, queue, id)? {
        Some(keyed) if keyed.hold == UNTIL_STARTED => release_if_held(tx, queue, id, &keyed.key),
        _ => Ok(()),
    }
}

/// Releases the key of an ended job, unless the key has a hold time. `gone`: the job leaves no
/// record.
pub(super) fn release_key_of(tx: &mut Tx<'_>, queue: &Queue<'_>, id: &(impl ToSql + ?Sized), is_deleted: bool) -> Result<(), Failed> {
    const FORGET: &str = "DELETE FROM queue_keyed WHERE queue = ?1 AND id = ?2";
    let Some(keyed) = stored_key_of(tx, queue, id)? else { return Ok(()) };
    if is_deleted {
        tx.sql(FORGET)?.execute(params![queue.key, id])?;
    }
    release_if_held(tx, queue, id, &keyed.key)
}

fn release_if_held(tx: &mut Tx<'_>, queue: &Queue<'_>, id: &(impl ToSql + ?Sized), key: &[u8]) -> Result<(), Failed> {
    const HOLDS: &str = "SELECT EXISTS (SELECT 1 FROM queue_keys WHERE queue = ?1 AND key = ?2 AND id = ?3 AND until IS NULL)";
    if tx.sql(HOLDS)?.query_row(params![queue.key, key, id], |row| row.get(0))? {
        pass_on(tx, queue, key)?;
    }
    Ok(())
}

/// Releases a key. The job that was held for it gets it.
pub(crate) fn pass_on(tx: &mut Tx<'_>, queue: &Queue<'_>, key: &[u8]) -> Result<(), Failed> {
    const FREE: &str = "DELETE FROM queue_keys WHERE queue = ?1 AND key = ?2 RETURNING next";
    let next: Option<Option<Vec<u8>>> = tx.sql(FREE)?.query_row(params![queue.key, key], |row| row.get(0)).optional()?;
    match next {
        Some(Some(next)) => give_to_waiter(tx, queue, key, &next),
        _ => Ok(()),
    }
}

/// Passes a free key to the job that is held for it. The job then waits as others do.
pub(crate) fn give_to_waiter(tx: &mut Tx<'_>, queue: &Queue<'_>, key: &[u8], id: &[u8]) -> Result<(), Failed> {
    const DUE: &str = "SELECT pos FROM queue_jobs WHERE queue = ?1 AND id = ?2 AND state = ?3";
    let due: Option<i64> = tx.sql(DUE)?.query_row(params![queue.key, id, HELD], |row| row.get(0)).optional()?;
    if let Some(at) = due {
        assign(tx, queue, key, id, None)?;
        wait_or_push(tx, queue, id, at)?;
    }
    Ok(())
}

/// Changes the key of a waiting job to one that is free. The job releases the old key if it holds
/// it, and acquires the new one. A hold time keeps its end.
pub(super) fn replace(tx: &mut Tx<'_>, queue: &Queue<'_>, id: &[u8], key: &UniqueKey) -> Result<(), Failed> {
    const NOTE: &str = "UPDATE queue_keyed SET key = ?3, first = iif(first = 0, ?4, first) WHERE queue = ?1 AND id = ?2";
    const STALE: &str = "DELETE FROM queue_keys WHERE queue = ?1 AND key = ?2";
    const MOVE: &str = "UPDATE queue_keys SET key = ?4 WHERE queue = ?1 AND key = ?2 AND id = ?3 AND until IS NOT NULL";
    let Some(Keyed { key: before, hold, .. }) = stored_key_of(tx, queue, id)? else { return Ok(()) };
    tx.sql(NOTE)?.execute(params![queue.key, id, key.as_bytes(), tx.now])?;
    if hold == WITHIN {
        tx.sql(STALE)?.execute(params![queue.key, key.as_bytes()])?;
        return Ok(tx.sql(MOVE)?.execute(params![queue.key, before, id, key.as_bytes()]).map(drop)?);
    }
    release_if_held(tx, queue, id, &before)?;
    Ok(assign(tx, queue, key.as_bytes(), id, None)?)
}

/// Ends the wait of a held job.
pub(super) fn remove_held(tx: &Tx<'_>, queue: &Queue<'_>, id: &[u8]) -> rusqlite::Result<()> {
    const UNHOLD: &str = "UPDATE queue_keys SET next = NULL WHERE queue = ?1 AND key = ?2 AND next = ?3";
    let Some(keyed) = stored_key_of(tx, queue, id)? else { return Ok(()) };
    tx.sql(UNHOLD)?.execute(params![queue.key, keyed.key, id]).map(drop)
}

/// Repairs a job that is held for a key without a holder: it waits for the present holder, or gets
/// the key.
pub(crate) fn repair_held(tx: &mut Tx<'_>, queue: &Queue<'_>, id: &[u8]) -> Result<(), Failed> {
    const WAITS: &str = "UPDATE queue_keys SET next = ?3 WHERE queue = ?1 AND key = ?2 AND next IS NULL";
    let found = stored_key_of(tx, queue, id)?;
    let held = match &found {
        Some(keyed) => holder_of(tx, queue, &keyed.key)?,
        None => None,
    };
    match (found, held) {
        (Some(keyed), None) => {
            pass_on(tx, queue, &keyed.key)?;
            give_to_waiter(tx, queue, &keyed.key, id)
        }
        (Some(keyed), Some(Held { until: None, next: None, .. })) => {
            Ok(tx.sql(WAITS)?.execute(params![queue.key, keyed.key, id]).map(drop)?)
        }
        _ => Ok(wait_or_push(tx, queue, id, tx.now)?),
    }
}

/// Acquires the free key of a waiting job.
pub(crate) fn acquire_free_key(tx: &mut Tx<'_>, queue: &Queue<'_>, id: &[u8]) -> Result<(), Failed> {
    reacquire(tx, queue, id).map(drop)
}

/// Removes at most `items` keys whose hold time has passed. Corrects a hold time that is further
/// ahead than its duration.
pub(crate) fn prune(tx: &Tx<'_>, queue: &Queue<'_>, items: usize) -> rusqlite::Result<usize> {
    /// Corrects the latest hold times: a correct clock never sets a time further ahead than the
    /// duration.
    const CLAMP: &str = "UPDATE queue_keys SET until = ?2 + duration WHERE queue = ?1 AND until > ?2 + duration AND key IN \
        (SELECT key FROM queue_keys WHERE queue = ?1 AND until IS NOT NULL ORDER BY until DESC LIMIT ?3)";
    /// Removes keys whose hold time has passed.
    const PRUNE: &str = "DELETE FROM queue_keys WHERE queue = ?1 AND key IN \
        (SELECT key FROM queue_keys WHERE queue = ?1 AND until IS NOT NULL AND until <= ?2 ORDER BY until LIMIT ?3)";
    tx.sql(CLAMP)?.execute(params![queue.key, tx.now, Unsigned(items)])?;
    tx.sql(PRUNE)?.execute(params![queue.key, tx.now, Unsigned(items)])
}
