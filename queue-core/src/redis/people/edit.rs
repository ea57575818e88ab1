//! The edit of a waiting job as a call of its script.

use redis::Value;

use crate::{
    address::JobId,
    broker::{EditJob, EditedJob, GroupName, JobLimits, JobState, Priority},
    envelope::tags::has_tags,
    error::Result,
    redis::{
        RedisBroker,
        enqueue::LARGE,
        script::{
            EDIT,
            bits::{Bit, Bits},
        },
        values::{FOREVER, array, bytes, display_text, next, unexpected_answer},
    },
};

/// The feature bits that the edited job needs.
fn needs(request: &EditJob) -> Bits {
    let bits = [
        (request.priority != Priority::Normal, Bit::Priority),
        (request.group.is_some() || request.limits.is_some(), Bit::Grouped),
        (request.limits.is_some(), Bit::Limited),
        (request.envelope.len() > LARGE, Bit::Large),
        (has_tags(&request.envelope), Bit::Tagged),
    ];
    bits.into_iter().filter(|(is_needed, _)| *is_needed).fold(Bits::NONE, |bits, (_, bit)| bits.with(bit))
}

pub(in crate::redis) async fn edit(broker: &RedisBroker, request: &EditJob) -> Result<EditedJob> {
    let seen = &request.seen;
    let mut call = EDIT.call(&broker.keys, &request.queue);
    let group = |group: &Option<GroupName>| group.as_ref().map(GroupName::stored).unwrap_or_default();
    let time = |at: Option<i64>| at.map(|at| at.clamp(0, FOREVER.cast_signed()).to_string()).unwrap_or_default();
    let limits = request.limits.as_deref();
    call.arg(request.id.as_bytes()).arg(needs(request).letters());
    call.arg(&seen.envelope).arg(seen.priority.number()).arg(group(&seen.group)).arg(time(seen.at_ms));
    call.arg(&request.envelope).arg(request.priority.number()).arg(group(&request.group));
    call.arg(limits.map_or_else(|| vec![0], JobLimits::chain)).arg(limits.map_or(1, |limits| limits.cost));
    call.arg(request.unique.as_ref().map_or(&[][..], |key| key.as_bytes())).arg(time(request.at_ms));
    call.arg(request.digest).arg(u8::from(request.is_new_payload));
    parse_edited(broker.script(&request.queue, &EDIT, call).await?)
}

fn parse_edited(answer: Value) -> Result<EditedJob> {
    let mut values = array(answer)?.into_iter();
    Ok(match &*display_text(next(&mut values)?)? {
        "yes" => EditedJob::Yes,
        "wanted" => EditedJob::AsWanted,
        "missing" => EditedJob::Missing,
        "closed" => EditedJob::Closed(display_text(next(&mut values)?)?.parse().unwrap_or(JobState::Done)),
        "differs" => EditedJob::Differs,
        "held" => EditedJob::Held(JobId::from_bytes(&bytes(next(&mut values)?)?)?),
        "full" => EditedJob::GroupFull,
        _ => return Err(unexpected_answer("an answer to an edit")),
    })
}
