//! What a turn promises.
#![allow(missing_docs, reason = "the names of the cases say it")]

use std::{collections::BTreeSet, time::Duration};

use queue_core::{
    Error, JobId,
    broker::{Due, Ending, MAX_BYTES, NewJob, PartyName, Priority, State, Turn},
};

use super::{LONG, Subject, ack, envelope, finish, ids_of, job};

fn due(due: Due) -> NewJob {
    let mut job = job();
    job.due = due;
    job
}

pub async fn a_claim_gives_each_job_to_one_lane(subject: Subject) {
    let ids = subject.store(30).await;
    let (mut one, mut other) = (subject.lane().await, subject.lane().await);
    let mut seen = ids_of(&one.claim(20).await.deliveries);
    assert_eq!(seen.len(), 20);
    seen.extend(ids_of(&other.claim(20).await.deliveries));
    assert_eq!(seen, ids);
    assert_eq!(subject.depth(State::Active).await, 30);
}

pub async fn a_replayed_turn_gives_the_same_and_applies_nothing_twice(subject: Subject) {
    subject.store(3).await;
    let mut lane = subject.lane().await;
    let first = lane.claim(2).await;
    let turn = lane.next().claim(2).finish(first.deliveries.iter().map(|delivery| finish(delivery, ack())).collect());
    let answer = lane.send(&turn).await;
    let again = lane.send(&turn).await;
    assert_eq!((&again.deliveries, &again.stale), (&answer.deliveries, &answer.stale));
    assert_eq!(answer.deliveries.len(), 1);
    assert_eq!(subject.counter("done").await, 2);
}

pub async fn a_replayed_turn_voids_what_was_taken_away_since(subject: Subject) {
    let ids = subject.store(2).await;
    let mut lane = subject.lane().await;
    let turn = lane.next().claim(2);
    lane.send(&turn).await;
    subject.broker.cancel(&subject.queue, &ids[..1]).await.unwrap();
    let again = lane.send(&turn).await;
    assert_eq!(again.deliveries.iter().map(|delivery| delivery.void).collect::<Vec<_>>(), [true, false]);
    lane.end(&again.deliveries[..1], Ending::Void).await;
    assert_eq!(subject.state(&ids[0]).await, Some(State::Cancelled));
}

pub async fn a_turn_out_of_order_is_refused(subject: Subject) {
    let mut lane = subject.lane().await;
    let first = lane.next();
    lane.send(&first).await;
    let second = lane.next();
    lane.send(&second).await;
    assert!(matches!(subject.broker.turn(&first).await, Err(Error::Old { .. })));
    lane.seq += 1;
    let skipped = lane.next();
    assert!(matches!(subject.broker.turn(&skipped).await, Err(Error::Forgotten(_))));
}

pub async fn an_unknown_worker_is_forgotten(subject: Subject) {
    subject.store(1).await;
    let turn = Turn::new(subject.queue.clone(), PartyName::new("nobody.1.1"), 1, LONG).claim(1);
    assert!(matches!(subject.broker.turn(&turn).await, Err(Error::Forgotten(_))));
    assert_eq!(subject.depth(State::Ready).await, 1);
}

pub async fn higher_priorities_are_served_first(subject: Subject) {
    let mut jobs = Vec::new();
    for priority in [Priority::Low, Priority::Normal, Priority::Critical, Priority::High, Priority::Normal] {
        let mut job = job();
        job.priority = priority;
        jobs.push(job);
    }
    let ids: Vec<JobId> = jobs.iter().map(|job| job.id.clone()).collect();
    subject.producer().await.send(jobs).await;
    let mut lane = subject.lane().await;
    let mut served = ids_of(&lane.claim(2).await.deliveries);
    served.extend(ids_of(&lane.claim(9).await.deliveries));
    assert_eq!(served, [2, 3, 1, 4, 0].map(|position| ids[position].clone()));
    assert_eq!(subject.show(&ids[3]).await.unwrap().priority, Priority::High);
}

pub async fn a_delayed_job_is_not_served_early(subject: Subject) {
    let delay = Duration::from_millis(150);
    let start = std::time::Instant::now();
    subject.producer().await.send_one(due(Due::After(delay))).await;
    let mut lane = subject.lane().await;
    assert!(lane.claim(1).await.deliveries.is_empty());
    lane.claim_when_due().await;
    assert!(start.elapsed() >= delay);
}

pub async fn a_time_that_is_past_means_now(subject: Subject) {
    subject.producer().await.send_one(due(Due::AtMs(1_000))).await;
    assert_eq!(subject.lane().await.claim(1).await.deliveries.len(), 1);
}

pub async fn a_retry_and_a_schedule_are_due_in_the_order_of_their_times(subject: Subject) {
    let mut producer = subject.producer().await;
    let (late, early) = (due(Due::After(Duration::from_millis(80))), due(Due::After(Duration::from_millis(20))));
    let ids = [early.id.clone(), late.id.clone()];
    producer.send(vec![late, early]).await;
    let mut lane = subject.lane().await;
    assert_eq!([lane.claim_when_due().await.id, lane.claim_when_due().await.id], ids);
}

pub async fn the_next_due_time_is_told(subject: Subject) {
    subject.producer().await.send_one(due(Due::After(LONG))).await;
    let next = subject.lane().await.claim(1).await.next_due.expect("a job waits");
    assert!(next <= LONG && next > LONG / 2, "{next:?}");
}

pub async fn an_answer_is_bounded_in_bytes(subject: Subject) {
    let mut producer = subject.producer().await;
    for _ in 0..12 {
        producer.send_one(NewJob::new(JobId::make(), envelope(200 * 1024))).await;
    }
    let mut lane = subject.lane().await;
    let mut served = BTreeSet::new();
    let mut turns = 0;
    while served.len() < 12 {
        let answer = lane.claim(100).await;
        let bytes: usize = answer.deliveries.iter().map(|delivery| delivery.envelope.len()).sum();
        assert!(bytes <= MAX_BYTES, "{bytes}");
        assert_eq!(answer.more, served.len() + answer.deliveries.len() < 12);
        served.extend(ids_of(&answer.deliveries));
        turns += 1;
        assert!(turns < 12, "several fit into one answer");
    }
}

pub async fn a_single_large_job_is_served(subject: Subject) {
    let mut job = job();
    job.envelope = vec![1; MAX_BYTES + 1000];
    subject.producer().await.send_one(job).await;
    assert_eq!(subject.lane().await.claim(5).await.deliveries[0].envelope.len(), MAX_BYTES + 1000);
}

pub async fn a_paused_queue_hands_out_nothing(subject: Subject) {
    subject.store(1).await;
    let mut lane = subject.lane().await;
    subject.broker.set_paused(&subject.queue, true).await.unwrap();
    let answer = lane.claim(1).await;
    assert!(answer.paused && answer.deliveries.is_empty() && !answer.more);
    assert!(subject.broker.stats(&subject.queue).await.unwrap().paused);
    subject.broker.set_paused(&subject.queue, false).await.unwrap();
    let delivery = lane.claim_one().await;
    subject.broker.set_paused(&subject.queue, true).await.unwrap();
    lane.end_one(&delivery, ack()).await;
}

pub async fn claim_numbers_grow(subject: Subject) {
    subject.store(1).await;
    let (mut one, mut other) = (subject.lane().await, subject.lane().await);
    let mut last = 0;
    for round in 0..6 {
        let lane = if round % 2 == 0 { &mut one } else { &mut other };
        let delivery = lane.claim_one().await;
        assert!(delivery.claim > last);
        last = delivery.claim;
        lane.end_one(&delivery, Ending::Release).await;
    }
}

pub async fn finishing_and_claiming_are_one_turn(subject: Subject) {
    let ids = subject.store(2).await;
    let mut lane = subject.lane().await;
    let delivery = lane.claim_one().await;
    let turn = lane.next().claim(5).finish(vec![finish(&delivery, ack())]);
    assert_eq!(ids_of(&lane.send(&turn).await.deliveries), ids[1..]);
}

async fn hinted(hints: &mut queue_core::broker::Hints) -> queue_core::broker::Hint {
    tokio::time::timeout(crate::patience::PATIENCE, hints.next()).await.expect("a hint comes")
}

/// Subscribing takes effect a moment later, and may itself be announced.
async fn listening(subject: &Subject) -> queue_core::broker::Hints {
    let mut hints = subject.broker.hints(&subject.queue);
    let mut producer = subject.producer().await;
    let mut lane = subject.lane().await;
    let until = std::time::Instant::now() + crate::patience::PATIENCE;
    loop {
        producer.send_one(job()).await;
        let heard = tokio::time::timeout(Duration::from_millis(100), hints.next()).await.is_ok();
        let answer = lane.claim(100).await;
        lane.end(&answer.deliveries, ack()).await;
        if heard {
            break;
        }
        assert!(std::time::Instant::now() < until, "no hint was ever heard");
    }
    // What was announced before is taken in.
    while tokio::time::timeout(Duration::from_millis(200), hints.next()).await.is_ok() {}
    hints
}

pub async fn a_hint_comes_for_a_new_job(subject: Subject) {
    let mut hints = listening(&subject).await;
    subject.store(1).await;
    assert_eq!(hinted(&mut hints).await.due, None);
}

pub async fn a_hint_comes_for_a_job_that_is_due_earlier(subject: Subject) {
    let mut hints = listening(&subject).await;
    subject.producer().await.send_one(due(Due::After(LONG * 2))).await;
    let first = hinted(&mut hints).await.due.expect("it is for later");
    subject.producer().await.send_one(due(Due::After(LONG))).await;
    let second = hinted(&mut hints).await.due.expect("it is for later");
    assert!(second < first);
}

pub async fn more_than_a_batch_of_due_jobs_is_promoted(subject: Subject) {
    let mut producer = subject.producer().await;
    for _ in 0..3 {
        producer.send((0..400).map(|_| due(Due::After(Duration::from_millis(20)))).collect()).await;
    }
    let mut lane = subject.lane().await;
    let mut served = 0;
    let until = std::time::Instant::now() + crate::patience::PATIENCE;
    while served < 1200 {
        served += lane.claim(500).await.deliveries.len();
        assert!(std::time::Instant::now() < until, "only {served} were served");
    }
    assert_eq!(served, 1200);
}
