//! `jobs requeue`, `promote`, `cancel` and `delete`: of named jobs, or of all in a state.

use queue_core::{
    Client, Error, Inspector, JobAddress,
    broker::{CancelAnswer, JobState},
    outcome::error_text,
};
use serde::Serialize;

use super::{
    args::{Select, SelectDead},
    exit::{Exit, Failure, exit_of, note, tell},
    output::{print, print_json},
    queues::{self, Unreadable},
};

/// What is done to jobs.
#[derive(Clone, Copy, Debug)]
enum Verb {
    Requeue,
    Promote,
    Cancel,
    Delete,
}

impl Verb {
    fn done(self) -> &'static str {
        match self {
            Verb::Requeue => "requeued",
            Verb::Promote => "promoted",
            Verb::Cancel => "cancelled",
            Verb::Delete => "deleted",
        }
    }

    async fn one(self, inspector: &Inspector, job: &JobAddress) -> queue_core::Result<&'static str> {
        match self {
            Verb::Requeue => inspector.requeue(job).await?,
            Verb::Promote => inspector.promote(job).await?,
            Verb::Delete => inspector.delete(job).await?,
            Verb::Cancel => {
                if inspector.cancel(job).await? == CancelAnswer::CancelledActive {
                    return Ok("cancelled while it ran");
                }
            }
        }
        Ok(self.done())
    }
}

pub(super) async fn requeue(client: &Client, select: SelectDead) -> Result<(), Failure> {
    let SelectDead { jobs, all, queue, format } = select;
    let state = all.then_some(JobState::Dead);
    repair(client, Verb::Requeue, Select { jobs, all, state, queue, format }).await
}

pub(super) async fn promote(client: &Client, select: Select) -> Result<(), Failure> {
    if let Some(state) = select.state.filter(|state| !matches!(state, JobState::Scheduled | JobState::Retry)) {
        return Err(Failure::new(
            Exit::Usage,
            format!("jobs that are {state} do not wait for a time; promote those that are scheduled or retry"),
        ));
    }
    repair(client, Verb::Promote, select).await
}

pub(super) async fn cancel(client: &Client, select: Select) -> Result<(), Failure> {
    if let Some(state) = select.state.filter(|state| state.is_final()) {
        return Err(Failure::new(
            Exit::Usage,
            format!("jobs that are {state} have ended and cannot be cancelled; `jobs delete` removes them"),
        ));
    }
    repair(client, Verb::Cancel, select).await
}

pub(super) async fn delete(client: &Client, select: Select) -> Result<(), Failure> {
    if select.state == Some(JobState::Active) {
        return Err(Failure::new(Exit::Usage, "jobs that are active cannot be deleted; cancel them first"));
    }
    repair(client, Verb::Delete, select).await
}

async fn repair(client: &Client, verb: Verb, select: Select) -> Result<(), Failure> {
    match select.state {
        Some(state) => all(client, verb, state, &select).await,
        None => named(client, verb, &select).await,
    }
}

#[derive(Serialize)]
struct Answer {
    job: String,
    done: bool,
    answer: String,
}

/// Goes on after a job that it does not apply to; the exit code is that of the first one.
async fn named(client: &Client, verb: Verb, select: &Select) -> Result<(), Failure> {
    let inspector = client.inspector();
    let mut answers = Vec::with_capacity(select.jobs.len());
    let mut problem = None;
    for job in &select.jobs {
        match of_text(&inspector, verb, job).await {
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

async fn of_text(inspector: &Inspector, verb: Verb, job: &str) -> Result<(JobAddress, &'static str), Error> {
    let address = inspector.find(job).await?;
    let answer = verb.one(inspector, &address).await?;
    Ok((address, answer))
}

#[derive(Serialize)]
struct Total {
    queue: String,
    state: &'static str,
    done: u64,
}

/// Takes as many as there were when it began, so that it ends although new ones arrive.
async fn all(client: &Client, verb: Verb, state: JobState, select: &Select) -> Result<(), Failure> {
    let inspector = client.inspector();
    let (mut totals, mut unreadable) = (Vec::new(), Vec::new());
    for queue in queues::chosen(client, select.queue.as_deref()).await? {
        let done = match verb {
            Verb::Requeue => inspector.requeue_all(&queue).await,
            Verb::Promote => inspector.promote_all(&queue, state).await,
            Verb::Cancel => inspector.cancel_all(&queue, state).await,
            Verb::Delete => inspector.delete_all(&queue, state).await,
        };
        let done = match done {
            Ok(done) => done,
            Err(error) => {
                unreadable.push(Unreadable::from(&queue, error)?);
                continue;
            }
        };
        if !select.format.json && done > 0 {
            print(&format!("{queue}: {done} {state} {} {}", if done == 1 { "job" } else { "jobs" }, verb.done()))?;
        }
        totals.push(Total { queue, state: state.name(), done });
    }
    if select.format.json {
        print_json(&totals)?;
    } else if totals.iter().all(|total| total.done == 0) && unreadable.is_empty() {
        note(&format!("no job is {state}"));
    }
    Unreadable::tell(&unreadable)
}
