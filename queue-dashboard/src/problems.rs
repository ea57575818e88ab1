//! What is wrong, in plain words, with what to do about it.

use std::time::Duration;

use queue_core::{Durability, JobRecord, JobState, OutboxRecord, WorkerMode, WorkerRecord};

use crate::{
    format::{count, number, short, span},
    params::query,
    paths::path_of,
    snapshot::{Group, Queue, SAMPLE, Snapshot, Unreadable},
};

/// From which share of its memory on a server is soon full, in percent.
const SOON_FULL: u64 = 90;

/// How long a job may be ready before that is told.
const LONG: Duration = Duration::from_secs(5 * 60);

/// How much ahead another clock has to be before that is told.
const AHEAD: Duration = Duration::from_secs(10);

/// How many findings are told of one kind; the others are counted.
const OF_A_KIND: usize = 5;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tone {
    /// Jobs do not run, or are lost.
    Bad,
    /// Somebody should look.
    Warn,
    /// As somebody wanted it, perhaps.
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

/// Something that is wrong.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) tone: Tone,
    pub(crate) text: String,
    pub(crate) way_out: String,
    /// Where to see it, behind the base.
    pub(crate) link: Option<String>,
    /// An error of one of the jobs.
    pub(crate) quote: Option<String>,
}

impl Finding {
    /// The text in pieces: names, which stand between backticks, are the second of each two.
    pub(crate) fn pieces(&self) -> Vec<(bool, &str)> {
        self.text.split('`').enumerate().map(|(i, piece)| (i % 2 == 1, piece)).filter(|(_, piece)| !piece.is_empty()).collect()
    }

    fn new(tone: Tone, text: impl Into<String>, way_out: impl Into<String>) -> Self {
        Finding { tone, text: text.into(), way_out: way_out.into(), link: None, quote: None }
    }

    fn at(mut self, pairs: &[(&str, &str)]) -> Self {
        self.link = Some(format!("/jobs?{}", query(pairs)));
        self
    }
}

/// All that can be said of a snapshot, the worst first.
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
    all.extend(few(unreadable.collect(), "queues that cannot be read"));
    let queues = |of: &dyn Fn(&Snapshot, &Queue) -> Option<Finding>| {
        snapshot.queues.iter().filter_map(|queue| of(snapshot, queue)).collect::<Vec<_>>()
    };
    all.extend(few(queues(&unserved), "queues without a worker"));
    all.extend(few(queues(&|_, queue| waits_long(queue)), "queues whose jobs wait long"));
    all.extend(few(queues(&paused), "paused queues"));
    all.extend(few(snapshot.details.groups.iter().map(|group| of_a_group(snapshot, group)).collect(), "kinds of failed or parked jobs"));
    all.extend(few(snapshot.details.suspects.iter().map(suspect).collect(), "jobs whose process crashed"));
    all.extend(few(snapshot.details.workers.iter().filter_map(|worker| silent(snapshot, worker)).collect(), "silent workers"));
    all.extend(few(snapshot.outboxes().iter().flat_map(of_an_outbox).collect(), "problems of outboxes"));
    all.sort_by_key(|finding| finding.tone);
    all
}

fn of_the_broker(snapshot: &Snapshot) -> Vec<Finding> {
    let mut found = Vec::new();
    let condition = &snapshot.condition;
    if let Some(trouble) = &condition.trouble {
        found.push(Finding::new(Tone::Bad, capital(&trouble.to_string()), format!("{}.", capital(trouble.way_out()))));
    } else if let Some(room) = condition.percent().filter(|percent| *percent >= SOON_FULL).and(condition.room()) {
        found.push(Finding::new(Tone::Warn, format!("The broker is nearly full: {room}."), "Raise `maxmemory`, or let workers catch up."));
    }
    if snapshot.details.durability == Durability::Volatile {
        let text = "Acknowledged jobs are only in memory: they are lost when the broker's process ends.";
        found.push(Finding::new(Tone::Warn, text, "On Redis, turn on `appendonly`; on SQLite, use a file."));
    }
    let newest = snapshot.details.workers.iter().filter_map(|worker| worker.since).max();
    if let Some(ahead) = newest.and_then(|since| since.duration_since(snapshot.at).ok()).filter(|ahead| *ahead > AHEAD) {
        let text =
            format!("The clock of the broker is {} ahead of the clock of this dashboard: ages shown here are too short.", span(ahead));
        found.push(Finding::new(Tone::Warn, text, "Synchronize both clocks by NTP. Jobs use the broker's clock."));
    }
    found
}

/// Names of databases and queues may have backticks.
fn of_an_outbox(outbox: &OutboxRecord) -> Vec<Finding> {
    let problems = outbox.problems().into_iter();
    problems.map(|(problem, way_out)| Finding::new(Tone::Warn, capital(&problem) + ".", capital(way_out) + ".")).collect()
}

fn unserved(_: &Snapshot, queue: &Queue) -> Option<Finding> {
    let of = |state| queue.stats.count(state);
    let (ready, later) = (of(JobState::Ready), of(JobState::Scheduled) + of(JobState::Retry));
    if queue.stats.paused || queue.stats.workers > 0 || ready + later + of(JobState::Active) == 0 {
        return None;
    }
    let name = &queue.name;
    let (tone, what) = match (ready, later) {
        (0, later) => (Tone::Warn, format!("{} will be due", count(later + of(JobState::Active), "job"))),
        (ready, _) => (Tone::Bad, format!("{} waiting", are(ready))),
    };
    let text = format!("No live worker serves the queue `{name}`: {what}.");
    Some(
        Finding::new(tone, text, "Start a worker that serves it.")
            .at(&[("queue", name), ("state", if ready > 0 { "ready" } else { "scheduled" })]),
    )
}

fn waits_long(queue: &Queue) -> Option<Finding> {
    let waits = queue.stats.oldest?;
    if waits < LONG || queue.stats.paused || queue.stats.workers == 0 || queue.stats.count(JobState::Ready) == 0 {
        return None;
    }
    let text =
        format!("The oldest ready job of `{}` is {} old; {} waiting.", queue.name, span(waits), are(queue.stats.count(JobState::Ready)));
    Some(
        Finding::new(
            Tone::Warn,
            text,
            "See what its jobs wait for. If they wait for a free slot, start more workers or raise their concurrency.",
        )
        .at(&[("queue", &queue.name), ("state", "ready")]),
    )
}

fn paused(_: &Snapshot, queue: &Queue) -> Option<Finding> {
    let ready = queue.stats.count(JobState::Ready);
    let tone = if ready > 0 { Tone::Warn } else { Tone::Note };
    let text = format!("The queue `{}` is paused: workers claim nothing from it, and {} waiting.", queue.name, are(ready));
    queue.stats.paused.then(|| Finding {
        link: Some(format!("/queues?{}", query(&[("text", &queue.name)]))),
        ..Finding::new(tone, text, "Resume it on the page Queues when its jobs may run.")
    })
}

fn of_a_group(snapshot: &Snapshot, group: &Group) -> Finding {
    let Group { queue, state, task, reason, jobs, error, releases: failed } = group;
    let total = snapshot.count(Some(queue), *state);
    // What is alike in all that were looked at is probably so in the others, too.
    let looked_at = total.min(SAMPLE as u64);
    let n = if *jobs < looked_at { *jobs } else { total.max(*jobs) };
    let of_them = number(n);
    let word = if n == 1 { "job" } else { "jobs" };
    let of_queue = snapshot.queues.iter().find(|found| found.name == *queue);
    let pause = of_queue.and_then(|found| found.paused_tasks.iter().find(|(name, _)| name == task)).map(|(_, pause)| pause);
    let examined = if n < total { format!(" ({} {} jobs of the queue examined)", number(looked_at), state.name()) } else { String::new() };
    let task = if task.is_empty() { format!("{word} that cannot be decoded") } else { format!("{word} of the task `{task}`") } + &examined;
    let (tone, text, way_out) = match state {
        JobState::Parked if !failed.is_empty() => {
            let word = if failed.len() == 1 { "release" } else { "releases" };
            let text = format!("Parked in `{queue}`: {of_them} {task}, which {word} {} cannot read.", short(&failed.join(", "), 60));
            (
                Tone::Bad,
                text,
                "Deploy a release that reads their parameters: its workers take them. Without one they are buried after a day.",
            )
        }
        JobState::Parked if pause.is_some() => {
            let pause = pause.map(ToString::to_string).unwrap_or_default();
            let text = format!("Parked in `{queue}`: {of_them} {task}, which is {}.", short(&pause, 200));
            (Tone::Warn, text, "Resume the task on the page Queues when its jobs may run.")
        }
        JobState::Parked => {
            let releases = releases(&snapshot.details.workers, queue);
            let up = if releases.is_empty() { "no worker is up".to_owned() } else { format!("up: {}", releases.join(", ")) };
            let text = format!("Parked in `{queue}`: {of_them} {task}, which no live worker knows ({up}).");
            (Tone::Bad, text, "Deploy a release that has this task. Delete the jobs only if the task was removed.")
        }
        JobState::Retry => {
            let text = format!("Failing in `{queue}`: {of_them} {task} {} for another attempt.", if n == 1 { "waits" } else { "wait" });
            (Tone::Warn, text, "If the service they need has recovered, promote them: they start at once.")
        }
        _ => {
            let (why, way_out) = match *reason {
                "crashed" => {
                    ("crashed their worker's process repeatedly", "Find the cause of the crashes (memory, abort) before you requeue them.")
                }
                "undecodable" => {
                    ("cannot be read by the release that took them", "Deploy a release that reads their parameters, then requeue them.")
                }
                "buried" => ("buried by the handler", "See the error; requeue them when it is fixed."),
                _ => ("failed in every attempt", "See the error; requeue them when it is fixed."),
            };
            (Tone::Warn, format!("Dead in `{queue}`: {of_them} {task} {why}."), way_out)
        }
    };
    let mut finding = Finding::new(tone, text, way_out).at(&[("queue", queue), ("state", state.name()), ("task", &group.task)]);
    finding.quote = error.as_deref().map(|error| short(error, 160));
    finding
}

/// A job that was running when its process died, and has not ended since.
fn suspect(job: &JobRecord) -> Finding {
    let (queue, id) = (&job.address.queue, &job.address.id);
    let task = job.task.as_deref().map_or_else(String::new, |task| format!(" of the task `{task}`"));
    let text = format!(
        "The job `{id}` in `{queue}`{task} was running when its worker process crashed ({}).",
        count(u64::from(job.crashes), "crash")
    );
    let way_out = "If the process was killed from outside, ignore this. Otherwise see its log and its memory: after `max_crashes` crashes the job is buried.";
    Finding { link: Some(path_of(&job.address)), ..Finding::new(Tone::Warn, text, way_out) }
}

/// Whether its lease is over, and it has not said that it stops.
pub(crate) fn is_silent(worker: &WorkerRecord) -> bool {
    worker.lease_left.is_zero() && worker.mode() != WorkerMode::Stops
}

fn silent(snapshot: &Snapshot, worker: &WorkerRecord) -> Option<Finding> {
    let holds = snapshot.details.holds.get(&worker.id).map_or(0, |(jobs, _)| *jobs);
    let text = format!(
        "The last heartbeat of worker {} was {} ago, and its lease has expired{}.",
        name(worker),
        span(worker.lease_age),
        if holds > 0 { format!("; it held {}", count(holds, "job")) } else { String::new() }
    );
    is_silent(worker).then(|| {
        let way_out = "If it was not stopped on purpose, check its log. Another worker of its queues reclaims its jobs within seconds.";
        Finding { link: Some("/workers".to_owned()), ..Finding::new(if holds > 0 { Tone::Warn } else { Tone::Note }, text, way_out) }
    })
}

/// Host and process number, as people name a worker.
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

/// The first of a kind, and how many more there are.
fn few(mut found: Vec<Finding>, kind: &str) -> Vec<Finding> {
    found.sort_by_key(|finding| finding.tone);
    if let Some(more) = found.len().checked_sub(OF_A_KIND).filter(|more| *more > 0) {
        found.truncate(OF_A_KIND);
        found.push(Finding::new(Tone::Note, format!("And {} more {kind}.", number(more as u64)), "The page Queues lists them."));
    }
    found
}

fn are(jobs: u64) -> String {
    if jobs == 1 { "1 job is".to_owned() } else { format!("{} jobs are", number(jobs)) }
}

pub(crate) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
