//! Descriptions of parked jobs: tasks that no worker has, and jobs that no release can read.

use std::{collections::BTreeMap, time::SystemTime};

use queue_core::{
    Result,
    broker::{JobState, MAX_ITEMS, QueueStats},
    inspect::{Inspector, JobRecord, Pause, PauseOf, WorkerRecord},
};
use serde::Serialize;

use super::{
    output::{plain, relative_time, short},
    show::quoted_address,
};

/// Parked jobs of a queue that wait for the same condition.
#[derive(Debug, Serialize)]
pub(super) struct Parked {
    pub(super) queue: String,
    task: String,
    /// The minimum number of jobs.
    jobs: usize,
    /// Whether there may be more jobs.
    or_more: bool,
    /// The releases that could not read them. Empty if no worker has their task.
    releases: Vec<String>,
    /// The pause of their task, if it is paused.
    pause: Option<Pause>,
    /// The live workers that have their task: the ones that serve the queue, or else all others.
    workers: Vec<String>,
    /// Whether these workers serve the queue. They claim the jobs with their next free slot.
    served: bool,
    /// The error of the last of these releases.
    problem: Option<String>,
    /// The time until the first of them becomes a dead letter, as text.
    #[serde(skip)]
    buried: Option<String>,
}

impl Parked {
    /// Groups of similar parked jobs of a queue. If there are many, only the first are examined.
    pub(super) async fn of(inspector: &Inspector, queue: &str, stats: &QueueStats) -> Result<Vec<Parked>> {
        let there = stats.count(JobState::Parked);
        if there == 0 {
            return Ok(Vec::new());
        }
        let jobs = inspector.list(queue, JobState::Parked, 0, MAX_ITEMS).await?.jobs;
        let or_more = there > jobs.len() as u64;
        let pauses = inspector.pauses(queue).await?;
        let pause_of = |task: &str| pauses.iter().find(|stored| stored.of == PauseOf::Task(task.into())).map(|stored| stored.pause.clone());
        let workers = inspector.workers().await?;
        let mut alike: BTreeMap<(String, Vec<String>), Vec<JobRecord>> = BTreeMap::new();
        for job in jobs {
            let releases = job.unreadable.as_ref().map(|unreadable| unreadable.releases.clone()).unwrap_or_default();
            alike.entry((job.task.clone().unwrap_or_default(), releases)).or_default().push(job);
        }
        let parked = alike.into_iter().map(|((task, releases), jobs)| {
            let unreadable = || jobs.iter().filter_map(|job| job.unreadable.as_ref());
            let first = unreadable().filter_map(|unreadable| unreadable.dead_at).min();
            let buried = first.map(|at| relative_time(at, SystemTime::now()));
            let problem = unreadable().map(|unreadable| unreadable.problem.clone()).next();
            let (workers, served) = workers_with_task(&workers, queue, &task);
            let (jobs, pause) = (jobs.len(), pause_of(&task));
            Parked { queue: queue.to_owned(), pause, task, jobs, or_more, releases, workers, served, problem, buried }
        });
        Ok(parked.collect())
    }

    /// Whether a release has failed on them.
    pub(super) fn is_unreadable(&self) -> bool {
        !self.releases.is_empty()
    }

    /// The text in one sentence.
    pub(super) fn text(&self) -> String {
        let (jobs, task) = (self.jobs, plain(&self.task));
        let (many, word) = if jobs == 1 && !self.or_more { ("", "job") } else { (if self.or_more { "at least " } else { "" }, "jobs") };
        if !self.is_unreadable() {
            let is = if word == "job" { "is" } else { "are" };
            if let Some(pause) = &self.pause {
                return format!("{many}{jobs} {word} of `{task}` {is} parked: the task is {}", plain(&pause.to_string()));
            }
            let workers = short(&plain(&self.workers.join(", ")), 200);
            return match (self.workers.is_empty(), self.served) {
                (true, _) => format!("{many}{jobs} {word} of `{task}` {is} parked: no live worker has this task"),
                (_, true) => {
                    format!("{many}{jobs} {word} of `{task}` {is} parked: {workers} has this task and takes them with a free slot")
                }
                (_, false) => {
                    format!("{many}{jobs} {word} of `{task}` {is} parked: {workers} has this task, but does not serve this queue")
                }
            };
        }
        let releases = if self.releases.len() == 1 { "release" } else { "releases" };
        let names = plain(&self.releases.join(", "));
        let problem = self.problem.as_deref().map(|problem| format!(": {}", short(&plain(problem), 200))).unwrap_or_default();
        format!("{many}{jobs} {word} of `{task}` cannot be read by {releases} {names}{problem}")
    }

    /// The fix.
    pub(super) fn advice(&self) -> String {
        match &self.buried {
            Some(buried) => format!("deploy a release that reads them; the first becomes a dead letter {buried} and can then be requeued"),
            None if self.pause.is_some() => format!("run `tasks resume {}`", quoted_address(&self.queue, &self.task)),
            None if self.workers.is_empty() => "deploy a release that has it".to_owned(),
            None if self.served => "`workers` shows whether it is quiet or has no free slot".to_owned(),
            None => format!("start a worker that has the task with `--queue {}`", self.queue),
        }
    }
}

/// The live workers that have a task: the ones that serve a queue, or else all others.
fn workers_with_task(workers: &[WorkerRecord], queue: &str, task: &str) -> (Vec<String>, bool) {
    let mut named = [Vec::new(), Vec::new()];
    for worker in workers.iter().filter(|worker| !worker.lease_left.is_zero() && worker.tasks.iter().any(|known| known == task)) {
        let serves = worker.queues.iter().any(|served| served == queue);
        named[usize::from(serves)].push(format!("{} pid {} (release {})", worker.host, worker.pid, worker.release));
    }
    let [others, serving] = named;
    let served = !serving.is_empty();
    (if served { serving } else { others }, served)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use queue_core::{
        Client, RawJob,
        broker::{Ending, Finish, ProcessId, Register, Turn, WorkerInfo},
    };

    use super::*;

    #[tokio::test]
    async fn parked_jobs_are_reported_by_what_they_wait_for() {
        let client = Client::connect("sqlite://:memory:").await.unwrap();
        let (broker, lease) = (client.broker().clone(), Duration::from_secs(30));
        for _ in 0..4 {
            client.enqueue_raw(RawJob::new("mail.send", vec![0x80]).queue("mail")).await.unwrap();
        }
        let lane = broker.register(&Register::lane("mail", ProcessId::random(), lease)).await.unwrap().name;
        let claimed = broker.turn(&Turn::new("mail", lane.clone(), 1, lease).claim(4)).await.unwrap().deliveries;
        let unreadable = Ending::Unreadable {
            task: "mail.send".to_owned(),
            release: "v42".to_owned(),
            error: "release v42 cannot read it: parameter `to` is missing".to_owned(),
            within: Duration::from_secs(24 * 3600),
        };
        let mut finishes: Vec<Finish> = claimed.iter().map(|delivery| Finish::new(delivery, unreadable.clone())).collect();
        finishes[3].ending = Ending::Park { task: "mail.send".to_owned() };
        broker.turn(&Turn::new("mail", lane, 2, lease).finish(finishes)).await.unwrap();
        let inspector = client.inspector();
        let stats = inspector.stats("mail").await.unwrap();
        let parked = Parked::of(&inspector, "mail", &stats).await.unwrap();
        let texts: Vec<String> = parked.iter().map(Parked::text).collect();
        assert_eq!(
            texts,
            [
                "1 job of `mail.send` is parked: no live worker has this task",
                "3 jobs of `mail.send` cannot be read by release v42: parameter `to` is missing",
            ]
        );
        assert!(parked[1].advice().contains("the first becomes a dead letter in 23h"), "{}", parked[1].advice());
        let waiting = inspector.waiting("mail").await.unwrap();
        assert_eq!(waiting, [("unreadable", 3), ("no_worker_for_task", 1)].into());
        // Another application that uses the broker has the task.
        for (queue, text) in [("shop", "has this task, but does not serve this queue"), ("mail", "has this task and takes them")] {
            let info = WorkerInfo::new("mailer-1", 8, "m3", ["mail.send"]);
            broker.register(&Register::lane(queue, ProcessId::random(), lease).with_info(info)).await.unwrap();
            let parked = Parked::of(&inspector, "mail", &stats).await.unwrap();
            assert!(parked[0].text().contains(&format!("mailer-1 pid 8 (release m3) {text}")), "{}", parked[0].text());
            assert!(!parked[0].advice().contains("deploy"), "{}", parked[0].advice());
        }
    }
}
