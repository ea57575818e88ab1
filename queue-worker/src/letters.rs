//! The log of dead letters, one line each. The pump, the reclaimer and the janitor call it.

use std::fmt;

use queue_core::{
    __private::Envelope,
    JobId,
    broker::{BuryReason, DynBroker, Ending, Finish},
};

/// The address of a job in the form of the commands: `queue/id`.
pub(crate) fn address<'a>(queue: &'a str, id: &'a JobId) -> impl fmt::Display + fmt::Debug + 'a {
    struct Address<'a>(&'a str, &'a JobId);
    impl fmt::Display for Address<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{}/{}", self.0, self.1)
        }
    }
    impl fmt::Debug for Address<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            fmt::Display::fmt(self, f)
        }
    }
    Address(queue, id)
}

/// A job that this worker buries, until the broker has confirmed it.
#[derive(Debug)]
pub(crate) struct Burial {
    pub(crate) id: JobId,
    pub(crate) claim: u64,
    /// `None` if the envelope cannot be read.
    pub(crate) task: Option<String>,
    /// Including the attempt that has buried the job.
    pub(crate) attempts: u32,
}

/// Logs the dead letters that these endings have created. The broker has accepted all but the
/// `stale` ones.
pub(crate) fn log_confirmed(queue: &str, burials: &mut Vec<Burial>, finishes: &[Finish], stale: &[usize]) {
    for (position, finish) in finishes.iter().enumerate() {
        let Ending::Bury { reason, error } = &finish.ending else { continue };
        let Some(at) = burials.iter().position(|burial| burial.claim == finish.claim && burial.id == finish.id) else { continue };
        let burial = burials.swap_remove(at);
        if !stale.contains(&position) {
            log(queue, &burial.id, burial.task.as_deref(), *reason, burial.attempts, None, error.as_deref());
        }
    }
}

/// Logs burials that the broker did not confirm and that will not be sent again.
pub(crate) fn log_unconfirmed(queue: &str, burials: &mut Vec<Burial>) {
    for Burial { id, task, attempts, .. } in burials.drain(..) {
        tracing::error!(
            job = %address(queue, &id),
            task,
            attempts,
            "dead letter not confirmed by the broker: the job is a dead letter now, or it runs again"
        );
    }
}

/// Logs the jobs that the broker has buried.
pub(crate) async fn log_buried(broker: &DynBroker, queue: &str, ids: &[JobId], reason: BuryReason) {
    for id in ids {
        // Without an answer, or if the job was removed in the meantime, logs only the address.
        let record = broker.show(queue, id).await.ok().flatten();
        let task = record.as_ref().and_then(|record| Some(Envelope::decode(&record.envelope).ok()?.task.into_owned()));
        let (attempts, crashes) = record.as_ref().map_or((0, None), |record| (record.attempts, Some(record.crashes)));
        let error = record.as_ref().and_then(|record| Some(record.failures.last()?.message.as_str()));
        log(queue, id, task.as_deref(), reason, attempts, crashes.filter(|crashes| *crashes > 0), error);
    }
}

fn log(queue: &str, id: &JobId, task: Option<&str>, reason: BuryReason, attempts: u32, crashes: Option<u32>, error: Option<&str>) {
    tracing::error!(
        job = %address(queue, id),
        task,
        reason = reason.name(),
        attempts,
        crashes,
        error,
        "the job is a dead letter and will not run again; `jobs show` prints its history, and `jobs requeue` runs it again"
    );
}
