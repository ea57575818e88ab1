//! Schedules: due schedules, their changes, and the endings of their jobs.

use rusqlite::{OptionalExtension, Row, params};

use crate::{
    address::JobId,
    broker::{
        BACKFILL_REMEMBERED, DueSchedules, HANDED_OUT, MAX_BYTES, MAX_ITEMS, ScheduleAnswer, ScheduleList, SchedulePage, ScheduleState,
        SetSchedule, StoredSchedule, TickJob,
    },
    sqlite::{
        connection::{
            tx::{Failed, Queue, Tx, after},
            unsigned::Unsigned,
        },
        doors::{
            end, ready,
            row::{ACTIVE, CANCELLED, DEAD, DONE, EXPIRED, Receipt},
            settle,
        },
    },
};

pub(crate) use crate::broker::STOPPED;

fn read(row: &Row<'_>) -> rusqlite::Result<StoredSchedule> {
    let (name, definition, state): (String, Vec<u8>, Vec<u8>) = (row.get(0)?, row.get(1)?, row.get(2)?);
    Ok(StoredSchedule::new(name, definition, state))
}

pub(crate) fn due(tx: &mut Tx<'_>, name: &str, limit: usize) -> Result<DueSchedules, Failed> {
    /// The schedules that are due, the first due first.
    const DUE: &str = "SELECT name, definition, state FROM queue_schedules WHERE queue = ?1 AND due <= ?2 ORDER BY due LIMIT ?3";
    const HAND_OUT: &str = "UPDATE queue_schedules SET due = ?3 WHERE queue = ?1 AND name = ?2";
    const NEXT: &str = "SELECT min(due) FROM queue_schedules WHERE queue = ?1";
    let Some(queue) = tx.queue(name)? else { return Ok(DueSchedules::new(tx.now, Vec::new(), None)) };
    let (mut found, mut bytes) = (Vec::new(), 0);
    {
        let mut due = tx.sql(DUE)?;
        let mut rows = due.query(params![queue.key, tx.now, Unsigned(limit)])?;
        while let Some(row) = rows.next()? {
            let schedule = read(row)?;
            bytes += schedule.definition.len() + schedule.state.len();
            if bytes > MAX_BYTES && !found.is_empty() {
                break;
            }
            found.push(schedule);
        }
    }
    for schedule in &found {
        tx.sql(HAND_OUT)?.execute(params![queue.key, schedule.name, after(tx.now, HANDED_OUT)])?;
    }
    let next: Option<i64> = tx.sql(NEXT)?.query_row([queue.key], |row| row.get(0))?;
    Ok(DueSchedules::new(tx.now, found, next.map(|next| tx.until(next))))
}

pub(crate) fn list(tx: &mut Tx<'_>, name: &str, which: &ScheduleList) -> Result<SchedulePage, Failed> {
    /// Schedules by the time at which they are due; those that are not due at all come last.
    const PAGE: &str =
        "SELECT name, definition, state FROM queue_schedules WHERE queue = ?1 ORDER BY due IS NULL, due, name LIMIT ?2 OFFSET ?3";
    /// The schedules that are due after a time, the first due first.
    const AFTER: &str =
        "SELECT name, definition, state FROM queue_schedules WHERE queue = ?1 AND due > ?4 ORDER BY due, name LIMIT ?2 OFFSET ?3";
    const ONE: &str = "SELECT name, definition, state FROM queue_schedules WHERE queue = ?1 AND name = ?2";
    const DECLARED: &str = "SELECT name, definition, state FROM queue_schedules WHERE queue = ?1 AND declared = 1 ORDER BY name";
    let Some(queue) = tx.queue(name)? else { return Ok(SchedulePage::new(tx.now, Vec::new(), None)) };
    let (found, next) = match which {
        ScheduleList::One(name) => (tx.sql(ONE)?.query_row(params![queue.key, name], read).optional()?.into_iter().collect(), None),
        ScheduleList::Declared => (tx.sql(DECLARED)?.query_map([queue.key], read)?.collect::<rusqlite::Result<Vec<_>>>()?, None),
        ScheduleList::All { offset, limit } => {
            let limit = (*limit).clamp(1, MAX_ITEMS);
            let skip = i64::try_from(*offset).unwrap_or(i64::MAX);
            let mut page = tx.sql(PAGE)?;
            let mut found: Vec<_> =
                page.query_map(params![queue.key, Unsigned(limit + 1), skip], read)?.collect::<rusqlite::Result<_>>()?;
            let more = found.len() > limit;
            found.truncate(limit);
            (found, more.then(|| offset + limit as u64))
        }
        ScheduleList::After { after_ms, offset, limit } => {
            let limit = (*limit).clamp(1, MAX_ITEMS);
            let skip = i64::try_from(*offset).unwrap_or(i64::MAX);
            let mut page = tx.sql(AFTER)?;
            let wanted = params![queue.key, Unsigned(limit + 1), skip, after_ms];
            let mut found: Vec<_> = page.query_map(wanted, read)?.collect::<rusqlite::Result<_>>()?;
            let more = found.len() > limit;
            found.truncate(limit);
            (found, more.then(|| offset + limit as u64))
        }
    };
    Ok(SchedulePage::new(tx.now, found, next))
}

pub(crate) fn set(tx: &mut Tx<'_>, request: &SetSchedule) -> Result<ScheduleAnswer, Failed> {
    /// Changes a schedule.
    /// ?1 queue, ?2 name, ?3 definition, or nothing to keep it, ?4 state, ?5 due, ?6 whether code
    /// declares it.
    const CHANGE: &str = "UPDATE queue_schedules SET definition = ifnull(?3, definition), state = ?4, due = ?5, declared = ?6 \
            WHERE queue = ?1 AND name = ?2";
    /// Creates a schedule.
    const MAKE: &str =
        "INSERT INTO queue_schedules (queue, name, definition, state, due, declared) VALUES (?1, ?2, ifnull(?3, x''), ?4, ?5, ?6)";
    const STATE: &str = "SELECT state FROM queue_schedules WHERE queue = ?1 AND name = ?2";
    const REMOVE: &str = "DELETE FROM queue_schedules WHERE queue = ?1 AND name = ?2";
    const FIRST: &str = "SELECT min(due) FROM queue_schedules WHERE queue = ?1";
    if request.has_moved(tx.now) {
        return Ok(ScheduleAnswer::Moved);
    }
    let mut queue = tx.queue_or_create(&request.queue)?;
    let state: Option<Vec<u8>> = tx.sql(STATE)?.query_row(params![queue.key, request.name], |row| row.get(0)).optional()?;
    if state != request.expected {
        return Ok(ScheduleAnswer::Stale);
    }
    let Some(set) = &request.set else {
        tx.sql(REMOVE)?.execute(params![queue.key, request.name])?;
        return Ok(ScheduleAnswer::Set(Vec::new()));
    };
    let stored = params![queue.key, request.name, set.definition, set.state, set.due_ms, set.declared];
    if request.expected.is_some() {
        tx.sql(CHANGE)?.execute(stored)?;
    } else {
        tx.sql(MAKE)?.execute(stored)?;
    }
    let first: Option<i64> = tx.sql(FIRST)?.query_row([queue.key], |row| row.get(0))?;
    if let Some(due) = set.due_ms.filter(|due| first.is_some_and(|first| *due <= first)) {
        tx.tick_hint(queue.name, due);
    }
    let answers = request.jobs.iter().map(|tick| store(tx, &mut queue, &request.name, tick)).collect::<Result<Vec<_>, _>>()?;
    if let Some(id) = &request.stop {
        cancel_job(tx, &mut queue, id)?;
    }
    tx.save(&queue)?;
    if answers.contains(&true) {
        tx.hint(queue.name, tx.now);
    }
    Ok(ScheduleAnswer::Set(answers))
}

/// Ids that backfills made before this time are removed.
pub(crate) fn remembered_since(tx: &Tx<'_>) -> i64 {
    tx.now.saturating_sub(i64::try_from(BACKFILL_REMEMBERED.as_millis()).unwrap_or(i64::MAX))
}

/// Removes at most `items` of them.
pub(crate) fn prune(tx: &Tx<'_>, queue: &Queue<'_>, items: usize) -> rusqlite::Result<usize> {
    const PRUNE: &str = "DELETE FROM queue_backfilled WHERE queue = ?1 AND id IN
        (SELECT id FROM queue_backfilled WHERE queue = ?1 AND at <= ?2 ORDER BY at LIMIT ?3)";
    tx.sql(PRUNE)?.execute(params![queue.key, remembered_since(tx), Unsigned(items)])
}

fn store(tx: &mut Tx<'_>, queue: &mut Queue<'_>, schedule: &str, tick: &TickJob) -> Result<bool, Failed> {
    const TICKED: &str = "INSERT OR REPLACE INTO queue_ticked (queue, id, schedule, run) VALUES (?1, ?2, ?3, ?4)";
    const REMEMBER: &str =
        "INSERT INTO queue_backfilled (queue, id, at) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET at = excluded.at WHERE at <= ?4";
    let id = tick.job.id.as_bytes();
    if tick.remembered && tx.sql(REMEMBER)?.execute(params![queue.key, id, tx.now, remembered_since(tx)])? == 0 {
        return Ok(false);
    }
    let at = ready::due(tx, &tick.job);
    if !ready::store(tx, queue, &tick.job, at)? {
        return Ok(false);
    }
    tx.sql(TICKED)?.execute(params![queue.key, id, schedule, Unsigned(tick.run)])?;
    Ok(true)
}

/// Cancels a job of a schedule: at once if it waits, or at its ending if it is active.
fn cancel_job(tx: &mut Tx<'_>, queue: &mut Queue<'_>, id: &JobId) -> Result<(), Failed> {
    const PLACE: &str = "SELECT state, rank, pos FROM queue_jobs WHERE queue = ?1 AND id = ?2";
    const STOP: &str = "UPDATE queue_ticked SET stop = 1 WHERE queue = ?1 AND id = ?2";
    let id = id.as_bytes();
    let place: Option<(i64, i64, i64)> =
        tx.sql(PLACE)?.query_row(params![queue.key, id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()?;
    match place {
        None | Some((DONE | DEAD | CANCELLED | EXPIRED, ..)) => Ok(()),
        Some((ACTIVE, lane, claim)) => {
            tx.sql(STOP)?.execute(params![queue.key, id])?;
            Ok(settle::record_cancellation(tx, Receipt { lane, claim }, id)?)
        }
        Some((state, ..)) => {
            let job = ready::remove_waiting(tx, queue, id, state)?;
            end::cancel(tx, queue, job, Some(STOPPED))
        }
    }
}

/// Whether a job that leaves its lane has to be [stopped](SetSchedule::stop).
pub(crate) fn is_stopped(tx: &Tx<'_>, queue: &Queue<'_>, id: &[u8]) -> rusqlite::Result<bool> {
    const IS_STOPPED: &str = "SELECT stop FROM queue_ticked WHERE queue = ?1 AND id = ?2";
    if !is_of_tick(id) {
        return Ok(false);
    }
    let stop: Option<i64> = tx.sql(IS_STOPPED)?.query_row(params![queue.key, id], |row| row.get(0)).optional()?;
    Ok(stop.is_some_and(|stop| stop != 0))
}

/// Records in the schedule of a job that the job has ended in this state, or is parked. The id
/// shows whether the job may belong to a schedule.
pub(crate) fn record_end(tx: &mut Tx<'_>, queue: &Queue<'_>, id: &[u8], how: &str) -> Result<(), Failed> {
    /// Records in a schedule that one of its jobs has ended.
    const ENDED: &str =
        "UPDATE queue_schedules SET due = CASE WHEN ?4 THEN NULL WHEN ?5 THEN ?6 ELSE due END, state = ?3 WHERE queue = ?1 AND name = ?2";
    const TICKED: &str = "SELECT schedule, run, stop FROM queue_ticked WHERE queue = ?1 AND id = ?2";
    const FORGET_CANCEL: &str = "DELETE FROM queue_gone WHERE id = ?1";
    const FORGET: &str = "DELETE FROM queue_ticked WHERE queue = ?1 AND id = ?2";
    const STATE: &str = "SELECT state FROM queue_schedules WHERE queue = ?1 AND name = ?2";
    if !is_of_tick(id) {
        return Ok(());
    }
    let ticked: Option<(String, i64, i64)> =
        tx.sql(TICKED)?.query_row(params![queue.key, id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()?;
    let Some((schedule, run, stop)) = ticked else { return Ok(()) };
    if stop != 0 {
        // Its lane no longer needs to be notified.
        tx.sql(FORGET_CANCEL)?.execute([id])?;
    }
    if how != "parked" {
        tx.sql(FORGET)?.execute(params![queue.key, id])?;
    }
    let state: Option<Vec<u8>> = tx.sql(STATE)?.query_row(params![queue.key, schedule], |row| row.get(0)).optional()?;
    // An unreadable state is reported when the schedule is read.
    let Some(mut state) = state.and_then(|state| ScheduleState::decode(&state).ok()) else { return Ok(()) };
    let due_now = state.ended(run.unsigned_abs(), how, tx.now);
    tx.sql(ENDED)?.execute(params![queue.key, schedule, state.encode(), state.paused.is_some(), due_now, tx.now])?;
    if due_now {
        tx.tick_hint(queue.name, tx.now);
    }
    Ok(())
}

fn is_of_tick(id: &[u8]) -> bool {
    id.len() == 16 && id[6] >> 4 == 8
}
