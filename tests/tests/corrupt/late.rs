//! Late and large requests.

use std::time::Duration;

use queue_conformance::{
    Changes as _,
    conformance::{Lane, Producer, ack, eventually},
};
use queue_core::{
    __private::{RedisBroker, SqliteBroker},
    JobId,
    broker::{
        Audit, Begin, CrashRule, Due, DynBroker, Enqueued, JobState, OverdueLane, ProcessId, Register, Subscribe, SweepLimits, Turn,
        subscription_address, topic_address,
    },
};
use queue_tests::{
    folder::folder,
    on_servers,
    server::{Kind, Server},
    watch::Watch,
};

use super::state::{given, job};

on_servers! {
    a_late_reclaim_takes_nothing_from_a_later_holder_or_from_one_that_lives
    a_lease_that_is_not_over_is_not_fenced_by_whoever_knows_its_end
    a_late_repair_gives_no_job_a_second_place
    a_late_look_at_what_has_gone_on_finds_nothing
    an_id_whose_digest_is_lost_is_still_taken
    a_time_that_never_comes_is_reported_as_one_far_away
    a_round_of_any_size_can_be_unpacked
    what_a_heartbeat_brings_is_bounded
}

const QUEUE: &str = "late";

/// The result of a reclaim: the numbers of returned and of charged jobs, and the ids of buried
/// ones.
type Moved = (u64, u64, Vec<Vec<u8>>);

async fn a_late_reclaim_takes_nothing_from_a_later_holder_or_from_one_that_lives(kind: Kind) {
    let server = Server::start(kind);
    let broker: DynBroker = RedisBroker::connect(&server.url()).await.unwrap();
    Producer::on(&broker, QUEUE).await.stored(vec![given("g", "g")]).await;
    let short = Duration::from_millis(1);
    let dying = broker.register(&Register::lane(QUEUE, ProcessId::random(), short)).await.unwrap().name;
    assert_eq!(broker.turn(&Turn::new(QUEUE, dying.clone(), 1, short).claim(1)).await.unwrap().deliveries.len(), 1);
    let over: Vec<OverdueLane> = eventually("its lease ends", async || {
        let over = broker.overdue(QUEUE, 0, 10).await.unwrap().expired;
        (!over.is_empty()).then_some(over)
    })
    .await;
    assert_eq!(broker.fence(QUEUE, &over).await.unwrap(), [true]);
    let mut watch = Watch::on(&server);
    let rule = CrashRule { delay: Duration::ZERO, ..CrashRule::default() };
    assert_eq!(broker.reclaim(QUEUE, &rule).await.unwrap().charged, 1);
    let mut reclaim = watch.call_with(&format!("\"{}:", dying.as_str()));

    // The same call again, when another lane holds the job.
    let mut lane = Lane::on(&broker, QUEUE).await;
    let held = lane.wait_for_one().await;
    let repeat = |words: &[String]| server.ask::<Moved>(&words.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    assert_eq!(repeat(&reclaim), (0, 0, vec![]), "an old receipt");
    // And one with the correct receipt of a live lane.
    let receipt = reclaim.len() - 2;
    reclaim[receipt] = format!("{}:{}", lane.name.as_str(), held.claim);
    assert_eq!(repeat(&reclaim), (0, 0, vec![]), "a lane that nobody fenced");
    assert!(lane.end(&held, ack()).await, "its holder finishes it");
}

async fn a_lease_that_is_not_over_is_not_fenced_by_whoever_knows_its_end(kind: Kind) {
    let server = Server::start(kind);
    let broker: DynBroker = RedisBroker::connect(&server.url()).await.unwrap();
    let mut lane = Lane::on(&broker, QUEUE).await;
    let answer = lane.send(&lane.next()).await;
    let deadline_ms = answer.now_ms + i64::try_from(lane.lease.as_millis()).unwrap();
    let known = OverdueLane { name: lane.name.clone(), deadline_ms };
    let stored: String = server.ask(&["ZSCORE", "queue:{late}:leases", lane.name.as_str()]).unwrap();
    assert_eq!(stored, deadline_ms.to_string(), "it is the end");
    assert_eq!(broker.fence(QUEUE, &[known]).await.unwrap(), [false]);
}

/// The same on a file.
#[tokio::test]
async fn in_a_sqlite_file_a_lease_that_is_not_over_is_not_fenced_by_whoever_knows_its_end() {
    let folder = folder();
    let path = folder.path().join("queue.db");
    let broker: DynBroker = SqliteBroker::open_path(&path).unwrap();
    let mut lane = Lane::on(&broker, QUEUE).await;
    lane.send(&lane.next()).await;
    let file = rusqlite::Connection::open(&path).unwrap();
    let deadline_ms = file.query_row("SELECT deadline FROM queue_lanes", [], |row| row.get(0)).unwrap();
    let known = OverdueLane { name: lane.name.clone(), deadline_ms };
    assert_eq!(broker.fence(QUEUE, &[known]).await.unwrap(), [false]);
}

/// The name of a lane is not UTF-8: its worker is found by its process.
#[tokio::test]
async fn in_a_sqlite_file_the_record_of_a_worker_goes_with_a_lane_whose_name_is_damaged() {
    let folder = folder();
    let path = folder.path().join("queue.db");
    let broker: DynBroker = SqliteBroker::open_path(&path).unwrap();
    let lane = Lane::on(&broker, QUEUE).await;
    let file = rusqlite::Connection::open(&path).unwrap();
    let count = || file.query_row("SELECT count(*) FROM queue_workers", [], |row| row.get::<_, u32>(0)).unwrap();
    assert_eq!(count(), 1, "{}", lane.name);
    file.execute("UPDATE queue_lanes SET name = CAST(x'ff00c1' AS TEXT), deadline = 1", []).unwrap();
    let expired = broker.overdue(QUEUE, 0, 10).await.unwrap().expired;
    assert_eq!((broker.fence(QUEUE, &expired).await.unwrap(), count()), (vec![true], 0));
}

/// An entry of a log whose id is damaged is counted as lost, and the subscription reads on.
#[tokio::test]
async fn in_a_sqlite_file_a_subscription_passes_over_an_event_whose_id_is_damaged() {
    const TOPIC: &str = "events";
    let folder = folder();
    let path = folder.path().join("queue.db");
    let broker: DynBroker = SqliteBroker::open_path(&path).unwrap();
    broker.subscribe(&Subscribe::new(TOPIC, "billing", Begin::Start)).await.unwrap();
    Producer::on(&broker, &topic_address(TOPIC)).await.stored(vec![job("damaged"), job("next")]).await;
    let file = rusqlite::Connection::open(&path).unwrap();
    assert_eq!(file.execute("UPDATE queue_log SET id = x'ff00c1' WHERE seq = 1", []).unwrap(), 1);
    assert_eq!(Lane::on(&broker, &subscription_address("billing", TOPIC)).await.claim(2).await.len(), 1);
    let ids: Vec<bool> = broker.read_topic(TOPIC, None, 10).await.unwrap().iter().map(|event| event.id.is_some()).collect();
    assert_eq!(ids, [false, true]);
    assert_eq!(broker.topic(TOPIC).await.unwrap().expect("it is there").subscriptions[0].lost, 1);
}

/// Between the check and the repair, a job may have found a place. It must not get a second one.
async fn a_late_repair_gives_no_job_a_second_place(kind: Kind) {
    let server = Server::start(kind);
    let broker: DynBroker = RedisBroker::connect(&server.url()).await.unwrap();
    Producer::on(&broker, QUEUE).await.stored(vec![given("g", "g")]).await;
    assert_eq!(server.ask::<usize>(&["DEL", "queue:{late}:ready:2"]).unwrap(), 1);
    let mut watch = Watch::on(&server);
    assert_eq!(broker.audit(QUEUE, Audit { repair: true, thorough: false }).await.unwrap().len(), 1);
    let repair = watch.call_with("\"strays\"");
    let repeat = || server.ask::<Vec<String>>(&repair.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    assert_eq!(repeat(), [""; 0], "it is ready");
    let mut lane = Lane::on(&broker, QUEUE).await;
    let held = lane.claim_one().await;
    assert_eq!(repeat(), [""; 0], "it is active");
    assert!(lane.end(&held, ack()).await);
    assert!(lane.claim(1).await.is_empty(), "it ran once");
}

/// An element that was removed since it was read is not damage.
async fn a_late_look_at_what_has_gone_on_finds_nothing(kind: Kind) {
    let server = Server::start(kind);
    let broker: DynBroker = RedisBroker::connect(&server.url()).await.unwrap();
    assert_eq!(server.ask::<i64>(&["ZADD", "queue:{late}:retry", "1", "=ghost"]).unwrap(), 1);
    let mut watch = Watch::on(&server);
    let audit = Audit { repair: true, thorough: true };
    assert_eq!(broker.audit(QUEUE, audit).await.unwrap().len(), 1);
    let look = watch.call_with("\"=ghost\"");
    assert_eq!(server.ask::<Vec<String>>(&look.iter().map(String::as_str).collect::<Vec<_>>()).unwrap(), [""; 0]);
}

/// Without its digest it is unknown whether the job is the same. It is treated as the same, and no
/// second job is created.
async fn an_id_whose_digest_is_lost_is_still_taken(kind: Kind) {
    let server = Server::start(kind);
    let broker: DynBroker = RedisBroker::connect(&server.url()).await.unwrap();
    let mut producer = Producer::on(&broker, QUEUE).await;
    producer.stored(vec![given("g", "g")]).await;
    assert_eq!(server.ask::<usize>(&["DEL", "queue:{late}:given"]).unwrap(), 1);
    assert_eq!(producer.send(vec![given("g", "g")]).await, [Enqueued::Existing]);
    assert_eq!(producer.send(vec![given("g", "another")]).await, [Enqueued::IdConflict], "the digest is known again");
    let mut lane = Lane::on(&broker, QUEUE).await;
    assert_eq!(lane.claim(2).await.len(), 1, "it is one job");
}

/// Infinity is a valid score, and so is a time that no clock reaches.
async fn a_time_that_never_comes_is_reported_as_one_far_away(kind: Kind) {
    let server = Server::start(kind);
    let broker: DynBroker = RedisBroker::connect(&server.url()).await.unwrap();
    let mut job = given("g", "g");
    job.due = Due::After(Duration::from_secs(3600));
    let id = job.id.clone();
    Producer::on(&broker, QUEUE).await.stored(vec![job]).await;
    let mut lane = Lane::on(&broker, QUEUE).await;
    for never in ["+inf", "1e300"] {
        assert_eq!(server.ask::<i64>(&["ZADD", "queue:{late}:scheduled", "XX", "CH", never, "=g"]).unwrap(), 1);
        // After this, a turn reads the changes of other programs.
        broker.sweep(QUEUE, &SweepLimits::default()).await.unwrap();
        let turn = lane.next().claim(1);
        let due = lane.send(&turn).await.next_due;
        assert!(due.is_none_or(|due| due > Duration::from_secs(1 << 30)), "{never}: {due:?}");
        let shown = broker.show(QUEUE, &id).await.unwrap().expect("it is there");
        assert_eq!((shown.state, shown.at_ms), (JobState::Scheduled, Some(1 << 52)), "{never}");
    }
}

/// Lua cannot unpack more than some 8000 items.
async fn a_round_of_any_size_can_be_unpacked(kind: Kind) {
    const MANY: usize = 9000;
    let server = Server::start(kind);
    let broker: DynBroker = RedisBroker::connect(&server.url()).await.unwrap();
    let members: Vec<String> = (0..MANY).map(|number| format!("=id-{number}")).collect();
    let mut words = vec!["ZADD", "queue:{late}:remembered"];
    members.iter().for_each(|member| words.extend(["1", member.as_str()]));
    assert_eq!(server.ask::<usize>(&words).unwrap(), MANY);
    let limits = SweepLimits { items: 2 * MANY, ..SweepLimits::default() };
    assert_eq!(broker.sweep(QUEUE, &limits).await.unwrap().remembered, MANY);
}

async fn what_a_heartbeat_brings_is_bounded(kind: Kind) {
    const BOUND: usize = 500;
    let server = Server::start(kind);
    let broker: DynBroker = RedisBroker::connect(&server.url()).await.unwrap();
    let mut producer = Producer::on(&broker, QUEUE).await;
    let mut lane = Lane::on(&broker, QUEUE).await;
    for jobs in [BOUND, 20] {
        producer.stored((0..jobs).map(|number| job(&number.to_string())).collect()).await;
        let ids: Vec<JobId> = lane.claim(jobs).await.into_iter().map(|delivery| delivery.id).collect();
        assert_eq!(ids.len(), jobs);
        broker.cancel(QUEUE, &ids).await.unwrap();
    }
    let heartbeat = broker.extend(&[lane.heartbeat(lane.lease)]).await.remove(0).unwrap();
    assert_eq!(heartbeat.cancelled.len(), BOUND);
}
