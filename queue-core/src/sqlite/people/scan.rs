//! Steps through the jobs of some states, in the order of the index. A place is where the last job was that was looked at, whether it is still there or not.

use rusqlite::{params, types::ValueRef};

use super::record::{failures, record};
use crate::{
    broker::{JobState, MAX_ITEMS, Scan, Scanned, StoredJob, place_of_bytes, place_to_bytes},
    sqlite::{
        connection::{
            statement::sql,
            tx::{Failed, Queue, Tx},
        },
        doors::row::{self, CHAINED, LINED, LINED_SUSPECT, READY, SUSPECT},
    },
    tags::{is_tagged, tag_digest},
};

/// The state of a job as a number, its rank, its position and its id.
type Place = (i64, i64, i64, Vec<u8>);

pub(crate) fn scan(tx: &mut Tx<'_>, request: &Scan) -> Result<Scanned, Failed> {
    let Some(queue) = tx.queue(&request.queue)? else { return Ok(Scanned::default()) };
    let limit = request.limit.clamp(1, MAX_ITEMS);
    if let Some((name, value)) = &request.tag {
        return tagged(tx, &queue, request, name, value, limit);
    }
    let mut last: Option<Place> = request.after.as_deref().map(place_of_bytes).transpose()?;
    let (mut jobs, mut looked) = (Vec::new(), 0);
    let numbers: Vec<i64> = JobState::ALL.into_iter().filter(|state| request.states.contains(state)).flat_map(numbers).collect();
    let first = last.as_ref().map_or(Some(0), |(state, ..)| numbers.iter().position(|number| number == state));
    for number in numbers.iter().skip(first.unwrap_or(numbers.len())) {
        let (_, rank, pos, id) = last.take().unwrap_or((*number, i64::MIN, i64::MIN, Vec::new()));
        let (n, place) = some(tx, &queue, (*number, rank, pos, id), limit - looked, &mut jobs)?;
        looked += n;
        if looked == limit {
            // Where nothing of a page can be read, the state ends.
            let next = place.or_else(|| following(&numbers, *number));
            return Ok(Scanned::new(jobs, next.map(|place| place_to_bytes(&place)).transpose()?));
        }
    }
    Ok(Scanned::new(jobs, None))
}

/// The beginning of the next state.
fn following(numbers: &[i64], number: i64) -> Option<Place> {
    let at = numbers.iter().position(|other| *other == number)?;
    numbers.get(at + 1).map(|next| (*next, i64::MIN, i64::MIN, Vec::new()))
}

/// The numbers of a state; jobs that are ready have several.
fn numbers(state: JobState) -> Vec<i64> {
    match state {
        JobState::Ready => vec![SUSPECT, READY, LINED, LINED_SUSPECT, CHAINED],
        state => vec![row::number(state)],
    }
}

/// Jobs behind a place: how many were looked at, and the place of the last one.
fn some(
    tx: &Tx<'_>,
    queue: &Queue<'_>,
    (state, rank, pos, id): Place,
    limit: usize,
    jobs: &mut Vec<(StoredJob, Vec<u8>)>,
) -> Result<(usize, Option<Place>), Failed> {
    let mut page = tx.sql(sql!("scan.sql"))?;
    let mut rows = page.query(params![queue.key, state, rank, pos, id, limit])?;
    let (mut looked, mut last) = (0, None);
    while let Some(row) = rows.next()? {
        looked += 1;
        // Of what has another type, which another program wrote, no place can be told. It stands behind all others.
        if let (ValueRef::Integer(rank), ValueRef::Integer(pos), ValueRef::Blob(id)) = (row.get_ref(10)?, row.get_ref(7)?, row.get_ref(0)?)
        {
            last = Some((state, rank, pos, id.to_vec()));
        }
        // What cannot be told of is for the auditor to find.
        if let Ok(mut job) = record(tx, queue, row) {
            job.failures = failures(row)?;
            let place = last.as_ref().map(place_to_bytes).transpose()?.unwrap_or_default();
            jobs.push((job.listed(), place));
        }
    }
    Ok((looked, last))
}

/// Jobs that have a tag, by the index of tags. A place is the id of the last one.
fn tagged(tx: &Tx<'_>, queue: &Queue<'_>, request: &Scan, name: &str, value: &str, limit: usize) -> Result<Scanned, Failed> {
    const OF: &str = "SELECT count(*) FROM queue_tags WHERE queue = ?1 AND digest = ?2";
    let digest = tag_digest(name, value);
    let last = request.after.as_deref().map(place_of_bytes::<Vec<u8>>).transpose()?;
    let of = match last {
        None => Some(tx.sql(OF)?.query_row(params![queue.key, digest], |row| row.get::<_, i64>(0))?.unsigned_abs()),
        Some(_) => None,
    };
    let mut page = tx.sql(sql!("tagged.sql"))?;
    let mut rows = page.query(params![queue.key, digest, last.unwrap_or_default(), limit])?;
    let (mut jobs, mut looked, mut next) = (Vec::new(), 0, None);
    while let Some(row) = rows.next()? {
        looked += 1;
        let ValueRef::Blob(id) = row.get_ref(12)? else { continue };
        let place = place_to_bytes(&id)?;
        next = Some(place.clone());
        // The row of an entry without a job has nothing.
        if let Ok(mut job) = record(tx, queue, row)
            && is_tagged(&job.envelope, name, value)
            && request.states.contains(&job.state)
        {
            job.failures = failures(row)?;
            jobs.push((job.listed(), place));
        }
    }
    Ok(Scanned { of, ..Scanned::new(jobs, next.filter(|_| looked == limit)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However deep a place is, a step reads no more than it shows.
    #[test]
    fn a_step_is_searched_for_and_never_scanned_for() {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        connection.execute_batch(include_str!("../connection/migrations/001_jobs.sql")).unwrap();
        connection.execute_batch(include_str!("../connection/migrations/tags.sql")).unwrap();
        for (statement, table, searched_by) in
            [(sql!("scan.sql"), "queue_jobs_order", "(rank,pos,id)>(?,?,?)"), (sql!("tagged.sql"), "queue_tags", "digest=? AND id>?")]
        {
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
