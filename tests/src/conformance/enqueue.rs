//! What enqueue promises.
#![allow(missing_docs, reason = "the names of the cases say it")]

use queue_core::{
    Error,
    broker::{Enqueue, Enqueued, MAX_ITEMS, NewJob, PartyName},
};

use super::{Subject, ack, given, ids_of, job};

pub async fn jobs_are_served_in_the_order_of_their_enqueue(subject: Subject) {
    let ids = subject.store(50).await;
    let more = subject.store(10).await;
    let served = subject.lane().await.claim(100).await;
    assert_eq!(ids_of(&served.deliveries), [ids, more].concat());
}

pub async fn a_replayed_enqueue_stores_nothing_and_answers_the_same(subject: Subject) {
    let mut producer = subject.producer().await;
    let request = producer.request(vec![job(), given("a", 1), given("a", 2), given("a", 1)]);
    let first = subject.broker.enqueue(&request).await.unwrap();
    assert_eq!(first, [Enqueued::Stored, Enqueued::Stored, Enqueued::IdConflict, Enqueued::Existing]);
    assert_eq!(subject.broker.enqueue(&request).await.unwrap(), first);
    assert_eq!(subject.lane().await.claim(10).await.deliveries.len(), 2);
    assert_eq!(subject.broker.enqueue(&request).await.unwrap(), first, "also after its jobs are running");
    assert_eq!(subject.counter("enqueued").await, 2);
}

pub async fn an_older_sequence_is_refused(subject: Subject) {
    let mut producer = subject.producer().await;
    let first = producer.request(vec![job()]);
    subject.broker.enqueue(&first).await.unwrap();
    producer.seq += 5;
    producer.send(vec![job()]).await;
    assert!(matches!(subject.broker.enqueue(&first).await, Err(Error::Old { .. })));
    assert_eq!(subject.counter("enqueued").await, 2);
}

pub async fn an_unknown_producer_is_forgotten(subject: Subject) {
    subject.producer().await;
    let stranger = Enqueue::new(subject.queue.clone(), PartyName::new("nobody.1.1"), 1, vec![job()]);
    assert!(matches!(subject.broker.enqueue(&stranger).await, Err(Error::Forgotten(_))));
    assert_eq!(subject.counter("enqueued").await, 0);
}

pub async fn a_given_id_is_stored_once(subject: Subject) {
    let (mut one, mut other) = (subject.producer().await, subject.producer().await);
    assert_eq!(one.send_one(given("order-17", 1)).await, Enqueued::Stored);
    assert_eq!(other.send_one(given("order-17", 1)).await, Enqueued::Existing);
    assert_eq!(other.send_one(given("order-17", 2)).await, Enqueued::IdConflict);
    let mut lane = subject.lane().await;
    let delivery = lane.claim_one().await;
    assert_eq!(one.send_one(given("order-17", 1)).await, Enqueued::Existing, "also while it runs");
    lane.end_one(&delivery, ack()).await;
    assert!(lane.claim(10).await.deliveries.is_empty());
}

pub async fn the_answers_of_a_mixed_batch_keep_their_order(subject: Subject) {
    let mut producer = subject.producer().await;
    producer.send_one(given("old", 1)).await;
    let mut later = job();
    later.due = queue_core::broker::Due::After(super::LONG);
    let mut low = job();
    low.priority = queue_core::broker::Priority::Low;
    let batch = vec![job(), given("old", 1), later, given("old", 9), low, given("new", 1), job()];
    let answers = producer.send(batch).await;
    use Enqueued::{Existing, IdConflict, Stored};
    assert_eq!(answers, [Stored, Existing, Stored, IdConflict, Stored, Stored, Stored]);
}

pub async fn a_given_id_is_remembered_after_its_job_is_done(subject: Subject) {
    let mut producer = subject.producer().await;
    producer.send_one(given("once", 1)).await;
    let mut lane = subject.lane().await;
    let delivery = lane.claim_one().await;
    lane.end_one(&delivery, ack()).await;
    assert_eq!(producer.send_one(given("once", 1)).await, Enqueued::Existing);
    assert_eq!(producer.send_one(given("once", 2)).await, Enqueued::IdConflict);
    assert_eq!(subject.state(&delivery.id).await, None);
}

pub async fn payloads_of_any_bytes_come_back_as_they_were(subject: Subject) {
    let mut producer = subject.producer().await;
    let bodies: Vec<Vec<u8>> =
        vec![(0..=255).collect(), b"\r\n$5\r\n".to_vec(), vec![0; 300], vec![0xff; 1], (0..5000u32).flat_map(u32::to_le_bytes).collect()];
    let jobs = bodies.iter().map(|body| NewJob::new(queue_core::JobId::make(), body.clone())).collect();
    producer.send(jobs).await;
    let served = subject.lane().await.claim(10).await;
    assert_eq!(served.deliveries.into_iter().map(|delivery| delivery.envelope).collect::<Vec<_>>(), bodies);
}

pub async fn the_largest_batch_is_stored(subject: Subject) {
    let ids = subject.store(MAX_ITEMS).await;
    let served = subject.lane().await.claim(MAX_ITEMS).await;
    assert_eq!(ids_of(&served.deliveries), ids);
    assert!(!served.more);
}

pub async fn a_batch_over_the_bound_is_refused(subject: Subject) {
    let mut producer = subject.producer().await;
    let request = producer.request((0..=MAX_ITEMS).map(|_| job()).collect());
    assert!(matches!(subject.broker.enqueue(&request).await, Err(Error::Invalid { .. })));
    assert_eq!(subject.counter("enqueued").await, 0);
}

pub async fn a_replay_among_thousands_of_others_is_recognised(subject: Subject) {
    let mut producer = subject.producer().await;
    let request = producer.request(vec![job()]);
    subject.broker.enqueue(&request).await.unwrap();
    for _ in 0..5 {
        subject.store(200).await;
    }
    subject.broker.enqueue(&request).await.unwrap();
    assert_eq!(subject.counter("enqueued").await, 1001);
}
