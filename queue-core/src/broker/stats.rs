//! The numbers of a queue.

use std::{
    collections::BTreeMap,
    fmt,
    str::FromStr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Serialize, Serializer};

use super::{JobState, OutboxRecord, Pause};
use crate::{
    address::serde_as_text,
    error::{Error, Result},
    json,
};

/// The number of jobs of a queue in each state, and counts of events. From
/// [`Inspector::stats`](crate::inspect::Inspector::stats).
///
/// It is [`Serialize`](serde::Serialize): `jobs` by state, `counters` by name, `lanes`, `workers`,
/// `paused`, `pause`, `aging_ms`, `lost_at`, and `oldest_ms`; the last four may be `null`. If there
/// are any, also `outboxes`.
///
/// ```
/// # use queue_core::prelude::*;
/// use queue_core::broker::{Counter, JobState};
///
/// #[task(queue = "orders")]
/// async fn close(order_id: u64) {}
///
/// # async fn example() -> queue_core::Result<()> {
/// # let queue = Client::connect("sqlite://:memory:").await?;
/// close::job(17).enqueue(&queue).await?;
/// let stats = queue.inspector().stats("orders").await?;
/// assert_eq!((stats.count(JobState::Ready), stats.total(Counter::Enqueued)), (1, 1));
/// # Ok(()) }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct QueueStats {
    /// Registered lanes with a valid lease. A worker has up to four lanes for each queue.
    pub lanes: u64,
    /// Workers with such a lane.
    pub workers: u64,
    /// Whether it is paused.
    pub paused: bool,
    /// The pause of the queue, if it is paused.
    /// [`Inspector::stats`](crate::inspect::Inspector::stats) sets it; a broker does not.
    pub pause: Option<Pause>,
    /// The interval after which its waiting jobs gain one priority; `None`: no aging.
    #[serde(rename = "aging_ms", serialize_with = "json::ms")]
    pub aging: Option<Duration>,
    /// When the broker was last found to have lost data of this queue, or to have been restored
    /// from an older copy (flush, backup, failover): a worker with an unexpired lease registered
    /// again, because the broker did not know it. By the broker's clock.
    #[serde(serialize_with = "json::utc")]
    pub lost_at: Option<SystemTime>,
    /// How long ago the oldest ready job could start for the first time. The first jobs of each
    /// priority are examined, including those of the ten groups that are next in rotation, or else
    /// of ten others, which may be paused or full. By the broker's clock. `None` if no job is
    /// ready, or if it is unknown: it is unknown for a job that has failed or snoozed before, and
    /// for a task whose jobs repeat. The age of a requeued job counts from its enqueue.
    #[serde(rename = "oldest_ms", serialize_with = "json::ms")]
    pub oldest: Option<Duration>,
    /// The outboxes that relays report in this queue, sorted by name: a worker's relay in the first
    /// queue of the worker, another relay in the first queue of its outbox.
    /// [`OutboxRecord::merged`] joins those of several queues.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outboxes: Vec<OutboxRecord>,
    /// Without states that have no jobs.
    #[serde(serialize_with = "of_states")]
    jobs: BTreeMap<JobState, u64>,
    /// Without counters that are 0.
    #[serde(serialize_with = "of_counters")]
    counters: BTreeMap<Counter, u64>,
}

impl QueueStats {
    /// The number of jobs in this state now.
    pub fn count(&self, state: JobState) -> u64 {
        self.jobs.get(&state).copied().unwrap_or(0)
    }

    /// The number of jobs in all states now.
    pub fn jobs(&self) -> u64 {
        self.jobs.values().sum()
    }

    /// Whether it is empty: perhaps the queue does not exist.
    pub(crate) fn is_nothing(&self) -> bool {
        self.jobs.is_empty()
            && self.counters.is_empty()
            && self.lanes == 0
            && self.workers == 0
            && !self.paused
            && self.aging.is_none()
            && self.outboxes.is_empty()
    }

    /// The value of a counter since the queue was created.
    pub fn total(&self, counter: Counter) -> u64 {
        self.counters.get(&counter).copied().unwrap_or(0)
    }

    /// Sets the number of jobs in a state. For brokers.
    #[doc(hidden)]
    pub fn set_count(&mut self, state: JobState, jobs: u64) {
        set(&mut self.jobs, state, jobs);
    }

    /// Records since when each examined ready job could start, in broker milliseconds. For brokers.
    #[doc(hidden)]
    pub fn note_ready_since(&mut self, since_ms: i64, now_ms: i64) {
        let age = Duration::from_millis(u64::try_from(now_ms.saturating_sub(since_ms)).unwrap_or(0));
        self.oldest = self.oldest.max(Some(age));
    }

    /// Sets a counter by its name in storage. For brokers: a name that this release does not know
    /// is skipped.
    #[doc(hidden)]
    pub fn set_total(&mut self, name: &str, total: u64) {
        if name == LOST_AT {
            self.lost_at = UNIX_EPOCH.checked_add(Duration::from_millis(total));
        }
        if let Ok(counter) = name.parse() {
            set(&mut self.counters, counter, total);
        }
    }
}

/// The name under which a broker stores [`QueueStats::lost_at`] among the counters, in
/// milliseconds.
pub const LOST_AT: &str = "lost_at";

fn set<K: Ord>(map: &mut BTreeMap<K, u64>, key: K, value: u64) {
    if value > 0 {
        map.insert(key, value);
    } else {
        map.remove(&key);
    }
}

/// All states, with a 0 for those that have no job.
fn of_states<S: Serializer>(jobs: &BTreeMap<JobState, u64>, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_map(JobState::ALL.map(|state| (state, jobs.get(&state).copied().unwrap_or(0))))
}

fn of_counters<S: Serializer>(counters: &BTreeMap<Counter, u64>, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_map(Counter::ALL.map(|counter| (counter, counters.get(&counter).copied().unwrap_or(0))))
}

/// The most jobs at the head of each priority that are examined to find one with a known age. For
/// brokers.
pub const HEADS: usize = 10;

/// The counters of a queue since it was created. A damaged or deleted counter restarts at 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Counter {
    /// Jobs that were stored.
    Enqueued,
    /// Jobs that were done.
    Done,
    /// Failures: attempts that returned an error, panicked or timed out.
    Failed,
    /// Snoozes.
    Snoozed,
    /// Rounds of repeating jobs.
    Repeated,
    /// Jobs that became dead letters.
    Dead,
    /// Jobs that were cancelled.
    Cancelled,
    /// Jobs that expired.
    Expired,
    /// Jobs that were reclaimed from a crashed worker.
    Reclaimed,
    /// The reclaimed jobs that were charged with a crash.
    Crashed,
    /// The reclaimed jobs whose process was alive: the broker had forgotten its lane.
    Forgotten,
    /// Jobs that a stopping worker returned.
    Returned,
    /// Dead jobs that were requeued.
    Requeued,
    /// Repairs of damage that another program caused.
    Repaired,
    /// Dead jobs that were removed, because they were older than their retention or too many.
    DeadEvicted,
}

impl Counter {
    /// All counters, in the order of a job's life.
    pub const ALL: [Counter; 15] = [
        Counter::Enqueued,
        Counter::Done,
        Counter::Failed,
        Counter::Snoozed,
        Counter::Repeated,
        Counter::Dead,
        Counter::Cancelled,
        Counter::Expired,
        Counter::Reclaimed,
        Counter::Crashed,
        Counter::Forgotten,
        Counter::Returned,
        Counter::Requeued,
        Counter::Repaired,
        Counter::DeadEvicted,
    ];

    /// The name in storage, in JSON and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Counter::Enqueued => "enqueued",
            Counter::Done => "done",
            Counter::Failed => "failed",
            Counter::Snoozed => "snoozed",
            Counter::Repeated => "repeated",
            Counter::Dead => "dead",
            Counter::Cancelled => "cancelled",
            Counter::Expired => "expired",
            Counter::Reclaimed => "reclaimed",
            Counter::Crashed => "crashed",
            Counter::Forgotten => "forgotten",
            Counter::Returned => "returned",
            Counter::Requeued => "requeued",
            Counter::Repaired => "repaired",
            Counter::DeadEvicted => "dead_evicted",
        }
    }
}

impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Counter {
    type Err = Error;

    /// Parses the output of [`Display`](fmt::Display).
    fn from_str(text: &str) -> Result<Self> {
        Counter::ALL.into_iter().find(|counter| counter.name() == text).ok_or_else(|| {
            let known = Counter::ALL.map(Counter::name).join(", ");
            Error::invalid("counter", text, format!("is unknown; use one of {known}"))
        })
    }
}

serde_as_text!(Counter);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_asked_for_by_state_and_by_counter() {
        let mut stats = QueueStats::default();
        stats.set_count(JobState::Ready, 3);
        stats.set_count(JobState::Done, 2);
        stats.set_total("done", 9);
        stats.set_total("of a newer release", 1);
        assert_eq!((stats.count(JobState::Ready), stats.count(JobState::Dead), stats.jobs()), (3, 0, 5));
        assert_eq!((stats.total(Counter::Done), stats.total(Counter::Dead)), (9, 0));
        stats.set_count(JobState::Ready, 0);
        assert_eq!(stats.jobs(), 2);
        let json = serde_json::to_value(&stats).unwrap();
        assert_eq!((&json["jobs"]["done"], &json["jobs"]["ready"]), (&2.into(), &0.into()));
        assert_eq!((&json["counters"]["done"], &json["counters"]["dead_evicted"]), (&9.into(), &0.into()));
    }

    #[test]
    fn a_counter_is_read_as_it_is_printed() {
        for counter in Counter::ALL {
            assert_eq!(counter.to_string().parse::<Counter>().unwrap(), counter);
            assert_eq!(serde_json::from_value::<Counter>(serde_json::to_value(counter).unwrap()).unwrap(), counter);
        }
        assert!("slept".parse::<Counter>().unwrap_err().to_string().contains("dead_evicted"));
    }
}
