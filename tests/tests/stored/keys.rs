//! Keys that other hands break: what is found, told and repaired. And who may not ignore them.

use queue_conformance::conformance::{Lane, Producer, envelope};
use queue_core::{
    __private::{RedisBroker, SqliteBroker},
    Error, JobId,
    broker::{Audit, DamageKind, DynBroker, Enqueued, JobState, NewJob, OnConflict, Unique, UniqueKey},
};
use queue_tests::{
    folder::folder,
    on_servers,
    server::{Kind, Server},
};

on_servers! {
    a_key_is_recounted_from_the_jobs
    a_lane_that_knows_no_keys_keeps_them_out
}

const QUEUE: &str = "keyed";
const LOOK: Audit = Audit { repair: false, thorough: false };
const REPAIR: Audit = Audit { repair: true, thorough: false };

/// A key that a command can name.
const KEY: &str = "0123456789abcdef";

fn key() -> UniqueKey {
    UniqueKey::from_bytes(KEY.as_bytes()).unwrap()
}

fn job(id: &str, on_conflict: OnConflict) -> NewJob {
    let mut job = NewJob::new(JobId::given(id).unwrap(), envelope(id));
    job.unique = Some(Box::new(Unique::new(key()).on_conflict(on_conflict)));
    job
}

async fn damages(broker: &DynBroker, how: Audit) -> Vec<DamageKind> {
    broker.audit(QUEUE, how).await.unwrap().into_iter().map(|damage| damage.kind).collect()
}

async fn holder(broker: &DynBroker) -> Option<String> {
    broker.key_holder(QUEUE, &key()).await.unwrap().map(|holder| holder.id.to_string())
}

/// The same damage on each broker: the key is lost, then somebody else has it, then it is lost
/// while a job is held for it.
async fn is_mended(broker: &DynBroker, lose: impl Fn(), usurp: impl Fn()) {
    let mut producer = Producer::on(broker, QUEUE).await;
    assert_eq!(producer.send(vec![job("a", OnConflict::Skip)]).await, [Enqueued::Stored]);
    assert!(damages(broker, LOOK).await.is_empty());
    lose();
    for how in [LOOK, REPAIR] {
        assert_eq!(damages(broker, how).await, [DamageKind::KeyMissing]);
    }
    assert_eq!(holder(broker).await.as_deref(), Some("a"), "it holds its key again");
    usurp();
    assert_eq!(holder(broker).await, None, "who is not there holds nothing");
    assert_eq!(damages(broker, REPAIR).await, [DamageKind::KeyLeaked, DamageKind::KeyMissing]);
    assert_eq!(holder(broker).await.as_deref(), Some("a"));
    let mut lane = Lane::on(broker, QUEUE).await;
    let delivery = lane.claim_one().await;
    assert_eq!(producer.send(vec![job("b", OnConflict::BufferOne)]).await, [Enqueued::Buffered(JobId::given("b").unwrap())]);
    lose();
    assert!(damages(broker, LOOK).await.contains(&DamageKind::HeldForNobody));
    assert!(damages(broker, REPAIR).await.contains(&DamageKind::HeldForNobody));
    assert_eq!(broker.stats(QUEUE).await.unwrap().count(JobState::Held), 0);
    lane.ack(&[delivery]).await;
    let next = lane.claim_one().await;
    lane.ack(&[next]).await;
    assert_eq!((holder(broker).await, damages(broker, LOOK).await), (None, vec![]));
}

async fn a_key_is_recounted_from_the_jobs(kind: Kind) {
    let server = Server::start(kind);
    let broker: DynBroker = RedisBroker::connect(&server.url()).await.unwrap();
    let unique = format!("queue:{{{QUEUE}}}:unique");
    is_mended(&broker, || drop(server.command(&["HDEL", &unique, KEY])), || drop(server.command(&["HSET", &unique, KEY, "=ghost"]))).await;
}

#[tokio::test]
async fn keys_in_a_sqlite_file_are_recounted_from_the_jobs() {
    let folder = folder();
    let path = folder.path().join("queue.db");
    let broker: DynBroker = SqliteBroker::open_path(&path).unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    let change = |sql: &str| {
        other.execute(sql, []).unwrap();
    };
    is_mended(&broker, || change("DELETE FROM queue_keys"), || change("UPDATE queue_keys SET id = CAST('=ghost' AS BLOB)")).await;
}

/// A lane of an older library would ignore keys: the first job with one is refused, and the error
/// names the feature.
async fn a_lane_that_knows_no_keys_keeps_them_out(kind: Kind) {
    let server = Server::start(kind);
    let broker: DynBroker = RedisBroker::connect(&server.url()).await.unwrap();
    let lane = Lane::on(&broker, QUEUE).await;
    server.command(&["HSET", &format!("queue:{{{QUEUE}}}:knows"), lane.name.as_str(), "lfkpcztah"]);
    let mut producer = Producer::on(&broker, QUEUE).await;
    let refused = broker.enqueue(&producer.next(vec![job("a", OnConflict::Skip)])).await;
    assert!(matches!(&refused, Err(Error::FeatureUnknown { feature, .. }) if feature == "unique"), "{refused:?}");
    assert_eq!(broker.stats(QUEUE).await.unwrap().jobs(), 0);
    producer.stored(vec![NewJob::new(JobId::make(), envelope("plain"))]).await;
}
