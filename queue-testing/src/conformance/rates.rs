//! Limits on how many start in a time: spread, with a burst, by cost.

use std::time::{Duration, Instant};

use queue_core::{
    LimitKey,
    broker::{Ending, JobLimits, NewJob},
};

use super::{
    bed::{Bed, SHORT, ack, eventually},
    groups::{RULE, sound},
    limits::{claim_all, concurrency, key, limited, put, set},
};

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

/// A burst starts at once, and then one after the other; the broker says when the next one does.
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
        assert!(until(&bed, of).await);
    }
    sound(&bed).await;
    while started < 8 {
        started += claim_all(&mut lane, 20).await.len();
        // Never more than the burst and what the time has brought.
        let most = 3.0 + began.elapsed().as_secs_f64() * 20.0 + 1.0;
        assert!((started as f64) <= most, "{started} after {:?}", began.elapsed());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!(began.elapsed() >= Duration::from_millis(245), "{:?}", began.elapsed());
    sound(&bed).await;
}

/// Each key has a rate of its own, and a job of another key does not wait.
pub async fn each_key_has_its_rate(bed: Bed) {
    rate(&bed, "api", "1/1h", 1).await;
    for account in ["a", "b", "c"] {
        put(&bed, "", &[key("api", account)], 2).await;
    }
    let mut lane = bed.lane().await;
    assert_eq!(claim_all(&mut lane, 20).await.len(), 3);
    assert!(claim_all(&mut lane, 20).await.is_empty());
    sound(&bed).await;
}

/// A job counts for what it costs, and waits until so much may start; one that costs more than the burst, which was lowered, takes all of it.
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

/// A slot that is not free charges nothing.
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

/// What is given back without a run has not started; what a stopped run, a failure or a crash gives back has.
pub async fn a_release_refunds_and_a_crash_does_not(bed: Bed) {
    rate(&bed, "api", "1/1h", 1).await;
    let of = key("api", "");
    put(&bed, "", &[of], 1).await;
    let mut lane = bed.lane().await;
    for ending in [Ending::Release, Ending::Void, Ending::Release] {
        let delivery = lane.wait_for_one().await;
        assert!(until(&bed, of).await);
        assert!(lane.end(&delivery, ending).await);
        assert!(!until(&bed, of).await);
    }
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, Ending::Stopped).await);
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

/// A rate that is changed counts anew from the next claim on: what was started is still counted.
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

/// A limit may have both, and both hold.
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

/// A limit that has had enough waits, and nothing is burnt; the job that found out is the first afterwards. One without limits waits alone.
pub async fn a_limit_that_has_had_enough_waits(bed: Bed) {
    rate(&bed, "api", "1000/1s", 100).await;
    concurrency(&bed, "stripe", 5).await;
    let (api, stripe) = (key("api", "a"), key("stripe", "a"));
    let ids = put(&bed, "", &[api, stripe], 1).await;
    let enough = |limit: Option<&str>, ms| Ending::RateLimited { after: Duration::from_millis(ms), limit: limit.map(str::to_owned) };
    let mut lane = bed.lane().await;
    let delivery = lane.claim_one().await;
    let others = put(&bed, "", &[api], 2).await;
    assert!(lane.end(&delivery, enough(None, 400)).await);
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
    assert_eq!((again.attempts, again.snoozes, others.len()), (0, 1, 2));
    assert!(lane.end(again, enough(Some("stripe"), 60_000)).await);
    assert!(until(&bed, stripe).await && !until(&bed, api).await);
    sound(&bed).await;

    let alone = bed.put(1).await;
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, enough(None, 60_000)).await);
    assert_eq!(bed.state(&alone[0]).await, Some(queue_core::JobState::Scheduled));
}
