//! The turn: finishes, then promotion and claim, in one transaction (R2 to R5).

mod finish;

use rusqlite::{OptionalExtension, params, types::Value};
use serde::{Deserialize, Serialize};

use crate::sqlite::{
    connection::lenient::{Bytes, Count, Number},
    connection::tx::{Failed, Queue, Tx, after},
    doors::row::{ACTIVE, PARKED, READY, RETRY, SCHEDULED, SUSPECT, Tag},
    turn::finish::finish,
};
use crate::{
    address::JobId,
    broker::{DUE_ITEMS, Delivery, MAX_BYTES, MAX_ITEMS, Turn, TurnAnswer},
    codec,
    error::Error,
};

/// What is kept of a turn's answer for a replay.
#[derive(Default, Serialize, Deserialize)]
struct Kept {
    claim: i64,
    ids: Vec<Vec<u8>>,
    stale: Vec<usize>,
}

pub(crate) fn turn(tx: &mut Tx<'_>, turn: &Turn) -> Result<TurnAnswer, Failed> {
    let name = turn.worker.as_str();
    let forgotten = || Error::Forgotten(name.to_owned());
    let mut queue = tx.queue(&turn.queue)?.ok_or_else(forgotten)?;
    // A sequence that is none is of nobody.
    let entry: Option<(i64, u64, Option<Bytes>)> = tx
        .sql("SELECT worker, seq, answer FROM queue_workers WHERE queue = ?1 AND name = ?2 AND NOT fenced AND typeof(seq) = 'integer' AND seq >= 0")?
        .query_row(params![queue.key, name], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let (worker, last, kept) = entry.ok_or_else(forgotten)?;
    if turn.seq < last {
        return Err(Error::Old { name: name.to_owned(), seq: turn.seq }.into());
    }
    if turn.seq - last > 1 {
        return Err(forgotten().into());
    }
    if turn.seq == last {
        return replay(tx, &queue, worker, name, kept.map(|Bytes(kept)| kept));
    }

    let mut stale = Vec::new();
    for (position, ending) in turn.finishes.iter().enumerate() {
        let tag = Tag { worker, claim: ending.claim.cast_signed() };
        if !finish(tx, &turn.queue, &mut queue, tag, ending, turn.keep)? {
            stale.push(position);
        }
    }
    queue.claim = tx.now.max(queue.last_claim() + 1);
    let tag = Tag { worker, claim: queue.claim };
    let mut claim = Claim { tag, left: turn.claim.min(MAX_ITEMS), bytes: 0, deliveries: Vec::new() };
    if !queue.paused {
        promote(tx, &mut queue)?;
        if claim.left > 0 {
            claim.resume(tx, &queue, &turn.resume, turn.suspect)?;
            if turn.suspect && !claim.has_suspect() {
                claim.take(tx, &queue, SUSPECT, 1)?;
            }
            claim.take(tx, &queue, READY, MAX_ITEMS)?;
        }
    }
    let kept = if claim.deliveries.is_empty() && stale.is_empty() {
        None
    } else {
        let ids = claim.deliveries.iter().map(|delivery| delivery.id.as_bytes().to_vec()).collect();
        Some(codec::encode(&Kept { claim: queue.claim, ids, stale: stale.clone() }).map_err(Error::Internal)?)
    };
    tx.sql("UPDATE queue_workers SET seq = ?2, answer = ?3, deadline = ?4 WHERE worker = ?1")?.execute(params![
        worker,
        turn.seq,
        kept,
        after(tx.now, turn.lease)
    ])?;
    tx.save(&queue)?;
    let mut answer = outlook(tx, &queue)?;
    (answer.stale, answer.deliveries) = (stale, claim.deliveries);
    Ok(answer)
}

/// R5: the same answer again. Writes nothing.
fn replay(tx: &mut Tx<'_>, queue: &Queue, worker: i64, name: &str, kept: Option<Vec<u8>>) -> Result<TurnAnswer, Failed> {
    let mut answer = outlook(tx, queue)?;
    answer.workers = 0;
    let Some(kept) = kept else { return Ok(answer) };
    // One that cannot be read is as good as none: its lane has to begin anew.
    let kept: Kept = codec::decode(&kept).map_err(|_| Error::Forgotten(name.to_owned()))?;
    for id in &kept.ids {
        let found = tx
            .sql(
                "SELECT envelope, attempts, crashes, snoozes FROM queue_jobs
                 WHERE queue = ?1 AND id = ?2 AND state = ?3 AND rank = ?4 AND pos = ?5",
            )?
            .query_row(params![queue.key, id, ACTIVE, worker, kept.claim], |row| {
                Ok((row.get::<_, Bytes>(0)?.0, row.get::<_, Count>(1)?.0, row.get::<_, Count>(2)?.0, row.get::<_, Count>(3)?.0))
            })
            .optional()?;
        let Ok(id) = JobId::from_bytes(id) else { continue };
        let mut delivery = Delivery::new(id, kept.claim.cast_unsigned(), Vec::new());
        match found {
            Some(found) => (delivery.envelope, delivery.attempts, delivery.crashes, delivery.snoozes) = found,
            None => delivery.void = true,
        }
        answer.deliveries.push(delivery);
    }
    answer.stale = kept.stale;
    Ok(answer)
}

/// Moves what is due to the tail of `ready`.
pub(crate) fn promote(tx: &mut Tx<'_>, queue: &mut Queue) -> Result<(), Failed> {
    for state in [SCHEDULED, RETRY] {
        let mut due =
            tx.sql("SELECT id FROM queue_jobs WHERE queue = ?1 AND state = ?2 AND rank = 0 AND pos <= ?3 ORDER BY pos LIMIT ?4")?;
        let ids: Vec<Value> =
            due.query_map(params![queue.key, state, tx.now, DUE_ITEMS], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        for id in ids {
            tx.make_ready(queue, &id, false)?;
        }
    }
    Ok(())
}

struct Claim {
    tag: Tag,
    left: usize,
    bytes: usize,
    deliveries: Vec<Delivery>,
}

impl Claim {
    fn has_suspect(&self) -> bool {
        self.deliveries.iter().any(|delivery| delivery.crashes > 0)
    }

    /// Takes parked jobs of these tasks. A suspect is one here too; those that are passed over stay parked.
    fn resume(&mut self, tx: &mut Tx<'_>, queue: &Queue, tasks: &[std::sync::Arc<str>], suspects: bool) -> Result<(), Failed> {
        for task in tasks {
            let mut parked = tx.sql(
                "SELECT id, ifnull(crashes, 0) FROM queue_parked LEFT JOIN queue_jobs USING (queue, id)
                 WHERE queue = ?1 AND task = ?2 AND (?3 OR ifnull(crashes, 0) = 0) LIMIT ?4",
            )?;
            let found: Vec<(Value, u32)> = parked
                .query_map(params![queue.key, task.as_ref(), suspects && !self.has_suspect(), self.left], |row| {
                    Ok((row.get(0)?, row.get::<_, Count>(1)?.0))
                })?
                .collect::<rusqlite::Result<_>>()?;
            for (id, crashes) in found {
                if crashes > 0 && self.has_suspect() {
                    continue;
                }
                let delivery = tx
                    .sql("SELECT id, envelope, attempts, crashes, snoozes FROM queue_jobs WHERE queue = ?1 AND id = ?2 AND state = ?3")?
                    .query_row(params![queue.key, id, PARKED], read_delivery)
                    .optional()?;
                if let Some(delivery) = delivery {
                    if self.is_full(&delivery) {
                        return Ok(());
                    }
                    self.activate(tx, queue, delivery)?;
                }
                tx.sql("DELETE FROM queue_parked WHERE queue = ?1 AND task = ?2 AND id = ?3")?.execute(params![
                    queue.key,
                    task.as_ref(),
                    id
                ])?;
            }
        }
        Ok(())
    }

    /// Takes at most `limit` jobs of a state, in order.
    fn take(&mut self, tx: &mut Tx<'_>, queue: &Queue, state: i64, limit: usize) -> Result<(), Failed> {
        let limit = limit.min(self.left);
        if limit == 0 {
            return Ok(());
        }
        let mut ready = tx.sql(
            "SELECT id, envelope, attempts, crashes, snoozes FROM queue_jobs
             WHERE queue = ?1 AND state = ?2 ORDER BY rank, pos LIMIT ?3",
        )?;
        let mut taken = Vec::with_capacity(limit);
        {
            let mut rows = ready.query(params![queue.key, state, limit])?;
            let mut bytes = self.bytes;
            while let Some(row) = rows.next()? {
                let delivery = read_delivery(row)?;
                bytes += delivery.envelope.len();
                if bytes > MAX_BYTES && !(taken.is_empty() && self.deliveries.is_empty()) {
                    break;
                }
                taken.push(delivery);
            }
        }
        for delivery in taken {
            self.activate(tx, queue, delivery)?;
        }
        Ok(())
    }

    fn is_full(&self, next: &Found) -> bool {
        self.left == 0 || (!self.deliveries.is_empty() && self.bytes + next.envelope.len() > MAX_BYTES)
    }

    fn activate(&mut self, tx: &mut Tx<'_>, queue: &Queue, found: Found) -> Result<(), Failed> {
        let Found { id: stored, envelope, attempts, crashes, snoozes } = found;
        let id = match &stored {
            Value::Blob(id) => JobId::from_bytes(id).ok(),
            _ => None,
        };
        let Some(id) = id else {
            // Somebody else's: no one could finish it, and it would be in the way of all behind it.
            tx.sql("DELETE FROM queue_jobs WHERE queue = ?1 AND id = ?2")?.execute(params![queue.key, stored])?;
            tx.count(queue.key, "repaired", 1);
            return Ok(());
        };
        tx.sql("UPDATE queue_jobs SET state = ?3, rank = ?4, pos = ?5 WHERE queue = ?1 AND id = ?2")?.execute(params![
            queue.key,
            stored,
            ACTIVE,
            self.tag.worker,
            self.tag.claim
        ])?;
        self.left -= 1;
        self.bytes += envelope.len();
        let mut delivery = Delivery::new(id, self.tag.claim.cast_unsigned(), envelope);
        (delivery.attempts, delivery.crashes, delivery.snoozes) = (attempts, crashes, snoozes);
        self.deliveries.push(delivery);
        Ok(())
    }
}

/// A job that may be claimed.
struct Found {
    id: Value,
    envelope: Vec<u8>,
    attempts: u32,
    crashes: u32,
    snoozes: u32,
}

fn read_delivery(row: &rusqlite::Row<'_>) -> rusqlite::Result<Found> {
    let (Bytes(envelope), Count(attempts), Count(crashes), Count(snoozes)) = (row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?);
    Ok(Found { id: row.get(0)?, envelope, attempts, crashes, snoozes })
}

/// What a lane wants to know of its queue besides its jobs.
fn outlook(tx: &mut Tx<'_>, queue: &Queue) -> Result<TurnAnswer, Failed> {
    let (ready, suspected) = tx
        .sql("SELECT EXISTS (SELECT 1 FROM queue_jobs WHERE queue = ?1 AND state = ?2), EXISTS (SELECT 1 FROM queue_jobs WHERE queue = ?1 AND state = ?3)")?
        .query_row(params![queue.key, READY, SUSPECT], |row| Ok((row.get::<_, bool>(0)?, row.get::<_, bool>(1)?)))?;
    let mut answer = TurnAnswer { now_ms: tx.now, paused: queue.paused, ..TurnAnswer::default() };
    answer.suspects = !queue.paused && suspected;
    answer.more = !queue.paused && ready;
    let mut next_due: Option<i64> = None;
    for state in [SCHEDULED, RETRY] {
        let due: Option<Number> = tx
            .sql("SELECT min(pos) FROM queue_jobs WHERE queue = ?1 AND state = ?2 AND rank = 0")?
            .query_row(params![queue.key, state], |row| row.get(0))?;
        next_due = [next_due, due.map(|Number(due)| due)].into_iter().flatten().min();
    }
    answer.next_due = next_due.map(|due| tx.until(due));
    answer.parked = tx.sql("SELECT EXISTS (SELECT 1 FROM queue_parked WHERE queue = ?1)")?.query_row([queue.key], |row| row.get(0))?;
    answer.workers = tx.sql("SELECT count(*) FROM queue_workers WHERE queue = ?1")?.query_row([queue.key], |row| row.get(0))?;
    Ok(answer)
}

/// Forgets which jobs were cancelled under a lane once it has answered for them.
pub(crate) fn answered(tx: &Tx<'_>, tag: Tag, id: &[u8]) -> rusqlite::Result<()> {
    tx.sql("DELETE FROM queue_gone WHERE worker = ?1 AND id = ?2 AND claim = ?3")?.execute(params![tag.worker, id, tag.claim]).map(drop)
}
