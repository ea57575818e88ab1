//! Jobs that some releases cannot read: they wait for one that can, and are buried when their time
//! is over.

use std::{sync::Arc, time::Duration};

use queue_core::broker::{BuryReason, Delivery, Ending, JobState, SweepLimits, Swept, UNREADABLE_RELEASES, Unreadable};

use super::bed::{Bed, LONG, Lane, ack, eventually, finish, nack};
use crate::Changes as _;

const TASK: &str = "suite.task";

/// Each release is offered the job once; the first that reads it runs it.
pub async fn an_unreadable_job_is_offered_once_to_each_other_release(bed: Bed) {
    let id = bed.put(1).await.remove(0);
    let mut lane = bed.lane().await;
    let delivery = lane.claim_one().await;
    let turn = lane.next().finish(vec![finish(&delivery, unreadable("v2", LONG))]);
    assert!(lane.send(&turn).await.parked);
    assert!(offered(&mut lane, "v2").await.is_empty());
    assert!(lane.claim(1).await.is_empty());

    let again = offered(&mut lane, "v3").await.remove(0);
    assert_eq!((&again.id, again.attempts, again.crashes, again.snoozes), (&id, 0, 0, 0));
    assert!(lane.end(&again, unreadable("v3", LONG)).await);
    for release in ["v2", "v3"] {
        assert!(offered(&mut lane, release).await.is_empty(), "{release} has failed on it");
    }
    let record = bed.show(&id).await.unwrap();
    assert_eq!((record.state, record.attempts, record.failures.len()), (JobState::Parked, 0, 2));
    assert_eq!(record.failures[0].message, "release v2 cannot read it");
    assert_eq!(record.unreadable.unwrap().releases, ["v2", "v3"]);

    // A worker of an older release without the task changes nothing.
    let in_between = offered(&mut lane, "v0").await.remove(0);
    assert!(lane.end(&in_between, Ending::Park { task: TASK.to_owned() }).await);
    assert!(offered(&mut lane, "v3").await.is_empty());
    let held = offered(&mut lane, "v1").await;
    assert_eq!(held.len(), 1);
    let turn = lane.next().finish(vec![finish(&held[0], ack())]);
    assert!(!lane.send(&turn).await.parked);
    assert_eq!(bed.state(&id).await, None);
}

/// A release is offered the jobs that it has not failed on, within the claim, together with those
/// of an unknown task.
pub async fn many_unreadable_jobs_are_distinguished(bed: Bed) {
    let ids = bed.put(6).await;
    let mut lane = bed.lane().await;
    let held = lane.claim(6).await;
    let endings = ["v1", "v1", "v2", "v2", "v3"].map(|release| unreadable(release, LONG));
    for (delivery, ending) in held.iter().zip(endings.into_iter().chain([Ending::Park { task: TASK.to_owned() }])) {
        assert!(lane.end(delivery, ending).await);
    }
    let other = Ending::Unreadable { task: "suite.task2".to_owned(), release: "v9".into(), error: String::new(), within: LONG };
    let another = bed.put(1).await.remove(0);
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, other).await);

    let mut found = Vec::new();
    for n in [1, 2, 10] {
        let held = offered_some(&mut lane, "v2", n).await;
        assert!(held.len() <= n);
        found.extend(held.into_iter().map(|delivery| delivery.id));
    }
    found.sort();
    let mut readable = [&ids[0], &ids[1], &ids[4], &ids[5]].map(Clone::clone);
    readable.sort();
    assert_eq!(found, readable);
    assert_eq!(bed.state(&another).await, Some(JobState::Parked));
}

/// A sweep buries the job when its time since the first failure is over, even if other releases
/// have failed on it since.
pub async fn an_unreadable_job_is_buried_after_its_time(bed: Bed) {
    let ids = bed.put(3).await;
    let mut lane = bed.lane().await;
    let held = lane.claim(3).await;
    let within = Duration::from_millis(300);
    assert!(lane.end(&held[0], unreadable("v1", within)).await);
    assert!(lane.end(&held[1], unreadable("v1", LONG)).await);
    assert!(lane.end(&held[2], Ending::Park { task: TASK.to_owned() }).await);
    let until = bed.show(&ids[0]).await.unwrap().unreadable.unwrap().until_ms;
    if let Some(again) = offered(&mut lane, "v2").await.iter().find(|delivery| delivery.id == ids[0]) {
        assert!(lane.end(again, unreadable("v2", LONG)).await);
    }
    let expected = Unreadable { releases: vec!["v1".to_owned(), "v2".to_owned()], until_ms: until };
    assert_eq!(bed.show(&ids[0]).await.unwrap().unreadable, Some(expected), "the time counts from the first");
    let buried = eventually("its time is over", async || Some(sweep(&bed).await.buried).filter(|buried| !buried.is_empty())).await;
    assert_eq!(buried, ids[..1]);
    let turn = lane.next();
    assert!(lane.send(&turn).await.now_ms >= until);
    let record = bed.show(&ids[0]).await.unwrap();
    assert_eq!((record.state, record.reason, record.unreadable), (JobState::Dead, Some(BuryReason::Undecodable), None));
    assert_eq!((record.attempts, record.failures.len()), (0, 2));
    assert!(sweep(&bed).await.buried.is_empty());

    // It may be requeued, and starts over.
    assert_eq!(bed.broker.requeue(&bed.queue, &ids[..1]).await.unwrap(), [true]);
    let again = lane.claim_one().await;
    assert!(lane.end(&again, unreadable("v2", LONG)).await);
    assert_eq!(bed.show(&ids[0]).await.unwrap().unreadable.unwrap().releases, ["v2"]);
    assert!(sweep(&bed).await.buried.is_empty());
}

/// When a release has read a job, earlier failures of other releases are forgotten.
pub async fn a_job_that_was_read_may_be_offered_to_all_again(bed: Bed) {
    let id = bed.put(1).await.remove(0);
    let mut lane = bed.lane().await;
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, unreadable("v1", Duration::ZERO)).await);
    let read = offered(&mut lane, "v2").await.remove(0);
    assert!(lane.end(&read, nack(Duration::ZERO)).await);
    assert!(sweep(&bed).await.buried.is_empty(), "it waits for its next attempt");
    let again = lane.wait_for_one().await;
    assert!(lane.end(&again, unreadable("v2", LONG)).await);
    assert_eq!(bed.show(&id).await.unwrap().unreadable.unwrap().releases, ["v2"]);
    assert_eq!(offered(&mut lane, "v1").await.len(), 1);
}

/// A removed or cancelled job is not buried.
pub async fn an_unreadable_job_can_be_cancelled_and_deleted(bed: Bed) {
    let ids = bed.put(3).await;
    let mut lane = bed.lane().await;
    for delivery in lane.claim(3).await {
        assert!(lane.end(&delivery, unreadable("v1", Duration::ZERO)).await);
    }
    assert_eq!(bed.broker.cancel(&bed.queue, &ids[..1]).await.unwrap().len(), 1);
    assert_eq!(bed.broker.delete(&bed.queue, &ids[1..2]).await.unwrap(), [true]);
    let buried = eventually("its time is over", async || Some(sweep(&bed).await.buried).filter(|buried| !buried.is_empty())).await;
    assert_eq!(buried, ids[2..]);
    assert_eq!(bed.state(&ids[0]).await, Some(JobState::Cancelled));
    assert_eq!((bed.state(&ids[1]).await, bed.depth(JobState::Parked).await), (None, 0));
    assert!(offered(&mut lane, "v2").await.is_empty());
}

/// The number of releases to which a job is offered is bounded.
pub async fn a_job_that_too_many_releases_cannot_read_is_buried(bed: Bed) {
    let id = bed.put(1).await.remove(0);
    let mut lane = bed.lane().await;
    let mut delivery = lane.claim_one().await;
    for release in 0..=UNREADABLE_RELEASES {
        assert!(sweep(&bed).await.buried.is_empty());
        assert!(lane.end(&delivery, unreadable(&format!("v{release}"), LONG)).await);
        if release < UNREADABLE_RELEASES {
            delivery = offered(&mut lane, &format!("v{}", release + 1)).await.remove(0);
        }
    }
    assert_eq!(sweep(&bed).await.buried, std::slice::from_ref(&id));
    assert_eq!(bed.state(&id).await, Some(JobState::Dead));
}

/// A release has failed on jobs under more names than one claim examines: it is offered the one
/// after them.
pub async fn names_that_a_release_has_failed_on_hide_no_other(bed: Bed) {
    const NAMES: usize = 230;
    let ids = bed.put(NAMES + 1).await;
    let mut lane = bed.lane().await;
    let held = lane.claim(NAMES + 1).await;
    let failed = held[..NAMES].iter().map(|delivery| finish(delivery, unreadable("a", LONG)));
    let turn = lane.next().finish(failed.chain([finish(&held[NAMES], unreadable("z", LONG))]).collect());
    assert!(lane.send(&turn).await.stale.is_empty());
    for n in 0..NAMES {
        let release = format!("b{n}");
        let delivery = offered_some(&mut lane, &release, 1).await.remove(0);
        assert!(lane.end(&delivery, unreadable(&release, LONG)).await);
    }
    let mut found = Vec::new();
    for _ in 0..2 {
        found.extend(offered(&mut lane, "a").await.into_iter().map(|delivery| delivery.id));
    }
    assert_eq!(found, ids[NAMES..]);
}

fn unreadable(release: &str, within: Duration) -> Ending {
    let (task, error) = (TASK.to_owned(), format!("release {release} cannot read it"));
    Ending::Unreadable { task, release: release.to_owned(), error, within }
}

/// The jobs that a worker of a release is offered.
async fn offered(lane: &mut Lane, release: &str) -> Vec<Delivery> {
    offered_some(lane, release, 10).await
}

async fn offered_some(lane: &mut Lane, release: &str, n: usize) -> Vec<Delivery> {
    let mut turn = lane.next().claim(n);
    (turn.resume, turn.release) = (vec![Arc::from("unrelated"), Arc::from(TASK)], Some(release.into()));
    lane.send(&turn).await.deliveries
}

async fn sweep(bed: &Bed) -> Swept {
    bed.broker.sweep(&bed.queue, &SweepLimits::default()).await.expect("a sweep is answered")
}
