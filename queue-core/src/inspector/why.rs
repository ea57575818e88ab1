//! The reasons why a job does not run, from its position at the broker and the live workers.

use std::{collections::BTreeMap, time::Duration};

use super::{Inspector, JobRecord, Reason, record::time};
use crate::{
    address::{JobAddress, JobId, check_queue},
    broker::{
        Diagnosis, DynBroker, GroupLine, GroupPage, JobState, Line, MAX_ITEMS, Pause, PauseOf, QueueStats, StoredLimitKey, StoredPause,
        WorkerMode, WorkerRecord,
    },
    error::{Error, Result},
};

/// The most groups of a queue that are examined to count the reasons of its jobs, once, and for
/// repeated counts.
const GROUPS_COUNTED: usize = 10_000;
const GROUPS_WATCHED: usize = 2_000;

impl Inspector {
    /// Why a job does not run: its record, whose [`waiting`](JobRecord::waiting) has every reason
    /// that applies now, at least one. Data about workers may be one lease old, and numbers of jobs
    /// are upper bounds.
    ///
    /// ```
    /// use queue_core::{inspect::Reason, prelude::*};
    ///
    /// #[task(queue = "mail")]
    /// async fn send(to: String) {}
    ///
    /// # async fn example() -> queue_core::Result<()> {
    /// let client = Client::connect("sqlite://:memory:").await?;
    /// let job = send::job("ada@example.com".to_owned()).enqueue(&client).await?;
    /// client.inspector().because("the database moves").pause("mail").await?;
    ///
    /// let job = client.inspector().why(job.address()).await?;
    /// assert_eq!(job.waiting[0].name(), "queue_paused");
    /// assert_eq!(job.waiting[0].to_string(), "its queue is paused: the database moves");
    /// assert_eq!(job.waiting[1], Reason::NoWorker);
    /// # Ok(()) }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Error::NoSuchJob`]; those of the broker.
    pub async fn why(&self, job: &JobAddress) -> Result<JobRecord> {
        let found = self.why_many(&job.queue, std::slice::from_ref(&job.id)).await?.pop().flatten();
        found.ok_or_else(|| Error::NoSuchJob(job.to_string()))
    }

    /// The same for many jobs of a queue, at most 500: one answer per id, in order; `None` if the
    /// broker does not have the job. It always takes three calls of the broker.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a name outside the grammar, and for too many ids; those of the
    /// broker.
    pub async fn why_many(&self, queue: &str, ids: &[JobId]) -> Result<Vec<Option<JobRecord>>> {
        check_queue(queue)?;
        let (of, ids) = (queue.to_owned(), ids.to_vec());
        let ask = move |broker: DynBroker| {
            let (of, ids) = (of.clone(), ids.clone());
            async move { broker.diagnose(&of, &ids).await }
        };
        let diagnoses = self.ask(self.until(), ask).await?;
        let waits = |diagnosis: &Diagnosis| !diagnosis.job.state.is_final();
        let workers = if diagnoses.iter().flatten().any(waits) { self.workers_of(queue).await? } else { Vec::new() };
        let pauses = if diagnoses.iter().flatten().any(waits) { self.pauses(queue).await? } else { Vec::new() };
        Ok(diagnoses.into_iter().map(|diagnosis| diagnosis.map(|diagnosis| why(queue, diagnosis, &workers, &pauses))).collect())
    }
}

impl Inspector {
    /// Sets for these jobs of one queue why each waits that has not ended: [`JobRecord::waiting`].
    /// Three calls of the broker for each 500 jobs.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a name outside the grammar; those of the broker.
    pub async fn add_reasons(&self, queue: &str, jobs: &mut [JobRecord]) -> Result<()> {
        for jobs in jobs.chunks_mut(MAX_ITEMS) {
            let mut waiting: Vec<&mut JobRecord> = jobs.iter_mut().filter(|job| !job.state.is_final()).collect();
            let ids: Vec<JobId> = waiting.iter().map(|job| job.address.id.clone()).collect();
            if !ids.is_empty() {
                for (job, found) in waiting.iter_mut().zip(self.why_many(queue, &ids).await?) {
                    job.waiting = found.map(|found| found.waiting).unwrap_or_default();
                }
            }
        }
        Ok(())
    }

    /// The number of waiting jobs of a queue by the [name](Reason::name) of the reason that has to
    /// end first. It is derived from the depth of the queue, its workers, its groups and its
    /// limits: jobs of further kinds that wait for a limit, and suspects, count as `behind`. Of
    /// parked jobs the first 500 are examined: each counts as `task_paused`, `unreadable`,
    /// `no_worker_for_task`, or `behind` if a live worker has its task. Further ones are counted in
    /// the same proportion.
    ///
    /// The counts examine the first 10,000 groups of a queue. Jobs of further groups are not
    /// counted, so the sum may be lower than the number of ready jobs.
    ///
    /// No job counts twice. Jobs that wait for a limit may also be in a paused or full group, but
    /// it is unknown which. The number of jobs that wait for groups is subtracted from the counts
    /// of limits. So these counts may be too small where there are such groups, and `behind` is an
    /// upper bound.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a name outside the grammar; those of the broker.
    pub async fn waiting(&self, queue: &str) -> Result<BTreeMap<&'static str, u64>> {
        let stats = self.stats(queue).await?;
        self.waiting_in_groups(queue, &stats, GROUPS_COUNTED).await
    }

    /// The same where the numbers of the queue are known, for programs that ask again and again: of
    /// its first 2,000 groups. Up to five calls of the broker, if jobs wait for anything that is
    /// not among these, four more if jobs are parked, and two more for each further 500 groups.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a name outside the grammar; those of the broker.
    pub async fn waiting_of(&self, queue: &str, stats: &QueueStats) -> Result<BTreeMap<&'static str, u64>> {
        self.waiting_in_groups(queue, stats, GROUPS_WATCHED).await
    }

    async fn waiting_in_groups(&self, queue: &str, stats: &QueueStats, groups: usize) -> Result<BTreeMap<&'static str, u64>> {
        let mut counts = waiting_in(stats);
        let parked = match counts.remove("no_worker_for_task") {
            Some(parked) => self.waiting_parked(queue, parked).await?,
            None => Vec::new(),
        };
        self.waiting_behind(queue, groups, &mut counts).await?;
        for (reason, jobs) in parked {
            *counts.entry(reason).or_default() += jobs;
        }
        counts.retain(|_, jobs| *jobs > 0);
        Ok(counts)
    }

    /// The reasons of the parked jobs of a queue.
    async fn waiting_parked(&self, queue: &str, parked: u64) -> Result<Vec<(&'static str, u64)>> {
        let paused = self.pauses(queue).await?.iter().map(|stored| stored.parked).sum::<u64>().min(parked);
        let mut jobs = self.list(queue, JobState::Parked, 0, MAX_ITEMS).await?.jobs;
        self.add_reasons(queue, &mut jobs).await?;
        let mut examined = BTreeMap::new();
        for reason in jobs.iter().filter_map(|job| job.waiting.first()).map(Reason::name) {
            *examined.entry(reason).or_default() += 1;
        }
        examined.remove("task_paused");
        let mut counts = shared_out(parked - paused, examined);
        counts.push(("task_paused", paused));
        Ok(counts)
    }

    /// Splits the count of ready jobs that have a worker by their reasons.
    async fn waiting_behind(&self, queue: &str, groups: usize, counts: &mut BTreeMap<&'static str, u64>) -> Result<()> {
        if let Some(mut behind) = counts.remove("behind") {
            if quiet(&self.workers_of(queue).await?).is_some() {
                counts.insert("workers_quiet", behind);
                return Ok(());
            }
            let ready = behind;
            let (groups, unknown) = self.waiting_for_groups(queue, ready, groups).await?;
            for (reason, jobs) in groups {
                let jobs = jobs.min(behind);
                behind -= jobs;
                *counts.entry(reason).or_default() += jobs;
            }
            // Any of them may wait for a limit, too, but no job counts twice.
            let mut counted = ready - behind;
            for limit in self.limits(queue).await? {
                for (reason, jobs) in [("limit_full", limit.full), ("rate_limited", limit.rated)] {
                    let twice = jobs.min(counted);
                    counted -= twice;
                    let jobs = (jobs - twice).min(behind);
                    behind -= jobs;
                    *counts.entry(reason).or_default() += jobs;
                }
            }
            counts.insert("behind", behind.saturating_sub(unknown));
        }
        Ok(())
    }

    /// The number of `ready` jobs that wait for their groups, by group; and the number of jobs in
    /// groups that were not examined: at most `groups` are.
    async fn waiting_for_groups(&self, queue: &str, ready: u64, groups: usize) -> Result<(Vec<(&'static str, u64)>, u64)> {
        let (mut waiting, mut looked, mut after) = (Vec::new(), 0, None);
        for _ in 0..groups / MAX_ITEMS {
            let page = self.groups(queue, after, MAX_ITEMS).await?;
            waiting.extend(self.waiting_on(queue, &page).await?);
            looked += page.groups.iter().map(|group| group.ready).sum::<u64>();
            if page.next.is_none() || looked >= ready {
                return Ok((waiting, 0));
            }
            after = page.next;
        }
        Ok((waiting, ready.saturating_sub(looked)))
    }

    /// The same of the groups of a page.
    async fn waiting_on(&self, queue: &str, page: &GroupPage) -> Result<Vec<(&'static str, u64)>> {
        let defaults = page.defaults();
        let (mut waiting, mut holders) = (Vec::new(), Vec::new());
        for group in &page.groups {
            let rule = group.rule.over(defaults);
            match (rule.paused, &group.blocked_by) {
                (true, _) => waiting.push(("group_paused", group.ready)),
                (_, Some(holder)) if group.ready > 0 => {
                    holders.push(holder.clone());
                    waiting.push(("out_of_order", group.ready));
                }
                _ if rule.cap.is_some_and(|cap| group.active >= u64::from(cap)) => waiting.push(("group_full", group.ready)),
                _ => {}
            }
        }
        if !holders.is_empty() {
            // A ready job that blocks the line is the one that may start.
            let of = queue.to_owned();
            let ask = move |broker: DynBroker| {
                let (of, holders) = (of.clone(), holders.clone());
                async move { broker.diagnose(&of, &holders).await }
            };
            let diagnoses = self.ask(self.until(), ask).await?;
            let lines = waiting.iter_mut().filter(|(reason, _)| *reason == "out_of_order");
            for ((_, jobs), holder) in lines.zip(diagnoses) {
                *jobs = jobs.saturating_sub(u64::from(holder.is_some_and(|holder| holder.job.state == JobState::Ready)));
            }
        }
        Ok(waiting)
    }
}

/// The number of waiting jobs by reason, from the counters of their queue. Ready jobs with a worker
/// count as `behind`, even if their groups are paused or full.
pub fn waiting_in(stats: &QueueStats) -> BTreeMap<&'static str, u64> {
    let ready = match stats {
        _ if stats.paused => "queue_paused",
        _ if stats.workers == 0 => "no_worker",
        _ => "behind",
    };
    let states = [
        ("not_due", JobState::Scheduled),
        ("retry", JobState::Retry),
        ("key_held", JobState::Held),
        ("no_worker_for_task", JobState::Parked),
        (ready, JobState::Ready),
    ];
    states.into_iter().map(|(reason, state)| (reason, stats.count(state))).filter(|(_, jobs)| *jobs > 0).collect()
}

/// Distributes jobs over reasons in the proportion of the examined ones.
fn shared_out(jobs: u64, examined: BTreeMap<&'static str, u64>) -> Vec<(&'static str, u64)> {
    let all: u64 = examined.values().sum();
    let Some(most) = examined.iter().max_by_key(|(_, jobs)| **jobs).map(|(reason, _)| *reason) else {
        return vec![("no_worker_for_task", jobs)];
    };
    let part = |of: u64| u64::try_from(u128::from(jobs) * u128::from(of) / u128::from(all)).unwrap_or(jobs);
    let mut counts: Vec<(&'static str, u64)> = examined.into_iter().map(|(reason, of)| (reason, part(of))).collect();
    let rest = jobs - counts.iter().map(|(_, jobs)| jobs).sum::<u64>();
    counts.iter_mut().filter(|(reason, _)| *reason == most).for_each(|(_, jobs)| *jobs += rest);
    counts
}

fn why(queue: &str, diagnosis: Diagnosis, workers: &[WorkerRecord], pauses: &[StoredPause]) -> JobRecord {
    let Diagnosis { job, now_ms, paused, holder, lease_left_ms, line, .. } = diagnosis;
    let mut job = JobRecord::new(queue, job);
    if let Some(running) = &mut job.running {
        running.find(workers);
    }
    let until = job.due_at;
    let pause_of = |of: &PauseOf| pauses.iter().find(|stored| stored.of == *of).map(|stored| stored.pause.clone());
    let queue_paused = || pause_of(&PauseOf::Queue).filter(|_| paused).map(|pause| Reason::QueuePaused { pause });
    let task = job.task.clone();
    let task_paused = || {
        let pause = pause_of(&PauseOf::Task(task.as_deref()?.into()))?;
        Some(Reason::TaskPaused { task: task.clone()?, pause })
    };
    let mut reasons = Vec::new();
    match job.state {
        JobState::Scheduled => reasons.push(Reason::NotDue { until }),
        JobState::Retry => reasons.push(Reason::Retry { until, failures: job.failures }),
        JobState::Held => {
            reasons.push(Reason::KeyHeld { holder, until: until.filter(|until| time(now_ms).is_none_or(|now| *until > now)) })
        }
        JobState::Parked if job.unreadable.is_none() && task_paused().is_some() => {
            reasons.extend(task_paused());
            reasons.extend(without_worker(&job, workers));
        }
        JobState::Parked => reasons.push(parked(&job, workers)),
        JobState::Active => reasons.push(active(&job, lease_left_ms, now_ms)),
        JobState::Ready => {
            reasons.extend(queue_paused());
            reasons.extend(task_paused());
            reasons.extend(without_worker(&job, workers));
            if let Some(line) = line {
                in_line(&job, line, now_ms, &mut reasons);
            }
        }
        state => reasons.push(Reason::Ended { state, at: job.ended_at }),
    }
    if matches!(job.state, JobState::Scheduled | JobState::Retry | JobState::Held | JobState::Parked) {
        reasons.extend(queue_paused());
    }
    if matches!(job.state, JobState::Scheduled | JobState::Retry | JobState::Held) {
        reasons.extend(task_paused());
    }
    job.waiting = reasons;
    job
}

fn is_up(worker: &WorkerRecord) -> bool {
    worker.lease_left > Duration::ZERO
}

fn parked(job: &JobRecord, workers: &[WorkerRecord]) -> Reason {
    if let Some(unreadable) = &job.unreadable {
        return Reason::Unreadable { releases: unreadable.releases.clone(), until: unreadable.dead_at };
    }
    // A worker that has the task claims its parked jobs before others.
    let takes = |worker: &WorkerRecord| {
        is_up(worker) && worker.mode() == WorkerMode::Works && job.task.as_ref().is_some_and(|task| worker.tasks.contains(task))
    };
    match workers.iter().any(takes) {
        true => Reason::Behind { jobs: 0, groups: 0 },
        false => no_worker_for_task(job, workers),
    }
}

/// The missing worker of a ready job: any worker, or one that knows its task.
fn without_worker(job: &JobRecord, workers: &[WorkerRecord]) -> Option<Reason> {
    // A worker whose list of tasks was cut, or that has no record, may know the task.
    let knows = |worker: &WorkerRecord| {
        job.task.as_ref().is_none_or(|task| worker.tasks.contains(task))
            || worker.task_count != worker.tasks.len() as u64
            || worker.task_count == 0
    };
    let mut up = workers.iter().filter(|worker| is_up(worker));
    if up.clone().next().is_none() {
        return Some(Reason::NoWorker);
    }
    if let Some(workers) = quiet(workers) {
        return Some(Reason::WorkersQuiet { workers });
    }
    (!up.any(knows)).then(|| no_worker_for_task(job, workers))
}

/// The number of live workers, if none of them claims.
fn quiet(workers: &[WorkerRecord]) -> Option<u64> {
    let up = || workers.iter().filter(|worker| is_up(worker));
    (up().count() > 0 && up().all(|worker| worker.mode() != WorkerMode::Works)).then(|| up().count() as u64)
}

fn no_worker_for_task(job: &JobRecord, workers: &[WorkerRecord]) -> Reason {
    let mut releases: Vec<String> = workers.iter().filter(|worker| is_up(worker)).map(|worker| worker.release.clone()).collect();
    releases.retain(|release| !release.is_empty());
    releases.sort();
    releases.dedup();
    Reason::NoWorkerForTask { task: job.task.clone(), releases }
}

fn active(job: &JobRecord, lease_left_ms: Option<i64>, now_ms: i64) -> Reason {
    match (lease_left_ms, &job.running) {
        (Some(left), Some(running)) if left > 0 => Reason::Runs(running.clone()),
        (Some(left), _) if left <= 0 => Reason::Reclaiming { since: time(now_ms + left) },
        _ => Reason::Reclaiming { since: None },
    }
}

/// The reasons in the line of a ready job, apart from its queue and the workers.
fn in_line(job: &JobRecord, line: Line, now_ms: i64, reasons: &mut Vec<Reason>) {
    if let Some(group) = line.group {
        let is_full = group.is_full();
        let GroupLine { name, pause, cap, running, holders, blocked_by, .. } = group;
        let lasts = |pause: &Pause| time(now_ms).is_none_or(|now| !pause.is_over(now));
        reasons.extend(pause.filter(lasts).map(|pause| Reason::GroupPaused { group: name.clone(), pause }));
        // The job that blocks the line of an ordered group is why it is full, too.
        let is_held = blocked_by.is_some();
        reasons.extend(blocked_by.map(|holder| Reason::OutOfOrder { group: name.clone(), holder }));
        if let Some(cap) = cap.filter(|cap| is_full && (*cap == 0 || !is_held)) {
            reasons.push(Reason::GroupFull { group: name, cap, running, holders: if cap > 0 { holders } else { Vec::new() } });
        }
    }
    reasons.extend(line.limits.into_iter().flat_map(|key| limited(job, key)));
    if job.crashes > 0 {
        reasons.push(Reason::Suspect { jobs: line.ahead });
    } else if reasons.is_empty() || line.ahead + line.groups > 0 {
        reasons.push(Reason::Behind { jobs: line.ahead, groups: line.groups });
    }
}

/// Why a limit key does not permit a job: its slots, its rate, or both.
fn limited(job: &JobRecord, stored: StoredLimitKey) -> Vec<Reason> {
    let StoredLimitKey { key: of, rule, held: running, holders, until_ms, .. } = stored;
    let known = job.limits.iter().find(|(name, _)| of.is_of(name));
    // The names of the limits of a job that cannot be decoded are unknown.
    let (limit, key) = known.map_or_else(|| (of.to_string(), String::new()), |(name, key)| (name.clone(), key.clone()));
    let full = rule.concurrency.filter(|concurrency| running >= u64::from(*concurrency)).map(|concurrency| {
        // A limit with a concurrency of 0 opens no slot when running jobs end.
        let holders = if concurrency > 0 { holders } else { Vec::new() };
        Reason::LimitFull { limit: limit.clone(), key: key.clone(), concurrency, running, holders }
    });
    let rated = until_ms.map(|until| Reason::RateLimited { limit, key, rate: rule.rate, until: time(until) });
    full.into_iter().chain(rated).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parked_jobs_that_were_not_examined_are_counted_in_proportion() {
        let shares = |jobs, examined: &[(&'static str, u64)]| shared_out(jobs, examined.iter().copied().collect());
        assert_eq!(shares(3, &[("unreadable", 3)]), [("unreadable", 3)]);
        assert_eq!(shares(1_001, &[("no_worker_for_task", 100), ("unreadable", 400)]), [("no_worker_for_task", 200), ("unreadable", 801)]);
        assert_eq!(shares(7, &[]), [("no_worker_for_task", 7)]);
    }
}
