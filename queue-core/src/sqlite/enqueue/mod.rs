//! Enqueue: a producer's batch of new jobs (R12).

use rusqlite::{OptionalExtension, params};

use crate::{
    broker::{Enqueue, Enqueued, NewJob},
    error::Error,
    sqlite::{
        connection::{
            lenient::{Bytes, Number},
            statement::sql,
            tx::{Failed, Queue, Tx},
        },
        doors::{
            end, ready,
            row::{CANCELLED, EXPIRED},
        },
    },
};

/// Answers are stored only where they are not all `Stored`.
pub(crate) fn enqueue(tx: &mut Tx<'_>, request: &Enqueue) -> Result<Vec<Enqueued>, Failed> {
    const ANSWERED: &str = "UPDATE queue_producers SET seq = ?3, answers = ?4, seen = ?5 WHERE queue = ?1 AND name = ?2";
    let name = request.producer.as_str();
    let forgotten = || Error::Forgotten(name.to_owned());
    let mut queue = tx.queue(&request.queue)?.ok_or_else(forgotten)?;
    let producer: Option<(u64, Option<Bytes>)> =
        tx.sql(sql!("producer.sql"))?.query_row(params![queue.key, name], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
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
    let mut earliest: Option<i64> = None;
    for job in &request.jobs {
        let answer = match existing(tx, &queue, job)? {
            Some(answer) => answer,
            None => match ready::store(tx, &mut queue, job)? {
                Some(at) => {
                    earliest = Some(earliest.map_or(at, |earliest| earliest.min(at)));
                    Enqueued::Stored
                }
                // A made id comes twice only by a caller that sends its own job again.
                None => Enqueued::Existing,
            },
        };
        answers.push(answer);
    }
    let exceptional = answers.iter().any(|answer| *answer != Enqueued::Stored).then(|| answers.iter().map(number).collect::<Vec<u8>>());
    tx.sql(ANSWERED)?.execute(params![queue.key, name, request.seq, exceptional, tx.now])?;
    tx.save(&queue)?;
    if let Some(at) = earliest {
        tx.hint(&request.queue, at);
    }
    Ok(answers)
}

/// What a given id is answered that exists.
fn existing(tx: &mut Tx<'_>, queue: &Queue<'_>, job: &NewJob) -> Result<Option<Enqueued>, Failed> {
    const JOB: &str = "SELECT state, digest, length(envelope) FROM queue_jobs WHERE queue = ?1 AND id = ?2";
    const REMEMBERED: &str = "SELECT digest FROM queue_remembered WHERE queue = ?1 AND id = ?2";
    if !job.id.is_given() {
        return Ok(None);
    }
    let id = job.id.as_bytes();
    let found: Option<(Number, Option<Number>, Number)> =
        tx.sql(JOB)?.query_row(params![queue.key, id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()?;
    let digest = match found {
        Some((Number(state @ (CANCELLED | EXPIRED)), _, Number(bytes))) => {
            end::give_way(tx, queue, id, state, bytes)?;
            None
        }
        Some((_, digest, _)) => digest,
        None => tx.sql(REMEMBERED)?.query_row(params![queue.key, id], |row| row.get(0)).optional()?,
    };
    Ok(digest.map(|Number(digest)| if digest == job.digest.cast_signed() { Enqueued::Existing } else { Enqueued::IdConflict }))
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
