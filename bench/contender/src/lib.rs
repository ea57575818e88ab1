//! What is the same for everything that the bench measures side by side: our queue, the designs
//! that it grew out of, and other projects' queues.
//!
//! A contender implements [`Contender`]: enqueue, and work. Its program calls [`main`], which
//! carries out one command of the bench, with the same jobs, producers and clocks for all, and
//! prints one JSON object as its last line:
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

/// Whatever went wrong; it is only printed.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// What a contender says of itself.
#[derive(Debug)]
pub struct About {
    /// Names and versions of what it is made of.
    pub versions: &'static str,
    /// The settings that differ from its defaults, or matter to the figures.
    pub settings: &'static str,
    /// Whether it has a call that enqueues many at once.
    pub bulk: bool,
    /// Whether a job can be given a time.
    pub delays: bool,
    /// The longest backlog that it works on, where that is shorter than the bench's.
    pub most_jobs: Option<usize>,
}

/// A queue that is measured. Its jobs carry a text.
pub trait Contender: Clone + Send + Sync + Sized + 'static {
    /// What it is.
    const ABOUT: About;

    /// Connects to the server, or opens the file, that the URL names. Each process does so once.
    fn connect(url: &str) -> impl Future<Output = Result<Self, Error>> + Send;

    /// Enqueues one job, to run at once or at a time in milliseconds since 1970, and waits until it
    /// is stored.
    fn enqueue(&self, payload: String, due_ms: Option<u64>) -> impl Future<Output = Result<(), Error>> + Send;

    /// Enqueues many at once, as fast as it can. Without a call for that, it need not be there.
    fn enqueue_all(&self, payloads: Vec<String>) -> impl Future<Output = Result<(), Error>> + Send {
        async move { Err(format!("{} jobs at once, but there is no bulk call", payloads.len()).into()) }
    }

    /// Works, up to `concurrency` jobs at once, until the process ends. Each payload goes to
    /// [`Jobs::run`].
    fn work(&self, concurrency: usize, jobs: Arc<Jobs>) -> impl Future<Output = Result<(), Error>> + Send;
}
