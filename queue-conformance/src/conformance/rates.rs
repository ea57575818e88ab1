//! Limits on the number of starts in a period: spread, with a burst, and by cost.

use std::time::{Duration, Instant, SystemTime};

use queue_core::{
    broker::{Delivery, Due, Ending, Finish, JobLimits, NewJob, Priority, Used},
    inspect::{GroupName, LimitKey, PauseOf, Pausing},
};

use super::{
    bed::{Bed, Lane, SHORT, ack, eventually, nack},
    groups::{RULE, sound},
    limits::{claim_all, concurrency, key, limited, put, set},
};
use crate::Changes as _;

/// How long a limit or a group is closed, in milliseconds. A case reads it in the meantime, and
/// waits for the end.
const CLOSED: u64 = 1_500;

async fn rate(bed: &Bed, limit: &str, rate: &str, burst: u32) {
    let rate = rate.parse().expect("it is a rate");
    set(bed, limit, |rule| (rule.rate, rule.burst) = (Some(rate), Some(burst))).await;
}

async fn until(bed: &Bed, of: LimitKey) -> bool {
    bed.inspector().limits_of(&bed.queue, &[of]).await.expect("a key can be looked at")[0].until.is_some()
}

fn cost(keys: &[LimitKey], cost: u32) -> NewJob {
    let mut job = limited("", keys);
    job.limits = JobLimits::new(keys.to_vec(), cost).map(Box::new);
    job
}

/// A burst starts at once, and then one job after the other. The broker returns the time of the
/// next start.
pub async fn starts_are_spread_behind_a_burst(bed: Bed) {
    rate(&bed, "api", "20/1s", 3).await;
    let of = key("api", "");
    put(&bed, "", &[of], 8).await;
    let mut lane = bed.lane().await;
    let began = Instant::now();
    let mut started = claim_all(&mut lane, 20).await.len();
    assert!((3..=4).contains(&started) || began.elapsed() > Duration::from_millis(50), "{started}");
    let turn = lane.next().claim(5);
    let answer = lane.send(&turn).await;
    started += answer.deliveries.len();
    if answer.deliveries.is_empty() {
        assert!(answer.next_due.is_some_and(|due| due <= Duration::from_millis(51)) && !answer.more, "{answer:?}");
    }
    sound(&bed).await;
    while started < 8 {
        started += claim_all(&mut lane, 20).await.len();
        // Never more than the burst and the starts of the passed time.
        let most = 3.0 + began.elapsed().as_secs_f64() * 20.0 + 1.0;
        assert!((started as f64) <= most, "{started} after {:?}", began.elapsed());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!(began.elapsed() >= Duration::from_millis(245), "{:?}", began.elapsed());
    sound(&bed).await;
}

/// Each key has a separate rate. A job of another key does not wait.
pub async fn each_key_has_its_rate(bed: Bed) {
    rate(&bed, "api", "1/1h", 1).await;
    for account in ["a", "b", "c"] {
        put(&bed, "", &[key("api", account)], 2).await;
    }
    let mut lane = bed.lane().await;
    assert_eq!(claim_all(&mut lane, 20).await.len(), 3);
    assert!(claim_all(&mut lane, 20).await.is_empty());
    assert!(until(&bed, key("api", "a")).await && !until(&bed, key("api", "d")).await);
    sound(&bed).await;
}

/// A job counts with its cost, and waits until that many starts are free. If the burst was lowered
/// below its cost, it takes the whole burst.
pub async fn a_job_counts_for_what_it_costs(bed: Bed) {
    rate(&bed, "api", "1/1h", 10).await;
    let of = key("api", "");
    bed.producer().await.stored(vec![cost(&[of], 6), cost(&[of], 5), cost(&[of], 4)]).await;
    let mut lane = bed.lane().await;
    assert_eq!(claim_all(&mut lane, 20).await.len(), 1, "the next one costs more than is left, and is not overtaken");
    rate(&bed, "other", "1/1h", 4).await;
    bed.producer().await.stored(vec![cost(&[key("other", "")], 9), cost(&[key("other", "")], 1)]).await;
    assert_eq!(claim_all(&mut lane, 20).await.len(), 1);
    sound(&bed).await;
}

/// No job waits for a cancelled costly job: the next one costs less, and may start.
pub async fn a_costly_job_that_is_cancelled_holds_nobody_up(bed: Bed) {
    rate(&bed, "api", "1/1h", 10).await;
    let of = key("api", "");
    let costly = cost(&[of], 5);
    let (id, mut lane) = (costly.id.clone(), bed.lane().await);
    bed.producer().await.stored(vec![cost(&[of], 6), costly, cost(&[of], 4)]).await;
    assert_eq!(claim_all(&mut lane, 20).await.len(), 1);
    assert!(claim_all(&mut lane, 20).await.is_empty(), "the costly one waits, and is not overtaken");
    bed.broker.cancel(&bed.queue, &[id]).await.expect("it can be cancelled");
    assert_eq!(claim_all(&mut lane, 20).await.len(), 1);
    sound(&bed).await;
}

/// A key is reserved while a job waits for it. A job after the last of them starts as if there had
/// been none. This also holds if the rate was raised in the meantime.
pub async fn a_key_is_kept_for_no_job_that_has_gone(bed: Bed) {
    rate(&bed, "api", "1/1h", 10).await;
    rate(&bed, "mail", "1/1h", 1).await;
    let mut lane = bed.lane().await;
    for (of, costs) in [(key("api", ""), [6, 5, 4]), (key("mail", ""), [1, 1, 1])] {
        let [first, waits, later] = costs.map(|starts| cost(&[of], starts));
        let id = waits.id.clone();
        bed.producer().await.stored(vec![first, waits]).await;
        assert_eq!(claim_all(&mut lane, 20).await.len(), 1);
        bed.broker.cancel(&bed.queue, &[id]).await.expect("it can be cancelled");
        rate(&bed, "mail", "1000/1s", 1).await;
        let id = later.id.clone();
        bed.put_job(later).await;
        let started = eventually("the later job starts", async || claim_all(&mut lane, 20).await.pop()).await;
        assert_eq!(started.id, id);
    }
    sound(&bed).await;
}

/// A key is reserved for a job that costs more, so that cheaper jobs do not starve it. These report
/// that they wait for the key, and until when.
pub async fn a_job_reports_that_its_key_is_kept_for_one_that_costs_more(bed: Bed) {
    rate(&bed, "api", "1/1h", 10).await;
    let of = key("api", "");
    let of_group = |group: &str, starts| {
        let mut job = limited(group, &[of]);
        job.limits = JobLimits::new(vec![of], starts).map(Box::new);
        job
    };
    let (all, costly, cheap) = (of_group("a", 10), of_group("b", 5), of_group("c", 1));
    let (costly_id, cheap_id) = (costly.id.clone(), cheap.id.clone());
    let mut lane = bed.lane().await;
    bed.producer().await.stored(vec![all]).await;
    let took_all = lane.claim_one().await;
    bed.producer().await.stored(vec![costly, cheap]).await;
    assert!(claim_all(&mut lane, 20).await.is_empty());
    // There is room only for the cheap job.
    assert!(end_with(&mut lane, &took_all, ack(), Some(9), &[]).await);
    if claim_all(&mut lane, 20).await.is_empty() {
        let whys = bed.inspector().why_many(&bed.queue, &[costly_id.clone(), cheap_id.clone()]).await.expect("they can be asked");
        let waits = |of: usize| whys[of].as_ref().expect("it waits").waiting.iter().find_map(|reason| reason.until());
        assert!(waits(1).is_some() && waits(1) == waits(0), "{whys:?}");
        assert_eq!(bed.inspector().waiting(&bed.queue).await.expect("a queue can be asked")["rate_limited"], 2);
        assert!(until(&bed, of).await);
    }
    sound(&bed).await;
    bed.broker.cancel(&bed.queue, &[costly_id]).await.expect("it can be cancelled");
    let still_waits = bed.state(&cheap_id).await == Some(queue_core::JobState::Ready);
    assert_eq!(claim_all(&mut lane, 20).await.len(), usize::from(still_waits));
    sound(&bed).await;
}

/// Of jobs that wait for a key and cost more than is left, the key is reserved for the one that a
/// claim reached first: the one of the highest priority, although the other one was stored first.
pub async fn a_key_is_reserved_for_the_job_that_a_claim_reached_first(bed: Bed) {
    rate(&bed, "api", "1/1h", 3).await;
    let of = key("api", "");
    bed.producer().await.stored(vec![cost(&[of], 2)]).await;
    let mut lane = bed.lane().await;
    let first = lane.wait_for_one().await;
    let (normal, mut critical) = (cost(&[of], 2), cost(&[of], 2));
    critical.priority = Priority::Critical;
    let ids = [critical.id.clone(), normal.id.clone()];
    bed.producer().await.stored(vec![normal, critical]).await;
    assert!(claim_all(&mut lane, 2).await.is_empty(), "both cost more than is left");
    let mut ended = first;
    for id in ids {
        assert!(end_with(&mut lane, &ended, ack(), Some(0), &[]).await);
        ended = lane.wait_for_one().await;
        assert_eq!(ended.id, id);
        sound(&bed).await;
    }
}

/// A key that is reserved stays so when its time has come: no claim of any size gives it to a job
/// of a higher priority. Then the jobs that wait for it start, and behind them one that comes later
/// and whose priority is lower.
pub async fn a_reserved_key_that_has_room_again_is_overtaken_by_no_job(bed: Bed) {
    rate(&bed, "api", "1/1h", 4).await;
    let mut lane = bed.lane().await;
    for claims in [1, 4] {
        for waits in [true, false] {
            let of = key("api", &format!("{claims}, {waits}"));
            bed.producer().await.stored(vec![cost(&[of], 3)]).await;
            let took = lane.claim_one().await;
            let [normal, critical, high] =
                [(2, Priority::Normal), (1, Priority::Critical), (1, Priority::High)].map(|(starts, priority)| {
                    let mut job = cost(&[of], starts);
                    job.priority = priority;
                    job
                });
            let ids = [normal.id.clone(), critical.id.clone(), high.id.clone()];
            bed.producer().await.stored(vec![normal]).await;
            assert!(claim_all(&mut lane, 5).await.is_empty(), "it costs more than is left");
            if waits {
                bed.producer().await.stored(vec![critical]).await;
                assert!(claim_all(&mut lane, 5).await.is_empty(), "the key is reserved");
            }
            assert!(end_with(&mut lane, &took, ack(), Some(0), &[]).await);
            bed.producer().await.stored(vec![high]).await;
            let mut started = Vec::new();
            while started.len() < ids.len() {
                match claim_all(&mut lane, claims).await {
                    claimed if claimed.is_empty() => break,
                    claimed => started.extend(claimed.into_iter().map(|delivery| delivery.id)),
                }
            }
            let expected: Vec<_> = ids.into_iter().enumerate().filter(|(at, _)| waits || *at != 1).map(|(_, id)| id).collect();
            assert_eq!(started, expected, "{claims} at a time");
            sound(&bed).await;
        }
    }
}

/// A key stays reserved while jobs that do not wait for it are removed: one of another priority that
/// no claim has reached, and one that is not due.
pub async fn a_key_stays_reserved_when_a_job_leaves_that_did_not_wait_for_it(bed: Bed) {
    rate(&bed, "api", "1/1h", 3).await;
    let mut lane = bed.lane().await;
    for due in [Due::Now, Due::After(Duration::from_secs(3600))] {
        let of = key("api", &format!("{due:?}"));
        bed.producer().await.stored(vec![cost(&[of], 2), cost(&[of], 2)]).await;
        assert_eq!(claim_all(&mut lane, 20).await.len(), 1, "the second one costs more than is left");
        let (mut other, mut cheap) = (cost(&[of], 2), cost(&[of], 1));
        (other.priority, other.due, cheap.priority) = (Priority::Low, due, Priority::High);
        let id = other.id.clone();
        bed.producer().await.stored(vec![other]).await;
        bed.broker.cancel(&bed.queue, &[id]).await.expect("it can be cancelled");
        bed.producer().await.stored(vec![cheap]).await;
        assert!(claim_all(&mut lane, 20).await.is_empty(), "{due:?}");
        sound(&bed).await;
    }
}

/// A full slot does not use up the rate.
pub async fn a_full_slot_charges_no_rate(bed: Bed) {
    rate(&bed, "api", "1/1h", 2).await;
    concurrency(&bed, "stripe", 1).await;
    put(&bed, "", &[key("api", ""), key("stripe", "")], 2).await;
    let mut lane = bed.lane().await;
    let claimed = claim_all(&mut lane, 5).await;
    assert_eq!(claimed.len(), 1);
    for _ in 0..3 {
        assert!(claim_all(&mut lane, 5).await.is_empty());
    }
    lane.ack(&claimed).await;
    assert_eq!(claim_all(&mut lane, 5).await.len(), 1, "its start was left");
    sound(&bed).await;
}

/// A job that is returned without a run does not count as started. A stopped run, a failure and a
/// crash do count.
pub async fn a_return_refunds_and_a_crash_does_not(bed: Bed) {
    rate(&bed, "api", "1/1h", 1).await;
    let of = key("api", "");
    put(&bed, "", &[of], 1).await;
    let mut lane = bed.lane().await;
    for ending in [Ending::Return, Ending::Void, Ending::Return] {
        let delivery = lane.wait_for_one().await;
        assert!(until(&bed, of).await);
        assert!(lane.end(&delivery, ending).await);
        assert!(!until(&bed, of).await);
    }
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, Ending::Stopped { by_shutdown: false }).await);
    assert!(until(&bed, of).await && lane.claim(1).await.is_empty());
    sound(&bed).await;

    let of = key("api", "b");
    put(&bed, "", &[of], 1).await;
    let mut dying = bed.lane().await;
    dying.lease = SHORT;
    assert_eq!(dying.claim(1).await.len(), 1);
    bed.reclaim(&[&dying], RULE).await;
    assert!(until(&bed, of).await && lane.claim(1).await.is_empty());
    sound(&bed).await;
}

/// A changed rate applies from the next claim on. Earlier starts still count.
pub async fn a_changed_rate_holds_at_once(bed: Bed) {
    rate(&bed, "api", "1/1h", 2).await;
    let of = key("api", "");
    put(&bed, "", &[of], 4).await;
    let mut lane = bed.lane().await;
    assert_eq!(claim_all(&mut lane, 5).await.len(), 2);
    rate(&bed, "api", "100/1s", 2).await;
    let started = eventually("two more start soon", async || {
        let claimed = claim_all(&mut lane, 5).await;
        (!claimed.is_empty()).then_some(claimed.len())
    })
    .await;
    assert!(started <= 2);
    sound(&bed).await;
    set(&bed, "api", |rule| (rule.rate, rule.burst) = (None, None)).await;
    bed.inspector().remove_limit(&bed.queue, "api").await.expect("it is removed");
    assert_eq!(claim_all(&mut lane, 5).await.len() + started, 2);
    sound(&bed).await;
}

/// A limit may have both a concurrency and a rate, and both apply.
pub async fn concurrency_and_rate_hold_together(bed: Bed) {
    let both = "2/1h".parse().expect("it is a rate");
    set(&bed, "api", |rule| (rule.rate, rule.burst, rule.concurrency) = (Some(both), Some(2), Some(1))).await;
    put(&bed, "", &[key("api", "")], 3).await;
    let mut lane = bed.lane().await;
    for _ in 0..2 {
        let claimed = claim_all(&mut lane, 5).await;
        assert_eq!(claimed.len(), 1);
        assert!(lane.end(&claimed[0], ack()).await);
    }
    assert!(claim_all(&mut lane, 5).await.is_empty());
    sound(&bed).await;
}

/// A rate-limited limit waits, and no attempt is charged. The job that was rate limited is the
/// first afterwards. A job without limits and group waits alone.
pub async fn a_limit_that_has_had_enough_waits(bed: Bed) {
    rate(&bed, "api", "1000/1s", 100).await;
    concurrency(&bed, "stripe", 5).await;
    let (api, stripe) = (key("api", "a"), key("stripe", "a"));
    let ids = put(&bed, "", &[api, stripe], 1).await;
    let enough = |limit: Option<&str>, ms| Ending::RateLimited { after: Duration::from_millis(ms), limit: limit.map(str::to_owned) };
    let mut lane = bed.lane().await;
    let delivery = lane.claim_one().await;
    let others = put(&bed, "", &[api], 2).await;
    assert!(lane.end(&delivery, enough(None, CLOSED)).await);
    assert!(lane.claim(9).await.is_empty(), "its rate is the one that waits");
    assert!(until(&bed, api).await && !until(&bed, stripe).await);
    sound(&bed).await;
    let free = put(&bed, "", &[stripe], 1).await;
    let claimed = claim_all(&mut lane, 9).await;
    assert_eq!(claimed.iter().map(|delivery| &delivery.id).collect::<Vec<_>>(), [&free[0]]);
    lane.ack(&claimed).await;
    let mut claimed = Vec::new();
    while claimed.len() < 3 {
        claimed.extend(claim_all(&mut lane, 9).await);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let again = claimed.iter().find(|delivery| delivery.id == ids[0]).expect("it is there");
    assert_eq!((again.attempts, again.rate_limited, others.len()), (0, 1, 2));
    assert!(lane.end(again, enough(Some("stripe"), 60_000)).await);
    assert!(until(&bed, stripe).await && !until(&bed, api).await);
    sound(&bed).await;

    let alone = bed.put(1).await;
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, enough(None, 60_000)).await);
    assert_eq!(bed.state(&alone[0]).await, Some(queue_core::JobState::Scheduled));
}

/// A key that a handler has closed opens at the earliest when its rate lets the next job start.
pub async fn a_key_that_is_closed_and_has_a_rate_opens_at_the_later_time(bed: Bed) {
    rate(&bed, "api", "1/1h", 1).await;
    let of = key("api", "");
    let ids = put(&bed, "", &[of], 1).await;
    let mut lane = bed.lane().await;
    let delivery = lane.claim_one().await;
    let closed = Duration::from_secs(60);
    assert!(lane.end(&delivery, Ending::RateLimited { after: closed, limit: None }).await);
    let now = SystemTime::now();
    let is_later = |until: Option<SystemTime>| until.is_some_and(|until| until > now + 2 * closed);
    let told = bed.inspector().limits_of(&bed.queue, &[of]).await.expect("a key can be looked at")[0].until;
    assert!(is_later(told), "{told:?}");
    let waiting = bed.inspector().why_many(&bed.queue, &ids).await.expect("it can be asked").remove(0).expect("it waits").waiting;
    assert!(is_later(waiting.iter().find_map(|reason| reason.until())), "{waiting:?}");
    sound(&bed).await;
}

/// If its job has no limit, its group waits, before the other jobs of the group. A pause by an
/// operator stays. The name of a limit that the job does not have does not close the group.
pub async fn a_group_that_has_had_enough_waits(bed: Bed) {
    let enough = |limit: Option<&str>, ms| Ending::RateLimited { after: Duration::from_millis(ms), limit: limit.map(str::to_owned) };
    let group = GroupName::new("acme").expect("it is a name");
    let ids = put(&bed, "acme", &[], 3).await;
    let mut lane = bed.lane().await;
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, enough(None, CLOSED)).await);
    assert!(lane.claim(9).await.is_empty(), "the group waits");
    let pause = bed.inspector().group(&bed.queue, &group).await.expect("it is there").pause.expect("it is paused");
    assert!(pause.until.is_some() && pause.reason.is_some_and(|reason| reason.contains("has had enough")));
    sound(&bed).await;
    let mut claimed = Vec::new();
    while claimed.len() < 3 {
        claimed.extend(claim_all(&mut lane, 9).await);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(claimed.iter().map(|delivery| &delivery.id).collect::<Vec<_>>(), ids.iter().collect::<Vec<_>>());
    assert_eq!((claimed[0].attempts, claimed[0].rate_limited), (0, 1));

    const DAY: Duration = Duration::from_secs(24 * 3600);
    let pausing = Pausing::new().because("unpaid").by("ada");
    bed.inspector().pause_as(&bed.queue, PauseOf::Group(group.clone()), pausing.clone()).await.expect("it is paused");
    assert!(lane.end(&claimed[0], enough(None, 60_000)).await);
    let told = async || bed.inspector().group(&bed.queue, &group).await.expect("it is there").pause.expect("it is paused");
    assert_eq!((told().await.until, told().await.by.as_deref()), (None, Some("ada")));
    bed.inspector()
        .pause_as(&bed.queue, PauseOf::Group(group.clone()), pausing.clone().lasting(Duration::from_secs(60)))
        .await
        .expect("it is paused");
    let ends = told().await.until;
    assert!(lane.end(&claimed[1], enough(None, 3_600_000)).await);
    assert_eq!((told().await.until > ends, told().await.reason.as_deref()), (true, Some("unpaid")), "it ends later");
    // A close lasts at most a day, and a longer pause stays.
    bed.inspector().pause_as(&bed.queue, PauseOf::Group(group.clone()), pausing.lasting(3 * DAY)).await.expect("it is paused");
    let ends = told().await.until;
    assert!(lane.end(&claimed[2], enough(None, 604_800_000)).await);
    assert_eq!(told().await.until, ends);
    sound(&bed).await;

    let other = put(&bed, "beta", &[], 1).await;
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, enough(Some("stripe"), 60_000)).await);
    assert_eq!(bed.state(&other[0]).await, Some(queue_core::JobState::Scheduled), "it has no such limit, and waits alone");
    assert!(bed.inspector().group(&bed.queue, &GroupName::new("beta").expect("it is a name")).await.expect("it is there").pause.is_none());
    sound(&bed).await;
}

/// The number of hours until a key lets the next job start, at one start per hour. 0 means that one
/// may start now.
async fn hours(bed: &Bed, of: LimitKey) -> u64 {
    let until = bed.inspector().limits_of(&bed.queue, &[of]).await.expect("a key can be looked at")[0].until;
    until.map_or(0, |until| until.duration_since(std::time::SystemTime::now()).unwrap_or_default().as_secs().div_ceil(3600))
}

/// Ends a delivery with the usage of its run: of all limits, and of one by name.
async fn end_with(lane: &mut Lane, delivery: &Delivery, ending: Ending, all: Option<u32>, named: &[(&str, u32)]) -> bool {
    let mut used = Used::default();
    all.into_iter().for_each(|starts| used.set(starts));
    named.iter().for_each(|(limit, starts)| used.set_of(limit, *starts).expect("it is a name"));
    let mut finish = Finish::new(delivery, ending);
    finish.used = Some(Box::new(used));
    let turn = lane.next().finish(vec![finish]);
    let taken = lane.send(&turn).await.stale.is_empty();
    // A lost answer changes nothing.
    assert_eq!(lane.send(&turn).await.stale.is_empty(), taken);
    taken
}

/// A run that has used more than its job was charged is charged in full, even above the burst.
/// Unused cost is refunded. This applies to each ending of a run that has begun, and to no other.
pub async fn what_a_run_has_really_used_is_charged(bed: Bed) {
    rate(&bed, "api", "1/1h", 4).await;
    let keep = Ending::Ack { result: Some(vec![7]), keep: Some(Duration::from_secs(60)) };
    let begun = [
        ack(),
        keep,
        nack(Duration::from_secs(3600)),
        Ending::Snooze { delay: Duration::from_secs(3600) },
        Ending::Repeat { delay: Duration::from_secs(3600) },
        Ending::Bury { reason: queue_core::broker::BuryReason::Buried, error: None },
        Ending::Cancel { reason: String::new() },
        Ending::Expire,
        Ending::Stopped { by_shutdown: true },
    ];
    let mut lane = bed.lane().await;
    for (n, ending) in begun.into_iter().enumerate() {
        let (over, under, nothing) =
            (key("api", &format!("over {n}")), key("api", &format!("under {n}")), key("api", &format!("nothing {n}")));
        for (of, actual, left) in [(over, 7, 4), (under, 2, 0), (nothing, 0, 0)] {
            bed.producer().await.stored(vec![cost(&[of], 4)]).await;
            let delivery = lane.wait_for_one().await;
            assert_eq!(hours(&bed, of).await, 1);
            assert!(end_with(&mut lane, &delivery, ending.clone(), Some(actual), &[]).await);
            assert_eq!(hours(&bed, of).await, left, "{ending:?} {actual}");
            bed.broker.cancel(&bed.queue, &[delivery.id]).await.expect("it is cancelled, if it waits");
        }
    }
    for (n, ending) in
        [Ending::Return, Ending::Void, Ending::Park { task: "x".into() }, Ending::Park { task: "s".into() }].into_iter().enumerate()
    {
        let of = key("api", &format!("not begun {n}"));
        bed.producer().await.stored(vec![cost(&[of], 4)]).await;
        let delivery = lane.wait_for_one().await;
        assert!(end_with(&mut lane, &delivery, ending, Some(9), &[]).await);
        assert_eq!(hours(&bed, of).await, 0, "it has not started");
        bed.broker.cancel(&bed.queue, &[delivery.id]).await.expect("it is cancelled");
    }
    sound(&bed).await;
}

/// The usage of a run is charged once. A replayed turn or a late ending does not charge it. A retry
/// is charged the declared cost of its job.
pub async fn what_a_run_has_used_counts_once_and_for_it_alone(bed: Bed) {
    rate(&bed, "api", "1/1h", 3).await;
    let of = key("api", "");
    bed.producer().await.stored(vec![cost(&[of], 2)]).await;
    let mut lane = bed.lane().await;
    let delivery = lane.wait_for_one().await;
    let mut stale = delivery.clone();
    stale.claim += 1;
    assert!(!end_with(&mut lane, &stale, ack(), Some(1000), &[]).await);
    assert_eq!(hours(&bed, of).await, 0);
    assert!(end_with(&mut lane, &delivery, nack(Duration::ZERO), Some(0), &[]).await);
    assert!(!end_with(&mut lane, &delivery, ack(), Some(1000), &[]).await);
    let again = lane.wait_for_one().await;
    assert_eq!(again.attempts, 1);
    assert!(lane.end(&again, Ending::Stopped { by_shutdown: false }).await);
    assert_eq!((hours(&bed, of).await, lane.claim(1).await.len()), (0, 0), "two of three starts are used: one is left");
    sound(&bed).await;
}

/// The limits of a job count different things: the usage of one by name, the usage of the others,
/// and no reported usage. A limit without a rate is not affected, and neither is a job without
/// limits.
pub async fn what_a_run_has_used_is_reported_by_limit(bed: Bed) {
    for name in ["calls", "tokens", "bytes"] {
        rate(&bed, name, "1/1h", 2).await;
    }
    concurrency(&bed, "stripe", 1).await;
    let keys = ["calls", "tokens", "bytes", "stripe"].map(|name| key(name, "a"));
    let put = async || bed.producer().await.stored(vec![cost(&keys, 1)]).await;
    put().await;
    let mut lane = bed.lane().await;
    let delivery = lane.wait_for_one().await;
    assert!(end_with(&mut lane, &delivery, ack(), None, &[("tokens", 5), ("other", 100)]).await);
    assert_eq!((hours(&bed, keys[0]).await, hours(&bed, keys[1]).await, hours(&bed, keys[2]).await), (0, 4, 0));
    bed.inspector().remove_limit(&bed.queue, "tokens").await.expect("it is removed");
    put().await;
    let delivery = lane.wait_for_one().await;
    assert!(end_with(&mut lane, &delivery, ack(), Some(4), &[("bytes", 0)]).await);
    assert_eq!((hours(&bed, keys[0]).await, hours(&bed, keys[1]).await, hours(&bed, keys[2]).await), (4, 0, 0));
    assert!(!until(&bed, keys[3]).await);
    bed.put(1).await;
    let delivery = lane.claim_one().await;
    assert!(end_with(&mut lane, &delivery, ack(), Some(u32::MAX), &[]).await);
    sound(&bed).await;
}

/// Jobs that wait for refunded cost start with the next claim. The maximum debt is a day and the
/// burst.
pub async fn what_a_run_gives_back_lets_others_start(bed: Bed) {
    rate(&bed, "api", "1/1h", 2).await;
    let of = key("api", "");
    bed.producer().await.stored(vec![cost(&[of], 2), cost(&[of], 2), cost(&[of], 1)]).await;
    let (mut lane, mut other) = (bed.lane().await, bed.lane().await);
    let first = lane.wait_for_one().await;
    assert!(other.claim(2).await.is_empty());
    assert!(end_with(&mut lane, &first, ack(), Some(0), &[]).await);
    let second = other.wait_for_one().await;
    assert!(end_with(&mut other, &second, ack(), Some(u32::MAX), &[]).await);
    assert!(lane.claim(1).await.is_empty());
    assert_eq!(hours(&bed, of).await, 24 + 1);
    sound(&bed).await;
}
