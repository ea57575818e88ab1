//! Every verb of a broker, declared once: its effect, its callers, whether it reads or changes, its
//! arguments and its answer.
//!
//! A line `viewer|worker read fn stats(queue: &str) -> Result<QueueStats>` becomes a method
//! `async fn stats(&self, queue: &str) -> Result<QueueStats>` of the trait, which both brokers
//! implement, a method of [`Wrapper`] that passes the call on, and an entry of [`VERBS`].
//! `wrapper.rs` has the macro. Operators also call all verbs of viewers.

use std::{fmt::Debug, time::Duration};

use super::{
    history::{FailurePattern, History, HistorySpan, Report},
    wrapper::contract,
    *,
};
use crate::{address::JobId, alarm::Alarm, clock::Clock, error::Result, io::BoxFuture};

contract! {
    /// A store of jobs: Redis, SQLite, or a wrapper around another broker.
    ///
    /// Every method is one atomic transition, or a bounded series of them if its documentation
    /// states so. Each has a separate deadline: without an answer it returns
    /// [`Error::Ambiguous`](crate::Error::Ambiguous). A method retries a request only if the
    /// request was certainly not carried out. Requests over [`MAX_ITEMS`] are a caller's mistake
    /// and are refused.
    ///
    /// The trait is sealed until 1.0: methods will be added.
    trait Broker: Inspect;

    local {
        /// The kind and the location of this broker.
        fn info() -> BrokerInfo;

        /// Runs a task on the broker's own I/O thread: heartbeats, lanes, batching. It must never
        /// block.
        fn spawn(task: BoxFuture<'static, ()>);

        /// A timer for a task on the I/O thread; call it there. [`Alarm::default`] is as precise as
        /// the runtime's clock.
        fn alarm() -> Alarm;

        /// The clock of its clients: that of the machine, unless a test owns the time of the
        /// broker.
        fn clock() -> Clock;

        /// Announcements that the first job of a queue is ready, or that the earliest due time of
        /// its jobs has changed. A hint may be lost or wrong; only a poll is certain.
        fn hints(queue: &str) -> Hints;

        /// Announcements that a schedule of a queue is due at a time before all others, or now. A
        /// hint may be lost.
        fn tick_hints(queue: &str) -> Hints;

        /// Announcements that this job has ended, or may have ended, while a program
        /// [watches](Self::watch) it. A hint may be lost or wrong.
        fn ending_hints(queue: &str, id: &JobId) -> Hints;

        /// Announcements that a program [watches](Self::watch) a job of a queue, or that a job of
        /// it was cancelled while it ran: its worker receives the cancel with its next
        /// [heartbeat](Self::extend). Not every mark is announced, but one in a second at least. A
        /// hint may be lost.
        fn watch_hints(queue: &str) -> Hints;

        /// Announcements of new progress or log lines of this job, if it is [watched](Self::watch).
        /// A hint may be lost or wrong.
        fn progress_hints(queue: &str, id: &JobId) -> Hints;

        #[doc(hidden)]
        fn __sealed(seal: sealed::Seal);
    }
    verbs {
        /// Connects to the broker and checks what work needs: version, credentials, schema, and
        /// settings that would lose jobs (an eviction policy).
        ///
        /// # Errors
        /// An error that names the change to make;
        /// [`Error::Unavailable`](crate::Error::Unavailable) when it cannot be reached.
        producer read fn check() -> Result<()>;

        /// Registers a lane or a producer, and returns its name and the broker's time (R1). Not
        /// idempotent: a repeated request creates a second name, which is not used and is removed
        /// after its lease. Also adds the queue to the list of all queues.
        ///
        /// The first lane of a worker in a queue stores the worker's [record](WorkerInfo) there.
        /// The record stays as it is until the worker has no lane in this queue any more, however
        /// its lanes went.
        producer|worker|operator change fn register(request: &Register) -> Result<Registered>;

        /// Stores jobs: → `ready`, or `scheduled` when they have a delay (R12). One answer per job,
        /// in order.
        ///
        /// A replay (`seq` = last) returns the stored answers and writes nothing. A chosen id that
        /// exists is answered, not stored. Then the [key](NewJob::unique) is acquired: if another
        /// job holds it, the new job is skipped, changes that job, or waits for it as `held`. Jobs
        /// of one request are processed in order, so that each sees the keys of the earlier ones.
        ///
        /// At the [address of a topic](topic_address) the jobs are events: each is appended to the
        /// log of the topic, and answered `Stored`. The client also calls this on the application's
        /// threads, in any runtime or in none.
        ///
        /// # Errors
        /// `Forgotten` if the producer is unknown; `Old` if `seq` is below the last; `BrokerFull`
        /// for a full broker, which has stored nothing.
        producer|operator change fn enqueue(request: &Enqueue) -> Result<Vec<Enqueued>>;

        /// Enqueues, then waits at most two seconds until the jobs are as durable as `confirm`
        /// requires. Returns their durability.
        ///
        /// # Errors
        /// Those of [`enqueue`](Self::enqueue). A lower durability than requested is not an error.
        producer change fn enqueue_confirmed(request: &Enqueue, confirm: &Confirm) -> Result<(Vec<Enqueued>, Confirmed)>;

        /// The failures that acknowledged jobs survive, at least. A server whose settings cannot be
        /// read may be more durable.
        viewer|producer read fn durability() -> Result<Durability>;

        /// The free space, and whether the broker refuses new jobs. Workers call it about once per
        /// heartbeat, and operators with `status` and `doctor`. A broker that cannot determine it
        /// returns [`Condition::default`].
        viewer|worker read fn condition() -> Result<Condition>;

        /// Settles the endings of [`Turn::finishes`], then promotes due jobs and claims up to
        /// [`Turn::claim`] jobs, in one transition (R2 to R5).
        ///
        /// An ending whose receipt the broker does not have is stale: it changes nothing, and its
        /// position is in [`TurnAnswer::stale`]. In the queue of a [subscription](Subscribe) the
        /// turn first reads further entries of the topic's log and makes a job of each. It reads
        /// while fewer jobs could start than [`Turn::claim`] requests and fewer than [`MOST_TAKEN`]
        /// have not ended. A full broker reads no entries, and carries out the rest.
        ///
        /// A replay (`seq` = last) writes nothing and returns the same stale positions and
        /// deliveries. In a replay, a delivery whose receipt the broker does not have is
        /// [`void`](Delivery::void).
        ///
        /// # Errors
        /// `Forgotten` if the lane has no entry, or `seq` is more than one above the last; `Old` if
        /// it is below the last.
        worker change fn turn(turn: &Turn) -> Result<TurnAnswer>;

        /// Whether a queue has waiting jobs. If it has none, a turn would find nothing to claim. A
        /// broker for which the question costs about as much as a turn answers `true`.
        worker read fn has_work(queue: &str) -> Result<bool>;

        /// Renews the leases of several lanes, of any queues (R6). Never creates an entry. Works on
        /// a full broker.
        ///
        /// One answer per lane, in order: `Forgotten` if the entry is gone or older than the last
        /// answered turn.
        worker change fn extend(lanes: &[Extend]) -> Vec<Result<Extended>>;

        /// The overdue lanes of a queue (R7, first check): lanes whose lease has expired, and lanes
        /// whose lease ends later than a lease that is renewed now. Of each kind at most `limit`,
        /// after the first `skip`. Also the number of fenced lanes.
        ///
        /// A reclaimer requests the next page while a page has `limit` lanes of the first kind, or
        /// any of the second. For the second kind, a broker may examine at most `limit` lanes,
        /// beginning with the latest ends. A page of live lanes with longer leases may hide the
        /// others until their leases have ended.
        worker read fn overdue(queue: &str, skip: usize, limit: usize) -> Result<OverdueLanes>;

        /// Fences each lane whose deadline is unchanged since the first check and which is still
        /// overdue (R7, second check): its entry is removed. Returns for each lane, in order,
        /// whether it was fenced. At most [`MAX_ITEMS`].
        worker change fn fence(queue: &str, lanes: &[OverdueLane]) -> Result<Vec<bool>>;

        /// Reclaims the jobs of every fenced lane in bounded steps: → `retry`, `ready` or `dead`,
        /// by the [`CrashRule`] (R7). A fenced lane is removed only after a complete pass over the
        /// active jobs that began after the lane was fenced. Any reclaimer can continue the work of
        /// another one.
        worker change fn reclaim(queue: &str, rule: &CrashRule) -> Result<Reclaimed>;

        /// One bounded round of housekeeping: removes idle producers, remembered ids, and records
        /// past their retention.
        worker|operator change fn sweep(queue: &str, limits: &SweepLimits) -> Result<Swept>;

        /// Adds a worker's counts to the [history](history) of its queue and to its
        /// [failures](Inspect::failures), with the number of ready jobs. The stored data grows up
        /// to a bound, so a full broker refuses the call. The request may be sent again, unchanged:
        /// a replay changes nothing.
        ///
        /// # Errors
        /// `BrokerFull`, and then nothing was added.
        worker|producer change fn report(report: &Report) -> Result<()>;

        /// The due schedules of a queue, at most `limit`, the earliest first. For [`HANDED_OUT`] no
        /// other worker gets them, so that only one of many workers computes their ticks. This only
        /// saves work: the stored state is compared when a schedule is [set](Self::set_schedule).
        worker change fn due_schedules(queue: &str, limit: usize) -> Result<DueSchedules>;

        /// Changes a schedule and stores the jobs of its ticks, in one transition, if its state is
        /// the one that was read. The jobs of a request have no producer: their ids show whether
        /// they exist.
        ///
        /// # Errors
        /// `BrokerFull` for a request with jobs or a definition, and then nothing was written.
        worker|operator change fn set_schedule(request: &SetSchedule) -> Result<ScheduleAnswer>;

        /// All data of one job, as [`show`](Inspect::show) returns it. In the same transition the
        /// job is marked as watched for [`WATCHED`], unless it has ended. While a mark is valid,
        /// the end of the job is [announced](Self::ending_hints), and removes the mark. A program
        /// that waits for longer sets it again. At most [`MOST_WATCHED`] jobs of a queue are
        /// marked, and none while a worker of an older release serves the queue. For this reason a
        /// waiting program must also poll.
        ///
        /// If the job is acknowledged without retention while the mark is valid, it is kept for
        /// [`WATCHED_KEEP`], with its result if the ending has one. Workers send results while
        /// [announcements](Self::watch_hints) show that a job of the queue is watched.
        ///
        /// # Errors
        /// `BrokerFull`, and then no mark was set.
        producer|operator change fn watch(queue: &str, id: &JobId) -> Result<Option<StoredJob>>;

        /// Stores the progress and the log lines of a lane's jobs. Returns for each job, in order,
        /// whether it was stored. If its receipt is no longer stored, nothing is changed. All items
        /// are numbered within their delivery, so a repeated request changes nothing, and a late
        /// request does not replace newer progress. It renews no lease.
        ///
        /// If the job is [watched](Self::watch), the change is
        /// [announced](Self::progress_hints). No handler waits for it, and no job depends on it.
        ///
        /// # Errors
        /// `Forgotten` if the lane has no entry; `BrokerFull`, and then nothing was stored;
        /// `FeatureUnknown` while a worker of an older release serves the queue.
        worker change fn store_progress(reported: &ProgressReport) -> Result<Vec<bool>>;

        /// Marks a queue as followed by a watcher for `valid_for`, at most for [`FOLLOWED`]: until
        /// then the broker keeps the last [`TRANSITIONS_KEPT`] [transitions](Inspect::transitions)
        /// of its jobs. Marks are not counted; the one that is valid the longest applies. Without a
        /// mark, transitions are not recorded.
        ///
        /// # Errors
        /// `BrokerFull`, and then no mark was set; `FeatureUnknown` while a worker of an older
        /// release serves the queue.
        operator change fn follow(queue: &str, valid_for: Duration) -> Result<Followed>;

        /// Creates a [subscription](Subscribe), or stores which types of event its workers know.
        /// True: it was created. An existing subscription keeps its cursor, and ignores the start
        /// in the request.
        ///
        /// # Errors
        /// `BrokerFull`, and then nothing was changed.
        worker|operator change fn subscribe(request: &Subscribe) -> Result<bool>;

        /// One bounded step of removing the oldest entries of a topic's log that its
        /// [retention](Retention) does not keep, at most [`TRIM_STEP`]. An entry that a
        /// subscription has not read is kept up to the limit of the lag. If such an entry is
        /// removed later, it is counted as lost for that subscription.
        worker|operator change fn trim_topic(topic: &str) -> Result<Trimmed>;
    }

    /// The administrative half of a broker. No job depends on it; pages and scans are bounded.
    trait Inspect: Debug;

    local {}
    verbs {
        /// The registered queues, sorted by name.
        viewer read fn queues() -> Result<Vec<String>>;

        /// Depth and counters of a queue.
        viewer|worker read fn stats(queue: &str) -> Result<QueueStats>;

        /// The counts of a queue up to now, as its workers [reported](Broker::report) them. Empty
        /// for an unknown queue.
        viewer read fn history(queue: &str, span: HistorySpan) -> Result<History>;

        /// The failures of a queue, as its workers [reported](Broker::report) them, the latest
        /// first. Empty for an unknown queue.
        viewer read fn failures(queue: &str) -> Result<Vec<FailurePattern>>;

        /// The workers with a lane in this queue: their records, lanes and leases. The lease of
        /// some may have run out. Empty for an unknown queue.
        viewer|worker read fn workers(queue: &str) -> Result<Vec<WorkerRecord>>;

        /// A page of the jobs in one state, at most `limit` (1 to 500), from `offset`: 0, the
        /// `next` of the page before, a number of jobs to leave out, or [`LAST`](LAST). A
        /// page may be empty although `next` is set.
        viewer read fn list(queue: &str, state: JobState, offset: u64, limit: usize) -> Result<StoredPage>;

        /// One bounded step through the jobs of some states, in the broker's order. A job that is
        /// in one of the states from the first step to the last, and stays in its place, is found
        /// once, even if other jobs come and go meanwhile. If the scan [includes moving
        /// jobs](Scan::including_moved), a job that is in one of the states all the time is found
        /// at least once, even if it moves.
        ///
        /// # Errors
        /// [`Error::Invalid`](crate::Error::Invalid) for a place that this broker has not made.
        viewer|worker read fn scan(request: &Scan) -> Result<Scanned>;

        /// Everything about one job; `None` if the broker does not have it.
        viewer|producer|worker read fn show(queue: &str, id: &JobId) -> Result<Option<StoredJob>>;

        /// The position of jobs, in one transition: one answer per id, in order; `None` if the
        /// broker does not have the job. At most [`MAX_ITEMS`](MAX_ITEMS). The numbers of earlier
        /// jobs are exact up to a hundred, and may be too large beyond.
        viewer read fn diagnose(queue: &str, ids: &[JobId]) -> Result<Vec<Option<Diagnosis>>>;

        /// The [progress](Broker::store_progress) of a job, and the lines of its log from this
        /// number on; 0 for all stored lines. `None` if the broker does not have the job.
        viewer|producer read fn progress_and_log(queue: &str, id: &JobId, from: u64) -> Result<Option<ProgressAndLog>>;

        /// Schedules of a queue, with their definitions and states.
        viewer|worker read fn schedules(queue: &str, which: &ScheduleList) -> Result<SchedulePage>;

        /// Changes jobs on behalf of an operator. One answer per id, in order. A cancel stores the
        /// `reason` as the note of the job; other changes have no reason.
        operator change fn change(queue: &str, change: Change, reason: Option<&str>, ids: &[JobId]) -> Result<Vec<Changed>>;

        /// Edits a waiting job if it has not changed since it was read, in one transition. The job
        /// releases its key, group and limits, and acquires the new ones. A ready job moves to the
        /// tail of its line if its priority, group or limits change, and otherwise keeps its place.
        ///
        /// # Errors
        /// `BrokerFull`, and then nothing was changed; `FeatureUnknown` for a priority, a group or
        /// limits while a worker of an older release serves the queue.
        operator change fn edit(request: &EditJob) -> Result<EditedJob>;

        /// The holder of a key; `None` if it is free.
        viewer read fn key_holder(queue: &str, key: &UniqueKey) -> Result<Option<KeyHolder>>;

        /// Held keys of a queue: the first ones, or those after a [`KeyPage::next`]. About `limit`,
        /// at most [`MAX_ITEMS`](MAX_ITEMS). A key that is held from the first page to the last is
        /// found, on Redis perhaps twice.
        ///
        /// # Errors
        /// [`Error::Invalid`](crate::Error::Invalid) for a place that this broker has not made.
        viewer read fn keys(queue: &str, after: Option<&str>, limit: usize) -> Result<KeyPage>;

        /// Releases a key, and returns the job that held it. The job that held the key continues.
        /// The job that is `held` for the key gets it, and may start.
        operator change fn release_key(queue: &str, key: &UniqueKey) -> Result<Option<KeyHolder>>;

        /// Groups of a queue, with their rules.
        viewer|worker read fn groups(queue: &str, which: &GroupList) -> Result<GroupPage>;

        /// Sets the rule of a group, of all groups, or of plain jobs, if it is the one that was
        /// read. It applies from the next claim on: a smaller cap stops no running job. To remove a
        /// rule removes no jobs.
        ///
        /// # Errors
        /// [`Error::Invalid`](crate::Error::Invalid) for a rule that cannot be, and for one more
        /// than the [most](GROUP_RULES) of a queue; `BrokerFull`.
        operator|worker change fn set_group(request: &SetGroup) -> Result<GroupSet>;

        /// The limits of a queue, all or the one of this name, by name.
        viewer|worker read fn limits(queue: &str, name: Option<&str>) -> Result<Vec<StoredLimit>>;

        /// Limit keys: the jobs that hold them, and when the next job may start. For the keys of
        /// one job, this shows what blocks the job.
        viewer read fn limit_keys(queue: &str, which: &LimitKeys) -> Result<Vec<StoredLimitKey>>;

        /// Changes a limit, if it is stored as it was read. It applies from the next claim on: a
        /// smaller concurrency stops no running job. To remove a limit removes no jobs.
        ///
        /// # Errors
        /// [`Error::Invalid`](crate::Error::Invalid) for one more than the [most](LIMIT_RULES) of a
        /// queue; `BrokerFull`.
        operator|worker change fn set_limit(request: &SetLimit) -> Result<LimitSet>;

        /// Changes the aging interval of a queue, if the stored value is the one that was read. It
        /// applies to jobs that become ready from then on. Without an interval, waiting jobs are
        /// promoted no further, and keep their current priority.
        ///
        /// # Errors
        /// `FeatureUnknown` while a lane of an older library is registered; `BrokerFull`.
        operator|worker change fn set_aging(request: &SetAging) -> Result<AgingSet>;

        /// The names of all topics that have events or subscriptions, sorted.
        viewer read fn topics() -> Result<Vec<String>>;

        /// A topic with its subscriptions; `None` if it does not exist.
        viewer|worker read fn topic(topic: &str) -> Result<Option<StoredTopic>>;

        /// Entries of the log of a topic after this position, or from the oldest on, at most
        /// `limit` and [`ENTRIES_READ`](ENTRIES_READ).
        viewer read fn read_topic(topic: &str, after: Option<&str>, limit: usize) -> Result<Vec<StoredEvent>>;

        /// Sets the retention of a topic. A field of `None` is not changed.
        operator change fn set_retention(topic: &str, retention: Retention) -> Result<()>;

        /// Removes a subscription, which then reads no further entries. Its jobs stay in its queue.
        /// False: the subscription does not exist.
        operator change fn unsubscribe(topic: &str, subscription: &str) -> Result<bool>;

        /// Sends a request to a worker that has reported its load in this queue with a heartbeat.
        /// The worker receives the request with its next heartbeat of that kind. The request is
        /// deleted with the last lane of the worker in this queue. Works on a full broker.
        operator change fn ask_worker(request: &AskWorker) -> Result<WorkerAsked>;

        /// One bounded step of a [rewind](Rewind) of a subscription.
        ///
        /// # Errors
        /// [`Error::Invalid`](crate::Error::Invalid) for a rewind target that is not a position of
        /// this log.
        operator change fn rewind(request: &Rewind) -> Result<Rewound>;

        /// The pauses of a queue and its tasks. The pause of a group is part of its rule.
        viewer read fn pauses(queue: &str) -> Result<Pauses>;

        /// Pauses or resumes a queue, a group or a task; enqueues and endings continue. A subject
        /// that is paused already gets the new end and reason. When a pause has expired, the next
        /// turn ends it. [`next_due`](TurnAnswer::next_due) includes the end, so that an idle lane
        /// runs a turn in time.
        ///
        /// # Errors
        /// [`Error::Invalid`](crate::Error::Invalid) for an end that has passed by the broker's
        /// clock, and beyond the largest number of group [rules](GROUP_RULES) or [paused
        /// tasks](PAUSED_TASKS); `FeatureUnknown` for an end, or a task, while a lane of an older
        /// library is registered.
        operator change fn set_pause(request: &SetPause) -> Result<()>;

        /// Transitions of a queue after a number, about `limit` of them, in order. While no watcher
        /// [follows](Broker::follow) the queue, no transitions are recorded, and those that are
        /// kept may be removed. The removal of an ended job's record is not a transition.
        viewer read fn transitions(queue: &str, after: u64, limit: usize) -> Result<Transitions>;

        /// The operations of a queue: the running one, and the ended ones that are kept. They are
        /// not ordered.
        viewer|worker read fn operations(queue: &str) -> Result<Vec<Operation>>;

        /// One transition of an [operation](Operate), with the jobs that it changes. It may be sent
        /// again, unchanged: a replay changes nothing. Works on a full broker.
        ///
        /// # Errors
        /// [`Error::Invalid`](crate::Error::Invalid) for a request that [`Operate::check`] rejects.
        operator|worker change fn operate(request: &Operate) -> Result<Operated>;

        /// Searches a queue for damage that another program did, and repairs it if `how` allows, in
        /// bounded steps between which others work.
        worker|operator change fn audit(queue: &str, how: Audit) -> Result<Vec<Damage>>;

        /// Removes an unused queue: its name, its declarations and its history. Returns the uses
        /// that prevent this; none if the queue is removed. A lane with an expired lease is not a
        /// use. A program that registers at the same moment may find its registration forgotten,
        /// and registers again.
        operator change fn remove_queue(queue: &str) -> Result<Vec<String>>;

        /// Checks the list of all queues, and repairs it if `repair` is true.
        operator change fn audit_queues(repair: bool) -> Result<Vec<Damage>>;
    }
}

/// A page of held keys. It may be empty although there is a next one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyPage {
    /// The keys, and the holder of each.
    pub keys: Vec<(UniqueKey, KeyHolder)>,
    /// The beginning of the next page; `None` at the end.
    pub next: Option<String>,
}
