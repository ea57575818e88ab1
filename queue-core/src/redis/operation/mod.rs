//! The storage of operations, and their steps.

use redis::Value;

use super::{
    RedisBroker,
    keys::Kind,
    people::requeue_arguments,
    script::{SET_OPERATION, STEP_OPERATION},
    values::{array, bytes, display_text, next, number, unexpected_answer},
};
use crate::{
    broker::{Change, Operate, Operated, Operation, OperationDeed, OperationPart, OperationState, OperationStep},
    error::Result,
};

pub(super) async fn operations(broker: &RedisBroker, queue: &str) -> Result<Vec<Operation>> {
    let mut found = array(broker.read(queue, &broker.keys.on("HGETALL", queue, Kind::Operations)).await?)?.into_iter();
    let mut operations = Vec::new();
    while let Some(id) = found.next() {
        let (id, stored) = (display_text(id)?, bytes(next(&mut found)?)?);
        // Another program has left a value that is not an operation.
        operations.extend(Operation::of_stored(queue, &id, &stored));
    }
    Ok(operations)
}

pub(super) async fn operate(broker: &RedisBroker, request: &Operate) -> Result<Operated> {
    request.check()?;
    let queue = &*request.queue;
    let answer = match &request.deed {
        OperationDeed::Step(step) => run_step(broker, request, step).await?,
        deed => {
            let mut call = SET_OPERATION.call(&broker.keys, queue);
            call.arg(&*request.id);
            match deed {
                OperationDeed::Start(start) => {
                    broker.register_queue(queue, None).await?;
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
    let answer = display_text(next(&mut values)?)?;
    if answer == "NONE" {
        return Ok(Operated::NotFound);
    }
    let (id, stored) = (display_text(next(&mut values)?)?, bytes(next(&mut values)?)?);
    let operation = Operation::of_stored(queue, &id, &stored).ok_or_else(|| unexpected_answer("an operation"))?;
    Ok(match &*answer {
        "DONE" => {
            let more = values.next().map(number::<i64>).transpose()?.unwrap_or(0) == 1;
            Operated::Done { operation, more }
        }
        "UNDERWAY" => Operated::UnderWay(operation),
        "OTHER" => Operated::Other(operation),
        _ => return Err(unexpected_answer("an answer to an operation")),
    })
}

async fn run_step(broker: &RedisBroker, request: &Operate, step: &OperationStep) -> Result<Value> {
    let mut call = STEP_OPERATION.call(&broker.keys, &request.queue);
    call.arg(&*request.id).arg(&*step.runner).arg(step.step).arg(step.position.as_deref().unwrap_or("-"));
    call.arg(step.examined)
        .arg(step.skipped)
        .arg(step.end.map_or("", OperationState::name))
        .arg(step.problem.as_deref().unwrap_or_default());
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
