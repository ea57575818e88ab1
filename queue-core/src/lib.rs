//! Typed background jobs.
#![cfg_attr(not(any(feature = "redis", feature = "sqlite")), allow(dead_code, reason = "both brokers are off"))]

#[doc(hidden)]
pub mod __private;
pub mod address;
pub mod broker;
pub mod client;
pub mod codec;
pub mod context;
pub mod envelope;
mod error;
pub mod inspector;
mod io;
pub mod outcome;
pub mod payload;
pub mod prelude;
#[cfg(feature = "redis")]
pub mod redis;
pub mod registry;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod task;

pub use queue_macros::{Task, task};

pub use self::{
    address::{JobAddress, JobId},
    client::{Client, Handle, Job, Pending},
    context::{JobContext, State},
    error::{Error, Result},
    inspector::Inspector,
    io::BoxFuture,
    outcome::Outcome,
    task::{Backoff, Handler, Task},
};
