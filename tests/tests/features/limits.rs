//! Limits by whole workers: what code declares holds before the first job is claimed, over several
//! workers, through rates and refusals; what other hands break is found and mended; and who does
//! not know limits is kept out.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use queue_conformance::{
    Changes as _,
    conformance::{Lane, Producer, envelope},
};
use queue_core::{
    __private::{RedisBroker, SqliteBroker},
    Error, JobId, RawJob, Registry,
    broker::{Audit, DamageKind, DynBroker, JobLimits, NewJob, Priority, SweepLimits},
    inspect::{GroupName, LimitKey},
    prelude::*,
};
use queue_tests::{
    folder::folder,
    on_servers,
    patience::{WatchBroker, until},
    server::{Kind, Server},
};
use queue_worker::Worker;

on_servers! {
    slots_and_chains_are_recounted_from_the_jobs
    a_lane_that_knows_no_limits_keeps_them_out
    a_rate_that_a_wrong_clock_has_stored_is_brought_back
    a_costly_job_is_not_overtaken_by_later_ones_of_its_key
    a_key_is_kept_for_a_costly_job_of_low_priority
    who_has_waited_for_a_limit_since_an_earlier_era_comes_first
    keys_that_have_room_are_examined_in_turn
}

const QUEUE: &str = "limited";
const LOOK: Audit = Audit { repair: false, thorough: true };
const REPAIR: Audit = Audit { repair: true, thorough: true };

fn job() -> NewJob {
    let mut job = NewJob::new(JobId::make(), envelope("x"));
    job.limits = JobLimits::new(vec![LimitKey::of("stripe", b"a")], 1).map(Box::new);
    job
}

async fn damages(broker: &DynBroker, how: Audit) -> Vec<DamageKind> {
    broker.audit(QUEUE, how).await.unwrap().into_iter().map(|damage| damage.kind).collect()
}

/// What another program does to the storage.
struct Hands<'a> {
    lose_slot: &'a dyn Fn(),
    leak_slot: &'a dyn Fn(),
    lose_wake: &'a dyn Fn(),
}

async fn is_mended(broker: &DynBroker, hands: Hands<'_>) {
    let inspector = Client::with_broker(broker.clone()).inspector();
    let held = async || inspector.limits_of(QUEUE, &[LimitKey::of("stripe", b"a")]).await.unwrap()[0].held;
    inspector.set_limit(QUEUE, "stripe", |rule| rule.concurrency = Some(1)).await.unwrap();
    Producer::on(broker, QUEUE).await.stored((0..3).map(|_| job()).collect()).await;
    let mut lane = Lane::on(broker, QUEUE).await;
    let first = lane.claim_one().await;
    assert!(lane.claim(1).await.is_empty());
    assert_eq!(damages(broker, LOOK).await, []);

    (hands.lose_slot)();
    assert_eq!(held().await, 0);
    let found = damages(broker, REPAIR).await;
    assert!(found.contains(&DamageKind::SlotMissing), "{found:?}");
    assert_eq!((held().await, damages(broker, LOOK).await), (1, vec![]));

    lane.ack(&[first]).await;
    (hands.leak_slot)();
    assert_eq!(held().await, 1, "a phantom holds the slot");
    assert!(lane.claim(1).await.is_empty());
    let found = damages(broker, REPAIR).await;
    assert!(found.contains(&DamageKind::SlotLeaked), "{found:?}");
    let second = lane.claim_one().await;
    assert!(lane.claim(1).await.is_empty());

    lane.ack(&[second]).await;
    (hands.lose_wake)();
    assert!(lane.claim(1).await.is_empty(), "nobody looks at what waits");
    assert_eq!(damages(broker, REPAIR).await, [DamageKind::LimitIndexWrong]);
    assert_eq!(lane.claim(1).await.len(), 1);
    assert_eq!(damages(broker, LOOK).await, []);
}

async fn slots_and_chains_are_recounted_from_the_jobs(kind: Kind) {
    let server = Server::start(kind);
    let broker: DynBroker = RedisBroker::connect(&server.url()).await.unwrap();
    let at = |kind: &str| format!("queue:{{{QUEUE}}}:{kind}");
    let key: String = LimitKey::of("stripe", b"a").as_bytes().iter().map(|byte| format!("\\{byte:03}")).collect();
    let lose = "for _, slot in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do if string.byte(slot) == 255 then redis.call('ZREM', KEYS[1], slot) end end";
    let leak = format!("redis.call('ZADD', KEYS[1], 0, '\\255{key}\\0phantom-phantom-')");
    let holders = at("holders");
    let hands = Hands {
        lose_slot: &|| drop(server.command(&["EVAL", lose, "1", &holders])),
        leak_slot: &|| drop(server.command(&["EVAL", &leak, "1", &holders])),
        lose_wake: &|| drop(server.command(&["DEL", &at("roomy")])),
    };
    is_mended(&broker, hands).await;
}

#[tokio::test]
async fn slots_and_chains_are_recounted_from_the_rows() {
    let folder = folder();
    let path = folder.path().join("queue.db");
    let broker: DynBroker = SqliteBroker::open_path(&path).unwrap();
    let run = |sql: &str| {
        rusqlite::Connection::open(&path).unwrap().execute(sql, []).unwrap();
    };
    let key: String = LimitKey::of("stripe", b"a").to_string();
    let leak = format!("INSERT INTO queue_slots SELECT queue, x'{key}', x'00' FROM queue_queues");
    let hands =
        Hands { lose_slot: &|| run("DELETE FROM queue_slots"), leak_slot: &|| run(&leak), lose_wake: &|| run("DELETE FROM queue_wakes") };
    is_mended(&broker, hands).await;
}

/// Room for a job that costs less goes to none that comes later: the key is kept, and the jobs say
/// until when.
async fn is_not_overtaken(broker: &DynBroker) {
    let inspector = Client::with_broker(broker.clone()).inspector();
    inspector.set_limit(QUEUE, "api", |rule| (rule.rate, rule.burst) = (Some("1/1h".parse().unwrap()), Some(5))).await.unwrap();
    let of = LimitKey::of("api", b"");
    let job = |group: &str, cost| {
        let mut job = NewJob::new(JobId::make(), envelope(group));
        job.group = Some(GroupName::new(group).unwrap());
        job.limits = JobLimits::new(vec![of], cost).map(Box::new);
        job
    };
    let (mut producer, mut lane) = (Producer::on(broker, QUEUE).await, Lane::on(broker, QUEUE).await);
    producer.stored(vec![job("first", 2)]).await;
    let first = lane.claim_one().await;
    let costly = job("big", 5);
    let id = costly.id.clone();
    producer.stored(vec![costly]).await;
    assert!(lane.claim(5).await.is_empty(), "it waits for two starts");
    let later = job("small", 1);
    let waits = [id.clone(), later.id.clone()];
    producer.stored(vec![later]).await;
    assert!(lane.claim(5).await.is_empty(), "three starts are left, and are kept");
    let until = inspector.why_many(QUEUE, &waits).await.unwrap().into_iter().map(|job| {
        let waiting = job.unwrap().waiting;
        waiting.iter().find_map(|reason| reason.until()).unwrap_or_else(|| panic!("{waiting:?}"))
    });
    let until: Vec<SystemTime> = until.collect();
    assert_eq!(until[0], until[1]);
    // A job of another key does not wait, and nor does anyone once the costly one is gone.
    let mut other = job("other", 1);
    other.limits = JobLimits::new(vec![LimitKey::of("api", b"other")], 1).map(Box::new);
    producer.stored(vec![other]).await;
    assert_eq!(lane.claim(5).await.len(), 1);
    broker.cancel(QUEUE, &[id]).await.unwrap();
    assert_eq!(lane.claim_one().await.id, waits[1]);
    lane.ack(&[first]).await;
    assert_eq!(damages(broker, LOOK).await, []);
}

async fn a_costly_job_is_not_overtaken_by_later_ones_of_its_key(kind: Kind) {
    let server = Server::start(kind);
    is_not_overtaken(&(RedisBroker::connect(&server.url()).await.unwrap() as DynBroker)).await;
}

#[tokio::test]
async fn a_costly_job_is_not_overtaken_in_a_file() {
    let folder = folder();
    is_not_overtaken(&(SqliteBroker::open_path(folder.path().join("queue.db")).unwrap() as DynBroker)).await;
}

/// A job of a high priority and a low cost does not take what a job waits for that costs more.
async fn a_costly_job_comes_first(broker: &DynBroker) {
    let inspector = Client::with_broker(broker.clone()).inspector();
    inspector.set_limit(QUEUE, "stripe", |rule| (rule.rate, rule.burst) = ("5/6s".parse().ok(), Some(5))).await.unwrap();
    let job = |priority, cost| {
        let mut job = job();
        (job.priority, job.limits) = (priority, JobLimits::new(vec![LimitKey::of("stripe", b"a")], cost).map(Box::new));
        job
    };
    let (mut producer, mut lane) = (Producer::on(broker, QUEUE).await, Lane::on(broker, QUEUE).await);
    producer.stored(vec![job(Priority::Normal, 5)]).await;
    let first = lane.claim_one().await;
    let (costly, other) = (job(Priority::Low, 5), job(Priority::Critical, 1));
    let ids = [costly.id.clone(), other.id.clone()];
    for job in [costly, other] {
        producer.stored(vec![job]).await;
        assert!(lane.claim(5).await.is_empty(), "it waits for the rate");
    }
    // While none of its jobs ends, the key is kept.
    let mut claimed = vec![first];
    for id in ids {
        claimed.push(lane.wait_for_one().await);
        assert_eq!(claimed.last().map(|delivery| &delivery.id), Some(&id));
    }
    lane.ack(&claimed).await;
    assert_eq!(damages(broker, LOOK).await, []);
}

async fn a_key_is_kept_for_a_costly_job_of_low_priority(kind: Kind) {
    let server = Server::start(kind);
    a_costly_job_comes_first(&(RedisBroker::connect(&server.url()).await.unwrap() as DynBroker)).await;
}

#[tokio::test]
async fn a_key_is_kept_for_a_costly_job_of_low_priority_in_a_file() {
    let folder = folder();
    a_costly_job_comes_first(&(SqliteBroker::open_path(folder.path().join("queue.db")).unwrap() as DynBroker)).await;
}

/// A thousand keys of limits that are closed are looked at before one whose rate is over: the sweep
/// goes on behind them.
#[tokio::test]
async fn a_sweep_goes_on_behind_closed_keys_in_a_file() {
    let folder = folder();
    let path = folder.path().join("queue.db");
    let broker: DynBroker = SqliteBroker::open_path(&path).unwrap();
    Producer::on(&broker, QUEUE).await.stored(vec![job()]).await;
    let other = rusqlite::Connection::open(&path).unwrap();
    let put = "INSERT INTO queue_rates (queue, key, tat, step, closed) SELECT queue, ?1, ?2, 1.0, ?3 FROM queue_limited";
    for n in 0..1_500_i64 {
        other.execute(put, rusqlite::params![LimitKey::of("stripe", &n.to_be_bytes()).as_bytes(), n, i64::MAX / 4]).unwrap();
    }
    other.execute(put, rusqlite::params![LimitKey::of("stripe", b"over").as_bytes(), 1_500, 0]).unwrap();
    let mut removed = Vec::new();
    loop {
        let swept = broker.sweep(QUEUE, &SweepLimits::default()).await.unwrap();
        removed.push(swept.rates);
        if !swept.more {
            break;
        }
    }
    assert_eq!(removed.iter().sum::<usize>(), 1, "{removed:?}");
}

/// Hundreds of keys have room at once, and many groups wait for each of them: no key waits until
/// the others have none.
async fn keys_take_turns(broker: &DynBroker, groups_in_turn: impl Fn() -> usize) {
    const KEYS: usize = 400;
    const OTHERS: usize = 15;
    let inspector = Client::with_broker(broker.clone()).inspector();
    let concurrency =
        async |most| inspector.set_limit(QUEUE, "api", |rule| rule.concurrency = Some(most)).await.map(drop).expect("it is set");
    concurrency(0).await;
    let job = |group: String, n: usize| {
        let mut job = NewJob::new(JobId::make(), envelope(&group));
        job.group = Some(GroupName::new(&group).unwrap());
        job.limits = JobLimits::new(vec![LimitKey::of("api", n.to_string().as_bytes())], 1).map(Box::new);
        job
    };
    let others = (0..OTHERS).flat_map(|m| (0..KEYS).map(move |n| (format!("b{m:03}"), n)));
    let jobs: Vec<NewJob> = (0..KEYS).map(|n| (format!("a{n:03}"), n)).chain(others).map(|(group, n)| job(group, n)).collect();
    let (mut producer, mut lane) = (Producer::on(broker, QUEUE).await, Lane::on(broker, QUEUE).await);
    for jobs in jobs.chunks(500) {
        producer.stored(jobs.to_vec()).await;
    }
    while {
        let turn = lane.next().claim(100);
        lane.send(&turn).await.more
    } {}
    concurrency(9).await;
    for _ in 0..4 {
        lane.claim_one().await;
    }
    let eligible = groups_in_turn();
    assert!(eligible > KEYS - 10, "{eligible} groups are eligible");
}

async fn keys_that_have_room_are_examined_in_turn(kind: Kind) {
    let server = Server::start(kind);
    let turns = || server.command(&["ZCARD", &format!("queue:{{{QUEUE}}}:next")]).trim().trim_start_matches(':').parse().unwrap();
    keys_take_turns(&(RedisBroker::connect(&server.url()).await.unwrap() as DynBroker), turns).await;
}

#[tokio::test]
async fn keys_that_have_room_are_examined_in_turn_in_a_file() {
    let folder = folder();
    let path = folder.path().join("queue.db");
    let broker: DynBroker = SqliteBroker::open_path(&path).unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    let turns =
        || other.query_row("SELECT count(*) FROM queue_groups WHERE eligible & 1", [], |row| row.get::<_, u32>(0)).unwrap() as usize;
    keys_take_turns(&broker, turns).await;
}

/// Virtual time is put back while groups wait for a limit: those that come later start later.
async fn who_has_waited_for_a_limit_since_an_earlier_era_comes_first(kind: Kind) {
    const ERA: u64 = 1 << 51;
    let server = Server::start(kind);
    let broker: DynBroker = RedisBroker::connect(&server.url()).await.unwrap();
    let inspector = Client::with_broker(broker.clone()).inspector();
    let key = |name: &str| format!("queue:{{{QUEUE}}}:{name}");
    let number = |command: &[&str]| server.command(command).lines().last().unwrap().trim_start_matches(':').parse::<u64>().unwrap();
    let concurrency =
        async |most| inspector.set_limit(QUEUE, "stripe", |rule| rule.concurrency = Some(most)).await.map(drop).expect("it is set");
    let in_group = |mut job: NewJob, group: &str| {
        job.group = Some(GroupName::new(group).unwrap());
        job
    };
    concurrency(0).await;
    let (mut producer, mut lane) = (Producer::on(&broker, QUEUE).await, Lane::on(&broker, QUEUE).await);
    for _ in 0..40 {
        producer.stored(["a", "b"].map(|group| in_group(NewJob::new(JobId::make(), envelope(group)), group)).to_vec()).await;
    }
    let later = "for _, group in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do redis.call('ZINCRBY', KEYS[2], ARGV[1], group) end
        return redis.call('HINCRBY', KEYS[1], 'virtual', ARGV[1])";
    server.command(&["EVAL", later, "2", &key("meta"), &key("next"), &(ERA - 105_000).to_string()]);
    let mut waiting = Vec::new();
    for (n, group) in ["old", "new"].into_iter().enumerate() {
        let job = in_group(job(), group);
        waiting.push(job.id.clone());
        producer.stored(vec![job]).await;
        while number(&["ZCARD", &key("shut")]) < n as u64 + 1 || n == 0 && number(&["HGET", &key("meta"), "virtual"]) > ERA / 2 {
            let claimed = lane.claim_one().await;
            lane.ack(&[claimed]).await;
        }
    }
    concurrency(1).await;
    for id in waiting {
        let claimed = lane.claim(100).await;
        assert!(claimed.iter().any(|delivery| delivery.id == id), "the one that has waited for longer");
        lane.ack(&claimed).await;
    }
    assert_eq!(damages(&broker, LOOK).await, []);
}

async fn a_lane_that_knows_no_limits_keeps_them_out(kind: Kind) {
    let server = Server::start(kind);
    let broker: DynBroker = RedisBroker::connect(&server.url()).await.unwrap();
    let lane = Lane::on(&broker, QUEUE).await;
    server.command(&["HSET", &format!("queue:{{{QUEUE}}}:knows"), lane.name.as_str(), "lfkpcztahuswg"]);
    let mut producer = Producer::on(&broker, QUEUE).await;
    let refused = broker.enqueue(&producer.next(vec![job()])).await;
    assert!(matches!(&refused, Err(Error::FeatureUnknown { feature, .. }) if feature == "limited"), "{refused:?}");
    assert_eq!(broker.stats(QUEUE).await.unwrap().jobs(), 0);
    producer.stored(vec![NewJob::new(JobId::make(), envelope("plain"))]).await;
}

#[derive(Default)]
struct Watch {
    running: AtomicUsize,
    most: AtomicUsize,
    done: AtomicUsize,
}

#[task(queue = "payments", limit(name = "stripe", by = [account], concurrency = 1), limit(name = "all", concurrency = 3))]
async fn charge(account: u32, watch: Data<Arc<Watch>>) {
    let running = watch.running.fetch_add(1, Ordering::SeqCst) + 1;
    watch.most.fetch_max(running, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(u64::from(account % 3))).await;
    watch.running.fetch_sub(1, Ordering::SeqCst);
    watch.done.fetch_add(1, Ordering::SeqCst);
}

/// What code declares holds from the first claim on, over two workers.
#[tokio::test]
async fn declared_limits_hold_over_all_workers() {
    let folder = folder();
    let client = Client::connect(&format!("sqlite://{}", folder.path().join("queue.db").display())).await.unwrap().watched();
    client.enqueue_all((0..60).map(|n| charge::job(n % 10))).await.unwrap();
    let watch = Arc::new(Watch::default());
    let worker = || {
        Worker::new(client.clone()).registry(Registry::empty()).register::<charge>().data(watch.clone()).queue("payments").concurrency(16)
    };
    let (one, other) = tokio::join!(worker().run_until_idle(), worker().run_until_idle());
    one.unwrap();
    other.unwrap();
    assert_eq!((watch.done.load(Ordering::SeqCst), watch.running.load(Ordering::SeqCst)), (60, 0));
    let most = watch.most.load(Ordering::SeqCst);
    assert!((2..=3).contains(&most), "{most} ran at once");
    let limits = client.inspector().limits("payments").await.unwrap();
    let declared: BTreeMap<&str, Option<u32>> =
        limits.iter().map(|limit| (limit.name.as_str(), limit.declared.unwrap().concurrency)).collect();
    assert_eq!(declared, BTreeMap::from([("all", Some(3)), ("stripe", Some(1))]));
    assert!(limits.iter().all(|limit| limit.held == 0 && limit.set.is_none()));
}

#[task(name = "one", queue = "contradicted", limit(name = "all", concurrency = 3))]
async fn one() {}

#[task(name = "other", queue = "contradicted", limit(name = "all", concurrency = 4))]
async fn other() {}

#[task(name = "third", queue = "agreed", limit(name = "all", concurrency = 4))]
async fn third() {}

#[task(name = "fourth", queue = "agreed", limit(name = "all"))]
async fn fourth() {}

/// Tasks that share a limit have to agree on it; one may name it alone.
#[tokio::test]
async fn tasks_that_do_not_agree_are_refused_at_the_start() {
    let client = Client::connect("sqlite://:memory:").await.unwrap().watched();
    let error = Worker::new(client.clone()).registry(Registry::declared_in(file!())).queue("contradicted").check().unwrap_err().to_string();
    assert!(error.contains("limit `all` of queue `contradicted`") && error.contains("use the same"), "{error}");
    assert!(error.contains("concurrency 3") && error.contains("concurrency 4"), "{error}");
    Worker::new(client.clone()).registry(Registry::declared_in(file!())).queue("agreed").check().unwrap();
    drop((one::job(), other::job(), third::job(), fourth::job()));
}

#[derive(Default)]
struct Service {
    refused: AtomicUsize,
    served: AtomicUsize,
}

#[task(name = "ask", queue = "calls", max_attempts = 1, limit(name = "api", rate = "1000/1s", burst = 50))]
async fn ask(service: Data<Arc<Service>>) -> Outcome {
    if service.refused.fetch_add(1, Ordering::SeqCst) == 0 {
        return Outcome::RateLimited(Duration::from_millis(300));
    }
    service.served.fetch_add(1, Ordering::SeqCst);
    Outcome::Done
}

/// A service that has had enough is left alone for that time, and no attempt is burnt.
#[tokio::test]
async fn a_service_that_has_had_enough_is_left_alone() {
    let client = Client::connect("sqlite://:memory:").await.unwrap().watched();
    let service = Arc::new(Service::default());
    ask::job().enqueue(&client).await.unwrap();
    let began = Instant::now();
    let worker =
        Worker::new(client.clone()).registry(Registry::empty()).register::<ask>().data(service.clone()).queue("calls").concurrency(1);
    let all_served = until("three to be served", async || service.served.load(Ordering::SeqCst) == 3);
    let enqueued = client.clone();
    let more = async {
        until("the first to be refused", async || service.refused.load(Ordering::SeqCst) > 0).await;
        for _ in 0..2 {
            ask::job().enqueue(&enqueued).await.unwrap();
        }
    };
    let (ran, ()) = tokio::join!(worker.run(all_served), more);
    ran.unwrap();
    assert_eq!(service.served.load(Ordering::SeqCst), 3);
    assert!(began.elapsed() >= Duration::from_millis(300), "{:?}", began.elapsed());
    assert_eq!(service.refused.load(Ordering::SeqCst), 4, "nobody asked meanwhile");
}

/// One job has used the rate of its key by a clock that was a year ahead, and another one waits for
/// it. How far the key is ahead, in microseconds.
async fn is_brought_back(broker: &DynBroker, put_ahead: &dyn Fn(i64), stored: &dyn Fn() -> i64) {
    let inspector = Client::with_broker(broker.clone()).inspector();
    inspector.set_limit(QUEUE, "stripe", |rule| rule.rate = "1/1h".parse().ok()).await.unwrap();
    Producer::on(broker, QUEUE).await.stored((0..2).map(|_| job()).collect()).await;
    let mut lane = Lane::on(broker, QUEUE).await;
    let first = lane.claim_one().await;
    let now = || i64::try_from(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros()).unwrap();
    put_ahead(now() + 366 * 24 * 3_600_000_000);
    let turn = lane
        .next()
        .claim(1)
        .finish(vec![queue_core::broker::Finish::new(&first, queue_core::broker::Ending::Ack { result: None, keep: None })]);
    assert!(lane.send(&turn).await.deliveries.is_empty());
    let ahead = stored() - now();
    assert!(ahead <= 25 * 3_600_000_000, "the next job waits for a day at most, and not for {ahead} us");
    let until = inspector.limits_of(QUEUE, &[LimitKey::of("stripe", b"a")]).await.unwrap()[0].until.unwrap();
    assert!(until <= SystemTime::now() + Duration::from_secs(25 * 3600));
}

async fn a_rate_that_a_wrong_clock_has_stored_is_brought_back(kind: Kind) {
    let server = Server::start(kind);
    let broker: DynBroker = RedisBroker::connect(&server.url()).await.unwrap();
    let tat = format!("queue:{{{QUEUE}}}:tat");
    let put = |at: i64| {
        let script = "redis.call('HSET', KEYS[1], redis.call('HKEYS', KEYS[1])[1], ARGV[1])";
        server.command(&["EVAL", script, "1", &tat, &format!("{at}:1:3600000000:0")]);
    };
    let stored = || {
        let found: Vec<String> = server.ask(&["HVALS", &tat]).unwrap();
        found[0].split(':').next().unwrap().parse().unwrap()
    };
    is_brought_back(&broker, &put, &stored).await;
}

#[tokio::test]
async fn a_rate_that_a_wrong_clock_has_stored_is_brought_back_in_sqlite() {
    let folder = folder();
    let path = folder.path().join("queue.db");
    let broker: DynBroker = SqliteBroker::open_path(&path).unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    let put = |at: i64| assert_eq!(other.execute("UPDATE queue_rates SET tat = ?1", [at]).unwrap(), 1);
    let stored = || other.query_row("SELECT tat FROM queue_rates", [], |row| row.get(0)).unwrap();
    is_brought_back(&broker, &put, &stored).await;
}

#[task(name = "complete", queue = "models", max_attempts = 1, limit(name = "tokens", by = [account], rate = "1/1h", burst = 10))]
async fn complete(account: String, tokens: Option<u32>, ctx: JobContext) -> Result<(), std::io::Error> {
    let Some(tokens) = tokens else {
        ctx.set_cost_of("tokens", 30).unwrap();
        return Err(std::io::Error::other("the answer was no use"));
    };
    ctx.set_cost(u32::MAX);
    ctx.set_cost(tokens);
    drop(account);
    Ok(())
}

/// A run says what it has really used, and whoever comes next waits for that: longer, or not at
/// all, whatever became of the run.
#[tokio::test]
async fn a_run_reports_what_it_has_used() {
    let client = Client::connect("sqlite://:memory:").await.unwrap().watched();
    let mut keys = Vec::new();
    for (account, tokens) in [("less", Some(3)), ("more", Some(15)), ("failed", None)] {
        let job = client.enqueue(complete::job(account.to_owned(), tokens).cost(10)).await.unwrap();
        keys.push(client.inspector().show(job.address()).await.unwrap().limit_keys[0]);
    }
    Worker::new(client.clone()).registry(Registry::empty()).register::<complete>().queue("models").run_until_idle().await.unwrap();
    let hours = async |key: LimitKey| {
        let until = client.inspector().limits_of("models", &[key]).await.unwrap()[0].until;
        until.map_or(0, |until| until.duration_since(SystemTime::now()).unwrap_or_default().as_secs().div_ceil(3600))
    };
    assert_eq!((hours(keys[0]).await, hours(keys[1]).await, hours(keys[2]).await), (0, 6, 21));
    // Of ten, seven are left.
    client.enqueue(complete::job("less".to_owned(), Some(7)).cost(7)).await.unwrap();
    Worker::new(client.clone()).registry(Registry::empty()).register::<complete>().queue("models").run_until_idle().await.unwrap();
    assert_eq!(hours(keys[0]).await, 1);
}

/// A job by name has the limits that it is given, and none that cannot be.
#[tokio::test]
async fn a_job_by_name_is_given_its_limits() {
    let client = Client::connect("sqlite://:memory:").await.unwrap().watched();
    for limit in ["stripe", "all"] {
        client.inspector().set_limit("payments", limit, |rule| rule.concurrency = Some(1)).await.unwrap();
    }
    let job = RawJob::new("charge", vec![0x80]).queue("payments").limit("stripe", Some("a17")).limit("all", None);
    let (address, _) = client.enqueue_raw(job).await.unwrap();
    let record = client.inspector().show(&address).await.unwrap();
    assert_eq!(record.limits, BTreeMap::from([("all".to_owned(), String::new()), ("stripe".to_owned(), "a17".to_owned())]));
    assert_eq!(record.limit_keys.len(), 2);
    let empty = client.enqueue_raw(RawJob::new("charge", vec![0x80]).limit("stripe", Some(""))).await.unwrap_err();
    assert!(empty.to_string().starts_with("limit key"), "{empty}");
    let cost = client.enqueue(charge::job(1).cost(0)).await.unwrap_err();
    assert!(cost.to_string().starts_with("cost `0`"), "{cost}");
    let cost = client.enqueue(ask::job().cost(51)).await.unwrap_err();
    assert!(cost.to_string().contains("more than the burst 50 of the limit `api`"), "{cost}");
}
