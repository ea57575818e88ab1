//! Workers: the record that a process registers, and the form in which it is read.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::Serialize;

use super::{ProcessId, WorkerAsk, WorkerLoad, WorkerMode};
use crate::json;
use crate::{codec, text::cut};

/// Most names of tasks in a record. Further tasks are only counted.
pub const TASKS_MAX: usize = 1_000;

/// Most bytes of the names of tasks in a record. Further tasks are only counted.
pub const TASKS_BYTES: usize = 32 * 1024;

/// Longest text of a record, in bytes; a longer one is cut.
pub const TEXT_MAX: usize = 256;

/// The first element of a record.
const VERSION: u64 = 1;

/// The description of a worker. It is encoded once, and sent whenever a lane of the worker
/// [registers](super::Broker::register).
///
/// [`WorkerInfo::default`] is empty: no host, no process number, no release, no tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerInfo {
    /// The record without its last element, the time.
    encoded: Arc<[u8]>,
}

/// A record as stored: a MessagePack array. The time is the last element, so that a broker can
/// append it.
type Stored = (u64, String, u32, String, Vec<String>, u64, i64);

impl WorkerInfo {
    /// Host and number of the process, its release, and the tasks that it can run. Texts over
    /// [`TEXT_MAX`] are cut. Of tasks beyond [`TASKS_MAX`] or [`TASKS_BYTES`] only the number is
    /// kept.
    pub fn new<'a>(host: &str, pid: u32, release: &str, tasks: impl IntoIterator<Item = &'a str>) -> Self {
        let (mut names, mut bytes, mut count) = (Vec::new(), 0, 0);
        for task in tasks {
            count += 1;
            let task = cut(task.to_owned(), TEXT_MAX);
            bytes += task.len();
            if names.len() < TASKS_MAX && bytes <= TASKS_BYTES {
                names.push(task);
            }
        }
        let [host, release] = [host, release].map(|text| cut(text.to_owned(), TEXT_MAX));
        let stored: Stored = (VERSION, host, pid, release, names, count, 0);
        let mut encoded = codec::pack(&stored).expect("texts and numbers can be encoded");
        // The time: a zero is one byte.
        encoded.pop();
        WorkerInfo { encoded: encoded.into() }
    }

    /// The record up to its last element: [the time](Self::stored) follows.
    pub fn encoded(&self) -> &[u8] {
        &self.encoded
    }

    /// The release that it reports, truncated as it is stored.
    pub fn release(&self) -> String {
        decode(&self.stored(0)).map(|stored| stored.3).unwrap_or_default()
    }

    /// The record as stored, with the broker's time of the registration in milliseconds since 1970.
    pub fn stored(&self, since_ms: i64) -> Vec<u8> {
        let mut record = self.encoded.to_vec();
        codec::pack_into(&mut record, &since_ms).expect("a number can be encoded");
        record
    }

    /// Whether a record is damaged. The record of a newer library is not.
    pub fn is_damaged(record: &[u8]) -> bool {
        match record {
            [0x90..=0x9f, version @ 0x02..=0x7f, ..] if u64::from(*version) > VERSION => codec::scan(record).is_err(),
            _ => decode(record).is_none(),
        }
    }
}

impl Default for WorkerInfo {
    fn default() -> Self {
        WorkerInfo::new("", 0, "", [])
    }
}

fn decode(record: &[u8]) -> Option<Stored> {
    codec::unpack(record).ok().filter(|stored: &Stored| stored.0 == VERSION)
}

/// A worker in reports: a process that has registered with one or several queues. From
/// [`Inspector::workers`](crate::inspect::Inspector::workers).
///
/// The record is [`Serialize`](serde::Serialize), and the command line prints this form with
/// `--json`: the id as `worker`, `since` as RFC 3339 in UTC, durations in milliseconds
/// (`lease_age_ms`, `lease_left_ms`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct WorkerRecord {
    /// Its id, which is random for each start of a worker.
    #[serde(rename = "worker")]
    pub id: ProcessId,
    /// The name of its host. Empty if it is unknown.
    pub host: String,
    /// The number of its process on this host. 0 if it is unknown.
    pub pid: u32,
    /// Its release: the configured name, or a digest of its executable. Empty if it is unknown.
    pub release: String,
    /// The tasks that it can run, at most [`TASKS_MAX`] and [`TASKS_BYTES`], sorted by name.
    pub tasks: Vec<String>,
    /// How many tasks it can run.
    pub task_count: u64,
    /// The queues with which it is registered, sorted by name.
    pub queues: Vec<String>,
    /// Since when it is registered, by the broker's clock: in the first of several queues. `None`
    /// if its record cannot be read.
    #[serde(serialize_with = "json::utc")]
    pub since: Option<SystemTime>,
    /// How many lanes it has in these queues.
    pub lanes: u64,
    /// The time since its last heartbeat, by the broker's clock: the age of its newest lease or of
    /// its load. A worker that stops ends its leases, and reports that.
    #[serde(rename = "lease_age_ms", serialize_with = "json::ms")]
    pub lease_age: Duration,
    /// How long its newest lease is still valid, by the broker's clock. Zero: it has expired, and
    /// the worker has stopped or is unreachable.
    #[serde(rename = "lease_left_ms", serialize_with = "json::ms")]
    pub lease_left: Duration,
    /// Its last reported resource usage. It reports in one of its queues. `None`: there is no
    /// report in the queues that were read.
    pub load: Option<WorkerLoad>,
    /// The queue in which it reports its load, and in which it receives
    /// [requests](crate::inspect::Inspector::ask_worker).
    #[serde(skip)]
    pub reports_to: Option<String>,
    /// The last request to it. Its [load](WorkerLoad::received) shows whether it has received it.
    pub asked: Option<WorkerAsk>,
}

/// The stored data of a worker in a queue.
#[derive(Clone, Debug, Default)]
pub struct StoredWorker {
    /// Its record.
    pub record: Option<Vec<u8>>,
    /// Its [load](WorkerLoad).
    pub load: Option<Vec<u8>>,
    /// The last [request](WorkerAsk) to it.
    pub asked: Option<Vec<u8>>,
}

/// A lane, as a broker returns it for a list of workers.
#[derive(Clone, Debug)]
pub struct LaneLease {
    /// The id of its process, as the lane's name has it.
    pub process: String,
    /// When its lease ends, in broker milliseconds.
    pub deadline_ms: i64,
    /// How long its lease is, in milliseconds.
    pub lease_ms: i64,
}

impl WorkerRecord {
    /// The workers of a queue, for brokers: one for each process that has a lane. `stored` returns
    /// the stored data of a process. A worker whose record is missing or damaged is listed without
    /// the values of the record.
    pub fn of_lanes(
        queue: &str,
        now_ms: i64,
        lanes: impl IntoIterator<Item = LaneLease>,
        stored: impl Fn(&str) -> StoredWorker,
    ) -> Vec<WorkerRecord> {
        let mut workers: BTreeMap<ProcessId, WorkerRecord> = BTreeMap::new();
        for lane in lanes {
            // An invalid name does not belong to a worker.
            let Ok(id) = lane.process.parse() else { continue };
            let worker = workers.entry(id).or_insert_with(|| WorkerRecord::read(id, queue, now_ms, &stored(&lane.process)));
            worker.lanes += 1;
            let renewed_ms = lane.deadline_ms.saturating_sub(lane.lease_ms);
            worker.lease_age = worker.lease_age.min(between(renewed_ms, now_ms));
            worker.lease_left = worker.lease_left.max(between(now_ms, lane.deadline_ms));
        }
        workers.into_values().collect()
    }

    fn read(id: ProcessId, queue: &str, now_ms: i64, worker: &StoredWorker) -> WorkerRecord {
        let stored = worker.record.as_deref().and_then(decode);
        let since = stored.as_ref().and_then(|stored| u64::try_from(stored.6).ok()).map(Duration::from_millis);
        let (_, host, pid, release, tasks, task_count, _) = stored.unwrap_or_default();
        let load = worker.load.as_deref().and_then(|load| WorkerLoad::read(load, now_ms));
        WorkerRecord {
            id,
            host,
            pid,
            release,
            tasks,
            task_count,
            queues: vec![queue.to_owned()],
            since: since.and_then(|since| UNIX_EPOCH.checked_add(since)),
            lanes: 0,
            // A lease without a load counts as the oldest.
            lease_age: load.map_or(Duration::MAX, |load| load.age),
            lease_left: Duration::ZERO,
            reports_to: load.map(|_| queue.to_owned()),
            load,
            asked: worker.asked.as_deref().and_then(WorkerAsk::decoded),
        }
    }

    /// Its reported mode. A worker without a report counts as working.
    pub fn mode(&self) -> WorkerMode {
        self.load.map(|load| load.mode).unwrap_or_default()
    }

    /// The request that it has not received yet.
    pub fn unconfirmed_request(&self) -> Option<&WorkerAsk> {
        self.asked.as_ref().filter(|ask| self.load.is_some_and(|load| load.received < ask.number))
    }

    /// Merges the records of the same workers from several queues: one record for each id, sorted
    /// by host, process number and id.
    pub fn merged(records: impl IntoIterator<Item = WorkerRecord>) -> Vec<WorkerRecord> {
        let mut workers: BTreeMap<ProcessId, WorkerRecord> = BTreeMap::new();
        for mut record in records {
            let Some(worker) = workers.get_mut(&record.id) else {
                workers.insert(record.id, record);
                continue;
            };
            // In one of the queues its record may be missing.
            if worker.since.is_none() {
                std::mem::swap(worker, &mut record);
            }
            worker.since = worker.since.into_iter().chain(record.since).min();
            worker.lanes += record.lanes;
            worker.lease_age = worker.lease_age.min(record.lease_age);
            worker.lease_left = worker.lease_left.max(record.lease_left);
            if record.load.is_some_and(|load| worker.load.is_none_or(|known| load.age < known.age)) {
                (worker.load, worker.reports_to) = (record.load, record.reports_to.take());
            }
            worker.asked = worker.asked.take().into_iter().chain(record.asked.take()).max_by_key(|ask| ask.number);
            worker.queues.append(&mut record.queues);
        }
        let mut workers: Vec<WorkerRecord> = workers.into_values().collect();
        for worker in &mut workers {
            worker.queues.sort_unstable();
            worker.queues.dedup();
        }
        workers.sort_by(|one, other| (&one.host, one.pid, one.id).cmp(&(&other.host, other.pid, other.id)));
        workers
    }
}

pub(super) fn between(from_ms: i64, to_ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(to_ms.saturating_sub(from_ms)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(record: &[u8]) -> WorkerRecord {
        let lane = LaneLease { process: ProcessId::random().to_string(), deadline_ms: 31_000, lease_ms: 30_000 };
        WorkerRecord::of_lanes("mail", 4_000, [lane], |_| StoredWorker { record: Some(record.to_vec()), ..StoredWorker::default() })
            .remove(0)
    }

    #[test]
    fn a_record_comes_back_as_it_was_reported() {
        let info = WorkerInfo::new("web-1", 4711, "v42", ["a", "b"]);
        for since_ms in [0, 1, 127, 128, 1_700_000_000_000, i64::MAX] {
            let record = info.stored(since_ms);
            assert!(record.starts_with(info.encoded()) && !WorkerInfo::is_damaged(&record));
            let worker = one(&record);
            assert_eq!((worker.host.as_str(), worker.pid, worker.release.as_str()), ("web-1", 4711, "v42"));
            assert_eq!((worker.tasks, worker.task_count), (vec!["a".to_owned(), "b".to_owned()], 2));
            assert_eq!(worker.since, UNIX_EPOCH.checked_add(Duration::from_millis(since_ms.unsigned_abs())));
        }
    }

    #[test]
    fn the_form_of_a_record_is_what_the_documents_say() {
        assert_eq!(WorkerInfo::new("h", 7, "r", ["t"]).stored(5), b"\x97\x01\xa1h\x07\xa1r\x91\xa1t\x01\x05");
    }

    #[test]
    fn a_record_is_bounded() {
        let names: Vec<String> = (0..5_000).map(|n| format!("task-{n}")).collect();
        let worker = one(&WorkerInfo::new(&"h".repeat(999), 1, "r", names.iter().map(String::as_str)).stored(1));
        assert_eq!((worker.tasks.len(), worker.task_count), (TASKS_MAX, 5_000));
        assert!(worker.host.len() <= TEXT_MAX && worker.host.starts_with("hhh"));
        let long = "x".repeat(128);
        let record = WorkerInfo::new("h", 1, "r", std::iter::repeat_n(long.as_str(), 900)).stored(1);
        assert!(record.len() < TASKS_BYTES + 2_000, "{} bytes", record.len());
        assert_eq!((one(&record).tasks.len(), one(&record).task_count), (TASKS_BYTES / 128, 900));
    }

    #[test]
    fn a_record_that_cannot_be_read_reports_nothing_and_one_of_a_newer_library_is_not_damaged() {
        let whole = WorkerInfo::new("h", 1, "r", ["t"]).stored(1);
        for damaged in [&b""[..], b"theirs", b"\x90", b"\x91\x01", &whole[..whole.len() - 1], &[&whole[..], b"\x01"].concat()] {
            assert!(WorkerInfo::is_damaged(damaged), "{damaged:?}");
            let worker = one(damaged);
            assert_eq!((worker.host.as_str(), worker.since, worker.lanes), ("", None, 1));
        }
        assert!(!WorkerInfo::is_damaged(b"\x93\x02\xa1h\xa1x"));
        assert!(WorkerInfo::is_damaged(b"\x93\x02\xa1h"), "nothing is complete that is cut short");
    }

    #[test]
    fn the_newest_lease_counts() {
        let lane = |deadline_ms| LaneLease { process: format!("{:016x}", 5), deadline_ms, lease_ms: 30_000 };
        let workers = WorkerRecord::of_lanes("mail", 40_000, [lane(31_000), lane(60_000), lane(45_000)], |_| StoredWorker::default());
        assert_eq!((workers.len(), workers[0].lanes), (1, 3));
        assert_eq!((workers[0].lease_age, workers[0].lease_left), (Duration::from_secs(10), Duration::from_secs(20)));
    }

    #[test]
    fn the_reports_of_a_worker_from_several_queues_are_joined() {
        let of = |queue: &str, since_ms: i64, record: bool| {
            let info = WorkerInfo::new("web-1", 1, "v42", ["t"]);
            let lane = LaneLease { process: format!("{:016x}", 5), deadline_ms: since_ms + 30_000, lease_ms: 30_000 };
            let load = WorkerLoad::new(since_ms.unsigned_abs(), 4_000).stored(since_ms);
            let stored = StoredWorker { record: record.then(|| info.stored(since_ms)), load: Some(load), asked: None };
            WorkerRecord::of_lanes(queue, 10_000, [lane], |_| stored.clone()).remove(0)
        };
        let lane = LaneLease { process: format!("{:016x}", 4), deadline_ms: 1, lease_ms: 1 };
        let other = WorkerRecord::of_lanes("mail", 10_000, [lane], |_| StoredWorker::default());
        let merged = WorkerRecord::merged([of("z", 1_000, false), of("b", 3_000, true), of("a", 2_000, true)].into_iter().chain(other));
        assert_eq!(merged.len(), 2);
        let worker = &merged[1];
        assert_eq!((worker.queues.join(" "), worker.release.as_str(), worker.lanes), ("a b z".to_owned(), "v42", 3));
        assert_eq!(worker.since, Some(UNIX_EPOCH + Duration::from_secs(2)));
        assert_eq!(worker.lease_age, Duration::from_secs(7));
        let load = worker.load.expect("it has said what it uses");
        assert_eq!((load.busy, load.age), (3_000, Duration::from_secs(7)), "what was said last");
        assert_eq!(worker.reports_to.as_deref(), Some("b"));
    }

    #[test]
    fn a_worker_is_printed_in_full() {
        let lane = LaneLease { process: "00000000000000ff".to_owned(), deadline_ms: 31_000, lease_ms: 30_000 };
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
            "load": { "memory": 48_234_496, "cpu": 1.25, "busy": 3, "slots": 8, "mode": "quiet", "received": 1, "age_ms": 1_500 },
            "asked": { "number": 2, "mode": "stopping", "by": "ada" },
        });
        assert_eq!(serde_json::to_value(&worker).unwrap(), expected);
        let mute = WorkerRecord::of_lanes("orders", 4_000, [lane], |_| StoredWorker::default()).remove(0);
        let mute = serde_json::to_value(&mute).unwrap();
        assert!(mute["since"].is_null() && mute["load"].is_null(), "{mute}");
    }
}
