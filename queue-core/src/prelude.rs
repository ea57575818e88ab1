//! The imports for a module with tasks: `use queue_core::prelude::*;`.

pub use std::time::Duration;

pub use queue_macros::{Event, Task, subscribe, task};

pub use crate::{
    client::{Client, Handle, Job, JobResult},
    context::{Data, JobContext},
    event::Event,
    handler::Handler,
    outcome::Outcome,
    priority::Priority,
    task::{Backoff, EnqueueOfJob as _, Task},
};
