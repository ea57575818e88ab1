//! Steps through the jobs of some states, in the order of the index. A place is the position of the
//! last job that was examined, even if the job has moved since.
//!
//! A scan that includes moving jobs goes through all jobs by their ids, unless all of its states
//! are final: such jobs keep their places. A step ends before its limit when it has read a mebibyte
//! of jobs.

use rusqlite::{params, types::ValueRef};

use super::record::{failures, if_readable, record};
use crate::{
    broker::{JobState, MAX_BYTES, MAX_ITEMS, Scan, Scanned, StoredJob, place_of_bytes, place_to_bytes},
    envelope::tags::{is_tagged, tag_digest},
    sqlite::{
        connection::{
            tx::{Failed, Queue, Tx},
            unsigned::Unsigned,
        },
        doors::row::{self, CHAINED, LINED, LINED_SUSPECT, READY, SUSPECT},
    },
};

/// The state of a job as a number, its rank, its position and its id.
type Place = (i64, i64, i64, Vec<u8>);

pub(crate) fn scan(tx: &mut Tx<'_>, request: &Scan) -> Result<Scanned, Failed> {
    let Some(queue) = tx.queue(&request.queue)? else { return Ok(Scanned::default()) };
    let limit = request.limit.clamp(1, MAX_ITEMS);
    if let Some((name, value)) = &request.tag {
        return scan_tagged(tx, &queue, request, name, value, limit);
    }
    if request.includes_moved && !request.states.iter().all(|state| state.is_final()) {
        return scan_all(tx, &queue, request, limit);
    }
    let mut last: Option<Place> = request.after.as_deref().map(place_of_bytes).transpose()?;
    let (mut jobs, mut examined) = (Vec::new(), 0);
    let numbers: Vec<i64> = JobState::ALL.into_iter().filter(|state| request.states.contains(state)).flat_map(numbers).collect();
    let first = last.as_ref().map_or(Some(0), |(state, ..)| numbers.iter().position(|number| number == state));
    for number in numbers.iter().skip(first.unwrap_or(numbers.len())) {
        let (_, rank, pos, id) = last.take().unwrap_or((*number, i64::MIN, i64::MIN, Vec::new()));
        let (n, place, is_full) = scan_state(tx, &queue, (*number, rank, pos, id), limit - examined, &mut jobs)?;
        examined += n;
        if examined == limit || is_full {
            // If no row of a page can be read, the state ends.
            let next = place.or_else(|| next_state(&numbers, *number));
            return Ok(Scanned::new(jobs, next.map(|place| place_to_bytes(&place)).transpose()?));
        }
    }
    Ok(Scanned::new(jobs, None))
}

/// The beginning of the next state.
fn next_state(numbers: &[i64], number: i64) -> Option<Place> {
    let at = numbers.iter().position(|other| *other == number)?;
    numbers.get(at + 1).map(|next| (*next, i64::MIN, i64::MIN, Vec::new()))
}

/// The numbers of a state; `ready` has several.
fn numbers(state: JobState) -> Vec<i64> {
    match state {
        JobState::Ready => vec![SUSPECT, READY, LINED, LINED_SUSPECT, CHAINED],
        state => vec![row::number(state)],
    }
}

/// Jobs of one state after a place, as `record.rs` reads them. The query searches the index for the
/// place, and reads from there on.
const SCAN: &str = "SELECT job.id, job.state, job.envelope, job.priority, job.attempts, job.crashes, job.snoozes, job.pos, job.ended, \
        job.note, job.rank, job.returns, job.returned, job.failures \
    FROM ( \
        SELECT id, rank, pos FROM queue_jobs WHERE queue = ?1 AND state = ?2 AND (rank, pos, id) > (?3, ?4, ?5) \
            ORDER BY rank, pos, id LIMIT ?6 \
    ) AS page \
    CROSS JOIN queue_jobs AS job ON job.queue = ?1 AND job.id = page.id ORDER BY page.rank, page.pos, page.id";

/// Jobs after a place: how many were examined, the place of the last one, and whether the step has
/// reached its limit in bytes.
fn scan_state(
    tx: &Tx<'_>,
    queue: &Queue<'_>,
    (state, rank, pos, id): Place,
    limit: usize,
    jobs: &mut Vec<(StoredJob, Vec<u8>)>,
) -> Result<(usize, Option<Place>, bool), Failed> {
    let mut page = tx.sql(SCAN)?;
    let mut rows = page.query(params![queue.key, state, rank, pos, id, Unsigned(limit)])?;
    let (mut examined, mut last, mut size) = (0, None, jobs.iter().map(|(job, _)| job.envelope.len()).sum::<usize>());
    while let Some(row) = rows.next()? {
        examined += 1;
        // A value of another type, which another program wrote, has no position. It sorts after all
        // others.
        if let (ValueRef::Integer(rank), ValueRef::Integer(pos), ValueRef::Blob(id)) = (row.get_ref(10)?, row.get_ref(7)?, row.get_ref(0)?)
        {
            last = Some((state, rank, pos, id.to_vec()));
        }
        if let Some(mut job) = if_readable(record(tx, queue, row))? {
            job.failures = failures(row)?;
            let place = last.as_ref().map(place_to_bytes).transpose()?.unwrap_or_default();
            size += job.envelope.len();
            jobs.push((job.listed(), place));
        }
        if size >= MAX_BYTES && last.is_some() {
            return Ok((examined, last, true));
        }
    }
    Ok((examined, last, false))
}

/// Jobs of a queue after an id, as `record.rs` reads them. The id of a job never changes.
const SCAN_ALL: &str = "SELECT job.id, job.state, job.envelope, job.priority, job.attempts, job.crashes, job.snoozes, job.pos, \
        job.ended, job.note, job.rank, job.returns, job.returned, job.failures \
    FROM queue_jobs AS job WHERE job.queue = ?1 AND job.id > ?2 ORDER BY job.id LIMIT ?3";

/// Jobs after an id, in the wanted states. A place is the id of the last one.
fn scan_all(tx: &Tx<'_>, queue: &Queue<'_>, request: &Scan, limit: usize) -> Result<Scanned, Failed> {
    let after = request.after.as_deref().map(place_of_bytes::<Vec<u8>>).transpose()?.unwrap_or_default();
    let mut page = tx.sql(SCAN_ALL)?;
    let mut rows = page.query(params![queue.key, after, Unsigned(limit)])?;
    let (mut jobs, mut examined, mut size, mut last) = (Vec::new(), 0, 0, None);
    while let Some(row) = rows.next()? {
        examined += 1;
        // A value of another type, which another program wrote, is skipped: SQLite sorts numbers
        // and texts before all ids.
        if let ValueRef::Blob(id) = row.get_ref(0)? {
            last = Some(id.to_vec());
        }
        let is_wanted =
            matches!(row.get_ref(1)?, ValueRef::Integer(state) if row::state(state).is_ok_and(|state| request.states.contains(&state)));
        if is_wanted && let Some(mut job) = if_readable(record(tx, queue, row))? {
            job.failures = failures(row)?;
            size += job.envelope.len();
            jobs.push(job.listed());
        }
        if size >= MAX_BYTES {
            break;
        }
    }
    let goes_on = examined == limit || size >= MAX_BYTES;
    let next = last.filter(|_| goes_on).map(|id| place_to_bytes(&id)).transpose()?;
    let seen = if request.scans_whole_queue() { examined } else { jobs.len() };
    Ok(Scanned { jobs, examined: seen as u64, read: examined as u64, next, ..Scanned::default() })
}

/// Jobs with a tag after an id, as `record.rs` reads them, and the id of each entry.
const TAGGED: &str = "SELECT job.id, job.state, job.envelope, job.priority, job.attempts, job.crashes, job.snoozes, job.pos, job.ended, \
        job.note, job.rank, job.returns, job.returned, job.failures, \
        tag.id \
    FROM (SELECT id FROM queue_tags WHERE queue = ?1 AND digest = ?2 AND id > ?3 ORDER BY id LIMIT ?4) AS tag \
    LEFT JOIN queue_jobs AS job ON job.queue = ?1 AND job.id = tag.id ORDER BY tag.id";

/// Jobs that have a tag, by the index of tags. A place is the id of the last one.
fn scan_tagged(tx: &Tx<'_>, queue: &Queue<'_>, request: &Scan, name: &str, value: &str, limit: usize) -> Result<Scanned, Failed> {
    const OF: &str = "SELECT count(*) FROM queue_tags WHERE queue = ?1 AND digest = ?2";
    let digest = tag_digest(name, value);
    let last = request.after.as_deref().map(place_of_bytes::<Vec<u8>>).transpose()?;
    let of = match last {
        None if request.counts => Some(tx.sql(OF)?.query_row(params![queue.key, digest], |row| row.get::<_, i64>(0))?.unsigned_abs()),
        _ => None,
    };
    let mut page = tx.sql(TAGGED)?;
    let mut rows = page.query(params![queue.key, digest, last.unwrap_or_default(), Unsigned(limit)])?;
    let (mut jobs, mut examined, mut size, mut next) = (Vec::new(), 0, 0, None);
    while size < MAX_BYTES
        && let Some(row) = rows.next()?
    {
        examined += 1;
        let ValueRef::Blob(id) = row.get_ref(14)? else { continue };
        let place = place_to_bytes(&id)?;
        next = Some(place.clone());
        // The row of an entry without a job is empty.
        let Some(mut job) = if_readable(record(tx, queue, row))? else { continue };
        size += job.envelope.len();
        if is_tagged(&job.envelope, name, value) && request.states.contains(&job.state) {
            job.failures = failures(row)?;
            jobs.push((job.listed(), place));
        }
    }
    let next = next.filter(|_| examined == limit || size >= MAX_BYTES);
    Ok(Scanned { of, ..Scanned::new(jobs, next).with_examined(examined as u64) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step reads only the jobs that it shows, even at a deep place.
    #[test]
    fn a_step_is_searched_for_and_never_scanned_for() {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        connection.execute_batch(include_str!("../connection/schema.sql")).unwrap();
        for (statement, table, searched_by) in [
            (SCAN, "queue_jobs_order", "(rank,pos,id)>(?,?,?)"),
            (SCAN_ALL, "job", "queue=? AND id>?"),
            (TAGGED, "queue_tags", "digest=? AND id>?"),
        ] {
            let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).unwrap();
            for n in 1..=explain.parameter_count() {
                explain.raw_bind_parameter(n, 1).unwrap();
            }
            let (mut plan, mut rows) = (Vec::new(), explain.raw_query());
            while let Some(row) = rows.next().unwrap() {
                plan.push(row.get::<_, String>(3).unwrap());
            }
            let searched = plan.iter().find(|step| step.contains(table)).unwrap_or_else(|| panic!("{plan:?}"));
            assert!(searched.starts_with("SEARCH") && searched.contains(searched_by), "{plan:?}");
        }
    }
}
