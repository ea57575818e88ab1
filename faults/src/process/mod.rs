//! The processes of a run: what they are told, and what they do.
//!
//! Each is this program again, with its orders in JSON as its only argument.

mod operator;
mod producer;
mod worker;

use std::{path::PathBuf, process::ExitCode, time::Duration};

pub use self::{
    operator::take_steps,
    producer::{ALL, LIMIT, Producing, group, unique_key},
};

/// Most unique keys of a run.
pub const UNIQUE: u64 = 8;
use queue_core::Client;
use serde::{Deserialize, Serialize};

use crate::{
    events::{ATTEMPTS, Subscriber},
    recording::Failpoint,
    work::Deed,
};

/// What a process is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Orders {
    /// Run jobs until SIGTERM.
    Work(WorkerOrders),
    /// Enqueue jobs, then end.
    Produce(ProducerOrders),
    /// Take the steps of an operation to its end.
    Operate(OperatorOrders),
}

/// What every process is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Common {
    /// Its name in the history.
    pub name: String,
    /// The broker, as this process sees it.
    pub url: String,
    /// The file of its history.
    pub history: PathBuf,
}

/// What a worker is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkerOrders {
    /// Who it is.
    pub common: Common,
    /// Its lease in milliseconds.
    pub lease_ms: u64,
    /// Most jobs at once.
    pub concurrency: usize,
    /// The backoff: from this to that, in milliseconds.
    pub backoff_ms: (u64, u64),
    /// Where it kills itself.
    pub failpoint: Option<Failpoint>,
    /// Whether it knows tomorrow's task.
    pub tomorrow: bool,
    /// One tick of a schedule in so many is sent late; 0: none.
    pub late_ticks: u32,
    /// The subscriptions that it serves; none: it serves the queue of all jobs.
    pub subscribers: Vec<Subscriber>,
}

/// What the runner of an operation is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OperatorOrders {
    /// Who it is.
    pub common: Common,
    /// The id of the operation.
    pub operation: String,
    /// Between two steps, in milliseconds.
    pub pause_ms: u64,
}

/// What a producer is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProducerOrders {
    /// Who it is.
    pub common: Common,
    /// The number of its first job.
    pub first_key: u64,
    /// How many it enqueues.
    pub jobs: u64,
    /// How many at once.
    pub callers: u64,
    /// Between two enqueues of a caller, in milliseconds.
    pub pause_ms: u64,
    /// How long an enqueue is tried, in milliseconds.
    pub deadline_ms: u64,
    /// Seeds everything random.
    pub seed: u64,
    /// What the jobs are.
    pub mix: Mix,
}

/// What jobs are made: all of one kind, or some of each.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Mix {
    /// Longest run in milliseconds; each job takes up to that.
    pub ms: u32,
    /// Shortest run in milliseconds.
    #[serde(default)]
    pub from_ms: u32,
    /// What handlers do, one of these each.
    pub deeds: Vec<Deed>,
    /// One in so many has a delay of up to a second; 0: none.
    pub delayed: u64,
    /// One in so many has an id of its own and is enqueued twice; 0: none.
    pub given: u64,
    /// One in so many is kept with its result; 0: none.
    pub kept: u64,
    /// One in so many is cancelled; 0: none.
    pub cancelled: u64,
    /// Up to so many milliseconds after it was enqueued.
    pub cancel_ms: u32,
    /// One in so many is of tomorrow's task; 0: none.
    pub tomorrow: u64,
    /// Bytes of payload, at most.
    pub bytes: usize,
    /// So many unique keys, of which each job has one; 0: none.
    pub unique: u64,
    /// So many groups, of which each job has the one of its number; 0: none.
    pub groups: u64,
    /// Whether each job has a group, a key of a limit, and in turn a unique key for a second or a
    /// given id, which no other job has.
    #[serde(default)]
    pub once: bool,
    /// Whether these are keys of a limit, and no groups.
    #[serde(default)]
    pub limited: bool,
    /// The failure that buries a job.
    pub max_attempts: u32,
    /// Whether they are sent in bulk.
    pub bulk: bool,
    /// One in so many is of low priority, and all others are critical; 0: all are normal.
    pub low: u64,
    /// One in so many is edited while it waits; 0: none.
    pub edited: u64,
    /// Whether they are no jobs but events.
    pub events: bool,
}

impl Default for Mix {
    fn default() -> Self {
        Mix {
            ms: 5,
            from_ms: 0,
            deeds: vec![Deed::Return, Deed::Return, Deed::Return, Deed::Return, Deed::Fail(1), Deed::Panic(1), Deed::Snooze(1)],
            delayed: 10,
            given: 10,
            kept: 20,
            cancelled: 50,
            cancel_ms: 0,
            tomorrow: 0,
            bytes: 200,
            unique: 0,
            groups: 0,
            once: false,
            limited: false,
            max_attempts: 25,
            bulk: false,
            low: 0,
            edited: 0,
            events: false,
        }
    }
}

impl Mix {
    /// Events of some groups, whose handlers return, fail, panic, snooze, or fail for good. One in
    /// ten is published twice.
    pub fn events(ms: u32, groups: u64) -> Mix {
        let deeds = vec![Deed::Return; 12].into_iter().chain([Deed::Fail(1), Deed::Panic(1), Deed::Snooze(1), Deed::Fail(ATTEMPTS)]);
        Mix { deeds: deeds.collect(), given: 10, groups, events: true, max_attempts: ATTEMPTS, ..Mix::plain(ms) }
    }

    /// Jobs that return after up to `ms`, and nothing else.
    pub fn plain(ms: u32) -> Mix {
        Mix { ms, deeds: vec![Deed::Return], delayed: 0, given: 0, kept: 0, cancelled: 0, ..Mix::default() }
    }
}

/// Carries out orders.
pub fn main(orders: &str) -> ExitCode {
    let orders: Orders = match serde_json::from_str(orders) {
        Ok(orders) => orders,
        Err(error) => {
            eprintln!("error: orders that cannot be read: {error}");
            return ExitCode::from(2);
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let ended = runtime.map_err(Into::into).and_then(|runtime| match orders {
        Orders::Work(orders) => runtime.block_on(worker::run(orders)),
        Orders::Produce(orders) => runtime.block_on(producer::run(orders)).map(|()| true),
        Orders::Operate(orders) => runtime.block_on(operator::run(orders)).map(|()| true),
    });
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(3),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whatever went wrong.
type Error = Box<dyn std::error::Error + Send + Sync>;

/// Connects, however long the broker is away: what starts a real program would do the same.
async fn connect(url: &str) -> Result<Client, Error> {
    loop {
        match Client::connect(url).await {
            Ok(client) => return Ok(client),
            Err(error) if error.is_transient() => tokio::time::sleep(Duration::from_millis(100)).await,
            Err(error) => return Err(error.into()),
        }
    }
}
