//! The workers of a queue.

use std::collections::HashMap;

use crate::{
    broker::{LaneLease, StoredWorker, WorkerRecord},
    sqlite::connection::{
        lenient::{Bytes, Number, Words},
        tx::{Failed, Queue, Tx},
    },
};

pub(crate) fn workers(tx: &mut Tx<'_>, queue: &str) -> Result<Vec<WorkerRecord>, Failed> {
    const LANES: &str = "SELECT process, deadline, term FROM queue_lanes WHERE queue = ?1 AND NOT fenced";
    let Some(queue) = tx.queue(queue)? else { return Ok(Vec::new()) };
    let (records, loads) = (worker_records(tx, &queue)?, loads(tx, &queue)?);
    let mut lanes = tx.sql(LANES)?;
    let lanes = lanes.query_map([queue.key], |row| {
        let (Words(process), Number(deadline_ms), Number(term_ms)) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(LaneLease { process, deadline_ms, term_ms })
    })?;
    let lanes = lanes.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(WorkerRecord::of_lanes(queue.name, tx.now, lanes, |id| {
        let [record, load] = [&records, &loads].map(|stored| stored.get(id).cloned());
        StoredWorker { record, load }
    }))
}

/// The records of all workers of a queue.
pub(crate) fn worker_records(tx: &Tx<'_>, queue: &Queue<'_>) -> rusqlite::Result<HashMap<String, Vec<u8>>> {
    const RECORDS: &str = "SELECT process, record FROM queue_workers WHERE queue = ?1";
    by_process(tx, queue, RECORDS)
}

/// What they use.
fn loads(tx: &Tx<'_>, queue: &Queue<'_>) -> rusqlite::Result<HashMap<String, Vec<u8>>> {
    by_process(tx, queue, "SELECT process, load FROM queue_loads WHERE queue = ?1")
}

fn by_process(tx: &Tx<'_>, queue: &Queue<'_>, statement: &'static str) -> rusqlite::Result<HashMap<String, Vec<u8>>> {
    let mut stored = tx.sql(statement)?;
    let read = stored.query_map([queue.key], |row| {
        let (Words(process), Bytes(value)) = (row.get(0)?, row.get(1)?);
        Ok((process, value))
    })?;
    read.collect()
}
