//! Unique keys of jobs that end, come back, crash or are changed by operators: none leaks, and at
//! most one job holds each.

use std::{collections::BTreeMap, time::Duration};

use queue_core::{
    Error,
    broker::{
        Audit, BuryReason, Change, Changed, CrashRule, Due, Ending, Enqueued, Hold, JobState, KeyHolder, ProcessId, SweepLimits, Unique,
        UniqueKey,
    },
};

use super::{
    bed::{Bed, LONG, SHORT, ack, eventually, nack},
    unique::{BUFFER, SKIP, first, holder, is_held_by, job, key, running},
};
use crate::Changes as _;

const THOROUGH: Audit = Audit { repair: false, thorough: true };

/// Charged jobs come back almost at once.
const RULE: CrashRule = CrashRule { max_crashes: 2, tasks: &[], window: Duration::from_secs(3600), delay: Duration::from_millis(1) };

/// Every end of a job frees its key, and the key stays free when the record is removed.
pub async fn every_end_frees_the_key(bed: Bed) {
    let mut lane = bed.lane().await;
    let endings = [
        ack(),
        Ending::Ack { result: Some(b"r".to_vec()), keep: Some(LONG) },
        Ending::Bury { reason: BuryReason::Failed, error: Some("x".to_owned()) },
        Ending::Cancel { reason: "no".to_owned() },
        Ending::Expire,
    ];
    let mut ids = Vec::new();
    for ending in endings {
        let (id, delivery) = running(&bed, &mut lane, SKIP).await;
        assert!(lane.end(&delivery, ending.clone()).await);
        assert_eq!(holder(&bed).await, None, "{ending:?}");
        ids.push(id);
    }
    for change in [Change::Cancel, Change::Delete] {
        let id = first(&bed, job("waits", SKIP)).await;
        assert_eq!(bed.broker.change(&bed.queue, change, None, std::slice::from_ref(&id)).await.unwrap(), [Changed::Yes]);
        assert_eq!(holder(&bed).await, None, "{change}");
    }
    let (id, _) = running(&bed, &mut lane, SKIP).await;
    assert_eq!(bed.broker.cancel(&bed.queue, &[id]).await.unwrap(), [Changed::WhileActive]);
    assert_eq!(holder(&bed).await, None, "cancelled while it ran");
    let kept = first(&bed, job("stays", SKIP)).await;
    bed.broker.delete(&bed.queue, &ids).await.unwrap();
    is_held_by(&bed, &kept, "the records are gone").await;
    assert!(bed.inspector().audit(&bed.queue, THOROUGH).await.unwrap().is_empty());
}

/// Every ending that is final lets the successor follow.
pub async fn every_end_lets_the_successor_follow(bed: Bed) {
    let mut lane = bed.lane().await;
    let endings = [
        ack(),
        Ending::Ack { result: None, keep: Some(LONG) },
        Ending::Bury { reason: BuryReason::Failed, error: None },
        Ending::Cancel { reason: String::new() },
        Ending::Expire,
    ];
    for ending in endings {
        let (_, delivery) = running(&bed, &mut lane, BUFFER).await;
        let second = job("second", BUFFER);
        let next = second.id.clone();
        assert_eq!(bed.put_job(second).await, Enqueued::Buffered(next.clone()));
        assert!(lane.end(&delivery, ending.clone()).await);
        is_held_by(&bed, &next, "after the end").await;
        let delivery = lane.claim_one().await;
        assert_eq!(delivery.id, next, "{ending:?}");
        lane.ack(&[delivery]).await;
    }
}

/// A successor can be cancelled and deleted like every job. Then no job follows.
pub async fn a_held_job_is_cancelled_and_deleted(bed: Bed) {
    let mut lane = bed.lane().await;
    let (id, delivery) = running(&bed, &mut lane, BUFFER).await;
    for change in [Change::Cancel, Change::Delete] {
        let second = job("second", BUFFER);
        let next = second.id.clone();
        assert_eq!(bed.put_job(second).await, Enqueued::Buffered(next.clone()));
        assert_eq!(bed.broker.promote(&bed.queue, std::slice::from_ref(&next)).await.unwrap(), [false]);
        assert_eq!(bed.broker.change(&bed.queue, change, None, std::slice::from_ref(&next)).await.unwrap(), [Changed::Yes]);
        assert_eq!(bed.depth(JobState::Held).await, 0);
        assert_eq!(holder(&bed).await, Some(KeyHolder::new(id.clone())), "{change}");
    }
    lane.ack(&[delivery]).await;
    assert_eq!((holder(&bed).await, lane.claim(10).await.len()), (None, 0));
}

/// If a job comes back while a younger one holds its key, it is superseded: it is cancelled, and no
/// error occurs.
pub async fn a_job_that_comes_back_to_a_key_of_a_younger_one_is_superseded(bed: Bed) {
    let ways = [
        nack(Duration::ZERO),
        Ending::Snooze { delay: Duration::ZERO },
        Ending::Repeat { delay: Duration::ZERO },
        Ending::Repeat { delay: LONG },
        Ending::Return,
        Ending::Park { task: "t".to_owned() },
    ];
    let mut lane = bed.lane().await;
    for way in ways {
        let (old, delivery) = running(&bed, &mut lane, SKIP).await;
        bed.broker.release_key(&bed.queue, &key()).await.unwrap().expect("it was held");
        let young = first(&bed, job("young", SKIP)).await;
        assert!(lane.end(&delivery, way.clone()).await, "{way:?}");
        let record = bed.show(&old).await.unwrap();
        assert_eq!((record.state, record.note), (JobState::Cancelled, Some(format!("superseded by {young}"))), "{way:?}");
        let delivery = lane.claim_one().await;
        assert_eq!(delivery.id, young);
        lane.ack(&[delivery]).await;
    }
    for charged in [false, true] {
        let process = ProcessId::random();
        let mut dying = bed.lane_of(process, SHORT).await;
        if !charged {
            // In this case the process has not crashed.
            bed.lane_of(process, LONG).await;
        }
        let old = first(&bed, job("old", SKIP)).await;
        assert_eq!(dying.claim_one().await.id, old);
        bed.broker.release_key(&bed.queue, &key()).await.unwrap();
        let young = first(&bed, job("young", SKIP)).await;
        let reclaimed = bed.reclaim(&[&dying], RULE).await;
        assert!(reclaimed.moved() >= 1, "{reclaimed:?}");
        let record = bed.show(&old).await.unwrap();
        assert_eq!(
            (record.state, record.note),
            (JobState::Cancelled, Some(format!("superseded by {young}"))),
            "reclaimed, charged: {charged}"
        );
        is_held_by(&bed, &young, "the young one").await;
        bed.broker.delete(&bed.queue, &[young]).await.unwrap();
    }
}

/// A requeue of a job whose key another job holds returns the holder. The job stays dead.
pub async fn a_requeue_is_answered_with_the_holder_of_the_key(bed: Bed) {
    let mut lane = bed.lane().await;
    let mut dead = Vec::new();
    for n in 0..3 {
        let (id, delivery) = running(&bed, &mut lane, SKIP).await;
        let ending = match n {
            0 => Ending::Bury { reason: BuryReason::Failed, error: None },
            1 => Ending::Cancel { reason: String::new() },
            _ => Ending::Expire,
        };
        assert!(lane.end(&delivery, ending).await);
        dead.push(id);
    }
    let young = first(&bed, job("young", SKIP)).await;
    let states = [JobState::Dead, JobState::Cancelled, JobState::Expired];
    assert_eq!(bed.broker.change(&bed.queue, Change::Requeue, None, &dead).await.unwrap(), vec![Changed::Held(young.clone()); 3]);
    for (id, state) in dead.iter().zip(states) {
        assert_eq!((bed.state(id).await, bed.show(id).await.unwrap().unique), (Some(state), Some(key())));
    }
    let delivery = lane.claim_one().await;
    lane.ack(&[delivery]).await;
    let answers = bed.broker.change(&bed.queue, Change::Requeue, None, &dead).await.unwrap();
    assert_eq!(answers, [Changed::Yes, Changed::Held(dead[0].clone()), Changed::Held(dead[0].clone())], "the first takes the key");
    is_held_by(&bed, &dead[0], "requeued").await;
}

/// Several dead letters of one key do not change.
pub async fn dead_letters_of_one_key_stay_as_many_as_they_are(bed: Bed) {
    let mut lane = bed.lane().await;
    for _ in 0..20 {
        let (_, delivery) = running(&bed, &mut lane, SKIP).await;
        assert!(lane.end(&delivery, Ending::Bury { reason: BuryReason::Failed, error: None }).await);
    }
    assert_eq!(bed.inspector().change_all(&bed.queue, Change::Requeue, JobState::Dead).await.unwrap(), 1);
    assert_eq!((bed.depth(JobState::Dead).await, bed.depth(JobState::Ready).await), (19, 1));
}

/// An operator can release a key from its holder, and the successor gets it.
pub async fn a_key_is_released_by_hand(bed: Bed) {
    let mut lane = bed.lane().await;
    assert_eq!(bed.broker.release_key(&bed.queue, &key()).await.unwrap(), None);
    let (id, delivery) = running(&bed, &mut lane, BUFFER).await;
    let second = job("second", BUFFER);
    let next = second.id.clone();
    assert_eq!(bed.put_job(second).await, Enqueued::Buffered(next.clone()));
    // The list has exactly the held keys, page by page.
    let other = UniqueKey::of("other", b"key");
    let mut third = job("third", SKIP);
    third.unique = Some(Box::new(Unique::new(other).hold(Hold::Within(LONG))));
    third.due = Due::After(LONG);
    let third = first(&bed, third).await;
    let (mut listed, mut after) = (BTreeMap::new(), None);
    loop {
        let page = bed.broker.keys(&bed.queue, after.as_deref(), 1).await.unwrap();
        listed.extend(page.keys.into_iter().map(|(key, holder)| (key.to_string(), (holder.id, holder.until_ms.is_some(), holder.next))));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let expected = [(key().to_string(), (id.clone(), false, Some(next.clone()))), (other.to_string(), (third, true, None))];
    assert_eq!(listed, BTreeMap::from(expected));
    let error = bed.broker.keys(&bed.queue, Some("no cursor"), 1).await.unwrap_err();
    assert!(matches!(error, Error::Invalid { .. }), "{error}");
    let released = bed.broker.release_key(&bed.queue, &key()).await.unwrap().expect("it was held");
    assert_eq!((released.id, released.next), (id.clone(), Some(next.clone())));
    is_held_by(&bed, &next, "released").await;
    assert_eq!(lane.claim_one().await.id, next, "both run: a person wanted that");
    assert!(lane.end(&delivery, ack()).await, "the old one goes on");
    is_held_by(&bed, &next, "the old one gives back what it does not hold").await;
    // A waiting job may lack its key on purpose: no repair restores the key.
    bed.broker.release_key(&bed.queue, &key()).await.unwrap().expect("it was held");
    bed.put_job(job("third", SKIP)).await;
    bed.broker.release_key(&bed.queue, &key()).await.unwrap().expect("it was held");
    for repair in [false, true] {
        assert_eq!(bed.inspector().audit(&bed.queue, Audit { repair, thorough: true }).await.unwrap(), []);
        assert_eq!(holder(&bed).await, None);
    }
}

/// A worker is killed twice: the key stays with the job, and is free when the job is buried.
pub async fn a_killed_worker_leaks_no_key(bed: Bed) {
    let id = first(&bed, job("first", SKIP)).await;
    for crash in 0..RULE.max_crashes {
        let mut dying = bed.dying_lane().await;
        eventually("it is ready", async || {
            let mut turn = dying.next().claim(1);
            turn.suspect = true;
            dying.send(&turn).await.deliveries.pop()
        })
        .await;
        is_held_by(&bed, &id, "it runs").await;
        bed.reclaim(&[&dying], RULE).await;
        if crash + 1 < RULE.max_crashes {
            is_held_by(&bed, &id, "it came back").await;
            assert_eq!(bed.put_job(job("second", SKIP)).await, Enqueued::Duplicate(id.clone()));
        }
    }
    assert_eq!((bed.state(&id).await, holder(&bed).await), (Some(JobState::Dead), None));
    first(&bed, job("second", SKIP)).await;
}

/// After a restored backup, each key is held by its job only. A storage that cannot be backed up is
/// then empty, and no key is held.
pub async fn a_restored_backup_knows_who_holds_a_key(bed: Bed) {
    let id = first(&bed, job("first", SKIP)).await;
    let bed = bed.save().await;
    let mut lane = bed.lane().await;
    let delivery = lane.claim_one().await;
    lane.ack(&[delivery]).await;
    drop(lane);
    first(&bed, job("second", SKIP)).await;
    let bed = bed.restore().await;
    let kept = bed.state(&id).await.is_some();
    assert_eq!(holder(&bed).await.map(|holder| holder.id), kept.then(|| id.clone()), "as it was");
    let third = if kept { Enqueued::Duplicate(id) } else { Enqueued::Stored };
    assert_eq!(bed.put_job(job("third", SKIP)).await, third);
    assert!(bed.inspector().audit(&bed.queue, THOROUGH).await.unwrap().is_empty());
}

/// If a job or its record is evicted, its key is free.
pub async fn housekeeping_leaves_no_key_behind(bed: Bed) {
    let mut lane = bed.lane().await;
    for ending in
        [Ending::Bury { reason: BuryReason::Failed, error: None }, Ending::Ack { result: None, keep: Some(Duration::from_millis(1)) }]
    {
        let (_, delivery) = running(&bed, &mut lane, SKIP).await;
        assert!(lane.end(&delivery, ending).await);
    }
    let id = first(&bed, job("young", SKIP)).await;
    let limits = SweepLimits { dead: Duration::ZERO, ..SweepLimits::default() };
    eventually("the records are gone", async || {
        bed.broker.sweep(&bed.queue, &limits).await.unwrap();
        (bed.stats().await.jobs() == 1).then_some(())
    })
    .await;
    is_held_by(&bed, &id, "the young one").await;
}
