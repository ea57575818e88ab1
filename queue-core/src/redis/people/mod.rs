//! Requests of operators: reads (`stats`, `workers`, `list`, `show`), and changes of jobs and
//! queues.

mod diagnose;
mod edit;
mod follow;
mod keys;
mod pauses;
mod queues;
mod record;
mod scan;
mod workers;

use std::collections::HashSet;

use redis::Value;

use crate::{
    address::{JobId, subscription_at},
    broker::{
        AgingRecord, AgingSet, Change, Changed, JobState, LAST, OUTBOX, OutboxRecord, QueueStats, REQUEUED_AT_ONCE, SetAging, StoredJob,
        StoredPage,
    },
    envelope::Envelope,
    error::Result,
    redis::{
        RedisBroker, bounded, groups,
        keys::{Kind, READY},
        script::{AGING, CANCEL, DELETE, PROMOTE, REQUEUE, SHOW, STATS, Script, WATCH},
        topic,
        values::{array, bytes, next, number, text, unexpected_answer},
    },
};

#[cfg(feature = "fuzz")]
pub(in crate::redis) use self::record::{failures, kept_until};
pub(in crate::redis) use self::{
    diagnose::diagnose,
    edit::edit,
    follow::{follow, transitions},
    keys::key_holder,
    pauses::{pauses, set_pause},
    queues::{list_registered, queues},
    record::record,
    scan::scan,
    workers::{ask_worker, worker_records, workers},
};

/// Each script takes ids; the cancel script takes a reason before them. It answers for each id: 0
/// not changed, 1 changed, 2 changed while active.
pub(in crate::redis) async fn change(
    broker: &RedisBroker,
    queue: &str,
    change: Change,
    reason: Option<&str>,
    ids: &[JobId],
) -> Result<Vec<Changed>> {
    bounded("ids", ids.len())?;
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let script: &Script = match change {
        Change::Cancel => &CANCEL,
        Change::Requeue => return requeue(broker, queue, ids).await,
        Change::Promote => &PROMOTE,
        Change::Delete => &DELETE,
    };
    let mut call = script.call(&broker.keys, queue);
    if change == Change::Cancel {
        call.arg(reason.unwrap_or_default());
    }
    for id in ids {
        call.arg(id.as_bytes());
    }
    let answers = array(broker.script(queue, script, call).await?)?;
    answers.into_iter().map(parse_changed).collect()
}

/// Requeues in parts. The envelopes are read first, because a job with its old expiry would expire
/// again. The script compares the envelopes before it writes.
async fn requeue(broker: &RedisBroker, queue: &str, ids: &[JobId]) -> Result<Vec<Changed>> {
    let mut all = Vec::with_capacity(ids.len());
    for ids in ids.chunks(REQUEUED_AT_ONCE) {
        let mut call = REQUEUE.call(&broker.keys, queue);
        requeue_arguments(broker, queue, ids, &mut call).await?;
        for (id, answer) in ids.iter().zip(array(broker.script(queue, &REQUEUE, call).await?)?) {
            all.push(match answer {
                Value::Int(READ_AGAIN) => requeue_one(broker, queue, id).await?,
                answer => parse_changed(answer)?,
            });
        }
    }
    Ok(all)
}

/// The answer for a job whose envelope has changed since it was read.
const READ_AGAIN: i64 = 3;

/// If a job was requeued, edited and ended between the reading and the writing of its envelope, the
/// envelope is read again.
async fn requeue_one(broker: &RedisBroker, queue: &str, id: &JobId) -> Result<Changed> {
    loop {
        let mut call = REQUEUE.call(&broker.keys, queue);
        requeue_arguments(broker, queue, std::slice::from_ref(id), &mut call).await?;
        match next(&mut array(broker.script(queue, &REQUEUE, call).await?)?.into_iter())? {
            Value::Int(READ_AGAIN) => {}
            answer => return parse_changed(answer),
        }
    }
}

/// The arguments of a requeue: for each id the envelope without its expiry, or nothing if it has
/// none, and in the first case the envelope as it was read.
pub(in crate::redis) async fn requeue_arguments(broker: &RedisBroker, queue: &str, ids: &[JobId], call: &mut redis::Cmd) -> Result<()> {
    let mut read = broker.keys.on("HMGET", queue, Kind::Jobs);
    for id in ids {
        read.arg(id.as_bytes());
    }
    let envelopes = if ids.is_empty() { Vec::new() } else { array(broker.read(queue, &read).await?)? };
    for (id, envelope) in ids.iter().zip(envelopes) {
        let (anew, read) = match envelope {
            Value::BulkString(envelope) => Envelope::without_expiry(&envelope).map(|anew| (anew, envelope)).unwrap_or_default(),
            _ => Default::default(),
        };
        call.arg(id.as_bytes()).arg(anew).arg(read);
    }
    Ok(())
}

fn parse_changed(answer: Value) -> Result<Changed> {
    Ok(match answer {
        Value::BulkString(holder) => Changed::Held(JobId::from_bytes(&holder)?),
        answer => match number::<i64>(answer)? {
            1 => Changed::Yes,
            2 => Changed::WhileActive,
            _ => Changed::No,
        },
    })
}

pub(in crate::redis) async fn set_aging(broker: &RedisBroker, request: &SetAging) -> Result<AgingSet> {
    request.check()?;
    broker.register_queue(&request.queue, None).await?;
    loop {
        let mut call = AGING.call(&broker.keys, &request.queue);
        call.arg(&request.expected).arg(&request.stored);
        match broker.script(&request.queue, &AGING, call).await? {
            Value::BulkString(text) if text == b"SET" => return Ok(AgingSet::Set),
            Value::BulkString(text) if text == b"MORE" => {}
            other => {
                let stored = array(other)?.into_iter().next().ok_or_else(|| unexpected_answer("an answer to a change of aging"))?;
                return Ok(AgingSet::Stale(bytes(stored)?));
            }
        }
    }
}

pub(in crate::redis) async fn stats(broker: &RedisBroker, queue: &str) -> Result<QueueStats> {
    let answer = broker.script(queue, &STATS, STATS.call(&broker.keys, queue)).await?;
    let mut values = array(answer)?.into_iter();
    let mut stats = QueueStats::default();
    for state in [JobState::Ready, JobState::Scheduled, JobState::Retry, JobState::Active, JobState::Parked, JobState::Dead, JobState::Held]
    {
        stats.set_count(state, number::<i64>(next(&mut values)?)?.max(0).unsigned_abs());
    }
    stats.lanes = number(next(&mut values)?)?;
    stats.workers = number(next(&mut values)?)?;
    stats.paused = number::<i64>(next(&mut values)?)? != 0;
    let (mut counters, mut outboxes) = (array(next(&mut values)?)?.into_iter(), Vec::new());
    while let Some(name) = counters.next() {
        let value = next(&mut counters)?;
        // A value that is not text is not a counter.
        let Ok(name) = text(name) else { continue };
        if name.starts_with(OUTBOX) {
            outboxes.push((name, bytes(value)?));
            continue;
        }
        let value = number::<i64>(value).unwrap_or(0).max(0).unsigned_abs();
        match name.strip_prefix(".kept:").map(str::parse) {
            Some(Ok(state @ (JobState::Done | JobState::Cancelled | JobState::Expired))) => stats.set_count(state, value),
            Some(_) => {}
            None => stats.set_total(&name, value),
        }
    }
    stats.aging = AgingRecord::effective_interval(&bytes(next(&mut values)?)?);
    let now_ms = number(next(&mut values)?)?;
    stats.outboxes = OutboxRecord::merged(outboxes.iter().filter_map(|(name, stored)| OutboxRecord::read(name, stored, now_ms)));
    // The last value is absent if it is unknown.
    if let Some(since) = values.next().and_then(|since| number::<i64>(since).ok()) {
        stats.note_ready_since(since, now_ms);
    }
    Ok(stats)
}

/// All data of these jobs. Missing jobs are left out.
pub(in crate::redis) async fn show(broker: &RedisBroker, queue: &str, ids: &[JobId]) -> Result<Vec<StoredJob>> {
    jobs_from_records(queue, ids, records(broker, queue, ids).await?)
}

/// The jobs of records. Missing jobs are left out.
fn jobs_from_records(queue: &str, ids: &[JobId], records: Vec<Value>) -> Result<Vec<StoredJob>> {
    let records = ids.iter().zip(records).map(|(id, value)| record(id, value));
    let mut records: Vec<StoredJob> = records.filter_map(Result::transpose).collect::<Result<_>>()?;
    if subscription_at(queue).is_some() {
        records.iter_mut().for_each(|record| record.envelope = topic::with_messagepack_payload(&record.envelope).into_owned());
    }
    Ok(records)
}

/// All data of one job, for whose end a caller waits.
pub(in crate::redis) async fn watch(broker: &RedisBroker, queue: &str, id: &JobId) -> Result<Option<StoredJob>> {
    let mut call = WATCH.call(&broker.keys, queue);
    call.arg(id.as_bytes());
    record(id, broker.script(queue, &WATCH, call).await?)
}

/// The answer of the script for each id.
async fn records(broker: &RedisBroker, queue: &str, ids: &[JobId]) -> Result<Vec<Value>> {
    let mut records = Vec::with_capacity(ids.len());
    while records.len() < ids.len() {
        records.extend(first_records(broker, queue, &ids[records.len()..]).await?);
    }
    Ok(records)
}

/// The same for the first of these ids: as many as one call of the script returns, but at least
/// one.
async fn first_records(broker: &RedisBroker, queue: &str, ids: &[JobId]) -> Result<Vec<Value>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let mut call = SHOW.call(&broker.keys, queue);
    for id in ids {
        call.arg(id.as_bytes());
    }
    let records = array(broker.script(queue, &SHOW, call).await?)?;
    if records.is_empty() { Err(unexpected_answer("an answer about jobs")) } else { Ok(records) }
}

/// A page: reads ids first, then the jobs. A job that has changed its state between the two reads
/// is left out.
pub(in crate::redis) async fn list(broker: &RedisBroker, queue: &str, state: JobState, offset: u64, limit: usize) -> Result<StoredPage> {
    let (mut ids, next) = match state {
        JobState::Ready if offset == LAST => list_ready(broker, queue, last_of_ready(broker, queue, limit).await?, limit).await?,
        JobState::Ready => list_ready(broker, queue, offset, limit).await?,
        JobState::Scheduled => list_sorted(broker, queue, Kind::Scheduled, offset, limit).await?,
        JobState::Retry => list_sorted(broker, queue, Kind::Retry, offset, limit).await?,
        JobState::Dead => list_sorted(broker, queue, Kind::Dead, offset, limit).await?,
        JobState::Parked => list_sorted(broker, queue, Kind::Parked, offset, limit).await?,
        JobState::Active => list_active(broker, queue, offset, limit).await?,
        JobState::Held => list_sorted(broker, queue, Kind::Holds, offset, limit).await?,
        JobState::Done | JobState::Cancelled | JobState::Expired => return list_ended(broker, queue, state, offset, limit).await,
    };
    // A ready job may also be in another list, under a tombstone.
    let mut seen = HashSet::new();
    ids.retain(|id| seen.insert(id.clone()));
    // Values that are not ids are left for the auditor.
    let ids: Vec<JobId> = ids.iter().filter_map(|id| JobId::from_bytes(id).ok()).collect();
    Ok(StoredPage::new(in_states(show(broker, queue, &ids).await?, &[state]), next))
}

/// Jobs in the form of a list.
fn in_states(mut jobs: Vec<StoredJob>, states: &[JobState]) -> Vec<StoredJob> {
    jobs.retain(|job| states.contains(&job.state));
    jobs.into_iter().map(StoredJob::listed).collect()
}

/// The three final states of kept jobs share a list, and a set for jobs with another retention. If
/// a job was removed or its id has ended again, the entry in the list remains until its retention
/// expires. Such an entry is recognized by its time, which differs from that of the record.
async fn list_ended(broker: &RedisBroker, queue: &str, state: JobState, offset: u64, limit: usize) -> Result<StoredPage> {
    let mut command = broker.keys.on("LRANGE", queue, Kind::Ended);
    let mut lines = range(broker, queue, with_page_range(&mut command, offset, limit)).await?;
    if offset == LAST {
        lines.extend(read_lapsing(broker, queue, offset, limit).await?);
        let mut jobs = in_states(ended_jobs(broker, queue, &lines).await?, &[state]);
        jobs.sort_by_key(|job| job.at_ms);
        return Ok(StoredPage::new(jobs.split_off(jobs.len().saturating_sub(limit)), None));
    }
    if lines.len() <= limit {
        let length: u64 = number(broker.read(queue, &broker.keys.on("LLEN", queue, Kind::Ended)).await?)?;
        lines.extend(read_lapsing(broker, queue, offset.saturating_sub(length), limit - lines.len()).await?);
    }
    let (lines, next) = split_page(lines, offset, limit);
    Ok(StoredPage::new(in_states(ended_jobs(broker, queue, &lines).await?, &[state]), next))
}

/// Some entries of the set in the form of the list, and one more.
async fn read_lapsing(broker: &RedisBroker, queue: &str, offset: u64, limit: usize) -> Result<Vec<Vec<u8>>> {
    let mut command = broker.keys.on("ZRANGE", queue, Kind::Lapsing);
    with_page_range(&mut command, offset, limit).arg("WITHSCORES");
    let (mut found, mut lines) = (range(broker, queue, &command).await?.into_iter(), Vec::new());
    while let (Some(id), Some(until)) = (found.next(), found.next()) {
        lines.push([until.as_slice(), b":", &id].concat());
    }
    Ok(lines)
}

async fn ended_jobs(broker: &RedisBroker, queue: &str, lines: &[Vec<u8>]) -> Result<Vec<StoredJob>> {
    let ids: Vec<JobId> = lines.iter().filter_map(|line| JobId::from_bytes(until_and_id(line).1).ok()).collect();
    let records = records(broker, queue, &ids).await?;
    Ok(ended_from_records(lines, records)?.into_iter().map(|(_, job)| job).collect())
}

/// The jobs of entries that match their records. For each job, the index among the entries with a
/// valid id.
fn ended_from_records(lines: &[Vec<u8>], records: Vec<Value>) -> Result<Vec<(usize, StoredJob)>> {
    let (mut jobs, mut seen) = (Vec::new(), HashSet::new());
    let known = lines.iter().map(|line| until_and_id(line)).filter_map(|(until, id)| Some((JobId::from_bytes(id).ok()?, until)));
    for (at, ((id, until), value)) in known.zip(records).enumerate() {
        // A job that another program has made run again has ended twice, and has one record.
        if record::kept_until(&value).is_some_and(|kept| until.is_none_or(|until| kept == until)) && seen.insert(id.clone()) {
            jobs.extend(record(&id, value)?.map(|job| (at, job)));
        }
    }
    Ok(jobs)
}

/// The parts of an entry: `until:id`, or only an id, which never looks like that.
fn until_and_id(line: &[u8]) -> (Option<&[u8]>, &[u8]) {
    match line.iter().position(|byte| !byte.is_ascii_digit()) {
        Some(end) if end > 0 && line[end] == b':' => (Some(&line[..end]), &line[end + 1..]),
        _ => (None, line),
    }
}

/// The most places of `ready` that one page examines, even if few of them have jobs.
const PLACES: u64 = 500;

type Ids = (Vec<Vec<u8>>, Option<u64>);

/// The ids include one more than the limit, to find out whether there is a next page.
fn split_page(mut ids: Vec<Vec<u8>>, offset: u64, limit: usize) -> Ids {
    let more = ids.len() > limit;
    ids.truncate(limit);
    (ids, more.then(|| offset + limit as u64))
}

/// The places of a page, and one more.
fn with_page_range(command: &mut redis::Cmd, offset: u64, limit: usize) -> &mut redis::Cmd {
    if offset == LAST {
        return command.arg(format!("-{limit}")).arg(-1);
    }
    // A larger number is not a valid index for a server.
    let offset = offset.min(1 << 62);
    command.arg(offset).arg(offset + limit as u64)
}

/// The beginning of the last page of `ready`. If the lists have tombstones, the page has fewer
/// jobs.
async fn last_of_ready(broker: &RedisBroker, queue: &str, limit: usize) -> Result<u64> {
    let mut all = 0;
    for list in READY {
        all += number::<u64>(broker.read(queue, &broker.keys.on("LLEN", queue, list)).await?)?;
    }
    all += number::<u64>(broker.read(queue, &broker.keys.on("ZCARD", queue, Kind::Line)).await?)?;
    Ok(all.saturating_sub(limit as u64))
}

async fn range(broker: &RedisBroker, queue: &str, command: &redis::Cmd) -> Result<Vec<Vec<u8>>> {
    array(broker.read(queue, command).await?)?.into_iter().map(bytes).collect()
}

/// Some places of the lists of `ready`, and the ids of those that have a job. A cancelled id keeps
/// its place under a tombstone.
async fn list_ready(broker: &RedisBroker, queue: &str, offset: u64, limit: usize) -> Result<Ids> {
    let (mut skip, mut passed, mut ids) = (offset, 0, Vec::new());
    for list in READY {
        let length: u64 = number(broker.read(queue, &broker.keys.on("LLEN", queue, list)).await?)?;
        let behind = length.saturating_sub(skip);
        let looks = behind.min(PLACES - passed);
        if looks > 0 {
            let mut command = broker.keys.on("LRANGE", queue, list);
            let found = range(broker, queue, command.arg(skip).arg(skip + looks - 1)).await?;
            for id in without_tombstones(broker, queue, list, found).await? {
                if id.is_some() && ids.len() == limit {
                    return Ok((ids, Some(offset + passed)));
                }
                passed += 1;
                ids.extend(id);
            }
        }
        if looks < behind {
            return Ok((ids, Some(offset + passed.max(1))));
        }
        skip = skip.saturating_sub(length);
    }
    // The jobs of groups follow, group by group.
    let mut command = broker.keys.on("ZRANGE", queue, Kind::Line);
    let wanted = (limit - ids.len()) as u64;
    let members = range(broker, queue, command.arg(skip.min(1 << 62)).arg(skip.min(1 << 62) + wanted)).await?;
    let more = members.len() as u64 > wanted;
    ids.extend(members.iter().take(limit - ids.len()).filter_map(|member| groups::id_in(member)));
    let line = skip + wanted;
    let before = offset + passed - skip.min(offset + passed);
    Ok((ids, more.then_some(before + line)))
}

/// The ids of a list; `None` for each that is there under a tombstone.
async fn without_tombstones(broker: &RedisBroker, queue: &str, list: Kind, ids: Vec<Vec<u8>>) -> Result<Vec<Option<Vec<u8>>>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let mut command = broker.keys.on("HMGET", queue, Kind::Tombstones);
    for id in &ids {
        command.arg([id, list.digit().as_bytes()].concat());
    }
    let tombstones = array(broker.read(queue, &command).await?)?;
    Ok(ids.into_iter().zip(tombstones).map(|(id, tombstone)| (tombstone == Value::Nil).then_some(id)).collect())
}

async fn list_sorted(broker: &RedisBroker, queue: &str, kind: Kind, offset: u64, limit: usize) -> Result<Ids> {
    let mut command = broker.keys.on("ZRANGE", queue, kind);
    let mut ids = range(broker, queue, with_page_range(&mut command, offset, limit)).await?;
    if kind == Kind::Parked {
        // A member is `task NUL id`.
        ids = ids.into_iter().map(|member| scan::with_byte(member, 0)).collect();
    }
    Ok(split_page(ids, offset, limit))
}

/// Active jobs have only the order of their ids. Their number is at most that of the slots of all
/// workers.
async fn list_active(broker: &RedisBroker, queue: &str, offset: u64, limit: usize) -> Result<Ids> {
    let mut ids = range(broker, queue, &broker.keys.on("HKEYS", queue, Kind::Active)).await?;
    ids.sort_unstable();
    let all = ids.len();
    let skip = if offset == LAST { all.saturating_sub(limit) } else { usize::try_from(offset).unwrap_or(usize::MAX).min(all) };
    ids.drain(..skip);
    Ok(split_page(ids, offset, limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_an_id_or_a_time_and_an_id() {
        let made = b"\x01\x9a:34:\x00rest of it";
        assert_eq!(until_and_id(made), (None, &made[..]));
        assert_eq!(until_and_id(b"1764000000000:=mine"), (Some(&b"1764000000000"[..]), &b"=mine"[..]));
        assert_eq!(until_and_id(b"1764000000000:12:rest"), (Some(&b"1764000000000"[..]), &b"12:rest"[..]));
        assert_eq!(until_and_id(b":7 made ids begin as they like"), (None, &b":7 made ids begin as they like"[..]));
        assert_eq!(until_and_id(b"1234567890123456"), (None, &b"1234567890123456"[..]));
    }
}
