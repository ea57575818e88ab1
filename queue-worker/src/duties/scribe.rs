//! Stores the progress and log lines of handlers. It collects them for all jobs, and stores them
//! about four times a second. The last ones are stored before the result of the job is sent,
//! because the result clears the receipt that they need. Handlers that report nothing never wake
//! it.

use std::{sync::Arc, time::Instant};

use futures_util::future::join_all;
use queue_core::{
    Error, JobContext,
    broker::{DynBroker, MAX_BYTES, MAX_ITEMS, ProgressReport},
};
use tokio_util::sync::CancellationToken;

use super::Duty;
use crate::{
    progress::PendingProgress,
    time::now,
    tuning::{PROGRESS, PROGRESS_PATIENCE},
};

pub(crate) struct Scribe {
    broker: DynBroker,
    pending: Arc<PendingProgress>,
}

impl Scribe {
    pub(crate) fn new(broker: DynBroker, pending: Arc<PendingProgress>) -> Self {
        Scribe { broker, pending }
    }

    async fn work(&self) {
        let (mut waiting, mut last) = (self.pending.jobs.lock().await, self.pending.last.lock().await);
        let (mut jobs, mut next): (Vec<JobContext>, Instant) = (Vec::new(), now());
        loop {
            tokio::select! {
                biased;
                Some(first) = last.recv() => {
                    let mut lasts = vec![first];
                    while lasts.len() < MAX_ITEMS && let Ok(more) = last.try_recv() {
                        lasts.push(more);
                    }
                    let (contexts, stored): (Vec<_>, Vec<_>) = lasts.into_iter().map(|last| (last.context, last.stored)).unzip();
                    send(&self.broker, contexts).await;
                    for stored in stored {
                        // The receiver is dropped if its run no longer waits.
                        let _ = stored.send(());
                    }
                }
                Some(job) = waiting.recv() => jobs.push(job),
                () = tokio::time::sleep_until(next.into()), if !jobs.is_empty() => {
                    next = now() + PROGRESS;
                    send(&self.broker, std::mem::take(&mut jobs)).await;
                }
            }
        }
    }
}

impl Duty for Scribe {
    const NAME: &'static str = "scribe";

    async fn run(self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.work()).await;
    }
}

/// Stores progress and log lines of these jobs, up to the maximum size of a request for each job.
async fn send(broker: &DynBroker, contexts: Vec<JobContext>) {
    // The requests, and the approximate size of each in bytes.
    let (mut requests, mut bytes): (Vec<ProgressReport>, Vec<usize>) = (Vec::new(), Vec::new());
    for context in &contexts {
        let Some(lane) = context.lane().filter(|_| context.has_reports()) else { continue };
        let reported = context.take_reported(MAX_BYTES);
        if reported.progress.is_none() && reported.lines.is_empty() {
            continue;
        }
        let more = reported.bytes();
        let has_room = |(at, request): (usize, &ProgressReport)| {
            let fits = request.jobs.len() < MAX_ITEMS && bytes[at] + more <= MAX_BYTES;
            (fits && request.lane == *lane && *request.queue == *context.queue()).then_some(at)
        };
        let at = requests.iter().enumerate().find_map(has_room).unwrap_or_else(|| {
            requests.push(ProgressReport::new(context.queue(), lane.clone()));
            requests.len() - 1
        });
        bytes.resize(requests.len(), 0);
        bytes[at] += more;
        requests[at].jobs.push(reported);
    }
    let answers = join_all(requests.iter().map(|request| tokio::time::timeout(PROGRESS_PATIENCE, broker.store_progress(request)))).await;
    for (request, answer) in requests.into_iter().zip(answers) {
        let (queue, jobs) = (request.queue.clone(), request.jobs.len());
        match answer {
            Ok(Ok(_)) => {}
            // The broker detects duplicate lines by their numbers.
            Err(_) => return_unstored(&contexts, request),
            Ok(Err(error)) if error.is_transient() => return_unstored(&contexts, request),
            Ok(Err(error)) => {
                if !matches!(error, Error::BrokerFull { .. } | Error::Forgotten(_)) {
                    tracing::debug!(%queue, jobs, %error, "the broker rejected progress and log lines");
                }
            }
        }
    }
    contexts.iter().for_each(JobContext::reported_was_sent);
}

fn return_unstored(contexts: &[JobContext], request: ProgressReport) {
    for reported in request.jobs {
        if let Some(context) = contexts.iter().find(|context| context.claim() == reported.claim && *context.id() == reported.id) {
            context.put_back_reported(reported);
        }
    }
}
