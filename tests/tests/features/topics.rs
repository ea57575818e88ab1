//! Events and subscriptions as applications write them, with real workers and servers.

use std::{
    cell::Cell,
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use queue_conformance::conformance::Lane;
use queue_core::{
    __private::{Envelope, RedisBroker},
    JobState, Registry,
    broker::{Audit, Broker, Counter, DynBroker, Subscribe, Unknown},
    prelude::*,
    topics::{Begin, Publication, Retention},
};
use queue_tests::{
    patience::{WatchBroker, until},
    server::{Kind, Server},
};
use queue_worker::{Worker, WorkerError};

#[derive(Event)]
#[event(topic = "shop", name = "order.paid")]
struct OrderPaid {
    order: u64,
    #[default]
    coupon: Option<String>,
}

#[derive(Event)]
#[event(topic = "shop", name = "order.sent")]
struct OrderSent {
    order: u64,
}

/// What each function has heard, in order.
#[derive(Default)]
struct Heard(Mutex<BTreeMap<&'static str, Vec<u64>>>);

impl Heard {
    fn note(&self, who: &'static str, order: u64) {
        self.0.lock().unwrap().entry(who).or_default().push(order);
    }

    fn of(&self, who: &str) -> Vec<u64> {
        self.0.lock().unwrap().get(who).cloned().unwrap_or_default()
    }
}

#[subscribe(name = "billing", from = "start", ordered, max_attempts = 3, backoff(base = "1ms", max = "1ms"))]
async fn bill(event: OrderPaid, ctx: JobContext, heard: Data<Arc<Heard>>) -> Result<(), String> {
    if event.coupon.as_deref() == Some("broken") || event.order == 7 && ctx.attempt() == 1 {
        return Err("the bank says no".to_owned());
    }
    heard.note("bill", event.order);
    Ok(())
}

#[subscribe(name = "billing", from = "start", ordered)]
async fn ship(heard: Data<Arc<Heard>>, event: OrderSent) {
    heard.note("ship", event.order);
}

#[subscribe(name = "mail", from = "now", blocking)]
fn send_mail(event: OrderPaid, heard: Data<Arc<Heard>>) {
    heard.note("mail", event.order);
}

#[subscribe(name = "mail", from = "start")]
async fn disagrees(_event: OrderSent) {}

#[subscribe(name = "mail", from = "now", unknown = "skip")]
async fn skips(_event: OrderSent) {}

fn worker(client: &Client, heard: &Arc<Heard>) -> Worker {
    Worker::new(client.clone()).registry(Registry::empty()).data(heard.clone()).lease(Duration::from_secs(2))
}

fn paid(order: u64) -> OrderPaid {
    OrderPaid { order, coupon: None }
}

/// Runs a worker until this holds.
async fn work_until<F: Future<Output = bool> + Send>(worker: Worker, holds: impl Fn() -> F + Send + Sync) {
    worker.run(until("the events are handled", &holds)).await.unwrap();
}

async fn each_function_receives_its_events(client: Client) {
    let heard = Arc::new(Heard::default());
    client.publish_all((1..=3).map(paid)).await.unwrap();
    for order in 4..=6 {
        paid(order).event().group("ada").publish(&client).await.unwrap();
    }
    OrderSent { order: 1 }.event().group("one").header("by", "truck").publish(&client).await.unwrap();
    let both = worker(&client, &heard).register::<bill>().register::<ship>();
    work_until(both, async || heard.of("bill").len() == 6 && heard.of("ship") == [1]).await;
    // Events of one group are handled in order, those without a group in any.
    let (ada, mut others): (Vec<u64>, Vec<u64>) = heard.of("bill").into_iter().partition(|order| *order > 3);
    others.sort_unstable();
    assert_eq!((ada, others), (vec![4, 5, 6], vec![1, 2, 3]));

    // One begins now, and one was down meanwhile.
    client.inspector().subscribe("shop", "mail", Begin::Now).await.unwrap();
    client.publish(paid(7)).await.unwrap();
    work_until(worker(&client, &heard).register::<send_mail>(), async || heard.of("mail") == [7]).await;
    assert_eq!(heard.of("bill").len(), 6);
    work_until(worker(&client, &heard).register::<bill>(), async || heard.of("bill").len() == 7).await;
    let topic = client.inspector().topic("shop").await.unwrap().unwrap();
    let names: Vec<&str> = topic.subscriptions.iter().map(|subscription| subscription.name.as_str()).collect();
    assert_eq!((names, topic.added, topic.subscriptions[0].behind), (vec!["billing", "mail"], 8, Some(0)));
}

async fn a_type_that_no_release_knows_waits_for_one_that_does(client: Client) {
    let heard = Arc::new(Heard::default());
    OrderSent { order: 4 }.event().publish(&client).await.unwrap();
    client.publish(paid(5)).await.unwrap();
    let inspector = client.inspector();
    let parked = async || inspector.stats("billing@shop").await.unwrap().count(JobState::Parked) == 1;
    work_until(worker(&client, &heard).register::<bill>(), async || heard.of("bill") == [5] && parked().await).await;
    work_until(worker(&client, &heard).register::<bill>().register::<ship>(), async || heard.of("ship") == [4]).await;
}

async fn what_fails_for_good_is_a_dead_letter_of_its_subscription(client: Client) {
    let heard = Arc::new(Heard::default());
    client.inspector().subscribe("shop", "mail", Begin::Start).await.unwrap();
    let broken = OrderPaid { order: 9, coupon: Some("broken".to_owned()) }.event().id("order-9-paid");
    let published = broken.publish(&client).await.unwrap();
    let dead = async || client.inspector().stats("billing@shop").await.unwrap().count(JobState::Dead) == 1;
    let both = worker(&client, &heard).register::<bill>().register::<send_mail>();
    work_until(both, async || heard.of("mail") == [9] && dead().await).await;
    let letter = client.inspector().show(&format!("billing@shop/{}", published.id).parse().unwrap()).await.unwrap();
    assert_eq!((letter.failures, letter.task.as_deref()), (3, Some("order.paid")));
    assert!(letter.payload_json().unwrap().contains("\"coupon\":\"broken\""));
}

/// A trim reads each entry once, however many subscriptions there are. Each of these has lost it.
#[tokio::test]
async fn a_trim_for_hundreds_of_subscriptions_is_short() {
    const SUBSCRIPTIONS: u64 = 500;
    const EVENTS: u64 = 400;
    let server = Server::start(Kind::Redis);
    let client = Client::connect(&server.url()).await.unwrap();
    let broker = client.broker();
    for n in 0..SUBSCRIPTIONS {
        broker.subscribe(&Subscribe::new("shop", format!("s{n}"), Begin::Start)).await.unwrap();
    }
    client.publish_all((0..=EVENTS).map(|order| OrderSent { order })).await.unwrap();
    let gone = Retention { count: Some(1), lag: Some(Duration::ZERO), ..Retention::default() };
    broker.set_retention("shop", gone).await.unwrap();
    let commands = || {
        let stats = server.command(&["INFO", "commandstats"]);
        let calls = stats.split("calls=").skip(1).filter_map(|line| line.split(',').next()?.parse::<u64>().ok());
        calls.sum::<u64>()
    };
    let (before, steps, trimmed) = (commands(), Cell::new(0), Cell::new(0));
    until("all events to be old enough", async || {
        steps.set(steps.get() + 1);
        trimmed.set(trimmed.get() + broker.trim_topic("shop").await.unwrap().entries);
        trimmed.get() == EVENTS
    })
    .await;
    let (commands, steps) = (commands() - before, steps.get());
    assert!(commands < steps * (3 * SUBSCRIPTIONS + EVENTS), "{commands} commands in {steps} steps");
    let topic = broker.topic("shop").await.unwrap().unwrap();
    assert!(topic.subscriptions.len() as u64 == SUBSCRIPTIONS && topic.subscriptions.iter().all(|of| of.lost == EVENTS), "{topic:?}");
}

/// One subscription is rewound while its workers read and the log is trimmed. It misses nothing,
/// and the other one hears of nothing.
async fn trims_and_rewinds_beside_workers_lose_nothing(client: Client) {
    const ROUNDS: u64 = 6;
    const EVENTS: u64 = 40;
    let (heard, inspector) = (Arc::new(Heard::default()), client.inspector());
    for name in ["billing", "mail"] {
        inspector.subscribe("shop", name, Begin::Start).await.unwrap();
    }
    inspector.set_retention("shop", Retention { count: Some(20), ..Retention::default() }).await.unwrap();
    let publisher = client.clone();
    let people = tokio::spawn(async move {
        for round in 1..=ROUNDS {
            publisher.publish_all((0..EVENTS).map(|n| paid(1000 * round + n))).await.unwrap();
            inspector.trim_topic("shop").await.unwrap();
            if round % 2 == 0 {
                let mut rewinding = inspector.rewind("shop", "billing", Begin::Start);
                while rewinding.step().await.unwrap() {}
            }
        }
    });
    let is_whole = |who: &str| heard.of(who).into_iter().collect::<std::collections::BTreeSet<_>>().len() as u64 == ROUNDS * EVENTS;
    let both = worker(&client, &heard).register::<bill>().register::<send_mail>();
    work_until(both, async || people.is_finished() && is_whole("bill") && is_whole("mail")).await;
    people.await.unwrap();
    assert_eq!(heard.of("mail").len() as u64, ROUNDS * EVENTS, "each once");
    let topic = client.inspector().topic("shop").await.unwrap().unwrap();
    assert!(topic.subscriptions.iter().all(|of| of.lost == 0 && !of.rewinding), "{topic:?}");
}

macro_rules! on_brokers {
    ($($case:ident)*) => {
        mod on_sqlite {
            use queue_tests::patience::WatchBroker;

            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let folder = queue_tests::folder::folder();
                let client = queue_core::Client::connect(&format!("sqlite://{}", folder.path().join("queue.db").display())).await.unwrap().watched();
                super::$case(client).await;
            })*
        }
        mod on_redis {
            use queue_tests::patience::WatchBroker;

            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let server = super::Server::start(super::Kind::Redis);
                super::$case(queue_core::Client::connect(&server.url()).await.unwrap().watched()).await;
            })*
        }
    };
}

on_brokers! {
    each_function_receives_its_events
    a_type_that_no_release_knows_waits_for_one_that_does
    what_fails_for_good_is_a_dead_letter_of_its_subscription
    trims_and_rewinds_beside_workers_lose_nothing
}

#[tokio::test]
async fn functions_of_one_subscription_agree_on_where_it_begins() {
    let client = Client::connect("sqlite://:memory:").await.unwrap().watched();
    let odd = worker(&client, &Arc::default()).register::<send_mail>().register::<disagrees>();
    let Err(WorkerError::Setup(problems)) = odd.check() else { panic!("it is refused") };
    assert!(
        problems.iter().any(|problem| problem.contains("subscription `mail@shop`") && problem.contains("use the same")),
        "{problems:?}"
    );
    let odd = worker(&client, &Arc::default()).register::<send_mail>().register::<skips>();
    let Err(WorkerError::Setup(problems)) = odd.check() else { panic!("it is refused") };
    assert!(problems.iter().any(|problem| problem.contains("one function has `unknown = \"")), "{problems:?}");
}

/// Entries that `redis-cli` has added are events like all others, and one that nobody can read
/// stops nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_programs_publish_with_xadd() {
    let server = Server::start(Kind::Redis);
    let client = Client::connect(&server.url()).await.unwrap().watched();
    let heard = Arc::new(Heard::default());
    client.inspector().subscribe("shop", "billing", Begin::Now).await.unwrap();
    let add = |fields: &[&str]| server.command(&[&["XADD", "queue:{shop}:log", "*"][..], fields].concat());
    add(&["payload", r#"{"order": 11}"#, "type", "order.paid"]);
    add(&["payload", "{broken", "type", "order.paid"]);
    add(&["nothing", "of ours"]);
    add(&["payload", "plain text", "type", "order.paid"]);
    // One type is known, so that it has to be none.
    add(&["payload", r#"{"order": 12, "coupon": null}"#, "key", "twelve"]);
    let dead = async || client.inspector().stats("billing@shop").await.unwrap().count(JobState::Dead) == 3;
    work_until(worker(&client, &heard).register::<bill>(), async || heard.of("bill").len() == 2 && dead().await).await;
    // One has a group, and the other none: they have no order.
    let mut orders = heard.of("bill");
    orders.sort_unstable();
    assert_eq!(orders, [11, 12]);
    let letters = client.inspector().list("billing@shop", JobState::Dead, 0, 10).await.unwrap();
    let why: Vec<&str> = letters.jobs.iter().map(|letter| letter.errors[0].message.as_str()).collect();
    assert!(
        why.iter().any(|why| why.contains("no field `payload`")) && why.iter().any(|why| why.contains("neither a JSON object")),
        "{why:?}"
    );
    let read = client.inspector().events("shop", None, 10).await.unwrap();
    assert_eq!((read.len(), read[0].payload.as_deref()), (5, Ok(r#"{"order":11}"#)));

    // A time that fits into no id of a job is a dead letter, and holds nobody up.
    server.command(&["XADD", "queue:{shop}:log", "281474976710656-0", "payload", r#"{"order": 13}"#, "type", "order.paid"]);
    add(&["payload", r#"{"order": 14}"#, "type", "order.paid", "id", "=order-14-paid"]);
    let dead = async || client.inspector().stats("billing@shop").await.unwrap().count(JobState::Dead) == 4;
    work_until(worker(&client, &heard).register::<bill>(), async || heard.of("bill").len() == 3 && dead().await).await;
    assert!(heard.of("bill").contains(&14));
    server.command(&["XTRIM", "queue:{shop}:log", "MAXLEN", "5"]);
    let letters = client.inspector().list("billing@shop", JobState::Dead, 0, 10).await.unwrap();
    assert!(letters.jobs.iter().any(|letter| letter.errors[0].message.contains("the id of its entry is too large")));

    // What another program removes is counted as lost.
    client.inspector().subscribe("shop", "mail", Begin::Start).await.unwrap();
    server.command(&["XTRIM", "queue:{shop}:log", "MAXLEN", "1"]);
    let topic = client.inspector().topic("shop").await.unwrap().unwrap();
    let mail = topic.subscriptions.iter().find(|subscription| subscription.name == "mail").unwrap();
    assert_eq!((mail.lost, mail.behind), (4, Some(1)));

    // None can follow the largest id.
    assert!(!topic.is_closed);
    server.command(&["XADD", "queue:{shop}:log", "18446744073709551615-18446744073709551615", "payload", "{}"]);
    assert!(client.inspector().topic("shop").await.unwrap().unwrap().is_closed);
    assert!(client.publish(paid(15)).await.is_err());
}

/// A type that is no name is a dead letter, also where unknown types are passed over.
#[tokio::test]
async fn a_type_that_is_no_name_is_not_passed_over() {
    let server = Server::start(Kind::Redis);
    let client = Client::connect(&server.url()).await.unwrap().watched();
    let request = Subscribe::new("shop", "mail", Begin::Now).unknown(Unknown::Skip).types(vec!["order.sent".to_owned()]);
    let broker = RedisBroker::connect(&server.url()).await.unwrap();
    broker.subscribe(&request).await.unwrap();
    for strange in ["two words", "", "caf\u{e9}", &"a".repeat(129)] {
        server.command(&["XADD", "queue:{shop}:log", "*", "payload", "{}", "type", strange]);
    }
    server.command(&["XADD", "queue:{shop}:log", "*", "payload", "{}", "type", "order.paid"]);
    let mut lane = Lane::on(&(broker as DynBroker), "mail@shop").await;
    assert!(lane.claim(10).await.is_empty());
    assert_eq!(client.inspector().stats("mail@shop").await.unwrap().count(JobState::Dead), 4);
    assert_eq!(client.inspector().topic("shop").await.unwrap().unwrap().subscriptions[0].skipped, 1);
}

/// Headers and tags of another program that no job may have take no event: its job runs without
/// them.
#[tokio::test]
async fn headers_and_tags_that_cannot_be_lose_no_event() {
    let server = Server::start(Kind::Redis);
    let broker: DynBroker = RedisBroker::connect(&server.url()).await.unwrap();
    let client = Client::with_broker(broker.clone());
    client.inspector().subscribe("shop", "mail", Begin::Start).await.unwrap();
    let text = |text: &[u8]| [&[0xd9, u8::try_from(text.len()).unwrap()], text].concat();
    let map = |tags: &[(&[u8], &[u8])]| {
        let pairs = tags.iter().flat_map(|(name, value)| [text(name), text(value)]).collect::<Vec<_>>().concat();
        [&[0x80 | u8::try_from(tags.len()).unwrap()][..], &pairs].concat()
    };
    let names: Vec<String> = (0..9).map(|n| format!("tag-{n}")).collect();
    let many: Vec<(&[u8], &[u8])> = names.iter().map(|name| (name.as_bytes(), &b"yes"[..])).collect();
    let fit = [map(&[(b"order", b"17")]), map(&[(b"order", b"17"), (b"of", "it\u{e9}\u{20ac}\u{1f980}".as_bytes())]), map(&many[..8])];
    let strange = [
        b"garbage".to_vec(),
        b"\xc1".to_vec(),
        b"\x82\xa1a".to_vec(),
        b"\x81\xa1a\x01".to_vec(),
        b"\x81\x01\xa1a".to_vec(),
        b"\x81\xa1a\x81\xa1b\xa1c".to_vec(),
        b"\x92\xa1a\xa1b".to_vec(),
        map(&many),
        map(&[(b"two words", b"yes")]),
        map(&[(b"", b"yes")]),
        map(&[(&[b'a'; 65], b"yes")]),
        map(&[(b"order", b"")]),
        [b"\x81\xa1a\xda\x01\x01".to_vec(), vec![b'b'; 257]].concat(),
        map(&[(b"order", b"a\nb")]),
        map(&[(b"order", b"a\"b")]),
        map(&[(b"order", "a\u{85}b".as_bytes())]),
        map(&[(b"order", b"\xff")]),
        map(&[(b"order", b"\xed\xa0\x80")]),
        map(&[(b"order", b"cut \xe2\x82")]),
    ];
    let mut connection = queue_tests::server::connect(&server.url()).await;
    let mut publish = async |field: &str, stored: &[u8]| {
        let mut add = redis::cmd("XADD");
        add.arg(&["queue:{shop}:log", "*", "payload", "{}", "type", "order.paid", field]).arg(stored);
        add.query_async::<String>(&mut connection).await.unwrap();
    };
    for tags in fit.iter().chain(&strange) {
        publish("tags", tags).await;
    }
    let names: Vec<String> = (0..33).map(|n| n.to_string()).collect();
    let many =
        [&[0xde, 0, 33][..], &names.iter().flat_map(|name| [text(name.as_bytes()), text(b"")]).collect::<Vec<_>>().concat()].concat();
    let large = [&[0x81][..], &text(b"large"), &[0xda, 0x10, 0x00], &[b'x'; 4096]].concat();
    let headers = [
        map(&[(b"two words", "it\u{e9}".as_bytes())]),
        b"\x80".to_vec(),
        b"garbage".to_vec(),
        b"\x81".to_vec(),
        b"\x81\xa1a\x01".to_vec(),
        b"\x81\xa1a\xa1b\xa1c".to_vec(),
        map(&[(b"trace", b"\xff")]),
        many,
        large,
    ];
    for headers in &headers {
        publish("headers", headers).await;
    }
    let mut lane = Lane::on(&broker, "mail@shop").await;
    let held = lane.claim(100).await;
    let all = fit.len() + strange.len() + headers.len();
    assert_eq!(held.len(), all);
    let read: Vec<Envelope<'_>> = held.iter().map(|job| Envelope::decode(&job.envelope).unwrap()).collect();
    let tags: Vec<usize> = read.iter().map(|read| read.tags.len()).filter(|tags| *tags > 0).collect();
    assert_eq!((tags, &*read[1].tags["of"]), (vec![1, 2, 8], "it\u{e9}\u{20ac}\u{1f980}"));
    let told: Vec<usize> = read.iter().map(|read| read.headers.len()).skip(fit.len() + strange.len()).collect();
    // The trailing text of one of them is left out.
    assert_eq!(told, [1, 0, 0, 0, 0, 1, 0, 0, 0]);
    assert!(read.iter().all(|read| *read.payload == *b"\x80"), "JSON is translated for the handler");
    let mut search = client.inspector().search("tag.order=17".parse().unwrap()).queue("mail@shop");
    assert_eq!(search.next().await.unwrap().unwrap().jobs.len(), 2);
    let audit = Audit { repair: false, thorough: true };
    assert_eq!(broker.audit("mail@shop", audit).await.unwrap(), []);
    lane.ack(&held).await;
    assert_eq!(broker.audit("mail@shop", audit).await.unwrap(), []);
    let stats = client.inspector().stats("mail@shop").await.unwrap();
    assert_eq!((stats.total(Counter::Done), stats.count(JobState::Dead)), (all as u64, 0));
    // Those who look at the log see the same.
    let events = client.inspector().events("shop", None, 100).await.unwrap();
    assert_eq!(events.len(), all);
}

/// A user who may only publish with `XADD` may do nothing else.
#[tokio::test]
async fn a_foreign_publisher_may_add_events_alone() {
    let server = Server::start(Kind::Redis);
    let line = include_str!("../../../docs/acl/foreign.acl");
    let words: Vec<&str> = line.split_whitespace().skip(1).collect();
    assert!(server.command(&[&["ACL", "SETUSER"][..], &words[..]].concat()).starts_with("+OK"));
    let url = server.url().replace("redis://", "redis://queue-foreign:change-me@");
    let mut connection = queue_tests::server::connect(&url).await;
    let mut send = async |words: &[&str]| {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query_async::<redis::Value>(&mut connection).await
    };
    send(&["XADD", "queue:{shop}:log", "*", "payload", "{}", "type", "order.paid"]).await.unwrap();
    for refused in
        [&["XRANGE", "queue:{shop}:log", "-", "+"][..], &["XADD", "queue:{shop}:jobs", "*", "a", "b"], &["DEL", "queue:{shop}:log"]]
    {
        assert_eq!(send(refused).await.unwrap_err().code(), Some("NOPERM"), "{refused:?}");
    }
}

/// The server is full: what has begun ends, and the subscription reads on when there is room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_stops_the_reading_and_not_the_endings() {
    let server = Server::start(Kind::Redis);
    let client = Client::connect(&server.url()).await.unwrap().watched();
    let heard = Arc::new(Heard::default());
    client.inspector().subscribe("shop", "mail", Begin::Now).await.unwrap();
    client.publish_all((1..=3).map(paid)).await.unwrap();
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    assert!(client.with_deadline(Duration::from_secs(1)).publish(paid(4)).await.is_err());
    let running = worker(&client, &heard).register::<send_mail>();
    work_until(running, async || {
        let topic = client.inspector().topic("shop").await.unwrap().unwrap();
        if topic.subscriptions[0].workers > 0 && heard.of("mail").is_empty() {
            // It has looked, and has read nothing.
            server.command(&["CONFIG", "SET", "maxmemory", "0"]);
        }
        heard.of("mail").len() == 3
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_published_is_refused_with_advice() {
    let client = Client::connect("sqlite://:memory:").await.unwrap().watched();
    let refused = async |event: Publication| event.publish(&client).await.unwrap_err().to_string();
    assert!(refused(Publication::raw("a b", "paid", vec![0x80])).await.contains("topic `a b`"));
    assert!(refused(Publication::raw("shop", "a b", vec![0x80])).await.contains("event `a b`"));
    assert!(refused(paid(1).event().group("")).await.contains("group"));
    assert!(Publication::from_json("shop", "paid", "[1]").unwrap_err().to_string().contains("is not a JSON object"));
    let inspector = client.inspector();
    assert!(inspector.set_retention("shop", Retention { count: Some(0), ..Retention::default() }).await.is_err());
    // A producer of jobs has no way into the log, and a topic is no queue.
    client.publish(paid(1)).await.unwrap();
    assert_eq!(inspector.queues().await.unwrap(), [""; 0]);
}
