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
    terms,
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
    /// Only those that match, with --all: a filter as `jobs list` takes it; of several, all have to match
    #[arg(long = "where", requires = "all", value_name = "FILTER")]
    pub(super) filter: Vec<String>,
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
    if select.all {
        state(change, select)?;
    }
    terms::filter(&[&select.filter])?;
    Ok(())
}

pub(super) async fn repair(client: &Client, change: Change, reason: &str, select: &Select) -> Result<(), Failure> {
    let inspector = client.inspector().because(reason);
    if select.all { all(client, &inspector, change, select, false).await } else { named(&inspector, change, select).await }
}

/// With a question first, a person has to say that all of them are to go.
pub(super) async fn delete(client: &Client, select: &Select, asks: bool) -> Result<(), Failure> {
    let inspector = client.inspector();
    if select.all { all(client, &inspector, Change::Delete, select, asks).await } else { named(&inspector, Change::Delete, select).await }
}

/// Tells how many jobs there are in these queues, and waits for a yes. Gives the queues that have any: no other may lose one.
async fn confirmed(
    inspector: &Inspector,
    queues: &[String],
    state: JobState,
    filter: &Filter,
    unreadable: &mut Vec<Unreadable>,
) -> Result<Vec<String>, Failure> {
    let concerned = queues.iter().filter(|queue| filter.allows_queue(queue)).cloned().collect();
    let (figures, missing) = queues::of_each(concerned, async |queue| inspector.stats(queue).await).await?;
    unreadable.extend(missing);
    let counts = figures.into_iter().map(|(queue, stats)| (queue, stats.count(state)));
    let counts: Vec<(String, u64)> = counts.filter(|(_, jobs)| *jobs > 0).collect();
    if counts.is_empty() {
        return Ok(Vec::new());
    }
    let what = counted(&counts, state, filter);
    let Some(answer) = person::answer(&format!("{what} will be removed for good; write `yes` to go on"))? else {
        let count = if filter.is_empty() { "" } else { ", or --dry-run to see how many" };
        return Err(Failure::new(Exit::Usage, format!("{what} would be removed for good; say --yes to do it{count}")));
    };
    if answer != "yes" {
        return Err(Failure::new(Exit::Usage, format!("`{answer}` is not `yes`: nothing was removed")));
    }
    Ok(counts.into_iter().map(|(queue, _)| queue).collect())
}

/// `3,012 dead jobs of mail, orders`. How many of them match is not known.
fn counted(counts: &[(String, u64)], state: JobState, filter: &Filter) -> String {
    let total = counts.iter().map(|(_, jobs)| jobs).sum();
    let queues: Vec<&str> = counts.iter().map(|(queue, _)| queue.as_str()).collect();
    let (jobs, matches) = if total == 1 { ("job", "matches") } else { ("jobs", "match") };
    let text = format!("{} {state} {jobs} of {}", in_thousands(total), queues.join(", "));
    if filter.is_empty() { text } else { format!("at most {text} that {matches} `{filter}`") }
}

/// `1,234,567`.
fn in_thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
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

/// An operation of each queue that has such jobs, one after the other; `asks`: once a person has confirmed it.
async fn all(client: &Client, inspector: &Inspector, change: Change, select: &Select, asks: bool) -> Result<(), Failure> {
    let state = state(change, select)?;
    let (mut totals, mut looked) = (Vec::new(), Vec::new());
    let starting = Starting { dry_run: select.dry_run, detach: select.detach };
    let only = terms::filter(&[&select.filter])?;
    let filter = terms::filter(&[&[format!("state={state}")], &select.filter])?;
    let (mut queues, mut unreadable) = queues::readable(client, select.queue.as_deref()).await?;
    if asks {
        queues = confirmed(inspector, &queues, state, &only, &mut unreadable).await?;
    }
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
        note(&if only.is_empty() { format!("no job is {state}") } else { format!("no job is {state} and matches the filter") });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_says_how_many_jobs_of_which_queues() {
        let told = |counts: &[(&str, u64)], filter: &str| {
            let counts: Vec<_> = counts.iter().map(|(queue, jobs)| ((*queue).to_owned(), *jobs)).collect();
            counted(&counts, JobState::Dead, &filter.parse().unwrap())
        };
        assert_eq!(told(&[("orders", 1)], ""), "1 dead job of orders");
        assert_eq!(told(&[("mail", 3_000), ("orders", 12)], ""), "3,012 dead jobs of mail, orders");
        assert_eq!(told(&[("orders", 3)], "task=greet"), "at most 3 dead jobs of orders that match `task=greet`");
        let numbers = [0, 7, 999, 1_000, 1_234_567].map(in_thousands);
        assert_eq!(numbers, ["0", "7", "999", "1,000", "1,234,567"]);
    }
}
