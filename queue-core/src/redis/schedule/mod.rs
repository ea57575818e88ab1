//! Schedules: due schedules, their list, and their changes.

use std::time::Duration;

use redis::Value;

use crate::{
    broker::{
        DueSchedules, GroupName, HANDED_OUT, JobLimits, MAX_ITEMS, Priority, ScheduleAnswer, ScheduleList, SchedulePage, SetSchedule,
        StoredSchedule,
    },
    envelope::tags::has_tags,
    error::Result,
    redis::{
        RedisBroker,
        connection::servers::Purpose,
        enqueue::LARGE,
        script::{
            CHANGE_SCHEDULE, DUE_SCHEDULES, SCHEDULES, SET_SCHEDULE, Script,
            bits::{Bit, Bits},
        },
        values::{array, bytes, ms, next, number, text, unexpected_answer},
    },
};

pub(in crate::redis) async fn due(broker: &RedisBroker, queue: &str, limit: usize) -> Result<DueSchedules> {
    let mut call = DUE_SCHEDULES.call(&broker.keys, queue);
    call.arg(limit.clamp(1, MAX_ITEMS)).arg(ms(HANDED_OUT));
    let mut values = array(broker.script(queue, &DUE_SCHEDULES, call).await?)?.into_iter();
    let now_us: i64 = number(next(&mut values)?)?;
    let next_us = text(next(&mut values)?)?.parse::<i64>().ok();
    let next_due = next_us.map(|at| Duration::from_micros(u64::try_from(at.saturating_sub(now_us)).unwrap_or(0)));
    Ok(DueSchedules::new(now_us / 1000, parse_schedules(&mut values)?, next_due))
}

/// Names, definitions and states. Incomplete entries and invalid names are left out.
fn parse_schedules(values: &mut impl Iterator<Item = Value>) -> Result<Vec<StoredSchedule>> {
    let (names, definitions, states) = (array(next(values)?)?, array(next(values)?)?, array(next(values)?)?);
    let mut stored = Vec::with_capacity(names.len());
    for ((name, definition), state) in names.into_iter().zip(definitions).zip(states) {
        if let (Ok(name), Value::BulkString(definition), Value::BulkString(state)) = (text(name), definition, state) {
            stored.push(StoredSchedule::new(name, definition, state));
        }
    }
    Ok(stored)
}

pub(in crate::redis) async fn list(broker: &RedisBroker, queue: &str, which: &ScheduleList) -> Result<SchedulePage> {
    let mut call = SCHEDULES.call(&broker.keys, queue);
    let mut page = None;
    match which {
        ScheduleList::One(name) => call.arg("one").arg(name),
        ScheduleList::Declared => call.arg("declared"),
        ScheduleList::All { offset, limit } => {
            let limit = (*limit).clamp(1, MAX_ITEMS);
            page = Some((*offset, limit));
            call.arg("all").arg(offset).arg(limit)
        }
        ScheduleList::After { after_ms, offset, limit } => {
            let limit = (*limit).clamp(1, MAX_ITEMS);
            page = Some((*offset, limit));
            call.arg("after").arg(offset).arg(limit).arg(after_ms)
        }
    };
    let mut values = array(broker.script(queue, &SCHEDULES, call).await?)?.into_iter();
    let now_ms = number(next(&mut values)?)?;
    let mut names = array(next(&mut values)?)?;
    // The page includes one more than the limit, to find out whether there is a next page.
    let following = page.filter(|(_, limit)| names.len() > *limit).map(|(offset, limit)| offset + limit as u64);
    if let Some((_, limit)) = page {
        names.truncate(limit);
    }
    let mut rest = [Value::Array(names)].into_iter().chain(values);
    Ok(SchedulePage::new(now_ms, parse_schedules(&mut rest)?, following))
}

pub(in crate::redis) async fn set(broker: &RedisBroker, request: &SetSchedule) -> Result<ScheduleAnswer> {
    request.check()?;
    // A change that adds no jobs works on a full server.
    let script: &Script = if request.added() > 0 { &SET_SCHEDULE } else { &CHANGE_SCHEDULE };
    let mut call = script.call_with(&broker.keys, &request.queue, 10 + 8 * request.jobs.len(), 512 + request.added());
    call.arg(&request.name).arg(request.asked_ms).arg(request.expected.as_deref().unwrap_or_default());
    match &request.set {
        Some(set) => {
            call.arg("s").arg(set.definition.as_deref().unwrap_or_default()).arg(&set.state);
            match set.due_ms {
                Some(due) => call.arg(due.max(0)),
                None => call.arg(""),
            };
            call.arg(u8::from(set.declared));
        }
        None => drop(call.arg("r").arg("").arg("").arg("").arg("")),
    }
    call.arg(request.stop.as_ref().map_or(&[][..], |id| id.as_bytes())).arg(needs(request).letters());
    for tick in &request.jobs {
        call.arg(tick.job.id.as_bytes()).arg(&tick.job.envelope).arg(tick.job.priority.number());
        call.arg(tick.run).arg(u8::from(tick.remembered));
        call.arg(tick.job.group.as_ref().map(GroupName::stored).unwrap_or_default());
        call.arg(tick.job.limits.as_deref().map(JobLimits::chain).unwrap_or_default());
        call.arg(tick.job.limits.as_ref().map_or(1, |limits| limits.cost));
    }
    if request.expected.is_none() && request.set.is_some() {
        broker.register_queue(&request.queue, None).await?;
    }
    let answer = broker.servers.script(Purpose::Heartbeats, &request.queue, script, call).await?;
    if !request.jobs.is_empty() {
        broker.announcements.expect_work(&request.queue);
    }
    match &*bytes(answer)? {
        b"STALE" => Ok(ScheduleAnswer::Stale),
        b"MOVED" => Ok(ScheduleAnswer::Moved),
        digits if digits.len() == request.jobs.len() => Ok(ScheduleAnswer::Set(digits.iter().map(|digit| *digit == b'1').collect())),
        _ => Err(unexpected_answer("an answer to a change of a schedule")),
    }
}

/// The feature bits that its jobs need.
fn needs(request: &SetSchedule) -> Bits {
    request.jobs.iter().fold(Bits::NONE, |bits, tick| {
        let bits = bits.with(Bit::Scheduled);
        let bits = if tick.job.envelope.len() > LARGE { bits.with(Bit::Large) } else { bits };
        let bits = if has_tags(&tick.job.envelope) { bits.with(Bit::Tagged) } else { bits };
        let bits = if tick.job.group.is_some() { bits.with(Bit::Grouped) } else { bits };
        let bits = if tick.job.limits.is_some() { bits.and(Bits::of(&[Bit::Grouped, Bit::Limited])) } else { bits };
        if tick.job.priority == Priority::Normal { bits } else { bits.with(Bit::Priority) }
    })
}
