//! The position of jobs in the queue.

use rusqlite::{OptionalExtension, params};

use super::show::read_job;
use crate::{
    address::JobId,
    broker::{Diagnosis, JobState, Line, PLACES_EXAMINED},
    sqlite::{
        connection::{
            tx::{Failed, Queue, Tx},
            unsigned::Unsigned,
        },
        doors::{
            groups, keys, limits,
            row::{LINED, LINED_SUSPECT, READY, SUSPECT},
        },
    },
};

pub(crate) fn diagnose(tx: &mut Tx<'_>, queue: &str, ids: &[JobId]) -> Result<Vec<Option<Diagnosis>>, Failed> {
    let Some(queue) = tx.queue(queue)? else { return Ok(vec![None; ids.len()]) };
    let eligible_groups = groups::eligible(tx, &queue)?;
    let most = (PLACES_EXAMINED / ids.len().max(1) as u64).max(100);
    ids.iter().map(|id| diagnose_job(tx, &queue, id, eligible_groups, most)).collect()
}

fn diagnose_job(tx: &Tx<'_>, queue: &Queue<'_>, id: &JobId, eligible_groups: u64, most: u64) -> Result<Option<Diagnosis>, Failed> {
    let Some(job) = read_job(tx, queue, id)? else { return Ok(None) };
    let mut diagnosis = Diagnosis::new(job, tx.now, queue.paused);
    match diagnosis.job.state {
        JobState::Held => {
            let holder = diagnosis.job.unique.map(|key| keys::holder(tx, queue, &key)).transpose()?.flatten();
            diagnosis.holder = holder.map(|holder| holder.id);
        }
        JobState::Active => diagnosis.lease_left_ms = lease_left(tx, queue, id)?,
        JobState::Ready => diagnosis.line = Some(position_in_line(tx, queue, id, eligible_groups, most)?),
        _ => {}
    }
    Ok(Some(diagnosis))
}

fn lease_left(tx: &Tx<'_>, queue: &Queue<'_>, id: &JobId) -> Result<Option<i64>, Failed> {
    // The lease of a fenced lane ends now at the latest, even if its deadline is later.
    const LANE: &str = "SELECT CASE WHEN lane.fenced THEN min(lane.deadline, ?3) ELSE lane.deadline END FROM queue_jobs AS job
                        JOIN queue_lanes AS lane ON lane.lane = job.rank WHERE job.queue = ?1 AND job.id = ?2";
    let deadline = tx.sql(LANE)?.query_row(params![queue.key, id.as_bytes(), tx.now], |row| row.get::<_, i64>(0)).optional()?;
    Ok(deadline.map(|deadline| deadline.saturating_sub(tx.now)))
}

/// The position of a ready job: by its state, among plain jobs, among suspects, in the line of a
/// group, or in a chain.
fn position_in_line(tx: &Tx<'_>, queue: &Queue<'_>, id: &JobId, eligible_groups: u64, most: u64) -> Result<Line, Failed> {
    const PLACE: &str = "SELECT state, rank, pos FROM queue_jobs WHERE queue = ?1 AND id = ?2";
    const PLAIN: &str = "SELECT EXISTS (SELECT 1 FROM queue_jobs WHERE queue = ?1 AND state = ?2)";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let place: (i64, i64, i64) = tx.sql(PLACE)?.query_row(params![queue.key, id.as_bytes()], read)?;
    let mut line = Line { groups: eligible_groups, limits: limits::held_back_by(tx, queue, id.as_bytes())?, ..Line::default() };
    line.ahead = count_ahead(tx, queue, id, place, most)?;
    if let Some((group, eligible)) = groups::group_line(tx, queue, id.as_bytes())? {
        let plain: bool = tx.sql(PLAIN)?.query_row(params![queue.key, READY], |row| row.get(0))?;
        let plain = plain || limits::ahead(tx, queue, limits::NO_GROUP, i64::MAX)? > 0;
        line.groups = eligible_groups.saturating_sub(u64::from(eligible)) + u64::from(plain);
        line.group = Some(group);
    }
    Ok(line)
}

/// The number of jobs of its line that start before a job, up to a limit. The chains of a priority
/// are served in rotation. Jobs of other chains with this priority therefore count as earlier.
fn count_ahead(tx: &Tx<'_>, queue: &Queue<'_>, id: &JobId, (state, rank, pos): (i64, i64, i64), most: u64) -> Result<u64, Failed> {
    let name = groups::of(tx, queue, id.as_bytes())?;
    let grouped = name.as_deref().filter(|name| *name != limits::NO_GROUP);
    let group = grouped.unwrap_or(limits::NO_GROUP);
    let line = groups::line_of(tx, queue, group)?;
    let lined = |state: i64, from: i64, to: i64| line.map_or(Ok(0), |line| count(tx, queue, state, (line, line), (from, to)));
    Ok(match state {
        READY => count_before(tx, queue, state, (i64::MIN, rank), pos, most)? + limits::ahead(tx, queue, group, rank)?,
        SUSPECT => count_before(tx, queue, state, (i64::MIN, rank), pos, most)? + lined(LINED_SUSPECT, i64::MIN, i64::MAX)?,
        LINED => count_before(tx, queue, state, (rank, rank), pos, most)? + limits::ahead(tx, queue, group, (pos >> 56) - 1)?,
        LINED_SUSPECT if grouped.is_none() => {
            count_before(tx, queue, state, (rank, rank), pos, most)?
                + count(tx, queue, SUSPECT, (i64::MIN, i64::MAX), (i64::MIN, i64::MAX))?
        }
        LINED_SUSPECT => count_before(tx, queue, state, (rank, rank), pos, most)?,
        _ => {
            let priority = limits::priority(tx, rank)?;
            let others = if grouped.is_none() {
                count(tx, queue, READY, (i64::MIN, priority), (i64::MIN, i64::MAX))?
            } else {
                lined(LINED, i64::MIN, (priority + 2) << 56)?
            };
            let later = count(tx, queue, state, (rank, rank), (pos, i64::MAX))?;
            (limits::ahead(tx, queue, group, priority)? + others).saturating_sub(later)
        }
    })
}

/// The number of jobs of a state in these ranks and places.
fn count(tx: &Tx<'_>, queue: &Queue<'_>, state: i64, (from, to): (i64, i64), (first, last): (i64, i64)) -> rusqlite::Result<u64> {
    const COUNT: &str =
        "SELECT count(*) FROM queue_jobs WHERE queue = ?1 AND state = ?2 AND rank BETWEEN ?3 AND ?4 AND pos BETWEEN ?5 AND ?6";
    tx.sql(COUNT)?.query_row(params![queue.key, state, from, to, first, last], |row| Unsigned::get(row, 0))
}

/// The number of jobs of a state before a place, in these ranks. The count stops at a limit.
fn count_before(tx: &Tx<'_>, queue: &Queue<'_>, state: i64, (from, to): (i64, i64), pos: i64, most: u64) -> Result<u64, Failed> {
    const BEFORE: &str = "SELECT count(*) FROM (SELECT 1 FROM queue_jobs
                          WHERE queue = ?1 AND state = ?2 AND rank >= ?3 AND (rank, pos) < (?4, ?5) LIMIT ?6)";
    const ALL: &str = "SELECT count(*) FROM queue_jobs WHERE queue = ?1 AND state = ?2 AND rank BETWEEN ?3 AND ?4";
    let before: u64 =
        tx.sql(BEFORE)?.query_row(params![queue.key, state, from, to, pos, Unsigned(most + 1)], |row| Unsigned::get(row, 0))?;
    if before <= most {
        return Ok(before);
    }
    Ok(tx.sql(ALL)?.query_row(params![queue.key, state, from, to], |row| Unsigned::<u64>::get(row, 0))?.saturating_sub(1))
}
