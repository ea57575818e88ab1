//! Limits: their list, their changes, and the holders of their keys.

use redis::Value;

use crate::{
    address::JobId,
    broker::{LIMIT_STEP, LimitKey, LimitKeys, LimitRecord, LimitSet, SetLimit, StoredLimit, StoredLimitKey},
    error::Result,
    redis::{
        RedisBroker,
        script::{LIMIT_KEYS, LIMITS, REMOVE_LIMIT, REVIEW_LIMIT, SET_LIMIT, Script},
        values::{array, bytes, display_text, next, number, unexpected_answer},
    },
};

pub(in crate::redis) async fn list(broker: &RedisBroker, queue: &str, name: Option<&str>) -> Result<Vec<StoredLimit>> {
    let mut call = LIMITS.call(&broker.keys, queue);
    if let Some(name) = name {
        call.arg(&LimitKey::name(name));
    }
    let mut values = array(broker.script(queue, &LIMITS, call).await?)?.into_iter();
    let mut limits = Vec::new();
    while let Some(stored) = values.next() {
        let mut count = || number(next(&mut values)?);
        limits.push(StoredLimit::new(bytes(stored)?, count()?, count()?, count()?));
    }
    Ok(limits)
}

pub(in crate::redis) async fn keys(broker: &RedisBroker, queue: &str, which: &LimitKeys) -> Result<Vec<StoredLimitKey>> {
    let mut call = LIMIT_KEYS.call(&broker.keys, queue);
    match which {
        LimitKeys::Of { name, after, .. } => {
            let after = after.as_ref().map(LimitKey::as_bytes).unwrap_or_default();
            call.arg("of").arg(&LimitKey::name(name)).arg(after).arg(which.limit());
        }
        LimitKeys::These(keys) => {
            call.arg("these");
            for key in keys.iter().take(which.limit()) {
                call.arg(key.as_bytes());
            }
        }
    }
    let mut values = array(broker.script(queue, &LIMIT_KEYS, call).await?)?.into_iter();
    let mut keys = Vec::new();
    while let Some(key) = values.next() {
        let key = LimitKey::from_bytes(&bytes(key)?).ok_or_else(|| unexpected_answer("a key of a limit"))?;
        let mut stored = StoredLimitKey::new(key, LimitRecord::effective_rule(&bytes(next(&mut values)?)?));
        stored.held = number(next(&mut values)?)?;
        let holders = array(next(&mut values)?)?.into_iter().map(bytes).collect::<Result<Vec<_>>>()?;
        // Values that are not ids are left for the auditor.
        stored.holders = holders.iter().filter_map(|id| JobId::from_bytes(id).ok()).collect();
        stored.waiting = number(next(&mut values)?)?;
        stored.next = JobId::from_bytes(&bytes(next(&mut values)?)?).ok();
        stored.until_ms = display_text(next(&mut values)?)?.parse().ok();
        keys.push(stored);
    }
    Ok(keys)
}

pub(in crate::redis) async fn set(broker: &RedisBroker, request: &SetLimit) -> Result<LimitSet> {
    request.check()?;
    // A removal works on a full server.
    let script: &Script = if request.stored.is_empty() { &REMOVE_LIMIT } else { &SET_LIMIT };
    let name = LimitKey::name(&request.name);
    let mut call = script.call(&broker.keys, &request.queue);
    call.arg(&name).arg(&request.expected).arg(&request.stored);
    broker.register_queue(&request.queue, None).await?;
    match &*bytes(broker.script(&request.queue, script, call).await?)? {
        b"SET" => {}
        b"STALE" => return Ok(LimitSet::Stale),
        b"MANY" => return Err(request.too_many()),
        _ => return Err(unexpected_answer("an answer to a change of a limit")),
    }
    // Its keys may have room now. They are reviewed in bounded steps.
    let mut from = Vec::new();
    loop {
        let mut call = REVIEW_LIMIT.call(&broker.keys, &request.queue);
        call.arg(&name).arg(from).arg(LIMIT_STEP);
        match broker.script(&request.queue, &REVIEW_LIMIT, call).await? {
            Value::BulkString(behind) => from = behind,
            _ => return Ok(LimitSet::Set),
        }
    }
}
