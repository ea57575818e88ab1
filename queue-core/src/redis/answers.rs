//! Answers of scripts, read with suspicion: what does not have its form is data of somebody else's under our keys.

use std::time::Duration;

use redis::Value;
use serde::Deserialize;

use crate::{
    address::JobId,
    broker::{BuryReason, Delivery, Enqueued, Failure, JobRecord, Priority, State, TurnAnswer},
    error::{Error, Result},
};

fn strange(what: &str) -> Error {
    Error::Internal(format!("{what} is not what a script of ours answers"))
}

pub(super) fn array(value: Value) -> Result<Vec<Value>> {
    match value {
        Value::Array(values) | Value::Set(values) => Ok(values),
        Value::Nil => Ok(Vec::new()),
        _ => Err(strange("an array")),
    }
}

pub(super) fn bytes(value: Value) -> Result<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Ok(bytes),
        Value::SimpleString(text) => Ok(text.into_bytes()),
        Value::Okay => Ok(b"OK".to_vec()),
        Value::Int(number) => Ok(number.to_string().into_bytes()),
        Value::Nil => Ok(Vec::new()),
        _ => Err(strange("a string")),
    }
}

pub(super) fn text(value: Value) -> Result<String> {
    String::from_utf8(bytes(value)?).map_err(|_| strange("a text"))
}

pub(super) fn number<T: TryFrom<i64> + std::str::FromStr>(value: Value) -> Result<T> {
    match value {
        Value::Int(number) => T::try_from(number).map_err(|_| strange("a number")),
        other => text(other)?.parse().map_err(|_| strange("a number")),
    }
}

/// A number that the answer can do without: other hands may have written anything into it.
fn count(value: Value) -> u32 {
    let digits = bytes(value).ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
    match digits.parse::<u32>() {
        Ok(number) => number,
        Err(problem) if *problem.kind() == std::num::IntErrorKind::PosOverflow => u32::MAX,
        Err(_) => 0,
    }
}

/// A text that people read.
fn words(value: Value) -> Result<String> {
    Ok(String::from_utf8_lossy(&bytes(value)?).into_owned())
}

/// The next of some values that have to be there.
pub(super) fn next(values: &mut impl Iterator<Item = Value>) -> Result<Value> {
    values.next().ok_or_else(|| strange("an answer without its end"))
}

/// What became of [`confirm`](super::requests::confirm): whether the server's disk has it, and how many replicas do. A server
/// that cannot say confirms nothing.
pub(super) fn confirmed(answers: Vec<Value>) -> (bool, u32) {
    let mut answers = answers.into_iter();
    let replicas = answers.next().and_then(|replicas| number(replicas).ok()).unwrap_or(0);
    let synced = answers.next().and_then(|answer| array(answer).ok()).and_then(|answer| answer.into_iter().next());
    (synced.and_then(|synced| number::<u32>(synced).ok()).is_some_and(|synced| synced > 0), replicas)
}

pub(super) fn enqueued(value: Value, jobs: usize) -> Result<Vec<Enqueued>> {
    if matches!(value, Value::Nil) {
        return Ok(vec![Enqueued::Stored; jobs]);
    }
    let answers: Vec<Enqueued> = bytes(value)?
        .into_iter()
        .map(|digit| match digit {
            b'0' => Ok(Enqueued::Stored),
            b'1' => Ok(Enqueued::Existing),
            b'2' => Ok(Enqueued::IdConflict),
            _ => Err(strange("an answer to an enqueue")),
        })
        .collect::<Result<_>>()?;
    if answers.len() == jobs { Ok(answers) } else { Err(strange("the number of answers")) }
}

/// Whether a queue is plain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plain {
    /// And no job in it has failed.
    Well,
    /// And some of its jobs have failed.
    Failed,
    /// And jobs that have ended are kept; others may have failed.
    Kept,
    No,
}

/// What a plain queue has answered, and how plain it is; none where it takes the whole script.
pub(super) fn plain_turn(value: Value) -> Result<Option<(TurnAnswer, Plain)>> {
    if matches!(value, Value::Nil) {
        return Ok(None);
    }
    let mut values = array(value)?.into_iter();
    let mut answer = TurnAnswer::default();
    let (ids, mut bodies) = (array(next(&mut values)?)?, array(next(&mut values)?)?.into_iter());
    let claim: u64 = number(next(&mut values)?)?;
    answer.deliveries.reserve(ids.len());
    for id in ids {
        answer.deliveries.push(Delivery::new(JobId::from_bytes(&bytes(id)?)?, claim, bytes(next(&mut bodies)?)?));
    }
    clock(&mut answer, next(&mut values)?)?;
    answer.more = number::<i64>(next(&mut values)?)? != 0;
    answer.next_due = time_to(next(&mut values)?)?;
    answer.workers = number(next(&mut values)?)?;
    let Some(attempts) = values.next() else { return Ok(Some((answer, Plain::Well))) };
    let plain = if values.next().is_some() { Plain::Kept } else { Plain::Failed };
    for (delivery, attempts) in answer.deliveries.iter_mut().zip(array(attempts)?) {
        delivery.attempts = count(attempts);
    }
    Ok(Some((answer, plain)))
}

/// Microseconds, or nothing.
fn time_to(value: Value) -> Result<Option<Duration>> {
    let due = text(value)?;
    if due.is_empty() {
        return Ok(None);
    }
    Ok(Some(Duration::from_micros(due.parse().map_err(|_| strange("a time"))?)))
}

/// The server's clock, in microseconds.
fn clock(answer: &mut TurnAnswer, value: Value) -> Result<()> {
    let now_us: i64 = number(value)?;
    (answer.now_ms, answer.as_of) = (now_us.div_euclid(1000), Some(now_us));
    Ok(())
}

/// What any queue has answered, and whether it is plain. `positions` are those of the finishes, in the order in which the script got
/// them.
pub(super) fn turn(value: Value, positions: &[usize]) -> Result<(TurnAnswer, Plain)> {
    let mut values = array(value)?.into_iter();
    let mut answer = TurnAnswer::default();
    let stale = text(next(&mut values)?)?;
    for position in stale.split(',').filter(|position| !position.is_empty()) {
        let position: usize = position.parse().map_err(|_| strange("a position"))?;
        answer.stale.push(*positions.get(position).ok_or_else(|| strange("a position"))?);
    }
    answer.stale.sort_unstable();
    let (ids, mut bodies) = (array(next(&mut values)?)?, array(next(&mut values)?)?.into_iter());
    let mut counts = array(next(&mut values)?)?.into_iter().map(|counts| Ok(array(counts)?.into_iter())).collect::<Result<Vec<_>>>()?;
    if !matches!(counts.len(), 0 | 3) {
        return Err(strange("the counts of deliveries"));
    }
    let claim: u64 = number(next(&mut values)?)?;
    answer.deliveries.reserve(ids.len());
    for id in ids {
        let mut delivery = Delivery::new(JobId::from_bytes(&bytes(id)?)?, claim, bytes(next(&mut bodies)?)?);
        if let [attempts, crashes, snoozes] = &mut counts[..] {
            // Without entries no job has one.
            delivery.attempts = attempts.next().map_or(0, count);
            delivery.crashes = crashes.next().map_or(0, count);
            delivery.snoozes = snoozes.next().map_or(0, count);
        }
        delivery.void = delivery.envelope.is_empty();
        answer.deliveries.push(delivery);
    }
    clock(&mut answer, next(&mut values)?)?;
    let waiting: i64 = number(next(&mut values)?)?;
    (answer.more, answer.suspects) = (waiting & 1 != 0, waiting & 2 != 0);
    answer.next_due = time_to(next(&mut values)?)?;
    answer.parked = number::<i64>(next(&mut values)?)? != 0;
    answer.paused = number::<i64>(next(&mut values)?)? != 0;
    answer.workers = number(next(&mut values)?)?;
    let plain = match number::<i64>(next(&mut values)?)? {
        0 => Plain::No,
        1 => Plain::Well,
        2 => Plain::Failed,
        _ => Plain::Kept,
    };
    Ok((answer, plain))
}

/// A failure as Lua packs it: time and text.
#[derive(Deserialize)]
struct Packed(String, #[serde(with = "lossy")] String);

mod lossy {
    //! Lua packs any string as text, whatever its bytes are.
    use std::fmt;

    use serde::{Deserializer, de::Visitor};

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = String;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_str<E>(self, text: &str) -> Result<String, E> {
                Ok(text.to_owned())
            }
            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<String, E> {
                Ok(String::from_utf8_lossy(bytes).into_owned())
            }
        }
        deserializer.deserialize_str(Text)
    }
}

pub(super) fn failures(packed: &[u8]) -> Result<Vec<Failure>> {
    if packed.is_empty() {
        return Ok(Vec::new());
    }
    let packed: Vec<Packed> =
        crate::codec::decode(packed).map_err(|problem| Error::Decode { what: "the failures of a job".to_owned(), problem })?;
    Ok(packed.into_iter().map(|Packed(at, message)| Failure { at_ms: at.parse().unwrap_or(0), message }).collect())
}

/// One job of `show`.
pub(super) fn record(id: &JobId, value: Value) -> Result<Option<JobRecord>> {
    if matches!(value, Value::Nil) {
        return Ok(None);
    }
    let mut values = array(value)?.into_iter();
    let state: State = words(next(&mut values)?)?.parse().unwrap_or(State::Done);
    let mut record = JobRecord::new(id.clone(), state, bytes(next(&mut values)?)?);
    record.priority = u8::try_from(count(next(&mut values)?)).ok().and_then(Priority::from_number).unwrap_or_default();
    record.attempts = count(next(&mut values)?);
    record.crashes = count(next(&mut values)?);
    record.snoozes = count(next(&mut values)?);
    record.at_ms = words(next(&mut values)?)?.parse().ok();
    record.tag = Some(words(next(&mut values)?)?).filter(|tag| !tag.is_empty());
    record.failures =
        failures(&bytes(next(&mut values)?)?).unwrap_or_else(|problem| vec![Failure { at_ms: 0, message: problem.to_string() }]);
    let note = words(next(&mut values)?)?;
    match state {
        State::Dead => record.reason = BuryReason::from_name(&note),
        _ => record.note = Some(note).filter(|note| !note.is_empty()),
    }
    record.result = Some(bytes(next(&mut values)?)?).filter(|result| !result.is_empty());
    Ok(Some(record))
}

/// Until when a job of `show` is kept, if it has ended.
pub(super) fn kept_until(value: &Value) -> Option<&[u8]> {
    match value {
        Value::Array(values) => match values.get(11)? {
            Value::BulkString(until) => Some(until),
            _ => None,
        },
        _ => None,
    }
}

/// What was cancelled under a lane, as Lua packs it: pairs of an id and a claim number.
pub(super) fn gone(value: Value) -> Result<Vec<(JobId, u64)>> {
    let packed = bytes(value)?;
    if packed.is_empty() {
        return Ok(Vec::new());
    }
    let mut gone = Vec::new();
    let mut at = 0;
    // Ids are any bytes in what Lua calls a string, which serde would refuse as text.
    let pairs = read_header(&packed, &mut at)?;
    for _ in 0..pairs {
        if read_header(&packed, &mut at)? != 2 {
            return Err(strange("a cancelled job"));
        }
        let id = JobId::from_bytes(read_string(&packed, &mut at)?)?;
        let claim = std::str::from_utf8(read_string(&packed, &mut at)?).ok().and_then(|claim| claim.parse().ok());
        gone.push((id, claim.ok_or_else(|| strange("a claim number"))?));
    }
    Ok(gone)
}

fn read_header(bytes: &[u8], at: &mut usize) -> Result<usize> {
    let (length, size) = match bytes.get(*at..) {
        Some([marker @ 0x90..=0x9f, ..]) => (usize::from(marker & 0x0f), 1),
        Some([0xdc, high, low, ..]) => (usize::from(u16::from_be_bytes([*high, *low])), 3),
        // An empty table is a map to Lua.
        Some([0x80, ..]) => (0, 1),
        _ => return Err(strange("a list")),
    };
    *at += size;
    Ok(length)
}

fn read_string<'a>(bytes: &'a [u8], at: &mut usize) -> Result<&'a [u8]> {
    let (length, size) = match bytes.get(*at..) {
        Some([marker @ 0xa0..=0xbf, ..]) => (usize::from(marker & 0x1f), 1),
        Some([0xd9, length, ..]) => (usize::from(*length), 2),
        Some([0xda, high, low, ..]) => (usize::from(u16::from_be_bytes([*high, *low])), 3),
        _ => return Err(strange("a string")),
    };
    let start = *at + size;
    *at = start + length;
    bytes.get(start..*at).ok_or_else(|| strange("a string"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the fuzzer begins with has to lead it to the end of the decoder.
    fn value(name: &str) -> Value {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/answers").join(name);
        let bytes = std::fs::read(&file).expect("the corpus is in the repository");
        redis::parse_redis_value(&bytes).expect("it is an answer")
    }

    fn seed(name: &str) -> Result<TurnAnswer> {
        let (answer, plain) = turn(value(name), &[2, 0, 1])?;
        assert_eq!(plain, Plain::Well);
        Ok(answer)
    }

    #[test]
    fn the_seeds_of_the_fuzzer_are_answers_of_turns() {
        let whole = seed("turn").expect("it is one");
        assert_eq!((whole.stale, whole.workers), (vec![1, 2], 3));
        assert_eq!(whole.deliveries.iter().map(|delivery| delivery.void).collect::<Vec<_>>(), [false, true]);

        let counted = seed("turn-counted").expect("it is one").deliveries;
        let counts = |delivery: &Delivery| (delivery.attempts, delivery.crashes, delivery.snoozes);
        assert_eq!(counted.iter().map(counts).collect::<Vec<_>>(), [(3, 1, 0), (0, 0, u32::MAX)]);

        assert!(seed("turn-of-nothing").expect("it is one").deliveries.is_empty());
        assert!(seed("turn-short").is_err());

        let (plain, plainness) = plain_turn(value("turn-plain")).unwrap().expect("the queue is plain");
        assert_eq!(plainness, Plain::Well);
        let claims: Vec<_> = plain.deliveries.iter().map(|delivery| (delivery.id.as_bytes(), delivery.claim)).collect();
        assert_eq!(claims, [(&b"=a"[..], 1_700_000_000_000), (&b"0123456789abcdef"[..], 1_700_000_000_000)]);
        assert_eq!((plain.as_of, plain.more, plain.workers), (Some(1_700_000_000_001_000), true, 3));
        assert_eq!(plain.next_due, Some(Duration::from_micros(250)));
        let (failed, plainness) = plain_turn(value("turn-failed")).unwrap().expect("the queue is plain");
        assert_eq!(plainness, Plain::Failed);
        assert_eq!(failed.deliveries.iter().map(|delivery| delivery.attempts).collect::<Vec<_>>(), [0, 2]);
        assert!(plain_turn(Value::Nil).unwrap().is_none(), "it takes the whole script");
    }
}
