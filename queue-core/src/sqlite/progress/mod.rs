//! Progress and log lines that handlers report while their jobs run.

use rusqlite::{OptionalExtension, params};

use super::{
    connection::{
        statement::sql,
        tx::{Failed, Queue, Tx, progress_hint_of},
    },
    doors::{row::ACTIVE, watched},
};
use crate::{
    address::JobId,
    broker::{JobProgress, Log, ProgressAndLog, ProgressReport, progress_of, progress_stored, stored_at},
    error::Error,
};

pub(crate) fn store(tx: &mut Tx<'_>, reported: &ProgressReport) -> Result<Vec<bool>, Failed> {
    /// A lane that is not fenced.
    const LANE: &str = "SELECT lane FROM queue_lanes WHERE queue = ?1 AND name = ?2 AND NOT fenced";
    let forgotten = || Failed::Refused(Error::Forgotten(reported.lane.as_str().to_owned()));
    let queue = tx.queue(&reported.queue)?.ok_or_else(forgotten)?;
    let lane: Option<i64> = tx.sql(LANE)?.query_row(params![queue.key, reported.lane.as_str()], |row| row.get(0)).optional()?;
    let lane = lane.ok_or_else(forgotten)?;
    tx.sql(sql!("gone.sql"))?.execute([])?;
    reported.jobs.iter().map(|job| store_job_progress(tx, &queue, lane, job)).collect()
}

fn store_job_progress(tx: &mut Tx<'_>, queue: &Queue<'_>, lane: i64, reported: &JobProgress) -> Result<bool, Failed> {
    /// Whether a lane holds a job by a claim.
    const HOLDS: &str = "SELECT 1 FROM queue_jobs WHERE queue = ?1 AND id = ?2 AND state = ?3 AND rank = ?4 AND pos = ?5";
    /// Stores the reports of a job.
    const STORE: &str = "INSERT OR REPLACE INTO queue_progress (queue, id, progress, log) VALUES (?1, ?2, ?3, ?4)";
    let id = reported.id.as_bytes();
    let claim = i64::try_from(reported.claim).unwrap_or(i64::MAX);
    if !tx.sql(HOLDS)?.exists(params![queue.key, id, ACTIVE, lane, claim])? {
        return Ok(false);
    }
    let (mut progress, mut log) = stored(tx, queue, id)?.unwrap_or_default();
    if let Some(now) = &reported.progress {
        let known = progress.as_deref().and_then(progress_of).map(|(number, _)| number);
        if known.is_none_or(|known| known < (reported.claim, now.seq)) {
            let numbers = format!("{}:{}:{}:", reported.claim, now.seq, stored_at(tx.now, now.age));
            progress = Some([numbers.as_bytes(), &progress_stored(reported.attempt, now)].concat());
        }
    }
    if !reported.lines.is_empty() {
        let mut lines = Log::read(log.as_deref().unwrap_or_default());
        lines.append(reported, tx.now);
        log = Some(lines.written());
    }
    tx.sql(STORE)?.execute(params![queue.key, id, progress, log])?;
    if watched::is_watched(tx, queue, id)? {
        tx.hint(&progress_hint_of(queue.name, &reported.id), tx.now);
    }
    Ok(true)
}

/// The progress and the log of a job.
type Stored = (Option<Vec<u8>>, Option<Vec<u8>>);

fn stored(tx: &Tx<'_>, queue: &Queue<'_>, id: &[u8]) -> rusqlite::Result<Option<Stored>> {
    const STORED: &str = "SELECT progress, log FROM queue_progress WHERE queue = ?1 AND id = ?2";
    tx.sql(STORED)?.query_row(params![queue.key, id], |row| Ok((row.get(0)?, row.get(1)?))).optional()
}

pub(crate) fn read(tx: &mut Tx<'_>, queue: &str, id: &JobId, from: u64) -> Result<Option<ProgressAndLog>, Failed> {
    const JOB: &str = "SELECT 1 FROM queue_jobs WHERE queue = ?1 AND id = ?2";
    let Some(queue) = tx.queue(queue)? else { return Ok(None) };
    if !tx.sql(JOB)?.exists(params![queue.key, id.as_bytes()])? {
        return Ok(None);
    }
    let (progress, log) = stored(tx, &queue, id.as_bytes())?.unwrap_or_default();
    let progress = progress.as_deref().and_then(progress_of).map(|(_, progress)| progress);
    let log = Log::read(log.as_deref().unwrap_or_default());
    Ok(Some(ProgressAndLog::new(progress, log.lines_from(from), log.next(), log.dropped())))
}
