//! Turns use the plain script if the queue and the turn have no rare features, and otherwise the
//! full script.

#[cfg(feature = "fuzz")]
pub(in crate::redis) mod answer;
#[cfg(not(feature = "fuzz"))]
mod answer;
mod known;
mod request;

use std::{borrow::Cow, time::Instant};

use self::known::Known;
pub(in crate::redis) use self::known::KnownQueues;
use crate::{
    address::subscription_at,
    broker::{Turn, TurnAnswer},
    error::{Error, Result},
    redis::{
        RedisBroker,
        connection::servers::Purpose,
        keys::Kind,
        script::{TURN, TURN_PLAIN, bits::PLAIN_TURN},
        topic,
        values::number,
    },
};

/// Whether a queue has waiting jobs.
pub(in crate::redis) async fn has_work(broker: &RedisBroker, queue: &str) -> Result<bool> {
    if subscription_at(queue).is_some() {
        // The log of its topic may have unread entries. A turn finds out.
        return Ok(true);
    }
    use Kind::{Line, Parked, Ready0, Ready1, Ready2, Ready3, Retry, Scheduled, Suspect};
    let mut command = redis::cmd("EXISTS");
    for kind in [Ready0, Ready1, Ready2, Ready3, Suspect, Scheduled, Retry, Parked, Line] {
        command.arg(broker.keys.of(queue, kind));
    }
    Ok(number::<i64>(broker.servers.command(Purpose::Requests, queue, &command).await?)? > 0)
}

/// Runs a turn. If the full script is needed, the plain script changes nothing and answers with
/// nothing. The full script repeats the answer of a turn that either script has run already.
pub(in crate::redis) async fn turn(broker: &RedisBroker, turn: &Turn) -> Result<TurnAnswer> {
    let more_in_log = topic::feed(broker, turn).await;
    let mut plain = !broker.known.full() && PLAIN_TURN.covers(broker.known.bits(&turn.queue)) && request::is_plain(turn);
    loop {
        let script = if plain { &TURN_PLAIN } else { &TURN };
        let (call, positions) = request::turn(turn, script, plain, &broker.keys);
        let sent = Instant::now();
        let value = broker.servers.script(Purpose::Requests, &turn.queue, script, call).await?;
        match answer::parse_turn(value, &positions)? {
            Some((mut answer, bits)) => {
                answer.more |= more_in_log;
                if subscription_at(&turn.queue).is_some() {
                    answer.deliveries.iter_mut().for_each(|delivery| make_readable(&mut delivery.envelope));
                }
                broker.known.store(&turn.queue, Known::from(bits, &answer, sent));
                return Ok(notify_listeners(broker, turn, answer, sent));
            }
            None if plain => plain = false,
            None => return Err(Error::Internal("a turn by the full script has no answer".to_owned())),
        }
    }
}

/// The payload of an event that another program has added may be JSON.
fn make_readable(envelope: &mut Vec<u8>) {
    if let Cow::Owned(readable) = topic::with_messagepack_payload(envelope) {
        *envelope = readable;
    }
}

/// Forwards the state of the queue in an answer to the listeners for work in it.
fn notify_listeners(broker: &RedisBroker, turn: &Turn, answer: TurnAnswer, sent: Instant) -> TurnAnswer {
    let awaited = (turn.claim > 0).then_some(!answer.more && !answer.paused);
    broker.announcements.answered(&turn.queue, answer.as_of.unwrap_or_default(), sent.elapsed() / 2, awaited);
    answer
}
