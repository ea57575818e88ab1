//! The reference of the settings has the ranges and the defaults of the code.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use queue_core::{Draft, Error, Job, Middleware, Registry, Task, TaskDef, broker::Priority, prelude::*, schedule::Schedule};
use queue_tests::server::{Kind, Server};
use queue_worker::{Worker, WorkerError};

use super::documents::{code, read, section};

#[task(name = "settings.bare", limit(name = "settings", rate = "10/1s", burst = 5))]
async fn bare() {}

#[task(name = "settings.plain")]
async fn plain() {}

#[derive(Event)]
#[event(topic = "settings")]
struct Opened {}

#[subscribe(name = "settings", from = "start")]
async fn opened(_event: Opened) {}

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
    let is_digit = |at: usize| cell.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    let is_read = |&(at, c): &(usize, char)| c != ',' || at == 0 || !is_digit(at - 1) || !is_digit(at + 1);
    let cell: String = cell.char_indices().filter(is_read).map(|(_, c)| c).collect();
    let words: Vec<&str> = cell.split([' ', ',', ';']).collect();
    let number = |at: usize| {
        let number: u64 = words[at].parse().ok()?;
        let unit = words.get(at + 1).copied().unwrap_or_default();
        let time = humantime::parse_duration(&format!("{number}{unit}")).ok().filter(|_| !unit.is_empty());
        Some(match time {
            Some(time) => u64::try_from(time.as_millis()).unwrap(),
            None if unit == "KiB" => number << 10,
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

#[test]
fn the_reference_has_the_defaults_of_events_and_subscriptions() {
    let page = read("docs/configuration.md");
    let task = opened::definition();
    let (rule, subscription) = (task.group_rule, task.subscription.unwrap());
    for (option, default, is_default) in [
        ("name = \"order.paid\"", "the struct's name", Opened::TYPE == "Opened"),
        ("tag(order, customer = buyer)", "none", Opened::TAGS.is_empty()),
        ("unknown = \"park\"", "`park`", subscription.unknown.name() == "park"),
        ("ordered", "off", rule.order.is_none()),
        ("group(cap = 2)", "no cap", rule.cap.is_none()),
    ] {
        let rows = section(&page, "Options of `#[subscribe]` and `#[event]`").lines();
        let row = rows.map(|row| row.trim_end_matches(" |")).find(|row| row.contains(&format!("| `{option}` |")));
        assert_eq!(row.expect(option).rsplit(" | ").next(), Some(default), "{option}");
        assert!(is_default, "{option}: the code has another default than {default}");
    }
}

/// The rows of the table of bounds, with the constant for each of their numbers: its file in the
/// source of `queue-core`, and its name. A 1 has none.
const BOUNDS: [(&str, &[(&str, &str)]); 15] = [
    (
        "payload; result; error text of a failure",
        &[("envelope.rs", "PAYLOAD_MAX"), ("envelope.rs", "RESULT_MAX"), ("envelope.rs", "ERROR_MAX")],
    ),
    ("nesting of payloads and results; elements in them", &[("codec.rs", "DEPTH_MAX"), ("codec.rs", "ELEMENTS_MAX")]),
    ("names of queues, tasks, schedules, limits", &[("address.rs", "NAME_MAX")]),
    ("given id", &[]),
    ("group; unique key given as text", &[("group.rs", "GROUP_MAX"), ("key.rs", "KEY_MAX")]),
    ("headers of a job", &[("envelope.rs", "HEADERS_MAX"), ("envelope.rs", "HEADER_BYTES_MAX")]),
    ("tags of a job", &[("envelope/tags.rs", "TAGS_MAX"), ("envelope/tags.rs", "TAG_NAME_MAX"), ("envelope/tags.rs", "TAG_VALUE_MAX")]),
    ("limits of a job; of a queue", &[("limit/mod.rs", "LIMITS_OF_A_JOB"), ("broker/limit.rs", "LIMIT_RULES")]),
    ("cost of a job", &[("limit/mod.rs", "COST_MAX")]),
    ("rules of groups in a queue; weight of a group", &[("broker/group.rs", "GROUP_RULES"), ("group.rs", "WEIGHT_MAX")]),
    ("paused tasks of a queue; reason of a pause", &[("broker/pause.rs", "PAUSED_TASKS"), ("broker/pause.rs", "PAUSE_REASON_MAX")]),
    ("progress message; progress value", &[("broker/progress/mod.rs", "PROGRESS_MESSAGE"), ("broker/progress/mod.rs", "PROGRESS_VALUE")]),
    (
        "log of a job",
        &[("broker/progress/mod.rs", "LOG_LINES"), ("broker/progress/mod.rs", "LOG_BYTES"), ("broker/progress/mod.rs", "LINE_MAX")],
    ),
    ("ticks of one backfill", &[("schedule/facade.rs", "MOST_BACKFILLED")]),
    ("operations kept in the history of a queue; at once", &[("broker/operation/mod.rs", "OPERATIONS_KEPT")]),
];

/// The value of a constant, which is a product of numbers.
fn constant(file: &str, name: &str) -> u64 {
    let source = read(&format!("queue-core/src/{file}"));
    let (_, value) = source.split_once(&format!("const {name}: ")).unwrap_or_else(|| panic!("{file} has no {name}"));
    let (value, _) = value.split_once(';').expect("it ends");
    let (_, value) = value.split_once(" = ").expect("it has a value");
    value.split(" * ").map(|factor| factor.replace('_', "").parse::<u64>().unwrap()).product()
}

#[test]
fn the_pages_have_the_schema_numbers_of_the_code() {
    let [redis, sqlite] = ["redis/mod.rs", "sqlite/connection/schema.rs"].map(|file| constant(file, "SCHEMA"));
    let upgrade = read("docs/upgrade.md");
    assert!(upgrade.contains(&format!("which is {redis} in Redis and {sqlite} in SQLite files")), "docs/upgrade.md");
    let storage = read("docs/storage.md").split_whitespace().collect::<Vec<_>>().join(" ");
    for stated in [format!("schema is number {redis}."), format!("`value` is the schema number, {sqlite}, and")] {
        assert!(storage.contains(&stated), "docs/storage.md lacks: {stated}");
    }
}

/// The rows of the table of bounds.
fn bounds_of_reference() -> BTreeMap<String, String> {
    let page = read("docs/configuration.md");
    let rows = section(&page, "Bounds").lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "));
    rows.filter(|(what, _)| *what != "what").map(|(what, bound)| (what.to_owned(), bound.to_owned())).collect()
}

#[test]
fn the_reference_has_the_bounds_of_the_code() {
    let rows = bounds_of_reference();
    let compared: BTreeSet<&str> = BOUNDS.map(|(what, _)| what).into();
    assert_eq!(rows.keys().map(String::as_str).collect::<BTreeSet<_>>(), compared);
    for (what, constants) in BOUNDS {
        let stated: Vec<u64> = numbers(&rows[what]).into_iter().filter(|number| *number != 1).collect();
        let mut values: Vec<u64> = constants.iter().map(|(file, name)| constant(file, name)).collect();
        // One number for all.
        values.dedup();
        assert_eq!(stated, values, "{what}: {}", rows[what]);
    }
}

#[tokio::test]
async fn the_reference_has_the_characters_of_names_and_ids() {
    let (rows, client) = (bounds_of_reference(), Client::connect("sqlite://:memory:").await.unwrap());
    let of_names = code(&rows["names of queues, tasks, schedules, limits"]).concat();
    let of_ids = code(&rows["given id"]).concat();
    for c in (' '..='~').chain(['\u{e9}']) {
        let (in_names, text) = (c.is_ascii_alphanumeric() || of_names.contains(c), format!("a{c}"));
        let named = plain::job().queue(text.as_str()).enqueue(&client).await;
        assert_eq!(named.is_ok(), in_names, "a queue `{text}`");
        let given = plain::job().id(text.as_str()).enqueue(&client).await;
        assert_eq!(given.is_ok(), in_names || of_ids.contains(c), "an id `{text}`");
    }
}

#[tokio::test]
async fn the_reference_has_the_defaults_of_urls() {
    let page = read("docs/configuration.md");
    let rows = section(&page, "Broker URLs").lines().filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |"));
    let parameters = rows.filter_map(|row| Some((row.split_once('=')?.0, row.rsplit_once(" | ")?.1.trim_matches('`'))));
    let defaults: BTreeMap<&str, &str> = parameters.filter(|(name, _)| !name.contains(':')).collect();
    let others = ["none", "the roots that are compiled in", "the name or address of each server"];
    let values: Vec<&str> = defaults.iter().filter(|(_, default)| !others.contains(default)).map(|(name, _)| *name).collect();
    assert_eq!(values, ["db", "durability", "namespace"]);

    let folder = tempfile::tempdir().unwrap();
    let durability = async |parameters: String| {
        let url = format!("sqlite://{}{parameters}", folder.path().join("queue.db").display());
        Client::connect(&url).await.unwrap().inspector().durability().await.unwrap()
    };
    let default = durability(String::new()).await;
    assert_eq!(default, durability(format!("?durability={}", defaults["durability"])).await);
    assert_ne!(default, durability("?durability=process-crash".to_owned()).await);

    let server = Server::start(Kind::Redis);
    plain::job().enqueue(&Client::connect(&server.socket_url()).await.unwrap()).await.unwrap();
    let url = format!("{}?db={}&namespace={}", server.socket_url(), defaults["db"], defaults["namespace"]);
    assert_eq!(Client::connect(&url).await.unwrap().inspector().queues().await.unwrap(), ["default"]);
}

#[test]
fn the_reference_has_the_settings_of_a_client() {
    let (page, client) = (read("docs/configuration.md"), read("queue-core/src/client/mod.rs"));
    let (table, source) = (section(&page, "Client settings"), format!("{client}{}", read("queue-core/src/middleware.rs")));
    let setters = source.lines().filter_map(|line| line.trim().strip_prefix("pub fn "));
    let setters = setters.filter(|line| line.contains("(&self") && line.ends_with("-> Client {"));
    let setters: BTreeSet<&str> = setters.filter_map(|line| line.split('(').next()).collect();
    assert!(setters.len() > 5, "{setters:?}");
    let missing: Vec<&&str> = setters.iter().filter(|setter| !table.contains(&format!("`{setter}("))).collect();
    assert!(missing.is_empty(), "docs/configuration.md lacks these: {missing:?}");
    let deadline = client.split_once("ENQUEUE_DEADLINE: Duration = Duration::from_secs(").and_then(|(_, rest)| rest.split_once(')'));
    let (seconds, _) = deadline.expect("there is a deadline");
    assert!(table.contains(&format!("| `with_deadline(d)` | {seconds} s |")), "the deadline is {seconds} s");
}

#[test]
fn the_reference_has_the_defaults_of_a_schedule() {
    let page = read("docs/configuration.md");
    let schedule = format!("{:?}", Schedule::every("nightly", Duration::from_secs(60)));
    for (option, default, field) in [
        ("tz", "`UTC`", "zone: \"UTC\""),
        ("overlap", "`allow`", "overlap: Allow"),
        ("catch_up", "`last`", "catch_up: Last"),
        ("window", "none", "window: None"),
        ("jitter", "`0s`", "jitter: 0ns"),
        ("pause_after_dead", "`0`: never", "pause_after: 0"),
    ] {
        let row = section(&page, "Options of `#[task]`").lines().find(|line| line.starts_with(&format!("| `{option} = ")));
        let row = row.expect(option);
        assert!(row.ends_with(&format!(" | {default} |")), "{row}");
        assert!(schedule.contains(field), "`{option}`: {row}, and the code has {schedule}");
    }
}
