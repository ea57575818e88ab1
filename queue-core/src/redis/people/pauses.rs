//! Pauses of a queue and its groups.

use crate::{
    broker::{Due, Pause, PauseOf, Pauses, SetPause, StoredPause},
    error::Result,
    redis::{
        RedisBroker,
        script::{PAUSE, PAUSES},
        values::{array, bytes, display_text, ms, next, number, unexpected_answer},
    },
};

pub(in crate::redis) async fn set_pause(broker: &RedisBroker, request: &SetPause) -> Result<()> {
    request.check()?;
    let mut call = PAUSE.call(&broker.keys, &request.queue);
    call.arg(request.of.stored()).arg(u8::from(request.pause.is_some()));
    if let Some(pausing) = &request.pause {
        call.arg(match pausing.until {
            Some(Due::AtMs(at)) => at.to_string(),
            Some(Due::After(time)) => format!("+{}", ms(time)),
            _ => String::new(),
        });
        call.arg(pausing.encoded());
    }
    match &*bytes(broker.script(&request.queue, &PAUSE, call).await?)? {
        b"SET" => Ok(()),
        b"PAST" => Err(request.past()),
        b"MANY" => Err(request.too_many()),
        _ => Err(unexpected_answer("an answer to a pause")),
    }
}

pub(in crate::redis) async fn pauses(broker: &RedisBroker, queue: &str) -> Result<Pauses> {
    let mut values = array(broker.script(queue, &PAUSES, PAUSES.call(&broker.keys, queue)).await?)?.into_iter();
    let (now_ms, mut pauses) = (number(next(&mut values)?)?, Vec::new());
    while let Some(of) = values.next() {
        let (of, record, parked) = (PauseOf::of_stored(&bytes(of)?), display_text(next(&mut values)?)?, number(next(&mut values)?)?);
        // Another program has left an invalid name.
        let Some(of) = of else { continue };
        let mut stored = StoredPause::new(of, Pause::of_stored(&record));
        stored.parked = parked;
        pauses.push(stored);
    }
    pauses.sort_by(|one, other| one.of.cmp(&other.of));
    Ok(Pauses::new(now_ms, pauses))
}
