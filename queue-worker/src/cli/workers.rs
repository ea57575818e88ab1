//! `workers`: which workers there are.

use std::time::SystemTime;

use queue_core::{Client, broker::WorkerRecord};
use serde::Serialize;

use super::{
    args::QueueArgs,
    exit::{Failure, note},
    output::{coarse, print, print_json, relative, short, table, utc},
    queues::{self, Unreadable},
};

/// Most queues of a worker that a table names.
const NAMED: usize = 3;

#[derive(Serialize)]
struct WorkerRow {
    worker: String,
    host: String,
    pid: u32,
    release: String,
    queues: Vec<String>,
    /// The tasks that it can run; of very many, the first.
    tasks: Vec<String>,
    task_count: u64,
    lanes: u64,
    since: Option<String>,
    /// How long ago the broker last heard of it.
    lease_age_ms: u128,
    /// How long its lease stands; 0 when it is over.
    lease_left_ms: u128,
    #[serde(skip)]
    started: Option<SystemTime>,
    #[serde(skip)]
    heard: String,
}

impl WorkerRow {
    fn new(worker: WorkerRecord) -> Self {
        let over = if worker.lease_left.is_zero() { ", lease over" } else { "" };
        WorkerRow {
            worker: worker.id.to_string(),
            host: worker.host,
            pid: worker.pid,
            release: worker.release,
            queues: worker.queues,
            tasks: worker.tasks,
            task_count: worker.task_count,
            lanes: worker.lanes,
            since: worker.since.and_then(utc),
            lease_age_ms: worker.lease_age.as_millis(),
            lease_left_ms: worker.lease_left.as_millis(),
            started: worker.since,
            heard: format!("{} ago{over}", coarse(worker.lease_age)),
        }
    }

    fn cells(&self, now: SystemTime) -> [String; 9] {
        [
            self.worker.clone(),
            self.host.clone(),
            if self.pid == 0 { String::new() } else { self.pid.to_string() },
            self.release.clone(),
            named(&self.queues),
            self.task_count.to_string(),
            self.lanes.to_string(),
            self.started.map_or_else(String::new, |started| relative(started, now)),
            self.heard.clone(),
        ]
    }
}

/// The first of some queues, and how many more there are.
fn named(queues: &[String]) -> String {
    let (first, more) = queues.split_at(queues.len().min(NAMED));
    let first = first.iter().map(|queue| short(queue, 40)).collect::<Vec<_>>().join(", ");
    if more.is_empty() { first } else { format!("{first} and {} more", more.len()) }
}

pub(super) async fn workers(client: &Client, args: &QueueArgs) -> Result<(), Failure> {
    let (mut records, mut unreadable) = (Vec::new(), Vec::new());
    for queue in queues::chosen(client, args.queue.as_deref()).await? {
        match client.inspector().workers_of(&queue).await {
            Ok(workers) => records.extend(workers),
            Err(error) => unreadable.push(Unreadable::from(&queue, error)?),
        }
    }
    let rows: Vec<WorkerRow> = WorkerRecord::merged(records).into_iter().map(WorkerRow::new).collect();
    if args.format.json {
        print_json(&rows)?;
    } else if rows.is_empty() {
        note("no worker is registered");
    } else {
        let now = SystemTime::now();
        print(&table(
            ["worker", "host", "#pid", "release", "queues", "#tasks", "#lanes", "since", "heard"],
            rows.iter().map(|row| row.cells(now)),
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
