//! Turns: by a small script where the queue is plain, and by the whole one where it is not.

#[cfg(feature = "fuzz")]
pub(in crate::redis) mod answer;
#[cfg(not(feature = "fuzz"))]
mod answer;
mod request;

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, Instant},
};

use self::answer::Plain;
use crate::{
    broker::{Turn, TurnAnswer},
    error::Result,
    redis::{
        RedisBroker,
        connection::servers::Line,
        keys::Kind,
        script::{TURN, TURN_PLAIN},
        values::number,
    },
};

/// Which queues are plain, as far as is known.
#[derive(Debug, Default)]
pub(in crate::redis) struct PlainQueues {
    /// But for those that are as is taken for granted: plain, and well, and with nothing that waits.
    others: RwLock<HashMap<Arc<str>, Known>>,
}

/// Two times so near are taken for one, and the first of them is kept: no two answers travel equally long. If there are two after all,
/// some turns are sent to the script that is not the cheaper one; each of the two gives the right answer.
const NEAR: Duration = Duration::from_millis(20);

/// What a server has said of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    plain: Plain,
    /// A job is due then, and it is no longer plain.
    until: Option<Instant>,
}

impl Default for Known {
    /// Of what nothing was said yet.
    fn default() -> Self {
        Known { plain: Plain::Well, until: None }
    }
}

impl Known {
    /// The next job that waits is not due before, as the server looked at its clock after the request was sent.
    fn from(plain: Plain, answer: &TurnAnswer, sent: Instant) -> Self {
        let due = answer.next_due.filter(|_| plain != Plain::No);
        Known { plain, until: due.map(|due| sent + due) }
    }

    fn is_near(self, other: Known) -> bool {
        let near = match (self.until, other.until) {
            (Some(one), Some(other)) => one.max(other) - one.min(other) < NEAR,
            (one, other) => one == other,
        };
        near && self.plain == other.plain
    }
}

impl PlainQueues {
    fn known(&self, queue: &str) -> Known {
        self.others.read().unwrap_or_else(PoisonError::into_inner).get(queue).copied().unwrap_or_default()
    }

    fn look(&self, queue: &str) -> Plain {
        let known = self.known(queue);
        if known.until.is_some_and(|until| Instant::now() >= until) { Plain::No } else { known.plain }
    }

    fn note(&self, queue: &Arc<str>, known: Known) {
        let before = self.known(queue);
        if before.is_near(known) && before.until.is_none_or(|until| Instant::now() < until) {
            return;
        }
        let mut others = self.others.write().unwrap_or_else(PoisonError::into_inner);
        if known == Known::default() {
            others.remove(queue);
        } else {
            others.insert(queue.clone(), known);
        }
    }
}

/// Whether anything waits in a queue.
pub(in crate::redis) async fn look(broker: &RedisBroker, queue: &str) -> Result<bool> {
    use Kind::{Parked, Ready0, Ready1, Ready2, Ready3, Retry, Scheduled, Suspect};
    let mut command = redis::cmd("EXISTS");
    for kind in [Ready0, Ready1, Ready2, Ready3, Suspect, Scheduled, Retry, Parked] {
        command.arg(broker.keys.of(queue, kind));
    }
    Ok(number::<i64>(broker.servers.command(Line::Requests, queue, &command).await?)? > 0)
}

/// Takes a turn. The small script answers with nothing, and has changed nothing, where the whole one is needed, which repeats the
/// answer to a turn that either has taken already.
pub(in crate::redis) async fn turn(broker: &RedisBroker, turn: &Turn) -> Result<TurnAnswer> {
    let plain = broker.plain.look(&turn.queue);
    if let Some(call) = request::plain_turn(turn, plain, &broker.keys) {
        let sent = Instant::now();
        let value = broker.servers.script(Line::Requests, &turn.queue, &TURN_PLAIN, call).await?;
        if let Some((answer, plain)) = answer::plain_turn(value)? {
            broker.plain.note(&turn.queue, Known::from(plain, &answer, sent));
            return Ok(told(broker, turn, answer, sent));
        }
    }
    let (call, positions) = request::turn(turn, &broker.keys);
    let sent = Instant::now();
    let (answer, plain) = answer::turn(broker.servers.script(Line::Requests, &turn.queue, &TURN, call).await?, &positions)?;
    broker.plain.note(&turn.queue, Known::from(plain, &answer, sent));
    Ok(told(broker, turn, answer, sent))
}

/// What an answer says of the queue is told to who listens for work in it.
fn told(broker: &RedisBroker, turn: &Turn, answer: TurnAnswer, sent: Instant) -> TurnAnswer {
    let awaited = (turn.claim > 0).then_some(!answer.more && !answer.paused);
    broker.announcements.answered(&turn.queue, answer.as_of.unwrap_or_default(), sent.elapsed() / 2, awaited);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_has_passed_gives_way_to_one_that_is_near() {
        let (queues, queue, now) = (PlainQueues::default(), Arc::from("q"), Instant::now());
        let until = |until| Known { plain: Plain::Well, until: Some(until) };
        queues.note(&queue, until(now));
        assert_eq!(queues.look(&queue), Plain::No);
        let (soon, sooner) = (now + 3000 * NEAR, now + 3000 * NEAR - NEAR / 2);
        queues.note(&queue, until(now + NEAR / 2));
        assert_eq!(queues.known(&queue), until(now + NEAR / 2));
        queues.note(&queue, until(soon));
        queues.note(&queue, until(sooner));
        assert_eq!((queues.known(&queue), queues.look(&queue)), (until(soon), Plain::Well));
    }
}
