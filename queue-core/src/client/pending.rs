//! Repeats an enqueue whose fate is unknown.

use std::{marker::PhantomData, sync::Arc};

use tokio::{sync::Mutex, time::timeout_at};

use super::{
    Client, Handle,
    callers::Callers,
    handle::Kept,
    producer::{Answer, Failure, Producer, Route},
};
use crate::{
    address::JobAddress,
    broker::{Enqueue, after, on_broker},
    error::{Error, Pending, Result},
    task::Task,
};

/// A batch without an answer. Its name and number are kept for asking again, and for nothing else.
#[derive(Debug)]
pub(super) struct Lost {
    route: Route,
    request: Enqueue,
    cause: Error,
    /// The answer to the first retry also serves the retries of the other callers of the batch.
    resolved: Mutex<Option<Vec<Answer>>>,
}

impl Lost {
    pub(super) fn new(route: Route, request: Enqueue, cause: Error) -> Self {
        Lost { route, request, cause, resolved: Mutex::default() }
    }

    /// It was answered after all, when some of its callers did not wait any more.
    pub(super) fn is_resolved(&self, answers: &[Answer]) {
        // A repeated request at this moment would get the same answer from the broker.
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

/// One job of such a batch: the content of a [`Pending`].
struct LostJob {
    lost: Arc<Lost>,
    position: usize,
}

/// The error of a caller whose job is at this position of a batch.
pub(super) fn unknown(lost: Arc<Lost>, position: usize) -> Error {
    let address = JobAddress { queue: lost.request.queue.clone(), id: lost.request.jobs[position].id.clone() };
    let (broker, cause) = (lost.route.broker.info().location, lost.cause.duplicate());
    Error::Unknown(Box::new(Pending { address, broker, cause, request: Arc::new(LostJob { lost, position }), task: PhantomData }))
}

impl Pending {
    /// The same with the type of its task, so that [`retry`](Self::retry) returns a handle whose
    /// result can be read. `T` has to be the task of the enqueued job.
    pub fn of<T: Task>(self) -> Pending<T> {
        self.typed()
    }
}

impl<T> Pending<T> {
    fn typed<U>(self) -> Pending<U> {
        let Pending { address, broker, cause, request, task: _ } = self;
        Pending { address, broker, cause, request, task: PhantomData }
    }

    /// The job that it is about.
    pub fn address(&self) -> &JobAddress {
        &self.address
    }

    /// Sends the same request again, until the client's deadline. The job is stored once, whether
    /// the first request had arrived or not. The handle is that of the enqueue.
    ///
    /// # Errors
    /// [`Error::Unknown`] again, without an answer. [`Error::Forgotten`] if the broker no longer
    /// knows the producer, so that the fate of the first request remains unknown: look for the job
    /// by its address. [`Error::IdConflict`] if another job has the id.
    pub async fn retry(mut self) -> Result<Handle<T>> {
        let Ok(job) = self.request.clone().downcast::<LostJob>() else { unreachable!("only `unknown` makes one") };
        let (lost, route) = (job.lost.clone(), &job.lost.route);
        let resolved = on_broker(&route.broker, async move { lost.resolve().await }).await;
        let answers = match resolved {
            Ok(Ok(answers)) => answers,
            Ok(Err(error @ (Error::Forgotten(_) | Error::Old { .. }))) => return Err(error),
            // The first request may have arrived, even if this answer is an error.
            Ok(Err(error)) | Err(error) => {
                self.cause = error;
                return Err(Error::Unknown(Box::new(self.typed())));
            }
        };
        let (address, stored, confirmed) = answers[job.position].clone().of(self.address)?;
        // The handle enqueues nothing: it needs no middleware.
        let client = Client::with_broker(route.broker.clone()).like(route.deadline, route.confirm);
        Ok(Handle::new(client, address, stored, confirmed, Kept::Unknown))
    }
}
