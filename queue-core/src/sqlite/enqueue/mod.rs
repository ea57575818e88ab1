//! Enqueue: a producer's batch of new jobs (R12).

use rusqlite::{OptionalExtension, params};

use crate::{
    address::{JobId, topic_at},
    broker::{Enqueue, Enqueued, NewJob},
    error::Error,
    sqlite::{
        connection::{
            lenient::{Bytes, Number},
            statement::sql,
            tx::{Failed, Queue, Tx, after},
            unsigned::Unsigned,
        },
        doors::{
            end::{self, Before},
            groups, keys, ready,
            row::{CANCELLED, EXPIRED},
        },
        topic,
    },
};

/// Answers are stored only where they are not all `Stored`.
pub(crate) fn enqueue(tx: &mut Tx<'_>, request: &Enqueue) -> Result<Vec<Enqueued>, Failed> {
    const ANSWERED: &str = "UPDATE queue_producers SET seq = ?3, answers = ?4, seen = ?5 WHERE queue = ?1 AND name = ?2";
    let name = request.producer.as_str();
    let forgotten = || Error::Forgotten(name.to_owned());
    let queue = tx.queue(&request.queue)?.ok_or_else(forgotten)?;
    let producer: Option<(u64, Option<Bytes>)> =
        tx.sql(sql!("producer.sql"))?.query_row(params![queue.key, name], |row| Ok((Unsigned::get(row, 0)?, row.get(1)?))).optional()?;
    let (last, stored) = producer.ok_or_else(forgotten)?;
    if request.seq < last {
        return Err(Error::Old { name: name.to_owned(), seq: request.seq }.into());
    }
    if request.seq == last {
        return Ok(match stored {
            Some(Bytes(stored)) => read(&stored, request.jobs.len()).ok_or_else(forgotten)?,
            None => vec![Enqueued::Stored; request.jobs.len()],
        });
    }
    if topic_at(&request.queue).is_some() {
        topic::publish(tx, &queue, &request.jobs)?;
        tx.sql(ANSWERED)?.execute(params![queue.key, name, Unsigned(request.seq), None::<Vec<u8>>, tx.now])?;
        return Ok(vec![Enqueued::Stored; request.jobs.len()]);
    }
    let mut answers = Vec::with_capacity(request.jobs.len());
    let mut earliest: Option<i64> = None;
    for job in &request.jobs {
        let answer = match existing(tx, &queue, job)? {
            Known::As(answer) => answer,
            Known::Not(before) => store(tx, &queue, job, before, &mut earliest)?,
        };
        answers.push(answer);
    }
    let exceptional = answers.iter().any(|answer| *answer != Enqueued::Stored).then(|| written(&answers));
    tx.sql(ANSWERED)?.execute(params![queue.key, name, Unsigned(request.seq), exceptional, tx.now])?;
    tx.save(&queue)?;
    if let Some(at) = earliest {
        tx.hint(&request.queue, at);
    }
    Ok(answers)
}

/// Stores a job, unless another holds its key. Notes when the earliest is due.
fn store(tx: &mut Tx<'_>, queue: &Queue<'_>, job: &NewJob, before: Option<Before>, earliest: &mut Option<i64>) -> Result<Enqueued, Failed> {
    let mut at = ready::due(tx, job);
    if let Some(unique) = &job.unique {
        at = unique.max_wait.map_or(at, |wait| at.min(after(tx.now, wait)));
        if let Some(answer) = keys::conflict(tx, queue, job, unique, at, before)? {
            return Ok(answer);
        }
    }
    if groups::is_full(tx, queue, job)? {
        return Ok(Enqueued::GroupFull);
    }
    if let Some(before) = before {
        end::give_way(tx, queue, job.id.as_bytes(), before)?;
    }
    if !ready::store(tx, queue, job, at)? {
        // A made id comes twice only by a caller that sends its own job again.
        return Ok(Enqueued::Existing);
    }
    if let Some(unique) = &job.unique {
        keys::take(tx, queue, job, unique)?;
    }
    *earliest = Some(earliest.map_or(at, |earliest| earliest.min(at)));
    Ok(Enqueued::Stored)
}

/// Stores an event of the log of a topic as a job of a subscription. A line that is full does not refuse it: it would be lost. False: its id is known.
pub(crate) fn feed(tx: &mut Tx<'_>, queue: &Queue<'_>, event: &NewJob) -> Result<bool, Failed> {
    match existing(tx, queue, event)? {
        Known::Not(None) => ready::store(tx, queue, event, tx.now),
        Known::Not(Some(_)) | Known::As(_) => Ok(false),
    }
}

/// What is known of the id of a new job.
enum Known {
    /// It exists, or is remembered: the answer.
    As(Enqueued),
    /// It is free, but for this record, which gives way.
    Not(Option<Before>),
}

/// What is known of a given id.
fn existing(tx: &mut Tx<'_>, queue: &Queue<'_>, job: &NewJob) -> Result<Known, Failed> {
    const JOB: &str = "SELECT state, digest, length(envelope) FROM queue_jobs WHERE queue = ?1 AND id = ?2";
    const REMEMBERED: &str = "SELECT digest FROM queue_remembered WHERE queue = ?1 AND id = ?2";
    if !job.id.is_given() {
        return Ok(Known::Not(None));
    }
    let id = job.id.as_bytes();
    let found: Option<(Number, Option<Number>, Number)> =
        tx.sql(JOB)?.query_row(params![queue.key, id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()?;
    let digest = match found {
        Some((Number(state @ (CANCELLED | EXPIRED)), _, Number(bytes))) => return Ok(Known::Not(Some(Before { state, bytes }))),
        Some((_, digest, _)) => digest,
        None => tx.sql(REMEMBERED)?.query_row(params![queue.key, id], |row| row.get(0)).optional()?,
    };
    Ok(match digest {
        Some(Number(digest)) if digest == job.digest.cast_signed() => Known::As(Enqueued::Existing),
        Some(_) => Known::As(Enqueued::IdConflict),
        None => Known::Not(None),
    })
}

/// Answers as they are stored: a byte for each, then of those that name a job its id, behind the id's length.
fn written(answers: &[Enqueued]) -> Vec<u8> {
    let mut ids = Vec::new();
    let mut bytes: Vec<u8> = Vec::with_capacity(answers.len());
    for answer in answers {
        let (number, id) = match answer {
            Enqueued::Stored => (0, None),
            Enqueued::Existing => (1, None),
            Enqueued::IdConflict => (2, None),
            Enqueued::Duplicate(id) => (3, Some(id)),
            Enqueued::Replaced(id) => (4, Some(id)),
            Enqueued::Buffered(id) => (5, Some(id)),
            Enqueued::GroupFull => (6, None),
        };
        bytes.push(number);
        if let Some(id) = id.map(JobId::as_bytes) {
            ids.push(u8::try_from(id.len()).unwrap_or(u8::MAX));
            ids.extend(id);
        }
    }
    bytes.extend(ids);
    bytes
}

/// What [`written`] wrote of so many answers.
fn read(bytes: &[u8], answers: usize) -> Option<Vec<Enqueued>> {
    let (numbers, mut rest) = bytes.split_at_checked(answers)?;
    let mut id = || {
        let (length, behind) = rest.split_first()?;
        let (id, behind) = behind.split_at_checked(usize::from(*length))?;
        rest = behind;
        JobId::from_bytes(id).ok()
    };
    let answers = numbers.iter().map(|number| {
        Some(match number {
            1 => Enqueued::Existing,
            2 => Enqueued::IdConflict,
            3 => Enqueued::Duplicate(id()?),
            4 => Enqueued::Replaced(id()?),
            5 => Enqueued::Buffered(id()?),
            6 => Enqueued::GroupFull,
            _ => Enqueued::Stored,
        })
    });
    let answers: Option<Vec<Enqueued>> = answers.collect();
    answers.filter(|_| rest.is_empty())
}
