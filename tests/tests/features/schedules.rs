//! Schedules on every broker: each tick makes one job, whatever dies in the middle.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use queue_conformance::conformance::{Lane, Storage};
use queue_core::{
    __private::{RedisBroker, SqliteBroker},
    Client, Error, JobId, RawJob, Registry,
    broker::{
        Audit, BuryReason, Change, DamageKind, DynBroker, Ending, JobState, ScheduleAnswer, ScheduleList, ScheduleSet, ScheduleState,
        SetSchedule, SweepLimits,
    },
    prelude::*,
    schedule::{CatchUp, Overlap, Schedule, ScheduleAddress, clamp, tick_due},
};
use queue_tests::{
    folder::folder,
    patience::{WatchBroker, until, wait},
    server::{Kind, Server as RedisServer},
    storages::{Server, SqliteFile},
};
use queue_worker::Worker;

const QUEUE: &str = "ticks";

fn address(name: &str) -> ScheduleAddress {
    ScheduleAddress::new(QUEUE, name).unwrap()
}

/// A job that nobody runs here.
fn job() -> RawJob {
    RawJob::new("count", vec![0x80]).queue(QUEUE)
}

/// How often each tick of a second made a job.
async fn made(client: &Client) -> BTreeMap<u64, usize> {
    let (mut made, mut walk) = (BTreeMap::new(), client.inspector().walk(QUEUE, JobState::Ready));
    while let Some(jobs) = walk.next().await.unwrap() {
        for job in jobs {
            *made.entry(job.address.id.made_at_ms().unwrap() / 1000).or_default() += 1;
        }
    }
    made
}

/// Ten who tick, each of whom is killed at a random moment of every try: between asking, deciding,
/// writing and hearing of it.
async fn each_tick_makes_one_job_however_many_die(broker: DynBroker) {
    let client = Client::with_broker(broker.clone());
    let schedule = Schedule::every("often", Duration::from_secs(1)).catch_up(CatchUp::All(100)).raw_job(job());
    client.schedules().upsert(schedule).await.unwrap();
    let queue: Arc<str> = QUEUE.into();
    let end = Instant::now() + Duration::from_secs(6);
    let lives = (0..10).map(|_| async {
        while Instant::now() < end {
            let life = Duration::from_micros(fastrand::u64(100..20_000));
            drop(tokio::time::timeout(life, tick_due(&broker, &queue, 10)).await);
            tokio::time::sleep(Duration::from_millis(fastrand::u64(1..30))).await;
        }
    });
    futures_util::future::join_all(lives).await;
    // One who lives makes what was left over.
    until("all ticks to be made", || async {
        tick_due(&broker, &queue, 10).await.unwrap();
        let next = client.schedules().get(&address("often")).await.unwrap().unwrap().next.unwrap();
        next > SystemTime::now()
    })
    .await;
    let made = made(&client).await;
    let (first, last) = (*made.keys().next().unwrap(), *made.keys().last().unwrap());
    assert!(made.values().all(|jobs| *jobs == 1), "{made:?}");
    assert!(made.len() as u64 == last - first + 1 && made.len() >= 5, "a tick is missing: {made:?}");
    let record = client.schedules().get(&address("often")).await.unwrap().unwrap();
    assert_eq!((record.made, record.skipped), (made.len() as u64, 0));
}

/// What a person does to schedules, whether they are paused or not.
async fn people_run_and_backfill_a_paused_schedule(broker: DynBroker) {
    let client = Client::with_broker(broker);
    let schedules = client.schedules();
    let name = address("hourly");
    assert!(matches!(schedules.pause(&name).await, Err(Error::NoSuchSchedule { .. })));
    schedules.upsert(Schedule::cron("hourly", "@hourly").overlap(Overlap::Skip).raw_job(job())).await.unwrap();
    assert!(schedules.pause(&name).await.unwrap() && !schedules.pause(&name).await.unwrap());
    let run = schedules.run_now(&name).await.unwrap();
    assert!(client.inspector().show(&run).await.unwrap().state == JobState::Ready);
    let hour = Duration::from_secs(3600);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() / 3600 * 3600;
    let to = SystemTime::UNIX_EPOCH + Duration::from_secs(now);
    let first = schedules.backfill(&name, to - hour * 4, to).await.unwrap();
    assert_eq!((first.ticks, first.jobs), (5, 5), "both ends are included");
    let second = schedules.backfill(&name, to - hour * 5, to).await.unwrap();
    assert_eq!((second.ticks, second.jobs), (6, 1));
    assert!(schedules.backfill(&name, to - hour * 2_000, to).await.is_err_and(|error| error.to_string().contains("1000 ticks")));
    assert!(schedules.backfill(&name, to, to + hour * 2).await.is_err_and(|error| error.to_string().contains("future")));
    assert!(schedules.next(&name, 5).await.unwrap().is_empty());
    let record = schedules.get(&name).await.unwrap().unwrap();
    assert_eq!((record.made, record.runs.len(), record.paused.is_some()), (0, 10, true));
    let id = JobId::of_tick(QUEUE, "hourly", i64::try_from(now * 1000).unwrap(), 0);
    assert!(record.runs.iter().any(|run| run.job.as_ref().is_some_and(|job| job.id == id)), "a job has the id of its tick");
    assert!(schedules.resume(&name).await.unwrap());
    assert_eq!(schedules.next(&name, 5).await.unwrap().len(), 5);
    assert!(schedules.remove(&name).await.unwrap() && !schedules.remove(&name).await.unwrap());
}

/// A clock that was wrong by more than a year has set it. What lies far ahead by right stays.
async fn a_next_tick_that_lies_too_far_ahead_is_brought_back(broker: DynBroker) {
    let client = Client::with_broker(broker.clone());
    let schedules = client.schedules();
    let later = SystemTime::now() + Duration::from_secs(400 * 86_400);
    schedules.upsert(Schedule::cron("leap", "0 0 29 2 *").raw_job(job())).await.unwrap();
    schedules.upsert(Schedule::cron("later", "@hourly").start(later).raw_job(job())).await.unwrap();
    for name in ["hourly", "monthly"] {
        schedules.upsert(Schedule::cron(name, format!("@{name}")).raw_job(job())).await.unwrap();
        let page = broker.schedules(QUEUE, &ScheduleList::One(name.to_owned())).await.unwrap();
        let mut state = ScheduleState::decode(&page.schedules[0].state).unwrap();
        let next_ms = page.now_ms + 400 * 86_400_000;
        state.next_ms = Some(next_ms);
        let mut request = SetSchedule::new(QUEUE, name, page.now_ms, Some(page.schedules[0].state.clone()));
        request.set = Some(ScheduleSet { definition: None, state: state.encode(), due_ms: Some(next_ms), declared: false });
        assert_eq!(broker.set_schedule(&request).await.unwrap(), ScheduleAnswer::Set(vec![]));
    }
    let queue: Arc<str> = QUEUE.into();
    for (repair, found) in [(false, 2), (true, 2), (true, 0)] {
        let (mut names, mut offset) = (Vec::new(), Some(0));
        while let Some(at) = offset {
            let page = clamp(&broker, &queue, at, 3, repair).await.unwrap();
            names.extend(page.schedules);
            offset = page.next;
        }
        assert!(names.len() == found && names.iter().all(|name| name != "leap" && name != "later"), "{names:?}");
    }
    let hourly = schedules.get(&address("hourly")).await.unwrap().unwrap();
    assert!(hourly.next.unwrap() < SystemTime::now() + Duration::from_secs(3_601), "{:?}", hourly.next);
    assert!(hourly.events[0].what.contains("a wrong clock had set the next tick"), "{:?}", hourly.events);
    let due = broker.due_schedules(QUEUE, 1).await.unwrap().next_due.unwrap();
    assert!(due < Duration::from_secs(3_601), "it is looked at in time: {due:?}");
}

const LOOK: Audit = Audit { repair: false, thorough: false };
const REPAIR: Audit = Audit { repair: true, thorough: false };

/// Other hands take away the job that a tick waits for, or leave a note of one that has ended: it
/// is found, and the tick comes.
async fn a_run_without_its_job_is_found(broker: DynBroker, lose: impl Fn(), save: impl Fn(), restore: impl Fn()) {
    let client = Client::with_broker(broker.clone());
    let schedule = Schedule::every("often", Duration::from_secs(1)).overlap(Overlap::BufferOne).raw_job(job());
    client.schedules().upsert(schedule).await.unwrap();
    let queue: Arc<str> = QUEUE.into();
    let record = async || client.schedules().get(&address("often")).await.unwrap().unwrap();
    let wait = async || {
        until("a tick to wait for the job of the last one", || async {
            tick_due(&broker, &queue, 10).await.unwrap();
            record().await.waiting.is_some()
        })
        .await;
    };
    let found = async |how| broker.audit(QUEUE, how).await.unwrap().into_iter().map(|damage| damage.kind).collect::<Vec<_>>();
    wait().await;
    client.schedules().pause(&address("often")).await.unwrap();
    assert_eq!(found(LOOK).await, []);
    lose();
    assert_eq!((found(LOOK).await, found(REPAIR).await), (vec![DamageKind::RunWithoutJob], vec![DamageKind::RunWithoutJob]));
    assert_eq!((found(REPAIR).await, record().await.runs[0].outcome.as_deref()), (vec![], Some("deleted")));
    client.schedules().resume(&address("often")).await.unwrap();
    tick_due(&broker, &queue, 10).await.unwrap();
    assert_eq!(record().await.made, 2, "the tick that has waited");
    // A job has ended, and its schedule has heard of it; then the note is there again.
    for change in [Some(Change::Cancel), None] {
        wait().await;
        save();
        if let Some(change) = change {
            let id = record().await.runs[0].job.clone().unwrap().id;
            broker.change(QUEUE, change, None, &[id]).await.unwrap();
        } else {
            let mut lane = Lane::on(&broker, QUEUE).await;
            let held = lane.claim_one().await;
            assert!(lane.end(&held, Ending::Bury { reason: BuryReason::Failed, error: None }).await);
        }
        assert_eq!(found(LOOK).await, []);
        restore();
        assert_eq!(found(REPAIR).await, [DamageKind::RunWithoutJob], "{change:?}");
        assert_eq!(found(LOOK).await, []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_on_redis_finds_a_run_without_its_job() {
    let server = RedisServer::start(Kind::Redis);
    let broker: DynBroker = RedisBroker::connect(&server.url()).await.unwrap();
    let key = |kind: &str| format!("queue:{{{QUEUE}}}:{kind}");
    let lose = || drop(server.command(&["DEL", &key("jobs"), &key("ready:2")]));
    let copy = |from: &str, to: &str| {
        let script = "redis.call('DEL', KEYS[2]) redis.call('HSET', KEYS[2], unpack(redis.call('HGETALL', KEYS[1])))";
        server.command(&["EVAL", script, "2", from, to]);
    };
    let (save, restore) = (|| copy(&key("ticked"), "saved"), || copy("saved", &key("ticked")));
    a_run_without_its_job_is_found(broker, lose, save, restore).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_on_sqlite_finds_a_run_without_its_job() {
    let folder = folder();
    let path = folder.path().join("queue.db");
    let broker: DynBroker = SqliteBroker::open_path(&path).unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    let run = |sql: &str| other.execute_batch(sql).unwrap();
    let save = || run("DROP TABLE IF EXISTS saved; CREATE TABLE saved AS SELECT * FROM queue_ticked");
    let restore = || run("INSERT OR REPLACE INTO queue_ticked SELECT * FROM saved");
    a_run_without_its_job_is_found(broker, || run("DELETE FROM queue_jobs"), save, restore).await;
}

/// Ids that backfills and people have made are forgotten after a day, in steps. `make`: so many
/// ids, whose time is over.
async fn ids_of_backfills_are_swept(broker: DynBroker, make: impl Fn(usize), left: impl Fn() -> usize) {
    const IDS: usize = 250;
    let client = Client::with_broker(broker.clone());
    client.schedules().upsert(Schedule::every("often", Duration::from_secs(3600)).raw_job(job())).await.unwrap();
    make(IDS);
    let mut removed = Vec::new();
    loop {
        let swept = broker.sweep(QUEUE, &SweepLimits::default()).await.unwrap();
        removed.push(swept.backfilled);
        if !swept.more {
            break;
        }
    }
    assert_eq!((removed, left()), (vec![100, 100, 50], 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_on_redis_forgets_ids_of_backfills() {
    let server = RedisServer::start(Kind::Redis);
    let broker: DynBroker = RedisBroker::connect(&server.url()).await.unwrap();
    let key = format!("queue:{{{QUEUE}}}:backfilled");
    let make = |ids: usize| {
        let script = "for n = 1, ARGV[1] do redis.call('ZADD', KEYS[1], '1', 'id' .. n) end";
        server.command(&["EVAL", script, "1", &key, &ids.to_string()]);
    };
    let left = || server.command(&["ZCARD", &key]).trim().trim_start_matches(':').parse().unwrap();
    ids_of_backfills_are_swept(broker, make, left).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_on_sqlite_forgets_ids_of_backfills() {
    let folder = folder();
    let path = folder.path().join("queue.db");
    let broker: DynBroker = SqliteBroker::open_path(&path).unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    let make = |ids: usize| {
        for n in 0..ids {
            let made = "INSERT INTO queue_backfilled (queue, id, at) SELECT queue, ?1, 1 FROM queue_schedules";
            other.execute(made, [n.to_string().into_bytes()]).unwrap();
        }
    };
    let left = || other.query_row("SELECT count(*) FROM queue_backfilled", [], |row| row.get::<_, u32>(0)).unwrap() as usize;
    ids_of_backfills_are_swept(broker, make, left).await;
}

macro_rules! on_all {
    ($($case:ident)*) => {$(
        mod $case {
            use super::*;

            #[tokio::test(flavor = "multi_thread")]
            async fn on_redis() {
                super::$case(Server::new(Kind::Redis).open().await).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn on_valkey_cluster() {
                super::$case(Server::cluster(Kind::Valkey).open().await).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn on_sqlite() {
                let mut file = SqliteFile::new();
                super::$case(file.open().await).await;
            }
        }
    )*};
}

on_all! {
    each_tick_makes_one_job_however_many_die
    people_run_and_backfill_a_paused_schedule
    a_next_tick_that_lies_too_far_ahead_is_brought_back
}

#[task(queue = "ticks", schedule(every = "1s", overlap = "skip", args(who = "code".to_owned())))]
async fn note(who: String, heard: Data<tokio::sync::mpsc::UnboundedSender<(String, Option<SystemTime>)>>, ctx: JobContext) {
    heard.send((who, ctx.scheduled_for())).unwrap();
}

/// From the attribute to the handler: each tick comes once, in its order, and none before its time.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_declares_ticks_and_runs() {
    let client = Client::connect("sqlite://:memory:").await.unwrap().watched();
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel::<(String, Option<SystemTime>)>();
    let worker = Worker::new(client.clone()).registry(Registry::declared_in(file!())).data(told).queue(QUEUE);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(worker.run(async { drop(stopped.await) }));
    let mut ticks = Vec::new();
    while ticks.len() < 3 {
        let (who, tick) = wait("a tick").end_of(heard.recv()).await.unwrap();
        assert_eq!(who, "code");
        assert!(tick.unwrap() <= SystemTime::now(), "{tick:?}");
        ticks.push(tick.unwrap());
    }
    assert!(ticks.windows(2).all(|pair| pair[1] > pair[0]), "{ticks:?}");
    drop(stop);
    running.await.unwrap().unwrap();
}

/// What is wrong with a schedule is told when the worker starts, and by `upsert`.
#[tokio::test]
async fn a_zone_that_does_not_exist_is_reported_at_the_start() {
    let client = Client::connect("sqlite://:memory:").await.unwrap().watched();
    let wrong = || Schedule::cron("nightly", "0 3 * * *").tz("Europe/Bonn").raw_job(job());
    let error = Worker::new(client.clone())
        .registry(Registry::declared_in(file!()))
        .queue(QUEUE)
        .schedule(wrong())
        .check()
        .unwrap_err()
        .to_string();
    assert!(error.contains("schedule `nightly`") && error.contains("`Europe/Bonn` is not a time zone"), "{error}");
    let error = client.schedules().upsert(wrong()).await.unwrap_err();
    assert!(matches!(error, Error::Invalid { field: "time zone", .. }), "{error}");
    let error = client.schedules().upsert(Schedule::cron("n", "0 25 * * *").raw_job(job())).await.unwrap_err().to_string();
    assert!(error.contains("at column 3: an hour is 0 to 23\n0 25 * * *\n  ^^"), "{error}");
    let elsewhere = Schedule::cron("n", "@daily").raw_job(job().queue("elsewhere"));
    let error =
        Worker::new(client).registry(Registry::declared_in(file!())).queue(QUEUE).schedule(elsewhere).check().unwrap_err().to_string();
    assert!(error.contains("does not serve"), "{error}");
}
