//! The JSON form of a worker.

use std::time::SystemTime;

use serde::{Serialize, Serializer};

use super::{ms, utc};
use crate::broker::{ProcessId, WorkerLoad, WorkerMode, WorkerRecord};

impl Serialize for WorkerRecord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Json<'a> {
            worker: ProcessId,
            host: &'a str,
            pid: u32,
            release: &'a str,
            queues: &'a [String],
            tasks: &'a [String],
            task_count: u64,
            lanes: u64,
            #[serde(serialize_with = "utc")]
            since: Option<SystemTime>,
            lease_age_ms: u64,
            lease_left_ms: u64,
            memory: Option<u64>,
            cpu: Option<f64>,
            busy: Option<u64>,
            slots: Option<u64>,
            load_age_ms: Option<u64>,
            mode: Option<WorkerMode>,
            asked: Option<WorkerMode>,
            asked_by: Option<&'a str>,
        }
        let load = self.load.as_ref();
        Json {
            worker: self.id,
            host: &self.host,
            pid: self.pid,
            release: &self.release,
            queues: &self.queues,
            tasks: &self.tasks,
            task_count: self.task_count,
            lanes: self.lanes,
            since: self.since,
            lease_age_ms: ms(self.lease_age),
            lease_left_ms: ms(self.lease_left),
            memory: load.and_then(|load| load.memory),
            cpu: load.and_then(WorkerLoad::cores),
            busy: load.map(|load| load.busy),
            slots: load.map(|load| load.slots),
            load_age_ms: load.map(|load| ms(load.age)),
            mode: load.map(|load| load.mode),
            asked: self.asked.as_ref().map(|ask| ask.mode),
            asked_by: self.asked.as_ref().map(|ask| ask.by.as_str()),
        }
        .serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::{LaneLease, StoredWorker, WorkerAsk, WorkerInfo};

    #[test]
    fn a_worker_is_printed_in_full() {
        let lane = LaneLease { process: "00000000000000ff".to_owned(), deadline_ms: 31_000, term_ms: 30_000 };
        let info = WorkerInfo::new("web-1", 4711, "v42", ["orders.close"]);
        let load = WorkerLoad::new(3, 8).using(Some(48_234_496), Some(1_250)).working(WorkerMode::Quiet, 1).stored(2_500);
        let stored = StoredWorker {
            record: Some(info.stored(1_700_000_000_123)),
            load: Some(load),
            asked: Some(WorkerAsk::new(2, WorkerMode::Stopping, "ada").encoded()),
        };
        let worker = WorkerRecord::of_lanes("orders", 4_000, [lane.clone()], |_| stored.clone()).remove(0);
        let expected = serde_json::json!({
            "worker": "00000000000000ff", "host": "web-1", "pid": 4711, "release": "v42", "queues": ["orders"],
            "tasks": ["orders.close"], "task_count": 1, "lanes": 1, "since": "2023-11-14T22:13:20.123Z",
            "lease_age_ms": 1_500, "lease_left_ms": 27_000,
            "memory": 48_234_496, "cpu": 1.25, "busy": 3, "slots": 8, "load_age_ms": 1_500,
            "mode": "quiet", "asked": "stopping", "asked_by": "ada",
        });
        assert_eq!(serde_json::to_value(&worker).unwrap(), expected);
        let mute = WorkerRecord::of_lanes("orders", 4_000, [lane], |_| StoredWorker::default()).remove(0);
        let mute = serde_json::to_value(&mute).unwrap();
        assert!(["since", "memory", "cpu", "busy", "slots", "load_age_ms"].iter().all(|field| mute[field].is_null()), "{mute}");
    }
}
