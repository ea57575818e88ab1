//! The jobs of a crashed process.

use std::time::Duration;

use queue_core::{
    JobId,
    broker::{BuryReason, Counter, CrashRule, Delivery, Ending, JobState, ProcessId, RECLAIM_ITEMS, WorkerLoad, history::CRASHED},
};

use super::bed::{Bed, LONG, Lane, SHORT, ack, nack};
use crate::Changes as _;

/// Charged jobs come back almost at once.
const RULE: CrashRule = CrashRule { max_crashes: 3, tasks: &[], window: Duration::from_secs(3600), delay: Duration::from_millis(1) };

/// Charged jobs stay in `retry` for the whole case.
const SLOW: CrashRule = CrashRule { delay: Duration::from_secs(100), ..RULE };

/// All jobs of a process that held no suspect are charged and become suspects.
pub async fn a_lost_process_charges_a_crash_to_what_it_held(bed: Bed) {
    let ids = bed.put(3).await;
    let mut lane = bed.dying_lane().await;
    lane.claim(2).await;
    let reclaimed = bed.reclaim(&[&lane], SLOW).await;
    assert_eq!((reclaimed.charged, reclaimed.returned, reclaimed.buried.len(), reclaimed.forgotten), (2, 0, 0, 1));
    for id in &ids[..2] {
        let record = bed.show(id).await.expect("it waits");
        assert_eq!((record.state, record.crashes, record.attempts, record.snoozes), (JobState::Retry, 1, 0, 0));
        assert_eq!(
            record.failures.iter().map(|failure| failure.message.as_str()).collect::<Vec<_>>(),
            [CRASHED],
            "its history tells of it"
        );
    }
    assert_eq!(bed.state(&ids[2]).await, Some(JobState::Ready));
    assert_eq!((bed.counter(Counter::Crashed).await, bed.counter(Counter::Reclaimed).await), (2, 2));
}

/// A process held a suspect: the suspect is charged, and the other jobs are not.
pub async fn a_suspect_is_charged_alone_and_its_neighbours_go_free(bed: Bed) {
    let suspect = bed.put(1).await.remove(0);
    let mut lane = bed.dying_lane().await;
    lane.claim_one().await;
    bed.reclaim(&[&lane], RULE).await;
    let process = ProcessId::random();
    let (mut one, mut other) = (bed.lane_of(process, SHORT).await, bed.lane_of(process, SHORT).await);
    wait_for(&mut one, &suspect).await;
    let neighbours = bed.put(3).await;
    let held = other.claim(3).await;
    assert_eq!(held.len(), 3);
    let reclaimed = bed.reclaim(&[&one, &other], SLOW).await;
    assert_eq!((reclaimed.charged, reclaimed.returned), (1, 3), "judged over all lanes of the process");
    assert_eq!(bed.show(&suspect).await.expect("it waits").crashes, 2);
    for id in &neighbours {
        let record = bed.show(id).await.expect("it is ready");
        assert_eq!((record.state, record.crashes, record.attempts, record.failures.len()), (JobState::Ready, 0, 0, 0));
    }
}

/// Two processes are judged separately.
pub async fn another_process_is_judged_for_itself(bed: Bed) {
    let suspect = bed.put(1).await.remove(0);
    let mut lane = bed.dying_lane().await;
    lane.claim_one().await;
    bed.reclaim(&[&lane], RULE).await;
    let (mut one, mut other) = (bed.dying_lane().await, bed.dying_lane().await);
    wait_for(&mut one, &suspect).await;
    bed.put(2).await;
    other.claim(2).await;
    let reclaimed = bed.reclaim(&[&one, &other], SLOW).await;
    assert_eq!((reclaimed.charged, reclaimed.returned), (3, 0));
}

/// Uncharged jobs go to the head, in their order.
pub async fn uncharged_jobs_return_to_the_head(bed: Bed) {
    let suspect = bed.put(1).await.remove(0);
    let mut lane = bed.dying_lane().await;
    lane.claim_one().await;
    bed.reclaim(&[&lane], RULE).await;
    let first = bed.put(1).await.remove(0);
    let mut lane = bed.dying_lane().await;
    let held = super::eventually("the suspect and its neighbour are held", async || {
        let mut held = lane.claim(2).await;
        if held.len() == 1 && held[0].id == first {
            assert!(lane.end(&held.remove(0), Ending::Return).await);
        }
        (held.len() == 2).then_some(held)
    })
    .await;
    assert!(held.iter().any(|delivery| delivery.id == suspect));
    bed.put(2).await;
    bed.reclaim(&[&lane], SLOW).await;
    assert_eq!(bed.lane().await.claim_one().await.id, first);
}

/// The third crash buries the job as `crashed`.
pub async fn the_last_crash_buries_the_job(bed: Bed) {
    let id = bed.put(1).await.remove(0);
    for crashes in 1..=2 {
        let mut lane = bed.dying_lane().await;
        let delivery = wait_for(&mut lane, &id).await;
        assert_eq!(delivery.crashes, crashes - 1);
        assert_eq!(bed.reclaim(&[&lane], RULE).await.charged, 1);
    }
    let mut lane = bed.dying_lane().await;
    wait_for(&mut lane, &id).await;
    assert_eq!(bed.reclaim(&[&lane], RULE).await.buried, std::slice::from_ref(&id), "the answer names the job that was buried");
    let record = bed.show(&id).await.expect("the dead are kept");
    assert_eq!((record.state, record.reason, record.attempts), (JobState::Dead, Some(BuryReason::Crashed), 0));
    assert_eq!((bed.counter(Counter::Dead).await, bed.counter(Counter::Crashed).await), (1, 3));
    assert!(bed.lane().await.claim(1).await.is_empty());
}

/// A task may set the number of crashes that bury its jobs.
pub async fn a_task_has_its_own_number_of_crashes(bed: Bed) {
    const TASKS: CrashRule = CrashRule { tasks: &[("suite.other", 1), ("suite.task", 4)], ..RULE };
    let id = bed.put(1).await.remove(0);
    for crashes in 1..=4 {
        let mut lane = bed.dying_lane().await;
        assert_eq!(wait_for(&mut lane, &id).await.crashes, crashes - 1);
        assert_eq!(bed.reclaim(&[&lane], TASKS).await.buried.len(), usize::from(crashes == 4));
    }
    assert_eq!(bed.show(&id).await.expect("the dead are kept").reason, Some(BuryReason::Crashed));
}

/// Crashes outside of the window are not counted together.
pub async fn crashes_outside_the_window_start_a_new_count(bed: Bed) {
    let rule = CrashRule { window: Duration::ZERO, ..RULE };
    let id = bed.put(1).await.remove(0);
    for _ in 0..5 {
        let mut lane = bed.dying_lane().await;
        wait_for(&mut lane, &id).await;
        assert_eq!(bed.reclaim(&[&lane], rule).await.charged, 1);
        assert_eq!(bed.show(&id).await.expect("it lives").crashes, 1);
    }
}

/// The end of a run clears the count; a return does not.
pub async fn a_finished_run_clears_the_crashes(bed: Bed) {
    let now = Duration::ZERO;
    let id = bed.put(1).await.remove(0);
    for ending in [nack(now), Ending::Snooze { delay: now }, Ending::Repeat { delay: now }] {
        let mut lane = bed.dying_lane().await;
        assert_eq!(wait_for(&mut lane, &id).await.crashes, 0);
        bed.reclaim(&[&lane], RULE).await;
        let mut lane = bed.lane().await;
        let delivery = wait_for(&mut lane, &id).await;
        assert_eq!(delivery.crashes, 1);
        assert!(lane.end(&delivery, Ending::Return).await);
        let delivery = wait_for(&mut lane, &id).await;
        assert_eq!(delivery.crashes, 1, "after a release");
        assert!(lane.end(&delivery, ending).await);
    }
    assert_eq!(wait_for(&mut bed.lane().await, &id).await.crashes, 0);
}

/// Three jobs of a crashed worker, and a lane that may claim them.
async fn three_suspects(bed: &Bed) -> (Vec<JobId>, Lane) {
    let suspects = bed.put(3).await;
    let mut lane = bed.dying_lane().await;
    lane.claim(3).await;
    bed.reclaim(&[&lane], RULE).await;
    let mut lane = bed.lane().await;
    super::eventually("all three are ready", async || {
        let turn = lane.next();
        lane.send(&turn).await;
        (bed.depth(JobState::Ready).await == 3).then_some(())
    })
    .await;
    (suspects, lane)
}

/// One turn delivers at most one suspect, before other jobs, and none to a lane that may not have
/// one.
pub async fn a_turn_brings_one_suspect_at_most(bed: Bed) {
    let (suspects, mut lane) = three_suspects(&bed).await;
    let innocent = bed.put(2).await;

    let mut turn = lane.next().claim(10);
    turn.suspect = false;
    let answer = lane.send(&turn).await;
    let found: Vec<JobId> = answer.deliveries.iter().map(|delivery| delivery.id.clone()).collect();
    assert_eq!(found, innocent, "no suspect was wanted");
    assert!(!answer.more, "nor is there more for this lane");
    assert!(answer.suspects, "but it is told of them");

    bed.put(1).await;
    let turn = lane.next().claim(10);
    let answer = lane.send(&turn).await;
    assert_eq!((answer.deliveries.len(), answer.more, answer.suspects), (2, false, true));
    assert!(suspects.contains(&answer.deliveries[0].id), "suspects are served first");
    assert_eq!(answer.deliveries[0].crashes, 1);
    lane.ack(&answer.deliveries).await;
    for left in [true, false] {
        let turn = lane.next().claim(10);
        let answer = lane.send(&turn).await;
        assert_eq!((answer.deliveries.len(), answer.suspects), (1, left));
        lane.ack(&answer.deliveries).await;
    }
}

/// A suspect that was cancelled before it was served delays no other. Its record keeps its crashes.
pub async fn a_suspect_that_was_cancelled_keeps_no_other_from_its_turn(bed: Bed) {
    let (_, mut lane) = three_suspects(&bed).await;
    let page = bed.broker.list(&bed.queue, JobState::Ready, 0, 3).await.expect("they can be listed");
    let suspects: Vec<JobId> = page.jobs.into_iter().map(|job| job.id).collect();
    bed.broker.cancel(&bed.queue, &suspects[..2]).await.expect("they can be cancelled");
    let record = bed.show(&suspects[0]).await.expect("it is kept");
    assert_eq!((record.state, record.crashes), (JobState::Cancelled, 1));
    bed.put(2).await;
    let turn = lane.next().claim(2);
    let answer = lane.send(&turn).await;
    assert_eq!((answer.deliveries.len(), &answer.deliveries[0].id, answer.suspects), (2, &suspects[2], false));
}

/// A process whose lanes the broker forgot continues under new names: it has not crashed.
pub async fn a_process_that_lives_under_another_name_is_charged_nothing(bed: Bed) {
    let suspect = bed.put(1).await.remove(0);
    let mut lane = bed.dying_lane().await;
    lane.claim_one().await;
    bed.reclaim(&[&lane], RULE).await;
    let process = ProcessId::random();
    let mut forgotten = bed.lane_of(process, SHORT).await;
    wait_for(&mut forgotten, &suspect).await;
    let ids = bed.put(2).await;
    assert_eq!(forgotten.claim(2).await.len(), 2);
    let mut new = bed.lane_of(process, LONG).await;
    let reclaimed = bed.reclaim(&[&forgotten], SLOW).await;
    assert_eq!((reclaimed.charged, reclaimed.returned, reclaimed.buried.len(), reclaimed.forgotten), (0, 3, 0, 1));
    for (id, crashes) in [(&suspect, 1), (&ids[0], 0), (&ids[1], 0)] {
        let record = bed.show(id).await.expect("it is ready");
        assert_eq!((record.state, record.crashes, record.failures.len()), (JobState::Ready, crashes, crashes as usize));
    }
    assert_eq!((bed.counter(Counter::Forgotten).await, bed.counter(Counter::Crashed).await), (3, 1));
    let again: Vec<JobId> = new.claim(3).await.into_iter().map(|delivery| delivery.id).collect();
    assert_eq!(again, [suspect, ids[0].clone(), ids[1].clone()], "a suspect first, and then as they were");
}

/// A worker stops although a handler does not. The last heartbeat of its lane reports that it
/// leaves. This applies only to that lane.
pub async fn a_lane_that_leaves_is_charged_nothing(bed: Bed) {
    let suspect = bed.put(1).await.remove(0);
    let mut lane = bed.dying_lane().await;
    lane.claim_one().await;
    bed.reclaim(&[&lane], RULE).await;
    let mut leaves = bed.dying_lane().await;
    wait_for(&mut leaves, &suspect).await;
    let ids = bed.put(2).await;
    assert_eq!(leaves.claim(1).await.len(), 1);
    let mut dies = bed.dying_lane().await;
    assert_eq!(dies.claim(1).await.len(), 1);
    // With and without the usage of its worker.
    for load in [Some(WorkerLoad::new(2, 8)), None] {
        let mut heartbeat = leaves.heartbeat(SHORT).leaving();
        heartbeat.load = load;
        bed.broker.extend(&[heartbeat]).await.remove(0).expect("the lane is known");
    }
    let held = bed.state(&suspect).await;
    assert_eq!(held, Some(JobState::Active), "nothing is returned before the lease is over");
    let reclaimed = bed.reclaim(&[&leaves, &dies], SLOW).await;
    assert_eq!((reclaimed.charged, reclaimed.returned, reclaimed.buried.len(), reclaimed.forgotten), (1, 2, 0, 2));
    for (id, state, crashes) in [(&suspect, JobState::Ready, 1), (&ids[0], JobState::Ready, 0), (&ids[1], JobState::Retry, 1)] {
        let record = bed.show(id).await.expect("it waits");
        assert_eq!((record.state, record.crashes), (state, crashes));
        // Its worker has stopped while the job was running.
        let returned = id != &ids[1];
        assert_eq!((record.returns, record.returned_ms.is_some()), (u32::from(returned), returned));
    }
    assert_eq!((bed.counter(Counter::Forgotten).await, bed.counter(Counter::Crashed).await), (0, 2));
}

/// A parked suspect is still a suspect: a turn resumes at most one, and none for a lane that may
/// not have one.
pub async fn a_parked_suspect_is_resumed_like_any_other_suspect(bed: Bed) {
    bed.put(3).await;
    let mut lane = bed.dying_lane().await;
    lane.claim(3).await;
    bed.reclaim(&[&lane], RULE).await;
    let mut lane = bed.lane().await;
    for parked in [true, true, false] {
        let delivery = lane.wait_for_one().await;
        let ending = if parked { Ending::Park { task: "new".to_owned() } } else { Ending::Return };
        assert!(lane.end(&delivery, ending).await);
    }
    bed.put(1).await;
    for (suspect, found) in [(false, [].as_slice()), (true, &[1])] {
        let mut turn = lane.next().claim(10);
        (turn.suspect, turn.resume) = (suspect, vec!["new".into()]);
        let answer = lane.send(&turn).await;
        let crashes: Vec<u32> = answer.deliveries.iter().map(|delivery| delivery.crashes).filter(|crashes| *crashes > 0).collect();
        assert_eq!((crashes.as_slice(), answer.parked), (found, true));
    }
    let mut turn = lane.next().claim(10);
    turn.resume = vec!["new".into()];
    assert_eq!(lane.send(&turn).await.deliveries.len(), 1, "the next one comes with the next turn");
    assert_eq!(bed.depth(JobState::Parked).await, 0);
}

/// A job that finished before the fence is finished.
pub async fn what_was_finished_in_time_is_not_reclaimed(bed: Bed) {
    bed.put(2).await;
    let mut lane = bed.dying_lane().await;
    let held = lane.claim(2).await;
    assert!(lane.end(&held[0], ack()).await);
    let reclaimed = bed.reclaim(&[&lane], RULE).await;
    assert_eq!(reclaimed.moved(), 1);
    assert_eq!(bed.counter(Counter::Done).await, 1);
}

/// Only this removes unused names.
pub async fn an_idle_lane_is_forgotten_without_charge(bed: Bed) {
    bed.put(1).await;
    let lane = bed.dying_lane().await;
    let reclaimed = bed.reclaim(&[&lane], RULE).await;
    assert_eq!((reclaimed.charged, reclaimed.returned, reclaimed.forgotten), (0, 0, 1));
    assert_eq!(bed.broker.overdue(&bed.queue, 0, 10).await.unwrap().fenced, 0);
    assert_eq!(bed.depth(JobState::Ready).await, 1);
}

/// A sweep takes bounded steps, and another reclaimer can continue it.
pub async fn a_sweep_goes_in_bounded_steps_that_anyone_can_continue(mut bed: Bed) {
    const JOBS: usize = 2 * RECLAIM_ITEMS + 50;
    bed.put(JOBS).await;
    let mut lane = bed.dying_lane().await;
    assert_eq!(lane.claim(JOBS).await.len(), JOBS);
    bed.fence(&[&lane]).await;
    let other = bed.another_process().await;
    let (mut moved, mut forgotten, mut steps) = (0, 0, 0);
    while forgotten == 0 {
        let broker = if steps % 2 == 0 { &bed.broker } else { &other };
        let step = broker.reclaim(&bed.queue, &SLOW).await.unwrap();
        let jobs = step.moved();
        assert!(jobs <= RECLAIM_ITEMS, "{jobs} in one step");
        assert_eq!(step.returned, 0, "the picture is judged as at first");
        moved += jobs;
        forgotten += step.forgotten;
        steps += 1;
        assert!(steps < 20);
    }
    assert_eq!((moved, bed.depth(JobState::Retry).await, bed.depth(JobState::Active).await), (JOBS, JOBS as u64, 0));
}

/// A partial sweep with a suspect: the next reclaimer judges it in the same way.
pub async fn a_half_done_sweep_with_a_suspect_is_judged_the_same(bed: Bed) {
    const JOBS: usize = RECLAIM_ITEMS + 100;
    let suspect = bed.put(1).await.remove(0);
    let mut lane = bed.dying_lane().await;
    lane.claim_one().await;
    bed.reclaim(&[&lane], RULE).await;
    let mut lane = bed.dying_lane().await;
    super::eventually("the suspect is ready", async || {
        let turn = lane.next();
        lane.send(&turn).await;
        (bed.state(&suspect).await == Some(JobState::Ready)).then_some(())
    })
    .await;
    bed.put(JOBS).await;
    // In one turn: the process has not lived longer than at the first crash.
    assert_eq!(lane.claim(JOBS + 1).await.len(), JOBS + 1);
    let reclaimed = bed.reclaim(&[&lane], SLOW).await;
    assert_eq!((reclaimed.charged, reclaimed.returned), (1, JOBS));
}

/// A cancelled job does not come back when its worker crashes.
pub async fn a_job_cancelled_under_a_lost_worker_stays_cancelled(bed: Bed) {
    let ids = bed.put(2).await;
    let mut lane = bed.dying_lane().await;
    lane.claim(2).await;
    bed.broker.cancel(&bed.queue, &ids[..1]).await.unwrap();
    let reclaimed = bed.reclaim(&[&lane], RULE).await;
    assert_eq!(reclaimed.charged, 1);
    assert_eq!(bed.state(&ids[0]).await, Some(JobState::Cancelled));
}

/// A dead letter with crashes can be requeued, without its counters.
pub async fn a_job_buried_for_its_crashes_can_be_requeued(bed: Bed) {
    let rule = CrashRule { max_crashes: 1, ..RULE };
    let id = bed.put(1).await.remove(0);
    let mut lane = bed.dying_lane().await;
    lane.claim_one().await;
    assert_eq!(bed.reclaim(&[&lane], rule).await.buried, std::slice::from_ref(&id));
    assert_eq!(bed.broker.requeue(&bed.queue, std::slice::from_ref(&id)).await.unwrap(), [true]);
    let delivery = bed.lane().await.claim_one().await;
    assert_eq!((delivery.id, delivery.crashes), (id, 0));
}

/// Claims until this job is delivered. No other job is ready.
async fn wait_for(lane: &mut Lane, id: &JobId) -> Delivery {
    let delivery = lane.wait_for_one().await;
    assert_eq!(&delivery.id, id);
    delivery
}
