//! The state of all queues at one moment. Pages within half a second of each other share one
//! snapshot, so that many open pages have the same cost for the broker as one.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant, SystemTime},
};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream};
use queue_core::{
    __private::{error_text, waiting_in},
    Client, Durability, Error, JobState,
    broker::{LAST, ProcessId},
    inspect::{Condition, Counter, Difference, Inspector, JobRecord, OutboxRecord, Pause, PauseOf, QueueStats, StoredPause, WorkerRecord},
    schedule::ScheduleRecord,
};

/// The maximum number of concurrent calls.
const CALLS: usize = 32;

/// The number of queues whose failed and parked jobs are examined: those with the most such jobs.
const EXAMINED: usize = 20;

/// The number of queues whose groups are examined: those with the most ready jobs.
const GROUPS_OF: usize = 8;

/// The number of examined jobs of a state.
pub(crate) const SAMPLE: usize = 50;

/// The age of the oldest ready job from which on a finding names the reason why the jobs of a queue
/// wait.
pub(crate) const LONG: Duration = Duration::from_secs(5 * 60);

/// The number of examined schedules of a queue.
const SCHEDULES: usize = 100;

/// The maximum age of data that needs more calls: workers, and failed tasks.
const DETAILS: Duration = Duration::from_secs(2);

/// All queues at one moment.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// The time of this machine's clock.
    pub(crate) at: SystemTime,
    pub(crate) taken: Instant,
    /// How long the snapshot took.
    pub(crate) cost: Duration,
    pub(crate) condition: Condition,
    /// The queues, sorted by name.
    pub(crate) queues: Vec<Queue>,
    pub(crate) unreadable: Vec<Unreadable>,
    pub(crate) details: Details,
}

/// A queue that cannot be read.
#[derive(Clone, Debug)]
pub(crate) struct Unreadable {
    pub(crate) queue: String,
    pub(crate) problem: String,
    /// Whether its server is unreachable. Otherwise another program has written to one of its keys.
    pub(crate) is_out_of_reach: bool,
}

impl Unreadable {
    fn new(queue: String, error: &Error) -> Self {
        Unreadable { queue, problem: error_text(error), is_out_of_reach: matches!(error, Error::Unavailable { .. }) }
    }
}

/// A queue.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) name: String,
    pub(crate) stats: QueueStats,
    /// The tasks that are paused.
    pub(crate) paused_tasks: Vec<(String, Pause)>,
}

/// Data that is not read with every snapshot.
#[derive(Clone, Debug)]
pub(crate) struct Details {
    taken: Instant,
    pub(crate) durability: Durability,
    pub(crate) workers: Vec<WorkerRecord>,
    /// The groups of similar jobs among the failed, parked and dead jobs of a queue.
    pub(crate) groups: Vec<Group>,
    /// Examined jobs that were running when their process crashed, and that have not ended.
    pub(crate) suspects: Vec<JobRecord>,
    /// The number of waiting jobs of each queue, by the name of the reason.
    pub(crate) waiting: BTreeMap<String, BTreeMap<&'static str, u64>>,
    /// The first ready job of each queue whose jobs wait long, with its reasons.
    pub(crate) firsts: Vec<JobRecord>,
    /// Schedules whose last jobs became dead letters.
    pub(crate) schedules: Vec<ScheduleRecord>,
    /// The differences between the declarations of live releases, by queue.
    pub(crate) differences: Vec<(String, Difference)>,
    /// The time by which the broker's clock is ahead of this machine's clock, in milliseconds.
    pub(crate) skew_ms: i64,
    /// The number of examined active jobs that a worker runs, and the start of the first of them.
    pub(crate) holds: BTreeMap<ProcessId, (u64, SystemTime)>,
}

/// Jobs of a queue with the same state, task, reason and releases.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) queue: String,
    pub(crate) state: JobState,
    pub(crate) task: String,
    pub(crate) reason: &'static str,
    /// The releases that could not read the jobs, if they are parked.
    pub(crate) releases: Vec<String>,
    /// The time at which the first of these starts its next attempt, or becomes a dead letter.
    pub(crate) until: Option<SystemTime>,
    /// The number of examined jobs.
    pub(crate) jobs: u64,
    /// The error of one of them.
    pub(crate) error: Option<String>,
}

fn tasks_of(pauses: Vec<StoredPause>) -> Vec<(String, Pause)> {
    let of_task = |stored: StoredPause| match stored.of {
        PauseOf::Task(task) => Some((task.to_string(), stored.pause)),
        _ => None,
    };
    pauses.into_iter().filter_map(of_task).collect()
}

impl Snapshot {
    pub(crate) async fn take(client: &Client, inspector: &Inspector, last: Option<&Snapshot>) -> Result<Snapshot, Error> {
        let taken = Instant::now();
        let names = inspector.queues().await?;
        let condition = inspector.condition().await?;
        let (mut queues, mut unreadable, mut away) = (Vec::with_capacity(names.len()), Vec::new(), None);
        let mut calls = Vec::with_capacity(names.len());
        for name in &names {
            calls.push(async move { Ok((inspector.stats(name).await?, inspector.pauses(name).await?)) }.boxed());
        }
        let answers = together(calls).await;
        for (name, answer) in names.into_iter().zip(answers) {
            match answer {
                Ok((stats, pauses)) => queues.push(Queue { name, stats, paused_tasks: tasks_of(pauses) }),
                Err(error @ Error::WrongType { .. }) => unreadable.push(Unreadable::new(name, &error)),
                Err(error @ Error::Unavailable { .. }) => {
                    unreadable.push(Unreadable::new(name, &error));
                    away = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        if let Some(error) = away.filter(|_| queues.is_empty()) {
            return Err(error);
        }
        let details = match last.map(|last| &last.details).filter(|details| details.taken.elapsed() < DETAILS) {
            Some(details) => details.clone(),
            None => Details::take(client, inspector, &queues).await?,
        };
        Ok(Snapshot { at: SystemTime::now(), taken, cost: taken.elapsed(), condition, queues, unreadable, details })
    }

    /// The number of jobs in a state, in one queue or in all.
    pub(crate) fn count(&self, queue: Option<&str>, state: JobState) -> u64 {
        let chosen = self.queues.iter().filter(|each| queue.is_none_or(|queue| queue == each.name));
        chosen.map(|queue| queue.stats.count(state)).sum()
    }

    /// The number of waiting jobs of all queues, by the name of the reason.
    pub(crate) fn waiting(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        for (reason, jobs) in self.details.waiting.values().flatten() {
            *counts.entry(*reason).or_default() += jobs;
        }
        counts
    }

    /// The outboxes that relays have reported.
    pub(crate) fn outboxes(&self) -> Vec<OutboxRecord> {
        OutboxRecord::merged(self.queues.iter().flat_map(|queue| queue.stats.outboxes.clone()))
    }

    pub(crate) fn total(&self, counter: Counter) -> u64 {
        self.queues.iter().map(|queue| queue.stats.total(counter)).sum()
    }

    pub(crate) fn queue(&self, name: &str) -> Option<&Queue> {
        self.queues.binary_search_by(|queue| queue.name.as_str().cmp(name)).ok().map(|at| &self.queues[at])
    }
}

impl Details {
    async fn take(client: &Client, inspector: &Inspector, queues: &[Queue]) -> Result<Details, Error> {
        let durability = inspector.durability().await?;
        let mut calls = Vec::with_capacity(queues.len());
        for queue in queues {
            calls.push(inspector.workers_of(&queue.name).boxed());
        }
        // A queue that cannot be read is reported with its statistics, or by `doctor`.
        let workers = WorkerRecord::merged(together(calls).await.into_iter().flatten().flatten());
        let (mut groups, mut suspects) = (Vec::new(), Vec::new());
        let crashed = |jobs: Vec<JobRecord>| jobs.into_iter().filter(|job| job.crashes > 0);
        for state in [JobState::Dead, JobState::Retry, JobState::Parked] {
            for queue in queues_with_most(queues, state) {
                groups.extend(read_sample(inspector, queue, state).await);
            }
        }
        let mut holds = BTreeMap::new();
        for queue in queues_with_most(queues, JobState::Active) {
            let active = sample(inspector, queue, JobState::Active).await;
            for running in active.iter().filter_map(|job| job.running.as_ref()) {
                let (jobs, since) = holds.entry(running.worker).or_insert((0, running.since));
                (*jobs, *since) = (*jobs + 1, running.since.min(*since));
            }
            suspects.extend(crashed(active));
        }
        for queue in queues_with_most(queues, JobState::Retry) {
            suspects.extend(crashed(sample(inspector, queue, JobState::Retry).await));
        }
        for queue in queues_with_most(queues, JobState::Ready) {
            // Suspects are the first jobs of a list.
            let first = inspector.list(&queue.name, JobState::Ready, 0, SAMPLE).await.map(|page| page.jobs);
            suspects.extend(crashed(first.unwrap_or_default()));
        }
        let waiting = waiting(inspector, queues).await;
        let firsts = first_waiting_jobs(inspector, queues).await;
        let mut schedules = Vec::new();
        // The dead jobs of a failing schedule are in its queue.
        for queue in queues_with_most(queues, JobState::Dead) {
            let found = client.schedules().page(&queue.name, 0, SCHEDULES).await.map(|(found, _)| found).unwrap_or_default();
            schedules.extend(found.into_iter().filter(|schedule| schedule.dead_in_a_row > 0));
        }
        let mut differences = Vec::new();
        for queue in of_several_releases(&workers) {
            let found = inspector.differences(&queue).await.unwrap_or_default();
            differences.extend(found.into_iter().map(|difference| (queue.clone(), difference)));
        }
        let skew_ms = match queues.first() {
            Some(queue) => inspector.clock_skew_ms(&queue.name).await.unwrap_or(0),
            None => 0,
        };
        let taken = Instant::now();
        Ok(Details { taken, durability, workers, groups, suspects, waiting, firsts, schedules, differences, skew_ms, holds })
    }
}

/// Queues that live workers of several releases serve, at most [`EXAMINED`].
fn of_several_releases(workers: &[WorkerRecord]) -> Vec<String> {
    let mut releases: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for worker in workers.iter().filter(|worker| !worker.lease_left.is_zero()) {
        for queue in &worker.queues {
            releases.entry(queue).or_default().insert(&worker.release);
        }
    }
    releases.into_iter().filter(|(_, releases)| releases.len() > 1).map(|(queue, _)| queue.to_owned()).take(EXAMINED).collect()
}

/// The first ready job of each queue whose jobs wait long, with the reasons.
async fn first_waiting_jobs(inspector: &Inspector, queues: &[Queue]) -> Vec<JobRecord> {
    let mut firsts = Vec::new();
    for queue in queues.iter().filter(|queue| queue.stats.oldest.is_some_and(|age| age >= LONG)).take(GROUPS_OF) {
        let mut first = inspector.list(&queue.name, JobState::Ready, 0, 1).await.map(|page| page.jobs).unwrap_or_default();
        if inspector.add_reasons(&queue.name, &mut first).await.is_ok() {
            firsts.append(&mut first);
        }
    }
    firsts
}

/// The number of waiting jobs by reason. The groups of the queues with the most ready or parked
/// jobs are examined. In other queues with a worker, all jobs count as waiting for a slot.
async fn waiting(inspector: &Inspector, queues: &[Queue]) -> BTreeMap<String, BTreeMap<&'static str, u64>> {
    let mut looked: Vec<&Queue> = queues_with_most(queues, JobState::Ready).into_iter().take(GROUPS_OF).collect();
    for queue in queues_with_most(queues, JobState::Parked).into_iter().take(GROUPS_OF) {
        if !looked.iter().any(|known| known.name == queue.name) {
            looked.push(queue);
        }
    }
    let mut calls = Vec::with_capacity(looked.len());
    for queue in &looked {
        calls.push(inspector.waiting_of(&queue.name, &queue.stats).boxed());
    }
    let answers = together(calls).await;
    let mut reasons: BTreeMap<&str, BTreeMap<&'static str, u64>> =
        looked.iter().zip(answers).filter_map(|(queue, answer)| Some((queue.name.as_str(), answer.ok()?))).collect();
    let of = |queue: &Queue| (queue.name.clone(), reasons.remove(queue.name.as_str()).unwrap_or_else(|| waiting_in(&queue.stats)));
    queues.iter().map(of).collect()
}

/// The answers to many calls, in order.
pub(crate) async fn together<T: Send>(calls: Vec<BoxFuture<'_, T>>) -> Vec<T> {
    stream::iter(calls).buffered(CALLS).collect().await
}

/// The queues with the most jobs in a state.
fn queues_with_most(queues: &[Queue], state: JobState) -> Vec<&Queue> {
    let mut found: Vec<&Queue> = queues.iter().filter(|queue| queue.stats.count(state) > 0).collect();
    found.sort_by_key(|queue| std::cmp::Reverse(queue.stats.count(state)));
    found.truncate(EXAMINED);
    found
}

/// The last jobs of a list. For ended jobs, these are the newest. For other states, any jobs would
/// do.
async fn sample(inspector: &Inspector, queue: &Queue, state: JobState) -> Vec<JobRecord> {
    // A queue that cannot be listed is reported elsewhere.
    inspector.list(&queue.name, state, LAST, SAMPLE).await.map(|page| page.jobs).unwrap_or_default()
}

async fn read_sample(inspector: &Inspector, queue: &Queue, state: JobState) -> Vec<Group> {
    let mut found: BTreeMap<(String, &'static str, Vec<String>), Vec<JobRecord>> = BTreeMap::new();
    for job in sample(inspector, queue, state).await {
        let releases = job.unreadable.as_ref().map(|unreadable| unreadable.releases.clone()).unwrap_or_default();
        let key = (job.task.clone().unwrap_or_default(), job.reason.map_or("", |reason| reason.name()), releases);
        found.entry(key).or_default().push(job);
    }
    let mut groups = Vec::new();
    for ((task, reason, releases), jobs) in found {
        let is_shown = state != JobState::Parked || !releases.is_empty();
        let error = jobs.last().and_then(JobRecord::last_error).filter(|_| is_shown).map(str::to_owned);
        let until = |job: &JobRecord| match state {
            JobState::Retry => job.due_at,
            _ => job.unreadable.as_ref()?.dead_at,
        };
        let until = jobs.iter().filter_map(until).min();
        groups.push(Group { queue: queue.name.clone(), state, task, reason, releases, until, jobs: jobs.len() as u64, error });
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.jobs));
    groups
}
