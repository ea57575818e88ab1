//! Enqueues whose fate is not known.

use std::sync::Arc;

use tokio::sync::Mutex;

use super::producer::{Answer, Line, Unsettled, after};
use crate::{
    address::JobAddress,
    broker::Enqueue,
    error::{Error, Result},
    io::on_broker,
};

/// An enqueue without an answer: its jobs may or may not be stored.
///
/// ```no_run
/// # use queue_core::{prelude::*, Error};
/// # #[task] async fn close(order_id: u64) {}
/// # async fn example(queue: Client) -> queue_core::Result<()> {
/// match close::job(17).enqueue(&queue).await {
///     Err(Error::Unknown(pending)) => {
///         // Later, when the broker is back: it is stored once, whether the first call had arrived or not.
///         for (address, existed) in pending.retry().await? {
///             println!("{address} is stored; existed before: {existed}");
///         }
///     }
///     other => drop(other?),
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Pending {
    lost: Arc<Lost>,
    position: usize,
    jobs: [JobAddress; 1],
}

/// A batch without an answer. Its name and number are kept for asking again, and for nothing else.
#[derive(Debug)]
pub(super) struct Lost {
    line: Line,
    request: Enqueue,
    /// What the first retry was told serves those of the other callers of the batch.
    settled: Mutex<Option<Vec<Answer>>>,
}

impl Lost {
    pub(super) fn new(line: Line, request: Enqueue) -> Self {
        Lost { line, request, settled: Mutex::default() }
    }

    async fn settle(&self) -> Result<Vec<Answer>, Unsettled> {
        let until = after(self.line.deadline);
        let mut settled = self.settled.lock().await;
        if let Some(answers) = &*settled {
            return Ok(answers.clone());
        }
        let answers = self.line.settle(&self.request, None, until).await?;
        Ok(settled.insert(answers).clone())
    }
}

impl Pending {
    pub(super) fn new(lost: Arc<Lost>, position: usize) -> Self {
        let jobs = [JobAddress { queue: lost.request.queue.clone(), id: lost.request.jobs[position].id.clone() }];
        Pending { lost, position, jobs }
    }

    /// The jobs that it is about.
    pub fn jobs(&self) -> &[JobAddress] {
        &self.jobs
    }

    /// Sends the same request again, for as long as an enqueue is tried. Says of each job whether it existed before.
    ///
    /// # Errors
    /// [`Error::Unknown`] again, without an answer. [`Error::Forgotten`], when the broker no longer has the producer, so that
    /// it cannot be known: look for the job by its address. [`Error::IdConflict`] for a job that is in conflict.
    pub async fn retry(self) -> Result<Vec<(JobAddress, bool)>> {
        let lost = self.lost.clone();
        let settled = on_broker(&self.lost.line.broker, async move { lost.settle().await }).await;
        let answers = match settled {
            Ok(Ok(answers)) => answers,
            Ok(Err(Unsettled::Refused(error @ (Error::Forgotten(_) | Error::Old { .. })))) => return Err(error),
            // Whatever is said now, the first sending may have arrived.
            Ok(Err(Unsettled::Refused(_) | Unsettled::Unknown)) | Err(_) => return Err(Error::Unknown(Box::new(self))),
        };
        let [address] = self.jobs;
        let (existed, _) = answers[self.position].of(&address)?;
        Ok(vec![(address, existed)])
    }
}
