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
//! claiming, gives running jobs the grace time, and returns the jobs that have not ended. A handler
//! that blocks its thread does not delay the renewal of leases, which has a separate thread.
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

// ARCHITECTURE.md lists the layers of these modules. The duties and the pump run on the broker's
// I/O thread, so a handler that blocks its runtime does not delay them. Handlers run on the runtime
// that called `Worker::run`, blocking handlers on one thread for each slot. One thread receives
// signals, one writes the log of the command line, and one, the alarm, wakes the pump for due jobs.
// If the pump panics, the worker ends with an error. `job_log` and `metrics` have a file each for
// builds without their feature.

mod application;
mod arrival;
mod block_on;
#[cfg(feature = "cli")]
mod command_line;
mod config;
mod connection;
mod declarations;
mod duties;
mod engine;
mod error;
mod history;
mod identity;
#[cfg_attr(not(feature = "job-log"), path = "no_job_log.rs")]
mod job_log;
mod letters;
mod messages;
#[cfg_attr(not(feature = "metrics"), path = "no_metrics.rs")]
mod metrics;
mod outage;
mod patience;
mod progress;
mod pump;
mod queues;
mod run;
mod shared;
mod shutdown;
mod status;
mod threads;
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
    shutdown::{Shutdown, Stopped},
    worker::Worker,
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

#[cfg(all(doctest, feature = "cli", feature = "outbox-postgres"))]
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
#[doc = include_str!("../../docs/logs.md")]
struct AboutLogs;

#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../../docs/shutdown.md")]
struct AboutShutdown;

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
