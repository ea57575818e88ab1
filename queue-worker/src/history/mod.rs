//! The worker's part in the history of its queues. It counts the endings and the failures of jobs
//! in memory, and sends the counts in reports.

mod failures;
mod tallies;

use std::{sync::Arc, time::Instant};

use futures_util::stream::{FuturesUnordered, StreamExt};
use queue_core::{
    Error, JobId,
    broker::{DynBroker, Ending, ProcessId, history::Report},
};
use tokio::sync::Mutex;

use self::{failures::Failures, tallies::Tallies};
use crate::{
    messages::Ran,
    queues::Queues,
    time::now,
    tuning::{CHECKED_TOGETHER, DEPTH_REPORTED},
};

pub(crate) struct History {
    broker: DynBroker,
    process: ProcessId,
    queues: Queues,
    tallies: Tallies,
    failures: Failures,
    /// The number of a report is never used twice.
    reports: Mutex<Vec<Reported>>,
}

/// The reports of a queue.
#[derive(Default)]
struct Reported {
    seq: u64,
    /// A report without an answer. It is sent again, unchanged, until it is answered. The next
    /// report has the counts since then.
    unanswered: Option<Report>,
    answered_at: Option<Instant>,
}

/// The result of sending reports.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) reports: usize,
    pub(crate) failed: usize,
}

impl History {
    pub(crate) fn new(broker: DynBroker, process: ProcessId, release: Arc<str>, queues: Queues) -> Arc<Self> {
        Arc::new(History {
            broker,
            process,
            tallies: Tallies::new(queues.iter().map(|queue| queue.name.clone()).collect()),
            failures: Failures::new(queues.len(), release),
            reports: Mutex::new(queues.iter().map(|_| Reported::default()).collect()),
            queues,
        })
    }

    /// Records that a handler of this task begins.
    pub(crate) fn begun(&self, queue: usize, task: &str) {
        self.tallies.begun(queue, task);
    }

    /// Records the ending of a delivery. `task` and `ran` are absent if no handler had begun. If
    /// the lease was `lost`, the ending has no effect, and its failure is not counted.
    pub(crate) fn ended(&self, queue: usize, task: Option<&str>, job: &JobId, ran: Option<Ran>, ending: &Ending, lost: bool) {
        self.tallies.ended(queue, task, ran, ending, lost);
        if !lost {
            self.failures.ended(queue, task, job, ending);
        }
    }

    /// Records jobs of crashed workers that were reclaimed.
    pub(crate) fn reclaimed(&self, queue: usize, charged: usize, buried: usize) {
        self.tallies.reclaimed(queue, charged, buried);
        self.failures.crashed(queue, charged + buried);
    }

    /// Records jobs that were buried because no release could read them.
    pub(crate) fn buried(&self, queue: usize, jobs: usize) {
        self.tallies.buried(queue, jobs);
    }

    /// Sends a report of each queue that was active, or that had no report for a long time.
    pub(crate) async fn send(&self) -> Sent {
        let mut reports = self.reports.lock().await;
        let (now, mut all) = (now(), Sent::default());
        for (queue, reported) in reports.iter_mut().enumerate() {
            self.prepare(reported, queue, now);
        }
        for some in reports.chunks_mut(CHECKED_TOGETHER) {
            let pending = some.iter_mut().filter(|reported| reported.unanswered.is_some());
            let mut sent: FuturesUnordered<_> = pending.map(|reported| reported.send(&self.broker)).collect();
            while let Some(answered) = sent.next().await {
                all.reports += 1;
                all.failed += usize::from(!answered);
            }
        }
        all
    }

    fn prepare(&self, reported: &mut Reported, queue: usize, now: Instant) {
        if reported.unanswered.is_some() {
            return;
        }
        let (tasks, failures) = (self.tallies.take(queue), self.failures.take(queue));
        if tasks.is_empty() && failures.is_empty() && reported.answered_at.is_some_and(|last| now < last + DEPTH_REPORTED) {
            return;
        }
        reported.seq += 1;
        let report = Report::new(self.queues[queue].name.clone(), self.process, reported.seq);
        let report = tasks.into_iter().fold(report, |report, (task, tally)| report.task(task, tally));
        reported.unanswered = Some(failures.into_iter().fold(report, Report::failure));
    }
}

impl Reported {
    /// Returns false if the report was not answered or was refused, and has to be sent again.
    async fn send(&mut self, broker: &DynBroker) -> bool {
        let Some(report) = &self.unanswered else { return true };
        match broker.report(report).await {
            Ok(()) => {
                self.answered_at = Some(now());
                self.unanswered = None;
                true
            }
            Err(error) => {
                let Report { queue, seq, .. } = report;
                // Other duties report an outage, and the monitor reports a full broker.
                if error.is_transient() || matches!(error, Error::BrokerFull { .. }) {
                    tracing::debug!(%queue, seq, %error, "cannot write the history of the queue yet, retrying");
                } else {
                    tracing::debug!(%queue, seq, %error, "the broker rejected the history of the queue");
                }
                false
            }
        }
    }
}
