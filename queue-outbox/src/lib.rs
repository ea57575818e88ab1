//! Jobs that commit with your data. If the transaction of the application rolls back, the job is
//! never enqueued. If it commits, a relay submits the job until the broker has answered. The broker
//! may then still drop a duplicate of a unique key, or refuse a given id that another job has.
//!
//! The application inserts the job into an *outbox*, a table in its own database, within its
//! transaction. A *relay*, in a worker or in any other process, sends the rows to the broker and
//! deletes them. A relay that crashes, hangs or loses its connection loses no job and sends none
//! twice, if the broker keeps its data and is reachable again within 30 days.
//!
//! 1. Create the tables: run [`Dialect::migration`] once, or what
//!    `queue outbox init --dialect postgres` prints.
//! 2. Open an [`Outbox`] on the database. It needs no broker.
//! 3. Enqueue in a transaction: see the module of the database library, [`postgres`] or [`sqlite`].
//!    The packages in `adapters/` of the repository have the same for sqlx. With another library,
//!    [`Outbox::prepare`] gives the values and [`Outbox::insert_sql`] the statement.
//! 4. Run a [`Relay`], alone or in a worker (`Worker::outbox`).
//!
//! A task whose effects happen exactly once returns [`Done`]. Only a commit of the effects together
//! with the ending of the job creates this value: see `begin` and `commit` of the same modules.
//!
//! `docs/transactions.md` of the repository describes the guarantees and their limits.

#[doc(hidden)]
pub mod adapter;
mod bell;
#[cfg_attr(not(any(feature = "postgres", feature = "sqlite")), allow(dead_code))]
mod completion;
#[cfg_attr(not(any(feature = "postgres", feature = "sqlite")), allow(dead_code))]
mod desk;
mod dialect;
mod error;
mod outbox;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg_attr(not(any(feature = "postgres", feature = "sqlite")), allow(dead_code))]
mod relay;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg_attr(not(any(feature = "postgres", feature = "sqlite")), allow(dead_code))]
mod store;

pub use queue_core::{__private::row::Outgoing, Done};

pub use self::{
    desk::{OutboxChange, OutboxQueue, OutboxRow, OutboxRowId},
    dialect::{Dialect, VERSION},
    error::{Error, Result},
    outbox::{Outbox, Prepared},
    relay::{Relay, Relayed},
};
