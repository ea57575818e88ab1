//! The door `ready`: how jobs join the line and are read there.
//!
//! The line of a queue has the jobs that its lanes claim, in this order: suspects first
//! (`SUSPECT`), then by priority and place (`READY`). A place is a number that grows at the tail
//! and falls at the head. Jobs that are not due are stored outside of the line, by time.
//!
//! | function | changes | leaves |
//! |---|---|---|
//! | [`store`], [`store_held`] | a new row in the line, scheduled or held; `enqueued` | an id that exists |
//! | [`push`] | state, rank, pos; a job of a group joins the line of its group | all other columns; the caller counts and notifies |
//! | [`promote`] | due jobs join the tail | jobs that are not due |
//! | [`promote_early`] | a scheduled job or a retry joins the tail | all other jobs |
//! | [`remove_waiting`], [`unpark`], [`unpark_from`] | the entry of a parked job in `queue_parked`, that of a held one in `queue_keys` | the row, for the door that comes next |
//! | [`leaving_stray`] | nothing | the row, for its repair |
//! | [`pop`], [`has_waiting`], [`next_due`], [`depth`] | nothing | everything |

use std::collections::BTreeMap;

use rusqlite::{Row, ToSql, params, types::Value};

use super::{
    Leaving, aging, groups, keys, limits, rotation,
    row::{self, HELD, PARKED, READY, RETRY, SCHEDULED, SUSPECT},
    tags,
};
use crate::{
    broker::{DUE_ITEMS, Due, JobState, NewJob},
    sqlite::connection::{
        statement::sql,
        tx::{Failed, Queue, Tx},
        unsigned::Unsigned,
    },
};

/// The time of a new job that is outside of the line until it gets its place in the same
/// transaction. No scheduled job has this time, because it has passed.
const BESIDE: i64 = 0;

/// An end of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Head,
    Tail,
}

/// A job that may be claimed.
pub(crate) struct Waiting {
    /// The stored value, which another program may have replaced by an invalid id.
    pub(super) id: Value,
    pub(super) envelope: Vec<u8>,
    pub(super) attempts: u32,
    pub(super) crashes: u32,
    /// As [`snoozes_of`] reads it.
    pub(super) snoozes: u64,
}

impl Waiting {
    /// Reads the columns id, envelope, attempts, crashes, snoozes.
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Waiting { id: row.get(0)?, envelope: row.get(1)?, attempts: row.get(2)?, crashes: row.get(3)?, snoozes: Unsigned::get(row, 4)? })
    }
}

/// When a new job is due.
pub(crate) fn due(tx: &Tx<'_>, job: &NewJob) -> i64 {
    match job.due {
        Due::Now => tx.now,
        Due::After(delay) => tx.due_after(delay),
        Due::AtMs(at) => at,
    }
}

/// Stores a new job: at the tail of the line, or as scheduled if it is not due. False: its id
/// exists already, and nothing has changed.
pub(crate) fn store(tx: &mut Tx<'_>, queue: &Queue<'_>, job: &NewJob, at: i64) -> Result<bool, Failed> {
    let rank = i64::from(job.priority.number());
    if at > tx.now || job.group.is_none() && job.limits.is_none() {
        let (state, rank, pos) = if at <= tx.now { (READY, rank, queue.next_tail()) } else { (SCHEDULED, 0, at) };
        let stored = insert(tx, queue, job, state, rank, pos)?;
        if stored && state == READY {
            aging::start_aging(tx, queue, job.id.as_bytes(), pos)?;
        }
        return Ok(stored);
    }
    // The job is stored outside of the line until its group is stored. Its time tells the triggers
    // for watchers that it is not there yet.
    let stored = insert(tx, queue, job, SCHEDULED, 0, BESIDE)?;
    if stored {
        push(tx, queue, job.id.as_bytes(), End::Tail)?;
    }
    Ok(stored)
}

/// Stores a new job that waits until its key is free.
pub(super) fn store_held(tx: &mut Tx<'_>, queue: &Queue<'_>, job: &NewJob, at: i64) -> Result<bool, Failed> {
    insert(tx, queue, job, HELD, 0, at)
}

fn insert(tx: &mut Tx<'_>, queue: &Queue<'_>, job: &NewJob, state: i64, rank: i64, pos: i64) -> Result<bool, Failed> {
    /// Stores a new job in its place. Changes nothing if its id exists already.
    /// ?1 queue, ?2 id, ?3 state (ready or scheduled), ?4 rank, ?5 pos, ?6 priority, ?7 envelope,
    /// ?8 digest of a given id.
    const STORE: &str = "INSERT INTO queue_jobs (queue, id, state, rank, pos, priority, envelope, digest) \
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO NOTHING";
    let priority = i64::from(job.priority.number());
    let digest = job.id.is_given().then(|| job.digest.cast_signed());
    let stored = tx.sql(STORE)?.execute(params![queue.key, job.id.as_bytes(), state, rank, pos, priority, job.envelope, digest])?;
    if stored > 0 {
        groups::store_group_of(tx, queue, job)?;
        tags::store(tx, queue, job.id.as_bytes(), &job.envelope)?;
    }
    tx.count(queue.key, "enqueued", i64::from(stored > 0));
    Ok(stored > 0)
}

/// Puts a stored job at an end of the line, among the suspects if it has crashes.
pub(super) fn push(tx: &mut Tx<'_>, queue: &Queue<'_>, id: &(impl ToSql + ?Sized), end: End) -> rusqlite::Result<()> {
    let place = push_to_line(tx, queue, id, end)?;
    aging::start_aging(tx, queue, id, place)
}

/// The same for a job that may have been there before. Returns its place.
pub(super) fn push_to_line(tx: &mut Tx<'_>, queue: &Queue<'_>, id: &(impl ToSql + ?Sized), end: End) -> rusqlite::Result<i64> {
    /// Puts a job into the line: as a suspect (1) if it has crashes, else (0) by its priority.
    const PUSH: &str = "UPDATE queue_jobs SET state = crashes > 0, rank = CASE WHEN crashes > 0 THEN 0 ELSE priority END, pos = ?3 \
        WHERE queue = ?1 AND id = ?2";
    let pos = match end {
        End::Head => queue.next_head(),
        End::Tail => queue.next_tail(),
    };
    if !groups::push(tx, queue, id, pos)? {
        tx.sql(PUSH)?.execute(params![queue.key, id, pos])?;
    }
    Ok(pos)
}

/// Moves due jobs to the tail of the line, at most [`DUE_ITEMS`] of each kind.
pub(crate) fn promote(tx: &mut Tx<'_>, queue: &mut Queue<'_>) -> Result<(), Failed> {
    for state in [SCHEDULED, RETRY] {
        let mut due = tx.sql(sql!("ready_due.sql"))?;
        let ids: Vec<Value> =
            due.query_map(params![queue.key, state, tx.now, Unsigned(DUE_ITEMS)], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        // Jobs that return to the head keep the order of their times as well.
        let mut first = Vec::new();
        for id in ids {
            if state == RETRY && groups::goes_to_head(tx, queue, &id)? {
                first.push(id);
            } else {
                push(tx, queue, &id, End::Tail)?;
            }
        }
        for id in first.iter().rev() {
            push(tx, queue, id, End::Head)?;
        }
    }
    Ok(())
}

/// Moves a scheduled job or a retry to the tail of the line before its time, for an operator.
/// False: there is no such job with this id.
pub(crate) fn promote_early(tx: &mut Tx<'_>, queue: &mut Queue<'_>, id: &[u8]) -> Result<bool, Failed> {
    const WAITS: &str = "SELECT EXISTS (SELECT 1 FROM queue_jobs WHERE queue = ?1 AND id = ?2 AND state IN (?3, ?4))";
    let waits: bool = tx.sql(WAITS)?.query_row(params![queue.key, id, SCHEDULED, RETRY], |row| row.get(0))?;
    if waits {
        push(tx, queue, id, End::Tail)?;
        tx.hint(queue.name, tx.now);
    }
    Ok(waits)
}

/// The jobs at the head of a line (`READY` or `SUSPECT`), at most `limit`, up to the first one that
/// `look` refuses. They stay in the line until [`admit`](super::admit) takes them: a refused job
/// has not moved.
pub(super) fn pop(
    tx: &Tx<'_>,
    queue: &Queue<'_>,
    state: i64,
    limit: usize,
    mut look: impl FnMut(&Waiting) -> bool,
) -> Result<Vec<Waiting>, Failed> {
    /// The head of a line, as `Waiting` reads it.
    /// ?1 queue, ?2 state (ready, or its suspects), ?3 limit.
    const POP: &str =
        "SELECT id, envelope, attempts, crashes, snoozes FROM queue_jobs WHERE queue = ?1 AND state = ?2 ORDER BY rank, pos LIMIT ?3";
    let mut head = tx.sql(POP)?;
    let mut rows = head.query(params![queue.key, state, Unsigned(limit)])?;
    let mut popped = Vec::with_capacity(limit);
    while let Some(row) = rows.next()? {
        let waiting = Waiting::read(row)?;
        if !look(&waiting) {
            break;
        }
        popped.push(waiting);
    }
    Ok(popped)
}

/// Removes a waiting job (in a state that is neither `active` nor final) from its place, for an
/// operator's cancel or delete.
pub(crate) fn remove_waiting<'a>(tx: &mut Tx<'_>, queue: &Queue<'_>, id: &'a [u8], state: i64) -> rusqlite::Result<Leaving<'a>> {
    match state {
        PARKED => unpark(tx, queue, id)?,
        HELD => keys::remove_held(tx, queue, id)?,
        _ => {
            limits::leave(tx, queue, id)?;
            aging::stop_aging(tx, queue, id)?;
        }
    }
    Ok(Leaving::only(id))
}

/// Removes the entry of a parked job. The index is by task, so this searches for the id in all of
/// them.
pub(crate) fn unpark(tx: &Tx<'_>, queue: &Queue<'_>, id: &(impl ToSql + ?Sized)) -> rusqlite::Result<()> {
    const UNPARK: &str = "DELETE FROM queue_parked WHERE queue = ?1 AND id = ?2";
    tx.sql(UNPARK)?.execute(params![queue.key, id]).map(drop)
}

/// The same if the name is known under which the job is parked. False: it is not parked under this
/// name.
pub(super) fn unpark_from(tx: &Tx<'_>, queue: &Queue<'_>, name: &str, id: &Value) -> rusqlite::Result<bool> {
    const UNPARK: &str = "DELETE FROM queue_parked WHERE queue = ?1 AND task = ?2 AND id = ?3";
    Ok(tx.sql(UNPARK)?.execute(params![queue.key, name, id])? > 0)
}

/// Takes a job in a place that no query finds, for its repair.
pub(crate) fn leaving_stray(id: &Value) -> Leaving<'_> {
    Leaving::only(id)
}

/// Whether the line has a job, and whether it has a suspect.
pub(crate) fn has_waiting(tx: &Tx<'_>, queue: &Queue<'_>) -> Result<(bool, bool), Failed> {
    const READY_WAITS: &str = "SELECT EXISTS (SELECT 1 FROM queue_jobs WHERE queue = ?1 AND state = ?2), \
               EXISTS (SELECT 1 FROM queue_jobs WHERE queue = ?1 AND state = ?3)";
    let (ready, suspects): (bool, bool) =
        tx.sql(READY_WAITS)?.query_row(params![queue.key, READY, SUSPECT], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok((ready || rotation::waits(tx, queue)?, suspects || rotation::suspects_wait(tx, queue)?))
}

/// When the next scheduled job joins the line.
pub(crate) fn next_due(tx: &Tx<'_>, queue: &Queue<'_>) -> rusqlite::Result<Option<i64>> {
    const NEXT_DUE: &str = "SELECT min(pos) FROM queue_jobs WHERE queue = ?1 AND state = ?2 AND rank = 0";
    let mut next = limits::next_due(tx, queue)?;
    for state in [SCHEDULED, RETRY] {
        let due: Option<i64> = tx.sql(NEXT_DUE)?.query_row(params![queue.key, state], |row| row.get(0))?;
        next = [next, due].into_iter().flatten().min();
    }
    Ok(next)
}

/// The number of jobs in each state.
pub(crate) fn depth(tx: &Tx<'_>, queue: &Queue<'_>) -> Result<BTreeMap<JobState, u64>, Failed> {
    const DEPTH: &str = "SELECT state, count(*) FROM queue_jobs WHERE queue = ?1 GROUP BY state";
    let mut depth = BTreeMap::new();
    let mut statement = tx.sql(DEPTH)?;
    let mut rows = statement.query([queue.key])?;
    while let Some(row) = rows.next()? {
        // An invalid state is left for the auditor.
        if let Ok(state) = row::state(row.get::<_, i64>(0)?) {
            *depth.entry(state).or_default() += Unsigned::<u64>::get(row, 1)?;
        }
    }
    Ok(depth)
}
