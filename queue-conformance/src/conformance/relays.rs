//! Enqueues by the relay of an outbox. If they are sent again, under the same name or another one,
//! no job is stored twice or overtakes another.

use std::time::Duration;

use queue_core::{
    Error, JobId,
    broker::{BuryReason, Due, Ending, Enqueue, Enqueued, JobState, NewJob, OnConflict, Priority, SweepLimits, Unique, UniqueKey},
};

use super::{
    bed::{Bed, LONG, Producer, envelope, given},
    groups::{group_rule, job, sound},
};
use crate::Changes as _;

const ONE: [u8; 16] = *b"digest of some 1";
const OTHER: [u8; 16] = *b"digest of some 2";

fn plain(text: &str) -> NewJob {
    NewJob::new(JobId::make(), envelope(text))
}

/// One job of each kind.
fn one_of_each() -> Vec<NewJob> {
    let (mut later, mut urgent, mut keyed) = (plain("later"), plain("urgent"), plain("keyed"));
    later.due = Due::After(LONG);
    urgent.priority = Priority::High;
    keyed.unique = Some(Box::new(Unique::new(UniqueKey::of("suite.task", b"relayed")).on_conflict(OnConflict::Skip)));
    vec![plain("plain"), later, urgent, keyed, job("a"), given("given", "a"), plain("last")]
}

async fn send(bed: &Bed, request: &Enqueue) -> Vec<Enqueued> {
    bed.broker.enqueue(request).await.expect("the enqueue is answered")
}

/// A repeated request of a relay gets the same answer if its digest is the same.
pub async fn a_number_is_answered_again_for_the_same_digest_alone(bed: Bed) {
    let mut producer = bed.producer().await;
    let request = producer.next(one_of_each()).relayed(ONE);
    for _ in 0..3 {
        assert_eq!(send(&bed, &request).await, vec![Enqueued::Stored; 7]);
    }
    let is_old = async |request: &Enqueue| matches!(bed.broker.enqueue(request).await, Err(Error::Old { seq: 1, .. }));
    assert!(is_old(&producer.next(vec![plain("new")]).relayed(OTHER)).await, "rows of another time");
    assert!(is_old(&producer.next(vec![plain("new")])).await, "no relay's");
    assert_eq!(bed.stats().await.jobs(), 7);
    // The next number, with different answers.
    producer.seq = 1;
    let request = producer.next(vec![given("given", "b"), given("given", "a"), plain("new")]).relayed(OTHER);
    for _ in 0..2 {
        assert_eq!(send(&bed, &request).await, [Enqueued::IdConflict, Enqueued::Existing, Enqueued::Stored]);
    }
    producer.seq = 0;
    assert!(is_old(&producer.next(one_of_each()).relayed(ONE)).await, "the number before");
    sound(&bed).await;
}

/// A request of an ordinary producer is not treated as that of a relay.
pub async fn a_digest_makes_another_request(bed: Bed) {
    let producer = bed.producer().await;
    send(&bed, &producer.next(vec![plain("x")])).await;
    assert!(matches!(bed.broker.enqueue(&producer.next(vec![plain("x")]).relayed(ONE)).await, Err(Error::Old { .. })));
    assert_eq!(bed.stats().await.jobs(), 1);
}

/// Jobs that are sent again under another name already exist, in any state.
pub async fn a_job_that_the_broker_has_is_stored_no_second_time(bed: Bed) {
    let jobs = one_of_each();
    let mut producer = bed.producer().await;
    assert_eq!(send(&bed, &producer.next(jobs.clone()).relayed(ONE)).await, vec![Enqueued::Stored; 7]);
    let again = async |bed: &Bed, when: &str| {
        let other = bed.producer().await;
        assert_eq!(send(bed, &other.next(jobs.clone()).relayed(ONE)).await, vec![Enqueued::Existing; 7], "{when}");
    };
    again(&bed, "while they wait").await;
    assert_eq!(bed.stats().await.jobs(), 7);
    let mut lane = bed.lane().await;
    let mut held = lane.claim(10).await;
    assert_eq!(held.len(), 6, "one is for later");
    again(&bed, "while they run").await;
    assert!(lane.claim(10).await.is_empty());
    let last = held.pop().expect("six are held");
    assert!(lane.end(&last, Ending::Bury { reason: BuryReason::Buried, error: None }).await);
    let last = held.pop().expect("five are held");
    assert!(lane.end(&last, Ending::Nack { delay: LONG, error: "it failed".to_owned() }).await);
    let last = held.pop().expect("four are held");
    bed.broker.cancel(&bed.queue, std::slice::from_ref(&last.id)).await.unwrap();
    for delivery in &held {
        assert!(lane.end(delivery, Ending::Ack { result: None, keep: Some(LONG) }).await);
    }
    again_but_cancelled_given(&bed, &jobs, &last.id).await;
    producer.seq = 1;
    producer.stored(vec![plain("another")]).await;
    assert_eq!(lane.claim(10).await.len(), 1, "only the new one");
    sound(&bed).await;
}

/// A given id is free when its job was cancelled, as for every enqueue. A generated id is not.
async fn again_but_cancelled_given(bed: &Bed, jobs: &[NewJob], cancelled: &JobId) {
    let other = bed.producer().await;
    let jobs: Vec<NewJob> = jobs.iter().filter(|job| !(job.id.is_given() && job.id == *cancelled)).cloned().collect();
    assert_eq!(send(bed, &other.next(jobs.clone()).relayed(ONE)).await, vec![Enqueued::Existing; jobs.len()], "when they have ended");
}

/// An id that occurs twice in a request is one job.
pub async fn an_id_that_comes_twice_in_a_request_is_one_job(bed: Bed) {
    let producer = bed.producer().await;
    let (twice, grouped) = (plain("x"), job("a"));
    let request = producer.next(vec![twice.clone(), grouped.clone(), twice, grouped]).relayed(ONE);
    assert_eq!(send(&bed, &request).await, [Enqueued::Stored, Enqueued::Stored, Enqueued::Existing, Enqueued::Existing]);
    assert_eq!(bed.depth(JobState::Ready).await, 2);
    sound(&bed).await;
}

/// After a job that its full group refuses, all later jobs of that group are held, of every kind.
pub async fn behind_a_refused_job_its_group_is_held(bed: Bed) {
    group_rule(&bed, "a", |rule| rule.max_size = Some(1)).await;
    let key = || Some(Box::new(Unique::new(UniqueKey::of("suite.task", b"held")).on_conflict(OnConflict::Replace)));
    let mut waits = job("b");
    waits.unique = key();
    bed.put_job(waits.clone()).await;
    let mut replaces = job("a");
    replaces.unique = key();
    let mut given = given("given", "a");
    given.group.clone_from(&job("a").group);
    let producer = bed.producer().await;
    let jobs = vec![job("a"), job("a"), job("b"), replaces.clone(), given.clone(), job("a"), plain("other")];
    let request = producer.next(jobs).relayed(ONE);
    let answers =
        [Enqueued::Stored, Enqueued::GroupFull, Enqueued::Stored, Enqueued::Held, Enqueued::Held, Enqueued::Held, Enqueued::Stored];
    for _ in 0..2 {
        assert_eq!(send(&bed, &request).await, answers);
    }
    for job in [&replaces, &given] {
        assert!(bed.show(&job.id).await.is_none());
    }
    assert_eq!(bed.show(&waits.id).await.unwrap().envelope, waits.envelope, "it was not replaced");
    sound(&bed).await;
}

/// The name of a relay is valid for a month: a request may wait that long for its answer.
pub async fn the_name_of_a_relay_outlives_those_of_others(bed: Bed) {
    let (mut other, producer) = (bed.producer().await, bed.producer().await);
    other.stored(vec![plain("x")]).await;
    let request = producer.next(vec![plain("y")]).relayed(ONE);
    send(&bed, &request).await;
    let limits = SweepLimits { producers: Duration::from_millis(500), ..SweepLimits::default() };
    let mut swept = 0;
    super::bed::eventually("the other one is forgotten", async || {
        swept += bed.broker.sweep(&bed.queue, &limits).await.expect("a sweep is answered").producers;
        (swept > 0).then_some(())
    })
    .await;
    assert!(matches!(bed.broker.enqueue(&other.next(vec![plain("z")])).await, Err(Error::Forgotten(_))));
    assert_eq!(send(&bed, &request).await, [Enqueued::Stored], "it is answered again");
    assert_eq!(bed.stats().await.jobs(), 2);
    // But not forever.
    let limits = SweepLimits { producers: Duration::ZERO, ..SweepLimits::default() };
    super::bed::eventually("the relay is forgotten", async || {
        (bed.broker.sweep(&bed.queue, &limits).await.expect("a sweep is answered").producers > 0).then_some(())
    })
    .await;
    assert!(matches!(bed.broker.enqueue(&request).await, Err(Error::Forgotten(_))));
}

/// Events are appended once for each number.
pub async fn events_of_a_relay_are_appended_once(bed: Bed) {
    let topic = format!("@{}", bed.queue);
    let producer = Producer::on(&bed.broker, &topic).await;
    let request = producer.next(vec![plain("event")]).relayed(ONE);
    for _ in 0..2 {
        assert_eq!(send(&bed, &request).await, [Enqueued::Stored]);
    }
    assert!(matches!(bed.broker.enqueue(&producer.next(vec![plain("event")]).relayed(OTHER)).await, Err(Error::Old { .. })));
    assert_eq!(bed.broker.topic(&bed.queue).await.unwrap().expect("it is there").entries, 1);
}
