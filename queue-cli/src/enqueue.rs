//! `enqueue`: stores a job.

use std::{collections::BTreeSet, io::Read};

use queue_core::{Client, Error, RawJob, Registry, Stored};
use serde::Serialize;

use super::{
    args::EnqueueArgs,
    exit::{Exit, Failure, note},
    output::{print, print_json},
    tasks,
};

/// The maximum length of JSON from standard input. Any valid payload is shorter in the usual
/// notation.
const STDIN_MAX: u64 = 8 * 1024 * 1024;

/// The job that the arguments describe.
pub(super) fn job(registry: &Registry, args: &EnqueueArgs) -> Result<RawJob, Failure> {
    let task = tasks::find(registry, &args.task)?;
    with_options(RawJob::from_json(task, &json(args)?)?, args)
}

/// The same in a program without the task. The parameters are not checked, and the queue of the
/// task is unknown.
pub(super) fn job_by_name(args: &EnqueueArgs) -> Result<RawJob, Failure> {
    if args.queue.is_none() {
        let advice = "name it with --queue, or use the worker binary of your application";
        return Err(Failure::new(Exit::Usage, format!("this program does not know the queue of the task `{}`: {advice}", args.task)));
    }
    with_options(raw_job(&args.task, &json(args)?)?, args)
}

/// A job of a task that is not in this program.
pub(super) fn raw_job(task: &str, json: &str) -> Result<RawJob, Failure> {
    Ok(RawJob::new(task, queue_core::__private::map_from_json(task, "args", json)?))
}

fn json(args: &EnqueueArgs) -> Result<String, Failure> {
    json_of(&args.args)
}

/// The JSON of an argument, or of standard input for `-`.
pub(super) fn json_of(argument: &str) -> Result<String, Failure> {
    match argument {
        "-" => from_stdin(),
        json => Ok(json.to_owned()),
    }
}

fn with_options(mut job: RawJob, args: &EnqueueArgs) -> Result<RawJob, Failure> {
    check_once("header", args.header.iter().map(|(name, _)| name))?;
    check_once("tag", args.tag.iter().map(|(name, _)| name))?;
    check_once("limit", args.limit.iter().map(|(name, _)| name))?;
    if let Some(queue) = &args.queue {
        job = job.queue(queue);
    }
    if let Some(delay) = args.delay {
        job = job.delay(delay);
    }
    if let Some(time) = args.at {
        job = job.at(time);
    }
    if let Some(id) = &args.id {
        job = job.id(id);
    }
    if let Some(key) = &args.unique_key {
        job = job.unique_key(key);
    }
    if let Some(group) = &args.group {
        job = job.group(group);
    }
    if let Some(priority) = args.priority {
        job = job.priority(priority);
    }
    if let Some(attempts) = args.max_attempts {
        job = job.max_attempts(attempts);
    }
    if let Some(timeout) = args.timeout {
        job = job.timeout(timeout);
    }
    if let Some(retention) = args.retention {
        job = job.retention(retention);
    }
    if let Some(expires) = args.expires {
        job = job.expires(expires);
    }
    for (name, value) in &args.header {
        job = job.header(name, value);
    }
    for (name, value) in &args.tag {
        job = job.tag(name, value);
    }
    for (name, key) in &args.limit {
        job = job.limit(name, key.as_deref());
    }
    if let Some(cost) = args.cost {
        job = job.cost(cost);
    }
    Ok(job)
}

#[derive(Serialize)]
struct Answer {
    job: String,
    existing: bool,
    stored: &'static str,
}

/// Returns an error for a repeated name, because its first value would be lost.
pub(super) fn check_once<'a>(option: &str, names: impl Iterator<Item = &'a String>) -> Result<(), Failure> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(Failure::new(Exit::Usage, format!("--{option} `{name}` is given twice; leave one of the two out")));
        }
    }
    Ok(())
}

/// Compares the cost of a job that names its limits with the stored limits. Without stored limits,
/// or without an answer, the enqueue itself reports errors.
async fn check_cost(client: &Client, job: &RawJob, args: &EnqueueArgs) -> Result<(), Failure> {
    let Some(cost) = args.cost.filter(|_| !args.limit.is_empty()) else { return Ok(()) };
    for limit in client.inspector().limits(job.its_queue()).await.unwrap_or_default() {
        let is_named = args.limit.iter().any(|(name, _)| *name == limit.name);
        let burst = limit.rule.burst();
        if is_named && limit.rule.rate.is_some() && cost > burst {
            let name = limit.name;
            let problem =
                format!("is more than the burst {burst} of the limit `{name}`; lower the cost, or raise the burst with `limits set`");
            return Err(Error::Invalid { field: "cost", value: cost.to_string(), problem }.into());
        }
    }
    Ok(())
}

/// Stores it and prints its address.
pub(super) async fn enqueue(client: &Client, job: RawJob, args: &EnqueueArgs) -> Result<(), Failure> {
    check_cost(client, &job, args).await?;
    let (address, stored) = match client.served_queues_only().enqueue_raw(job.clone()).await {
        Err(Error::Unserved { queue, nearest }) if !args.strict => {
            let hint = nearest.map(|name| format!(" Did you mean `{name}`?")).unwrap_or_default();
            note(&format!("no worker has ever served queue `{queue}`: the job waits until one does.{hint}"));
            client.enqueue_raw(job).await?
        }
        answer => answer?,
    };
    let job = address.to_string();
    if args.format.json {
        return Ok(print_json(&Answer { job, existing: stored == Stored::Existing, stored: stored.name() })?);
    }
    print(&job)?;
    match stored {
        Stored::Existing => note("the job already existed, or this job holds its unique key; no second job was stored"),
        Stored::Replaced => note("this job holds the unique key, and now has the new parameters or time; no second job was stored"),
        Stored::Buffered => note("another job holds the unique key: the new job is held until that job has ended"),
        _ => {}
    }
    Ok(())
}

fn from_stdin() -> Result<String, Failure> {
    let mut json = String::new();
    match std::io::stdin().lock().take(STDIN_MAX + 1).read_to_string(&mut json) {
        Ok(read) if read as u64 > STDIN_MAX => {
            Err(Failure::new(Exit::Usage, format!("the JSON on standard input is longer than {STDIN_MAX} bytes")))
        }
        Ok(_) => Ok(json),
        Err(error) => Err(Failure::new(Exit::Usage, format!("cannot read the JSON from standard input: {error}"))),
    }
}
