//! Requeues of ended jobs by operators.

use std::time::Duration;

use queue_core::{
    __private::Envelope,
    JobId,
    broker::{BuryReason, Counter, Ending, Enqueued, JobState, NewJob, Priority},
};

use super::bed::{Bed, LONG, envelope, nack};
use crate::Changes as _;

/// A requeued dead job starts again with its payload and without its counters.
pub async fn a_requeued_job_starts_clean(bed: Bed) {
    let id = bed.put(1).await.remove(0);
    let mut lane = bed.lane().await;
    for ending in [nack(Duration::ZERO), Ending::Snooze { delay: Duration::ZERO }] {
        let delivery = lane.wait_for_one().await;
        assert!(lane.end(&delivery, ending).await);
    }
    let delivery = lane.wait_for_one().await;
    assert!(lane.end(&delivery, Ending::Bury { reason: BuryReason::Failed, error: Some("last".to_owned()) }).await);
    assert_eq!(bed.broker.requeue(&bed.queue, std::slice::from_ref(&id)).await.unwrap(), [true]);
    assert_eq!((bed.depth(JobState::Dead).await, bed.depth(JobState::Ready).await, bed.counter(Counter::Requeued).await), (0, 1, 1));
    let again = lane.claim_one().await;
    assert_eq!((again.attempts, again.crashes, again.snoozes), (0, 0, 0));
    assert_eq!((again.id.clone(), again.envelope.clone()), (id, envelope("0")));
    lane.ack(&[again]).await;
}

/// A requeued cancelled or expired job starts with its priority, its failures and its given id, and
/// without its expiry.
pub async fn what_was_cancelled_or_has_expired_is_requeued_as_it_was(bed: Bed) {
    let mut lane = bed.lane().await;
    for (id, expires) in [("cancelled", false), ("expired", true)] {
        let mut told = Envelope::new("suite.task", b"\x80");
        told.expires_ms = expires.then_some(1);
        told.headers.insert("tenant".to_owned(), "7".to_owned());
        let job = |payload: &str| {
            let mut job = NewJob::new(JobId::given(id).unwrap(), told.encode().unwrap());
            (job.priority, job.digest) = (Priority::High, payload.len() as u64);
            job
        };
        assert_eq!(bed.put_job(job("one")).await, Enqueued::Stored);
        let failed = lane.claim_one().await;
        assert!(lane.end(&failed, nack(Duration::ZERO)).await);
        let delivery = lane.wait_for_one().await;
        let ending = if expires { Ending::Expire } else { Ending::Cancel { reason: "not now".to_owned() } };
        assert!(lane.end(&delivery, ending).await);
        let ids = [delivery.id.clone()];
        assert_eq!(bed.broker.requeue(&bed.queue, &ids).await.unwrap(), [true]);
        assert_eq!(bed.broker.requeue(&bed.queue, &ids).await.unwrap(), [false]);
        let record = bed.show(&ids[0]).await.unwrap();
        assert_eq!((record.state, record.priority, record.failures.len(), record.note), (JobState::Ready, Priority::High, 1, None));
        assert_eq!(bed.put_job(job("one")).await, Enqueued::Existing, "its id is taken again");
        assert_eq!(bed.put_job(job("other")).await, Enqueued::IdConflict);
        let again = lane.claim_one().await;
        assert_eq!((&again.id, again.attempts, again.crashes, again.snoozes), (&ids[0], 0, 0, 0));
        told.expires_ms = None;
        assert_eq!(again.envelope, told.encode().unwrap());
        // It may end in the same way again, and the latest note is shown.
        assert!(lane.end(&again, Ending::Cancel { reason: "nor then".to_owned() }).await);
        assert_eq!(bed.show(&ids[0]).await.unwrap().note.as_deref(), Some("nor then"));
    }
    assert_eq!((bed.depth(JobState::Cancelled).await, bed.depth(JobState::Expired).await), (2, 0));
    assert_eq!((bed.ids(JobState::Cancelled).await.len(), bed.counter(Counter::Requeued).await), (2, 2));
    // An id that another job now has is not taken from it.
    let other = NewJob::new(JobId::given("cancelled").unwrap(), envelope("other"));
    assert_eq!(bed.put_job(other).await, Enqueued::Stored);
    assert_eq!(bed.broker.requeue(&bed.queue, &[JobId::given("cancelled").unwrap()]).await.unwrap(), [false]);
}

/// A running, waiting or done job cannot be requeued.
pub async fn what_runs_waits_or_is_done_is_not_requeued(bed: Bed) {
    let ids = bed.put(3).await;
    let mut lane = bed.lane().await;
    let held = lane.claim(2).await;
    assert!(lane.end(&held[0], Ending::Ack { result: None, keep: Some(LONG) }).await);
    let all = [ids, vec![JobId::make()]].concat();
    assert_eq!(bed.broker.requeue(&bed.queue, &all).await.unwrap(), [false; 4]);
    assert_eq!(bed.state(&all[0]).await, Some(JobState::Done));
    assert!(bed.broker.requeue("a-queue-that-nobody-knows", &all[..1]).await.unwrap() == [false]);
}
