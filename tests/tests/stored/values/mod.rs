//! Each value is the same through every interface: enqueued by its type, by JSON, edited,
//! duplicated, published, and returned.

use std::{
    collections::{BTreeMap, HashSet},
    fmt::Debug,
    net::{IpAddr, SocketAddr},
    sync::Mutex,
    time::Duration,
};

use queue_core::{
    __private::{Runnable, codec},
    Client, Error, JobAddress, JobResult, JobState, RawJob, Registry, Stored,
    inspect::Edit,
    prelude::*,
    topics::Publication,
};
use queue_tests::{
    command_line::Place,
    on_servers,
    patience::{WatchBroker, until},
    server::{Kind, Server},
};
use queue_worker::Worker;
use rust_decimal::Decimal;
use serde::de::DeserializeOwned;
use uuid::Uuid;

#[allow(unreachable_pub, reason = "a program has it as a module, too")]
mod table;

use self::table::{All, External, ID, Size, Sku, all};

const KEEP: Duration = Duration::from_secs(600);

static SEEN: Mutex<Vec<All>> = Mutex::new(Vec::new());

#[subscribe(name = "readers", from = "start")]
async fn read(event: All) {
    SEEN.lock().unwrap().push(event);
}

/// The events that a test has published: each test has a note of its own.
fn seen(event: &All) -> Vec<All> {
    SEEN.lock().unwrap().iter().filter(|seen| seen.note == event.note).cloned().collect()
}

/// Runs until a job has ended, and gives its result.
async fn result<T: Runnable, R: DeserializeOwned + Debug + Send>(client: &Client, job: &JobAddress) -> R {
    let worker = Worker::new(client.clone()).registry(Registry::empty()).register::<T>();
    let ended = async || {
        let record = client.inspector().show(job).await.unwrap();
        assert!(record.state != JobState::Dead, "{:?}", record.last_error());
        record.state == JobState::Done
    };
    worker.run(until("the job is done", ended)).await.unwrap();
    client.inspector().show(job).await.unwrap().result::<R>().unwrap().expect("it has a result")
}

fn done<T: Debug>(result: JobResult<T>) -> T {
    match result {
        JobResult::Done(value) => value,
        other => panic!("{other:?}"),
    }
}

/// What `serde_json` writes, but for the bytes.
fn json() -> String {
    let mut json = queue_core::__private::json(&serde_json::to_string(&all()).unwrap()).unwrap();
    json["bytes"] = serde_json::json!({"$base64": "AP8="});
    json["data"] = serde_json::json!({"$base64": "Acg="});
    json["maybe_data"] = serde_json::json!({"$base64": "AA=="});
    // Maps with this one key are escaped.
    json["value"]["$base64"] = serde_json::json!({"$$base64": "AA=="});
    json["raw"]["b"] = serde_json::json!({"$$base64": "AA=="});
    json["set"] = serde_json::json!(["a", "b", "c"]);
    json.as_object_mut().unwrap().remove("missing");
    json.to_string()
}

fn same_json(one: &str, other: &str) {
    let [one, other] = [one, other].map(|json| queue_core::__private::json(json).unwrap());
    for (name, value) in one.as_object().unwrap() {
        assert_eq!(Some(value), other.get(name), "{name}");
    }
    assert_eq!(one, other);
}

/// The features of serde_json, which other crates of a program may turn on: none of them, or all,
/// as `cargo xtask test --whole` says.
#[test]
fn serde_json_has_the_features_that_are_tested() {
    let wanted = std::env::var("QUEUE_TEST_SERDE_JSON").is_ok();
    let read = |json: &str| serde_json::from_str::<serde_json::Value>(json);
    assert_eq!(read("1e400").is_ok(), wanted, "arbitrary_precision");
    let written = read(r#"{"b":1,"a":2}"#).unwrap().to_string();
    assert_eq!(written == r#"{"b":1,"a":2}"#, wanted, "preserve_order");
    let floats: Vec<f64> = (0..1_000_u64).map(|n| f64::from_bits(0x3ff0_0000_0000_0000 + n * 0x9_1234_5678_9abd)).collect();
    let exact = floats.iter().all(|float| serde_json::from_str::<f64>(&format!("{float:?}")).unwrap() == *float);
    assert_eq!(exact, wanted, "float_roundtrip");
}

#[tokio::test]
async fn a_value_is_the_same_through_every_interface() {
    let client = Client::connect("sqlite://:memory:").await.unwrap().watched();
    let inspector = client.inspector();
    let typed = all().job().retention(KEEP).enqueue(&client).await.unwrap();
    let record = inspector.show(typed.address()).await.unwrap();
    let json = record.payload_json().unwrap();
    same_json(&json, &self::json());
    let text = ID.to_string();
    assert_eq!((record.group.unwrap().as_str(), &*record.tags["order"], &*record.limits["each"]), (&*text, &*text, &*text));

    // An edit without a change, and one of another field.
    let same = inspector.edit(typed.address(), &Edit::new().task(All::definition()).payload_json(&*json)).await.unwrap();
    assert_eq!(same.changes.len(), 0, "{:?}", same.changes);
    let unknown = inspector.edit(typed.address(), &Edit::new().payload_json(&*json)).await.unwrap();
    assert_eq!(unknown.changes.len(), 0, "{:?}", unknown.changes);
    let other = json.replace(r#""note":1"#, r#""note":2"#);
    inspector.edit(typed.address(), &Edit::new().task(All::definition()).payload_json(&*other)).await.unwrap();
    inspector.edit(typed.address(), &Edit::new().task(All::definition()).payload_json(&*json)).await.unwrap();

    // By JSON it is the same job, and a second one of its key.
    let by_json = RawJob::from_json(All::definition(), &json).unwrap();
    let (address, stored) = client.enqueue_raw(by_json).await.unwrap();
    assert_eq!((&address, stored), (typed.address(), Stored::Existing));
    assert_eq!(result::<All, All>(&client, typed.address()).await, all());
    assert_eq!(done(typed.wait(KEEP).await.unwrap()), all());
    assert_eq!(inspector.log(typed.address(), 0).await.unwrap().progress.unwrap().value::<All>().unwrap().unwrap(), all());

    // A given id is that of the same job, whatever the order of a map.
    for _ in 0..5 {
        all().job().id("given").unique_key("k").enqueue(&client).await.unwrap();
    }
    let raw = RawJob::from_json(All::definition(), &json).unwrap().id("given").unique_key("k");
    assert_eq!(client.enqueue_raw(raw).await.unwrap().1, Stored::Existing);

    // Of a program that does not have the task.
    let foreign = RawJob::new("all", codec::from_json(&json).unwrap()).queue("values").retention(KEEP);
    let (address, _) = client.enqueue_raw(foreign).await.unwrap();
    assert_eq!(result::<All, All>(&client, &address).await, all());
}

on_servers! {
    a_value_is_the_same_on_the_command_line
    a_value_is_the_same_as_an_event
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_is_the_same_on_the_command_line_on_sqlite() {
    commands(Place::sqlite(env!("CARGO_BIN_EXE_values_worker"))).await;
}

async fn a_value_is_the_same_on_the_command_line(kind: Kind) {
    let server = Server::start(kind);
    commands(Place::on(env!("CARGO_BIN_EXE_values_worker"), server.url())).await;
}

async fn commands(place: Place) {
    let ok = |arguments: &[&str]| tokio::task::block_in_place(|| place.ok(arguments));
    ok(&["enqueue", "all", "--args", &json(), "--id", "one", "--retention", "1h"]);
    let client = Client::connect(place.url()).await.unwrap().watched();
    let address = |id: &str| format!("values/{id}").parse::<JobAddress>().unwrap();
    let payload = async |id: &str| client.inspector().show(&address(id)).await.unwrap().payload_json().unwrap();
    let typed = all().job().id("one").retention(Duration::from_secs(3600)).enqueue(&client).await.unwrap();
    assert!(typed.existing(), "the same values are the same bytes");
    ok(&["jobs", "edit", "one", "--payload", &json().replace(r#""note":1"#, r#""note":2"#)]);
    same_json(&payload("one").await.replace(r#""note":2"#, r#""note":1"#), &json());
    let shown = queue_core::__private::json(&ok(&["jobs", "show", "values/one", "--json"])).unwrap();
    ok(&["jobs", "edit", "one", "--payload", &shown["payload"].to_string().replace(r#""note":2"#, r#""note":1"#)]);
    same_json(&payload("one").await, &json());
    let found = ok(&["jobs", "search", &format!("payload~{}", &ID.to_string()[..8])]);
    assert!(found.contains("values/one"), "{found}");
    assert_eq!(result::<All, All>(&client, &address("one")).await, all());
    let copy: JobAddress = ok(&["jobs", "duplicate", "one"]).trim().parse().unwrap();
    assert_eq!(result::<All, All>(&client, &copy).await, all());
    // A program without the task.
    let raw = RawJob::new("all", codec::from_json(&payload("one").await).unwrap()).queue("values").id("three").retention(KEEP);
    client.enqueue_raw(raw).await.unwrap();
    assert_eq!(result::<All, All>(&client, &address("three")).await, all());
}

/// Published by its type, as JSON, and on a server by another program.
async fn events(client: &Client, server: Option<&Server>, event: All) {
    event.clone().event().publish(client).await.unwrap();
    let published = async || client.inspector().events("values", None, 10).await.unwrap().pop().unwrap().payload.unwrap();
    let json = published().await;
    Publication::from_json("values", "all", &json).unwrap().publish(client).await.unwrap();
    assert_eq!(published().await, json);
    let mut all = vec![event.clone(), event.clone()];
    if let Some(server) = server {
        server.command(&["XADD", "queue:{values}:log", "*", "type", "all", "payload", &json]);
        assert_eq!(published().await, json);
        all.push(event.clone());
    }
    let worker = Worker::new(client.clone()).registry(Registry::empty()).register::<read>();
    worker.run(until("all events", async || seen(&event).len() == all.len())).await.unwrap();
    assert_eq!(seen(&event), all);
}

async fn a_value_is_the_same_as_an_event(kind: Kind) {
    let server = Server::start(kind);
    let client = Client::connect(&server.url()).await.unwrap().watched();
    events(&client, Some(&server), All { note: if kind == Kind::Redis { 11 } else { 12 }, ..all() }).await;
}

#[tokio::test]
async fn an_event_is_the_same_on_sqlite() {
    let client = Client::connect("sqlite://:memory:").await.unwrap().watched();
    events(&client, None, All { note: 13, ..all() }).await;
}

/// A task for each type whose values are words: the name of a group, the value of a tag, and what
/// unique keys and limits are by.
macro_rules! words {
    ($($name:ident: $ty:ty = $value:expr, $text:expr;)*) => {
        mod words {
            use super::*;

            $(#[task(queue = "words", group = word, tag(word), unique(by = [word]), limit(name = "each", by = [word], concurrency = 5))]
            pub(super) async fn $name(word: $ty, note: Option<u8>) -> Result<$ty, String> {
                let _ = note;
                Ok(word)
            })*
        }

        #[tokio::test]
        async fn a_word_is_a_group_a_tag_a_key_and_is_found() {
            let client = Client::connect("sqlite://:memory:").await.unwrap().watched();
            $({
                let (value, text): (fn() -> $ty, String) = (|| $value, $text.to_string());
                let typed = words::$name::job(value(), None).retention(KEEP).enqueue(&client).await.unwrap();
                let record = client.inspector().show(typed.address()).await.unwrap();
                let shown = (record.group.as_ref().map(|group| group.as_str()), record.tags.get("word"), record.limits.get("each"));
                assert_eq!(shown, (Some(&*text), Some(&text), Some(&text)), stringify!($name));
                let unique = record.unique_key.clone().unwrap_or_default();
                assert!(unique.starts_with("word=") && unique.contains(&text), "{}: {unique}", stringify!($name));
                for filter in [format!("payload~{text}"), format!("group={text}"), format!("tag.word={text}"), format!("unique~{text}")] {
                    let mut search = client.inspector().search(format!("task={} {filter}", stringify!($name)).parse().unwrap()).queue("words");
                    assert_eq!(search.next().await.unwrap().unwrap().jobs.len(), 1, "{}: {filter}", stringify!($name));
                }
                // As JSON it is of the same key.
                let def = words::$name::definition();
                let json = record.payload_json().unwrap();
                let again = client.enqueue_raw(RawJob::from_json(def, &json).unwrap()).await.unwrap();
                assert_eq!(again, (typed.address().clone(), Stored::Existing), "{}", stringify!($name));
                let other = json.replace('}', r#","note":7}"#);
                let changed = client.inspector().edit(typed.address(), &Edit::new().task(def).payload_json(other)).await.unwrap();
                assert_eq!(changed.changes.iter().map(|change| change.field).collect::<Vec<_>>(), ["payload"], "{}", stringify!($name));
                assert_eq!(result::<words::$name, $ty>(&client, typed.address()).await, value(), "{}", stringify!($name));
            })*
        }
    };
}

words! {
    by_text: String = "acme".to_owned(), "acme";
    by_short: Box<str> = "acme".into(), "acme";
    by_cow: std::borrow::Cow<'static, str> = "acme".into(), "acme";
    by_char: char = 'x', 'x';
    by_bool: bool = true, true;
    by_u8: u8 = 200, 200;
    by_u64: u64 = u64::MAX, u64::MAX;
    by_i64: i64 = i64::MIN, i64::MIN;
    by_u128: u128 = 7, 7;
    by_usize: usize = 7, 7;
    by_id: Uuid = ID, "550e8400-e29b-41d4-a716-446655440000";
    by_optional_id: Option<Uuid> = Some(ID), ID;
    by_boxed_id: Box<Uuid> = Box::new(ID), ID;
    by_address: IpAddr = "10.0.0.1".parse().unwrap(), "10.0.0.1";
    by_socket: SocketAddr = "[::1]:80".parse().unwrap(), "[::1]:80";
    by_chrono_date: chrono::NaiveDate = chrono::NaiveDate::from_ymd_opt(2026, 11, 27).unwrap(), "2026-11-27";
    by_chrono_time: chrono::DateTime<chrono::Utc> = chrono::DateTime::from_timestamp(0, 0).unwrap(), "1970-01-01T00:00:00Z";
    by_jiff_date: jiff::civil::Date = jiff::civil::date(2026, 11, 27), "2026-11-27";
    by_jiff_time: jiff::Timestamp = jiff::Timestamp::UNIX_EPOCH, "1970-01-01T00:00:00Z";
    by_time_date: time::Date = time::Date::from_ordinal_date(2026, 331).unwrap(), "2026-11-27";
    by_decimal: Decimal = Decimal::new(1990, 2), "19.90";
    by_size: Size = Size::VerySmall, "very-small";
    by_sku: Sku = Sku(7), 7;
}

#[derive(Debug, serde::Serialize, serde::Deserialize)]
#[serde(tag = "kind")]
enum Tagged {
    Sent { bytes: u128 },
    Asked { bytes: u64 },
    Counted { by: BTreeMap<u64, u8> },
    Weighed { by: BTreeMap<bool, u8> },
    Told { text: Box<serde_json::value::RawValue> },
    Named { by: BTreeMap<char, u8> },
}

#[derive(Task)]
#[task(queue = "values")]
struct Flattened {
    note: u8,
    #[serde(flatten)]
    rest: BTreeMap<String, u8>,
}

impl Handler for Flattened {
    type Output = ();

    async fn run(self, _: JobContext) {
        drop((self.note, self.rest));
    }
}

#[tokio::test]
async fn two_entries_of_one_name_are_refused_at_enqueue() {
    let client = Client::connect("sqlite://:memory:").await.unwrap();
    let problem =
        Flattened { note: 1, rest: BTreeMap::from([("note".to_owned(), 2)]) }.job().enqueue(&client).await.unwrap_err().to_string();
    assert!(problem.contains("Flattened") && problem.contains("two entries have the key `note`"), "{problem}");
}

#[derive(Task, Debug, PartialEq)]
#[task(queue = "values", unique, tag(order))]
struct Visit {
    #[serde(rename = "order.id")]
    order: u64,
    #[serde(flatten)]
    rest: BTreeMap<String, String>,
}

impl Handler for Visit {
    type Output = ();

    async fn run(self, _: JobContext) {}
}

#[tokio::test]
async fn stored_names_with_a_dot_distinguish_jobs() {
    let client = Client::connect("sqlite://:memory:").await.unwrap();
    let visit = async |order, source: &str| {
        let rest = BTreeMap::from([("utm.source".to_owned(), source.to_owned())]);
        Visit { order, rest }.job().enqueue(&client).await.unwrap()
    };
    let first = visit(1, "mail").await;
    assert!(visit(1, "mail").await.existing());
    assert!(!visit(1, "web").await.existing() && !visit(2, "mail").await.existing());
    let record = client.inspector().show(first.address()).await.unwrap();
    assert_eq!(record.tags.get("order").map(String::as_str), Some("1"));
}

#[task(queue = "values")]
async fn tagged_alone(by: Tagged) {
    let _ = by;
}

#[derive(Task)]
#[task(queue = "values")]
struct TaggedField {
    by: Vec<Tagged>,
}

impl Handler for TaggedField {
    type Output = ();

    async fn run(self, _: JobContext) {
        drop(self.by);
    }
}

#[tokio::test]
async fn what_json_does_not_have_is_refused_at_enqueue() {
    let client = Client::connect("sqlite://:memory:").await.unwrap();
    let refused = async |all: All| match all.job().enqueue(&client).await {
        Err(Error::Encode { task, problem }) => format!("{task}: {problem}"),
        other => panic!("{other:?}"),
    };
    let number = refused(All { external: vec![External::Tuple(1, f32::NAN)], ..all() }).await;
    assert!(number.starts_with("all: parameter `external[0][1]`: NaN"), "{number}");
    let wide = refused(All { wide: (0, 0, u128::MAX, 0, 0, 0), ..all() }).await;
    assert!(wide.starts_with("all: parameter `wide[2]`: ") && wide.contains("not fit into 64 bits"), "{wide}");
    // Serde reads no `u128` inside these, whatever the format.
    for job in [
        tagged_alone::job(Tagged::Sent { bytes: 1 }).enqueue(&client).await.map(drop),
        TaggedField { by: vec![Tagged::Sent { bytes: 1 }] }.job().enqueue(&client).await.map(drop),
    ] {
        let problem = job.unwrap_err().to_string();
        assert!(problem.contains("parameter `by") && problem.contains("cannot be read back: u128 is not supported"), "{problem}");
    }
    tagged_alone::job(Tagged::Asked { bytes: 1 }).enqueue(&client).await.unwrap();
    tagged_alone::job(Tagged::Named { by: BTreeMap::from([('x', 1)]) }).enqueue(&client).await.unwrap();
    let text = serde_json::value::RawValue::from_string("[1]".to_owned()).unwrap();
    for tagged in
        [Tagged::Counted { by: BTreeMap::from([(1, 1)]) }, Tagged::Weighed { by: BTreeMap::from([(true, 1)]) }, Tagged::Told { text }]
    {
        let problem = TaggedField { by: vec![tagged] }.job().enqueue(&client).await.unwrap_err().to_string();
        assert!(problem.contains("parameter `by[0]") && problem.contains("cannot be read back: "), "{problem}");
    }
}

#[task(queue = "values")]
async fn returns(by: u8) -> Result<Vec<Tagged>, String> {
    Ok(vec![match by {
        0 => Tagged::Sent { bytes: 1 },
        1 => Tagged::Counted { by: BTreeMap::from([(1, 1)]) },
        _ => Tagged::Asked { bytes: 1 },
    }])
}

#[task(queue = "values")]
async fn tells(ctx: JobContext) -> Result<&'static str, String> {
    let told = ctx.progress_value(&Tagged::Weighed { by: BTreeMap::from([(true, 1)]) }).unwrap_err().to_string();
    if told.contains("of task `tells` cannot be encoded: it cannot be read back: ") { Ok("told") } else { Err(told) }
}

#[tokio::test]
async fn a_result_that_nobody_can_read_is_dropped_with_its_reason() {
    let client = Client::connect("sqlite://:memory:").await.unwrap().watched();
    let worker = || Worker::new(client.clone()).registry(Registry::empty()).register::<returns>().register::<tells>();
    let mut jobs = Vec::new();
    for by in 0..3 {
        jobs.push(returns::job(by).retention(KEEP).enqueue(&client).await.unwrap().address().clone());
    }
    jobs.push(tells::job().retention(KEEP).enqueue(&client).await.unwrap().address().clone());
    let ended = async || {
        let mut done = 0;
        for job in &jobs {
            done += usize::from(client.inspector().show(job).await.unwrap().state == JobState::Done);
        }
        done == jobs.len()
    };
    worker().retention(KEEP).run(until("the jobs are done", ended)).await.unwrap();
    for (at, problem) in [(0, "`[0]`: it cannot be read back: u128 is not supported"), (1, "`[0]`: it cannot be read back: ")] {
        let told = client.inspector().show(&jobs[at]).await.unwrap().result::<serde_json::Value>().unwrap_err().to_string();
        assert!(told.contains(&format!("it cannot be encoded: {problem}")), "{told}");
    }
    for at in [2, 3] {
        client.inspector().show(&jobs[at]).await.unwrap().result::<serde_json::Value>().unwrap().unwrap();
    }
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Rest {
    note: Option<u8>,
}

#[derive(Task)]
#[task(queue = "values", unique)]
struct Around {
    here: Option<u8>,
    #[serde(flatten)]
    rest: Rest,
    #[serde(flatten)]
    more: BTreeMap<String, Option<u8>>,
}

impl Handler for Around {
    type Output = ();

    async fn run(self, _: JobContext) {
        drop((self.here, self.rest.note, self.more));
    }
}

/// `None` inside a parameter is stored, and so it is inside a flattened one: in a map it is an
/// entry.
#[tokio::test]
async fn a_none_of_a_flattened_field_is_stored() {
    let client = Client::connect("sqlite://:memory:").await.unwrap();
    let job = || Around { here: None, rest: Rest { note: None }, more: BTreeMap::from([("x".to_owned(), None)]) }.job();
    let first = job().enqueue(&client).await.unwrap();
    let json = client.inspector().show(first.address()).await.unwrap().payload_json().unwrap();
    same_json(&json, r#"{"note":null,"x":null}"#);
    let by_json = client.enqueue_raw(RawJob::from_json(Around::definition(), &json).unwrap()).await.unwrap();
    assert_eq!(by_json, (first.address().clone(), Stored::Existing));
}

/// A number is the same through every interface, or is refused with its place.
#[tokio::test]
async fn a_number_of_too_many_digits_is_refused_everywhere() {
    let client = Client::connect("sqlite://:memory:").await.unwrap();
    let json = json().replace(r#""z":1"#, r#""z":[0.1234567890123456789]"#);
    let job = all().job().enqueue(&client).await.unwrap();
    for error in [
        RawJob::from_json(All::definition(), &json).map(drop).unwrap_err(),
        Publication::from_json("values", "all", &json).map(drop).unwrap_err(),
        client.inspector().edit(job.address(), &Edit::new().payload_json(&*json)).await.map(drop).unwrap_err(),
        client.inspector().edit(job.address(), &Edit::new().task(All::definition()).payload_json(&*json)).await.map(drop).unwrap_err(),
    ] {
        let told = error.to_string();
        assert!(told.contains("of task `all`: parameter `value.z[0]`: 0.1234567890123456789 has more than 17 digits"), "{told}");
    }
    // Typed, serde_json has cut it already, unless its feature `arbitrary_precision` is on.
    let value = serde_json::from_str("0.1234567890123456789").unwrap();
    match (all().value, All { value, ..all() }.job().enqueue(&client).await) {
        (_, Err(error)) => assert!(error.to_string().contains("parameter `value`: 0.1234567890123456789 has more"), "{error}"),
        (_, Ok(_)) => assert!(std::env::var("QUEUE_TEST_SERDE_JSON").is_err(), "it lost digits"),
    }
}

/// serde_json would take the map for something else.
#[tokio::test]
async fn keys_of_serde_json_are_refused_with_their_place() {
    let client = Client::connect("sqlite://:memory:").await.unwrap();
    for key in ["Number", "RawValue"] {
        let json = json().replace(r#""z":1"#, &format!(r#""z":{{"$serde_json::private::{key}":"[7]"}}"#));
        let told = RawJob::from_json(All::definition(), &json).unwrap_err().to_string();
        assert!(told.contains("of task `all`: parameter `value.z`: the key `$serde_json::private::"), "{told}");
        let texts = std::collections::HashMap::from([(format!("$serde_json::private::{key}"), 1)]);
        let told = All { texts, ..all() }.job().enqueue(&client).await.unwrap_err().to_string();
        assert!(told.contains("of task `all`: parameter `texts`: the key `$serde_json::private::"), "{told}");
    }
}

#[task(queue = "values", unique, limit(name = "tags", by = [tags], concurrency = 1))]
async fn of_sets(tags: HashSet<String>, more: Option<HashSet<u8>>) {
    drop((tags, more));
}

#[derive(Task)]
#[task(queue = "values", unique(by = [tags]))]
struct OfASet {
    tags: HashSet<String>,
}

impl Handler for OfASet {
    type Output = ();

    async fn run(self, _: JobContext) {
        drop(self.tags);
    }
}

#[tokio::test]
async fn equal_sets_have_one_key() {
    let client = Client::connect("sqlite://:memory:").await.unwrap();
    let tags = || (0..50).map(|n| n.to_string()).collect::<HashSet<_>>();
    let first = of_sets::job(tags(), Some(HashSet::from([3, 1, 2]))).enqueue(&client).await.unwrap();
    let same = OfASet { tags: tags() }.job().enqueue(&client).await.unwrap();
    for _ in 0..5 {
        // Each set iterates in an order of its own.
        let again = of_sets::job(tags(), Some(HashSet::from([1, 2, 3]))).enqueue(&client).await.unwrap();
        assert!(again.existing() && again.id() == first.id());
        assert!(OfASet { tags: tags() }.job().enqueue(&client).await.unwrap().existing());
    }
    let json = client.inspector().show(same.address()).await.unwrap().payload_json().unwrap();
    assert_eq!(client.enqueue_raw(RawJob::from_json(OfASet::definition(), &json).unwrap()).await.unwrap().1, Stored::Existing);
    assert!(!OfASet { tags: HashSet::new() }.job().enqueue(&client).await.unwrap().existing());
}
