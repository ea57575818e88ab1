//! The stored and the decoded form of an operation.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Serialize, Serializer};

use super::{OPERATION_LEASE, OperationKind, OperationState, StartOperation};
use crate::json;

/// A change of all jobs of a queue that match a filter. From
/// [`Inspector::operations`](crate::inspect::Inspector::operations).
///
/// The record is [`Serialize`](serde::Serialize), and the command line prints this form with
/// `--json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(remote = "Self")]
#[non_exhaustive]
pub struct Operation {
    /// The queue.
    pub queue: String,
    /// Its id. With the queue it is its address, `queue/id`.
    pub id: String,
    /// The change of the jobs.
    pub kind: OperationKind,
    /// Its state.
    pub state: OperationState,
    /// The filter as text. Empty: all jobs to which the kind applies.
    pub filter: String,
    /// The operator who has started it.
    pub by: Option<String>,
    /// The reason.
    pub reason: Option<String>,
    /// When it was started, in broker milliseconds since 1970. Jobs that were enqueued or have
    /// ended since then are not changed.
    #[serde(rename = "started_at", serialize_with = "json::utc_of_ms")]
    pub started_ms: i64,
    /// When the last step was taken.
    #[serde(rename = "stepped_at", serialize_with = "json::utc_of_ms")]
    pub stepped_ms: i64,
    /// When it has ended.
    #[serde(rename = "ended_at", serialize_with = "json::utc_of_ms")]
    pub ended_ms: Option<i64>,
    /// The approximate number of jobs to examine, when it was started.
    pub total: u64,
    /// How many jobs were examined. Some may have been examined twice, after a failover.
    pub examined: u64,
    /// How many were changed.
    pub changed: u64,
    /// The number of skipped jobs: they do not match, are too new, or have changed meanwhile.
    pub skipped: u64,
    /// How many could not be changed, because another job holds their unique key.
    pub failed: u64,
    /// Why it cannot continue.
    pub problem: Option<String>,
    /// How many steps were taken.
    #[serde(skip)]
    pub step: u64,
    /// The runner that takes the steps.
    #[serde(skip)]
    pub runner: Option<String>,
    /// The position of the next step.
    #[serde(skip)]
    pub position: Option<String>,
    /// True in the answer to `start`: the caller is the runner.
    #[serde(skip)]
    pub(crate) is_own: bool,
}

impl Operation {
    pub(super) fn started(queue: &str, id: &str, start: &StartOperation, now: i64) -> Self {
        Operation {
            queue: queue.to_owned(),
            id: id.to_owned(),
            kind: start.kind,
            state: OperationState::Running,
            filter: start.filter.clone(),
            by: start.by.clone(),
            reason: start.reason.clone(),
            started_ms: now,
            stepped_ms: now,
            ended_ms: None,
            total: start.total,
            examined: 0,
            changed: 0,
            skipped: 0,
            failed: 0,
            problem: None,
            step: 0,
            runner: start.runner.as_deref().map(str::to_owned),
            position: None,
            is_own: false,
        }
    }

    pub(super) fn end(&mut self, state: OperationState, now: i64) {
        (self.state, self.ended_ms) = (state, Some(now));
    }

    /// Whether it is under way.
    pub fn is_running(&self) -> bool {
        self.state == OperationState::Running
    }

    /// Whether it is running and its runner is gone, by the broker's time: another one may take
    /// over.
    pub fn is_left(&self, now_ms: i64) -> bool {
        let lease = i64::try_from(OPERATION_LEASE.as_millis()).unwrap_or(i64::MAX);
        self.is_running() && (self.runner.is_none() || self.stepped_ms.saturating_add(lease) <= now_ms || self.stepped_ms > now_ms)
    }

    /// Its address: `queue/id`.
    pub fn address(&self) -> String {
        format!("{}/{}", self.queue, self.id)
    }

    /// The share of examined jobs, in percent; 100 only if it is completed.
    pub fn percent(&self) -> u64 {
        match self.state {
            OperationState::Completed => 100,
            _ => (self.examined.saturating_mul(100) / self.total.max(1)).min(99),
        }
    }

    /// When it was started.
    pub fn started_at(&self) -> Option<SystemTime> {
        at(self.started_ms)
    }

    /// When the last step was taken.
    pub fn stepped_at(&self) -> Option<SystemTime> {
        at(self.stepped_ms)
    }

    /// When it has ended.
    pub fn ended_at(&self) -> Option<SystemTime> {
        self.ended_ms.and_then(at)
    }

    /// For brokers: the form in storage.
    pub fn stored(&self) -> String {
        let [runner, position] = [&self.runner, &self.position].map(|word| word.as_deref().unwrap_or("-"));
        format!(
            "{} {} {} {} {} {} {} {} {} {} {} {runner} {position}\n{}\n{}",
            self.kind,
            self.state,
            self.step,
            self.started_ms.max(0),
            self.stepped_ms.max(0),
            self.ended_ms.unwrap_or(0).max(0),
            self.total,
            self.examined,
            self.changed,
            self.skipped,
            self.failed,
            definition(&self.filter, self.by.as_deref(), self.reason.as_deref()),
            self.problem.as_deref().unwrap_or_default(),
        )
    }

    /// For brokers: reads the stored form. `None`: another program has written it.
    pub fn of_stored(queue: &str, id: &str, stored: &[u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(stored).ok()?.splitn(3, '\n');
        let (header, definition, problem) = (parts.next()?, parts.next()?, parts.next()?);
        let words: Vec<&str> = header.split(' ').collect();
        let [kind, state, step, started, stepped, ended, total, examined, changed, skipped, failed, runner, position] = words.as_slice()
        else {
            return None;
        };
        let (filter, by, reason): (String, Option<String>, Option<String>) = serde_json::from_str(definition).ok()?;
        let word = |word: &str| (word != "-").then(|| word.to_owned());
        Some(Operation {
            queue: queue.to_owned(),
            id: id.to_owned(),
            kind: kind.parse().ok()?,
            state: OperationState::from_name(state)?,
            filter,
            by,
            reason,
            started_ms: started.parse().ok()?,
            stepped_ms: stepped.parse().ok()?,
            ended_ms: ended.parse().ok().filter(|ended| *ended > 0),
            total: total.parse().ok()?,
            examined: examined.parse().ok()?,
            changed: changed.parse().ok()?,
            skipped: skipped.parse().ok()?,
            failed: failed.parse().ok()?,
            problem: Some(problem.to_owned()).filter(|problem| !problem.is_empty()),
            step: step.parse().ok()?,
            runner: word(runner),
            position: word(position),
            is_own: false,
        })
    }
}

/// The parameters of an operation, in one line: a JSON array.
pub(super) fn definition(filter: &str, by: Option<&str>, reason: Option<&str>) -> String {
    serde_json::to_string(&(filter, by, reason)).unwrap_or_default()
}

impl StartOperation {
    /// For brokers: its stored form.
    pub fn definition(&self) -> String {
        definition(&self.filter, self.by.as_deref(), self.reason.as_deref())
    }
}

fn at(ms: i64) -> Option<SystemTime> {
    u64::try_from(ms).ok().and_then(|ms| UNIX_EPOCH.checked_add(Duration::from_millis(ms)))
}

impl Serialize for Operation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Whole<'a> {
            operation: String,
            #[serde(flatten, serialize_with = "Operation::serialize")]
            record: &'a Operation,
            percent: u64,
        }
        Whole { operation: self.address(), record: self, percent: self.percent() }.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_read_as_it_is_stored() {
        let start = StartOperation {
            kind: OperationKind::Cancel,
            filter: "task=a error~\"b\nc\"".to_owned(),
            by: Some("ada".to_owned()),
            reason: None,
            total: 17,
            runner: Some("r1".into()),
        };
        let mut operation = Operation::started("mail", "17", &start, 1000);
        assert_eq!(Operation::of_stored("mail", "17", operation.stored().as_bytes()), Some(operation.clone()));
        (operation.position, operation.problem) = (Some("jobs:17".to_owned()), Some("two\nlines".to_owned()));
        operation.end(OperationState::Failed, 2000);
        assert_eq!(Operation::of_stored("mail", "17", operation.stored().as_bytes()), Some(operation.clone()));
        for strange in
            ["", "cancel running", "cancel asleep 0 1 1 0 1 0 0 0 0 - -\n[\"\",null,null]\n", "cancel running 0 1 1 0 1 0 0 0 0 - -\n[]\n"]
        {
            assert_eq!(Operation::of_stored("mail", "17", strange.as_bytes()), None, "{strange}");
        }
    }

    #[test]
    fn a_runner_that_takes_no_step_is_gone() {
        let start = StartOperation {
            kind: OperationKind::Drain,
            filter: String::new(),
            by: None,
            reason: None,
            total: 1,
            runner: Some("a".into()),
        };
        let mut operation = Operation::started("mail", "17", &start, 1000);
        assert!(!operation.is_left(1000) && !operation.is_left(10_999) && operation.is_left(11_000));
        assert!(operation.is_left(999), "the clock was set back");
        operation.runner = None;
        assert!(operation.is_left(1000));
        operation.end(OperationState::Stopped, 1000);
        assert!(!operation.is_left(1_000_000));
    }
}
