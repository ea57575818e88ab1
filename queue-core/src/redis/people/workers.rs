//! The workers of a queue.

use std::collections::{BTreeSet, HashMap};

use redis::Value;

use crate::{
    broker::{AskWorker, LaneLease, MAX_ITEMS, PartyName, StoredWorker, TASKS_BYTES, WorkerAsked, WorkerRecord},
    error::Result,
    redis::{
        RedisBroker,
        keys::Kind,
        script::{ASK_WORKER, WORKERS},
        values::{array, bytes, next, number, text},
    },
};

/// The most records of one read: a mebibyte of the longest ones.
const RECORDS: usize = 1024 * 1024 / TASKS_BYTES;

/// Lists the workers in bounded steps. A lane that registers or leaves between two steps may be
/// listed or not.
pub(in crate::redis) async fn workers(broker: &RedisBroker, queue: &str) -> Result<Vec<WorkerRecord>> {
    let names = array(broker.read(queue, &broker.keys.on("HKEYS", queue, Kind::Lanes)).await?)?;
    // A value that is not text is not the name of a lane.
    let names: Vec<PartyName> = names.into_iter().filter_map(|name| text(name).ok()).map(PartyName::new).collect();
    let (mut lanes, mut now_ms) = (Vec::new(), 0);
    for names in names.chunks(MAX_ITEMS) {
        let mut call = WORKERS.call(&broker.keys, queue);
        for name in names {
            call.arg(name.as_str());
        }
        let mut answer = array(broker.script(queue, &WORKERS, call).await?)?.into_iter();
        now_ms = number(next(&mut answer)?)?;
        for name in names {
            let (deadline, duration) = (next(&mut answer)?, next(&mut answer)?);
            if deadline != Value::Nil {
                let process = name.process().to_owned();
                lanes.push(LaneLease { process, deadline_ms: number(deadline)?, lease_ms: number(duration)? });
            }
        }
    }
    let ids: BTreeSet<Vec<u8>> = lanes.iter().map(|lane| lane.process.clone().into_bytes()).collect();
    let loads = stored(broker, queue, Kind::Loads, ids.iter().cloned(), MAX_ITEMS).await?;
    let asked = stored(broker, queue, Kind::Asked, ids.iter().cloned(), MAX_ITEMS).await?;
    let records = worker_records(broker, queue, ids).await?;
    let of = |id: &str| {
        let [record, load, asked] = [&records, &loads, &asked].map(|stored| stored.get(id.as_bytes()).cloned());
        StoredWorker { record, load, asked }
    };
    Ok(WorkerRecord::of_lanes(queue, now_ms, lanes, of))
}

pub(in crate::redis) async fn ask_worker(broker: &RedisBroker, request: &AskWorker) -> Result<WorkerAsked> {
    request.check()?;
    let mut call = ASK_WORKER.call(&broker.keys, &request.queue);
    call.arg(request.process.to_string()).arg(request.ask.number).arg(request.ask.encoded());
    Ok(match number::<i64>(broker.script(&request.queue, &ASK_WORKER, call).await?)? {
        1 => WorkerAsked::Stored,
        0 => WorkerAsked::Stale,
        _ => WorkerAsked::Absent,
    })
}

/// The records of these workers, of those that have one.
pub(in crate::redis) async fn worker_records(
    broker: &RedisBroker,
    queue: &str,
    ids: impl IntoIterator<Item = Vec<u8>>,
) -> Result<HashMap<Vec<u8>, Vec<u8>>> {
    stored(broker, queue, Kind::Workers, ids, RECORDS).await
}

/// The values of these workers in a hash. One command reads at most `step` of them.
async fn stored(
    broker: &RedisBroker,
    queue: &str,
    kind: Kind,
    ids: impl IntoIterator<Item = Vec<u8>>,
    step: usize,
) -> Result<HashMap<Vec<u8>, Vec<u8>>> {
    let (ids, mut stored) = (ids.into_iter().collect::<Vec<_>>(), HashMap::new());
    for ids in ids.chunks(step) {
        let mut command = broker.keys.on("HMGET", queue, kind);
        let found = array(broker.read(queue, command.arg(ids)).await?)?;
        for (id, value) in ids.iter().zip(found) {
            if value != Value::Nil {
                stored.insert(id.clone(), bytes(value)?);
            }
        }
    }
    Ok(stored)
}
