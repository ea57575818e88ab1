//! Whole workers on a broker in memory.

#[path = "../common/mod.rs"]
mod common;

mod aging;
mod health;
mod hostile;
mod leases;
mod middleware;
mod outcomes;
mod queues;
mod releases;
mod setup;
mod stop;
