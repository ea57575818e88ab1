//! Waiting for the end of a job: `watch`, and the announcements for who watches.

use std::time::Duration;

use futures_util::{FutureExt, future::join_all};
use queue_core::{
    JobId,
    broker::{Audit, BuryReason, Change, Counter, Ending, Hints, JobState, KeepLimits, SweepLimits},
};

use super::bed::{Bed, ack, finish, hears_of_nothing_yet, nack};
use crate::patience::wait;

/// Hints of the end of this job. What a new listener is told is over.
async fn listens(bed: &Bed, id: &JobId) -> Hints {
    hears_of_nothing_yet(&bed.broker, &bed.queue, bed.broker.ending_hints(&bed.queue, id)).await
}

/// Somebody who watches this job.
async fn watches(bed: &Bed, id: &JobId) -> Hints {
    let hints = listens(bed, id).await;
    let job = bed.broker.watch(&bed.queue, id).await.expect("a job can be watched");
    assert_eq!(format!("{job:?}"), format!("{:?}", bed.show(id).await), "it is shown");
    hints
}

async fn hears(hints: &mut Hints, of: &str) -> u64 {
    wait(format!("{of} to be announced")).end_of(hints.next()).await.count
}

fn cancel() -> (Change, Option<&'static str>) {
    (Change::Cancel, Some("nobody wants it"))
}

/// However a job ends, who watches it hears of it.
pub async fn the_end_of_a_watched_job_is_announced_however_it_ends(bed: Bed) {
    let ids = bed.put(7).await;
    let mut hints = join_all(ids.iter().map(|id| watches(&bed, id))).await;
    let mut lane = bed.lane().await;
    let [done, kept, dead, cancelled] = <[_; 4]>::try_from(lane.claim(4).await).expect("four jobs are ready");
    let turn = lane.next().finish(vec![
        finish(&done, ack()),
        finish(&kept, Ending::Ack { keep: Some(Duration::from_secs(60)), result: Some(vec![1]) }),
        finish(&dead, Ending::Bury { reason: BuryReason::Failed, error: None }),
    ]);
    assert!(lane.send(&turn).await.stale.is_empty());
    let (change, reason) = cancel();
    let both = [cancelled.id.clone(), ids[4].clone()];
    bed.broker.change(&bed.queue, change, reason, &both).await.unwrap();
    bed.broker.change(&bed.queue, Change::Delete, None, &ids[5..6]).await.unwrap();
    for (hints, of) in hints.iter_mut().zip([
        "a job that is done",
        "one that is kept",
        "one that is dead",
        "a cancel of one that runs",
        "a cancel",
        "a delete",
    ]) {
        hears(hints, of).await;
    }
    assert_eq!(hints[6].next().now_or_never(), None, "a job that waits has not ended");
    let wrong = bed.broker.audit(&bed.queue, Audit { repair: false, thorough: true }).await.expect("an audit is answered");
    assert!(wrong.is_empty(), "{wrong:?}");
    // The dead one is put back and ends again. The first end has taken the mark along, and nobody
    // has asked since.
    bed.broker.change(&bed.queue, Change::Requeue, None, std::slice::from_ref(&dead.id)).await.unwrap();
    let rest = lane.claim(2).await;
    lane.ack(&rest).await;
    hears(&mut hints[6], "the end of the last").await;
    assert_eq!(hints[2].next().now_or_never(), None);
}

/// A failure that is followed by a retry is no end. The mark stays with the job.
pub async fn a_watched_job_that_comes_back_has_not_ended(bed: Bed) {
    let id = bed.put(1).await.remove(0);
    let mut hints = watches(&bed, &id).await;
    let mut lane = bed.lane().await;
    let first = lane.claim_one().await;
    assert!(lane.end(&first, nack(Duration::ZERO)).await);
    let second = lane.wait_for_one().await;
    assert_eq!((second.id.clone(), hints.next().now_or_never()), (id, None));
    lane.ack(&[second]).await;
    hears(&mut hints, "its end").await;
}

/// Nobody is told of the end of a job that nobody watches.
pub async fn only_the_end_of_a_watched_job_is_announced(bed: Bed) {
    let ids = bed.put(2).await;
    let mut unwatched = listens(&bed, &ids[0]).await;
    let mut watched = watches(&bed, &ids[1]).await;
    let mut lane = bed.lane().await;
    let both = lane.claim(2).await;
    lane.ack(&both).await;
    // Of two that end in one turn the first is told first.
    hears(&mut watched, "the end of the other").await;
    assert_eq!(unwatched.next().now_or_never(), None);
}

/// Each who watches hears of it, in another process too, and a job of another id says nothing.
pub async fn all_who_watch_a_job_are_notified_of_its_end(mut bed: Bed) {
    let ids = bed.put(2).await;
    let other = bed.another_process().await;
    let mut elsewhere = hears_of_nothing_yet(&other, &bed.queue, other.ending_hints(&bed.queue, &ids[0])).await;
    let mut here = [watches(&bed, &ids[0]).await, watches(&bed, &ids[0]).await];
    let mut neighbour = watches(&bed, &ids[1]).await;
    let mut lane = bed.lane().await;
    let first = lane.claim_one().await;
    lane.ack(&[first]).await;
    for hints in &mut here {
        hears(hints, "the end").await;
    }
    hears(&mut elsewhere, "the end in another process").await;
    assert_eq!(neighbour.next().now_or_never(), None);
}

/// A job that has ended, or is not known, is shown and not marked: nothing would take the mark
/// away.
pub async fn what_has_ended_is_not_watched(bed: Bed) {
    let ids = bed.put(2).await;
    let mut lane = bed.lane().await;
    let [kept, dead] = <[_; 2]>::try_from(lane.claim(2).await).expect("two jobs are ready");
    assert!(lane.end(&kept, Ending::Ack { keep: Some(Duration::from_secs(60)), result: None }).await);
    assert!(lane.end(&dead, Ending::Bury { reason: BuryReason::Failed, error: None }).await);
    for (id, state) in [(&ids[0], Some(JobState::Done)), (&ids[1], Some(JobState::Dead)), (&JobId::make(), None)] {
        let job = bed.broker.watch(&bed.queue, id).await.expect("it is answered");
        assert_eq!(job.as_ref().map(|job| job.state), state);
        assert_eq!(format!("{job:?}"), format!("{:?}", bed.show(id).await));
    }
    // It is put back, and ends again: nobody has asked since.
    let mut hints = listens(&bed, &ids[1]).await;
    bed.broker.change(&bed.queue, Change::Requeue, None, &ids[1..]).await.unwrap();
    let mut other = watches(&bed, &bed.put(1).await[0]).await;
    let both = lane.claim(2).await;
    lane.ack(&both).await;
    hears(&mut other, "the end of one that is watched").await;
    assert_eq!(hints.next().now_or_never(), None);
}

/// A job without retention that ends while somebody watches it is kept for a while, with its
/// result; others leave nothing.
pub async fn a_watched_job_is_kept_for_who_waits(bed: Bed) {
    let ids = bed.put(3).await;
    bed.put_given("given", "1").await;
    let given = JobId::given("given").expect("it is a name");
    for id in [&ids[0], &ids[1], &given] {
        bed.broker.watch(&bed.queue, id).await.expect("it is answered");
    }
    let mut lane = bed.lane().await;
    let jobs = lane.claim(4).await;
    let result = |result: Option<u8>| Ending::Ack { result: result.map(|byte| vec![byte]), keep: None };
    let endings = [result(Some(1)), result(None), result(Some(3)), result(Some(4))];
    let turn = lane.next().finish(jobs.iter().zip(endings).map(|(job, ending)| finish(job, ending)).collect());
    assert!(lane.send(&turn).await.stale.is_empty());
    let of = async |id: &JobId| bed.show(id).await.map(|job| (job.state, job.result));
    assert_eq!(of(&ids[0]).await, Some((JobState::Done, Some(vec![1]))));
    assert_eq!(of(&ids[1]).await, Some((JobState::Done, None)));
    assert_eq!(of(&ids[2]).await, None, "nobody waits for it");
    assert_eq!(of(&given).await, Some((JobState::Done, Some(vec![4]))));
    assert_eq!((bed.depth(JobState::Done).await, bed.counter(Counter::Done).await), (3, 4));
    let wrong = bed.broker.audit(&bed.queue, Audit { repair: false, thorough: true }).await.expect("an audit is answered");
    assert!(wrong.is_empty(), "{wrong:?}");
    let keep = KeepLimits { count: 0, bytes: 0 };
    bed.broker.sweep(&bed.queue, &SweepLimits { keep, ..SweepLimits::default() }).await.expect("a sweep is answered");
    assert_eq!((of(&ids[0]).await, bed.depth(JobState::Done).await), (None, 0));
}

/// Workers hear that a job was cancelled while it ran: its worker has to heartbeat.
pub async fn workers_are_notified_of_a_job_that_is_cancelled_while_it_runs(bed: Bed) {
    let mut hints = bed.broker.watch_hints(&bed.queue);
    let mut lane = bed.lane().await;
    for _ in 0..100 {
        // The subscription may not stand yet.
        let id = bed.put(1).await.remove(0);
        lane.claim_one().await;
        bed.broker.change(&bed.queue, Change::Cancel, None, &[id]).await.expect("it runs");
        if tokio::time::timeout(Duration::from_millis(100), hints.next()).await.is_ok() {
            return;
        }
    }
    panic!("no worker hears of it");
}

/// Workers hear that somebody watches a job of the queue.
pub async fn workers_are_notified_that_somebody_watches(bed: Bed) {
    let ids = bed.put(2).await;
    let mut hints = bed.broker.watch_hints(&bed.queue);
    assert_eq!(hints.next().now_or_never(), None, "nobody does yet");
    for _ in 0..100 {
        // The subscription may not stand yet, and not every mark is announced.
        bed.broker.watch(&bed.queue, &ids[0]).await.expect("it is answered");
        if tokio::time::timeout(Duration::from_millis(100), hints.next()).await.is_ok() {
            return;
        }
    }
    panic!("nobody hears of it");
}
