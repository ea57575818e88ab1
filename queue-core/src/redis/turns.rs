//! Turns: by a small script where the queue is plain, and by the whole one where it is not.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
    time::Instant,
};

use super::{
    RedisBroker, answers, requests,
    script::{TURN, TURN_PLAIN},
    servers::Line,
};
use crate::{
    broker::{Turn, TurnAnswer},
    error::Result,
};

/// Which queues are plain, as far as is known: all, but those of which a server has said otherwise.
#[derive(Debug, Default)]
pub(super) struct PlainQueues {
    others: RwLock<HashMap<Arc<str>, Until>>,
}

/// How long a queue is plain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// It is not now.
    Now,
    /// A job is due then.
    Due(Instant),
}

impl PlainQueues {
    fn may_be(&self, queue: &str) -> bool {
        match self.others.read().unwrap_or_else(PoisonError::into_inner).get(queue) {
            None => true,
            Some(Until::Now) => false,
            Some(Until::Due(at)) => Instant::now() < *at,
        }
    }

    fn note(&self, queue: &Arc<str>, until: Option<Until>) {
        if self.others.read().unwrap_or_else(PoisonError::into_inner).get(queue) == until.as_ref() {
            return;
        }
        let mut others = self.others.write().unwrap_or_else(PoisonError::into_inner);
        match until {
            Some(until) => others.insert(queue.clone(), until),
            None => others.remove(queue),
        };
    }
}

/// Takes a turn. The small script answers with nothing, and has changed nothing, where the whole one is needed, which repeats the
/// answer to a turn that either has taken already.
pub(super) async fn turn(broker: &RedisBroker, turn: &Turn) -> Result<TurnAnswer> {
    if broker.plain.may_be(&turn.queue)
        && let Some(call) = requests::plain_turn(turn, &broker.keys)
    {
        let sent = Instant::now();
        let value = broker.servers.script(Line::Requests, &turn.queue, &TURN_PLAIN, call).await?;
        if let Some(answer) = answers::plain_turn(value)? {
            broker.plain.note(&turn.queue, due(&answer, sent));
            return Ok(told(broker, turn, answer, sent));
        }
    }
    let (call, positions) = requests::turn(turn, &broker.keys);
    let sent = Instant::now();
    let (answer, plain) = answers::turn(broker.servers.script(Line::Requests, &turn.queue, &TURN, call).await?, &positions)?;
    broker.plain.note(&turn.queue, if plain { due(&answer, sent) } else { Some(Until::Now) });
    Ok(told(broker, turn, answer, sent))
}

/// When the next job is due, if one waits: not before this time, as the server looked at its clock after the request was sent.
fn due(answer: &TurnAnswer, sent: Instant) -> Option<Until> {
    answer.next_due.map(|due| Until::Due(sent + due))
}

/// What an answer says of the queue is told to who listens for work in it.
fn told(broker: &RedisBroker, turn: &Turn, answer: TurnAnswer, sent: Instant) -> TurnAnswer {
    let awaited = (turn.claim > 0).then_some(!answer.more && !answer.paused);
    broker.announcements.answered(&turn.queue, answer.as_of.unwrap_or_default(), sent.elapsed() / 2, awaited);
    answer
}
