//! The history of a queue: the reports of workers, and its readers.

mod failures;

use rusqlite::{OptionalExtension, params};

pub(crate) use self::failures::failures;
use crate::{
    broker::{
        Counter, OUTBOX, OUTBOXES, OutboxRecord,
        history::{
            HOURS, History, HistorySpan, HistoryUnit, OTHERS, RELEASES_SEEN, REPORTERS_HOURS, Report, SAMPLE, Sample, StoredHistory, TASKS,
            Tally,
        },
    },
    sqlite::{
        connection::{
            tx::{Failed, Queue, Tx},
            unsigned::Unsigned,
        },
        doors::row::{CHAINED, LINED, LINED_SUSPECT, READY, SUSPECT},
    },
};

/// The number of ready jobs. They are counted one by one. For this reason the reader counts them,
/// while others can write.
pub(crate) fn depth(tx: &mut Tx<'_>, name: &str) -> Result<u64, Failed> {
    const DEPTH: &str = "SELECT count(*) FROM queue_jobs WHERE queue = ?1 AND state IN (?2, ?3, ?4, ?5, ?6)";
    let Some(queue) = tx.queue(name)? else { return Ok(0) };
    Ok(tx.sql(DEPTH)?.query_row(params![queue.key, READY, SUSPECT, LINED, LINED_SUSPECT, CHAINED], |row| Unsigned::get(row, 0))?)
}

pub(crate) fn report(tx: &mut Tx<'_>, report: &Report, ready: u64) -> Result<(), Failed> {
    const LAST: &str = "SELECT seq FROM queue_reporters WHERE queue = ?1 AND process = ?2";
    const NOTE: &str = "INSERT OR REPLACE INTO queue_reporters (queue, process, seq, seen) VALUES (?1, ?2, ?3, ?4)";
    const FORGET: &str = "DELETE FROM queue_reporters WHERE queue = ?1 AND seen < ?2";
    let queue = tx.queue_or_create(&report.queue)?;
    let (process, hour) = (report.process.to_string(), number(HistoryUnit::Hour.period(tx.now)));
    let last: Option<i64> = tx.sql(LAST)?.query_row(params![queue.key, process], |row| row.get(0)).optional()?;
    match last {
        // A replay changes nothing.
        Some(last) if number(report.seq) <= last => return Ok(()),
        Some(_) => {}
        None => drop(tx.sql(FORGET)?.execute(params![queue.key, hour - number(REPORTERS_HOURS)])?),
    }
    tx.sql(NOTE)?.execute(params![queue.key, process, number(report.seq), hour])?;
    for (task, tally) in &report.tasks {
        let task = counted_task(tx, &queue, task, hour, tally.counts.repeated > 0)?;
        add(tx, &queue, task, |row| row.map_or_else(|| tally.clone(), |row| with(row, tally)))?;
    }
    failures::add(tx, &queue, &report.failures)?;
    if let Some(outbox) = &report.outbox {
        store_outbox(tx, queue.key, outbox)?;
    }
    let enqueued = tx.counter(queue.key, Counter::Enqueued.name())?.max(0).unsigned_abs();
    let sample = Sample { ready, enqueued };
    add(tx, &queue, SAMPLE, |row| row.map_or(sample, |row| Sample::of(&row).and(sample)).tally())
}

/// The reports of outboxes are stored among the places: a hexadecimal number follows the prefix.
fn stored_outboxes(tx: &Tx<'_>, queue: i64) -> rusqlite::Result<Vec<(String, Vec<u8>)>> {
    const ALL: &str = "SELECT name, place FROM queue_places WHERE queue = ?1 AND name > ?2 AND name < ?2 || 'g'";
    let mut stored = tx.sql(ALL)?;
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, Vec<u8>>(1)?));
    stored.query_map(params![queue, OUTBOX], read)?.collect()
}

pub(crate) fn outboxes(tx: &Tx<'_>, queue: i64) -> rusqlite::Result<Vec<OutboxRecord>> {
    let stored = stored_outboxes(tx, queue)?;
    Ok(OutboxRecord::merged(stored.iter().filter_map(|(name, stored)| OutboxRecord::read(name, stored, tx.now))))
}

/// Stores the record of an outbox. If there are too many, it replaces the one with the oldest
/// report.
fn store_outbox(tx: &Tx<'_>, queue: i64, record: &OutboxRecord) -> rusqlite::Result<()> {
    let (name, stored) = (record.name(), stored_outboxes(tx, queue)?);
    if stored.len() >= OUTBOXES
        && stored.iter().all(|(known, _)| *known != name)
        && let Some((oldest, _)) = stored.iter().min_by_key(|(name, stored)| (OutboxRecord::stored_at(stored), name))
    {
        tx.store_position(queue, oldest, None)?;
    }
    tx.store_position(queue, &name, Some(&record.stored(tx.now)))
}

fn with(mut row: Tally, tally: &Tally) -> Tally {
    row.merge(tally);
    row
}

/// Changes the rows of this minute and this hour, and replaces the row of an earlier period.
fn add(tx: &mut Tx<'_>, queue: &Queue<'_>, task: &str, change: impl Fn(Option<Tally>) -> Tally) -> Result<(), Failed> {
    const GET: &str = "SELECT tally FROM queue_history WHERE queue = ?1 AND task = ?2 AND unit = ?3 AND place = ?4 AND period = ?5";
    const PUT: &str = "INSERT OR REPLACE INTO queue_history (queue, task, unit, place, period, tally) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    for unit in HistoryUnit::ALL {
        let period = unit.period(tx.now);
        let (name, place) = (unit.letter().to_string(), number(unit.place(period)));
        let row: Option<Vec<u8>> =
            tx.sql(GET)?.query_row(params![queue.key, task, name, place, number(period)], |row| row.get(0)).optional()?;
        let tally = change(row.and_then(|row| Tally::decoded(&row)));
        tx.sql(PUT)?.execute(params![queue.key, task, name, place, number(period), tally.encoded()])?;
    }
    Ok(())
}

/// The name under which a task is counted.
fn counted_task<'n>(tx: &mut Tx<'_>, queue: &Queue<'_>, task: &'n str, hour: i64, repeats: bool) -> Result<&'n str, Failed> {
    const SEEN: &str = "UPDATE queue_tasks SET seen = ?3, repeats = max(repeats, ?4) WHERE queue = ?1 AND task = ?2";
    const COUNT: &str = "SELECT count(*) FROM queue_tasks WHERE queue = ?1";
    const ADD: &str = "INSERT INTO queue_tasks (queue, task, seen, repeats) VALUES (?1, ?2, ?3, ?4)";
    if task == OTHERS || tx.sql(SEEN)?.execute(params![queue.key, task, hour, repeats])? > 0 {
        return Ok(task);
    }
    let is_full = |tx: &Tx<'_>| -> rusqlite::Result<bool> {
        let tasks: i64 = tx.sql(COUNT)?.query_row([queue.key], |row| row.get(0))?;
        Ok(tasks >= number(TASKS as u64))
    };
    if is_full(tx)? {
        delete_unused_task(tx, queue, hour)?;
        if is_full(tx)? {
            return Ok(OTHERS);
        }
    }
    tx.sql(ADD)?.execute(params![queue.key, task, hour, repeats])?;
    Ok(task)
}

/// Whether jobs of a task repeat: the age of such a job is unknown.
pub(crate) fn repeats(tx: &Tx<'_>, queue: &Queue<'_>, task: &str) -> rusqlite::Result<bool> {
    const REPEATS: &str = "SELECT repeats FROM queue_tasks WHERE queue = ?1 AND task = ?2";
    let repeats: Option<i64> = tx.sql(REPEATS)?.query_row(params![queue.key, task], |row| row.get(0)).optional()?;
    Ok(repeats.is_some_and(|repeats| repeats != 0))
}

/// Removes the history of a task that had no job during the hours that are kept. It removes at most
/// one task, so that the transaction stays short.
fn delete_unused_task(tx: &mut Tx<'_>, queue: &Queue<'_>, hour: i64) -> Result<(), Failed> {
    const OLD: &str = "SELECT task FROM queue_tasks WHERE queue = ?1 AND seen < ?2 LIMIT 1";
    const FORGET: &str = "DELETE FROM queue_tasks WHERE queue = ?1 AND task = ?2";
    const EMPTY: &str = "DELETE FROM queue_history WHERE queue = ?1 AND task = ?2";
    let old: Option<String> = tx.sql(OLD)?.query_row(params![queue.key, hour - number(HOURS)], |row| row.get(0)).optional()?;
    if let Some(task) = old {
        tx.sql(EMPTY)?.execute(params![queue.key, task])?;
        tx.sql(FORGET)?.execute(params![queue.key, task])?;
    }
    Ok(())
}

/// Stores when a release was first seen, and replaces the oldest one if there are too many.
pub(crate) fn record_release(tx: &Tx<'_>, queue: &Queue<'_>, release: &str) -> rusqlite::Result<()> {
    const SEEN: &str = "INSERT INTO queue_deployed (queue, release, at) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
    const ROOM: &str = "DELETE FROM queue_deployed WHERE queue = ?1 AND release IN
        (SELECT release FROM queue_deployed WHERE queue = ?1 ORDER BY at DESC, release LIMIT -1 OFFSET ?2)";
    if !release.is_empty() && tx.sql(SEEN)?.execute(params![queue.key, release, tx.now])? > 0 {
        tx.sql(ROOM)?.execute(params![queue.key, Unsigned(RELEASES_SEEN)])?;
    }
    Ok(())
}

pub(crate) fn history(tx: &mut Tx<'_>, name: &str, span: HistorySpan) -> Result<History, Failed> {
    const ROWS: &str = "SELECT task, period, tally FROM queue_history WHERE queue = ?1 AND unit = ?2 AND period BETWEEN ?3 AND ?4";
    const RELEASES: &str = "SELECT release, at FROM queue_deployed WHERE queue = ?1";
    let mut stored = StoredHistory { now_ms: tx.now, ..StoredHistory::default() };
    if let Some(queue) = tx.queue(name)? {
        let periods = span.periods(tx.now);
        // The period before is needed to compute the enqueued jobs of the first period.
        let (first, last) = (number(*periods.start()) - 1, number(*periods.end()));
        let mut rows = tx.sql(ROWS)?;
        let rows = rows.query_map(params![queue.key, span.unit().letter().to_string(), first, last], |row| {
            let (task, period, tally): (String, i64, Vec<u8>) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok((task, period.max(0).unsigned_abs(), Tally::decoded(&tally)))
        })?;
        for row in rows {
            let (task, period, tally) = row?;
            stored.rows.extend(tally.map(|tally| (task, period, tally)));
        }
        let mut releases = tx.sql(RELEASES)?;
        let releases = releases.query_map([queue.key], |row| {
            let (release, at): (String, i64) = (row.get(0)?, row.get(1)?);
            Ok((release, at))
        })?;
        stored.releases = releases.collect::<rusqlite::Result<_>>()?;
    }
    Ok(History::read(name, span, stored))
}

fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
