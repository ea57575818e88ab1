//! Searches for records of workers without a lane, and for workers without a record.

use std::collections::{BTreeMap, BTreeSet};

use super::Pass;
use crate::{
    broker::{Damage, DamageKind, ProcessId, WorkerInfo},
    error::Result,
    redis::{
        keys::Kind,
        people::worker_records,
        values::{array, bytes},
    },
};

/// Workers of one call, which also has their records.
const STEP: usize = 25;

/// Whether each worker of these lanes has a record. `records`: pairs of a worker and its record.
pub(super) fn have_records(lanes: &[Vec<u8>], records: &[Vec<u8>]) -> bool {
    let records: BTreeMap<&[u8], &[u8]> =
        records.chunks(2).filter_map(|pair| Some((pair.first()?.as_slice(), pair.get(1)?.as_slice()))).collect();
    let workers: BTreeSet<&[u8]> = lanes.iter().map(|lane| worker_of(lane)).collect();
    workers.into_iter().all(|worker| !is_id(worker) || records.get(worker).is_some_and(|record| !WorkerInfo::is_damaged(record)))
}

/// The damage of a queue that has these lanes. It is repaired if requested.
pub(super) async fn find(pass: &Pass<'_>, lanes: &[Vec<u8>]) -> Result<Vec<Damage>> {
    let (broker, queue) = (pass.broker, pass.queue);
    let mut recorded = BTreeSet::new();
    for kind in [Kind::Workers, Kind::Loads, Kind::Asked] {
        let ids = array(broker.read(queue, &broker.keys.on("HKEYS", queue, kind)).await?)?;
        for id in ids {
            recorded.insert(bytes(id)?);
        }
    }
    let recorded: Vec<Vec<u8>> = recorded.into_iter().collect();
    let mut damages = Vec::new();
    for ids in recorded.chunks(super::STEP) {
        damages.extend(damages_of(DamageKind::RecordWithoutLane, pass.check_each("records", ids).await?));
    }
    // A lane of each worker.
    let with_lanes: BTreeMap<&[u8], &Vec<u8>> = lanes.iter().map(|lane| (worker_of(lane), lane)).collect();
    let with_lanes: Vec<(&[u8], &Vec<u8>)> = with_lanes.into_iter().collect();
    for workers in with_lanes.chunks(STEP) {
        let stored = worker_records(broker, queue, workers.iter().map(|(id, _)| id.to_vec())).await?;
        let mut broken = Vec::new();
        for (id, lane) in workers {
            let record = stored.get(*id).map_or(&[][..], Vec::as_slice);
            if is_id(id) && WorkerInfo::is_damaged(record) {
                broken.extend([(*lane).clone(), record.to_vec()]);
            }
        }
        damages.extend(damages_of(DamageKind::WorkerWithoutRecord, pass.check_each("workers", &broken).await?));
    }
    Ok(damages)
}

fn damages_of(kind: DamageKind, ids: Vec<Vec<u8>>) -> impl Iterator<Item = Damage> {
    ids.into_iter().map(move |id| Damage { kind, subject: String::from_utf8_lossy(&id).into_owned() })
}

/// A record under another name does not belong to a worker.
fn is_id(worker: &[u8]) -> bool {
    std::str::from_utf8(worker).is_ok_and(|worker| worker.parse::<ProcessId>().is_ok())
}

/// The worker of a lane: the first part of its name.
fn worker_of(lane: &[u8]) -> &[u8] {
    lane.split(|byte| *byte == b'.').next().unwrap_or_default()
}
