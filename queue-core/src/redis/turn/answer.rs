//! What the script of a turn answers.

use std::time::Duration;

use redis::Value;

use crate::{
    address::JobId,
    broker::{Delivery, TurnAnswer},
    error::Result,
    redis::values::{array, bytes, count, next, number, strange, text},
};

/// Whether a queue is plain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::redis) enum Plain {
    /// And no job in it has failed.
    Well,
    /// And some of its jobs have failed.
    Failed,
    /// And jobs that have ended are kept; others may have failed.
    Kept,
    No,
}

/// What a plain queue has answered, and how plain it is; none where it takes the whole script.
pub(in crate::redis) fn plain_turn(value: Value) -> Result<Option<(TurnAnswer, Plain)>> {
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
pub(in crate::redis) fn turn(value: Value, positions: &[usize]) -> Result<(TurnAnswer, Plain)> {
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
