//! Enqueues whose fate is not known.

use std::{fmt, marker::PhantomData, sync::Arc};

use tokio::{sync::Mutex, time::timeout_at};

use super::{
    Client, Handle,
    callers::Callers,
    producer::{Answer, Failure, Producer, Route, after},
};
use crate::{
    address::JobAddress,
    broker::Enqueue,
    error::{Error, Result},
    io::on_broker,
    middleware::Stack,
    task::Task,
};

/// An enqueue without an answer: its jobs may or may not be stored.
///
/// [`Error::Unknown`] holds it without the type of its task; [`of`](Self::of) gives it the type.
///
/// ```no_run
/// # use queue_core::{prelude::*, Error};
/// # #[task] async fn close(order_id: u64) {}
/// # async fn example(queue: Client) -> queue_core::Result<()> {
/// let handle: Handle<close> = match close::job(17).enqueue(&queue).await {
///     // Later, when the broker is back: it is stored once, whether the first call had arrived or not.
///     Err(Error::Unknown(pending)) => pending.of::<close>().retry().await?,
///     other => other?,
/// };
/// println!("{} is stored; existed before: {}", handle.address(), handle.existing());
/// # Ok(()) }
/// ```
pub struct Pending<T = ()> {
    lost: Arc<Lost>,
    position: usize,
    address: JobAddress,
    /// What the last try met with.
    cause: Error,
    task: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("address", &self.address).field("cause", &self.cause).finish_non_exhaustive()
    }
}

impl<T> fmt::Display for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let broker = self.lost.route.broker.info().location;
        let job = &self.address;
        write!(
            f,
            "the broker at {broker} has not confirmed in time that job `{job}` is stored; call `retry()` of the pending call, which never stores a second job"
        )
    }
}

impl<T> std::error::Error for Pending<T> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}

/// A batch without an answer. Its name and number are kept for asking again, and for nothing else.
#[derive(Debug)]
pub(super) struct Lost {
    route: Route,
    request: Enqueue,
    cause: Error,
    /// What the first retry was told serves those of the other callers of the batch.
    resolved: Mutex<Option<Vec<Answer>>>,
}

impl Lost {
    pub(super) fn new(route: Route, request: Enqueue, cause: Error) -> Self {
        Lost { route, request, cause, resolved: Mutex::default() }
    }

    /// It was answered after all, when some of its callers did not wait any more.
    pub(super) fn is_resolved(&self, answers: &[Answer]) {
        // Who asks again at this very moment hears the same of the broker.
        if let Ok(mut resolved) = self.resolved.try_lock() {
            *resolved = Some(answers.to_vec());
        }
    }

    async fn resolve(&self) -> Result<Vec<Answer>> {
        let until = after(self.route.deadline);
        let silent = |_| self.route.ambiguous("it has not answered in time");
        let mut resolved = timeout_at(until, self.resolved.lock()).await.map_err(silent)?;
        if let Some(answers) = &*resolved {
            return Ok(answers.clone());
        }
        match Producer::again(&self.route, self.request.clone(), &mut Callers::One(until)).await {
            Ok(answers) => Ok(resolved.insert(answers).clone()),
            Err(Failure::Refused(error)) => Err(error),
            Err(Failure::Unknown(lost)) => Err(lost.cause.duplicate()),
        }
    }
}

impl Pending {
    pub(super) fn unknown(lost: Arc<Lost>, position: usize) -> Error {
        let address = JobAddress { queue: lost.request.queue.clone(), id: lost.request.jobs[position].id.clone() };
        let cause = lost.cause.duplicate();
        Error::Unknown(Box::new(Pending { lost, position, address, cause, task: PhantomData }))
    }

    /// The same with the type of its task, so that [`retry`](Self::retry) gives a handle whose result can be read. `T` has to be the
    /// task of the enqueued job.
    pub fn of<T: Task>(self) -> Pending<T> {
        self.typed()
    }
}

impl<T> Pending<T> {
    fn typed<U>(self) -> Pending<U> {
        Pending { lost: self.lost, position: self.position, address: self.address, cause: self.cause, task: PhantomData }
    }

    /// The job that it is about.
    pub fn address(&self) -> &JobAddress {
        &self.address
    }

    /// Sends the same request again, until the client's deadline. The job is stored once, whether the first request had arrived or
    /// not. The handle says what an enqueue would have said.
    ///
    /// # Errors
    /// [`Error::Unknown`] again, without an answer. [`Error::Forgotten`] if the broker no longer knows the producer, so that
    /// the fate of the first request stays unknown: look for the job by its address. [`Error::IdConflict`] for a job that is in
    /// conflict.
    pub async fn retry(mut self) -> Result<Handle<T>> {
        let lost = self.lost.clone();
        let resolved = on_broker(&self.lost.route.broker, async move { lost.resolve().await }).await;
        let answers = match resolved {
            Ok(Ok(answers)) => answers,
            Ok(Err(error @ (Error::Forgotten(_) | Error::Old { .. }))) => return Err(error),
            // Whatever is said now, the first sending may have arrived.
            Ok(Err(error)) | Err(error) => {
                self.cause = error;
                return Err(Error::Unknown(Box::new(self.typed())));
            }
        };
        let (existing, confirmed) = answers[self.position].of(&self.address)?;
        let route = &self.lost.route;
        // The handle enqueues nothing: it needs no middleware.
        let client = Client::of(route.broker.clone(), route.deadline, route.confirm, Stack::default());
        Ok(Handle::new(client, self.address, existing, confirmed))
    }
}
