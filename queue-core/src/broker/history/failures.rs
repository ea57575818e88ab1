//! Failures by fingerprint: the reports of workers, and the stored form.
//!
//! Workers include failures in their reports, so a turn needs no additional command. Memory is
//! bounded: a queue keeps [`FAILURE_PATTERNS`] patterns, and a new one replaces the one that was
//! last seen the longest time ago.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::json;
use serde::Serialize;

use crate::{address::JobId, codec, fingerprint::Fingerprint, text::cut};

/// The most failure patterns that a queue counts.
pub const FAILURE_PATTERNS: usize = 200;

/// Most failure patterns in a report. Further ones are counted under [`Fingerprint::OTHERS`].
pub const PATTERNS_REPORTED: usize = 50;

/// The number of tasks that are kept for a pattern: those that failed last.
pub const TASKS_NAMED: usize = 20;

/// The number of releases that are kept for a pattern: those that failed last.
pub const RELEASES_NAMED: usize = 10;

/// The number of jobs that are kept for a pattern: those that failed last.
pub const JOBS_NAMED: usize = 5;

/// A pattern that has not been seen for this time is no longer reported.
pub const FAILURES_SHOWN: Duration = Duration::from_secs(14 * 24 * 3600);

/// The failure message of a job whose worker process crashed while it ran.
pub const CRASHED: &str = "the process that ran it died, or lost the broker";

/// Longest message of a pattern, in bytes.
const MESSAGE: usize = 512;

/// Failures of a queue whose texts differ only in numbers, ids and quoted values. From
/// [`Inspector::failures`](crate::inspect::Inspector::failures).
///
/// It is [`Serialize`](serde::Serialize): the fields by their names, times in UTC, tasks and
/// releases with their counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FailurePattern {
    /// Their common part, as a number. The filter `failure=` accepts it.
    pub fingerprint: Fingerprint,
    /// The common part as text, with `*` for each number, id and quoted value.
    /// [`Fingerprint::OTHERS`] has none.
    pub pattern: String,
    /// The text of the last one, at most 512 bytes of it.
    pub message: String,
    /// The number of runs with this failure since the first one, including runs that were retried.
    pub count: u64,
    /// When the first was reported, by the broker's clock.
    #[serde(serialize_with = "json::utc")]
    pub first_at: SystemTime,
    /// When the last was reported, by the broker's clock.
    #[serde(serialize_with = "json::utc")]
    pub last_at: SystemTime,
    /// The tasks with this failure, and the number of their runs. The task that failed last comes
    /// last; at most 20 are kept. `*` are jobs without a known task: those of crashed workers.
    #[serde(serialize_with = "json::counts")]
    pub tasks: Vec<(String, u64)>,
    /// The same of the releases of the workers, at most 10.
    #[serde(serialize_with = "json::counts")]
    pub releases: Vec<(String, u64)>,
    /// The last jobs that failed so, at most 5. They may have ended well since.
    pub jobs: Vec<JobId>,
}

impl FailurePattern {
    /// An empty pattern with this fingerprint.
    pub fn new(fingerprint: Fingerprint, pattern: impl Into<String>) -> Self {
        FailurePattern {
            fingerprint,
            pattern: pattern.into(),
            message: String::new(),
            count: 0,
            first_at: UNIX_EPOCH,
            last_at: UNIX_EPOCH,
            tasks: Vec::new(),
            releases: Vec::new(),
            jobs: Vec::new(),
        }
    }

    /// Counts failures with this text for a task, a release, and a job if it is known.
    #[must_use]
    pub fn with(mut self, count: u64, text: &str, task: &str, release: &str, job: Option<JobId>) -> Self {
        self.add(count, text, task, release, job);
        self
    }

    /// The same.
    pub fn add(&mut self, count: u64, text: &str, task: &str, release: &str, job: Option<JobId>) {
        self.count = self.count.saturating_add(count);
        self.message = cut(text.to_owned(), MESSAGE);
        count_names(&mut self.tasks, &[(task.to_owned(), count)], TASKS_NAMED);
        count_names(&mut self.releases, &[(release.to_owned(), count)], RELEASES_NAMED);
        name_jobs(&mut self.jobs, job);
    }

    /// For brokers: adds what a worker has counted since its last report, at this time.
    pub fn merge(&mut self, other: &FailurePattern, now_ms: i64) {
        let now = time(now_ms);
        if self.count == 0 {
            self.first_at = now;
        }
        self.last_at = now;
        self.count = self.count.saturating_add(other.count);
        self.pattern.clone_from(&other.pattern);
        self.message.clone_from(&other.message);
        count_names(&mut self.tasks, &other.tasks, TASKS_NAMED);
        count_names(&mut self.releases, &other.releases, RELEASES_NAMED);
        name_jobs(&mut self.jobs, other.jobs.iter().cloned());
    }

    /// Whether it is reported at this time.
    fn is_reported(&self, now_ms: i64) -> bool {
        // A clock may have been set back.
        time(now_ms).duration_since(self.last_at).map_or(true, |age| age <= FAILURES_SHOWN)
    }

    /// A MessagePack array: first and last time in milliseconds, count, pattern, message, tasks and
    /// releases as pairs of a name and a count, and the ids of jobs as text.
    pub fn encoded(&self) -> Vec<u8> {
        let jobs: Vec<String> = self.jobs.iter().map(JobId::to_string).collect();
        let (first, last) = (ms(self.first_at), ms(self.last_at));
        codec::pack(&(first, last, self.count, &self.pattern, &self.message, &self.tasks, &self.releases, jobs))
            .expect("numbers and texts can be encoded")
    }

    /// Decodes the output of [`encoded`](Self::encoded), also after a script has changed it. `None`
    /// if it has another form.
    pub fn decoded(fingerprint: Fingerprint, bytes: &[u8]) -> Option<Self> {
        type Names = Vec<(String, u64)>;
        type Stored = (i64, i64, u64, String, String, Names, Names, Vec<String>);
        let (first, last, count, pattern, message, tasks, releases, jobs): Stored = codec::unpack(bytes).ok()?;
        let jobs = jobs.iter().filter_map(|job| job.parse().ok()).collect();
        Some(FailurePattern { fingerprint, pattern, message, count, first_at: time(first), last_at: time(last), tasks, releases, jobs })
    }
}

/// For brokers: the stored patterns that are reported at this time, the last seen first.
pub fn recent(mut kinds: Vec<FailurePattern>, now_ms: i64) -> Vec<FailurePattern> {
    kinds.retain(|failure| failure.is_reported(now_ms));
    kinds.sort_by_key(|failure| (std::cmp::Reverse(failure.last_at), std::cmp::Reverse(failure.count), failure.fingerprint));
    kinds
}

/// Adds counts by name. The latest names come last; the first ones are dropped.
fn count_names(names: &mut Vec<(String, u64)>, added: &[(String, u64)], most: usize) {
    for (name, count) in added {
        let known = names.iter().position(|(known, _)| known == name).map_or(0, |at| names.remove(at).1);
        names.push((name.clone(), known.saturating_add(*count)));
    }
    names.drain(..names.len().saturating_sub(most));
}

fn name_jobs(jobs: &mut Vec<JobId>, added: impl IntoIterator<Item = JobId>) {
    for job in added {
        jobs.retain(|known| *known != job);
        jobs.push(job);
    }
    jobs.drain(..jobs.len().saturating_sub(JOBS_NAMED));
}

fn ms(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).ok().and_then(|since| i64::try_from(since.as_millis()).ok()).unwrap_or(0)
}

fn time(ms: i64) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_millis(ms.max(0).unsigned_abs())).unwrap_or(UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind() -> FailurePattern {
        let other = FailurePattern::new(Fingerprint::of("no"), "no").with(2, "no", "mail", "v1", JobId::given("a").ok());
        let mut failure = FailurePattern::new(other.fingerprint, "no");
        failure.merge(&other, 1_000);
        failure
    }

    #[test]
    fn what_is_kept_comes_back_as_it_was_written() {
        assert_eq!(FailurePattern::decoded(kind().fingerprint, &kind().encoded()), Some(kind()));
        assert_eq!(FailurePattern::decoded(Fingerprint::OTHERS, b"theirs"), None);
    }

    #[test]
    fn the_form_of_a_kind_is_what_the_documents_say() {
        let bytes = b"\x98\xcd\x03\xe8\xcd\x03\xe8\x02\xa2no\xa2no\x91\x92\xa4mail\x02\x91\x92\xa2v1\x02\x91\xa1a";
        assert_eq!(kind().encoded(), bytes);
    }

    #[test]
    fn names_that_were_seen_last_stay() {
        let mut names = Vec::new();
        for name in ["a", "b", "c", "a", "d"] {
            count_names(&mut names, &[(name.to_owned(), 1)], 3);
        }
        assert_eq!(names, [("c".to_owned(), 1), ("a".to_owned(), 2), ("d".to_owned(), 1)]);
        let mut jobs = Vec::new();
        let id = |n: usize| JobId::given(&format!("j{n}")).unwrap();
        name_jobs(&mut jobs, [0, 1, 2, 0, 3, 4, 5].map(id));
        assert_eq!(jobs, [2, 0, 3, 4, 5].map(id));
    }

    #[test]
    fn what_was_not_seen_for_long_is_not_reported() {
        let failure = kind();
        let kept = i64::try_from(FAILURES_SHOWN.as_millis()).unwrap();
        assert!(failure.is_reported(0) && failure.is_reported(1_000 + kept) && !failure.is_reported(1_001 + kept));
    }
}
