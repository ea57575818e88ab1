//! Everything that waits follows the clock of the test.

use std::time::UNIX_EPOCH;

use queue_core::{JobState, prelude::*, schedule::Schedule};
use queue_testing::{TestQueue, assert_enqueued, refute_enqueued};
use queue_worker::Worker;

use crate::tasks::*;

#[test]
fn the_clock_stands_until_it_is_moved() {
    let queue = TestQueue::starting_at(UNIX_EPOCH + Duration::from_secs(86_400));
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(queue.now(), UNIX_EPOCH + Duration::from_secs(86_400));
    queue.advance("1h 30m");
    queue.advance(Duration::from_micros(1));
    assert_eq!(queue.now(), UNIX_EPOCH + Duration::from_millis(91_800_001));
}

#[test]
fn a_delayed_job_starts_at_its_time_and_not_before() {
    queue_testing::block_on(async {
        let queue = TestQueue::new();
        summary::job().delay(Duration::from_secs(600)).enqueue(queue.client()).await.unwrap();
        assert_eq!(queue.drain().await.total(), 0);
        queue.advance(Duration::from_millis(599_999));
        assert_eq!(queue.drain().await.total(), 0);
        queue.advance(Duration::from_millis(1));
        assert_eq!(queue.drain().await.done, 1);
    });
}

#[tokio::test]
async fn a_job_is_stamped_with_the_time_of_the_test() {
    let queue = TestQueue::starting_at(UNIX_EPOCH + Duration::from_secs(1_000_000));
    summary::job().enqueue(queue.client()).await.unwrap();
    queue.advance("10s");
    summary::job().enqueue(queue.client()).await.unwrap();
    let times: Vec<_> = queue.enqueued().into_iter().map(|job| job.enqueued_at.unwrap()).collect();
    assert_eq!(times, [1_000_000, 1_000_010].map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds)));
}

#[tokio::test]
async fn a_failed_job_waits_for_its_backoff() {
    let queue =
        TestQueue::new().worker(|worker| worker.backoff(queue_core::Backoff { base: Duration::from_secs(60), ..Default::default() }));
    flaky::job(2).enqueue(queue.client()).await.unwrap();
    assert_eq!(queue.drain().await.failed, 1);
    queue.advance("29s");
    assert_eq!(queue.drain().await.total(), 0, "at least half of the backoff");
    queue.advance("31s");
    assert_eq!(queue.drain().await.failed, 1);
    let drained = queue.drain_for("2m").await;
    assert_eq!((drained.done, drained.runs[0].attempt), (1, 3));
}

#[tokio::test]
async fn snoozes_end() {
    let queue = TestQueue::new();
    snoozes_once::job().enqueue(queue.client()).await.unwrap();
    let drained = queue.drain_for("60s").await;
    assert_eq!((drained.snoozed, drained.done), (1, 1));
}

#[tokio::test]
async fn a_job_expires() {
    let queue = TestQueue::new();
    for seconds in [60, 180] {
        summary::job().expires(Duration::from_secs(seconds)).enqueue(queue.client()).await.unwrap();
    }
    queue.advance("2m");
    let drained = queue.drain().await;
    assert_eq!((drained.done, drained.others), (1, 1), "{drained:?}");
}

#[tokio::test]
async fn a_key_is_held_within_its_time() {
    let queue = TestQueue::new();
    let charge = |cents| charges::job("ada".to_owned(), cents).enqueue(queue.client());
    assert!(!charge(1).await.unwrap().existing());
    queue.drain().await;
    queue.advance("9m");
    charge(2).await.unwrap();
    refute_enqueued!(queue, charges { cents: 2_u64, .. });
    queue.advance("61s");
    charge(3).await.unwrap();
    assert_enqueued!(queue, charges { cents: 3_u64, .. }, count = 1);
}

#[tokio::test]
async fn a_rate_lets_jobs_start_as_time_passes() {
    let queue = TestQueue::new();
    for number in 0..3 {
        calls::job(number).enqueue(queue.client()).await.unwrap();
    }
    assert_eq!(queue.drain().await.done, 1);
    queue.advance("59s");
    assert_eq!(queue.drain().await.done, 0);
    queue.advance("1s");
    assert_eq!(queue.drain().await.done, 1);
    assert_eq!(queue.drain_for("1m").await.done, 1);
}

#[tokio::test]
async fn a_done_job_is_removed_after_its_retention() {
    let queue = TestQueue::new();
    let handle = square::job(5).retention(Duration::from_secs(60)).enqueue(queue.client()).await.unwrap();
    queue.drain().await;
    queue.advance("59s");
    assert!(matches!(handle.result().await, Ok(JobResult::Done(25))));
    queue.advance("2s");
    assert_eq!(handle.status().await.unwrap(), None);
}

#[tokio::test]
async fn a_schedule_ticks_at_its_times() {
    let hourly = |worker: Worker| worker.schedule(Schedule::cron("hourly", "0 * * * *").job(square::job(2)));
    let start = UNIX_EPOCH + Duration::from_secs(1_800_000_000 / 3600 * 3600 + 1);
    let queue = TestQueue::starting_at(start).worker(hourly);
    assert_eq!(queue.drain_for("59m").await.total(), 0);
    assert_eq!(queue.drain_for("24h").await.all_done(), 24);
    let record = queue.client().schedules().get(&"squares/hourly".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!((record.made, record.skipped), (24, 0));
}

#[tokio::test]
async fn a_worker_of_the_tests_own_is_notified_of_work_that_is_due() {
    let queue = TestQueue::new();
    let waiting = square::job(4).delay(Duration::from_secs(3600)).retention(Duration::from_secs(60)).enqueue(queue.client()).await.unwrap();
    let (client, stop) = (queue.client().clone(), queue_worker::Shutdown::new());
    let worker =
        tokio::spawn(Worker::new(client).registry(queue_core::Registry::declared_in("none")).register::<square>().run_with(stop.clone()));
    while queue.inspector().workers().await.map_or(true, |workers| workers.is_empty()) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    queue.advance("1h");
    assert!(matches!(waiting.wait(Duration::from_secs(60)).await, Ok(JobResult::Done(16))));
    stop.drain();
    worker.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_sleeps_needs_no_time_where_tokios_clock_is_paused() {
    let queue = TestQueue::new();
    for _ in 0..3 {
        square::job(1).delay(Duration::from_secs(3)).enqueue(queue.client()).await.unwrap();
    }
    assert_enqueued!(queue, square, delay = "3s", count = 3, state = JobState::Scheduled);
    assert_eq!(queue.drain_for("1h").await.done, 3);
}
