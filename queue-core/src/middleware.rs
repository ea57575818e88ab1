//! Middleware: the application's own code before every enqueue and around every run of a job.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use futures_util::FutureExt;

use crate::{
    client::{Client, row::Middlewares},
    context::JobContext,
    draft::{Draft, OnEnqueue},
    error::Result,
    io::BoxFuture,
    outcome::{Outcome, panic_text},
};

/// Code of the application that runs before every job is enqueued and around every run of a job: to
/// add headers, to measure, to report failures, to hold a lock, to reject jobs.
///
/// [`Client::with_middleware`](crate::Client::with_middleware) uses [`enqueue`](Self::enqueue), and
/// `Worker::middleware(..)` uses [`run`](Self::run). Several middlewares wrap each other in the
/// order in which they were added: the first is the outermost. Each method has a default that
/// passes its input on, so a middleware implements only the methods that it needs.
///
/// ```
/// use std::time::Instant;
///
/// use queue_core::{Middleware, Next, prelude::*};
///
/// /// Prints how long each run took, and how it ended.
/// struct Timing;
///
/// impl Middleware for Timing {
///     async fn run(&self, context: &JobContext, next: Next<'_>) -> Outcome {
///         let begun = Instant::now();
///         let outcome = next.run().await;
///         println!("{} took {:?}: {outcome}", context.task(), begun.elapsed());
///         outcome
///     }
/// }
/// ```
///
/// An [`Arc`] of a middleware is one, too: a client and a worker can share it.
pub trait Middleware: Send + Sync + 'static {
    /// Reads and changes a job that is about to be enqueued. It is called once for each job, on the
    /// thread that enqueues, before the job is encoded and its sizes are checked; for
    /// [`enqueue_all`](crate::Client::enqueue_all) when the job is taken from the iterator. It must
    /// not block. Default: it changes nothing.
    ///
    /// Several are called in the order in which they were added, so the last one has the last word.
    ///
    /// # Errors
    /// An error rejects only this job: the caller gets [`Error::Refused`](crate::Error::Refused),
    /// and the inner middlewares are not called. [`Draft::refused`] makes the error. A panic is
    /// treated like an error.
    fn enqueue(&self, draft: &mut Draft<'_>) -> Result<()> {
        let _ = draft;
        Ok(())
    }

    /// Runs a job through the rest of the chain: [`Next::run`] continues with the next middleware,
    /// and after the last one with the handler. Default: only that.
    ///
    /// - The returned outcome is the outcome of the run. It may be the one that [`Next::run`]
    ///   returned, or another: [`Outcome::failed`] makes one of any error. Without a call of
    ///   [`Next::run`] the handler does not run.
    /// - A panic of the handler, or of an inner middleware, is an [`Outcome::Panicked`] to the
    ///   outer ones. Its own panic is treated like the handler's: the job has failed and is
    ///   retried.
    /// - The job's timeout covers all middleware. When it has passed, or when the job is cancelled,
    ///   [`JobContext::cancelled`] returns, and a second later the run is dropped at its current
    ///   `await`, middleware and handler together. A blocking handler cannot be dropped: the worker
    ///   waits for its run.
    /// - It is called once per attempt, but not for jobs whose handler does not begin: those that
    ///   have expired, whose task is unknown, or whose envelope cannot be read. Parameters are
    ///   decoded by the handler, inside of all middleware.
    fn run(&self, context: &JobContext, next: Next<'_>) -> impl Future<Output = Outcome> + Send {
        let _ = context;
        next.run()
    }
}

impl<M: Middleware> Middleware for Arc<M> {
    fn enqueue(&self, draft: &mut Draft<'_>) -> Result<()> {
        M::enqueue(self, draft)
    }

    fn run(&self, context: &JobContext, next: Next<'_>) -> impl Future<Output = Outcome> + Send {
        M::run(self, context, next)
    }
}

impl Client {
    /// A client of the same broker whose jobs pass [`Middleware::enqueue`] before they are stored.
    /// Call it again for more middleware: the first that was added is called first. Default: none.
    ///
    /// A worker that is built with this client provides it to its handlers
    /// ([`JobContext::client`](crate::JobContext::client)). For middleware around runs, use
    /// `Worker::middleware(..)`. Keep this client: each client registers its own producers.
    ///
    /// ```
    /// use queue_core::{Draft, Middleware, prelude::*};
    ///
    /// /// No job may be stored without a tenant.
    /// struct Tenants;
    ///
    /// impl Middleware for Tenants {
    ///     fn enqueue(&self, draft: &mut Draft<'_>) -> queue_core::Result<()> {
    ///         if draft.header("tenant").is_some() { Ok(()) } else { Err(draft.refused("it has no tenant")) }
    ///     }
    /// }
    ///
    /// #[task]
    /// async fn bill(order_id: u64) {}
    ///
    /// # async fn example() -> queue_core::Result<()> {
    /// let queue = Client::connect("sqlite://:memory:").await?.with_middleware(Tenants);
    /// bill::job(17).header("tenant", "7").enqueue(&queue).await?;
    /// let refused = bill::job(18).enqueue(&queue).await.unwrap_err();
    /// assert_eq!(refused.to_string(), "a middleware refused the job of task `bill`, and nothing was stored: it has no tenant");
    /// # Ok(()) }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    #[must_use]
    pub fn with_middleware(&self, middleware: impl Middleware) -> Client {
        self.with_on_enqueue(middleware)
    }
}

impl Middlewares {
    /// Appends a middleware.
    pub fn push(&mut self, last: impl Middleware) {
        self.push_on_enqueue(last);
    }
}

/// The rest of the way to a job's handler.
#[must_use = "the handler does not run without `.run().await`"]
pub struct Next<'a> {
    rest: &'a [Arc<dyn Boxed>],
    context: &'a JobContext,
    handler: Box<dyn FnOnce() -> BoxFuture<'a, Outcome> + Send + 'a>,
}

impl<'a> Next<'a> {
    /// Runs the next middleware, or the handler, and returns its outcome, including errors and
    /// panics. If the run was cancelled in the meantime, the handler does not start, and the
    /// outcome is [`Outcome::Stopped`].
    pub async fn run(self) -> Outcome {
        if let Some(cause) = self.context.cancel_cause() {
            return Outcome::Stopped(cause);
        }
        // The first steps may panic, too.
        let ended = match catch_unwind(AssertUnwindSafe(|| self.begin())) {
            Ok(run) => AssertUnwindSafe(run).catch_unwind().await,
            Err(panic) => Err(panic),
        };
        ended.unwrap_or_else(|panic| Outcome::Panicked(panic_text(panic)))
    }

    fn begin(self) -> BoxFuture<'a, Outcome> {
        match self.rest.split_first() {
            Some((first, rest)) => first.run_boxed(self.context, Next { rest, ..self }),
            None => (self.handler)(),
        }
    }
}

impl fmt::Debug for Next<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").field("middleware", &self.rest.len()).finish_non_exhaustive()
    }
}

/// The middleware around the runs of a worker, from the outermost to the innermost.
#[derive(Clone, Default)]
pub struct Stack(Vec<Arc<dyn Boxed>>);

impl Stack {
    /// Adds one, inside of those before it.
    pub fn push(&mut self, middleware: impl Middleware) {
        self.0.push(Arc::new(middleware));
    }

    /// Whether there is no middleware.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Begins a run through all middleware. Its first steps, and its future, may panic.
    pub fn run<'a>(
        &'a self,
        context: &'a JobContext,
        handler: impl FnOnce() -> BoxFuture<'a, Outcome> + Send + 'a,
    ) -> BoxFuture<'a, Outcome> {
        Next { rest: &self.0, context, handler: Box::new(handler) }.begin()
    }
}

impl fmt::Debug for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stack({})", self.0.len())
    }
}

/// The part of a middleware that a worker uses.
trait Boxed: Send + Sync {
    fn run_boxed<'a>(&'a self, context: &'a JobContext, next: Next<'a>) -> BoxFuture<'a, Outcome>;
}

impl<M: Middleware> Boxed for M {
    fn run_boxed<'a>(&'a self, context: &'a JobContext, next: Next<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(self.run(context, next))
    }
}

impl<M: Middleware> OnEnqueue for M {
    fn on_enqueue(&self, draft: &mut Draft<'_>) -> Result<()> {
        self.enqueue(draft)
    }
}
