//! `doctor`: what is wrong, and what to do about it.

use std::process::ExitCode;

use queue_core::{
    Client, Inspector,
    broker::{Audit, Durability, State},
};
use serde::Serialize;

use super::{
    args::DoctorArgs,
    condition,
    exit::{Exit, Failure},
    output::{print, print_json},
    queues,
};

/// A queue of a cluster moves whole, at some seconds per million jobs.
const LARGE: u64 = 1_000_000;

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
    queue: Option<String>,
    problem: String,
    repaired: bool,
    /// What a person can do. It is advice, and nothing is wrong yet, where `advice` alone is said.
    advice: Option<String>,
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
}

pub(super) async fn doctor(client: &Client, args: &DoctorArgs) -> Result<ExitCode, Failure> {
    // The connection was made, so that version, role, credentials, schema and eviction policy are as they should be.
    let inspector = client.inspector();
    let info = client.info();
    let durability = inspector.durability().await?;
    let queues = queues::chosen(client, args.queue.as_deref()).await?;
    let condition = inspector.condition().await?;
    let mut problems = condition::problems(&condition);
    if durability == Durability::Volatile {
        let advice = if info.kind == "redis" { "turn on `appendonly`" } else { "use a file" };
        problems.push(Problem::advice(None, durability.meaning(), advice));
    }
    let clustered = info.location.contains("+cluster://");
    for queue in &queues {
        advise(&inspector, queue, clustered, &mut problems).await?;
        for damage in inspector.audit(queue, Audit { repair: args.repair, thorough: true }).await? {
            let advice = if args.repair { None } else { Some("`doctor --repair` puts it right".to_owned()) };
            problems.push(Problem {
                queue: Some(queue.clone()),
                problem: format!("{}: {}", damage.kind, damage.subject),
                repaired: args.repair,
                advice,
                is_fault: true,
            });
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

/// What is not damage, and should be known nevertheless.
async fn advise(inspector: &Inspector, queue: &str, clustered: bool, problems: &mut Vec<Problem>) -> Result<(), Failure> {
    let stats = inspector.stats(queue).await?;
    let depth = |state: State| stats.depth.get(&state).copied().unwrap_or(0);
    let waiting = depth(State::Ready) + depth(State::Scheduled) + depth(State::Retry);
    let queue = Some(queue);
    if stats.paused {
        problems.push(Problem::advice(queue, "it is paused", "`queues resume` lets it be served"));
    }
    if stats.workers == 0 && waiting > 0 {
        problems.push(Problem::advice(queue, format!("{waiting} jobs wait and no worker serves it"), "start a worker"));
    }
    if depth(State::Parked) > 0 {
        let parked = depth(State::Parked);
        problems.push(Problem::advice(
            queue,
            format!("{parked} jobs are of tasks that no worker knows"),
            "deploy the binary that has them",
        ));
    }
    if clustered && waiting > LARGE {
        let problem = format!("{waiting} jobs lie in one slot, which moves whole when the cluster is resharded");
        problems.push(Problem::advice(queue, problem, "spread the work over several queues"));
    }
    Ok(())
}

fn text(report: &Report) -> String {
    let mut text = format!("{} ({})\n", report.location, report.durability);
    for Problem { queue, problem, repaired, advice, .. } in &report.problems {
        let queue = queue.as_deref().map(|queue| format!("{queue}: ")).unwrap_or_default();
        let end = match (repaired, advice) {
            (true, _) => "; repaired".to_owned(),
            (false, Some(advice)) => format!("; {advice}"),
            (false, None) => String::new(),
        };
        text.push_str(&format!("- {queue}{problem}{end}\n"));
    }
    let queues = report.queues;
    text.push_str(&match report.problems.len() {
        0 => format!("all is well in {queues} queues"),
        count => format!("{count} findings in {queues} queues"),
    });
    text
}
