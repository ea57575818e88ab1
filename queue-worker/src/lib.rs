//! Runs the jobs of [`queue_core`]: the [`Worker`], its duties, and the command line of a worker binary. The glossary in
//! `docs/README.md` of the repository says what the words mean.
//!
//! # Where things are
//!
//! The worker's own work happens on the broker's I/O thread, so that a handler that blocks its runtime delays nobody:
//!
//! - `arrival` waits for a broker that cannot be reached yet.
//! - `pump` claims and finishes. It owns the slots and the lanes; nothing else decides who runs where.
//! - `heartbeat` renews leases and brings cancels.
//! - `reclaimer` takes back the jobs of dead workers; `janitor` removes records that were kept long enough.
//! - `monitor` checks whether the broker is full, or its file is gone.
//! - `hints` tells the pump what the broker announces.
//! - `tallies` counts, and `historian` sends that to the history of the queues.
//! - `metrics` tells the facade of that name what happens, with the feature `metrics`; without it, it is `no_metrics`.
//! - `http` answers probes, and `health` says whether all this goes on. `letters` and `outage` see to it that a dead letter is one line of the log, and an
//!   outage two.
//!
//! `duty` is the one shape of these, and starts one again that panics. `tuning` has the figures by which all this goes.
//!
//! `run` runs the jobs, on the runtime that called [`Worker::run`]. `cli` is the command line, `run`: it uses the
//! [`Worker`] as any application does.

mod arrival;
#[cfg(feature = "cli")]
mod cli;
mod config;
mod duty;
mod engine;
mod error;
mod health;
mod heartbeat;
mod hints;
mod historian;
mod http;
mod identity;
mod janitor;
mod lane;
mod letters;
#[cfg_attr(not(feature = "metrics"), path = "no_metrics.rs")]
mod metrics;
mod monitor;
mod outage;
mod patience;
mod pump;
mod reclaimer;
mod run;
mod shutdown;
mod tallies;
mod time;
mod tuning;
mod worker;

#[cfg(feature = "cli")]
pub use self::cli::{operate, run};
pub use self::{
    config::{FailedAttempt, QueueConfig},
    error::WorkerError,
    shutdown::Shutdown,
    worker::{Stopped, Worker},
};

// The examples of the README and of the documents compile.
#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../../README.md")]
struct Readme;

#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../../docs/middleware.md")]
struct AboutMiddleware;
