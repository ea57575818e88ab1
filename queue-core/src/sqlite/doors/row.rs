//! The row of a job: its states as numbers, its id, its failures, its receipt.

use rusqlite::Row;
use serde::{Deserialize, Serialize};

use crate::{
    address::JobId,
    broker::{FAILURES_KEPT, Failure, JobState, Unreadable},
    codec,
    error::Error,
    sqlite::connection::tx::Failed,
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
pub(crate) const HELD: i64 = 10;
/// Ready, in the line of a group; and the same for a suspect.
pub(crate) const LINED: i64 = 11;
pub(crate) const LINED_SUSPECT: i64 = 12;
/// Ready, with limits: in a chain of its group.
pub(crate) const CHAINED: i64 = 13;

/// The number of a state. `ready` has other numbers for suspects and for jobs with groups or
/// limits.
pub(crate) fn number(state: JobState) -> i64 {
    match state {
        JobState::Ready => READY,
        JobState::Scheduled => SCHEDULED,
        JobState::Retry => RETRY,
        JobState::Active => ACTIVE,
        JobState::Parked => PARKED,
        JobState::Held => HELD,
        JobState::Done => DONE,
        JobState::Dead => DEAD,
        JobState::Cancelled => CANCELLED,
        JobState::Expired => EXPIRED,
    }
}

/// The state of a number.
pub(crate) fn state(number: i64) -> Result<JobState, Failed> {
    Ok(match number {
        READY | SUSPECT | LINED | LINED_SUSPECT | CHAINED => JobState::Ready,
        SCHEDULED => JobState::Scheduled,
        RETRY => JobState::Retry,
        ACTIVE => JobState::Active,
        PARKED => JobState::Parked,
        HELD => JobState::Held,
        DONE => JobState::Done,
        DEAD => JobState::Dead,
        CANCELLED => JobState::Cancelled,
        EXPIRED => JobState::Expired,
        other => return Err(Error::Internal(format!("a job has the unknown state {other}")).into()),
    })
}

/// Decodes the note of an unreadable job: the time at which it is buried, then the releases.
pub(crate) fn unreadable(note: &str) -> Option<Unreadable> {
    let unreadable = Unreadable::of(note)?;
    let until = note.split(char::is_control).next().and_then(|until| until.parse().ok());
    Some(Unreadable { until_ms: until.unwrap_or_default(), ..unreadable })
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
    let stored: Vec<Stored> = codec::unpack(bytes).map_err(|problem| Error::Decode { what: "the failures of a job".into(), problem })?;
    Ok(stored.into_iter().map(|failure| Failure { at_ms: failure.at, message: failure.text }).collect())
}

/// Adds a failure to the column of failures, and removes the oldest ones.
pub(crate) fn with_failure(bytes: Option<&[u8]>, at: i64, text: &str) -> Result<Vec<u8>, Failed> {
    // An unreadable history is replaced.
    let mut all: Vec<Stored> =
        failures(bytes).unwrap_or_default().into_iter().map(|failure| Stored { at: failure.at_ms, text: failure.message }).collect();
    all.push(Stored { at, text: text.to_owned() });
    let kept = &all[all.len().saturating_sub(FAILURES_KEPT)..];
    Ok(codec::pack(kept).map_err(Error::Internal)?)
}

/// The receipt of a delivery, as columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receipt {
    pub(crate) lane: i64,
    pub(crate) claim: i64,
}
