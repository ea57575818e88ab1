//! The cases of `rivertest` (Go) that apply.

use std::panic::{AssertUnwindSafe, catch_unwind};

use queue_core::{JobState, prelude::*};
use queue_testing::{TestQueue, assert_enqueued, refute_enqueued};

use crate::tasks::*;

fn message(assertion: impl FnOnce()) -> String {
    *catch_unwind(AssertUnwindSafe(assertion)).expect_err("the assertion fails").downcast::<String>().expect("a formatted message")
}

#[tokio::test]
async fn require_inserted_returns_the_job() {
    let queue = TestQueue::new();
    let stored = square::job(7).enqueue(queue.client()).await.unwrap();
    assert_eq!(assert_enqueued!(queue, square { number: 7 }).address, *stored.address());
}

#[tokio::test]
async fn require_inserted_fails_if_nothing_was_inserted() {
    let queue = TestQueue::new();
    assert_eq!(message(|| drop(assert_enqueued!(queue, square { number: 7 }))), "no job matches: square { number: 7 }\nNo job waits.");
    summary::job().enqueue(queue.client()).await.unwrap();
    let message = message(|| drop(assert_enqueued!(queue, square)));
    assert_eq!(message, "no job matches: square { .. }\nNo job of this task waits. Jobs of other tasks wait: `summary` (1).");
}

#[tokio::test]
async fn require_inserted_does_not_see_jobs_of_another_test() {
    let (one, other) = (TestQueue::new(), TestQueue::new());
    square::job(7).enqueue(one.client()).await.unwrap();
    refute_enqueued!(other);
}

#[tokio::test]
async fn require_inserted_with_opts_shows_each_option_that_differs() {
    let queue = TestQueue::new();
    let job = send_mail::job("ada@b".to_owned(), "x".to_owned(), Some(2)).delay(Duration::from_secs(300)).tag("order", "18");
    let address = job.enqueue(queue.client()).await.unwrap().address().clone();
    let message = message(|| {
        assert_enqueued!(
            queue,
            send_mail { to: "bob@b", template: "x" },
            queue = "slow",
            priority = Priority::High,
            delay = "10m",
            tag = ("order", "17"),
            header = ("tenant", "7"),
            state = JobState::Scheduled,
            max_attempts = 5,
        );
    });
    let expected = format!(
        "no job matches: send_mail {{ to: \"bob@b\", template: \"x\" }} with queue slow, priority high, delay 10m, tag order 17, header tenant 7, \
         state scheduled, max_attempts 5
The only job of this task is {address} (scheduled):
    to
        expected: \"bob@b\"
        found:    \"ada@b\"
    copies
        expected: not named: name it, or end the pattern with `..`
        found:    2
    queue
        expected: slow
        found:    mail
    priority
        expected: high
        found:    normal
    delay
        expected: 10m
        found:    5m
    tag order
        expected: 17
        found:    18
    header tenant
        expected: 7
        found:    none
    max_attempts
        expected: 5
        found:    3"
    );
    assert_eq!(message, expected);
}

#[tokio::test]
async fn require_inserted_shows_the_nearest_job() {
    let queue = TestQueue::new();
    for (to, template) in [("ada@b", "x"), ("bob@b", "y"), ("eve@b", "z")] {
        send_mail::job(to.to_owned(), template.to_owned(), None).enqueue(queue.client()).await.unwrap();
    }
    let message = message(|| drop(assert_enqueued!(queue, send_mail { to: "bob@b", template: "z" }, queue = "mail")));
    assert!(message.contains("The nearest job") && message.contains("template") && message.contains("\"y\""), "{message}");
}

#[tokio::test]
async fn require_many_inserted_checks_how_many_jobs_match() {
    let queue = TestQueue::new();
    client_enqueues(&queue).await;
    assert_enqueued!(queue, square, count = 3);
    assert_enqueued!(queue, square { number: 1 }, count = 2);
    let message = message(|| drop(assert_enqueued!(queue, square { number: 1 }, count = 1)));
    assert!(message.starts_with("2 jobs match, and not 1: square { number: 1 }\n    square {\"number\":1} (squares/"), "{message}");
    let tasks: Vec<_> = queue.enqueued().into_iter().filter_map(|job| job.task).collect();
    assert_eq!(tasks, ["square", "square", "square", "summary"]);
}

async fn client_enqueues(queue: &TestQueue) {
    queue.client().enqueue_all([1, 1, 2].map(square::job)).await.unwrap();
    queue.advance("1s");
    summary::job().enqueue(queue.client()).await.unwrap();
}

#[tokio::test]
async fn require_not_inserted_shows_the_jobs_that_match() {
    let queue = TestQueue::new();
    refute_enqueued!(queue, square);
    client_enqueues(&queue).await;
    refute_enqueued!(queue, square { number: 3 });
    let one = message(|| refute_enqueued!(queue, square { number: 2 }));
    assert!(one.starts_with("a job matches, and none should: square { number: 2 }\n    square {\"number\":2} (squares/"), "{one}");
    assert!(message(|| refute_enqueued!(queue)).starts_with("jobs wait, and none should:\n    square"));
}
