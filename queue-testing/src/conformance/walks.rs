//! The walk through jobs that operations need: a job that goes from one of the wanted states to another is met, and one that comes back is not met again and again.

use std::{collections::BTreeSet, time::Duration};

use queue_core::{
    JobId, NewOperation, OperationKind, OperationState,
    broker::{Browse, Change, Ending, JobState},
};

use super::{
    bed::{Bed, Lane, finish, nack},
    operations::start,
};

const HOUR: Duration = Duration::from_secs(3600);

/// All jobs that a walk meets with pages of one. `changes` is called once it has met `behind` of them.
async fn met(bed: &Bed, states: &[JobState], behind: usize, changes: impl AsyncFnOnce()) -> BTreeSet<JobId> {
    let (mut met, mut after, mut changes) = (BTreeSet::new(), None, Some(changes));
    for _ in 0..5_000 {
        let found = bed.broker.browse(&Browse::new(bed.queue.clone(), states, 1).after(after)).await.expect("a page can be read");
        met.extend(found.jobs.into_iter().map(|job| job.id));
        after = found.next;
        if after.is_none() {
            assert!(changes.is_none(), "the walk was over before anything changed");
            return met;
        }
        if met.len() >= behind
            && let Some(changes) = changes.take()
        {
            changes().await;
        }
    }
    panic!("the walk does not end");
}

async fn scheduled(bed: &Bed, jobs: usize) -> Vec<JobId> {
    let mut ids = Vec::new();
    for _ in 0..jobs {
        ids.push(bed.put_later(HOUR).await);
    }
    ids
}

async fn snooze(lane: &mut Lane, delay: Duration) {
    let jobs = lane.claim(500).await;
    let turn = lane.next().finish(jobs.iter().map(|job| finish(job, Ending::Snooze { delay })).collect());
    lane.send(&turn).await;
}

/// From `active` to `scheduled`, from `retry` to `scheduled`, and to an earlier place in `scheduled`.
pub async fn a_walk_meets_a_job_that_goes_from_one_wanted_state_to_another(bed: Bed) {
    let mut lane = bed.lane().await;
    // More than Redis gives in one piece, whatever it is asked for.
    let waits = scheduled(&bed, 600).await;

    let moves = bed.put(1).await.remove(0);
    let delivery = lane.claim_one().await;
    let found = met(&bed, &[JobState::Scheduled, JobState::Active], 5, async || {
        assert!(lane.end(&delivery, Ending::Snooze { delay: HOUR / 2 }).await);
    })
    .await;
    assert!(waits.iter().chain([&moves]).all(|id| found.contains(id)), "it was active, and is scheduled");

    bed.broker.change(&bed.queue, Change::Delete, None, &[moves]).await.expect("it waits");
    let moves = bed.put(1).await.remove(0);
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, nack(HOUR)).await);
    let found = met(&bed, &[JobState::Scheduled, JobState::Retry], 5, async || {
        bed.broker.change(&bed.queue, Change::Promote, None, std::slice::from_ref(&moves)).await.expect("it waits");
        snooze(&mut lane, HOUR / 2).await;
    })
    .await;
    assert!(waits.iter().chain([&moves]).all(|id| found.contains(id)), "it has waited for another attempt, and is scheduled");

    bed.broker.change(&bed.queue, Change::Delete, None, &[moves]).await.expect("it waits");
    let moves = waits.last().expect("there are some");
    let found = met(&bed, &[JobState::Scheduled], 2, async || {
        bed.broker.change(&bed.queue, Change::Promote, None, std::slice::from_ref(moves)).await.expect("it waits");
        snooze(&mut lane, HOUR / 2).await;
    })
    .await;
    assert!(waits.iter().all(|id| found.contains(id)), "it is due earlier");
}

/// Jobs that are promoted, start and snooze, all between two steps: each is promoted once, and the operation ends.
pub async fn a_promoted_job_that_snoozes_is_not_promoted_again(bed: Bed) {
    let mut producer = bed.producer().await;
    let many = 600;
    for _ in 0..2 {
        let jobs = (0..many / 2).map(|_| {
            let mut job = queue_core::broker::NewJob::new(JobId::make(), super::bed::envelope("polls"));
            job.due = queue_core::broker::Due::After(HOUR);
            job
        });
        producer.stored(jobs.collect()).await;
    }
    let mut lane = bed.lane().await;
    let promotes = start(&bed, &NewOperation::new(OperationKind::Promote, "state=scheduled".parse().expect("it is a filter"))).await;
    let mut run = bed.inspector().run_operation(&promotes);
    let mut steps = 0;
    while run.step().await.expect("it goes on") {
        snooze(&mut lane, HOUR * 2).await;
        steps += 1;
        assert!(steps < 50, "the operation meets the same jobs again and again: {:?}", run.operation());
    }
    snooze(&mut lane, HOUR * 2).await;
    assert_eq!((run.operation().state, run.operation().changed), (OperationState::Completed, many));
    assert_eq!(bed.depth(JobState::Scheduled).await, many);
}
