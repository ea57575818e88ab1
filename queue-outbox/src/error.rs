//! What can go wrong with an outbox.

/// What can go wrong with an outbox. Unless it says otherwise, nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The job cannot be enqueued: a value is not valid, it is too large, a middleware refused it. Or the broker cannot be used.
    #[error(transparent)]
    Queue(#[from] queue_core::Error),
    /// The transaction is on another database than the one that the outbox was opened on.
    #[error(
        "the transaction is on another database than the outbox: open one `Outbox` for each database, on the pool that the transaction comes from; nothing \
         was inserted"
    )]
    OtherDatabase,
    /// The tables are missing.
    #[error(
        "the outbox has no tables in this database ({problem}): run what `queue outbox init --dialect {dialect}` prints as a migration"
    )]
    NoTables {
        /// `postgres` or `sqlite`.
        dialect: &'static str,
        /// What the database said.
        problem: String,
    },
    /// The tables are those of a newer library.
    #[error("the tables of the outbox have version {found}, and this library supports {known}: update queue-outbox; nothing was inserted")]
    TooNew {
        /// Their version.
        found: i32,
        /// The newest that this library knows.
        known: i32,
    },
    /// The outbox has as many rows of this queue as the relay allows.
    #[error("the outbox is full for queue `{queue}`, so the relay or the broker is behind; nothing was inserted")]
    Full {
        /// The queue, or one of several.
        queue: String,
    },
    /// A value of the configuration is not valid.
    #[error("{field} `{value}` {problem}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// Its value.
        value: String,
        /// What is wrong, and the fix.
        problem: String,
    },
    /// PostgreSQL refused a statement, or cannot be reached.
    #[cfg(feature = "postgres")]
    #[error("PostgreSQL: {}", of_postgres(.0))]
    Postgres(#[from] tokio_postgres::Error),
    /// SQLite refused a statement.
    #[cfg(feature = "sqlite")]
    #[error("SQLite: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The database has not answered in time. It may have carried out the last statement.
    #[error("the database has not answered within {0:?}")]
    Late(std::time::Duration),
}

/// A `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Its own message is `db error`.
#[cfg(feature = "postgres")]
fn of_postgres(error: &tokio_postgres::Error) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
    format!("{error}{}", cause.unwrap_or_default())
}
