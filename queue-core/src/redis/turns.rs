//! Turns: by a small script where the queue is plain, and by the whole one where it is not.

use std::{
    collections::HashSet,
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
    others: RwLock<HashSet<Arc<str>>>,
}

impl PlainQueues {
    fn may_be(&self, queue: &str) -> bool {
        !self.others.read().unwrap_or_else(PoisonError::into_inner).contains(queue)
    }

    fn note(&self, queue: &Arc<str>, plain: bool) {
        if self.may_be(queue) == plain {
            return;
        }
        let mut others = self.others.write().unwrap_or_else(PoisonError::into_inner);
        if plain {
            others.remove(queue);
        } else {
            others.insert(queue.clone());
        }
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
            return Ok(told(broker, turn, answer, sent));
        }
    }
    let (call, positions) = requests::turn(turn, &broker.keys);
    let sent = Instant::now();
    let (answer, plain) = answers::turn(broker.servers.script(Line::Requests, &turn.queue, &TURN, call).await?, &positions)?;
    broker.plain.note(&turn.queue, plain);
    Ok(told(broker, turn, answer, sent))
}

/// What an answer says of the queue is told to who listens for work in it.
fn told(broker: &RedisBroker, turn: &Turn, answer: TurnAnswer, sent: Instant) -> TurnAnswer {
    let awaited = (turn.claim > 0).then_some(!answer.more && !answer.paused);
    broker.announcements.answered(&turn.queue, answer.as_of.unwrap_or_default(), sent.elapsed() / 2, awaited);
    answer
}
