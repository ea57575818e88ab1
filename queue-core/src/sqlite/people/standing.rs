//! Where jobs stand.

use rusqlite::{OptionalExtension, params};

use super::show::shown;
use crate::{
    address::JobId,
    broker::{JobState, Line, PLACES_LOOKED_AT, Standing},
    sqlite::{
        connection::{
            lenient::Number,
            tx::{Failed, Queue, Tx},
        },
        doors::{groups, keys, row::READY},
    },
};

pub(crate) fn standing(tx: &mut Tx<'_>, queue: &str, ids: &[JobId]) -> Result<Vec<Option<Standing>>, Failed> {
    let Some(queue) = tx.queue(queue)? else { return Ok(vec![None; ids.len()]) };
    let turns = groups::in_turn(tx, &queue)?;
    let most = (PLACES_LOOKED_AT / ids.len().max(1) as u64).max(100);
    ids.iter().map(|id| one(tx, &queue, id, turns, most)).collect()
}

fn one(tx: &Tx<'_>, queue: &Queue<'_>, id: &JobId, turns: u64, most: u64) -> Result<Option<Standing>, Failed> {
    let Some(job) = shown(tx, queue, id)? else { return Ok(None) };
    let mut standing = Standing::new(job, tx.now, queue.paused);
    match standing.job.state {
        JobState::Held => {
            let holder = standing.job.unique.map(|key| keys::holder(tx, queue, &key)).transpose()?.flatten();
            standing.holder = holder.map(|holder| holder.id);
        }
        JobState::Active => standing.lease_left_ms = lease_left(tx, queue, id)?,
        JobState::Ready => standing.line = Some(line(tx, queue, id, turns, most)?),
        _ => {}
    }
    Ok(Some(standing))
}

fn lease_left(tx: &Tx<'_>, queue: &Queue<'_>, id: &JobId) -> Result<Option<i64>, Failed> {
    const LANE: &str = "SELECT lane.deadline FROM queue_jobs AS job JOIN queue_lanes AS lane ON lane.lane = job.rank AND NOT lane.fenced
                        WHERE job.queue = ?1 AND job.id = ?2";
    let deadline = tx.sql(LANE)?.query_row(params![queue.key, id.as_bytes()], |row| Ok(row.get::<_, Number>(0)?.0)).optional()?;
    Ok(deadline.map(|deadline| deadline.saturating_sub(tx.now)))
}

/// The state of a ready job says in which line it stands: of plain jobs, of suspects, or of a group.
fn line(tx: &Tx<'_>, queue: &Queue<'_>, id: &JobId, turns: u64, most: u64) -> Result<Line, Failed> {
    const PLACE: &str = "SELECT state, rank, pos FROM queue_jobs WHERE queue = ?1 AND id = ?2";
    const PLAIN: &str = "SELECT EXISTS (SELECT 1 FROM queue_jobs WHERE queue = ?1 AND state = ?2)";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let (state, rank, pos): (i64, i64, i64) = tx.sql(PLACE)?.query_row(params![queue.key, id.as_bytes()], read)?;
    let Some((group, in_turn)) = groups::allowed(tx, queue, id.as_bytes())? else {
        return Ok(Line { ahead: before(tx, queue, state, (i64::MIN, rank), pos, most)?, groups: turns, group: None });
    };
    let plain: bool = tx.sql(PLAIN)?.query_row(params![queue.key, READY], |row| row.get(0))?;
    let groups = turns.saturating_sub(u64::from(in_turn)) + u64::from(plain);
    Ok(Line { ahead: before(tx, queue, state, (rank, rank), pos, most)?, groups, group: Some(group) })
}

/// How many jobs of a state stand before a place, in these ranks. Of many not all are counted: there are as many as there are at most.
fn before(tx: &Tx<'_>, queue: &Queue<'_>, state: i64, (from, to): (i64, i64), pos: i64, most: u64) -> Result<u64, Failed> {
    const BEFORE: &str = "SELECT count(*) FROM (SELECT 1 FROM queue_jobs
                          WHERE queue = ?1 AND state = ?2 AND rank >= ?3 AND (rank, pos) < (?4, ?5) LIMIT ?6)";
    const ALL: &str = "SELECT count(*) FROM queue_jobs WHERE queue = ?1 AND state = ?2 AND rank BETWEEN ?3 AND ?4";
    let before: u64 = tx.sql(BEFORE)?.query_row(params![queue.key, state, from, to, pos, most + 1], |row| row.get(0))?;
    if before <= most {
        return Ok(before);
    }
    Ok(tx.sql(ALL)?.query_row(params![queue.key, state, from, to], |row| row.get::<_, u64>(0))?.saturating_sub(1))
}
