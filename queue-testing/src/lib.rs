//! Tests of applications with jobs: a queue in memory, a clock that the test owns, and assertions.
//!
//! ```standalone_crate
//! use queue_core::prelude::*;
//! use queue_testing::{TestQueue, assert_enqueued};
//!
//! #[task(queue = "mail")]
//! async fn send_mail(to: String, template: String) {
//!     println!("{template} to {to}");
//! }
//!
//! /// The code that is tested.
//! async fn customer_joined(queue: &Client, mail: &str) -> queue_core::Result<()> {
//!     let job = send_mail::job(mail.to_owned(), "welcome".to_owned());
//!     job.delay(Duration::from_secs(600)).enqueue(queue).await.map(drop)
//! }
//!
//! # fn main() { tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test()) }
//! // #[tokio::test]
//! async fn test() {
//!     let queue = TestQueue::new();
//!     customer_joined(queue.client(), "ada@example.com").await.unwrap();
//!     assert_enqueued!(queue, send_mail { to: "ada@example.com", .. }, delay = "10m");
//!     queue.advance("10m");
//!     assert_eq!(queue.drain().await.done, 1);
//! }
//! ```
//!
//! - [`TestQueue`] is a queue of one test: SQLite in memory with every feature of the broker. Tests
//!   run in parallel and share nothing.
//! - [`TestQueue::drain`], [`run_one`](TestQueue::run_one) and
//!   [`run_in_place`](TestQueue::run_in_place) run jobs when the test asks for it.
//! - [`TestQueue::advance`] moves the clock: delays, retries, schedules, rate limits, keys and
//!   retentions follow it.
//! - [`assert_enqueued!`] and [`refute_enqueued!`] examine waiting jobs. If an assertion fails, it
//!   shows the nearest job field by field.
//! - [`TestQueue::fail_next`] makes a call to the broker fail.
//!
//! Payloads and results always pass through their stored form. `docs/testing.md` of the repository
//! shows each in use.

mod expected;
mod faults;
mod macros;
mod queue;
mod ran;

pub use queue_worker::block_on;

#[doc(hidden)]
pub use self::expected::{__assert_enqueued, __refute_any, __refute_enqueued, Expected};
pub use self::{
    faults::Fault,
    queue::{Span, TestQueue},
    ran::{Drained, End, Ran},
};

// What the macros name.
#[doc(hidden)]
pub mod __private {
    pub use std::stringify;
}

// The examples of the document compile.
#[cfg(doctest)]
#[doc = include_str!("../../docs/testing.md")]
struct AboutTests;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
