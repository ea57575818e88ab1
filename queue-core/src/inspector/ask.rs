//! Requests to workers.

use super::Inspector;
use crate::{
    broker::{AskWorker, DynBroker, WorkerAsk, WorkerAsked, WorkerMode, WorkerRecord},
    error::{Error, Result},
};

/// How often a request is repeated if others ask the same worker at the same time.
const TRIES: usize = 5;

impl Inspector {
    /// Asks a worker to claim nothing ([`WorkerMode::Quiet`]), to claim again
    /// ([`WorkerMode::Works`]), or to stop as on SIGTERM ([`WorkerMode::Stopping`]), and gives the
    /// number of the request. `by` names the requester, for the log of the worker.
    ///
    /// The broker stores the request with the record of the worker, and returns it with the answer
    /// to the worker's next heartbeat: within 5 s, or a sixth of its lease if that is shorter. The
    /// worker has received it when its [`received`](crate::inspect::WorkerLoad::received) is at
    /// least this number; it reports so at once. The latest request applies. A request ends with
    /// the worker, because the next start of its program has another id. If a failover of the
    /// broker loses a request that the worker has not received, it has to be sent again.
    ///
    /// ```no_run
    /// # use queue_core::{Client, inspect::WorkerMode};
    /// # async fn example(client: Client) -> queue_core::Result<()> {
    /// let inspector = client.inspector();
    /// for worker in inspector.workers().await?.iter().filter(|worker| worker.release == "v41") {
    ///     inspector.ask_worker(worker, WorkerMode::Quiet, "deploy of v42").await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`] if the worker has not sent a heartbeat yet, runs a release that cannot be
    /// controlled, or has left.
    pub async fn ask_worker(&self, worker: &WorkerRecord, mode: WorkerMode, by: &str) -> Result<u64> {
        let (mut worker, wrong) = (worker.clone(), |problem: &str| Error::invalid("worker", worker.id.to_string(), problem));
        let mute = wrong("has not sent a heartbeat yet: it has just started, or its release cannot be controlled; stop it with SIGTERM");
        let (gone, busy) = (wrong("has left"), wrong("receives other requests at the same time; check them with `workers`, and try again"));
        for _ in 0..TRIES {
            let (Some(queue), Some(load)) = (&worker.reports_to, worker.load) else { return Err(mute) };
            let number = worker.asked.as_ref().map_or(0, |ask| ask.number).max(load.received) + 1;
            match self.ask_again(&worker, number, mode, by).await? {
                WorkerAsked::Stored => return Ok(number),
                WorkerAsked::Stale | WorkerAsked::Absent => {
                    let (id, of) = (worker.id, self.workers_of(queue).await?);
                    let found = match of.into_iter().find(|other| other.id == id).filter(|worker| worker.load.is_some()) {
                        Some(found) => Some(found),
                        None => self.worker(id).await?,
                    };
                    let Some(found) = found else { return Err(gone) };
                    worker = found;
                }
            }
        }
        Err(busy)
    }

    /// Makes a request again that has a number: nothing changes if it is stored.
    ///
    /// # Errors
    /// Those of the broker.
    pub async fn ask_again(&self, worker: &WorkerRecord, number: u64, mode: WorkerMode, by: &str) -> Result<WorkerAsked> {
        let Some(queue) = &worker.reports_to else { return Ok(WorkerAsked::Absent) };
        let request = AskWorker::new(queue.as_str(), worker.id, WorkerAsk::new(number, mode, by));
        let ask = move |broker: DynBroker| {
            let request = request.clone();
            async move { broker.ask_worker(&request).await }
        };
        // Sent twice it is stored once.
        self.repeat(self.until(), ask).await
    }
}
