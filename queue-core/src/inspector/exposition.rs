//! Metrics of every queue, in the text format of Prometheus, with or without a worker.

use std::{collections::BTreeMap, fmt::Write as _};

use futures_util::{StreamExt, stream};

use super::Inspector;
use crate::{
    broker::{
        Condition, Counter, JobState, LimitRecord, OperationKind, OutboxRecord, QueueStats, Trouble, history::OTHERS, subscription_at,
    },
    error::Result,
};

/// The most limits of a queue that have a separate label.
const MOST_LIMITS: usize = 100;

/// How many queues are read at once.
const AT_ONCE: usize = 16;

/// The states whose number of jobs is reported. It does not grow with the retention.
const DEPTHS: [JobState; 7] =
    [JobState::Scheduled, JobState::Ready, JobState::Active, JobState::Retry, JobState::Parked, JobState::Held, JobState::Dead];

/// The name, kind and meaning of each metric of an [exposition](Inspector::exposition).
#[doc(hidden)]
pub const EXPOSED: [(&str, &str, &str); 20] = [
    ("queue_jobs", "gauge", "jobs in this state"),
    ("queue_oldest_ready_seconds", "gauge", "age in seconds of the oldest ready job; 0 if no job is ready or the age is unknown"),
    ("queue_workers", "gauge", "workers that serve the queue"),
    ("queue_paused", "gauge", "1 while the queue is paused"),
    ("queue_limit_used", "gauge", "used slots of the limit, summed over its keys"),
    ("queue_limit_waiting", "gauge", "jobs that wait for a slot or for the rate of the limit, by reason"),
    ("queue_subscription_behind", "gauge", "unread events of the subscription"),
    ("queue_subscription_lag_seconds", "gauge", "age in seconds of the oldest unread event of the subscription"),
    ("queue_subscription_lost", "gauge", "events that were removed or damaged before the subscription read them"),
    ("queue_subscription_skipped", "gauge", "events that the subscription skipped because it did not know their type"),
    ("queue_operations_running", "gauge", "running operations of the queue"),
    ("queue_operation_jobs", "gauge", "jobs of the last operation of this kind, by outcome: changed, skipped or failed"),
    ("queue_outbox_rows", "gauge", "rows of the outbox, by state: waiting, in_flight or refused"),
    ("queue_outbox_oldest_seconds", "gauge", "age in seconds of the oldest row of the outbox that is not sent"),
    ("queue_outbox_full", "gauge", "queues for which the outbox refuses new rows"),
    ("queue_outbox_report_age_seconds", "gauge", "seconds since a relay reported the outbox"),
    ("queue_broker_used_bytes", "gauge", "memory that the broker uses, in bytes; 0 if it does not report it"),
    ("queue_broker_limit_bytes", "gauge", "memory that the broker may use, in bytes; 0 without a limit"),
    ("queue_broker_trouble", "gauge", "1 while the broker has this problem: full, evicting, read-only or lost"),
    ("queue_events_total", "counter", "events of the queue since it was created, counted by the broker"),
];

impl Inspector {
    /// The metrics that the broker has of every queue, in the text format of Prometheus: depths,
    /// workers, pauses, limits, subscriptions, operations, outboxes and counters. A worker reports
    /// only the queues that it serves; this also reports queues without a worker.
    ///
    /// A queue that cannot be read is left out.
    ///
    /// ```
    /// # use queue_core::prelude::*;
    /// #[task(queue = "mail")]
    /// async fn send(to: String) {}
    ///
    /// # async fn example() -> queue_core::Result<()> {
    /// let client = Client::connect("sqlite://:memory:").await?;
    /// send::job("ada@example.com".to_owned()).enqueue(&client).await?;
    /// let metrics = client.inspector().exposition().await?;
    /// assert!(metrics.contains("queue_workers{queue=\"mail\"} 0\n"));
    /// assert!(metrics.contains("queue_jobs{queue=\"mail\",state=\"ready\"} 1\n"));
    /// # Ok(()) }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// # Errors
    /// Those of the broker, if no queue can be read.
    pub async fn exposition(&self) -> Result<String> {
        let queues = self.queues().await?;
        let reads: Vec<_> = queues.iter().map(|queue| Box::pin(self.samples_of(queue))).collect();
        let answers: Vec<Result<(Samples, Vec<OutboxRecord>)>> = stream::iter(reads).buffered(AT_ONCE).collect().await;
        let (mut samples, mut outboxes, mut refused) = (Samples::default(), Vec::new(), None);
        for answer in answers {
            match answer {
                Ok((of_queue, reported)) => {
                    samples.join(of_queue);
                    outboxes.extend(reported);
                }
                Err(error) => refused = Some(error),
            }
        }
        if let Some(error) = refused.filter(|_| samples.0.is_empty()) {
            return Err(error);
        }
        samples.outboxes(OutboxRecord::merged(outboxes));
        // A user who may not read the state of the server gets the other figures.
        if let Ok(condition) = self.condition().await {
            samples.broker(&condition);
        }
        Ok(samples.text())
    }

    async fn samples_of(&self, queue: &str) -> Result<(Samples, Vec<OutboxRecord>)> {
        let mut stats = self.stats(queue).await?;
        let (mut samples, outboxes) = (Samples::default(), std::mem::take(&mut stats.outboxes));
        samples.queue(queue, &stats);
        samples.limits(queue, self.limit_figures(queue).await?);
        if let Some((subscription, topic)) = subscription_at(queue) {
            self.subscription(queue, subscription, topic, &mut samples).await?;
        }
        self.operations_of(queue, &mut samples).await?;
        Ok((samples, outboxes))
    }

    /// Held slots, jobs that wait for a slot, and jobs that wait for the rate, by label.
    async fn limit_figures(&self, queue: &str) -> Result<BTreeMap<String, [u64; 3]>> {
        let limits = self.stored_limits(queue, None).await?;
        let named = limits.iter().filter_map(|limit| Some((LimitRecord::decode(&limit.stored).ok()?.name, limit)));
        let named: BTreeMap<String, _> = named.collect();
        let mut figures = BTreeMap::<String, [u64; 3]>::new();
        for (n, (name, limit)) in named.into_iter().enumerate() {
            let sums = figures.entry(if n < MOST_LIMITS { name } else { OTHERS.to_owned() }).or_default();
            sums.iter_mut().zip([limit.held, limit.full, limit.rated]).for_each(|(sum, figure)| *sum += figure);
        }
        Ok(figures)
    }

    async fn subscription(&self, queue: &str, name: &str, topic: &str, samples: &mut Samples) -> Result<()> {
        let topic = topic.to_owned();
        let ask = move |broker: crate::broker::DynBroker| {
            let topic = topic.clone();
            async move { broker.topic(&topic).await }
        };
        let Some(topic) = self.ask(self.until(), ask).await? else { return Ok(()) };
        let Some(of) = topic.subscriptions.iter().find(|of| of.name == name) else { return Ok(()) };
        let labels = [("queue", queue)];
        if let Some(behind) = of.behind {
            samples.add("queue_subscription_behind", &labels, behind);
        }
        samples.add("queue_subscription_lag_seconds", &labels, of.lag(topic.now_ms).as_secs_f64());
        samples.add("queue_subscription_lost", &labels, of.lost);
        samples.add("queue_subscription_skipped", &labels, of.skipped);
        Ok(())
    }

    async fn operations_of(&self, queue: &str, samples: &mut Samples) -> Result<()> {
        let of = queue.to_owned();
        let ask = move |broker: crate::broker::DynBroker| {
            let of = of.clone();
            async move { broker.operations(&of).await }
        };
        let operations = self.ask(self.until(), ask).await?;
        if operations.is_empty() {
            return Ok(());
        }
        let running = operations.iter().filter(|operation| operation.is_running()).count();
        samples.add("queue_operations_running", &[("queue", queue)], running);
        for kind in OperationKind::ALL {
            let of_kind = operations.iter().filter(|operation| operation.kind == kind);
            let Some(last) = of_kind.max_by_key(|operation| operation.started_ms) else { continue };
            for (outcome, jobs) in [("changed", last.changed), ("skipped", last.skipped), ("failed", last.failed)] {
                samples.add("queue_operation_jobs", &[("queue", queue), ("change", kind.name()), ("outcome", outcome)], jobs);
            }
        }
        Ok(())
    }
}

/// The lines of each metric, by its place in [`EXPOSED`].
#[derive(Default)]
struct Samples(BTreeMap<usize, String>);

impl Samples {
    fn add(&mut self, metric: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let Some(at) = EXPOSED.iter().position(|(name, ..)| *name == metric) else { return };
        let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let lines = self.0.entry(at).or_default();
        let _ = writeln!(lines, "{metric}{{{}}} {value}", labels.join(","));
    }

    fn queue(&mut self, queue: &str, stats: &QueueStats) {
        for state in DEPTHS {
            self.add("queue_jobs", &[("queue", queue), ("state", state.name())], stats.count(state));
        }
        let labels = [("queue", queue)];
        self.add("queue_oldest_ready_seconds", &labels, stats.oldest.unwrap_or_default().as_secs_f64());
        self.add("queue_workers", &labels, stats.workers);
        self.add("queue_paused", &labels, u8::from(stats.paused));
        for event in Counter::ALL {
            self.add("queue_events_total", &[("queue", queue), ("event", event.name())], stats.total(event));
        }
    }

    fn limits(&mut self, queue: &str, figures: BTreeMap<String, [u64; 3]>) {
        for (limit, [held, full, rated]) in figures {
            self.add("queue_limit_used", &[("queue", queue), ("limit", &limit)], held);
            for (reason, jobs) in [("limit_full", full), ("rate_limited", rated)] {
                self.add("queue_limit_waiting", &[("queue", queue), ("limit", &limit), ("reason", reason)], jobs);
            }
        }
    }

    fn outboxes(&mut self, outboxes: Vec<OutboxRecord>) {
        for outbox in outboxes {
            let labels = [("outbox", outbox.database.as_str())];
            for (state, rows) in [("waiting", outbox.waiting()), ("in_flight", outbox.in_flight()), ("refused", outbox.refused())] {
                self.add("queue_outbox_rows", &[labels[0], ("state", state)], rows);
            }
            self.add("queue_outbox_oldest_seconds", &labels, outbox.oldest().unwrap_or_default().as_secs_f64());
            self.add("queue_outbox_full", &labels, outbox.queues.iter().filter(|depth| depth.full).count());
            self.add("queue_outbox_report_age_seconds", &labels, outbox.age.as_secs_f64());
        }
    }

    fn broker(&mut self, condition: &Condition) {
        self.add("queue_broker_used_bytes", &[], condition.used.unwrap_or(0));
        self.add("queue_broker_limit_bytes", &[], condition.limit.unwrap_or(0));
        for kind in Trouble::NAMES {
            self.add("queue_broker_trouble", &[("kind", kind)], u8::from(condition.trouble.as_ref().is_some_and(|now| now.name() == kind)));
        }
    }

    fn join(&mut self, other: Samples) {
        for (at, lines) in other.0 {
            self.0.entry(at).or_default().push_str(&lines);
        }
    }

    fn text(self) -> String {
        let mut text = String::new();
        for (at, lines) in self.0 {
            let (name, kind, meaning) = EXPOSED[at];
            let _ = write!(text, "# HELP {name} {meaning}\n# TYPE {name} {kind}\n{lines}");
        }
        text
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trouble_of_the_broker_is_a_gauge_of_its_kind() {
        let mut samples = Samples::default();
        let trouble = Some(Trouble::ReadOnly("it has no replicas".to_owned()));
        samples.broker(&Condition { used: Some(7), trouble, ..Condition::default() });
        let text = samples.text();
        assert!(text.contains("\nqueue_broker_used_bytes{} 7\n") && text.contains("\nqueue_broker_limit_bytes{} 0\n"), "{text}");
        assert!(text.contains("{kind=\"read-only\"} 1\n") && text.contains("{kind=\"full\"} 0\n"), "{text}");
    }

    #[test]
    fn the_value_of_a_label_cannot_end_it() {
        let mut samples = Samples::default();
        samples.add("queue_outbox_full", &[("outbox", "a\"} 1\nb\\")], 0);
        assert!(samples.text().ends_with("queue_outbox_full{outbox=\"a\\\"} 1\\nb\\\\\"} 0\n"));
    }
}
