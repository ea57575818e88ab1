//! Pauses: the operator, the time, the reason and the end of each. The pause of a group is stored
//! after its rule. `queue_pauses` has a row for the queue while it is paused, for each paused task,
//! and for each group whose pause ends automatically. The column `paused` of a queue has two bits:
//! the queue is paused ([`PAUSED`]), and a task is paused or any pause ends automatically
//! ([`ENDS`]). For queues without these bits, the table is not read.

use std::{collections::BTreeMap, sync::Arc};

use rusqlite::{OptionalExtension, params};

use super::groups;
use crate::{
    broker::{GROUP_RULES, GroupRule, LONGEST_CLOSED, Pause, PauseOf, Pausing, RESUMED_AT_ONCE},
    sqlite::connection::{
        tx::{ENDS, Failed, PAUSED, Queue, Tx},
        unsigned::Unsigned,
    },
};

/// The stored record of a pause; empty if there is none.
pub(crate) fn record(tx: &Tx<'_>, queue: &Queue<'_>, of: &PauseOf) -> rusqlite::Result<String> {
    const RECORD: &str = "SELECT record FROM queue_pauses WHERE queue = ?1 AND subject = ?2";
    let record: Option<String> = tx.sql(RECORD)?.query_row(params![queue.key, of.stored()], |row| row.get(0)).optional()?;
    Ok(record.unwrap_or_default())
}

/// Stores a pause: its record, unless that is stored elsewhere, and its end.
pub(crate) fn store(tx: &mut Tx<'_>, queue: &Queue<'_>, of: &PauseOf, until: Option<i64>, record: &str) -> rusqlite::Result<()> {
    const NOTE: &str = "INSERT OR REPLACE INTO queue_pauses (queue, subject, until, record) VALUES (?1, ?2, ?3, ?4)";
    tx.sql(NOTE)?.execute(params![queue.key, of.stored(), until, record])?;
    update_bits(tx, queue)
}

/// Removes the record of a pause.
pub(crate) fn clear(tx: &Tx<'_>, queue: &Queue<'_>, of: &PauseOf) -> rusqlite::Result<()> {
    const FORGET: &str = "DELETE FROM queue_pauses WHERE queue = ?1 AND subject = ?2";
    tx.sql(FORGET)?.execute(params![queue.key, of.stored()])?;
    update_bits(tx, queue)
}

/// Pauses the group of a rate-limited job until a time. A pause that an operator has set keeps its
/// reason, and ends no earlier. Returns false if the job has no group, or if the queue has the
/// largest number of group rules.
pub(crate) fn pause_rate_limited_group(tx: &mut Tx<'_>, queue: &mut Queue<'_>, id: &[u8], until: i64) -> Result<bool, Failed> {
    const RULES: &str = "SELECT count(*) FROM queue_rules WHERE queue = ?1";
    let Some(group) = groups::name_of(tx, queue, id)? else { return Ok(false) };
    let stored = groups::stored_text(tx, queue, &group.stored())?;
    if stored.is_empty() && tx.sql(RULES)?.query_row([queue.key], |row| Unsigned::<usize>::get(row, 0))? >= GROUP_RULES {
        return Ok(false);
    }
    let longest = i64::try_from(LONGEST_CLOSED.as_millis()).unwrap_or(i64::MAX);
    let until = until.min(tx.now + longest);
    let mut rule = GroupRule::of_stored(&stored);
    let pause = GroupRule::reason_of_stored(&stored).unwrap_or_default();
    let (since, record) = match Pause::end_of_stored(&pause) {
        // Another form means a pause by a rule, which has no end.
        None | Some((_, None, _)) if rule.paused => return Ok(true),
        Some((_, Some(end), _)) if end >= until => return Ok(true),
        Some((since, Some(end), record)) if end > tx.now => (since, record.to_owned()),
        _ => (tx.now, Pausing::after_rate_limit().encoded()),
    };
    rule.paused = true;
    groups::store_rule(tx, queue, &group.stored(), &(rule.stored() + &Pause::stored(since, Some(until), &record)))?;
    groups::review(tx, queue, &group.stored())?;
    store(tx, queue, &PauseOf::Group(group), Some(until), "")?;
    queue.ends = true;
    tx.hint(queue.name, until);
    Ok(true)
}

/// Stores whether the queue is paused, and whether a pause in it ends automatically.
fn update_bits(tx: &Tx<'_>, queue: &Queue<'_>) -> rusqlite::Result<()> {
    const BITS: &str = "UPDATE queue_queues SET paused =
        ?2 + CASE WHEN EXISTS (SELECT 1 FROM queue_pauses WHERE queue = ?1 AND (until IS NOT NULL OR subject > x'74' AND subject < x'75')) THEN ?3 ELSE 0 END WHERE queue = ?1";
    let paused = if queue.paused { PAUSED } else { 0 };
    tx.sql(BITS)?.execute(params![queue.key, paused, ENDS]).map(drop)
}

/// When the next pause ends. While the queue is paused, only its own pause counts.
pub(crate) fn next_end(tx: &Tx<'_>, queue: &Queue<'_>) -> rusqlite::Result<Option<i64>> {
    const NEXT: &str = "SELECT min(until) FROM queue_pauses WHERE queue = ?1 AND until IS NOT NULL";
    const OF_QUEUE: &str = "SELECT until FROM queue_pauses WHERE queue = ?1 AND subject = ?2";
    if !queue.ends {
        return Ok(None);
    }
    let next: Option<Option<i64>> = if queue.paused {
        tx.sql(OF_QUEUE)?.query_row(params![queue.key, PauseOf::Queue.stored()], |row| row.get(0)).optional()?
    } else {
        Some(tx.sql(NEXT)?.query_row([queue.key], |row| row.get(0))?)
    };
    Ok(next.flatten())
}

/// The paused tasks.
pub(crate) fn tasks(tx: &Tx<'_>, queue: &Queue<'_>) -> rusqlite::Result<BTreeMap<Arc<str>, String>> {
    const TASKS: &str = "SELECT subject, record FROM queue_pauses WHERE queue = ?1 AND subject > x'74' AND subject < x'75'";
    let mut tasks = BTreeMap::new();
    if queue.ends {
        let mut stored = tx.sql(TASKS)?;
        let mut rows = stored.query([queue.key])?;
        while let Some(row) = rows.next()? {
            let (subject, record): (Vec<u8>, String) = (row.get(0)?, row.get(1)?);
            if let Some(PauseOf::Task(task)) = PauseOf::of_stored(&subject) {
                tasks.insert(task, record);
            }
        }
    }
    Ok(tasks)
}

/// Ends the pauses that have expired, and returns them.
pub(crate) fn resume_due(tx: &mut Tx<'_>, queue: &mut Queue<'_>) -> Result<Vec<PauseOf>, Failed> {
    const ENDED: &str = "SELECT subject FROM queue_pauses WHERE queue = ?1 AND until <= ?2 ORDER BY until, subject LIMIT ?3";
    if !queue.ends {
        return Ok(Vec::new());
    }
    let ended: Vec<Vec<u8>> = tx
        .sql(ENDED)?
        .query_map(params![queue.key, tx.now, Unsigned(RESUMED_AT_ONCE)], |row| row.get::<_, Vec<u8>>(0))?
        .collect::<rusqlite::Result<_>>()?;
    let mut resumed = Vec::new();
    for of in ended {
        match PauseOf::of_stored(&of) {
            Some(of) => {
                end_pause(tx, queue, &of)?;
                resumed.push(of);
            }
            // Another program has written this row.
            None => drop(tx.sql("DELETE FROM queue_pauses WHERE queue = ?1 AND subject = ?2")?.execute(params![queue.key, of])?),
        }
    }
    if !resumed.is_empty() {
        queue.ends = tx.queue(queue.name)?.is_some_and(|queue| queue.ends);
    }
    Ok(resumed)
}

/// Ends a pause, if there is one.
pub(crate) fn end_pause(tx: &mut Tx<'_>, queue: &mut Queue<'_>, of: &PauseOf) -> rusqlite::Result<()> {
    match of {
        PauseOf::Queue => {
            queue.paused = false;
            clear(tx, queue, of)?;
        }
        PauseOf::Group(group) => {
            let stored = groups::stored_text(tx, queue, &group.stored())?;
            if let Some((rule, _)) = stored.split_once('p') {
                groups::store_rule(tx, queue, &group.stored(), if rule == "::::" { "" } else { rule })?;
                groups::review(tx, queue, &group.stored())?;
            }
            clear(tx, queue, of)?;
        }
        PauseOf::Task(_) => clear(tx, queue, of)?,
    }
    tx.hint(queue.name, tx.now);
    Ok(())
}
