//! The broker's clock, and its announcements.

use std::time::{Duration, Instant};

use queue_core::{
    JobId,
    broker::{CrashRule, DUE_ITEMS, Due, Ending, Enqueued, Hint, Hints, JobState, NewJob, Priority, ProcessId, Register},
};

use super::bed::{Bed, LONG, SHORT, envelope, eventually, nack};
use crate::Changes as _;

const SOON: Duration = Duration::from_millis(60);

/// The maximum truncation of the broker's clock, which is added to every delay.
const CUT: Duration = Duration::from_millis(1);

/// A delayed job is not delivered before its time, and is after it.
pub async fn a_delayed_job_is_never_early(bed: Bed) {
    let mut lane = bed.lane().await;
    let before = now(&bed).await;
    let id = bed.put_later(SOON).await;
    let due = bed.show(&id).await.expect("it is scheduled").at_ms.expect("with a time");
    // The clock is truncated to whole milliseconds. One more is added, so that no job is early by a
    // fraction.
    assert!(due > before + 60 && due <= now(&bed).await + 61);
    let (delivery, delivered) = eventually("it is due", async || {
        let turn = lane.next().claim(1);
        let mut answer = lane.send(&turn).await;
        answer.deliveries.pop().map(|delivery| (delivery, answer.now_ms))
    })
    .await;
    assert_eq!(delivery.id, id);
    assert!(delivered >= due, "delivered at {delivered}, due at {due}");
}

/// The same for a retry.
pub async fn a_failed_job_is_never_early(bed: Bed) {
    let ids = bed.put(1).await;
    let mut lane = bed.lane().await;
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, nack(SOON)).await);
    let due = bed.show(&ids[0]).await.expect("it waits").at_ms.expect("with a time");
    let delivered = eventually("it is due", async || {
        let turn = lane.next().claim(1);
        let answer = lane.send(&turn).await;
        (!answer.deliveries.is_empty()).then_some(answer.now_ms)
    })
    .await;
    assert!(delivered >= due, "delivered at {delivered}, due at {due}");
}

/// Ready jobs do not delay a due job.
pub async fn a_due_job_does_not_wait_until_no_other_is_ready(bed: Bed) {
    bed.put(8).await;
    let id = bed.put_later(SOON).await;
    let due = bed.show(&id).await.expect("it is scheduled").at_ms.expect("with a time");
    eventually("it is due", async || (now(&bed).await >= due).then_some(())).await;
    assert_eq!(bed.lane().await.claim(1).await.len(), 1);
    assert_eq!(bed.state(&id).await, Some(JobState::Ready));
}

/// A past time means now.
pub async fn a_job_due_in_the_past_is_ready(bed: Bed) {
    for at in [0, 1, -5, i64::MIN] {
        let mut job = NewJob::new(JobId::make(), envelope("past"));
        job.due = Due::AtMs(at);
        let id = job.id.clone();
        assert_eq!(bed.put_job(job).await, Enqueued::Stored);
        assert_eq!(bed.state(&id).await, Some(JobState::Ready), "due at {at}");
    }
    assert_eq!(bed.lane().await.claim(10).await.len(), 4);
}

/// A time in the future is kept to the millisecond.
pub async fn a_job_due_at_a_time_is_scheduled_for_it(bed: Bed) {
    let at = now(&bed).await + 3_600_000;
    let mut job = NewJob::new(JobId::make(), envelope("future"));
    job.due = Due::AtMs(at);
    let id = job.id.clone();
    bed.put_job(job).await;
    let record = bed.show(&id).await.expect("it is scheduled");
    assert_eq!((record.state, record.at_ms), (JobState::Scheduled, Some(at)));
}

/// A registration returns the broker's time.
pub async fn a_registration_reports_the_time(bed: Bed) {
    let before = now(&bed).await;
    let process = ProcessId::random();
    for request in [Register::lane(bed.queue.clone(), process, LONG), Register::producer(bed.queue.clone(), process)] {
        let told = bed.broker.register(&request).await.expect("it can register").now_ms;
        let after = now(&bed).await;
        assert!(before <= told && told <= after, "{before} <= {told} <= {after}");
    }
}

/// A delay beyond all calendars is a far future time.
pub async fn an_endless_delay_does_not_overflow(bed: Bed) {
    let id = bed.put_later(Duration::MAX).await;
    assert_eq!(bed.state(&id).await, Some(JobState::Scheduled));
    let mut lane = bed.lane().await;
    assert!(lane.claim(1).await.is_empty());
    let ids = bed.put(1).await;
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, nack(Duration::MAX)).await);
    assert_eq!(bed.state(&ids[0]).await, Some(JobState::Retry));
    assert!(lane.claim(1).await.is_empty());
}

/// Jobs that become due are served in the order of their times, after ready jobs.
pub async fn due_jobs_join_the_tail_in_the_order_of_their_times(bed: Bed) {
    let jobs = [40, 20].map(|ms| {
        let mut job = NewJob::new(JobId::make(), envelope("due"));
        job.due = Due::After(Duration::from_millis(ms));
        job
    });
    let [late, early] = [0, 1].map(|n: usize| jobs[n].id.clone());
    bed.producer().await.stored(jobs.into()).await;
    let ready = bed.put(1).await;
    let mut lane = bed.lane().await;
    eventually("both are due", async || {
        let turn = lane.next();
        (lane.send(&turn).await.next_due.is_none()).then_some(())
    })
    .await;
    let served: Vec<JobId> = lane.claim(3).await.into_iter().map(|delivery| delivery.id).collect();
    assert_eq!(served, [ready[0].clone(), early, late]);
}

/// Every due job is promoted, however many there are.
pub async fn many_jobs_due_at_once_are_all_served(bed: Bed) {
    let mut producer = bed.producer().await;
    for _ in 0..3 {
        let jobs = (0..400).map(|_| {
            let mut job = NewJob::new(JobId::make(), envelope("due"));
            job.due = Due::After(Duration::from_millis(5));
            job
        });
        producer.stored(jobs.collect()).await;
    }
    let mut lane = bed.lane().await;
    let mut served = 0;
    eventually("all are served", async || {
        let held = lane.claim(500).await;
        served += held.len();
        lane.ack(&held).await;
        (served == 1200).then_some(())
    })
    .await;
}

/// If many jobs are due, one turn moves a bounded number of them.
pub async fn a_turn_moves_a_bounded_number_of_due_jobs(bed: Bed) {
    const MANY: usize = 2 * DUE_ITEMS + 100;
    let due = now(&bed).await + 2_000;
    let mut producer = bed.producer().await;
    for jobs in [DUE_ITEMS, DUE_ITEMS, 100] {
        let jobs = (0..jobs).map(|_| {
            let mut job = NewJob::new(JobId::make(), envelope("due"));
            job.due = Due::AtMs(due);
            job
        });
        producer.stored(jobs.collect()).await;
    }
    assert_eq!(bed.depth(JobState::Scheduled).await, MANY as u64, "none is due yet");
    let mut lane = bed.lane().await;
    eventually("they are due", async || {
        let turn = lane.next();
        (lane.send(&turn).await.now_ms >= due).then_some(())
    })
    .await;
    assert_eq!(bed.depth(JobState::Scheduled).await, (MANY - DUE_ITEMS) as u64);
}

/// A turn returns when the next job is due, so that its worker can sleep until then.
pub async fn a_turn_reports_when_the_next_job_is_due(bed: Bed) {
    let mut lane = bed.lane().await;
    let turn = lane.next().claim(1);
    assert_eq!(lane.send(&turn).await.next_due, None);
    bed.put_later(LONG).await;
    let turn = lane.next().claim(1);
    let due = lane.send(&turn).await.next_due.expect("one is scheduled");
    assert!(due <= LONG + CUT && due > LONG - Duration::from_secs(30), "{due:?}");
    bed.put(1).await;
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, nack(Duration::from_secs(100))).await);
    let turn = lane.next().claim(1);
    let due = lane.send(&turn).await.next_due.expect("one waits for its backoff");
    assert!(due <= Duration::from_secs(100) + CUT && due > Duration::from_secs(70), "{due:?}");
}

/// The time to the next due job is relative to the returned reading of the clock.
pub async fn a_turn_counts_to_the_next_due_job_from_the_time_that_it_reports(bed: Bed) {
    let mut lane = bed.lane().await;
    let id = bed.put_later(LONG).await;
    let due = bed.show(&id).await.expect("it is scheduled").at_ms.expect("with a time");
    for _ in 0..300 {
        let turn = lane.next();
        let answer = lane.send(&turn).await;
        let left = answer.next_due.expect("one is due").as_nanos().div_ceil(1_000_000);
        assert_eq!(answer.now_ms + i64::try_from(left).unwrap(), due);
    }
}

/// A poll detects all waiting jobs, so it can replace a turn of an idle lane.
pub async fn a_look_overlooks_nothing(bed: Bed) {
    let has_work = async || bed.broker.has_work(&bed.queue).await.expect("it is answered");
    let mut lane = bed.lane().await;
    let nothing = has_work().await;
    assert!(!nothing || bed.broker.info().kind != "redis", "Redis can tell that there is nothing");
    for priority in [Priority::Critical, Priority::High, Priority::Normal, Priority::Low] {
        bed.put_at(priority).await;
        assert!(has_work().await, "{priority:?}");
        let held = lane.claim_one().await;
        assert_eq!(has_work().await, nothing, "what runs waits for nobody");
        lane.ack(&[held]).await;
    }
    let later = bed.put_later(LONG).await;
    assert!(has_work().await, "scheduled");
    bed.broker.cancel(&bed.queue, &[later]).await.expect("a cancel is answered");
    assert_eq!(has_work().await, nothing);
    for ending in [nack(LONG), Ending::Park { task: "unknown".to_owned() }] {
        let id = bed.put(1).await.remove(0);
        let held = lane.claim_one().await;
        assert!(lane.end(&held, ending.clone()).await);
        assert!(has_work().await, "{ending:?}");
        bed.broker.cancel(&bed.queue, &[id]).await.expect("a cancel is answered");
        assert_eq!(has_work().await, nothing);
    }
    bed.put(2).await;
    let mut dying = bed.dying_lane().await;
    dying.claim(2).await;
    bed.reclaim(&[&dying], CrashRule { delay: SHORT, ..CrashRule::default() }).await;
    // The lane gets one of two suspects, and the other waits for its end.
    lane.wait_for_one().await;
    eventually("both have waited for their time", async || {
        let turn = lane.next();
        lane.send(&turn).await;
        (bed.depth(JobState::Retry).await == 0).then_some(())
    })
    .await;
    assert!(has_work().await, "a suspect");
}

/// The clock of the answers increases, and is that of the records.
pub async fn the_clock_goes_forward(bed: Bed) {
    let mut lane = bed.lane().await;
    let mut last = 0;
    for _ in 0..20 {
        let turn = lane.next();
        let now = lane.send(&turn).await.now_ms;
        assert!(now >= last);
        last = now;
    }
    let here = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("it is after 1970").as_millis();
    let here = i64::try_from(here).expect("it is not yet so late");
    assert!((here - last).abs() < 60_000, "milliseconds since 1970: {last} against {here}");
}

/// A waiting worker is notified of a new job.
pub async fn a_new_job_is_announced(bed: Bed) {
    let mut hints = bed.broker.hints(&bed.queue);
    let hint = announced(&mut hints, async || drop(bed.put(1).await)).await;
    assert!(hint.count > 0);
    assert!(hint.due.is_none_or(|due| due <= Instant::now() + Duration::from_secs(1)), "{hint:?}");
}

/// A worker in another process is notified as well.
pub async fn a_new_job_is_announced_to_other_processes(mut bed: Bed) {
    let other = bed.another_process().await;
    let mut hints = other.hints(&bed.queue);
    announced(&mut hints, async || drop(bed.put(1).await)).await;
}

/// A job that becomes the earliest to be due is announced with its time.
pub async fn a_job_that_is_due_earlier_than_all_is_announced(bed: Bed) {
    let mut hints = bed.broker.hints(&bed.queue);
    let mut minutes = 600;
    let mut earlier = async || {
        minutes -= 1;
        bed.put_later(Duration::from_secs(60 * minutes)).await;
    };
    let due = loop {
        // A spurious announcement has no time.
        if let Some(due) = announced(&mut hints, &mut earlier).await.due {
            break due.saturating_duration_since(Instant::now());
        }
    };
    assert!(due > Duration::from_secs(3600), "{due:?}");
}

/// A repeat and a snooze that become the earliest are also announced.
pub async fn a_job_that_comes_back_is_announced(bed: Bed) {
    let mut lane = bed.lane().await;
    bed.put(1).await;
    let mut hints = bed.broker.hints(&bed.queue);
    announced(&mut hints, async || {
        let delivery = lane.wait_for_one().await;
        assert!(lane.end(&delivery, Ending::Snooze { delay: Duration::from_millis(1) }).await);
    })
    .await;
    announced(&mut hints, async || {
        let delivery = lane.wait_for_one().await;
        assert!(lane.end(&delivery, Ending::Repeat { delay: Duration::ZERO }).await);
    })
    .await;
}

/// Repeats an action until it is announced, because an announcement may be lost.
async fn announced(hints: &mut Hints, mut act: impl AsyncFnMut()) -> Hint {
    for _ in 0..20 {
        act().await;
        if let Ok(hint) = tokio::time::timeout(Duration::from_millis(500), hints.next()).await {
            return hint;
        }
    }
    panic!("nothing was announced in ten seconds");
}

async fn now(bed: &Bed) -> i64 {
    let mut lane = bed.lane().await;
    let turn = lane.next();
    lane.send(&turn).await.now_ms
}
