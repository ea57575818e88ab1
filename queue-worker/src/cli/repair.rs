//! `jobs requeue`, `promote`, `cancel` and `delete`: of named jobs, or of all in a state.

use queue_core::{Change, Changed, Client, Error, Filter, Inspector, JobAddress, JobState, NewOperation, Operation, outcome::error_text};
use serde::Serialize;

use super::{
    args::{Format, state_parser},
    exit::{Exit, Failure, exit_of, note, tell},
    operations::{self, Begun, Starting},
    output::{print, print_json},
    person,
    queues::{self, Unreadable},
};

#[derive(Debug, clap::Args)]
pub(super) struct Select {
    /// The jobs; without any, --all
    #[arg(value_name = "QUEUE/ID", conflicts_with_all = ["all", "state", "queue", "filter", "dry_run", "detach"])]
    pub(super) jobs: Vec<String>,
    /// All jobs of a state
    #[arg(long)]
    pub(super) all: bool,
    /// Which state, with --all; only `requeue` has a default, dead
    #[arg(long, requires = "all", value_parser = state_parser())]
    pub(super) state: Option<JobState>,
    /// Only of this queue, with --all
    #[arg(long, requires = "all", value_name = "QUEUE")]
    pub(super) queue: Option<String>,
    /// Only those that match, with --all: a filter as `jobs list` takes it
    #[arg(long = "where", requires = "all", value_name = "FILTER", default_value = "", hide_default_value = true)]
    pub(super) filter: Filter,
    /// Say how many jobs it would concern, with --all; change nothing
    #[arg(long, requires = "all")]
    pub(super) dry_run: bool,
    /// Start it and end, with --all: the workers of the queues do it
    #[arg(long, requires = "all", conflicts_with = "dry_run")]
    pub(super) detach: bool,
    #[command(flatten)]
    pub(super) format: Format,
}

/// What is wrong with the command, before the broker is reached for.
pub(super) fn check(change: Change, select: &Select) -> Result<(), Failure> {
    if !select.all && select.jobs.is_empty() {
        let all = match change {
            Change::Requeue => "`--all` for all dead jobs, `--all --queue QUEUE` for those of one queue",
            _ => "`--all --state STATE` for all jobs in a state",
        };
        return Err(Failure::new(Exit::Usage, format!("`jobs {change}` needs jobs, as `{change} QUEUE/ID`, or {all}")));
    }
    Ok(())
}

pub(super) async fn repair(client: &Client, change: Change, reason: &str, select: Select) -> Result<(), Failure> {
    let inspector = client.inspector().because(reason);
    if !select.all {
        return named(&inspector, change, &select).await;
    }
    let state = state(change, &select)?;
    all(client, &inspector, change, state, &select).await
}

/// A person has to say that all of them are to go.
pub(super) fn confirm(select: &Select) -> Result<(), Failure> {
    if !select.all || select.dry_run {
        return Ok(());
    }
    let state = state(Change::Delete, select)?;
    let queue = select.queue.as_deref().map_or_else(|| "of all queues".to_owned(), |queue| format!("of {queue}"));
    let filter = if select.filter.is_empty() { String::new() } else { format!(" that match `{}`", select.filter) };
    let what = format!("all {state} jobs {queue}{filter}");
    match person::answer(&format!("{what} will be removed for good; write `yes` to go on"))? {
        None => {
            Err(Failure::new(Exit::Usage, format!("{what} would be removed for good; say --yes to do it, or --dry-run to see how many")))
        }
        Some(answer) if answer == "yes" => Ok(()),
        Some(answer) => Err(Failure::new(Exit::Usage, format!("`{answer}` is not `yes`: nothing was removed"))),
    }
}

/// The state of all those that are to be changed.
fn state(change: Change, select: &Select) -> Result<JobState, Failure> {
    let state = select.state.or((change == Change::Requeue).then_some(JobState::Dead));
    let of_all = |problem: &str| {
        let states: Vec<_> = JobState::ALL.into_iter().filter(|state| change.applies_to(*state)).map(JobState::name).collect();
        Failure::new(Exit::Usage, format!("{problem}; `jobs {change} --all` takes one of --state {}", states.join(", ")))
    };
    match state {
        Some(state) if change.applies_to(state) => Ok(state),
        Some(state) => Err(of_all(&format!("jobs that are {state} cannot be {}", change.done()))),
        None => Err(of_all("the state is missing")),
    }
}

#[derive(Serialize)]
struct Answer {
    job: String,
    done: bool,
    answer: String,
}

/// Goes on after a job that it does not apply to; the exit code is that of the first one.
async fn named(inspector: &Inspector, change: Change, select: &Select) -> Result<(), Failure> {
    let mut answers = Vec::with_capacity(select.jobs.len());
    let mut problem = None;
    for job in &select.jobs {
        match of_text(inspector, change, job).await {
            Ok((address, answer)) => {
                if !select.format.json {
                    print(&format!("{address} {answer}"))?;
                }
                answers.push(Answer { job: address.to_string(), done: true, answer: answer.to_owned() });
            }
            Err(error) => {
                let text = error_text(&error);
                tell(&text);
                problem.get_or_insert(exit_of(&error));
                answers.push(Answer { job: job.clone(), done: false, answer: text });
                // Without a broker there is no use in trying the rest.
                if error.is_transient() {
                    break;
                }
            }
        }
    }
    if select.format.json {
        print_json(&answers)?;
    }
    problem.map_or(Ok(()), |exit| Err(Failure::silent(exit)))
}

async fn of_text(inspector: &Inspector, change: Change, job: &str) -> Result<(JobAddress, &'static str), Error> {
    let address = inspector.find(job).await?;
    let answer = match inspector.change(change, &address).await? {
        Changed::WhileActive => "cancelled while it ran",
        _ => change.done(),
    };
    Ok((address, answer))
}

#[derive(Serialize)]
struct Total {
    queue: String,
    state: &'static str,
    done: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<Operation>,
}

/// An operation of each queue that has such jobs, one after the other.
async fn all(client: &Client, inspector: &Inspector, change: Change, state: JobState, select: &Select) -> Result<(), Failure> {
    let (mut totals, mut looked) = (Vec::new(), Vec::new());
    let starting = Starting { dry_run: select.dry_run, detach: select.detach };
    let filter: Filter = format!("state={state} {}", select.filter).parse()?;
    let (queues, mut unreadable) = queues::readable(client, select.queue.as_deref()).await?;
    let mut queues = queues.into_iter();
    while let Some(queue) = queues.next() {
        let begun = match of_queue(inspector, &queue, change, state, &filter, &starting, &select.format).await {
            Ok(begun) => begun,
            Err(Unended::Ours(error)) => {
                unreadable.push(Unreadable::from(&queue, error)?);
                continue;
            }
            // What one queue refuses does not keep the others waiting.
            Err(Unended::Told(failure)) if failure.is_of_a_queue() => {
                unreadable.push(Unreadable::told(&queue, failure));
                continue;
            }
            Err(Unended::Told(failure)) => {
                let left: Vec<String> = queues.collect();
                if !left.is_empty() {
                    note(&format!("not begun: {}", left.join(", ")));
                }
                return Err(failure);
            }
        };
        let operation = match begun {
            Some(Begun::Looked(answer)) => {
                looked.push(answer);
                continue;
            }
            Some(Begun::Started(operation)) => Some(*operation),
            None => None,
        };
        let done = operation.as_ref().map_or(0, |operation| operation.changed);
        let is_over = operation.as_ref().is_some_and(|operation| !operation.is_running());
        if !select.format.json && is_over && done > 0 {
            print(&format!("{queue}: {done} {state} {} {}", if done == 1 { "job" } else { "jobs" }, change.done()))?;
        }
        if let Some(operation) = operation.as_ref().filter(|operation| operation.failed > 0) {
            note(&operations::told(operation));
        }
        totals.push(Total { queue, state: state.name(), done, operation });
    }
    if select.format.json {
        if select.dry_run { print_json(&looked)? } else { print_json(&totals)? }
    } else if unreadable.is_empty() && looked.is_empty() && totals.iter().all(|total| total.done == 0 && !is_under_way(total)) {
        note(&if select.filter.is_empty() { format!("no job is {state}") } else { format!("no job is {state} and matches the filter") });
    }
    Unreadable::tell(&unreadable)
}

fn is_under_way(total: &Total) -> bool {
    total.operation.as_ref().is_some_and(Operation::is_running)
}

/// Why an operation did not come to its end here: an error, or what was told already.
enum Unended {
    Ours(Error),
    Told(Failure),
}

/// `None`: there is no such job.
async fn of_queue(
    inspector: &Inspector,
    queue: &str,
    change: Change,
    state: JobState,
    filter: &Filter,
    starting: &Starting,
    format: &Format,
) -> Result<Option<Begun>, Unended> {
    if !filter.allows_queue(queue) || inspector.stats(queue).await.map_err(Unended::Ours)?.count(state) == 0 {
        return Ok(None);
    }
    let new = NewOperation::new(change.into(), filter.clone());
    operations::begin(inspector, queue, new, starting, format).await.map(Some).map_err(Unended::Told)
}
