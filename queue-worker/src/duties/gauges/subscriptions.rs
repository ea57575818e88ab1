//! Metrics of subscriptions: how far each is behind.

use metrics::Gauge;
use queue_core::broker::{DynBroker, subscription_at};

/// The gauges of the queue of a subscription.
pub(super) struct SubscriptionGauges {
    topic: String,
    name: String,
    behind: Gauge,
    lag: Gauge,
    lost: Gauge,
    skipped: Gauge,
}

impl SubscriptionGauges {
    /// `None` if the queue does not belong to a subscription.
    pub(super) fn of(queue: &str) -> Option<Self> {
        let (name, topic) = subscription_at(queue)?;
        Some(SubscriptionGauges {
            topic: topic.to_owned(),
            name: name.to_owned(),
            behind: metrics::gauge!("queue_subscription_behind", "queue" => queue.to_owned()),
            lag: metrics::gauge!("queue_subscription_lag_seconds", "queue" => queue.to_owned()),
            lost: metrics::gauge!("queue_subscription_lost", "queue" => queue.to_owned()),
            skipped: metrics::gauge!("queue_subscription_skipped", "queue" => queue.to_owned()),
        })
    }

    /// Without an answer, the gauges keep their values.
    pub(super) async fn read(&self, broker: &DynBroker) {
        let Ok(Some(topic)) = broker.topic(&self.topic).await else { return };
        let Some(subscription) = topic.subscriptions.iter().find(|subscription| subscription.name == self.name) else { return };
        #[expect(clippy::cast_precision_loss, reason = "a gauge is a double")]
        if let Some(behind) = subscription.behind {
            self.behind.set(behind as f64);
        }
        self.lag.set(subscription.lag(topic.now_ms).as_secs_f64());
        #[expect(clippy::cast_precision_loss, reason = "a gauge is a double")]
        self.lost.set(subscription.lost as f64);
        #[expect(clippy::cast_precision_loss, reason = "a gauge is a double")]
        self.skipped.set(subscription.skipped as f64);
    }
}
