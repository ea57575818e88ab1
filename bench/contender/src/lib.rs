//! The common code of everything that the bench compares: our queue, the designs from which it
//! evolved, and other projects' queues.
//!
//! A contender implements [`Contender`]: enqueue, and work. Its program calls [`main`], which runs
//! one command of the bench, with the same jobs, producers and clocks for all, and prints one JSON
//! object as its last line:
//!
//! | command | what it does |
//! |---|---|
//! | `about` | tells versions, settings, and what it can do |
//! | `fill N` | enqueues N no-op jobs the fastest way there is |
//! | `enqueue N PRODUCERS` | enqueues one at a time, each producer awaiting each answer |
//! | `drain N CONCURRENCY` | works until N jobs have run |
//! | `latency SECONDS` | time from the call to the start, on an idle queue |
//! | `lateness` | time from due to start |
//! | `mark N` | enqueues N jobs that write down when they start and end |
//! | `work CONCURRENCY FILE` | works until it is killed; marks go to the file |

mod driver;
mod jobs;

use std::{future::Future, sync::Arc};

pub use driver::{main, run};
pub use jobs::{Jobs, now_us};

/// Any error; it is only printed.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// The description of a contender.
#[derive(Debug)]
pub struct About {
    /// Names and versions of its parts.
    pub versions: &'static str,
    /// The settings that differ from its defaults or affect the figures.
    pub settings: &'static str,
    /// Whether it has a call that enqueues many at once.
    pub bulk: bool,
    /// Whether a job can be given a time.
    pub delays: bool,
    /// The longest backlog that it can process, if that is shorter than the bench's.
    pub most_jobs: Option<usize>,
}

/// A measured queue. Its jobs carry a text.
pub trait Contender: Clone + Send + Sync + Sized + 'static {
    /// Its description.
    const ABOUT: About;

    /// Connects to the server, or opens the file, at the URL. Each process does so once.
    fn connect(url: &str) -> impl Future<Output = Result<Self, Error>> + Send;

    /// Enqueues one job, to run at once or at a time in milliseconds since 1970, and waits until it
    /// is stored.
    fn enqueue(&self, payload: String, due_ms: Option<u64>) -> impl Future<Output = Result<(), Error>> + Send;

    /// Enqueues many at once, as fast as possible. A contender without a bulk call does not
    /// implement it.
    fn enqueue_all(&self, payloads: Vec<String>) -> impl Future<Output = Result<(), Error>> + Send {
        async move { Err(format!("{} jobs at once, but there is no bulk call", payloads.len()).into()) }
    }

    /// Runs up to `concurrency` jobs at once, until the process ends. Each payload is passed to
    /// [`Jobs::run`].
    fn work(&self, concurrency: usize, jobs: Arc<Jobs>) -> impl Future<Output = Result<(), Error>> + Send;
}
