//! Queues that a watcher follows: the mark, and the transitions since then.

use std::time::Duration;

use redis::Value;
use serde::Deserialize;

use super::record::lossy;
use crate::{
    address::JobId,
    broker::{FOLLOWED, Followed, StoredTransition, Transitions, reason_in},
    error::Result,
    redis::{
        RedisBroker,
        script::{FOLLOW, TRANSITIONS},
        values::{array, bytes, ms, next, number, text},
    },
};

/// The most pieces of one answer. A piece has at most 200 transitions.
const PIECES: usize = 500;

pub(in crate::redis) async fn follow(broker: &RedisBroker, queue: &str, valid_for: Duration) -> Result<Followed> {
    let mut call = FOLLOW.call(&broker.keys, queue);
    call.arg(ms(valid_for.min(FOLLOWED)));
    let answer = broker.script(queue, &FOLLOW, call).await?;
    if matches!(answer, Value::Nil) {
        return Ok(Followed::default());
    }
    let mut values = array(answer)?.into_iter();
    let (last, was_valid) = (number(next(&mut values)?)?, number::<i64>(next(&mut values)?)? == 1);
    Ok(Followed::new(last, was_valid, text(next(&mut values)?)?))
}

pub(in crate::redis) async fn transitions(broker: &RedisBroker, queue: &str, after: u64, limit: usize) -> Result<Transitions> {
    let asked = limit.clamp(1, PIECES);
    let mut call = TRANSITIONS.call(&broker.keys, queue);
    call.arg(after).arg(asked);
    let mut values = array(broker.script(queue, &TRANSITIONS, call).await?)?.into_iter();
    let (last, life) = (number(next(&mut values)?)?, text(next(&mut values)?)?);
    // All received transitions are kept, even beyond the limit. Otherwise they would be read again.
    // The answer is bounded by the number of transitions that a queue keeps.
    let (mut entries, is_all) = (Vec::new(), values.len() < asked);
    for piece in values {
        entries.extend(piece_of(&bytes(piece)?));
    }
    Ok(Transitions::read(entries, after, last, is_all).of_life(life))
}

/// A text as Lua packs it.
#[derive(Deserialize)]
struct Packed(#[serde(with = "lossy::bytes")] Vec<u8>);

impl Packed {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }

    fn number<T: std::str::FromStr + Default>(&self) -> T {
        self.text().parse().unwrap_or_default()
    }
}

/// The transitions of a piece. An invalid one is left out, as if it were lost.
fn piece_of(stored: &[u8]) -> Vec<StoredTransition> {
    let parts: Vec<Packed> = crate::codec::unpack(stored).unwrap_or_default();
    let Some((head, jobs)) = parts.split_at_checked(4) else { return Vec::new() };
    let (jobs, _) = jobs.as_chunks::<4>();
    let before_first = head[0].number::<u64>().saturating_sub(jobs.len() as u64);
    let (at_ms, to, reason) = (head[1].number(), head[2].text().parse().ok(), reason_in(&head[3].0));
    let numbered = jobs.iter().zip(before_first + 1..);
    numbered
        .filter_map(|([id, task, from, attempts], number)| {
            let mut entry = StoredTransition::new(number, at_ms, JobId::from_bytes(&id.0).ok()?);
            (entry.task, entry.from, entry.to, entry.attempts) = (task.text(), from.text().parse().ok(), to, attempts.number());
            entry.reason.clone_from(&reason);
            Some(entry)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::JobState;

    #[test]
    fn a_piece_reports_several_jobs() {
        let (one, other) = (JobId::make(), JobId::given("mine").expect("it is a name"));
        let text = |text: &[u8]| serde_bytes_as_text(text);
        let mut stored = vec![0x9c];
        for part in [
            b"8" as &[u8],
            b"1764000000000",
            b"dead",
            b"failed",
            one.as_bytes(),
            b"mail",
            b"active",
            b"3",
            other.as_bytes(),
            b"",
            b"",
            b"0",
        ] {
            stored.extend(text(part));
        }
        let entries = piece_of(&stored);
        let of = |entry: &StoredTransition| (entry.number, entry.id.clone(), entry.task.clone(), entry.from, entry.to, entry.attempts);
        assert_eq!(of(&entries[0]), (7, one, "mail".to_owned(), Some(JobState::Active), Some(JobState::Dead), 3));
        assert_eq!(of(&entries[1]), (8, other, String::new(), None, Some(JobState::Dead), 0));
        assert_eq!((entries[0].at_ms, entries[0].reason.as_deref()), (1_764_000_000_000, Some("failed")));
        for strange in [&b""[..], b"\x93", b"\xff\xff", &stored[..20]] {
            assert!(piece_of(strange).is_empty());
        }
    }

    /// Lua packs any string as text.
    fn serde_bytes_as_text(text: &[u8]) -> Vec<u8> {
        [&[0xa0 | u8::try_from(text.len()).expect("it is short")], text].concat()
    }
}
