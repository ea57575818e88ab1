//! Typed background jobs.
#![cfg_attr(not(any(feature = "redis", feature = "sqlite")), allow(dead_code, reason = "both brokers are off"))]

pub mod address;
pub mod broker;
pub mod client;
pub mod codec;
pub mod context;
pub mod envelope;
mod error;
mod io;
pub mod outcome;
pub mod payload;
pub mod registry;
pub mod task;

pub use self::{
    address::{JobAddress, JobId},
    client::Client,
    context::{JobContext, State},
    error::{Error, Result},
    io::BoxFuture,
    outcome::Outcome,
    task::{Backoff, Task},
};
