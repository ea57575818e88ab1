//! Where jobs stand.

use redis::Value;

use super::record::record;
use crate::{
    address::JobId,
    broker::{GroupLine, GroupName, JobState, Line, Standing},
    error::Result,
    redis::{
        RedisBroker, bounded,
        script::STANDING,
        values::{array, bytes, next, number, words},
    },
};

pub(in crate::redis) async fn standing(broker: &RedisBroker, queue: &str, ids: &[JobId]) -> Result<Vec<Option<Standing>>> {
    bounded("ids", ids.len())?;
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let mut call = STANDING.call(&broker.keys, queue);
    for id in ids {
        call.arg(id.as_bytes());
    }
    let mut values = array(broker.script(queue, &STANDING, call).await?)?.into_iter();
    let now_ms = number(next(&mut values)?)?;
    let paused = number::<i64>(next(&mut values)?)? != 0;
    let mut standings = Vec::with_capacity(ids.len());
    for id in ids {
        let mut values = array(next(&mut values)?)?.into_iter();
        let Some(job) = record(id, next(&mut values)?)? else {
            standings.push(None);
            continue;
        };
        let mut standing = Standing::new(job, now_ms, paused);
        match standing.job.state {
            JobState::Held => standing.holder = JobId::from_bytes(&bytes(next(&mut values)?)?).ok(),
            // A lane that was fenced has no number, and ends the answer.
            JobState::Active => standing.lease_left_ms = values.next().and_then(|left| number(left).ok()),
            JobState::Ready => {
                let mut line = Line { ahead: number(next(&mut values)?)?, groups: number(next(&mut values)?)?, group: None };
                if let Some(name) = values.next() {
                    line.group = group(&bytes(name)?, &mut values)?;
                }
                standing.line = Some(line);
            }
            _ => {}
        }
        standings.push(Some(standing));
    }
    Ok(standings)
}

fn group(name: &[u8], values: &mut impl Iterator<Item = Value>) -> Result<Option<GroupLine>> {
    let Some(name) = GroupName::of_stored(name) else { return Ok(None) };
    let mut line = GroupLine::new(name);
    line.paused = number::<i64>(next(values)?)? != 0;
    line.cap = words(next(values)?)?.parse().ok();
    line.running = number(next(values)?)?;
    for holder in array(next(values)?)? {
        line.holders.extend(JobId::from_bytes(&bytes(holder)?).ok());
    }
    line.held_by = JobId::from_bytes(&bytes(next(values)?)?).ok();
    Ok(Some(line))
}
