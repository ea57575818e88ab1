//! Sends the figures of the worker to the history of its queues. It sends them about every second
//! heartbeat for active queues. For others it sends them once a minute, so that the history has the
//! length of an idle or paused queue. No other part of the worker waits for it.

use std::{sync::Arc, time::Duration};

use super::Pass;
use crate::history::{History, Sent};

pub(crate) struct Historian {
    history: Arc<History>,
    heartbeat: Duration,
}

impl Historian {
    pub(crate) fn new(history: Arc<History>, heartbeat: Duration) -> Self {
        Historian { history, heartbeat }
    }
}

impl Pass for Historian {
    const NAME: &'static str = "historian";
    type Report = Sent;

    /// About two heartbeats.
    fn pause(&mut self) -> Duration {
        (self.heartbeat * 2).mul_f64(0.75 + fastrand::f64() / 4.0)
    }

    async fn tick(&mut self) -> Sent {
        self.history.send().await
    }
}

#[cfg(test)]
mod tests {
    use queue_core::{
        Client, JobId,
        broker::{Ending, ProcessId, history::CRASHED},
        inspect::HistorySpan,
    };

    use super::*;
    use crate::{messages::Ran, queues::queues};

    #[tokio::test]
    async fn an_event_is_reported_once_and_an_idle_queue_reports_its_length() {
        let client = Client::connect("sqlite://:memory:").await.unwrap();
        let history =
            |names: &[&str]| History::new(client.broker().clone(), ProcessId::random(), "v7".into(), queues(names.iter().copied()));
        let ours = history(&["mail", "idle"]);
        let mut historian = Historian::new(ours.clone(), Duration::from_secs(5));
        let ran = Ran { waited: None, took: Duration::from_millis(5) };
        ours.ended(0, Some("send"), &JobId::make(), Some(ran), &Ending::Ack { result: None, keep: None }, false);
        assert_eq!(historian.tick().await, Sent { reports: 2, failed: 0 });
        assert_eq!(historian.tick().await, Sent::default(), "nothing has happened since");
        ours.reclaimed(1, 1, 0);
        assert_eq!(historian.tick().await, Sent { reports: 1, failed: 0 });
        let of = async |queue| client.inspector().history(queue, HistorySpan::HOUR).await.unwrap();
        assert_eq!(of("mail").await.total_of("send").unwrap().counts.done, 1);
        assert_eq!((of("idle").await.total().ready, of("idle").await.others().unwrap().counts.crashed), (Some(0), 1));
        let failures = client.inspector().failures("idle").await.unwrap();
        assert_eq!((failures.len(), failures[0].count, failures[0].pattern.as_str()), (1, 1, CRASHED));
        assert!(historian.pause() <= Duration::from_secs(10) && historian.pause() >= Duration::from_secs(7));
        // Another process with the same broker has different numbers.
        assert_eq!(Historian::new(history(&["mail"]), Duration::from_secs(5)).tick().await.reports, 1);
    }
}
