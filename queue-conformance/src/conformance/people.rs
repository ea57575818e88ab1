//! Changes by operators: cancel, promote, delete, pause.

use std::time::Duration;

use queue_core::{
    JobAddress, JobId,
    broker::{Audit, BuryReason, Changed, Counter, CrashRule, Due, Ending, JobState, NewJob, Priority, SetPause},
};

use super::bed::{Bed, LONG, ack, envelope, nack};
use crate::Changes as _;

/// A cancelled waiting job never starts, whatever it waits for.
pub async fn a_cancelled_job_never_starts(bed: Bed) {
    let mut lane = bed.lane().await;
    let retry = bed.put(1).await.remove(0);
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, nack(Duration::from_millis(20))).await);
    let parked = bed.put(1).await.remove(0);
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, Ending::Park { task: "suite.task".to_owned() }).await);
    let scheduled = bed.put_later(Duration::from_millis(20)).await;
    let ready = bed.put_at(Priority::High).await;
    let ids = [ready, scheduled, retry, parked];
    assert_eq!(cancel(&bed, &ids).await, vec![Changed::Yes; 4]);
    for id in &ids {
        assert_eq!(bed.state(id).await, Some(JobState::Cancelled));
    }
    let last = bed.put_later(Duration::from_millis(40)).await;
    let mut turn = lane.next().claim(10);
    turn.resume = vec!["suite.task".into()];
    let first = match lane.send(&turn).await.deliveries.pop() {
        Some(delivery) => delivery,
        None => lane.wait_for_one().await,
    };
    assert_eq!(first.id, last, "nothing else becomes due before");
    assert_eq!((bed.depth(JobState::Cancelled).await, bed.counter(Counter::Cancelled).await), (4, 4));
}

/// The reason of a cancel stays with the job in every state. Without a reason there is no note.
pub async fn a_cancel_keeps_its_reason(bed: Bed) {
    let ids = bed.put(4).await;
    let mut lane = bed.lane().await;
    lane.claim_one().await;
    let (inspector, address) = (bed.inspector(), |id: &JobId| JobAddress { queue: bed.queue.clone(), id: id.clone() });
    let because = inspector.clone().because("ordered twice: ünsere Schuld");
    assert_eq!(because.cancel(&address(&ids[0])).await.unwrap(), Changed::WhileActive);
    assert_eq!(because.cancel(&address(&ids[1])).await.unwrap(), Changed::Yes);
    inspector.cancel(&address(&ids[2])).await.unwrap();
    inspector.clone().because("x".repeat(5000)).cancel(&address(&ids[3])).await.unwrap();
    let mut notes = Vec::new();
    for id in &ids {
        let record = bed.show(id).await.unwrap();
        assert_eq!(record.state, JobState::Cancelled);
        notes.push(record.note);
    }
    let reason = Some("ordered twice: ünsere Schuld".to_owned());
    assert_eq!(notes[..3], [reason.clone(), reason, None]);
    assert!(notes[3].as_ref().unwrap().len() <= 1024);
}

/// A cancelled running job can no longer change anything.
pub async fn a_job_cancelled_while_active_can_change_nothing(bed: Bed) {
    let ids = bed.put(1).await;
    let mut lane = bed.lane().await;
    let delivery = lane.claim_one().await;
    assert_eq!(cancel(&bed, &ids).await, [Changed::WhileActive]);
    for ending in [ack(), nack(Duration::ZERO), Ending::Return, Ending::Snooze { delay: Duration::ZERO }] {
        assert!(!lane.end(&delivery, ending).await);
    }
    assert_eq!(bed.state(&ids[0]).await, Some(JobState::Cancelled));
    assert!(lane.claim(1).await.is_empty());
    assert_eq!((bed.counter(Counter::Done).await, bed.counter(Counter::Failed).await), (0, 0));
}

/// A missing or ended job is not found. The others of the call are still cancelled.
pub async fn what_has_ended_cannot_be_cancelled(bed: Bed) {
    let ids = bed.put(4).await;
    let mut lane = bed.lane().await;
    let held = lane.claim(3).await;
    assert!(lane.end(&held[0], ack()).await);
    assert!(lane.end(&held[1], Ending::Ack { result: None, keep: Some(LONG) }).await);
    assert!(lane.end(&held[2], Ending::Bury { reason: BuryReason::Buried, error: None }).await);
    let mut all = ids.clone();
    all.push(JobId::make());
    all.push(JobId::given("nobody").unwrap());
    assert_eq!(cancel(&bed, &all).await, [Changed::No, Changed::No, Changed::No, Changed::Yes, Changed::No, Changed::No]);
    assert_eq!(cancel(&bed, &ids[3..]).await, [Changed::No], "a second time");
    assert_eq!((bed.state(&ids[1]).await, bed.state(&ids[2]).await), (Some(JobState::Done), Some(JobState::Dead)));
    assert_eq!(cancel_in("a-queue-that-nobody-knows", &bed, &ids[..1]).await, [Changed::No]);
}

/// The depth counts jobs that will be served, and not cancelled ones.
pub async fn depth_leaves_out_what_was_cancelled(bed: Bed) {
    let ids = bed.put(10).await;
    cancel(&bed, &ids[2..7]).await;
    assert_eq!(bed.depth(JobState::Ready).await, 5);
    let listed = bed.ids(JobState::Ready).await;
    assert_eq!(listed, [&ids[..2], &ids[7..]].concat());
    let mut lane = bed.lane().await;
    let turn = lane.next().claim(5);
    let answer = lane.send(&turn).await;
    assert_eq!((answer.deliveries.len(), answer.more), (5, false), "a claim passes over them");
    assert_eq!(bed.depth(JobState::Ready).await, 0);
}

/// Many cancelled jobs do not hide a later job for long.
pub async fn a_job_behind_many_cancelled_ones_is_served(bed: Bed) {
    let ids = bed.put(1500).await;
    for piece in ids.chunks(500) {
        cancel(&bed, piece).await;
    }
    let wanted = bed.put(1).await.remove(0);
    let mut lane = bed.lane().await;
    for _ in 0..10 {
        let turn = lane.next().claim(10);
        let answer = lane.send(&turn).await;
        if let Some(delivery) = answer.deliveries.first() {
            assert_eq!(delivery.id, wanted);
            return;
        }
        assert!(answer.more, "a worker would sleep now");
    }
    panic!("not served in ten turns");
}

/// A promoted job starts at once and keeps its counters.
pub async fn a_promoted_job_starts_now_and_keeps_its_counters(bed: Bed) {
    let scheduled = bed.put_later(LONG).await;
    let retry = bed.put(1).await.remove(0);
    let mut lane = bed.lane().await;
    for ending in [Ending::Snooze { delay: Duration::ZERO }, nack(LONG)] {
        let delivery = lane.wait_for_one().await;
        assert!(lane.end(&delivery, ending).await);
    }
    assert!(lane.claim(10).await.is_empty(), "neither is due");
    let ids = [scheduled.clone(), retry.clone()];
    assert_eq!(promote(&bed, &ids).await, [true, true]);
    assert_eq!(bed.ids(JobState::Ready).await, ids);
    let record = bed.show(&retry).await.expect("it is ready");
    assert_eq!((record.attempts, record.snoozes, record.failures.len(), record.at_ms), (1, 1, 1, None));
    let turn = lane.next().claim(10);
    let answer = lane.send(&turn).await;
    assert_eq!((answer.next_due, answer.more), (None, false), "nothing waits any more");
    let told: Vec<_> = answer.deliveries.iter().map(|delivery| (&delivery.id, delivery.attempts, delivery.snoozes)).collect();
    assert_eq!(told, [(&scheduled, 0, 0), (&retry, 1, 1)]);
    lane.ack(&answer.deliveries).await;
    assert_eq!(bed.stats().await.jobs(), 0);
}

/// A promoted job comes after the ready jobs of its priority.
pub async fn promoted_jobs_line_up_by_priority(bed: Bed) {
    let later = |priority| {
        let mut job = NewJob::new(JobId::make(), envelope("later"));
        (job.due, job.priority) = (Due::After(LONG), priority);
        job
    };
    let (low, high, normal) = (later(Priority::Low), later(Priority::High), later(Priority::Normal));
    let ids = [low.id.clone(), high.id.clone(), normal.id.clone()];
    bed.producer().await.stored(vec![low, high, normal]).await;
    let (before, first) = (bed.put(1).await.remove(0), bed.put_at(Priority::High).await);
    assert_eq!(promote(&bed, &ids).await, [true; 3]);
    let behind = bed.put(1).await.remove(0);
    let [low, high, normal] = ids;
    let order = [first, high, before, normal, behind, low];
    assert_eq!(bed.ids(JobState::Ready).await, order);
    let served: Vec<JobId> = bed.lane().await.claim(10).await.into_iter().map(|delivery| delivery.id).collect();
    assert_eq!(served, order);
}

/// A promoted job that was running when its process crashed is served alone, as it would have been
/// later.
pub async fn a_promoted_job_with_crashes_is_a_suspect(bed: Bed) {
    let ids = bed.put(2).await;
    let mut lost = bed.dying_lane().await;
    lost.claim(2).await;
    let slow = CrashRule { max_crashes: 3, tasks: &[], window: LONG, delay: LONG };
    assert_eq!(bed.reclaim(&[&lost], slow).await.charged, 2);
    assert_eq!(promote(&bed, &ids).await, [true, true]);
    let mut lane = bed.lane().await;
    let mut turn = lane.next().claim(10);
    turn.suspect = false;
    assert!(lane.send(&turn).await.deliveries.is_empty(), "who may have no suspect gets none");
    let turn = lane.next().claim(10);
    let answer = lane.send(&turn).await;
    let told: Vec<_> = answer.deliveries.iter().map(|delivery| (&delivery.id, delivery.crashes)).collect();
    assert_eq!((told, answer.suspects), (vec![(&ids[0], 1)], true), "one at a time");
}

/// Only a job that waits for a time can be promoted, and only once.
pub async fn only_jobs_that_wait_for_a_time_are_promoted(bed: Bed) {
    let mut lane = bed.lane().await;
    let ids = bed.put(6).await;
    let held = lane.claim(5).await;
    let endings = [
        Ending::Park { task: "suite.task".to_owned() },
        Ending::Ack { result: None, keep: Some(LONG) },
        Ending::Bury { reason: BuryReason::Buried, error: None },
        Ending::Cancel { reason: "unwanted".to_owned() },
    ];
    for (delivery, ending) in held.iter().zip(endings) {
        assert!(lane.end(delivery, ending).await);
    }
    let scheduled = bed.put_later(LONG).await;
    let all = [ids.clone(), vec![JobId::make(), scheduled.clone(), scheduled.clone()]].concat();
    let states = async || {
        let mut states = Vec::new();
        for id in &ids {
            states.push(bed.state(id).await);
        }
        states
    };
    let before = states().await;
    assert_eq!(promote(&bed, &all).await, [false, false, false, false, false, false, false, true, false]);
    assert_eq!(promote(&bed, &all).await, [false; 9], "a second time");
    use JobState::{Active, Cancelled, Dead, Done, Parked, Ready};
    assert_eq!((states().await, &before), (before.clone(), &[Parked, Done, Dead, Cancelled, Active, Ready].map(Some).to_vec()));
    assert_eq!(bed.ids(Ready).await, [ids[5].clone(), scheduled], "each once");
    assert_eq!(bed.broker.promote("a-queue-that-nobody-knows", &all[..1]).await.unwrap(), [false]);
    lane.ack(&held[4..]).await;
}

/// In a paused queue a promoted job is ready, and starts when the pause ends.
pub async fn a_job_promoted_in_a_paused_queue_starts_after_the_pause(bed: Bed) {
    let mut lane = bed.lane().await;
    let id = bed.put_later(LONG).await;
    bed.broker.set_pause(&SetPause::of_queue(bed.queue.clone(), true)).await.unwrap();
    assert_eq!(promote(&bed, std::slice::from_ref(&id)).await, [true]);
    assert_eq!(bed.state(&id).await, Some(JobState::Ready));
    assert!(lane.claim(10).await.is_empty());
    bed.broker.set_pause(&SetPause::of_queue(bed.queue.clone(), false)).await.unwrap();
    assert_eq!(lane.claim_one().await.id, id);
}

/// A waiting worker is notified of a promoted job that may start now.
pub async fn a_promoted_job_is_announced(bed: Bed) {
    let mut hints = bed.broker.hints(&bed.queue);
    let mut heard = async |patience| tokio::time::timeout(Duration::from_millis(patience), hints.next()).await.ok();
    for _ in 0..10 {
        let id = bed.put_later(LONG).await;
        // Earlier announcements do not belong to the promotion.
        while heard(200).await.is_some() {}
        assert_eq!(promote(&bed, &[id]).await, [true]);
        if let Some(hint) = heard(500).await {
            assert_eq!(hint.due, None);
            return;
        }
        // Only the first job in an empty list is announced.
        bed.lane().await.claim(10).await;
    }
    panic!("nothing was announced in ten rounds");
}

/// A delete removes an inactive job with all of its data.
pub async fn a_deleted_job_leaves_nothing(bed: Bed) {
    let mut lane = bed.lane().await;
    let ids = bed.put(4).await;
    let held = lane.claim(3).await;
    assert!(lane.end(&held[0], Ending::Ack { result: Some(vec![1]), keep: Some(LONG) }).await);
    assert!(lane.end(&held[1], Ending::Bury { reason: BuryReason::Buried, error: Some("x".to_owned()) }).await);
    let scheduled = bed.put_later(LONG).await;
    let all = [ids.clone(), vec![scheduled, JobId::make()]].concat();
    let deleted = bed.broker.delete(&bed.queue, &all).await.unwrap();
    assert_eq!(deleted, [true, true, false, true, true, false], "not the active one, nor one that never was");
    for id in [&all[0], &all[1], &all[3], &all[4]] {
        assert!(bed.show(id).await.is_none());
    }
    let stats = bed.stats().await;
    assert_eq!((stats.count(JobState::Active), stats.jobs()), (1, 1));
    assert!(lane.claim(10).await.is_empty(), "the deleted one is not delivered");
    lane.ack(&held[2..]).await;
}

/// A paused queue accepts enqueues and endings, but delivers no job.
pub async fn a_paused_queue_gives_nothing_out(bed: Bed) {
    let mut lane = bed.lane().await;
    bed.put(2).await;
    let held = lane.claim_one().await;
    bed.broker.set_pause(&SetPause::of_queue(bed.queue.clone(), true)).await.unwrap();
    bed.put(1).await;
    let turn = lane.next().claim(10).finish(vec![super::finish(&held, ack())]);
    let answer = lane.send(&turn).await;
    assert!(answer.deliveries.is_empty() && answer.stale.is_empty());
    assert!(answer.paused && !answer.more);
    let stats = bed.stats().await;
    assert!(stats.paused && stats.total(Counter::Done) == 1 && stats.count(JobState::Ready) == 2);
    bed.broker.set_pause(&SetPause::of_queue(bed.queue.clone(), false)).await.unwrap();
    let turn = lane.next().claim(10);
    let answer = lane.send(&turn).await;
    assert_eq!((answer.deliveries.len(), answer.paused), (2, false));
}

/// Resuming a queue wakes waiting workers.
pub async fn resuming_a_queue_is_announced(bed: Bed) {
    bed.put(1).await;
    let mut hints = bed.broker.hints(&bed.queue);
    for _ in 0..20 {
        bed.broker.set_pause(&SetPause::of_queue(bed.queue.clone(), true)).await.unwrap();
        bed.broker.set_pause(&SetPause::of_queue(bed.queue.clone(), false)).await.unwrap();
        if tokio::time::timeout(Duration::from_millis(500), hints.next()).await.is_ok() {
            return;
        }
    }
    panic!("nothing was announced in ten seconds");
}

/// A cancelled job of the size of a mebibyte is a record like any other.
pub async fn a_cancelled_job_keeps_its_payload(bed: Bed) {
    let job = NewJob::new(JobId::make(), vec![9; 100_000]);
    let id = job.id.clone();
    bed.put_job(job).await;
    cancel(&bed, std::slice::from_ref(&id)).await;
    let record = bed.show(&id).await.expect("it is kept");
    assert_eq!((record.envelope.len(), record.receipt), (100_000, None));
    assert!(record.at_ms.is_some(), "when it was cancelled");
}

async fn promote(bed: &Bed, ids: &[JobId]) -> Vec<bool> {
    bed.broker.promote(&bed.queue, ids).await.unwrap()
}

async fn cancel(bed: &Bed, ids: &[JobId]) -> Vec<Changed> {
    cancel_in(&bed.queue, bed, ids).await
}

async fn cancel_in(queue: &str, bed: &Bed, ids: &[JobId]) -> Vec<Changed> {
    bed.broker.cancel(queue, ids).await.unwrap()
}

/// After changes of all kinds, the auditor finds no damage.
pub async fn a_queue_that_nobody_touched_has_no_damage(bed: Bed) {
    let mut lane = bed.lane().await;
    bed.put(8).await;
    bed.put_later(LONG).await;
    bed.put_given("given", "x").await;
    let held = lane.claim(7).await;
    let endings = [
        nack(LONG),
        Ending::Park { task: "unknown".to_owned() },
        Ending::Bury { reason: BuryReason::Buried, error: None },
        Ending::Ack { result: None, keep: Some(LONG) },
        Ending::Return,
    ];
    for (delivery, ending) in held.iter().zip(endings) {
        assert!(lane.end(delivery, ending).await);
    }
    // Two jobs are active. A waiting one is cancelled and has a tombstone.
    let waiting = bed.put(1).await;
    assert_eq!(cancel(&bed, &waiting).await, [Changed::Yes]);
    for thorough in [false, true] {
        let found = bed.broker.audit(&bed.queue, Audit { repair: true, thorough }).await.unwrap();
        assert_eq!(found, [], "thorough: {thorough}");
    }
    assert_eq!(bed.counter(Counter::Repaired).await, 0);
}
