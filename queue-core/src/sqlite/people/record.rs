//! A row of `queue_jobs` for people.

use rusqlite::{OptionalExtension, Row, types::ValueRef};

use crate::{
    address::JobId,
    broker::{BuryReason, Failure, JobState, Priority, StoredJob},
    error::Error,
    sqlite::{
        connection::{
            lenient::{Bytes, Count, Number, Snoozes, Words},
            tx::{Failed, Queue, Tx},
        },
        doors::{aging, groups, keys, limits, row},
    },
};

/// Reads the columns id, state, envelope, priority, attempts, crashes, snoozes, pos, ended, note, rank, releases, released.
pub(super) fn record(tx: &Tx<'_>, queue: &Queue<'_>, row: &Row<'_>) -> Result<StoredJob, Failed> {
    const LANE: &str = "SELECT name FROM queue_lanes WHERE lane = ?1";
    let state = row::state(row.get::<_, Number>(1)?.0)?;
    // What is of another type is no id.
    let id = if let ValueRef::Blob(id) = row.get_ref(0)? { JobId::from_bytes(id)? } else { JobId::from_bytes(b"")? };
    let mut record = StoredJob::new(id, state, row.get::<_, Bytes>(2)?.0);
    record.priority = u8::try_from(row.get::<_, Number>(3)?.0).ok().and_then(Priority::from_number).unwrap_or_default();
    let (Count(attempts), Count(crashes)) = (row.get(4)?, row.get(5)?);
    (record.attempts, record.crashes) = (attempts, crashes);
    Snoozes(record.snoozes, record.rate_limited, _) = row.get(6)?;
    record.releases = row.get::<_, Count>(11)?.0;
    record.released_ms = row.get::<_, Option<Number>>(12)?.map(|Number(released)| released);
    let Number(pos) = row.get(7)?;
    let ended = row.get::<_, Option<Number>>(8)?.map(|Number(ended)| ended);
    let note = row.get::<_, Option<Words>>(9)?.map(|Words(note)| note);
    record.at_ms = match state {
        JobState::Scheduled | JobState::Retry | JobState::Held => Some(pos),
        JobState::Ready | JobState::Active | JobState::Parked => None,
        _ => ended,
    };
    if state == JobState::Ready && crashes == 0 {
        record.rises_ms = aging::rises(tx, queue, record.id.as_bytes())?;
    }
    record.group = groups::name_of(tx, queue, record.id.as_bytes())?;
    record.limits = limits::of(tx, queue, record.id.as_bytes())?.map(|limited| limited.keys).unwrap_or_default();
    record.unique = keys::key_of(tx, queue, record.id.as_bytes())?;
    match state {
        JobState::Dead => record.reason = note.as_deref().and_then(BuryReason::from_name),
        JobState::Active => {
            let lane: Option<String> =
                tx.sql(LANE)?.query_row([row.get::<_, Number>(10)?.0], |row| row.get::<_, Words>(0).map(|Words(name)| name)).optional()?;
            record.tag = lane.map(|lane| format!("{lane}:{pos}"));
        }
        JobState::Parked => record.unreadable = note.as_deref().and_then(row::unreadable),
        // What is noted of releases that could not read it.
        JobState::Ready | JobState::Scheduled | JobState::Retry => {}
        _ => record.note = note.filter(|note| !note.is_empty()),
    }
    Ok(record)
}

/// What cannot be told of is for the auditor to find, and `None` here. An error of the file is none of that: it would hide a job that is there.
pub(super) fn if_told<T>(told: Result<T, Failed>) -> Result<Option<T>, Failed> {
    match told {
        Ok(told) => Ok(Some(told)),
        Err(Failed::Refused(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads the column failures, which comes after those of [`record`]. A history that cannot be read has one entry, which says so.
pub(super) fn failures(row: &Row<'_>) -> Result<Vec<Failure>, Failed> {
    let stored = row.get::<_, Option<Bytes>>(13)?.map(|Bytes(stored)| stored);
    let unreadable = |problem: Error| vec![Failure { at_ms: 0, message: problem.to_string() }];
    Ok(row::failures(stored.as_deref()).unwrap_or_else(unreadable))
}
