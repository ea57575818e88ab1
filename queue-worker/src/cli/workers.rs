//! `workers`: which workers there are.

use std::time::SystemTime;

use queue_core::{Client, WorkerLoad, WorkerRecord, broker::bytes};

use super::{
    args::QueueArgs,
    exit::{Failure, note},
    output::{coarse, print, print_json, relative, short, table},
    queues::{self, Unreadable},
};

/// Most queues of a worker that a table names.
const NAMED: usize = 3;

fn cells(worker: &WorkerRecord, now: SystemTime) -> [String; 12] {
    let over = if worker.lease_left.is_zero() { ", lease over" } else { "" };
    [
        worker.id.to_string(),
        worker.host.clone(),
        if worker.pid == 0 { String::new() } else { worker.pid.to_string() },
        worker.release.clone(),
        named(&worker.queues),
        worker.task_count.to_string(),
        worker.lanes.to_string(),
        worker.load.map_or_else(unknown, |load| format!("{}/{}", load.busy, load.slots)),
        memory(worker.load),
        cpu(worker.load),
        worker.since.map_or_else(String::new, |since| relative(since, now)),
        format!("{} ago{over}", coarse(worker.lease_age)),
    ]
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn memory(load: Option<WorkerLoad>) -> String {
    load.and_then(|load| load.memory).map_or_else(unknown, bytes)
}

/// In cores.
fn cpu(load: Option<WorkerLoad>) -> String {
    load.and_then(|load| load.cores()).map_or_else(unknown, |cores| format!("{cores:.2}"))
}

/// The first of some queues, and how many more there are.
fn named(queues: &[String]) -> String {
    let (first, more) = queues.split_at(queues.len().min(NAMED));
    let first = first.iter().map(|queue| short(queue, 40)).collect::<Vec<_>>().join(", ");
    if more.is_empty() { first } else { format!("{first} and {} more", more.len()) }
}

pub(super) async fn workers(client: &Client, args: &QueueArgs) -> Result<(), Failure> {
    let inspector = client.inspector();
    let queues = queues::chosen(client, args.queue.as_deref()).await?;
    let (records, unreadable) = queues::of_each(queues, async |queue| inspector.workers_of(queue).await).await?;
    let mut workers = WorkerRecord::merged(records.into_iter().flat_map(|(_, workers)| workers));
    if args.queue.is_some() && workers.iter().any(|worker| worker.load.is_none()) {
        // It may have said so in another of its queues. What cannot be read there is told where that queue is asked for.
        let elsewhere = inspector.workers().await.unwrap_or_default();
        for worker in workers.iter_mut().filter(|worker| worker.load.is_none()) {
            worker.load = elsewhere.iter().find(|other| other.id == worker.id).and_then(|other| other.load);
        }
    }
    if args.format.json {
        print_json(&workers)?;
    } else if workers.is_empty() {
        note("no worker is registered");
    } else {
        let now = SystemTime::now();
        print(&table(
            ["worker", "host", "#pid", "release", "queues", "#tasks", "#lanes", "#busy", "#memory", "#cpu", "since", "heard"],
            workers.iter().map(|worker| cells(worker, now)),
        ))?;
    }
    Unreadable::tell(&unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_names_the_first_queues() {
        let queues: Vec<String> = ["a", "b", "c", "d", "e"].map(str::to_owned).into();
        assert_eq!(named(&queues[..3]), "a, b, c");
        assert_eq!(named(&queues), "a, b, c and 2 more");
    }
}
