//! The reference of the settings has the ranges and the defaults of the code.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use queue_core::{Draft, Error, Job, Middleware, Registry, Task, TaskDef, broker::Priority, prelude::*};
use queue_worker::{Worker, WorkerError};

use super::documents::{read, section};

#[task(name = "settings.bare", limit(name = "settings", rate = "10/1s", burst = 5))]
async fn bare() {}

#[task(name = "settings.plain")]
async fn plain() {}

/// What the reference says of a setter.
#[derive(Debug)]
struct Row {
    range: String,
    default: String,
}

/// The setters of a table with one argument `argument`, by name.
fn rows(heading: &str) -> BTreeMap<String, Row> {
    let page = read("docs/configuration.md");
    let mut rows = BTreeMap::new();
    for line in section(&page, heading).lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches(['|', ' ']).split(" |").map(str::trim).collect();
        let setters: Vec<&str> = cells[0].split('`').skip(1).step_by(2).collect();
        // One range for each setter, or one for all.
        let of = |cell: &str, at: usize| match cell.split("; ").collect::<Vec<_>>() {
            parts if parts.len() == setters.len() => parts[at].to_owned(),
            _ => cell.to_owned(),
        };
        for (at, setter) in setters.iter().enumerate() {
            rows.insert((*setter).to_owned(), Row { range: of(cells[1], at), default: of(cells[2], at) });
        }
    }
    rows
}

/// The numbers of a cell; times are milliseconds.
fn numbers(cell: &str) -> Vec<u64> {
    let cell = cell.replace(",000", "000");
    let words: Vec<&str> = cell.split([' ', ',']).collect();
    let number = |at: usize| {
        let number: u64 = words[at].parse().ok()?;
        let unit = words.get(at + 1).copied().unwrap_or_default();
        let time = humantime::parse_duration(&format!("{number}{unit}")).ok().filter(|_| !unit.is_empty());
        Some(match time {
            Some(time) => u64::try_from(time.as_millis()).unwrap(),
            None if unit == "MiB" => number << 20,
            None => number,
        })
    };
    (0..words.len()).filter_map(number).collect()
}

/// The smallest and the largest value of a range, where it has one.
fn bounds(range: &str) -> (Option<u64>, Option<u64>) {
    let numbers = numbers(range);
    match numbers.as_slice() {
        [least, most @ ..] if range.starts_with("above") => (Some(least + 1), most.first().copied()),
        [most] if range.starts_with("up to") => (None, Some(*most)),
        [least, most @ ..] => (Some(*least), most.first().copied()),
        [] => (None, None),
    }
}

/// The values at the bounds of a range, and just beyond, with whether they are valid.
fn samples(range: &str) -> Vec<(u64, bool)> {
    let (least, most) = bounds(range);
    let below = least.and_then(|least| least.checked_sub(1)).map(|value| (value, false));
    let inside = least.into_iter().chain(most).map(|value| (value, true));
    below.into_iter().chain(inside).chain(most.map(|most| (most + 1, false))).collect()
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap()
}

/// A setter, its field as `Debug` shows it, and how it is called.
type Setter<T> = (&'static str, &'static str, fn(T, u64) -> T);

const OF_WORKER: [Setter<Worker>; 16] = [
    ("concurrency(n)", "concurrency", |worker, n| worker.concurrency(usize::try_from(n).unwrap())),
    ("lease(d)", "lease", |worker, d| worker.lease(ms(d))),
    ("grace(d)", "grace", |worker, d| worker.grace(ms(d))),
    ("max_attempts(n)", "max_attempts", |worker, n| worker.max_attempts(small(n))),
    ("max_crashes(n)", "max_crashes", |worker, n| worker.max_crashes(small(n))),
    ("crash_window(d)", "window", |worker, d| worker.crash_window(ms(d))),
    ("timeout(d)", "timeout", |worker, d| worker.timeout(ms(d))),
    ("unreadable_for(d)", "unreadable_for", |worker, d| worker.unreadable_for(ms(d))),
    ("retention(d)", "retention", |worker, d| worker.retention(ms(d))),
    ("retention_count(n)", "count", Worker::retention_count),
    ("retention_bytes(n)", "bytes", Worker::retention_bytes),
    ("dead_retention(d)", "dead", |worker, d| worker.dead_retention(ms(d))),
    ("dead_retention_bytes(n)", "dead_bytes", Worker::dead_retention_bytes),
    ("id_retention(d)", "remembered", |worker, d| worker.id_retention(ms(d))),
    ("id_retention_count(n)", "remembered_count", Worker::id_retention_count),
    ("producer_retention(d)", "producers", |worker, d| worker.producer_retention(ms(d))),
];

/// The same of a job, with the default that the table names.
type JobSetter = (&'static str, &'static str, &'static str, fn(Job<bare>, u64) -> Job<bare>);

const OF_JOB: [JobSetter; 14] = [
    ("delay(d)", "due: Now", "none", |job, d| job.delay(ms(d))),
    ("max_attempts(n)", "max_attempts: None", "the task's", |job, n| job.max_attempts(small(n))),
    ("timeout(d)", "timeout: None", "the task's", |job, d| job.timeout(ms(d))),
    ("retention(d)", "retention: None", "the task's", |job, d| job.retention(ms(d))),
    ("expires(d)", "expires: None", "never", |job, d| job.expires(ms(d))),
    ("debounce(d)", "unique: None", "none", |job, d| job.unique_key("k").debounce(ms(d))),
    ("debounce_first(d)", "unique: None", "none", |job, d| job.unique_key("k").debounce_first(ms(d))),
    ("max_wait(d)", "unique: None", "none", |job, d| job.unique_key("k").debounce(ms(1)).max_wait(ms(d))),
    ("cost(n)", "limits: None", "1", |job, n| job.cost(small(n))),
    ("unique_key(text)", "unique: None", "the task's", |job, n| job.unique_key(letters(n))),
    ("group(text)", "group: None", "the task's", |job, n| job.group(letters(n))),
    ("limit(name, key)", "limits: None", "the task's", |job, n| (1..n).fold(job, |job, n| job.limit(format!("l{n}"), None))),
    ("tag(name, value)", "tags: {}", "the task's", |job, n| (0..n).fold(job, |job, n| job.tag(format!("t{n}"), "x"))),
    ("priority(p)", "priority: None", "the task's", |job, _| job.priority(Priority::Low)),
];

fn letters(n: u64) -> String {
    "x".repeat(usize::try_from(n).unwrap())
}

/// Every setter of the table whose argument is a number or a time is one of these.
fn are_all(rows: &BTreeMap<String, Row>, checked: &[&str]) {
    let with_a_range = rows.keys().filter(|setter| !setter.contains("::") && (setter.ends_with("(n)") || setter.ends_with("(d)")));
    let missing: Vec<&String> = with_a_range.filter(|setter| !checked.contains(&setter.as_str())).collect();
    assert!(missing.is_empty(), "no test compares these with the code: {missing:?}");
}

#[tokio::test]
async fn the_reference_has_the_ranges_and_the_defaults_of_a_worker() {
    let client = Client::connect("sqlite://:memory:").await.unwrap();
    let worker = || Worker::new(client.clone()).registry(Registry::empty()).register::<plain>();
    let (rows, debug) = (rows("Worker settings"), format!("{:?}", worker()));
    are_all(&rows, &OF_WORKER.map(|(setter, ..)| setter));
    for (setter, field, set) in OF_WORKER {
        let Row { range, default } = &rows[setter];
        let value = match numbers(default).first() {
            Some(number) if setter.ends_with("(d)") => format!("{:?}", ms(*number)),
            Some(number) => number.to_string(),
            None => "None".to_owned(),
        };
        let value = if debug.contains(&format!(" {field}: Some(")) { format!("Some({value})") } else { value };
        let is_default = [",", " }"].iter().any(|end| debug.contains(&format!(" {field}: {value}{end}")));
        assert!(is_default, "the default of `{setter}` is not `{default}`: {debug}");
        let is_a_count = ["jobs", "bytes", "ids"].contains(&range.as_str());
        assert!(is_a_count || !samples(range).is_empty(), "{setter}: the range `{range}` has no bound");
        for (value, is_valid) in samples(range) {
            match set(worker(), value).check() {
                Ok(()) => assert!(is_valid, "{setter}: {value} is accepted, and the range is `{range}`"),
                Err(WorkerError::Setup(problems)) => {
                    let name = setter.split('(').next().unwrap();
                    assert!(!is_valid && problems.len() == 1 && problems[0].starts_with(name), "{setter}: {value}: {problems:?}");
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// Notes what is set on a job.
#[derive(Clone, Default)]
struct Noted(Arc<Mutex<String>>);

impl Middleware for Noted {
    fn enqueue(&self, draft: &mut Draft<'_>) -> queue_core::Result<()> {
        *self.0.lock().unwrap() = format!("{draft:?}");
        Ok(())
    }
}

#[tokio::test]
async fn the_reference_has_the_ranges_and_the_defaults_of_a_job() {
    let noted = Noted::default();
    let client = Client::connect("sqlite://:memory:").await.unwrap().with_middleware(noted.clone());
    // Eight limits, of which the task declares one.
    for limit in 1..=8 {
        client.inspector().set_limit("default", &format!("l{limit}"), |rule| rule.concurrency = Some(1)).await.unwrap();
    }
    bare::job().enqueue(&client).await.unwrap();
    let (rows, unset) = (rows("Job settings"), noted.0.lock().unwrap().clone());
    are_all(&rows, &OF_JOB.map(|(setter, ..)| setter));
    for (setter, field, default, set) in OF_JOB {
        let range = &rows[setter].range;
        assert_eq!(rows[setter].default, default, "{setter}");
        assert!(unset.contains(field), "{setter}: {unset}");
        assert!(setter == "priority(p)" || !samples(range).is_empty(), "{setter}: the range `{range}` has no bound");
        for (value, is_valid) in samples(range) {
            match set(bare::job(), value).enqueue(&client).await {
                Ok(_) => assert!(is_valid, "{setter}: {value} is accepted, and the range is `{range}`"),
                Err(Error::Invalid { .. }) => assert!(!is_valid, "{setter}: {value} is refused, and the range is `{range}`"),
                Err(error) => panic!("{setter}: {value}: {error}"),
            }
        }
    }
}

#[test]
fn the_reference_has_the_defaults_of_a_task() {
    let page = read("docs/configuration.md");
    let rows: Vec<&str> = section(&page, "Options of `#[task]`").lines().filter(|line| line.starts_with("| `")).collect();
    let task: &TaskDef = plain::definition();
    let of_worker = |is_none: bool| if is_none { "the worker's" } else { "its own" }.to_owned();
    let none = |is_none: bool| if is_none { "none" } else { "some" }.to_owned();
    for (option, default) in [
        ("alias", none(task.aliases.is_empty())),
        ("queue", format!("`{}`", task.queue)),
        ("max_attempts", of_worker(task.max_attempts.is_none())),
        ("max_crashes", of_worker(task.max_crashes.is_none())),
        ("timeout", of_worker(task.timeout.is_none())),
        ("backoff", of_worker(task.backoff.is_none())),
        ("priority", format!("`{}`", task.priority.name())),
        ("aging", none(task.aging.is_none())),
        ("retention", of_worker(task.retention.is_none())),
        ("schedule", none(task.schedules.is_empty())),
        ("limit", none(task.limits.is_empty())),
        ("tag", none(task.tags.is_empty())),
        ("on_isolation", format!("`{:?}`", task.on_isolation).to_lowercase()),
    ] {
        let row = rows.iter().find(|row| row.starts_with(&format!("| `{option} ")) || row.starts_with(&format!("| `{option}(")));
        let cell = row.expect(option).trim_end_matches(" |").rsplit(" | ").next().unwrap_or_default();
        assert!(cell == default || cell.starts_with(&format!("{default}, ")), "`{option}`: {cell}, and the code has {default}");
    }
}
