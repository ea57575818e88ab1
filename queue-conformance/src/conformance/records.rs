//! Records, housekeeping and backups.

use std::time::Duration;

use queue_core::{
    Error, JobId,
    broker::{BuryReason, Change, Counter, Ending, Enqueued, JobState, KeepLimits, NewJob, Priority, SetPause, SweepLimits},
};

use super::bed::{Bed, LONG, ack, envelope, eventually, finish, nack};
use crate::Changes as _;

/// Every state has a list, in the order in which its jobs will be served or have ended.
pub async fn every_state_is_listed_in_order(bed: Bed) {
    let mut lane = bed.lane().await;
    let ids = bed.put(14).await;
    let held = lane.claim(14).await;
    let later = Duration::from_secs(100);
    let endings = [
        Ending::Ack { result: Some(vec![1]), keep: Some(LONG) },
        nack(LONG),
        Ending::Snooze { delay: LONG },
        Ending::Bury { reason: BuryReason::Buried, error: None },
        Ending::Cancel { reason: "no".to_owned() },
        Ending::Expire,
        Ending::Ack { result: None, keep: Some(LONG) },
        nack(later),
        Ending::Snooze { delay: later },
        Ending::Bury { reason: BuryReason::Failed, error: None },
        Ending::Cancel { reason: "no".to_owned() },
        Ending::Expire,
        Ending::Park { task: "t".to_owned() },
    ];
    for (delivery, ending) in held.iter().zip(endings) {
        let turn = lane.next().finish(vec![finish(delivery, ending)]);
        let now = lane.send(&turn).await.now_ms;
        eventually("the clock moves", async || {
            let turn = lane.next();
            (lane.send(&turn).await.now_ms > now).then_some(())
        })
        .await;
    }
    let low = bed.put_at(Priority::Low).await;
    let high = bed.put_at(Priority::High).await;
    let pick = |numbers: &[usize]| numbers.iter().map(|n| ids[*n].clone()).collect::<Vec<_>>();
    assert_eq!(bed.ids(JobState::Ready).await, [high, low]);
    assert_eq!(bed.ids(JobState::Active).await, pick(&[13]));
    assert_eq!(bed.ids(JobState::Done).await, pick(&[0, 6]));
    assert_eq!(bed.ids(JobState::Retry).await, pick(&[7, 1]), "the earlier due first");
    assert_eq!(bed.ids(JobState::Scheduled).await, pick(&[8, 2]), "the earlier due first");
    assert_eq!(bed.ids(JobState::Dead).await, pick(&[3, 9]));
    assert_eq!(bed.ids(JobState::Cancelled).await, pick(&[4, 10]));
    assert_eq!(bed.ids(JobState::Expired).await, pick(&[5, 11]));
    assert_eq!(bed.ids(JobState::Parked).await, pick(&[12]));
    let stats = bed.stats().await;
    for (state, n) in JobState::ALL.into_iter().zip([2, 2, 1, 2, 1, 0, 2, 2, 2, 2]) {
        assert_eq!(stats.count(state), n, "{state}");
    }
}

/// The pages of a list are consecutive.
pub async fn a_listing_comes_in_pages(bed: Bed) {
    let ids = bed.put(25).await;
    let (mut seen, mut offset, mut pages) = (Vec::new(), Some(0), 0);
    while let Some(from) = offset {
        let page = bed.broker.list(&bed.queue, JobState::Ready, from, 10).await.unwrap();
        assert!(page.jobs.len() <= 10 && page.jobs.iter().all(|job| job.state == JobState::Ready));
        seen.extend(page.jobs.into_iter().map(|job| job.id));
        offset = page.next;
        pages += 1;
    }
    assert_eq!((seen, pages), (ids, 3));
    let beyond = bed.broker.list(&bed.queue, JobState::Ready, 1000, 10).await.unwrap();
    assert!(beyond.jobs.is_empty() && beyond.next.is_none());
    let page = bed.broker.list(&bed.queue, JobState::Ready, 15, 10).await.unwrap();
    assert_eq!((page.jobs.len(), page.next), (10, None), "the last page knows that it is the last");
}

/// A record is complete: the receipt of an active job has its lane and its claim number.
pub async fn a_record_names_the_holder_of_an_active_job(bed: Bed) {
    let mut job = NewJob::new(JobId::make(), envelope("x"));
    job.priority = Priority::High;
    let id = job.id.clone();
    bed.put_job(job).await;
    let record = bed.show(&id).await.expect("it is ready");
    assert_eq!((record.priority, record.receipt, record.at_ms, record.reason), (Priority::High, None, None, None));
    let mut lane = bed.lane().await;
    let delivery = lane.claim_one().await;
    let record = bed.show(&id).await.expect("it is active");
    assert_eq!(record.receipt, Some(format!("{}:{}", lane.name, delivery.claim)));
    assert_eq!(record.priority, Priority::High);
    assert!(lane.end(&delivery, Ending::Return).await);
    assert_eq!(bed.show(&id).await.expect("it is ready").receipt, None);
}

/// A missing job is not shown.
pub async fn what_is_not_there_is_not_shown(bed: Bed) {
    assert!(bed.show(&JobId::make()).await.is_none());
    assert!(bed.broker.show("a-queue-that-nobody-knows", &JobId::make()).await.unwrap().is_none());
    let stats = bed.broker.stats("a-queue-that-nobody-knows").await.unwrap();
    assert!(stats.jobs() == 0 && stats.lanes == 0 && !stats.paused);
    let page = bed.broker.list("a-queue-that-nobody-knows", JobState::Ready, 0, 10).await.unwrap();
    assert!(page.jobs.is_empty() && page.next.is_none());
    assert!(bed.broker.overdue("a-queue-that-nobody-knows", 0, 10).await.unwrap().expired.is_empty());
    assert!(bed.broker.sweep("a-queue-that-nobody-knows", &SweepLimits::default()).await.unwrap().is_empty());
}

/// A registration also registers the queue.
pub async fn queues_are_listed_by_name(bed: Bed) {
    bed.producer().await;
    let other = {
        let queue = format!("{}-b", bed.queue);
        bed.in_queue(&queue)
    };
    other.lane().await;
    let queues = other.broker.queues().await.unwrap();
    let place = |name: &str| queues.iter().position(|queue| queue == name).expect("it is listed");
    assert!(place(other.queue.trim_end_matches("-b")) < place(&other.queue));
    assert!(queues.is_sorted());
    // An unused queue is removed, and the next job creates it again.
    assert_eq!(other.broker.remove_queue(&other.queue).await.unwrap(), ["workers"]);
    let queue = format!("{}c", other.queue);
    let removed = other.in_queue(&queue);
    let remove = async || removed.broker.remove_queue(&removed.queue).await.unwrap();
    let job = NewJob::new(JobId::make(), envelope("x"));
    let id = job.id.clone();
    removed.producer().await.stored(vec![job]).await;
    assert_eq!(remove().await, ["jobs"]);
    removed.broker.change(&removed.queue, Change::Delete, None, &[id]).await.unwrap();
    removed.broker.set_pause(&SetPause::of_queue(removed.queue.clone(), true)).await.unwrap();
    assert_eq!(remove().await, ["pauses"]);
    removed.broker.set_pause(&SetPause::of_queue(removed.queue.clone(), false)).await.unwrap();
    // A stopped worker leaves a lane with an expired lease.
    removed.dying_lane().await;
    eventually("the lease to be over", async || remove().await.is_empty().then_some(())).await;
    assert!(!removed.broker.queues().await.unwrap().contains(&removed.queue.to_string()));
    removed.put(1).await;
    assert!(removed.broker.queues().await.unwrap().contains(&removed.queue.to_string()));
    let stats = removed.broker.stats(&removed.queue).await.unwrap();
    assert_eq!((stats.jobs(), stats.total(Counter::Enqueued)), (1, 1), "nothing of its past is left");
    // A given id is remembered after its job has ended.
    let queue = format!("{}d", removed.queue);
    let given = removed.in_queue(&queue);
    given.put_given("close-17", "x").await;
    let mut lane = given.lane().await;
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, ack()).await);
    assert_eq!(given.broker.remove_queue(&given.queue).await.unwrap(), ["workers", "given ids"]);
}

/// An invalid name never becomes a key.
pub async fn a_name_outside_the_grammar_is_refused(bed: Bed) {
    use queue_core::broker::{ProcessId, Register};
    for name in ["", "a b", "a{b}", "a:b", "a\0b", "*", "ü", &"x".repeat(129)] {
        let answer = bed.broker.register(&Register::producer(name, ProcessId::random())).await;
        assert!(matches!(answer, Err(Error::Invalid { .. })), "{name:?}");
    }
    assert!(bed.broker.queues().await.unwrap().iter().all(|name| name.starts_with("suite-")));
}

/// Idle producers are removed, and are then unknown.
pub async fn idle_producers_are_swept(bed: Bed) {
    let mut producer = bed.producer().await;
    producer.stored(vec![NewJob::new(JobId::make(), envelope("x"))]).await;
    assert!(sweep(&bed, SweepLimits::default()).await.is_empty());
    let limits = SweepLimits { producers: Duration::ZERO, ..SweepLimits::default() };
    let swept = eventually("its time is over", async || {
        let swept = sweep(&bed, limits).await;
        (swept.producers > 0).then_some(swept)
    })
    .await;
    assert_eq!((swept.producers, swept.remembered, swept.dead, swept.ended), (1, 0, 0, 0));
    let request = producer.next(vec![NewJob::new(JobId::make(), envelope("y"))]);
    assert!(matches!(bed.broker.enqueue(&request).await, Err(Error::Forgotten(_))));
    assert_eq!(bed.depth(JobState::Ready).await, 1, "its jobs stay");
}

/// A given id is remembered for the retention.
pub async fn remembered_ids_are_swept_by_age_and_number(bed: Bed) {
    let mut lane = bed.lane().await;
    for n in 0..10 {
        bed.put_given(&format!("job-{n}"), "a").await;
        let delivery = lane.claim_one().await;
        lane.ack(&[delivery]).await;
    }
    assert_eq!(sweep(&bed, SweepLimits::default()).await.remembered, 0);
    let limits = SweepLimits { remembered_count: 4, ..SweepLimits::default() };
    assert_eq!(sweep(&bed, limits).await.remembered, 6);
    let mut known = Vec::new();
    for n in 0..10 {
        known.push(bed.put_given(&format!("job-{n}"), "a").await == Enqueued::Existing);
    }
    assert_eq!(known.iter().filter(|known| **known).count(), 4);
    let limits = SweepLimits { remembered: Duration::ZERO, ..SweepLimits::default() };
    let mut swept = 0;
    eventually("the others are too old", async || {
        swept += sweep(&bed, limits).await.remembered;
        (swept >= 4).then_some(())
    })
    .await;
    assert_eq!(swept, 4);
}

/// The data of a done job is removed: the next job with its id has no failures.
pub async fn a_given_id_that_is_used_again_starts_over(bed: Bed) {
    let mut lane = bed.lane().await;
    for _ in 0..2 {
        bed.put_given("daily", "a").await;
        let delivery = lane.claim_one().await;
        assert_eq!((delivery.attempts, delivery.snoozes), (0, 0));
        assert!(lane.end(&delivery, nack(Duration::from_millis(1))).await);
        let delivery = lane.wait_for_one().await;
        assert!(lane.end(&delivery, Ending::Snooze { delay: Duration::from_millis(1) }).await);
        let delivery = lane.wait_for_one().await;
        assert_eq!((delivery.attempts, delivery.snoozes), (1, 1));
        lane.ack(&[delivery]).await;
        let limits = SweepLimits { remembered_count: 0, ..SweepLimits::default() };
        assert_eq!(sweep(&bed, limits).await.remembered, 1);
    }
}

/// Dead jobs past their retention are evicted, and counted.
pub async fn dead_jobs_are_evicted_by_age_and_by_bytes_and_counted(bed: Bed) {
    bury(&bed, 10).await;
    assert!(sweep(&bed, SweepLimits::default()).await.is_empty());
    let ids = bed.ids(JobState::Dead).await;
    let size = bed.show(&ids[0]).await.expect("the dead are kept").envelope.len() as u64;
    let limits = SweepLimits { dead_bytes: size * 4, ..SweepLimits::default() };
    assert_eq!(sweep(&bed, limits).await.dead, 6);
    assert_eq!(bed.ids(JobState::Dead).await, ids[6..], "the oldest go first");
    let limits = SweepLimits { dead: Duration::ZERO, ..SweepLimits::default() };
    let mut swept = 0;
    eventually("the others are too old", async || {
        swept += sweep(&bed, limits).await.dead;
        (swept >= 4).then_some(())
    })
    .await;
    assert_eq!((bed.counter(Counter::DeadEvicted).await, bed.depth(JobState::Dead).await), (10, 0));
    assert!(bed.show(&ids[9]).await.is_none());
}

/// The id of an evicted dead job is free.
pub async fn an_evicted_id_can_be_enqueued_again(bed: Bed) {
    let mut lane = bed.lane().await;
    bed.put_given("again", "a").await;
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, Ending::Bury { reason: BuryReason::Buried, error: None }).await);
    let limits = SweepLimits { dead: Duration::ZERO, remembered: Duration::ZERO, ..SweepLimits::default() };
    eventually("it is evicted", async || (sweep(&bed, limits).await.dead == 1).then_some(())).await;
    eventually("its id is free", async || {
        sweep(&bed, limits).await;
        (bed.put_given("again", "b").await == Enqueued::Stored).then_some(())
    })
    .await;
}

/// Kept jobs are removed when their retention is over.
pub async fn kept_jobs_are_swept_when_their_time_is_over(bed: Bed) {
    let ids = bed.put(2).await;
    let mut lane = bed.lane().await;
    for (delivery, keep) in lane.claim(2).await.iter().zip([Duration::from_millis(1), LONG]) {
        assert!(lane.end(delivery, Ending::Ack { result: None, keep: Some(keep) }).await);
    }
    eventually("one is over", async || {
        sweep(&bed, SweepLimits::default()).await;
        bed.show(&ids[0]).await.is_none().then_some(())
    })
    .await;
    assert_eq!(bed.depth(JobState::Done).await, 1);
    assert_eq!(bed.ids(JobState::Done).await, ids[1..]);
}

/// A job with a given id was kept and deleted, and another one is kept. When the retention of the
/// first is over, the second stays.
pub async fn a_kept_job_outlives_an_earlier_one_of_its_id(bed: Bed) {
    let id = JobId::given("again").unwrap();
    let mut lane = bed.lane().await;
    let mut first_ended = 0;
    for keep in [Duration::from_secs(1), LONG] {
        assert_eq!(bed.put_given("again", "kept").await, Enqueued::Stored);
        let delivery = lane.claim_one().await;
        let turn = lane.next().finish(vec![finish(&delivery, Ending::Ack { result: None, keep: Some(keep) })]);
        let ended = lane.send(&turn).await.now_ms;
        if first_ended == 0 {
            first_ended = ended;
            assert!(bed.broker.delete(&bed.queue, std::slice::from_ref(&id)).await.unwrap()[0]);
        }
    }
    eventually("the time of the first is over", async || {
        let turn = lane.next();
        (lane.send(&turn).await.now_ms > first_ended + 1_000).then_some(())
    })
    .await;
    // There is only one.
    for count in [u64::MAX, 1] {
        sweep(&bed, SweepLimits { keep: KeepLimits { count, bytes: u64::MAX }, ..SweepLimits::default() }).await;
        assert_eq!(bed.state(&id).await, Some(JobState::Done), "at most {count}");
    }
}

/// Kept data of one job is not mixed with that of another that ends with it.
pub async fn a_kept_job_reports_its_failures(bed: Bed) {
    let mut lane = bed.lane().await;
    let failing = bed.put(1).await.remove(0);
    let held = lane.claim_one().await;
    assert!(lane.end(&held, nack(Duration::ZERO)).await);
    let held = lane.wait_for_one().await;
    assert!(lane.end(&held, Ending::Return).await);
    // Two of one size, in one claim.
    let sound = bed.put(1).await.remove(0);
    let held = lane.claim(2).await;
    assert_eq!(held.iter().map(|delivery| &delivery.id).collect::<Vec<_>>(), [&failing, &sound]);
    let ending = Ending::Ack { result: None, keep: Some(LONG) };
    let turn = lane.next().finish(held.iter().map(|delivery| finish(delivery, ending.clone())).collect());
    assert!(lane.send(&turn).await.stale.is_empty());
    let (failing, sound) = (bed.show(&failing).await.expect("it is kept"), bed.show(&sound).await.expect("it is kept"));
    assert_eq!((failing.state, failing.attempts, failing.failures.len()), (JobState::Done, 1, 1));
    assert_eq!((sound.state, sound.attempts, sound.failures.len()), (JobState::Done, 0, 0));
}

/// The same for rarer data.
pub async fn a_kept_job_reports_its_snoozes_and_its_priority(bed: Bed) {
    let mut lane = bed.lane().await;
    let snoozed = bed.put(1).await.remove(0);
    let held = lane.claim_one().await;
    assert!(lane.end(&held, Ending::Snooze { delay: Duration::from_millis(1) }).await);
    let mut held = vec![lane.wait_for_one().await];
    // Two of one size, in one claim.
    let mut jobs = [NewJob::new(JobId::make(), envelope("job")), NewJob::new(JobId::make(), envelope("job"))];
    jobs[0].priority = Priority::High;
    let ids = [snoozed, jobs[0].id.clone(), jobs[1].id.clone()];
    bed.producer().await.stored(jobs.into()).await;
    held.extend(lane.claim(2).await);
    assert_eq!(held.iter().map(|delivery| delivery.id.clone()).collect::<Vec<_>>(), ids);
    let ending = Ending::Ack { result: None, keep: Some(LONG) };
    let turn = lane.next().finish(held.iter().map(|delivery| finish(delivery, ending.clone())).collect());
    assert!(lane.send(&turn).await.stale.is_empty());
    let expected = [(1, Priority::Normal), (0, Priority::High), (0, Priority::Normal)];
    for (id, expected) in ids.iter().zip(expected) {
        let record = bed.show(id).await.expect("it is kept");
        assert_eq!((record.snoozes, record.priority), expected);
    }
}

/// Snoozes and rate limits of a job are counted separately: in its deliveries, in its record, and
/// when it is kept. A repeat resets both.
pub async fn snoozes_and_rate_limits_are_counted_apart(bed: Bed) {
    let mut lane = bed.lane().await;
    let id = bed.put(1).await.remove(0);
    let mut held = lane.claim_one().await;
    let soon = Duration::from_millis(1);
    let (snooze, enough) = (Ending::Snooze { delay: soon }, Ending::RateLimited { after: soon, limit: None });
    let expected = [(1, 0), (1, 1), (1, 2), (2, 2)];
    for (ending, expected) in [&snooze, &enough, &enough, &snooze].into_iter().zip(expected) {
        assert!(lane.end(&held, ending.clone()).await);
        let record = bed.show(&id).await.expect("it waits");
        assert_eq!((record.snoozes, record.rate_limited, record.attempts), (expected.0, expected.1, 0));
        held = lane.wait_for_one().await;
        assert_eq!((held.snoozes, held.rate_limited, held.attempts), (expected.0, expected.1, 0));
    }
    assert_eq!(bed.counter(Counter::Snoozed).await, 4);
    assert!(lane.end(&held, Ending::Ack { result: None, keep: Some(LONG) }).await);
    let kept = bed.show(&id).await.expect("it is kept");
    assert_eq!((kept.snoozes, kept.rate_limited), (2, 2));

    let repeats = bed.put(1).await.remove(0);
    let held = lane.claim_one().await;
    assert!(lane.end(&held, enough).await);
    let held = lane.wait_for_one().await;
    assert!(lane.end(&held, Ending::Repeat { delay: Duration::ZERO }).await);
    let held = lane.wait_for_one().await;
    assert_eq!((&held.id, held.snoozes, held.rate_limited), (&repeats, 0, 0));
}

/// The number of cancelled and expired jobs is also bounded.
pub async fn ended_jobs_are_swept_to_the_limits_of_their_queue(bed: Bed) {
    let ids = bed.put(20).await;
    bed.broker.cancel(&bed.queue, &ids).await.unwrap();
    assert_eq!(sweep(&bed, SweepLimits::default()).await.ended, 0, "they are kept for a day");
    let limits = SweepLimits { keep: KeepLimits { count: 5, bytes: u64::MAX }, ..SweepLimits::default() };
    assert_eq!(sweep(&bed, limits).await.ended, 15);
    assert_eq!(bed.ids(JobState::Cancelled).await.len(), 5);
}

/// One round changes at most the requested number of items.
pub async fn a_round_of_housekeeping_is_bounded(bed: Bed) {
    bury(&bed, 25).await;
    let limits = SweepLimits { dead_bytes: 0, items: 10, ..SweepLimits::default() };
    let mut rounds = Vec::new();
    for _ in 0..4 {
        rounds.push(sweep(&bed, limits).await.dead);
    }
    assert_eq!(rounds, [10, 10, 5, 0]);
}

/// After a restored backup, names and numbers that the broker does not know are refused, and work
/// continues.
pub async fn after_a_restored_backup_lanes_are_forgotten_and_work_goes_on(bed: Bed) {
    let mut lane = bed.lane().await;
    let queue = bed.queue.clone();
    lane.claim(0).await;
    let (name, answered) = (lane.name.clone(), lane.answered);
    drop(lane);
    let bed = bed.save().await;

    let id = bed.put(1).await.remove(0);
    let mut lane = bed.lane().await;
    (lane.name, lane.answered) = (name.clone(), answered);
    let held = lane.claim_one().await;
    lane.claim(0).await;
    let (answered, finishes) = (lane.answered, vec![finish(&held, ack())]);
    drop(lane);
    let bed = bed.restore().await;

    assert_eq!(bed.state(&id).await, None, "what came after the backup is lost");
    let mut turn = queue_core::broker::Turn::new(queue.clone(), name.clone(), answered + 1, LONG);
    turn.finishes = finishes;
    assert!(matches!(bed.broker.turn(&turn).await, Err(Error::Forgotten(_))));
    let heartbeat = queue_core::broker::Extend::new(queue, name, answered, LONG);
    assert!(matches!(bed.broker.extend(&[heartbeat]).await[0], Err(Error::Forgotten(_))));
    assert_eq!(bed.counter(Counter::Done).await, 0);

    let mut lane = bed.lane().await;
    // No backup is restored within the millisecond of a claim, except one in memory.
    eventually("the clock goes on", async || {
        let turn = lane.next();
        (lane.send(&turn).await.now_ms.cast_unsigned() > held.claim).then_some(())
    })
    .await;
    bed.put(1).await;
    let new = lane.claim_one().await;
    assert!(new.claim > held.claim, "claim numbers go on: {} after {}", new.claim, held.claim);
    lane.ack(&[new]).await;
}

async fn sweep(bed: &Bed, limits: SweepLimits) -> queue_core::broker::Swept {
    bed.broker.sweep(&bed.queue, &limits).await.expect("a sweep is answered")
}

/// Buries `n` jobs, oldest first.
async fn bury(bed: &Bed, n: usize) {
    let mut lane = bed.lane().await;
    let mut producer = bed.producer().await;
    producer.stored((0..n).map(|_| NewJob::new(JobId::make(), envelope("same size"))).collect()).await;
    for delivery in lane.claim(n).await {
        assert!(lane.end(&delivery, Ending::Bury { reason: BuryReason::Buried, error: None }).await);
    }
}
