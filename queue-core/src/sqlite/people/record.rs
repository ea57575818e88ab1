//! Decodes a row of `queue_jobs` for reports.

use rusqlite::{OptionalExtension, Row, types::ValueRef};

use crate::{
    address::JobId,
    broker::{BuryReason, Failure, JobState, Priority, StoredJob, snoozes_of},
    error::Error,
    sqlite::{
        connection::{
            text::Text,
            tx::{Failed, Queue, Tx},
            unsigned::Unsigned,
        },
        doors::{aging, groups, keys, limits, row},
    },
};

/// Reads the columns id, state, envelope, priority, attempts, crashes, snoozes, pos, ended, note,
/// rank, returns, returned.
pub(super) fn record(tx: &Tx<'_>, queue: &Queue<'_>, row: &Row<'_>) -> Result<StoredJob, Failed> {
    const LANE: &str = "SELECT name FROM queue_lanes WHERE lane = ?1";
    let state = row::state(row.get::<_, i64>(1)?)?;
    // A value of another type is not an id.
    let id = if let ValueRef::Blob(id) = row.get_ref(0)? { JobId::from_bytes(id)? } else { JobId::from_bytes(b"")? };
    let mut record = StoredJob::new(id, state, row.get::<_, Vec<u8>>(2)?);
    record.priority = u8::try_from(row.get::<_, i64>(3)?).ok().and_then(Priority::from_number).unwrap_or_default();
    (record.attempts, record.crashes) = (row.get(4)?, row.get(5)?);
    (record.snoozes, record.rate_limited, _) = snoozes_of(Unsigned::get(row, 6)?);
    (record.returns, record.returned_ms) = (row.get(11)?, row.get(12)?);
    let pos: i64 = row.get(7)?;
    let ended = row.get::<_, Option<i64>>(8)?;
    let note = row.get::<_, Option<Text>>(9)?.map(|Text(note)| note);
    record.at_ms = match state {
        JobState::Scheduled | JobState::Retry | JobState::Held => Some(pos),
        JobState::Ready | JobState::Active | JobState::Parked => None,
        _ => ended,
    };
    if state == JobState::Ready && record.crashes == 0 {
        record.rises_ms = aging::next_raise(tx, queue, record.id.as_bytes())?;
    }
    record.group = groups::name_of(tx, queue, record.id.as_bytes())?;
    record.limits = limits::of(tx, queue, record.id.as_bytes())?.map(|limited| limited.keys).unwrap_or_default();
    record.unique = keys::key_of(tx, queue, record.id.as_bytes())?;
    match state {
        JobState::Dead => record.reason = note.as_deref().and_then(BuryReason::from_name),
        JobState::Active => {
            let lane: Option<Text> = tx.sql(LANE)?.query_row([row.get::<_, i64>(10)?], |row| row.get(0)).optional()?;
            record.receipt = lane.map(|Text(lane)| format!("{lane}:{pos}"));
        }
        JobState::Parked => record.unreadable = note.as_deref().and_then(row::unreadable),
        // The note has the releases that could not read the job.
        JobState::Ready | JobState::Scheduled | JobState::Retry => {}
        _ => record.note = note.filter(|note| !note.is_empty()),
    }
    Ok(record)
}

/// `None` for an unreadable record, which the auditor finds. An error of the file is returned:
/// `None` would hide an existing job.
pub(super) fn if_readable<T>(read: Result<T, Failed>) -> Result<Option<T>, Failed> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(Failed::Refused(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads the column failures, which follows those of [`record`]. An unreadable history has one
/// entry, which states the problem.
pub(super) fn failures(row: &Row<'_>) -> Result<Vec<Failure>, Failed> {
    let stored = row.get::<_, Option<Vec<u8>>>(13)?;
    let unreadable = |problem: Error| vec![Failure { at_ms: 0, message: problem.to_string() }];
    Ok(row::failures(stored.as_deref()).unwrap_or_else(unreadable))
}
