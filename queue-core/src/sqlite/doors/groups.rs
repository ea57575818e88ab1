//! Groups, and which of them may be served. The ready jobs of a group are in a separate line: the
//! states `LINED`, and `LINED_SUSPECT` for suspects, with the number of the line as rank.
//!
//! | table | a row |
//! |---|---|
//! | `queue_grouped` | a job with a group, while the job or its record exists |
//! | `queue_groups` | a group that has or had a line: its virtual start, whether it is eligible ([`ELIGIBLE`], [`ELIGIBLE_SUSPECT`]), and the job that blocks its line if it is ordered |
//! | `queue_holders` | an active job: the rows are the slots of its group, without a separate counter |
//! | `queue_rules` | the rules that operators have set: of a group, of all groups (`*`), or of plain jobs (`-`); and the declared rule of all groups (`+`) |
//! | `queue_virtual_times` | the virtual time of a queue, and the virtual start of its plain jobs |
//!
//! After each transition, [`review`] updates whether a group is eligible, which means that it has a
//! job that may start. A group with a suspect that may start is in doubt, too. The two are separate
//! because a claim takes at most one suspect: a search for other jobs does not read suspects.

use rusqlite::{OptionalExtension, ToSql, params, types::Value};

pub(crate) use super::rules::rule;
pub(crate) use super::rules::{store_rule, stored_rule, stored_text};
use super::{
    limits,
    row::{CHAINED, LINED, LINED_SUSPECT, READY, SUSPECT},
    virtual_time,
};
use crate::{
    address::JobId,
    broker::{GroupLine, GroupName, GroupOrder, GroupRule, HOLDERS_NAMED, NewJob, Pause},
    sqlite::connection::{
        schema::Feature,
        statement::sql,
        tx::{Failed, Queue, Tx},
        unsigned::Unsigned,
    },
};

/// A bit of `eligible`: the group has a job that may start, apart from suspects.
const ELIGIBLE: i64 = 1;

/// Another bit: the group has a suspect that may start if its limits have room.
const ELIGIBLE_SUSPECT: i64 = 2;

/// The numbers in a line grow and fall from here.
const MIDDLE: i64 = 1 << 52;

/// A row of `queue_groups`.
pub(super) struct Row {
    pub(super) line: i64,
    pub(super) eligible: i64,
    pub(super) front: Option<Vec<u8>>,
}

/// The stored group of a job.
pub(crate) fn of(tx: &Tx<'_>, queue: &Queue<'_>, id: &(impl ToSql + ?Sized)) -> rusqlite::Result<Option<Vec<u8>>> {
    const OF: &str = "SELECT name FROM queue_grouped WHERE queue = ?1 AND id = ?2";
    if !tx.may_have_groups() {
        return Ok(None);
    }
    tx.sql(OF)?.query_row(params![queue.key, id], |row| row.get::<_, Vec<u8>>(0)).optional()
}

/// The name of the group of a job.
pub(crate) fn name_of(tx: &Tx<'_>, queue: &Queue<'_>, id: &[u8]) -> rusqlite::Result<Option<GroupName>> {
    Ok(of(tx, queue, id)?.and_then(|name| GroupName::of_stored(&name)))
}

/// The virtual start of a group.
pub(super) fn start_of(tx: &Tx<'_>, queue: &Queue<'_>, name: &[u8]) -> rusqlite::Result<i64> {
    const START: &str = "SELECT start FROM queue_groups WHERE queue = ?1 AND name = ?2";
    Ok(tx.sql(START)?.query_row(params![queue.key, name], |row| row.get(0)).optional()?.unwrap_or_default())
}

pub(super) fn row(tx: &Tx<'_>, queue: &Queue<'_>, name: &[u8]) -> rusqlite::Result<Option<Row>> {
    const ROW: &str = "SELECT line, eligible, front FROM queue_groups WHERE queue = ?1 AND name = ?2";
    let read = |row: &rusqlite::Row<'_>| {
        let (line, eligible): (i64, i64) = (row.get(0)?, row.get(1)?);
        Ok(Row { line, eligible, front: row.get::<_, Option<Vec<u8>>>(2)? })
    };
    tx.sql(ROW)?.query_row(params![queue.key, name], read).optional()
}

/// The groups that are served next.
pub(crate) fn next(tx: &Tx<'_>, queue: &Queue<'_>, most: usize) -> rusqlite::Result<Vec<Vec<u8>>> {
    const NEXT: &str = "SELECT name FROM queue_groups WHERE queue = ?1 AND eligible & 1 ORDER BY start, name LIMIT ?2";
    if !tx.may_have_groups() {
        return Ok(Vec::new());
    }
    tx.sql(NEXT)?.query_map(params![queue.key, Unsigned(most)], |row| row.get::<_, Vec<u8>>(0))?.collect()
}

/// At most this number of groups with a ready job, eligible or not: the first ones by line, and for
/// jobs with limits the first ones by name.
pub(crate) fn with_ready_jobs(tx: &Tx<'_>, queue: &Queue<'_>, most: usize) -> rusqlite::Result<Vec<Vec<u8>>> {
    /// Some groups with jobs in their lines. The query searches for the next line that has a job,
    /// so other entries of the index cost nothing.
    /// ?1 queue, ?2 state (in the line of a group), ?3 limit.
    const GROUPS_LINED: &str = "WITH RECURSIVE lines (line) AS ( \
            SELECT min(rank) FROM queue_jobs WHERE queue = ?1 AND state = ?2 \
            UNION ALL SELECT (SELECT min(rank) FROM queue_jobs WHERE queue = ?1 AND state = ?2 AND rank > lines.line) FROM lines \
                WHERE lines.line IS NOT NULL \
            LIMIT ?3 \
        ) \
        SELECT groups.name FROM lines CROSS JOIN queue_groups AS groups ON groups.line = lines.line WHERE groups.queue = ?1";
    /// Some groups with jobs that have limits. The query searches for the next name.
    const GROUPS_CHAINED: &str = "WITH RECURSIVE names (name) AS ( \
            SELECT min(name) FROM queue_chains WHERE queue = ?1 \
            UNION ALL SELECT (SELECT min(name) FROM queue_chains WHERE queue = ?1 AND name > names.name) FROM names \
                WHERE names.name IS NOT NULL \
            LIMIT ?2 \
        ) \
        SELECT name FROM names WHERE name IS NOT NULL";
    let read = |row: &rusqlite::Row<'_>| row.get::<_, Vec<u8>>(0);
    let mut lined = tx.sql(GROUPS_LINED)?;
    let mut found: Vec<Vec<u8>> = lined.query_map(params![queue.key, LINED, Unsigned(most)], read)?.collect::<rusqlite::Result<_>>()?;
    let mut chained = tx.sql(GROUPS_CHAINED)?;
    found.extend(chained.query_map(params![queue.key, Unsigned(most)], read)?.collect::<rusqlite::Result<Vec<_>>>()?);
    found.sort();
    found.dedup();
    found.truncate(most);
    Ok(found)
}

/// The number of the line of a group.
pub(crate) fn line_of(tx: &Tx<'_>, queue: &Queue<'_>, name: &[u8]) -> rusqlite::Result<Option<i64>> {
    Ok(row(tx, queue, name)?.map(|row| row.line))
}

/// The first and the last place of the jobs of a priority in a line, except for the job that blocks
/// the line.
pub(crate) fn places_of(priority: i64) -> (i64, i64) {
    ((priority + 1) << 56, ((priority + 2) << 56) - 1)
}

/// The first jobs of a line in their order, suspects last.
pub(crate) fn line(tx: &Tx<'_>, queue: &Queue<'_>, name: &[u8], most: usize) -> rusqlite::Result<Vec<JobId>> {
    let Some(row) = row(tx, queue, name)? else { return Ok(Vec::new()) };
    let mut found = first_in_line(tx, queue, name, row.line, most)?;
    let mut suspects = tx.sql(sql!("groups_heads.sql"))?;
    let mut rows = suspects.query(params![queue.key, LINED_SUSPECT, row.line, i64::MIN, Unsigned(most - found.len())])?;
    while let Some(row) = rows.next()? {
        found.push(row.get::<_, Vec<u8>>(0)?);
    }
    Ok(found.iter().filter_map(|id| JobId::from_bytes(id).ok()).collect())
}

pub(crate) fn is_ordered(rule: GroupRule) -> bool {
    rule.order == Some(GroupOrder::Ordered)
}

/// Whether the jobs of a group run in order, one at a time.
pub(super) fn is_in_order(rule: GroupRule) -> bool {
    matches!(rule.order, Some(GroupOrder::Ordered | GroupOrder::SkipFailed))
}

/// The first jobs in the line of a group with or without limits, but no suspects.
pub(super) fn first_in_line(tx: &Tx<'_>, queue: &Queue<'_>, name: &[u8], line: i64, most: usize) -> rusqlite::Result<Vec<Vec<u8>>> {
    const FIRST: &str = "SELECT id FROM (
        SELECT * FROM (SELECT id, (pos >> 56) - 1 AS priority, pos & 0xffffffffffffff AS number FROM queue_jobs
            WHERE queue = ?1 AND state = ?3 AND rank = ?4 ORDER BY pos LIMIT ?6)
        UNION ALL SELECT job.id, chains.priority, job.pos FROM queue_chains AS chains
            CROSS JOIN queue_jobs AS job ON job.queue = ?1 AND job.state = ?5 AND job.rank = chains.chain WHERE chains.queue = ?1 AND chains.name = ?2
    ) ORDER BY priority, number LIMIT ?6";
    // Only the first job of each chain is read.
    const ONE: &str = "SELECT id FROM (
        SELECT * FROM (SELECT id, (pos >> 56) - 1 AS priority, pos & 0xffffffffffffff AS number FROM queue_jobs
            WHERE queue = ?1 AND state = ?3 AND rank = ?4 ORDER BY pos LIMIT 1)
        UNION ALL SELECT job.id, chains.priority, job.pos FROM queue_chains AS chains CROSS JOIN queue_jobs AS job
            ON job.queue = ?1 AND job.state = ?5 AND job.rank = chains.chain
            AND job.pos = (SELECT min(pos) FROM queue_jobs WHERE queue = ?1 AND state = ?5 AND rank = chains.chain)
            WHERE chains.queue = ?1 AND chains.name = ?2
    ) ORDER BY priority, number LIMIT ?6";
    let mut first = tx.sql(if most == 1 { ONE } else { FIRST })?;
    first.query_map(params![queue.key, name, LINED, line, CHAINED, Unsigned(most)], |row| row.get::<_, Vec<u8>>(0))?.collect()
}

/// The number of active jobs of a group.
pub(crate) fn running(tx: &Tx<'_>, queue: &Queue<'_>, name: &[u8]) -> rusqlite::Result<u64> {
    const RUNNING: &str = "SELECT count(*) FROM queue_holders WHERE queue = ?1 AND name = ?2";
    tx.sql(RUNNING)?.query_row(params![queue.key, name], |row| Unsigned::get(row, 0))
}

/// The number of jobs in a line.
pub(crate) fn depth(tx: &Tx<'_>, queue: &Queue<'_>, name: &[u8]) -> rusqlite::Result<u64> {
    const DEPTH: &str = "SELECT count(*) FROM queue_jobs WHERE queue = ?1 AND state = ?2 AND rank = ?3";
    let Some(row) = row(tx, queue, name)? else { return Ok(0) };
    let mut depth = 0;
    for state in [LINED, LINED_SUSPECT] {
        depth += tx.sql(DEPTH)?.query_row(params![queue.key, state, row.line], |row| Unsigned::<u64>::get(row, 0))?;
    }
    Ok(depth + limits::depth(tx, queue, name)?)
}

/// The number of jobs of a group that may still start.
pub(super) fn room(tx: &Tx<'_>, queue: &Queue<'_>, name: &[u8], rule: GroupRule) -> rusqlite::Result<u64> {
    Ok(match (rule.paused, rule.cap) {
        (true, _) => 0,
        (false, Some(cap)) => u64::from(cap).saturating_sub(running(tx, queue, name)?),
        (false, None) => u64::MAX,
    })
}

/// Whether no further job of its group may be stored.
pub(crate) fn is_full(tx: &Tx<'_>, queue: &Queue<'_>, job: &NewJob) -> rusqlite::Result<bool> {
    let Some(name) = job.group.as_ref().map(GroupName::stored) else { return Ok(false) };
    match rule(tx, queue, &name)?.max_size {
        Some(most) => Ok(depth(tx, queue, &name)? >= most),
        None => Ok(false),
    }
}

/// The state of a job's group: its cap, its running jobs and its line, and whether it is eligible.
/// `None`: the job has no group.
pub(crate) fn group_line(tx: &Tx<'_>, queue: &Queue<'_>, id: &[u8]) -> Result<Option<(GroupLine, bool)>, Failed> {
    const HOLDERS: &str = "SELECT id FROM queue_holders WHERE queue = ?1 AND name = ?2 LIMIT ?3";
    let Some(stored) = of(tx, queue, id)? else { return Ok(None) };
    let Some(name) = GroupName::of_stored(&stored) else { return Ok(None) };
    let (rule, row) = (rule(tx, queue, &stored)?, row(tx, queue, &stored)?);
    let mut line = GroupLine::new(name);
    (line.paused, line.cap, line.running) = (rule.paused, rule.cap, running(tx, queue, &stored)?);
    if line.paused {
        line.pause = Pause::of_rule(&stored_text(tx, queue, &stored)?);
    }
    if line.is_full() {
        let mut holders = tx.sql(HOLDERS)?;
        let holders = holders.query_map(params![queue.key, stored, Unsigned(HOLDERS_NAMED)], |row| row.get::<_, Vec<u8>>(0))?;
        line.holders = holders.map(|holder| Ok(JobId::from_bytes(&holder?)?)).collect::<Result<_, Failed>>()?;
    }
    let front = row.as_ref().and_then(|row| row.front.as_deref()).filter(|front| is_ordered(rule) && *front != id);
    line.blocked_by = front.and_then(|front| JobId::from_bytes(front).ok());
    Ok(Some((line, row.is_some_and(|row| row.eligible & ELIGIBLE != 0))))
}

/// The number of eligible groups.
pub(crate) fn eligible(tx: &Tx<'_>, queue: &Queue<'_>) -> rusqlite::Result<u64> {
    const COUNT_ELIGIBLE: &str = "SELECT count(*) FROM queue_groups WHERE queue = ?1 AND eligible & 1 AND name <> ?2";
    tx.sql(COUNT_ELIGIBLE)?.query_row(params![queue.key, limits::NO_GROUP], |row| Unsigned::get(row, 0))
}

/// Stores the group of a new job.
pub(super) fn store_group_of(tx: &mut Tx<'_>, queue: &Queue<'_>, job: &NewJob) -> rusqlite::Result<()> {
    const NOTE: &str = "INSERT OR REPLACE INTO queue_grouped (queue, id, name) VALUES (?1, ?2, ?3)";
    let Some(group) = limits::group_of(job) else { return Ok(()) };
    tx.note(Feature::Groups)?;
    tx.sql(NOTE)?.execute(params![queue.key, job.id.as_bytes(), group])?;
    limits::note(tx, queue, job)
}

/// Puts a stored job at a place in the line of its group. False: it has no group.
pub(super) fn push(tx: &mut Tx<'_>, queue: &Queue<'_>, id: &(impl ToSql + ?Sized), pos: i64) -> rusqlite::Result<bool> {
    /// Puts a job into the line of its group: among the suspects (12) if it has crashes, and
    /// otherwise by its priority (11), or before all others if it blocks the line.
    const READY_LINE: &str = "UPDATE queue_jobs SET state = 11 + (crashes > 0), rank = ?3, pos = CASE WHEN crashes > 0 \
            OR ?5 THEN 0 ELSE (priority + 1) << 56 END + ?4 \
        WHERE queue = ?1 AND id = ?2 RETURNING state";
    const MAKE: &str = "INSERT INTO queue_groups (queue, name) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    const IS_FRONT: &str = "SELECT ?1 = ?2";
    let Some(name) = of(tx, queue, id)? else { return Ok(false) };
    let found = match row(tx, queue, &name)? {
        Some(found) => found,
        None => {
            tx.sql(MAKE)?.execute(params![queue.key, name])?;
            row(tx, queue, &name)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?
        }
    };
    let holds = match &found.front {
        Some(front) => tx.sql(IS_FRONT)?.query_row(params![front, id], |row| row.get(0))? && is_ordered(rule(tx, queue, &name)?),
        None => false,
    };
    let number = MIDDLE.saturating_add(pos);
    let chained = match limits::of(tx, queue, id)? {
        Some(limited) => push_to_chain(tx, queue, id, &name, &limited, (number, holds))?,
        None => false,
    };
    let state = match chained {
        true => CHAINED,
        false => tx.sql(READY_LINE)?.query_row(params![queue.key, id, found.line, number, holds], |row| row.get(0))?,
    };
    let needs = if state == LINED_SUSPECT { ELIGIBLE_SUSPECT } else { ELIGIBLE };
    if holds || found.eligible & needs == 0 {
        review(tx, queue, &name)?;
    }
    Ok(true)
}

/// Puts a job with limits into its chain. False: it is a suspect, which is not in a chain.
fn push_to_chain(
    tx: &Tx<'_>,
    queue: &Queue<'_>,
    id: &(impl ToSql + ?Sized),
    name: &[u8],
    limited: &limits::Limited,
    (number, holds): (i64, bool),
) -> rusqlite::Result<bool> {
    const JOB: &str = "SELECT crashes, priority FROM queue_jobs WHERE queue = ?1 AND id = ?2";
    const PUSH: &str = "UPDATE queue_jobs SET state = ?3, rank = ?4, pos = ?5 WHERE queue = ?1 AND id = ?2";
    let (crashes, priority): (i64, i64) = tx.sql(JOB)?.query_row(params![queue.key, id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if crashes > 0 {
        return Ok(false);
    }
    let chain = limits::join(tx, queue, name, if holds { limits::FRONT } else { priority }, limited)?;
    tx.sql(PUSH)?.execute(params![queue.key, id, CHAINED, chain, number])?;
    Ok(true)
}

/// Whether a job is in a line and its limits permit to examine it. The result is the bit for an
/// eligible job or for a suspect.
fn is_in_line(tx: &Tx<'_>, queue: &Queue<'_>, id: &[u8]) -> rusqlite::Result<i64> {
    const STATE: &str = "SELECT state FROM queue_jobs WHERE queue = ?1 AND id = ?2";
    let state = tx.sql(STATE)?.query_row(params![queue.key, id], |row| row.get::<_, i64>(0)).optional()?;
    Ok(match state {
        Some(LINED) => ELIGIBLE,
        Some(LINED_SUSPECT) => ELIGIBLE_SUSPECT,
        _ if tx.may_have_limits() && limits::is_open(tx, queue, id)? => ELIGIBLE,
        _ => 0,
    })
}

/// The bits of a group: [`ELIGIBLE`], [`ELIGIBLE_SUSPECT`], both or none.
fn may_start(tx: &Tx<'_>, queue: &Queue<'_>, name: &[u8], row: &Row) -> rusqlite::Result<i64> {
    const ANY: &str = "SELECT EXISTS (SELECT 1 FROM queue_jobs WHERE queue = ?1 AND state = ?2 AND rank = ?4)
                       + 2 * EXISTS (SELECT 1 FROM queue_jobs WHERE queue = ?1 AND state = ?3 AND rank = ?4)";
    let rule = rule(tx, queue, name)?;
    if room(tx, queue, name, rule)? == 0 {
        return Ok(0);
    }
    if let Some(front) = row.front.as_ref().filter(|_| is_ordered(rule)) {
        return is_in_line(tx, queue, front);
    }
    let lined: i64 = tx.sql(ANY)?.query_row(params![queue.key, LINED, LINED_SUSPECT, row.line], |row| row.get(0))?;
    if tx.may_have_limits() && is_in_order(rule) {
        let first = first_in_line(tx, queue, name, row.line, 1)?.pop();
        return Ok(lined & ELIGIBLE_SUSPECT | first.map_or(Ok(0), |first| is_in_line(tx, queue, &first))?);
    }
    Ok(if limits::has_open(tx, queue, name)? { lined | ELIGIBLE } else { lined })
}

/// Recomputes whether a group is eligible.
pub(crate) fn review(tx: &mut Tx<'_>, queue: &Queue<'_>, name: &[u8]) -> rusqlite::Result<()> {
    const SET_ELIGIBLE: &str = "UPDATE queue_groups SET eligible = ?2, start = max(start, ?3) WHERE line = ?1";
    let Some(row) = row(tx, queue, name)? else { return Ok(()) };
    let may = may_start(tx, queue, name, &row)?;
    if may == row.eligible {
        return Ok(());
    }
    let becomes_eligible = may & !row.eligible != 0;
    // A group that was eligible keeps its start.
    let earliest = if becomes_eligible && row.eligible & may & ELIGIBLE == 0 {
        let weight = rule(tx, queue, name)?.weight.map_or(1, u64::from);
        virtual_time::next(tx, queue, weight)?
    } else {
        0
    };
    tx.sql(SET_ELIGIBLE)?.execute(params![row.line, may, earliest])?;
    if becomes_eligible {
        tx.hint(queue.name, tx.now);
    }
    Ok(())
}

/// A job has moved: an empty chain is removed, and its group is reviewed.
pub(super) fn review_group_of(tx: &mut Tx<'_>, queue: &Queue<'_>, id: &(impl ToSql + ?Sized)) -> rusqlite::Result<()> {
    let Some(name) = of(tx, queue, id)? else { return Ok(()) };
    if let Some(limited) = limits::of(tx, queue, id)? {
        limits::left(tx, queue, &name, &limited)?;
    }
    review(tx, queue, &name)
}

/// Releases the slot of a job that ran.
pub(crate) fn release_slot(tx: &mut Tx<'_>, queue: &Queue<'_>, id: &(impl ToSql + ?Sized)) -> rusqlite::Result<()> {
    let Some(name) = of(tx, queue, id)? else { return Ok(()) };
    limits::give_slots_back(tx, queue, id)?;
    if delete_slot(tx, queue, &name, id)? {
        review(tx, queue, &name)?;
    }
    Ok(())
}

fn delete_slot(tx: &Tx<'_>, queue: &Queue<'_>, name: &[u8], id: &(impl ToSql + ?Sized)) -> rusqlite::Result<bool> {
    const GIVE: &str = "DELETE FROM queue_holders WHERE queue = ?1 AND name = ?2 AND id = ?3";
    Ok(tx.sql(GIVE)?.execute(params![queue.key, name, id])? > 0)
}

/// Starts a job of a group: it occupies a slot, and may block the line.
pub(crate) fn start(tx: &Tx<'_>, queue: &Queue<'_>, name: &[u8], id: &(impl ToSql + ?Sized), rule: GroupRule) -> rusqlite::Result<()> {
    const TAKE: &str = "INSERT OR IGNORE INTO queue_holders (queue, name, id) VALUES (?1, ?2, ?3)";
    const HOLD: &str = "UPDATE queue_groups SET front = ?3 WHERE queue = ?1 AND name = ?2";
    tx.sql(TAKE)?.execute(params![queue.key, name, id])?;
    limits::start(tx, queue, id)?;
    if is_ordered(rule) {
        tx.sql(HOLD)?.execute(params![queue.key, name, id])?;
    }
    Ok(())
}

/// Unblocks the line that an ended job blocks. `gone`: the entry of its group is deleted as well.
pub(super) fn unblock(tx: &mut Tx<'_>, queue: &Queue<'_>, id: &(impl ToSql + ?Sized), is_deleted: bool) -> rusqlite::Result<()> {
    match of(tx, queue, id)? {
        Some(name) => unblock_line(tx, queue, id, &name, is_deleted),
        None => Ok(()),
    }
}

/// The same for an active job that has ended without a record. Its slot is released as well.
pub(super) fn release_slot_and_unblock(tx: &mut Tx<'_>, queue: &Queue<'_>, id: &[u8]) -> rusqlite::Result<()> {
    let Some(name) = of(tx, queue, id)? else { return Ok(()) };
    limits::give_slots_back(tx, queue, id)?;
    delete_slot(tx, queue, &name, id)?;
    unblock_line(tx, queue, id, &name, true)
}

fn unblock_line(tx: &mut Tx<'_>, queue: &Queue<'_>, id: &(impl ToSql + ?Sized), name: &[u8], is_deleted: bool) -> rusqlite::Result<()> {
    const FREE: &str = "UPDATE queue_groups SET front = NULL WHERE queue = ?1 AND name = ?2 AND front = ?3";
    const FORGET: &str = "DELETE FROM queue_grouped WHERE queue = ?1 AND id = ?2";
    tx.sql(FREE)?.execute(params![queue.key, name, id])?;
    if let Some(limited) = limits::of(tx, queue, id)? {
        limits::left(tx, queue, name, &limited)?;
    }
    if is_deleted {
        tx.sql(FORGET)?.execute(params![queue.key, id])?;
        limits::forget(tx, queue, id)?;
    }
    review(tx, queue, name)
}

/// Whether a job whose retry is due returns to the head of its line. It does if the order of its
/// group skips failures.
pub(super) fn goes_to_head(tx: &Tx<'_>, queue: &Queue<'_>, id: &Value) -> rusqlite::Result<bool> {
    match of(tx, queue, id)? {
        Some(name) => Ok(rule(tx, queue, &name)?.order == Some(GroupOrder::SkipFailed)),
        None => Ok(false),
    }
}

/// Removes at most `items` groups without remaining data. A group that has jobs but is not eligible
/// is kept, and skipped. For this reason the call examines ten times as many groups, and the next
/// sweep continues behind them. Returns how many it has removed, and whether more may be left.
pub(crate) fn prune(tx: &Tx<'_>, queue: &Queue<'_>, items: usize) -> Result<(usize, bool), Failed> {
    /// Groups that are not eligible and whose start the virtual time has passed, behind a line: the
    /// line, the start, and whether the group has a job in its line.
    const RESTED: &str = "SELECT line, start, EXISTS (SELECT 1 FROM queue_chains WHERE queue_chains.queue = ?1 \
            AND queue_chains.name = old.name) \
            OR EXISTS (SELECT 1 FROM queue_jobs WHERE queue = ?1 AND state = ?2 AND rank = old.line) \
            OR EXISTS (SELECT 1 FROM queue_jobs WHERE queue = ?1 AND state = ?3 AND rank = old.line) \
        FROM queue_groups AS old WHERE queue = ?1 AND eligible = 0 AND front IS NULL AND start <= ?5 AND (start, line) > (?6, ?7) \
        ORDER BY start, line LIMIT ?4";
    const WAITS: &str = "SELECT EXISTS (SELECT 1 FROM queue_jobs WHERE queue = ?1 AND state IN (?2, ?3, ?4, ?5, ?6))";
    const FORGET: &str = "DELETE FROM queue_groups WHERE line = ?1";
    const PLACE: &str = ".rested";
    // If no job waits, no group is ahead of another. The jobs of full and paused groups count as
    // waiting.
    let waits: bool = tx.sql(WAITS)?.query_row(params![queue.key, READY, SUSPECT, LINED, LINED_SUSPECT, CHAINED], |row| row.get(0))?;
    let upto = if waits { virtual_time::read(tx, queue)?.0 } else { i64::MAX };
    let place = tx.place(queue.key, PLACE)?;
    let number = |at: usize| place.as_ref()?.get(at..at + 8)?.try_into().ok().map(i64::from_be_bytes);
    let (start, line) = (number(0).unwrap_or(i64::MIN), number(8).unwrap_or(i64::MIN));
    let read = |row: &rusqlite::Row<'_>| {
        let (line, start, has_jobs): (i64, i64, _) = (row.get(0)?, row.get(1)?, row.get::<_, bool>(2)?);
        Ok((line, start, has_jobs))
    };
    let most = 10 * items;
    let inputs = params![queue.key, LINED, LINED_SUSPECT, Unsigned(most), upto, start, line];
    let looked: Vec<(i64, i64, bool)> = tx.sql(RESTED)?.query_map(inputs, read)?.collect::<rusqlite::Result<_>>()?;
    let (mut removed, mut last) = (0, None);
    for (line, start, has_jobs) in &looked {
        if removed == items {
            break;
        }
        last = Some((*start, *line));
        if !has_jobs {
            removed += tx.sql(FORGET)?.execute([line])?;
        }
    }
    let stopped = looked.len() == most || last != looked.last().map(|(line, start, _)| (*start, *line));
    let stored = last.filter(|_| stopped).map(|(start, line)| [start.to_be_bytes(), line.to_be_bytes()].concat());
    if stored.is_some() || place.is_some() {
        tx.store_position(queue.key, PLACE, stored.as_deref())?;
    }
    if !waits && !stopped {
        virtual_time::restart(tx, queue)?;
    }
    Ok((removed, stopped))
}
