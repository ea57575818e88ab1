//! The endings of deliveries, and the resulting states of their jobs.

use std::{sync::Arc, time::Duration};

use queue_core::{
    JobId,
    broker::{BuryReason, Counter, Delivery, ENDED_KEEP, Ending, FAILURES_KEPT, JobState, KeepLimits, NewJob},
};

use super::bed::{Bed, LONG, Lane, ack, envelope, finish, nack};
use crate::Changes as _;

const NOW: Duration = Duration::ZERO;

/// A failure counts an attempt, is stored, and the job waits for its backoff.
pub async fn a_failed_job_waits_in_retry_with_its_error(bed: Bed) {
    let ids = bed.put(1).await;
    let mut lane = bed.lane().await;
    let delivery = lane.claim_one().await;
    let turn = lane.next().finish(vec![finish(&delivery, Ending::Nack { delay: LONG, error: "no ünicode?\0\n".to_owned() })]);
    let now = lane.send(&turn).await.now_ms;
    let record = bed.show(&ids[0]).await.expect("it waits");
    assert_eq!((record.state, record.attempts, record.crashes, record.snoozes), (JobState::Retry, 1, 0, 0));
    // The clock is truncated to whole milliseconds. One more is added, so that the job is not
    // early.
    assert_eq!(record.at_ms, Some(now + 600_001));
    assert_eq!((record.failures[0].message.as_str(), record.failures[0].at_ms), ("no ünicode?\0\n", now));
    assert_eq!((bed.counter(Counter::Failed).await, bed.depth(JobState::Retry).await), (1, 1));
    assert!(lane.claim(1).await.is_empty());
}

/// The next delivery has the number of failures.
pub async fn attempts_are_counted_from_failure_to_failure(bed: Bed) {
    bed.put(1).await;
    let mut lane = bed.lane().await;
    for attempts in 0..4 {
        let delivery = lane.wait_for_one().await;
        assert_eq!((delivery.attempts, delivery.snoozes), (attempts, 0));
        assert!(lane.end(&delivery, nack(Duration::from_millis(1))).await);
    }
}

/// The oldest failures are removed first.
pub async fn the_last_failures_are_kept(bed: Bed) {
    let ids = bed.put(1).await;
    let mut lane = bed.lane().await;
    for n in 0..FAILURES_KEPT + 3 {
        let delivery = lane.wait_for_one().await;
        assert!(lane.end(&delivery, Ending::Nack { delay: NOW, error: format!("failure {n}") }).await);
    }
    let record = bed.show(&ids[0]).await.expect("it waits");
    let messages: Vec<&str> = record.failures.iter().map(|failure| failure.message.as_str()).collect();
    let expected: Vec<String> = (3..FAILURES_KEPT + 3).map(|n| format!("failure {n}")).collect();
    assert_eq!(messages, expected);
    assert_eq!(record.attempts as usize, FAILURES_KEPT + 3);
}

/// An error may have any text.
pub async fn an_error_of_any_text_comes_back(bed: Bed) {
    let id = bed.put(1).await.remove(0);
    let mut lane = bed.lane().await;
    for text in ["", "ümlaut 💥 \0 \r\n", &"x".repeat(8000)] {
        let delivery = lane.wait_for_one().await;
        assert!(lane.end(&delivery, Ending::Nack { delay: NOW, error: text.to_owned() }).await);
        assert_eq!(bed.show(&id).await.expect("it waits").failures.last().expect("it failed").message, text);
    }
}

/// A snooze is not a failure.
pub async fn a_snoozed_job_is_scheduled_and_counts_a_snooze(bed: Bed) {
    let ids = bed.put(1).await;
    let mut lane = bed.lane().await;
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, Ending::Snooze { delay: Duration::from_millis(1) }).await);
    let delivery = lane.wait_for_one().await;
    assert_eq!((delivery.attempts, delivery.crashes, delivery.snoozes), (0, 0, 1));
    assert!(lane.end(&delivery, Ending::Snooze { delay: LONG }).await);
    let record = bed.show(&ids[0]).await.expect("it is scheduled");
    assert_eq!((record.state, record.snoozes, record.failures.len()), (JobState::Scheduled, 2, 0));
    assert_eq!(bed.counter(Counter::Snoozed).await, 2);
}

/// In an endless rotation, each round begins without counters.
pub async fn a_repeated_job_starts_its_next_round_clean(bed: Bed) {
    let ids = bed.put(1).await;
    let mut lane = bed.lane().await;
    for ending in [nack(NOW), Ending::Snooze { delay: NOW }] {
        let delivery = lane.wait_for_one().await;
        assert!(lane.end(&delivery, ending).await);
    }
    let delivery = lane.wait_for_one().await;
    assert_eq!((delivery.attempts, delivery.snoozes), (1, 1));
    assert!(lane.end(&delivery, Ending::Repeat { delay: LONG }).await);
    let record = bed.show(&ids[0]).await.expect("it is scheduled");
    assert_eq!((record.state, record.attempts, record.snoozes, record.failures.len()), (JobState::Scheduled, 0, 0, 0));
    assert_eq!(bed.counter(Counter::Repeated).await, 1);
}

/// Only a repeat begins a new round. If the ending of a run was not stored, the next run belongs to
/// the same round.
pub async fn only_a_repeat_changes_whether_the_round_is_odd(bed: Bed) {
    let id = bed.put(1).await.remove(0);
    let mut lane = bed.lane().await;
    let is_odd = async |lane: &mut Lane| {
        let delivery = lane.wait_for_one().await;
        let odd = delivery.odd;
        (delivery, odd)
    };
    for round in [false, true, false, true] {
        let limited = Ending::RateLimited { after: Duration::ZERO, limit: None };
        for ending in [nack(NOW), Ending::Snooze { delay: NOW }, limited, Ending::Stopped { by_shutdown: true }, Ending::Return] {
            let (delivery, odd) = is_odd(&mut lane).await;
            assert_eq!(odd, round, "before {ending:?}");
            assert!(lane.end(&delivery, ending).await);
        }
        let bury = Ending::Bury { reason: BuryReason::Failed, error: Some("once too often".to_owned()) };
        for ending in [bury, Ending::Cancel { reason: "not now".to_owned() }, Ending::Expire] {
            let (delivery, odd) = is_odd(&mut lane).await;
            assert_eq!((odd, delivery.snoozes), (round, u32::from(matches!(ending, Ending::Bury { .. }))), "before {ending:?}");
            assert!(lane.end(&delivery, ending).await);
            assert_eq!(bed.broker.requeue(&bed.queue, std::slice::from_ref(&id)).await.expect("it is requeued"), [true]);
        }
        let (delivery, odd) = is_odd(&mut lane).await;
        assert_eq!((odd, delivery.snoozes, delivery.rate_limited), (round, 0, 0));
        assert!(lane.end(&delivery, Ending::Repeat { delay: if round { NOW } else { Duration::ZERO } }).await);
        let record = bed.show(&id).await.expect("it waits");
        assert_eq!((record.attempts, record.snoozes, record.rate_limited), (0, 0, 0));
    }
}

/// Without a delay, the next round is enqueued at the tail, after the other jobs.
pub async fn a_job_repeated_at_once_joins_the_tail(bed: Bed) {
    let ids = bed.put(3).await;
    let mut lane = bed.lane().await;
    let mut served = Vec::new();
    for _ in 0..6 {
        let delivery = lane.claim_one().await;
        served.push(delivery.id.clone());
        assert!(lane.end(&delivery, Ending::Repeat { delay: NOW }).await);
    }
    assert_eq!(served, [ids.clone(), ids].concat());
}

/// A dead job is kept with its payload, its reason and its history.
pub async fn a_buried_job_is_kept_with_reason_and_history(bed: Bed) {
    let ids = bed.put(1).await;
    let mut lane = bed.lane().await;
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, nack(NOW)).await);
    let delivery = lane.wait_for_one().await;
    let envelope = delivery.envelope.clone();
    let ending = Ending::Bury { reason: BuryReason::Failed, error: Some("the last straw".to_owned()) };
    assert!(lane.end(&delivery, ending).await);
    let record = bed.show(&ids[0]).await.expect("the dead are kept");
    assert_eq!((record.state, record.reason, record.attempts), (JobState::Dead, Some(BuryReason::Failed), 2));
    assert_eq!(record.envelope, envelope);
    let messages: Vec<&str> = record.failures.iter().map(|failure| failure.message.as_str()).collect();
    assert_eq!(messages, ["it failed", "the last straw"]);
    assert!(record.at_ms.is_some(), "when it died");
    assert_eq!((bed.counter(Counter::Dead).await, bed.counter(Counter::Failed).await), (1, 2));
}

/// A burial without an error counts no attempt. Every reason can be read back.
pub async fn a_burial_without_error_counts_no_attempt(bed: Bed) {
    let ids = bed.put(3).await;
    let mut lane = bed.lane().await;
    for (id, reason) in ids.iter().zip([BuryReason::Buried, BuryReason::Undecodable, BuryReason::Failed]) {
        let delivery = lane.claim_one().await;
        assert!(lane.end(&delivery, Ending::Bury { reason, error: None }).await);
        let record = bed.show(id).await.expect("the dead are kept");
        assert_eq!((record.reason, record.attempts, record.failures.len()), (Some(reason), 0, 0));
    }
    assert_eq!(bed.counter(Counter::Failed).await, 0);
}

/// A result is kept only with a retention.
pub async fn a_result_is_kept_only_where_it_is_asked_for(bed: Bed) {
    let ids = bed.put(3).await;
    let mut lane = bed.lane().await;
    let held = lane.claim(3).await;
    let result = || Some(vec![0xc3, 0, 1]);
    let turn = lane.next().finish(vec![
        finish(&held[0], Ending::Ack { result: result(), keep: Some(LONG) }),
        finish(&held[1], Ending::Ack { result: result(), keep: None }),
        finish(&held[2], Ending::Ack { result: None, keep: Some(LONG) }),
    ]);
    let now = lane.send(&turn).await.now_ms;
    let kept = bed.show(&ids[0]).await.expect("it is kept");
    assert_eq!((kept.state, kept.result, kept.at_ms), (JobState::Done, result(), Some(now)));
    assert!(bed.show(&ids[1]).await.is_none());
    assert_eq!(bed.show(&ids[2]).await.expect("it is kept").result, None);
    assert_eq!((bed.depth(JobState::Done).await, bed.counter(Counter::Done).await), (2, 3));
}

/// The limits of the queue apply at once: the oldest jobs are removed if there are too many.
pub async fn kept_jobs_are_trimmed_to_the_limit_of_their_number(bed: Bed) {
    let ids = bed.put(30).await;
    let mut lane = bed.lane().await;
    for delivery in lane.claim(30).await {
        let mut turn = lane.next().finish(vec![finish(&delivery, kept())]);
        turn.keep = KeepLimits { count: 5, bytes: u64::MAX };
        lane.send(&turn).await;
    }
    assert_eq!(bed.ids(JobState::Done).await, ids[25..]);
    assert!(bed.show(&ids[24]).await.is_none(), "a trimmed job is gone");
}

/// The same for their bytes.
pub async fn kept_jobs_are_trimmed_to_the_limit_of_their_bytes(bed: Bed) {
    let ids = bed.put(10).await;
    let mut lane = bed.lane().await;
    for delivery in lane.claim(10).await {
        let ending = Ending::Ack { result: Some(vec![1; 1000]), keep: Some(LONG) };
        let mut turn = lane.next().finish(vec![finish(&delivery, ending)]);
        turn.keep = KeepLimits { count: u64::MAX, bytes: 3500 };
        lane.send(&turn).await;
    }
    assert_eq!(bed.ids(JobState::Done).await, ids[7..], "three times about 1,030 bytes fit");
}

/// If many jobs end in one turn, each is kept with its own result, even if others were removed in
/// the meantime. The oldest are removed together.
pub async fn jobs_that_are_kept_together_keep_their_own_results(bed: Bed) {
    let result = |n: usize| n.is_multiple_of(2).then(|| vec![n as u8; n + 1]);
    let ends = |(n, delivery): (usize, &Delivery)| finish(delivery, Ending::Ack { result: result(n), keep: Some(LONG) });
    let ids = bed.put(20).await;
    let mut lane = bed.lane().await;
    let held = lane.claim(20).await;
    let gone = [3, 8];
    bed.broker.cancel(&bed.queue, &gone.map(|n| ids[n].clone())).await.unwrap();
    let turn = lane.next().finish(held.iter().enumerate().map(ends).collect());
    assert_eq!(lane.send(&turn).await.stale, gone);
    for (n, id) in ids.iter().enumerate() {
        let record = bed.show(id).await.expect("it is kept");
        let expected = if gone.contains(&n) { (JobState::Cancelled, None) } else { (JobState::Done, result(n)) };
        assert_eq!((record.state, record.result), expected, "{n}");
    }
    assert_eq!((bed.depth(JobState::Done).await, bed.counter(Counter::Done).await), (18, 18));

    let last = bed.put(10).await;
    let held = lane.claim(10).await;
    let mut turn = lane.next().finish(held.iter().enumerate().map(ends).collect());
    turn.keep = KeepLimits { count: 12, bytes: u64::MAX };
    lane.send(&turn).await;
    let left = bed.ids(JobState::Done).await;
    assert!(left.ends_with(&last), "the oldest go: {left:?}");
    assert_eq!(left.len() as u64 + bed.depth(JobState::Cancelled).await, 12);
}

/// Each job counts with its own size, even if others were removed in the meantime.
pub async fn jobs_that_are_kept_together_count_with_their_own_sizes(bed: Bed) {
    let sizes = [4000, 10, 20, 30];
    let jobs = sizes.map(|size| NewJob::new(JobId::make(), envelope(&"x".repeat(size))));
    let ids = jobs.each_ref().map(|job| job.id.clone());
    bed.producer().await.stored(jobs.into()).await;
    let mut lane = bed.lane().await;
    let held = lane.claim(4).await;
    bed.broker.cancel(&bed.queue, &ids[..1]).await.unwrap();
    bed.broker.delete(&bed.queue, &ids[..1]).await.unwrap();
    let mut turn = lane.next().finish(held.iter().map(|delivery| finish(delivery, kept())).collect());
    turn.keep = KeepLimits { count: u64::MAX, bytes: 2000 };
    assert_eq!(lane.send(&turn).await.stale, [0]);
    assert_eq!(bed.ids(JobState::Done).await, ids[1..], "the three are small enough");

    let ids = bed.put(1).await;
    let held = lane.claim(1).await;
    let mut turn = lane.next().finish(held.iter().map(|delivery| finish(delivery, kept())).collect());
    turn.keep = KeepLimits { count: u64::MAX, bytes: 2 * held[0].envelope.len() as u64 };
    lane.send(&turn).await;
    assert!(bed.ids(JobState::Done).await.len() < 4, "and count");
    assert!(bed.ids(JobState::Done).await.ends_with(&ids));
}

/// A handler's own cancel is kept for a day, with its reason.
pub async fn a_job_that_cancels_itself_is_recorded_with_its_reason(bed: Bed) {
    let ids = bed.put(1).await;
    let mut lane = bed.lane().await;
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, Ending::Cancel { reason: "the order was paid".to_owned() }).await);
    let record = bed.show(&ids[0]).await.expect("it is kept");
    assert_eq!((record.state, record.note.as_deref()), (JobState::Cancelled, Some("the order was paid")));
    assert_eq!((bed.counter(Counter::Cancelled).await, bed.depth(JobState::Cancelled).await), (1, 1));
    assert!(ENDED_KEEP > LONG && lane.claim(1).await.is_empty());
    let silent = bed.put(1).await;
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, Ending::Cancel { reason: String::new() }).await);
    assert_eq!(bed.show(&silent[0]).await.expect("it is kept").note, None, "without a reason");
}

/// A job whose time has passed is recorded as expired.
pub async fn an_expired_job_is_recorded(bed: Bed) {
    let ids = bed.put(1).await;
    let mut lane = bed.lane().await;
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, Ending::Expire).await);
    assert_eq!(bed.state(&ids[0]).await, Some(JobState::Expired));
    assert_eq!((bed.counter(Counter::Expired).await, bed.depth(JobState::Expired).await), (1, 1));
    assert!(lane.claim(1).await.is_empty());
}

/// A returned job goes to the head of its list, and no counter changes.
pub async fn a_returned_job_goes_to_the_head_and_is_charged_nothing(bed: Bed) {
    let ids = bed.put(5).await;
    let mut lane = bed.lane().await;
    let held = lane.claim(2).await;
    assert!(lane.end(&held[0], Ending::Return).await);
    let again = lane.claim_one().await;
    assert_eq!(again.id, ids[0]);
    assert_eq!((again.attempts, again.crashes, again.snoozes), (0, 0, 0));
    assert_eq!(bed.counter(Counter::Returned).await, 1);
}

/// The number of runs that were stopped with their worker, and the time of the last one, until the
/// job starts over. A job that has not started is not counted.
pub async fn returns_are_counted_with_the_job(bed: Bed) {
    let ids = bed.put(2).await;
    let releases = async |id: &JobId| bed.show(id).await.map(|record| (record.returns, record.returned_ms.is_some()));
    let mut lane = bed.lane().await;
    let mut last = None;
    let [stopped, cancelled] = [true, false].map(|by_shutdown| Ending::Stopped { by_shutdown });
    for ending in [Ending::Return, Ending::Void, cancelled.clone(), stopped.clone(), stopped.clone(), cancelled, stopped.clone()] {
        let before = releases(&ids[0]).await.expect("it waits").0;
        let counts = u32::from(ending == stopped);
        let delivery = lane.claim_one().await;
        assert_eq!((&delivery.id, delivery.attempts, delivery.crashes, delivery.snoozes), (&ids[0], 0, 0, 0));
        assert!(lane.end(&delivery, ending).await);
        assert_eq!(releases(&ids[0]).await, Some((before + counts, before + counts > 0)));
        let at = bed.show(&ids[0]).await.expect("it waits").returned_ms;
        assert!(at >= last, "{at:?} after {last:?}");
        last = at;
    }
    assert_eq!(releases(&ids[1]).await, Some((0, false)), "each job has its own count");
    assert_eq!(bed.counter(Counter::Returned).await, 7);
    let listed = async |state| bed.broker.list(&bed.queue, state, 0, 10).await.expect("it can be listed").jobs[0].returns;
    assert_eq!(listed(JobState::Ready).await, 3, "a list has it, too");
    let delivery = lane.claim_one().await;
    assert_eq!(listed(JobState::Active).await, 3);
    // A failure keeps the count, and the record of the job has it.
    assert!(lane.end(&delivery, nack(NOW)).await);
    assert_eq!(releases(&ids[0]).await, Some((3, true)));
    bed.broker.cancel(&bed.queue, &ids[..1]).await.expect("it waits");
    assert_eq!(releases(&ids[0]).await, Some((3, true)));
    // A requeue resets the count, and so does a repeat.
    assert_eq!(bed.broker.requeue(&bed.queue, &ids[..1]).await.expect("it has ended"), [true]);
    assert_eq!(releases(&ids[0]).await, Some((0, false)));
    let delivery = lane.claim_one().await;
    assert_eq!(delivery.id, ids[1]);
    assert!(lane.end(&delivery, stopped).await);
    assert_eq!(releases(&ids[1]).await, Some((1, true)));
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, Ending::Repeat { delay: NOW }).await);
    assert_eq!(releases(&ids[1]).await, Some((0, false)));
}

/// A returned job keeps its priority.
pub async fn a_returned_job_keeps_its_priority(bed: Bed) {
    use queue_core::broker::Priority;
    let low = bed.put_at(Priority::Low).await;
    let mut lane = bed.lane().await;
    let delivery = lane.claim_one().await;
    let critical = bed.put_at(Priority::Critical).await;
    assert!(lane.end(&delivery, Ending::Return).await);
    let served: Vec<JobId> = lane.claim(2).await.into_iter().map(|delivery| delivery.id).collect();
    assert_eq!(served, [critical, low.clone()]);
    assert_eq!(bed.show(&low).await.expect("it is active").priority, Priority::Low);
}

/// This also holds for a failed and a snoozed job.
pub async fn a_job_that_comes_back_keeps_its_priority(bed: Bed) {
    use queue_core::broker::Priority;
    let mut lane = bed.lane().await;
    let critical = bed.put_at(Priority::Critical).await;
    for ending in [nack(NOW), Ending::Snooze { delay: NOW }, Ending::Repeat { delay: NOW }] {
        let delivery = lane.wait_for_one().await;
        assert_eq!(delivery.id, critical);
        assert!(lane.end(&delivery, ending).await);
    }
    bed.put(3).await;
    assert_eq!(lane.wait_for_one().await.id, critical);
}

/// A worker without a task parks its jobs. Only a worker that requests jobs of that task gets them.
pub async fn a_parked_job_waits_for_a_worker_that_knows_its_task(bed: Bed) {
    let ids = bed.put(3).await;
    let mut lane = bed.lane().await;
    for (delivery, task) in lane.claim(3).await.iter().zip(["new.one", "new.other", "new.one"]) {
        assert!(lane.end(delivery, Ending::Park { task: task.to_owned() }).await);
    }
    assert_eq!((bed.depth(JobState::Parked).await, bed.depth(JobState::Ready).await), (3, 0));
    let turn = lane.next().claim(10);
    let answer = lane.send(&turn).await;
    assert!(answer.deliveries.is_empty() && answer.parked && !answer.more, "{answer:?}");

    let held = resume(&mut lane, &["unrelated", "new.one"], 10).await;
    let found: Vec<JobId> = held.iter().map(|delivery| delivery.id.clone()).collect();
    assert!(found.len() == 2 && found.contains(&ids[0]) && found.contains(&ids[2]), "{found:?}");
    assert!(held.iter().all(|delivery| (delivery.attempts, delivery.crashes, delivery.snoozes) == (0, 0, 0)));
    lane.ack(&held).await;
    assert_eq!(bed.state(&ids[1]).await, Some(JobState::Parked));
    let held = resume(&mut lane, &["new.other"], 10).await;
    assert_eq!(held.len(), 1);
    let turn = lane.next().finish(vec![finish(&held[0], ack())]);
    assert!(!lane.send(&turn).await.parked);
}

/// Parked jobs come before others, and count for the claim.
pub async fn resumed_jobs_come_first_and_within_the_claim(bed: Bed) {
    bed.put(3).await;
    let mut lane = bed.lane().await;
    for delivery in lane.claim(3).await {
        assert!(lane.end(&delivery, Ending::Park { task: "t".to_owned() }).await);
    }
    let others = bed.put(1).await;
    let held = resume(&mut lane, &["t"], 2).await;
    assert!(held.len() == 2 && held.iter().all(|delivery| delivery.id != others[0]));
    let held = resume(&mut lane, &["t"], 2).await;
    assert!(held.len() == 2 && held[1].id == others[0]);
}

/// A parked job keeps its counters.
pub async fn a_parked_job_keeps_its_attempts(bed: Bed) {
    bed.put(1).await;
    let mut lane = bed.lane().await;
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, nack(NOW)).await);
    let delivery = lane.wait_for_one().await;
    assert!(lane.end(&delivery, Ending::Park { task: "t".to_owned() }).await);
    let held = resume(&mut lane, &["t"], 1).await;
    assert_eq!(held[0].attempts, 1);
}

async fn resume(lane: &mut Lane, tasks: &[&str], n: usize) -> Vec<Delivery> {
    let mut turn = lane.next().claim(n);
    turn.resume = tasks.iter().map(|task| Arc::from(*task)).collect();
    lane.send(&turn).await.deliveries
}

fn kept() -> Ending {
    Ending::Ack { result: None, keep: Some(LONG) }
}
