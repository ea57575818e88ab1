//! A small web shop whose background jobs a separate worker runs.
//!
//! - `web`: the pages. It enqueues and never runs a job.
//! - `tasks`: the jobs, declared once for both programs.
//! - `store`: orders and customers, in PostgreSQL or in a SQLite file of the shop's own, with the
//!   outbox of jobs that commit with them.
//! - `settings`: times.
//! - `traces`: the export of spans to an OpenTelemetry collector (feature `otel`).

mod settings;
mod store;
pub mod tasks;
#[cfg(feature = "otel")]
pub mod traces;
mod web;

pub use self::{
    settings::{Settings, open_store},
    store::{Customer, Order, Store},
    web::router,
};
