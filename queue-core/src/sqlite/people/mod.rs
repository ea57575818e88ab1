//! What people do: cancel, requeue, delete, pause, look.

use rusqlite::{OptionalExtension, Row, params, params_from_iter};

use crate::sqlite::{
    connection::lenient::{Bytes, Count, Number, Words},
    connection::tx::{Failed, Tx},
    doors::row::{self, ACTIVE, CANCELLED, DEAD, DONE, EXPIRED, PARKED},
};
use crate::{
    address::JobId,
    broker::{BuryReason, CancelAnswer, Failure, JobRecord, JobState, Page, Priority, QueueStats},
    error::Error,
};

/// R13.
pub(crate) fn cancel(tx: &mut Tx<'_>, queue: &str, ids: &[JobId]) -> Result<Vec<CancelAnswer>, Failed> {
    let Some(queue) = tx.queue(queue)? else { return Ok(vec![CancelAnswer::NotFound; ids.len()]) };
    let mut answers = Vec::with_capacity(ids.len());
    for id in ids {
        let id = id.as_bytes();
        let found: Option<(i64, i64, i64)> = tx
            .sql("SELECT state, rank, pos FROM queue_jobs WHERE queue = ?1 AND id = ?2")?
            .query_row(params![queue.key, id], |row| {
                Ok((row.get::<_, Number>(0)?.0, row.get::<_, Number>(1)?.0, row.get::<_, Number>(2)?.0))
            })
            .optional()?;
        answers.push(match found {
            None | Some((DONE | DEAD | CANCELLED | EXPIRED, ..)) => CancelAnswer::NotFound,
            Some((state, worker, claim)) => {
                if state == ACTIVE {
                    tx.sql("INSERT OR IGNORE INTO queue_gone (worker, id, claim) VALUES (?1, ?2, ?3)")?
                        .execute(params![worker, id, claim])?;
                }
                if state == PARKED {
                    unpark(tx, queue.key, id)?;
                }
                tx.end_unwanted(&queue, id, CANCELLED, None)?;
                if state == ACTIVE { CancelAnswer::CancelledActive } else { CancelAnswer::Cancelled }
            }
        });
    }
    Ok(answers)
}

/// `parked` is read by task; a single job of it is looked for.
fn unpark(tx: &Tx<'_>, queue: i64, id: &[u8]) -> rusqlite::Result<()> {
    tx.sql("DELETE FROM queue_parked WHERE queue = ?1 AND id = ?2")?.execute(params![queue, id]).map(drop)
}

/// `dead` → `ready`.
pub(crate) fn requeue(tx: &mut Tx<'_>, name: &str, ids: &[JobId]) -> Result<Vec<bool>, Failed> {
    let Some(mut queue) = tx.queue(name)? else { return Ok(vec![false; ids.len()]) };
    let mut answers = Vec::with_capacity(ids.len());
    for id in ids {
        let id = id.as_bytes();
        let bytes: Option<i64> = tx
            .sql(
                "UPDATE queue_jobs SET attempts = 0, crashes = 0, first_crash = NULL, snoozes = 0, ended = NULL, note = NULL
                 WHERE queue = ?1 AND id = ?2 AND state = ?3 RETURNING length(envelope)",
            )?
            .query_row(params![queue.key, id, DEAD], |row| row.get(0))
            .optional()?;
        if let Some(bytes) = bytes {
            tx.make_ready(&mut queue, id, false)?;
            tx.count(queue.key, ".dead_bytes", -bytes);
            tx.count(queue.key, "requeued", 1);
            tx.hint(name, tx.now);
        }
        answers.push(bytes.is_some());
    }
    tx.save(&queue)?;
    Ok(answers)
}

pub(crate) fn delete(tx: &mut Tx<'_>, queue: &str, ids: &[JobId]) -> Result<Vec<bool>, Failed> {
    let Some(queue) = tx.queue(queue)? else { return Ok(vec![false; ids.len()]) };
    let mut answers = Vec::with_capacity(ids.len());
    for id in ids {
        let id = id.as_bytes();
        let found: Option<(i64, i64)> = tx
            .sql(
                "SELECT state, length(envelope) + ifnull(length(result), 0) FROM queue_jobs
                 WHERE queue = ?1 AND id = ?2 AND state <> ?3",
            )?
            .query_row(params![queue.key, id, ACTIVE], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        answers.push(found.is_some());
        match found {
            Some((state @ (DONE | DEAD | CANCELLED | EXPIRED), bytes)) => tx.remove_ended(queue.key, id, state, bytes)?,
            Some((state, _)) => {
                if state == PARKED {
                    unpark(tx, queue.key, id)?;
                }
                tx.sql("DELETE FROM queue_jobs WHERE queue = ?1 AND id = ?2")?.execute(params![queue.key, id])?;
            }
            None => continue,
        }
        let tombs = tx.sql("DELETE FROM queue_tombstones WHERE queue = ?1 AND id = ?2")?.execute(params![queue.key, id])?;
        tx.count(queue.key, ".tombstones", -i64::try_from(tombs).unwrap_or(0));
    }
    Ok(answers)
}

pub(crate) fn set_paused(tx: &mut Tx<'_>, name: &str, paused: bool) -> Result<(), Failed> {
    let queue = tx.queue_made(name)?;
    tx.sql("UPDATE queue_queues SET paused = ?2 WHERE queue = ?1")?.execute(params![queue.key, paused])?;
    if !paused {
        tx.hint(name, tx.now);
    }
    Ok(())
}

pub(crate) fn queues(tx: &mut Tx<'_>) -> Result<Vec<String>, Failed> {
    let mut names = tx.sql("SELECT name FROM queue_queues ORDER BY name")?;
    Ok(names.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?)
}

pub(crate) fn stats(tx: &mut Tx<'_>, queue: &str) -> Result<QueueStats, Failed> {
    let mut stats = QueueStats::default();
    let Some(queue) = tx.queue(queue)? else { return Ok(stats) };
    let mut depth = tx.sql("SELECT state, count(*) FROM queue_jobs WHERE queue = ?1 GROUP BY state")?;
    let mut rows = depth.query([queue.key])?;
    while let Some(row) = rows.next()? {
        // A state that is none is for the auditor to find.
        if let Ok(state) = row::state(row.get::<_, Number>(0)?.0) {
            *stats.depth.entry(state).or_default() += row.get::<_, u64>(1)?;
        }
    }
    let mut counters = tx.sql("SELECT name, value FROM queue_counters WHERE queue = ?1 AND name NOT LIKE '.%'")?;
    let read = |row: &Row<'_>| Ok((row.get::<_, Words>(0)?.0, row.get::<_, Number>(1)?.0.max(0).unsigned_abs()));
    stats.counters = counters.query_map([queue.key], read)?.collect::<rusqlite::Result<_>>()?;
    stats.workers = tx
        .sql("SELECT count(*) FROM queue_workers WHERE queue = ?1 AND NOT fenced AND deadline > ?2")?
        .query_row(params![queue.key, tx.now], |row| row.get(0))?;
    stats.paused = queue.paused;
    Ok(stats)
}

const COLUMNS: &str = "id, state, envelope, priority, attempts, crashes, snoozes, pos, ended, note, rank";

pub(crate) fn list(tx: &mut Tx<'_>, queue: &str, state: JobState, offset: u64, limit: usize) -> Result<Page, Failed> {
    let Some(queue) = tx.queue(queue)? else { return Ok(Page::default()) };
    let numbers = row::numbers(state);
    let marks = if numbers.len() == 2 { "?4, ?5" } else { "?4" };
    // The first of two numbers, the suspects, is served first.
    let mut page = tx.sql(&format!(
        "SELECT {COLUMNS} FROM queue_jobs WHERE queue = ?1 AND state IN ({marks}) ORDER BY state DESC, rank, pos LIMIT ?2 OFFSET ?3"
    ))?;
    let mut values = vec![queue.key, i64::try_from(limit + 1).unwrap_or(i64::MAX), i64::try_from(offset).unwrap_or(i64::MAX)];
    values.extend(numbers);
    let mut rows = page.query(params_from_iter(values))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(record(tx, row));
    }
    let more = found.len() > limit;
    found.truncate(limit);
    // What cannot be told of is for the auditor to find.
    let found = found.into_iter().filter_map(Result::ok).collect();
    Ok(Page::new(found, more.then(|| offset + limit as u64)))
}

pub(crate) fn show(tx: &mut Tx<'_>, queue: &str, id: &JobId) -> Result<Option<JobRecord>, Failed> {
    let Some(queue) = tx.queue(queue)? else { return Ok(None) };
    let mut job = tx.sql(&format!("SELECT {COLUMNS}, failures, result FROM queue_jobs WHERE queue = ?1 AND id = ?2"))?;
    let mut rows = job.query(params![queue.key, id.as_bytes()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let mut record = record(tx, row)?;
    let stored = row.get::<_, Option<Bytes>>(11)?.map(|Bytes(stored)| stored);
    let unreadable = |problem: Error| vec![Failure { at_ms: 0, message: problem.to_string() }];
    record.failures = row::failures(stored.as_deref()).unwrap_or_else(unreadable);
    record.result = row.get::<_, Option<Bytes>>(12)?.map(|Bytes(result)| result);
    Ok(Some(record))
}

fn record(tx: &Tx<'_>, row: &Row<'_>) -> Result<JobRecord, Failed> {
    let state = row::state(row.get::<_, Number>(1)?.0)?;
    let mut record = JobRecord::new(row::id(row, 0)?, state, row.get::<_, Bytes>(2)?.0);
    record.priority = u8::try_from(row.get::<_, Number>(3)?.0).ok().and_then(Priority::from_number).unwrap_or_default();
    let (Count(attempts), Count(crashes), Count(snoozes)) = (row.get(4)?, row.get(5)?, row.get(6)?);
    (record.attempts, record.crashes, record.snoozes) = (attempts, crashes, snoozes);
    let Number(pos) = row.get(7)?;
    let ended = row.get::<_, Option<Number>>(8)?.map(|Number(ended)| ended);
    let note = row.get::<_, Option<Words>>(9)?.map(|Words(note)| note);
    record.at_ms = match state {
        JobState::Scheduled | JobState::Retry => Some(pos),
        JobState::Ready | JobState::Active | JobState::Parked => None,
        _ => ended,
    };
    match state {
        JobState::Dead => record.reason = note.as_deref().and_then(BuryReason::from_name),
        JobState::Active => {
            let worker: Option<String> = tx
                .sql("SELECT name FROM queue_workers WHERE worker = ?1")?
                .query_row([row.get::<_, Number>(10)?.0], |row| row.get::<_, Words>(0).map(|Words(name)| name))
                .optional()?;
            record.tag = worker.map(|worker| format!("{worker}:{pos}"));
        }
        _ => record.note = note,
    }
    Ok(record)
}
