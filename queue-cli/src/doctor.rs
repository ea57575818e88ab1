//! `doctor`: problems, and their fixes.

pub(super) mod topics;

use std::{
    process::ExitCode,
    sync::Arc,
    time::{Duration, SystemTime},
};

use queue_core::{
    Client, Error,
    broker::{Audit, Counter, Damage, Durability, JobState, OutboxRecord, QueueStats, SweepLimits, topic_address, topic_at},
    inspect::{Inspector, JobRecord},
    schedule::{BY_PERSON, clamp},
};
use serde::Serialize;

use super::{
    args::DoctorArgs,
    condition,
    exit::{Exit, Failure},
    output::{print, print_json, relative_time, rounded_duration},
    parked::Parked,
    queues,
};

/// A queue of a cluster is migrated as a whole, which takes some seconds per million jobs.
const LARGE: u64 = 1_000_000;

/// The age of younger jobs is not reported.
const REPORTED_FROM: Duration = Duration::from_secs(60);

/// The age of the oldest ready job from which on a queue with workers is reported.
const OLD: Duration = Duration::from_secs(600);

/// A job that was returned this often probably runs longer than the time between deployments.
const RETURNED_OFTEN: u32 = 3;

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
    /// The fix.
    advice: Option<String>,
    /// Whether it is damage. The exit code reports damage that is not repaired. Other problems are
    /// warnings.
    is_fault: bool,
}

impl Problem {
    /// A problem of the broker, which an operator has to fix.
    pub(super) fn of_broker(problem: impl Into<String>, advice: impl Into<String>) -> Self {
        Problem { is_fault: true, ..Problem::advice(None, problem, advice) }
    }

    pub(super) fn advice(queue: Option<&str>, problem: impl Into<String>, advice: impl Into<String>) -> Self {
        Problem { queue: queue.map(str::to_owned), problem: problem.into(), repaired: false, advice: Some(advice.into()), is_fault: false }
    }

    /// A fault without advice can be repaired.
    fn fault(queue: Option<&str>, damage: &Damage, advice: Option<&str>) -> Self {
        let problem = format!("{}: {}", damage.kind, damage.subject);
        let advice = advice.map(str::to_owned);
        Problem { queue: queue.map(str::to_owned), problem, repaired: advice.is_none(), advice, is_fault: true }
    }
}

pub(super) async fn doctor(client: &Client, args: &DoctorArgs) -> Result<ExitCode, Failure> {
    // The client has connected, so version, role, credentials, schema and eviction policy were
    // already checked.
    let inspector = client.inspector();
    let info = client.info();
    let durability = inspector.durability().await?;
    let condition = inspector.condition().await?;
    let mut problems = condition::problems(&condition);
    let queues = queues_of(client, args, &mut problems).await?;
    if durability == Durability::Volatile {
        let advice =
            if info.kind == "redis" { "run `CONFIG SET appendonly yes`, and write it to the server's configuration" } else { "use a file" };
        problems.push(Problem::advice(None, durability.meaning(), advice));
    }
    if let Some(queue) = queues.first() {
        problems.extend(clock_skew(inspector.clock_skew_ms(queue).await?));
    }
    let mut outboxes = Vec::new();
    let clustered = info.location.contains("+cluster://");
    for queue in &queues {
        faults(&inspector, queue, args.repair, &mut problems).await?;
        match add_advice(&inspector, queue, clustered, &mut problems, &mut outboxes).await {
            // That fault was reported already.
            Err(Error::WrongType { .. }) => {}
            advised => advised?,
        }
        cleanup(client, queue, &mut problems).await?;
        match schedules_too_far_ahead(client, queue, args.repair, &mut problems).await {
            Err(Error::WrongType { .. }) => {}
            advised => advised?,
        }
        match schedules(client, queue, &mut problems).await {
            Err(Error::WrongType { .. }) => {}
            advised => advised?,
        }
    }
    let of_outboxes = OutboxRecord::merged(outboxes).into_iter().flat_map(|outbox| outbox.problems());
    problems.extend(of_outboxes.map(|(problem, advice)| Problem::advice(None, problem, advice)));
    if args.queue.is_none() {
        match topics::add_advice(&inspector, &mut problems).await {
            Err(Error::WrongType { .. }) => {}
            advised => {
                advised?;
                for topic in inspector.topics().await? {
                    cleanup(client, &topic_address(&topic.name), &mut problems).await?;
                }
            }
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

/// The queues to check. If the list of all queues cannot be read, that is a fault, and only the
/// named queue is checked.
async fn queues_of(client: &Client, args: &DoctorArgs, problems: &mut Vec<Problem>) -> Result<Vec<String>, Failure> {
    let broken = client.inspector().audit_queues(args.repair).await?;
    let advice = (!args.repair).then_some("`doctor --repair` renames it");
    problems.extend(broken.iter().map(|damage| Problem::fault(None, damage, advice)));
    if broken.is_empty() {
        return queues::selected_queues(client, args.queue.as_deref()).await;
    }
    if args.repair {
        let advice = "workers add their queues again within minutes; the first enqueue of a new process does so at once";
        problems.push(Problem::advice(None, "the list of all queues is empty", advice));
    }
    Ok(args.queue.iter().cloned().collect())
}

/// Damage in a queue. After a repair the queue is audited again, and the remaining damage is not
/// repaired.
async fn faults(inspector: &Inspector, queue: &str, repair: bool, problems: &mut Vec<Problem>) -> Result<(), Failure> {
    let found = inspector.audit(queue, Audit { repair, thorough: true }).await?;
    let left = match repair {
        true if found.is_empty() => Vec::new(),
        true => inspector.audit(queue, Audit { repair: false, thorough: true }).await?,
        false => found.clone(),
    };
    let repaired = found.iter().filter(|damage| !left.contains(damage)).map(|damage| Problem::fault(Some(queue), damage, None));
    let advice = if repair {
        "not repaired: another program may still be writing to this key; stop it, then run `doctor --repair` again"
    } else {
        "`doctor --repair` repairs it"
    };
    problems.extend(repaired);
    problems.extend(left.iter().map(|damage| Problem::fault(Some(queue), damage, Some(advice))));
    Ok(())
}

/// Expired entries of a queue or a topic that are not removed, or not fast enough.
async fn cleanup(client: &Client, address: &str, problems: &mut Vec<Problem>) -> Result<(), Failure> {
    let swept = match client.broker().sweep(address, &SweepLimits { items: 0, ..SweepLimits::default() }).await {
        Err(Error::WrongType { .. } | Error::AccessDenied { .. }) => return Ok(()),
        swept => swept?,
    };
    let (queue, place, workers) = match topic_at(address) {
        Some(topic) => (None, format!("topic {topic}"), "of a subscription"),
        None => (Some(address), format!("queue {address}"), "that serves it (`work --queue QUEUE`)"),
    };
    let advice =
        format!("start a worker {workers}: workers remove expired entries; if one runs, its log has the reason").replace("QUEUE", address);
    problems.extend(swept.kinds().map(|(kind, _)| {
        let problem = format!("{place}: more than 100,000 expired entries wait to be removed: {kind}");
        Problem::advice(queue, problem, &*advice)
    }));
    Ok(())
}

/// Schedules whose next tick is further in the future than a correct clock could have set it.
async fn schedules_too_far_ahead(client: &Client, queue: &str, repair: bool, problems: &mut Vec<Problem>) -> queue_core::Result<()> {
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

/// Schedules of a queue that do not tick, although no operator has paused them.
async fn schedules(client: &Client, queue: &str, problems: &mut Vec<Problem>) -> queue_core::Result<()> {
    for record in client.schedules().list(queue).await? {
        let name = &record.schedule;
        let mut add = |problem: String, advice: &str| problems.push(Problem::advice(Some(queue), problem, advice));
        if let Some(problem) = &record.problem {
            add(format!("schedule {name} cannot tick on this machine: {problem}"), "a worker on another machine may have the time zone");
        }
        if record.dead_in_a_row > 0 {
            let dead = match record.dead_in_a_row {
                1 => "its last job is a dead letter".to_owned(),
                jobs => format!("its last {jobs} jobs are dead letters"),
            };
            let last = record.runs.iter().find(|run| run.outcome.as_deref() == Some("dead")).and_then(|run| run.job.as_ref());
            let show = last.map_or_else(|| format!("`schedules show {name}`"), |job| format!("`jobs show {job}`"));
            add(
                format!("schedule {name} fails: {dead} of the task `{}`", record.task),
                &format!("see the error with {show}; `schedules pause {name}` stops it until the cause is repaired"),
            );
        }
        match (&record.paused, record.undeclared_since) {
            (Some(why), _) if why != BY_PERSON => {
                add(format!("schedule {name} is paused: {why}"), &format!("run `schedules resume {queue}/{name}`, or remove it"))
            }
            (None, Some(_)) => add(
                format!("no live worker declares schedule {name}, which code has declared before: it is paused after one hour"),
                &format!("deploy a worker that declares it, or run `schedules remove {queue}/{name}`"),
            ),
            _ => {}
        }
    }
    Ok(())
}

/// How long a loss of data is reported.
const LOSS_REPORTED: Duration = Duration::from_secs(72 * 3600);

/// How the loss was detected.
const LOSS_SEEN: &str = "it did not know a worker whose lease had not expired (flush, restored backup, failover)";

/// The consequences of the loss.
const LOSS_ADVICE: &str =
    "jobs enqueued since that copy may be missing: compare with the records of the application; jobs finished since may run again";

/// Conditions that are not damage, but worth reporting.
async fn add_advice(
    inspector: &Inspector,
    queue: &str,
    clustered: bool,
    problems: &mut Vec<Problem>,
    outboxes: &mut Vec<OutboxRecord>,
) -> queue_core::Result<()> {
    let mut stats = inspector.stats(queue).await?;
    outboxes.append(&mut stats.outboxes);
    let waiting = waiting(&stats);
    let (name, queue) = (queue, Some(queue));
    if let Some(ago) = stats.lost_at.and_then(|at| SystemTime::now().duration_since(at).ok()).filter(|ago| *ago < LOSS_REPORTED) {
        let problem =
            format!("{} ago the broker lost data of this queue or was restored from an older copy: {LOSS_SEEN}", rounded_duration(ago));
        problems.push(Problem::advice(queue, problem, LOSS_ADVICE));
    }
    if let Some(pause) = &stats.pause {
        problems.push(Problem::advice(queue, format!("it is {pause}"), format!("run `queues resume {name}`")));
    }
    problems.extend(unserved_queue(name, &stats));
    for parked in Parked::of(inspector, name, &stats).await? {
        problems.push(Problem::advice(queue, parked.text(), parked.advice()));
    }
    if let Some(problem) = returned_jobs(inspector, name, &stats).await? {
        problems.push(problem);
    }
    if let Some(oldest) = stats.oldest.filter(|oldest| *oldest >= OLD && !stats.paused && stats.lanes > 0) {
        problems.push(long_waiting_jobs(inspector, name, oldest).await?);
    }
    for difference in inspector.differences(name).await? {
        problems.push(Problem::advice(queue, difference.to_string(), difference.advice()));
    }
    if clustered && waiting > LARGE {
        let problem = format!("{waiting} jobs are in one slot, which moves as a whole when the cluster is resharded");
        problems.push(Problem::advice(queue, problem, "spread the work over several queues"));
    }
    Ok(())
}

fn waiting(stats: &QueueStats) -> u64 {
    [JobState::Ready, JobState::Scheduled, JobState::Retry].map(|state| stats.count(state)).iter().sum()
}

/// A queue with jobs that no live worker serves. The jobs of the last worker stay active until
/// another one reclaims them.
fn unserved_queue(queue: &str, stats: &QueueStats) -> Option<Problem> {
    let (waiting, running) = (waiting(stats), stats.count(JobState::Active));
    if stats.lanes > 0 || waiting + running == 0 {
        return None;
    }
    let since = stats.oldest.filter(|oldest| *oldest >= REPORTED_FROM);
    let since = since.map(|oldest| format!(", the oldest for {}", rounded_duration(oldest))).unwrap_or_default();
    let waiting = (waiting > 0).then(|| format!("{} waiting{since}", present_tense_verb(waiting)));
    let running = (running > 0).then(|| format!("{} running when the last worker stopped", past_tense_verb(running)));
    let jobs: Vec<String> = [running, waiting].into_iter().flatten().collect();
    let problem = format!("no live worker serves it, and {}", jobs.join("; "));
    Some(Problem::advice(Some(queue), problem, format!("start a worker that serves it (`work --queue {queue}`)")))
}

/// The difference of two clocks from which on it is a problem, in milliseconds.
const SKEWED_MS: u64 = 10_000;

/// It is unknown which of the two clocks is wrong.
fn clock_skew(skew_ms: i64) -> Option<Problem> {
    let direction = if skew_ms > 0 { "ahead of" } else { "behind" };
    let by = rounded_duration(Duration::from_millis(skew_ms.unsigned_abs()));
    let advice = "compare both with a third clock, and synchronize them by NTP; jobs and schedules use the broker's clock";
    let problem = || Problem::of_broker(format!("the clock of the broker is {by} {direction} the clock of this machine"), advice);
    (skew_ms.unsigned_abs() >= SKEWED_MS).then(problem)
}

/// The reason for which most of the ready jobs of a queue wait, the holder, and the expected end.
async fn long_waiting_jobs(inspector: &Inspector, queue: &str, oldest: Duration) -> queue_core::Result<Problem> {
    let waiting = inspector.waiting(queue).await?;
    let ready = waiting.iter().filter_map(|(reason, jobs)| Some((*reason, *jobs, explain_long_wait(reason)?)));
    let (main, jobs, (for_what, advice)) = ready.max_by_key(|(_, jobs, _)| *jobs).unwrap_or(("behind", 0, FOR_A_SLOT));
    let mut problem =
        format!("its oldest ready job has waited for {}; {} waiting {for_what}", rounded_duration(oldest), present_tense_verb(jobs));
    let mut first = inspector.list(queue, JobState::Ready, 0, 1).await?.jobs;
    inspector.add_reasons(queue, &mut first).await?;
    let cause = first.iter().flat_map(|job| &job.waiting).find(|reason| reason.name() == main && main != "behind");
    if let Some(cause) = cause {
        let holder = cause.holders().first().map(|job| format!(", held by {queue}/{job}")).unwrap_or_default();
        let end = cause.until().map(|until| format!(", expected end {}", relative_time(until, SystemTime::now()))).unwrap_or_default();
        problem.push_str(&format!(" (the first: {cause}{holder}{end})"));
    }
    Ok(Problem::advice(Some(queue), problem, advice.replace("QUEUE", queue)))
}

const FOR_A_SLOT: (&str, &str) = ("for a free slot", "start more workers, or check how long its jobs take");

/// The text for a reason of ready jobs, and the command that helps. `None`: jobs that wait for this
/// reason are not ready.
fn explain_long_wait(reason: &str) -> Option<(&'static str, &'static str)> {
    Some(match reason {
        "behind" => FOR_A_SLOT,
        "rate_limited" => (
            "for the rate of a limit",
            "more workers do not help; `limits list --queue QUEUE` shows the rates, and `limits set QUEUE/LIMIT --rate` raises one",
        ),
        "limit_full" => (
            "for a slot of a limit",
            "more workers do not help; `limits show QUEUE/LIMIT` lists the holders, and `limits set QUEUE/LIMIT --concurrency` adds slots",
        ),
        "group_paused" => {
            ("in paused groups", "`groups list --queue QUEUE` names them, and `groups resume QUEUE/GROUP` lets their jobs run")
        }
        "group_full" => (
            "in groups at their cap",
            "more workers do not help; `groups list --queue QUEUE` names the groups, and `groups set QUEUE/GROUP --cap` raises a cap",
        ),
        "out_of_order" => (
            "for an earlier job of their ordered group",
            "`groups list --queue QUEUE` names the jobs that block the group lines; cancel or repair a job that is stuck",
        ),
        "workers_quiet" => ("for workers that claim nothing", "`workers resume` lets them claim again"),
        _ => return None,
    })
}

/// Jobs that stopping workers have returned repeatedly. Such a job goes to the head of its list and
/// starts soon. Therefore all running jobs and the first waiting jobs are examined.
async fn returned_jobs(inspector: &Inspector, queue: &str, stats: &QueueStats) -> queue_core::Result<Option<Problem>> {
    if stats.total(Counter::Returned) + stats.total(Counter::Reclaimed) < u64::from(RETURNED_OFTEN) {
        return Ok(None);
    }
    let mut found: Vec<JobRecord> = Vec::new();
    for (state, pages) in [(JobState::Active, usize::MAX), (JobState::Ready, 1)] {
        let mut from = Some(0);
        for _ in 0..pages {
            let Some(offset) = from else { break };
            let page = inspector.list(queue, state, offset, 500).await?;
            found.extend(page.jobs.into_iter().filter(|job| job.returns >= RETURNED_OFTEN));
            from = page.next;
        }
    }
    let Some(most) = found.iter().max_by_key(|job| (job.returns, job.returned_at)) else { return Ok(None) };
    let task = most.task.as_deref().map(|task| format!(" of task {task}")).unwrap_or_default();
    let last = most.returned_at.map(|at| format!(", last {}", relative_time(at, SystemTime::now()))).unwrap_or_default();
    let jobs = past_tense_verb(found.len() as u64);
    let problem =
        format!("{jobs} returned by stopping workers {RETURNED_OFTEN} times or more: {}{task} {} times{last}", most.address, most.returns);
    let advice = "they run longer than the time between deployments and restart each time: raise `--grace`, store progress and continue from it, or let the old workers finish with `workers quiet --release OLD`";
    Ok(Some(Problem::advice(Some(queue), problem, advice)))
}

fn past_tense_verb(jobs: u64) -> String {
    if jobs == 1 { "1 job was".to_owned() } else { format!("{jobs} jobs were") }
}

fn present_tense_verb(jobs: u64) -> String {
    if jobs == 1 { "1 job is".to_owned() } else { format!("{jobs} jobs are") }
}

fn text(report: &Report) -> String {
    let mut text = format!("{} ({})\n", report.location, report.durability);
    let (mut faults, mut repaired, mut warnings) = (0, 0, 0);
    for problem in &report.problems {
        let (word, count) = match problem {
            Problem { is_fault: true, repaired: true, .. } => ("repaired", &mut repaired),
            Problem { is_fault: true, .. } => ("fault", &mut faults),
            Problem { is_fault: false, .. } => ("warning", &mut warnings),
        };
        *count += 1;
        let queue = problem.queue.as_deref().map(|queue| format!("{queue}: ")).unwrap_or_default();
        let advice = problem.advice.as_deref().map(|advice| format!("; {advice}")).unwrap_or_default();
        text.push_str(&format!("- {word}: {queue}{}{advice}\n", problem.problem));
    }
    let counted = |count: usize, one: &str, more: &str| (count > 0).then(|| format!("{count} {}", if count == 1 { one } else { more }));
    let counts = [
        counted(faults, "fault", "faults"),
        counted(repaired, "fault repaired", "faults repaired"),
        counted(warnings, "warning", "warnings"),
    ];
    let problems_found: Vec<String> = counts.into_iter().flatten().collect();
    let problems_found = if problems_found.is_empty() { "no problems".to_owned() } else { problems_found.join(", ") };
    text.push_str(&format!("{problems_found} in {}", counted(report.queues, "queue", "queues").unwrap_or_else(|| "0 queues".to_owned())));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_an_hour_wrong_is_a_fault_in_both_directions() {
        for (skew_ms, direction) in [(3_600_000, "1h ahead of"), (-3_600_000, "1h behind")] {
            let problem = clock_skew(skew_ms).unwrap();
            assert!(problem.is_fault && problem.problem.contains(direction), "{}", problem.problem);
        }
        assert!(clock_skew(0).is_none() && clock_skew(9_999).is_none() && clock_skew(-9_999).is_none());
    }

    /// The only worker was killed while all of its slots were busy.
    #[test]
    fn jobs_that_were_running_when_the_last_worker_was_killed_are_a_problem() {
        let mut stats = QueueStats::default();
        assert!(unserved_queue("mail", &stats).is_none());
        stats.set_count(JobState::Active, 4);
        let found = unserved_queue("mail", &stats).unwrap();
        assert_eq!(found.problem, "no live worker serves it, and 4 jobs were running when the last worker stopped");
        assert_eq!(found.advice.unwrap(), "start a worker that serves it (`work --queue mail`)");
        stats.set_count(JobState::Retry, 1);
        let found = unserved_queue("mail", &stats).unwrap();
        assert!(found.problem.ends_with("4 jobs were running when the last worker stopped; 1 job is waiting"), "{}", found.problem);
        stats.lanes = 1;
        assert!(unserved_queue("mail", &stats).is_none());
    }

    #[test]
    fn more_workers_are_advised_only_where_jobs_wait_for_a_slot_of_a_worker() {
        for reason in queue_core::inspect::Reason::NAMES {
            let advises = explain_long_wait(reason).is_some_and(|(_, advice)| advice.starts_with("start more workers"));
            assert_eq!(advises, reason == "behind", "{reason}");
        }
    }

    #[tokio::test]
    async fn jobs_that_wait_for_a_rate_name_the_limit_and_the_expected_end() {
        use queue_core::{
            RawJob,
            broker::{ProcessId, Register, Turn},
        };
        let client = Client::connect("sqlite://:memory:").await.unwrap();
        let (inspector, lease) = (client.inspector(), Duration::from_secs(60));
        inspector.set_limit("pay", "stripe", |rule| rule.rate = Some("1/1h".parse().unwrap())).await.unwrap();
        for _ in 0..3 {
            let job = RawJob::new("charge", vec![0x80]).queue("pay").limit("stripe", None);
            client.enqueue_raw(job).await.unwrap();
        }
        let lane = client.broker().register(&Register::lane("pay", ProcessId::random(), lease)).await.unwrap().name;
        client.broker().turn(&Turn::new("pay", lane, 1, lease).claim(3)).await.unwrap();
        let problem = long_waiting_jobs(&inspector, "pay", OLD).await.unwrap();
        let text = &problem.problem;
        assert!(text.contains("2 jobs are waiting for the rate of a limit (the first: its limit `stripe`"), "{text}");
        assert!(text.contains("expected end in "), "{text}");
        let advice = problem.advice.unwrap();
        assert!(advice.contains("more workers do not help; `limits list --queue pay`"), "{advice}");
    }
}
