//! Topics: a stream for the log, and a hash with the cursors of its subscriptions. All of them, and
//! the queues of the subscriptions, are in the hash slot of the topic.

mod foreign;
mod rewind;

use std::{collections::BTreeMap, time::Duration};

use redis::{Cmd, Value};

pub(in crate::redis) use self::{foreign::with_messagepack_payload, rewind::rewind};
use crate::{
    address::{JobId, check_name, subscription_at, topic_address, topic_at},
    broker::{
        Begin, ENTRIES_READ, Enqueue, GroupName, NewJob, Retention, StoredEvent, StoredSubscription, StoredTopic, Subscribe, Trimmed, Turn,
        Unknown,
    },
    codec,
    envelope::Envelope,
    error::{Error, Result},
    redis::{
        RedisBroker,
        connection::servers::Purpose,
        enqueue::with_number,
        keys::{Keys, Kind},
        people,
        script::{FEED, PUBLISH, SUBSCRIBE, Script, TOPIC, TRIM_TOPIC},
        values::{array, bytes, display_text, ms, next, number, text, unexpected_answer},
    },
};

/// A call that appends the events of an enqueue at the address of a topic to its log.
pub(in crate::redis) fn publish(request: &Enqueue, keys: &Keys) -> Result<(&'static Script, Cmd)> {
    let size: usize = request.jobs.iter().map(|job| job.id.as_bytes().len() + job.envelope.len()).sum();
    let mut call = PUBLISH.call_with(keys, &request.queue, 2 + 7 * request.jobs.len(), 64 + size);
    with_number(&mut call, request);
    for job in &request.jobs {
        event(&mut call, job)?;
    }
    Ok((&PUBLISH, call))
}

fn event(call: &mut Cmd, job: &NewJob) -> Result<()> {
    let envelope = Envelope::decode(&job.envelope)?;
    call.arg(&*envelope.task).arg(job.group.as_ref().map(GroupName::as_str).unwrap_or_default()).arg(envelope.payload);
    if envelope.headers.is_empty() {
        call.arg("");
    } else {
        call.arg(codec::pack(&envelope.headers).map_err(Error::Internal)?);
    }
    call.arg(job.id.as_bytes());
    if job.id.is_given() {
        call.arg(job.digest)
    } else {
        call.arg("")
    };
    if envelope.tags.is_empty() {
        call.arg("");
    } else {
        call.arg(codec::pack(&envelope.tags).map_err(Error::Internal)?);
    }
    Ok(())
}

/// Reads further entries of the log for a turn that claims jobs of a subscription. True: there is
/// more to read.
pub(in crate::redis) async fn feed(broker: &RedisBroker, turn: &Turn) -> bool {
    let Some((subscription, _)) = subscription_at(&turn.queue).filter(|_| turn.claim > 0) else { return false };
    let mut call = FEED.call(&broker.keys, &turn.queue);
    call.arg(subscription).arg(turn.claim);
    match broker.servers.script(Purpose::Requests, &turn.queue, &FEED, call).await.and_then(number::<i64>) {
        Ok(more) => more == 1,
        // The endings of the turn are submitted even if there is no room for new jobs or the log
        // cannot be read.
        Err(error) => {
            if !error.is_transient() {
                tracing::warn!(queue = &*turn.queue, %error, "the subscription cannot read further in the log of its topic");
            }
            false
        }
    }
}

pub(in crate::redis) async fn subscribe(broker: &RedisBroker, request: &Subscribe) -> Result<bool> {
    request.check()?;
    let address = topic_address(&request.topic);
    broker.register_queue(&address, None).await?;
    let mut call = SUBSCRIBE.call(&broker.keys, &address);
    call.arg(&*request.name).arg(request.begin.stored()).arg(request.types.join(",")).arg(request.unknown.map_or("", Unknown::name));
    Ok(number::<i64>(broker.script(&address, &SUBSCRIBE, call).await?)? == 1)
}

pub(in crate::redis) async fn unsubscribe(broker: &RedisBroker, topic: &str, subscription: &str) -> Result<bool> {
    let address = check_topic(topic)?;
    let mut command = broker.keys.on("HDEL", &address, Kind::Subscriptions);
    command.arg(subscription);
    Ok(number::<i64>(broker.read(&address, &command).await?)? == 1)
}

pub(in crate::redis) async fn set_retention(broker: &RedisBroker, topic: &str, retention: Retention) -> Result<()> {
    let address = check_topic(topic)?;
    retention.check()?;
    let changed = [("age", retention.age.map(ms)), ("count", retention.count), ("bytes", retention.bytes), ("lag", retention.lag.map(ms))];
    let mut command = broker.keys.on("HSET", &address, Kind::Topic);
    for (field, value) in changed.into_iter().filter_map(|(field, value)| Some((field, value?))) {
        command.arg(field).arg(value);
    }
    if retention == Retention::default() {
        return Ok(());
    }
    broker.register_queue(&address, None).await?;
    broker.read(&address, &command).await.map(drop)
}

pub(in crate::redis) async fn trim(broker: &RedisBroker, topic: &str) -> Result<Trimmed> {
    let address = check_topic(topic)?;
    let mut values = array(broker.script(&address, &TRIM_TOPIC, TRIM_TOPIC.call(&broker.keys, &address)).await?)?.into_iter();
    let (gone, lost) = (number(next(&mut values)?)?, number(next(&mut values)?)?);
    Ok(Trimmed::new(gone, lost, number::<i64>(next(&mut values)?)? == 1))
}

pub(in crate::redis) async fn list(broker: &RedisBroker) -> Result<Vec<String>> {
    let listed = people::list_registered(broker).await?;
    Ok(listed.iter().filter_map(|address| topic_at(address)).map(str::to_owned).collect())
}

pub(in crate::redis) async fn show(broker: &RedisBroker, topic: &str) -> Result<Option<StoredTopic>> {
    let address = check_topic(topic)?;
    let mut values = array(broker.script(&address, &TOPIC, TOPIC.call(&broker.keys, &address)).await?)?.into_iter();
    let mut stored = StoredTopic::new(topic, number(next(&mut values)?)?);
    stored.entries = number(next(&mut values)?)?;
    stored.added = number(next(&mut values)?)?;
    stored.bytes = number(next(&mut values)?)?;
    // No entry can have a larger id.
    stored.is_closed = display_text(next(&mut values)?)? == format!("{0}-{0}", u64::MAX);
    stored.first_ms = time_of(&display_text(next(&mut values)?)?);
    let mut setting = || Ok::<_, Error>(display_text(next(&mut values)?)?.parse::<u64>().ok());
    let (age, count, lag, bytes) = (setting()?, setting()?, setting()?, setting()?);
    stored.retention = Retention { age: age.map(Duration::from_millis), count, bytes, lag: lag.map(Duration::from_millis) };
    while let Some(name) = values.next() {
        let (name, record) = (text(name)?, display_text(next(&mut values)?)?);
        let fields: Vec<&str> = record.split(' ').collect();
        let [cursor, _, _, made, begin, types, unknown, skipped, rewind] = fields[..] else {
            return Err(unexpected_answer("a subscription"));
        };
        let mut subscription = StoredSubscription::new(name, cursor, Begin::of_stored(begin), made.parse().unwrap_or(0));
        subscription.types = types.split(',').filter(|event| *event != "-").map(str::to_owned).collect();
        (subscription.unknown, subscription.skipped) = (Unknown::of_stored(unknown), skipped.parse().unwrap_or(0));
        subscription.rewinding = rewind.contains('/');
        subscription.behind = display_text(next(&mut values)?)?.parse().ok();
        subscription.lost = number(next(&mut values)?)?;
        subscription.next_ms = time_of(&display_text(next(&mut values)?)?);
        stored.subscriptions.push(subscription);
    }
    stored.subscriptions.sort_by(|one, other| one.name.cmp(&other.name));
    let is_nothing = stored.added == 0 && stored.subscriptions.is_empty() && stored.retention == Retention::default();
    Ok((!is_nothing).then_some(stored))
}

pub(in crate::redis) async fn read(broker: &RedisBroker, topic: &str, after: Option<&str>, limit: usize) -> Result<Vec<StoredEvent>> {
    let address = check_topic(topic)?;
    let from = match after {
        Some(after) if time_of(after).is_none() => {
            return Err(Error::invalid("position", after, "is not a position in this log; use one that `topics read` has printed"));
        }
        Some(after) => format!("({after}"),
        None => "-".to_owned(),
    };
    let mut command = broker.keys.on("XRANGE", &address, Kind::Log);
    command.arg(from).arg("+").arg("COUNT").arg(limit.clamp(1, ENTRIES_READ));
    array(broker.read(&address, &command).await?)?.into_iter().map(parse_entry).collect()
}

fn parse_entry(value: Value) -> Result<StoredEvent> {
    let mut parts = array(value)?.into_iter();
    let position = text(next(&mut parts)?)?;
    let at_ms = time_of(&position).ok_or_else(|| unexpected_answer("the id of an entry"))?;
    let mut event = StoredEvent::new(position, at_ms);
    let mut fields = array(next(&mut parts)?)?.into_iter();
    while let Some(field) = fields.next() {
        let (field, value) = (bytes(field)?, bytes(next(&mut fields)?)?);
        match &*field {
            b"id" => event.id = JobId::from_bytes(&value).ok(),
            b"type" => event.event = String::from_utf8_lossy(&value).into_owned(),
            b"key" => event.group = Some(String::from_utf8_lossy(&value).into_owned()),
            b"payload" => event.payload = value,
            b"headers" => event.headers = codec::unpack::<BTreeMap<String, String>>(&value).unwrap_or_default(),
            b"tags" => event.tags = codec::unpack::<BTreeMap<String, String>>(&value).unwrap_or_default(),
            _ => {}
        }
    }
    Ok(event)
}

fn check_topic(topic: &str) -> Result<String> {
    check_name("topic", topic)?;
    Ok(topic_address(topic))
}

/// The time in the id of an entry.
fn time_of(id: &str) -> Option<i64> {
    let (at, number) = id.split_once('-')?;
    number.parse::<u64>().ok()?;
    Some(at.parse::<u64>().ok()?.min(i64::MAX.unsigned_abs()).cast_signed())
}
