//! The metrics that the worker reports to the `metrics` facade. `docs/metrics.md` lists all of
//! them, and [`METRICS`] is that list for the tests.
//!
//! Handles are kept where they are used: with the tallies of a task, and by the duty that reads the
//! queues (`duties/gauges`). Labels are bounded. Queues and tasks are those of the worker, with at
//! most [`MOST_TASKS`] tasks per queue. Limits have names. Outcomes, verbs and states have few
//! values.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock, atomic::Ordering},
    time::Duration,
};

use metrics::{Counter, Histogram, Unit};
use queue_core::{
    __private::DROPPED_LINES,
    Client,
    broker::{self, history::OTHERS},
    observe::{CallOutcome, Observe},
};

use crate::{messages::Ran, queues::Queues};

/// The maximum number of tasks of a queue that have their own label.
const MOST_TASKS: usize = 200;

/// Name, kind, labels, and description.
type Metric = (&'static str, Kind, &'static [&'static str], &'static str);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// All metrics.
pub(crate) const METRICS: [Metric; 37] = [
    ("queue_jobs", Kind::Gauge, &["queue", "state"], "jobs in this state"),
    (
        "queue_oldest_ready_seconds",
        Kind::Gauge,
        &["queue"],
        "age in seconds of the oldest ready job; 0 if no job is ready or the age is unknown",
    ),
    ("queue_workers", Kind::Gauge, &["queue"], "workers that serve the queue"),
    ("queue_paused", Kind::Gauge, &["queue"], "1 while the queue is paused"),
    ("queue_limit_used", Kind::Gauge, &["queue", "limit"], "used slots of the limit, summed over its keys"),
    (
        "queue_limit_waiting",
        Kind::Gauge,
        &["queue", "limit", "reason"],
        "jobs that wait for a slot or for the rate of the limit, by reason",
    ),
    ("queue_subscription_behind", Kind::Gauge, &["queue"], "unread events of the subscription"),
    ("queue_subscription_lag_seconds", Kind::Gauge, &["queue"], "age in seconds of the oldest unread event of the subscription"),
    ("queue_subscription_lost", Kind::Gauge, &["queue"], "events that were removed or damaged before the subscription read them"),
    ("queue_subscription_skipped", Kind::Gauge, &["queue"], "events that the subscription skipped because it did not know their type"),
    ("queue_operations_running", Kind::Gauge, &["queue"], "running operations of the queue"),
    (
        "queue_operation_jobs",
        Kind::Gauge,
        &["queue", "change", "outcome"],
        "jobs of the last operation of this kind, by outcome: changed, skipped or failed",
    ),
    ("queue_outbox_rows", Kind::Gauge, &["outbox", "state"], "rows of the outbox, by state: waiting, in_flight or refused"),
    ("queue_outbox_oldest_seconds", Kind::Gauge, &["outbox"], "age in seconds of the oldest row of the outbox that is not sent"),
    ("queue_outbox_full", Kind::Gauge, &["outbox"], "queues for which the outbox refuses new rows"),
    ("queue_outbox_report_age_seconds", Kind::Gauge, &["outbox"], "seconds since a relay reported the outbox"),
    ("queue_broker_used_bytes", Kind::Gauge, &[], "memory that the broker uses, in bytes; 0 if it does not report it"),
    ("queue_broker_limit_bytes", Kind::Gauge, &[], "memory that the broker may use, in bytes; 0 without a limit"),
    ("queue_broker_trouble", Kind::Gauge, &["kind"], "1 while the broker has this problem: full, evicting, read-only or lost"),
    ("queue_events_total", Kind::Counter, &["queue", "event"], "events of the queue since it was created, counted by the broker"),
    ("queue_starts_total", Kind::Counter, &["queue", "task"], "started runs"),
    ("queue_finishes_total", Kind::Counter, &["queue", "task", "outcome"], "finished deliveries, by outcome"),
    ("queue_wait_seconds", Kind::Histogram, &["queue", "task"], "seconds from the time at which a job could start to its first start"),
    ("queue_run_seconds", Kind::Histogram, &["queue", "task"], "duration of a run in seconds"),
    ("queue_reclaims_total", Kind::Counter, &["queue"], "jobs of crashed workers that this worker reclaimed"),
    ("queue_crashes_total", Kind::Counter, &["queue"], "reclaimed jobs that were charged with a crash"),
    ("queue_schedule_ticks_total", Kind::Counter, &["queue"], "ticks of schedules for which this worker created jobs"),
    ("queue_schedule_lateness_seconds", Kind::Histogram, &["queue"], "seconds from the time of a tick to the creation of its job"),
    ("queue_schedule_skipped_total", Kind::Counter, &["queue"], "ticks of schedules that this worker skipped"),
    (
        "queue_enqueue_refused_total",
        Kind::Counter,
        &["reason"],
        "enqueues of this process that the broker rejected or did not answer, by reason",
    ),
    ("queue_broker_calls_total", Kind::Counter, &["verb", "outcome"], "calls of this process to the broker, by verb and outcome"),
    ("queue_broker_call_seconds", Kind::Histogram, &["verb"], "duration of calls to the broker in seconds"),
    ("queue_worker_memory_bytes", Kind::Gauge, &[], "resident memory of this process in bytes; Linux only"),
    ("queue_worker_cpu_cores", Kind::Gauge, &[], "CPU usage of this process in cores since the previous heartbeat"),
    ("queue_worker_slots", Kind::Gauge, &["state"], "slots of this worker, by state: busy or free"),
    (
        "queue_log_lines_dropped_total",
        Kind::Counter,
        &[],
        "log lines of the command line that were dropped because standard error was not read",
    ),
    ("queue_broker_reconnects_total", Kind::Counter, &[], "outages of the broker that have ended"),
];

/// The counters and histograms of a task in a queue.
pub(crate) struct TaskMetrics {
    queue: Arc<str>,
    task: Arc<str>,
    starts: Counter,
    finishes: HashMap<&'static str, Counter>,
    wait: Histogram,
    run: Histogram,
}

impl TaskMetrics {
    /// `others` is the number of tasks of the queue that already have metrics.
    pub(crate) fn new(queue: &Arc<str>, task: &str, others: usize) -> Self {
        let task: Arc<str> = if others < MOST_TASKS { task.into() } else { OTHERS.into() };
        let labels = [("queue", queue.to_string()), ("task", task.to_string())];
        TaskMetrics {
            starts: metrics::counter!("queue_starts_total", &labels),
            finishes: HashMap::new(),
            wait: metrics::histogram!("queue_wait_seconds", &labels),
            run: metrics::histogram!("queue_run_seconds", &labels),
            queue: queue.clone(),
            task,
        }
    }

    pub(crate) fn begun(&self) {
        self.starts.increment(1);
    }

    pub(crate) fn ended(&mut self, outcome: &'static str, ran: Option<Ran>) {
        let (queue, task) = (&self.queue, &self.task);
        let finishes = self.finishes.entry(outcome).or_insert_with(|| {
            let labels = [("queue", queue.to_string()), ("task", task.to_string()), ("outcome", outcome.to_owned())];
            metrics::counter!("queue_finishes_total", &labels)
        });
        finishes.increment(1);
        if let Some(Ran { waited, took }) = ran {
            self.run.record(took);
            if let Some(waited) = waited {
                self.wait.record(waited);
            }
        }
    }
}

/// Counts reclaimed jobs of crashed workers. This is rare, so the handles are not kept.
pub(crate) fn reclaimed(queue: &str, jobs: usize, crashed: usize) {
    metrics::counter!("queue_reclaims_total", "queue" => queue.to_owned()).increment(jobs as u64);
    metrics::counter!("queue_crashes_total", "queue" => queue.to_owned()).increment(crashed as u64);
}

/// Counts ticks of a schedule that were made or skipped.
pub(crate) fn ticked(queue: &str, late: &[Duration], skipped: u64) {
    metrics::counter!("queue_schedule_ticks_total", "queue" => queue.to_owned()).increment(late.len() as u64);
    metrics::counter!("queue_schedule_skipped_total", "queue" => queue.to_owned()).increment(skipped);
    let seconds = metrics::histogram!("queue_schedule_lateness_seconds", "queue" => queue.to_owned());
    late.iter().for_each(|late| seconds.record(*late));
}

/// The load of the worker, as its heartbeats report it.
#[expect(clippy::cast_precision_loss, reason = "a gauge is a double")]
pub(crate) fn used(load: &broker::WorkerLoad) {
    if let Some(memory) = load.memory {
        metrics::gauge!("queue_worker_memory_bytes").set(memory as f64);
    }
    if let Some(cores) = load.cores() {
        metrics::gauge!("queue_worker_cpu_cores").set(cores);
    }
    metrics::gauge!("queue_worker_slots", "state" => "busy").set(load.busy as f64);
    metrics::gauge!("queue_worker_slots", "state" => "free").set(load.slots.saturating_sub(load.busy) as f64);
}

/// Reports the number of lines that the log has dropped so far.
pub(crate) fn report_dropped_lines() {
    metrics::counter!("queue_log_lines_dropped_total").absolute(DROPPED_LINES.load(Ordering::Relaxed));
}

/// Counts a reconnection to the broker. This is rare, so the handle is not kept.
pub(crate) fn reconnected() {
    metrics::counter!("queue_broker_reconnects_total").increment(1);
}

/// The same client, with an observer that counts and times its calls.
pub(crate) fn observed(client: &Client) -> Client {
    client.with_observer(Calls::default())
}

/// Handles by verb, and by verb and outcome. They are created at the first call.
#[derive(Default)]
struct Calls(RwLock<HashMap<VerbAndOutcome, (Counter, Histogram)>>);

type VerbAndOutcome = (&'static str, &'static str);

impl Observe for Calls {
    fn call(&self, verb: &'static str, outcome: CallOutcome, elapsed: Duration) {
        let key = (verb, outcome.name());
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        let (calls, seconds) = known.unwrap_or_else(|| {
            let made = (
                metrics::counter!("queue_broker_calls_total", "verb" => verb, "outcome" => outcome.name()),
                metrics::histogram!("queue_broker_call_seconds", "verb" => verb),
            );
            self.0.write().unwrap_or_else(PoisonError::into_inner).entry(key).or_insert(made).clone()
        });
        calls.increment(1);
        seconds.record(elapsed);
        if outcome != CallOutcome::Ok && verb.starts_with("enqueue") {
            metrics::counter!("queue_enqueue_refused_total", "reason" => outcome.name()).increment(1);
        }
    }
}

/// Describes the metrics to the facade, and starts the counters of these queues.
pub(crate) fn describe(queues: &Queues) {
    for (name, kind, _, about) in METRICS {
        let unit = if name.ends_with("_seconds") { Unit::Seconds } else { Unit::Count };
        match kind {
            Kind::Counter => metrics::describe_counter!(name, unit, about),
            Kind::Gauge => metrics::describe_gauge!(name, unit, about),
            Kind::Histogram => metrics::describe_histogram!(name, unit, about),
        }
    }
    // Counters start at zero, because a rate needs a first value.
    metrics::counter!("queue_broker_reconnects_total").increment(0);
    report_dropped_lines();
    metrics::counter!("queue_enqueue_refused_total", "reason" => "broker_full").increment(0);
    for queue in queues.iter() {
        reclaimed(&queue.name, 0, 0);
        ticked(&queue.name, &[], 0);
    }
}

pub(crate) use self::prometheus::{answer, install, keep_up};

/// The text in the format of Prometheus.
#[cfg(feature = "prometheus")]
mod prometheus {
    use std::sync::OnceLock;

    use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

    use queue_core::__private::Answer;

    /// From 1 ms to 10 minutes.
    const BUCKETS: [f64; 15] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 600.0];

    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();

    /// Installs the recorder, unless the application has installed another one.
    pub(crate) fn install() {
        let built = PrometheusBuilder::new().set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &BUCKETS);
        let recorder = match built {
            Ok(builder) => builder.build_recorder(),
            Err(error) => return tracing::error!(%error, "GET /metrics is not answered"),
        };
        let handle = recorder.handle();
        if metrics::set_global_recorder(recorder).is_ok() {
            drop(HANDLE.set(handle));
        } else if HANDLE.get().is_none() {
            tracing::info!("the application has a recorder of metrics: GET /metrics is not answered");
        }
    }

    pub(crate) fn answer() -> Option<Answer> {
        Some(Answer::metrics(HANDLE.get()?.render()))
    }

    /// Without this, histograms grow until the next scrape.
    pub(crate) fn keep_up() {
        if let Some(handle) = HANDLE.get() {
            handle.run_upkeep();
        }
    }
}

/// Builds without the feature `prometheus` may use another exporter.
#[cfg(not(feature = "prometheus"))]
mod prometheus {
    use queue_core::__private::Answer;

    pub(crate) fn install() {}

    pub(crate) fn answer() -> Option<Answer> {
        None
    }

    pub(crate) fn keep_up() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of the table on the page: name, kind, labels.
    fn page() -> Vec<(String, String, String)> {
        let rows = include_str!("../../docs/metrics.md").lines().filter(|line| line.starts_with("| `queue_"));
        let cells = |line: &str| line.split('|').map(|cell| cell.trim().replace('`', "")).collect::<Vec<_>>();
        rows.map(cells).map(|cells| (cells[1].clone(), cells[2].clone(), cells[4].clone())).collect()
    }

    #[test]
    fn the_page_lists_every_metric_with_its_kind_and_labels() {
        let known = METRICS.map(|(name, kind, labels, _)| (name.to_owned(), format!("{kind:?}").to_lowercase(), labels.join(", ")));
        assert_eq!(page(), known);
    }

    /// The exposition of all queues has the metrics that workers read from the broker.
    #[test]
    fn the_exporter_and_a_worker_mean_the_same_by_a_name() {
        for (name, kind, about) in queue_core::__private::EXPOSED {
            let known = METRICS.iter().find(|metric| metric.0 == name).map(|metric| (format!("{:?}", metric.1).to_lowercase(), metric.3));
            assert_eq!(known, Some((kind.to_owned(), about)), "{name}");
        }
        let read: Vec<&str> = METRICS.iter().map(|metric| metric.0).take(queue_core::__private::EXPOSED.len()).collect();
        assert_eq!(read, queue_core::__private::EXPOSED.map(|metric| metric.0));
    }
}
