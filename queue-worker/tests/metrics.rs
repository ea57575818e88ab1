//! `GET /metrics`: the page, the Grafana dashboard and the alert rules use only metrics that are
//! exposed.
#![cfg(feature = "prometheus")]

mod common;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
    time::Duration,
};

use common::{Probe, ask, free_address, memory, run, until, worker};
use queue_core::{
    broker::{ProcessId, history::Report},
    inspect::{NewOperation, OperationKind, OutboxDepth, OutboxRecord},
    prelude::*,
    schedule::Schedule,
};

#[task(queue = "metered", max_attempts = 2, backoff(base = "1ms"))]
async fn metered(fails: bool, probe: Data<Probe>) -> Result<(), String> {
    probe.note("ran");
    if fails { Err("it was told to".to_owned()) } else { Ok(()) }
}

#[task(queue = "ticking", limit(name = "ticks", concurrency = 1))]
async fn ticking() {}

#[derive(Event)]
#[event(topic = "happenings")]
struct Happened {}

#[subscribe(name = "audit", from = "start")]
async fn hear(_event: Happened) {}

/// The rows of the page: name, and kind and labels.
fn page() -> BTreeMap<String, (String, BTreeSet<String>)> {
    let rows = include_str!("../../docs/metrics.md").lines().filter(|line| line.starts_with("| `queue_"));
    rows.map(|row| {
        let cells: Vec<String> = row.split('|').map(|cell| cell.trim().replace('`', "")).collect();
        let labels = cells[4].split(", ").filter(|label| !label.is_empty()).map(str::to_owned).collect();
        (cells[1].clone(), (cells[2].clone(), labels))
    })
    .collect()
}

/// The exposed metrics: the kind of each name, and the labels of its samples.
fn exposed(text: &str) -> BTreeMap<String, (String, BTreeSet<String>)> {
    let mut kinds: BTreeMap<String, (String, BTreeSet<String>)> = BTreeMap::new();
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' ')) {
            kinds.entry(name.to_owned()).or_default().0 = kind.to_owned();
        } else if let Some((sample, _)) = line.rsplit_once(' ').filter(|_| line.starts_with("queue_")) {
            let (name, labels) = sample.split_once('{').unwrap_or((sample, ""));
            let name = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
            let labels = labels.trim_end_matches('}').split(',').filter_map(|label| Some(label.split_once('=')?.0.to_owned()));
            kinds.entry(name.to_owned()).or_default().1.extend(labels.filter(|label| label != "le"));
        }
    }
    kinds
}

#[tokio::test]
async fn the_page_lists_the_metrics_of_a_worker() {
    let (client, probe, address) = (memory().await, Arc::new(Probe::default()), free_address());
    for fails in [false, false, true] {
        metered::job(fails).enqueue(&client).await.unwrap();
    }
    metered::job(false).delay(Duration::from_secs(3600)).enqueue(&client).await.unwrap();
    let inspector = client.inspector();
    let delete = NewOperation::new(OperationKind::Delete, "state=scheduled".parse().unwrap());
    let mut deletes = inspector.run_operation(&inspector.start_operation("metered", &delete).await.unwrap());
    while deletes.step().await.unwrap() {}
    let outbox = OutboxRecord::new(&[7], "shop".to_owned(), 100, None, vec![OutboxDepth::new("metered")]);
    client.broker().report(&Report::new("metered", ProcessId::random(), 1).outbox(outbox)).await.unwrap();
    client.schedules().upsert(Schedule::every("often", Duration::from_secs(1)).job(ticking::job())).await.unwrap();
    run(worker(&client, &probe).health(address), async {
        probe.noted("ran", 4).await;
        let wanted = [
            r#"queue_starts_total{queue="metered",task="metered"} 4"#,
            r#"queue_finishes_total{queue="metered",task="metered",outcome="done"} 2"#,
            r#"queue_finishes_total{queue="metered",task="metered",outcome="retried"} 1"#,
            r#"queue_finishes_total{queue="metered",task="metered",outcome="dead"} 1"#,
            r#"queue_run_seconds_count{queue="metered",task="metered"} 4"#,
            r#"queue_wait_seconds_count{queue="metered",task="metered"} 3"#,
            r#"queue_workers{queue="metered"} 1"#,
            r#"queue_events_total{queue="metered",event="enqueued"} 4"#,
            r#"queue_broker_calls_total{verb="turn",outcome="ok"}"#,
            r#"queue_broker_reconnects_total 0"#,
            r#"queue_worker_slots{state="busy"} 0"#,
            "\nqueue_worker_memory_bytes ",
            "\nqueue_worker_cpu_cores ",
            r#"queue_limit_used{queue="ticking",limit="ticks"} 0"#,
            r#"queue_limit_waiting{queue="ticking",limit="ticks",reason="limit_full"} 0"#,
            r#"queue_subscription_behind{queue="audit@happenings"} 0"#,
            r#"queue_subscription_lag_seconds{queue="audit@happenings"} 0"#,
            r#"queue_subscription_lost{queue="audit@happenings"} 0"#,
            r#"queue_operations_running{queue="metered"} 0"#,
            r#"queue_operation_jobs{queue="metered",change="delete",outcome="changed"} 1"#,
            r#"queue_operation_jobs{queue="metered",change="delete",outcome="failed"} 0"#,
        ];
        // The schedule continues until the other metrics are exposed. It skips a tick if the
        // machine is suspended.
        let figure = |reported: &str, name: &str| -> Option<u64> {
            let sample = format!(r#"{name}{{queue="ticking"}} "#);
            reported.lines().find_map(|line| line.strip_prefix(&sample)?.parse().ok())
        };
        let ticks = |reported: &str| figure(reported, "queue_schedule_ticks_total").filter(|ticks| *ticks > 0);
        until("all of it to be told", || async {
            let reported = ask(address, "GET /metrics").await;
            wanted.iter().all(|line| reported.contains(line))
                && ticks(&reported).is_some()
                && figure(&reported, "queue_schedule_lateness_seconds_count") == ticks(&reported)
                && figure(&reported, "queue_schedule_skipped_total").is_some()
        })
        .await;
        let reported = ask(address, "GET /metrics").await;
        assert!(reported.starts_with("HTTP/1.1 200 OK\r\ncontent-type: text/plain"), "{reported}");
        assert_eq!(exposed(&reported), page());
    })
    .await;
}

/// The names of metrics in an expression, without the suffixes of histograms.
fn names(expression: &str) -> BTreeSet<String> {
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| word.starts_with("queue_"));
    words.map(|word| word.strip_suffix("_bucket").unwrap_or(word).to_owned()).collect()
}

fn read(file: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/deploy").join(file)).unwrap()
}

#[test]
fn the_dashboard_and_the_alerts_speak_of_metrics_that_there_are() {
    let known: BTreeSet<String> = page().into_keys().collect();
    let dashboard: serde_json::Value = serde_json::from_str(&read("grafana.json")).unwrap();
    let mut shown = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let named = names(target["expr"].as_str().unwrap());
            assert!(!named.is_empty() && named.is_subset(&known), "{}: {named:?}", panel["title"]);
            shown.extend(named);
        }
    }
    assert_eq!(shown, known, "the dashboard shows everything");

    let alerts: serde_json::Value = serde_saphyr::from_str(&read("alerts.yaml")).unwrap();
    let rules = alerts["groups"][0]["rules"].as_array().unwrap();
    assert!(rules.len() >= 10);
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/on-call.md")).unwrap();
    let headings = page.lines().filter_map(|line| line.strip_prefix("## "));
    let sections: Vec<String> = headings.map(|heading| format!("#{}", heading.to_lowercase().replace(' ', "-"))).collect();
    assert!(rules.iter().all(|rule| page.contains(&format!("`{}`", rule["alert"].as_str().unwrap()))), "docs/on-call.md has every alert");
    for rule in rules {
        let (alert, named) = (&rule["alert"], names(rule["expr"].as_str().unwrap()));
        assert!(alert.is_string() && !named.is_empty() && named.is_subset(&known), "{alert}: {named:?}");
        let link = rule["annotations"]["runbook_url"].as_str().and_then(|link| link.strip_prefix("RUNBOOKS/on-call.md"));
        let link = link.unwrap_or_else(|| panic!("{alert} has no section of docs/on-call.md"));
        assert!(link.is_empty() || sections.iter().any(|section| section == link), "{alert}: {link}");
        for text in ["summary", "action"] {
            assert!(rule["annotations"][text].as_str().is_some_and(|text| text.len() > 20), "{alert} has no {text}");
        }
        assert!(matches!(rule["labels"]["severity"].as_str(), Some("page" | "ticket")), "{alert}");
    }
}

/// A sample: its name, its labels, and its value.
type Sample = (String, BTreeMap<String, String>, f64);

fn samples(text: &str) -> Vec<Sample> {
    let lines = text.lines().filter(|line| line.starts_with("queue_"));
    lines
        .map(|line| {
            let (sample, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = sample.split_once('{').unwrap_or((sample, ""));
            (name.to_owned(), labels_of(labels.trim_end_matches('}')), value.parse().unwrap())
        })
        .collect()
}

fn labels_of(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split(',').filter_map(|label| label.split_once('='));
    pairs.map(|(name, value)| (name.trim().to_owned(), value.trim_matches('"').to_owned())).collect()
}

/// The groups for which an expression of this form holds:
/// `max by (label) (metric{label="value"}) > 0`, joined by `and`.
fn fires(expression: &str, samples: &[Sample]) -> BTreeSet<String> {
    let of_term = |term: &str| -> BTreeSet<String> {
        let (by, rest) = term.trim().strip_prefix("max by (").and_then(|rest| rest.split_once(") (")).unwrap_or_else(|| panic!("{term}"));
        let (selector, compared) = rest.split_once(')').unwrap();
        let (name, wanted) = selector.split_once('{').unwrap_or((selector, ""));
        let wanted = labels_of(wanted.trim_end_matches('}'));
        let (operator, bound) = compared.trim().split_once(' ').unwrap();
        let bound: f64 = bound.parse().unwrap();
        let mut groups: BTreeMap<String, f64> = BTreeMap::new();
        for (_, labels, value) in samples.iter().filter(|sample| sample.0 == name) {
            if wanted.iter().all(|(name, value)| labels.get(name).is_some_and(|label| is_one_of(label, value))) {
                let most = groups.entry(labels[by].clone()).or_insert(f64::MIN);
                *most = most.max(*value);
            }
        }
        let holds = |value: f64| match operator {
            "==" => value == bound,
            ">" => value > bound,
            other => panic!("{other} is not known here"),
        };
        groups.into_iter().filter(|(_, value)| holds(*value)).map(|(group, _)| group).collect()
    };
    let terms: Vec<BTreeSet<String>> = expression.split(" and ").map(of_term).collect();
    terms[1..].iter().fold(terms[0].clone(), |all, term| &all & term)
}

/// Whether a label has the value, or one of those of `~"a|b"`.
fn is_one_of(label: &str, value: &str) -> bool {
    value.strip_prefix("~\"").map_or(label == value, |values| values.split('|').any(|value| label == value))
}

/// The expression of an alert rule.
fn rule(alert: &str) -> String {
    let alerts: serde_json::Value = serde_saphyr::from_str(&read("alerts.yaml")).unwrap();
    let rules = alerts["groups"][0]["rules"].as_array().unwrap();
    let rule = rules.iter().find(|rule| rule["alert"] == alert).unwrap_or_else(|| panic!("no rule {alert}"));
    rule["expr"].as_str().unwrap().to_owned()
}

/// A worker exposes only the queues that it serves. On its metrics alone, this alert never fires.
#[tokio::test]
async fn the_alert_that_no_worker_serves_a_queue_fires_on_what_the_exporter_exposes() {
    let (client, lease) = (memory().await, Duration::from_secs(60));
    let inspector = client.inspector();
    for queue in ["abandoned", "served", "paused"] {
        let job = queue_core::RawJob::new("task", vec![0x80]).queue(queue);
        client.enqueue_raw(job).await.unwrap();
    }
    for queue in ["served", "idle"] {
        client.broker().register(&queue_core::broker::Register::lane(queue, ProcessId::random(), lease)).await.unwrap();
    }
    inspector.pause("paused").await.unwrap();
    // The only worker of a queue was killed while it ran all of its jobs.
    let (broker, short) = (client.broker(), Duration::from_millis(1));
    client.enqueue_raw(queue_core::RawJob::new("task", vec![0x80]).queue("killed")).await.unwrap();
    let lane = broker.register(&queue_core::broker::Register::lane("killed", ProcessId::random(), short)).await.unwrap().name;
    assert_eq!(broker.turn(&queue_core::broker::Turn::new("killed", lane, 1, short).claim(1)).await.unwrap().deliveries.len(), 1);
    until("the lease of the killed worker to expire", || async { inspector.stats("killed").await.unwrap().workers == 0 }).await;
    let exposed = samples(&inspector.exposition().await.unwrap());
    let fired = |alert: &str, exposed: &[Sample]| fires(&rule(alert), exposed).into_iter().collect::<Vec<_>>();
    assert_eq!(fired("QueueHasNoWorker", &exposed), ["abandoned", "killed", "paused"]);
    assert_eq!(fired("QueueForgottenInPause", &exposed), ["paused"]);
    assert!(fired("QueueJobsParked", &exposed).is_empty() && fired("QueueJobsWaitTooLong", &exposed).is_empty());
    let of_a_worker: Vec<Sample> =
        exposed.into_iter().filter(|(_, labels, _)| labels.get("queue").is_some_and(|queue| queue == "served")).collect();
    assert!(fired("QueueHasNoWorker", &of_a_worker).is_empty(), "as before: a worker does not know of other queues");
}
