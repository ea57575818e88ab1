//! The list of queues, and the numbers of one queue.

use std::time::Duration;

use rusqlite::{Row, params};

use crate::{
    broker::{AgingRecord, HEADS, JobState, Priority, QueueStats},
    envelope::Envelope,
    sqlite::{
        connection::{
            text::Text,
            tx::{Failed, Queue, Tx},
            unsigned::Unsigned,
        },
        doors::{
            aging, groups, limits, ready,
            row::{CHAINED, LINED, READY},
        },
        history,
    },
};

pub(crate) fn queues(tx: &mut Tx<'_>) -> Result<Vec<String>, Failed> {
    const QUEUES: &str = "SELECT name FROM queue_queues WHERE name NOT LIKE '@%' ORDER BY name";
    let mut names = tx.sql(QUEUES)?;
    Ok(names.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?)
}

pub(crate) fn stats(tx: &mut Tx<'_>, queue: &str) -> Result<QueueStats, Failed> {
    // Names that begin with a dot are internal.
    const COUNTERS: &str = "SELECT name, value FROM queue_counters WHERE queue = ?1 AND name NOT LIKE '.%'";
    const LANES: &str = "SELECT count(*), count(DISTINCT process) FROM queue_lanes WHERE queue = ?1 AND NOT fenced AND deadline > ?2";
    let Some(queue) = tx.queue(queue)? else { return Ok(QueueStats::default()) };
    let mut counters = tx.sql(COUNTERS)?;
    let read = |row: &Row<'_>| Ok((row.get::<_, Text>(0)?.0, row.get::<_, i64>(1)?.max(0).unsigned_abs()));
    let mut stats = QueueStats::default();
    for (state, jobs) in ready::depth(tx, &queue)? {
        stats.set_count(state, jobs);
    }
    for counter in counters.query_map([queue.key], read)? {
        let (name, total): (String, u64) = counter?;
        stats.set_total(&name, total);
    }
    (stats.lanes, stats.workers) =
        tx.sql(LANES)?.query_row(params![queue.key, tx.now], |row| Ok((Unsigned::get(row, 0)?, Unsigned::get(row, 1)?)))?;
    stats.paused = queue.paused;
    stats.outboxes = history::outboxes(tx, queue.key)?;
    stats.aging = AgingRecord::effective_interval(&aging::stored(tx, &queue)?);
    for rank in 0..=Priority::Low.number() {
        if let Some(since) = first_startable_since(tx, &queue, (READY, rank.into()), (i64::MIN, i64::MAX))? {
            stats.note_ready_since(since, tx.now);
        }
    }
    if stats.count(JobState::Ready) > 0 {
        let mut looked = groups::next(tx, &queue, HEADS)?;
        looked.push(limits::NO_GROUP.to_vec());
        update_oldest(tx, &queue, &looked, &mut stats)?;
        // The groups that may be served gave no age: examine some of the others.
        if stats.oldest.is_none() {
            let others = groups::with_ready_jobs(tx, &queue, HEADS + looked.len())?;
            let others: Vec<Vec<u8>> = others.into_iter().filter(|name| !looked.contains(name)).take(HEADS).collect();
            update_oldest(tx, &queue, &others, &mut stats)?;
        }
    }
    Ok(stats)
}

/// Notes the age of the oldest ready job of these groups.
fn update_oldest(tx: &Tx<'_>, queue: &Queue<'_>, groups: &[Vec<u8>], stats: &mut QueueStats) -> Result<(), Failed> {
    for group in groups {
        if let Some(since) = startable_since(tx, queue, group)? {
            stats.note_ready_since(since, tx.now);
        }
    }
    Ok(())
}

/// How long ago the oldest ready job of a group could start. Of each priority and each of its first
/// chains, the first jobs are examined.
pub(crate) fn oldest_age(tx: &Tx<'_>, queue: &Queue<'_>, group: &[u8]) -> Result<Option<Duration>, Failed> {
    let age = |since: i64| Duration::from_millis(tx.now.saturating_sub(since).max(0).unsigned_abs());
    Ok(startable_since(tx, queue, group)?.map(age))
}

fn startable_since(tx: &Tx<'_>, queue: &Queue<'_>, group: &[u8]) -> Result<Option<i64>, Failed> {
    let Some(line) = groups::line_of(tx, queue, group)? else { return Ok(None) };
    let mut oldest: Option<i64> = None;
    for priority in 0..=i64::from(Priority::Low.number()) {
        if let Some(since) = first_startable_since(tx, queue, (LINED, line), groups::places_of(priority))? {
            oldest = Some(oldest.map_or(since, |oldest| oldest.min(since)));
        }
    }
    // The first ones of its chains.
    for chain in limits::chains(tx, queue, group, HEADS)? {
        if let Some(since) = first_startable_since(tx, queue, (CHAINED, chain), (i64::MIN, i64::MAX))? {
            oldest = Some(oldest.map_or(since, |oldest| oldest.min(since)));
        }
    }
    Ok(oldest)
}

/// The time since which the first suitable job of a run could start. A job that has waited for
/// another time meanwhile is not suitable, and neither is a job of a task whose jobs repeat.
fn first_startable_since(tx: &Tx<'_>, queue: &Queue<'_>, (state, rank): (i64, i64), (from, to): (i64, i64)) -> Result<Option<i64>, Failed> {
    const HEAD: &str = "SELECT envelope FROM queue_jobs WHERE queue = ?1 AND state = ?2 AND rank = ?3 AND pos BETWEEN ?5 AND ?6 \
                        AND attempts = 0 AND snoozes = 0 ORDER BY pos LIMIT ?4";
    let mut heads = tx.sql(HEAD)?;
    let mut heads = heads.query(params![queue.key, state, rank, Unsigned(HEADS), from, to])?;
    while let Some(row) = heads.next()? {
        let envelope: Vec<u8> = row.get(0)?;
        let Ok(envelope) = Envelope::decode(&envelope) else { continue };
        if let Some(since) = envelope.startable_ms()
            && !history::repeats(tx, queue, &envelope.task)?
        {
            return Ok(Some(since));
        }
    }
    Ok(None)
}
