//! Edits and copies of jobs, as a person makes them: on the command line, and over a broker that
//! loses answers.

use std::{
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use queue_core::{
    __private::{Envelope, SqliteBroker},
    Error, JobAddress, JobId, JobState, RawJob, Result, Stored,
    broker::{Broker, DynBroker, EditJob, EditedJob, Enqueue, Enqueued, Wrapper},
    inspect::Edit,
    prelude::*,
};
use queue_tests::{
    command_line::Place,
    on_servers,
    server::{Kind, Server},
};
use serde_json::Value;

const SHOP: &str = env!("CARGO_BIN_EXE_shop_worker");

#[task(queue = "orders", unique(by = [account]), group = account, limit(name = "stripe", by = [account], concurrency = 2))]
async fn charge(account: String, cents: u64) {
    drop((account, cents));
}

/// A parameter that may be missing, one with a default, and one that has another form in
/// MessagePack than in JSON.
#[task(queue = "orders")]
async fn ship(order: u64, note: Option<String>, #[default(3)] boxes: u32, at: Ipv4Addr) {
    drop((order, note, boxes, at));
}

const LATER: Duration = Duration::from_secs(3600);

on_servers! {
    a_person_edits_and_copies_jobs
}

#[test]
fn a_person_edits_and_copies_jobs_on_sqlite() {
    edits_and_copies(&Place::sqlite(SHOP));
}

async fn a_person_edits_and_copies_jobs(kind: Kind) {
    let server = Server::start(kind);
    let place = Place::on(SHOP, server.url());
    tokio::task::block_in_place(|| edits_and_copies(&place));
}

fn edits_and_copies(place: &Place) {
    let enqueue = |id: &str| place.ok(&["enqueue", "close_order", "--args", r#"{"order_id":17}"#, "--id", id, "--delay", "1h"]);
    enqueue("one");
    let dry = place.json(&["jobs", "edit", "orders/one", "--payload", r#"{"order_id":18}"#, "--priority", "high", "--dry-run"]);
    assert_eq!((&dry["dry_run"], &dry["changes"][0]["after"]), (&true.into(), &r#"{"order_id":18}"#.into()), "{dry}");
    let seen = dry["seen"].as_str().unwrap();
    assert_eq!(place.json(&["jobs", "show", "orders/one"])["payload"]["order_id"], 17, "nothing was changed");
    let text = place.ok(&[
        "jobs",
        "edit",
        "one",
        "--payload",
        r#"{"order_id":18}"#,
        "--priority",
        "high",
        "--group",
        "acme",
        "--max-attempts",
        "3",
    ]);
    for line in [
        r#"payload: {"order_id":17} -> {"order_id":18}"#,
        "priority: normal -> high",
        "group: none -> acme",
        "max_attempts: that of its task -> 3",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    // Who has seen it as it was is told what has changed; what is so already is no conflict.
    let late = place.refused(4, &["jobs", "edit", "orders/one", "--priority", "low", "--seen", seen]);
    assert!(late.contains("has changed since you read it") && late.contains("its priority was normal and is high"), "{late}");
    let again = place.json(&["jobs", "edit", "orders/one", "--priority", "high", "--seen", seen]);
    assert_eq!(again["changes"], Value::Array(Vec::new()));
    let shown = place.json(&["jobs", "show", "orders/one"]);
    assert_eq!((&shown["payload"]["order_id"], &shown["priority"], &shown["group"]), (&18.into(), &"high".into(), &"acme".into()));

    let copy = place.json(&["jobs", "duplicate", "orders/one", "--queue", "slow"]);
    let copied = place.json(&["jobs", "show", copy["job"].as_str().unwrap()]);
    assert_eq!((&copied["payload"]["order_id"], &copied["state"], &copied["due_at"]), (&18.into(), &"scheduled".into(), &shown["due_at"]));
    assert!(copied["job"].as_str().unwrap().starts_with("slow/"), "{copied}");
    assert!(place.ok(&["jobs", "duplicate", "orders/one"]).starts_with("orders/"));

    place.ok(&["jobs", "edit", "orders/one", "--in", "0s", "--no-group"]);
    assert_eq!(place.json(&["jobs", "show", "orders/one"])["state"], "ready");
    place.ok(&["jobs", "edit", "orders/one", "--at", "2090-01-31T08:00:00Z"]);
    assert_eq!(place.json(&["jobs", "show", "orders/one"])["due_at"], "2090-01-31T08:00:00.000Z");

    for (code, arguments, problem) in [
        (2, &["orders/one"][..], "changes nothing; give --payload, --at or --in"),
        (2, &["orders/one", "--payload", r#"{"order_id":"x"}"#], "parameter `order_id` does not fit `u64`"),
        (2, &["orders/one", "--payload", r#"{"order":1}"#], "parameter `order` is unknown"),
        (2, &["orders/one", "--max-attempts", "0"], "must be at least 1"),
        (2, &["orders/one", "--seen", "x", "--priority", "low"], "jobs edit --dry-run"),
        (2, &["orders/one", "--in", "300000days"], "more than a hundred years"),
        (3, &["orders/none", "--priority", "low"], "there is no job `orders/none`"),
    ] {
        let error = place.refused(code, &[&["jobs", "edit"], arguments].concat());
        assert!(error.contains(problem), "{arguments:?}: {error}");
    }
    place.ok(&["jobs", "cancel", "orders/one"]);
    let closed = place.refused(4, &["jobs", "edit", "orders/one", "--priority", "low"]);
    assert!(closed.contains("it is cancelled; requeue it"), "{closed}");
    assert!(place.refused(3, &["jobs", "duplicate", "orders/none"]).contains("there is no job"));
}

/// A broker that carries out this number of edits and enqueues without an answer.
#[derive(Debug)]
struct LosesAnswers {
    inner: DynBroker,
    left: AtomicU32,
}

impl LosesAnswers {
    fn answer<T>(&self, answer: Result<T>) -> Result<T> {
        let is_lost = self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
        if is_lost {
            return Err(Error::Ambiguous { broker: "lost".to_owned(), problem: "the answer was lost".to_owned(), cause: None });
        }
        answer
    }
}

impl Wrapper for LosesAnswers {
    fn inner(&self) -> &dyn Broker {
        &*self.inner
    }

    async fn enqueue(&self, request: &Enqueue) -> Result<Vec<Enqueued>> {
        let answer = self.inner.enqueue(request).await;
        self.answer(answer)
    }

    async fn edit(&self, request: &EditJob) -> Result<EditedJob> {
        let answer = self.inner.edit(request).await;
        self.answer(answer)
    }
}

fn client() -> (Arc<LosesAnswers>, Client) {
    let broker = Arc::new(LosesAnswers { inner: SqliteBroker::open("sqlite::memory:").unwrap(), left: AtomicU32::new(0) });
    let client = Client::with_broker(broker.clone() as DynBroker);
    (broker, client)
}

/// The key, the group and the limits of a task are derived from the new parameters. Given values
/// stay.
#[tokio::test]
async fn what_is_made_of_parameters_is_made_again() {
    let (_, client) = client();
    let inspector = client.inspector();
    let job = charge::job("a".to_owned(), 1).delay(LATER).enqueue(&client).await.unwrap();
    let edit = Edit::new().task(charge::definition()).payload_json(r#"{"account":"b","cents":2}"#);
    let edited = inspector.edit(job.address(), &edit).await.unwrap();
    let fields: Vec<&str> = edited.changes.iter().map(|change| change.field).collect();
    assert_eq!(fields, ["payload", "group", "unique_key", "limits"]);
    let like = charge::job("b".to_owned(), 2).enqueue(&client).await.unwrap();
    assert_eq!(like.id(), job.id(), "the key is that of the new parameters");
    let record = inspector.show(job.address()).await.unwrap();
    assert_eq!((record.group.unwrap().as_str(), record.limits["stripe"].as_str()), ("b", "b"));

    let other = charge::job("c".to_owned(), 3).delay(LATER).enqueue(&client).await.unwrap();
    let held = inspector.edit(other.address(), &edit).await.unwrap_err().to_string();
    assert!(held.contains("cannot edit job") && held.contains(&format!("job `{}` holds its unique key", job.id())), "{held}");
    let unknown = inspector.edit(other.address(), &Edit::new().payload_json(r#"{"account":"d","cents":4}"#)).await.unwrap_err().to_string();
    assert!(unknown.contains("the unique key of the job is derived from its parameters") && unknown.contains("worker binary"), "{unknown}");

    let given = charge::job("e".to_owned(), 5).unique_key("mine").group("vip").limit("stripe", Some("x")).delay(LATER);
    let given = given.enqueue(&client).await.unwrap();
    let edited = inspector
        .edit(given.address(), &Edit::new().task(charge::definition()).payload_json(r#"{"account":"f","cents":6}"#))
        .await
        .unwrap();
    assert_eq!(edited.changes.iter().map(|change| change.field).collect::<Vec<_>>(), ["payload"]);
    let wrong = Edit::new().task(charge::definition()).payload_json(r#"{"account":"f","cents":-6}"#);
    assert!(inspector.edit(given.address(), &wrong).await.unwrap_err().to_string().contains("`cents` does not fit `u64`"));
}

const HOME: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// Encoded parameters are checked like those in JSON.
#[tokio::test]
async fn encoded_parameters_are_checked_against_the_task() {
    let (_, client) = client();
    let inspector = client.inspector();
    let job = ship::job(17, None, 3, HOME).delay(LATER).enqueue(&client).await.unwrap();
    let other = ship::job(18, None, 3, Ipv4Addr::new(10, 0, 0, 1)).delay(LATER).enqueue(&client).await.unwrap();
    let stored = async |address: &JobAddress| {
        let stored = client.broker().show(&address.queue, &address.id).await.unwrap().unwrap();
        Envelope::decode(&stored.envelope).unwrap().payload.to_vec()
    };
    let edit = |payload: Vec<u8>| Edit::new().task(ship::definition()).payload(payload);
    for (parameters, problem) in [
        (&b"\x82\xa5order\xa1x\xa2at\x94\x7f\0\0\x01"[..], "parameter `order` does not fit `u64` of task `ship`: "),
        (b"\x81\xa5order\x11", "parameter `at` is missing"),
        (b"\x83\xa5order\x11\xa2at\x94\x7f\0\0\x01\xa4ordr\x12", "parameter `ordr` is unknown"),
        (b"\x91\x11", "not a map by parameter name"),
    ] {
        let error = inspector.edit(job.address(), &edit(parameters.to_vec())).await.expect_err(problem).to_string();
        assert!(error.contains(problem), "{error}");
    }
    // Parameters that a program with the task has encoded are accepted.
    let payload = stored(other.address()).await;
    let edited = inspector.edit(job.address(), &edit(payload.clone())).await.unwrap();
    assert_eq!(edited.changes.iter().map(|change| change.field).collect::<Vec<_>>(), ["payload"]);
    assert_eq!(stored(job.address()).await, payload);
    // Without the task they are not checked.
    let free = Edit::new().payload(b"\x81\xa5order\xa1x".to_vec());
    assert_eq!(inspector.edit(job.address(), &free).await.unwrap().changes.len(), 1);
}

/// A missing optional parameter has the same result as in a program that passes none.
#[tokio::test]
async fn an_optional_parameter_that_is_left_out_is_none() {
    let (_, client) = client();
    let inspector = client.inspector();
    let producer = async || ship::job(17, None, 3, HOME).id("one").delay(LATER).enqueue(&client).await;
    let job = producer().await.unwrap();
    let edit = |json: &str| Edit::new().task(ship::definition()).payload_json(json);
    for same in [r#"{"order":17,"boxes":3,"at":"127.0.0.1"}"#, r#"{"order":17,"note":null,"boxes":3,"at":"127.0.0.1"}"#] {
        assert_eq!(inspector.edit(job.address(), &edit(same)).await.unwrap().changes, [], "{same}");
    }
    // There and back, without the parameter.
    inspector.edit(job.address(), &edit(r#"{"order":18,"boxes":3,"at":"127.0.0.1"}"#)).await.unwrap();
    inspector.edit(job.address(), &edit(r#"{"order":17,"boxes":3,"at":"127.0.0.1"}"#)).await.unwrap();
    assert_eq!(inspector.show(job.address()).await.unwrap().payload_json().unwrap(), r#"{"at":"127.0.0.1","boxes":3,"order":17}"#);
    assert!(producer().await.unwrap().existing());
    // A job from the command line is that of the producer too. One with a default keeps it open.
    let raw = |json: &str| RawJob::from_json(ship::definition(), json).unwrap().id("one").delay(LATER);
    let (_, again) = client.enqueue_raw(raw(r#"{"order":17,"boxes":3,"at":"127.0.0.1"}"#)).await.unwrap();
    assert_eq!(again, Stored::Existing);
    let (open, _) = client.enqueue_raw(raw(r#"{"order":17,"at":"127.0.0.1"}"#).id("two")).await.unwrap();
    let shown = async || inspector.show(&open).await.unwrap().payload_json().unwrap();
    assert_eq!(shown().await, r#"{"at":"127.0.0.1","order":17}"#);
    // A job of a release without the parameter is unchanged as well.
    let old = b"\x83\xa5order\x11\xa5boxes\x03\xa2at\xa9127.0.0.1".to_vec();
    inspector.edit(&open, &Edit::new().payload(old)).await.unwrap();
    assert_eq!(inspector.edit(&open, &edit(r#"{"at":"127.0.0.1","boxes":3,"order":17}"#)).await.unwrap().changes, []);
}

/// No group and a group with the name `none` are different.
#[tokio::test]
async fn a_group_named_none_is_a_group() {
    let (_, client) = client();
    let inspector = client.inspector();
    let job = ship::job(17, None, 3, HOME).delay(LATER).enqueue(&client).await.unwrap();
    let group = async || inspector.show(job.address()).await.unwrap().group.map(|group| group.to_string());
    let seen = Edit::of(&inspector.show(job.address()).await.unwrap()).unwrap();
    let edited = inspector.edit(job.address(), &Edit::new().group("none")).await.unwrap();
    assert_eq!((edited.changes.len(), group().await.as_deref()), (1, Some("none")));
    assert_ne!(edited.changes[0].before, edited.changes[0].after);
    let late = inspector.edit(job.address(), &seen.priority(Priority::Low)).await.unwrap_err().to_string();
    assert!(late.contains("has changed since you read it"), "{late}");
    let edited = inspector.edit(job.address(), &Edit::new().no_group()).await.unwrap();
    assert_eq!((edited.changes.len(), group().await), (1, None));
}

/// A lost answer is neither a failure nor a second change: a repeated edit succeeds, and a copy is
/// created once.
#[tokio::test]
async fn a_lost_answer_is_asked_for_again() {
    let (broker, client) = client();
    let inspector = client.inspector();
    let job = charge::job("a".to_owned(), 1).unique_key("k").delay(LATER).enqueue(&client).await.unwrap();
    broker.left.store(1, Relaxed);
    let edited = inspector.edit(job.address(), &Edit::new().priority(Priority::High).now()).await.unwrap();
    assert_eq!(edited.changes.len(), 2);
    let record = inspector.show(job.address()).await.unwrap();
    assert_eq!((record.state, record.priority, broker.left.load(Relaxed)), (JobState::Ready, Priority::High, 0));

    let id = JobId::make();
    for _ in 0..2 {
        broker.left.store(2, Relaxed);
        let copy = inspector.duplicate(job.address(), Some("elsewhere"), id.clone()).await.unwrap();
        assert_eq!(copy.job.id, id);
    }
    assert_eq!(inspector.stats("elsewhere").await.unwrap().jobs(), 1);
}
