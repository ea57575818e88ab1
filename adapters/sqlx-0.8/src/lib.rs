//! Enqueues jobs in a transaction of sqlx 0.8, and commits the effects of a job together with its
//! ending: [`postgres`] or [`sqlite`], by the feature of the same name.
//!
//! The relay has a separate connection: [`Relay::postgres(url)`](Relay) or
//! [`Relay::sqlite(path)`](Relay).

#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
pub mod sqlite;

pub use queue_outbox::{Done, Error, Outbox, Relay, Result};

/// This version of sqlx takes any text as a statement.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
fn text(sql: &str) -> &str {
    sql
}
