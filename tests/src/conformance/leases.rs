//! What leases promise: nobody loses a job that he looks after, and nothing stays with the dead.
#![allow(missing_docs, reason = "the names of the cases say it")]

use std::time::Duration;

use queue_core::{
    Error, JobId,
    broker::{BuryReason, Ending, Extend, ProcessId, State},
};

use super::{LONG, Lane, Subject, ack, ids_of, job, quick_rule};

const INSTANT: Duration = Duration::from_millis(1);

async fn beat(subject: &Subject, lane: &Lane, lease: Duration) -> queue_core::Result<queue_core::broker::Extended> {
    let beats = [Extend::new(subject.queue.clone(), lane.name.clone(), lane.seq, lease)];
    subject.broker.extend(&beats).await.remove(0)
}

async fn until_suspect(subject: &Subject) {
    crate::patience::until("a lease to run out", || async {
        !subject.broker.suspects(&subject.queue, 10).await.unwrap().expired.is_empty()
    })
    .await;
}

pub async fn a_live_lane_is_no_suspect(subject: Subject) {
    subject.store(1).await;
    subject.lane().await.claim(1).await;
    assert!(subject.broker.suspects(&subject.queue, 10).await.unwrap().expired.is_empty());
    assert_eq!(subject.broker.stats(&subject.queue).await.unwrap().workers, 1);
}

pub async fn a_beat_renews_the_lease(subject: Subject) {
    let lane = subject.lane_of(ProcessId::random(), INSTANT).await;
    until_suspect(&subject).await;
    beat(&subject, &lane, LONG).await.unwrap();
    assert!(subject.broker.suspects(&subject.queue, 10).await.unwrap().expired.is_empty());
}

pub async fn a_beat_of_a_lane_that_lost_turns_is_forgotten(subject: Subject) {
    let mut lane = subject.lane().await;
    lane.claim(0).await;
    beat(&subject, &lane, LONG).await.unwrap();
    lane.seq += 1;
    assert!(matches!(beat(&subject, &lane, LONG).await, Err(Error::Forgotten(_))));
}

pub async fn a_renewed_lane_is_not_fenced(subject: Subject) {
    let mut lane = subject.lane_of(ProcessId::random(), INSTANT).await;
    until_suspect(&subject).await;
    let seen = subject.broker.suspects(&subject.queue, 10).await.unwrap().expired;
    beat(&subject, &lane, LONG).await.unwrap();
    assert_eq!(subject.broker.fence(&subject.queue, &seen).await.unwrap(), [false]);
    lane.claim(0).await;
    // Renewed, and run out anew: another deadline than the one that was seen.
    beat(&subject, &lane, INSTANT).await.unwrap();
    until_suspect(&subject).await;
    assert_eq!(subject.broker.fence(&subject.queue, &seen).await.unwrap(), [false]);
}

pub async fn a_fenced_lane_is_forgotten_and_its_endings_with_it(subject: Subject) {
    let id = subject.store(1).await.remove(0);
    let mut lane = subject.lane_of(ProcessId::random(), INSTANT).await;
    let delivery = lane.claim_one().await;
    until_suspect(&subject).await;
    let seen = subject.broker.suspects(&subject.queue, 10).await.unwrap().expired;
    assert_eq!(subject.broker.fence(&subject.queue, &seen).await.unwrap(), [true]);
    let turn = lane.next().finish(vec![super::finish(&delivery, ack())]);
    assert!(matches!(subject.broker.turn(&turn).await, Err(Error::Forgotten(_))));
    assert!(matches!(beat(&subject, &lane, LONG).await, Err(Error::Forgotten(_))));
    assert_eq!(subject.state(&id).await, Some(State::Active), "until it is swept");
    assert_eq!(subject.broker.suspects(&subject.queue, 10).await.unwrap().fenced, 1);
    let reclaimed = subject.broker.sweep_fenced(&subject.queue, &quick_rule()).await.unwrap();
    assert_eq!((reclaimed.charged, reclaimed.released), (1, 0));
}

pub async fn jobs_of_a_dead_process_come_back_charged(subject: Subject) {
    let ids = subject.store(3).await;
    let process = ProcessId::random();
    // Two lanes of one process are judged together.
    let (mut one, mut other) = (subject.lane_of(process, INSTANT).await, subject.lane_of(process, INSTANT).await);
    one.claim(2).await;
    other.claim(1).await;
    crate::patience::until("both leases to run out", || async {
        subject.broker.suspects(&subject.queue, 10).await.unwrap().expired.len() == 2
    })
    .await;
    let reclaimed = subject.reclaim().await;
    assert_eq!((reclaimed.charged, reclaimed.released, reclaimed.forgotten), (3, 0, 2));
    for id in &ids {
        let record = subject.show(id).await.unwrap();
        assert_eq!((record.crashes, record.attempts), (1, 0));
        assert_eq!(record.failures.len(), 1);
    }
    assert_eq!(subject.counter("crashed").await, 3);
}

pub async fn innocent_jobs_beside_a_suspect_are_not_charged(subject: Subject) {
    let suspect = subject.suspect().await;
    let mut lane = subject.lane().await;
    // It is charged, waits, and is promoted.
    let delivery = lane.claim_when_due().await;
    assert_eq!((delivery.id.clone(), delivery.crashes), (suspect.clone(), 1));
    lane.end_one(&delivery, Ending::Release).await;
    let innocent = subject.store(5).await;
    let reclaimed = subject.crash(&[vec![suspect.clone()], innocent.clone()].concat()).await;
    assert_eq!((reclaimed.charged, reclaimed.released), (1, 5));
    assert_eq!(subject.show(&suspect).await.unwrap().crashes, 2);
    let served = lane.claim(5).await;
    assert_eq!(ids_of(&served.deliveries), innocent, "at the head, in their order");
    assert!(served.deliveries.iter().all(|delivery| delivery.crashes == 0));
}

pub async fn the_third_crash_buries(subject: Subject) {
    let id = subject.suspect().await;
    for round in 2..=3 {
        let mut lane = subject.lane_of(ProcessId::random(), INSTANT).await;
        lane.claim_when_due().await;
        let reclaimed = subject.reclaim().await;
        assert_eq!((reclaimed.charged, reclaimed.buried), if round == 3 { (0, 1) } else { (1, 0) });
    }
    let record = subject.show(&id).await.unwrap();
    assert_eq!((record.state, record.reason), (State::Dead, Some(BuryReason::Crashed)));
}

pub async fn a_finished_round_clears_the_crashes(subject: Subject) {
    let id = subject.suspect().await;
    let mut lane = subject.lane().await;
    let delivery = lane.claim_when_due().await;
    lane.end_one(&delivery, Ending::Nack { delay: INSTANT, error: "it failed, but it ended".to_owned() }).await;
    assert_eq!(subject.show(&id).await.unwrap().crashes, 0);
    let delivery = lane.claim_when_due().await;
    assert_eq!((delivery.crashes, delivery.attempts), (0, 1));
}

pub async fn one_suspect_is_served_at_a_time(subject: Subject) {
    let ids = subject.store(3).await;
    subject.crash(&ids).await;
    let more = subject.store(1).await;
    let mut lane = subject.lane().await;
    crate::patience::until("they are due", || async { subject.depth(State::Retry).await == 3 }).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    let mut turn = lane.next().claim(10);
    turn.suspect = false;
    assert_eq!(ids_of(&lane.send(&turn).await.deliveries), more, "no suspect where none is allowed");
    let answer = lane.claim(10).await;
    assert_eq!(answer.deliveries.len(), 1);
    assert!(answer.more, "the others wait");
    assert_eq!(lane.claim(10).await.deliveries.len(), 1);
}

pub async fn a_sweep_moves_many_jobs_in_steps(subject: Subject) {
    let ids: Vec<JobId> = [subject.store(500).await, subject.store(150).await].concat();
    let mut lane = subject.lane_of(ProcessId::random(), INSTANT).await;
    let mut held = lane.claim(500).await.deliveries.len();
    held += lane.claim(500).await.deliveries.len();
    assert_eq!(held, ids.len());
    let reclaimed = subject.reclaim().await;
    assert_eq!((reclaimed.charged, reclaimed.forgotten), (650, 1));
    assert_eq!(subject.depth(State::Active).await, 0);
    assert_eq!(subject.broker.suspects(&subject.queue, 10).await.unwrap().fenced, 0);
}

pub async fn idle_lanes_are_pruned(subject: Subject) {
    subject.lane_of(ProcessId::random(), INSTANT).await;
    let live = subject.lane().await;
    let reclaimed = subject.reclaim().await;
    assert_eq!((reclaimed.forgotten, reclaimed.charged), (1, 0));
    beat(&subject, &live, LONG).await.unwrap();
    drop(job());
}
