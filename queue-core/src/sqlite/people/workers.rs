//! The workers of a queue.

use std::collections::HashMap;

use rusqlite::params;

use crate::{
    broker::{AskWorker, LaneLease, StoredWorker, WorkerAsked, WorkerRecord},
    sqlite::connection::{
        text::Text,
        tx::{Failed, Queue, Tx},
    },
};

pub(crate) fn workers(tx: &mut Tx<'_>, queue: &str) -> Result<Vec<WorkerRecord>, Failed> {
    const LANES: &str = "SELECT process, deadline, duration FROM queue_lanes WHERE queue = ?1 AND NOT fenced";
    let Some(queue) = tx.queue(queue)? else { return Ok(Vec::new()) };
    const LOADS: &str = "SELECT process, load FROM queue_loads WHERE queue = ?1";
    const ASKED: &str = "SELECT process, asked FROM queue_loads WHERE queue = ?1 AND asked NOT NULL";
    let (records, loads, asked) = (worker_records(tx, &queue)?, count_by_process(tx, &queue, LOADS)?, count_by_process(tx, &queue, ASKED)?);
    let mut lanes = tx.sql(LANES)?;
    let lanes = lanes.query_map([queue.key], |row| {
        let (Text(process), deadline_ms, lease_ms): (Text, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(LaneLease { process, deadline_ms, lease_ms })
    })?;
    let lanes = lanes.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(WorkerRecord::of_lanes(queue.name, tx.now, lanes, |id| {
        let [record, load, asked] = [&records, &loads, &asked].map(|stored| stored.get(id).cloned());
        StoredWorker { record, load, asked }
    }))
}

/// The records of all workers of a queue.
fn worker_records(tx: &Tx<'_>, queue: &Queue<'_>) -> rusqlite::Result<HashMap<String, Vec<u8>>> {
    const RECORDS: &str = "SELECT process, record FROM queue_workers WHERE queue = ?1";
    count_by_process(tx, queue, RECORDS)
}

pub(crate) fn ask_worker(tx: &mut Tx<'_>, request: &AskWorker) -> Result<WorkerAsked, Failed> {
    const ASK: &str = "UPDATE queue_loads SET number = ?3, asked = ?4
        WHERE queue = ?1 AND process = ?2 AND (number < ?3 OR asked = ?4)";
    const HAS_LOAD: &str = "SELECT EXISTS (SELECT 1 FROM queue_loads WHERE queue = ?1 AND process = ?2)";
    let Some(queue) = tx.queue(&request.queue)? else { return Ok(WorkerAsked::Absent) };
    let (process, number) = (request.process.to_string(), i64::try_from(request.ask.number).unwrap_or(i64::MAX));
    if tx.sql(ASK)?.execute(params![queue.key, process, number, request.ask.encoded()])? > 0 {
        return Ok(WorkerAsked::Stored);
    }
    let has_load = tx.sql(HAS_LOAD)?.query_row(params![queue.key, process], |row| row.get(0))?;
    Ok(if has_load { WorkerAsked::Stale } else { WorkerAsked::Absent })
}

fn count_by_process(tx: &Tx<'_>, queue: &Queue<'_>, statement: &'static str) -> rusqlite::Result<HashMap<String, Vec<u8>>> {
    let mut stored = tx.sql(statement)?;
    let read = stored.query_map([queue.key], |row| {
        let (Text(process), value): (Text, Vec<u8>) = (row.get(0)?, row.get(1)?);
        Ok((process, value))
    })?;
    read.collect()
}
