//! The handle with which an application stores jobs in its outbox.

use std::{fmt, sync::Arc};

use queue_core::{
    __private::row::{Middlewares, Outgoing, digest_of, encode},
    JobAddress, Middleware,
    broker::GroupName,
};

use crate::{
    bell::{self, Bell},
    dialect::{self, Dialect, VERSION},
    error::{Error, Result},
};

/// The outbox in a database of the application. It needs no broker: an application that only
/// enqueues starts and serves while the broker is unavailable. Cheap to clone.
///
/// Open it with `Outbox::postgres` or `Outbox::sqlite`, or with
/// [`with_database`](Self::with_database) by any other database library.
#[derive(Clone)]
pub struct Outbox(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    dialect: Dialect,
    schema: String,
    database: Vec<u8>,
    insert: String,
    may_lose_effects: bool,
    insert_many: Option<String>,
    notify: Option<String>,
    middleware: Middlewares,
    bell: Arc<Bell>,
    /// When other processes were notified last.
    notified: Arc<std::sync::Mutex<Option<std::time::Instant>>>,
}

/// A checked and encoded job, as [`Outbox::insert_sql`] inserts it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Prepared {
    /// The future address of the job. [`Client::handle`](queue_core::Client::handle) creates a
    /// handle from it.
    pub address: JobAddress,
    /// The third parameter: the id of the job.
    pub id: Vec<u8>,
    /// The fourth parameter: the queue, or `@` and the topic.
    pub queue: String,
    /// The fifth parameter: the digest of the group, if the job has one.
    pub group_digest: Option<Vec<u8>>,
    /// The sixth parameter: the encoded job.
    pub body: Vec<u8>,
}

impl Outbox {
    /// The outbox in the database with this identity. [`Dialect::database_sql`] selects it together
    /// with the version of its tables.
    ///
    /// # Errors
    /// [`Error::TooNew`]; [`Error::Invalid`] for an invalid name of a schema.
    pub fn with_database(dialect: Dialect, schema: &str, id: Vec<u8>, version: i32) -> Result<Outbox> {
        if version > VERSION {
            return Err(Error::TooNew { found: version, known: VERSION });
        }
        let schema = dialect.schema(schema)?;
        let (insert, bell) = (dialect.insert(&schema, false), bell::of(&id));
        let insert_many = (dialect == Dialect::Postgres).then(|| dialect::insert_many(&schema, false));
        let notify = (dialect == Dialect::Postgres).then(|| dialect::notify(&id));
        let middleware = Middlewares::default();
        Ok(Outbox(Arc::new(Inner {
            dialect,
            schema,
            database: id,
            insert,
            may_lose_effects: false,
            insert_many,
            notify,
            middleware,
            bell,
            notified: Arc::default(),
        })))
    }

    /// The same outbox, whose jobs pass [`Middleware::enqueue`] before they are encoded. Call it
    /// again for more middleware.
    #[must_use]
    pub fn with_middleware(&self, middleware: impl Middleware) -> Outbox {
        let mut inner = Inner::clone(&self.0);
        inner.middleware.push(middleware);
        Outbox(Arc::new(inner))
    }

    /// The same outbox, but jobs of a group are sent in the order in which their transactions
    /// commit, even if these overlap. In PostgreSQL, each insert of a job with a group takes
    /// `pg_advisory_xact_lock(bigint)` with the first 64 bits of the group's digest. Its
    /// transaction holds the lock until it ends, so other transactions with the same group wait.
    /// Transactions that insert into several groups one after the other need the same order of
    /// groups. Otherwise PostgreSQL ends one of them because of a deadlock. In SQLite, jobs are
    /// always sent in this order.
    #[must_use]
    pub fn in_commit_order(&self) -> Outbox {
        let mut inner = Inner::clone(&self.0);
        inner.insert = inner.dialect.insert(&inner.schema, true);
        inner.insert_many = inner.insert_many.map(|_| dialect::insert_many(&inner.schema, true));
        Outbox(Arc::new(inner))
    }

    /// The same outbox, but commits of effects ([`Done`](crate::Done)) may be lost at a loss of
    /// power, although their jobs have ended. A SQLite connection with less than `PRAGMA
    /// synchronous = FULL` is accepted, and PostgreSQL's `synchronous_commit = off` stays off.
    #[must_use]
    pub fn power_loss_may_lose_effects(&self) -> Outbox {
        let mut inner = Inner::clone(&self.0);
        inner.may_lose_effects = true;
        Outbox(Arc::new(inner))
    }

    /// Checks and encodes a job, and gives it an id, without I/O. The job is enqueued when a
    /// transaction that has executed [`insert_sql`](Self::insert_sql) with these values has
    /// committed.
    ///
    /// # Errors
    /// [`Error::Queue`] for a job that cannot be enqueued.
    pub fn prepare(&self, job: impl Outgoing) -> Result<Prepared> {
        let (address, job) = job.prepare(&self.0.middleware)?;
        let group = job.group.as_ref().map(|group: &GroupName| digest_of([group.as_str().as_bytes()]).to_vec());
        Ok(Prepared {
            id: address.id.as_bytes().to_vec(),
            queue: address.queue.to_string(),
            group_digest: group,
            body: encode(&job)?,
            address,
        })
    }

    /// The statement that inserts a [`Prepared`] job. It has six parameters:
    /// [`database`](Self::database), [`VERSION`], and the four values of the job. If it inserts no
    /// row, the job is not enqueued: roll the transaction back, and see [`why_not`](Self::why_not).
    pub fn insert_sql(&self) -> &str {
        &self.0.insert
    }

    /// In PostgreSQL, the statement that inserts many [`Prepared`] jobs, in their order. Its
    /// parameters are those of [`insert_sql`](Self::insert_sql), where the last four are arrays. If
    /// it inserts fewer rows than given, it has inserted none: roll the transaction back, and see
    /// [`why_not`](Self::why_not).
    pub fn insert_many_sql(&self) -> Option<&str> {
        self.0.insert_many.as_deref()
    }

    /// The kind of its database.
    pub fn dialect(&self) -> Dialect {
        self.0.dialect
    }

    /// The identity of the database: the first parameter.
    pub fn database(&self) -> &[u8] {
        &self.0.database
    }

    /// Selects the values for [`why_not`](Self::why_not), in the same transaction: the identity of
    /// its database, and the version of its tables.
    pub fn why_not_sql(&self) -> String {
        format!("SELECT id, version FROM {}.queue_database", self.0.schema)
    }

    /// The reason why [`insert_sql`](Self::insert_sql) has inserted no row for a job of this queue.
    pub fn why_not(&self, id: &[u8], version: i32, queue: &str) -> Error {
        if id != self.0.database {
            Error::OtherDatabase
        } else if version > VERSION {
            Error::TooNew { found: version, known: VERSION }
        } else {
            Error::Full { queue: queue.to_owned() }
        }
    }

    /// Wakes the relays of this process, after a commit. Without it, an idle relay finds the rows
    /// at its next poll, after 0.75 to 1.25 s. Those of other processes are woken by
    /// [`notify_sql`](Self::notify_sql).
    pub fn wake(&self) {
        self.0.bell.send_replace(());
    }

    /// In PostgreSQL, the statement that wakes the relays of all processes. Execute it after the
    /// commit and outside of a transaction: PostgreSQL serializes the commits of all transactions
    /// that notify, in the whole cluster. Relays from `Relay::postgres` receive it. The statement
    /// is a separate commit, which does not wait for a disk.
    pub fn notify_sql(&self) -> Option<&str> {
        self.0.notify.as_deref()
    }

    /// At most every 10 ms: after a notification, a relay polls every 20 ms for a second.
    #[doc(hidden)]
    pub fn may_notify(&self) -> bool {
        let mut last = self.0.notified.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let now = std::time::Instant::now();
        let may = last.is_none_or(|last| now >= last + std::time::Duration::from_millis(10));
        if may {
            *last = Some(now);
        }
        may
    }

    #[doc(hidden)]
    pub fn may_lose_effects(&self) -> bool {
        self.0.may_lose_effects
    }

    pub(crate) fn schema(&self) -> &str {
        &self.0.schema
    }

    /// Returns an error for an outbox in a database of another kind.
    #[doc(hidden)]
    pub fn is_in(&self, dialect: Dialect) -> Result<()> {
        if self.0.dialect == dialect { Ok(()) } else { Err(Error::OtherDatabase) }
    }
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").field("dialect", &self.0.dialect).field("schema", &self.0.schema).finish_non_exhaustive()
    }
}
