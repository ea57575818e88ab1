//! The cases of `Oban.Testing` (Elixir) and of `drain_queue` that apply.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use queue_core::{JobState, prelude::*};
use queue_testing::{End, TestQueue, assert_enqueued, refute_enqueued};

use crate::tasks::*;

fn mail(to: &str, template: &str) -> queue_core::Job<send_mail> {
    send_mail::job(to.to_owned(), template.to_owned(), None)
}

#[tokio::test]
async fn assert_enqueued_checks_for_jobs_matching_the_given_properties() {
    let queue = TestQueue::new();
    mail("ada@b", "welcome").priority(Priority::High).tag("order", "17").enqueue(queue.client()).await.unwrap();
    mail("bob@b", "bye").queue("slow").header("tenant", "7").group("acme").enqueue(queue.client()).await.unwrap();
    assert_enqueued!(queue, send_mail);
    assert_enqueued!(queue, send_mail { to: "ada@b", .. });
    assert_enqueued!(queue, send_mail { to: "ada@b", template: "welcome" });
    assert_enqueued!(queue, send_mail { to: "ada@b", template: "welcome", copies: None::<u32> });
    assert_enqueued!(queue, send_mail { template: "welcome", .. }, queue = "mail", priority = Priority::High, tag = ("order", "17"));
    let job = assert_enqueued!(queue, send_mail { to: "bob@b", .. }, queue = "slow", header = ("tenant", "7"), group = "acme", count = 1);
    assert_eq!(job.task.as_deref(), Some("send_mail"));
    let (to, template) = ("bob@b", "bye");
    assert_enqueued!(queue, send_mail { to, template }, max_attempts = 3, state = JobState::Ready);
}

#[tokio::test]
async fn assert_enqueued_checks_scheduled_at_within_a_delta() {
    let queue = TestQueue::new();
    mail("ada@b", "later").delay(Duration::from_secs(600)).enqueue(queue.client()).await.unwrap();
    let at = queue.now() + Duration::from_secs(60);
    mail("bob@b", "then").at(at).enqueue(queue.client()).await.unwrap();
    assert_enqueued!(queue, send_mail { to: "ada@b", .. }, delay = "10m");
    assert_enqueued!(queue, send_mail { to: "ada@b", .. }, delay = Duration::from_millis(599_100));
    assert_enqueued!(queue, send_mail { to: "bob@b", .. }, at = at, delay = "60s");
    refute_enqueued!(queue, send_mail { to: "ada@b", .. }, delay = "9m");
    queue.advance("5m");
    assert_enqueued!(queue, send_mail { to: "ada@b", .. }, delay = "10m", state = JobState::Scheduled);
}

#[tokio::test]
async fn refute_enqueued_refutes_that_a_matching_job_exists() {
    let queue = TestQueue::new();
    refute_enqueued!(queue);
    mail("ada@b", "welcome").enqueue(queue.client()).await.unwrap();
    refute_enqueued!(queue, send_mail { to: "bob@b", .. });
    refute_enqueued!(queue, send_mail { to: "ada@b", .. }, queue = "slow");
    refute_enqueued!(queue, summary);
    queue.drain().await;
    refute_enqueued!(queue);
}

#[tokio::test]
async fn all_enqueued_retrieves_all_jobs_in_the_order_of_their_insertion() {
    let queue = TestQueue::new();
    for number in 0..300 {
        square::job(number).enqueue(queue.client()).await.unwrap();
        queue.advance(Duration::from_millis(1));
    }
    mail("ada@b", "later").delay(Duration::from_secs(60)).enqueue(queue.client()).await.unwrap();
    let jobs = queue.enqueued();
    let numbers: Vec<String> = jobs.iter().map(|job| job.payload_json().unwrap()).collect();
    assert_eq!((numbers.len(), numbers[0].as_str(), numbers[299].as_str()), (301, r#"{"number":0}"#, r#"{"number":299}"#));
    assert_eq!(jobs[300].task.as_deref(), Some("send_mail"));
}

#[tokio::test]
async fn perform_job_returns_the_result_and_passes_args_through_their_stored_form() {
    let queue = TestQueue::new();
    assert_eq!(queue.run_in_place(send_mail::job("ada@b".to_owned(), String::new(), Some(2))).await, Ok(4));
    assert_eq!(queue.run_in_place(adds::job(3, 4)).await, Ok(7), "a blocking task");
    assert_eq!(queue.run_in_place(summary::job()).await, Ok(()));
    let point = Point { x: -1, y: 0.25 };
    assert_eq!(queue.run_in_place(plots::job(vec![point.clone()], vec![1, 2], 0.1, "a".to_owned())).await, Ok(point));
    refute_enqueued!(queue);
}

#[tokio::test]
async fn perform_job_returns_failures_snoozes_cancellations_and_panics() {
    let queue = TestQueue::new();
    let End::Failed { error, .. } = queue.run_in_place(mail("nobody", "x")).await.unwrap_err() else { panic!("it fails") };
    assert_eq!(error, "`nobody` is not an address");
    assert_eq!(queue.run_in_place(snoozes_once::job()).await, Err(End::Snoozed(Duration::from_secs(60))));
    assert_eq!(queue.run_in_place(cancels::job()).await, Err(End::Cancelled("nobody wants it".to_owned())));
    let End::Failed { error, .. } = queue.run_in_place(panics::job()).await.unwrap_err() else { panic!("it panics") };
    assert!(error.contains("at the disco"), "{error}");
    let end = queue.run_in_place(flaky::job(1).max_attempts(1)).await.unwrap_err();
    assert!(matches!(&end, End::Dead { error, .. } if error == "attempt 1"), "{end}");
}

#[tokio::test]
async fn perform_job_with_a_payload_that_cannot_be_stored_reports_it() {
    let queue = TestQueue::new();
    let large = tokio::spawn(async move { queue.run_in_place(mail(&"a".repeat(300_000), "x")).await });
    let panic = large.await.unwrap_err().into_panic();
    assert!(panic.downcast_ref::<String>().is_some_and(|text| text.contains("more than the 262144 allowed")), "{panic:?}");
}

#[tokio::test]
async fn drain_queue_counts_the_ends_of_all_jobs() {
    let queue = TestQueue::new();
    let client = queue.client();
    for job in [mail("ada@b", "x"), mail("nobody", "x"), mail("nobody", "y").max_attempts(1)] {
        job.enqueue(client).await.unwrap();
    }
    buries::job().enqueue(client).await.unwrap();
    snoozes_once::job().enqueue(client).await.unwrap();
    cancels::job().enqueue(client).await.unwrap();
    panics::job().enqueue(client).await.unwrap();
    let drained = queue.drain().await;
    assert_eq!((drained.done, drained.failed, drained.dead, drained.snoozed, drained.others), (1, 2, 2, 1, 1), "{drained:?}");
    assert_eq!(drained.total(), 7);
    assert_eq!(queue.drain().await.total(), 0);
    // With safety off, Oban raises what a job has raised.
    let message = *std::panic::catch_unwind(|| drained.all_done()).unwrap_err().downcast::<String>().unwrap();
    assert!(message.starts_with("6 of 7 runs did not succeed:") && message.contains("`nobody` is not an address"), "{message}");
}

#[tokio::test]
async fn drain_queue_with_recursion_runs_the_jobs_that_jobs_enqueue() {
    let queue = TestQueue::new().data(AtomicU32::new(0));
    import::job(3).enqueue(queue.client()).await.unwrap();
    assert_eq!(queue.drain().await.all_done(), 4);
    assert_enqueued!(queue, summary, delay = "1h");
}

#[tokio::test]
async fn drain_queue_with_scheduled_runs_jobs_at_their_time() {
    let queue = TestQueue::new().data(AtomicU32::new(0));
    let began = queue.now();
    import::job(2).enqueue(queue.client()).await.unwrap();
    assert_eq!(queue.drain_for("59m").await.all_done(), 3);
    assert_eq!(queue.drain_for("1m").await.all_done(), 1);
    assert_eq!(queue.now(), began + Duration::from_secs(3600));
    refute_enqueued!(queue);
}

#[tokio::test]
async fn drain_queue_runs_one_queue() {
    let queue = TestQueue::new();
    mail("ada@b", "x").enqueue(queue.client()).await.unwrap();
    square::job(3).enqueue(queue.client()).await.unwrap();
    assert_eq!(queue.drain_queue("squares").await.done, 1);
    assert_enqueued!(queue, send_mail);
    assert_eq!(queue.drain_queue("nothing").await.total(), 0);
}

#[tokio::test]
async fn drain_queue_with_limit_runs_no_more_jobs() {
    let queue = TestQueue::new();
    for number in 0..3 {
        square::job(number).enqueue(queue.client()).await.unwrap();
    }
    let ran = queue.run_one().await.expect("three wait");
    assert_eq!((ran.task.as_str(), ran.attempt, &ran.end), ("square", 1, &End::Done));
    assert_enqueued!(queue, square, count = 2);
    queue.run_one().await.expect("two wait");
    queue.run_one().await.expect("one waits");
    assert_eq!(queue.run_one().await, None);
}

#[tokio::test]
async fn jobs_run_in_the_order_of_their_priority_and_get_their_data() {
    let count = std::sync::Arc::new(AtomicU32::new(0));
    let queue = TestQueue::new().shared_data(count.clone());
    counts::job().priority(Priority::Low).enqueue(queue.client()).await.unwrap();
    summary::job().priority(Priority::High).enqueue(queue.client()).await.unwrap();
    let tasks: Vec<String> = queue.drain().await.runs.into_iter().map(|ran| ran.task).collect();
    assert_eq!((tasks, count.load(Relaxed)), (vec!["summary".to_owned(), "counts".to_owned()], 1));
}
