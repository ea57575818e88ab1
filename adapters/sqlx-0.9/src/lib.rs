//! Enqueues jobs in a transaction of sqlx 0.9, and commits the effects of a job together with its
//! ending: [`postgres`] or [`sqlite`], by the feature of the same name. The code is that of the
//! adapter for sqlx 0.8.
//!
//! The relay has a separate connection: [`Relay::postgres(url)`](Relay) or
//! [`Relay::sqlite(path)`](Relay).

#[cfg(feature = "postgres")]
#[path = "../../sqlx-0.8/src/postgres.rs"]
pub mod postgres;
#[cfg(feature = "sqlite")]
#[path = "../../sqlx-0.8/src/sqlite.rs"]
pub mod sqlite;

pub use queue_outbox::{Done, Error, Outbox, Relay, Result};

/// Marks a statement as safe: sqlx 0.9 refuses statements that are built at run time. These contain
/// no user input.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
fn text(sql: &str) -> sqlx::AssertSqlSafe<String> {
    sqlx::AssertSqlSafe(sql.to_owned())
}
