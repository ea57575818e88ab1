//! The JSON form of the record of a job or a worker, which the command line prints and which a dashboard may serve.

mod worker;

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::{AttemptError, JobLog, JobRecord, LogLine, Progress, Reason, Running, UnreadableBy};
use crate::{
    address::{JobAddress, JobId},
    broker::{BuryReason, GroupName, JobState, LogLevel, Priority, ProcessId, history::FailureKind},
    codec::any_json,
    error::Error,
    fingerprint::Fingerprint,
};

#[derive(Serialize)]
struct Json<'a> {
    job: &'a JobAddress,
    task: Option<&'a str>,
    state: JobState,
    priority: Priority,
    #[serde(serialize_with = "utc")]
    enqueued_at: Option<SystemTime>,
    #[serde(serialize_with = "utc")]
    due_at: Option<SystemTime>,
    #[serde(serialize_with = "utc")]
    ended_at: Option<SystemTime>,
    #[serde(serialize_with = "utc")]
    expires_at: Option<SystemTime>,
    failures: u32,
    crashes: u32,
    snoozes: u32,
    rate_limited: u32,
    releases: u32,
    #[serde(serialize_with = "utc")]
    released_at: Option<SystemTime>,
    max_attempts: Option<u32>,
    timeout_ms: Option<u64>,
    retention_ms: Option<u64>,
    headers: &'a BTreeMap<String, String>,
    tags: &'a BTreeMap<String, String>,
    size: usize,
    tag: Option<&'a str>,
    running: Option<&'a Running>,
    reason: Option<BuryReason>,
    note: Option<&'a str>,
    unique_key: Option<&'a str>,
    unique: Option<String>,
    #[serde(serialize_with = "utc")]
    rises_at: Option<SystemTime>,
    group: Option<&'a str>,
    limits: &'a BTreeMap<String, String>,
    cost: u32,
    errors: &'a [AttemptError],
    failure: Option<Fingerprint>,
    payload: Option<Value>,
    unreadable: Option<&'a UnreadableBy>,
    waiting: &'a [Reason],
    progress: Option<&'a Progress>,
    undecodable: Option<String>,
    bytes: Option<String>,
    result: Option<Value>,
    result_dropped: Option<String>,
}

impl Serialize for JobRecord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let payload = self.payload_json().map_err(problem).and_then(|json| value(&json));
        let undecodable = payload.as_ref().err().cloned();
        let (result, result_dropped) = match self.result_json() {
            Err(Error::ResultDropped { problem, .. }) => (Ok(None), Some(problem)),
            json => (json.map_err(problem).and_then(|json| json.as_deref().map(value).transpose()), None),
        };
        Json {
            job: &self.address,
            task: self.task.as_deref(),
            state: self.state,
            priority: self.priority,
            enqueued_at: self.enqueued_at,
            due_at: self.due_at,
            ended_at: self.ended_at,
            expires_at: self.expires_at,
            failures: self.failures,
            crashes: self.crashes,
            snoozes: self.snoozes,
            rate_limited: self.rate_limited,
            releases: self.releases,
            released_at: self.released_at,
            max_attempts: self.max_attempts,
            timeout_ms: self.timeout.map(ms),
            retention_ms: self.retention.map(ms),
            headers: &self.headers,
            tags: &self.tags,
            size: self.size(),
            tag: self.tag.as_deref(),
            running: self.running.as_ref(),
            reason: self.reason,
            note: self.note.as_deref(),
            unique_key: self.unique_key.as_deref(),
            unique: self.unique.map(|key| key.to_string()),
            rises_at: self.rises_at,
            group: self.group.as_ref().map(GroupName::as_str),
            limits: &self.limits,
            cost: self.cost,
            errors: &self.errors,
            failure: self.failure(),
            payload: payload.ok(),
            bytes: undecodable.is_some().then(|| self.stored().iter().map(|byte| format!("{byte:02x}")).collect()),
            unreadable: self.unreadable.as_ref(),
            waiting: &self.waiting,
            progress: self.progress.as_ref(),
            undecodable,
            result: result.unwrap_or_else(|problem| Some(Value::String(format!("(unreadable: {problem})")))),
            result_dropped,
        }
        .serialize(serializer)
    }
}

impl Serialize for AttemptError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Json<'a> {
            #[serde(serialize_with = "utc")]
            at: Option<SystemTime>,
            message: &'a str,
        }
        Json { at: self.at, message: &self.message }.serialize(serializer)
    }
}

impl Serialize for FailureKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Json<'a> {
            fingerprint: Fingerprint,
            pattern: &'a str,
            message: &'a str,
            count: u64,
            #[serde(serialize_with = "utc")]
            first_at: Option<SystemTime>,
            #[serde(serialize_with = "utc")]
            last_at: Option<SystemTime>,
            tasks: BTreeMap<&'a str, u64>,
            releases: BTreeMap<&'a str, u64>,
            jobs: &'a [JobId],
        }
        let FailureKind { fingerprint, pattern, message, count, first_at, last_at, tasks, releases, jobs, .. } = self;
        fn named(names: &[(String, u64)]) -> BTreeMap<&str, u64> {
            names.iter().map(|(name, count)| (name.as_str(), *count)).collect()
        }
        let (tasks, releases) = (named(tasks), named(releases));
        let (first_at, last_at) = (Some(*first_at), Some(*last_at));
        Json { fingerprint: *fingerprint, pattern, message, count: *count, first_at, last_at, tasks, releases, jobs }.serialize(serializer)
    }
}

impl Serialize for Progress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Json<'a> {
            #[serde(serialize_with = "utc")]
            at: Option<SystemTime>,
            attempt: u32,
            fraction: Option<f64>,
            message: &'a str,
            value: Option<Value>,
        }
        let value = self.value_json().map_err(problem).and_then(|json| json.as_deref().map(value).transpose());
        let value = value.unwrap_or_else(|problem| Some(Value::String(format!("(unreadable: {problem})"))));
        Json { at: Some(self.at), attempt: self.attempt, fraction: self.fraction, message: &self.message, value }.serialize(serializer)
    }
}

impl Serialize for LogLine {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Json<'a> {
            #[serde(serialize_with = "utc")]
            at: Option<SystemTime>,
            attempt: u32,
            level: LogLevel,
            text: &'a str,
        }
        Json { at: Some(self.at), attempt: self.attempt, level: self.level, text: &self.text }.serialize(serializer)
    }
}

impl Serialize for JobLog {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Json<'a> {
            progress: Option<&'a Progress>,
            lines: &'a [LogLine],
            next: u64,
            dropped: u64,
        }
        Json { progress: self.progress.as_ref(), lines: &self.lines, next: self.next, dropped: self.dropped }.serialize(serializer)
    }
}

impl Serialize for UnreadableBy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Json<'a> {
            releases: &'a [String],
            problem: &'a str,
            #[serde(serialize_with = "utc")]
            buried_at: Option<SystemTime>,
        }
        Json { releases: &self.releases, problem: &self.problem, buried_at: self.buried_at }.serialize(serializer)
    }
}

impl Serialize for Running {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Json<'a> {
            #[serde(serialize_with = "utc")]
            since: Option<SystemTime>,
            worker: ProcessId,
            host: &'a str,
            pid: u32,
            release: &'a str,
        }
        Json { since: Some(self.since), worker: self.worker, host: &self.host, pid: self.pid, release: &self.release }.serialize(serializer)
    }
}

fn problem(error: Error) -> String {
    match error {
        Error::Decode { problem, .. } => problem,
        error => error.to_string(),
    }
}

fn value(json: &str) -> Result<Value, String> {
    any_json::read(json).map_err(|problem| problem.to_string())
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// In UTC, to the millisecond. Years after 9999 have no such form and become null.
pub(crate) fn utc_time<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    utc(&Some(*time), serializer)
}

pub(crate) fn utc<S: Serializer>(time: &Option<SystemTime>, serializer: S) -> Result<S::Ok, S::Error> {
    const LAST: Duration = Duration::from_millis(253_402_300_799_999);
    let since = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).filter(|since| *since <= LAST);
    since.map(|since| humantime::format_rfc3339_millis(UNIX_EPOCH + since).to_string()).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::{
        address::JobId,
        broker::{Failure, StoredJob},
        codec,
        envelope::Envelope,
    };

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Parameters {
        order_id: u64,
        note: String,
    }

    fn record(state: JobState, envelope: Vec<u8>, adjust: impl FnOnce(&mut StoredJob)) -> JobRecord {
        let mut stored = StoredJob::new(JobId::given("o-17").unwrap(), state, envelope);
        adjust(&mut stored);
        JobRecord::new("orders", stored)
    }

    fn at(ms: u64) -> Option<SystemTime> {
        Some(UNIX_EPOCH + Duration::from_millis(ms))
    }

    #[test]
    fn a_record_is_decoded_and_printed_in_full() {
        let parameters = Parameters { order_id: 17, note: "pay".to_owned() };
        let payload = codec::encode(&parameters).unwrap();
        let mut envelope = Envelope::new("orders.close", &payload);
        envelope.enqueued_ms = Some(1_700_000_000_000);
        envelope.expires_ms = Some(1_700_000_600_000);
        envelope.max_attempts = Some(3);
        envelope.timeout_ms = Some(1500);
        envelope.retention_ms = Some(60_000);
        envelope.headers.insert("tenant".to_owned(), "7".to_owned());
        envelope.tags.insert("order".to_owned(), "17".to_owned());
        let envelope = envelope.encode().unwrap();
        let size = envelope.len();
        let record = record(JobState::Dead, envelope, |stored| {
            (stored.attempts, stored.crashes, stored.snoozes) = (3, 1, 2);
            stored.priority = Priority::High;
            stored.at_ms = Some(1_700_000_100_000);
            stored.reason = Some(BuryReason::Failed);
            stored.failures = vec![Failure { at_ms: 1_700_000_100_000, message: "no".to_owned() }];
        });
        assert_eq!(record.payload::<Parameters>().unwrap(), parameters);
        assert_eq!((record.due_at, record.ended_at), (None, at(1_700_000_100_000)));
        assert_eq!((record.timeout, record.retention), (Some(Duration::from_millis(1500)), Some(Duration::from_secs(60))));
        assert_eq!(record.last_error(), Some("no"));
        assert_eq!(
            serde_json::to_value(&record).unwrap(),
            serde_json::json!({
                "job": "orders/o-17", "task": "orders.close", "state": "dead", "priority": "high",
                "enqueued_at": "2023-11-14T22:13:20.000Z", "due_at": null, "ended_at": "2023-11-14T22:15:00.000Z",
                "expires_at": "2023-11-14T22:23:20.000Z", "failures": 3, "crashes": 1, "snoozes": 2, "rate_limited": 0, "releases": 0, "released_at": null, "max_attempts": 3,
                "timeout_ms": 1500, "retention_ms": 60_000, "headers": {"tenant": "7"}, "tags": {"order": "17"}, "size": size, "tag": null, "running": null,
                "reason": "failed", "progress": null,
                "limits": {}, "cost": 1,
                "failure": "9390298f3fb0c5b1",
                "note": null, "unique_key": null, "unique": null, "rises_at": null, "group": null, "errors": [{"at": "2023-11-14T22:15:00.000Z", "message": "no"}],
                "payload": {"order_id": 17, "note": "pay"}, "unreadable": null, "waiting": [], "undecodable": null, "bytes": null, "result": null,
                "result_dropped": null,
            })
        );
    }

    #[test]
    fn a_time_is_when_the_job_is_due_or_when_it_ended() {
        let envelope = Envelope::new("t", &[0x80]).encode().unwrap();
        for state in JobState::ALL {
            let record = record(state, envelope.clone(), |stored| stored.at_ms = Some(5000));
            let due = matches!(state, JobState::Scheduled | JobState::Retry | JobState::Held);
            assert_eq!((record.due_at, record.ended_at), (at(5000).filter(|_| due), at(5000).filter(|_| state.is_final())), "{state}");
        }
        for ms in [-1, i64::MAX] {
            let record = record(JobState::Scheduled, envelope.clone(), |stored| stored.at_ms = Some(ms));
            assert_eq!(serde_json::to_value(&record).unwrap()["due_at"], Value::Null, "{ms}");
        }
    }

    #[test]
    fn a_job_that_cannot_be_decoded_has_a_record_with_its_bytes() {
        let broken = record(JobState::Ready, vec![0xff, 0x00], |_| {});
        assert_eq!((broken.task.as_deref(), broken.stored(), broken.size()), (None, &[0xff, 0x00][..], 2));
        assert!(matches!(broken.payload_json(), Err(Error::Decode { .. })));
        let json = serde_json::to_value(&broken).unwrap();
        assert_eq!((&json["task"], &json["payload"], &json["bytes"]), (&Value::Null, &Value::Null, &"ff00".into()));
        assert!(json["undecodable"].as_str().unwrap().contains("task's name"), "{json}");

        let newer = record(JobState::Parked, b"\x02\x04task whatever".to_vec(), |_| {});
        assert_eq!(newer.task.as_deref(), Some("task"));
        assert!(newer.payload::<Parameters>().unwrap_err().to_string().contains("version 2"));

        let no_payload = record(JobState::Ready, Envelope::new("t", &[0xc1]).encode().unwrap(), |_| {});
        assert_eq!((no_payload.task.as_deref(), no_payload.undecodable.as_deref()), (Some("t"), None));
        assert!(serde_json::to_value(&no_payload).unwrap()["undecodable"].is_string());
    }

    #[test]
    fn a_result_is_read_as_json_and_as_its_type() {
        let envelope = Envelope::new("t", &[0x80]).encode().unwrap();
        let with = |result: Option<Vec<u8>>| record(JobState::Done, envelope.clone(), |stored| stored.result = result);
        let done = with(Some(codec::encode(&[1, 2]).unwrap()));
        assert_eq!((done.result_json().unwrap().as_deref(), done.result::<Vec<u8>>().unwrap()), (Some("[1,2]"), Some(vec![1, 2])));
        assert!(matches!(done.result::<String>(), Err(Error::Decode { .. })));
        assert_eq!(with(None).result::<u8>().unwrap(), None);
        let dropped = with(Some(b"\xc1it has 70000 bytes".to_vec()));
        assert!(matches!(dropped.result::<Option<u8>>(), Err(Error::ResultDropped { problem, .. }) if problem == "it has 70000 bytes"));
        let dropped = serde_json::to_value(dropped).unwrap();
        assert_eq!((&dropped["result"], &dropped["result_dropped"]), (&Value::Null, &"it has 70000 bytes".into()));
        let broken = serde_json::to_value(with(Some(vec![0xc1]))).unwrap();
        assert!(broken["result"].as_str().unwrap().starts_with("(unreadable: "), "{broken}");
    }
}
