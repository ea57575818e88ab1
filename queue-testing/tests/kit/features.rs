//! The features of the broker are in effect, and tests share nothing.

use std::{
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::Instant,
};

use queue_core::{JobState, prelude::*};
use queue_testing::{TestQueue, assert_enqueued, refute_enqueued};

use crate::tasks::*;

#[tokio::test]
async fn a_handler_may_wait_for_another_job() {
    let queue = TestQueue::new();
    let asked = asks::job(6).retention(Duration::from_secs(60)).enqueue(queue.client()).await.unwrap();
    assert_eq!(queue.drain().await.all_done(), 2);
    assert!(matches!(asked.result().await, Ok(JobResult::Done(37))));
    asks::job(2).enqueue(queue.client()).await.unwrap();
    let ran = queue.run_one().await.expect("it can start");
    assert_eq!(ran.task, "asks");
    refute_enqueued!(queue);
}

#[tokio::test]
async fn a_full_group_refuses_a_job() {
    let queue = TestQueue::new();
    let serve = || serves::job("acme".to_owned()).enqueue(queue.client());
    for _ in 0..2 {
        serve().await.unwrap();
    }
    assert!(matches!(serve().await, Err(queue_core::Error::GroupFull { .. })));
    assert_enqueued!(queue, serves, group = "acme", count = 2);
    assert_eq!(queue.drain().await.all_done(), 2);
}

#[tokio::test]
async fn a_key_skips_a_second_job() {
    let queue = TestQueue::new();
    charges::job("ada".to_owned(), 1).enqueue(queue.client()).await.unwrap();
    assert!(charges::job("ada".to_owned(), 2).enqueue(queue.client()).await.unwrap().existing());
    assert_enqueued!(queue, charges, count = 1, unique_key = r#"customer="ada""#);
}

#[tokio::test]
async fn a_dead_job_can_be_examined() {
    let queue = TestQueue::new();
    buries::job().enqueue(queue.client()).await.unwrap();
    assert_eq!(queue.drain().await.dead, 1);
    let dead = assert_enqueued!(queue, buries, state = JobState::Dead);
    assert_eq!(dead.last_error(), Some("it can never succeed"));
    queue.inspector().requeue(&dead.address).await.unwrap();
    assert_enqueued!(queue, buries, state = JobState::Ready);
}

#[tokio::test]
async fn many_queues_live_beside_each_other() {
    let queues: Vec<TestQueue> = (0..50).map(|_| TestQueue::new()).collect();
    for (number, queue) in (0..).zip(&queues) {
        square::job(number).enqueue(queue.client()).await.unwrap();
    }
    for (number, queue) in (0_u64..).zip(&queues) {
        assert_enqueued!(queue, square { number }, count = 1);
        assert_eq!(queue.drain().await.all_done(), 1);
    }
}

/// For the documentation: `cargo test -p queue-testing --test kit -- --ignored --nocapture`.
#[test]
#[ignore = "it prints a figure"]
fn a_thousand_tests_of_one_job() {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (left, began) = (AtomicUsize::new(1_000), Instant::now());
    let tests = || {
        while left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok() {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let queue = TestQueue::new();
                square::job(3).enqueue(queue.client()).await.unwrap();
                assert_enqueued!(queue, square { number: 3 });
                assert_eq!(queue.drain().await.all_done(), 1);
            });
        }
    };
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(tests))));
    println!("1,000 tests of one job in {:.2?} on {threads} threads", began.elapsed());
}
