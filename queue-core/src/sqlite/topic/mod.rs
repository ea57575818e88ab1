//! Topics: a table for the logs, and one for the subscriptions with their cursors. A cursor is the
//! number of the last entry that was read; entries are numbered from 1 within their topic.

mod feed;
mod rewind;

use std::{collections::BTreeSet, time::Duration};

use rusqlite::{OptionalExtension, Row, params};

pub(crate) use self::{feed::feed, rewind::rewind};
use crate::{
    address::{JobId, check_name, subscription_address, topic_address, topic_at},
    broker::{
        Begin, ENTRIES_READ, GroupName, MAX_BYTES, NewJob, Retention, StoredEvent, StoredSubscription, StoredTopic, Subscribe, TRIM_STEP,
        Trimmed, Unknown,
    },
    error::Error,
    sqlite::connection::{
        text::Text,
        tx::{Failed, Queue, Tx},
        unsigned::Unsigned,
    },
};

/// Appends the events of an enqueue to the log of the topic at this address, and notifies
/// its subscriptions.
pub(crate) fn publish(tx: &mut Tx<'_>, address: &Queue<'_>, events: &[NewJob]) -> Result<(), Failed> {
    const APPEND: &str = "INSERT INTO queue_log (topic, seq, at, id, grouped, digest, envelope) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let (mut seq, mut size) = (added(tx, address.key)?, 0);
    for event in events {
        seq += 1;
        size += size_of(event.id.as_bytes().len(), event.envelope.len());
        let group = event.group.as_ref().map(GroupName::as_str);
        let digest = event.id.is_given().then(|| event.digest.cast_signed());
        tx.sql(APPEND)?.execute(params![address.key, seq, tx.now, event.id.as_bytes(), group, digest, event.envelope])?;
    }
    tx.sql("UPDATE queue_topics SET added = min(?2, 9007199254740992), size = min(size + ?3, 9007199254740992) WHERE topic = ?1")?
        .execute(params![address.key, seq, size])?;
    let topic = topic_at(address.name).unwrap_or_default();
    let subscriptions = subscriptions(tx, address.key)?;
    for (name, ..) in &subscriptions {
        tx.hint(&subscription_address(name, topic), tx.now);
    }
    if subscriptions.is_empty() {
        // No worker trims the log of a topic without subscriptions.
        step(tx, address.key)?;
    }
    Ok(())
}

/// The approximate number of bytes of the entries that one step reads.
const MOST_BYTES: i64 = MAX_BYTES as i64;

/// The size of an entry: its id and its envelope, without the overhead of the table.
fn size_of(id: usize, envelope: usize) -> i64 {
    i64::try_from(id + envelope).unwrap_or(i64::MAX)
}

/// The number of entries that were ever added. Creates the row of the topic if it is missing.
fn added(tx: &Tx<'_>, topic: i64) -> rusqlite::Result<i64> {
    const ADDED: &str =
        "SELECT max(added, ifnull((SELECT max(seq) FROM queue_log WHERE topic = ?1), 0)) FROM queue_topics WHERE topic = ?1";
    tx.sql("INSERT OR IGNORE INTO queue_topics (topic) VALUES (?1)")?.execute([topic])?;
    tx.sql(ADDED)?.query_row([topic], |row| row.get(0))
}

/// The size of the log in bytes.
fn size(tx: &Tx<'_>, topic: i64) -> rusqlite::Result<i64> {
    tx.sql("SELECT size FROM queue_topics WHERE topic = ?1")?.query_row([topic], |row| row.get::<_, i64>(0))
}

/// Names and cursors.
fn subscriptions(tx: &Tx<'_>, topic: i64) -> rusqlite::Result<Vec<(String, i64)>> {
    let mut found = tx.sql("SELECT name, cursor FROM queue_subscriptions WHERE topic = ?1 ORDER BY name")?;
    found.query_map([topic], |row| Ok((row.get::<_, Text>(0)?.0, row.get::<_, i64>(1)?)))?.collect()
}

pub(crate) fn subscribe(tx: &mut Tx<'_>, request: &Subscribe) -> Result<bool, Failed> {
    const FIND: &str = "SELECT types, unknown FROM queue_subscriptions WHERE topic = ?1 AND name = ?2";
    const KNOWN: &str = "UPDATE queue_subscriptions SET types = ?3, unknown = ?4 WHERE topic = ?1 AND name = ?2";
    const MAKE: &str =
        "INSERT INTO queue_subscriptions (topic, name, cursor, made, begin, types, unknown) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    const BEFORE: &str = "SELECT max(seq) FROM queue_log WHERE topic = ?1 AND at < ?2";
    const GONE: &str = "SELECT min(seq) - 1 FROM queue_log WHERE topic = ?1";
    let address = topic_address(&request.topic);
    let topic = tx.queue_or_create(&address)?;
    let (added, types) = (added(tx, topic.key)?, request.types.join(","));
    let found = tx.sql(FIND)?.query_row(params![topic.key, &*request.name], |row| Ok((row.get::<_, Text>(0)?.0, row.get::<_, Text>(1)?.0)));
    if let Some((known, unknown)) = found.optional()? {
        let now = request.unknown.unwrap_or(Unknown::of_stored(&unknown));
        // Types are never removed: events of a removed type might be skipped later, because workers
        // of an older release know fewer types.
        let all: BTreeSet<&str> = known.split(',').chain(types.split(',')).filter(|event| !event.is_empty()).collect();
        let types = if types.is_empty() { known.clone() } else { all.into_iter().collect::<Vec<_>>().join(",") };
        if types != known || now.name() != unknown {
            tx.sql(KNOWN)?.execute(params![topic.key, &*request.name, types, now.name()])?;
        }
        return Ok(false);
    }
    // After the entries that are gone: they do not count as lost for a new subscription.
    let gone = tx.sql(GONE)?.query_row([topic.key], |row| row.get::<_, Option<i64>>(0))?.unwrap_or(added);
    let cursor = match request.begin {
        Begin::Now => added,
        Begin::Start => gone,
        Begin::AtMs(at) => tx.sql(BEFORE)?.query_row(params![topic.key, at], |row| row.get::<_, Option<i64>>(0))?.unwrap_or(gone),
    };
    tx.sql(MAKE)?.execute(params![
        topic.key,
        &*request.name,
        cursor,
        tx.now,
        request.begin.stored(),
        types,
        request.unknown.unwrap_or_default().name()
    ])?;
    tx.hint(&subscription_address(&request.name, &request.topic), tx.now);
    Ok(true)
}

pub(crate) fn unsubscribe(tx: &mut Tx<'_>, topic: &str, subscription: &str) -> Result<bool, Failed> {
    const REMOVE: &str = "DELETE FROM queue_subscriptions WHERE topic = ?1 AND name = ?2";
    let Some(topic) = tx.queue(&topic_address(topic))?.map(|topic| topic.key) else { return Ok(false) };
    Ok(tx.sql(REMOVE)?.execute(params![topic, subscription])? > 0)
}

pub(crate) fn set_retention(tx: &mut Tx<'_>, topic: &str, changed: Retention) -> Result<(), Failed> {
    const SET: &str = "UPDATE queue_topics SET age = ifnull(?2, age), most = ifnull(?3, most), lag = ifnull(?4, lag), bytes = ifnull(?5, bytes) WHERE topic = ?1";
    check_name("topic", topic)?;
    changed.check()?;
    let address = topic_address(topic);
    let topic = tx.queue_or_create(&address)?;
    added(tx, topic.key)?;
    tx.sql(SET)?.execute(params![
        topic.key,
        changed.age.map(ms),
        changed.count.map(|most| i64::try_from(most).unwrap_or(i64::MAX)),
        changed.lag.map(ms),
        changed.bytes.map(|most| i64::try_from(most).unwrap_or(i64::MAX)),
    ])?;
    Ok(())
}

fn ms(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

fn retention(tx: &Tx<'_>, topic: i64) -> rusqlite::Result<Retention> {
    let time = |stored: Option<i64>| stored.and_then(|stored| u64::try_from(stored).ok());
    let read = |row: &Row<'_>| {
        Ok(Retention {
            age: time(row.get(0)?).map(Duration::from_millis),
            count: time(row.get(1)?),
            lag: time(row.get(2)?).map(Duration::from_millis),
            bytes: time(row.get(3)?),
        })
    };
    let stored = tx.sql("SELECT age, most, lag, bytes FROM queue_topics WHERE topic = ?1")?.query_row([topic], read).optional()?;
    Ok(stored.unwrap_or_default())
}

pub(crate) fn trim(tx: &mut Tx<'_>, topic: &str) -> Result<Trimmed, Failed> {
    check_name("topic", topic)?;
    match tx.queue(&topic_address(topic))? {
        Some(address) => step(tx, address.key),
        None => Ok(Trimmed::default()),
    }
}

/// One step of removing the entries that the retention does not keep.
fn step(tx: &Tx<'_>, topic: i64) -> Result<Trimmed, Failed> {
    const OLDEST: &str = "SELECT seq, at, length(id) + length(envelope) FROM queue_log WHERE topic = ?1 ORDER BY seq LIMIT ?2";
    const REMOVE: &str = "DELETE FROM queue_log WHERE topic = ?1 AND seq <= ?2";
    const LOSE: &str = "UPDATE queue_subscriptions SET lost = min(lost + ?3 - max(cursor, ?2), 9007199254740992), cursor = ?3 WHERE topic = ?1 AND cursor < ?3";
    let (kept, subscriptions, added) = (retention(tx, topic)?, subscriptions(tx, topic)?, added(tx, topic)?);
    const SIZE: &str = "UPDATE queue_topics SET size = max(size - ?2, 0) WHERE topic = ?1";
    let oldest: Vec<(i64, i64, i64)> = tx
        .sql(OLDEST)?
        .query_map(params![topic, Unsigned(TRIM_STEP)], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let mut size = size(tx, topic)?;
    let begun = size;
    let mut drops = |(seq, at, bytes): &(i64, i64, i64)| {
        let old = Duration::from_millis(u64::try_from(tx.now.saturating_sub(*at)).unwrap_or(0));
        let left = u64::try_from(added - seq + 1).unwrap_or(0);
        let goes = kept.drops(old, left, size.max(0).unsigned_abs(), subscriptions.iter().any(|(_, cursor)| cursor < seq));
        let fits = begun - size < MOST_BYTES;
        size -= if goes && fits { *bytes } else { 0 };
        (goes, fits)
    };
    let (mut gone, mut more) = (0_usize, oldest.len() == TRIM_STEP);
    for entry in &oldest {
        let (goes, fits) = drops(entry);
        if !goes || !fits {
            more = goes;
            break;
        }
        gone += 1;
    }
    let Some((last, ..)) = gone.checked_sub(1).map(|at| oldest[at]) else { return Ok(Trimmed::default()) };
    let before = oldest[0].0 - 1;
    let lost: i64 = subscriptions.iter().map(|(_, cursor)| (last - cursor.max(&before)).max(0)).sum();
    tx.sql(LOSE)?.execute(params![topic, before, last])?;
    tx.sql(REMOVE)?.execute(params![topic, last])?;
    tx.sql(SIZE)?.execute(params![topic, begun - size])?;
    Ok(Trimmed::new(gone as u64, lost.unsigned_abs(), more))
}

pub(crate) fn list(tx: &mut Tx<'_>) -> Result<Vec<String>, Failed> {
    let mut names = tx.sql("SELECT name FROM queue_queues WHERE name LIKE '@%' ORDER BY name")?;
    let found: Vec<String> = names.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    Ok(found.iter().filter_map(|address| topic_at(address)).map(str::to_owned).collect())
}

pub(crate) fn show(tx: &mut Tx<'_>, topic: &str) -> Result<Option<StoredTopic>, Failed> {
    const LOG: &str = "SELECT count(*), min(at) FROM queue_log WHERE topic = ?1";
    const SUBSCRIPTIONS: &str = "SELECT name, cursor, lost, made, begin, types, upto IS NOT NULL, unknown, skipped FROM queue_subscriptions WHERE topic = ?1 ORDER BY name";
    const NEXT: &str = "SELECT at FROM queue_log WHERE topic = ?1 AND seq > ?2 ORDER BY seq LIMIT 1";
    const ADDED: &str = "SELECT added FROM queue_topics WHERE topic = ?1";
    let Some(key) = tx.queue(&topic_address(topic))?.map(|address| address.key) else { return Ok(None) };
    let mut stored = StoredTopic::new(topic, tx.now);
    (stored.entries, stored.first_ms) = tx.sql(LOG)?.query_row([key], |row| Ok((Unsigned::get(row, 0)?, row.get(1)?)))?;
    let Some(added) = tx.sql(ADDED)?.query_row([key], |row| row.get::<_, i64>(0)).optional()? else { return Ok(None) };
    stored.added = added.max(0).unsigned_abs();
    stored.bytes = size(tx, key)?.max(0).unsigned_abs();
    stored.retention = retention(tx, key)?;
    let mut found = tx.sql(SUBSCRIPTIONS)?;
    let mut rows = found.query([key])?;
    while let Some(row) = rows.next()? {
        let (Text(name), cursor, lost, made): (Text, i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
        let (Text(begin), Text(types)): (Text, Text) = (row.get(4)?, row.get(5)?);
        let mut subscription = StoredSubscription::new(name, cursor.to_string(), Begin::of_stored(&begin), made);
        subscription.types = types.split(',').filter(|event| !event.is_empty()).map(str::to_owned).collect();
        subscription.behind = Some((added - cursor).max(0).unsigned_abs());
        subscription.lost = lost.max(0).unsigned_abs();
        subscription.rewinding = row.get(6)?;
        let (Text(unknown), skipped): (Text, i64) = (row.get(7)?, row.get(8)?);
        (subscription.unknown, subscription.skipped) = (Unknown::of_stored(&unknown), skipped.max(0).unsigned_abs());
        subscription.next_ms = tx.sql(NEXT)?.query_row([key, cursor], |row| row.get(0)).optional()?;
        stored.subscriptions.push(subscription);
    }
    Ok(Some(stored))
}

pub(crate) fn read(tx: &mut Tx<'_>, topic: &str, after: Option<&str>, limit: usize) -> Result<Vec<StoredEvent>, Failed> {
    const READ: &str = "SELECT seq, at, id, grouped, envelope FROM queue_log WHERE topic = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3";
    check_name("topic", topic)?;
    let after = match after.map(str::parse::<i64>) {
        None => 0,
        Some(Ok(after)) => after,
        Some(Err(_)) => {
            let problem = "is not a position in this log; use one that `topics read` has printed";
            return Err(Error::invalid("position", after.unwrap_or_default(), problem).into());
        }
    };
    let Some(topic) = tx.queue(&topic_address(topic))?.map(|address| address.key) else { return Ok(Vec::new()) };
    let mut found = tx.sql(READ)?;
    let mut rows = found.query(params![topic, after, Unsigned(limit.clamp(1, ENTRIES_READ))])?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        let (position, at): (i64, i64) = (row.get(0)?, row.get(1)?);
        let (id, group, envelope): (Vec<u8>, _, Vec<u8>) = (row.get(2)?, row.get::<_, Option<Text>>(3)?, row.get(4)?);
        let group = group.and_then(|Text(group)| GroupName::new(group).ok());
        events.push(StoredEvent::of_envelope(position.to_string(), at, JobId::from_bytes(&id).ok(), group.as_ref(), &envelope));
    }
    Ok(events)
}
