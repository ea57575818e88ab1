//! Sends the figures of the worker to the history of its queues: about every second heartbeat for
//! active queues, and once a minute for others, so that the length of an idle or paused queue is
//! known. Nothing waits for it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use queue_core::{Error, broker::history::Report};

use crate::{
    duty::Pass,
    engine::Shared,
    time::now,
    tuning::{CHECKED_TOGETHER, DEPTH_TOLD},
};

pub(crate) struct Historian {
    shared: Arc<Shared>,
}

/// How far the reports of each queue are. It outlives a duty that panics: numbers are never used twice.
#[derive(Default)]
pub(crate) struct Reports(Vec<Reported>);

#[derive(Default)]
struct Reported {
    seq: u64,
    /// A report that has no answer. It is sent again, unchanged, until it has one; what happens meanwhile is for the next.
    unanswered: Option<Report>,
    told: Option<Instant>,
}

/// What a pass has sent.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) reports: usize,
    pub(crate) failed: usize,
}

impl Historian {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Historian { shared }
    }
}

impl Pass for Historian {
    const NAME: &'static str = "historian";
    type Report = Told;

    /// About two beats.
    fn pause(&mut self) -> Duration {
        (self.shared.settings.beat() * 2).mul_f64(0.75 + fastrand::f64() / 4.0)
    }

    async fn tick(&mut self) -> Told {
        tell(&self.shared).await
    }
}

/// Sends a report of each queue that was active, or had no report for a long time.
pub(crate) async fn tell(shared: &Shared) -> Told {
    let mut reports = shared.reports.lock().await;
    reports.0.resize_with(shared.queues.len(), Reported::default);
    let now = now();
    let mut told = Told::default();
    for (queue, reported) in reports.0.iter_mut().enumerate() {
        reported.prepare(shared, queue, now);
    }
    for some in reports.0.chunks_mut(CHECKED_TOGETHER) {
        let mut sent = FuturesUnordered::new();
        for reported in some {
            if reported.unanswered.is_some() {
                sent.push(reported.send(shared));
            }
        }
        while let Some(answered) = sent.next().await {
            told.reports += 1;
            told.failed += usize::from(!answered);
        }
    }
    told
}

impl Reported {
    fn prepare(&mut self, shared: &Shared, queue: usize, now: Instant) {
        if self.unanswered.is_some() {
            return;
        }
        let (tasks, failures) = (shared.tallies.take(queue), shared.failures.take(queue));
        if tasks.is_empty() && failures.is_empty() && self.told.is_some_and(|told| now < told + DEPTH_TOLD) {
            return;
        }
        self.seq += 1;
        let report = Report::new(shared.queues[queue].clone(), shared.process, self.seq);
        let report = tasks.into_iter().fold(report, |report, (task, tally)| report.task(task, tally));
        self.unanswered = Some(failures.into_iter().fold(report, Report::failure));
    }

    /// False: it has no answer, or was refused, and is sent again.
    async fn send(&mut self, shared: &Shared) -> bool {
        let Some(report) = &self.unanswered else { return true };
        match shared.broker.report(report).await {
            Ok(()) => {
                self.told = Some(now());
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

#[cfg(test)]
mod tests {
    use queue_core::{
        Client,
        broker::{DynBroker, Ending, history::CRASHED},
        inspect::HistorySpan,
    };

    use super::*;
    use crate::{config::Settings, tallies::Ran};

    #[tokio::test]
    async fn what_happened_is_told_once_and_an_idle_queue_says_how_deep_it_is() {
        let client = Client::connect("sqlite://:memory:").await.unwrap();
        let shared = Shared::alone(&client, &["mail", "idle"], Settings::default());
        let ran = Ran { waited: None, took: Duration::from_millis(5) };
        shared.tallies.ended(0, Some("send"), Some(ran), &Ending::Ack { result: None, keep: None }, false);
        let mut historian = Historian::new(shared.clone());
        assert_eq!(historian.tick().await, Told { reports: 2, failed: 0 });
        assert_eq!(historian.tick().await, Told::default(), "nothing has happened since");
        shared.tallies.reclaimed(1, 1, 0);
        shared.failures.crashed(1, 1);
        assert_eq!(historian.tick().await, Told { reports: 1, failed: 0 });
        let of = async |queue| client.inspector().history(queue, HistorySpan::HOUR).await.unwrap();
        assert_eq!(of("mail").await.total_of("send").unwrap().counts.done, 1);
        assert_eq!((of("idle").await.total().ready, of("idle").await.others().unwrap().counts.crashed), (Some(0), 1));
        let failures = client.inspector().failures("idle").await.unwrap();
        assert_eq!((failures.len(), failures[0].count, failures[0].pattern.as_str()), (1, 1, CRASHED));
        assert!(historian.pause() <= Duration::from_secs(10) && historian.pause() >= Duration::from_secs(7));
        // Another process has the same broker and other numbers.
        let broker: DynBroker = client.broker().clone();
        assert_eq!(Historian::new(Shared::alone(&Client::with_broker(broker), &["mail"], Settings::default())).tick().await.reports, 1);
    }
}
