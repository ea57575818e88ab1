//! Shows one job with its failures and its result.

use std::time::Duration;

use rusqlite::params;

use super::record::{failures, record};
use crate::{
    address::JobId,
    broker::{Followed, StoredJob, Transitions},
    sqlite::{
        connection::tx::{Failed, Queue, Tx},
        doors::{transitions, watched},
    },
};

/// The same for a job for whose end a caller waits.
pub(crate) fn watch(tx: &mut Tx<'_>, queue: &str, id: &JobId) -> Result<Option<StoredJob>, Failed> {
    if let Some(queue) = tx.queue(queue)? {
        watched::watch(tx, &queue, id)?;
    }
    show(tx, queue, id)
}

/// Marks a queue as followed by a watcher.
pub(crate) fn follow(tx: &mut Tx<'_>, queue: &str, valid_for: Duration) -> Result<Followed, Failed> {
    match tx.queue(queue)? {
        Some(queue) => transitions::follow(tx, &queue, valid_for),
        None => Ok(Followed::default()),
    }
}

/// Transitions of its jobs.
pub(crate) fn transitions(tx: &mut Tx<'_>, queue: &str, after: u64, limit: usize) -> Result<Transitions, Failed> {
    match tx.queue(queue)? {
        Some(queue) => transitions::transitions(tx, &queue, after, limit),
        None => Ok(Transitions::read(Vec::new(), after, 0, true)),
    }
}

pub(crate) fn show(tx: &mut Tx<'_>, queue: &str, id: &JobId) -> Result<Option<StoredJob>, Failed> {
    match tx.queue(queue)? {
        Some(queue) => read_job(tx, &queue, id),
        None => Ok(None),
    }
}

pub(crate) fn read_job(tx: &Tx<'_>, queue: &Queue<'_>, id: &JobId) -> Result<Option<StoredJob>, Failed> {
    /// One job: the columns that `record.rs` reads, then failures and result.
    const SHOW: &str = "SELECT id, state, envelope, priority, attempts, crashes, snoozes, pos, ended, note, rank, returns, returned, \
            failures, result FROM queue_jobs \
        WHERE queue = ?1 AND id = ?2";
    let mut job = tx.sql(SHOW)?;
    let mut rows = job.query(params![queue.key, id.as_bytes()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let mut record = record(tx, queue, row)?;
    record.failures = failures(row)?;
    record.result = row.get::<_, Option<Vec<u8>>>(14)?;
    Ok(Some(record))
}
