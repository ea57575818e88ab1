//! Suspects: jobs whose process has crashed. They are served one at a time, and suspects that may
//! not start block no other job.

use queue_core::{
    JobId,
    broker::{Begin, Delivery, Ending, JobState, MAX_ITEMS, NewJob, PauseOf, Pausing, SetPause},
    inspect::GroupOrder,
};

use super::{
    bed::{Bed, Lane, SHORT, eventually, finish},
    groups::{RULE, cap, groups, job, name, order, put, sound},
    limits::{concurrency, key, limited},
    topics::{event, lane, publisher, subscribe},
};

/// Crashes a process that holds one job of each of these groups. The jobs are then ready suspects.
async fn suspects(bed: &Bed, groups: impl Iterator<Item = String>) -> Vec<JobId> {
    all_suspects(bed, groups.map(|group| job(&group)).collect()).await
}

/// The same for these jobs.
async fn all_suspects(bed: &Bed, jobs: Vec<NewJob>) -> Vec<JobId> {
    let ids: Vec<JobId> = jobs.iter().map(|job| job.id.clone()).collect();
    for jobs in jobs.chunks(MAX_ITEMS) {
        bed.producer().await.stored(jobs.to_vec()).await;
    }
    let mut dying = bed.dying_lane().await;
    let mut held = 0;
    while held < ids.len() {
        held += dying.claim((ids.len() - held).min(MAX_ITEMS)).await.len();
    }
    bed.reclaim(&[&dying], RULE).await;
    come_back(bed, &mut bed.lane().await, ids.len() as u64).await;
    ids
}

/// Waits until this number of jobs is ready. Turns without a claim promote them.
async fn come_back(bed: &Bed, lane: &mut Lane, jobs: u64) {
    eventually("the suspects are ready", async || {
        let turn = lane.next();
        lane.send(&turn).await;
        (bed.depth(JobState::Ready).await == jobs).then_some(())
    })
    .await;
}

/// The process of a lane lives until a run has lasted longer than the one in which the job crashed.
async fn outlives(lane: &mut Lane, run: &Delivery) {
    let lasted = i64::try_from(run.suspected_for.as_millis()).expect("it is short");
    eventually("it has run for longer than before", async || {
        let turn = lane.next();
        (lane.send(&turn).await.now_ms > run.claim.cast_signed() + lasted + 5).then_some(())
    })
    .await;
}

/// The deliveries for a lane that runs a suspect, and whether more are reported.
async fn claim_beside(lane: &mut Lane, jobs: usize) -> (String, bool) {
    let mut turn = lane.next().claim(jobs);
    turn.suspect = false;
    let answer = lane.send(&turn).await;
    (groups(&answer.deliveries), answer.more)
}

/// Hundreds of groups with only suspects are next in the rotation. A lane that runs a suspect gets
/// the jobs of other groups, and only jobs that it can get are reported.
pub async fn groups_with_suspects_alone_keep_nobody_from_its_turn(bed: Bed) {
    suspects(&bed, (0..250).map(|n| format!("a{n}"))).await;
    put(&bed, "z", 6).await;
    let mut lane = bed.lane().await;
    assert_eq!(claim_beside(&mut lane, 1).await, ("z".to_owned(), true), "one job at a time");
    assert_eq!(claim_beside(&mut lane, 16).await, ("zzzzz".to_owned(), false));
    assert_eq!(claim_beside(&mut lane, 16).await, (String::new(), false), "nothing that it may run, and nothing that makes it ask again");
    let turn = lane.next().claim(1);
    let answer = lane.send(&turn).await;
    assert_eq!((answer.deliveries.len(), answer.deliveries[0].crashes, answer.suspects), (1, 1, true));
    sound(&bed).await;
}

/// Hundreds of suspects may not start because their groups are paused or full: another suspect is
/// found at once.
pub async fn suspects_that_may_not_start_keep_no_other_from_its_turn(bed: Bed) {
    suspects(&bed, (0..250).map(|n| format!("a{n}")).chain(["z".to_owned()])).await;
    for n in 0..250 {
        let pause = SetPause::pause(bed.queue.clone(), PauseOf::Group(name(&format!("a{n}"))), Pausing::new());
        bed.broker.set_pause(&pause).await.expect("a group can be paused");
    }
    let mut lane = bed.lane().await;
    let turn = lane.next().claim(1);
    let answer = lane.send(&turn).await;
    assert_eq!((groups(&answer.deliveries).as_str(), answer.suspects, answer.more), ("z", false, false));
    let resume = SetPause::resume(bed.queue.clone(), PauseOf::Group(name("a77")));
    bed.broker.set_pause(&resume).await.expect("a group can go on");
    assert_eq!(groups(&lane.claim(1).await), "a77");
    sound(&bed).await;
}

/// Suspects are served in the rotation of their groups, which are charged for them, so none is
/// always the last.
pub async fn suspects_of_groups_take_turns(bed: Bed) {
    suspects(&bed, ["a", "a", "a", "b", "b", "b"].into_iter().map(str::to_owned)).await;
    let mut lane = bed.lane().await;
    let mut served = String::new();
    for _ in 0..6 {
        served += &groups(&lane.claim(1).await);
    }
    assert_eq!(served, "ababab");
    sound(&bed).await;
}

/// The job that blocks the line of an ordered group is a suspect: the group continues when that job
/// is served.
pub async fn an_ordered_group_whose_holder_is_a_suspect_waits_for_it(bed: Bed) {
    order(&bed, "a", GroupOrder::Ordered).await;
    cap(&bed, "b", 1).await;
    let held = suspects(&bed, ["a", "b"].into_iter().map(str::to_owned)).await;
    put(&bed, "a", 2).await;
    put(&bed, "b", 2).await;
    let mut lane = bed.lane().await;
    assert_eq!(claim_beside(&mut lane, 4).await, ("b".to_owned(), false), "its jobs wait for the one that crashed");
    sound(&bed).await;
    let taken = lane.claim(4).await;
    assert_eq!(taken.iter().map(|delivery| &delivery.id).collect::<Vec<_>>(), [&held[0]]);
    lane.ack(&taken).await;
    assert_eq!(groups(&lane.claim(1).await), "a");
    sound(&bed).await;
}

/// If a process has lived longer in this run than in the crashed one, its job is no longer
/// suspected, and is judged like the others.
pub async fn a_suspect_that_has_outlived_its_crash_is_suspected_no_more(bed: Bed) {
    let old = suspects(&bed, [String::new()].into_iter()).await.remove(0);
    let mut lane = bed.dying_lane().await;
    let held = lane.claim_one().await;
    assert!(held.id == old && held.suspected_for >= SHORT, "how long it may have run: {:?}", held.suspected_for);
    outlives(&mut lane, &held).await;
    // The first other job comes while the process is alive.
    let neighbour = put(&bed, "", 1).await.remove(0);
    assert_eq!(lane.claim(1).await.len(), 1);
    bed.broker.extend(&[lane.heartbeat(SHORT)]).await.remove(0).expect("the lane is known");
    let reclaimed = bed.reclaim(&[&lane], RULE).await;
    assert_eq!((reclaimed.charged, reclaimed.returned), (2, 0), "both may have done it");
    let crashes = async |id: &JobId| bed.show(id).await.expect("it waits").crashes;
    assert_eq!((crashes(&old).await, crashes(&neighbour).await), (2, 1));
}

/// The same together with a job that is suspected: only that one is charged.
pub async fn a_suspect_that_has_outlived_its_crash_goes_free_beside_another(bed: Bed) {
    let ids = suspects(&bed, ["", ""].into_iter().map(str::to_owned)).await;
    let mut lane = bed.dying_lane().await;
    let old = lane.claim_one().await;
    outlives(&mut lane, &old).await;
    let young = lane.claim_one().await;
    assert!(ids.contains(&young.id));
    let reclaimed = bed.reclaim(&[&lane], RULE).await;
    assert_eq!((reclaimed.charged, reclaimed.returned), (1, 1));
    let crashes = async |id: &JobId| bed.show(id).await.expect("it waits").crashes;
    assert_eq!((crashes(&old.id).await, crashes(&young.id).await), (1, 2));
}

/// A subscription continues to read although many of its groups have only suspects, which a turn
/// could not get.
pub async fn a_subscription_reads_on_beside_groups_with_suspects(bed: Bed) {
    subscribe(&bed, "s", Begin::Now).await;
    let mut publisher = publisher(&bed).await;
    let events = |from: u8, to: u8| {
        (from..to).map(|n| {
            let mut event = event(n);
            event.group = Some(name(&n.to_string()));
            event
        })
    };
    publisher.stored(events(0, 10).collect()).await;
    let mut dying = lane(&bed, "s").await;
    dying.lease = SHORT;
    let held = dying.claim(10).await;
    assert_eq!(held.len(), 10);
    publisher.stored(events(10, 60).collect()).await;
    let bed = bed.in_queue(&dying.queue.clone());
    bed.reclaim(&[&dying], RULE).await;
    let mut one = bed.lane().await;
    come_back(&bed, &mut one, 10).await;
    let mut claimed = 0;
    for _ in 0..2 {
        let mut turn = one.next().claim(10);
        turn.suspect = false;
        claimed += one.send(&turn).await.deliveries.len();
    }
    assert!(claimed >= 10, "two turns bring one read: {claimed}");
    while claimed < 50 {
        let mut turn = one.next().claim(10);
        turn.suspect = false;
        let answer = one.send(&turn).await;
        assert!(!answer.deliveries.is_empty() || !answer.more, "nothing came, and it is told of more");
        claimed += answer.deliveries.len();
    }
    let mut turn = one.next().claim(10);
    turn.suspect = false;
    let answer = one.send(&turn).await;
    assert_eq!((answer.deliveries.len(), answer.more, answer.suspects), (0, false, true));
}

/// Claims one job, which may be a suspect, repeatedly until one is delivered. Until then, the lane
/// is notified that more may come.
async fn search_suspect(lane: &mut Lane, claims: usize) -> Delivery {
    for claim in 1..=claims {
        let turn = lane.next().claim(1);
        let mut answer = lane.send(&turn).await;
        if let Some(found) = answer.deliveries.pop() {
            return found;
        }
        assert!(answer.suspects, "claim {claim} found none, and has not looked at all");
    }
    panic!("no suspect after {claims} claims");
}

/// One group has hundreds of suspects, each with its own limit, and another limit blocks all of
/// them: the one after them starts.
pub async fn a_search_goes_on_inside_a_group(bed: Bed) {
    let api = key("api", "");
    let mut jobs: Vec<NewJob> = (0..900).map(|n| limited("a", &[api, key("other", &n.to_string())])).collect();
    // More keys than the others have: brokers examine it last.
    let free = limited("a", &["1", "2", "3"].map(|value| key("free", value)));
    let last = free.id.clone();
    jobs.push(free);
    all_suspects(&bed, jobs).await;
    concurrency(&bed, "api", 1).await;
    bed.producer().await.stored(vec![limited("holder", &[api])]).await;
    let mut lane = bed.lane().await;
    assert_eq!(claim_beside(&mut lane, 1).await.0, "holder");
    assert_eq!(search_suspect(&mut lane, 2).await.id, last);
    // No other job may start. After a few claims, the lane is not asked to claim again.
    let mut asked = 0;
    loop {
        let turn = lane.next().claim(1);
        let answer = lane.send(&turn).await;
        assert!(answer.deliveries.is_empty());
        asked += 1;
        if !answer.suspects {
            break;
        }
    }
    assert!(asked <= 2, "{asked} claims for 900 suspects");
}

/// Limits block hundreds of groups of suspects. A search that has found one after them starts again
/// with the first group, which now has room.
pub async fn a_suspect_that_is_found_begins_the_search_again(bed: Bed) {
    let api = key("api", "");
    let jobs = (0..250).map(|n| limited(&format!("a{n}"), &[api])).chain([job("zzz1"), job("zzz2")]).collect();
    all_suspects(&bed, jobs).await;
    concurrency(&bed, "api", 1).await;
    bed.producer().await.stored(vec![limited("holder", &[api])]).await;
    let mut lane = bed.lane().await;
    let mut turn = lane.next().claim(1);
    turn.suspect = false;
    let holder = lane.send(&turn).await.deliveries;
    assert_eq!(groups(&holder), "holder");
    let found = search_suspect(&mut lane, 2).await;
    assert_eq!(groups(&[found]), "zzz1");
    lane.ack(&holder).await;
    let found = search_suspect(&mut lane, 2).await;
    assert_eq!(groups(&[found]), "a0");
}

/// Another job of a group has run since it has a suspect: the suspect of a group without a run
/// comes first.
pub async fn a_group_pays_for_its_suspect_what_its_jobs_have_cost(bed: Bed) {
    suspects(&bed, ["a", "b"].into_iter().map(str::to_owned)).await;
    put(&bed, "a", 1).await;
    let mut lane = bed.lane().await;
    assert_eq!(claim_beside(&mut lane, 1).await.0, "a");
    assert_eq!(groups(&lane.claim(1).await), "b");
    assert_eq!(groups(&lane.claim(1).await), "a");
    sound(&bed).await;
}

/// Hundreds of suspects are parked, and a lane that runs a suspect requests their task: it gets the
/// job after them that is not a suspect.
pub async fn parked_suspects_keep_no_other_job_waiting(bed: Bed) {
    const PARKED: usize = 650;
    suspects(&bed, std::iter::repeat_n(String::new(), PARKED)).await;
    let park = |delivery: &Delivery| finish(delivery, Ending::Park { task: "suite.task".to_owned() });
    let mut lane = bed.lane().await;
    let mut held: Vec<Delivery> = lane.claim(1).await;
    while let Some(delivery) = held.pop() {
        let turn = lane.next().finish(vec![park(&delivery)]).claim(1);
        held = lane.send(&turn).await.deliveries;
    }
    let last = put(&bed, "", 1).await.remove(0);
    let delivery = lane.claim_one().await;
    let turn = lane.next().finish(vec![park(&delivery)]);
    lane.send(&turn).await;
    assert_eq!(bed.depth(JobState::Parked).await, PARKED as u64 + 1);
    let mut claimed = Vec::new();
    for _ in 0..3 {
        let mut turn = lane.next().claim(1);
        (turn.suspect, turn.resume) = (false, vec!["suite.task".into()]);
        claimed.extend(lane.send(&turn).await.deliveries);
    }
    assert_eq!(claimed.iter().map(|delivery| &delivery.id).collect::<Vec<_>>(), [&last]);
    let mut turn = lane.next().claim(1);
    turn.resume = vec!["suite.task".into()];
    assert_eq!(lane.send(&turn).await.deliveries[0].crashes, 1, "a suspect is resumed like any other");
}
