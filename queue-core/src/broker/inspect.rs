//! The broker interface for operators: list, show, change, pause and audit.

use std::{fmt, str::FromStr};

use async_trait::async_trait;

use super::{
    AgingSet, AskWorker, Audit, BuryReason, Change, Changed, Damage, EditJob, EditedJob, GroupList, GroupName, GroupPage, GroupSet,
    KeyHolder, LimitKey, LimitKeys, LimitSet, Operate, Operated, Operation, Pauses, Priority, QueueStats, Retention, Rewind, Rewound, Scan,
    Scanned, ScheduleList, SchedulePage, SetAging, SetGroup, SetLimit, SetPause, Standing, StoredEvent, StoredLimit, StoredLimitKey,
    StoredPage, StoredRemarks, StoredTopic, Transitions, UniqueKey, WorkerAsked, WorkerRecord, failed_releases,
    history::{FailureKind, History, HistorySpan},
    stored_release,
};
use crate::{
    address::{JobId, serde_as_text},
    error::{Error, Result},
    text::cut,
};

#[doc = include_str!("../docs/states.md")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum JobState {
    /// Waits for its time: it was enqueued with a delay, or has snoozed or repeated.
    Scheduled,
    /// Waits for a free slot.
    Ready,
    /// Held by a worker under a lease.
    Active,
    /// Failed, and waits for its backoff.
    Retry,
    /// Waits for a worker that has its task, for a release that can read it, or until its paused
    /// task is resumed.
    Parked,
    /// Waits until the job that holds its key has ended.
    Held,
    /// Completed; kept only where retention was asked for.
    Done,
    /// Failed for good; kept with reason, error history and payload.
    Dead,
    /// Cancelled by an operator or by its handler; kept for 24 hours.
    Cancelled,
    /// Its time to start had passed; kept for 24 hours.
    Expired,
}

impl JobState {
    /// All, in the order in which they are printed.
    pub const ALL: [JobState; 10] = [
        JobState::Scheduled,
        JobState::Ready,
        JobState::Active,
        JobState::Retry,
        JobState::Parked,
        JobState::Held,
        JobState::Done,
        JobState::Dead,
        JobState::Cancelled,
        JobState::Expired,
    ];

    /// The word for it everywhere.
    pub fn name(self) -> &'static str {
        match self {
            JobState::Scheduled => "scheduled",
            JobState::Ready => "ready",
            JobState::Active => "active",
            JobState::Retry => "retry",
            JobState::Parked => "parked",
            JobState::Held => "held",
            JobState::Done => "done",
            JobState::Dead => "dead",
            JobState::Cancelled => "cancelled",
            JobState::Expired => "expired",
        }
    }

    /// True if the job does not change any more, unless an operator changes it.
    pub fn is_final(self) -> bool {
        matches!(self, JobState::Done | JobState::Dead | JobState::Cancelled | JobState::Expired)
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for JobState {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        JobState::ALL.into_iter().find(|state| state.name() == text).ok_or_else(|| {
            let known: Vec<_> = JobState::ALL.iter().map(|state| state.name()).collect();
            Error::invalid("state", text, format!("is unknown; use one of {}", known.join(", ")))
        })
    }
}

serde_as_text!(JobState);

/// How long cancelled and expired jobs are kept.
pub const ENDED_KEEP: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

/// One failure in a job's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// When, in broker milliseconds since 1970.
    pub at_ms: i64,
    /// The error's message.
    pub message: String,
}

/// Most failures kept of a job; the oldest go first.
pub const FAILURES_KEPT: usize = 10;

/// Most bytes of an error's message in a listing.
pub const LISTED_ERROR: usize = 512;

/// Everything known about one job, as it is stored. People get the decoded [`JobRecord`](crate::JobRecord).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoredJob {
    /// Its id.
    pub id: JobId,
    /// Its state.
    pub state: JobState,
    /// The stored envelope.
    pub envelope: Vec<u8>,
    /// Its priority.
    pub priority: Priority,
    /// How often its handler has failed.
    pub attempts: u32,
    /// How many crashes it was charged with.
    pub crashes: u32,
    /// How often it has snoozed.
    pub snoozes: u32,
    /// How often a service that it calls has had enough.
    pub rate_limited: u32,
    /// How often a run of it was stopped because its worker stopped: it was released, uncharged.
    pub releases: u32,
    /// When it was last released so, in broker milliseconds since 1970.
    pub released_ms: Option<i64>,
    /// When it is due (`scheduled`, `retry`, and `held`, which may be later) or has ended (final states), in broker milliseconds since 1970.
    pub at_ms: Option<i64>,
    /// When it rises by one priority, while it is `ready` in a queue with aging and may rise, in broker milliseconds since 1970.
    pub rises_ms: Option<i64>,
    /// Its tag while `active`: the lane and the claim number.
    pub tag: Option<String>,
    /// Its last failures, oldest first.
    pub failures: Vec<Failure>,
    /// Why it is dead.
    pub reason: Option<BuryReason>,
    /// Its encoded result, when `done` and kept.
    pub result: Option<Vec<u8>>,
    /// Why it was cancelled.
    pub note: Option<String>,
    /// The key with which it was enqueued, whether it holds it or not.
    pub unique: Option<UniqueKey>,
    /// Its group, if it has one.
    pub group: Option<GroupName>,
    /// The keys of the limits that it is subject to.
    pub limits: Vec<LimitKey>,
    /// Which releases could not read it, while it is `parked` for that.
    pub unreadable: Option<Unreadable>,
}

/// Of a job that is parked because releases could not read it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unreadable {
    /// The releases, sorted.
    pub releases: Vec<String>,
    /// When it is buried, in broker milliseconds since 1970; 0 if that is not known.
    pub until_ms: i64,
}

impl StoredJob {
    /// A job with clean counters.
    pub fn new(id: JobId, state: JobState, envelope: Vec<u8>) -> Self {
        StoredJob {
            id,
            state,
            envelope,
            priority: Priority::Normal,
            attempts: 0,
            crashes: 0,
            snoozes: 0,
            rate_limited: 0,
            releases: 0,
            released_ms: None,
            at_ms: None,
            rises_ms: None,
            tag: None,
            failures: Vec::new(),
            reason: None,
            result: None,
            note: None,
            unreadable: None,
            unique: None,
            group: None,
            limits: Vec::new(),
        }
    }

    /// As a listing has it: without its result, and of its failures the last alone, whose message is cut at [`LISTED_ERROR`].
    pub fn listed(mut self) -> Self {
        self.result = None;
        let last = self.failures.pop();
        self.failures = last.into_iter().collect();
        for failure in &mut self.failures {
            failure.message = cut(std::mem::take(&mut failure.message), LISTED_ERROR);
        }
        self
    }
}

impl Unreadable {
    /// Of a job that is parked under this name; `None` if no release has failed on it.
    pub(crate) fn of(name: &str) -> Option<Self> {
        let releases: Vec<String> = failed_releases(name).map(str::to_owned).collect();
        (!releases.is_empty()).then_some(Unreadable { releases, until_ms: 0 })
    }

    /// One more release has failed on the job.
    #[cfg_attr(not(feature = "sqlite"), allow(dead_code, reason = "on Redis scripts do it"))]
    pub(crate) fn add(&mut self, release: &str) {
        let release = stored_release(release);
        if let Err(at) = self.releases.binary_search(&release) {
            self.releases.insert(at, release);
        }
    }
}

/// The administrative half of a broker. No job depends on it; pages and scans are bounded.
#[async_trait]
pub trait Inspect: Send + Sync {
    /// The registered queues, sorted by name.
    async fn queues(&self) -> Result<Vec<String>>;

    /// Depth and counters of a queue.
    async fn stats(&self, queue: &str) -> Result<QueueStats>;

    /// What happened in a queue up to now, as its workers [reported](super::Broker::report) it.
    /// Empty for an unknown queue.
    async fn history(&self, queue: &str, span: HistorySpan) -> Result<History>;

    /// How runs of a queue have failed, as its workers [reported](super::Broker::report) it: what
    /// was seen last comes first. Empty for an unknown queue.
    async fn failures(&self, queue: &str) -> Result<Vec<FailureKind>>;

    /// The workers with a lane in this queue: their records, lanes and leases. The lease of some
    /// may have run out. Empty for an unknown queue.
    async fn workers(&self, queue: &str) -> Result<Vec<WorkerRecord>>;

    /// A page of the jobs in one state, at most `limit` (1 to 500), from `offset`: 0, the `next` of the page before, a number of jobs to
    /// leave out, or [`LAST`](super::LAST). A page may be empty although `next` is set.
    async fn list(&self, queue: &str, state: JobState, offset: u64, limit: usize) -> Result<StoredPage>;

    /// One bounded step through the jobs of some states, in an order of the broker's own. A job that is in one of the states from the first step to the
    /// last, and stays in its place, is found once, although other jobs come and go meanwhile. Where the scan [meets those that move](Scan::meeting_movers), a job that is in one of the states all
    /// the time is found wherever it goes, at least once.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a place that this broker has not made.
    async fn scan(&self, request: &Scan) -> Result<Scanned>;

    /// Everything about one job; `None` if the broker does not have it.
    async fn show(&self, queue: &str, id: &JobId) -> Result<Option<StoredJob>>;

    /// Where jobs stand, in one transition: one answer per id, in order; `None` if the broker does not have the job. At most
    /// [`MAX_ITEMS`](super::MAX_ITEMS). Numbers of jobs that go first are exact among a hundred, and may be larger than the truth beyond.
    async fn standing(&self, queue: &str, ids: &[JobId]) -> Result<Vec<Option<Standing>>>;

    /// The [progress](super::Broker::remark) of a job, and the lines of its log from this number
    /// on; 0 for all stored lines. `None` if the broker does not have the job.
    async fn remarks(&self, queue: &str, id: &JobId, from: u64) -> Result<Option<StoredRemarks>>;

    /// Schedules of a queue, with their definitions and states.
    async fn schedules(&self, queue: &str, which: &ScheduleList) -> Result<SchedulePage>;

    /// Changes jobs as a person wants. One answer per id, in order. A cancel keeps the `reason` as the note of the job; other changes have none.
    async fn change(&self, queue: &str, change: Change, reason: Option<&str>, ids: &[JobId]) -> Result<Vec<Changed>>;

    /// Edits a job that waits, if it is as it was seen, in one transition. Its key, its group and its limits are given back and taken with it. A job that is
    /// ready comes to the tail of its line when its priority, group or limits change, and keeps its place otherwise.
    ///
    /// # Errors
    /// `BrokerFull`, and then nothing was changed; `FeatureUnknown` for a priority, a group or limits while a worker of an older release serves the queue.
    async fn edit(&self, request: &EditJob) -> Result<EditedJob>;

    /// Who holds a key; `None` if it is free.
    async fn key_holder(&self, queue: &str, key: &UniqueKey) -> Result<Option<KeyHolder>>;

    /// Releases a key, and returns the job that held it. The job that held the key continues. The
    /// job that is `held` for the key gets it, and may start.
    async fn release_key(&self, queue: &str, key: &UniqueKey) -> Result<Option<KeyHolder>>;

    /// Groups of a queue, with their rules.
    async fn groups(&self, queue: &str, which: &GroupList) -> Result<GroupPage>;

    /// Sets the rule of a group, of all groups, or of plain jobs, if it is the one that was read. It holds from the next claim on: a smaller cap stops
    /// no job that runs. A rule that is removed takes no job with it.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a rule that cannot be, and for one more than the [most](super::GROUP_RULES) of a queue; `BrokerFull`.
    async fn set_group(&self, request: &SetGroup) -> Result<GroupSet>;

    /// The limits of a queue, all or the one of this name, by name.
    async fn limits(&self, queue: &str, name: Option<&str>) -> Result<Vec<StoredLimit>>;

    /// Keys of limits: who holds them, and when they let the next job start. It is what holds a job back, asked for the keys that a job has.
    async fn limit_keys(&self, queue: &str, which: &LimitKeys) -> Result<Vec<StoredLimitKey>>;

    /// Changes a limit, if it is stored as it was read. It holds from the next claim on: a smaller concurrency stops no job that runs. A limit that is
    /// removed takes no job with it.
    ///
    /// # Errors
    /// [`Error::Invalid`] for one more than the [most](super::LIMIT_RULES) of a queue; `BrokerFull`.
    async fn set_limit(&self, request: &SetLimit) -> Result<LimitSet>;

    /// Changes how often jobs of a queue rise that wait, if what is stored is what was read. Jobs that come to wait from then on rise by it. When nothing holds
    /// any more, none of those that wait rises further; they keep the priority to which they have risen.
    ///
    /// # Errors
    /// `FeatureUnknown` while a lane of an older library is registered; `BrokerFull`.
    async fn set_aging(&self, request: &SetAging) -> Result<AgingSet>;

    /// The names of all topics to which something was published or somebody subscribed, sorted.
    async fn topics(&self) -> Result<Vec<String>>;

    /// A topic with its subscriptions; `None` if there is nothing of it.
    async fn topic(&self, topic: &str) -> Result<Option<StoredTopic>>;

    /// Entries of the log of a topic behind this position, or from the oldest on, at most `limit` and [`ENTRIES_READ`](super::ENTRIES_READ).
    async fn read_topic(&self, topic: &str, after: Option<&str>, limit: usize) -> Result<Vec<StoredEvent>>;

    /// Sets what a topic keeps. What is `None` stays as it is.
    async fn set_retention(&self, topic: &str, retention: Retention) -> Result<()>;

    /// Removes a subscription: it reads nothing any more, and nothing waits for it. What it has taken stays in its queue. False: there is none.
    async fn unsubscribe(&self, topic: &str, subscription: &str) -> Result<bool>;

    /// Sends a request to a worker that has reported its load in this queue with a heartbeat. It
    /// receives the request with its next heartbeat of that kind. The request goes with the last
    /// lane of the worker in this queue. Works on a full broker.
    async fn ask_worker(&self, request: &AskWorker) -> Result<WorkerAsked>;

    /// One bounded step of a [rewind](super::Rewind) of a subscription.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a mark that is no position of this log.
    async fn rewind(&self, request: &Rewind) -> Result<Rewound>;

    /// The pauses of a queue and its tasks. The pause of a group is part of its rule.
    async fn pauses(&self, queue: &str) -> Result<Pauses>;

    /// Pauses or resumes a queue, a group or a task; enqueues and endings continue. What is paused
    /// gets the new end and reason. When an end has come, the next turn that is made after it ends
    /// the pause. [`next_due`](super::TurnAnswer::next_due) takes the end into account, so that
    /// idle lanes come in time.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an end that has passed by the broker's clock, and for one [rule](super::GROUP_RULES) of a group or one
    /// [paused task](super::PAUSED_TASKS) too many; `FeatureUnknown` for an end, or a task, while a lane of an older library is registered.
    async fn set_pause(&self, request: &SetPause) -> Result<()>;

    /// Transitions of a queue behind that of a number, about `limit` of them, in their order. While no watcher [follows](super::Broker::follow) the queue there
    /// are no new ones, and those that are kept may go. That a record goes of a job that has ended is no transition.
    async fn transitions(&self, queue: &str, after: u64, limit: usize) -> Result<Transitions>;

    /// The operations of a queue: that which is under way, and those that have ended and are kept. In no order.
    async fn operations(&self, queue: &str) -> Result<Vec<Operation>>;

    /// One transition of an [operation](Operate), with the jobs that it changes. It may be sent again, unchanged: a replay changes nothing. Works on a full broker.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what [`Operate::check`] refuses.
    async fn operate(&self, request: &Operate) -> Result<Operated>;

    /// Searches a queue for damage that another program did, and repairs it if `how` allows, in bounded steps between which others work.
    async fn audit(&self, queue: &str, how: Audit) -> Result<Vec<Damage>>;

    /// Checks the list of all queues, and repairs it if `repair` is true.
    async fn audit_queues(&self, repair: bool) -> Result<Vec<Damage>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_as_it_is_printed() {
        for state in JobState::ALL {
            assert_eq!(state.to_string().parse::<JobState>().unwrap(), state);
            assert_eq!(serde_json::to_value(state).unwrap(), state.name());
            assert_eq!(serde_json::from_value::<JobState>(state.name().into()).unwrap(), state);
        }
        assert!(serde_json::from_str::<JobState>("\"asleep\"").unwrap_err().to_string().contains("scheduled"));
    }
}
