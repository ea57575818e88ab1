//! Leases: beats, and what becomes of the jobs of a lane that lost its own (R6, R7).

use std::time::Duration;

use rusqlite::{OptionalExtension, params};

use crate::sqlite::{
    connection::lenient::{Bytes, Number, Words},
    connection::tx::{Failed, Tx, after, due_after},
    doors::row::{self, ACTIVE, RETRY},
};
use crate::{
    address::JobId,
    broker::{Ahead, BuryReason, CrashRule, Extend, Extended, PartyName, RECLAIM_ITEMS, Reclaimed, Suspect, Suspects},
    error::Error,
};

/// R6.
pub(crate) fn extend(tx: &mut Tx<'_>, lane: &Extend) -> Result<Extended, Failed> {
    let forgotten = || Error::Forgotten(lane.worker.as_str().to_owned());
    let queue = tx.queue(&lane.queue)?.ok_or_else(forgotten)?;
    let worker: i64 = tx
        .sql("UPDATE queue_workers SET deadline = ?4 WHERE queue = ?1 AND name = ?2 AND seq >= ?3 AND NOT fenced RETURNING worker")?
        .query_row(params![queue.key, lane.worker.as_str(), lane.answered, after(tx.now, lane.lease)], |row| row.get(0))
        .optional()?
        .ok_or_else(forgotten)?;
    let mut gone = tx.sql("SELECT id, claim FROM queue_gone WHERE worker = ?1 LIMIT 500")?;
    let mut rows = gone.query([worker])?;
    let mut cancelled = Vec::new();
    while let Some(row) = rows.next()? {
        // A hint that cannot be read is no reason to let the lease run out.
        if let Ok(id) = row::id(row, 0) {
            cancelled.push((id, row.get::<_, Number>(1)?.0.cast_unsigned()));
        }
    }
    Ok(Extended::new(cancelled))
}

/// Look one.
pub(crate) fn suspects(tx: &mut Tx<'_>, queue: &str, limit: usize) -> Result<Suspects, Failed> {
    let Some(queue) = tx.queue(queue)? else { return Ok(Suspects::default()) };
    let mut lanes =
        tx.sql("SELECT name, deadline FROM queue_workers WHERE queue = ?1 AND NOT fenced AND deadline <= ?2 ORDER BY deadline LIMIT ?3")?;
    let expired = lanes
        .query_map(params![queue.key, tx.now, limit], |row| {
            Ok(Suspect { worker: PartyName::new(row.get::<_, Words>(0)?.0), deadline_ms: row.get::<_, Number>(1)?.0 })
        })?
        .collect::<rusqlite::Result<_>>()?;
    let mut lanes =
        tx.sql("SELECT name, deadline, term FROM queue_workers WHERE queue = ?1 AND NOT fenced AND deadline > ?2 + term LIMIT ?3")?;
    let ahead = lanes
        .query_map(params![queue.key, tx.now, limit], |row| {
            let suspect = Suspect { worker: PartyName::new(row.get::<_, Words>(0)?.0), deadline_ms: row.get::<_, Number>(1)?.0 };
            Ok(Ahead { suspect, term: Duration::from_millis(row.get::<_, Number>(2)?.0.max(0).unsigned_abs()) })
        })?
        .collect::<rusqlite::Result<_>>()?;
    let fenced = tx.sql("SELECT count(*) FROM queue_workers WHERE queue = ?1 AND fenced")?.query_row([queue.key], |row| row.get(0))?;
    Ok(Suspects::new(expired, fenced).ahead(ahead))
}

/// Look two.
pub(crate) fn fence(tx: &mut Tx<'_>, queue: &str, suspects: &[Suspect]) -> Result<Vec<bool>, Failed> {
    let Some(queue) = tx.queue(queue)? else { return Ok(vec![false; suspects.len()]) };
    let mut answers = Vec::with_capacity(suspects.len());
    for suspect in suspects {
        let fenced = tx
            .sql(
                "UPDATE queue_workers SET fenced = 1, answer = NULL
                 WHERE queue = ?1 AND name = ?2 AND deadline = ?3 AND (deadline <= ?4 OR deadline > ?4 + term) AND NOT fenced",
            )?
            .execute(params![queue.key, suspect.worker.as_str(), suspect.deadline_ms, tx.now])?;
        answers.push(fenced == 1);
    }
    Ok(answers)
}

/// R7, sweep. The jobs of the fenced lanes of one process are judged together; those that go free go first, so that a
/// reclaimer that comes after a half-done sweep judges the same.
pub(crate) fn sweep_fenced(tx: &mut Tx<'_>, name: &str, rule: &CrashRule) -> Result<Reclaimed, Failed> {
    let mut reclaimed = Reclaimed::default();
    let Some(mut queue) = tx.queue(name)? else { return Ok(reclaimed) };
    let mut lanes = tx.sql("SELECT worker, process FROM queue_workers WHERE queue = ?1 AND fenced ORDER BY process, worker LIMIT 500")?;
    let lanes: Vec<(i64, String)> =
        lanes.query_map([queue.key], |row| Ok((row.get(0)?, row.get::<_, Words>(1)?.0)))?.collect::<rusqlite::Result<_>>()?;
    let mut left = RECLAIM_ITEMS;
    let (mut forgotten, mut buried) = (0, 0);
    for process in lanes.chunk_by(|one, other| one.1 == other.1) {
        let mut held = Vec::new();
        for (worker, _) in process {
            let mut jobs =
                tx.sql("SELECT id, crashes, first_crash, failures FROM queue_jobs WHERE queue = ?1 AND state = ?2 AND rank = ?3")?;
            let rows = jobs.query_map(params![queue.key, ACTIVE, worker], |row| {
                let (Bytes(id), Number(crashes)) = (row.get(0)?, row.get(1)?);
                let (first, failures) = (row.get::<_, Option<Number>>(2)?, row.get::<_, Option<Bytes>>(3)?);
                Ok(Held { id, crashes, first: first.map(|Number(first)| first), failures: failures.map(|Bytes(failures)| failures) })
            })?;
            held.extend(rows.collect::<rusqlite::Result<Vec<_>>>()?);
        }
        // Also one that a lane of the process holds whose own lease still stands.
        let has_suspect: bool = tx
            .sql(
                "SELECT EXISTS (SELECT 1 FROM queue_workers JOIN queue_jobs ON queue_jobs.queue = queue_workers.queue
                 AND queue_jobs.state = ?3 AND queue_jobs.rank = queue_workers.worker
                 WHERE queue_workers.queue = ?1 AND queue_workers.process = ?2 AND queue_jobs.crashes > 0)",
            )?
            .query_row(params![queue.key, process[0].1, ACTIVE], |row| row.get(0))?;
        // Then it has not died: the broker had forgotten these lanes, and it goes on under other names.
        let lives: bool = tx
            .sql("SELECT EXISTS (SELECT 1 FROM queue_workers WHERE queue = ?1 AND process = ?2 AND NOT fenced AND deadline > ?3)")?
            .query_row(params![queue.key, process[0].1, tx.now], |row| row.get(0))?;
        let (charged, free): (Vec<Held>, Vec<Held>) = held.into_iter().partition(|job| !lives && (!has_suspect || job.crashes > 0));
        let all = free.len() + charged.len();
        // Backwards, as each goes to the head.
        for job in free.iter().rev().take(left) {
            tx.make_ready(&mut queue, &job.id, true)?;
            reclaimed.released += 1;
            forgotten += i64::from(lives);
        }
        left -= free.len().min(left);
        for job in charged.iter().take(left) {
            if job.charge(tx, queue.key, rule)? {
                tx.bury(&queue, &job.id, BuryReason::Crashed.name())?;
                buried += 1;
                // What is no id is no job of ours: nobody could look at it.
                reclaimed.buried.extend(JobId::from_bytes(&job.id).ok());
            } else {
                reclaimed.charged += 1;
            }
        }
        if charged.len() > left || all > RECLAIM_ITEMS {
            break;
        }
        left -= charged.len();
        for (worker, _) in process {
            tx.sql("DELETE FROM queue_gone WHERE worker = ?1")?.execute([worker])?;
            tx.sql("DELETE FROM queue_workers WHERE worker = ?1")?.execute([worker])?;
            reclaimed.forgotten += 1;
        }
    }
    tx.save(&queue)?;
    let moved = reclaimed.released + reclaimed.charged + buried;
    if moved > 0 {
        tx.hint(name, tx.now);
    }
    let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    tx.count(queue.key, "reclaimed", number(moved));
    tx.count(queue.key, "crashed", number(reclaimed.charged + buried));
    tx.count(queue.key, "forgotten", forgotten);
    Ok(reclaimed)
}

struct Held {
    id: Vec<u8>,
    crashes: i64,
    first: Option<i64>,
    failures: Option<Vec<u8>>,
}

impl Held {
    /// Charges a crash and puts the job to `retry`. True: that was one too many, and it has to be buried.
    fn charge(&self, tx: &mut Tx<'_>, queue: i64, rule: &CrashRule) -> Result<bool, Failed> {
        let window = i64::try_from(rule.window.as_millis()).unwrap_or(i64::MAX);
        let (crashes, first) = match self.first {
            Some(first) if self.crashes > 0 && tx.now.saturating_sub(first) <= window => (self.crashes.saturating_add(1), first),
            _ => (1, tx.now),
        };
        let failures = row::one_more_failure(self.failures.as_deref(), tx.now, "the process that ran it died, or lost the broker")?;
        let delay = rule.delay.saturating_mul(u32::try_from(crashes).unwrap_or(u32::MAX));
        tx.sql(
            "UPDATE queue_jobs SET state = ?3, rank = 0, pos = ?4, crashes = ?5, first_crash = ?6, failures = ?7
             WHERE queue = ?1 AND id = ?2",
        )?
        .execute(params![queue, self.id, RETRY, due_after(tx.now, delay), crashes, first, failures])?;
        Ok(crashes >= i64::from(rule.max_crashes))
    }
}
