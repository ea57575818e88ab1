//! Aging: waiting jobs rise by one priority after each interval.

use std::time::Duration;

use queue_core::{
    JobId,
    broker::{AgingSet, Ending, JobState, NewJob, Priority, SetAging, StoredJob},
    inspect::Aging,
};

use super::{
    bed::{Bed, LONG, Lane, ack, envelope, eventually, nack},
    groups::{RULE, name, sound},
    limits,
};
use crate::Changes as _;

/// An interval that is over at once.
const SOON: Duration = Duration::from_millis(1);

async fn set(bed: &Bed, aging: Aging) {
    bed.inspector().set_aging(&bed.queue, aging).await.expect("aging is set");
}

async fn show(bed: &Bed, id: &JobId) -> StoredJob {
    bed.show(id).await.expect("the job is there")
}

/// Promotes the jobs that are due, and claims nothing.
async fn look(lane: &mut Lane) {
    let turn = lane.next();
    lane.send(&turn).await;
}

/// Waits until a job has reached the highest priority.
async fn risen(bed: &Bed, lane: &mut Lane, id: &JobId) {
    eventually("it has risen to the top", async || {
        look(lane).await;
        show(bed, id).await.rises_ms.is_none().then_some(())
    })
    .await;
}

/// Stores a job with a priority, and optionally with a group.
async fn put(bed: &Bed, priority: Priority, group: Option<&str>) -> JobId {
    let mut job = NewJob::new(JobId::make(), envelope(priority.name()));
    (job.priority, job.group) = (priority, group.map(name));
    let id = job.id.clone();
    bed.put_job(job).await;
    id
}

/// Without aging, a job waits for all jobs of higher priorities, even later ones. With aging, it
/// starts before jobs that were stored long after it.
pub async fn a_job_that_has_waited_starts_before_a_later_one_of_a_higher_priority(bed: Bed) {
    let mut lane = bed.lane().await;
    let waits = put(&bed, Priority::Low, None).await;
    assert_eq!(show(&bed, &waits).await.rises_ms, None);
    let first = put(&bed, Priority::Critical, None).await;
    assert_eq!(lane.claim_one().await.id, first, "the more important one first");
    set(&bed, Aging::Every(SOON)).await;
    let (low, normal) = (put(&bed, Priority::Low, None).await, put(&bed, Priority::Normal, None).await);
    risen(&bed, &mut lane, &low).await;
    risen(&bed, &mut lane, &normal).await;
    let critical = put(&bed, Priority::Critical, None).await;
    let claimed: Vec<JobId> = lane.claim(4).await.into_iter().map(|delivery| delivery.id).collect();
    assert_eq!(claimed.last(), Some(&waits), "the one that waited before aging was set does not rise");
    assert_eq!(claimed[2], critical, "who has risen stands before who came later");
    assert!(claimed[..2].contains(&low) && claimed[..2].contains(&normal));
    assert_eq!(show(&bed, &low).await.priority, Priority::Low, "its own priority is what it was");
}

/// A job rises by one priority at a time. Jobs of one priority keep their order. Before a job
/// rises, it counts for its own priority.
pub async fn a_job_rises_by_one_priority_each_time(bed: Bed) {
    let mut lane = bed.lane().await;
    set(&bed, Aging::Every(LONG)).await;
    let ids = [put(&bed, Priority::Low, None).await, put(&bed, Priority::Low, None).await];
    let high = put(&bed, Priority::High, None).await;
    let rises = show(&bed, &ids[0]).await.rises_ms.expect("it rises");
    look(&mut lane).await;
    assert_eq!(bed.ids(JobState::Ready).await, [high.clone(), ids[0].clone(), ids[1].clone()], "none is due");
    assert_eq!(show(&bed, &ids[0]).await.rises_ms, Some(rises));
    // Jobs that are stored now wait for a shorter time.
    set(&bed, Aging::Every(SOON)).await;
    let many: Vec<NewJob> = (0..30).map(|n| NewJob::new(JobId::make(), envelope(&n.to_string()))).collect();
    let quick: Vec<JobId> = many.iter().map(|job| job.id.clone()).collect();
    bed.producer().await.stored(many).await;
    risen(&bed, &mut lane, quick.last().expect("there are some")).await;
    assert_eq!(show(&bed, &ids[0]).await.rises_ms, Some(rises), "who waits keeps the time of its next rise");
    let order: Vec<JobId> = lane.claim(40).await.into_iter().map(|delivery| delivery.id).collect();
    assert_eq!(&order[..30], &quick[..], "in the order in which they came");
    assert_eq!(&order[30..], [high, ids[0].clone(), ids[1].clone()]);
}

/// The same inside a group. Between groups, the rotation decides.
pub async fn jobs_of_a_group_rise_inside_it(bed: Bed) {
    let mut lane = bed.lane().await;
    set(&bed, Aging::Every(SOON)).await;
    let low = put(&bed, Priority::Low, Some("a")).await;
    risen(&bed, &mut lane, &low).await;
    let critical = put(&bed, Priority::Critical, Some("a")).await;
    let other = put(&bed, Priority::Critical, Some("b")).await;
    let diagnosis = bed.broker.diagnose(&bed.queue, std::slice::from_ref(&critical)).await.unwrap().remove(0).unwrap();
    assert_eq!(diagnosis.line.expect("it is ready").ahead, 1, "the one that has risen goes first");
    let claimed: Vec<JobId> = lane.claim(3).await.into_iter().map(|delivery| delivery.id).collect();
    let place = |id: &JobId| claimed.iter().position(|other| other == id).expect("all are claimed");
    assert!(place(&low) < place(&critical) && place(&other) < 2, "{claimed:?}");
}

/// A job that comes back begins at its own priority, and its wait starts again. A job that is
/// removed is found at the priority to which it has risen.
pub async fn a_job_that_comes_back_begins_at_its_own_priority(bed: Bed) {
    let mut lane = bed.lane().await;
    set(&bed, Aging::Every(SOON)).await;
    let low = put(&bed, Priority::Low, None).await;
    let gone = put(&bed, Priority::Low, None).await;
    for id in [&low, &gone] {
        risen(&bed, &mut lane, id).await;
    }
    bed.broker.cancel(&bed.queue, std::slice::from_ref(&gone)).await.unwrap();
    let diagnosis = bed.broker.diagnose(&bed.queue, std::slice::from_ref(&low)).await.unwrap().remove(0).unwrap();
    assert_eq!(diagnosis.line.expect("it is ready").ahead, 0);
    let delivery = lane.claim_one().await;
    assert_eq!(delivery.id, low);
    set(&bed, Aging::Every(LONG)).await;
    lane.end(&delivery, Ending::Return).await;
    let critical = put(&bed, Priority::Critical, None).await;
    assert!(show(&bed, &low).await.rises_ms.is_some());
    let order: Vec<JobId> = lane.claim(3).await.into_iter().map(|delivery| delivery.id).collect();
    assert_eq!(order, [critical, low.clone()], "it waits behind, and what was cancelled is gone");
    assert_eq!(bed.depth(JobState::Ready).await, 0);
}

/// A suspect already comes before all other jobs. A job that waits for its time does not rise.
pub async fn only_jobs_that_wait_for_a_slot_rise(bed: Bed) {
    set(&bed, Aging::Every(SOON)).await;
    let ids = bed.put(2).await;
    let mut dying = bed.dying_lane().await;
    dying.claim(2).await;
    bed.reclaim(&[&dying], RULE).await;
    let mut lane = bed.lane().await;
    eventually("both are ready", async || {
        look(&mut lane).await;
        (bed.depth(JobState::Ready).await == 2).then_some(())
    })
    .await;
    for id in &ids {
        let shown = show(&bed, id).await;
        assert_eq!((shown.crashes, shown.rises_ms), (1, None));
    }
    let first = lane.claim_one().await;
    lane.end(&first, nack(LONG)).await;
    assert_eq!(show(&bed, &first.id).await.rises_ms, None);
    let second = lane.claim_one().await;
    assert_ne!(second.id, first.id);
    lane.end(&second, ack()).await;
}

/// Without an aging rule, no job rises further. Jobs that have risen keep their priority.
pub async fn without_aging_none_rises_further(bed: Bed) {
    let mut lane = bed.lane().await;
    set(&bed, Aging::Every(SOON)).await;
    let risen_one = put(&bed, Priority::Low, None).await;
    risen(&bed, &mut lane, &risen_one).await;
    set(&bed, Aging::Every(LONG)).await;
    let waits = put(&bed, Priority::Low, None).await;
    assert!(show(&bed, &waits).await.rises_ms.is_some());
    assert_eq!(bed.inspector().set_aging(&bed.queue, Aging::Off).await.unwrap(), None);
    assert_eq!(bed.stats().await.aging, None);
    assert_eq!(show(&bed, &waits).await.rises_ms, None);
    let later = put(&bed, Priority::High, None).await;
    assert_eq!(show(&bed, &later).await.rises_ms, None);
    let order: Vec<JobId> = lane.claim(3).await.into_iter().map(|delivery| delivery.id).collect();
    assert_eq!(order, [risen_one, later, waits]);
}

/// A change of an outdated rule changes nothing, and returns the stored rule. A change that is sent
/// again succeeds.
pub async fn a_change_of_aging_is_a_compare_and_set(bed: Bed) {
    let request = SetAging::new(bed.queue.clone(), Vec::new(), b"60000:x".to_vec());
    assert_eq!(bed.broker.set_aging(&request).await.unwrap(), AgingSet::Set);
    assert_eq!(bed.broker.set_aging(&request).await.unwrap(), AgingSet::Set, "sent again");
    let stale = SetAging::new(bed.queue.clone(), b"1:y".to_vec(), b"5:z".to_vec());
    assert_eq!(bed.broker.set_aging(&stale).await.unwrap(), AgingSet::Stale(b"60000:x".to_vec()));
    assert_eq!(bed.stats().await.aging, Some(Duration::from_secs(60)));
    let none = SetAging::new(bed.queue.clone(), b"60000:x".to_vec(), Vec::new());
    assert_eq!(bed.broker.set_aging(&none).await.unwrap(), AgingSet::Set);
    assert_eq!(bed.stats().await.aging, None);
    assert!(bed.broker.set_aging(&SetAging::new("no name", Vec::new(), Vec::new())).await.is_err());
}

/// A job leaves a chain that may be examined, and rises into one that is shut: its group has no job
/// that may start.
pub async fn a_job_that_rises_to_jobs_of_a_full_limit_waits_with_them(bed: Bed) {
    let of = [limits::key("x", "1")];
    let of_priority = |priority| {
        let mut job = limits::limited("a", &of);
        job.priority = priority;
        job
    };
    limits::concurrency(&bed, "x", 1).await;
    limits::put(&bed, "b", &of, 1).await;
    let mut lane = bed.lane().await;
    let running = lane.claim_one().await;
    bed.put_job(of_priority(Priority::Critical)).await;
    assert!(lane.claim(1).await.is_empty(), "the limit is full");
    set(&bed, Aging::Every(SOON)).await;
    let low = of_priority(Priority::Low);
    let id = low.id.clone();
    bed.put_job(low).await;
    risen(&bed, &mut lane, &id).await;
    sound(&bed).await;
    lane.ack(&[running]).await;
    assert_eq!(limits::claim_all(&mut lane, 1).await.len(), 1, "the limit has room");
    sound(&bed).await;
}
