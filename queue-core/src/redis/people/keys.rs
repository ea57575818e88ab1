//! The holders of unique keys.

use redis::Value;

use crate::{
    address::JobId,
    broker::{KeyHolder, UniqueKey},
    error::Result,
    redis::{
        RedisBroker,
        script::{KEY, RELEASE_KEY, Script},
        values::{array, bytes, next, text},
    },
};

/// The holder of a key. `release`: also releases the key.
pub(in crate::redis) async fn key_holder(broker: &RedisBroker, queue: &str, key: &UniqueKey, release: bool) -> Result<Option<KeyHolder>> {
    let script: &Script = if release { &RELEASE_KEY } else { &KEY };
    let mut call = script.call(&broker.keys, queue);
    call.arg(key.as_bytes());
    let answer = broker.script(queue, script, call).await?;
    if matches!(answer, Value::Nil) {
        return Ok(None);
    }
    let mut values = array(answer)?.into_iter();
    let mut holder = KeyHolder::new(JobId::from_bytes(&bytes(next(&mut values)?)?)?);
    holder.until_ms = text(next(&mut values)?)?.parse().ok();
    let waits = bytes(next(&mut values)?)?;
    holder.next = if waits.is_empty() { None } else { Some(JobId::from_bytes(&waits)?) };
    Ok(Some(holder))
}
