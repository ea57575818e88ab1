//! Pages of the jobs of a state, in the order in which they will start or have ended. They change
//! nothing.
//!
//! A page ends with its last job, and the next page begins after that job. For this reason a page
//! in the middle of a million jobs costs as much as the first page. The place of a job is a number
//! with the highest bit set, which encodes the position of the job in the index:
//!
//! | state | bits |
//! |---|---|
//! | `ready` | 3: 0 for suspects, or one more than the priority; 60: `pos` plus an offset that makes it positive |
//! | `ready`, of groups | 3: 5, or 6 for jobs with limits, or 7 for suspects; 60: the number of such jobs before the place, whose entries in the index are skipped |
//! | states in the order of a time | 42: `pos` in milliseconds; 21: the number of jobs of this time before the place |
//!
//! A place without this bit is a number of jobs to skip: only their entries in the index are read.

use rusqlite::{Row, params};

use super::row::{self, ACTIVE, CHAINED, LINED, LINED_SUSPECT, READY, SUSPECT};
use crate::{
    broker::{JobState, LAST, Priority},
    sqlite::connection::{
        tx::{Failed, Queue, Tx},
        unsigned::Unsigned,
    },
};

const BEHIND: u64 = 1 << 63;

/// Makes the `pos` of a line positive.
const BIAS: i64 = 1 << 59;

/// Bits of the number of jobs of one time, and the last time that can be represented.
const TIES: u32 = 21;
const LAST_TIME: i64 = (1 << 42) - 1;

/// A run of jobs in the order of `pos`: state and rank.
type Run = (i64, i64);

/// Jobs of a page, and where the next page begins.
type Jobs<T> = (Vec<T>, Option<u64>);

/// The jobs of a state from a place on, at most `limit`; of `ready`, suspects first.
pub(crate) fn page<T>(
    tx: &Tx<'_>,
    queue: &Queue<'_>,
    state: JobState,
    from: u64,
    limit: usize,
    mut read: impl FnMut(&Row<'_>) -> T,
) -> Result<Jobs<T>, Failed> {
    match state {
        JobState::Active => read_active(tx, queue, from, limit, read),
        _ if from == LAST => read_last(tx, queue, &runs(state), limit, read).map(|jobs| (jobs, None)),
        JobState::Ready => read_line(tx, queue, from, limit, read),
        _ => {
            let run = (row::number(state), 0);
            let (time, ties) = if from & BEHIND == 0 { (i64::MIN, from) } else { time_of(from) };
            let (mut found, mut next, mut times) = (Vec::new(), None, Vec::new());
            read_run(tx, queue, run, limit + 1, ties, time, |row, pos| {
                if found.len() == limit {
                    next = Some(());
                    return;
                }
                found.push(read(row));
                times.push(pos.clamp(0, LAST_TIME));
            })?;
            let next = next.and(times.last()).map(|last| {
                let here = times.iter().filter(|time| *time == last).count() as u64;
                place_of_time(*last, if *last == time { ties + here } else { here })
            });
            Ok((found, next))
        }
    }
}

/// `ready`: the suspects, then the priorities.
fn read_line<T>(tx: &Tx<'_>, queue: &Queue<'_>, from: u64, limit: usize, mut read: impl FnMut(&Row<'_>) -> T) -> Result<Jobs<T>, Failed> {
    /// Jobs with limits, chain by chain, as `people/record.rs` reads them. Of the chains with the
    /// same group and keys, that of the highest priority comes first.
    const READY_PAGE_CHAINS: &str = "SELECT job.id, job.state, job.envelope, job.priority, job.attempts, job.crashes, job.snoozes, job.pos, \
            job.ended, job.note, job.rank, job.returns, job.returned, job.failures \
        FROM queue_chains AS chains CROSS JOIN queue_jobs AS job ON job.queue = ?1 AND job.state = ?4 AND job.rank = chains.chain \
        WHERE chains.queue = ?1 ORDER BY chains.name, chains.keys, chains.priority, job.pos LIMIT ?2 OFFSET ?3";
    /// Jobs in the lines of groups, group by group, as `people/record.rs` reads them.
    const GROUPS_PAGE: &str = "SELECT job.id, job.state, job.envelope, job.priority, job.attempts, job.crashes, job.snoozes, job.pos, \
            job.ended, job.note, job.rank, job.returns, job.returned, job.failures \
        FROM queue_groups AS groups CROSS JOIN queue_jobs AS job ON job.queue = ?1 AND job.state = ?4 AND job.rank = groups.line \
        WHERE groups.queue = ?1 ORDER BY groups.name, job.pos LIMIT ?2 OFFSET ?3";
    let (first, behind, mut skip) = if from & BEHIND == 0 { (0, None, from) } else { place_of(from) };
    let (mut found, mut last, mut more) = (Vec::new(), None, false);
    for (n, run) in runs(JobState::Ready).into_iter().enumerate().skip(first) {
        let begin = behind.filter(|_| n == first).map_or(i64::MIN, |behind: i64| behind.saturating_add(1));
        let room = limit + 1 - found.len() - usize::from(more);
        let before = found.len();
        read_run(tx, queue, run, room, skip, begin, |row, pos| {
            if found.len() == limit {
                more = true;
                return;
            }
            found.push(read(row));
            last = Some((n, pos));
        })?;
        if more {
            break;
        }
        if skip > 0 {
            skip = if found.len() > before { 0 } else { skip - count_skipped(tx, queue, run, skip)? };
        }
    }
    // The jobs of groups follow.
    for (n, state) in [(5, LINED), (6, CHAINED), (7, LINED_SUSPECT)].into_iter().filter(|(n, _)| *n >= first) {
        if more {
            break;
        }
        let begin = skip.saturating_add(behind.filter(|_| n == first).unwrap_or(0).max(0).unsigned_abs());
        let mut read_here = 0;
        let mut page = tx.sql(if state == CHAINED { READY_PAGE_CHAINS } else { GROUPS_PAGE })?;
        let offset = i64::try_from(begin).unwrap_or(i64::MAX);
        let mut rows = page.query(params![queue.key, Unsigned(limit + 1 - found.len()), offset, state])?;
        while let Some(row) = rows.next()? {
            if found.len() == limit {
                more = true;
                break;
            }
            found.push(read(row));
            read_here += 1;
            last = Some((n, offset.saturating_add(read_here)));
        }
        skip = if read_here > 0 || skip == 0 { 0 } else { skip.saturating_sub(count_grouped(tx, queue, state)?) };
    }
    let next =
        last.filter(|_| more).map(|(n, pos)| BEHIND | (n as u64) << 60 | pos.clamp(-BIAS, BIAS - 1).wrapping_add(BIAS).cast_unsigned());
    Ok((found, next))
}

/// The last jobs of one state and rank, from the last one back, as `people/record.rs` reads them.
const READY_PAGE_LAST: &str = "SELECT job.id, job.state, job.envelope, job.priority, job.attempts, job.crashes, job.snoozes, job.pos, \
        job.ended, job.note, job.rank, job.returns, job.returned, job.failures \
    FROM (SELECT id FROM queue_jobs WHERE queue = ?1 AND state = ?3 AND rank = ?4 ORDER BY pos DESC, id DESC LIMIT ?2) AS page \
    CROSS JOIN queue_jobs AS job ON job.queue = ?1 AND job.id = page.id ORDER BY job.pos DESC, job.id DESC";

/// The last jobs, in order.
fn read_last<T>(tx: &Tx<'_>, queue: &Queue<'_>, runs: &[Run], limit: usize, mut read: impl FnMut(&Row<'_>) -> T) -> Result<Vec<T>, Failed> {
    /// The last jobs with limits, from the last one back, as `people/record.rs` reads them.
    const READY_PAGE_CHAINS_LAST: &str = "SELECT job.id, job.state, job.envelope, job.priority, job.attempts, job.crashes, job.snoozes, \
            job.pos, job.ended, job.note, job.rank, job.returns, job.returned, job.failures \
        FROM queue_chains AS chains CROSS JOIN queue_jobs AS job ON job.queue = ?1 AND job.state = ?3 AND job.rank = chains.chain \
        WHERE chains.queue = ?1 ORDER BY chains.name DESC, chains.keys DESC, chains.priority DESC, job.pos DESC LIMIT ?2";
    /// The last jobs in the lines of groups, from the last one back, as `people/record.rs` reads
    /// them.
    const GROUPS_PAGE_LAST: &str = "SELECT job.id, job.state, job.envelope, job.priority, job.attempts, job.crashes, job.snoozes, \
            job.pos, job.ended, job.note, job.rank, job.returns, job.returned, job.failures \
        FROM queue_groups AS groups CROSS JOIN queue_jobs AS job ON job.queue = ?1 AND job.state = ?3 AND job.rank = groups.line \
        WHERE groups.queue = ?1 ORDER BY groups.name DESC, job.pos DESC LIMIT ?2";
    let mut found = Vec::new();
    for state in [LINED_SUSPECT, CHAINED, LINED].into_iter().filter(|_| runs.len() > 1) {
        let mut page = tx.sql(if state == CHAINED { READY_PAGE_CHAINS_LAST } else { GROUPS_PAGE_LAST })?;
        let mut rows = page.query(params![queue.key, Unsigned(limit - found.len()), state])?;
        while let Some(row) = rows.next()? {
            found.push(read(row));
        }
    }
    for (state, rank) in runs.iter().rev() {
        let mut page = tx.sql(READY_PAGE_LAST)?;
        let mut rows = page.query(params![queue.key, Unsigned(limit - found.len()), state, rank])?;
        while let Some(row) = rows.next()? {
            found.push(read(row));
        }
    }
    found.reverse();
    Ok(found)
}

fn read_active<T>(tx: &Tx<'_>, queue: &Queue<'_>, from: u64, limit: usize, mut read: impl FnMut(&Row<'_>) -> T) -> Result<Jobs<T>, Failed> {
    /// Active jobs in order, as `people/record.rs` reads them. Their number is at most that of the
    /// slots of all workers.
    const READY_PAGE_ACTIVE: &str = "SELECT id, state, envelope, priority, attempts, crashes, snoozes, pos, ended, note, rank, returns, \
            returned, failures FROM queue_jobs \
        WHERE queue = ?1 AND state = ?4 ORDER BY rank, pos LIMIT ?2 OFFSET ?3";
    const ALL: &str = "SELECT count(*) FROM queue_jobs WHERE queue = ?1 AND state = ?2";
    let from = if from == LAST {
        let all: u64 = tx.sql(ALL)?.query_row(params![queue.key, ACTIVE], |row| Unsigned::get(row, 0))?;
        all.saturating_sub(limit as u64)
    } else {
        from
    };
    let offset = i64::try_from(from).unwrap_or(i64::MAX);
    let mut page = tx.sql(READY_PAGE_ACTIVE)?;
    let mut rows = page.query(params![queue.key, Unsigned(limit + 1), offset, ACTIVE])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row));
    }
    let more = found.len() > limit;
    found.truncate(limit);
    Ok((found, more.then(|| from + limit as u64)))
}

/// Jobs of one state and rank in order, as `people/record.rs` reads them. For skipped jobs, only
/// the index is read.
const READY_PAGE: &str = "SELECT job.id, job.state, job.envelope, job.priority, job.attempts, job.crashes, job.snoozes, job.pos, \
        job.ended, job.note, job.rank, job.returns, job.returned, job.failures \
    FROM (SELECT id FROM queue_jobs WHERE queue = ?1 AND state = ?4 AND rank = ?5 AND pos >= ?6 \
        ORDER BY pos, id LIMIT ?2 OFFSET ?3) AS page \
    CROSS JOIN queue_jobs AS job ON job.queue = ?1 AND job.id = page.id ORDER BY job.pos, job.id";

/// Some jobs of a run.
fn read_run(
    tx: &Tx<'_>,
    queue: &Queue<'_>,
    (state, rank): Run,
    limit: usize,
    skip: u64,
    from: i64,
    mut read: impl FnMut(&Row<'_>, i64),
) -> Result<(), Failed> {
    let skip = i64::try_from(skip).unwrap_or(i64::MAX);
    let mut page = tx.sql(READY_PAGE)?;
    let mut rows = page.query(params![queue.key, Unsigned(limit), skip, state, rank, from])?;
    while let Some(row) = rows.next()? {
        read(row, row.get::<_, i64>(7)?);
    }
    Ok(())
}

/// The number of jobs of one state and rank, up to a limit.
const READY_PASSED: &str = "SELECT count(*) FROM (SELECT 1 FROM queue_jobs WHERE queue = ?1 AND state = ?2 AND rank = ?3 LIMIT ?4)";

/// The number of jobs in a run that are skipped if `skip` jobs are skipped.
fn count_skipped(tx: &Tx<'_>, queue: &Queue<'_>, (state, rank): Run, skip: u64) -> rusqlite::Result<u64> {
    let skip = i64::try_from(skip).unwrap_or(i64::MAX);
    tx.sql(READY_PASSED)?.query_row(params![queue.key, state, rank, skip], |row| Unsigned::get(row, 0))
}

/// The number of jobs of groups in lines.
fn count_grouped(tx: &Tx<'_>, queue: &Queue<'_>, state: i64) -> rusqlite::Result<u64> {
    const LINED: &str = "SELECT count(*) FROM queue_jobs WHERE queue = ?1 AND state = ?2";
    tx.sql(LINED)?.query_row(params![queue.key, state], |row| Unsigned::get(row, 0))
}

fn runs(state: JobState) -> Vec<Run> {
    match state {
        JobState::Ready => {
            let priorities = (0..=i64::from(Priority::Low.number())).map(|rank| (READY, rank));
            [(SUSPECT, 0)].into_iter().chain(priorities).collect()
        }
        state => vec![(row::number(state), 0)],
    }
}

fn place_of_time(time: i64, ties: u64) -> u64 {
    // The largest number has another meaning.
    let ties = ties.min((1 << TIES) - 2);
    BEHIND | time.cast_unsigned() << TIES | ties
}

/// The time of a place, and the number of jobs of that time before it.
fn time_of(place: u64) -> (i64, u64) {
    let time = ((place & !BEHIND) >> TIES).cast_signed();
    // Another program may have written an earlier time.
    (if time == 0 { i64::MIN } else { time }, place & ((1 << TIES) - 1))
}

/// The run of a place, the `pos` after which it is, and no jobs to skip.
fn place_of(place: u64) -> (usize, Option<i64>, u64) {
    let run = usize::try_from(place >> 60 & 0b111).unwrap_or_default();
    let pos = (place & ((1 << 60) - 1)).cast_signed() - BIAS;
    (run, Some(pos), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_grow_with_the_jobs_and_say_where_they_are() {
        let times = [(0, 1), (0, 2), (1_764_000_000_000, 1), (1_764_000_000_000, 1_000_000), (1_764_000_000_001, 1), (LAST_TIME, u64::MAX)];
        let places = times.map(|(time, ties)| place_of_time(time, ties));
        assert!(places.is_sorted() && places[0] & BEHIND != 0 && places[5] < LAST);
        assert_eq!((time_of(places[3]), time_of(places[0])), ((1_764_000_000_000, 1_000_000), (i64::MIN, 1)));
    }

    /// The plan of a page reads only the jobs that the page shows, and only the index for skipped
    /// jobs. It sorts only the page.
    #[test]
    fn a_page_is_searched_for_and_never_scanned_for() {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        connection.execute_batch(include_str!("../connection/schema.sql")).unwrap();
        for statement in [READY_PAGE, READY_PAGE_LAST, READY_PASSED] {
            let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).unwrap();
            for n in 1..=explain.parameter_count() {
                explain.raw_bind_parameter(n, 1).unwrap();
            }
            let (mut plan, mut rows) = (Vec::new(), explain.raw_query());
            while let Some(row) = rows.next().unwrap() {
                plan.push(row.get::<_, String>(3).unwrap());
            }
            let searched = plan.iter().find(|step| step.contains("queue_jobs_order")).unwrap_or_else(|| panic!("{plan:?}"));
            assert!(searched.starts_with("SEARCH") && searched.contains("COVERING INDEX") && searched.contains("rank=?"), "{plan:?}");
            let scanned = plan.iter().filter(|step| step.starts_with("SCAN"));
            assert!({ scanned }.all(|step| step.contains("page") || step.contains("subquery")), "{plan:?}");
        }
    }
}
