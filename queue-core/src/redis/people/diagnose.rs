//! The position of jobs in the queue.

use redis::Value;

use super::record::record;
use crate::{
    address::JobId,
    broker::{Diagnosis, GroupLine, GroupName, JobState, LimitKey, LimitRecord, Line, Pause, StoredLimitKey},
    error::Result,
    redis::{
        RedisBroker, bounded,
        script::DIAGNOSE,
        values::{array, bytes, display_text, next, number, unexpected_answer},
    },
};

pub(in crate::redis) async fn diagnose(broker: &RedisBroker, queue: &str, ids: &[JobId]) -> Result<Vec<Option<Diagnosis>>> {
    bounded("ids", ids.len())?;
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let mut call = DIAGNOSE.call(&broker.keys, queue);
    for id in ids {
        call.arg(id.as_bytes());
    }
    let mut values = array(broker.script(queue, &DIAGNOSE, call).await?)?.into_iter();
    let now_ms = number(next(&mut values)?)?;
    let paused = number::<i64>(next(&mut values)?)? != 0;
    let mut diagnoses = Vec::with_capacity(ids.len());
    for id in ids {
        let mut values = array(next(&mut values)?)?.into_iter();
        let Some(job) = record(id, next(&mut values)?)? else {
            diagnoses.push(None);
            continue;
        };
        let mut diagnosis = Diagnosis::new(job, now_ms, paused);
        match diagnosis.job.state {
            JobState::Held => diagnosis.holder = JobId::from_bytes(&bytes(next(&mut values)?)?).ok(),
            // The lease of an unknown lane has no number, and ends the answer.
            JobState::Active => diagnosis.lease_left_ms = values.next().and_then(|left| number(left).ok()),
            JobState::Ready => {
                let mut line = Line { ahead: number(next(&mut values)?)?, groups: number(next(&mut values)?)?, ..Line::default() };
                if let Some(keys) = values.next() {
                    line.limits = array(keys)?.into_iter().map(limit).collect::<Result<_>>()?;
                }
                if let Some(name) = values.next() {
                    line.group = group(&bytes(name)?, &mut values)?;
                }
                diagnosis.line = Some(line);
            }
            _ => {}
        }
        diagnoses.push(Some(diagnosis));
    }
    Ok(diagnoses)
}

fn limit(values: Value) -> Result<StoredLimitKey> {
    let mut values = array(values)?.into_iter();
    let key = LimitKey::from_bytes(&bytes(next(&mut values)?)?).ok_or_else(|| unexpected_answer("a key of a limit"))?;
    let mut stored = StoredLimitKey::new(key, LimitRecord::effective_rule(&bytes(next(&mut values)?)?));
    stored.until_ms = display_text(next(&mut values)?)?.parse().ok();
    stored.held = number(next(&mut values)?)?;
    stored.holders = ids(next(&mut values)?)?;
    Ok(stored)
}

/// Values that are not ids are left for the auditor.
fn ids(values: Value) -> Result<Vec<JobId>> {
    let ids = array(values)?.into_iter().map(bytes).collect::<Result<Vec<_>>>()?;
    Ok(ids.iter().filter_map(|id| JobId::from_bytes(id).ok()).collect())
}

fn group(name: &[u8], values: &mut impl Iterator<Item = Value>) -> Result<Option<GroupLine>> {
    let Some(name) = GroupName::of_stored(name) else { return Ok(None) };
    let mut line = GroupLine::new(name);
    line.pause = Pause::of_rule(&display_text(next(values)?)?);
    line.paused = line.pause.is_some();
    line.cap = display_text(next(values)?)?.parse().ok();
    line.running = number(next(values)?)?;
    line.holders = ids(next(values)?)?;
    line.blocked_by = JobId::from_bytes(&bytes(next(values)?)?).ok();
    Ok(Some(line))
}
