//! Floods: many groups, keys and ids that are used once. No other job starves, and their data is
//! removed afterwards.

use std::{collections::BTreeSet, time::Duration};

use queue_core::{
    JobId,
    broker::{Begin, Ending, JobState, KeepLimits, NewJob, PauseOf, Pausing, SetPause, SweepLimits, Swept, topic_address},
};

use super::{
    bed::{Bed, LONG, Lane, eventually, finish},
    groups::{groups, job, name, put, sound},
    limits::{concurrency, key, limited, set},
};
use crate::Changes as _;

/// How many of each.
const MANY: usize = 250;

async fn sweep(bed: &Bed) -> Swept {
    bed.broker.sweep(&bed.queue, &SweepLimits::default()).await.expect("a sweep is answered")
}

/// Sweeps until nothing is left, in steps. Returns the number of removed items of a kind.
async fn sweep_all(bed: &Bed, of: impl Fn(&Swept) -> usize) -> usize {
    let mut removed = 0;
    loop {
        let swept = sweep(bed).await;
        // A page of a scan may have a few more.
        assert!(of(&swept) <= 2 * SweepLimits::default().items, "{swept:?} in one step");
        removed += of(&swept);
        if !swept.more {
            return removed;
        }
    }
}

/// Runs all jobs that are ready.
async fn run_all(lane: &mut Lane) {
    loop {
        let claimed = lane.claim(MANY).await;
        if claimed.is_empty() {
            return;
        }
        lane.ack(&claimed).await;
    }
}

/// One group for each job: a sweep removes the groups when no job waits, and reports whether some
/// are left.
pub async fn groups_that_were_used_once_are_forgotten(bed: Bed) {
    let mut lane = bed.lane().await;
    bed.producer().await.stored((0..MANY).map(|n| job(&format!("order-{n}"))).collect()).await;
    run_all(&mut lane).await;
    assert_eq!(sweep_all(&bed, |swept| swept.groups).await, MANY);
    assert!(sweep(&bed).await.is_empty());
    put(&bed, "order-7", 2).await;
    put(&bed, "new", 1).await;
    assert_eq!(groups(&lane.claim(5).await).matches("order-7").count(), 2);
    sound(&bed).await;
}

/// New groups with one job each arrive all the time. Later ones do not overtake a waiting group.
pub async fn a_flood_of_new_groups_passes_nobody_who_waits(bed: Bed) {
    put(&bed, "zz", 1).await;
    put(&bed, "a", 1).await;
    let mut lane = bed.lane().await;
    let mut served = Vec::new();
    for n in 0..20 {
        put(&bed, &format!("{}", (b'b' + n) as char), 1).await;
        served.push(groups(&lane.claim(1).await));
    }
    assert!(served[..3].contains(&"zz".to_owned()), "the name decides among those alone that came together: {served:?}");
    sound(&bed).await;
}

/// Limits block hundreds of groups that are next in the rotation. A job after them starts at once,
/// even with claims of one job each.
pub async fn groups_that_a_limit_holds_back_keep_nobody_from_its_turn(bed: Bed) {
    concurrency(&bed, "api", 1).await;
    let of = key("api", "");
    let mut lane = bed.lane().await;
    bed.producer().await.stored(vec![limited("holder", &[of])]).await;
    assert_eq!(lane.claim(1).await.len(), 1);
    let waiting: Vec<NewJob> = (0..MANY).map(|n| limited(&format!("a{n}"), &[of])).collect();
    bed.producer().await.stored(waiting).await;
    put(&bed, "zzzzz", 3).await;
    assert_eq!(groups(&lane.claim(1).await), "zzzzz");
    assert_eq!(groups(&lane.claim(5).await), "zzzzzzzzzz");
    let turn = lane.next().claim(5);
    let answer = lane.send(&turn).await;
    assert!(answer.deliveries.is_empty() && !answer.more, "it is not told of what nobody gets");
    sound(&bed).await;
}

/// One key of a rate for each job: a key is removed when it no longer delays a job.
pub async fn rates_of_keys_that_were_used_once_are_forgotten(bed: Bed) {
    set(&bed, "api", |rule| (rule.rate, rule.burst) = ("1000/1s".parse().ok(), Some(1))).await;
    let mut lane = bed.lane().await;
    bed.producer().await.stored((0..MANY).map(|n| limited("", &[key("api", &n.to_string())])).collect()).await;
    run_all(&mut lane).await;
    assert_eq!(bed.depth(JobState::Ready).await, 0);
    let mut forgotten = 0;
    eventually("all keys are forgotten", async || {
        forgotten += sweep_all(&bed, |swept| swept.rates).await;
        (forgotten >= MANY).then_some(())
    })
    .await;
    assert_eq!(forgotten, MANY);
}

/// Thousands of keys with active rates are examined before an inactive one. A sweep reports that it
/// has not examined all.
pub async fn a_sweep_that_meets_only_rates_that_hold_goes_on(bed: Bed) {
    const OVER: usize = 1;
    set(&bed, "slow", |rule| (rule.rate, rule.burst) = ("1/1h".parse().ok(), Some(1))).await;
    set(&bed, "fast", |rule| (rule.rate, rule.burst) = ("1000/1s".parse().ok(), Some(1))).await;
    let mut lane = bed.lane().await;
    for piece in (0..3_000).collect::<Vec<_>>().chunks(500) {
        bed.producer().await.stored(piece.iter().map(|n| limited("", &[key("slow", &n.to_string())])).collect()).await;
    }
    bed.producer().await.stored((0..OVER).map(|n| limited("", &[key("fast", &n.to_string())])).collect()).await;
    run_all(&mut lane).await;
    let passed = lane.next();
    let ran = lane.send(&passed).await.now_ms;
    eventually("what has run is over", async || {
        let turn = lane.next();
        (lane.send(&turn).await.now_ms > ran + 10).then_some(())
    })
    .await;
    assert_eq!(sweep_all(&bed, |swept| swept.rates).await, OVER);
}

/// After hundreds of waiting suspects were cancelled, a lane that may run no suspect still gets
/// plain jobs, with and without jobs of groups in the queue.
pub async fn cancelled_suspects_hide_no_other_job(bed: Bed) {
    bed.put(MANY).await;
    let mut dying = bed.dying_lane().await;
    assert_eq!(dying.claim(MANY).await.len(), MANY);
    bed.reclaim(&[&dying], super::groups::RULE).await;
    let mut lane = bed.lane().await;
    eventually("all are ready", async || {
        let turn = lane.next();
        lane.send(&turn).await;
        (bed.depth(JobState::Ready).await == MANY as u64).then_some(())
    })
    .await;
    bed.broker.cancel(&bed.queue, &bed.ids(JobState::Ready).await).await.expect("they can be cancelled");
    put(&bed, "a", 20).await;
    put(&bed, "", 5).await;
    let mut claimed = Vec::new();
    for _ in 0..20 {
        let mut turn = lane.next().claim(1);
        turn.suspect = false;
        claimed.extend(lane.send(&turn).await.deliveries);
    }
    assert_eq!(groups(&claimed).matches('-').count(), 5, "{}", groups(&claimed));
    sound(&bed).await;
}

/// Hundreds of suspects were cancelled while they waited. The one after them is delivered at once.
pub async fn cancelled_suspects_keep_no_other_waiting(bed: Bed) {
    let ids = bed.put(MANY + 1).await;
    let mut dying = bed.dying_lane().await;
    assert_eq!(dying.claim(MANY + 1).await.len(), MANY + 1);
    bed.reclaim(&[&dying], super::groups::RULE).await;
    let mut lane = bed.lane().await;
    eventually("all are ready", async || {
        let turn = lane.next();
        lane.send(&turn).await;
        (bed.depth(JobState::Ready).await == MANY as u64 + 1).then_some(())
    })
    .await;
    let listed = bed.ids(JobState::Ready).await;
    assert_eq!(listed.len(), ids.len());
    bed.broker.cancel(&bed.queue, &listed[..MANY]).await.expect("they can be cancelled");
    let claimed: Vec<_> = lane.claim(1).await.into_iter().map(|delivery| delivery.id).collect();
    assert_eq!(claimed, listed[MANY..]);
}

/// Thousands of jobs were cancelled while they waited. One of two claims gets the job after them.
pub async fn cancelled_jobs_keep_no_other_waiting(bed: Bed) {
    let ids = bed.put(2_500).await;
    for ids in ids.chunks(500) {
        bed.broker.cancel(&bed.queue, ids).await.expect("they can be cancelled");
    }
    let last = bed.put(1).await;
    let mut lane = bed.lane().await;
    let mut claimed = lane.claim(1).await;
    claimed.extend(lane.claim(1).await);
    assert_eq!(claimed.into_iter().map(|delivery| delivery.id).collect::<Vec<_>>(), last);
}

/// The limits of more groups than two claims examine are used up. At the latest, the third claim
/// gets the job after them. Each earlier claim reports that there is more.
pub async fn groups_whose_limits_are_used_up_keep_no_other_waiting(bed: Bed) {
    set(&bed, "api", |rule| rule.concurrency = Some(0)).await;
    let waiting: Vec<NewJob> = (0..1_500).map(|n| limited(&format!("a{n}"), &[key("api", &n.to_string())])).collect();
    for piece in waiting.chunks(500) {
        bed.producer().await.stored(piece.to_vec()).await;
    }
    // A longer name is served after shorter ones.
    let last = job("zzzzzz");
    bed.producer().await.stored(vec![last.clone()]).await;
    let mut lane = bed.lane().await;
    for claims_left in [2, 1, 0] {
        let turn = lane.next().claim(1);
        let answer = lane.send(&turn).await;
        if let Some(delivery) = answer.deliveries.first() {
            assert_eq!(delivery.id, last.id);
            break;
        }
        assert!(answer.more && claims_left > 0, "{claims_left} claims are left: {answer:?}");
    }
    sound(&bed).await;
}

/// Hundreds of keys have room again, but the groups of all jobs that wait for them are full. One of
/// two claims gets the job after them.
pub async fn keys_with_room_of_full_groups_keep_no_other_waiting(bed: Bed) {
    const KEYS: usize = 900;
    set(&bed, "api", |rule| rule.concurrency = Some(0)).await;
    let of = |n: usize| limited(&format!("a{n}"), &[key("api", &n.to_string())]);
    let mut lane = bed.lane().await;
    for piece in (0..KEYS).collect::<Vec<_>>().chunks(450) {
        bed.producer().await.stored(piece.iter().map(|n| of(*n)).collect()).await;
        assert!(lane.claim(450).await.is_empty(), "all are shut under their keys");
    }
    assert!(lane.claim(450).await.is_empty());
    for n in 0..KEYS {
        let pause = SetPause::pause(bed.queue.clone(), PauseOf::Group(name(&format!("a{n}"))), Pausing::new());
        bed.broker.set_pause(&pause).await.expect("a group can be paused");
    }
    let last = limited("z", &[key("api", "z")]);
    bed.producer().await.stored(vec![last.clone()]).await;
    assert!(lane.claim(1).await.is_empty());
    set(&bed, "api", |rule| rule.concurrency = Some(1)).await;
    let mut claimed = lane.claim(1).await;
    claimed.extend(lane.claim(1).await);
    assert_eq!(claimed.into_iter().map(|delivery| delivery.id).collect::<Vec<_>>(), [last.id]);
    sound(&bed).await;
}

/// Hundreds of groups have a job but are paused. Other groups without jobs are still removed in the
/// end.
pub async fn groups_that_rest_with_jobs_keep_none_from_being_forgotten(bed: Bed) {
    let mut lane = bed.lane().await;
    bed.producer().await.stored((0..MANY).map(|n| job(&format!("order-{n}"))).collect()).await;
    run_all(&mut lane).await;
    // More than one sweep examines.
    let paused: Vec<String> = (0..1_100).map(|n| format!("paused-{n}")).collect();
    for group in &paused {
        let pause = SetPause::pause(bed.queue.clone(), PauseOf::Group(name(group)), Pausing::new());
        bed.broker.set_pause(&pause).await.expect("a group can be paused");
    }
    for groups in paused.chunks(500) {
        bed.producer().await.stored(groups.iter().map(|group| job(group)).collect()).await;
    }
    // The virtual time passes the starts of the groups whose jobs have run.
    for _ in 0..3 {
        put(&bed, "last", 1).await;
        run_all(&mut lane).await;
    }
    // Claims also remove a few of them.
    assert!(sweep_all(&bed, |swept| swept.groups).await > MANY / 2);
}

/// While one sweeper has left something, other workers do not sweep.
pub async fn one_worker_sweeps_a_queue_at_a_time(bed: Bed) {
    let mut lane = bed.lane().await;
    bed.producer().await.stored((0..MANY).map(|n| job(&format!("order-{n}"))).collect()).await;
    run_all(&mut lane).await;
    let sweep = async |sweeper: u64| {
        let limits = SweepLimits { sweeper, ..SweepLimits::default() };
        bed.broker.sweep(&bed.queue, &limits).await.expect("a sweep is answered")
    };
    let first = sweep(1).await;
    assert!(first.groups > 0 && first.more && !first.elsewhere, "{first:?}");
    let other = sweep(2).await;
    assert!(other.elsewhere && other.removed() == 0 && !other.more, "{other:?}");
    assert!(sweep(0).await.groups > 0, "who gives no number is not kept away");
    while sweep(1).await.more {}
    let other = sweep(2).await;
    assert!(other.is_empty(), "nothing is left: {other:?}");
    put(&bed, "new", 1).await;
    run_all(&mut lane).await;
    assert_eq!(sweep(2).await.groups, 1, "the other sweeper has finished");
}

/// Only one worker trims a topic at a time. Its lock excludes others even if it has left nothing.
pub async fn one_worker_trims_a_topic_at_a_time(bed: Bed) {
    super::topics::subscribe(&bed, "billing", Begin::Start).await;
    let address = topic_address(&bed.queue);
    let sweep = async |sweeper: u64| {
        let limits = SweepLimits { sweeper, ..SweepLimits::default() };
        bed.broker.sweep(&address, &limits).await.expect("a sweep is answered")
    };
    assert!(sweep(1).await.is_empty());
    assert!(sweep(2).await.elsewhere);
    assert!(sweep(1).await.is_empty());
}

/// Ends `jobs` jobs, which are kept for a time. Returns their ids.
async fn keep(bed: &Bed, lane: &mut Lane, jobs: usize, keep: Duration, limits: KeepLimits) -> Vec<JobId> {
    let ids = bed.put(jobs).await;
    let claimed = lane.claim(jobs).await;
    assert_eq!(claimed.len(), jobs);
    let mut turn = lane.next().finish(claimed.iter().map(|job| finish(job, Ending::Ack { result: None, keep: Some(keep) })).collect());
    turn.keep = limits;
    assert!(lane.send(&turn).await.stale.is_empty());
    ids
}

/// Records are removed when their time is over, even if an earlier one is kept for much longer, and
/// another job was cancelled.
pub async fn a_record_waits_for_none_that_is_kept_for_longer(bed: Bed) {
    let mut lane = bed.lane().await;
    let long = keep(&bed, &mut lane, 1, LONG, KeepLimits::default()).await.remove(0);
    let cancelled = bed.put(1).await.remove(0);
    bed.broker.cancel(&bed.queue, std::slice::from_ref(&cancelled)).await.expect("it can be cancelled");
    keep(&bed, &mut lane, MANY, Duration::from_millis(1), KeepLimits::default()).await;
    let mut removed = 0;
    eventually("they are removed", async || {
        removed += sweep_all(&bed, |swept| swept.ended).await;
        (removed >= MANY).then_some(())
    })
    .await;
    assert_eq!((removed, bed.depth(JobState::Done).await), (MANY, 1));
    assert_eq!((bed.state(&long).await, bed.state(&cancelled).await), (Some(JobState::Done), Some(JobState::Cancelled)));
    // The kept job is in the lists.
    assert_eq!((bed.ids(JobState::Done).await, bed.ids(JobState::Cancelled).await), (vec![long], vec![cancelled]));
}

/// This also holds if the earlier one is kept a little longer.
pub async fn a_record_waits_for_none_that_is_kept_a_little_longer(bed: Bed) {
    let mut lane = bed.lane().await;
    let longer = keep(&bed, &mut lane, 1, Duration::from_secs(8), KeepLimits::default()).await.remove(0);
    keep(&bed, &mut lane, 3, Duration::from_millis(4_200), KeepLimits::default()).await;
    let mut removed = 0;
    eventually("they are removed", async || {
        removed += sweep_all(&bed, |swept| swept.ended).await;
        (removed > 0).then_some(())
    })
    .await;
    assert_eq!((removed, bed.state(&longer).await), (3, Some(JobState::Done)));
}

/// If too many records are kept, expired ones are removed first, and then those with the shortest
/// retention.
pub async fn a_bound_removes_no_record_while_another_is_over(bed: Bed) {
    let limits = KeepLimits { count: 3, ..KeepLimits::default() };
    let mut lane = bed.lane().await;
    let long = keep(&bed, &mut lane, 2, LONG, limits).await;
    let short = keep(&bed, &mut lane, 2, Duration::from_secs(60), limits).await;
    let listed = async |state| bed.ids(state).await.into_iter().collect::<BTreeSet<_>>();
    assert_eq!(listed(JobState::Done).await, long.iter().chain(&short[1..]).cloned().collect(), "one of the shorter ones went");
    for _ in 0..3 {
        keep(&bed, &mut lane, 5, Duration::from_millis(1), KeepLimits::default()).await;
    }
    eventually("what is over is gone, and no more", async || {
        let swept = bed.broker.sweep(&bed.queue, &SweepLimits { keep: limits, ..SweepLimits::default() }).await.expect("it is swept");
        (swept.ended == 0 && bed.depth(JobState::Done).await == 3).then_some(())
    })
    .await;
    assert_eq!(listed(JobState::Done).await, long.into_iter().chain(short.into_iter().skip(1)).collect());
}
