//! Enqueue: a producer's batch of new jobs (R12).

use std::collections::HashSet;

use rusqlite::{OptionalExtension, params};

use crate::{
    address::{JobId, topic_at},
    broker::{Enqueue, Enqueued, GroupName, NewJob},
    error::Error,
    sqlite::{
        connection::{
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

/// The first byte of the stored answers of a relay. The digest of its request follows.
const OF_RELAY: u8 = 0xFF;

/// Answers are stored only if they are not all `Stored`, or if they belong to a relay.
pub(crate) fn enqueue(tx: &mut Tx<'_>, request: &Enqueue) -> Result<Vec<Enqueued>, Failed> {
    /// The producer of a request: its last sequence number, and its answers if they were not all
    /// `Stored`.
    const PRODUCER: &str = "SELECT seq, answers FROM queue_producers WHERE queue = ?1 AND name = ?2";
    const ANSWERED: &str = "UPDATE queue_producers SET seq = ?3, answers = ?4, seen = ?5 WHERE queue = ?1 AND name = ?2";
    let name = request.producer.as_str();
    let forgotten = || Error::Forgotten(name.to_owned());
    let queue = tx.queue(&request.queue)?.ok_or_else(forgotten)?;
    let producer: Option<(u64, Option<Vec<u8>>)> =
        tx.sql(PRODUCER)?.query_row(params![queue.key, name], |row| Ok((Unsigned::get(row, 0)?, row.get(1)?))).optional()?;
    let (last, stored) = producer.ok_or_else(forgotten)?;
    let stored = stored.as_deref();
    let (digest, stored) = stored.map_or((None, None), |stored| split_relay_record(stored));
    if request.seq < last || request.seq == last && digest != request.relayed.as_ref().map(|digest| digest.as_slice()) {
        return Err(Error::Old { name: name.to_owned(), seq: request.seq }.into());
    }
    if request.seq == last {
        return Ok(match stored {
            Some(stored) => decode(stored, request.jobs.len()).ok_or_else(forgotten)?,
            None => vec![Enqueued::Stored; request.jobs.len()],
        });
    }
    if topic_at(&request.queue).is_some() {
        topic::publish(tx, &queue, &request.jobs)?;
        tx.sql(ANSWERED)?.execute(params![queue.key, name, Unsigned(request.seq), stored_answers(request, &[]), tx.now])?;
        return Ok(vec![Enqueued::Stored; request.jobs.len()]);
    }
    // For a relay: the groups with a refused job. Later jobs of these groups must not overtake it.
    let mut refused: HashSet<&GroupName> = HashSet::new();
    let mut answers = Vec::with_capacity(request.jobs.len());
    let mut earliest: Option<i64> = None;
    for job in &request.jobs {
        let known = if request.relayed.is_some() && is_stored(tx, &queue, job)? {
            Known::As(Enqueued::Existing)
        } else {
            check_given_id(tx, &queue, job)?
        };
        let answer = match known {
            Known::As(answer) => answer,
            Known::Not(_) if job.group.as_ref().is_some_and(|group| refused.contains(group)) => Enqueued::Held,
            Known::Not(before) => store(tx, &queue, job, before, &mut earliest)?,
        };
        if request.relayed.is_some() && answer == Enqueued::GroupFull {
            refused.extend(&job.group);
        }
        answers.push(answer);
    }
    tx.sql(ANSWERED)?.execute(params![queue.key, name, Unsigned(request.seq), stored_answers(request, &answers), tx.now])?;
    tx.save(&queue)?;
    if let Some(at) = earliest {
        tx.hint(&request.queue, at);
    }
    Ok(answers)
}

/// Stores a job, unless another job holds its key. Updates the earliest due time.
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
        end::replace_record(tx, queue, job.id.as_bytes(), before)?;
    }
    if !ready::store(tx, queue, job, at)? {
        // A generated id is repeated only if a caller sends its own job again.
        return Ok(Enqueued::Existing);
    }
    if let Some(unique) = &job.unique {
        keys::acquire(tx, queue, job, unique)?;
    }
    *earliest = Some(earliest.map_or(at, |earliest| earliest.min(at)));
    Ok(Enqueued::Stored)
}

/// Stores an event of a topic's log as a job of a subscription. A full group does not reject it,
/// because it would be lost. False: its id is known.
pub(crate) fn feed(tx: &mut Tx<'_>, queue: &Queue<'_>, event: &NewJob) -> Result<bool, Failed> {
    match check_given_id(tx, queue, event)? {
        Known::Not(None) => ready::store(tx, queue, event, tx.now),
        Known::Not(Some(_)) | Known::As(_) => Ok(false),
    }
}

/// What is known about the id of a new job.
enum Known {
    /// It exists, or is remembered: the answer.
    As(Enqueued),
    /// It is free, except for this record, which the new job replaces.
    Not(Option<Before>),
}

/// Looks up a chosen id.
fn check_given_id(tx: &mut Tx<'_>, queue: &Queue<'_>, job: &NewJob) -> Result<Known, Failed> {
    const JOB: &str = "SELECT state, digest, length(envelope) FROM queue_jobs WHERE queue = ?1 AND id = ?2";
    const REMEMBERED: &str = "SELECT digest FROM queue_remembered WHERE queue = ?1 AND id = ?2";
    if !job.id.is_given() {
        return Ok(Known::Not(None));
    }
    let id = job.id.as_bytes();
    let found: Option<(i64, Option<i64>, i64)> =
        tx.sql(JOB)?.query_row(params![queue.key, id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()?;
    let digest = match found {
        Some((state @ (CANCELLED | EXPIRED), _, bytes)) => return Ok(Known::Not(Some(Before { state, bytes }))),
        Some((_, digest, _)) => digest,
        None => tx.sql(REMEMBERED)?.query_row(params![queue.key, id], |row| row.get(0)).optional()?,
    };
    Ok(match digest {
        Some(digest) if digest == job.digest.cast_signed() => Known::As(Enqueued::Existing),
        Some(_) => Known::As(Enqueued::IdConflict),
        None => Known::Not(None),
    })
}

/// Whether the broker has the job of a generated id. Only a relay sends such a job again.
fn is_stored(tx: &Tx<'_>, queue: &Queue<'_>, job: &NewJob) -> Result<bool, Failed> {
    const STORED: &str = "SELECT EXISTS (SELECT 1 FROM queue_jobs WHERE queue = ?1 AND id = ?2)";
    if job.id.is_given() {
        return Ok(false);
    }
    Ok(tx.sql(STORED)?.query_row(params![queue.key, job.id.as_bytes()], |row| row.get(0))?)
}

/// The answers of a request in the form of its producer's row.
fn stored_answers(request: &Enqueue, answers: &[Enqueued]) -> Option<Vec<u8>> {
    let exceptional = answers.iter().any(|answer| *answer != Enqueued::Stored).then(|| encode(answers));
    match &request.relayed {
        None => exceptional,
        Some(digest) => Some([&[OF_RELAY], digest.as_slice(), &exceptional.unwrap_or_default()].concat()),
    }
}

/// The digest of a relay's request, and the answers that were not all `Stored`.
fn split_relay_record(stored: &[u8]) -> (Option<&[u8]>, Option<&[u8]>) {
    match stored.split_first() {
        Some((&OF_RELAY, behind)) => {
            let (digest, answers) = behind.split_at(behind.len().min(16));
            (Some(digest), Some(answers).filter(|answers| !answers.is_empty()))
        }
        _ => (None, Some(stored)),
    }
}

/// Encodes answers: a byte for each, then the length and the id for each answer that names a job.
fn encode(answers: &[Enqueued]) -> Vec<u8> {
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
            Enqueued::Held => (7, None),
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

/// Reads what [`encode`] wrote for this number of answers.
fn decode(bytes: &[u8], answers: usize) -> Option<Vec<Enqueued>> {
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
            7 => Enqueued::Held,
            _ => Enqueued::Stored,
        })
    });
    let answers: Option<Vec<Enqueued>> = answers.collect();
    answers.filter(|_| rest.is_empty())
}
