//! Concurrency limits: by key, several together, and without leaks.

use std::time::Duration;

use queue_core::{
    JobId,
    broker::{
        Audit, BuryReason, Changed, DamageKind, Delivery, Due, Ending, Enqueued, GroupList, JobLimits, JobState, LimitRecord, LimitSet,
        MAX_BYTES, NewJob, PauseOf, Pausing, Priority, SetLimit, SetPause,
    },
    inspect::{GroupOrder, LimitKey, LimitRule, Reason, RuleOf},
};

use super::{
    bed::{Bed, Lane, SHORT, ack, envelope, eventually, finish, nack},
    groups::{self, RULE, groups, job, name, order, sound},
    unique,
};
use crate::Changes as _;

/// The key of a limit for a value. Without a value, it is the key of the queue.
pub(super) fn key(limit: &str, value: &str) -> LimitKey {
    LimitKey::of(limit, value.as_bytes())
}

/// A job of a group, or of none, that is subject to these limits.
pub(super) fn limited(group: &str, keys: &[LimitKey]) -> NewJob {
    let mut job = job(group);
    job.limits = JobLimits::new(keys.to_vec(), 1).map(Box::new);
    job
}

/// Stores `jobs` jobs that are subject to these limits. Returns their ids.
pub(super) async fn put(bed: &Bed, group: &str, keys: &[LimitKey], jobs: usize) -> Vec<JobId> {
    let jobs: Vec<NewJob> = (0..jobs).map(|_| limited(group, keys)).collect();
    let ids = jobs.iter().map(|job| job.id.clone()).collect();
    bed.producer().await.stored(jobs).await;
    ids
}

pub(super) async fn set(bed: &Bed, limit: &str, change: impl Fn(&mut LimitRule)) {
    bed.inspector().set_limit(&bed.queue, limit, change).await.expect("the limit is set");
}

pub(super) async fn concurrency(bed: &Bed, limit: &str, most: u32) {
    set(bed, limit, |rule| rule.concurrency = Some(most)).await;
}

async fn held(bed: &Bed, key: LimitKey) -> u64 {
    bed.inspector().limits_of(&bed.queue, &[key]).await.expect("a key can be looked at")[0].held
}

/// Claims until the answer reports no more ready jobs.
pub(super) async fn claim_all(lane: &mut Lane, most: usize) -> Vec<Delivery> {
    let mut claimed = Vec::new();
    while claimed.len() < most {
        let turn = lane.next().claim(most - claimed.len());
        let answer = lane.send(&turn).await;
        claimed.extend(answer.deliveries);
        if !answer.more {
            break;
        }
    }
    claimed
}

/// The number of running jobs of each key is at most its limit, over all workers. A job that ends
/// makes room.
pub async fn a_limit_holds_for_each_key(bed: Bed) {
    concurrency(&bed, "stripe", 2).await;
    let (a, b) = (key("stripe", "a"), key("stripe", "b"));
    let first = put(&bed, "", &[a], 5).await;
    put(&bed, "", &[b], 1).await;
    let (mut lane, mut other) = (bed.lane().await, bed.lane().await);
    let claimed = claim_all(&mut lane, 10).await;
    assert_eq!(claimed.len(), 3);
    assert!(claim_all(&mut other, 10).await.is_empty());
    assert_eq!((held(&bed, a).await, held(&bed, b).await), (2, 1));
    sound(&bed).await;
    let of_a: Vec<Delivery> = claimed.into_iter().filter(|delivery| first.contains(&delivery.id)).collect();
    assert_eq!([&of_a[0].id, &of_a[1].id], [&first[0], &first[1]], "in order");
    lane.ack(&of_a[..1]).await;
    let next = claim_all(&mut other, 10).await;
    assert_eq!(next.iter().map(|delivery| &delivery.id).collect::<Vec<_>>(), [&first[2]]);
    sound(&bed).await;
}

/// Groups that wait for a limit are paused. When a slot is free, the first group that is not paused
/// gets it at once.
pub async fn groups_that_may_not_be_served_keep_no_slot_from_others(bed: Bed) {
    const PAUSED: usize = 150;
    let api = key("api", "");
    concurrency(&bed, "api", 1).await;
    put(&bed, "holder", &[api], 1).await;
    let mut lane = bed.lane().await;
    let holder = lane.claim(1).await;
    let jobs = (0..=PAUSED).map(|n| limited(&format!("g{n:03}"), &[api])).collect();
    bed.producer().await.stored(jobs).await;
    assert!(claim_all(&mut lane, 10).await.is_empty());
    for n in 0..PAUSED {
        let pause = PauseOf::Group(name(&format!("g{n:03}")));
        bed.broker.set_pause(&SetPause::pause(bed.queue.clone(), pause, Pausing::new())).await.expect("a group can be paused");
    }
    lane.ack(&holder).await;
    assert_eq!(groups(&lane.claim(1).await), format!("g{PAUSED}"));
    sound(&bed).await;
}

/// A key may contain any byte. After a change of its limit the jobs that wait for it start, and the
/// key is listed and counted.
pub async fn each_key_of_a_limit_is_examined_when_that_changes(bed: Bed) {
    let largest = (0..).map(|n: u32| key("stripe", &n.to_string())).filter(|key| key.as_bytes()[LimitKey::NAME] == 0xff);
    let keys: Vec<LimitKey> = largest.take(3).chain([key("stripe", "any")]).collect();
    concurrency(&bed, "stripe", 0).await;
    for key in &keys {
        put(&bed, "", &[*key], 2).await;
    }
    let mut lane = bed.lane().await;
    assert!(claim_all(&mut lane, 10).await.is_empty());
    concurrency(&bed, "stripe", 1).await;
    assert_eq!(claim_all(&mut lane, 10).await.len(), keys.len());
    assert!(claim_all(&mut lane, 10).await.is_empty());
    let inspector = bed.inspector();
    let listed = inspector.limit_keys(&bed.queue, "stripe", None, 100).await.expect("keys can be listed");
    let limit = inspector.limit(&bed.queue, "stripe").await.expect("a limit can be read").expect("it is set");
    assert_eq!((listed.len(), limit.held, limit.full), (keys.len(), keys.len() as u64, keys.len() as u64));
    assert!(inspector.remove_limit(&bed.queue, "stripe").await.expect("a limit can be removed"));
    assert_eq!(claim_all(&mut lane, 10).await.len(), keys.len());
    sound(&bed).await;
}

/// A job that waits for its limit does not block other jobs of any priority.
pub async fn a_job_that_waits_for_a_limit_is_passed(bed: Bed) {
    concurrency(&bed, "stripe", 0).await;
    let mut waits = limited("", &[key("stripe", "")]);
    waits.priority = Priority::Critical;
    let mut grouped = limited("a", &[key("stripe", "")]);
    grouped.priority = Priority::Critical;
    bed.producer().await.stored(vec![waits, grouped, job("a"), job("b"), job("")]).await;
    let mut lane = bed.lane().await;
    let mut seen: Vec<char> = groups(&claim_all(&mut lane, 10).await).chars().collect();
    seen.sort_unstable();
    assert_eq!(seen.into_iter().filter(|c| matches!(c, 'a' | 'b' | '-')).collect::<String>().len(), 3);
    assert_eq!(bed.depth(JobState::Ready).await, 2);
    sound(&bed).await;
    concurrency(&bed, "stripe", 9).await;
    assert_eq!(claim_all(&mut lane, 10).await.len(), 2);
}

/// Among jobs without a group, the priority decides, whether they have limits or not. At equal
/// priority, neither kind starves the other.
pub async fn priority_decides_among_plain_jobs_with_limits_and_without(bed: Bed) {
    concurrency(&bed, "stripe", 100).await;
    let mut jobs = Vec::new();
    for priority in [Priority::Low, Priority::Critical] {
        for with in [false, true] {
            let mut job = if with { limited("", &[key("stripe", "")]) } else { job("") };
            job.priority = priority;
            jobs.push(job);
        }
    }
    let critical: Vec<JobId> = jobs[2..].iter().map(|job| job.id.clone()).collect();
    bed.producer().await.stored(jobs).await;
    let mut lane = bed.lane().await;
    let mut first = lane.claim(1).await;
    first.extend(lane.claim(1).await);
    assert!(first.iter().all(|delivery| critical.contains(&delivery.id)), "{first:?}");
    assert_eq!(claim_all(&mut lane, 9).await.len(), 2);
    bed.put(40).await;
    let with = put(&bed, "", &[key("stripe", "")], 40).await;
    let claimed = lane.claim(60).await;
    let of_them = claimed.iter().filter(|delivery| with.contains(&delivery.id)).count();
    assert!((20..=40).contains(&of_them), "{of_them}");
}

/// If ready jobs are cancelled, jobs with limits of the same priority get their starts, and jobs of
/// a lower priority do not.
pub async fn a_cancelled_job_leaves_its_start_to_no_lower_priority(bed: Bed) {
    concurrency(&bed, "stripe", 100).await;
    let mut lane = bed.lane().await;
    for cancelled in [1, 300] {
        let low = bed.put_at(Priority::Low).await;
        for id in put(&bed, "", &[key("stripe", "")], 4).await {
            let ids = bed.put(cancelled).await;
            assert!(bed.broker.cancel(&bed.queue, &ids).await.expect("jobs can be cancelled").iter().all(Changed::done));
            assert_eq!(lane.claim_one().await.id, id);
        }
        assert_eq!(lane.claim_one().await.id, low);
    }
}

/// Among jobs that wait for the same limit key, the highest priority starts first: before older
/// jobs, before jobs with further limits, and for rates as for slots.
pub async fn priority_decides_among_jobs_that_wait_for_a_limit(bed: Bed) {
    let other = key("other", "");
    concurrency(&bed, "api", 1).await;
    concurrency(&bed, "other", 9).await;
    // One job of each may start, and no other one until all of them wait.
    let rates = ["slow", "slower"];
    for limit in rates {
        set(&bed, limit, |rule| (rule.rate, rule.burst) = ("1/1h".parse().ok(), Some(1))).await;
    }
    let mut lane = bed.lane().await;
    for (limit, group) in [("api", ""), ("api", "a"), (rates[0], ""), (rates[1], "a")] {
        let of = key(limit, "");
        let holder = limited(group, &[of]);
        bed.producer().await.stored(vec![holder]).await;
        let holder = eventually("it starts", async || claim_all(&mut lane, 1).await.pop()).await;
        let mut ids = Vec::new();
        for (priority, keys) in
            [(Priority::Low, &[of][..]), (Priority::Normal, &[of, other]), (Priority::Low, &[of, other]), (Priority::Critical, &[of])]
        {
            let mut job = limited(group, keys);
            job.priority = priority;
            ids.push(job.id.clone());
            bed.producer().await.stored(vec![job]).await;
            assert!(claim_all(&mut lane, 5).await.is_empty(), "it waits for the limit");
        }
        lane.ack(&[holder]).await;
        if rates.contains(&limit) {
            set(&bed, limit, |rule| (rule.rate, rule.burst) = ("10/1s".parse().ok(), Some(1))).await;
        }
        for at in [3, 1, 0, 2] {
            let claimed = eventually("the next one starts", async || claim_all(&mut lane, 1).await.pop()).await;
            assert_eq!(claimed.id, ids[at], "of `{group}`, by `{limit}`");
            lane.ack(&[claimed]).await;
        }
        sound(&bed).await;
    }
}

/// Whether a claim takes one job or three: those with limits and those without take turns, among
/// jobs without a group and inside one.
pub async fn jobs_with_limits_and_without_start_in_turn_one_by_one(bed: Bed) {
    concurrency(&bed, "stripe", 1000).await;
    for (group, claims) in [("", 1), ("", 3), ("a", 1), ("a", 3)] {
        let mut jobs = Vec::new();
        let mut with = Vec::new();
        for _ in 0..20 {
            let limited = limited(group, &[key("stripe", "")]);
            with.push(limited.id.clone());
            jobs.extend([job(group), limited]);
        }
        bed.producer().await.stored(jobs).await;
        let mut lane = bed.lane().await;
        let mut first = Vec::new();
        for _ in 0..18 / claims {
            first.extend(lane.claim(claims).await);
        }
        let of_them = first.iter().filter(|delivery| with.contains(&delivery.id)).count();
        assert!(first.len() == 18 && (7..=11).contains(&of_them), "{of_them} of 18 in group `{group}`, {claims} at a time");
        assert_eq!(claim_all(&mut lane, 40).await.len(), 22);
    }
    sound(&bed).await;
}

/// Jobs with limits and without a group count as one more group in the rotation, even with claims
/// of one job.
pub async fn groups_take_turns_with_plain_jobs_that_have_limits(bed: Bed) {
    concurrency(&bed, "stripe", 100).await;
    groups::rule(&bed, &RuleOf::Plain, |rule| rule.weight = Some(1)).await;
    let plain = put(&bed, "", &[key("stripe", "")], 12).await;
    groups::put(&bed, "a", 12).await;
    groups::put(&bed, "b", 12).await;
    let mut lane = bed.lane().await;
    let first = groups::one_by_one(&mut lane, 12).await;
    let of_them = first.iter().filter(|delivery| plain.contains(&delivery.id)).count();
    let of_a = first.iter().filter(|delivery| groups(std::slice::from_ref(delivery)) == "a").count();
    assert_eq!((of_them, of_a), (4, 4), "{first:?}");
    sound(&bed).await;
}

/// The share of jobs without a group is that of all of them, with limits and without.
pub async fn plain_jobs_with_limits_count_for_their_share(bed: Bed) {
    concurrency(&bed, "stripe", 100).await;
    let plain = put(&bed, "", &[key("stripe", "")], 60).await;
    put(&bed, "a", &[key("stripe", "a")], 20).await;
    let mut lane = bed.lane().await;
    let first = groups::one_by_one(&mut lane, 20).await;
    let of_them = first.iter().filter(|delivery| plain.contains(&delivery.id)).count();
    assert!((12..=16).contains(&of_them), "{of_them} of 20, and three quarters of what waits");
    sound(&bed).await;
}

/// All of several limits are checked before a job is claimed. No slot of one is held during the
/// wait for another.
pub async fn of_several_limits_all_or_none_are_taken(bed: Bed) {
    concurrency(&bed, "all", 2).await;
    concurrency(&bed, "stripe", 1).await;
    let (all, a, b, c) = (key("all", ""), key("stripe", "a"), key("stripe", "b"), key("stripe", "c"));
    for of in [a, a, b, c] {
        put(&bed, "", &[all, of], 1).await;
    }
    let mut lane = bed.lane().await;
    let claimed = claim_all(&mut lane, 10).await;
    assert_eq!(claimed.len(), 2);
    assert_eq!(held(&bed, all).await, 2);
    assert_eq!(held(&bed, a).await + held(&bed, b).await + held(&bed, c).await, 2);
    assert!([a, b, c].len() == 3 && held(&bed, a).await <= 1);
    sound(&bed).await;
    lane.ack(&claimed).await;
    let claimed = claim_all(&mut lane, 10).await;
    assert_eq!(claimed.len(), 2);
    sound(&bed).await;
    lane.ack(&claimed).await;
    assert_eq!((bed.stats().await.jobs(), held(&bed, all).await), (0, 0));
}

/// Every end of a run releases the slot, and a job that comes back takes a new one.
pub async fn a_slot_goes_with_the_run_whatever_ends_it(bed: Bed) {
    concurrency(&bed, "stripe", 1).await;
    let of = key("stripe", "a");
    put(&bed, "", &[of], 1).await;
    let mut lane = bed.lane().await;
    for ending in [
        nack(Duration::ZERO),
        Ending::Snooze { delay: Duration::ZERO },
        Ending::Repeat { delay: Duration::ZERO },
        Ending::Return,
        Ending::Stopped { by_shutdown: true },
        Ending::Stopped { by_shutdown: false },
        Ending::Void,
    ] {
        let delivery = lane.wait_for_one().await;
        assert_eq!(held(&bed, of).await, 1);
        assert!(lane.end(&delivery, ending.clone()).await);
        assert_eq!(held(&bed, of).await, 0, "{ending:?}");
        sound(&bed).await;
    }
    for ending in
        [Ending::Bury { reason: BuryReason::Buried, error: None }, Ending::Cancel { reason: "x".to_owned() }, Ending::Expire, ack()]
    {
        put(&bed, "", &[of], 1).await;
        let delivery = lane.wait_for_one().await;
        assert!(lane.claim(1).await.is_empty(), "{ending:?}");
        assert!(lane.end(&delivery, ending.clone()).await);
        assert_eq!(held(&bed, of).await, 0, "{ending:?}");
    }
    assert!(lane.claim_one().await.envelope.len() > 1);
    sound(&bed).await;
}

/// The cancel of a running job frees its slot. The cancel of a waiting one leaves nothing.
pub async fn a_cancelled_job_leaves_no_slot(bed: Bed) {
    concurrency(&bed, "stripe", 1).await;
    let of = key("stripe", "a");
    let ids = put(&bed, "a", &[of], 3).await;
    let mut lane = bed.lane().await;
    assert_eq!(claim_all(&mut lane, 5).await.len(), 1);
    bed.broker.cancel(&bed.queue, &ids[1..2]).await.expect("it is cancelled");
    bed.broker.cancel(&bed.queue, &ids[..1]).await.expect("it is cancelled");
    sound(&bed).await;
    let claimed = claim_all(&mut lane, 5).await;
    assert_eq!(claimed.iter().map(|delivery| &delivery.id).collect::<Vec<_>>(), [&ids[2]]);
    sound(&bed).await;
    // A requeued job is subject to its limit again.
    bed.broker.requeue(&bed.queue, &ids[1..2]).await.expect("it is requeued");
    assert!(claim_all(&mut lane, 5).await.is_empty());
    assert_eq!(bed.show(&ids[1]).await.expect("it is there").limits, [of]);
    lane.ack(&claimed).await;
    assert_eq!(claim_all(&mut lane, 5).await.len(), 1);
    sound(&bed).await;
}

/// The slots of a crashed worker are free when its jobs are reclaimed. Other jobs get them, and a
/// job that comes back takes a new one.
pub async fn slots_of_a_dead_worker_are_free_again(bed: Bed) {
    concurrency(&bed, "stripe", 2).await;
    let of = key("stripe", "a");
    put(&bed, "", &[of], 4).await;
    let mut dying = bed.lane().await;
    dying.lease = SHORT;
    assert_eq!(claim_all(&mut dying, 9).await.len(), 2);
    let mut lane = bed.lane().await;
    assert!(claim_all(&mut lane, 9).await.is_empty());
    bed.reclaim(&[&dying], RULE).await;
    sound(&bed).await;
    let claimed = eventually("two run again", async || {
        let claimed = claim_all(&mut lane, 9).await;
        (!claimed.is_empty()).then_some(claimed)
    })
    .await;
    assert_eq!((claimed.len(), held(&bed, of).await), (2, 2));
    sound(&bed).await;
}

/// Suspects are subject to their limits like all other jobs.
pub async fn a_suspect_waits_for_its_limit(bed: Bed) {
    concurrency(&bed, "stripe", 1).await;
    let of = key("stripe", "a");
    put(&bed, "", &[of], 1).await;
    let mut dying = bed.lane().await;
    dying.lease = SHORT;
    let suspect = dying.claim_one().await;
    bed.reclaim(&[&dying], RULE).await;
    let other = put(&bed, "", &[of], 1).await;
    let mut lane = bed.lane().await;
    let mut turn = lane.next().claim(1);
    turn.suspect = false;
    let claimed = lane.send(&turn).await.deliveries;
    assert_eq!(claimed.iter().map(|delivery| &delivery.id).collect::<Vec<_>>(), [&other[0]]);
    for _ in 0..3 {
        assert!(lane.claim(1).await.is_empty());
    }
    lane.ack(&claimed).await;
    assert_eq!(lane.wait_for_one().await.id, suspect.id);
    sound(&bed).await;
}

/// A changed limit applies from the next claim on: more, fewer, or none. Running jobs continue, and
/// the removal of a limit removes no job.
pub async fn a_limit_is_changed_while_jobs_wait(bed: Bed) {
    concurrency(&bed, "stripe", 1).await;
    let of = key("stripe", "a");
    put(&bed, "", &[of], 10).await;
    let mut lane = bed.lane().await;
    let mut claimed = claim_all(&mut lane, 20).await;
    assert_eq!(claimed.len(), 1);
    concurrency(&bed, "stripe", 4).await;
    claimed.extend(claim_all(&mut lane, 20).await);
    assert_eq!(claimed.len(), 4);
    concurrency(&bed, "stripe", 2).await;
    lane.ack(&claimed[..2]).await;
    assert!(claim_all(&mut lane, 20).await.is_empty(), "two of them run on");
    lane.ack(&claimed[2..3]).await;
    assert_eq!(claim_all(&mut lane, 20).await.len(), 1);
    sound(&bed).await;
    assert!(bed.inspector().remove_limit(&bed.queue, "stripe").await.expect("it is removed"));
    assert!(!bed.inspector().remove_limit(&bed.queue, "stripe").await.expect("it is gone"));
    assert_eq!(claim_all(&mut lane, 20).await.len(), 5);
    assert_eq!(held(&bed, of).await, 7, "who runs is known all the same");
    sound(&bed).await;
}

/// A change of a limit is compared with the version that was read. A change that is sent again
/// succeeds.
pub async fn a_change_of_a_limit_is_compared(bed: Bed) {
    let mut record = LimitRecord::new("stripe");
    let mut rule = LimitRule::new();
    rule.concurrency = Some(3);
    record.set_to(Some(rule));
    let first = SetLimit::new(bed.queue.clone(), "stripe", Vec::new(), record.encode());
    assert_eq!(bed.broker.set_limit(&first).await.expect("it is set"), LimitSet::Set);
    assert_eq!(bed.broker.set_limit(&first).await.expect("it is set again"), LimitSet::Set);
    let stale = SetLimit::new(bed.queue.clone(), "stripe", Vec::new(), b"9:::\0".to_vec());
    assert_eq!(bed.broker.set_limit(&stale).await.expect("it is compared"), LimitSet::Stale);
    let limits = bed.inspector().limits(&bed.queue).await.expect("limits can be listed");
    assert_eq!((limits.len(), limits[0].name.as_str(), limits[0].rule.concurrency), (1, "stripe", Some(3)));
    let refused = bed.inspector().set_limit(&bed.queue, "stripe", |rule| rule.burst = Some(2)).await.expect_err("there is no rate");
    assert!(refused.to_string().starts_with("burst `2`"), "{refused}");
}

/// Groups that share a limit are served in rotation, however many jobs each has.
pub async fn groups_that_share_a_limit_are_served_in_turn(bed: Bed) {
    concurrency(&bed, "all", 1).await;
    put(&bed, "a", &[key("all", "")], 20).await;
    put(&bed, "b", &[key("all", "")], 3).await;
    put(&bed, "c", &[key("all", "")], 1).await;
    let mut lane = bed.lane().await;
    let mut served = String::new();
    for _ in 0..8 {
        let claimed = claim_all(&mut lane, 5).await;
        assert_eq!(claimed.len(), 1);
        served += &groups(&claimed);
        lane.ack(&claimed).await;
    }
    assert!(!served[..6].contains("aaa") && served[..5].contains('c') && served.matches('b').count() == 3, "{served}");
    sound(&bed).await;
}

/// A group of many accounts waits for a limit of all, each of its jobs since an early start. When
/// the limit has room, it has its share, and not all these starts.
pub async fn a_group_with_many_keys_has_one_turn_under_a_limit(bed: Bed) {
    const JOBS: usize = 8;
    concurrency(&bed, "all", 1).await;
    concurrency(&bed, "account", 1).await;
    let all = key("all", "");
    for claims in [1, 5] {
        put(&bed, "c", &[all], 1).await;
        let mut lane = bed.lane().await;
        let mut runs = claim_all(&mut lane, 1).await;
        for n in 0..JOBS {
            put(&bed, "a", &[all, key("account", &n.to_string())], 1).await;
        }
        assert!(claim_all(&mut lane, 5).await.is_empty(), "they wait for the limit");
        put(&bed, "b", &[all], JOBS).await;
        assert!(claim_all(&mut lane, 5).await.is_empty(), "they wait for the limit");
        let mut served = String::new();
        while served.len() < 2 * JOBS {
            lane.ack(&runs).await;
            runs = claim_all(&mut lane, claims).await;
            assert_eq!(runs.len(), 1, "after {served}");
            served += &groups(&runs);
        }
        assert_eq!(served, "ab".repeat(JOBS), "{claims} at a time");
        lane.ack(&runs).await;
        sound(&bed).await;
    }
}

/// The same where each account has its own limit, and one after the other has room, or all have it
/// at once: a group that was served by one of them has no early start by the others.
pub async fn a_group_has_its_share_over_many_keys_that_have_room(bed: Bed) {
    const KEYS: usize = 8;
    concurrency(&bed, "account", 1).await;
    let mut lane = bed.lane().await;
    for at_once in [false, true] {
        let mut holders = Vec::new();
        for group in ["c", "a", "b"] {
            for n in 0..KEYS {
                put(&bed, group, &[key("account", &n.to_string())], 1).await;
            }
            holders.extend(claim_all(&mut lane, KEYS).await);
            assert_eq!(holders.len(), KEYS, "the others wait");
        }
        let mut runs = Vec::new();
        if at_once {
            lane.ack(&holders).await;
            runs = claim_all(&mut lane, KEYS).await;
        } else {
            for holder in &holders {
                lane.ack(std::slice::from_ref(holder)).await;
                runs.extend(claim_all(&mut lane, 1).await);
            }
        }
        assert_eq!(groups(&runs), "ab".repeat(KEYS / 2), "at once: {at_once}");
        lane.ack(&runs).await;
        let rest = claim_all(&mut lane, KEYS).await;
        assert_eq!(rest.len(), KEYS);
        lane.ack(&rest).await;
        sound(&bed).await;
    }
}

/// A job that waits for another limit when its turn comes has not been served: the next one of its
/// group starts before groups that came later.
pub async fn a_job_that_may_not_start_costs_its_group_no_share(bed: Bed) {
    concurrency(&bed, "all", 1).await;
    concurrency(&bed, "other", 1).await;
    let (all, other) = (key("all", ""), key("other", ""));
    put(&bed, "c", &[all], 1).await;
    let mut lane = bed.lane().await;
    let first = claim_all(&mut lane, 1).await;
    put(&bed, "a", &[all, other], 1).await;
    let next = put(&bed, "a", &[all, key("free", "")], 1).await;
    put(&bed, "b", &[all], 1).await;
    assert!(claim_all(&mut lane, 5).await.is_empty(), "they wait for the limit");
    put(&bed, "d", &[other], 1).await;
    let second = claim_all(&mut lane, 1).await;
    assert_eq!(groups(&second), "d");
    lane.ack(&first).await;
    let third = claim_all(&mut lane, 1).await;
    assert_eq!(third.iter().map(|delivery| &delivery.id).collect::<Vec<_>>(), [&next[0]]);
    lane.ack(&third).await;
    let fourth = claim_all(&mut lane, 1).await;
    assert_eq!(groups(&fourth), "b");
    lane.ack(&second).await;
    lane.ack(&fourth).await;
    assert_eq!(groups(&claim_all(&mut lane, 1).await), "a");
    sound(&bed).await;
}

/// Jobs that wait for a limit of all accounts, each with a limit of its account, start in the order
/// in which they came, although a job of another account comes before each of these starts.
pub async fn a_job_that_comes_later_overtakes_none_that_waits(bed: Bed) {
    concurrency(&bed, "all", 1).await;
    concurrency(&bed, "account", 1).await;
    let mut lane = bed.lane().await;
    for group in ["", "a"] {
        let put_of = async |n: usize| put(&bed, group, &[key("all", ""), key("account", &n.to_string())], 1).await.remove(0);
        let mut ids = vec![put_of(0).await];
        let mut runs = lane.claim(1).await;
        for n in 1..5 {
            ids.push(put_of(n).await);
            assert!(claim_all(&mut lane, 5).await.is_empty(), "it waits for the limit");
        }
        let mut started = Vec::new();
        for n in 5..15 {
            assert_eq!(runs.len(), 1);
            started.push(runs[0].id.clone());
            if n < 10 {
                ids.push(put_of(n).await);
            }
            lane.ack(&runs).await;
            runs = claim_all(&mut lane, 1).await;
        }
        assert_eq!(started, ids, "of `{group}`");
        assert!(runs.is_empty());
        sound(&bed).await;
    }
}

/// A claim takes a bounded number of bytes. Jobs that do not fit keep their positions before those
/// that wait for the same limit. More jobs may start than a claim takes.
pub async fn a_job_that_a_claim_has_no_room_for_keeps_its_place(bed: Bed) {
    const SLOTS: usize = 8;
    concurrency(&bed, "all", u32::try_from(SLOTS).expect("it is small")).await;
    let mut lane = bed.lane().await;
    let of = |n: usize| [key("all", ""), key("account", &n.to_string())];
    put(&bed, "", &of(0), SLOTS).await;
    let runs = claim_all(&mut lane, SLOTS).await;
    let mut ids = Vec::new();
    for n in 1..=2 * SLOTS {
        let mut job = limited("", &of(n));
        job.envelope = envelope(&"x".repeat(MAX_BYTES / 5));
        ids.push(job.id.clone());
        bed.producer().await.stored(vec![job]).await;
    }
    assert!(claim_all(&mut lane, 5).await.is_empty(), "all of them wait for the limit");
    lane.ack(&runs).await;
    let mut started = Vec::new();
    while started.len() < SLOTS {
        let claimed = lane.claim(SLOTS).await;
        assert!(!claimed.is_empty() && claimed.len() < SLOTS, "{} at once", claimed.len());
        started.extend(claimed.into_iter().map(|delivery| delivery.id));
    }
    assert_eq!(started, ids[..SLOTS]);
    sound(&bed).await;
}

/// A job waits for one limit and then for another. Its start goes to the next waiting job, and not
/// to a later one of a lower priority.
pub async fn a_start_that_a_job_cannot_use_goes_to_the_next_that_waits(bed: Bed) {
    concurrency(&bed, "api", 1).await;
    concurrency(&bed, "other", 1).await;
    let (api, other) = (key("api", ""), key("other", ""));
    let mut lane = bed.lane().await;
    for group in ["", "a"] {
        let put_at = async |priority, keys: &[LimitKey]| {
            let mut job = limited(group, keys);
            job.priority = priority;
            let id = job.id.clone();
            bed.producer().await.stored(vec![job]).await;
            id
        };
        put(&bed, group, &[api], 1).await;
        let first = lane.claim(1).await;
        let both = put_at(Priority::Critical, &[api, other]).await;
        let next = put_at(Priority::High, &[api]).await;
        assert!(claim_all(&mut lane, 5).await.is_empty(), "both wait for the limit");
        put(&bed, group, &[other], 1).await;
        let second = claim_all(&mut lane, 5).await;
        assert_eq!(second.len(), 1);
        lane.ack(&first).await;
        let late = put_at(Priority::Normal, &[api, key("free", "")]).await;
        let mut started = Vec::new();
        let mut runs = second;
        for _ in 0..6 {
            let claimed = claim_all(&mut lane, 1).await;
            started.extend(claimed.iter().map(|delivery| delivery.id.clone()));
            lane.ack(&runs).await;
            runs = claimed;
        }
        assert_eq!(started, [next, both, late], "of `{group}`");
        sound(&bed).await;
    }
}

/// Jobs of several accounts that one claim leaves waiting for a limit start in the order in which
/// that claim took the jobs before them, and not in that in which the accounts came.
pub async fn jobs_that_one_claim_leaves_waiting_start_in_its_order(bed: Bed) {
    const ACCOUNTS: usize = 6;
    concurrency(&bed, "all", u32::try_from(ACCOUNTS).expect("it is small")).await;
    let mut lane = bed.lane().await;
    for group in ["", "a"] {
        let accounts = (0..4).flat_map(|_| 0..ACCOUNTS);
        let jobs: Vec<_> = accounts.map(|n| (n, limited(group, &[key("all", ""), key("account", &n.to_string())]))).collect();
        let account_of: Vec<_> = jobs.iter().map(|(account, job)| (job.id.clone(), *account)).collect();
        let accounts = |claimed: &[Delivery]| -> Vec<usize> {
            let of = |id: &JobId| account_of.iter().find(|(known, _)| known == id).expect("it was stored").1;
            claimed.iter().map(|delivery| of(&delivery.id)).collect()
        };
        bed.producer().await.stored(jobs.into_iter().map(|(_, job)| job).collect()).await;
        let first = lane.claim(2).await;
        lane.ack(&first).await;
        let runs = lane.claim(ACCOUNTS).await;
        assert_eq!(accounts(&runs), [2, 3, 4, 5, 0, 1], "of `{group}`");
        let mut again = Vec::new();
        for delivery in &runs {
            lane.ack(std::slice::from_ref(delivery)).await;
            again.extend(lane.claim(1).await);
        }
        assert_eq!(accounts(&again), accounts(&runs), "of `{group}`");
        lane.ack(&again).await;
        sound(&bed).await;
        let mut rest = 0;
        while let claimed @ [_, ..] = lane.claim(ACCOUNTS).await.as_slice() {
            rest += claimed.len();
            lane.ack(claimed).await;
        }
        assert_eq!(rest, 4 * ACCOUNTS - 2 - 2 * ACCOUNTS);
    }
}

/// A tenant with many accounts has one turn in the rotation, and not one for each account.
pub async fn a_group_with_many_keys_has_one_turn(bed: Bed) {
    concurrency(&bed, "account", 1).await;
    for n in 0..20 {
        put(&bed, "a", &[key("account", &n.to_string())], 1).await;
    }
    put(&bed, "b", &[key("account", "b")], 1).await;
    let mut lane = bed.lane().await;
    let mut served = groups(&lane.claim(1).await);
    served += &groups(&lane.claim(1).await);
    let mut served: Vec<char> = served.chars().filter(|c| "ab".contains(*c)).collect();
    served.sort_unstable();
    assert_eq!(served, ['a', 'b']);
    assert_eq!(claim_all(&mut lane, 30).await.len(), 19);
    sound(&bed).await;
}

/// The holder of an ordered group's line waits for its limit, and no job overtakes it.
pub async fn an_ordered_group_waits_for_the_limit_of_its_holder(bed: Bed) {
    concurrency(&bed, "stripe", 1).await;
    order(&bed, "a", GroupOrder::Ordered).await;
    let of = key("stripe", "");
    let first = put(&bed, "a", &[of], 1).await;
    let second = put(&bed, "a", &[], 1).await;
    let mut lane = bed.lane().await;
    let claimed = claim_all(&mut lane, 5).await;
    assert_eq!(claimed.iter().map(|delivery| &delivery.id).collect::<Vec<_>>(), [&first[0]]);
    assert!(lane.end(&claimed[0], nack(Duration::ZERO)).await);
    put(&bed, "", &[of], 1).await;
    let mut claimed = Vec::new();
    while claimed.is_empty() {
        claimed = claim_all(&mut lane, 5).await;
        assert!(claimed.len() <= 1 && claimed.iter().all(|delivery| delivery.id != second[0]));
    }
    sound(&bed).await;
    lane.ack(&claimed).await;
    let claimed = claim_all(&mut lane, 5).await;
    assert_eq!(claimed.len(), 1);
    lane.ack(&claimed).await;
    assert_eq!(claim_all(&mut lane, 5).await[0].id, second[0]);
    sound(&bed).await;
    assert_eq!(name("a").as_str(), "a");
}

/// While the first job of an ordered group waits for its limit, the group has no job to start, and
/// workers are not asked to claim again.
pub async fn an_ordered_group_whose_first_job_waits_has_no_more(bed: Bed) {
    concurrency(&bed, "stripe", 1).await;
    order(&bed, "a", GroupOrder::Ordered).await;
    let of = key("stripe", "");
    put(&bed, "", &[of], 1).await;
    let mut lane = bed.lane().await;
    let claimed = claim_all(&mut lane, 5).await;
    assert_eq!(claimed.len(), 1);
    let first = put(&bed, "a", &[of], 1).await;
    put(&bed, "a", &[], 1).await;
    for _ in 0..2 {
        let turn = lane.next().claim(5);
        let answer = lane.send(&turn).await;
        assert!(answer.deliveries.is_empty() && !answer.more, "nothing may start");
    }
    lane.ack(&claimed).await;
    assert_eq!(claim_all(&mut lane, 5).await.iter().map(|delivery| &delivery.id).collect::<Vec<_>>(), [&first[0]]);
    sound(&bed).await;
}

/// The jobs of an ordered group run in their order, whatever keys of a limit they have.
pub async fn an_ordered_group_keeps_its_order_over_many_keys(bed: Bed) {
    concurrency(&bed, "stripe", 1).await;
    order(&bed, "a", GroupOrder::Ordered).await;
    // The first job is after a thousand others in the order of keys.
    let mut keys: Vec<LimitKey> = (0..1_030).map(|n| key("stripe", &n.to_string())).collect();
    keys.sort_unstable();
    keys.reverse();
    let jobs: Vec<NewJob> = keys.iter().map(|key| limited("a", &[*key])).collect();
    let ids: Vec<_> = jobs.iter().map(|job| job.id.clone()).collect();
    for jobs in jobs.chunks(500) {
        bed.producer().await.stored(jobs.to_vec()).await;
    }
    let mut lane = bed.lane().await;
    for id in &ids[..5] {
        let claimed = claim_all(&mut lane, 5).await;
        assert_eq!(claimed.iter().map(|delivery| &delivery.id).collect::<Vec<_>>(), [id]);
        lane.ack(&claimed).await;
    }
    sound(&bed).await;
}

/// A job of a group that is replaced by one of another priority leaves nothing at its old priority.
/// Its group is removed once it has ended.
pub async fn a_job_that_is_replaced_leaves_nothing_at_its_old_priority(bed: Bed) {
    concurrency(&bed, "stripe", 1).await;
    let of = |payload: &str, priority| {
        let mut job = unique::job(payload, unique::REPLACE);
        (job.group, job.priority) = (Some(name("a")), priority);
        job.limits = JobLimits::new(vec![key("stripe", "")], 1).map(Box::new);
        job
    };
    let id = unique::first(&bed, of("1", Priority::Normal)).await;
    assert_eq!(bed.put_job(of("2", Priority::Critical)).await, Enqueued::Replaced(id.clone()));
    let mut lane = bed.lane().await;
    let claimed = claim_all(&mut lane, 5).await;
    assert_eq!(claimed.iter().map(|delivery| &delivery.id).collect::<Vec<_>>(), [&id]);
    lane.ack(&claimed).await;
    let listed = bed.broker.groups(&bed.queue, &GroupList::All { after: None, limit: 10 }).await.expect("groups can be listed");
    assert_eq!(listed.groups, []);
    sound(&bed).await;
}

/// Many kinds of jobs that wait for one limit start one by one for each slot, and none is
/// forgotten.
pub async fn many_that_wait_for_one_limit_are_let_in_one_by_one(bed: Bed) {
    concurrency(&bed, "all", 3).await;
    concurrency(&bed, "account", 1).await;
    let jobs: Vec<NewJob> =
        (0..300).map(|n| limited(&format!("g{}", n % 50), &[key("all", ""), key("account", &(n % 150).to_string())])).collect();
    bed.producer().await.stored(jobs).await;
    let mut lane = bed.lane().await;
    let mut done = 0;
    while done < 300 {
        let claimed = claim_all(&mut lane, 10).await;
        assert!((1..=3).contains(&claimed.len()), "{done} done, and {} run", claimed.len());
        if done % 60 == 0 {
            sound(&bed).await;
        }
        lane.ack(&claimed).await;
        done += claimed.len();
    }
    assert_eq!((bed.stats().await.jobs(), held(&bed, key("all", "")).await), (0, 0));
    sound(&bed).await;
}

/// A scheduled job, or one that is held for a key, is subject to its limits when it is ready.
pub async fn a_job_that_comes_later_is_subject_to_its_limits(bed: Bed) {
    concurrency(&bed, "stripe", 1).await;
    let of = key("stripe", "a");
    let mut later = limited("", &[of]);
    later.due = Due::After(Duration::from_millis(2));
    let mut given = limited("a", &[of]);
    given.id = JobId::given("job-17").expect("it is a name");
    let mut low = limited("", &[of]);
    low.priority = Priority::Low;
    bed.producer().await.stored(vec![later, given, low]).await;
    let mut lane = bed.lane().await;
    for left in [2, 1, 0] {
        let claimed = vec![lane.wait_for_one().await];
        eventually("the others are ready", async || {
            (bed.depth(JobState::Ready).await + bed.depth(JobState::Scheduled).await == left).then_some(())
        })
        .await;
        assert!(claim_all(&mut lane, 5).await.is_empty());
        sound(&bed).await;
        lane.ack(&claimed).await;
    }
}

/// The reasons for the slots and for the rate of a key are separate. A closed ordered group reports
/// both. A closed key has no holder.
pub async fn each_reason_that_holds_is_reported(bed: Bed) {
    let reasons = async |id: &JobId| {
        let job =
            bed.inspector().why_many(&bed.queue, std::slice::from_ref(id)).await.expect("it can be asked").remove(0).expect("it waits");
        job.waiting
            .into_iter()
            .filter(|reason| !matches!(reason, Reason::Behind { .. } | Reason::NoWorkerForTask { .. }))
            .collect::<Vec<_>>()
    };
    let names = |reasons: &[Reason]| reasons.iter().map(Reason::name).collect::<Vec<_>>();
    order(&bed, "a", GroupOrder::Ordered).await;
    let mut lane = bed.lane().await;
    let waits = groups::put(&bed, "a", 2).await.remove(1);
    let first = lane.claim_one().await;
    assert!(lane.end(&first, nack(Duration::from_secs(3600))).await);
    groups::cap(&bed, "a", 0).await;
    let told = reasons(&waits).await;
    assert_eq!(names(&told), ["out_of_order", "group_full"], "{told:?}");
    assert!(told[0].holders() == [first.id] && told[1].holders().is_empty(), "{told:?}");

    set(&bed, "both", |rule| (rule.concurrency, rule.rate) = (Some(1), Some("1/1h".parse().expect("it is a rate")))).await;
    let second = put(&bed, "", &[key("both", "")], 2).await.remove(1);
    let running = claim_all(&mut lane, 5).await;
    assert_eq!(running.len(), 1);
    let told = reasons(&second).await;
    assert_eq!(names(&told), ["limit_full", "rate_limited"]);
    assert!(told[0].holders().len() == 1 && told[1].until().is_some(), "{told:?}");
    concurrency(&bed, "both", 0).await;
    let told = reasons(&second).await;
    assert!(names(&told)[0] == "limit_full" && told[0].holders().is_empty(), "the end of the one that runs opens nothing: {told:?}");
}

/// The holders of a key are reported, and so are the jobs that wait for it.
pub async fn a_key_reports_who_holds_it_and_who_waits(bed: Bed) {
    concurrency(&bed, "stripe", 2).await;
    let (a, b) = (key("stripe", "a"), key("stripe", "b"));
    let ids = put(&bed, "", &[a], 3).await;
    put(&bed, "", &[b], 1).await;
    let mut lane = bed.lane().await;
    let claimed = claim_all(&mut lane, 10).await;
    assert_eq!(claimed.len(), 3);
    let keys = bed.inspector().limit_keys(&bed.queue, "stripe", None, 10).await.expect("keys can be listed");
    assert_eq!(keys.len(), 2);
    let of_a = keys.iter().find(|found| found.key == a).expect("it is held");
    let holders: Vec<&JobId> = of_a.holders.iter().map(|holder| &holder.id).collect();
    assert_eq!((of_a.held, of_a.waiting, holders), (2, 1, vec![&ids[0], &ids[1]]));
    assert_eq!(of_a.next.as_ref().map(|next| &next.id), Some(&ids[2]));
    assert_eq!(bed.inspector().limit_keys(&bed.queue, "stripe", Some(keys[0].key), 10).await.expect("keys can be listed").len(), 1);
    let limits = bed.inspector().limits(&bed.queue).await.expect("limits can be listed");
    assert_eq!((limits[0].held, limits[0].full, limits[0].rated), (3, 1, 0));
    assert_eq!(bed.show(&ids[2]).await.expect("it is there").limits, [a]);
    let damages = bed.broker.audit(&bed.queue, Audit { repair: false, thorough: true }).await.expect("it can be audited");
    assert!(damages.iter().all(|damage| damage.kind != DamageKind::LimitIndexWrong), "{damages:?}");
    let turn = lane.next().finish(claimed.iter().map(|delivery| finish(delivery, ack())).collect());
    lane.send(&turn).await;
}
