//! Registrations, leases, and the reclaim of expired leases.

mod cancelled;
mod sweep;

use std::time::Duration;

use futures_util::future::join_all;
use redis::Value;

#[cfg(feature = "fuzz")]
pub(in crate::redis) use self::cancelled::parse_cancelled;
pub(in crate::redis) use self::sweep::sweep;
use crate::{
    address::check_address,
    broker::{Ahead, Extend, Extended, OverdueLane, OverdueLanes, Party, PartyName, Register, Registered, WorkerAsk, WorkerLoad},
    error::Result,
    redis::{
        RedisBroker, bounded,
        connection::servers::Purpose,
        script::{EXTEND, FENCE, OVERDUE, REGISTER, bits::Bits},
        values::{array, bytes, ms, next, number, text},
    },
};

/// R1.
pub(in crate::redis) async fn register(broker: &RedisBroker, request: &Register) -> Result<Registered> {
    check_address(&request.queue)?;
    let mut call = REGISTER.call(&broker.keys, &request.queue);
    call.arg(request.process.to_string()).arg(format!("{:016x}", fastrand::u64(..)));
    match &request.party {
        Party::Lane { lease, info, lost } => {
            call.arg("w").arg(ms(*lease)).arg(Bits::ALL.letters()).arg(info.encoded()).arg(info.release());
            if *lost { call.arg("lost") } else { &mut call }
        }
        Party::Producer => call.arg("p").arg(0),
    };
    // This comes first, so that `doctor` finds a queue with a damaged key even if no caller has
    // ever registered with it.
    broker.register_queue(&request.queue, request.until).await?;
    let answer = broker.servers.script_until(request.until, Purpose::Requests, &request.queue, &REGISTER, call).await?;
    let mut values = array(answer)?.into_iter();
    let registered = Registered::new(PartyName::new(text(next(&mut values)?)?), number(next(&mut values)?)?);
    Ok(registered.served(number::<i64>(next(&mut values)?)? == 1))
}

/// R6. All requests are sent before the first answer arrives: one round trip.
pub(in crate::redis) async fn extend(broker: &RedisBroker, lanes: &[Extend]) -> Vec<Result<Extended>> {
    join_all(lanes.iter().map(|lane| extend_one(broker, lane))).await
}

async fn extend_one(broker: &RedisBroker, lane: &Extend) -> Result<Extended> {
    let mut call = EXTEND.call(&broker.keys, &lane.queue);
    call.arg(lane.lane.as_str()).arg(lane.answered).arg(ms(lane.lease));
    if lane.load.is_some() || lane.leaving {
        call.arg(lane.load.as_ref().map(WorkerLoad::encoded).unwrap_or_default());
    }
    if lane.leaving {
        call.arg("1");
    }
    let (gone, asked) = match broker.script(&lane.queue, &EXTEND, call).await? {
        Value::Array(both) => {
            let mut both = both.into_iter();
            let (gone, asked) = (next(&mut both)?, bytes(next(&mut both)?)?);
            (gone, WorkerAsk::decoded(&asked))
        }
        gone => (gone, None),
    };
    // The list is only a hint. If it cannot be read, the lease is renewed nevertheless.
    Ok(Extended::new(cancelled::parse_cancelled(gone).unwrap_or_default()).asking(asked))
}

/// R7, first check.
pub(in crate::redis) async fn overdue(broker: &RedisBroker, queue: &str, skip: usize, limit: usize) -> Result<OverdueLanes> {
    let mut call = OVERDUE.call(&broker.keys, queue);
    call.arg(limit).arg(skip);
    let mut values = array(broker.script(queue, &OVERDUE, call).await?)?.into_iter();
    let mut lanes = array(next(&mut values)?)?.into_iter();
    let mut expired = Vec::new();
    while let Some(lane) = lanes.next() {
        let deadline_ms = number(next(&mut lanes)?)?;
        // A value that is not text is not the name of a lane.
        if let Ok(lane) = text(lane) {
            expired.push(OverdueLane { name: PartyName::new(lane), deadline_ms });
        }
    }
    let fenced = number(next(&mut values)?)?;
    let (mut lanes, mut ahead) = (array(next(&mut values)?)?.into_iter(), Vec::new());
    while let Some(lane) = lanes.next() {
        let (deadline_ms, duration) = (number(next(&mut lanes)?)?, Duration::from_millis(number(next(&mut lanes)?)?));
        if let Ok(lane) = text(lane) {
            ahead.push(Ahead { lane: OverdueLane { name: PartyName::new(lane), deadline_ms }, duration });
        }
    }
    Ok(OverdueLanes::new(expired, fenced).ahead(ahead))
}

/// R7, second check.
pub(in crate::redis) async fn fence(broker: &RedisBroker, queue: &str, overdue: &[OverdueLane]) -> Result<Vec<bool>> {
    bounded("overdue", overdue.len())?;
    if overdue.is_empty() {
        return Ok(Vec::new());
    }
    let mut call = FENCE.call(&broker.keys, queue);
    for lane in overdue {
        call.arg(lane.name.as_str()).arg(lane.deadline_ms);
    }
    array(broker.script(queue, &FENCE, call).await?)?.into_iter().map(|fenced| Ok(number::<i64>(fenced)? == 1)).collect()
}
