//! Operations, and the walk through jobs that they need.

use redis::Value;

use super::{
    RedisBroker,
    keys::Kind,
    people::{record, requeue_arguments},
    script::{BROWSE, SET_OPERATION, STEP_OPERATION},
    topic,
    values::{array, bytes, next, number, strange, text, words},
};
use crate::{
    address::{JobId, subscription_at},
    broker::{
        Browse, Browsed, Change, JobState, Operate, Operated, Operation, OperationDeed, OperationPart, OperationState, OperationStep,
    },
    error::{Error, Result},
};

/// Where jobs of some states are: a name, and the states. A server goes through each in an order of its own, in which no job that stays is passed over. Those come first from which a
/// job may come to a later one: a job that goes the other way has failed or ended since.
const PLACES: [(&str, &[JobState]); 7] = [
    ("dead", &[JobState::Dead]),
    ("records", &[JobState::Done, JobState::Cancelled, JobState::Expired]),
    ("active", &[JobState::Active]),
    ("retry", &[JobState::Retry]),
    ("scheduled", &[JobState::Scheduled]),
    ("parked", &[JobState::Parked]),
    ("held", &[JobState::Held]),
];

fn places(request: &Browse) -> Vec<&'static str> {
    if request.goes_through_all() {
        return vec!["jobs"];
    }
    PLACES.into_iter().filter(|(_, has)| has.iter().any(|state| request.states.contains(state))).map(|(place, _)| place).collect()
}

/// A position: a place, a cursor, and whose life that is of.
fn position(place: &str, cursor: &str, life: &str) -> String {
    format!("{place}:{cursor}:{life}")
}

pub(super) async fn browse(broker: &RedisBroker, request: &Browse) -> Result<Browsed> {
    let places = places(request);
    let after = request.after.as_deref().unwrap_or_default();
    let mut parts = after.splitn(3, ':');
    let (place, cursor, life) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let at = match places.iter().position(|known| *known == place) {
        Some(at) => at,
        None if after.is_empty() => 0,
        None => return Err(Error::invalid("position", after, "is none of these jobs")),
    };
    let Some(place) = places.get(at) else { return Ok(Browsed::default()) };
    let mut call = BROWSE.call(&broker.keys, &request.queue);
    let is_cursor = !cursor.is_empty() && cursor.bytes().all(|byte| byte.is_ascii_digit());
    call.arg(place).arg(if is_cursor { cursor } else { "0" }).arg(request.limit).arg(life);
    for state in &request.states {
        call.arg(state.name());
    }
    let mut values = array(broker.script(&request.queue, &BROWSE, call).await?)?.into_iter();
    let (cursor, life, looked) = (text(next(&mut values)?)?, text(next(&mut values)?)?, number(next(&mut values)?)?);
    let mut jobs = Vec::new();
    while let Some(id) = values.next() {
        let (id, job) = (bytes(id)?, next(&mut values)?);
        // What is no id is for the auditor to find.
        let Ok(id) = JobId::from_bytes(&id) else { continue };
        if let Some(mut job) = record(&id, job)? {
            if subscription_at(&request.queue).is_some() {
                job.envelope = topic::readable(&job.envelope).into_owned();
            }
            jobs.push(job.listed());
        }
    }
    let next = match &*cursor {
        "0" => places.get(at + 1).map(|place| position(place, "0", &life)),
        cursor => Some(position(place, cursor, &life)),
    };
    Ok(Browsed::new(jobs, looked, next))
}

pub(super) async fn operations(broker: &RedisBroker, queue: &str) -> Result<Vec<Operation>> {
    let mut found = array(broker.read(queue, &broker.keys.on("HGETALL", queue, Kind::Operations)).await?)?.into_iter();
    let mut operations = Vec::new();
    while let Some(id) = found.next() {
        let (id, stored) = (words(id)?, bytes(next(&mut found)?)?);
        // What is no operation is another program's.
        operations.extend(Operation::of_stored(queue, &id, &stored));
    }
    Ok(operations)
}

pub(super) async fn operate(broker: &RedisBroker, request: &Operate) -> Result<Operated> {
    request.check()?;
    let queue = &*request.queue;
    let answer = match &request.deed {
        OperationDeed::Step(step) => take_step(broker, request, step).await?,
        deed => {
            let mut call = SET_OPERATION.call(&broker.keys, queue);
            call.arg(&*request.id);
            match deed {
                OperationDeed::Start(start) => {
                    broker.list_queue(queue, None).await?;
                    call.arg("start").arg(start.kind.name()).arg(start.total);
                    call.arg(start.runner.as_deref().unwrap_or("-")).arg(start.definition())
                }
                OperationDeed::Take { runner, at_once } => call.arg("take").arg(&**runner).arg(u8::from(*at_once)),
                _ => call.arg("stop"),
            };
            broker.script(queue, &SET_OPERATION, call).await?
        }
    };
    let mut values = array(answer)?.into_iter();
    let told = words(next(&mut values)?)?;
    if told == "NOBODY" {
        return Ok(Operated::Nobody);
    }
    let (id, stored) = (words(next(&mut values)?)?, bytes(next(&mut values)?)?);
    let operation = Operation::of_stored(queue, &id, &stored).ok_or_else(|| strange("an operation"))?;
    Ok(match &*told {
        "DONE" => {
            let more = values.next().map(number::<i64>).transpose()?.unwrap_or(0) == 1;
            Operated::Done { operation, more }
        }
        "UNDERWAY" => Operated::UnderWay(operation),
        "OTHER" => Operated::Other(operation),
        _ => return Err(strange("an answer to an operation")),
    })
}

async fn take_step(broker: &RedisBroker, request: &Operate, step: &OperationStep) -> Result<Value> {
    let mut call = STEP_OPERATION.call(&broker.keys, &request.queue);
    call.arg(&*request.id).arg(&*step.runner).arg(step.step).arg(step.position.as_deref().unwrap_or("-"));
    call.arg(step.looked).arg(step.skipped).arg(step.end.map_or("", OperationState::name)).arg(step.problem.as_deref().unwrap_or_default());
    match &step.part {
        OperationPart::Pop => {
            call.arg("pop").arg("").arg("");
        }
        OperationPart::Change { change, reason, states, ids } => {
            call.arg(change.name()).arg(reason.as_deref().unwrap_or_default());
            call.arg(states.iter().map(|state| state.name()).collect::<Vec<_>>().join(","));
            if *change == Change::Requeue {
                requeue_arguments(broker, &request.queue, ids, &mut call).await?;
            } else {
                for id in ids {
                    call.arg(id.as_bytes());
                }
            }
        }
    }
    broker.script(&request.queue, &STEP_OPERATION, call).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_jobs_are_gone_through_for_those_that_move() {
        let places = |states: &[JobState]| places(&Browse::new("q", states, 1));
        assert_eq!(places(&[JobState::Dead, JobState::Ready]), ["jobs"]);
        assert_eq!(places(&[JobState::Cancelled, JobState::Done, JobState::Scheduled, JobState::Retry]), ["records", "retry", "scheduled"]);
        assert_eq!(places(&[]), [] as [&str; 0]);
    }
}
