//! How deliveries end. Nothing is believed but the tag: every change demands it in its `WHERE`, or after a look at it.

use std::time::Duration;

use rusqlite::{OptionalExtension, params};

use crate::broker::{Ending, Finish, KeepLimits};
use crate::sqlite::{
    connection::lenient::{Bytes, Number},
    connection::tx::{Failed, Queue, Tx, after, due_after},
    doors::row::{self, ACTIVE, CANCELLED, DONE, EXPIRED, PARKED, RETRY, SCHEDULED, Tag},
    turn::answered,
};

/// Applies one finish. False: it is stale, and changed nothing.
pub(crate) fn finish(tx: &mut Tx<'_>, name: &str, queue: &mut Queue, tag: Tag, finish: &Finish, keep: KeepLimits) -> Result<bool, Failed> {
    let id = finish.id.as_bytes();
    // The common case is one statement: a made id that leaves nothing.
    if let (Ending::Ack { keep: None, .. }, false) = (&finish.ending, finish.id.is_given()) {
        let gone = tx
            .sql("DELETE FROM queue_jobs WHERE queue = ?1 AND id = ?2 AND state = ?3 AND rank = ?4 AND pos = ?5")?
            .execute(params![queue.key, id, ACTIVE, tag.worker, tag.claim])?;
        if gone == 0 {
            answered(tx, tag, id)?;
            return Ok(false);
        }
        tx.count(queue.key, "done", 1);
        return Ok(true);
    }
    let held: Option<(Option<Number>, Option<Bytes>, Number)> = tx
        .sql(
            "SELECT digest, failures, length(envelope) FROM queue_jobs
             WHERE queue = ?1 AND id = ?2 AND state = ?3 AND rank = ?4 AND pos = ?5",
        )?
        .query_row(params![queue.key, id, ACTIVE, tag.worker, tag.claim], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((digest, failures, Number(bytes))) = held else {
        answered(tx, tag, id)?;
        return Ok(false);
    };
    let failures = failures.map(|Bytes(failures)| failures);
    if !matches!(finish.ending, Ending::Release | Ending::Void | Ending::Park { .. }) {
        // The process lived through this round.
        tx.sql("UPDATE queue_jobs SET crashes = 0, first_crash = NULL WHERE queue = ?1 AND id = ?2 AND crashes > 0")?
            .execute(params![queue.key, id])?;
    }
    let key = queue.key;
    match &finish.ending {
        Ending::Ack { result, keep: until } => {
            if let Some(Number(digest)) = digest {
                tx.remember(key, id, digest)?;
            }
            match until.filter(|until| !until.is_zero()) {
                Some(until) => done_and_kept(tx, queue, id, until, result.as_deref(), bytes, keep)?,
                None => drop(tx.sql("DELETE FROM queue_jobs WHERE queue = ?1 AND id = ?2")?.execute(params![key, id])?),
            }
            tx.count(key, "done", 1);
        }
        Ending::Nack { delay, error } => {
            let failures = row::one_more_failure(failures.as_deref(), tx.now, error)?;
            tx.sql("UPDATE queue_jobs SET attempts = attempts + 1, failures = ?3 WHERE queue = ?1 AND id = ?2")?
                .execute(params![key, id, failures])?;
            wait(tx, name, queue, id, RETRY, *delay)?;
            tx.count(key, "failed", 1);
        }
        Ending::Snooze { delay } => {
            tx.sql("UPDATE queue_jobs SET snoozes = snoozes + 1 WHERE queue = ?1 AND id = ?2")?.execute(params![key, id])?;
            wait(tx, name, queue, id, SCHEDULED, *delay)?;
            tx.count(key, "snoozed", 1);
        }
        Ending::Repeat { delay } => {
            tx.sql("UPDATE queue_jobs SET attempts = 0, snoozes = 0, failures = NULL WHERE queue = ?1 AND id = ?2")?
                .execute(params![key, id])?;
            if delay.is_zero() {
                tx.make_ready(queue, id, false)?;
                tx.hint(name, tx.now);
            } else {
                wait(tx, name, queue, id, SCHEDULED, *delay)?;
            }
            tx.count(key, "repeated", 1);
        }
        Ending::Bury { reason, error } => {
            if let Some(error) = error {
                let failures = row::one_more_failure(failures.as_deref(), tx.now, error)?;
                tx.sql("UPDATE queue_jobs SET attempts = attempts + 1, failures = ?3 WHERE queue = ?1 AND id = ?2")?
                    .execute(params![key, id, failures])?;
                tx.count(key, "failed", 1);
            }
            tx.bury(queue, id, reason.name())?;
        }
        Ending::Cancel { reason } => tx.end_unwanted(queue, id, CANCELLED, Some(reason))?,
        Ending::Expire => tx.end_unwanted(queue, id, EXPIRED, None)?,
        Ending::Release | Ending::Void => {
            tx.make_ready(queue, id, true)?;
            tx.hint(name, tx.now);
            tx.count(key, "released", 1);
        }
        Ending::Park { task } => {
            tx.sql("UPDATE queue_jobs SET state = ?3, rank = 0, pos = ?4 WHERE queue = ?1 AND id = ?2")?
                .execute(params![key, id, PARKED, tx.now])?;
            tx.sql("INSERT OR IGNORE INTO queue_parked (queue, task, id) VALUES (?1, ?2, ?3)")?.execute(params![key, task, id])?;
            tx.hint(name, tx.now);
        }
    }
    Ok(true)
}

/// Lets a job wait for its time.
fn wait(tx: &mut Tx<'_>, name: &str, queue: &Queue, id: &[u8], state: i64, delay: Duration) -> Result<(), Failed> {
    let at = due_after(tx.now, delay);
    tx.sql("UPDATE queue_jobs SET state = ?3, rank = 0, pos = ?4 WHERE queue = ?1 AND id = ?2")?
        .execute(params![queue.key, id, state, at])?;
    tx.hint(name, at);
    Ok(())
}

fn done_and_kept(
    tx: &mut Tx<'_>,
    queue: &Queue,
    id: &[u8],
    keep: Duration,
    result: Option<&[u8]>,
    bytes: i64,
    limits: KeepLimits,
) -> Result<(), Failed> {
    let until = after(tx.now, keep);
    tx.sql("UPDATE queue_jobs SET state = ?3, rank = 0, pos = ?4, ended = ?5, result = ?6 WHERE queue = ?1 AND id = ?2")?
        .execute(params![queue.key, id, DONE, until, tx.now, result])?;
    tx.count(queue.key, ".kept", 1);
    tx.count(queue.key, ".kept_bytes", bytes + i64::try_from(result.map_or(0, <[u8]>::len)).unwrap_or(0));
    // Two go for one that comes, so that a lowered limit is reached.
    crate::sqlite::audit::sweep::trim_kept(tx, queue.key, limits, 2)?;
    Ok(())
}
