//! Pauses a queue, a group or a task: it accepts jobs, but no job starts.

use rusqlite::params;

use crate::{
    broker::{Due, GROUP_RULES, GroupRule, PAUSED_TASKS, Pause, PauseOf, Pauses, Pausing, SetPause, StoredPause},
    sqlite::{
        connection::{
            schema::Feature,
            tx::{Failed, Queue, Tx},
            unsigned::Unsigned,
        },
        doors::{groups, pauses},
    },
};

pub(crate) fn set_pause(tx: &mut Tx<'_>, request: &SetPause) -> Result<(), Failed> {
    let mut queue = tx.queue_or_create(&request.queue)?;
    let Some(pausing) = &request.pause else { return Ok(pauses::end_pause(tx, &mut queue, &request.of)?) };
    let until = match pausing.until {
        Some(Due::AtMs(at)) => Some(at),
        Some(Due::After(time)) => Some(tx.due_after(time)),
        _ => None,
    };
    if until.is_some_and(|until| until <= tx.now) {
        return Err(request.past().into());
    }
    match &request.of {
        PauseOf::Queue => {
            let stored = pauses::record(tx, &queue, &request.of)?;
            let since = Pause::since_of_stored(&stored, tx.now).filter(|_| queue.paused).unwrap_or(tx.now);
            queue.paused = true;
            pauses::store(tx, &queue, &request.of, until, &Pause::stored(since, until, &pausing.encoded()))?;
        }
        PauseOf::Group(group) => pause_group(tx, &queue, &group.stored(), request, until)?,
        PauseOf::Task(task) => {
            let tasks = pauses::tasks(tx, &queue)?;
            let before = tasks.get(task);
            if before.is_none() && tasks.len() >= PAUSED_TASKS {
                return Err(request.too_many().into());
            }
            let since = before.and_then(|record| Pause::since_of_stored(record, tx.now)).unwrap_or(tx.now);
            pauses::store(tx, &queue, &request.of, until, &Pause::stored(since, until, &pausing.encoded()))?;
        }
    }
    if let Some(until) = until {
        tx.hint(queue.name, until);
    }
    Ok(())
}

fn pause_group(tx: &mut Tx<'_>, queue: &Queue<'_>, group: &[u8], request: &SetPause, until: Option<i64>) -> Result<(), Failed> {
    const RULES: &str = "SELECT count(*) FROM queue_rules WHERE queue = ?1";
    tx.note(Feature::Groups)?;
    let stored = groups::stored_text(tx, queue, group)?;
    let rules: usize = tx.sql(RULES)?.query_row(params![queue.key], |row| Unsigned::get(row, 0))?;
    if stored.is_empty() && rules >= GROUP_RULES {
        return Err(request.too_many().into());
    }
    let mut rule = GroupRule::of_stored(&stored);
    let before = GroupRule::reason_of_stored(&stored).and_then(|record| Pause::since_of_stored(&record, tx.now));
    rule.paused = true;
    let record = request.pause.as_ref().map(Pausing::encoded).unwrap_or_default();
    let pause = Pause::stored(before.unwrap_or(tx.now), until, &record);
    groups::store_rule(tx, queue, group, &(rule.stored() + &pause))?;
    groups::review(tx, queue, group)?;
    match until {
        Some(until) => pauses::store(tx, queue, &request.of, Some(until), "")?,
        None => pauses::clear(tx, queue, &request.of)?,
    }
    Ok(())
}

pub(crate) fn pauses(tx: &mut Tx<'_>, queue: &str) -> Result<Pauses, Failed> {
    const PARKED: &str = "SELECT (SELECT count(*) FROM queue_parked WHERE queue = ?1 AND task = ?2) + (SELECT count(*) FROM queue_parked WHERE queue = ?1 AND task > ?3 AND task < ?4)";
    let Some(queue) = tx.queue(queue)? else { return Ok(Pauses::new(tx.now, Vec::new())) };
    let mut all = Vec::new();
    if queue.paused {
        let record = pauses::record(tx, &queue, &PauseOf::Queue)?;
        all.push(StoredPause::new(PauseOf::Queue, Pause::of_stored(&record)));
    }
    for (task, record) in pauses::tasks(tx, &queue)? {
        let (from, to) = (format!("{task}\u{1}"), format!("{task}\u{2}"));
        let parked = tx.sql(PARKED)?.query_row(params![queue.key, task, from, to], |row| Unsigned::get(row, 0))?;
        let mut stored = StoredPause::new(PauseOf::Task(task), Pause::of_stored(&record));
        stored.parked = parked;
        all.push(stored);
    }
    Ok(Pauses::new(tx.now, all))
}
