//! What people and applications do to jobs, and what they see.
#![allow(missing_docs, reason = "the names of the cases say it")]

use std::time::Duration;

use queue_core::{
    JobId,
    broker::{BuryReason, CancelAnswer, Due, Ending, Enqueued, Extend, State, SweepLimits},
};

use super::{LONG, Subject, ack, given, ids_of, job};

async fn cancel(subject: &Subject, id: &JobId) -> CancelAnswer {
    subject.broker.cancel(&subject.queue, std::slice::from_ref(id)).await.unwrap()[0]
}

async fn delete(subject: &Subject, id: &JobId) -> bool {
    subject.broker.delete(&subject.queue, std::slice::from_ref(id)).await.unwrap()[0]
}

fn buried() -> Ending {
    Ending::Bury { reason: BuryReason::Buried, error: Some("beyond repair".to_owned()) }
}

pub async fn a_cancelled_ready_job_is_not_served(subject: Subject) {
    let ids = subject.store(3).await;
    assert_eq!(cancel(&subject, &ids[1]).await, CancelAnswer::Cancelled);
    assert_eq!(subject.depth(State::Ready).await, 2, "a tomb is not counted");
    assert_eq!(ids_of(&subject.lane().await.claim(9).await.deliveries), [ids[0].clone(), ids[2].clone()]);
    assert_eq!(subject.state(&ids[1]).await, Some(State::Cancelled));
}

pub async fn a_cancelled_waiting_job_is_not_served(subject: Subject) {
    let mut later = job();
    later.due = Due::After(Duration::from_millis(30));
    let id = later.id.clone();
    subject.producer().await.send_one(later).await;
    assert_eq!(cancel(&subject, &id).await, CancelAnswer::Cancelled);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(subject.lane().await.claim(1).await.deliveries.is_empty());
}

pub async fn a_cancelled_active_job_is_told_to_its_lane(subject: Subject) {
    let id = subject.store(1).await.remove(0);
    let mut lane = subject.lane().await;
    let delivery = lane.claim_one().await;
    assert_eq!(cancel(&subject, &id).await, CancelAnswer::CancelledActive);
    let beat = Extend::new(subject.queue.clone(), lane.name.clone(), lane.seq, LONG);
    let extended = subject.broker.extend(&[beat]).await.remove(0).unwrap();
    assert_eq!(extended.cancelled, [(id.clone(), delivery.claim)]);
    assert_eq!(lane.end(&[delivery], ack()).await.stale, [0]);
    assert_eq!(subject.state(&id).await, Some(State::Cancelled));
}

pub async fn a_cancelled_id_may_be_used_again(subject: Subject) {
    let mut producer = subject.producer().await;
    producer.send_one(given("again", 1)).await;
    let id = JobId::given("again").unwrap();
    cancel(&subject, &id).await;
    assert_eq!(producer.send_one(given("again", 2)).await, Enqueued::Stored, "with another payload, too");
    assert_eq!(subject.state(&id).await, Some(State::Ready));
}

pub async fn a_cancelled_id_is_served_once_when_it_is_enqueued_again(subject: Subject) {
    let mut producer = subject.producer().await;
    let id = JobId::given("tomb").unwrap();
    // Ready, cancelled, and enqueued again: into the same list, another one, and for later.
    producer.send_one(given("tomb", 1)).await;
    cancel(&subject, &id).await;
    producer.send_one(given("tomb", 2)).await;
    cancel(&subject, &id).await;
    let mut high = given("tomb", 3);
    high.priority = queue_core::broker::Priority::High;
    producer.send_one(high).await;
    cancel(&subject, &id).await;
    let mut later = given("tomb", 4);
    later.due = Due::After(Duration::from_millis(20));
    let envelope = later.envelope.clone();
    producer.send_one(later).await;
    let mut lane = subject.lane().await;
    let delivery = lane.claim_when_due().await;
    assert_eq!(delivery.envelope, envelope);
    assert!(lane.claim(9).await.deliveries.is_empty(), "once");
    lane.end_one(&delivery, ack()).await;
    assert_eq!(subject.depth(State::Ready).await, 0);
}

pub async fn a_cancelled_parked_job_is_gone(subject: Subject) {
    let id = subject.store(1).await.remove(0);
    let mut lane = subject.lane().await;
    let delivery = lane.claim_one().await;
    lane.end_one(&delivery, Ending::Park { task: "unknown".to_owned() }).await;
    assert_eq!(subject.state(&id).await, Some(State::Parked));
    assert_eq!(cancel(&subject, &id).await, CancelAnswer::Cancelled);
    let mut turn = lane.next().claim(1);
    turn.resume = vec!["unknown".into()];
    let answer = lane.send(&turn).await;
    assert!(answer.deliveries.is_empty() && !answer.parked);
}

pub async fn a_cancel_of_what_has_ended_is_not_found(subject: Subject) {
    let mut lane = subject.lane().await;
    let (done, dead) = (subject.store(1).await.remove(0), subject.store(1).await.remove(0));
    let held = lane.claim(2).await.deliveries;
    lane.end_one(&held[0], Ending::Ack { result: None, keep: Some(LONG) }).await;
    lane.end_one(&held[1], buried()).await;
    for id in [&done, &dead, &JobId::make()] {
        assert_eq!(cancel(&subject, id).await, CancelAnswer::NotFound);
    }
    assert_eq!((subject.state(&done).await, subject.state(&dead).await), (Some(State::Done), Some(State::Dead)));
}

pub async fn a_deleted_id_may_be_used_again(subject: Subject) {
    let mut producer = subject.producer().await;
    let id = JobId::given("mine").unwrap();
    let mut lane = subject.lane().await;
    // Ready, done and kept, dead: each deleted, each used again.
    producer.send_one(given("mine", 1)).await;
    assert!(delete(&subject, &id).await);
    assert_eq!(subject.state(&id).await, None);
    assert_eq!(producer.send_one(given("mine", 2)).await, Enqueued::Stored);
    let delivery = lane.claim_one().await;
    lane.end_one(&delivery, Ending::Ack { result: None, keep: Some(LONG) }).await;
    assert_eq!(producer.send_one(given("mine", 2)).await, Enqueued::Existing);
    assert!(delete(&subject, &id).await);
    assert_eq!(producer.send_one(given("mine", 3)).await, Enqueued::Stored);
    let delivery = lane.claim_one().await;
    lane.end_one(&delivery, buried()).await;
    assert!(delete(&subject, &id).await);
    assert_eq!(producer.send_one(given("mine", 4)).await, Enqueued::Stored);
    let delivery = lane.claim_one().await;
    assert_eq!((delivery.attempts, lane.claim(9).await.deliveries.len()), (0, 0));
    assert!(!delete(&subject, &JobId::make()).await);
}

pub async fn an_expired_id_may_be_used_again(subject: Subject) {
    let mut producer = subject.producer().await;
    producer.send_one(given("late", 1)).await;
    let mut lane = subject.lane().await;
    let delivery = lane.claim_one().await;
    lane.end_one(&delivery, Ending::Expire).await;
    assert_eq!(producer.send_one(given("late", 2)).await, Enqueued::Stored);
    assert_eq!(subject.state(&delivery.id).await, Some(State::Ready));
    assert_eq!(subject.depth(State::Expired).await, 0, "its record has given way");
}

pub async fn a_dead_id_is_kept_and_a_requeued_one_runs_again(subject: Subject) {
    let mut producer = subject.producer().await;
    producer.send_one(given("dead", 1)).await;
    let mut lane = subject.lane().await;
    let delivery = lane.claim_one().await;
    lane.end_one(&delivery, buried()).await;
    assert_eq!(producer.send_one(given("dead", 1)).await, Enqueued::Existing);
    assert_eq!(producer.send_one(given("dead", 2)).await, Enqueued::IdConflict);
    let ids = [delivery.id.clone(), JobId::make()];
    assert_eq!(subject.broker.requeue(&subject.queue, &ids).await.unwrap(), [true, false]);
    assert_eq!(subject.broker.requeue(&subject.queue, &ids[..1]).await.unwrap(), [false]);
    assert_eq!(producer.send_one(given("dead", 1)).await, Enqueued::Existing);
    let again = lane.claim_one().await;
    assert_eq!((again.id.clone(), again.attempts, again.crashes), (delivery.id, 0, 0));
    lane.end_one(&again, ack()).await;
    assert_eq!((subject.depth(State::Dead).await, subject.counter("requeued").await), (0, 1));
}

pub async fn an_active_job_is_not_deleted(subject: Subject) {
    subject.store(1).await;
    let mut lane = subject.lane().await;
    let delivery = lane.claim_one().await;
    assert!(!delete(&subject, &delivery.id).await);
    lane.end_one(&delivery, ack()).await;
}

pub async fn every_state_is_listed_in_pages(subject: Subject) {
    let mut lane = subject.lane().await;
    let endings = [
        (State::Retry, Ending::Nack { delay: LONG, error: "later".to_owned() }),
        (State::Scheduled, Ending::Snooze { delay: LONG }),
        (State::Parked, Ending::Park { task: "unknown".to_owned() }),
        (State::Dead, buried()),
        (State::Done, Ending::Ack { result: None, keep: Some(LONG) }),
    ];
    for (state, ending) in endings {
        subject.store(5).await;
        let held = lane.claim(5).await.deliveries;
        lane.end(&held, ending).await;
        assert_pages(&subject, state, 5).await;
    }
    subject.store(5).await;
    lane.claim(5).await;
    assert_pages(&subject, State::Active, 5).await;
    let ready = subject.store(5).await;
    assert_pages(&subject, State::Ready, 5).await;
    for id in &ready {
        cancel(&subject, id).await;
    }
    // In Redis all that ended share a list: a page may hold fewer of one state.
    let cancelled = subject.broker.list(&subject.queue, State::Cancelled, 0, 100).await.unwrap();
    assert_eq!(ids_of_records(&cancelled.jobs).len(), 5);
}

fn ids_of_records(jobs: &[queue_core::broker::JobRecord]) -> Vec<JobId> {
    jobs.iter().map(|job| job.id.clone()).collect()
}

async fn assert_pages(subject: &Subject, state: State, count: usize) {
    let mut seen = Vec::new();
    let mut offset = 0;
    loop {
        let page = subject.broker.list(&subject.queue, state, offset, 2).await.unwrap();
        assert!(page.jobs.len() <= 2 && page.jobs.iter().all(|job| job.state == state && !job.envelope.is_empty()), "{state:?}");
        seen.extend(ids_of_records(&page.jobs));
        match page.next {
            Some(next) => offset = next,
            None => break,
        }
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), count, "{state:?}");
}

pub async fn statistics_add_up(subject: Subject) {
    let mut lane = subject.lane().await;
    subject.store(10).await;
    let held = lane.claim(6).await.deliveries;
    lane.end(&held[..2], ack()).await;
    lane.end(&held[2..3], buried()).await;
    lane.end(&held[3..4], Ending::Nack { delay: LONG, error: String::new() }).await;
    let stats = subject.broker.stats(&subject.queue).await.unwrap();
    let depth = |state| stats.depth.get(&state).copied().unwrap_or(0);
    assert_eq!([State::Ready, State::Active, State::Dead, State::Retry].map(depth), [4, 2, 1, 1]);
    let counter = |name: &str| stats.counters.get(name).copied().unwrap_or(0);
    assert_eq!(["enqueued", "done", "dead", "failed"].map(counter), [10, 2, 1, 2]);
    assert_eq!(counter("enqueued"), stats.depth.values().sum::<u64>() + counter("done"));
}

pub async fn the_queue_is_registered(subject: Subject) {
    subject.store(1).await;
    assert!(subject.broker.queues().await.unwrap().contains(&subject.queue.to_string()));
}

pub async fn a_sweep_removes_what_is_past_its_time(subject: Subject) {
    let mut producer = subject.producer().await;
    producer.send_one(given("short", 1)).await;
    let mut lane = subject.lane().await;
    let delivery = lane.claim_one().await;
    lane.end_one(&delivery, ack()).await;
    let kept = subject.broker.sweep(&subject.queue, &SweepLimits::default()).await.unwrap();
    assert!(kept.is_empty(), "{kept:?}");
    let limits = SweepLimits { tombstones: Duration::ZERO, producers: Duration::ZERO, ..SweepLimits::default() };
    let swept = subject.broker.sweep(&subject.queue, &limits).await.unwrap();
    assert_eq!((swept.tombstones, swept.producers), (1, 1));
    assert_eq!(subject.producer().await.send_one(given("short", 2)).await, Enqueued::Stored);
    let request = producer.request(vec![job()]);
    assert!(matches!(subject.broker.enqueue(&request).await, Err(queue_core::Error::Forgotten(_))));
}

pub async fn dead_jobs_over_the_limit_are_evicted_and_counted(subject: Subject) {
    let ids = subject.store(5).await;
    let mut lane = subject.lane().await;
    for delivery in lane.claim(5).await.deliveries {
        lane.end_one(&delivery, buried()).await;
    }
    let one = subject.show(&ids[0]).await.unwrap().envelope.len() as u64;
    let limits = SweepLimits { dead_bytes: one * 2, ..SweepLimits::default() };
    let swept = subject.broker.sweep(&subject.queue, &limits).await.unwrap();
    assert_eq!((swept.dead, subject.depth(State::Dead).await), (3, 2));
    assert_eq!(subject.counter("dead_evicted").await, 3);
}
