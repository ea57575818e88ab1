//! Rotation of groups: selects the jobs of a claim, one at a time, from the group with the smallest
//! virtual start. Plain jobs count as another group, whose name is empty.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, VecDeque},
};

use rusqlite::{OptionalExtension, params, types::Value};

use super::{
    admit::Admission,
    chains::{self, Chains},
    groups,
    ledger::Ledger,
    limits::{self, NO_GROUP},
    ready::Waiting,
    row::{CHAINED, LINED, LINED_SUSPECT, READY},
    turns,
    virtual_time::{self, Served, charge, cost},
};
use crate::{
    broker::{GroupRule, LIMIT_STEP, MAX_ITEMS, RuleOf, SHARE_COUNTED, TICKETS, share_of_plain},
    sqlite::connection::{
        statement::sql,
        tx::{Failed, Queue, Tx},
        unsigned::Unsigned,
    },
};

/// A claim gets no job from a group whose chains have to be shut. It examines at most this number
/// of other groups instead.
const PASSED: usize = LIMIT_STEP + 500;

/// A group that may be served.
pub(super) struct Entry {
    pub(super) name: Vec<u8>,
    line: i64,
    rule: GroupRule,
    cost: i64,
    room: u64,
    /// The start of its next job.
    next_start: i64,
    /// The job that blocks its line.
    pub(super) holder: Option<Vec<u8>>,
    /// Its jobs with limits.
    chains: Chains,
    /// The jobs at the head of its line that were read, each with its place, and the place of the
    /// last one.
    heads: VecDeque<(Value, i64)>,
    behind: i64,
    /// Whether the line has no further jobs.
    whole: bool,
    asked: usize,
}

/// The picks of a claim.
#[derive(Default)]
struct Picks {
    plain: Vec<i64>,
    plain_cost: i64,
    /// The place of the group among the entries, the job, and the start.
    grouped: Vec<(usize, Value, i64)>,
    entries: Vec<Entry>,
    ledger: Ledger,
}

/// A waiting job in the line of its group, as `Waiting` reads it.
/// ?1 queue, ?2 id, ?3 state (in the line of a group).
const GROUPS_WAITING: &str = "SELECT id, envelope, attempts, crashes, snoozes FROM queue_jobs WHERE queue = ?1 AND id = ?2 AND state = ?3";

/// Takes jobs of the line and of groups in rotation. False: no group is eligible, and no job was
/// taken.
pub(crate) fn take(tx: &mut Tx<'_>, queue: &Queue<'_>, admission: &mut Admission, ledger: Ledger) -> Result<bool, Failed> {
    const ANY: &str = "SELECT EXISTS (SELECT 1 FROM queue_groups WHERE queue = ?1 AND eligible & 1)";
    if !tx.may_have_groups() || !tx.sql(ANY)?.query_row([queue.key], |row| row.get(0))? {
        return Ok(false);
    }
    let mut picks = choose(tx, queue, admission.room(), ledger)?;
    admission.examined += picks.entries.len();
    let before = admission.room();
    admission.take(tx, queue, READY, picks.plain.len())?;
    let mut served = Served::default();
    if let Some(start) = (before - admission.room()).checked_sub(1).and_then(|last| picks.plain.get(last)) {
        served.serve_plain(*start, start + picks.plain_cost);
    }
    let mut taken = 0;
    for (entry, id, start) in &picks.grouped {
        let entry = &picks.entries[*entry];
        let waiting = tx.sql(GROUPS_WAITING)?.query_row(params![queue.key, id, LINED], Waiting::read).optional()?;
        let waiting = match waiting {
            None if tx.may_have_limits() => tx.sql(GROUPS_WAITING)?.query_row(params![queue.key, id, CHAINED], Waiting::read).optional()?,
            waiting => waiting,
        };
        if let Some(waiting) = waiting {
            if !admission.take_one(tx, queue, waiting)? {
                break;
            }
            groups::start(tx, queue, &entry.name, id, entry.rule)?;
            if entry.name == NO_GROUP {
                served.serve_plain(*start, start + picks.plain_cost);
            } else {
                charge(tx, entry.line, *start, entry.cost)?;
                served.serve_group(*start);
            }
        }
        taken += 1;
    }
    served.write(tx, queue)?;
    if tx.may_have_limits() {
        settle(tx, queue, &mut picks, taken)?;
    }
    for entry in &picks.entries {
        groups::review(tx, queue, &entry.name)?;
    }
    Ok(true)
}

/// Refunds the slots and charges of picked jobs that were not taken. Their chains stay open or are
/// shut, in the order of their last picks.
fn settle(tx: &mut Tx<'_>, queue: &Queue<'_>, picks: &mut Picks, taken: usize) -> Result<(), Failed> {
    let mut left: BTreeMap<i64, usize> = BTreeMap::new();
    for (_, id, _) in &picks.grouped[taken..] {
        if let Some(limited) = limits::of(tx, queue, id)? {
            if let Some(chain) = limits::chain_of(tx, queue, id)? {
                *left.entry(chain).or_default() += 1;
            }
            picks.ledger.take(tx, queue, &limited, true)?;
            for key in &limited.keys {
                limits::recheck_key(tx, queue, key)?;
            }
        }
    }
    let mut touched: Vec<_> = picks.entries.iter().flat_map(|entry| entry.chains.touched().map(move |of| (of, entry.next_start))).collect();
    touched.sort_unstable();
    let mut served = Vec::new();
    for ((_, chain, picks_of_it), start) in touched {
        let stays = left.get(&chain) == Some(&picks_of_it);
        if let Some((name, keys)) = if stays { None } else { turns::waited(tx, chain, TICKETS)? } {
            served.push((name, keys, start));
        }
        picks.ledger.settle(tx, queue, chain, start, stays)?;
    }
    for (name, keys, start) in served {
        keys.iter().try_for_each(|key| turns::served(tx, queue, key, &name, start))?;
    }
    picks.ledger.write(tx, queue)?;
    Ok(picks.ledger.tidy(tx, queue)?)
}

/// The same in a file with limits. It ends when the claim is complete, or when no other job can
/// start.
pub(crate) fn take_limited(tx: &mut Tx<'_>, queue: &Queue<'_>, admission: &mut Admission) -> Result<(), Failed> {
    let mut passed = 0;
    for _ in 0..5 {
        let before = admission.room();
        let mut ledger = Ledger::default();
        let opened = ledger.open_some(tx, queue, before, &mut passed)?;
        ledger.write(tx, queue)?;
        admission.examined += opened.len();
        for name in &opened {
            groups::review(tx, queue, name)?;
        }
        if !take(tx, queue, admission, ledger)? {
            admission.take(tx, queue, READY, MAX_ITEMS)?;
        }
        if !admission.has_room() || opened.is_empty() && admission.room() == before {
            break;
        }
    }
    Ok(())
}

/// Takes a suspect from the line of a group.
pub(crate) fn take_suspect(tx: &mut Tx<'_>, queue: &Queue<'_>, admission: &mut Admission) -> Result<(), Failed> {
    let Some(Suspect { id, name, start }) = next_suspect(tx, queue, true)? else { return Ok(()) };
    let waiting = tx.sql(GROUPS_WAITING)?.query_row(params![queue.key, id, LINED_SUSPECT], Waiting::read).optional()?;
    let (Some(waiting), Some(row)) = (waiting, groups::row(tx, queue, &name)?) else { return Ok(()) };
    if admission.take_one(tx, queue, waiting)? {
        let rule = groups::rule(tx, queue, &name)?;
        if let Some(limited) = limits::of(tx, queue, &id)? {
            let mut ledger = Ledger::default();
            ledger.take(tx, queue, &limited, false)?;
            ledger.write(tx, queue)?;
        }
        groups::start(tx, queue, &name, &id, rule)?;
        // It is served out of order, and its group is charged for it. Virtual time does not
        // advance.
        charge(tx, row.line, start, cost(rule.weight.map_or(1, u64::from)))?;
        groups::review(tx, queue, &name)?;
    }
    Ok(())
}

/// A suspect that may start, its group, and the start of the group.
struct Suspect {
    id: Value,
    name: Vec<u8>,
    start: i64,
}

/// The place at which a search for suspects stopped: the start of the group, the place in its line,
/// and the group.
fn stored_place(start: i64, pos: i64, name: &[u8]) -> Vec<u8> {
    [&start.to_be_bytes()[..], &pos.to_be_bytes()[..], name].concat()
}

/// The suspects after a place, in groups with one that may start, by the start of the group. Each
/// with the job that blocks the line of its group.
/// ?1 queue, ?2 state (suspect in the line of a group), ?3 start, ?4 group, ?5 place in its line,
/// ?6 limit.
pub(super) const GROUPS_SUSPECT: &str = "SELECT job.id, groups.name, groups.start, groups.front, job.pos FROM queue_groups AS groups \
    CROSS JOIN queue_jobs AS job ON job.queue = ?1 AND job.state = ?2 AND job.rank = groups.line \
    WHERE groups.queue = ?1 AND groups.eligible & 2 AND (groups.start, groups.name) >= (?3, ?4) \
    AND (groups.start > ?3 OR groups.name > ?4 OR job.pos > ?5) \
    ORDER BY groups.start, groups.name, job.pos LIMIT ?6";

/// The first suspect that no limit blocks, of the group with the smallest start. Only groups with a
/// suspect that may start are examined, and at most [`LIMIT_STEP`] suspects. If limits block all of
/// these, the next search that `resumes` continues after them. A search that does not resume begins
/// with the first group.
fn next_suspect(tx: &Tx<'_>, queue: &Queue<'_>, resumes: bool) -> Result<Option<Suspect>, Failed> {
    const ANY: &str = "SELECT EXISTS (SELECT 1 FROM queue_groups WHERE queue = ?1 AND eligible & 2)";
    const PLACE: &str = ".doubted";
    if !tx.may_have_groups() || !tx.sql(ANY)?.query_row([queue.key], |row| row.get(0))? {
        return Ok(None);
    }
    let place = if resumes { tx.place(queue.key, PLACE)? } else { None };
    let number = |at: usize| place.as_ref()?.get(at..at + 8)?.try_into().ok().map(i64::from_be_bytes);
    let (start, pos) = (number(0).unwrap_or(i64::MIN), number(8).unwrap_or(i64::MIN));
    let name = place.as_ref().and_then(|place| place.get(16..)).unwrap_or_default();
    let mut suspects = tx.sql(GROUPS_SUSPECT)?;
    let mut rows = suspects.query(params![queue.key, LINED_SUSPECT, start, name, pos, Unsigned(LIMIT_STEP + 1)])?;
    let (mut ledger, mut looked, mut last, mut stopped, mut found) = (Ledger::default(), 0, Vec::new(), false, None);
    while let Some(row) = rows.next()? {
        if looked == LIMIT_STEP {
            stopped = true;
            break;
        }
        looked += 1;
        let (id, name, start, pos): (_, Vec<u8>, i64, i64) = (row.get::<_, Value>(0)?, row.get(1)?, row.get(2)?, row.get(4)?);
        let front = row.get::<_, Option<Vec<u8>>>(3)?;
        let is_other = front.is_some_and(|front| id != Value::Blob(front));
        let may = !is_other || !groups::is_ordered(groups::rule(tx, queue, &name)?);
        let is_open = match limits::of(tx, queue, &id)? {
            Some(limited) => ledger.blocker(tx, queue, &limited)?.is_none(),
            None => true,
        };
        last = stored_place(start, pos, &name);
        if may && is_open {
            found = Some(Suspect { id, name, start });
            break;
        }
    }
    if found.is_none() {
        queue.doubted.set(Some(stopped));
    }
    if resumes && (stopped || place.is_some()) {
        tx.store_position(queue.key, PLACE, stopped.then_some(&last))?;
    }
    Ok(found)
}

/// Whether a suspect of a group waits, or may wait, because a search that stopped half-way has not
/// examined all.
pub(crate) fn suspects_wait(tx: &Tx<'_>, queue: &Queue<'_>) -> Result<bool, Failed> {
    // A search of this turn that was complete and found no suspect is not repeated.
    let found = queue.doubted.get().is_none() && next_suspect(tx, queue, false)?.is_some();
    Ok(found || queue.doubted.get() == Some(true))
}

/// Whether a group waits that has a job for a lane without suspects.
pub(crate) fn waits(tx: &Tx<'_>, queue: &Queue<'_>) -> Result<bool, Failed> {
    const HAS_ELIGIBLE: &str = "SELECT EXISTS (SELECT 1 FROM queue_groups WHERE queue = ?1 AND eligible & 1)";
    Ok(tx.may_have_groups()
        && (tx.sql(HAS_ELIGIBLE)?.query_row([queue.key], |row| row.get(0))? || tx.may_have_limits() && limits::waits(tx, queue)?))
}

fn choose(tx: &mut Tx<'_>, queue: &Queue<'_>, jobs: usize, ledger: Ledger) -> Result<Picks, Failed> {
    let mut last = (i64::MIN, Vec::new());
    let groups_next = eligible_after(tx, queue, jobs, &mut last)?;
    let (mut looked, mut others) = (groups_next.len(), VecDeque::new());
    let mut picks = Picks { ledger, ..Picks::default() };
    // Plain jobs without limits.
    let mut plain_left = count(tx, queue, READY, MAX_ITEMS as u64)?;
    // The smallest start comes first. If starts are equal, the name decides; plain jobs have an
    // empty name.
    let mut order: BinaryHeap<Reverse<(i64, Vec<u8>, usize)>> = BinaryHeap::new();
    let asked = jobs.div_ceil(groups_next.len().max(1));
    let mut limited = None;
    for (name, start) in groups_next {
        order.push(Reverse((start, name.clone(), picks.entries.len())));
        picks.entries.push(entry(tx, queue, name, asked)?);
    }
    if tx.may_have_limits() && limits::has_open(tx, queue, NO_GROUP)? {
        limited = Some(picks.entries.len());
        picks.entries.push(entry(tx, queue, NO_GROUP.to_vec(), asked)?);
    }
    let mut lists = chains::Lists::of(tx, queue, limited.is_some())?;
    if plain_left > 0 || limited.is_some() {
        let weight = match groups::stored_rule(tx, queue, &RuleOf::Plain.stored())?.weight {
            Some(weight) => u64::from(weight),
            None => share(tx, queue, plain_left)?,
        };
        picks.plain_cost = cost(weight);
        let (now, plain) = virtual_time::read(tx, queue)?;
        order.push(Reverse((now.max(plain), Vec::new(), usize::MAX)));
    }
    while picks.plain.len() + picks.grouped.len() < jobs {
        let Some(Reverse((start, name, at))) = order.pop() else { break };
        let Some(entry) = picks.entries.get_mut(at) else {
            if let Some(at) = limited {
                let share = chains::Share { name: NO_GROUP, start, cost: picks.plain_cost };
                match lists.next(tx, queue, &mut picks.entries[at].chains, &mut picks.ledger, share)? {
                    Some(chains::Plain::Limited(id)) => picks.grouped.push((at, id, start)),
                    Some(chains::Plain::Free) => picks.plain.push(start),
                    None => continue,
                }
                picks.entries[at].next_start = start + picks.plain_cost;
                order.push(Reverse((start + picks.plain_cost, name, usize::MAX)));
                continue;
            }
            picks.plain.push(start);
            plain_left -= 1;
            if plain_left > 0 {
                order.push(Reverse((start + picks.plain_cost, name, at)));
            }
            continue;
        };
        if let Some(id) = next(tx, queue, entry, &mut picks.ledger, start)? {
            let goes_on = entry.room > 0 && (tx.may_have_limits() || !entry.heads.is_empty());
            entry.next_start = start + entry.cost;
            picks.grouped.push((at, id, start));
            if goes_on {
                order.push(Reverse((start + picks.entries[at].cost, name, at)));
            }
        } else if tx.may_have_limits() && looked < jobs + PASSED {
            if others.is_empty() {
                others.extend(eligible_after(tx, queue, LIMIT_STEP, &mut last)?);
            }
            if let Some((name, start)) = others.pop_front() {
                looked += 1;
                order.push(Reverse((start, name.clone(), picks.entries.len())));
                picks.entries.push(self::entry(tx, queue, name, asked)?);
            }
        }
    }
    if tx.may_have_limits() {
        // Groups without picks are kept too, because their chains may have been shut.
        return Ok(picks);
    }
    let mut touched = vec![false; picks.entries.len()];
    picks.grouped.iter().for_each(|(at, ..)| touched[*at] = true);
    let mut kept = vec![0; touched.len()];
    let mut entries = Vec::new();
    for (at, entry) in std::mem::take(&mut picks.entries).into_iter().enumerate() {
        if touched[at] {
            kept[at] = entries.len();
            entries.push(entry);
        }
    }
    picks.entries = entries;
    picks.grouped.iter_mut().for_each(|(at, ..)| *at = kept[*at]);
    Ok(picks)
}

/// The next eligible groups by start, with their starts. `last`: the start and the name of the last
/// one that was read.
fn eligible_after(tx: &Tx<'_>, queue: &Queue<'_>, most: usize, last: &mut (i64, Vec<u8>)) -> rusqlite::Result<Vec<(Vec<u8>, i64)>> {
    const NEXT_ELIGIBLE: &str = "SELECT name, start FROM queue_groups
        WHERE queue = ?1 AND eligible & 1 AND (start, name) > (?3, ?4) AND name <> ?5 ORDER BY start, name LIMIT ?2";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, i64>(1)?));
    let mut groups_next = tx.sql(NEXT_ELIGIBLE)?;
    let found =
        groups_next.query_map(params![queue.key, Unsigned(most), last.0, last.1, NO_GROUP], read)?.collect::<rusqlite::Result<Vec<_>>>()?;
    if let Some((name, start)) = found.last() {
        *last = (*start, name.clone());
    }
    Ok(found)
}

fn entry(tx: &Tx<'_>, queue: &Queue<'_>, name: Vec<u8>, asked: usize) -> Result<Entry, Failed> {
    let rule = groups::rule(tx, queue, &name)?;
    let row = groups::row(tx, queue, &name)?;
    let mut holder = row.as_ref().and_then(|row| row.front.clone()).filter(|_| groups::is_ordered(rule));
    if holder.is_none() && tx.may_have_limits() && groups::is_in_order(rule) {
        holder = groups::first_in_line(tx, queue, &name, row.as_ref().map_or(0, |row| row.line), 1)?.pop();
    }
    let line = row.map_or(0, |row| row.line);
    let room = groups::room(tx, queue, &name, rule)?;
    let heads: VecDeque<(Value, i64)> = match &holder {
        // A suspect is claimed separately.
        Some(holder) => tx
            .sql("SELECT id FROM queue_jobs WHERE queue = ?1 AND id = ?2 AND state = ?3")?
            .query_map(params![queue.key, holder, LINED], |row| Ok((row.get(0)?, 0)))?
            .collect::<rusqlite::Result<_>>()?,
        None => VecDeque::new(),
    };
    let cost = cost(rule.weight.map_or(1, u64::from));
    let whole = holder.is_some();
    Ok(Entry { name, line, rule, cost, room, next_start: 0, holder, chains: Chains::new(asked), heads, behind: i64::MIN, whole, asked })
}

/// The next job of an eligible group: from its open chains, and from its jobs without limits, in
/// rotation.
fn next(tx: &mut Tx<'_>, queue: &Queue<'_>, entry: &mut Entry, ledger: &mut Ledger, start: i64) -> Result<Option<Value>, Failed> {
    if !tx.may_have_limits() {
        return free(tx, queue, entry);
    }
    if entry.room == 0 {
        return Ok(None);
    }
    // The upper bits of a place are one more than the priority.
    refill(tx, queue, entry)?;
    let priority = entry.heads.front().map(|(_, pos)| (pos >> 56) - 1);
    let holder = entry.holder.clone();
    let share = chains::Share { name: &entry.name, start, cost: entry.cost };
    let limited = entry.chains.next(tx, queue, ledger, share, holder.as_deref(), priority)?;
    entry.room -= u64::from(limited.is_some());
    match limited {
        Some(id) => Ok(Some(id)),
        None => free(tx, queue, entry),
    }
}

/// The next job without limits of a group. One more than needed is read, to find out whether the
/// group has further ready jobs.
fn free(tx: &Tx<'_>, queue: &Queue<'_>, entry: &mut Entry) -> Result<Option<Value>, Failed> {
    refill(tx, queue, entry)?;
    if entry.room == 0 {
        return Ok(None);
    }
    let next = entry.heads.pop_front();
    entry.room -= u64::from(next.is_some());
    Ok(next.map(|(id, _)| id))
}

fn refill(tx: &Tx<'_>, queue: &Queue<'_>, entry: &mut Entry) -> Result<(), Failed> {
    if !entry.whole && entry.heads.len() <= 1 {
        let mut heads = tx.sql(sql!("groups_heads.sql"))?;
        let mut rows = heads.query(params![queue.key, LINED, entry.line, entry.behind, Unsigned(entry.asked + 1)])?;
        let before = entry.heads.len();
        while let Some(row) = rows.next()? {
            entry.behind = row.get::<_, i64>(1)?;
            entry.heads.push_back((row.get(0)?, entry.behind));
        }
        entry.whole = entry.heads.len() - before <= entry.asked;
        entry.asked = (4 * entry.asked).min(MAX_ITEMS);
    }
    Ok(())
}

/// The weight of plain jobs: their share of the waiting jobs, with and without limits.
fn share(tx: &Tx<'_>, queue: &Queue<'_>, free: u64) -> Result<u64, Failed> {
    const GROUPS: &str = "SELECT count(*) FROM (SELECT 1 FROM queue_groups WHERE queue = ?1 AND eligible & 1 AND name <> ?3 LIMIT ?2)";
    let groups: u64 = tx.sql(GROUPS)?.query_row(params![queue.key, Unsigned(SHARE_COUNTED), NO_GROUP], |row| Unsigned::get(row, 0))?;
    let mut grouped = count(tx, queue, LINED, SHARE_COUNTED)? + count(tx, queue, LINED_SUSPECT, SHARE_COUNTED)?;
    let mut plain = free;
    if tx.may_have_limits() {
        plain += limits::count(tx, queue, true, SHARE_COUNTED)?;
        grouped += limits::count(tx, queue, false, SHARE_COUNTED)?;
    }
    Ok(share_of_plain(groups, plain, grouped))
}

/// The number of jobs in a state, up to a limit.
fn count(tx: &Tx<'_>, queue: &Queue<'_>, state: i64, most: u64) -> rusqlite::Result<u64> {
    const COUNT: &str = "SELECT count(*) FROM (SELECT 1 FROM queue_jobs WHERE queue = ?1 AND state = ?2 LIMIT ?3)";
    tx.sql(COUNT)?.query_row(params![queue.key, state, Unsigned(most)], |row| Unsigned::get(row, 0))
}
