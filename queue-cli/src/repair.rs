//! `jobs requeue`, `promote`, `cancel` and `delete`, for named jobs, or for all jobs in a state.

use queue_core::{
    __private::error_text,
    Client, Error, JobAddress, JobState,
    inspect::{Change, Changed, Filter, Inspector, NewOperation, Operation, QueueStats},
};
use serde::Serialize;
use serde_json::json;

use super::{
    args::{Format, state_parser},
    exit::{Exit, Failure, exit_of, note, print_error},
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
    /// All jobs of a state, or that match --where
    #[arg(long)]
    pub(super) all: bool,
    /// The states, separated by commas, with --all; the default is all states that --where matches.
    /// For `requeue`, the default is dead unless --where names states
    #[arg(long, requires = "all", value_name = "STATE", value_delimiter = ',', value_parser = state_parser())]
    pub(super) state: Vec<JobState>,
    /// Only jobs of this queue, with --all
    #[arg(long, requires = "all", value_name = "QUEUE")]
    pub(super) queue: Option<String>,
    /// Only matching jobs, with --all: a filter as for `jobs list`; all filters must match
    #[arg(long = "where", requires = "all", value_name = "FILTER")]
    pub(super) filter: Vec<String>,
    /// Print how many jobs it would affect, with --all; change nothing
    #[arg(long, requires = "all")]
    pub(super) dry_run: bool,
    /// Start it and exit, with --all; the workers of the queues carry it out
    #[arg(long, requires = "all", conflicts_with = "dry_run")]
    pub(super) detach: bool,
    #[command(flatten)]
    pub(super) format: Format,
}

/// Checks the command before the broker is connected.
pub(super) fn check(change: Change, select: &Select) -> Result<(), Failure> {
    if !select.all && select.jobs.is_empty() {
        let all = match change {
            Change::Requeue => "`--all` for all dead jobs, `--all --queue QUEUE` for those of one queue",
            _ => "`--all --state STATE` for all jobs in a state, or `--all --where FILTER`",
        };
        return Err(Failure::new(Exit::Usage, format!("`jobs {change}` needs jobs, as `{change} QUEUE/ID`, or {all}")));
    }
    if select.all {
        Which::of(change, select)?;
    }
    Ok(())
}

pub(super) async fn repair(client: &Client, change: Change, reason: &str, select: &Select) -> Result<(), Failure> {
    let inspector = client.inspector().because(reason);
    if select.all { change_all(client, &inspector, change, select, false).await } else { change_named(&inspector, change, select).await }
}

/// Deletes jobs. With `asks`, an operator has to confirm the deletion of all jobs.
pub(super) async fn delete(client: &Client, select: &Select, asks: bool) -> Result<(), Failure> {
    let inspector = client.inspector();
    if select.all {
        change_all(client, &inspector, Change::Delete, select, asks).await
    } else {
        change_named(&inspector, Change::Delete, select).await
    }
}

/// Prints the number of jobs in these queues, and asks for confirmation. Returns the queues with
/// jobs. Other queues must not lose a job.
async fn confirmed(
    inspector: &Inspector,
    queues: &[String],
    which: &Which,
    unreadable: &mut Vec<Unreadable>,
) -> Result<Vec<String>, Failure> {
    let concerned = queues.iter().filter(|queue| which.only.allows_queue(queue)).cloned().collect();
    let (figures, missing) = queues::for_each_queue(concerned, async |queue| inspector.stats(queue).await).await?;
    unreadable.extend(missing);
    let counts = figures.into_iter().map(|(queue, stats)| (queue, which.count(&stats)));
    let counts: Vec<(String, u64)> = counts.filter(|(_, jobs)| *jobs > 0).collect();
    if counts.is_empty() {
        return Ok(Vec::new());
    }
    let count = if which.only.is_empty() { "" } else { " (--dry-run counts them)" };
    person::confirm(false, &format!("{}{count} will be removed permanently", counted(&counts, which)))?;
    Ok(counts.into_iter().map(|(queue, _)| queue).collect())
}

/// `3,012 dead jobs of mail, orders`. The number of matching jobs is unknown.
fn counted(counts: &[(String, u64)], which: &Which) -> String {
    let total = counts.iter().map(|(_, jobs)| jobs).sum();
    let queues: Vec<&str> = counts.iter().map(|(queue, _)| queue.as_str()).collect();
    let matches = if total == 1 { "matches" } else { "match" };
    let text = format!("{} {} of {}", in_thousands(total), which.jobs(total), queues.join(", "));
    if which.only.is_empty() { text } else { format!("at most {text} that {matches} `{}`", which.only) }
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

/// The jobs that `--all` selects.
struct Which {
    /// Their states: those of `--state`, or else those of the filter to which the change applies.
    states: Vec<JobState>,
    /// The filter of `--where`.
    only: Filter,
    /// The filter with both.
    filter: Filter,
}

impl Which {
    fn of(change: Change, select: &Select) -> Result<Which, Failure> {
        let only = terms::filter(&[&select.filter])?;
        let applies: Vec<JobState> = JobState::ALL.into_iter().filter(|state| change.applies_to(*state)).collect();
        let refused = |problem: &str| {
            let names: Vec<_> = applies.iter().map(|state| state.name()).collect();
            Failure::new(
                Exit::Usage,
                format!("{problem}; `jobs {change} --all` takes --state {}, several separated by commas", names.join(", ")),
            )
        };
        let has_state = only.states().len() < JobState::ALL.len();
        let chosen = match (&select.state[..], change) {
            ([], Change::Requeue) if !has_state => vec![JobState::Dead],
            ([], _) if only.is_empty() => return Err(refused("the state is missing, and there is no --where")),
            ([], _) => applies.clone(),
            (chosen, _) => chosen.to_vec(),
        };
        if let Some(state) = chosen.iter().find(|state| !change.applies_to(**state)) {
            return Err(refused(&format!("jobs that are {state} cannot be {}", change.done())));
        }
        let is_chosen = |state: &JobState| chosen.contains(state) && only.states().contains(state);
        let states: Vec<JobState> = applies.iter().copied().filter(is_chosen).collect();
        // The filter of the selected state, or of the excluded states.
        let terms: Vec<String> = match &states[..] {
            [] => return Err(refused(&format!("the filter `{only}` leaves no job that can be {}", change.done()))),
            [state] => vec![format!("state={state}")],
            states => applies.iter().filter(|state| !states.contains(state)).map(|state| format!("state!={state}")).collect(),
        };
        let filter = terms::filter(&[&terms, &select.filter])?;
        Ok(Which { states, only, filter })
    }

    /// `dead jobs`; `jobs` if they are of several states.
    fn jobs(&self, n: u64) -> String {
        let jobs = if n == 1 { "job" } else { "jobs" };
        self.state().map_or_else(|| jobs.to_owned(), |state| format!("{state} {jobs}"))
    }

    /// The state, if there is only one.
    fn state(&self) -> Option<JobState> {
        if let [state] = self.states[..] { Some(state) } else { None }
    }

    /// The number of jobs in these states.
    fn count(&self, stats: &QueueStats) -> u64 {
        self.states.iter().map(|state| stats.count(*state)).sum()
    }
}

#[derive(Serialize)]
struct Answer {
    job: String,
    done: bool,
    answer: String,
}

/// Continues after a job to which the change does not apply. The exit code is that of the first
/// such job.
async fn change_named(inspector: &Inspector, change: Change, select: &Select) -> Result<(), Failure> {
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
                print_error(&text);
                problem.get_or_insert(exit_of(&error));
                answers.push(Answer { job: job.clone(), done: false, answer: text });
                // Without a broker, the other jobs would fail as well.
                if error.is_transient() {
                    break;
                }
            }
        }
    }
    if select.format.json {
        print_json(&json!({ "jobs": answers }))?;
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
    /// The state; `None` if there are several.
    state: Option<&'static str>,
    done: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<Operation>,
}

/// Runs an operation for each queue with such jobs, one after the other. With `asks`, an operator
/// has to confirm it first.
async fn change_all(client: &Client, inspector: &Inspector, change: Change, select: &Select, asks: bool) -> Result<(), Failure> {
    let which = Which::of(change, select)?;
    let (mut totals, mut previews) = (Vec::new(), Vec::new());
    let starting = Starting { dry_run: select.dry_run, detach: select.detach };
    let (mut queues, mut unreadable) = queues::readable(client, select.queue.as_deref()).await?;
    if asks {
        queues = confirmed(inspector, &queues, &which, &mut unreadable).await?;
    }
    let mut queues = queues.into_iter();
    while let Some(queue) = queues.next() {
        let begun = match of_queue(inspector, &queue, change, &which, &starting, &select.format).await {
            Ok(begun) => begun,
            Err(Unended::Broker(error)) => {
                unreadable.push(Unreadable::from(&queue, error)?);
                continue;
            }
            // An error of one queue does not stop the operations of the others.
            Err(Unended::Command(failure)) if failure.is_of_a_queue() => {
                unreadable.push(Unreadable::of_failure(&queue, failure));
                continue;
            }
            Err(Unended::Command(failure)) => {
                let left: Vec<String> = queues.collect();
                if !left.is_empty() {
                    note(&format!("not begun: {}", left.join(", ")));
                }
                return Err(failure);
            }
        };
        let operation = match begun {
            Some(Begun::Previewed(preview)) => {
                previews.push(preview);
                continue;
            }
            Some(Begun::Started(operation)) => Some(*operation),
            None => None,
        };
        let done = operation.as_ref().map_or(0, |operation| operation.changed);
        let is_over = operation.as_ref().is_some_and(|operation| !operation.is_running());
        if !select.format.json && is_over && done > 0 {
            print(&format!("{queue}: {done} {} {}", which.jobs(done), change.done()))?;
        }
        if let Some(operation) = operation.as_ref().filter(|operation| operation.failed > 0) {
            note(&operations::describe_operation(operation));
        }
        totals.push(Total { queue, state: which.state().map(JobState::name), done, operation });
    }
    if select.format.json {
        if select.dry_run { print_json(&json!({ "queues": previews }))? } else { print_json(&json!({ "queues": totals }))? }
    } else if unreadable.is_empty() && previews.is_empty() && totals.iter().all(|total| total.done == 0 && !is_under_way(total)) {
        let state = which.state().map_or_else(|| format!("can be {}", change.done()), |state| format!("is {state}"));
        note(&if which.only.is_empty() { format!("no job {state}") } else { format!("no job {state} and matches the filter") });
    }
    Unreadable::report(&unreadable)
}

fn is_under_way(total: &Total) -> bool {
    total.operation.as_ref().is_some_and(Operation::is_running)
}

/// The reason why an operation has not ended: an error of the broker, or a failure of the command.
enum Unended {
    Broker(Error),
    Command(Failure),
}

/// `None` if there are no such jobs.
async fn of_queue(
    inspector: &Inspector,
    queue: &str,
    change: Change,
    which: &Which,
    starting: &Starting,
    format: &Format,
) -> Result<Option<Begun>, Unended> {
    if !which.filter.allows_queue(queue) || which.count(&inspector.stats(queue).await.map_err(Unended::Broker)?) == 0 {
        return Ok(None);
    }
    let new = NewOperation::new(change.into(), which.filter.clone());
    operations::begin(inspector, queue, new, starting, format).await.map(Some).map_err(Unended::Command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_states_are_those_of_the_option_or_of_the_filter() {
        let which = |change, states: &[JobState], filter: &str| {
            let filter = Vec::from_iter((!filter.is_empty()).then(|| filter.to_owned()));
            let select = Select {
                jobs: Vec::new(),
                all: true,
                state: states.to_vec(),
                queue: None,
                filter,
                dry_run: false,
                detach: false,
                format: Format { json: false },
            };
            Which::of(change, &select)
                .map(|which| (which.filter.to_string(), which.states))
                .map_err(|failure| failure.into_parts().1.unwrap())
        };
        use JobState::*;
        let all = vec![Scheduled, Ready, Active, Retry, Parked, Held];
        assert_eq!(which(Change::Cancel, &[], "unique=k2"), Ok(("unique=k2".to_owned(), all)));
        assert_eq!(which(Change::Cancel, &[], "state=ready id=7"), Ok(("state=ready state=ready id=7".to_owned(), vec![Ready])));
        let two = "state!=active state!=parked state!=held state!=retry".split(' ').collect::<std::collections::BTreeSet<_>>();
        let (terms, states) = which(Change::Cancel, &[Ready, Scheduled], "").unwrap();
        assert_eq!((terms.split(' ').collect(), states), (two, vec![Scheduled, Ready]));
        assert_eq!(which(Change::Requeue, &[], "error~x"), Ok(("state=dead error~x".to_owned(), vec![Dead])));
        assert_eq!(which(Change::Requeue, &[], "state=expired").unwrap().1, [Expired]);
        assert!(which(Change::Cancel, &[], "").unwrap_err().starts_with("the state is missing, and there is no --where"));
        assert!(
            which(Change::Cancel, &[Ready], "state=dead")
                .unwrap_err()
                .starts_with("the filter `state=dead` leaves no job that can be cancelled")
        );
        assert!(which(Change::Cancel, &[Dead], "").unwrap_err().starts_with("jobs that are dead cannot be cancelled"));
    }

    #[test]
    fn a_question_reports_how_many_jobs_of_which_queues() {
        let text = |counts: &[(&str, u64)], filter: &str| {
            let counts: Vec<_> = counts.iter().map(|(queue, jobs)| ((*queue).to_owned(), *jobs)).collect();
            counted(&counts, &Which { states: vec![JobState::Dead], only: filter.parse().unwrap(), filter: Filter::default() })
        };
        assert_eq!(text(&[("orders", 1)], ""), "1 dead job of orders");
        assert_eq!(text(&[("mail", 3_000), ("orders", 12)], ""), "3,012 dead jobs of mail, orders");
        assert_eq!(text(&[("orders", 3)], "task=greet"), "at most 3 dead jobs of orders that match `task=greet`");
        let numbers = [0, 7, 999, 1_000, 1_234_567].map(in_thousands);
        assert_eq!(numbers, ["0", "7", "999", "1,000", "1,234,567"]);
    }
}
