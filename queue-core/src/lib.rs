//! Typed background jobs: a function with `#[task]` on it is enqueued by one program and run by
//! another, at least once.
//!
//! A program that declares tasks or enqueues them needs only this crate. `queue-worker` runs them.
//! The glossary in `docs/README.md` of the repository defines the terms.
//!
//! # A first job
//!
//! ```
//! use queue_core::prelude::*;
//!
//! #[task]
//! async fn greet(name: String) {
//!     println!("Hello, {name}!");
//! }
//!
//! # async fn example() -> queue_core::Result<()> {
//! let queue = Client::connect("sqlite://:memory:").await?;
//! let handle = greet::job("Ada".to_owned()).enqueue(&queue).await?;
//! println!("{} is stored", handle.address());
//! # Ok(()) }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
//! ```
//!
//! # Defining a task
//!
//! The parameters of the function are the payload, stored as a map by name. A parameter that is an
//! `Option` or has a `#[default]` may be missing in the payload, unknown parameters are skipped,
//! and their order has no meaning. So a new version of a task reads the jobs of the old version.
//! [`Data<T>`](Data) and [`JobContext`] are not stored; the worker provides them.
//!
//! ```
//! use queue_core::prelude::*;
//!
//! struct Mailer;
//!
//! #[task(queue = "mail", max_attempts = 5, timeout = "30s", backoff(base = "10s", max = "1h"))]
//! async fn send_invoice(order_id: u64, #[default] copies: u32, mailer: Data<Mailer>, ctx: JobContext) -> Result<(), std::io::Error> {
//!     println!("order {order_id}, attempt {}", ctx.attempt());
//!     Ok(())
//! }
//! ```
//!
//! The return value of the handler decides what happens to the job. `Ok` and `()` mean that the job
//! is done. Any error means a retry with backoff, until `max_attempts` attempts have failed; then
//! the job is *dead*, and kept with its failures. An [`Outcome`] names the ending explicitly, as
//! the value of the function or as its error.
//!
//! ```
//! use queue_core::prelude::*;
//!
//! #[task]
//! async fn poll_account(account: u64) -> Result<Outcome, std::io::Error> {
//!     if account == 0 {
//!         return Ok(Outcome::Bury("there is no account 0".to_owned()));
//!     }
//!     Ok(Outcome::Repeat(Duration::from_secs(60))) // and again in a minute, forever
//! }
//! ```
//!
//! Declare a function that blocks with `#[task(blocking)]`. `#[derive(Task)]` and [`Handler`] make
//! a task of a payload struct.
//!
//! # Enqueuing
//!
//! With a delay, once only, many at once, and with a result:
//!
//! ```
//! use queue_core::prelude::*;
//!
//! #[task]
//! async fn square(number: u64) -> Result<u64, std::io::Error> {
//!     Ok(number * number)
//! }
//!
//! # async fn example() -> queue_core::Result<()> {
//! # let queue = Client::connect("sqlite://:memory:").await?;
//! square::job(1).delay(Duration::from_secs(600)).enqueue(&queue).await?;
//!
//! let first = square::job(2).id("the-second").enqueue(&queue).await?;
//! let again = square::job(2).id("the-second").enqueue(&queue).await?;
//! assert!(!first.existing() && again.existing());
//!
//! queue.enqueue_all((0..1000).map(square::job)).await?;
//!
//! let kept = square::job(3).retention(Duration::from_secs(3600)).enqueue(&queue).await?;
//! match kept.result().await? {
//!     JobResult::Done(number) => println!("it is {number}"),
//!     JobResult::Pending => println!("not yet"),
//!     other => println!("no longer: {other:?}"),
//! }
//! # Ok(()) }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
//! ```
//!
//! `Ok` means that the job is stored. A request without an answer is sent again until the
//! [deadline](Client::with_deadline) of the client, and never stores a second job. If an error
//! remains, the job is not stored, unless [`Error::is_ambiguous`] is true.
//!
//! # Choosing a broker
//!
//! | URL | for |
//! |---|---|
//! | `sqlite://queue.db` | one machine; nothing to install; the default of [`Client::from_env`] (feature `sqlite`) |
//! | `sqlite://:memory:` | tests (feature `sqlite`) |
//! | `redis://host`, `rediss://host` | several machines: Redis from 7.0, or Valkey |
//! | `redis+sentinel://host,host/service` | a master with replicas and sentinels (feature `sentinel`) |
//! | `redis+cluster://host,host` | a cluster (feature `cluster`) |
//!
//! The features `redis`, `sentinel`, `cluster` and `tls` are on by default. `sqlite` is not: it
//! compiles SQLite into the program, and Cargo allows one SQLite in a program, which may be that of
//! the application's own database library.
//!
//! # Inspecting and repairing
//!
//! [`Client::inspector`] lists and shows jobs, cancels, requeues, promotes, edits, duplicates and
//! deletes them, and pauses queues. The command line of a worker binary uses the same calls. The
//! states of a job are drawn at [`broker::JobState`].
//!
//! # Testing
//!
//! The crate `queue-testing` provides a queue in memory for each test, with a clock that the test
//! controls, and asserts which jobs are enqueued. You can also call the function: [`TestContext`]
//! creates the [`JobContext`] of a handler that takes one. `docs/testing.md` of the repository has
//! examples.
#![cfg_attr(not(any(feature = "redis", feature = "sqlite")), allow(dead_code, reason = "both brokers are off"))]

#[doc(hidden)]
pub mod __private;
mod address;
mod alarm;
mod begin;
pub mod broker;
mod client;
mod clock;
mod codec;
mod context;
mod digest;
mod draft;
mod envelope;
mod error;
mod event;
mod fingerprint;
mod group;
mod handler;
mod id;
mod inject;
pub mod inspect;
mod inspector;
mod io;
mod json;
mod key;
mod limit;
mod middleware;
pub mod observe;
mod outcome;
mod parameter;
mod pauses;
mod payload;
pub mod prelude;
mod priority;
#[cfg(feature = "process")]
mod process;
#[cfg(feature = "redis")]
mod redis;
mod registry;
pub mod schedule;
#[cfg(any(feature = "redis", feature = "sqlite"))]
mod sources;
#[cfg(feature = "sqlite")]
mod sqlite;
mod task;
mod test_context;
mod text;
pub mod topics;
mod unique;

#[doc = include_str!("docs/event.md")]
pub use queue_macros::Event;
#[doc = include_str!("docs/derive.md")]
pub use queue_macros::Task;
#[doc = include_str!("docs/subscribe.md")]
pub use queue_macros::subscribe;
#[doc = include_str!("docs/task.md")]
pub use queue_macros::task;

#[doc(inline)]
pub use self::broker::{Confirmed, Durability, Hold, JobState, LogLevel, OnConflict, Priority};

pub use self::{
    address::{JobAddress, JobId},
    client::{Client, EnqueueAllError, Handle, Job, JobResult, Pending, ProgressWatch, RawJob, Stored},
    context::{Data, DataNeed, JobContext, completion::Done},
    draft::Draft,
    error::{Cause, Error, Result},
    event::Event,
    handler::Handler,
    inject::Inject,
    inspector::Progress,
    io::BoxFuture,
    middleware::{Middleware, Next},
    outcome::{CancelCause, Failure, Outcome, TaskFailure, TaskResult, TaskReturn},
    registry::Registry,
    task::{Backoff, OnIsolation, Task, TaskDef, TaskOutput},
    test_context::TestContext,
};
