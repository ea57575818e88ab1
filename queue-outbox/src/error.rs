//! The errors of an outbox.

/// An error of an outbox. Unless its description differs, nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The job cannot be enqueued: a value is not valid, it is too large, or a middleware refused
    /// it. The error can also come from the broker.
    #[error(transparent)]
    Queue(#[from] queue_core::Error),
    /// The transaction is on a different database than the one of the outbox.
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
        /// The message of the database.
        problem: String,
    },
    /// The tables are those of a newer library.
    #[error("the tables of the outbox have version {found}, and this library supports {known}: update queue-outbox; nothing was inserted")]
    TooNew {
        /// The version of the tables.
        found: i32,
        /// The newest version that this library supports.
        known: i32,
    },
    /// The outbox has more or older rows of this queue than the relay allows.
    #[error(
        "the outbox is full for queue `{queue}`: it has more rows than `Relay::max_rows`, or an older one than `Relay::max_age`, because the relay or the \
         broker is behind; nothing was inserted"
    )]
    Full {
        /// The queue, or one of several queues.
        queue: String,
    },
    /// `commit` in a task that does not return [`Done`](crate::Done).
    #[error(
        "task `{task}` does not return `Done`, so its worker does not look up what it has committed: let it return `Result<Done<T>, E>`; nothing was \
         committed"
    )]
    OtherTask {
        /// The task.
        task: String,
    },
    /// A second `commit` in one run.
    #[error(
        "job `{job}` has committed already in this run: call `commit` once, as the last step; nothing was committed by the second call"
    )]
    CommittedTwice {
        /// The address of the job.
        job: String,
    },
    /// Another run of the job has committed.
    #[error(
        "another run of job `{job}` has committed: its effects are stored, and this run's were rolled back; return this error, and the worker ends the job"
    )]
    CommittedElsewhere {
        /// The address of the job.
        job: String,
    },
    /// `commit` after the lease of the run was lost.
    #[error("job `{job}` has lost its lease, and another run of it may have begun: nothing was committed; return this error")]
    LeaseLost {
        /// The address of the job.
        job: String,
    },
    /// The worker does not look up endings in the database of this outbox.
    #[error(
        "the worker of job `{job}` does not know the database of this outbox: give it a relay of the same database with `Worker::outbox`; nothing was \
         committed"
    )]
    NotOfWorker {
        /// The address of the job.
        job: String,
    },
    /// A statement of the application has ended the transaction that `begin` has begun.
    #[error(
        "the transaction of job `{job}` was ended by a statement before `commit`: leave COMMIT and ROLLBACK to `commit`; what that statement has committed is stored \
         without the ending of the job"
    )]
    Ended {
        /// The address of the job.
        job: String,
    },
    /// The connection of SQLite does not sync its commits, so a loss of power may lose effects
    /// whose job has ended.
    #[error(
        "the connection has `PRAGMA synchronous = {found}`, which may lose commits at a loss of power: set it to FULL, or call \
         `Outbox::power_loss_may_lose_effects`; nothing was committed"
    )]
    Synchronous {
        /// The value of the setting: `0` (OFF) or `1` (NORMAL).
        found: i64,
    },
    /// The connection of SQLite has attached a file. A transaction over several files is not atomic
    /// in WAL mode.
    #[error(
        "the connection has attached the file `{file}` as `{name}`, and a commit over several files is not atomic: commit on a connection without attached files; nothing was \
         committed"
    )]
    Attached {
        /// The name of the database.
        name: String,
        /// Its file.
        file: String,
    },
    /// Row-level security would hide rows of the outbox from the role of the relay.
    #[error(
        "row-level security would hide rows of the outbox ({problem}): let the role of the relay own the tables of the outbox, or disable row-level security on them; \
         nothing was sent"
    )]
    RowSecurity {
        /// The message of the database.
        problem: String,
    },
    /// The PostgreSQL server is a standby, which may lack the latest commits.
    #[error("the database is a standby, which may lack the latest commits: let the relay of the worker connect to the primary")]
    Standby,
    /// A value of the configuration is not valid.
    #[error("{field} `{value}` {problem}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// Its value.
        value: String,
        /// The problem and the fix.
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
    /// Another database library reports that the database refused a statement, or that it cannot be
    /// reached.
    #[error("the database: {0}")]
    Database(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The database has not answered in time. It may have carried out the last statement.
    #[error("the database has not answered within {0:?}")]
    Late(std::time::Duration),
}

/// A `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The message of the error itself is only `db error`.
#[cfg(feature = "postgres")]
fn of_postgres(error: &tokio_postgres::Error) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
    format!("{error}{}", cause.unwrap_or_default())
}
