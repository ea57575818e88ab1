//! Enqueues: idempotence, given ids, and how an id becomes free.

use std::time::Duration;

use queue_core::{
    Error, JobId,
    broker::{BuryReason, Changed, Confirm, Counter, Durability, Ending, Enqueue, Enqueued, JobState, NewJob, PartyName},
};

use super::bed::{Bed, LONG, ack, envelope, given, nack};
use crate::Changes as _;

/// A request with a lost reply is sent again. It gets the same answers, and stores no second job.
pub async fn a_replayed_enqueue_stores_nothing_twice(bed: Bed) {
    let mut producer = bed.producer().await;
    let jobs: Vec<NewJob> = (0..5).map(|n| NewJob::new(JobId::make(), envelope(&n.to_string()))).collect();
    let request = producer.next(jobs);
    for _ in 0..3 {
        assert_eq!(bed.broker.enqueue(&request).await.unwrap(), vec![Enqueued::Stored; 5]);
    }
    producer.seq = request.seq;
    assert_eq!((bed.depth(JobState::Ready).await, bed.counter(Counter::Enqueued).await), (5, 5));
    let mut lane = bed.lane().await;
    let held = lane.claim(10).await;
    lane.ack(&held).await;
    assert_eq!(bed.broker.enqueue(&request).await.unwrap(), vec![Enqueued::Stored; 5], "also when they are done");
    assert!(lane.claim(10).await.is_empty());
}

/// This holds even if many others were stored in between.
pub async fn a_replay_after_thousands_of_other_jobs_is_recognised(bed: Bed) {
    let producer = bed.producer().await;
    let request = producer.next(vec![NewJob::new(JobId::make(), envelope("x"))]);
    bed.broker.enqueue(&request).await.unwrap();
    bed.put(3000).await;
    bed.broker.enqueue(&request).await.unwrap();
    assert_eq!(bed.counter(Counter::Enqueued).await, 3001);
}

/// A replay returns the original answers, and not those that would be given now.
pub async fn a_replay_repeats_the_answers_of_then(bed: Bed) {
    bed.put_given("taken", "a").await;
    bed.put_given("other", "a").await;
    let producer = bed.producer().await;
    let request = producer.next(vec![given("taken", "a"), given("new", "a"), given("other", "b"), given("new", "a")]);
    let answers = [Enqueued::Existing, Enqueued::Stored, Enqueued::IdConflict, Enqueued::Existing];
    assert_eq!(bed.broker.enqueue(&request).await.unwrap(), answers);
    let ids: Vec<JobId> = ["taken", "new", "other"].map(|id| JobId::given(id).unwrap()).into();
    bed.broker.delete(&bed.queue, &ids).await.unwrap();
    assert_eq!(bed.broker.enqueue(&request).await.unwrap(), answers);
    assert_eq!(bed.depth(JobState::Ready).await, 0);
}

/// A late duplicate is answered as old.
pub async fn an_older_enqueue_is_refused_as_old(bed: Bed) {
    let mut producer = bed.producer().await;
    let first = producer.next(vec![NewJob::new(JobId::make(), envelope("1"))]);
    producer.stored(first.jobs.clone()).await;
    producer.stored(vec![NewJob::new(JobId::make(), envelope("2"))]).await;
    assert!(matches!(bed.broker.enqueue(&first).await, Err(Error::Old { seq: 1, .. })));
    assert_eq!(bed.depth(JobState::Ready).await, 2);
}

/// An abandoned call leaves a gap, which is not an error.
pub async fn gaps_in_the_sequence_of_a_producer_are_fine(bed: Bed) {
    let mut producer = bed.producer().await;
    for seq in [3, 4, 90] {
        producer.seq = seq - 1;
        producer.stored(vec![NewJob::new(JobId::make(), envelope("x"))]).await;
    }
    assert_eq!(bed.depth(JobState::Ready).await, 3);
}

/// A producer that the broker does not know is not treated as a new one.
pub async fn an_unknown_producer_is_forgotten_and_nothing_is_stored(bed: Bed) {
    bed.put(1).await;
    let name = PartyName::new("0123456789abcdef.0123456789abcdef.99");
    let request = Enqueue::new(bed.queue.clone(), name.clone(), 1, vec![NewJob::new(JobId::make(), envelope("x"))]);
    assert!(matches!(bed.broker.enqueue(&request).await, Err(Error::Forgotten(_))));
    let request = Enqueue::new("a-queue-that-nobody-knows", name, 1, vec![NewJob::new(JobId::make(), envelope("x"))]);
    assert!(matches!(bed.broker.enqueue(&request).await, Err(Error::Forgotten(_))));
    assert_eq!(bed.depth(JobState::Ready).await, 1);
    assert!(!bed.broker.queues().await.unwrap().contains(&"a-queue-that-nobody-knows".to_owned()));
}

/// The same id in another state is still the same job.
pub async fn a_given_id_that_exists_is_answered_in_every_state(bed: Bed) {
    let both = async |bed: &Bed, when: &str| {
        assert_eq!(bed.put_given("order-1", "a").await, Enqueued::Existing, "{when}");
        assert_eq!(bed.put_given("order-1", "b").await, Enqueued::IdConflict, "{when}");
    };
    assert_eq!(bed.put_given("order-1", "a").await, Enqueued::Stored);
    both(&bed, "ready").await;
    let mut lane = bed.lane().await;
    let delivery = lane.claim_one().await;
    both(&bed, "active").await;
    assert!(lane.end(&delivery, nack(Duration::from_millis(1))).await);
    both(&bed, "retry").await;
    let delivery = lane.wait_for_one().await;
    assert!(lane.end(&delivery, Ending::Snooze { delay: Duration::from_millis(1) }).await);
    both(&bed, "scheduled").await;
    let delivery = lane.wait_for_one().await;
    assert!(lane.end(&delivery, Ending::Park { task: "suite.task".to_owned() }).await);
    both(&bed, "parked").await;
    let mut turn = lane.next().claim(1);
    turn.resume = vec!["suite.task".into()];
    let delivery = lane.send(&turn).await.deliveries.pop().expect("it is resumed");
    assert!(lane.end(&delivery, Ending::Bury { reason: BuryReason::Buried, error: None }).await);
    both(&bed, "dead").await;
    assert_eq!(bed.counter(Counter::Enqueued).await, 1);
}

/// The id of a finished job is remembered, with retention and without.
pub async fn a_finished_given_id_is_remembered(bed: Bed) {
    let mut lane = bed.lane().await;
    for (id, keep) in [("gone", None), ("kept", Some(LONG))] {
        assert_eq!(bed.put_given(id, "a").await, Enqueued::Stored);
        let delivery = lane.claim_one().await;
        assert!(lane.end(&delivery, Ending::Ack { result: None, keep }).await);
        assert_eq!(bed.put_given(id, "a").await, Enqueued::Existing, "{id}");
        assert_eq!(bed.put_given(id, "b").await, Enqueued::IdConflict, "{id}");
    }
    assert!(lane.claim(1).await.is_empty());
}

/// The answers of one request are independent.
pub async fn one_conflict_in_a_batch_spoils_no_other(bed: Bed) {
    bed.put_given("a", "1").await;
    let mut producer = bed.producer().await;
    let answers = producer.send(vec![given("b", "1"), given("a", "2"), given("c", "1"), given("a", "1")]).await;
    assert_eq!(answers, [Enqueued::Stored, Enqueued::IdConflict, Enqueued::Stored, Enqueued::Existing]);
    let ids: Vec<String> = bed.ids(JobState::Ready).await.iter().map(ToString::to_string).collect();
    assert_eq!(ids, ["a", "b", "c"]);
}

/// Ids are unique only within their queue.
pub async fn queues_know_nothing_of_each_other(bed: Bed) {
    assert_eq!(bed.put_given("same", "a").await, Enqueued::Stored);
    let first = bed.queue.clone();
    let other = bed.in_queue(&format!("{first}-other"));
    assert_eq!(other.put_given("same", "b").await, Enqueued::Stored);
    let mut lane = other.lane().await;
    let delivery = lane.claim_one().await;
    assert_eq!(delivery.envelope, envelope("b"));
    lane.ack(&[delivery]).await;
    assert!(lane.claim(1).await.is_empty());
    let record = other.broker.show(&first, &JobId::given("same").unwrap()).await.unwrap().expect("the first is untouched");
    assert_eq!((record.state, record.envelope), (JobState::Ready, envelope("a")));
}

/// After a cancel the id is free at once. The new job is delivered once, and not a second time for
/// the cancelled one.
pub async fn a_cancelled_id_can_be_enqueued_again(bed: Bed) {
    let id = JobId::given("again").unwrap();
    let mut lane = bed.lane().await;
    for round in ["first", "second", "third"] {
        assert_eq!(bed.put_given("again", round).await, Enqueued::Stored, "{round}");
        assert_eq!(cancel(&bed, &id).await, Changed::Yes, "{round}");
        assert_eq!(bed.state(&id).await, Some(JobState::Cancelled));
    }
    assert_eq!((bed.depth(JobState::Ready).await, bed.depth(JobState::Cancelled).await), (0, 1));
    assert_eq!(bed.put_given("again", "last").await, Enqueued::Stored);
    assert_eq!((bed.depth(JobState::Ready).await, bed.depth(JobState::Cancelled).await), (1, 0), "its record gives way");
    let held = lane.claim(10).await;
    assert_eq!(held.len(), 1, "once");
    assert_eq!(held[0].envelope, envelope("last"));
    lane.ack(&held).await;
    assert!(lane.claim(10).await.is_empty());
}

/// The same with other priorities and with a delay in between: an id is never twice in `ready`.
pub async fn a_cancelled_id_may_come_back_in_another_line(bed: Bed) {
    use queue_core::broker::{Due, Priority};
    let id = JobId::given("again").unwrap();
    for priority in [Priority::Normal, Priority::Critical, Priority::Low, Priority::Normal] {
        let mut job = given("again", "x");
        job.priority = priority;
        assert_eq!(bed.put_job(job).await, Enqueued::Stored);
        assert_eq!(cancel(&bed, &id).await, Changed::Yes);
        let mut job = given("again", "y");
        job.due = Due::After(LONG);
        assert_eq!(bed.put_job(job).await, Enqueued::Stored);
        assert_eq!(cancel(&bed, &id).await, Changed::Yes);
    }
    let mut job = given("again", "last");
    job.priority = Priority::High;
    assert_eq!(bed.put_job(job).await, Enqueued::Stored);
    let others = bed.put(2).await;
    assert_eq!(bed.depth(JobState::Ready).await, 3);
    let mut lane = bed.lane().await;
    let served: Vec<JobId> = lane.claim(10).await.into_iter().map(|delivery| delivery.id).collect();
    assert_eq!(served, [vec![id], others].concat());
}

/// The cancel of a running job also frees its id. The earlier holder cannot change the new job.
pub async fn an_id_cancelled_while_active_can_be_enqueued_again(bed: Bed) {
    let id = JobId::given("again").unwrap();
    let mut lane = bed.lane().await;
    bed.put_given("again", "old").await;
    let old = lane.claim_one().await;
    assert_eq!(cancel(&bed, &id).await, Changed::WhileActive);
    assert_eq!(bed.put_given("again", "new").await, Enqueued::Stored);
    assert!(!lane.end(&old, ack()).await);
    let new = lane.claim_one().await;
    assert!(new.claim > old.claim && new.envelope == envelope("new"));
    assert!(!lane.end(&old, nack(Duration::ZERO)).await);
    lane.ack(&[new]).await;
}

/// Delete frees the id, of a ready job, of a dead one, of a kept one.
pub async fn a_deleted_id_can_be_enqueued_again(bed: Bed) {
    let id = JobId::given("again").unwrap();
    let mut lane = bed.lane().await;
    let delete = async || bed.broker.delete(&bed.queue, std::slice::from_ref(&id)).await.unwrap()[0];
    bed.put_given("again", "ready").await;
    assert!(delete().await && bed.show(&id).await.is_none());
    assert_eq!(bed.put_given("again", "dead").await, Enqueued::Stored);
    let delivery = lane.claim_one().await;
    assert_eq!(delivery.envelope, envelope("dead"));
    assert!(lane.end(&delivery, Ending::Bury { reason: BuryReason::Buried, error: None }).await);
    assert!(delete().await && bed.show(&id).await.is_none());
    assert_eq!(bed.put_given("again", "kept").await, Enqueued::Stored);
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, Ending::Ack { result: None, keep: Some(LONG) }).await);
    assert!(delete().await && bed.show(&id).await.is_none());
    assert_eq!(bed.put_given("again", "last").await, Enqueued::Stored);
    let held = lane.claim(10).await;
    assert_eq!(held.len(), 1, "once");
    assert_eq!(held[0].envelope, envelope("last"));
}

/// An expired id is free.
pub async fn an_expired_id_can_be_enqueued_again(bed: Bed) {
    let mut lane = bed.lane().await;
    bed.put_given("again", "old").await;
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, Ending::Expire).await);
    assert_eq!(bed.put_given("again", "new").await, Enqueued::Stored);
    assert_eq!(bed.depth(JobState::Expired).await, 0, "its record gives way");
    assert_eq!(lane.claim_one().await.envelope, envelope("new"));
}

/// A requeued job still has its id.
pub async fn a_requeued_id_is_answered_as_existing(bed: Bed) {
    let id = JobId::given("again").unwrap();
    let mut lane = bed.lane().await;
    bed.put_given("again", "a").await;
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, Ending::Bury { reason: BuryReason::Buried, error: None }).await);
    assert_eq!(bed.broker.requeue(&bed.queue, std::slice::from_ref(&id)).await.unwrap(), [true]);
    assert_eq!(bed.put_given("again", "a").await, Enqueued::Existing);
    assert_eq!(bed.put_given("again", "b").await, Enqueued::IdConflict);
    assert_eq!(lane.claim(10).await.len(), 1);
}

/// A request without jobs is answered.
pub async fn an_enqueue_of_nothing_is_answered_with_nothing(bed: Bed) {
    assert!(bed.producer().await.send(Vec::new()).await.is_empty());
}

/// Jobs are stored with every requested durability. The reported durability is at least that of the
/// broker.
pub async fn a_confirmed_enqueue_reports_how_safe_its_jobs_are(bed: Bed) {
    let producer = bed.producer().await;
    let request = producer.next(vec![NewJob::new(JobId::make(), envelope("safe"))]);
    let asked = Confirm { durability: Durability::PowerLoss, replicas: 0 };
    for _ in 0..2 {
        let (answers, confirmed) = bed.broker.enqueue_confirmed(&request, &asked).await.unwrap();
        assert_eq!(answers, [Enqueued::Stored]);
        assert!(confirmed.durability >= bed.broker.durability().await.unwrap(), "{confirmed:?}");
    }
    assert_eq!(bed.lane().await.claim(10).await.len(), 1);
}

/// A broker that accepts jobs reports no trouble.
pub async fn a_broker_that_takes_jobs_reports_no_trouble(bed: Bed) {
    bed.put(1).await;
    let condition = bed.broker.condition().await.unwrap();
    assert!(condition.trouble.is_none() && !condition.is_full() && !condition.is_lost(), "{condition:?}");
}

async fn cancel(bed: &Bed, id: &JobId) -> Changed {
    bed.broker.cancel(&bed.queue, std::slice::from_ref(id)).await.unwrap().remove(0)
}
