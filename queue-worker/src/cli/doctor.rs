//! `doctor`: problems, and their fixes.

pub(super) mod topics;

use std::{
    process::ExitCode,
    sync::Arc,
    time::{Duration, SystemTime},
};

use queue_core::{
    Client, Error, Inspector, JobRecord,
    broker::{Audit, Counter, Damage, Durability, JobState, OutboxRecord, QueueStats, SweepLimits},
    schedule::{BY_PERSON, clamp},
};
use serde::Serialize;

use super::{
    args::DoctorArgs,
    condition,
    exit::{Exit, Failure},
    output::{coarse, print, print_json, relative},
    parked::Parked,
    queues,
};

/// A queue of a cluster moves whole, at some seconds per million jobs.
const LARGE: u64 = 1_000_000;

/// Younger jobs are not told of by their age.
const WORTH_A_WORD: Duration = Duration::from_secs(60);

/// A ready job that has waited for so long, beside workers, is worth a word.
const OLD: Duration = Duration::from_secs(600);

/// A job that was released this often runs longer than the time between deployments.
const RELEASED_OFTEN: u32 = 3;

#[derive(Serialize)]
struct Report {
    location: String,
    durability: &'static str,
    #[serde(flatten)]
    condition: condition::Shown,
    queues: usize,
    problems: Vec<Problem>,
}

#[derive(Serialize)]
pub(super) struct Problem {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) queue: Option<String>,
    pub(super) problem: String,
    repaired: bool,
    /// What a person can do.
    advice: Option<String>,
    /// It is damage: the exit code tells it, unless it is repaired. Otherwise nothing is wrong yet.
    is_fault: bool,
}

impl Problem {
    /// What is wrong with the broker, and for a person to mend.
    pub(super) fn of_broker(problem: impl Into<String>, advice: impl Into<String>) -> Self {
        Problem { is_fault: true, ..Problem::advice(None, problem, advice) }
    }

    pub(super) fn advice(queue: Option<&str>, problem: impl Into<String>, advice: impl Into<String>) -> Self {
        Problem { queue: queue.map(str::to_owned), problem: problem.into(), repaired: false, advice: Some(advice.into()), is_fault: false }
    }

    /// A fault without a way out is repaired.
    fn fault(queue: Option<&str>, damage: &Damage, way_out: Option<&str>) -> Self {
        let problem = format!("{}: {}", damage.kind, damage.subject);
        let advice = way_out.map(str::to_owned);
        Problem { queue: queue.map(str::to_owned), problem, repaired: way_out.is_none(), advice, is_fault: true }
    }
}

pub(super) async fn doctor(client: &Client, args: &DoctorArgs) -> Result<ExitCode, Failure> {
    // The connection was made, so that version, role, credentials, schema and eviction policy are as they should be.
    let inspector = client.inspector();
    let info = client.info();
    let durability = inspector.durability().await?;
    let condition = inspector.condition().await?;
    let mut problems = condition::problems(&condition);
    let queues = queues_of(client, args, &mut problems).await?;
    if durability == Durability::Volatile {
        let advice = if info.kind == "redis" { "turn on `appendonly`" } else { "use a file" };
        problems.push(Problem::advice(None, durability.meaning(), advice));
    }
    let mut outboxes = Vec::new();
    let clustered = info.location.contains("+cluster://");
    for queue in &queues {
        faults(&inspector, queue, args.repair, &mut problems).await?;
        match advise(&inspector, queue, clustered, &mut problems, &mut outboxes).await {
            // That fault was told.
            Err(Error::WrongType { .. }) => {}
            advised => advised?,
        }
        match cleanup(client, queue, &mut problems).await {
            Err(Error::WrongType { .. } | Error::AccessDenied { .. }) => {}
            advised => advised?,
        }
        match ahead(client, queue, args.repair, &mut problems).await {
            Err(Error::WrongType { .. }) => {}
            advised => advised?,
        }
        match schedules(client, queue, &mut problems).await {
            Err(Error::WrongType { .. }) => {}
            advised => advised?,
        }
    }
    let of_outboxes = OutboxRecord::merged(outboxes).into_iter().flat_map(|outbox| outbox.problems());
    problems.extend(of_outboxes.map(|(problem, way_out)| Problem::advice(None, problem, way_out)));
    if args.queue.is_none() {
        match topics::advise(&inspector, &mut problems).await {
            Err(Error::WrongType { .. }) => {}
            advised => advised?,
        }
    }
    let sick = problems.iter().any(|problem| problem.is_fault && !problem.repaired);
    let report =
        Report { location: info.location, durability: durability.name(), condition: condition.into(), queues: queues.len(), problems };
    if args.format.json {
        print_json(&report)?;
    } else {
        print(&text(&report))?;
    }
    Ok(if sick { Exit::Sick.into() } else { ExitCode::SUCCESS })
}

/// The queues to look through. Where the list of all queues cannot be read, that is a fault, and only a queue that was named is looked
/// through.
async fn queues_of(client: &Client, args: &DoctorArgs, problems: &mut Vec<Problem>) -> Result<Vec<String>, Failure> {
    let broken = client.inspector().audit_queues(args.repair).await?;
    let way_out = (!args.repair).then_some("`doctor --repair` renames it");
    problems.extend(broken.iter().map(|damage| Problem::fault(None, damage, way_out)));
    if broken.is_empty() {
        return queues::chosen(client, args.queue.as_deref()).await;
    }
    if args.repair {
        let advice = "workers add their queues again within minutes; the first enqueue of a new process does so at once";
        problems.push(Problem::advice(None, "the list of all queues is empty", advice));
    }
    Ok(args.queue.iter().cloned().collect())
}

/// Damage in a queue. After a repair the auditor looks again: what it still finds is not repaired.
async fn faults(inspector: &Inspector, queue: &str, repair: bool, problems: &mut Vec<Problem>) -> Result<(), Failure> {
    let found = inspector.audit(queue, Audit { repair, thorough: true }).await?;
    let left = match repair {
        true if found.is_empty() => Vec::new(),
        true => inspector.audit(queue, Audit { repair: false, thorough: true }).await?,
        false => found.clone(),
    };
    let repaired = found.iter().filter(|damage| !left.contains(damage)).map(|damage| Problem::fault(Some(queue), damage, None));
    let way_out = if repair { "it is still there after the repair: run `doctor --repair` again" } else { "`doctor --repair` repairs it" };
    problems.extend(repaired);
    problems.extend(left.iter().map(|damage| Problem::fault(Some(queue), damage, Some(way_out))));
    Ok(())
}

/// Kinds of entries that nobody removes, or not fast enough.
async fn cleanup(client: &Client, queue: &str, problems: &mut Vec<Problem>) -> queue_core::Result<()> {
    let swept = client.broker().sweep(queue, &SweepLimits { items: 0, ..SweepLimits::default() }).await?;
    let advice = "start a worker of this queue: workers remove expired entries; if one runs, its log says why it does not";
    problems.extend(swept.kinds().map(|(kind, _)| {
        let problem = format!("queue {queue}: more than 100,000 expired entries wait to be removed: {kind}");
        Problem::advice(Some(queue), problem, advice)
    }));
    Ok(())
}

/// Schedules whose next tick lies further ahead than a right clock could have set it.
async fn ahead(client: &Client, queue: &str, repair: bool, problems: &mut Vec<Problem>) -> queue_core::Result<()> {
    let (mut offset, queue) = (Some(0), Arc::<str>::from(queue));
    while let Some(at) = offset {
        let found = clamp(client.broker(), &queue, at, 500, repair).await?;
        for schedule in found.schedules {
            let problem = format!("the next tick of schedule {queue}/{schedule} is too far ahead: a wrong clock set it");
            let mut problem = Problem::advice(Some(&queue), problem, "`doctor --repair` repairs it, and so does a worker within minutes");
            (problem.is_fault, problem.repaired) = (true, repair);
            problems.push(problem);
        }
        offset = found.next;
    }
    Ok(())
}

/// Schedules of a queue that do not tick although nobody wanted that.
async fn schedules(client: &Client, queue: &str, problems: &mut Vec<Problem>) -> queue_core::Result<()> {
    for record in client.schedules().list(queue).await? {
        let name = &record.schedule;
        let mut tell = |problem: String, advice: &str| problems.push(Problem::advice(Some(queue), problem, advice));
        if let Some(problem) = &record.problem {
            tell(format!("schedule {name} cannot tick on this machine: {problem}"), "a worker on another machine may have the time zone");
        }
        match (&record.paused, record.undeclared_since) {
            (Some(why), _) if why != BY_PERSON => {
                tell(format!("schedule {name} is paused: {why}"), "`schedules resume` or `schedules remove`")
            }
            (None, Some(_)) => tell(
                format!("no live worker declares schedule {name}, which code has declared before: it is paused after one hour"),
                "deploy a worker that declares it, or `schedules remove`",
            ),
            _ => {}
        }
    }
    Ok(())
}

/// How long a loss of data is told.
const LOSS_TOLD: Duration = Duration::from_secs(72 * 3600);

/// How it was found.
const LOSS_SEEN: &str = "it did not know a worker whose lease had not expired (flush, restored backup, failover)";

/// What follows from it.
const LOSS_ADVICE: &str =
    "jobs enqueued since that copy may be missing: compare with the records of the application; jobs finished since may run again";

/// What is not damage, and should be known nevertheless.
async fn advise(
    inspector: &Inspector,
    queue: &str,
    clustered: bool,
    problems: &mut Vec<Problem>,
    outboxes: &mut Vec<OutboxRecord>,
) -> queue_core::Result<()> {
    let mut stats = inspector.stats(queue).await?;
    outboxes.append(&mut stats.outboxes);
    let depth = |state: JobState| stats.count(state);
    let waiting = depth(JobState::Ready) + depth(JobState::Scheduled) + depth(JobState::Retry);
    let (name, queue) = (queue, Some(queue));
    if let Some(ago) = stats.lost_at.and_then(|at| SystemTime::now().duration_since(at).ok()).filter(|ago| *ago < LOSS_TOLD) {
        let problem = format!("{} ago the broker lost data of this queue or was restored from an older copy: {LOSS_SEEN}", coarse(ago));
        problems.push(Problem::advice(queue, problem, LOSS_ADVICE));
    }
    if let Some(pause) = &stats.pause {
        problems.push(Problem::advice(queue, format!("it is {pause}"), "`queues resume` lets workers claim from it"));
    }
    if stats.lanes == 0 && waiting > 0 {
        let since = stats
            .oldest
            .filter(|oldest| *oldest >= WORTH_A_WORD)
            .map(|oldest| format!(", the oldest for {}", coarse(oldest)))
            .unwrap_or_default();
        problems.push(Problem::advice(queue, format!("no worker serves it, and {} waiting{since}", are(waiting)), "start a worker"));
    }
    for parked in Parked::of(inspector, name, &stats).await? {
        problems.push(Problem::advice(queue, parked.text(), parked.way_out()));
    }
    if let Some(problem) = released(inspector, name, &stats).await? {
        problems.push(problem);
    }
    if let Some(oldest) = stats.oldest.filter(|oldest| *oldest >= OLD && !stats.paused && stats.lanes > 0) {
        let advice = "list what its jobs wait for with `jobs list --state ready`; if they wait for a free slot, start more workers, or check how long its jobs take";
        problems.push(Problem::advice(queue, format!("its oldest ready job has waited for {}", coarse(oldest)), advice));
    }
    if clustered && waiting > LARGE {
        let problem = format!("{waiting} jobs are in one slot, which moves as a whole when the cluster is resharded");
        problems.push(Problem::advice(queue, problem, "spread the work over several queues"));
    }
    Ok(())
}

/// Jobs that stopping workers have released again and again. Such a job goes to the head of its line and starts soon: all jobs that run are looked at,
/// and the first that wait.
async fn released(inspector: &Inspector, queue: &str, stats: &QueueStats) -> queue_core::Result<Option<Problem>> {
    if stats.total(Counter::Released) + stats.total(Counter::Reclaimed) < u64::from(RELEASED_OFTEN) {
        return Ok(None);
    }
    let mut found: Vec<JobRecord> = Vec::new();
    for (state, pages) in [(JobState::Active, usize::MAX), (JobState::Ready, 1)] {
        let mut from = Some(0);
        for _ in 0..pages {
            let Some(offset) = from else { break };
            let page = inspector.list(queue, state, offset, 500).await?;
            found.extend(page.jobs.into_iter().filter(|job| job.releases >= RELEASED_OFTEN));
            from = page.next;
        }
    }
    let Some(most) = found.iter().max_by_key(|job| (job.releases, job.released_at)) else { return Ok(None) };
    let task = most.task.as_deref().map(|task| format!(" of task {task}")).unwrap_or_default();
    let last = most.released_at.map(|at| format!(", last {}", relative(at, SystemTime::now()))).unwrap_or_default();
    let jobs = if found.len() == 1 { "1 job was".to_owned() } else { format!("{} jobs were", found.len()) };
    let problem =
        format!("{jobs} released by stopping workers {RELEASED_OFTEN} times or more: {}{task} {} times{last}", most.address, most.releases);
    let advice = "they run longer than the time between deployments and restart each time: raise `--grace`, store progress and continue from it, or let the old workers finish with `workers quiet --release OLD`";
    Ok(Some(Problem::advice(Some(queue), problem, advice)))
}

fn are(jobs: u64) -> String {
    if jobs == 1 { "1 job is".to_owned() } else { format!("{jobs} jobs are") }
}

fn text(report: &Report) -> String {
    let mut text = format!("{} ({})\n", report.location, report.durability);
    let (mut faults, mut repaired, mut pieces) = (0, 0, 0);
    for problem in &report.problems {
        let (word, count) = match problem {
            Problem { is_fault: true, repaired: true, .. } => ("repaired", &mut repaired),
            Problem { is_fault: true, .. } => ("fault", &mut faults),
            Problem { is_fault: false, .. } => ("advice", &mut pieces),
        };
        *count += 1;
        let queue = problem.queue.as_deref().map(|queue| format!("{queue}: ")).unwrap_or_default();
        let way_out = problem.advice.as_deref().map(|advice| format!("; {advice}")).unwrap_or_default();
        text.push_str(&format!("- {word}: {queue}{}{way_out}\n", problem.problem));
    }
    let counted = |count: usize, one: &str, more: &str| (count > 0).then(|| format!("{count} {}", if count == 1 { one } else { more }));
    let counts = [
        counted(faults, "fault", "faults"),
        counted(repaired, "fault repaired", "faults repaired"),
        counted(pieces, "piece of advice", "pieces of advice"),
    ];
    let said: Vec<String> = counts.into_iter().flatten().collect();
    let said = if said.is_empty() { "all is well".to_owned() } else { said.join(", ") };
    text.push_str(&format!("{said} in {}", counted(report.queues, "queue", "queues").unwrap_or_else(|| "0 queues".to_owned())));
    text
}
