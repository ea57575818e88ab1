//! A job on its way to the broker.

use std::{
    fmt,
    marker::PhantomData,
    sync::Arc,
    time::{Duration, SystemTime},
};

use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::{
    Client, Handle, JobResult,
    prepare::{Known, Prepared, prepare},
    unique::unique_setters,
};
use crate::{
    address::check_name,
    broker::{Due, Hold, LONGEST, NewJob, OnConflict, Priority},
    draft::{EnqueueStack, Options},
    error::{Error, Result},
    key::UniqueDef,
    limit::LimitDef,
    payload::PayloadWriter,
    task::{DEFAULT_QUEUE, Task, TaskDef, TaskOutput},
};

/// A result for a waiting caller is kept longer by this time, for a late last read.
const READING: Duration = Duration::from_secs(10);

/// A job of the task `T`: made by `task::job(..)`, adjusted here, stored by
/// [`enqueue`](Self::enqueue).
///
/// A setting of the job overrides that of `#[task(..)]`, which overrides that of the worker.
///
/// ```
/// use queue_core::prelude::*;
///
/// #[task]
/// async fn remind(customer: String) {}
///
/// # async fn example() -> queue_core::Result<()> {
/// let queue = Client::connect("sqlite://:memory:").await?;
/// let job = remind::job("Ada".to_owned()).delay(Duration::from_secs(3600)).priority(Priority::Low).header("tenant", "7");
/// let handle = job.id("remind-ada").tag("customer", "17").enqueue(&queue).await?;
/// assert_eq!(handle.address().to_string(), "default/remind-ada");
/// # Ok(()) }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
///
/// The setters do not check their values. `enqueue` returns [`Error::Invalid`] for a value outside
/// its range, and stores nothing.
#[must_use = "a job is stored by `.enqueue(&client).await`"]
pub struct Job<T> {
    payload: Result<Vec<u8>>,
    options: Options,
    task: PhantomData<fn() -> T>,
}

macro_rules! setters {
    () => {
        /// Starts the job after this delay, by the broker's clock. Range: 0 to [`LONGEST`] (100
        /// years). Default: at once.
        pub fn delay(mut self, delay: Duration) -> Self {
            self.options.due = Due::After(delay);
            self
        }

        /// Starts the job at this time, by the broker's clock; at once if the time is past. Range:
        /// up to 100 years from now. Default: at once.
        pub fn at(mut self, time: SystemTime) -> Self {
            self.options.start_at(time);
            self
        }

        /// Puts the job into this queue: 1 to 128 letters, digits, `.`, `_` and `-`. Default: that
        /// of its task, or `default`.
        pub fn queue(mut self, queue: impl Into<String>) -> Self {
            self.options.queue = Some(queue.into());
            self
        }

        /// Starts the job before waiting jobs of lower priority in its queue. Default: that of its
        /// task.
        pub fn priority(mut self, priority: Priority) -> Self {
            self.options.priority = Some(priority);
            self
        }

        /// The number of failures after which the job becomes a dead letter. Range: 1, which means
        /// no retry, or more. Default: that of its task, else that of its worker (25).
        pub fn max_attempts(mut self, attempts: u32) -> Self {
            self.options.max_attempts = Some(attempts);
            self
        }

        /// The longest time of one attempt. Range: more than 0, to 100 years; stored in
        /// milliseconds. Default: that of its task, else that of its worker (no limit).
        pub fn timeout(mut self, timeout: Duration) -> Self {
            self.options.timeout = Some(timeout);
            self
        }

        /// Keeps the job and its result for this long after it is done. Range: 0 to 100 years.
        /// Default: that of its task, else that of its worker (not at all).
        pub fn retention(mut self, retention: Duration) -> Self {
            self.options.retention = Some(retention);
            self
        }

        /// Drops the job (→ `expired`) if it has not started within this time from now, by this
        /// machine's clock. Range: 0 to 100 years. Default: it never expires. The job becomes
        /// `expired` when a worker examines it; a program that waits for it is notified then.
        pub fn expires(mut self, after: Duration) -> Self {
            self.options.expires = Some(after);
            self
        }

        /// Gives the job an id of the application, unique within its queue. Enqueuing the id again
        /// stores no second job. The broker remembers the id for 24 hours after the job is done
        /// (`Worker::id_retention`). Default: a new UUID.
        pub fn id(mut self, id: impl Into<String>) -> Self {
            self.options.id = Some(id.into());
            self
        }

        /// Puts the job into a group: a tenant, a user, an account. Range: 1 to 256 bytes. Default:
        /// the group that `#[task(group = ..)]` derives from a parameter, else none. The groups of
        /// a queue are served in rotation, and the jobs of a group in the order in which they were
        /// enqueued.
        pub fn group(mut self, group: impl Into<String>) -> Self {
            self.options.group = Some(group.into());
            self
        }

        /// The number of starts that the job counts as under a limit with a rate. Range: 1 to the
        /// burst of the limit, at most 1,000,000. Default: 1.
        pub fn cost(mut self, cost: u32) -> Self {
            self.options.limits().cost = Some(cost);
            self
        }

        /// Makes the job subject to a limit of its queue, with the other jobs of this key (1 to 256
        /// bytes); `None` shares the limit with all jobs without a key. It overrides the key that
        /// `#[task(limit(..))]` derives for a limit of this name. A job has at most 8 limits.
        /// Default: the limits of its task.
        pub fn limit(mut self, name: impl Into<String>, key: Option<&str>) -> Self {
            self.options.limits().given.insert(name.into(), key.map(str::to_owned));
            self
        }

        /// Adds a header, which the handler reads with `ctx.header(name)`. Range: at most 32
        /// headers with 4 KiB in all; a name has 1 to 255 bytes. Default: none.
        pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
            self.options.headers.insert(name.into(), value.into());
            self
        }

        /// Adds a tag, such as `order=17`. The filter `tag.order=17` finds the job in every state.
        /// Range: at most 8 tags; a name has 1 to 64 letters, digits, `.`, `_` and `-`, a value has
        /// 1 to 256 bytes. Default: the tags that its task derives from parameters.
        pub fn tag(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
            self.options.tags.insert(name.into(), value.into());
            self
        }
    };
}

impl<T: Task> Job<T> {
    /// For the expansion of the macros. `enqueue` returns the error of a payload that cannot be
    /// encoded.
    #[doc(hidden)]
    pub fn from_written(payload: PayloadWriter) -> Self {
        Job { payload: payload.finish(T::definition().name), options: Options::default(), task: PhantomData }
    }

    setters!();
    unique_setters!();

    /// Stores the job: see [`Client::enqueue`].
    ///
    /// # Errors
    /// Those of [`Client::enqueue`].
    pub async fn enqueue(self, client: &Client) -> Result<Handle<T>> {
        client.enqueue(self).await
    }

    /// Stores the job, and waits for its result, at most for `timeout` in all. The broker wakes the
    /// caller when the job ends, as in [`Handle::wait`].
    ///
    /// The job is kept for `timeout` + 10 s, or for the retention of the job or its task if that is
    /// longer. `call` ignores `Worker::retention`.
    ///
    /// ```
    /// # use queue_core::prelude::*;
    /// #[task]
    /// async fn square(number: u64) -> Result<u64, std::io::Error> {
    ///     Ok(number * number)
    /// }
    ///
    /// # async fn example(queue: &Client) -> queue_core::Result<()> {
    /// match square::job(12).call(queue, Duration::from_secs(10)).await? {
    ///     JobResult::Done(number) => println!("it is {number}"),
    ///     JobResult::Pending => println!("it is still running"),
    ///     other => println!("it did not succeed: {other:?}"),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Those of [`Client::enqueue`] and of [`Handle::result`].
    pub async fn call(mut self, client: &Client, timeout: Duration) -> Result<JobResult<TaskOutput<T>>>
    where
        TaskOutput<T>: DeserializeOwned,
    {
        let end = Instant::now() + timeout.min(LONGEST);
        let asked = self.options.retention.or(T::definition().retention).unwrap_or_default();
        self.options.retention = Some(asked.max(timeout.saturating_add(READING)).min(LONGEST));
        let handle = self.enqueue(client).await?;
        handle.wait(end.saturating_duration_since(Instant::now())).await
    }

    /// The queue that was chosen for it, or else this one.
    pub(super) fn queue_or<'a>(&'a self, usual: &'a str) -> &'a str {
        self.options.queue.as_deref().unwrap_or(usual)
    }

    /// The same job without its type, as a schedule keeps it. Its ticks use no key: the overlap
    /// policy of the schedule applies instead.
    pub(crate) fn into_raw(self) -> Result<RawJob> {
        let task = T::definition();
        let mut options = self.options;
        if options.unique.is_some() {
            let advice = "cannot be set for the job of a schedule: use `overlap`, which controls ticks while the last job has not ended";
            return Err(Error::invalid("unique_key", task.name, advice));
        }
        options.priority = options.priority.or(Some(task.priority));
        Ok(RawJob {
            task: task.name.to_owned(),
            default_queue: task.queue.to_owned(),
            payload: self.payload?,
            unique: None,
            group: task.group,
            limits: task.limits,
            tags: task.tags,
            options,
        })
    }

    pub(super) fn prepare(self, task: &'static TaskDef, on_enqueue: &EnqueueStack) -> Result<Prepared> {
        prepare(&Known::of(task), &self.payload?, self.options, on_enqueue)
    }
}

impl<T> fmt::Debug for Job<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("task", &std::any::type_name::<T>()).field("options", &self.options).finish_non_exhaustive()
    }
}

/// A job of a task that is known only by its name.
#[derive(Clone, Debug)]
#[must_use = "a job is stored by `client.enqueue_raw(job).await`"]
pub struct RawJob {
    task: String,
    default_queue: String,
    payload: Vec<u8>,
    unique: Option<UniqueDef>,
    /// The parameter that names its group.
    group: Option<&'static str>,
    limits: &'static [LimitDef],
    tags: &'static [(&'static str, &'static str)],
    options: Options,
}

impl RawJob {
    /// A job with this payload: a MessagePack map by parameter name. It has no key, group or limit
    /// unless [`unique_key`](Self::unique_key), [`group`](Self::group) and [`limit`](Self::limit)
    /// set them: only [`from_json`](Self::from_json) uses the declarations of its task.
    pub fn new(task: impl Into<String>, payload: Vec<u8>) -> Self {
        RawJob {
            task: task.into(),
            default_queue: DEFAULT_QUEUE.to_owned(),
            payload,
            unique: None,
            group: None,
            limits: &[],
            tags: &[],
            options: Options::default(),
        }
    }

    /// A job of a known task, with the queue, priority, key, group and limits of its definition,
    /// from a JSON object with its parameters.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the parameter that does not fit.
    pub fn from_json(task: &'static TaskDef, json: &str) -> Result<Self> {
        let mut job = RawJob::new(task.name, (task.payload_from_json)(json)?).priority(task.priority);
        task.queue.clone_into(&mut job.default_queue);
        (job.unique, job.group, job.limits, job.tags) = (task.unique, task.group, task.limits, task.tags);
        Ok(job)
    }

    setters!();
    unique_setters!();

    pub(super) fn task(&self) -> &str {
        &self.task
    }

    /// The queue that was chosen for it, or else that of its task.
    pub fn its_queue(&self) -> &str {
        self.options.queue.as_deref().unwrap_or(&self.default_queue)
    }

    /// A job of a known task, with the queue, priority, group and limits of its definition, and
    /// with these encoded parameters.
    pub(crate) fn of_task(task: &'static TaskDef, payload: Vec<u8>) -> Self {
        let mut job = RawJob::new(task.name, payload).priority(task.priority);
        task.queue.clone_into(&mut job.default_queue);
        (job.group, job.limits, job.tags) = (task.group, task.limits, task.tags);
        job
    }

    /// The queue of the job, its stored form, and the limits that it names but its task does not
    /// declare. A job with a time or an id is refused.
    pub(crate) fn template(self, on_enqueue: &EnqueueStack) -> Result<(Arc<str>, NewJob, Vec<String>)> {
        let takes = |field, what: &str| {
            Err(Error::invalid(field, what, "cannot be set for the job of a schedule, which sets the start of its jobs"))
        };
        if let Some(id) = &self.options.id {
            return Err(Error::invalid("job id", id, "cannot be set for the job of a schedule: each tick makes a new job"));
        }
        let prepared = self.prepare(on_enqueue)?;
        match prepared.job.due {
            Due::Now => Ok((prepared.address.queue, prepared.job, prepared.limits)),
            Due::After(delay) => takes("delay", &format!("{delay:?}")),
            Due::AtMs(at) => takes("at", &at.to_string()),
        }
    }

    pub(super) fn prepare(self, on_enqueue: &EnqueueStack) -> Result<Prepared> {
        check_name("task", &self.task)?;
        let encode = |problem| Error::Encode { task: self.task.clone(), problem };
        crate::codec::scan(&self.payload).map_err(encode)?;
        if !crate::codec::is_map(&self.payload) {
            return Err(encode("it is not a MessagePack map by parameter name".to_owned()));
        }
        let known = Known {
            task: &self.task,
            queue: &self.default_queue,
            priority: Priority::Normal,
            unique: self.unique,
            group: self.group,
            limits: self.limits,
            tags: self.tags,
        };
        prepare(&known, &self.payload, self.options, on_enqueue)
    }
}

#[cfg(test)]
mod tests;
