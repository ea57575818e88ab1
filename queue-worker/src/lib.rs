//! Runs the jobs of [`queue_core`]: the [`Worker`], and the command line of a worker binary.
//!
//! # A worker
//!
//! ```standalone_crate
//! use queue_core::prelude::*;
//! use queue_worker::Worker;
//!
//! #[task]
//! async fn greet(name: String, greeting: Data<String>) {
//!     println!("{}, {name}!", *greeting);
//! }
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     queue_worker::block_on(async {
//!         let queue = Client::connect("sqlite://:memory:").await?;
//!         let greeting = greet::job("Ada".to_owned()).retention(Duration::from_secs(60)).enqueue(&queue).await?;
//!
//!         let worker = Worker::new(queue).data("Hello".to_owned()).concurrency(10);
//!         let greeted = async { drop(greeting.wait(Duration::from_secs(10)).await) };
//!         worker.run(greeted).await?; // until this future ends, or `.run_until_signal()`
//!         Ok(())
//!     })
//! }
//! ```
//!
//! It serves the queues of the tasks that are linked into the program. [`Worker::data`] provides
//! values to handlers. The other setters are limits: how many jobs run at once, how long, how
//! often, and how long their records are kept.
//!
//! A worker waits for an unreachable broker, at its start and later. When it stops, it stops
//! claiming, gives running jobs the grace time, and releases the jobs that have not ended. A
//! handler that blocks its thread does not delay the renewal of leases, which has a separate
//! thread.
//!
//! # A worker binary
//!
//! With [`run`] as the whole `main`, the binary also has a command line: `work`, `enqueue`,
//! `status`, `jobs`, `doctor` and others, with exit codes for scripts. It logs to standard error at
//! the level of `RUST_LOG` (`RUST_LOG=debug`, `RUST_LOG=warn,shop=debug`). A program that has only
//! a [`Worker`] logs through its own `tracing` subscriber.
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! #[tokio::main]
//! async fn main() -> ExitCode {
//!     queue_worker::run(async |worker| Ok(worker.data("Hello".to_owned()).concurrency(100))).await
//! }
//! ```
//!
//! # Features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `cli` | yes | [`run`], the command line; includes `job-log` and `outbox` |
//! | `redis`, `sentinel`, `cluster`, `tls` | yes | the brokers on Redis and Valkey |
//! | `sqlite` | no | the broker on SQLite, which is compiled in |
//! | `job-log` | with `cli` | `JobLogLayer`, which copies `tracing` events of handlers into the logs of jobs |
//! | `outbox` | with `cli` | `Worker::outbox`, which runs the relay of an outbox |
//! | `outbox-postgres` | no | the command `outbox` for PostgreSQL; includes `outbox` |
//! | `dashboard` | no | the command `dashboard`; includes `cli` |
//! | `metrics` | no | figures for the `metrics` facade |
//! | `prometheus` | no | `GET /metrics`; includes `metrics` |
//! | `otel` | no | export of spans to OpenTelemetry; includes `cli` |
//!
//! # Further pages
//!
//! `docs/README.md` of the repository lists all pages by goal, and has the glossary.
//! `configuration.md` and `command-line.md` are the reference.

// How the parts fit. The worker's own work runs on the broker's I/O thread, so a handler that
// blocks its runtime does not delay it:
//
// - `arrival` waits for a broker that cannot be reached yet.
// - `pump` claims and finishes. It owns the slots and the lanes; no other part assigns jobs to
//   them.
// - `heartbeat` renews leases and receives cancels.
// - `reclaimer` reclaims the jobs of crashed workers; `janitor` removes expired records; `operator`
//   resumes operations whose runner has stopped.
// - `monitor` checks whether the broker is full, or its file is gone.
// - `hints` forwards the broker's announcements to the pump.
// - `tallies` counts jobs, `failures` counts failures, and `historian` sends both to the history of
//   the queues.
// - `scribe` stores the progress and log lines of handlers.
// - `job_log` is a layer of `tracing` for the logs of jobs; without its feature, it is `no_job_log`.
// - `metrics` reports to the facade of that name, with the feature `metrics`; without it, it is
//   `no_metrics`.
// - `http` answers probes, and `health` computes the answers. `letters` and `outage` see to it that
//   a dead letter is one line of the log, and an outage two.
//
// `duty` is the one shape of these, and starts one again that panics. `tuning` has the figures by which all this goes. `run` runs the jobs,
// on the runtime that called `Worker::run`. `command_line` adds `work` to the commands of `queue-cli`: it uses
// the `Worker` as any application does.

mod arrival;
mod block_on;
#[cfg(feature = "cli")]
mod command_line;
mod config;
mod declarer;
mod duty;
mod engine;
mod error;
mod failures;
mod health;
mod heartbeat;
mod hints;
mod historian;
mod http;
mod identity;
mod janitor;
#[cfg_attr(not(feature = "job-log"), path = "no_job_log.rs")]
mod job_log;
mod lane;
mod letters;
#[cfg_attr(not(feature = "metrics"), path = "no_metrics.rs")]
mod metrics;
mod monitor;
mod operator;
mod outage;
mod patience;
mod pump;
mod reclaimer;
#[cfg(feature = "outbox")]
mod relays;
mod run;
mod scribe;
mod shutdown;
mod tallies;
mod ticker;
mod time;
mod tuning;
mod usage;
mod worker;

#[cfg(feature = "cli")]
pub use self::command_line::run;
#[cfg(feature = "job-log")]
pub use self::job_log::JobLogLayer;
pub use self::{
    block_on::block_on,
    config::{FailedAttempt, QueueConfig},
    error::WorkerError,
    shutdown::Shutdown,
    worker::{Stopped, Worker},
};

/// For `queue-conformance`. It is not documented, and may change in any release.
#[doc(hidden)]
pub mod __testing {
    pub use crate::worker::{Inline, InlineRan};
}

// The examples of the README and of the documents compile.
#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../../README.md")]
struct Readme;

#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../../queue-core/README.md")]
struct ReadmeOfCore;

#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../README.md")]
struct ReadmeOfWorker;

#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../../docs/tutorial.md")]
struct AboutFirstSteps;

#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../../docs/tasks.md")]
struct AboutTasks;

#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../../docs/task-crate.md")]
struct AboutTaskCrates;

#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../../docs/bulk.md")]
struct AboutBulkEnqueue;

#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../../docs/long-jobs.md")]
struct AboutLongJobs;

#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../../docs/idempotency.md")]
struct AboutIdempotency;

#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../../docs/retries.md")]
struct AboutRetries;

#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../../docs/guarantees.md")]
struct AboutGuarantees;

#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../../docs/recipes.md")]
struct Recipes;

#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../../docs/coming-from.md")]
struct ComingFrom;

#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../../docs/middleware.md")]
struct AboutMiddleware;

#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../../docs/upgrade.md")]
struct AboutUpgrades;

#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../../docs/groups.md")]
struct AboutGroups;

#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../../docs/order.md")]
struct AboutOrder;

#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../../docs/operating.md")]
struct AboutOperating;

#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../../docs/why.md")]
struct AboutWhy;

#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../../docs/limits.md")]
struct AboutLimits;

#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../../docs/search.md")]
struct AboutSearches;

#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../../docs/edit.md")]
struct AboutEdits;

#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../../docs/topics.md")]
struct AboutTopics;

#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../../docs/failures.md")]
struct AboutFailures;

#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../../docs/unique.md")]
struct AboutUniqueJobs;

#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../../docs/results.md")]
struct AboutResults;

#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../../docs/schedules.md")]
struct AboutSchedules;

#[cfg(all(doctest, feature = "cli", feature = "outbox-postgres", feature = "sqlite"))]
#[doc = include_str!("../../docs/transactions.md")]
struct AboutTransactions;
