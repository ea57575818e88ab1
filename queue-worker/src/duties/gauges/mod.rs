//! Reads depth, age and counters of the queues for metrics.

mod limits;
mod operations;
mod outboxes;
mod subscriptions;

use std::{collections::HashMap, sync::Arc, time::Duration};

use metrics::{Counter, Gauge};
use queue_core::broker::{self, JobState};

use self::{limits::LimitGauges, subscriptions::SubscriptionGauges};
use super::Pass;
use crate::{
    connection::Connection,
    declarations::Declarations,
    metrics::{keep_up, report_dropped_lines},
    queues::Queues,
    tuning::QUEUES_READ,
};

/// The states whose number of jobs is reported: those whose number does not depend on the
/// retention.
const DEPTHS: [JobState; 7] =
    [JobState::Scheduled, JobState::Ready, JobState::Active, JobState::Retry, JobState::Parked, JobState::Held, JobState::Dead];

pub(crate) struct Gauges {
    connection: Arc<Connection>,
    queues: Queues,
    declarations: Arc<Declarations>,
    handles: HashMap<usize, QueueMetrics>,
    began: bool,
}

impl Gauges {
    pub(crate) fn new(connection: Arc<Connection>, queues: Queues, declarations: Arc<Declarations>) -> Self {
        Gauges { connection, queues, declarations, handles: HashMap::new(), began: false }
    }
}

struct QueueMetrics {
    depths: [Gauge; DEPTHS.len()],
    /// With the total that was read last.
    events: [(Counter, Option<u64>); broker::Counter::ALL.len()],
    oldest: Gauge,
    workers: Gauge,
    paused: Gauge,
    limits: LimitGauges,
    subscription: Option<SubscriptionGauges>,
}

impl QueueMetrics {
    fn new(queue: &str) -> Self {
        let subscription = SubscriptionGauges::of(queue);
        let queue = queue.to_owned();
        QueueMetrics {
            depths: DEPTHS.map(|state| metrics::gauge!("queue_jobs", "queue" => queue.clone(), "state" => state.name())),
            events: broker::Counter::ALL
                .map(|event| (metrics::counter!("queue_events_total", "queue" => queue.clone(), "event" => event.name()), None)),
            oldest: metrics::gauge!("queue_oldest_ready_seconds", "queue" => queue.clone()),
            workers: metrics::gauge!("queue_workers", "queue" => queue.clone()),
            paused: metrics::gauge!("queue_paused", "queue" => queue),
            limits: LimitGauges::default(),
            subscription,
        }
    }
}

impl Pass for Gauges {
    const NAME: &'static str = "gauges";
    /// How many queues were read.
    type Report = usize;

    fn pause(&mut self) -> Duration {
        let first = !std::mem::replace(&mut self.began, true);
        if first { Duration::from_millis(100) } else { QUEUES_READ.mul_f64(0.75 + fastrand::f64() / 4.0) }
    }

    async fn tick(&mut self) -> usize {
        let (mut read, mut outboxes) = (0, Vec::new());
        for (at, queue) in self.queues.iter().map(|queue| &queue.name).enumerate() {
            // Without an answer, the gauges keep their values. `queue_broker_calls_total` counts
            // the failure.
            let Ok(mut stats) = self.connection.broker.stats(queue).await else { continue };
            read += 1;
            outboxes.append(&mut stats.outboxes);
            let handles = self.handles.entry(at).or_insert_with(|| QueueMetrics::new(queue));
            #[expect(clippy::cast_precision_loss, reason = "a gauge is a double")]
            for (state, depth) in DEPTHS.into_iter().zip(&handles.depths) {
                depth.set(stats.count(state) as f64);
            }
            for (event, (counter, last)) in broker::Counter::ALL.into_iter().zip(&mut handles.events) {
                let total = stats.total(event);
                match last.replace(total) {
                    None => counter.absolute(total),
                    // The counters of the broker were lost and start at zero; this counter
                    // continues.
                    Some(last) => counter.increment(total.checked_sub(last).unwrap_or(total)),
                }
            }
            handles.oldest.set(stats.oldest.unwrap_or_default().as_secs_f64());
            #[expect(clippy::cast_precision_loss, reason = "a gauge is a double")]
            handles.workers.set(stats.workers as f64);
            handles.paused.set(f64::from(u8::from(stats.paused)));
            // A queue without limits needs no request.
            if self.declarations.limits.contains_key(queue) {
                handles.limits.read(&self.connection.broker, queue).await;
            }
            operations::read(&self.connection.broker, queue).await;
            if let Some(subscription) = &handles.subscription {
                subscription.read(&self.connection.broker).await;
            }
        }
        outboxes::set(outboxes);
        report_condition(&self.connection.condition());
        report_dropped_lines();
        keep_up();
        read
    }
}

/// The condition of the broker, as the monitor has read it with the last heartbeat.
fn report_condition(condition: &broker::Condition) {
    #[expect(clippy::cast_precision_loss, reason = "a gauge is a double")]
    for (name, bytes) in [("queue_broker_used_bytes", condition.used), ("queue_broker_limit_bytes", condition.limit)] {
        metrics::gauge!(name).set(bytes.unwrap_or(0) as f64);
    }
    for kind in broker::Trouble::NAMES {
        let has = condition.trouble.as_ref().is_some_and(|trouble| trouble.name() == kind);
        metrics::gauge!("queue_broker_trouble", "kind" => kind).set(f64::from(u8::from(has)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flushed server has lost its counters. They start at zero, and the counters of the worker
    /// continue.
    #[cfg(feature = "prometheus")]
    #[tokio::test]
    async fn event_counters_go_on_after_those_of_the_broker_were_lost() {
        use queue_core::{Client, RawJob};

        use crate::queues::queues;

        let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
        let exported = recorder.handle();
        let _ours = metrics::set_default_local_recorder(&recorder);
        let enqueued = || {
            let text = exported.render();
            let line = text.lines().find(|line| line.starts_with("queue_events_total") && line.contains("\"enqueued\""));
            line.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
        };
        let client = async |jobs: usize| {
            let client = Client::connect("sqlite://:memory:").await.unwrap();
            for _ in 0..jobs {
                client.enqueue_raw(RawJob::new("task", vec![0x80]).queue("mail")).await.unwrap();
            }
            client
        };
        let connection = |client: &Client| Connection::new(client.broker().clone(), Duration::from_secs(5));
        let mut gauges = Gauges::new(connection(&client(3).await), queues(["mail"]), Arc::default());
        assert_eq!((gauges.tick().await, enqueued()), (1, Some(3)));
        let flushed = client(1).await;
        gauges.connection = connection(&flushed);
        assert_eq!((gauges.tick().await, enqueued()), (1, Some(4)));
        flushed.enqueue_raw(RawJob::new("task", vec![0x80]).queue("mail")).await.unwrap();
        assert_eq!((gauges.tick().await, enqueued()), (1, Some(5)));
    }
}
