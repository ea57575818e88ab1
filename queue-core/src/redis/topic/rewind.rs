//! Rewinds of subscriptions.

use redis::Value;

use super::time_of;
use crate::{
    address::subscription_address,
    broker::{Begin, Rewind, RewindStep, RewindTarget, Rewound},
    error::Result,
    redis::{
        RedisBroker,
        script::REWIND,
        values::{array, display_text, next, number, text},
    },
};

/// The last number that an entry can have within its millisecond.
const LAST: &str = "18446744073709551615";

pub(in crate::redis) async fn rewind(broker: &RedisBroker, request: &Rewind) -> Result<Rewound> {
    request.check()?;
    let queue = subscription_address(&request.name, &request.topic);
    let mut call = REWIND.call(&broker.keys, &queue);
    call.arg(&*request.name);
    match &request.step {
        RewindStep::Look(target) => call.arg("look").arg(cursor_before(target)?),
        RewindStep::Begin { target, token, after } => {
            let begin = match target {
                RewindTarget::At(begin) => *begin,
                RewindTarget::Event(position) => Begin::AtMs(time_of(position).ok_or_else(|| Rewind::unknown(position))?),
            };
            call.arg("begin").arg(cursor_before(target)?).arg(token).arg(begin.stored()).arg(after)
        }
        RewindStep::Count(after, upto) => call.arg("count").arg(position(after)?).arg(position(upto)?),
        RewindStep::Cancel { token, reason, ids } => {
            call.arg("cancel").arg(token).arg(reason.as_deref().unwrap_or_default());
            for id in ids {
                call.arg(id.as_bytes());
            }
            &mut call
        }
        RewindStep::Forget(after, token) => call.arg("forget").arg(position(after)?).arg(token),
        RewindStep::End(token, entries) => call.arg("end").arg(token).arg(entries),
    };
    let answer = broker.script(&queue, &REWIND, call).await?;
    if let Value::BulkString(text) = &answer {
        return Ok(if text.is_empty() { Rewound::NotFound } else { Rewound::Other });
    }
    let mut values = array(answer)?.into_iter();
    Ok(match &request.step {
        RewindStep::Look(target) | RewindStep::Begin { target, .. } => {
            let (from, upto) = (text(next(&mut values)?)?, text(next(&mut values)?)?);
            let (first, gone) = (display_text(next(&mut values)?)?, number::<u64>(next(&mut values)?)?);
            let token = display_text(next(&mut values)?)?;
            Rewound::Target { from, upto, is_short: gone > 0 && is_before(target, &first), token }
        }
        RewindStep::Count(..) | RewindStep::Forget(..) => {
            let (entries, position) = (number(next(&mut values)?)?, text(next(&mut values)?)?);
            Rewound::Passed { entries, next: (number::<i64>(next(&mut values)?)? == 1).then_some(position) }
        }
        RewindStep::Cancel { .. } => Rewound::Cancelled(number(next(&mut values)?)?),
        RewindStep::End(..) => Rewound::Ended,
    })
}

/// The cursor before the first entry of a target, or the script's keyword for the target.
fn cursor_before(target: &RewindTarget) -> Result<String> {
    match target {
        RewindTarget::At(Begin::AtMs(at)) if *at > 0 => Ok(format!("{}-{LAST}", at - 1)),
        RewindTarget::At(Begin::AtMs(_) | Begin::Start) => Ok("start".to_owned()),
        RewindTarget::At(Begin::Now) => Ok("now".to_owned()),
        RewindTarget::Event(position) => match parts(position).ok_or_else(|| Rewind::unknown(position))? {
            (at, number) if number > 0 => Ok(format!("{at}-{}", number - 1)),
            (0, _) => Ok("start".to_owned()),
            (at, _) => Ok(format!("{}-{LAST}", at - 1)),
        },
    }
}

/// Whether a target is before the first of all entries, or before the end of an empty log.
fn is_before(target: &RewindTarget, first: &str) -> bool {
    match target {
        RewindTarget::At(Begin::AtMs(at)) => time_of(first).is_none_or(|first| *at < first),
        RewindTarget::At(_) => false,
        RewindTarget::Event(position) => parts(first).is_none_or(|first| parts(position) < Some(first)),
    }
}

fn position(text: &str) -> Result<&str> {
    parts(text).map(|_| text).ok_or_else(|| Rewind::unknown(text))
}

/// Both numbers of the id of an entry.
fn parts(id: &str) -> Option<(u64, u64)> {
    let (at, number) = id.split_once('-')?;
    Some((at.parse().ok()?, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cursor_before_a_rewind_target_is_that_of_the_entry_before() {
        let event = |position: &str| cursor_before(&RewindTarget::Event(position.to_owned())).ok();
        assert_eq!(event("17-3").as_deref(), Some("17-2"));
        assert_eq!(event("17-0").as_deref(), Some("16-18446744073709551615"));
        assert_eq!(event("17-18446744073709551615").as_deref(), Some("17-18446744073709551614"), "no digit is lost");
        assert_eq!(event("0-0").as_deref(), Some("start"));
        assert_eq!(event("17"), None);
        assert_eq!(cursor_before(&Begin::AtMs(17).into()).unwrap(), "16-18446744073709551615");
        assert_eq!(cursor_before(&Begin::AtMs(0).into()).unwrap(), "start");
    }

    #[test]
    fn a_rewind_target_before_the_first_entry_lies_before_it() {
        assert!(is_before(&RewindTarget::Event("17-3".to_owned()), "17-4") && !is_before(&RewindTarget::Event("17-4".to_owned()), "17-4"));
        assert!(is_before(&Begin::AtMs(16).into(), "17-4") && !is_before(&Begin::AtMs(17).into(), "17-4"));
        assert!(is_before(&Begin::AtMs(16).into(), "") && !is_before(&Begin::Start.into(), "17-4"));
    }
}
