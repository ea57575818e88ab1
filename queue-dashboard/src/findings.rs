//! Findings: problems, the holders of waiting jobs, the expected end, and the fixes.

use std::time::{Duration, SystemTime};

use queue_core::{
    Durability, JobState,
    broker::Trouble,
    inspect::{Difference, JobRecord, OutboxRecord, Reason, WorkerMode, WorkerRecord},
    schedule::ScheduleRecord,
};

use crate::{
    format::{Moment, count, number, short, span},
    params::query,
    paths::path_of,
    snapshot::{Group, LONG, Queue, SAMPLE, Snapshot, Unreadable},
};

/// A server whose memory is used up to this percentage is soon full.
const SOON_FULL: u64 = 90;

/// The difference of two clocks from which on it is reported.
const SKEWED: Duration = Duration::from_secs(10);

/// The number of findings of one kind that are listed; the others are counted.
const OF_A_KIND: usize = 5;

/// The severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tone {
    /// Jobs do not run, or are lost.
    Bad,
    /// An operator should check this.
    Warn,
    /// This may be intended.
    Note,
}

impl Tone {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Tone::Bad => "bad",
            Tone::Warn => "warn",
            Tone::Note => "note",
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Tone::Bad => "Fault",
            Tone::Warn => "Warning",
            Tone::Note => "Note",
        }
    }
}

/// A problem.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) tone: Tone,
    pub(crate) text: String,
    pub(crate) advice: String,
    /// The page with details, relative to the base.
    pub(crate) link: Option<String>,
    /// An error of one of the jobs.
    pub(crate) quote: Option<String>,
    /// The button with the fix.
    pub(crate) action: Option<Action>,
}

/// A form with one button.
#[derive(Clone, Debug)]
pub(crate) struct Action {
    pub(crate) label: &'static str,
    /// The path of the form, relative to the base.
    pub(crate) path: &'static str,
    pub(crate) fields: Vec<(&'static str, String)>,
}

impl Action {
    fn new(label: &'static str, path: &'static str, fields: &[(&'static str, &str)]) -> Self {
        Action { label, path, fields: fields.iter().map(|(name, value)| (*name, (*value).to_owned())).collect() }
    }
}

/// Splits a text into pieces, and marks the names, which are between backticks.
pub(crate) fn split_names(text: &str) -> Vec<(bool, &str)> {
    text.split('`').enumerate().map(|(i, piece)| (i % 2 == 1, piece)).filter(|(_, piece)| !piece.is_empty()).collect()
}

impl Finding {
    fn new(tone: Tone, text: impl Into<String>, advice: impl Into<String>) -> Self {
        Finding { tone, text: text.into(), advice: advice.into(), link: None, quote: None, action: None }
    }

    fn with(mut self, action: Action) -> Self {
        self.action = Some(action);
        self
    }

    fn at(mut self, pairs: &[(&str, &str)]) -> Self {
        self.link = Some(format!("/jobs?{}", query(pairs)));
        self
    }
}

/// All findings of a snapshot, the most severe first.
pub(crate) fn findings(snapshot: &Snapshot) -> Vec<Finding> {
    let mut all = of_the_broker(snapshot);
    let unreadable = snapshot.unreadable.iter().map(|Unreadable { queue, problem, is_out_of_reach }| match is_out_of_reach {
        true => Finding::new(
            Tone::Bad,
            format!("{queue} is unreachable: {problem}"),
            "Its workers and producers wait for its server; the other queues continue.",
        ),
        false => Finding::new(Tone::Bad, problem.clone(), "Another program wrote to this key; `doctor --repair` renames it."),
    });
    all.extend(first_of_kind(unreadable.collect(), "queues that cannot be read", "the page Queues"));
    let queues = |of: &dyn Fn(&Snapshot, &Queue) -> Option<Finding>| {
        snapshot.queues.iter().filter_map(|queue| of(snapshot, queue)).collect::<Vec<_>>()
    };
    all.extend(first_of_kind(queues(&unserved_queue), "queues without a worker", "the page Queues"));
    all.extend(first_of_kind(queues(&long_waiting_jobs), "queues whose jobs wait long", "the page Queues"));
    all.extend(first_of_kind(queues(&paused), "paused queues", "the page Queues"));
    all.extend(first_of_kind(
        snapshot.details.groups.iter().map(|group| of_a_group(snapshot, group)).collect(),
        "kinds of failed or parked jobs",
        "the page Jobs",
    ));
    all.extend(first_of_kind(
        snapshot.details.suspects.iter().map(|job| suspected_job(job, snapshot.at)).collect(),
        "jobs whose process crashed",
        "the page Jobs",
    ));
    all.extend(first_of_kind(
        snapshot.details.workers.iter().filter_map(|worker| silent_worker(snapshot, worker)).collect(),
        "silent workers",
        "the page Workers",
    ));
    all.extend(first_of_kind(snapshot.details.schedules.iter().map(schedule).collect(), "schedules whose jobs fail", "the page Schedules"));
    all.extend(first_of_kind(
        snapshot.details.differences.iter().map(|(queue, of)| conflicting_declarations(queue, of)).collect(),
        "differences between releases",
        "the pages Limits and Groups",
    ));
    all.extend(first_of_kind(snapshot.outboxes().iter().flat_map(of_an_outbox).collect(), "problems of outboxes", "the table Outboxes"));
    all.sort_by_key(|finding| finding.tone);
    all
}

fn of_the_broker(snapshot: &Snapshot) -> Vec<Finding> {
    let mut found = Vec::new();
    let condition = &snapshot.condition;
    if let Some(trouble) = &condition.trouble {
        found.push(Finding::new(Tone::Bad, describe_trouble(trouble), format!("{}.", capital(trouble.advice()))));
    } else if let Some(room) = condition.percent().filter(|percent| *percent >= SOON_FULL).and(condition.room()) {
        found.push(Finding::new(Tone::Warn, format!("The broker is nearly full: {room}."), "Raise `maxmemory`, or let workers catch up."));
    }
    if snapshot.details.durability == Durability::Volatile {
        let text = "Acknowledged jobs are only in memory: they are lost when the broker's process ends.";
        found.push(Finding::new(
            Tone::Warn,
            text,
            "On Redis, run `CONFIG SET appendonly yes`, and write it to the server's configuration. On SQLite, use a file.",
        ));
    }
    found.extend(clock_skew(snapshot.details.skew_ms));
    found
}

fn describe_trouble(trouble: &Trouble) -> String {
    match trouble {
        Trouble::Lost(why) => format!("The database is lost: {why}."),
        trouble => format!("The broker is {}: {trouble}.", trouble.name()),
    }
}

/// Names of databases and queues may contain backticks.
fn of_an_outbox(outbox: &OutboxRecord) -> Vec<Finding> {
    let problems = outbox.problems().into_iter();
    problems.map(|(problem, advice)| Finding::new(Tone::Warn, capital(&problem) + ".", capital(advice) + ".")).collect()
}

fn unserved_queue(_: &Snapshot, queue: &Queue) -> Option<Finding> {
    let of = |state| queue.stats.count(state);
    let (ready, running, later) = (of(JobState::Ready), of(JobState::Active), of(JobState::Scheduled) + of(JobState::Retry));
    if queue.stats.workers > 0 || (queue.stats.paused && running == 0) || ready + running + later == 0 {
        return None;
    }
    let name = &queue.name;
    let (tone, what, state) = if running > 0 {
        let were = if running == 1 { "1 job was".to_owned() } else { format!("{} jobs were", number(running)) };
        let they = if running == 1 { "it runs" } else { "they run" };
        let stopped = format!("{were} running when the last worker stopped; {they} again when a worker starts");
        (Tone::Bad, if ready > 0 { format!("{stopped}; {} waiting", present_tense_verb(ready)) } else { stopped }, JobState::Active)
    } else if ready > 0 {
        (Tone::Bad, format!("{} waiting", present_tense_verb(ready)), JobState::Ready)
    } else {
        let state = if of(JobState::Scheduled) > 0 { JobState::Scheduled } else { JobState::Retry };
        (Tone::Warn, format!("{} will be due", count(later, "job")), state)
    };
    let text = format!("No live worker serves the queue `{name}`: {what}.");
    Some(Finding::new(tone, text, "Start a worker that serves it.").at(&[("queue", name), ("state", state.name())]))
}

/// It is unknown which of the two clocks is wrong.
fn clock_skew(skew_ms: i64) -> Option<Finding> {
    let by = Duration::from_millis(skew_ms.unsigned_abs());
    let direction = if skew_ms > 0 { "ahead of" } else { "behind" };
    let text = format!("The clock of the broker is {} {direction} the clock of this dashboard: ages shown here are wrong.", span(by));
    let advice = "Compare both with a third clock, and synchronize them by NTP. Jobs and schedules use the broker's clock.";
    (by > SKEWED).then(|| Finding::new(Tone::Warn, text, advice))
}

/// Names the reason for which the jobs wait, the holder, and the expected end.
fn long_waiting_jobs(snapshot: &Snapshot, queue: &Queue) -> Option<Finding> {
    let waits = queue.stats.oldest?;
    if waits < LONG || queue.stats.paused || queue.stats.workers == 0 || queue.stats.count(JobState::Ready) == 0 {
        return None;
    }
    let name = &queue.name;
    let ready = |reason: &str| !["not_due", "retry", "key_held", "no_worker_for_task", "unreadable", "task_paused"].contains(&reason);
    let counts = snapshot.details.waiting.get(name);
    let main = counts.and_then(|counts| counts.iter().filter(|(reason, _)| ready(reason)).max_by_key(|(_, jobs)| **jobs));
    let (main, jobs) = main.map_or(("behind", queue.stats.count(JobState::Ready)), |(reason, jobs)| (*reason, *jobs));
    let first = snapshot.details.firsts.iter().find(|job| *job.address.queue == **name);
    let cause = first.and_then(|job| job.waiting.iter().find(|reason| reason.name() == main));
    let (for_what, advice, page) = explain_long_wait(main);
    let mut text = format!("The oldest ready job of `{name}` is {} old; {} waiting {for_what}", span(waits), present_tense_verb(jobs));
    if let Some(cause) = cause.filter(|_| main != "behind") {
        text.push_str(&format!(". The first: {}{}", short(&cause.to_string(), 200), holder_and_end(cause, snapshot.at)));
    }
    let action = cause.and_then(|cause| helpful_action(snapshot, queue, cause));
    let link = match page {
        "jobs" => format!("/jobs?{}", query(&[("queue", name), ("state", "ready")])),
        page => format!("/{page}?{}", query(&[("queue", name)])),
    };
    Some(Finding { link: Some(link), action, ..Finding::new(Tone::Warn, text + ".", advice) })
}

/// The button that ends this reason. A worker is resumed only if it is the only one of the queue.
fn helpful_action(snapshot: &Snapshot, queue: &Queue, cause: &Reason) -> Option<Action> {
    match cause {
        Reason::GroupPaused { group, .. } => {
            Some(Action::new("Resume group", "/groups/resume", &[("queue", &queue.name), ("group", group.as_str())]))
        }
        Reason::WorkersQuiet { workers: 1 } => {
            let serves = |worker: &&WorkerRecord| worker.queues.contains(&queue.name);
            let mut quiet = snapshot.details.workers.iter().filter(|worker| worker.mode() == WorkerMode::Quiet);
            quiet.find(serves).map(|worker| Action::new("Resume worker", "/workers/resume", &[("id", &worker.id.to_string())]))
        }
        _ => None,
    }
}

/// The text for a reason of waiting jobs, the fix, and the page with details.
fn explain_long_wait(reason: &str) -> (&'static str, &'static str, &'static str) {
    match reason {
        "rate_limited" => {
            ("for the rate of a limit", "More workers do not help. Raise the rate of the limit if the service allows it.", "limits")
        }
        "limit_full" => (
            "for a slot of a limit",
            "More workers do not help. See which jobs hold the slots; raise the concurrency of the limit if the service allows it.",
            "limits",
        ),
        "group_paused" => ("in paused groups", "Resume the groups when their jobs may run.", "groups"),
        "group_full" => {
            ("in groups at their cap", "More workers do not help. Raise the cap of the groups if they may use more slots.", "groups")
        }
        "out_of_order" => (
            "for an earlier job of their ordered group",
            "See which job blocks the group line: cancel or repair it if it is stuck.",
            "groups",
        ),
        "workers_quiet" => ("for workers that claim nothing", "Resume the quiet workers, or start others.", "workers"),
        _ => ("for a free slot", "Start more workers or raise their concurrency.", "jobs"),
    }
}

fn holder_and_end(reason: &Reason, now: SystemTime) -> String {
    let holder = reason.holders().first().map(|job| format!("; held by `{job}`")).unwrap_or_default();
    let end = reason.until().map(|until| format!("; expected end {}", Moment::new(until, now).relative)).unwrap_or_default();
    holder + &end
}

/// A finding for a schedule whose last jobs became dead letters.
fn schedule(record: &ScheduleRecord) -> Finding {
    let address = record.schedule.to_string();
    let dead = if record.dead_in_a_row == 1 {
        "its last job is a dead letter".to_owned()
    } else {
        format!("its last {} jobs are dead letters", number(record.dead_in_a_row))
    };
    let task = &record.task;
    let back = format!("schedules/{address}");
    let fields = [("schedule", address.as_str()), ("back", &back)];
    let finding = match &record.paused {
        Some(why) => {
            let text = format!("The schedule `{address}` of the task `{task}` is paused ({}): {dead}.", short(why, 200));
            let action = Action::new("Resume", "/schedules/resume", &fields);
            Finding::new(Tone::Warn, text, "See the error of its last job, repair the cause, then resume the schedule.").with(action)
        }
        None => {
            let text = format!("The schedule `{address}` fails: {dead} of the task `{task}`.");
            let advice = "See the error of its last job. Pause the schedule until the cause is repaired, or requeue the job.";
            Finding::new(Tone::Warn, text, advice).with(Action::new("Pause", "/schedules/pause", &fields))
        }
    };
    Finding { link: Some(format!("/schedules/{address}")), ..finding }
}

fn conflicting_declarations(queue: &str, of: &Difference) -> Finding {
    let page = if of.limit.is_some() { "limits" } else { "groups" };
    let advice = "Deploy one release everywhere, or set the value on that page: it overrides every declaration.";
    let text = format!("In `{queue}` {of}.");
    Finding { link: Some(format!("/{page}?{}", query(&[("queue", queue)]))), ..Finding::new(Tone::Warn, text, advice) }
}

fn paused(_: &Snapshot, queue: &Queue) -> Option<Finding> {
    let ready = queue.stats.count(JobState::Ready);
    let tone = if ready > 0 { Tone::Warn } else { Tone::Note };
    let pause = queue.stats.pause.as_ref().map_or_else(|| "paused".to_owned(), ToString::to_string);
    let text = format!("The queue `{}` is {}. {} waiting.", queue.name, short(&pause, 200), capital(&present_tense_verb(ready)));
    queue.stats.paused.then(|| Finding {
        link: Some(format!("/queues?{}", query(&[("text", &queue.name)]))),
        ..Finding::new(tone, text, "Resume it when its jobs may run.").with(Action::new(
            "Resume",
            "/queues/resume",
            &[("queue", &queue.name), ("back", "queues")],
        ))
    })
}

fn of_a_group(snapshot: &Snapshot, group: &Group) -> Finding {
    let Group { queue, state, task: name, reason, jobs, error, releases: failed, until } = group;
    let task = name;
    let total = snapshot.count(Some(queue), *state);
    // If all examined jobs have the same property, the others probably have it as well.
    let examined = total.min(SAMPLE as u64);
    let n = if *jobs < examined { *jobs } else { total.max(*jobs) };
    // Buttons change all jobs of the queue in this state.
    let are_all = n == total;
    let of_them = number(n);
    let word = if n == 1 { "job" } else { "jobs" };
    let of_queue = snapshot.queues.iter().find(|found| found.name == *queue);
    let pause = of_queue.and_then(|found| found.paused_tasks.iter().find(|(name, _)| name == task)).map(|(_, pause)| pause);
    let examined = if examined < total && n < total {
        format!(" ({} {} jobs of the queue examined)", number(examined), state.name())
    } else {
        String::new()
    };
    let task = if task.is_empty() { format!("{word} that cannot be decoded") } else { format!("{word} of the task `{task}`") } + &examined;
    let (tone, text, advice) = match state {
        JobState::Parked if !failed.is_empty() => {
            let word = if failed.len() == 1 { "release" } else { "releases" };
            let text = format!("Parked in `{queue}`: {of_them} {task}, which {word} {} cannot read.", short(&failed.join(", "), 60));
            (Tone::Bad, text, "Deploy a release that reads their parameters: its workers take them.")
        }
        JobState::Parked if pause.is_some() => {
            let pause = pause.map(ToString::to_string).unwrap_or_default();
            let text = format!("Parked in `{queue}`: {of_them} {task}, which is {}.", short(&pause, 200));
            (Tone::Warn, text, "Resume the task on the page Queues when its jobs may run.")
        }
        JobState::Parked => without_worker(snapshot, queue, name, &format!("Parked in `{queue}`: {of_them} {task}")),
        JobState::Retry => {
            let text = format!("Failing in `{queue}`: {of_them} {task} {} for another attempt.", if n == 1 { "waits" } else { "wait" });
            (Tone::Warn, text, "If the service they need has recovered, promote them: they start at once.")
        }
        _ => {
            let (why, advice) = match *reason {
                "crashed" => (
                    "crashed their worker's process repeatedly",
                    "See the log of the worker and the kernel log (out of memory) at the time of the crash. Fix the task, then requeue them.",
                ),
                "undecodable" => {
                    ("cannot be read by the release that took them", "Deploy a release that reads their parameters, then requeue them.")
                }
                "buried" => ("buried by the handler", "Fix the cause of the error, then requeue them."),
                _ => ("failed in every attempt", "Fix the cause of the error, then requeue them."),
            };
            (Tone::Warn, format!("Dead in `{queue}`: {of_them} {task} {why}."), advice)
        }
    };
    let mut finding = Finding::new(tone, text, advice).at(&[("queue", queue), ("state", state.name()), ("task", &group.task)]);
    finding.quote = error.as_deref().map(|error| short(error, 160));
    if let Some(at) = until {
        let when = Moment::new(*at, snapshot.at).relative;
        finding.advice.push_str(&match state {
            JobState::Retry if *at <= snapshot.at => " Otherwise the next attempt is due now.".to_owned(),
            JobState::Retry => format!(" Otherwise the next attempt is due {when}."),
            _ => format!(" Otherwise the first becomes a dead letter {when}."),
        });
    }
    let back = format!("jobs?{}", query(&[("state", state.name()), ("queue", queue)]));
    let all = [("all", "yes"), ("queue", queue), ("state", state.name()), ("back", &back)];
    finding.action = match state {
        JobState::Parked if pause.is_some() => {
            Some(Action::new("Resume", "/queues/resume", &[("queue", queue), ("task", name), ("back", "queues")]))
        }
        JobState::Retry if are_all => Some(Action::new("Promote all", "/jobs/promote", &all)),
        JobState::Dead if are_all && *reason != "crashed" => Some(Action::new("Requeue all", "/jobs/requeue", &all)),
        _ => None,
    };
    finding
}

/// Parked jobs that no release has failed to read. A worker with their task claims them with its
/// next free slot.
fn without_worker(snapshot: &Snapshot, queue: &str, task: &str, what: &str) -> (Tone, String, &'static str) {
    let has_it = |worker: &&WorkerRecord| !worker.lease_left.is_zero() && worker.tasks.iter().any(|known| known == task);
    let serves = |worker: &&WorkerRecord| worker.queues.iter().any(|served| served == queue);
    let named = |worker: &WorkerRecord| format!("{} (release {})", name(worker), short(&worker.release, 20));
    let workers = &snapshot.details.workers;
    if let Some(worker) = workers.iter().filter(has_it).find(serves) {
        let text = format!("{what}. The worker {} has this task and takes them with its next free slot.", named(worker));
        return (Tone::Note, text, "If they stay parked, see on the page Workers whether it is quiet or has no free slot.");
    }
    if let Some(worker) = workers.iter().find(has_it) {
        let text = format!("{what}. The worker {} has this task, but does not serve this queue.", named(worker));
        return (Tone::Bad, text, "Start a worker that has the task and serves this queue.");
    }
    let releases = releases(workers, queue);
    let up = if releases.is_empty() { "no worker is live".to_owned() } else { format!("live: {}", releases.join(", ")) };
    let text = format!("{what}, which no live worker has ({up}).");
    (Tone::Bad, text, "Deploy a release that has this task. Delete the jobs only if the task was removed.")
}

/// A job that was running when its process crashed, and that has not ended since.
fn suspected_job(job: &JobRecord, now: SystemTime) -> Finding {
    let (queue, id) = (&job.address.queue, &job.address.id);
    let task = job.task.as_deref().map_or_else(String::new, |task| format!(" of the task `{task}`"));
    let text = format!(
        "The job `{id}` in `{queue}`{task} was running when its worker process crashed ({}).{}",
        count(u64::from(job.crashes), "crash"),
        next_run(job, now)
    );
    let advice = "If the process was killed from outside, ignore this. Otherwise see its log and its memory: after `max_crashes` crashes the job becomes a dead letter.";
    Finding { link: Some(path_of(&job.address)), ..Finding::new(Tone::Warn, text, advice) }
}

/// The worker that runs the job, or the time of its next run.
fn next_run(job: &JobRecord, now: SystemTime) -> String {
    match (&job.running, job.due_at.filter(|_| job.state == JobState::Retry)) {
        (Some(running), _) => {
            format!(" It is running on the worker `{}`, started {}.", running.worker, Moment::new(running.since, now).relative)
        }
        (None, Some(due)) if due > now => format!(" Its next attempt is due {}.", Moment::new(due, now).relative),
        (None, Some(_)) => " Its next attempt is due now.".to_owned(),
        (None, None) => " It is ready to run again.".to_owned(),
    }
}

/// Whether its lease has expired without a report that it stops.
pub(crate) fn is_silent(worker: &WorkerRecord) -> bool {
    worker.lease_left.is_zero() && worker.mode() != WorkerMode::Stopping
}

fn silent_worker(snapshot: &Snapshot, worker: &WorkerRecord) -> Option<Finding> {
    let holds = snapshot.details.holds.get(&worker.id).map_or(0, |(jobs, _)| *jobs);
    let text = format!(
        "The last heartbeat of worker {} was {} ago, and its lease has expired{}.",
        name(worker),
        span(worker.lease_age),
        if holds > 0 { format!("; it held {}", count(holds, "job")) } else { String::new() }
    );
    is_silent(worker).then(|| {
        let advice = "If it was not stopped on purpose, check its log. Another live worker of its queues reclaims its jobs about 12 s after the lease has expired. If no other worker runs, start one.";
        Finding { link: Some("/workers".to_owned()), ..Finding::new(if holds > 0 { Tone::Warn } else { Tone::Note }, text, advice) }
    })
}

/// The host and the process id of a worker.
pub(crate) fn name(worker: &WorkerRecord) -> String {
    match (worker.host.as_str(), worker.pid) {
        ("", _) => worker.id.to_string(),
        (host, 0) => host.to_owned(),
        (host, pid) => format!("{host}:{pid}"),
    }
}

fn releases(workers: &[WorkerRecord], queue: &str) -> Vec<String> {
    let serving = workers.iter().filter(|worker| !worker.lease_left.is_zero() && worker.queues.iter().any(|each| each == queue));
    let mut releases: Vec<String> = serving.map(|worker| short(&worker.release, 20)).filter(|release| !release.is_empty()).collect();
    releases.sort();
    releases.dedup();
    releases
}

/// The first findings of a kind, the number of the others, and the page that lists them.
fn first_of_kind(mut found: Vec<Finding>, kind: &str, place: &str) -> Vec<Finding> {
    found.sort_by_key(|finding| finding.tone);
    if let Some(more) = found.len().checked_sub(OF_A_KIND).filter(|more| *more > 0) {
        found.truncate(OF_A_KIND);
        found.push(Finding::new(Tone::Note, format!("And {} more {kind}.", number(more as u64)), format!("See {place}.")));
    }
    found
}

fn present_tense_verb(jobs: u64) -> String {
    if jobs == 1 { "1 job is".to_owned() } else { format!("{} jobs are", number(jobs)) }
}

pub(crate) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use queue_core::{Client, RawJob};

    use super::*;

    /// A queue with a worker whose oldest job has been ready for ten minutes.
    async fn waits_for(reason: &'static str) -> Finding {
        let client = Client::connect("sqlite://:memory:").await.unwrap();
        client.enqueue_raw(RawJob::new("charge", vec![0x80]).queue("pay")).await.unwrap();
        let mut snapshot = Snapshot::take(&client, &client.inspector(), None).await.unwrap();
        snapshot.queues[0].stats.note_ready_since(0, 600_000);
        snapshot.queues[0].stats.workers = 1;
        snapshot.details.waiting.insert("pay".to_owned(), [(reason, 7), ("not_due", 99)].into());
        let all = findings(&snapshot);
        all.into_iter().find(|finding| finding.text.starts_with("The oldest ready job of `pay`")).unwrap()
    }

    #[tokio::test]
    async fn more_workers_are_advised_only_where_jobs_wait_for_a_slot_of_a_worker() {
        let behind = waits_for("behind").await;
        assert!(behind.text.ends_with("7 jobs are waiting for a free slot.") && behind.advice.contains("Start more workers"), "{behind:?}");
        for reason in ["rate_limited", "limit_full", "group_full"] {
            let finding = waits_for(reason).await;
            assert!(finding.advice.starts_with("More workers do not help."), "{finding:?}");
        }
        assert_eq!(waits_for("rate_limited").await.link.as_deref(), Some("/limits?queue=pay"));
        assert!(waits_for("group_paused").await.advice.starts_with("Resume the groups"));
    }

    /// The only worker was killed while all of its slots were busy.
    #[tokio::test]
    async fn jobs_that_were_running_when_the_last_worker_was_killed_are_a_fault() {
        let client = Client::connect("sqlite://:memory:").await.unwrap();
        client.enqueue_raw(RawJob::new("charge", vec![0x80]).queue("pay")).await.unwrap();
        let mut snapshot = Snapshot::take(&client, &client.inspector(), None).await.unwrap();
        snapshot.queues[0].stats.set_count(JobState::Ready, 0);
        snapshot.queues[0].stats.set_count(JobState::Active, 4);
        let found = findings(&snapshot).into_iter().find(|finding| finding.text.contains("No live worker serves")).unwrap();
        let text = "No live worker serves the queue `pay`: 4 jobs were running when the last worker stopped; they run again when a worker \
                    starts.";
        assert_eq!((found.tone, found.text.as_str()), (Tone::Bad, text));
        assert_eq!(found.link.as_deref(), Some("/jobs?queue=pay&state=active"));
    }

    #[test]
    fn more_findings_of_a_kind_are_counted_with_the_place_that_lists_them() {
        let found = (0..7).map(|n| Finding::new(Tone::Note, format!("{n}"), "")).collect();
        let last = first_of_kind(found, "silent workers", "the page Workers").pop().unwrap();
        assert_eq!((last.text.as_str(), last.advice.as_str()), ("And 2 more silent workers.", "See the page Workers."));
    }

    #[test]
    fn a_clock_that_is_an_hour_wrong_is_a_finding_in_both_directions() {
        let text = |skew_ms| clock_skew(skew_ms).map(|finding| finding.text).unwrap_or_default();
        assert!(text(3_600_000).contains("ahead of the clock of this dashboard"), "{}", text(3_600_000));
        assert!(text(-3_600_000).contains("behind the clock of this dashboard"), "{}", text(-3_600_000));
        assert_eq!((text(0), text(9_000), text(-9_000)), Default::default());
    }
}
