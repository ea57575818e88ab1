//! Who works here: registrations, leases, and what happens when one runs out.

mod gone;
mod sweep;

use std::time::Duration;

use futures_util::future::join_all;

#[cfg(feature = "fuzz")]
pub(in crate::redis) use self::gone::gone;
pub(in crate::redis) use self::sweep::sweep;
use crate::{
    address::check_name,
    broker::{Ahead, Extend, Extended, Party, PartyName, Register, Registered, Suspect, Suspects},
    error::Result,
    redis::{
        RedisBroker, bounded,
        connection::servers::Line,
        script::{EXTEND, FENCE, REGISTER, SUSPECTS, bits::Bits},
        values::{array, ms, next, number, text},
    },
};

/// R1.
pub(in crate::redis) async fn register(broker: &RedisBroker, request: &Register) -> Result<Registered> {
    check_name("queue", &request.queue)?;
    let mut call = REGISTER.call(&broker.keys, &request.queue);
    call.arg(request.process.to_string()).arg(format!("{:016x}", fastrand::u64(..)));
    match request.party {
        Party::Worker { lease } => call.arg("w").arg(ms(lease)),
        Party::Producer => call.arg("p").arg(0),
    };
    call.arg(Bits::ALL.letters());
    // First of all: a queue of which a key is broken is found by `doctor` too, if nobody has ever registered with it.
    broker.list_queue(&request.queue, request.until).await?;
    let answer = broker.servers.script_until(request.until, Line::Requests, &request.queue, &REGISTER, call).await?;
    let mut values = array(answer)?.into_iter();
    Ok(Registered::new(PartyName::new(text(next(&mut values)?)?), number(next(&mut values)?)?))
}

/// R6. All are sent before the first is waited for: one round trip.
pub(in crate::redis) async fn extend(broker: &RedisBroker, lanes: &[Extend]) -> Vec<Result<Extended>> {
    join_all(lanes.iter().map(|lane| extend_one(broker, lane))).await
}

async fn extend_one(broker: &RedisBroker, lane: &Extend) -> Result<Extended> {
    let mut call = EXTEND.call(&broker.keys, &lane.queue);
    call.arg(lane.worker.as_str()).arg(lane.answered).arg(ms(lane.lease));
    // The list is a hint, and one that cannot be read is no reason to let the lease run out.
    Ok(Extended::new(gone::gone(broker.script(&lane.queue, &EXTEND, call).await?).unwrap_or_default()))
}

/// R7, look one.
pub(in crate::redis) async fn suspects(broker: &RedisBroker, queue: &str, limit: usize) -> Result<Suspects> {
    let mut call = SUSPECTS.call(&broker.keys, queue);
    call.arg(limit);
    let mut values = array(broker.script(queue, &SUSPECTS, call).await?)?.into_iter();
    let mut lanes = array(next(&mut values)?)?.into_iter();
    let mut expired = Vec::new();
    while let Some(worker) = lanes.next() {
        let deadline_ms = number(next(&mut lanes)?)?;
        // What is no text is no lane of anybody.
        if let Ok(worker) = text(worker) {
            expired.push(Suspect { worker: PartyName::new(worker), deadline_ms });
        }
    }
    let fenced = number(next(&mut values)?)?;
    let (mut lanes, mut ahead) = (array(next(&mut values)?)?.into_iter(), Vec::new());
    while let Some(worker) = lanes.next() {
        let (deadline_ms, term) = (number(next(&mut lanes)?)?, Duration::from_millis(number(next(&mut lanes)?)?));
        if let Ok(worker) = text(worker) {
            ahead.push(Ahead { suspect: Suspect { worker: PartyName::new(worker), deadline_ms }, term });
        }
    }
    Ok(Suspects::new(expired, fenced).ahead(ahead))
}

/// R7, look two.
pub(in crate::redis) async fn fence(broker: &RedisBroker, queue: &str, suspects: &[Suspect]) -> Result<Vec<bool>> {
    bounded("suspects", suspects.len())?;
    if suspects.is_empty() {
        return Ok(Vec::new());
    }
    let mut call = FENCE.call(&broker.keys, queue);
    for suspect in suspects {
        call.arg(suspect.worker.as_str()).arg(suspect.deadline_ms);
    }
    array(broker.script(queue, &FENCE, call).await?)?.into_iter().map(|fenced| Ok(number::<i64>(fenced)? == 1)).collect()
}
