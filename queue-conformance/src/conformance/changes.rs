//! Changes: a lane in a queue that had only ordinary jobs also handles all other kinds of jobs.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    time::Duration,
};

use queue_core::{
    JobId,
    broker::{BuryReason, Counter, CrashRule, Due, Ending, Enqueued, JobState, MAX_BYTES, NewJob, Priority, SetPause, SweepLimits},
};

use super::bed::{Bed, Lane, ack, envelope, finish, given, nack};
use crate::Changes as _;

/// Longer than some turns.
const SOON: Duration = Duration::from_millis(200);

/// Longer than any case.
const LONG: Duration = Duration::from_secs(3600);

/// A lane that has claimed ordinary jobs, has ended them, and has found no more.
async fn at_work(bed: &Bed) -> Lane {
    bed.put(1).await;
    let mut lane = bed.lane().await;
    for _ in 0..2 {
        let held = lane.claim(5).await;
        lane.ack(&held).await;
    }
    lane
}

/// The next claim applies the start of the pause, and another one its end.
pub async fn a_lane_at_work_sees_a_pause(bed: Bed) {
    let mut lane = at_work(&bed).await;
    bed.put(1).await;
    bed.broker.set_pause(&SetPause::of_queue(bed.queue.clone(), true)).await.unwrap();
    for _ in 0..3 {
        let turn = lane.next().claim(1);
        let answer = lane.send(&turn).await;
        assert_eq!((answer.deliveries.len(), answer.paused), (0, true));
    }
    bed.broker.set_pause(&SetPause::of_queue(bed.queue.clone(), false)).await.unwrap();
    lane.claim_one().await;
}

/// This also holds for a lane that registers during the pause.
pub async fn a_new_lane_sees_a_pause(bed: Bed) {
    bed.put(1).await;
    bed.broker.set_pause(&SetPause::of_queue(bed.queue.clone(), true)).await.unwrap();
    let mut lane = bed.lane().await;
    for _ in 0..3 {
        assert_eq!(lane.claim(1).await.len(), 0);
    }
}

/// This also holds for a lane that registers after a failure.
pub async fn a_new_lane_sees_what_has_failed(bed: Bed) {
    let mut lane = at_work(&bed).await;
    bed.put(1).await;
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, nack(Duration::ZERO)).await);
    // It is ready again after a turn has found that it is due.
    let delivery = lane.wait_for_one().await;
    assert!(lane.end(&delivery, Ending::Return).await);
    assert_eq!(bed.lane().await.claim_one().await.attempts, 1);
}

/// A higher priority comes first.
pub async fn a_lane_at_work_sees_a_priority(bed: Bed) {
    let mut lane = at_work(&bed).await;
    for higher in [Priority::Critical, Priority::High] {
        let normal = bed.put(1).await.remove(0);
        let first = bed.put_at(higher).await;
        let low = bed.put_at(Priority::Low).await;
        let served: Vec<JobId> = lane.claim(5).await.into_iter().map(|delivery| delivery.id).collect();
        assert_eq!(served, [first, normal, low]);
    }
}

/// This also holds for the priority of a job with a given id.
pub async fn a_lane_at_work_sees_the_priority_of_a_given_id(bed: Bed) {
    let mut lane = at_work(&bed).await;
    let normal = bed.put(1).await.remove(0);
    let mut named = given("named", "x");
    named.priority = Priority::High;
    let first = named.id.clone();
    bed.put_job(named).await;
    let served: Vec<JobId> = lane.claim(5).await.into_iter().map(|delivery| delivery.id).collect();
    assert_eq!(served, [first, normal]);
}

/// A scheduled job is announced, and is claimed when it is due.
pub async fn a_lane_at_work_sees_what_is_due_later(bed: Bed) {
    let mut lane = at_work(&bed).await;
    bed.put_later(LONG).await;
    for _ in 0..3 {
        let turn = lane.next().claim(1);
        assert!(lane.send(&turn).await.next_due.is_some());
    }
    let id = bed.put_later(Duration::from_millis(500)).await;
    assert_eq!(lane.wait_for_one().await.id, id);
}

/// The job that is due first is claimed first, even if it was not stored last.
pub async fn a_lane_at_work_sees_what_is_due_before_other_jobs(bed: Bed) {
    let mut lane = at_work(&bed).await;
    let id = bed.put_later(SOON).await;
    bed.put_later(LONG).await;
    assert_eq!(lane.wait_for_one().await.id, id);

    let mut producer = bed.producer().await;
    let jobs = [SOON, LONG].map(|delay| {
        let mut job = NewJob::new(JobId::make(), envelope("later"));
        job.due = Due::After(delay);
        job
    });
    let id = jobs[0].id.clone();
    producer.stored(jobs.into()).await;
    assert_eq!(lane.wait_for_one().await.id, id);
}

/// A cancelled or deleted job is not delivered.
pub async fn a_lane_at_work_passes_what_was_taken_out(bed: Bed) {
    let mut lane = at_work(&bed).await;
    let ids = bed.put(2).await;
    bed.broker.cancel(&bed.queue, &ids[..1]).await.unwrap();
    assert_eq!(lane.claim(5).await.into_iter().map(|delivery| delivery.id).collect::<Vec<_>>(), ids[1..]);

    let mut lane = at_work(&bed).await;
    let ids = bed.put(2).await;
    bed.broker.delete(&bed.queue, &ids[..1]).await.unwrap();
    assert_eq!(lane.claim(5).await.into_iter().map(|delivery| delivery.id).collect::<Vec<_>>(), ids[1..]);
    assert_eq!((bed.depth(JobState::Ready).await, bed.depth(JobState::Active).await), (0, 2));
    assert_eq!(bed.counter(Counter::Repaired).await, 0, "nothing was broken");
}

/// The ending of a cancelled job is stale. Other endings in the same turn are accepted.
pub async fn a_lane_at_work_learns_that_an_ack_is_stale(bed: Bed) {
    let mut lane = at_work(&bed).await;
    bed.put(3).await;
    let held = lane.claim(3).await;
    bed.broker.cancel(&bed.queue, std::slice::from_ref(&held[1].id)).await.unwrap();
    let turn = lane.next().finish(held.iter().map(|delivery| finish(delivery, ack())).collect());
    assert_eq!(lane.send(&turn).await.stale, [1]);
    assert_eq!(bed.counter(Counter::Done).await, 3);
}

/// A failure at another lane is counted.
pub async fn a_lane_at_work_sees_what_failed_elsewhere(bed: Bed) {
    let (mut lane, mut other) = (at_work(&bed).await, bed.lane().await);
    bed.put(1).await;
    let delivery = other.claim_one().await;
    assert!(other.end(&delivery, nack(Duration::ZERO)).await);
    let delivery = lane.wait_for_one().await;
    assert_eq!((delivery.attempts, delivery.snoozes), (1, 0));
    lane.ack(&[delivery]).await;
}

/// Jobs that are claimed together have the counts of their own failures.
pub async fn a_lane_at_work_distinguishes_failures(bed: Bed) {
    let mut lane = at_work(&bed).await;
    let ids = bed.put(3).await;
    let wanted: HashMap<&JobId, u32> = ids.iter().zip(0..).collect();
    let mut held = Vec::new();
    while held.len() < 3 {
        for delivery in lane.claim(3).await {
            if delivery.attempts == wanted[&delivery.id] {
                held.push(delivery);
            } else {
                assert!(lane.end(&delivery, nack(Duration::ZERO)).await);
            }
        }
    }
    // After a return, all of them are ready at once.
    let turn = lane.next().finish(held.iter().map(|delivery| finish(delivery, Ending::Return)).collect());
    assert!(lane.send(&turn).await.stale.is_empty());
    bed.put(1).await;
    let held = lane.claim(5).await;
    let counts: Vec<u32> = held.iter().map(|delivery| wanted.get(&delivery.id).copied().unwrap_or(0)).collect();
    assert_eq!(held.iter().map(|delivery| delivery.attempts).collect::<Vec<_>>(), counts);
    assert_eq!((held.len(), counts.iter().sum()), (4, 3));
    lane.ack(&held).await;
}

/// A done job leaves no failures: the next job with the same id has none.
pub async fn a_lane_at_work_leaves_nothing_of_what_has_failed(bed: Bed) {
    let mut lane = at_work(&bed).await;
    for _ in 0..2 {
        assert_eq!(bed.put_given("again", "x").await, Enqueued::Stored);
        let delivery = lane.claim_one().await;
        assert_eq!(delivery.attempts, 0);
        assert_eq!(bed.show(&delivery.id).await.expect("it is held").failures, []);
        assert!(lane.end(&delivery, nack(Duration::ZERO)).await);
        let delivery = lane.wait_for_one().await;
        assert_eq!(delivery.attempts, 1);
        // Jobs that are stored in the meantime do not affect that.
        bed.put_later(LONG).await;
        lane.ack(&[delivery]).await;
        bed.broker.sweep(&bed.queue, &SweepLimits { remembered_count: 0, ..SweepLimits::default() }).await.unwrap();
    }
}

/// A failure is reported even if other jobs are stored in the meantime.
pub async fn a_lane_at_work_sees_a_failure_beside_what_is_due_later(bed: Bed) {
    let (mut lane, mut other) = (at_work(&bed).await, at_work(&bed).await);
    bed.put(1).await;
    let delivery = other.claim_one().await;
    assert!(other.end(&delivery, nack(Duration::ZERO)).await);
    // The lane has made a turn.
    lane.claim(0).await;
    bed.put_later(LONG).await;
    assert_eq!(lane.wait_for_one().await.attempts, 1);
}

/// Dead jobs do not affect other jobs. A requeued job has no history.
pub async fn a_lane_at_work_passes_the_dead(bed: Bed) {
    let mut lane = at_work(&bed).await;
    bed.put(1).await;
    let dead = lane.claim_one().await;
    assert!(lane.end(&dead, Ending::Bury { reason: BuryReason::Failed, error: Some("x".to_owned()) }).await);
    for _ in 0..3 {
        let ids = bed.put(2).await;
        let held = lane.claim(5).await;
        assert_eq!(
            held.iter().map(|delivery| (delivery.id.clone(), delivery.attempts)).collect::<Vec<_>>(),
            [(ids[0].clone(), 0), (ids[1].clone(), 0)]
        );
        lane.ack(&held).await;
    }
    let record = bed.show(&dead.id).await.expect("it is kept");
    assert_eq!((record.state, record.attempts, record.failures.len()), (JobState::Dead, 1, 1));
    assert_eq!(bed.broker.requeue(&bed.queue, std::slice::from_ref(&dead.id)).await.unwrap(), [true]);
    let back = lane.claim_one().await;
    assert_eq!((&back.id, back.attempts), (&dead.id, 0));
    lane.ack(&[back]).await;
    assert_eq!(bed.show(&dead.id).await.map(|record| record.state), None);
}

/// This also holds for a snooze.
pub async fn a_lane_at_work_sees_what_was_snoozed_elsewhere(bed: Bed) {
    let (mut lane, mut other) = (at_work(&bed).await, bed.lane().await);
    bed.put(1).await;
    let delivery = other.claim_one().await;
    assert!(other.end(&delivery, Ending::Snooze { delay: Duration::from_millis(1) }).await);
    assert_eq!(lane.wait_for_one().await.snoozes, 1);
}

/// Every lane is notified of parked jobs.
pub async fn a_lane_at_work_sees_what_was_parked_elsewhere(bed: Bed) {
    let (mut lane, mut other) = (at_work(&bed).await, bed.lane().await);
    let id = bed.put(1).await.remove(0);
    let delivery = other.claim_one().await;
    assert!(other.end(&delivery, Ending::Park { task: "suite.task".to_owned() }).await);
    for _ in 0..3 {
        let turn = lane.next().claim(1);
        assert!(lane.send(&turn).await.parked);
    }
    let mut turn = lane.next().claim(1);
    turn.resume = vec!["suite.task".into()];
    assert_eq!(lane.send(&turn).await.deliveries[0].id, id);
}

/// The jobs of a crashed process come back as suspects.
pub async fn a_lane_at_work_sees_what_came_back_from_the_dead(bed: Bed) {
    let mut lane = at_work(&bed).await;
    bed.put(1).await;
    let mut dying = bed.dying_lane().await;
    dying.claim_one().await;
    let rule = CrashRule { delay: Duration::from_millis(1), ..CrashRule::default() };
    assert_eq!(bed.reclaim(&[&dying], rule).await.charged, 1);
    assert_eq!(lane.wait_for_one().await.crashes, 1);
}

/// Large jobs come in bounded answers.
pub async fn a_lane_at_work_gets_large_jobs_by_the_bound(bed: Bed) {
    large_jobs_come_by_the_bound(bed, |_| JobId::make()).await;
}

/// This also holds for jobs with given ids.
pub async fn a_lane_at_work_gets_large_jobs_of_given_ids_by_the_bound(bed: Bed) {
    large_jobs_come_by_the_bound(bed, |n| JobId::given(&format!("large-{n}")).expect("it is a name")).await;
}

async fn large_jobs_come_by_the_bound(bed: Bed, id: impl Fn(u8) -> JobId) {
    const SIZE: usize = 200 * 1024;
    let mut lane = at_work(&bed).await;
    let mut producer = bed.producer().await;
    let mut sizes = VecDeque::new();
    for n in 0..10 {
        // Each of the last two is larger than the bound.
        let size = if n < 8 { SIZE } else { MAX_BYTES + 1 };
        producer.stored(vec![NewJob::new(id(n), vec![n; size])]).await;
        sizes.push_back(size);
    }
    while !sizes.is_empty() {
        let turn = lane.next().claim(10);
        let answer = lane.send(&turn).await;
        let held = answer.deliveries;
        let bytes: usize = held.iter().map(|delivery| delivery.envelope.len()).sum();
        assert!(held.len() == 1 || !held.is_empty() && bytes <= MAX_BYTES, "{} jobs of {bytes} bytes", held.len());
        assert_eq!(held.iter().map(|delivery| delivery.envelope.len()).collect::<Vec<_>>(), sizes.drain(..held.len()).collect::<Vec<_>>());
        assert_eq!(answer.more, !sizes.is_empty());
        lane.ack(&held).await;
    }
}

/// After all of this, the queue works as before.
pub async fn a_queue_becomes_ordinary_again(bed: Bed) {
    let mut lane = at_work(&bed).await;
    for round in 1..=3 {
        let first = bed.put_at(Priority::High).await;
        let mut ids: HashSet<JobId> = bed.put(20).await.into_iter().collect();
        let delivery = lane.claim_one().await;
        assert_eq!(delivery.id, first);
        assert!(lane.end(&delivery, nack(Duration::ZERO)).await);
        let mut failed = 0;
        ids.insert(first);
        while !ids.is_empty() {
            let held = lane.claim(3).await;
            for delivery in &held {
                assert!(ids.remove(&delivery.id), "{delivery:?} is handed out once");
                failed += delivery.attempts;
            }
            lane.ack(&held).await;
        }
        assert_eq!(failed, 1, "its failure is told of");
        let stats = bed.stats().await;
        assert_eq!((stats.jobs(), stats.total(Counter::Done)), (0, 1 + 21 * round), "{stats:?}");
    }
}
