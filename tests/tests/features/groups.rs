//! Groups that other hands break: what is found, told and repaired. Who may not ignore them. And
//! how a task names the group of its jobs.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use queue_conformance::conformance::{Lane, Producer, envelope};
use queue_core::{
    __private::{Envelope, RedisBroker, SqliteBroker},
    Error, JobId, Registry,
    broker::{Audit, DamageKind, DynBroker, JobState, NewJob},
    inspect::{Cleared, GroupName, GroupOrder, RuleOf},
    prelude::*,
};
use queue_tests::{
    folder::folder,
    on_servers,
    patience::WatchBroker,
    server::{Kind, Server},
};
use queue_worker::Worker;

on_servers! {
    slots_and_eligible_groups_are_recounted_from_the_jobs
    a_lane_that_knows_no_groups_keeps_them_out
    a_large_group_is_cancelled_while_others_are_served
    jobs_of_groups_that_are_not_examined_are_in_no_count
    an_era_of_virtual_time_ends_and_each_group_keeps_its_turn
}

const QUEUE: &str = "grouped";
const LOOK: Audit = Audit { repair: false, thorough: true };
const REPAIR: Audit = Audit { repair: true, thorough: true };

fn job(group: &str) -> NewJob {
    let mut job = NewJob::new(JobId::make(), envelope(group));
    job.group = Some(GroupName::new(group).unwrap());
    job
}

async fn damages(broker: &DynBroker, how: Audit) -> Vec<DamageKind> {
    broker.audit(QUEUE, how).await.unwrap().into_iter().map(|damage| damage.kind).collect()
}

/// What another program does to the storage.
struct Hands<'a> {
    lose_slot: &'a dyn Fn(),
    leak_slot: &'a dyn Fn(),
    lose_share: &'a dyn Fn(),
    leak_line: &'a dyn Fn(),
}

async fn is_mended(broker: &DynBroker, hands: Hands<'_>) {
    let inspector = Client::with_broker(broker.clone()).inspector();
    let a = GroupName::new("a").unwrap();
    let slots = async || inspector.group(QUEUE, &a).await.unwrap().active;
    inspector.set_group_rule(QUEUE, &RuleOf::Group(a.clone()), |rule| rule.cap = Some(2)).await.unwrap();
    let mut producer = Producer::on(broker, QUEUE).await;
    producer.stored((0..4).map(|_| job("a")).collect()).await;
    let mut lane = Lane::on(broker, QUEUE).await;
    let first = lane.claim_one().await;
    assert_eq!(damages(broker, LOOK).await, []);

    (hands.lose_slot)();
    assert_eq!(slots().await, 0);
    for how in [LOOK, REPAIR] {
        assert_eq!(damages(broker, how).await, [DamageKind::SlotMissing]);
    }
    assert_eq!((slots().await, damages(broker, LOOK).await), (1, vec![]));

    (hands.leak_slot)();
    assert_eq!(slots().await, 2, "a phantom holds a slot");
    let found = damages(broker, REPAIR).await;
    assert!(found.contains(&DamageKind::SlotLeaked), "{found:?}");
    assert_eq!((slots().await, damages(broker, LOOK).await), (1, vec![]));

    (hands.lose_share)();
    assert!(lane.claim(1).await.is_empty(), "nobody serves the group");
    assert_eq!(damages(broker, REPAIR).await, [DamageKind::GroupIndexWrong]);
    let second = lane.claim_one().await;
    lane.ack(&[first, second]).await;

    inspector
        .set_group_rule(QUEUE, &RuleOf::Group(a.clone()), |rule| (rule.cap, rule.order) = (None, Some(GroupOrder::Ordered)))
        .await
        .unwrap();
    (hands.leak_line)();
    let found = damages(broker, REPAIR).await;
    assert!(found.contains(&DamageKind::LineLeaked), "{found:?}");
    assert_eq!((lane.claim(5).await.len(), damages(broker, LOOK).await), (1, vec![]));
}

/// `a`, as it is stored.
const A: &str = "\0\u{1}a";

async fn slots_and_eligible_groups_are_recounted_from_the_jobs(kind: Kind) {
    let server = Server::start(kind);
    let broker: DynBroker = RedisBroker::connect(&server.url()).await.unwrap();
    let key = |name: &str| format!("queue:{{{QUEUE}}}:{name}");
    let hands = Hands {
        lose_slot: &|| drop(server.command(&["DEL", &key("holders")])),
        leak_slot: &|| drop(server.command(&["ZADD", &key("holders"), "0", &format!("{A}\0=ghost")])),
        lose_share: &|| drop(server.command(&["DEL", &key("next")])),
        leak_line: &|| drop(server.command(&["HSET", &key("front"), A, "=ghost"])),
    };
    is_mended(&broker, hands).await;
}

#[tokio::test]
async fn slots_and_eligible_groups_in_a_sqlite_file_are_recounted_from_the_jobs() {
    let folder = folder();
    let path = folder.path().join("queue.db");
    let broker: DynBroker = SqliteBroker::open_path(&path).unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    let change = |sql: &str| {
        other.execute(sql, []).unwrap();
    };
    let hands = Hands {
        lose_slot: &|| change("DELETE FROM queue_holders"),
        leak_slot: &|| change("INSERT INTO queue_holders SELECT queue, name, CAST('=ghost' AS BLOB) FROM queue_groups"),
        lose_share: &|| change("UPDATE queue_groups SET eligible = 0"),
        leak_line: &|| change("UPDATE queue_groups SET front = CAST('=ghost' AS BLOB)"),
    };
    is_mended(&broker, hands).await;
}

/// A lane of an older library would serve no group: the first job of one is refused, and the error
/// names the feature.
async fn a_lane_that_knows_no_groups_keeps_them_out(kind: Kind) {
    let server = Server::start(kind);
    let broker: DynBroker = RedisBroker::connect(&server.url()).await.unwrap();
    let lane = Lane::on(&broker, QUEUE).await;
    server.command(&["HSET", &format!("queue:{{{QUEUE}}}:knows"), lane.name.as_str(), "lfkpcztahus"]);
    let mut producer = Producer::on(&broker, QUEUE).await;
    let refused = broker.enqueue(&producer.next(vec![job("a")])).await;
    assert!(matches!(&refused, Err(Error::FeatureUnknown { feature, .. }) if feature == "grouped"), "{refused:?}");
    assert_eq!(broker.stats(QUEUE).await.unwrap().jobs(), 0);
    producer.stored(vec![NewJob::new(JobId::make(), envelope("plain"))]).await;
}

/// Jobs of a large group are cancelled in steps, between which the others are served.
/// `QUEUE_TEST_JOBS=100000 cargo test -p queue-tests --test features a_large_group -- --nocapture --test-threads 1`
/// prints the figures.
async fn is_cancelled_beside_others(broker: &DynBroker) {
    let many = std::env::var("QUEUE_TEST_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(3_000);
    let client = Client::with_broker(broker.clone());
    let jobs = |group: &'static str, jobs: u64| (0..jobs).map(move |_| by_text::job(Some(group.to_owned())));
    client.enqueue_all(jobs("acme", many)).await.unwrap();
    client.enqueue_all(jobs("globex", 100)).await.unwrap();
    let inspector = client.inspector();
    let ready = async |group: &str| inspector.group(QUEUE, &GroupName::new(group).unwrap()).await.unwrap().ready;
    let mut lane = Lane::on(broker, QUEUE).await;
    let (mut clearing, mut steps, mut longest, mut served) =
        (inspector.clear_group(QUEUE, &GroupName::new("acme").unwrap(), Cleared::Waiting), 0, Duration::ZERO, 0);
    let began = Instant::now();
    loop {
        let step = Instant::now();
        let more = clearing.step().await.unwrap();
        (longest, steps) = (longest.max(step.elapsed()), steps + 1);
        if !more {
            break;
        }
        let claimed = lane.claim(2).await;
        served += claimed.len() as u64;
        lane.ack(&claimed).await;
    }
    println!(
        "{}: {many} jobs in {steps} steps, {:?}, the longest {longest:?}; {served} served meanwhile",
        client.info().kind,
        began.elapsed()
    );
    // A step looks at 500 jobs at most, and between two steps both claims find a job.
    assert!(steps > many / 500, "{steps} steps for {many} jobs");
    assert!(served >= (steps - 1).min(100), "{served} served between {steps} steps");
    let left = ready("globex").await;
    assert!(left < 100, "the other group was served in its turn");
    assert_eq!((ready("acme").await, clearing.cancelled() + served), (0, many + 100 - left));
    assert_eq!(damages(broker, LOOK).await, []);
}

async fn a_large_group_is_cancelled_while_others_are_served(kind: Kind) {
    let server = Server::start(kind);
    let broker: DynBroker = RedisBroker::connect(&server.url()).await.unwrap();
    is_cancelled_beside_others(&broker).await;
}

#[tokio::test]
async fn a_large_group_in_a_sqlite_file_is_cancelled_while_others_are_served() {
    let folder = folder();
    let broker: DynBroker = SqliteBroker::open_path(folder.path().join("queue.db")).unwrap();
    is_cancelled_beside_others(&broker).await;
}

/// Of 10,000 groups it is counted what their jobs wait for. What those of further groups wait for
/// is not known.
async fn further_groups_are_in_no_count(broker: &DynBroker) {
    const GROUPS: u64 = 10_000;
    let inspector = Client::with_broker(broker.clone()).inspector();
    let mut producer = Producer::on(broker, QUEUE).await;
    let _lane = Lane::on(broker, QUEUE).await;
    let stored = async |producer: &mut Producer, groups: std::ops::Range<u64>| {
        let jobs: Vec<NewJob> = groups.map(|n| job(&format!("{n:05}"))).collect();
        for jobs in jobs.chunks(500) {
            producer.stored(jobs.to_vec()).await;
        }
    };
    stored(&mut producer, 0..GROUPS).await;
    producer.stored(vec![NewJob::new(JobId::make(), envelope("plain"))]).await;
    let paused = RuleOf::Group(GroupName::new("09999").unwrap());
    inspector.set_group_rule(QUEUE, &paused, |rule| rule.paused = true).await.unwrap();
    assert_eq!(inspector.waiting(QUEUE).await.unwrap(), [("behind", GROUPS), ("group_paused", 1)].into());
    let stats = inspector.stats(QUEUE).await.unwrap();
    assert_eq!(inspector.waiting_of(QUEUE, &stats).await.unwrap(), [("behind", 2_000)].into(), "asked again and again, it looks at fewer");
    stored(&mut producer, GROUPS..GROUPS + 20).await;
    assert_eq!(inspector.waiting(QUEUE).await.unwrap(), [("behind", GROUPS - 1), ("group_paused", 1)].into());
    // The first and the last one.
    for group in ["00000", "10019"] {
        let paused = RuleOf::Group(GroupName::new(group).unwrap());
        inspector.set_group_rule(QUEUE, &paused, |rule| rule.paused = true).await.unwrap();
    }
    assert_eq!(inspector.waiting(QUEUE).await.unwrap(), [("behind", GROUPS - 2), ("group_paused", 2)].into());
    assert_eq!(inspector.stats(QUEUE).await.unwrap().count(JobState::Ready), GROUPS + 21);
}

/// Five groups take turns while virtual time passes a bound, to which `later` has moved it. One
/// that comes meanwhile takes turns, too.
async fn takes_turns(broker: &DynBroker, later: impl FnOnce()) {
    let mut producer = Producer::on(broker, QUEUE).await;
    for _ in 0..8 {
        producer.stored(["a", "b", "c", "d", "e"].map(job).to_vec()).await;
    }
    later();
    let mut lane = Lane::on(broker, QUEUE).await;
    let mut served = String::new();
    for n in 0..42 {
        if n == 20 {
            producer.stored(["f", "f"].map(job).to_vec()).await;
        }
        let claimed = lane.claim_one().await;
        served.push_str(std::str::from_utf8(Envelope::decode(&claimed.envelope).unwrap().payload).unwrap());
        lane.ack(&[claimed]).await;
    }
    for round in served.as_bytes()[..20].chunks(5) {
        let mut round = round.to_vec();
        round.sort_unstable();
        assert_eq!(round, b"abcde", "{served}");
    }
    let [first, second] = [0, 1].map(|n| served.match_indices('f').nth(n).expect("it has its turns").0);
    assert!(first < 26 && (4..8).contains(&(second - first)), "{served}");
    assert_eq!(damages(broker, LOOK).await, []);
}

async fn an_era_of_virtual_time_ends_and_each_group_keeps_its_turn(kind: Kind) {
    const ERA: u64 = 1 << 51;
    let server = Server::start(kind);
    let broker: DynBroker = RedisBroker::connect(&server.url()).await.unwrap();
    let key = |name: &str| format!("queue:{{{QUEUE}}}:{name}");
    // One group rests, and is ahead of the others.
    let mut producer = Producer::on(&broker, QUEUE).await;
    producer.stored(vec![job("rests")]).await;
    let mut lane = Lane::on(&broker, QUEUE).await;
    let claimed = lane.claim(1).await;
    lane.ack(&claimed).await;
    takes_turns(&broker, || {
        let later = "for _, key in ipairs({ KEYS[2], KEYS[3] }) do
            for _, group in ipairs(redis.call('ZRANGE', key, 0, -1)) do redis.call('ZINCRBY', key, ARGV[1], group) end
        end
        return redis.call('HINCRBY', KEYS[1], 'virtual', ARGV[1])";
        let by = (ERA - 35_000).to_string();
        server.command(&["EVAL", later, "3", &key("meta"), &key("next"), &key("rested"), &by]);
    })
    .await;
    let virtual_time: u64 = server.command(&["HGET", &key("meta"), "virtual"]).lines().last().unwrap().parse().unwrap();
    assert!((ERA / 4..ERA / 2).contains(&virtual_time), "{virtual_time}");
    let last_era = (ERA / 2).to_string();
    for places in ["next", "rested"] {
        assert_eq!(server.command(&["ZCOUNT", &key(places), &last_era, "+inf"]), ":0\r\n", "{places}");
    }
}

/// After a hundred years of 200,000 jobs a second, none of which another group shares.
#[tokio::test]
async fn virtual_time_in_a_sqlite_file_lasts_a_hundred_years() {
    const YEARS: i64 = 100 * 365 * 24 * 3600 * 200_000 * 10_000;
    let folder = folder();
    let path = folder.path().join("queue.db");
    let broker: DynBroker = SqliteBroker::open_path(&path).unwrap();
    takes_turns(&broker, || {
        let other = rusqlite::Connection::open(&path).unwrap();
        other.execute("UPDATE queue_groups SET start = start + ?1", [YEARS]).unwrap();
        other
            .execute(
                "INSERT OR REPLACE INTO queue_virtual_times (queue, virtual, plain) SELECT DISTINCT queue, ?1, ?1 FROM queue_groups",
                [YEARS],
            )
            .unwrap();
    })
    .await;
}

async fn jobs_of_groups_that_are_not_examined_are_in_no_count(kind: Kind) {
    let server = Server::start(kind);
    let broker: DynBroker = RedisBroker::connect(&server.url()).await.unwrap();
    further_groups_are_in_no_count(&broker).await;
}

#[tokio::test]
async fn jobs_of_groups_that_are_not_examined_are_in_no_count_of_a_sqlite_file() {
    let folder = folder();
    let broker: DynBroker = SqliteBroker::open_path(folder.path().join("queue.db")).unwrap();
    further_groups_are_in_no_count(&broker).await;
}

#[tokio::test]
async fn a_job_in_a_line_of_a_file_without_groups_is_damage() {
    let folder = folder();
    let path = folder.path().join("queue.db");
    let broker: DynBroker = SqliteBroker::open_path(&path).unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    Producer::on(&broker, QUEUE).await.stored(vec![NewJob::new(JobId::make(), envelope("lost"))]).await;
    other.execute("UPDATE queue_jobs SET state = 11, rank = -3", []).unwrap();
    assert_eq!(damages(&broker, REPAIR).await, [DamageKind::JobWithoutPlace]);
    assert_eq!(Lane::on(&broker, QUEUE).await.claim(5).await.len(), 1);
}

#[task(queue = "grouped", group = tenant)]
async fn by_text(tenant: Option<String>) {
    drop(tenant);
}

#[task(queue = "grouped", group = account)]
async fn by_number(account: i64) {
    let _ = account;
}

/// What serde makes of a type is not known before there is a value: this one is a map, although it
/// has a text.
#[derive(serde::Serialize, serde::Deserialize)]
struct Tags(BTreeMap<String, String>);

impl std::fmt::Display for Tags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} tags", self.0.len())
    }
}

#[task(queue = "grouped", group = tags)]
async fn by_a_map_of_its_own(tags: Tags) {
    drop(tags);
}

#[tokio::test]
async fn the_group_of_a_job_is_made_of_its_parameter() {
    let client = Client::connect("sqlite://:memory:").await.unwrap().watched();
    let group = async |job: &queue_core::JobAddress| client.inspector().show(job).await.unwrap().group.map(|group| group.to_string());
    let job = by_text::job(Some("acme".to_owned())).enqueue(&client).await.unwrap();
    assert_eq!(group(job.address()).await.as_deref(), Some("acme"));
    let job = by_text::job(None).enqueue(&client).await.unwrap();
    assert_eq!(group(job.address()).await, None);
    let job = by_text::job(None).group("other").enqueue(&client).await.unwrap();
    assert_eq!(group(job.address()).await.as_deref(), Some("other"));
    let job = by_number::job(-7).enqueue(&client).await.unwrap();
    assert_eq!(group(job.address()).await.as_deref(), Some("-7"));
}

#[tokio::test]
async fn what_names_no_group_is_refused_before_it_is_sent() {
    let client = Client::connect("sqlite://:memory:").await.unwrap().watched();
    let refused = async |job: queue_core::Job<by_text>| job.enqueue(&client).await.unwrap_err().to_string();
    let long = refused(by_text::job(Some("x".repeat(257)))).await;
    assert!(long.starts_with("group") && long.contains("257 bytes"), "{long}");
    let empty = refused(by_text::job(Some(String::new()))).await;
    assert!(empty.contains("by_text: tenant") && empty.contains("is empty"), "{empty}");
    let empty = refused(by_text::job(None).group("")).await;
    assert!(empty.contains("0 bytes"), "{empty}");
    let map = by_a_map_of_its_own::job(Tags(BTreeMap::new())).enqueue(&client).await.unwrap_err().to_string();
    assert!(map.contains("by_a_map_of_its_own: tags") && map.contains("map") && map.contains(".group(..)"), "{map}");
    assert_eq!(client.inspector().queues().await.unwrap(), Vec::<String>::new());
}

#[derive(Default)]
struct Watch {
    running: [AtomicUsize; 3],
    most: AtomicUsize,
    done: AtomicUsize,
}

#[task(queue = "declared", group(by = tenant, cap = 1, max_size = 50))]
async fn one_of_each(tenant: u32, watch: Data<Arc<Watch>>) {
    let running = &watch.running[tenant as usize];
    watch.most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(2)).await;
    running.fetch_sub(1, Ordering::SeqCst);
    watch.done.fetch_add(1, Ordering::SeqCst);
}

/// One that names the parameter alone leaves what holds to the others.
#[task(queue = "declared", group = tenant)]
async fn says_nothing(tenant: u32) {
    let _ = tenant;
}

/// What code declares of all groups holds from the first claim on, until a person sets something
/// else; that outlives the next start.
#[tokio::test]
async fn what_tasks_declare_of_all_groups_holds_from_the_first_claim_on() {
    let client = Client::connect("sqlite://:memory:").await.unwrap().watched();
    let watch = Arc::new(Watch::default());
    let run = async || {
        client.enqueue_all((0..30).map(|n| one_of_each::job(n % 3))).await.unwrap();
        let worker =
            Worker::new(client.clone()).registry(Registry::declared_in(file!())).data(watch.clone()).queue("declared").concurrency(16);
        worker.run_until_idle().await.unwrap();
    };
    run().await;
    assert_eq!((watch.done.load(Ordering::SeqCst), watch.most.load(Ordering::SeqCst)), (30, 1));
    let inspector = client.inspector();
    let page = inspector.groups("declared", None, 10).await.unwrap();
    assert_eq!((page.declared().cap, page.declared().max_size, page.others.is_empty()), (Some(1), Some(50), true));

    inspector.set_group_rule("declared", &RuleOf::Others, |rule| rule.cap = Some(2)).await.unwrap();
    run().await;
    assert_eq!((watch.done.load(Ordering::SeqCst), watch.most.load(Ordering::SeqCst)), (60, 2));
    let page = inspector.groups("declared", None, 10).await.unwrap();
    assert_eq!((page.defaults().cap, page.defaults().max_size), (Some(2), Some(50)));
    drop(says_nothing::job(1));
}

#[task(name = "two_at_once", queue = "disagreed", group(cap = 2))]
async fn two_at_once() {}

#[task(name = "in_order", queue = "disagreed", group(order = "ordered"))]
async fn in_order() {}

/// Tasks of a queue have to agree on what they say of its groups.
#[tokio::test]
async fn tasks_that_do_not_agree_on_groups_are_refused_at_the_start() {
    let client = Client::connect("sqlite://:memory:").await.unwrap().watched();
    let error = Worker::new(client.clone()).registry(Registry::declared_in(file!())).queue("disagreed").check().unwrap_err().to_string();
    assert!(error.contains("groups of queue `disagreed`") && error.contains("use the same"), "{error}");
    assert!(error.contains("`two_at_once` declares cap 2") || error.contains("`two_at_once`, declares cap 2"), "{error}");
    assert!(error.contains("`in_order` declares order ordered"), "{error}");
    Worker::new(client).registry(Registry::declared_in(file!())).queue("declared").data(Arc::new(Watch::default())).check().unwrap();
    drop((two_at_once::job(), in_order::job()));
}
