//! The decoded form of a job, with times and durations. The broker's own form is [`StoredJob`].

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Serialize, Serializer, de::DeserializeOwned};
use serde_json::Value;

use super::{Progress, Reason};
use crate::{
    address::JobAddress,
    broker::{BuryReason, Failure, GroupName, JobState, LimitKey, Priority, ProcessId, StoredJob, UniqueKey, Unreadable, WorkerRecord},
    codec,
    envelope::{ENVELOPE_VERSION, Envelope},
    error::{Error, Result},
    fingerprint::Fingerprint,
    json,
    outcome::stored_result,
    payload,
};

/// Everything known about one job. From [`Inspector::show`](crate::inspect::Inspector::show),
/// `list` and `walk`.
///
/// The last start of a job that is not active is not stored, because this would cost every claim a
/// write. [`running`](Self::running) has the start of an active job, [`errors`](Self::errors) have
/// the times of its last failed attempts, and [`ended_at`](Self::ended_at) has the time of its end.
///
/// All times are those of the broker's clock. A job whose stored form cannot be decoded has a
/// record too: [`task`](Self::task) is then `None`, [`undecodable`](Self::undecodable) has the
/// reason, and [`stored`](Self::stored) has the bytes.
///
/// The record is [`Serialize`](serde::Serialize), and the command line prints this form with
/// `--json`: the address as `job`, times as RFC 3339 in UTC, durations in milliseconds
/// (`timeout_ms`, `retention_ms`), `payload` and `result` as JSON. If the result was dropped,
/// `result` is null and `result_dropped` has the reason. If `payload` cannot be decoded, it is
/// null, `undecodable` has the reason, and `bytes` has the stored form in hexadecimal.
///
/// ```
/// use queue_core::prelude::*;
///
/// #[task]
/// async fn greet(name: String) {}
///
/// # async fn example() -> queue_core::Result<()> {
/// let queue = Client::connect("sqlite://:memory:").await?;
/// let handle = greet::job("Ada".to_owned()).enqueue(&queue).await?;
///
/// let record = queue.inspector().show(handle.address()).await?;
/// assert_eq!(record.task.as_deref(), Some("greet"));
/// assert_eq!(record.payload_json()?, r#"{"name":"Ada"}"#);
/// assert_eq!((record.failures, record.due_at), (0, None));
/// # Ok(()) }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct JobRecord {
    /// Its address: `queue/id`.
    #[serde(rename = "job")]
    pub address: JobAddress,
    /// The name of its task; `None` if the stored form cannot be decoded.
    pub task: Option<String>,
    /// Its state.
    pub state: JobState,
    /// Its priority.
    pub priority: Priority,
    /// When it was enqueued, by the producer's estimate of the broker's time; `None` if the
    /// producer did not set it.
    #[serde(serialize_with = "json::utc")]
    pub enqueued_at: Option<SystemTime>,
    /// When it is due, if it is `scheduled` or waits in `retry`.
    #[serde(serialize_with = "json::utc")]
    pub due_at: Option<SystemTime>,
    /// When it ended, if its state is final.
    #[serde(serialize_with = "json::utc")]
    pub ended_at: Option<SystemTime>,
    /// It expires if it has not started by this time; `None`: never.
    #[serde(serialize_with = "json::utc")]
    pub expires_at: Option<SystemTime>,
    /// How many attempts have failed. [`Inspector::requeue`](crate::inspect::Inspector::requeue)
    /// and `Repeat` set it to 0.
    pub failures: u32,
    /// How many crashes it was charged with: deaths of a process that held it.
    pub crashes: u32,
    /// How often it has snoozed.
    pub snoozes: u32,
    /// How often a service that it calls has rate-limited it:
    /// [`Outcome::RateLimited`](crate::Outcome::RateLimited).
    pub rate_limited: u32,
    /// How often a run of it was stopped because its worker stopped. Such a run is not charged, and
    /// the job starts again from the beginning. A job that runs longer than the time between two
    /// deployments is returned repeatedly.
    pub returns: u32,
    /// When it was last returned for that reason.
    #[serde(serialize_with = "json::utc")]
    pub returned_at: Option<SystemTime>,
    /// The number of failures after which it becomes a dead letter, if the job has its own.
    pub max_attempts: Option<u32>,
    /// The longest time of one attempt, if the job has its own.
    #[serde(rename = "timeout_ms", serialize_with = "json::ms")]
    pub timeout: Option<Duration>,
    /// How long it is kept after it is done, if the job has its own.
    #[serde(rename = "retention_ms", serialize_with = "json::ms")]
    pub retention: Option<Duration>,
    /// Its headers.
    pub headers: BTreeMap<String, String>,
    /// Its tags from the application.
    pub tags: BTreeMap<String, String>,
    /// The lane that holds it and the claim number, while it is `active`.
    pub receipt: Option<String>,
    /// The worker and the start of the run, while it is `active`.
    pub running: Option<Running>,
    /// The reason why it is dead.
    pub reason: Option<BuryReason>,
    /// Why it was cancelled.
    pub note: Option<String>,
    /// Its unique key, if it has one, even if it does not hold the key: the text, at most 256
    /// bytes, that was set or derived from its parameters.
    pub unique_key: Option<String>,
    /// The same in the broker's form.
    pub unique: Option<UniqueKey>,
    /// When it gains a priority, while it is ready in a queue with aging.
    #[serde(serialize_with = "json::utc")]
    pub rises_at: Option<SystemTime>,
    /// Its group, if it has one.
    pub group: Option<GroupName>,
    /// The limits that it is subject to, by name, and by which key; that of the whole queue is
    /// empty.
    pub limits: BTreeMap<String, String>,
    /// The keys of these limits in the broker's form, for
    /// [`Inspector::limits_of`](crate::inspect::Inspector::limits_of).
    #[serde(skip)]
    pub limit_keys: Vec<LimitKey>,
    /// How many starts it counts for, where a limit has a rate.
    pub cost: u32,
    /// The errors of its last failed attempts, oldest first, at most 10. A list has only the last
    /// one, and the first 512 bytes of it.
    #[serde(flatten, serialize_with = "errors")]
    pub errors: Vec<AttemptError>,
    /// The releases that could not read its parameters, if it is parked for that reason.
    pub unreadable: Option<UnreadableBy>,
    /// Why it does not run, if this was requested: by
    /// [`Inspector::why`](crate::inspect::Inspector::why), or by a [`Walk`](crate::inspect::Walk)
    /// [with reasons](crate::inspect::Walk::with_reasons). The first reason is the one that has to
    /// end first.
    pub waiting: Vec<Reason>,
    /// Its progress, if its handler has [reported](crate::JobContext::progress) any. A list does
    /// not have it.
    pub progress: Option<Progress>,
    /// Why its stored form cannot be decoded.
    #[serde(skip)]
    pub undecodable: Option<String>,
    #[serde(flatten, serialize_with = "envelope")]
    stored: Vec<u8>,
    #[serde(flatten, serialize_with = "result")]
    result: Option<Vec<u8>>,
}

/// The error of a failed attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AttemptError {
    /// When the attempt failed; `None` if that cannot be read.
    #[serde(serialize_with = "json::utc")]
    pub at: Option<SystemTime>,
    /// The chain of the error's messages, at most 8 KiB.
    pub message: String,
}

fn errors<S: Serializer>(errors: &[AttemptError], serializer: S) -> std::result::Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Json<'a> {
        errors: &'a [AttemptError],
        failure: Option<Fingerprint>,
    }
    Json { errors, failure: errors.last().map(|error| Fingerprint::of(&error.message)) }.serialize(serializer)
}

/// The parameters, or the bytes that cannot be decoded.
fn envelope<S: Serializer>(stored: &[u8], serializer: S) -> std::result::Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Json {
        size: usize,
        payload: Option<Value>,
        undecodable: Option<String>,
        bytes: Option<String>,
    }
    let decoded = Envelope::decode(stored).map_err(|error| match error {
        Error::Decode { problem, .. } => problem,
        error => error.to_string(),
    });
    let payload = decoded.and_then(|envelope| of_a_newer_version(&envelope).map_or_else(|| json::value(envelope.payload), Err));
    let bytes = || stored.iter().map(|byte| format!("{byte:02x}")).collect();
    let bytes = payload.is_err().then(bytes);
    Json { size: stored.len(), bytes, undecodable: payload.as_ref().err().cloned(), payload: payload.ok() }.serialize(serializer)
}

fn result<S: Serializer>(stored: &Option<Vec<u8>>, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Json {
        #[serde(serialize_with = "json::stored")]
        result: Option<Vec<u8>>,
        result_dropped: Option<String>,
    }
    let result = stored.as_deref().map(stored_result).transpose();
    let (result, result_dropped) = result.map_or_else(|dropped| (None, Some(dropped)), |kept| (kept.map(<[u8]>::to_vec), None));
    Json { result, result_dropped }.serialize(serializer)
}

impl JobRecord {
    /// Decodes the stored form of a broker.
    pub(super) fn new(queue: &str, job: StoredJob) -> Self {
        let at = job.at_ms.and_then(time);
        let due = matches!(job.state, JobState::Scheduled | JobState::Retry | JobState::Held);
        let mut record = JobRecord {
            address: JobAddress { queue: queue.into(), id: job.id },
            task: None,
            state: job.state,
            priority: job.priority,
            enqueued_at: None,
            due_at: at.filter(|_| due),
            ended_at: at.filter(|_| job.state.is_final()),
            expires_at: None,
            failures: job.attempts,
            crashes: job.crashes,
            snoozes: job.snoozes,
            rate_limited: job.rate_limited,
            returns: job.returns,
            returned_at: job.returned_ms.and_then(time),
            max_attempts: None,
            timeout: None,
            retention: None,
            headers: BTreeMap::new(),
            running: job.receipt.as_deref().and_then(Running::of_receipt),
            receipt: job.receipt,
            reason: job.reason,
            note: job.note,
            unreadable: job.unreadable.map(|unreadable| UnreadableBy::new(unreadable, &job.failures)),
            unique_key: job.unique.map(|key| key.to_string()),
            unique: job.unique,
            rises_at: job.rises_ms.and_then(time),
            group: job.group,
            limits: BTreeMap::new(),
            tags: BTreeMap::new(),
            limit_keys: job.limits,
            cost: 1,
            errors: job.failures.into_iter().map(AttemptError::new).collect(),
            waiting: Vec::new(),
            progress: None,
            undecodable: None,
            stored: job.envelope,
            result: job.result,
        };
        match Envelope::decode(&record.stored) {
            Ok(envelope) => {
                record.undecodable = of_a_newer_version(&envelope);
                record.enqueued_at = envelope.enqueued_at();
                record.expires_at = envelope.expires_ms.and_then(time);
                record.max_attempts = envelope.max_attempts;
                record.timeout = envelope.timeout();
                record.retention = envelope.retention();
                record.task = Some(envelope.task.into_owned());
                (record.headers, record.tags) = (envelope.headers, envelope.tags);
                (record.limits, record.cost) = (envelope.limits, envelope.cost.unwrap_or(1));
                record.unique_key = envelope.unique.map(Into::into).or(record.unique_key);
            }
            Err(Error::Decode { problem, .. }) => record.undecodable = Some(problem),
            Err(error) => record.undecodable = Some(error.to_string()),
        }
        record
    }

    /// The parameters as a JSON object, by name. Binary is base64: `{"$base64": "AP8="}`.
    ///
    /// # Errors
    /// [`Error::Decode`] if the stored form cannot be decoded.
    pub fn payload_json(&self) -> Result<String> {
        self.with_payload(payload::to_json)
    }

    /// The parameters as a `P`: a struct with a field for each parameter of the task, or for some.
    ///
    /// # Errors
    /// [`Error::Decode`] if the parameters are not a `P`, or if the stored form cannot be decoded.
    pub fn payload<P: DeserializeOwned>(&self) -> Result<P> {
        self.with_payload(|bytes| codec::decode(bytes))
    }

    /// The result as JSON, if the job is done and its result is kept. `None` also for a handler
    /// that returns `()`.
    ///
    /// # Errors
    /// [`Error::ResultDropped`] if the result was over 64 KiB or could not be encoded;
    /// [`Error::Decode`] if the stored result cannot be decoded.
    pub fn result_json(&self) -> Result<Option<String>> {
        self.with_result(payload::to_json)
    }

    /// The result as an `R`, if the job is done and its result is kept. `None` also for a handler
    /// that returns `()`.
    ///
    /// # Errors
    /// [`Error::ResultDropped`] if the result was over 64 KiB or could not be encoded;
    /// [`Error::Decode`] if the stored result is not an `R`.
    pub fn result<R: DeserializeOwned>(&self) -> Result<Option<R>> {
        self.with_result(|bytes| codec::decode(bytes))
    }

    /// The message of the last failed attempt.
    pub fn last_error(&self) -> Option<&str> {
        self.errors.last().map(|error| error.message.as_str())
    }

    /// The fingerprint of its last failure:
    /// [`Inspector::failures`](crate::inspect::Inspector::failures) has those of a queue, and the
    /// filter `failure=` finds the jobs of one. `None` if it has not failed.
    pub fn failure(&self) -> Option<Fingerprint> {
        self.last_error().map(Fingerprint::of)
    }

    /// The size of the stored form in bytes: parameters, headers and options, without the result.
    pub fn size(&self) -> usize {
        self.stored.len()
    }

    /// The stored form (the *envelope*), for a job that cannot be decoded. The format is not
    /// stable; `docs/storage.md` of the repository describes it.
    pub fn stored(&self) -> &[u8] {
        &self.stored
    }

    fn with_payload<P>(&self, decode: impl FnOnce(&[u8]) -> Result<P, String>) -> Result<P> {
        let what = || format!("the parameters of job `{}`", self.address);
        if let Some(problem) = &self.undecodable {
            return Err(Error::Decode { what: what(), problem: problem.clone() });
        }
        decode(Envelope::decode(&self.stored)?.payload).map_err(|problem| Error::Decode { what: what(), problem })
    }

    fn with_result<R>(&self, decode: impl FnOnce(&[u8]) -> Result<R, String>) -> Result<Option<R>> {
        let Some(stored) = &self.result else { return Ok(None) };
        let bytes = stored_result(stored).map_err(|problem| Error::ResultDropped { job: self.address.clone(), problem })?;
        decode(bytes).map(Some).map_err(|problem| Error::Decode { what: format!("the result of job `{}`", self.address), problem })
    }
}

impl AttemptError {
    fn new(failure: Failure) -> Self {
        // An unreadable history has one entry without a time, which states the problem.
        AttemptError { at: (failure.at_ms > 0).then(|| time(failure.at_ms)).flatten(), message: failure.message }
    }
}

/// The releases that could not read the parameters of a parked job. Each worker of another release
/// is offered the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct UnreadableBy {
    /// The releases, sorted.
    pub releases: Vec<String>,
    /// The problem of the last of them.
    pub problem: String,
    /// When the job becomes a dead letter, unless a release has read it by then.
    #[serde(serialize_with = "json::utc")]
    pub dead_at: Option<SystemTime>,
}

impl UnreadableBy {
    fn new(unreadable: Unreadable, failures: &[Failure]) -> Self {
        let last = failures.last().map_or("", |failure| failure.message.as_str());
        // `release v42 cannot read it: parameter ...`, the form that workers use.
        let problem = last.split_once(": ").filter(|(who, _)| who.starts_with("release ")).map_or(last, |(_, problem)| problem).to_owned();
        UnreadableBy { releases: unreadable.releases, problem, dead_at: Some(unreadable.until_ms).filter(|at| *at > 0).and_then(time) }
    }
}

/// The worker that runs a job, and the start of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Running {
    /// When the job was claimed, by the broker's clock. Up to a millisecond later if the queue had
    /// many claims at once.
    #[serde(serialize_with = "json::utc")]
    pub since: SystemTime,
    /// The worker that claimed it.
    pub worker: ProcessId,
    /// The name of the worker's host. Empty if it is unknown.
    pub host: String,
    /// The number of the worker's process on this host. 0 if it is unknown.
    pub pid: u32,
    /// The worker's release. Empty if it is unknown.
    pub release: String,
}

impl Running {
    /// Reads the lane and the time from the receipt: claim numbers are the broker's time, unless
    /// its clock has stopped or was set back.
    fn of_receipt(receipt: &str) -> Option<Running> {
        let (lane, claim) = receipt.rsplit_once(':')?;
        let worker = lane.split_once('.').map_or(lane, |(process, _)| process).parse().ok()?;
        Some(Running { since: time(claim.parse().ok()?)?, worker, host: String::new(), pid: 0, release: String::new() })
    }

    /// Adds the data of the worker's record.
    pub(super) fn find(&mut self, workers: &[WorkerRecord]) {
        if let Some(worker) = workers.iter().find(|worker| worker.id == self.worker) {
            (self.host, self.pid, self.release) = (worker.host.clone(), worker.pid, worker.release.clone());
        }
    }
}

/// A page of a listing. From [`Inspector::list`](crate::inspect::Inspector::list).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Page {
    /// The jobs, in the order in which they will start or have ended, without results, and only
    /// with their last errors. There may be fewer jobs than requested, or none, although the list
    /// continues: some lists have gaps where jobs were removed.
    pub jobs: Vec<JobRecord>,
    /// The offset of the next page, which is larger than that of this one. Only `None` marks the
    /// last page. It need not be a number of jobs.
    pub next: Option<u64>,
}

fn of_a_newer_version(envelope: &Envelope<'_>) -> Option<String> {
    let version = envelope.version;
    (version > ENVELOPE_VERSION).then(|| format!("its envelope has version {version}, and this program reads up to {ENVELOPE_VERSION}"))
}

/// A time of the broker's; `None` for one that no clock can show.
pub(super) fn time(ms: i64) -> Option<SystemTime> {
    u64::try_from(ms).ok().and_then(|ms| UNIX_EPOCH.checked_add(Duration::from_millis(ms)))
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
                "expires_at": "2023-11-14T22:23:20.000Z", "failures": 3, "crashes": 1, "snoozes": 2, "rate_limited": 0, "returns": 0, "returned_at": null, "max_attempts": 3,
                "timeout_ms": 1500, "retention_ms": 60_000, "headers": {"tenant": "7"}, "tags": {"order": "17"}, "size": size, "receipt": null, "running": null,
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
