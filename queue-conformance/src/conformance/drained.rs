//! Drains and purges: operations that remove all jobs without a trace.

use std::time::Duration;

use queue_core::{
    JobId,
    broker::{BuryReason, Ending, JobState, NewJob, Priority},
    inspect::{NewOperation, Operation, OperationKind, OperationState},
};

use super::{
    bed::{Bed, ack, eventually, nack},
    groups::{self, cap, sound},
    limits::{key as limit_key, limited},
    operations::{of_time, run, start},
    schedules,
    unique::{BUFFER, holder, job, running},
};
use crate::patience::wait;

async fn all(bed: &Bed, kind: OperationKind) -> Operation {
    let ended = run(bed, &start(bed, &NewOperation::all_of(kind)).await).await;
    assert_eq!(ended.state, OperationState::Completed);
    ended
}

/// A job in each of the waiting states, of every priority, with a group, a limit and a key, and a
/// running job.
async fn filled(bed: &Bed) -> (super::Lane, queue_core::broker::Delivery) {
    let mut lane = bed.lane().await;
    let (_, runs) = running(bed, &mut lane, BUFFER).await;
    bed.put_job(job("held", BUFFER)).await;
    bed.put(3).await;
    let claimed = lane.claim(3).await;
    assert!(lane.end(&claimed[0], nack(Duration::from_secs(600))).await);
    let park = Ending::Park { task: "suite.task".to_owned() };
    assert!(lane.end(&claimed[1], park).await);
    assert!(lane.end(&claimed[2], Ending::Bury { reason: BuryReason::Failed, error: None }).await);
    bed.put_later(Duration::from_secs(600)).await;
    for priority in [Priority::Low, Priority::High, Priority::Critical] {
        bed.put_at(priority).await;
    }
    bed.put_given("mine", "x").await;
    groups::put(bed, "a", 3).await;
    bed.producer().await.stored(vec![limited("b", &[limit_key("api", "1")]), limited("", &[limit_key("api", "2")])]).await;
    bed.put(600).await;
    (lane, runs)
}

async fn waiting(bed: &Bed) -> u64 {
    let stats = bed.stats().await;
    [JobState::Ready, JobState::Scheduled, JobState::Retry, JobState::Parked, JobState::Held]
        .into_iter()
        .map(|state| stats.count(state))
        .sum()
}

/// All waiting jobs are removed, with their positions, keys, groups and limits. Running jobs
/// continue, and ended ones stay.
pub async fn a_drain_leaves_nothing_of_what_waits(bed: Bed) {
    let (mut lane, runs) = filled(&bed).await;
    let before = waiting(&bed).await;
    let ended = all(&bed, OperationKind::Drain).await;
    assert_eq!((ended.changed, waiting(&bed).await), (before, 0));
    assert_eq!((bed.depth(JobState::Active).await, bed.depth(JobState::Dead).await), (1, 1));
    assert_eq!(bed.depth(JobState::Cancelled).await, 0, "there is no record of them");
    sound(&bed).await;
    assert!(lane.end(&runs, ack()).await, "its receipt is still good");
    assert_eq!(holder(&bed).await, None, "and nobody is held for its key");
    bed.put_given("mine", "y").await;
    assert_eq!(bed.state(&JobId::given("mine").unwrap()).await, Some(JobState::Ready), "its id is free");
    assert_eq!(groups::depth(&bed, "a").await.0, 0);
    let fresh = bed.put(2).await;
    let claimed: Vec<JobId> = lane.claim(10).await.into_iter().map(|job| job.id).collect();
    assert_eq!(claimed[1..], fresh, "what comes then is served in its order");
    sound(&bed).await;
}

/// A purge also removes the records of ended jobs.
pub async fn a_purge_leaves_nothing_but_what_runs(bed: Bed) {
    let (mut lane, runs) = filled(&bed).await;
    let claimed = lane.claim(2).await;
    assert!(lane.end(&claimed[0], Ending::Ack { result: Some(vec![0x80]), keep: Some(Duration::from_secs(600)) }).await);
    bed.broker.change(&bed.queue, queue_core::broker::Change::Cancel, None, &[claimed[1].id.clone()]).await.unwrap();
    eventually("the clock goes on", async || {
        let ended = bed.show(&claimed[1].id).await?.at_ms?;
        (schedules::now(&bed).await > ended).then_some(())
    })
    .await;
    all(&bed, OperationKind::Purge).await;
    let stats = bed.stats().await;
    for state in JobState::ALL {
        assert_eq!(stats.count(state), u64::from(state == JobState::Active), "{state}");
    }
    sound(&bed).await;
    assert!(lane.end(&runs, ack()).await);
}

/// Jobs that are enqueued after the start of the drain stay, in their order.
pub async fn a_drain_leaves_what_came_after_it_in_its_order(bed: Bed) {
    let old: Vec<NewJob> = (0..700).map(|_| of_time(1)).collect();
    let mut producer = bed.producer().await;
    for some in old.chunks(500) {
        producer.stored(some.to_vec()).await;
    }
    let drain = start(&bed, &NewOperation::all_of(OperationKind::Drain)).await;
    let mut run = bed.inspector().run_operation(&drain);
    assert!(run.step().await.unwrap() && run.step().await.unwrap());
    let young: Vec<NewJob> = (0..5).map(|_| of_time(drain.started_ms + 1)).collect();
    let ids: Vec<JobId> = young.iter().map(|job| job.id.clone()).collect();
    producer.stored(young).await;
    while run.step().await.unwrap() {}
    assert_eq!((run.operation().changed, bed.ids(JobState::Ready).await), (700, ids.clone()));
    sound(&bed).await;
    let claimed: Vec<JobId> = bed.lane().await.claim(10).await.into_iter().map(|job| job.id).collect();
    assert_eq!(claimed, ids);
}

/// Jobs that were cancelled before have left gaps, which are removed as well.
pub async fn a_drain_passes_over_gaps(bed: Bed) {
    let ids = bed.put(10).await;
    bed.broker.change(&bed.queue, queue_core::broker::Change::Cancel, None, &ids[2..5]).await.unwrap();
    assert_eq!(all(&bed, OperationKind::Drain).await.changed, 7);
    assert_eq!((bed.depth(JobState::Ready).await, bed.depth(JobState::Cancelled).await), (0, 3));
    sound(&bed).await;
    bed.broker.change(&bed.queue, queue_core::broker::Change::Requeue, None, &ids[2..3]).await.unwrap();
    assert_eq!(bed.lane().await.claim(10).await.into_iter().map(|job| job.id).collect::<Vec<_>>(), ids[2..3]);
    sound(&bed).await;
}

/// A drained job has ended for its schedule. The next tick does not wait for it.
pub async fn a_drained_tick_has_ended_for_its_schedule(bed: Bed) {
    schedules::made(&bed, &queue_core::broker::ScheduleState::default(), None).await;
    schedules::tick(&bed, 1_000).await;
    assert!(schedules::outcome(&bed).await.0.is_some(), "it waits for its job");
    assert_eq!(all(&bed, OperationKind::Drain).await.changed, 1);
    assert_eq!(schedules::outcome(&bed).await, (None, "deleted".to_owned()));
    assert_eq!(
        bed.broker.schedules(&bed.queue, &queue_core::broker::ScheduleList::One("nightly".to_owned())).await.unwrap().schedules.len(),
        1
    );
}

/// A caller that waits for the end of a job is notified that the job was removed.
pub async fn a_caller_that_waits_for_a_drained_job_gets_an_error(bed: Bed) {
    let ids = bed.put(1).await;
    let mut hints = bed.broker.ending_hints(&bed.queue, &ids[0]);
    let _ = tokio::time::timeout(Duration::from_millis(300), hints.next()).await;
    bed.broker.watch(&bed.queue, &ids[0]).await.unwrap();
    all(&bed, OperationKind::Drain).await;
    wait("its end to be announced").end_of(hints.next()).await;
}

/// Groups that were at their cap are served again when jobs are enqueued after a drain.
pub async fn a_drained_group_is_served_again(bed: Bed) {
    cap(&bed, "a", 1).await;
    groups::put(&bed, "a", 3).await;
    let mut lane = bed.lane().await;
    let runs = lane.claim_one().await;
    assert_eq!(all(&bed, OperationKind::Drain).await.changed, 2);
    let next = groups::put(&bed, "a", 1).await;
    assert!(lane.claim(5).await.is_empty(), "the slot is held");
    lane.ack(&[runs]).await;
    assert_eq!(lane.claim_one().await.id, next[0]);
    sound(&bed).await;
}
