//! A context for tests that call a task function directly.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    address::JobId,
    client::Client,
    context::{
        ContextInit, DataMap, Environment, JobContext,
        completion::{Completion, effects_key},
    },
};

/// Makes a [`JobContext`] for a test that calls a task function directly. By default it is the
/// first attempt of a job.
///
/// ```
/// use queue_core::{CancelCause, TestContext, prelude::*};
///
/// #[task]
/// async fn bill(order_id: u64, ctx: JobContext) -> Result<u32, String> {
///     match (ctx.header("tenant"), ctx.attempt()) {
///         (None, _) => Err(format!("order {order_id} has no tenant")),
///         (Some(_), attempt) => Ok(attempt),
///     }
/// }
///
/// # async fn test() {
/// assert_eq!(bill(17, TestContext::new().header("tenant", "ada").attempt(3).build()).await, Ok(3));
/// assert!(bill(17, TestContext::new().build()).await.is_err());
///
/// let context = TestContext::new().build();
/// context.cancel(CancelCause::Shutdown); // a handler that awaits `cancelled` stops
/// assert_eq!(context.cancelled().await, CancelCause::Shutdown);
/// # }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(test());
/// ```
#[derive(Clone, Debug)]
#[must_use = "`.build()` makes the context"]
pub struct TestContext {
    init: ContextInit,
    data: DataMap,
    client: Option<Client>,
}

impl TestContext {
    /// The first attempt of a job with a new id, of task `test` in queue `test`, without timeout,
    /// headers, data and client. Its lease ends in an hour.
    pub fn new() -> Self {
        let init = ContextInit::new("test", "test", JobId::make(), Arc::default());
        init.lease.set(Instant::now() + Duration::from_secs(3600));
        TestContext { init, data: DataMap::default(), client: None }
    }

    /// The job's id. Default: a new one.
    pub fn id(mut self, id: JobId) -> Self {
        self.init.id = id;
        self
    }

    /// The queue, and the name of the task. Default: `test`, `test`.
    pub fn of(mut self, queue: &str, task: &str) -> Self {
        (self.init.queue, self.init.task) = (queue.into(), task.into());
        self
    }

    /// Which attempt it is, from 1. Default: 1.
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.init.attempts = attempt.saturating_sub(1);
        self
    }

    /// The attempt whose failure makes the job a dead letter. Default: 25.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.init.max_attempts = attempts;
        self
    }

    /// How often the job has snoozed. Default: 0.
    pub fn snoozes(mut self, snoozes: u32) -> Self {
        self.init.snoozes = snoozes;
        self
    }

    /// How often the job was rate limited. Default: 0.
    pub fn rate_limited(mut self, times: u32) -> Self {
        self.init.rate_limited = times;
        self
    }

    /// How many crashes the job was charged with. Default: 0.
    pub fn crashes(mut self, crashes: u32) -> Self {
        self.init.crashes = crashes;
        self
    }

    /// The number of this start of the job. Default: 0.
    pub fn claim(mut self, claim: u64) -> Self {
        self.init.claim = claim;
        self
    }

    /// Adds a header.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.init.headers.insert(name.into(), value.into());
        self
    }

    /// The end of the handler's timeout. Default: never.
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.init.deadline = Some(deadline);
        self
    }

    /// Adds a value for [`JobContext::data`].
    pub fn data<T: Send + Sync + 'static>(self, value: T) -> Self {
        self.shared_data(Arc::new(value))
    }

    /// The same with a value that is shared already, which may be a trait object.
    pub fn shared_data<T: ?Sized + Send + Sync + 'static>(mut self, value: Arc<T>) -> Self {
        self.data.insert(value);
        self
    }

    /// The client of [`JobContext::client`], with which a handler enqueues further jobs. Default:
    /// none.
    pub fn client(mut self, client: Client) -> Self {
        self.client = Some(client);
        self
    }

    /// The context.
    pub fn build(self) -> JobContext {
        let environment = Arc::new(Environment::new(self.data, self.client));
        let key = effects_key(&self.init.queue, &self.init.id, None);
        let completion = Some(Arc::new(Completion::new(key, false, None, None)));
        JobContext::new(ContextInit { environment, completion, ..self.init })
    }
}

impl Default for TestContext {
    fn default() -> Self {
        TestContext::new()
    }
}
