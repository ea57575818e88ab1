//! The storage of operations, and their steps.

use rusqlite::params;

use crate::{
    broker::{Changed, Operate, Operated, Operation, OperationDeed, OperationPart},
    sqlite::{
        connection::tx::{Failed, Queue, Tx},
        people,
    },
};

pub(crate) fn operations(tx: &mut Tx<'_>, queue: &str) -> Result<Vec<Operation>, Failed> {
    match tx.queue(queue)? {
        Some(queue) => stored(tx, &queue),
        None => Ok(Vec::new()),
    }
}

fn stored(tx: &Tx<'_>, queue: &Queue<'_>) -> Result<Vec<Operation>, Failed> {
    const ALL: &str = "SELECT id, stored FROM queue_operations WHERE queue = ?1";
    let mut all = tx.sql(ALL)?;
    let rows = all.query_map(params![queue.key], |row| Ok((row.get::<_, String>(0)?, row.get::<_, Vec<u8>>(1)?)))?;
    // Another program has left a value that is not an operation.
    let known =
        rows.map(|row| row.map(|(id, stored)| Operation::of_stored(queue.name, &id, &stored))).collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(known.into_iter().flatten().collect())
}

pub(crate) fn operate(tx: &mut Tx<'_>, request: &Operate) -> Result<Operated, Failed> {
    const STORE: &str = "INSERT OR REPLACE INTO queue_operations (queue, id, stored) VALUES (?1, ?2, ?3)";
    const REMOVE: &str = "DELETE FROM queue_operations WHERE queue = ?1 AND id = ?2";
    let queue = match &request.deed {
        OperationDeed::Start(_) => tx.queue_or_create(&request.queue)?,
        _ => match tx.queue(&request.queue)? {
            Some(queue) => queue,
            None => return Ok(Operated::NotFound),
        },
    };
    let before = stored(tx, &queue)?;
    let (mut after, key, now) = (before.clone(), queue.key, tx.now);
    let answer = request.carry_out(&mut after, now, |step, started| match &step.part {
        OperationPart::Change { change, reason, ids, .. } => {
            let mut concerned = Vec::with_capacity(ids.len());
            for id in ids {
                let job = people::read_job(tx, &queue, id)?;
                concerned.extend(job.filter(|job| step.part.concerns(job, started)).map(|job| job.id));
            }
            let passed = ids.len() - concerned.len();
            let mut answers = people::change(tx, &request.queue, *change, reason.as_deref(), &concerned)?;
            answers.extend(std::iter::repeat_n(Changed::No, passed));
            Ok::<_, Failed>(answers)
        }
        // A deleted row needs no cursor, because the step removes all rows that it reads.
        OperationPart::Pop => Ok(Vec::new()),
    })?;
    for gone in before.iter().filter(|old| !after.iter().any(|operation| operation.id == old.id)) {
        tx.sql(REMOVE)?.execute(params![key, gone.id])?;
    }
    for operation in after.iter().filter(|operation| !before.contains(operation)) {
        tx.sql(STORE)?.execute(params![key, operation.id, operation.stored().into_bytes()])?;
    }
    Ok(answer)
}
