//! Registration and enqueue.

use rusqlite::{OptionalExtension, params};

use crate::sqlite::{
    connection::lenient::{Bytes, Number},
    connection::tx::{Failed, Queue, Tx, after, due_after},
    doors::row::{CANCELLED, EXPIRED, READY, SCHEDULED},
};
use crate::{
    broker::{Due, Enqueue, Enqueued, NewJob, Party, PartyName, Register},
    error::Error,
};

/// R1: a name that was never used before.
pub(crate) fn register(tx: &mut Tx<'_>, request: &Register, nonce: u64) -> Result<PartyName, Failed> {
    let queue = tx.queue_made(&request.queue)?;
    let Number(number) = tx
        .sql("UPDATE queue_queues SET registrations = registrations + 1 WHERE queue = ?1 RETURNING registrations")?
        .query_row([queue.key], |row| row.get(0))?;
    let name = PartyName::new(format!("{}.{nonce:016x}.{number}", request.process));
    match request.party {
        Party::Worker { lease } => {
            tx.sql("INSERT INTO queue_workers (queue, name, process, deadline, term) VALUES (?1, ?2, ?3, ?4, ?5)")?.execute(params![
                queue.key,
                name.as_str(),
                name.process(),
                after(tx.now, lease),
                after(0, lease)
            ])?;
        }
        Party::Producer => {
            tx.sql("INSERT INTO queue_producers (queue, name, seen) VALUES (?1, ?2, ?3)")?.execute(params![
                queue.key,
                name.as_str(),
                tx.now
            ])?;
        }
    }
    Ok(name)
}

/// R12. Answers are stored only where they are not all `Stored`.
pub(crate) fn enqueue(tx: &mut Tx<'_>, request: &Enqueue) -> Result<Vec<Enqueued>, Failed> {
    let name = request.producer.as_str();
    let forgotten = || Error::Forgotten(name.to_owned());
    let mut queue = tx.queue(&request.queue)?.ok_or_else(forgotten)?;
    // A sequence that is none is of nobody.
    let producer: Option<(u64, Option<Bytes>)> = tx
        .sql("SELECT seq, answers FROM queue_producers WHERE queue = ?1 AND name = ?2 AND typeof(seq) = 'integer' AND seq >= 0")?
        .query_row(params![queue.key, name], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let (last, stored) = producer.ok_or_else(forgotten)?;
    if request.seq < last {
        return Err(Error::Old { name: name.to_owned(), seq: request.seq }.into());
    }
    if request.seq == last {
        return Ok(match stored {
            Some(Bytes(stored)) if stored.len() == request.jobs.len() => stored.into_iter().map(answer).collect(),
            Some(_) => return Err(forgotten().into()),
            None => vec![Enqueued::Stored; request.jobs.len()],
        });
    }
    let mut answers = Vec::with_capacity(request.jobs.len());
    let mut earliest = None;
    for job in &request.jobs {
        let answer = existing(tx, &queue, job)?.map_or_else(|| store(tx, &mut queue, job, &mut earliest), Ok)?;
        answers.push(answer);
    }
    let count = answers.iter().filter(|answer| **answer == Enqueued::Stored).count();
    let exceptional = (count < answers.len()).then(|| answers.iter().map(number).collect::<Vec<u8>>());
    tx.sql("UPDATE queue_producers SET seq = ?3, answers = ?4, seen = ?5 WHERE queue = ?1 AND name = ?2")?.execute(params![
        queue.key,
        name,
        request.seq,
        exceptional,
        tx.now
    ])?;
    tx.save(&queue)?;
    tx.count(queue.key, "enqueued", i64::try_from(count).unwrap_or(i64::MAX));
    if let Some(at) = earliest {
        tx.hint(&request.queue, at);
    }
    Ok(answers)
}

/// What a given id is answered that exists.
fn existing(tx: &mut Tx<'_>, queue: &Queue, job: &NewJob) -> Result<Option<Enqueued>, Failed> {
    if !job.id.is_given() {
        return Ok(None);
    }
    let id = job.id.as_bytes();
    let found: Option<(Number, Option<Number>, Number)> = tx
        .sql("SELECT state, digest, length(envelope) FROM queue_jobs WHERE queue = ?1 AND id = ?2")?
        .query_row(params![queue.key, id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let digest = match found {
        // The record of a job that nobody wanted gives way.
        Some((Number(state @ (CANCELLED | EXPIRED)), _, Number(bytes))) => {
            tx.remove_ended(queue.key, id, state, bytes)?;
            None
        }
        Some((_, digest, _)) => digest,
        None => tx
            .sql("SELECT digest FROM queue_tombstones WHERE queue = ?1 AND id = ?2")?
            .query_row(params![queue.key, id], |row| row.get(0))
            .optional()?,
    };
    Ok(digest.map(|Number(digest)| if digest == job.digest.cast_signed() { Enqueued::Existing } else { Enqueued::IdConflict }))
}

fn store(tx: &mut Tx<'_>, queue: &mut Queue, job: &NewJob, earliest: &mut Option<i64>) -> Result<Enqueued, Failed> {
    let at = match job.due {
        Due::Now => tx.now,
        Due::After(delay) => due_after(tx.now, delay),
        Due::AtMs(at) => at,
    };
    let (state, rank, pos) = if at <= tx.now { (READY, i64::from(job.priority.number()), queue.next_tail()) } else { (SCHEDULED, 0, at) };
    let digest = job.id.is_given().then(|| job.digest.cast_signed());
    let stored = tx
        .sql(
            "INSERT INTO queue_jobs (queue, id, state, rank, pos, priority, envelope, digest)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO NOTHING",
        )?
        .execute(params![queue.key, job.id.as_bytes(), state, rank, pos, job.priority.number(), job.envelope, digest])?;
    if stored == 0 {
        // A made id comes twice only by a caller that sends its own job again.
        return Ok(Enqueued::Existing);
    }
    *earliest = Some(earliest.map_or(at, |earliest: i64| earliest.min(at)));
    Ok(Enqueued::Stored)
}

fn number(answer: &Enqueued) -> u8 {
    match answer {
        Enqueued::Stored => 0,
        Enqueued::Existing => 1,
        Enqueued::IdConflict => 2,
    }
}

fn answer(number: u8) -> Enqueued {
    match number {
        1 => Enqueued::Existing,
        2 => Enqueued::IdConflict,
        _ => Enqueued::Stored,
    }
}
