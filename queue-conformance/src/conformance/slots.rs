//! Known problems of other systems with groups and their slots, each as a case.

use queue_core::{
    JobId,
    broker::{Change, Due, Ending, Enqueued, JobState, NewJob, Priority, SweepLimits},
};

use super::{
    bed::{Bed, LONG, Lane, ack, given, nack},
    groups::{RULE, cap, depth, group_rule, groups, job, name, one_by_one, put, sound},
};

/// A group at its cap whose jobs come first does not block the jobs of other groups, however many
/// jobs it has.
pub async fn a_saturated_group_at_the_front_stalls_nobody(bed: Bed) {
    cap(&bed, "a", 1).await;
    put(&bed, "a", 300).await;
    let mut lane = bed.lane().await;
    let first = lane.claim_one().await;
    put(&bed, "b", 1).await;
    put(&bed, "", 1).await;
    let mut claimed: Vec<char> = groups(&lane.claim(10).await).chars().collect();
    claimed.sort_unstable();
    assert_eq!(claimed, ['-', 'b'], "one claim reaches them");
    lane.ack(&[first]).await;
    assert_eq!(groups(&lane.claim(10).await), "a");
    sound(&bed).await;
}

/// A running job is counted at any position. Jobs that were before it or were stored later are not
/// started in its place.
pub async fn a_running_job_that_sorts_last_is_counted(bed: Bed) {
    cap(&bed, "a", 2).await;
    let at = |priority| {
        let mut job = job("a");
        job.priority = priority;
        job
    };
    bed.producer().await.stored(vec![at(Priority::Low), at(Priority::Low)]).await;
    let mut lane = bed.lane().await;
    let running = lane.claim(5).await;
    assert_eq!(running.len(), 2);
    bed.producer().await.stored(vec![at(Priority::Critical), at(Priority::High), at(Priority::Low)]).await;
    let mut other = bed.lane().await;
    assert!(lane.claim(5).await.is_empty() && other.claim(5).await.is_empty(), "two run, and two may");
    lane.ack(&running[..1]).await;
    assert_eq!((other.claim(5).await.len(), lane.claim(5).await.len()), (1, 0));
    sound(&bed).await;
}

/// A worker crashed, and the record of its job was removed before the reclaim: the slot is free.
pub async fn a_job_whose_record_is_gone_before_its_worker_is_missed_holds_no_slot(bed: Bed) {
    cap(&bed, "a", 1).await;
    put(&bed, "a", 2).await;
    let mut dying = bed.dying_lane().await;
    let lost = dying.claim_one().await;
    let ids = std::slice::from_ref(&lost.id);
    for change in [Change::Cancel, Change::Delete] {
        assert!(bed.broker.change(&bed.queue, change, None, ids).await.expect("it can be changed").iter().all(|answer| answer.done()));
    }
    bed.broker.sweep(&bed.queue, &SweepLimits::default()).await.expect("a queue can be swept");
    bed.reclaim(&[&dying], RULE).await;
    assert_eq!(depth(&bed, "a").await, (1, 0));
    sound(&bed).await;
    let mut lane = bed.lane().await;
    assert_eq!(lane.claim(5).await.len(), 1, "its group is served");
    sound(&bed).await;
}

/// Ready jobs are deleted: none of their ids remains and blocks later jobs.
pub async fn a_deleted_job_leaves_no_stale_id_in_the_line(bed: Bed) {
    let ids = put(&bed, "a", 5).await;
    let deleted = [ids[0].clone(), ids[1].clone(), ids[3].clone()];
    let answers = bed.broker.change(&bed.queue, Change::Delete, None, &deleted).await.expect("they can be deleted");
    assert!(answers.iter().all(|answer| answer.done()));
    assert_eq!(depth(&bed, "a").await, (2, 0));
    let mut lane = bed.lane().await;
    let claimed: Vec<JobId> = one_by_one(&mut lane, 2).await.into_iter().map(|job| job.id).collect();
    assert_eq!(claimed, [ids[2].clone(), ids[4].clone()]);
    sound(&bed).await;
}

/// A job that runs unexpectedly long keeps its slot while its worker is alive, and releases it
/// once.
pub async fn a_slot_does_not_run_out_under_a_long_job(bed: Bed) {
    cap(&bed, "a", 1).await;
    put(&bed, "a", 3).await;
    let mut lane = bed.lane().await;
    let long = lane.claim_one().await;
    for _ in 0..3 {
        bed.broker.sweep(&bed.queue, &SweepLimits::default()).await.expect("a queue can be swept");
        assert!(bed.broker.extend(&[lane.heartbeat(LONG)]).await.iter().all(Result::is_ok), "a heartbeat is answered");
        assert!(lane.claim(1).await.is_empty());
    }
    assert!(lane.end(&long, ack()).await);
    assert!(!lane.end(&long, ack()).await, "it has ended");
    assert_eq!((lane.claim(5).await.len(), depth(&bed, "a").await), (1, (1, 1)), "one slot was given back, not two");
    sound(&bed).await;
}

/// A worker that was considered dead ends its job after the reclaim: the slot belongs to the next
/// run.
pub async fn a_late_ending_takes_no_slot_of_the_next_run(bed: Bed) {
    cap(&bed, "a", 1).await;
    put(&bed, "a", 2).await;
    let mut dying = bed.dying_lane().await;
    let lost = dying.claim_one().await;
    bed.reclaim(&[&dying], RULE).await;
    let mut lane = bed.lane().await;
    let next = lane.claim(1).await;
    assert_eq!((next.len(), depth(&bed, "a").await.1), (1, 1));
    // Its lane is forgotten, or the ending is stale.
    let turn = dying.next().finish(vec![super::bed::finish(&lost, ack())]);
    drop(bed.broker.turn(&turn).await);
    assert_eq!(depth(&bed, "a").await.1, 1);
    assert!(lane.claim(5).await.is_empty(), "the cap is 1");
    sound(&bed).await;
}

/// A group whose jobs were all cancelled, and that comes back, is not last in the rotation.
pub async fn a_purged_group_that_comes_back_does_not_starve(bed: Bed) {
    for _ in 0..2 {
        put(&bed, "a", 400).await;
    }
    put(&bed, "b", 20).await;
    let mut clearing = bed.inspector().clear_group(&bed.queue, &name("a"), queue_core::inspect::Cleared::Waiting);
    while clearing.step().await.expect("a step is answered") {}
    assert_eq!(clearing.cancelled(), 800);
    put(&bed, "a", 3).await;
    let mut lane = bed.lane().await;
    let claimed = groups(&one_by_one(&mut lane, 8).await);
    assert_eq!(claimed.matches('a').count(), 3, "{claimed}");
    sound(&bed).await;
}

/// A new weight applies to waiting jobs.
pub async fn a_new_weight_holds_for_jobs_that_wait_already(bed: Bed) {
    put(&bed, "a", 20).await;
    put(&bed, "b", 20).await;
    let mut lane = bed.lane().await;
    assert_eq!(groups(&one_by_one(&mut lane, 4).await), "abab");
    group_rule(&bed, "b", |rule| rule.weight = Some(3)).await;
    let claimed = groups(&one_by_one(&mut lane, 12).await);
    assert!((8..=10).contains(&claimed.matches('b').count()), "three of four, give or take the turn that was begun: {claimed}");
    sound(&bed).await;
}

/// An id is cancelled in one group and comes back in another: it does not block jobs after it.
pub async fn an_id_that_comes_back_in_another_group_strands_nobody(bed: Bed) {
    let of = |group: &str| {
        let mut job = given("order-1", "x");
        job.group = Some(name(group));
        job
    };
    let mut producer = bed.producer().await;
    producer.stored(vec![job("a"), of("a"), job("a"), job("b")]).await;
    let id = of("a").id;
    assert!(bed.broker.change(&bed.queue, Change::Delete, None, std::slice::from_ref(&id)).await.expect("it can be deleted")[0].done());
    assert_eq!(producer.send(vec![of("b")]).await, [Enqueued::Stored]);
    assert_eq!((depth(&bed, "a").await, depth(&bed, "b").await), ((2, 0), (2, 0)));
    let mut lane = bed.lane().await;
    let claimed = lane.claim(10).await;
    assert_eq!(claimed.len(), 4, "nobody is stranded");
    assert_eq!((depth(&bed, "a").await, depth(&bed, "b").await), ((0, 2), (0, 2)), "it runs in its new group");
    sound(&bed).await;
}

/// When all jobs have ended, in any way, groups hold no slots.
pub async fn groups_hold_nothing_when_all_their_jobs_have_ended(bed: Bed) {
    cap(&bed, "a", 3).await;
    put(&bed, "a", 9).await;
    let mut later: Vec<NewJob> = vec![job("a")];
    later[0].due = Due::After(LONG);
    let later_id = later[0].id.clone();
    bed.producer().await.stored(later).await;
    let mut lane = bed.lane().await;
    let endings = [ack(), nack(LONG), Ending::Bury { reason: queue_core::broker::BuryReason::Failed, error: None }];
    for round in 0..3 {
        let claimed = lane.claim(9).await;
        assert_eq!(claimed.len(), 3, "round {round}");
        for (delivery, ending) in claimed.iter().zip(&endings) {
            assert!(lane.end(delivery, ending.clone()).await);
        }
    }
    let waiting: Vec<JobId> = bed.ids(JobState::Retry).await.into_iter().chain([later_id]).collect();
    bed.broker.change(&bed.queue, Change::Cancel, None, &waiting).await.expect("they can be cancelled");
    assert_eq!((depth(&bed, "a").await, lane.claim(5).await.len()), ((0, 0), 0));
    put(&bed, "a", 4).await;
    assert_eq!(lane.claim(5).await.len(), 3, "all slots are there again");
    sound(&bed).await;
}

/// Several lanes claim at once, round after round: no slot is given twice.
pub async fn lanes_that_claim_at_once_share_the_slots_of_a_group(bed: Bed) {
    cap(&bed, "a", 2).await;
    cap(&bed, "b", 3).await;
    put(&bed, "a", 40).await;
    put(&bed, "b", 40).await;
    let mut lanes: Vec<Lane> = Vec::new();
    for _ in 0..6 {
        lanes.push(bed.lane().await);
    }
    for round in 0..8 {
        let claims = lanes.iter_mut().map(|lane| async { (lane.claim(4).await, lane) });
        let claimed = futures_util::future::join_all(claims).await;
        let all: String = claimed.iter().map(|(deliveries, _)| groups(deliveries)).collect();
        assert_eq!((all.matches('a').count(), all.matches('b').count()), (2, 3), "round {round}: {all}");
        for (deliveries, lane) in claimed {
            lane.ack(&deliveries).await;
        }
    }
    sound(&bed).await;
}

/// While a group has work and room, no other group is served more often than their weights allow,
/// even if jobs are added and end, and groups become full.
pub async fn a_group_with_work_and_room_is_served_within_its_bound(bed: Bed) {
    const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
    const WEIGHTS: [u32; 5] = [1, 2, 3, 1, 5];
    const CAPS: [usize; 5] = [usize::MAX, 2, 1, 3, usize::MAX];
    for (at, of) in NAMES.into_iter().enumerate() {
        let cap = u32::try_from(CAPS[at]).ok();
        group_rule(&bed, of, |rule| (rule.weight, rule.cap) = (Some(WEIGHTS[at]), cap)).await;
    }
    let mut rng = fastrand::Rng::with_seed(26);
    let mut lane = bed.lane().await;
    let (mut waiting, mut running) = ([0_usize; 5], [const { Vec::new() }; 5]);
    // The number of times that each other group was served while a group had work and room.
    let mut passed = [[0_u32; 5]; 5];
    for step in 0..250 {
        if step == 0 || rng.u8(..3) == 0 {
            let of = rng.usize(..5);
            let jobs = rng.usize(1..8);
            put(&bed, NAMES[of], jobs).await;
            waiting[of] += jobs;
        }
        let busy: Vec<usize> = (0..5).filter(|of| !running[*of].is_empty()).collect();
        if !busy.is_empty() && rng.bool() {
            let of = busy[rng.usize(..busy.len())];
            let ended = running[of].swap_remove(rng.usize(..running[of].len()));
            lane.ack(&[ended]).await;
        }
        let may: Vec<usize> = (0..5).filter(|of| waiting[*of] > 0 && running[*of].len() < CAPS[*of]).collect();
        let claimed = lane.claim(1).await.pop();
        let Some(delivery) = claimed else {
            assert!(may.is_empty(), "step {step}: {may:?} have work and room");
            continue;
        };
        let served = NAMES.iter().position(|of| *of == groups(std::slice::from_ref(&delivery))).expect("it is of one of them");
        assert!(may.contains(&served), "step {step}: {} is full, or has no work", NAMES[served]);
        for of in 0..5 {
            if of == served || !may.contains(&of) {
                passed[of] = [0; 5];
                continue;
            }
            passed[of][served] += 1;
            let most = WEIGHTS[served].div_ceil(WEIGHTS[of]) + 2;
            assert!(passed[of][served] <= most, "step {step}: {} waits, and {} was served {most} times", NAMES[of], NAMES[served]);
        }
        waiting[served] -= 1;
        running[served].push(delivery);
    }
    sound(&bed).await;
}
