//! A small web shop whose background jobs a separate worker runs.
//!
//! - `web`: the pages. It enqueues and never runs a job.
//! - `tasks`: the jobs, declared once for both programs.
//! - `store`: orders and customers, in a SQLite file of the shop's own.
//! - `settings`: how long things take.
//! - `traces`: what a collector of OpenTelemetry is told (feature `otel`).

mod settings;
mod store;
mod tasks;
#[cfg(feature = "otel")]
pub mod traces;
mod web;

pub use self::{
    settings::{Settings, open_store},
    store::{Customer, Order, Store},
    web::router,
};
