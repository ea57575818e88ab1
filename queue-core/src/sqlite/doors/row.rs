//! The row of a job: its states as numbers, and the changes that several operations share.

use rusqlite::{Row, ToSql, params};
use serde::{Deserialize, Serialize};

use crate::sqlite::connection::tx::{Failed, Queue, Tx};
use crate::{
    address::JobId,
    broker::{ENDED_KEEP, FAILURES_KEPT, Failure, JobState},
    codec,
    error::Error,
};

pub(crate) const READY: i64 = 0;
pub(crate) const SUSPECT: i64 = 1;
pub(crate) const SCHEDULED: i64 = 2;
pub(crate) const RETRY: i64 = 3;
pub(crate) const ACTIVE: i64 = 4;
pub(crate) const PARKED: i64 = 5;
pub(crate) const DONE: i64 = 6;
pub(crate) const DEAD: i64 = 7;
pub(crate) const CANCELLED: i64 = 8;
pub(crate) const EXPIRED: i64 = 9;

/// The numbers of a state; `ready` has two.
pub(crate) fn numbers(state: JobState) -> &'static [i64] {
    match state {
        JobState::Ready => &[SUSPECT, READY],
        JobState::Scheduled => &[SCHEDULED],
        JobState::Retry => &[RETRY],
        JobState::Active => &[ACTIVE],
        JobState::Parked => &[PARKED],
        JobState::Done => &[DONE],
        JobState::Dead => &[DEAD],
        JobState::Cancelled => &[CANCELLED],
        JobState::Expired => &[EXPIRED],
    }
}

/// The state of a number.
pub(crate) fn state(number: i64) -> Result<JobState, Failed> {
    Ok(match number {
        READY | SUSPECT => JobState::Ready,
        SCHEDULED => JobState::Scheduled,
        RETRY => JobState::Retry,
        ACTIVE => JobState::Active,
        PARKED => JobState::Parked,
        DONE => JobState::Done,
        DEAD => JobState::Dead,
        CANCELLED => JobState::Cancelled,
        EXPIRED => JobState::Expired,
        other => return Err(Error::Internal(format!("a job has the unknown state {other}")).into()),
    })
}

/// An id column.
pub(crate) fn id(row: &Row<'_>, column: usize) -> Result<JobId, Failed> {
    let bytes = row.get_ref(column)?.as_blob().map_err(rusqlite::Error::from)?;
    Ok(JobId::from_bytes(bytes)?)
}

#[derive(Serialize, Deserialize)]
struct Stored {
    at: i64,
    text: String,
}

/// Reads the column of failures.
pub(crate) fn failures(bytes: Option<&[u8]>) -> Result<Vec<Failure>, Error> {
    let Some(bytes) = bytes else { return Ok(Vec::new()) };
    let stored: Vec<Stored> = codec::decode(bytes).map_err(|problem| Error::Decode { what: "the failures of a job".into(), problem })?;
    Ok(stored.into_iter().map(|failure| Failure { at_ms: failure.at, message: failure.text }).collect())
}

/// The column of failures with one more; the oldest go first.
pub(crate) fn one_more_failure(bytes: Option<&[u8]>, at: i64, text: &str) -> Result<Vec<u8>, Failed> {
    // What cannot be read gives way.
    let mut all: Vec<Stored> =
        failures(bytes).unwrap_or_default().into_iter().map(|failure| Stored { at: failure.at_ms, text: failure.message }).collect();
    all.push(Stored { at, text: text.to_owned() });
    let kept = &all[all.len().saturating_sub(FAILURES_KEPT)..];
    Ok(codec::encode(kept).map_err(Error::Internal)?)
}

/// A delivery's proof, as columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tag {
    pub(crate) worker: i64,
    pub(crate) claim: i64,
}

impl Tx<'_> {
    /// Puts a job to the head or tail of `ready`, among the suspects if it has crashes. Other columns stay.
    pub(crate) fn make_ready(&mut self, queue: &mut Queue, id: &(impl ToSql + ?Sized), head: bool) -> rusqlite::Result<()> {
        let pos = if head { queue.next_head() } else { queue.next_tail() };
        self.sql(
            "UPDATE queue_jobs SET state = crashes > 0, rank = CASE WHEN crashes > 0 THEN 0 ELSE priority END, pos = ?3
             WHERE queue = ?1 AND id = ?2",
        )?
        .execute(params![queue.key, id, pos])
        .map(drop)
    }

    /// Ends a job that nobody will run any more, as `CANCELLED` or `EXPIRED`: kept for a day, its id free.
    pub(crate) fn end_unwanted(&mut self, queue: &Queue, id: &[u8], state: i64, note: Option<&str>) -> rusqlite::Result<()> {
        let until = crate::sqlite::connection::tx::after(self.now, ENDED_KEEP);
        let bytes: i64 = self
            .sql(
                "UPDATE queue_jobs SET state = ?3, rank = 0, pos = ?4, ended = ?5, note = ?6, digest = NULL
                 WHERE queue = ?1 AND id = ?2 RETURNING length(envelope)",
            )?
            .query_row(params![queue.key, id, state, until, self.now, note], |row| row.get(0))?;
        self.count(queue.key, ".kept", 1);
        self.count(queue.key, ".kept_bytes", bytes);
        self.count(queue.key, if state == CANCELLED { "cancelled" } else { "expired" }, 1);
        Ok(())
    }

    /// Makes a dead letter of a job.
    pub(crate) fn bury(&mut self, queue: &Queue, id: &[u8], reason: &str) -> rusqlite::Result<()> {
        let bytes: i64 = self
            .sql(
                "UPDATE queue_jobs SET state = ?3, rank = 0, pos = ?4, ended = ?4, note = ?5
                 WHERE queue = ?1 AND id = ?2 RETURNING length(envelope)",
            )?
            .query_row(params![queue.key, id, DEAD, self.now, reason], |row| row.get(0))?;
        self.count(queue.key, ".dead_bytes", bytes);
        self.count(queue.key, "dead", 1);
        Ok(())
    }

    /// Removes the row of a job in a final state, and takes it out of the broker's own counts.
    pub(crate) fn remove_ended(&mut self, queue: i64, id: &(impl ToSql + ?Sized), state: i64, bytes: i64) -> rusqlite::Result<()> {
        self.sql("DELETE FROM queue_jobs WHERE queue = ?1 AND id = ?2")?.execute(params![queue, id])?;
        if state == DEAD {
            self.count(queue, ".dead_bytes", -bytes);
        } else {
            self.count(queue, ".kept", -1);
            self.count(queue, ".kept_bytes", -bytes);
        }
        Ok(())
    }

    /// Remembers a given id whose job is done.
    pub(crate) fn remember(&mut self, queue: i64, id: &[u8], digest: i64) -> rusqlite::Result<()> {
        let new = self
            .sql("INSERT INTO queue_tombstones (queue, id, digest, ended) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING")?
            .execute(params![queue, id, digest, self.now])?;
        self.count(queue, ".tombstones", i64::try_from(new).unwrap_or(i64::MAX));
        Ok(())
    }
}
