//! The closed set of reasons why a job does not run, as words, as JSON and as text.

use std::{fmt, time::SystemTime};

use serde::{Serialize, Serializer};

use super::Running;
use crate::{
    address::JobId,
    broker::{GroupName, JobState, Pause, Rate},
    json,
};

/// Why a job does not run, or that it does. From
/// [`Inspector::why`](crate::inspect::Inspector::why).
///
/// [`Serialize`] writes an object with `reason` ([`name`](Reason::name)), `text`, `until` and
/// `holders` where there are any.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(remote = "Self", tag = "reason", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// It is not due: it was enqueued with a delay, or has snoozed or repeated.
    NotDue {
        /// When it is due; `None` if unreadable.
        #[serde(skip)]
        until: Option<SystemTime>,
    },
    /// It failed, and waits for its next attempt.
    Retry {
        /// When that is; `None` if that cannot be read.
        #[serde(skip)]
        until: Option<SystemTime>,
        /// How many attempts have failed.
        failures: u32,
    },
    /// Another job has its unique key. It waits until that one has ended.
    KeyHeld {
        /// The job that has the key.
        #[serde(skip)]
        holder: Option<JobId>,
        /// The earliest time at which it starts even then.
        #[serde(skip)]
        until: Option<SystemTime>,
    },
    /// No live worker knows its task. It is parked.
    NoWorkerForTask {
        /// The task; `None` if the job cannot be decoded.
        task: Option<String>,
        /// The releases of live workers, sorted.
        releases: Vec<String>,
    },
    /// Its parameters could not be read by these releases. It is parked until a worker of another
    /// release reads them.
    Unreadable {
        /// The releases that have failed.
        releases: Vec<String>,
        /// When it becomes a dead letter.
        #[serde(skip)]
        until: Option<SystemTime>,
    },
    /// Its queue is paused.
    QueuePaused {
        /// The operator, the reason and the end.
        pause: Pause,
    },
    /// Its task is paused: it is parked as soon as a worker would take it.
    TaskPaused {
        /// The task.
        task: String,
        /// The operator, the reason and the end.
        pause: Pause,
    },
    /// No live worker serves its queue.
    NoWorker,
    /// All live workers of its queue were asked to claim nothing, or to stop.
    WorkersQuiet {
        /// The number of these workers.
        workers: u64,
    },
    /// Its group is paused.
    GroupPaused {
        /// The group.
        group: GroupName,
        /// The operator, the reason and the end.
        pause: Pause,
    },
    /// Its group is at its cap.
    GroupFull {
        /// The group.
        group: GroupName,
        /// How many may.
        cap: u32,
        /// How many run.
        running: u64,
        /// Some of the running jobs.
        #[serde(skip)]
        holders: Vec<JobId>,
    },
    /// Its group is ordered, and an earlier job has not ended.
    OutOfOrder {
        /// The group.
        group: GroupName,
        /// The earlier job.
        #[serde(skip)]
        holder: JobId,
    },
    /// All slots of a limit are held.
    LimitFull {
        /// The limit.
        limit: String,
        /// The values of the key, as in [`JobRecord::limits`](crate::inspect::JobRecord::limits);
        /// empty if the limit has one key.
        key: String,
        /// How many may run.
        concurrency: u32,
        /// How many run.
        running: u64,
        /// Some of the running jobs.
        #[serde(skip)]
        holders: Vec<JobId>,
    },
    /// The rate of a limit permits the job only later, or a handler has ended with
    /// [`Outcome::RateLimited`](crate::Outcome::RateLimited).
    RateLimited {
        /// The limit.
        limit: String,
        /// The values of the key, as in [`JobRecord::limits`](crate::inspect::JobRecord::limits);
        /// empty if the limit has one key.
        key: String,
        /// The rate, if the limit has one.
        rate: Option<Rate>,
        /// When the next job of this cost may start, unless another job starts first.
        #[serde(skip)]
        until: Option<SystemTime>,
    },
    /// A process crashed while it ran, so it starts only in a process without another such job.
    Suspect {
        /// The maximum number of suspects before it.
        jobs: u64,
    },
    /// Others go first.
    Behind {
        /// The maximum number of jobs of its line before it: those of its group, or those without
        /// one.
        jobs: u64,
        /// How many other groups share the queue with that line.
        groups: u64,
    },
    /// The worker that ran it is dead or out of reach. The job is being reclaimed.
    Reclaiming {
        /// When its lease expired; `None` if the broker does not know its lane.
        #[serde(serialize_with = "json::utc")]
        since: Option<SystemTime>,
    },
    /// It runs.
    Runs(Running),
    /// It has ended.
    Ended {
        /// How.
        state: JobState,
        /// When.
        #[serde(serialize_with = "json::utc")]
        at: Option<SystemTime>,
    },
}

impl Reason {
    /// All [names](Self::name).
    pub const NAMES: [&str; 19] = [
        "not_due",
        "retry",
        "key_held",
        "no_worker_for_task",
        "unreadable",
        "queue_paused",
        "task_paused",
        "no_worker",
        "workers_quiet",
        "group_paused",
        "group_full",
        "out_of_order",
        "limit_full",
        "rate_limited",
        "suspect",
        "behind",
        "reclaiming",
        "runs",
        "ended",
    ];

    /// The word for it everywhere, one of [`NAMES`](Self::NAMES).
    pub fn name(&self) -> &'static str {
        match self {
            Reason::NotDue { .. } => "not_due",
            Reason::Retry { .. } => "retry",
            Reason::KeyHeld { .. } => "key_held",
            Reason::NoWorkerForTask { .. } => "no_worker_for_task",
            Reason::Unreadable { .. } => "unreadable",
            Reason::QueuePaused { .. } => "queue_paused",
            Reason::TaskPaused { .. } => "task_paused",
            Reason::NoWorker => "no_worker",
            Reason::WorkersQuiet { .. } => "workers_quiet",
            Reason::GroupPaused { .. } => "group_paused",
            Reason::GroupFull { .. } => "group_full",
            Reason::OutOfOrder { .. } => "out_of_order",
            Reason::LimitFull { .. } => "limit_full",
            Reason::RateLimited { .. } => "rate_limited",
            Reason::Suspect { .. } => "suspect",
            Reason::Behind { .. } => "behind",
            Reason::Reclaiming { .. } => "reclaiming",
            Reason::Runs(_) => "runs",
            Reason::Ended { .. } => "ended",
        }
    }

    /// The short form for a column: `not due`, `group acme 4/4`, `behind 12`.
    pub fn brief(&self) -> String {
        match self {
            Reason::GroupPaused { group, .. } => format!("group {group} paused"),
            Reason::GroupFull { group, cap, running, .. } => format!("group {group} {running}/{cap}"),
            Reason::OutOfOrder { group, .. } => format!("order of group {group}"),
            Reason::LimitFull { limit, key, concurrency, running, .. } => format!("limit {} {running}/{concurrency}", short(limit, key)),
            Reason::RateLimited { limit, key, .. } => format!("rate of {}", short(limit, key)),
            Reason::Behind { jobs: 0, groups: 0 } => "next".to_owned(),
            Reason::Behind { jobs, groups: 0 } => format!("behind {jobs}"),
            Reason::Behind { jobs, groups } => format!("behind {jobs}, in rotation with {}", count(*groups, "group")),
            Reason::NoWorkerForTask { .. } => "no worker for its task".to_owned(),
            reason => reason.name().replace('_', " "),
        }
    }

    /// The latest end of this reason, or the earliest if it also depends on other jobs. `None` if
    /// only other jobs or an operator end it.
    pub fn until(&self) -> Option<SystemTime> {
        match self {
            Reason::NotDue { until }
            | Reason::Retry { until, .. }
            | Reason::KeyHeld { until, .. }
            | Reason::Unreadable { until, .. }
            | Reason::RateLimited { until, .. } => *until,
            Reason::QueuePaused { pause } | Reason::GroupPaused { pause, .. } | Reason::TaskPaused { pause, .. } => pause.until,
            _ => None,
        }
    }

    /// When the lease ended of the worker that ran it: of [`Reclaiming`](Reason::Reclaiming).
    pub fn since(&self) -> Option<SystemTime> {
        match self {
            Reason::Reclaiming { since } => *since,
            _ => None,
        }
    }

    /// The jobs for which it waits, at most [`HOLDERS_NAMED`](crate::broker::HOLDERS_NAMED) of
    /// them.
    pub fn holders(&self) -> &[JobId] {
        match self {
            Reason::KeyHeld { holder: Some(holder), .. } | Reason::OutOfOrder { holder, .. } => std::slice::from_ref(holder),
            Reason::GroupFull { holders, .. } | Reason::LimitFull { holders, .. } => holders,
            _ => &[],
        }
    }
}

/// The reason in words, without its times and jobs: [`until`](Reason::until),
/// [`since`](Reason::since) and [`holders`](Reason::holders) return these.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NotDue { .. } => f.write_str("it is not due yet"),
            Reason::Retry { failures, .. } => write!(f, "it waits for its next attempt, after failure {failures}"),
            Reason::KeyHeld { .. } => f.write_str("another job holds its unique key"),
            Reason::NoWorkerForTask { task, releases } => {
                let task = task.as_deref().unwrap_or("(unreadable)");
                write!(f, "no live worker has the task `{task}`{}", of_releases(releases))
            }
            Reason::Unreadable { releases, .. } => {
                write!(
                    f,
                    "release {} cannot read its parameters: it becomes a dead letter unless another release reads them",
                    releases.join(", ")
                )
            }
            Reason::QueuePaused { pause } => write!(f, "its queue is {pause}"),
            Reason::NoWorker => f.write_str("no live worker serves its queue"),
            Reason::WorkersQuiet { workers: 1 } => {
                f.write_str("the only worker of its queue claims nothing: it is quiet or stopping; `workers resume` ends quiet")
            }
            Reason::WorkersQuiet { workers } => {
                write!(f, "all {workers} workers of its queue claim nothing: they are quiet or stopping; `workers resume` ends quiet")
            }
            Reason::TaskPaused { task, pause } => write!(f, "its task `{task}` is {pause}"),
            Reason::GroupPaused { group, pause } => write!(f, "its group `{group}` is {pause}"),
            Reason::GroupFull { group, cap: 0, .. } => write!(f, "its group `{group}` is closed: its cap is 0"),
            Reason::GroupFull { group, cap, running, .. } => write!(f, "its group `{group}` is at its cap: {running} of {cap} run"),
            Reason::OutOfOrder { group, .. } => write!(f, "its group `{group}` is ordered, and an earlier job has not ended"),
            Reason::LimitFull { limit, key, concurrency: 0, .. } => {
                write!(f, "its limit {} is closed: its concurrency is 0", named(limit, key))
            }
            Reason::LimitFull { limit, key, concurrency, running, .. } => {
                write!(f, "its limit {} is full: {running} of {concurrency} run", named(limit, key))
            }
            Reason::RateLimited { limit, key, rate: Some(rate), .. } => {
                write!(f, "its limit {} has reached its rate ({rate})", named(limit, key))
            }
            Reason::RateLimited { limit, key, rate: None, .. } => write!(f, "its limit {} has reached its rate", named(limit, key)),
            Reason::Suspect { jobs } => {
                write!(
                    f,
                    "its worker process crashed while it ran: it waits for a worker that runs no other such job, behind {}",
                    others(*jobs)
                )
            }
            Reason::Behind { jobs: 0, groups: 0 } => f.write_str("it is next: the first worker with a free slot takes it"),
            Reason::Behind { jobs, groups: 0 } => write!(f, "behind {}", others(*jobs)),
            Reason::Behind { jobs, groups } => {
                write!(f, "behind {} of its own group, in rotation with {}", others(*jobs), count(*groups, "other group"))
            }
            Reason::Reclaiming { .. } => f.write_str("its worker has crashed or is unreachable: the job is being reclaimed"),
            Reason::Runs(running) if running.host.is_empty() => write!(f, "it runs, in worker {}", running.worker),
            Reason::Runs(running) => write!(f, "it runs, on {} in process {}", running.host, running.pid),
            Reason::Ended { state, .. } => write!(f, "it has ended: {state}"),
        }
    }
}

/// A limit and its key.
fn named(limit: &str, key: &str) -> String {
    if key.is_empty() { format!("`{limit}`") } else { format!("`{limit}` of `{key}`") }
}

fn short(limit: &str, key: &str) -> String {
    if key.is_empty() { limit.to_owned() } else { format!("{limit} {key}") }
}

fn of_releases(releases: &[String]) -> String {
    match releases {
        [] => String::new(),
        releases => format!(" (release {})", releases.join(", ")),
    }
}

fn others(jobs: u64) -> String {
    match jobs {
        0 => "no other".to_owned(),
        jobs => format!("at most {}", count(jobs, "other")),
    }
}

fn count(n: u64, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Whole<'a> {
            #[serde(flatten, serialize_with = "Reason::serialize")]
            reason: &'a Reason,
            text: String,
            #[serde(serialize_with = "json::utc", skip_serializing_if = "Option::is_none")]
            until: Option<SystemTime>,
            #[serde(skip_serializing_if = "<[JobId]>::is_empty")]
            holders: &'a [JobId],
        }
        Whole { reason: self, text: self.to_string(), until: self.until(), holders: self.holders() }.serialize(serializer)
    }
}
