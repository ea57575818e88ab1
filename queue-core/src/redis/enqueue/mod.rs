//! Enqueues (R12): encodes the request as a call of its script, and decodes the answer.

use std::{
    future::poll_fn,
    pin::pin,
    task::Poll,
    time::{Duration, Instant},
};

use redis::{Cmd, Value};

use crate::{
    address::{JobId, topic_at},
    broker::{Confirm, Confirmed, Due, Durability, Enqueue, Enqueued, GroupName, Hold, JobLimits, NewJob, OnConflict, Priority, Unique},
    envelope::tags::has_tags,
    error::{Error, Result},
    redis::{
        RedisBroker, bounded,
        connection::{
            refusal::BY_A_LANE,
            servers::{Purpose, deadline},
        },
        keys::Keys,
        script::{
            ENQUEUE, ENQUEUE_PLAIN, Script,
            bits::{Bit, Bits},
        },
        topic,
        values::{FOREVER, array, bytes, ms, next, number, unexpected_answer},
    },
};

/// A larger job sets the feature bit for large jobs, with which claims are bounded in bytes too.
pub(in crate::redis) const LARGE: usize = 2048;

/// The group of jobs that have limits but no group.
const NO_GROUP: &[u8] = b"\0\0";

/// What a job needs from the script. Neighbors with the same needs are sent as one part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Ready(u8),
    Grouped,
    Limited,
    Later,
    Given,
    /// Jobs with a unique key, this hold and this conflict handling, and no other rare property.
    Keyed(&'static str, &'static str),
    Unique,
    /// Jobs of a relay with generated ids.
    Relayed,
    /// Jobs of a relay that are not sent, because a lane does not know a feature that they need.
    Withheld,
}

impl Part {
    fn of(job: &NewJob) -> Self {
        if let Some(unique) = &job.unique {
            return Part::of_unique(job, unique);
        }
        match job.due {
            _ if job.id.is_given() => Part::Given,
            Due::Now if job.limits.is_some() => Part::Limited,
            Due::Now if job.group.is_some() => Part::Grouped,
            Due::Now => Part::Ready(job.priority.number()),
            Due::After(_) | Due::AtMs(_) => Part::Later,
        }
    }

    fn of_unique(job: &NewJob, unique: &Unique) -> Self {
        let is_plain = job.group.is_none() && job.limits.is_none();
        let is_usual = is_plain && !job.id.is_given() && job.due == Due::Now && job.priority == Priority::Normal;
        match unique.hold {
            Hold::UntilEnded if is_usual && unique.max_wait.is_none() => Part::Keyed("e", on_conflict(unique)),
            Hold::UntilStarted if is_usual && unique.max_wait.is_none() => Part::Keyed("s", on_conflict(unique)),
            _ => Part::Unique,
        }
    }

    /// The same for a job of a relay.
    fn of_relayed(job: &NewJob) -> Self {
        match job.unique {
            Some(_) => Part::Unique,
            None if job.id.is_given() => Part::Given,
            None => Part::Relayed,
        }
    }

    /// Whether two jobs can be sent in one part.
    fn is_same_part(of: impl Fn(&NewJob) -> Part, one: &NewJob, other: &NewJob) -> bool {
        let part = of(one);
        part == of(other) && (matches!(part, Part::Grouped | Part::Limited) || one.group == other.group && one.limits == other.limits)
    }
}

/// The longest time to wait for a confirmation.
const CONFIRM: Duration = Duration::from_secs(2);

/// Commands that wait until the writes of their connection are as safe as `confirm` requires. Their
/// answers are read by [`confirmed`](crate::redis::values::confirmed).
///
/// They wait at most for half of the remaining time of the caller, so that their answers arrive in
/// time.
fn confirm(confirm: &Confirm, until: Option<Instant>) -> Vec<Cmd> {
    let left = until.map_or(CONFIRM, |until| (until.saturating_duration_since(Instant::now()) / 2).min(CONFIRM));
    // Zero would mean to wait forever.
    let wait = ms(left).max(1);
    let mut commands = vec![redis::cmd("WAIT")];
    commands[0].arg(confirm.replicas).arg(wait);
    if confirm.durability >= Durability::PowerLoss {
        let mut synced = redis::cmd("WAITAOF");
        synced.arg(1).arg(0).arg(wait);
        commands.push(synced);
    }
    commands
}

pub(in crate::redis) async fn enqueue(broker: &RedisBroker, request: &Enqueue) -> Result<Vec<Enqueued>> {
    bounded("jobs", request.jobs.len())?;
    let sent = send(broker, request, broker.known.full(), &[]);
    let mut sent = pin!(sent);
    let begun = poll_fn(|context| Poll::Ready(sent.as_mut().poll(context))).await;
    // The jobs are on their way. A job with a chosen id may exist already, and then adds no work.
    if topic_at(&request.queue).is_none()
        && request.jobs.iter().any(|job| job.due == Due::Now && !job.id.is_given() && job.unique.is_none())
    {
        broker.announcements.expect_work(&request.queue);
    }
    let answer = match begun {
        Poll::Ready(answer) => answer?.0,
        Poll::Pending => sent.await?.0,
    };
    let answers = match parse_enqueued(answer, request.jobs.len())? {
        Some(answers) => Some(answers),
        None => parse_enqueued(send(broker, request, true, &[]).await?.0, request.jobs.len())?,
    };
    answers.ok_or_else(without_answer)
}

/// Sends a request, and then commands on the same connection. In a request of a relay, jobs are
/// withheld if they need a feature that a lane does not know. The other jobs do not wait for them.
async fn send(broker: &RedisBroker, request: &Enqueue, full: bool, then: &[Cmd]) -> Result<(Value, Vec<Value>)> {
    let purpose = if then.is_empty() { Purpose::Requests } else { Purpose::Confirmed };
    let mut withheld = Bits::NONE;
    loop {
        let (script, call) = call_of(request, full, withheld, &broker.keys)?;
        let sent = broker.servers.script_then(request.until, purpose, &request.queue, script, call, then);
        match broker.io.clocked(sent).await {
            Err(Error::FeatureUnknown { feature, by: BY_A_LANE, .. })
                if request.relayed.is_some()
                    && let Some(bit) = Bit::ALL.into_iter().find(|bit| bit.name() == feature && !withheld.has(*bit)) =>
            {
                withheld = withheld.with(bit);
            }
            answer => return answer,
        }
    }
}

fn without_answer() -> Error {
    Error::Internal("an enqueue by the full script has no answer".to_owned())
}

pub(in crate::redis) async fn enqueue_confirmed(
    broker: &RedisBroker,
    request: &Enqueue,
    how: &Confirm,
) -> Result<(Vec<Enqueued>, Confirmed)> {
    bounded("jobs", request.jobs.len())?;
    let mut full = broker.known.full();
    // A replay changes nothing, but it waits for a confirmation as a write does: `WAIT` covers all
    // writes of the connection.
    let then = confirm(how, request.until);
    let (answers, then) = loop {
        let (answer, then) = send(broker, request, full, &then).await?;
        match parse_enqueued(answer, request.jobs.len())? {
            Some(answers) => break (answers, then),
            None if full => return Err(without_answer()),
            None => full = true,
        }
    };
    let (synced, replicas) = parse_confirmed(then);
    // The jobs are stored, so an error here does not fail the enqueue.
    let durability = if synced { Durability::PowerLoss } else { durability_until(broker, request.until).await };
    Ok((answers, Confirmed { durability, replicas }))
}

/// The failures that a stored job survives, if the servers report it in time.
async fn durability_until(broker: &RedisBroker, until: Option<Instant>) -> Durability {
    let asked = broker.io.clocked(tokio::time::timeout_at(deadline(until).into(), broker.servers.durability()));
    asked.await.ok().and_then(Result::ok).unwrap_or(Durability::Volatile)
}

/// The feature bits that a job needs.
fn needs_of(job: &NewJob) -> Bits {
    let bits = if job.envelope.len() > LARGE { Bits::of(&[Bit::Large]) } else { Bits::NONE };
    let bits = if has_tags(&job.envelope) { bits.with(Bit::Tagged) } else { bits };
    let bits = if job.unique.is_some() { bits.with(Bit::Unique) } else { bits };
    let bits = if job.group.is_some() { bits.with(Bit::Grouped) } else { bits };
    let bits = if job.limits.is_some() { bits.and(Bits::of(&[Bit::Grouped, Bit::Limited])) } else { bits };
    if job.priority == Priority::Normal { bits } else { bits.with(Bit::Priority) }
}

/// Whether a job needs one of these bits.
fn is_withheld(job: &NewJob, withheld: Bits) -> bool {
    let needs = needs_of(job);
    Bit::ALL.into_iter().any(|bit| withheld.has(bit) && needs.has(bit))
}

/// Encodes an enqueue, and selects its script: the plain one if it suffices, or else the full one.
fn call_of(request: &Enqueue, full: bool, withheld: Bits, keys: &Keys) -> Result<(&'static Script, Cmd)> {
    if topic_at(&request.queue).is_some() {
        return topic::publish(request, keys);
    }
    let needs = request.jobs.iter().filter(|job| !is_withheld(job, withheld)).fold(Bits::NONE, |bits, job| bits.and(needs_of(job)));
    let part_of = |job: &NewJob| match request.relayed {
        None => Part::of(job),
        Some(_) if is_withheld(job, withheld) => Part::Withheld,
        Some(_) => Part::of_relayed(job),
    };
    let ready = request.relayed.is_none()
        && request.jobs.iter().all(|job| Part::of(job) == Part::Ready(Priority::Normal.number()))
        && !needs.has(Bit::Tagged);
    let script: &Script = if ready && !full { &ENQUEUE_PLAIN } else { &ENQUEUE };
    let bytes: usize = request.jobs.iter().map(|job| job.id.as_bytes().len() + job.envelope.len()).sum();
    let mut call = script.call_with(keys, &request.queue, 3 + 2 * request.jobs.len(), 64 + bytes);
    with_number(&mut call, request);
    call.arg(needs.letters());
    if ready && !full {
        for job in &request.jobs {
            call.arg(job.id.as_bytes()).arg(&job.envelope);
        }
        return Ok((script, call));
    }
    let (mut named, mut limited): (Option<&GroupName>, Option<&JobLimits>) = (None, None);
    for part in request.jobs.chunk_by(|one, other| Part::is_same_part(part_of, one, other)) {
        let (first, group) = (part_of(&part[0]), part[0].group.as_ref());
        let limits = part[0].limits.as_deref();
        if limits != limited && !matches!(first, Part::Ready(_) | Part::Grouped | Part::Limited) {
            call.arg("M").arg(limits.map(JobLimits::chain).unwrap_or_default()).arg(limits.map_or(1, |limits| limits.cost));
            limited = limits;
        }
        if group != named && !matches!(first, Part::Ready(_) | Part::Grouped | Part::Limited) {
            call.arg("G").arg(group.map(GroupName::stored).unwrap_or_default());
            named = group;
        }
        match first {
            Part::Ready(list) => {
                call.arg("r").arg(list).arg(part.len());
                for job in part {
                    call.arg(job.id.as_bytes()).arg(&job.envelope);
                }
            }
            Part::Grouped => {
                call.arg("q").arg(part.len());
                for job in part {
                    let group = job.group.as_ref().map(GroupName::stored).unwrap_or_default();
                    call.arg(job.id.as_bytes()).arg(&job.envelope).arg(job.priority.number()).arg(group);
                }
            }
            Part::Limited => {
                call.arg("m").arg(part.len());
                for job in part {
                    let group = job.group.as_ref().map_or_else(|| NO_GROUP.to_vec(), GroupName::stored);
                    call.arg(job.id.as_bytes()).arg(&job.envelope).arg(job.priority.number()).arg(group);
                    call.arg(job.limits.as_deref().map(JobLimits::chain).unwrap_or_default());
                    call.arg(job.limits.as_ref().map_or(1, |limits| limits.cost));
                }
            }
            Part::Relayed => {
                call.arg("o").arg(part.len());
                part.iter().for_each(|job| with_due(&mut call, job));
            }
            Part::Withheld => {
                call.arg("x").arg(part.len());
            }
            Part::Later => {
                call.arg("s").arg(part.len());
                part.iter().for_each(|job| with_due(&mut call, job));
            }
            Part::Given => {
                call.arg("g").arg(part.len());
                for job in part {
                    with_due(&mut call, job);
                    call.arg(job.digest);
                }
            }
            Part::Keyed(hold, conflict) => {
                call.arg("k").arg(hold).arg(conflict).arg(part.len());
                for job in part {
                    call.arg(job.id.as_bytes()).arg(&job.envelope);
                }
                for unique in part.iter().filter_map(|job| job.unique.as_ref()) {
                    call.arg(unique.key.as_bytes());
                }
            }
            Part::Unique => {
                call.arg("u").arg(part.len());
                part.iter().for_each(|job| with_key(&mut call, job));
            }
        }
    }
    Ok((script, call))
}

/// The name and the number of a request, and its digest if it has one.
pub(in crate::redis) fn with_number(call: &mut Cmd, request: &Enqueue) {
    call.arg(request.producer.as_str());
    match request.relayed {
        None => call.arg(request.seq),
        Some(digest) => call.arg(format!("{}#{:032x}", request.seq, u128::from_be_bytes(digest))),
    };
}

fn with_key(call: &mut Cmd, job: &NewJob) {
    let Some(unique) = &job.unique else { unreachable!("it is among those with a key") };
    with_due(call, job);
    call.arg(job.digest).arg(unique.key.as_bytes());
    match unique.hold {
        Hold::UntilEnded => call.arg("e"),
        Hold::UntilStarted => call.arg("s"),
        Hold::Within(time) => call.arg(ms(time)),
    };
    call.arg(on_conflict(unique));
    match unique.max_wait {
        Some(wait) => call.arg(ms(wait)),
        None => call.arg(""),
    };
}

fn on_conflict(unique: &Unique) -> &'static str {
    match unique.on_conflict {
        OnConflict::Skip => "s",
        OnConflict::Replace if unique.keep_payload => "f",
        OnConflict::Replace => "r",
        OnConflict::BufferOne => "b",
    }
}

fn with_due(call: &mut Cmd, job: &NewJob) {
    call.arg(job.id.as_bytes()).arg(&job.envelope).arg(job.priority.number());
    match job.due {
        Due::Now => call.arg("").arg(""),
        Due::After(delay) => call.arg(ms(delay)).arg(""),
        Due::AtMs(at) => call.arg("").arg(at.clamp(0, FOREVER.cast_signed())),
    };
}

/// The answer for each job; `None` if the full script is needed.
pub(in crate::redis) fn parse_enqueued(value: Value, jobs: usize) -> Result<Option<Vec<Enqueued>>> {
    match value {
        Value::Nil => return Ok(Some(vec![Enqueued::Stored; jobs])),
        Value::Int(0) => return Ok(None),
        _ => (),
    }
    // The ids that the digits name follow the digits.
    let mut values = match value {
        Value::Array(values) => values.into_iter(),
        value => vec![value].into_iter(),
    };
    let digits = bytes(next(&mut values)?)?;
    let mut named = || JobId::from_bytes(&bytes(next(&mut values)?)?);
    let answers: Vec<Enqueued> = digits
        .into_iter()
        .map(|digit| match digit {
            b'0' => Ok(Enqueued::Stored),
            b'1' => Ok(Enqueued::Existing),
            b'2' => Ok(Enqueued::IdConflict),
            b'3' => named().map(Enqueued::Duplicate),
            b'4' => named().map(Enqueued::Replaced),
            b'5' => named().map(Enqueued::Buffered),
            b'6' => Ok(Enqueued::GroupFull),
            b'7' => Ok(Enqueued::Held),
            _ => Err(unexpected_answer("an answer to an enqueue")),
        })
        .collect::<Result<_>>()?;
    if answers.len() == jobs { Ok(Some(answers)) } else { Err(unexpected_answer("the number of answers")) }
}

/// The outcome of [`confirm`]: whether the server's disk has the write, and how many replicas have
/// it. A server that cannot report this confirms nothing.
pub(in crate::redis) fn parse_confirmed(answers: Vec<Value>) -> (bool, u32) {
    let mut answers = answers.into_iter();
    let replicas = answers.next().and_then(|replicas| number(replicas).ok()).unwrap_or(0);
    let synced = answers.next().and_then(|answer| array(answer).ok()).and_then(|answer| answer.into_iter().next());
    (synced.and_then(|synced| number::<u32>(synced).ok()).is_some_and(|synced| synced > 0), replicas)
}
