//! Groups: their list, and their rules.

use std::time::Duration;

use crate::{
    address::JobId,
    broker::{GroupList, GroupName, GroupPage, GroupRule, GroupSet, LimitKey, RuleOf, SetGroup, StoredGroup},
    error::Result,
    redis::{
        RedisBroker,
        script::{CLEAR_GROUP, GROUPS, REVIEW_GROUPS, SET_GROUP, Script},
        values::{array, bytes, display_text, next, number, unexpected_answer},
    },
};

/// The number of groups that one call reviews when the rule of all groups has changed.
const REVIEWED: usize = 500;

pub(in crate::redis) async fn list(broker: &RedisBroker, queue: &str, which: &GroupList) -> Result<GroupPage> {
    let mut after = match which {
        GroupList::All { after, .. } => after.as_ref().map(GroupName::stored).unwrap_or_default(),
        _ => Vec::new(),
    };
    loop {
        let (page, behind) = page(broker, queue, which, &after).await?;
        match behind {
            Some(behind) if page.groups.is_empty() => after = behind,
            _ => return Ok(page),
        }
    }
}

/// A page, and the last stored name on it if there are more groups.
async fn page(broker: &RedisBroker, queue: &str, which: &GroupList, after: &[u8]) -> Result<(GroupPage, Option<Vec<u8>>)> {
    let mut call = GROUPS.call(&broker.keys, queue);
    match which {
        GroupList::One(name) => call.arg("one").arg(name.stored()),
        GroupList::Line { group, .. } => call.arg("line").arg(group.stored()).arg(which.limit()),
        GroupList::All { .. } => call.arg("all").arg(after).arg(which.limit()),
    };
    let mut values = array(broker.script(queue, &GROUPS, call).await?)?.into_iter();
    let (others, declared, plain) =
        (display_text(next(&mut values)?)?, display_text(next(&mut values)?)?, display_text(next(&mut values)?)?);
    let (now, line) = (number::<i64>(next(&mut values)?)?, array(next(&mut values)?)?);
    // Values that are not ids are left for the auditor.
    let line = line.into_iter().filter_map(|id| JobId::from_bytes(&bytes(id).ok()?).ok()).collect();
    let (mut groups, mut names) = (Vec::new(), Vec::new());
    while let Some(name) = values.next() {
        names.push(bytes(name)?);
        // An invalid name is left for the auditor. It still counts for the page.
        let name = GroupName::of_stored(&names[names.len() - 1]).filter(|_| names.len() <= which.limit());
        let (ready, active) = (number(next(&mut values)?)?, number(next(&mut values)?)?);
        let (rule, holder, since) = (display_text(next(&mut values)?)?, bytes(next(&mut values)?)?, display_text(next(&mut values)?)?);
        let Some(name) = name else { continue };
        let mut group = StoredGroup::new(name);
        (group.ready, group.active) = (ready, active);
        group.set_rule(&rule);
        group.oldest = since.parse().ok().map(|since: i64| Duration::from_millis(now.saturating_sub(since).max(0).unsigned_abs()));
        group.blocked_by = JobId::from_bytes(&holder).ok();
        groups.push(group);
    }
    let more = names.len() > which.limit();
    let behind = names.into_iter().nth(which.limit() - 1).filter(|_| more);
    let next = groups.last().filter(|_| more).map(|group: &StoredGroup| group.name.clone());
    let mut page = GroupPage::new(groups, GroupRule::of_stored(&others), GroupRule::of_stored(&plain), next);
    (page.line, page.stored_declared, page.now_ms) = (line, declared, now);
    Ok((page, behind))
}

pub(in crate::redis) async fn set(broker: &RedisBroker, request: &SetGroup) -> Result<GroupSet> {
    request.check()?;
    let stored = |rule: &GroupRule| if rule.is_empty() { String::new() } else { rule.stored() };
    let (read, wanted) = match &request.record {
        Some((read, wanted)) => (read.to_string(), wanted.to_string()),
        None => (stored(&request.expected), stored(&request.rule)),
    };
    // A removal works on a full server.
    let script: &Script = if request.is_removal() { &CLEAR_GROUP } else { &SET_GROUP };
    let mut call = script.call(&broker.keys, &request.queue);
    call.arg(request.of.stored()).arg(read).arg(wanted);
    call.arg(match &request.of {
        RuleOf::Group(group) => group.stored(),
        _ => Vec::new(),
    });
    broker.register_queue(&request.queue, None).await?;
    match &*bytes(broker.script(&request.queue, script, call).await?)? {
        b"SET" => {}
        b"STALE" => return Ok(GroupSet::Stale),
        b"MANY" => return Err(request.too_many()),
        _ => return Err(unexpected_answer("an answer to a change of a rule")),
    }
    if request.is_of_all() {
        review(broker, &request.queue).await?;
    }
    Ok(GroupSet::Set)
}

/// Recomputes which groups may be served, in bounded steps.
async fn review(broker: &RedisBroker, queue: &str) -> Result<()> {
    let mut from = Vec::new();
    loop {
        let mut call = REVIEW_GROUPS.call(&broker.keys, queue);
        call.arg(from).arg(REVIEWED);
        match broker.script(queue, &REVIEW_GROUPS, call).await? {
            redis::Value::BulkString(behind) => from = behind,
            _ => return Ok(()),
        }
    }
}

/// The id of a job in the line of its group.
pub(in crate::redis) fn id_in(member: &[u8]) -> Option<Vec<u8>> {
    let (is_suspect, member) = member.strip_prefix(b"\xff").map_or((false, member), |member| (true, member));
    let length = usize::from(u16::from_be_bytes([*member.first()?, *member.get(1)?]));
    let chain = 2 + length + usize::from(!is_suspect);
    let behind = chain + 1 + usize::from(*member.get(chain)?) + NUMBER;
    member.get(behind..).map(<[u8]>::to_vec)
}

/// The group at the beginning of a name.
pub(in crate::redis) fn group_in(member: &[u8]) -> Option<&[u8]> {
    let length = usize::from(u16::from_be_bytes([*member.first()?, *member.get(1)?]));
    member.get(..2 + length)
}

/// The id of a job that holds a slot of a group, or of a limit.
pub(in crate::redis) fn job_of_slot(member: &[u8]) -> Option<&[u8]> {
    if member.first() == Some(&255) {
        return member.get(1 + LimitKey::BYTES + 1..);
    }
    let length = usize::from(u16::from_be_bytes([*member.first()?, *member.get(1)?]));
    member.get(2 + length + 1..)
}

/// Bytes of a number in a line.
const NUMBER: usize = 7;
