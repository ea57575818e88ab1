//! What the broker in memory has beside the other brokers: a clock that belongs to the test.

use std::{sync::Arc, time::Duration};

use queue_conformance::{
    Clock,
    conformance::{Lane, envelope},
    memory_broker::MemoryBroker,
};
use queue_core::{
    JobId,
    broker::{Audit, Broker, Damage, DamageKind, Due, Enqueue, Enqueued, Inspect, JobState, NewJob, ProcessId, Register},
};

const QUEUE: &str = "letters";
const DAY: Duration = Duration::from_secs(24 * 3600);

async fn put(broker: &MemoryBroker, due: Due) {
    let producer = broker.register(&Register::producer(QUEUE, ProcessId::random())).await.expect("a producer can register").name;
    let mut job = NewJob::new(JobId::make(), envelope("7"));
    job.due = due;
    let answers = broker.enqueue(&Enqueue::new(QUEUE, producer, 1, vec![job])).await.expect("the enqueue is answered");
    assert_eq!(answers, [Enqueued::Stored]);
}

#[tokio::test(start_paused = true)]
async fn a_day_is_over_as_soon_as_the_test_says_so() {
    let broker = MemoryBroker::with_clock(Clock::at(1_000));
    put(&broker, Due::After(DAY)).await;
    let mut lane = Lane::on(&(Arc::new(broker.clone()) as _), QUEUE).await;
    assert!(lane.claim(1).await.is_empty(), "it is not due");
    tokio::time::advance(DAY + Duration::from_millis(1)).await;
    assert_eq!(broker.clock().now_ms(), 1_001 + i64::try_from(DAY.as_millis()).expect("it fits"));
    assert_eq!(lane.claim(1).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn every_listener_hears_when_a_job_is_due() {
    let broker = MemoryBroker::new();
    let (mut one, mut other) = (broker.hints(QUEUE), broker.hints(QUEUE));
    put(&broker, Due::After(DAY)).await;
    let expected = (tokio::time::Instant::now() + DAY + Duration::from_millis(1)).into_std();
    assert_eq!(one.next().await.due, Some(expected));
    assert_eq!(other.next().await.due, Some(expected));
    tokio::time::advance(2 * DAY).await;
    put(&broker, Due::Now).await;
    assert_eq!(one.next().await.due, None, "now");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_put_back_leaves_leases_that_end_too_late() {
    let broker = MemoryBroker::new();
    let lane = Lane::on(&(Arc::new(broker.clone()) as _), QUEUE).await;
    broker.clock().shift(-60_000);
    let subject = lane.name.as_str().to_owned();
    let damage = Damage { kind: DamageKind::LeaseTooLong, subject };
    assert_eq!(broker.audit(QUEUE, Audit { repair: true, thorough: false }).await.expect("an audit is answered"), [damage]);
    assert!(
        broker.audit(QUEUE, Audit { repair: false, thorough: false }).await.expect("an audit is answered").is_empty(),
        "it was repaired"
    );
}

#[tokio::test(start_paused = true)]
async fn a_look_tells_whether_anything_waits() {
    let broker = MemoryBroker::new();
    assert!(!broker.has_work(QUEUE).await.expect("it is answered"));
    put(&broker, Due::Now).await;
    assert!(broker.has_work(QUEUE).await.expect("it is answered"));
    let mut lane = Lane::on(&(Arc::new(broker.clone()) as _), QUEUE).await;
    let delivery = lane.claim_one().await;
    assert!(!broker.has_work(QUEUE).await.expect("it is answered"), "what runs does not wait");
    lane.ack(&[delivery]).await;
    assert_eq!(broker.stats(QUEUE).await.expect("statistics can be read").count(JobState::Active), 0);
}
