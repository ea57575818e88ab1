//! What a module with tasks needs: `use queue_core::prelude::*;`.

pub use std::time::Duration;

pub use crate::{
    Task,
    client::{Client, Handle, Job, JobResult},
    context::{Data, JobContext},
    outcome::Outcome,
    priority::Priority,
    task,
    task::{Backoff, Handler},
};
