//! Steps through the jobs of some states. A queue has *places*, which are read one after the other.
//! Within a place, a step continues after the last job that the previous step has examined:
//!
//! | place | how that job is found again |
//! |---|---|
//! | sorted sets | by its score and its bytes, even if it has been removed |
//! | small hashes | by its bytes |
//! | lists | by a search for it and the element before it, from their former places towards the head. Ids are added and removed only at the ends of a list: if the two are no longer neighbors, the element and all before it have left, though some may have returned at an end |
//!
//! A list is searched in windows. One command reads a window together with the elements after it,
//! so that nothing moves in between.
//!
//! A scan that includes moving jobs reads its places by cursors of the server (`HSCAN`, `ZSCAN`).
//! They skip no job that stays in the place, even if it moves within the place. A cursor is valid
//! only on its server: on another server, the place is read again from its beginning. A scan by a
//! tag uses the index of tags.
//!
//! A step ends before its limit when it has read a mebibyte of jobs.

use std::collections::{HashMap, hash_map::Entry};

use serde::{Deserialize, Serialize};

use super::{ended_from_records, first_records, in_states, jobs_from_records, record, topic, until_and_id, without_tombstones};
use crate::{
    address::{JobId, subscription_at},
    broker::{JobState, MAX_BYTES, MAX_ITEMS, Scan, Scanned, StoredJob, place_of_bytes, place_to_bytes},
    envelope::tags::is_tagged,
    error::{Error, Result},
    redis::{
        RedisBroker, groups,
        keys::Kind,
        script::{SCAN, TAGGED},
        values::{array, bytes, next, number, text, unexpected_answer},
    },
};

/// The number of elements that are searched at once, and the overlap of two windows, because jobs
/// may have returned to the head meanwhile.
const WINDOW: u64 = 4_000;
const AGAIN: u64 = 500;

/// The first window is small: usually few jobs have left since the last step.
const NEAR: u64 = 500;

/// The most windows of one step.
const WINDOWS: usize = 10;

/// The kinds of places of jobs.
#[derive(Clone, Copy, Debug)]
enum Where {
    /// A list of `ready`.
    List(Kind),
    /// The lines of groups.
    Line,
    Set(Kind),
    /// Active jobs: at most as many as all workers have slots.
    Hash(Kind),
    /// The list of ended jobs.
    Ended,
}

const PLACES: [(Where, &[JobState]); 14] = [
    (Where::List(Kind::Suspect), &[JobState::Ready]),
    (Where::List(Kind::Ready0), &[JobState::Ready]),
    (Where::List(Kind::Ready1), &[JobState::Ready]),
    (Where::List(Kind::Ready2), &[JobState::Ready]),
    (Where::List(Kind::Ready3), &[JobState::Ready]),
    (Where::Line, &[JobState::Ready]),
    (Where::Hash(Kind::Active), &[JobState::Active]),
    (Where::Set(Kind::Scheduled), &[JobState::Scheduled]),
    (Where::Set(Kind::Retry), &[JobState::Retry]),
    (Where::Set(Kind::Holds), &[JobState::Held]),
    (Where::Set(Kind::Parked), &[JobState::Parked]),
    (Where::Set(Kind::Dead), &[JobState::Dead]),
    (Where::Ended, &[JobState::Done, JobState::Cancelled, JobState::Expired]),
    (Where::Set(Kind::Lapsing), &[JobState::Done, JobState::Cancelled, JobState::Expired]),
];

/// The places of a scan that includes moving jobs. A place from which a job may move to another one
/// comes before that one. A job that moves in the other direction has failed or ended since.
const MET: [(&str, &[JobState]); 7] = [
    ("dead", &[JobState::Dead]),
    ("records", &[JobState::Done, JobState::Cancelled, JobState::Expired]),
    ("active", &[JobState::Active]),
    ("retry", &[JobState::Retry]),
    ("scheduled", &[JobState::Scheduled]),
    ("parked", &[JobState::Parked]),
    ("held", &[JobState::Held]),
];

/// The last element of a place that was examined, and its index or its score.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Last {
    #[serde(rename = "i")]
    index: u64,
    #[serde(rename = "s")]
    score: String,
    #[serde(rename = "e")]
    element: Vec<u8>,
    /// In a list, the element before it; `None`: it was the head.
    #[serde(rename = "b")]
    before: Option<Vec<u8>>,
}

impl Last {
    fn at(index: u64, element: Vec<u8>, before: Option<Vec<u8>>) -> Self {
        Last { index, score: String::new(), element, before }
    }
}

/// Elements of a place, and the element after which the next step begins; `None`: there are no
/// more.
type Part = (Vec<Last>, Option<Last>);

pub(in crate::redis) async fn scan(broker: &RedisBroker, request: &Scan) -> Result<Scanned> {
    let limit = request.limit.clamp(1, MAX_ITEMS);
    match &request.tag {
        _ if request.states.is_empty() => Ok(Scanned::default()),
        Some((name, value)) => scan_tagged(broker, request, name, value, limit).await,
        None if request.includes_moved => scan_unordered(broker, request, limit).await,
        None => scan_in_order(broker, request, limit).await,
    }
}

async fn scan_in_order(broker: &RedisBroker, request: &Scan, limit: usize) -> Result<Scanned> {
    let (mut place, mut last) = match &request.after {
        None => (0, None),
        Some(bytes) => place_of_bytes::<(usize, Option<Last>)>(bytes)?,
    };
    let (mut jobs, mut examined, mut size) = (Vec::new(), 0, 0);
    while let Some((at, states)) = PLACES.get(place) {
        let before = last.take();
        if states.iter().any(|state| request.states.contains(state)) {
            let (elements, next) = part(broker, &request.queue, *at, before.as_ref(), limit - examined).await?;
            examined += elements.len();
            let (found, cut) = jobs_of(broker, &request.queue, *at, elements, &request.states).await?;
            for (job, last) in found {
                size += job.envelope.len();
                jobs.push((job, place_to_bytes(&(place, Some(last)))?));
            }
            // No job was examined: the last element is still being searched for.
            let searches = next.is_some() && examined == 0;
            let is_full = cut.is_some() || size >= MAX_BYTES;
            last = cut.or(next);
            if searches || is_full || examined == limit {
                let place = if last.is_some() { place } else { place + 1 };
                return Ok(Scanned::new(jobs, Some(place_to_bytes(&(place, last))?)));
            }
        }
        if last.is_none() {
            place += 1;
        }
    }
    Ok(Scanned::new(jobs, None))
}

fn unordered_places(request: &Scan) -> Vec<&'static str> {
    if request.scans_whole_queue() {
        return vec!["jobs"];
    }
    MET.into_iter().filter(|(_, has)| has.iter().any(|state| request.states.contains(state))).map(|(place, _)| place).collect()
}

/// Jobs in the order of this server. A position has the name of a place, a cursor, and the life of
/// the server that has returned the cursor.
async fn scan_unordered(broker: &RedisBroker, request: &Scan, limit: usize) -> Result<Scanned> {
    let places = unordered_places(request);
    let Some(bytes) = &request.after else { return Ok(scan_step(broker, request, limit, &places, (0, 0, "")).await?.0) };
    let (place, cursor, life): (String, u64, String) = place_of_bytes(bytes)?;
    let at = places
        .iter()
        .position(|known| *known == place)
        .ok_or_else(|| Error::invalid("cursor", place, "is not a valid cursor; start without one"))?;
    match scan_step(broker, request, limit, &places, (at, cursor, &life)).await? {
        // On another server, a job may have returned to an earlier place.
        (_, alive) if at > 0 && alive != life => Ok(scan_step(broker, request, limit, &places, (0, 0, "")).await?.0),
        (found, _) => Ok(found),
    }
}

/// One step from this cursor on, and the life of the server.
async fn scan_step(
    broker: &RedisBroker,
    request: &Scan,
    limit: usize,
    places: &[&str],
    (at, cursor, life): (usize, u64, &str),
) -> Result<(Scanned, String)> {
    let mut call = SCAN.call(&broker.keys, &request.queue);
    call.arg(places[at]).arg(limit).arg("met").arg(cursor).arg(life);
    for state in &request.states {
        call.arg(state.name());
    }
    let mut values = array(broker.script(&request.queue, &SCAN, call).await?)?.into_iter();
    let (cursor, life, examined) = (text(next(&mut values)?)?, text(next(&mut values)?)?, number(next(&mut values)?)?);
    let cursor: u64 = cursor.parse().map_err(|_| unexpected_answer("a cursor"))?;
    let mut jobs = Vec::new();
    while let Some(id) = values.next() {
        let (id, job) = (bytes(id)?, next(&mut values)?);
        // Values that are not ids are left for the auditor.
        let Ok(id) = JobId::from_bytes(&id) else { continue };
        if let Some(mut job) = record(&id, job)? {
            if subscription_at(&request.queue).is_some() {
                job.envelope = topic::with_messagepack_payload(&job.envelope).into_owned();
            }
            jobs.push(job.listed());
        }
    }
    let following = match cursor {
        0 => places.get(at + 1).map(|place| (*place, 0, &life)),
        cursor => Some((places[at], cursor, &life)),
    };
    let following = following.as_ref().map(place_to_bytes).transpose()?;
    let all = request.scans_whole_queue();
    let seen = if all { examined } else { jobs.len() as u64 };
    Ok((Scanned { jobs, examined: seen, read: examined, next: following, ..Scanned::default() }, life))
}

async fn part(broker: &RedisBroker, queue: &str, at: Where, last: Option<&Last>, room: usize) -> Result<Part> {
    match at {
        Where::List(kind) => list(broker, queue, kind, last, room).await,
        Where::Ended => list(broker, queue, Kind::Ended, last, room).await,
        Where::Line => set(broker, queue, Kind::Line, last, room).await,
        Where::Set(kind) => set(broker, queue, kind, last, room).await,
        Where::Hash(kind) => hash(broker, queue, kind, last, room).await,
    }
}

/// Jobs that have a tag, by the index of tags. A position is the last id. In a scan that includes
/// moving jobs it also has the life of the server, because another server may lack changes of the
/// jobs before it.
async fn scan_tagged(broker: &RedisBroker, request: &Scan, name: &str, value: &str, limit: usize) -> Result<Scanned> {
    let movers = request.includes_moved;
    let last = request.after.as_deref().map(|place| match movers {
        true => place_of_bytes::<(Vec<u8>, String)>(place),
        false => place_of_bytes(place).map(|id| (id, String::new())),
    });
    let last = last.transpose()?;
    let (id, life) = last.clone().unwrap_or_default();
    let mut call = TAGGED.call(&broker.keys, &request.queue);
    call.arg(name).arg(value).arg(limit).arg(id);
    if movers {
        call.arg(life);
    }
    let mut answer = array(broker.script(&request.queue, &TAGGED, call).await?)?.into_iter();
    let (of, life) = (number(next(&mut answer)?)?, text(next(&mut answer)?)?);
    let place = |id: &[u8]| if movers { place_to_bytes(&(id, &life)) } else { place_to_bytes(&id) };
    let mut members: Vec<Vec<u8>> = answer.map(bytes).collect::<Result<_>>()?;
    let is_page = members.len() == limit;
    // Values that are not ids are left for the auditor.
    let known = |members: &[Vec<u8>]| members.iter().filter_map(|id| JobId::from_bytes(id).ok()).collect::<Vec<JobId>>();
    let ids = known(&members);
    let records = first_records(broker, &request.queue, &ids).await?;
    let is_cut = records.len() < ids.len();
    if let Some(first_left) = ids.get(records.len()) {
        members.truncate(members.iter().position(|id| id.as_slice() == first_left.as_bytes()).unwrap_or(members.len()));
    }
    let next = members.last().filter(|_| is_page || is_cut).map(|id| place(id)).transpose()?;
    let mut jobs = jobs_from_records(&request.queue, &ids, records)?;
    jobs.retain(|job| is_tagged(&job.envelope, name, value));
    let with_place = |job: StoredJob| place(job.id.as_bytes()).map(|place| (job, place));
    let jobs = in_states(jobs, &request.states).into_iter().map(with_place).collect::<Result<_>>()?;
    Ok(Scanned { of: (last.is_none() && request.counts).then_some(of), ..Scanned::new(jobs, next).with_examined(members.len() as u64) })
}

/// The jobs of elements in the wanted states, with the element of each. Also the last element that
/// was examined, if the jobs were too large to read all of them.
async fn jobs_of(
    broker: &RedisBroker,
    queue: &str,
    at: Where,
    places: Vec<Last>,
    states: &[JobState],
) -> Result<(Vec<(StoredJob, Last)>, Option<Last>)> {
    let elements: Vec<Vec<u8>> = places.iter().map(|place| place.element.clone()).collect();
    let ids: Vec<Option<Vec<u8>>> = match at {
        Where::Ended => elements.iter().map(|line| Some(until_and_id(line).1.to_vec())).collect(),
        Where::List(kind) => without_tombstones(broker, queue, kind, elements.clone()).await?,
        Where::Line => elements.iter().map(|member| groups::id_in(member)).collect(),
        Where::Set(Kind::Parked) => elements.iter().map(|member| Some(with_byte(member.clone(), 0))).collect(),
        Where::Set(_) | Where::Hash(_) => elements.iter().cloned().map(Some).collect(),
    };
    let (mut of_id, mut unlike, mut lines) = (HashMap::new(), Vec::new(), Vec::new());
    for (id, place) in ids.into_iter().zip(places) {
        // Values that are not ids are left for the auditor.
        let Some(id) = id.and_then(|id| JobId::from_bytes(&id).ok()) else { continue };
        // Each entry of an ended job may be the one that matches the record.
        let vacant = match of_id.entry(id.clone()) {
            Entry::Vacant(entry) => {
                entry.insert(place.clone());
                true
            }
            Entry::Occupied(_) => matches!(at, Where::Ended),
        };
        if vacant {
            unlike.push(id);
            lines.push(place);
        }
    }
    let records = first_records(broker, queue, &unlike).await?;
    let cut = if records.len() < unlike.len() { lines.get(records.len() - 1).cloned() } else { None };
    let jobs = match at {
        Where::Ended => {
            let found = ended_from_records(&lines.iter().map(|line| line.element.clone()).collect::<Vec<_>>(), records)?;
            // The position is that of the matching entry: an earlier entry may belong to an earlier
            // ending.
            for (at, job) in &found {
                of_id.extend(lines.get(*at).map(|line| (job.id.clone(), line.clone())));
            }
            found.into_iter().map(|(_, job)| job).collect()
        }
        _ => jobs_from_records(queue, &unlike, records)?,
    };
    let jobs = in_states(jobs, states).into_iter().filter_map(|job| Some((of_id.remove(&job.id)?, job))).map(|(place, job)| (job, place));
    Ok((jobs.collect(), cut))
}

/// The bytes after the first occurrence of a byte.
pub(super) fn with_byte(mut bytes: Vec<u8>, byte: u8) -> Vec<u8> {
    let at = bytes.iter().position(|other| *other == byte).map_or(0, |at| at + 1);
    bytes.drain(..at);
    bytes
}

async fn list(broker: &RedisBroker, queue: &str, kind: Kind, last: Option<&Last>, room: usize) -> Result<Part> {
    let Some(last) = last else {
        return Ok(of_list(&range(broker, queue, kind, 0, room as u64).await?, 0, 0, room));
    };
    let (mut from, mut upto) = (last.index.saturating_sub(NEAR), last.index.saturating_add(1 + AGAIN));
    for _ in 0..WINDOWS {
        let n = upto - from + room as u64;
        let window = range(broker, queue, kind, from, n).await?;
        // The element before it may have left the head.
        let is_last = |at: &usize| match previous_element(&window, *at) {
            Some(before) => last.before.as_deref() == Some(before),
            None => from == 0,
        };
        let found = (0..window.len()).filter(|at| window[*at] == last.element).find(is_last);
        let Some(begin) = found.map(|at| at + 1).or((from == 0).then_some(0)) else {
            (from, upto) = (from.saturating_sub(WINDOW), from.saturating_add(1 + AGAIN));
            continue;
        };
        let (elements, mut next) = of_list(&window, from, begin, room);
        if next.is_none() && window.len() as u64 == n {
            // The list continues after the window.
            next = window
                .last()
                .map(|end| Last::at(from + n - 1, end.clone(), previous_element(&window, window.len() - 1).map(<[u8]>::to_vec)));
        }
        return Ok((elements, next));
    }
    Ok((Vec::new(), Some(Last::at(from, last.element.clone(), last.before.clone()))))
}

/// The element before one.
fn previous_element(window: &[Vec<u8>], at: usize) -> Option<&[u8]> {
    Some(&**window.get(at.checked_sub(1)?)?)
}

/// Elements of a window from this one on, at most `room`. The window begins at an index of the
/// list.
fn of_list(window: &[Vec<u8>], from: u64, begin: usize, room: usize) -> Part {
    let end = window.len().min(begin + room);
    let at = |at: usize| Last::at(from + at as u64, window[at].clone(), previous_element(window, at).map(<[u8]>::to_vec));
    let elements: Vec<Last> = (begin..end).map(at).collect();
    let last = elements.last().filter(|_| elements.len() == room).cloned();
    (elements, last)
}

async fn range(broker: &RedisBroker, queue: &str, kind: Kind, from: u64, n: u64) -> Result<Vec<Vec<u8>>> {
    let mut command = broker.keys.on("LRANGE", queue, kind);
    // A larger number is not a valid index for a server.
    let from = from.min(1 << 62);
    super::range(broker, queue, command.arg(from).arg(from + n - 1)).await
}

async fn set(broker: &RedisBroker, queue: &str, kind: Kind, last: Option<&Last>, room: usize) -> Result<Part> {
    let mut call = SCAN.call(&broker.keys, queue);
    call.arg(kind.name()).arg(room).arg("behind");
    if let Some(last) = last {
        call.arg(&last.score).arg(&last.element);
    }
    let mut answer = array(broker.script(queue, &SCAN, call).await?)?.into_iter();
    let mut elements = Vec::new();
    while let (Some(member), Some(at)) = (answer.next(), answer.next()) {
        elements.push(Last { index: 0, score: text(at)?, element: bytes(member)?, before: None });
    }
    let last = elements.last().filter(|_| elements.len() == room).cloned();
    Ok((elements, last))
}

async fn hash(broker: &RedisBroker, queue: &str, kind: Kind, last: Option<&Last>, room: usize) -> Result<Part> {
    let mut ids = super::range(broker, queue, &broker.keys.on("HKEYS", queue, kind)).await?;
    ids.retain(|id| last.is_none_or(|last| *id > last.element));
    ids.sort_unstable();
    ids.truncate(room);
    let elements: Vec<Last> = ids.into_iter().map(|id| Last::at(0, id, None)).collect();
    let last = elements.last().filter(|_| elements.len() == room).cloned();
    Ok((elements, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_jobs_are_gone_through_for_those_that_move() {
        let places = |states: &[JobState]| unordered_places(&Scan::new("q", states, 1).including_moved());
        assert_eq!(places(&[JobState::Dead, JobState::Ready]), ["jobs"]);
        assert_eq!(places(&[JobState::Cancelled, JobState::Done, JobState::Scheduled, JobState::Retry]), ["records", "retry", "scheduled"]);
    }
}
