//! The door `return_jobs`: a job returns to a waiting state.
//!
//! | function | place | other changes | hint |
//! |---|---|---|---|
//! | [`retry`] | `retry`, after a delay | nothing | then |
//! | [`snooze`] | `scheduled`, after a delay | snoozes; `snoozed` | then |
//! | [`repeat`] | tail of the line, or `scheduled` | attempts, snoozes and failures start over; `repeated` | then |
//! | [`return_to_head`] | head of the line | `returned`, if its holder returned it | now |
//! | [`count_return`] | none, before `return_to_head` | releases, the time of the last | none |
//! | [`park`] | `parked` | an entry in `queue_parked` | now, for a lane that knows the task |
//! | [`park_paused`] | `parked` | the same, for a job that was claimed but not started | none |
//! | [`park_unreadable`] | the same | the note, with the releases that could not read the job | now, for a lane of another release |
//! | [`keep_parked`] | `parked` still, without a time at which it is buried | nothing | none |
//! | [`requeue`] | tail of the line, out of `dead`, `cancelled` or `expired` | all counters and failures, the expiry; `requeued`, the counters of dead and kept jobs | now |
//! | [`repair`], [`reset_rank`] | an end of the line; the place of its state | nothing | none |
//!
//! All except `requeue` and `reset_rank` acquire the job's key again. If a younger job has it, this
//! job ends as `cancelled`. None of them changes envelope, priority or digest. Jobs that were
//! active have passed [`settle`](super::settle) before.

use std::time::Duration;

use rusqlite::{
    OptionalExtension, params,
    types::{Value, ValueRef},
};

use super::{
    Leaving, keys, limits, pauses,
    ready::{self, End},
    row::{CANCELLED, DEAD, EXPIRED, PARKED, RETRY, SCHEDULED},
    tags,
};
use crate::{
    broker::{Changed, ODD, ONE_RATE_LIMITED, UNREADABLE_RELEASES, Unreadable, parked_under},
    envelope::Envelope,
    sqlite::{
        connection::{
            statement::sql,
            tx::{Failed, Queue, Tx, after},
        },
        schedule,
    },
};

/// The time at which a parked job is buried if it waits for a worker that knows its task: never.
const NEVER: i64 = 1 << 52;

/// After a failure or a crash with a retry.
pub(crate) fn retry(tx: &mut Tx<'_>, queue: &Queue<'_>, job: Leaving<'_>, delay: Duration) -> Result<(), Failed> {
    wait_in_state(tx, queue, job, RETRY, delay)
}

/// The handler has requested another run later.
pub(crate) fn snooze(tx: &mut Tx<'_>, queue: &Queue<'_>, job: Leaving<'_>, delay: Duration) -> Result<(), Failed> {
    count_snooze(tx, queue, &job, 1)?;
    wait_in_state(tx, queue, job, SCHEDULED, delay)
}

/// Counts a snooze or a rate limit.
fn count_snooze(tx: &mut Tx<'_>, queue: &Queue<'_>, job: &Leaving<'_>, more: u64) -> Result<(), Failed> {
    const SNOOZE: &str = "UPDATE queue_jobs SET snoozes = min(snoozes + ?3, 9007199254740992) WHERE queue = ?1 AND id = ?2";
    tx.sql(SNOOZE)?.execute(params![queue.key, job.id(), more.cast_signed()])?;
    tx.count(queue.key, "snoozed", 1);
    Ok(())
}

/// A service that the job calls is rate-limited for this delay. The job's limit is closed, or
/// without a limit its group is paused, and the job goes to the head of its line. Without a limit
/// and a group, only the job waits.
pub(crate) fn return_rate_limited(
    tx: &mut Tx<'_>,
    queue: &mut Queue<'_>,
    job: Leaving<'_>,
    delay: Duration,
    name: Option<&str>,
) -> Result<(), Failed> {
    let until = tx.due_after(delay);
    let closed = match job.id {
        ValueRef::Blob(id) if until > tx.now => {
            limits::close(tx, queue, id, until, name)? || name.is_none() && pauses::pause_rate_limited_group(tx, queue, id, until)?
        }
        _ => false,
    };
    count_snooze(tx, queue, &job, ONE_RATE_LIMITED)?;
    if !closed && until > tx.now {
        return wait_in_state(tx, queue, job, SCHEDULED, delay);
    }
    let Some(job) = keys::reacquire_or_cancel(tx, queue, job)? else { return Ok(()) };
    ready::push(tx, queue, &job.arrives(), End::Head)?;
    tx.hint(queue.name, tx.now);
    Ok(())
}

/// Starts a job over, as if it had been enqueued with this delay.
pub(crate) fn repeat(tx: &mut Tx<'_>, queue: &mut Queue<'_>, job: Leaving<'_>, delay: Duration) -> Result<(), Failed> {
    const ANEW: &str = "UPDATE queue_jobs SET attempts = 0, snoozes = iif(snoozes & ?3, 0, ?3), returns = 0, returned = NULL, failures = NULL \
        WHERE queue = ?1 AND id = ?2";
    tx.sql(ANEW)?.execute(params![queue.key, job.id(), ODD.cast_signed()])?;
    tx.count(queue.key, "repeated", 1);
    if !delay.is_zero() {
        return wait_in_state(tx, queue, job, SCHEDULED, delay);
    }
    let Some(job) = keys::reacquire_or_cancel(tx, queue, job)? else { return Ok(()) };
    ready::push(tx, queue, &job.arrives(), End::Tail)?;
    tx.hint(queue.name, tx.now);
    Ok(())
}

/// Counts a run that ended because its worker stopped.
pub(crate) fn count_return(tx: &Tx<'_>, queue: &Queue<'_>, job: &Leaving<'_>) -> Result<(), Failed> {
    const RETURN: &str = "UPDATE queue_jobs SET returns = min(returns + 1, 4294967295), returned = ?3 WHERE queue = ?1 AND id = ?2";
    tx.sql(RETURN)?.execute(params![queue.key, job.id(), tx.now])?;
    Ok(())
}

/// Returns a job that was not run, or whose run ended for an external reason.
pub(crate) fn return_to_head(tx: &mut Tx<'_>, queue: &mut Queue<'_>, job: Leaving<'_>, by_holder: bool) -> Result<(), Failed> {
    tx.count(queue.key, "returned", i64::from(by_holder));
    let Some(job) = keys::reacquire_or_cancel(tx, queue, job)? else { return Ok(()) };
    ready::push(tx, queue, &job.arrives(), End::Head)?;
    tx.hint(queue.name, tx.now);
    Ok(())
}

/// Parks a job until a lane knows its task and has a release that has not failed to read the job.
pub(crate) fn park(tx: &mut Tx<'_>, queue: &Queue<'_>, job: Leaving<'_>, task: &str) -> Result<(), Failed> {
    let Some(mut job) = keys::reacquire_or_cancel(tx, queue, job)? else { return Ok(()) };
    let unreadable = job.unreadable.take();
    store_parked(tx, queue, job, task, unreadable)?;
    tx.hint(queue.name, tx.now);
    Ok(())
}

fn store_parked(tx: &mut Tx<'_>, queue: &Queue<'_>, job: Leaving<'_>, task: &str, unreadable: Option<Unreadable>) -> Result<(), Failed> {
    const ENTER: &str = "INSERT OR IGNORE INTO queue_parked (queue, task, id) VALUES (?1, ?2, ?3)";
    if let ValueRef::Blob(id) = job.id {
        schedule::record_end(tx, queue, id, "parked")?;
    }
    let unreadable = unreadable.unwrap_or(Unreadable { releases: Vec::new(), until_ms: NEVER });
    let id = job.arrives();
    tx.sql(sql!("return_to_waiting.sql"))?.execute(params![queue.key, id, PARKED, unreadable.until_ms])?;
    tx.sql(ENTER)?.execute(params![queue.key, parked_under(task, &unreadable.releases), id])?;
    Ok(())
}

/// The same before the start of the job, because its task is paused. No notification is needed, and
/// the job keeps its key.
pub(crate) fn park_paused(tx: &mut Tx<'_>, queue: &Queue<'_>, mut job: Leaving<'_>, task: &str) -> Result<(), Failed> {
    let unreadable = job.unreadable.take();
    store_parked(tx, queue, job, task, unreadable)
}

/// The same for a job that this release cannot read. The sweep buries the job when this time has
/// passed since the first release failed to read it.
pub(crate) fn park_unreadable(
    tx: &mut Tx<'_>,
    queue: &Queue<'_>,
    mut job: Leaving<'_>,
    (task, release): (&str, &str),
    within: Duration,
) -> Result<(), Failed> {
    const NOTE: &str = "UPDATE queue_jobs SET note = ?3 WHERE queue = ?1 AND id = ?2";
    let first = Unreadable { releases: Vec::new(), until_ms: after(tx.now, within) };
    let unreadable = job.unreadable.get_or_insert(first);
    unreadable.add(release);
    if unreadable.releases.len() > UNREADABLE_RELEASES {
        unreadable.until_ms = tx.now;
    }
    let note = parked_under(&unreadable.until_ms.to_string(), &unreadable.releases);
    tx.sql(NOTE)?.execute(params![queue.key, job.id(), note])?;
    park(tx, queue, job, task)
}

/// A parked job that no release has failed to read is not buried, even if its place has a time.
pub(super) fn keep_parked(tx: &Tx<'_>, queue: &Queue<'_>, id: &Value) -> Result<(), Failed> {
    tx.sql(sql!("return_to_waiting.sql"))?.execute(params![queue.key, id, PARKED, NEVER])?;
    Ok(())
}

/// An operator requeues a dead, cancelled or expired job.
pub(crate) fn requeue(tx: &mut Tx<'_>, queue: &mut Queue<'_>, id: &[u8]) -> Result<Changed, Failed> {
    /// An ended job starts again without an expiry, in the same round. Its place is for
    /// `ready_push.sql`.
    const REQUEUE: &str = "UPDATE queue_jobs SET attempts = 0, crashes = 0, first_crash = NULL, snoozes = snoozes & ?4, returns = 0, \
            returned = NULL, ended = NULL, note = NULL, envelope = ?3 \
        WHERE queue = ?1 AND id = ?2";
    const ENDED: &str = "SELECT state, envelope FROM queue_jobs WHERE queue = ?1 AND id = ?2 AND state IN (?3, ?4, ?5)";
    let ended: Option<(i64, Vec<u8>)> =
        tx.sql(ENDED)?.query_row(params![queue.key, id, DEAD, CANCELLED, EXPIRED], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let Some((state, envelope)) = ended else { return Ok(Changed::No) };
    if let Some(younger) = keys::reacquire(tx, queue, id)? {
        return Ok(Changed::Held(younger));
    }
    let bytes = i64::try_from(envelope.len()).unwrap_or(i64::MAX);
    let envelope = Envelope::without_expiry(&envelope).unwrap_or(envelope);
    tx.sql(REQUEUE)?.execute(params![queue.key, id, envelope, ODD.cast_signed()])?;
    tags::store(tx, queue, id, &envelope)?;
    ready::push(tx, queue, id, End::Tail)?;
    if state == DEAD {
        tx.count(queue.key, ".dead_bytes", -bytes);
    } else {
        tx.count(queue.key, ".kept", -1);
        tx.count(queue.key, ".kept_bytes", -bytes);
    }
    tx.count(queue.key, "requeued", 1);
    tx.hint(queue.name, tx.now);
    Ok(Changed::Yes)
}

/// Repairs a job in a place that no query finds.
pub(crate) fn repair(tx: &mut Tx<'_>, queue: &mut Queue<'_>, job: Leaving<'_>, end: End) -> Result<(), Failed> {
    let Some(job) = keys::reacquire_or_cancel(tx, queue, job)? else { return Ok(()) };
    Ok(ready::push(tx, queue, &job.arrives(), end)?)
}

/// Repairs a job with a valid state and an invalid rank.
pub(crate) fn reset_rank(tx: &Tx<'_>, queue: &Queue<'_>, id: &Value) -> rusqlite::Result<()> {
    /// Sets the rank that the state requires. Another program has written a different one.
    const RESET: &str = "UPDATE queue_jobs SET rank = 0 WHERE queue = ?1 AND id = ?2";
    tx.sql(RESET)?.execute(params![queue.key, id]).map(drop)
}

/// A job that waits for its time outside of the line.
fn wait_in_state(tx: &mut Tx<'_>, queue: &Queue<'_>, job: Leaving<'_>, state: i64, delay: Duration) -> Result<(), Failed> {
    let Some(job) = keys::reacquire_or_cancel(tx, queue, job)? else { return Ok(()) };
    let id = job.arrives();
    let at = tx.due_after(delay);
    tx.sql(sql!("return_to_waiting.sql"))?.execute(params![queue.key, id, state, at])?;
    tx.hint(queue.name, at);
    Ok(())
}
