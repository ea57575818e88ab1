//! Decodes the answer of a turn's script.

use std::time::Duration;

use redis::Value;

use crate::{
    address::JobId,
    broker::{Delivery, PauseOf, TurnAnswer, snoozes_of},
    error::Result,
    redis::{
        script::bits::Bits,
        values::{array, bytes, count, large_count, next, number, text, unexpected_answer},
    },
};

/// The answer of a turn, and the feature bits of the queue; `None` if the full script is needed.
/// `positions` are the positions of the finishes in the order in which the script got them.
pub(in crate::redis) fn parse_turn(value: Value, positions: &[usize]) -> Result<Option<(TurnAnswer, Bits)>> {
    if matches!(value, Value::Nil) {
        return Ok(None);
    }
    let mut values = array(value)?.into_iter();
    let mut answer = TurnAnswer::default();
    let (ids, mut bodies) = (array(next(&mut values)?)?, array(next(&mut values)?)?.into_iter());
    let claim: u64 = number(next(&mut values)?)?;
    answer.deliveries.reserve(ids.len());
    for id in ids {
        let mut delivery = Delivery::new(JobId::from_bytes(&bytes(id)?)?, claim, bytes(next(&mut bodies)?)?);
        delivery.void = delivery.envelope.is_empty();
        answer.deliveries.push(delivery);
    }
    let now_us: i64 = number(next(&mut values)?)?;
    (answer.now_ms, answer.as_of) = (now_us.div_euclid(1000), Some(now_us));
    let waiting: i64 = number(next(&mut values)?)?;
    (answer.more, answer.suspects) = (waiting & 1 != 0, waiting & 2 != 0);
    answer.next_due = time_to(next(&mut values)?)?;
    answer.lanes = number(next(&mut values)?)?;
    let bits = match next(&mut values)? {
        Value::Nil => Bits::ALL,
        letters => Bits::read(&bytes(letters)?),
    };
    let fields: [fn(&mut Delivery, Value); 3] = [
        |delivery, counted| delivery.attempts = count(counted),
        |delivery, counted| (delivery.crashes, delivery.suspected_for) = crashes_of(counted),
        |delivery, counted| (delivery.snoozes, delivery.rate_limited, delivery.odd) = snoozes_of(large_count(counted)),
    ];
    for set in fields {
        // The answer of the plain script ends here.
        let Some(counts) = values.next() else { return Ok(Some((answer, bits))) };
        for (delivery, counted) in answer.deliveries.iter_mut().zip(array(counts)?) {
            // A void delivery has no counters: these belong to the present state of the job.
            if !delivery.void {
                set(delivery, counted);
            }
        }
    }
    let stale = text(next(&mut values)?)?;
    for position in stale.split(',').filter(|position| !position.is_empty()) {
        let position: usize = position.parse().map_err(|_| unexpected_answer("a position"))?;
        answer.stale.push(*positions.get(position).ok_or_else(|| unexpected_answer("a position"))?);
    }
    answer.stale.sort_unstable();
    answer.parked = number::<i64>(next(&mut values)?)? != 0;
    answer.paused = number::<i64>(next(&mut values)?)? != 0;
    for of in values.next().map_or(Ok(Vec::new()), array)? {
        // Another program has left an invalid name.
        answer.resumed.extend(PauseOf::of_stored(&bytes(of)?));
    }
    for id in values.next().map_or(Ok(Vec::new()), array)? {
        answer.aside.push(JobId::from_bytes(&bytes(id)?)?);
    }
    Ok(Some((answer, bits)))
}

/// The number of crashes, and for how many milliseconds the job may have run the last time.
fn crashes_of(value: Value) -> (u32, Duration) {
    let ran = match &value {
        Value::BulkString(bytes) => bytes.iter().position(|byte| *byte == b':').map(|at| (bytes[..at].to_vec(), bytes[at + 1..].to_vec())),
        _ => None,
    };
    match ran {
        Some((crashes, ran)) => (count(Value::BulkString(crashes)), Duration::from_millis(large_count(Value::BulkString(ran)))),
        None => (count(value), Duration::ZERO),
    }
}

/// A number of microseconds, or nothing.
fn time_to(value: Value) -> Result<Option<Duration>> {
    let due = text(value)?;
    if due.is_empty() {
        return Ok(None);
    }
    Ok(Some(Duration::from_micros(due.parse().map_err(|_| unexpected_answer("a time"))?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::script::bits::Bit;

    /// The initial inputs of the fuzzer have to reach the end of the decoder.
    fn value(name: &str) -> Value {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/answers").join(name);
        let bytes = std::fs::read(&file).expect("the corpus is in the repository");
        redis::parse_redis_value(&bytes).expect("it is an answer")
    }

    fn seed(name: &str) -> (TurnAnswer, Bits) {
        parse_turn(value(name), &[2, 0, 1]).expect("it is one").expect("it is whole")
    }

    #[test]
    fn the_seeds_of_the_fuzzer_are_answers_of_turns() {
        let (whole, bits) = seed("turn");
        assert_eq!((whole.stale, whole.lanes, bits), (vec![1, 2], 3, Bits::NONE));
        assert_eq!(whole.deliveries.iter().map(|delivery| delivery.void).collect::<Vec<_>>(), [false, true]);

        let (counted, bits) = seed("turn-counted");
        let counts = |delivery: &Delivery| (delivery.attempts, delivery.crashes, delivery.snoozes);
        assert_eq!(counted.deliveries.iter().map(counts).collect::<Vec<_>>(), [(3, 1, 0), (0, 0, 0)]);
        assert_eq!(bits, Bits::of(&[Bit::Failed, Bit::Crashed, Bit::Snoozed]));

        let (nothing, bits) = seed("turn-of-nothing");
        assert!(nothing.deliveries.is_empty() && nothing.paused && bits == Bits::ALL);
        assert!(parse_turn(value("turn-short"), &[]).is_err());
    }

    #[test]
    fn an_answer_of_the_plain_script_ends_earlier() {
        let (plain, bits) = seed("turn-plain");
        assert_eq!(bits, Bits::of(&[Bit::Large]));
        let claims: Vec<_> = plain.deliveries.iter().map(|delivery| (delivery.id.as_bytes(), delivery.claim)).collect();
        assert_eq!(claims, [(&b"=a"[..], 1_700_000_000_000), (&b"0123456789abcdef"[..], 1_700_000_000_000)]);
        assert_eq!((plain.as_of, plain.more, plain.lanes), (Some(1_700_000_000_001_000), true, 3));
        assert_eq!(plain.next_due, Some(Duration::from_micros(250)));
        let (failed, bits) = seed("turn-failed");
        assert_eq!(bits, Bits::of(&[Bit::Failed]));
        assert_eq!(failed.deliveries.iter().map(|delivery| delivery.attempts).collect::<Vec<_>>(), [0, 2]);
        assert!(parse_turn(Value::Nil, &[]).unwrap().is_none(), "it takes the full script");
    }
}
