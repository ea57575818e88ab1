//! The index of tags where other programs have changed it: what is found, told and repaired. And
//! parameters that are tags.

use queue_conformance::conformance::{Lane, Producer, envelope};
use queue_core::{
    __private::{Envelope, RedisBroker, SqliteBroker},
    Client, Event, Job, JobAddress, JobId, Task,
    broker::{Audit, DamageKind, DynBroker, JobState, NewJob, Scan},
    inspect::Edit,
    prelude::*,
};
use queue_tests::{
    folder::folder,
    on_servers,
    server::{Kind, Server},
    watch::{Watch, words},
};

on_servers! {
    tags_are_recounted_from_the_jobs
    what_is_indexed_of_a_tag_is_small
    tags_of_large_jobs_are_dropped_some_at_a_time
    an_edit_makes_the_tags_of_its_task_again
}

const QUEUE: &str = "tagged";
const LOOK: Audit = Audit { repair: false, thorough: true };
const REPAIR: Audit = Audit { repair: true, thorough: true };

fn job(id: &str, tags: &[(&str, &str)]) -> NewJob {
    let mut envelope = Envelope::new("a.task", b"\x80");
    envelope.tags = tags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    NewJob::new(JobId::given(id).unwrap(), envelope.encode().unwrap())
}

async fn damages(broker: &DynBroker, how: Audit) -> Vec<(DamageKind, String)> {
    let mut found: Vec<_> = broker.audit(QUEUE, how).await.unwrap().into_iter().map(|damage| (damage.kind, damage.subject)).collect();
    found.dedup();
    found
}

async fn found(broker: &DynBroker, value: &str) -> (Vec<String>, Option<u64>) {
    let scanned = broker.scan(&Scan::new(QUEUE, &JobState::ALL, 500).tagged("order", value)).await.unwrap();
    (scanned.jobs.into_iter().map(|job| job.id.to_string()).collect(), scanned.of)
}

/// What another program does to the index.
struct Others<'a> {
    loses: &'a dyn Fn(),
    /// Every entry names this job besides.
    points_to: &'a dyn Fn(&str),
    removes_the_job: &'a dyn Fn(&str),
}

async fn is_mended(broker: &DynBroker, others: Others<'_>) {
    let mut producer = Producer::on(broker, QUEUE).await;
    let plain = NewJob::new(JobId::given("plain").unwrap(), envelope("plain"));
    producer.stored(vec![job("a", &[("order", "17"), ("customer", "ada")]), job("b", &[("order", "18")]), plain]).await;
    assert_eq!(damages(broker, LOOK).await, []);
    (others.loses)();
    assert_eq!(found(broker, "17").await, (vec![], Some(0)));
    let missing = vec![(DamageKind::TagMissing, "a".to_owned()), (DamageKind::TagMissing, "b".to_owned())];
    for how in [LOOK, REPAIR] {
        let mut told = damages(broker, how).await;
        // On Redis the bit tells of the index as well.
        told.retain(|(kind, _)| *kind != DamageKind::FeatureUnnoted);
        told.sort_by(|one, other| one.1.cmp(&other.1));
        assert_eq!(told, missing);
    }
    assert_eq!((found(broker, "17").await, damages(broker, LOOK).await), ((vec!["a".to_owned()], Some(1)), vec![]));

    (others.points_to)("plain");
    assert_eq!(found(broker, "17").await, (vec!["a".to_owned()], Some(2)), "the job is asked whether it has the tag");
    for how in [LOOK, REPAIR] {
        assert_eq!(damages(broker, how).await, [(DamageKind::TagLeaked, "plain".to_owned())]);
    }
    assert_eq!((found(broker, "17").await.1, damages(broker, LOOK).await), (Some(1), vec![]));

    (others.points_to)("ghost");
    let quick = Audit { thorough: false, ..REPAIR };
    assert_eq!(damages(broker, quick).await, [(DamageKind::TagLeaked, "ghost".to_owned())], "what has no job is found at once");
    (others.removes_the_job)("b");
    broker.audit(QUEUE, REPAIR).await.unwrap();
    assert_eq!(damages(broker, LOOK).await, []);
    assert_eq!((found(broker, "18").await, found(broker, "17").await.1), ((vec![], Some(0)), Some(1)));
    let mut lane = Lane::on(broker, QUEUE).await;
    let held = lane.claim(3).await;
    lane.ack(&held).await;
    assert_eq!((found(broker, "17").await.1, damages(broker, LOOK).await), (Some(0), vec![]));
}

async fn tags_are_recounted_from_the_jobs(kind: Kind) {
    let server = Server::start(kind);
    let broker: DynBroker = RedisBroker::connect(&server.url()).await.unwrap();
    let key = |kind: &str| format!("queue:{{{QUEUE}}}:{kind}");
    let points_to = |id: &str| {
        const ADD: &str = "for _, member in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
            redis.call('ZADD', KEYS[1], 0, string.sub(member, 1, 8) .. '=' .. ARGV[1])
        end";
        server.command(&["EVAL", ADD, "1", &key("tags"), id]);
    };
    let removes = |id: &str| {
        server.command(&["HDEL", &key("jobs"), &format!("={id}")]);
    };
    let loses = || {
        server.command(&["DEL", &key("tags")]);
    };
    is_mended(&broker, Others { loses: &loses, points_to: &points_to, removes_the_job: &removes }).await;
    assert_eq!(server.ask::<i64>(&["EXISTS", &key("tags")]).unwrap(), 0, "without tags there is no index");
}

#[tokio::test]
async fn tags_in_a_sqlite_file_are_recounted_from_the_jobs() {
    let folder = folder();
    let path = folder.path().join("queue.db");
    let broker: DynBroker = SqliteBroker::open_path(&path).unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    let change = |sql: &str| {
        other.execute(sql, []).unwrap();
    };
    let points_to = |id: &str| {
        change(&format!(
            "INSERT OR IGNORE INTO queue_tags (queue, digest, id) SELECT queue, digest, CAST('={id}' AS BLOB) FROM queue_tags"
        ));
    };
    let removes = |id: &str| change(&format!("DELETE FROM queue_jobs WHERE id = CAST('={id}' AS BLOB)"));
    is_mended(&broker, Others { loses: &|| change("DELETE FROM queue_tags"), points_to: &points_to, removes_the_job: &removes }).await;
}

/// A long value costs as much as a short one, and a queue without tags has neither the index nor
/// its bit.
async fn what_is_indexed_of_a_tag_is_small(kind: Kind) {
    let server = Server::start(kind);
    let broker: DynBroker = RedisBroker::connect(&server.url()).await.unwrap();
    let key = |kind: &str| format!("queue:{{{QUEUE}}}:{kind}");
    let mut producer = Producer::on(&broker, QUEUE).await;
    producer.stored((0..10).map(|n| NewJob::new(JobId::make(), envelope(&n.to_string()))).collect()).await;
    let bits = || server.ask::<String>(&["HGET", &key("meta"), "bits"]).unwrap();
    assert_eq!((bits().contains('i'), server.ask::<i64>(&["EXISTS", &key("tags")]).unwrap()), (false, 0));
    let value = "v".repeat(256);
    for some in (0..2_000).collect::<Vec<_>>().chunks(500) {
        let jobs = some.iter().map(|n| {
            let mut job = job("a", &[("order", &n.to_string()), ("long", &value)]);
            job.id = JobId::make();
            job
        });
        producer.stored(jobs.collect()).await;
    }
    assert!(bits().contains('i'));
    assert_eq!(server.ask::<u64>(&["ZCARD", &key("tags")]).unwrap(), 4_000);
    let bytes = server.ask::<u64>(&["MEMORY", "USAGE", &key("tags"), "SAMPLES", "0"]).unwrap() / 4_000;
    println!("{bytes} bytes a tag");
    assert!(bytes <= 140, "{bytes} bytes a tag");
}

/// A script holds no more than sixteen large envelopes at once, however many jobs it removes.
async fn tags_of_large_jobs_are_dropped_some_at_a_time(kind: Kind) {
    let server = Server::start(kind);
    let broker: DynBroker = RedisBroker::connect(&server.url()).await.unwrap();
    let mut producer = Producer::on(&broker, QUEUE).await;
    let mut ids = Vec::new();
    for n in 0..40 {
        let mut large = Envelope::new("a.task", &[0; 100 * 1024]);
        large.tags.insert("order".to_owned(), "17".to_owned());
        let job = NewJob::new(JobId::given(&format!("large-{n}")).unwrap(), large.encode().unwrap());
        ids.push(job.id.clone());
        producer.stored(vec![job]).await;
    }
    let mut lane = Lane::on(&broker, QUEUE).await;
    let mut held = Vec::new();
    while held.len() < 40 {
        held.extend(lane.claim(40).await);
    }
    let watch = Watch::on(&server);
    lane.ack(&held).await;
    let jobs = format!("queue:{{{QUEUE}}}:jobs");
    let read: Vec<usize> = watch
        .until_now(&server)
        .iter()
        .map(|line| words(line))
        .filter(|words| words[0] == "HMGET" && words[1] == jobs)
        .map(|words| words.len() - 2)
        .collect();
    assert!(read.iter().all(|envelopes| *envelopes <= 16), "{read:?}");
    assert!(read.iter().sum::<usize>() >= 40, "the tags are in the envelopes: {read:?}");
    assert_eq!(server.ask::<u64>(&["ZCARD", &format!("queue:{{{QUEUE}}}:tags")]).unwrap(), 0);
}

#[task(queue = "tagged", tag(order, customer = buyer))]
async fn refund(order: u64, buyer: Option<String>) {
    drop((order, buyer));
}

#[derive(Task)]
#[task(queue = "tagged", tag(paid))]
struct Invoice {
    paid: bool,
}

impl Handler for Invoice {
    type Output = ();

    async fn run(self, _: JobContext) {
        println!("{}", self.paid);
    }
}

#[derive(Event)]
#[event(topic = "orders", tag(order, kind))]
struct OrderPaid {
    order: i64,
    kind: String,
}

async fn an_edit_makes_the_tags_of_its_task_again(kind: Kind) {
    let server = Server::start(kind);
    makes_tags_anew(RedisBroker::connect(&server.url()).await.unwrap()).await;
}

#[tokio::test]
async fn an_edit_makes_the_tags_of_its_task_again_on_sqlite() {
    let folder = folder();
    makes_tags_anew(SqliteBroker::open_path(folder.path().join("queue.db")).unwrap()).await;
}

async fn makes_tags_anew(broker: DynBroker) {
    let client = Client::with_broker(broker.clone());
    let job = refund::job(17, Some("ada".to_owned())).tag("shop", "4").enqueue(&client).await.unwrap().address().clone();
    let edit = Edit::new().task(refund::definition()).payload_json(r#"{"order":18,"buyer":null}"#);
    let edited = client.inspector().edit(&job, &edit).await.unwrap();
    assert_eq!(edited.stale_tags.len(), 0);
    let change = edited.changes.iter().find(|change| change.field == "tags").expect("it is told");
    assert_eq!((&*change.before, &*change.after), ("customer=ada, order=17, shop=4", "order=18, shop=4"));
    assert_eq!((found(&broker, "17").await.1, found(&broker, "18").await), (Some(0), (vec![job.id.to_string()], Some(1))));
    assert_eq!(damages(&broker, LOOK).await, []);
}

/// What the macro says, what the job says, and what an edit of the parameters changes.
#[tokio::test]
async fn parameters_are_tags_where_the_task_says_so() {
    let client = Client::with_broker(SqliteBroker::open("sqlite::memory:").unwrap());
    let inspector = client.inspector();
    let queued = async |job: Job<refund>| job.enqueue(&client).await.unwrap().address().clone();
    let tags = async |address: &JobAddress| {
        let tags = inspector.show(address).await.unwrap().tags;
        tags.into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    };
    let both = queued(refund::job(17, Some("ada".to_owned()))).await;
    let one = queued(refund::job(18, None)).await;
    let given = queued(refund::job(19, Some(String::new())).tag("order", "none").tag("shop", "4")).await;
    assert_eq!((&*tags(&both).await, &*tags(&one).await, &*tags(&given).await), ("customer=ada order=17", "order=18", "order=none shop=4"));
    let derived = Invoice { paid: true }.job().enqueue(&client).await.unwrap().address().clone();
    assert_eq!(&*tags(&derived).await, "paid=true");

    let record = inspector.show(&both).await.unwrap();
    let edit = Edit::of(&record).unwrap().task(refund::definition()).payload_json(r#"{"order":20,"buyer":"ada"}"#);
    let edited = inspector.edit(&both, &edit).await.unwrap();
    let change = edited.changes.iter().find(|change| change.field == "tags").expect("it is told");
    assert_eq!((&*change.before, &*change.after), ("customer=ada, order=17", "customer=ada, order=20"));
    assert_eq!(&*tags(&both).await, "customer=ada order=20");
    let record = inspector.show(&given).await.unwrap();
    let edit = Edit::of(&record).unwrap().task(refund::definition()).payload_json(r#"{"order":21,"buyer":"eve"}"#);
    inspector.edit(&given, &edit).await.unwrap();
    assert_eq!(&*tags(&given).await, "customer=eve order=none shop=4", "a tag that was given stays");
    let long = refund::job(1, Some("v".repeat(257))).enqueue(&client).await.unwrap_err().to_string();
    assert!(long.contains("customer=vvv") && long.contains("at most 256"), "{long}");

    client.publish(OrderPaid { order: -17, kind: "card".to_owned() }).await.unwrap();
    OrderPaid { order: 18, kind: String::new() }.event().tag("shop", "4").tag("order", "x").publish(&client).await.unwrap();
    let events = inspector.events("orders", None, 10).await.unwrap();
    let of_event = |at: usize| events[at].tags.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ");
    assert_eq!((&*of_event(0), &*of_event(1)), ("kind=card order=-17", "order=x shop=4"));
}
