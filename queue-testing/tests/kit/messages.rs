//! Mistakes in a test.

use std::panic::{AssertUnwindSafe, catch_unwind};

use queue_testing::{Fault, TestQueue, assert_enqueued};

use crate::tasks::*;

fn message(mistake: impl FnOnce()) -> String {
    *catch_unwind(AssertUnwindSafe(mistake)).expect_err("it is a mistake").downcast::<String>().expect("a formatted message")
}

#[tokio::test]
async fn a_parameter_that_the_task_does_not_have_is_named() {
    let queue = TestQueue::new();
    let message = message(|| drop(assert_enqueued!(queue, send_mail { too: "ada@b", .. })));
    assert_eq!(message, "task `send_mail` has no parameter `too`; did you mean `to`? (it has: to, template, copies)");
}

#[tokio::test]
async fn values_are_compared_as_they_are_stored() {
    let queue = TestQueue::new();
    plots::job(vec![Point { x: 1, y: 2.5 }], vec![0, 255, 7, 1], 0.1, "line".to_owned()).enqueue(queue.client()).await.unwrap();
    assert_enqueued!(queue, plots { points: [Point { x: 1, y: 2.5 }], image: [0, 255, 7, 1], opacity: 0.1, r#type: "line" });
    let text = message(|| drop(assert_enqueued!(queue, plots { image: [0, 255, 7], .. })));
    assert!(text.contains(r#"found:    {"$base64":"AP8HAQ=="}"#), "{text}");
    let text = message(|| drop(assert_enqueued!(queue, plots { opacity: 0.2, .. })));
    assert!(text.contains("opacity"), "{text}");
}

#[test]
fn a_time_that_cannot_be_read_reports_how_to_write_it() {
    let queue = TestQueue::new();
    let text = message(|| queue.advance("10 parsecs"));
    assert!(text.starts_with("time `10 parsecs`: ") && text.ends_with("write it like `10m` or `1h 30m`"), "{text}");
}

#[tokio::test]
async fn a_value_that_a_handler_lacks_fails_its_job() {
    let queue = TestQueue::new();
    counts::job().enqueue(queue.client()).await.unwrap();
    let drained = queue.drain().await;
    let message = message(|| assert_eq!(drained.all_done(), 1));
    assert!(message.contains("the worker has no value of type"), "{message}");
}

#[tokio::test]
async fn calls_fail_on_demand() {
    let queue = TestQueue::new();
    let send = || square::job(3).enqueue(queue.client());
    queue.fail_next(Fault::Unavailable);
    let refused = send().await.unwrap_err();
    assert!(matches!(refused, queue_core::Error::Unavailable { .. }), "{refused}");
    assert_eq!(queue.enqueued().len(), 0);
    send().await.unwrap();
    queue.fail_next(Fault::Full);
    assert!(matches!(send().await, Err(queue_core::Error::BrokerFull { .. })));
    queue.fail_next(Fault::Unavailable);
    assert!(send().await.unwrap_err().is_transient(), "the client is known by now");
    queue.fail_next(Fault::Unknown);
    let queue_core::Error::Unknown(pending) = send().await.unwrap_err() else { panic!("its fate is unknown") };
    assert_enqueued!(queue, square { number: 3 }, count = 2);
    pending.retry().await.unwrap();
    assert_enqueued!(queue, square { number: 3 }, count = 2);
}

#[tokio::test]
async fn a_handler_meets_a_failure_and_is_retried() {
    let queue = TestQueue::new().data(std::sync::atomic::AtomicU32::new(0));
    import::job(1).enqueue(queue.client()).await.unwrap();
    queue.fail_next(Fault::Unavailable);
    let drained = queue.drain().await;
    assert_eq!((drained.failed, drained.total()), (1, 1), "{drained:?}");
    assert_eq!(queue.drain_for("2h").await.all_done(), 3);
}
