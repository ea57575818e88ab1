//! Ordered groups: the job that blocks the group line, and the end of the block. Also other jobs in
//! the line of a group: suspects, parked jobs, jobs with a key.

use std::time::Duration;

use queue_core::{
    JobId,
    broker::{BuryReason, Ending, Enqueued, JobState, NewJob, OnConflict, Turn, Unique, UniqueKey},
    inspect::GroupOrder,
};

use super::{
    bed::{Bed, LONG, Lane, ack, eventually, finish, nack},
    groups::{RULE, cap, depth, group, group_rule, job, order, put, sound},
    limits::{self, concurrency, key},
};
use crate::Changes as _;

/// A turn of a process that already runs a suspect.
fn without_suspect(lane: &Lane, claim: usize) -> Turn {
    let mut turn = lane.next().claim(claim);
    turn.suspect = false;
    turn
}

/// The jobs of an ordered group run one after the other.
pub async fn an_ordered_group_runs_one_job_at_a_time(bed: Bed) {
    order(&bed, "a", GroupOrder::Ordered).await;
    let ids = put(&bed, "a", 3).await;
    let mut lane = bed.lane().await;
    for id in &ids {
        let claimed = lane.claim(5).await;
        assert_eq!(claimed.iter().map(|delivery| &delivery.id).collect::<Vec<_>>(), [id]);
        assert_eq!(group(&bed, "a").await.blocked_by.as_ref(), Some(id));
        assert!(lane.claim(5).await.is_empty());
        lane.ack(&claimed).await;
    }
    assert_eq!(group(&bed, "a").await.blocked_by, None);
    sound(&bed).await;
}

/// A job that waits for its retry or its snooze blocks the group line. It comes back before all
/// other jobs of any priority.
pub async fn a_job_that_waits_for_its_retry_blocks_the_group_line(bed: Bed) {
    order(&bed, "a", GroupOrder::Ordered).await;
    let ids = put(&bed, "a", 2).await;
    let mut lane = bed.lane().await;
    for ending in [nack(LONG), Ending::Snooze { delay: LONG }] {
        let delivery = lane.claim_one().await;
        assert_eq!(delivery.id, ids[0]);
        assert!(lane.end(&delivery, ending).await);
        let mut urgent = job("a");
        urgent.priority = queue_core::Priority::Critical;
        assert_eq!(bed.put_job(urgent).await, Enqueued::Stored);
        assert!(lane.claim(5).await.is_empty(), "it blocks the group line");
        sound(&bed).await;
        assert_eq!(bed.broker.promote(&bed.queue, &ids[..1]).await.unwrap(), [true]);
        assert_eq!(bed.ids(JobState::Ready).await[0], ids[0], "it stands before those of a higher priority");
        sound(&bed).await;
    }
    let delivery = lane.claim_one().await;
    assert_eq!(delivery.id, ids[0]);
    assert!(lane.end(&delivery, nack(Duration::ZERO)).await);
    let delivery = lane.wait_for_one().await;
    assert_eq!(delivery.id, ids[0], "a retry that is due goes first");
    assert!(lane.end(&delivery, Ending::Return).await);
    assert_eq!(lane.claim_one().await.id, ids[0], "and so does a job that was returned");
    sound(&bed).await;
}

/// Every end of the job frees the line.
pub async fn the_end_of_a_job_frees_the_line(bed: Bed) {
    order(&bed, "a", GroupOrder::Ordered).await;
    let endings = [
        ack(),
        Ending::Ack { result: None, keep: Some(LONG) },
        Ending::Bury { reason: BuryReason::Failed, error: None },
        Ending::Cancel { reason: "no".to_owned() },
        Ending::Expire,
    ];
    put(&bed, "a", endings.len() + 4).await;
    let mut lane = bed.lane().await;
    for ending in endings {
        let delivery = lane.claim_one().await;
        assert!(lane.end(&delivery, nack(LONG)).await && lane.claim(5).await.is_empty());
        assert_eq!(bed.broker.promote(&bed.queue, &[delivery.id]).await.unwrap(), [true]);
        let delivery = lane.claim_one().await;
        assert!(lane.end(&delivery, ending).await);
        sound(&bed).await;
    }
    // An operator ends it: while it waits, while it runs, and permanently.
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, nack(LONG)).await);
    bed.broker.cancel(&bed.queue, &[delivery.id]).await.unwrap();
    let delivery = lane.claim_one().await;
    bed.broker.cancel(&bed.queue, &[delivery.id]).await.unwrap();
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, Ending::Snooze { delay: LONG }).await);
    bed.broker.delete(&bed.queue, &[delivery.id]).await.unwrap();
    let last = lane.claim_one().await;
    lane.ack(&[last]).await;
    assert_eq!((depth(&bed, "a").await, group(&bed, "a").await.blocked_by), ((0, 0), None));
    sound(&bed).await;
}

/// In an ordered group, a job with limits that has failed, snoozed or was parked blocks the later
/// jobs of the group, even if the chain of a later job may be examined.
pub async fn a_job_with_limits_blocks_the_group_line(bed: Bed) {
    order(&bed, "a", GroupOrder::Ordered).await;
    concurrency(&bed, "stripe", 5).await;
    let mut lane = bed.lane().await;
    for ending in [nack(LONG), Ending::Snooze { delay: LONG }, Ending::Park { task: "late".to_owned() }] {
        let ids = limits::put(&bed, "a", &[key("stripe", "")], 3).await;
        let delivery = lane.claim_one().await;
        assert_eq!(delivery.id, ids[0]);
        let turn = lane.next().finish(vec![finish(&delivery, ending)]);
        assert!(!lane.send(&turn).await.more, "no job may start");
        sound(&bed).await;
        assert_eq!(bed.broker.delete(&bed.queue, &ids).await.unwrap(), [true; 3]);
    }
}

/// If failures are skipped, the next job starts, and the failed one comes back to the head. A job
/// that failed under another rule no longer blocks the group line.
pub async fn a_job_that_waits_for_its_retry_lets_the_next_pass_if_asked(bed: Bed) {
    order(&bed, "a", GroupOrder::Ordered).await;
    let ids = put(&bed, "a", 4).await;
    let mut lane = bed.lane().await;
    let first = lane.claim_one().await;
    assert!(lane.end(&first, nack(Duration::from_millis(1))).await);
    assert_eq!(group(&bed, "a").await.blocked_by.as_ref(), Some(&ids[0]));
    order(&bed, "a", GroupOrder::SkipFailed).await;
    assert_eq!(group(&bed, "a").await.blocked_by, None);
    tokio::time::sleep(Duration::from_millis(10)).await;
    let again = lane.claim_one().await;
    assert_eq!(again.id, ids[0], "what was due goes before the others");
    assert!(lane.claim(5).await.is_empty(), "one at a time");
    assert!(lane.end(&again, nack(LONG)).await);
    let second = lane.claim_one().await;
    assert_eq!(second.id, ids[1], "the next one passes");
    let turn = lane.next().finish(vec![finish(&second, ack())]).claim(5);
    assert_eq!(lane.send(&turn).await.deliveries.len(), 1);
    sound(&bed).await;
}

/// A job of a crashed worker is a suspect in the line of its group, within its cap and in its
/// order.
pub async fn a_suspect_waits_for_its_group(bed: Bed) {
    cap(&bed, "a", 1).await;
    let ids = put(&bed, "a", 3).await;
    let mut dying = bed.dying_lane().await;
    assert_eq!(dying.claim_one().await.id, ids[0]);
    bed.reclaim(&[&dying], RULE).await;
    let mut lane = bed.lane().await;
    eventually("the suspect is ready", async || {
        let turn = without_suspect(&lane, 1);
        let claimed = lane.send(&turn).await;
        if let Some(delivery) = claimed.deliveries.first() {
            assert_eq!(delivery.id, ids[1], "without leave for a suspect, the next one");
            lane.end(delivery, Ending::Return).await;
        }
        (depth(&bed, "a").await.0 == 3).then_some(())
    })
    .await;
    let turn = without_suspect(&lane, 1);
    let answer = lane.send(&turn).await;
    assert_eq!((&answer.deliveries[0].id, answer.suspects), (&ids[1], false), "and while its group is full, no suspect may start");
    assert!(lane.claim(5).await.is_empty(), "the group is full");
    assert!(lane.end(&answer.deliveries[0], Ending::Return).await);
    let suspects = lane.claim(5).await;
    assert_eq!(suspects.iter().map(|delivery| (&delivery.id, delivery.crashes)).collect::<Vec<_>>(), [(&ids[0], 1)]);
    sound(&bed).await;
    lane.ack(&suspects).await;
    assert_eq!(lane.claim(5).await.len(), 1);
    sound(&bed).await;
}

/// A suspect that blocks the line of an ordered group is served before the others. A worker that
/// may not run a suspect gets no job of the group.
pub async fn a_suspect_blocks_the_group_line(bed: Bed) {
    order(&bed, "a", GroupOrder::Ordered).await;
    let ids = put(&bed, "a", 2).await;
    let mut dying = bed.dying_lane().await;
    assert_eq!(dying.claim_one().await.id, ids[0]);
    bed.reclaim(&[&dying], RULE).await;
    let mut lane = bed.lane().await;
    let seen = eventually("a suspect waits", async || {
        let turn = without_suspect(&lane, 5);
        let answer = lane.send(&turn).await;
        assert!(answer.deliveries.is_empty(), "the suspect blocks the group line");
        answer.suspects.then_some(answer.more)
    })
    .await;
    assert!(!seen, "there is nothing for this lane");
    assert_eq!(lane.claim(5).await[0].id, ids[0]);
    sound(&bed).await;
}

/// A parked job whose task is now known waits until its group is served.
pub async fn a_parked_job_waits_for_its_group(bed: Bed) {
    cap(&bed, "a", 1).await;
    let ids = put(&bed, "a", 2).await;
    let mut lane = bed.lane().await;
    let first = lane.claim_one().await;
    assert!(lane.end(&first, Ending::Park { task: "late".to_owned() }).await);
    let second = lane.claim_one().await;
    let resume = |lane: &Lane| {
        let mut turn = lane.next().claim(5);
        turn.resume = vec!["late".into()];
        turn
    };
    let turn = resume(&lane);
    assert!(lane.send(&turn).await.deliveries.is_empty(), "the group is full");
    assert_eq!(bed.state(&ids[0]).await, Some(JobState::Ready));
    sound(&bed).await;
    lane.ack(&[second]).await;
    let turn = resume(&lane);
    assert_eq!(lane.send(&turn).await.deliveries[0].id, ids[0]);
    sound(&bed).await;
}

fn keyed(on_conflict: OnConflict) -> NewJob {
    let mut job = job("a");
    job.unique = Some(Box::new(Unique::new(UniqueKey::of("suite.task", b"grouped")).on_conflict(on_conflict)));
    job
}

/// A job with a key and a group: a second one is answered as without a group. The held job is added
/// to the line of its group.
pub async fn a_job_with_a_key_stands_in_the_line_of_its_group(bed: Bed) {
    cap(&bed, "a", 1).await;
    let first = keyed(OnConflict::BufferOne);
    let id = first.id.clone();
    assert_eq!(bed.put_job(first).await, Enqueued::Stored);
    assert_eq!(bed.put_job(keyed(OnConflict::Skip)).await, Enqueued::Duplicate(id.clone()));
    let mut lane = bed.lane().await;
    let running = lane.claim_one().await;
    let next = keyed(OnConflict::BufferOne);
    assert_eq!(bed.put_job(next.clone()).await, Enqueued::Buffered(next.id.clone()));
    assert_eq!((bed.state(&next.id).await, depth(&bed, "a").await), (Some(JobState::Held), (0, 1)));
    lane.ack(&[running]).await;
    assert_eq!(depth(&bed, "a").await, (1, 0));
    let mut urgent = keyed(OnConflict::Replace);
    urgent.priority = queue_core::Priority::Critical;
    assert_eq!(bed.put_job(urgent).await, Enqueued::Replaced(next.id.clone()));
    assert_eq!(lane.claim_one().await.id, next.id);
    sound(&bed).await;
}

/// A replayed turn returns the same jobs of groups, and counts no group twice. A replayed enqueue
/// stores nothing.
pub async fn a_replay_takes_no_second_slot(bed: Bed) {
    cap(&bed, "a", 2).await;
    group_rule(&bed, "b", |rule| rule.max_size = Some(1)).await;
    put(&bed, "a", 3).await;
    let mut producer = bed.producer().await;
    let request = producer.next(vec![job("b"), job("b")]);
    let answers = [Enqueued::Stored, Enqueued::GroupFull];
    assert_eq!(bed.broker.enqueue(&request).await.unwrap(), answers);
    assert_eq!(bed.broker.enqueue(&request).await.unwrap(), answers);
    producer.seq = request.seq;
    let mut lane = bed.lane().await;
    let turn = lane.next().claim(9);
    let ids = |answer: queue_core::broker::TurnAnswer| answer.deliveries.into_iter().map(|delivery| delivery.id).collect::<Vec<JobId>>();
    let first = ids(lane.send(&turn).await);
    assert_eq!((first.len(), ids(lane.send(&turn).await)), (3, first.clone()));
    assert_eq!((depth(&bed, "a").await, depth(&bed, "b").await), ((1, 2), (0, 1)));
    sound(&bed).await;
}
