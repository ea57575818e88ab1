//! What the endings of deliveries do.
#![allow(missing_docs, reason = "the names of the cases say it")]

use std::time::Duration;

use queue_core::broker::{BuryReason, Ending, KeepLimits, Priority, State, SweepLimits};

use super::{Subject, ack, envelope, finish, given, ids_of, job};

const SHORT: Duration = Duration::from_millis(20);
const HOUR: Duration = Duration::from_secs(3600);

fn nack(error: &str) -> Ending {
    Ending::Nack { delay: SHORT, error: error.to_owned() }
}

pub async fn an_ack_leaves_nothing(subject: Subject) {
    let ids = subject.store(3).await;
    let mut lane = subject.lane().await;
    let answer = lane.claim(3).await;
    lane.end(&answer.deliveries, ack()).await;
    for id in &ids {
        assert_eq!(subject.state(id).await, None);
    }
    assert_eq!(subject.counter("done").await, 3);
    assert!(subject.broker.stats(&subject.queue).await.unwrap().depth.values().all(|depth| *depth == 0));
}

pub async fn an_ack_with_retention_keeps_the_result(subject: Subject) {
    let id = subject.store(1).await.remove(0);
    let mut lane = subject.lane().await;
    let delivery = lane.claim_one().await;
    lane.end_one(&delivery, Ending::Ack { result: Some(vec![0, 1, 255]), keep: Some(HOUR) }).await;
    let record = subject.show(&id).await.expect("it is kept");
    assert_eq!((record.state, record.result.as_deref()), (State::Done, Some(&[0, 1, 255][..])));
    assert_eq!(record.envelope, envelope(100));
    assert!(record.at_ms.is_some());
    assert_eq!(subject.depth(State::Done).await, 1);
}

pub async fn retention_ends(subject: Subject) {
    let id = subject.store(1).await.remove(0);
    let mut lane = subject.lane().await;
    let delivery = lane.claim_one().await;
    lane.end_one(&delivery, Ending::Ack { result: None, keep: Some(SHORT) }).await;
    crate::patience::until("its retention to end", || async {
        subject.broker.sweep(&subject.queue, &SweepLimits::default()).await.unwrap();
        subject.state(&id).await.is_none()
    })
    .await;
    assert_eq!(subject.depth(State::Done).await, 0);
}

pub async fn no_more_is_kept_than_the_limit(subject: Subject) {
    let ids = subject.store(10).await;
    let mut lane = subject.lane().await;
    for delivery in lane.claim(10).await.deliveries {
        let mut turn = lane.next().finish(vec![finish(&delivery, Ending::Ack { result: None, keep: Some(HOUR) })]);
        turn.keep = KeepLimits { count: 4, ..KeepLimits::default() };
        lane.send(&turn).await;
    }
    assert_eq!(subject.depth(State::Done).await, 4);
    assert_eq!(subject.state(&ids[5]).await, None, "the oldest go first");
    assert_eq!(subject.state(&ids[6]).await, Some(State::Done));
}

pub async fn a_nack_waits_and_counts_an_attempt(subject: Subject) {
    let id = subject.store(1).await.remove(0);
    let mut lane = subject.lane().await;
    let delivery = lane.claim_one().await;
    assert_eq!((delivery.attempts, delivery.crashes, delivery.snoozes), (0, 0, 0));
    lane.end_one(&delivery, Ending::Nack { delay: HOUR, error: "broken".to_owned() }).await;
    let record = subject.show(&id).await.unwrap();
    assert_eq!((record.state, record.attempts), (State::Retry, 1));
    assert_eq!(record.failures[0].message, "broken");
    assert!(record.at_ms.unwrap() > record.failures[0].at_ms);
    assert!(lane.claim(1).await.deliveries.is_empty());
}

pub async fn a_snooze_counts_a_snooze_alone(subject: Subject) {
    subject.store(1).await;
    let mut lane = subject.lane().await;
    let delivery = lane.claim_one().await;
    lane.end_one(&delivery, Ending::Snooze { delay: SHORT }).await;
    assert_eq!(subject.state(&delivery.id).await, Some(State::Scheduled));
    let again = lane.claim_when_due().await;
    assert_eq!((again.attempts, again.crashes, again.snoozes), (0, 0, 1));
    lane.end_one(&again, ack()).await;
    assert_eq!((subject.counter("snoozed").await, subject.counter("failed").await), (1, 0));
}

pub async fn a_repeat_clears_the_counters(subject: Subject) {
    let mut job = job();
    job.priority = Priority::High;
    subject.producer().await.send_one(job).await;
    let mut lane = subject.lane().await;
    let delivery = lane.claim_one().await;
    lane.end_one(&delivery, nack("once")).await;
    let delivery = lane.claim_when_due().await;
    lane.end_one(&delivery, Ending::Snooze { delay: SHORT }).await;
    let delivery = lane.claim_when_due().await;
    assert_eq!((delivery.attempts, delivery.snoozes), (1, 1));
    lane.end_one(&delivery, Ending::Repeat { delay: SHORT }).await;
    let delivery = lane.claim_when_due().await;
    assert_eq!((delivery.attempts, delivery.crashes, delivery.snoozes), (0, 0, 0));
    let record = subject.show(&delivery.id).await.unwrap();
    assert!(record.failures.is_empty());
    assert_eq!(record.priority, Priority::High, "its priority stays");
}

pub async fn a_repeat_without_a_delay_goes_to_the_tail(subject: Subject) {
    let ids = subject.store(2).await;
    let mut lane = subject.lane().await;
    let delivery = lane.claim_one().await;
    lane.end_one(&delivery, Ending::Repeat { delay: Duration::ZERO }).await;
    assert_eq!(ids_of(&lane.claim(2).await.deliveries), [ids[1].clone(), ids[0].clone()]);
}

pub async fn a_bury_keeps_reason_history_and_payload(subject: Subject) {
    let id = subject.store(1).await.remove(0);
    let mut lane = subject.lane().await;
    let delivery = lane.claim_one().await;
    lane.end_one(&delivery, nack("first")).await;
    let delivery = lane.claim_when_due().await;
    lane.end_one(&delivery, Ending::Bury { reason: BuryReason::Failed, error: Some("last".to_owned()) }).await;
    let record = subject.show(&id).await.unwrap();
    assert_eq!((record.state, record.reason, record.attempts), (State::Dead, Some(BuryReason::Failed), 2));
    assert_eq!(record.failures.iter().map(|failure| failure.message.as_str()).collect::<Vec<_>>(), ["first", "last"]);
    assert_eq!(record.envelope, envelope(100));
    assert_eq!((subject.depth(State::Dead).await, subject.counter("dead").await), (1, 1));
}

pub async fn only_the_last_failures_are_kept(subject: Subject) {
    let id = subject.store(1).await.remove(0);
    let mut lane = subject.lane().await;
    for round in 0..13 {
        let delivery = lane.claim_when_due().await;
        assert_eq!(delivery.attempts, round);
        lane.end_one(&delivery, Ending::Nack { delay: Duration::from_millis(1), error: format!("failure {round}") }).await;
    }
    let failures = subject.show(&id).await.unwrap().failures;
    assert_eq!((failures.len(), failures[0].message.as_str()), (10, "failure 3"));
}

pub async fn a_cancel_by_the_handler_keeps_its_reason(subject: Subject) {
    let id = subject.store(1).await.remove(0);
    let mut lane = subject.lane().await;
    let delivery = lane.claim_one().await;
    lane.end_one(&delivery, Ending::Cancel { reason: "paid meanwhile".to_owned() }).await;
    let record = subject.show(&id).await.unwrap();
    assert_eq!((record.state, record.note.as_deref()), (State::Cancelled, Some("paid meanwhile")));
    assert_eq!(subject.counter("cancelled").await, 1);
}

pub async fn an_expired_job_is_kept_for_people(subject: Subject) {
    let id = subject.store(1).await.remove(0);
    let mut lane = subject.lane().await;
    let delivery = lane.claim_one().await;
    lane.end_one(&delivery, Ending::Expire).await;
    assert_eq!(subject.state(&id).await, Some(State::Expired));
    assert_eq!((subject.depth(State::Expired).await, subject.counter("expired").await), (1, 1));
}

pub async fn a_release_goes_to_the_head_uncharged(subject: Subject) {
    let ids = subject.store(2).await;
    let mut lane = subject.lane().await;
    let delivery = lane.claim_one().await;
    lane.end_one(&delivery, Ending::Release).await;
    let answer = lane.claim(2).await;
    assert_eq!(ids_of(&answer.deliveries), ids);
    assert!(answer.deliveries.iter().all(|delivery| delivery.attempts + delivery.crashes + delivery.snoozes == 0));
}

pub async fn a_stale_ending_changes_nothing(subject: Subject) {
    subject.store(1).await;
    let (mut one, mut other) = (subject.lane().await, subject.lane().await);
    let lost = one.claim_one().await;
    one.end_one(&lost, Ending::Release).await;
    let held = other.claim_one().await;
    for ending in [
        ack(),
        Ending::Ack { result: None, keep: Some(HOUR) },
        nack("no"),
        Ending::Snooze { delay: SHORT },
        Ending::Repeat { delay: SHORT },
        Ending::Bury { reason: BuryReason::Buried, error: None },
        Ending::Cancel { reason: String::new() },
        Ending::Expire,
        Ending::Release,
        Ending::Void,
        Ending::Park { task: "task".to_owned() },
    ] {
        assert_eq!(one.end(std::slice::from_ref(&lost), ending.clone()).await.stale, [0], "{ending:?}");
        let record = subject.show(&held.id).await.unwrap();
        assert_eq!((record.state, record.attempts, record.snoozes), (State::Active, 0, 0), "{ending:?}");
    }
    other.end_one(&held, ack()).await;
}

pub async fn an_ending_counts_once(subject: Subject) {
    subject.store(1).await;
    let mut lane = subject.lane().await;
    let delivery = lane.claim_one().await;
    lane.end_one(&delivery, ack()).await;
    assert_eq!(lane.end(std::slice::from_ref(&delivery), nack("late")).await.stale, [0]);
    assert_eq!(subject.state(&delivery.id).await, None);
}

pub async fn parked_jobs_wait_for_a_lane_that_knows_their_task(subject: Subject) {
    let ids = subject.store(3).await;
    let mut lane = subject.lane().await;
    let answer = lane.claim(3).await;
    let answer = lane.end(&answer.deliveries, Ending::Park { task: "new.task".to_owned() }).await;
    assert!(answer.parked);
    assert_eq!(subject.depth(State::Parked).await, 3);
    assert!(lane.claim(3).await.deliveries.is_empty());
    let mut turn = lane.next().claim(2);
    turn.resume = vec!["other".into(), "new".into(), "new.task".into()];
    let resumed = lane.send(&turn).await;
    assert_eq!(resumed.deliveries.len(), 2);
    assert!(resumed.deliveries.iter().all(|delivery| delivery.attempts + delivery.crashes == 0 && ids.contains(&delivery.id)));
    assert!(resumed.parked);
    lane.end(&resumed.deliveries, ack()).await;
    let mut turn = lane.next().claim(2);
    turn.resume = vec!["new.task".into()];
    assert_eq!(lane.send(&turn).await.deliveries.len(), 1);
    assert!(!lane.claim(0).await.parked);
}

pub async fn one_stale_ending_does_not_harm_the_others(subject: Subject) {
    let mut producer = subject.producer().await;
    producer.send(vec![job(), given("g", 1), job(), job()]).await;
    let mut lane = subject.lane().await;
    let held = lane.claim(4).await.deliveries;
    subject.broker.cancel(&subject.queue, &ids_of(&held[2..3])).await.unwrap();
    let endings = [ack(), ack(), ack(), nack("one of them")];
    let turn = lane.next().finish(held.iter().zip(endings).map(|(delivery, ending)| finish(delivery, ending)).collect());
    assert_eq!(lane.send(&turn).await.stale, [2]);
    assert_eq!(subject.counter("done").await, 2);
    assert_eq!(subject.state(&held[3].id).await, Some(State::Retry));
}

pub async fn errors_of_any_text_come_back(subject: Subject) {
    let id = subject.store(1).await.remove(0);
    let mut lane = subject.lane().await;
    for text in ["", "ümlaut 💥 \0 \r\n", &"x".repeat(8000)] {
        let delivery = lane.claim_when_due().await;
        lane.end_one(&delivery, Ending::Nack { delay: Duration::from_millis(1), error: text.to_owned() }).await;
        assert_eq!(subject.show(&id).await.unwrap().failures.last().unwrap().message, text);
    }
}
