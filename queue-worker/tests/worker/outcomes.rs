//! Outcomes of handlers, and their effect on the jobs.

use std::{sync::Arc, time::Instant};

use crate::common::{self, Probe, address_in, enqueue_bytes, memory, run, until_state, wait, worker};
use queue_core::{
    __private::Envelope,
    RawJob, Registry,
    broker::{BuryReason, Counter, JobState},
    prelude::*,
};

#[task(queue = "ok", retention = "1h")]
async fn double(number: u32) -> Result<u32, std::io::Error> {
    Ok(number * 2)
}

#[task(queue = "retry", retention = "1h")]
async fn third_time(ctx: JobContext) -> Result<u32, String> {
    if ctx.attempt() < 3 { Err(format!("attempt {} is too early", ctx.attempt())) } else { Ok(ctx.attempt()) }
}

#[task(queue = "calls")]
async fn triple(number: u32) -> Result<u32, std::io::Error> {
    Ok(number * 3)
}

#[task(queue = "calls")]
async fn waits_for_ever() {
    std::future::pending::<()>().await;
}

#[derive(Debug, thiserror::Error)]
#[error("the order cannot be closed")]
struct Closing(#[source] std::io::Error);

fn refused() -> Closing {
    Closing(std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "the shop is closed"))
}

#[task(queue = "chains", max_attempts = 3)]
async fn meets_errors(ctx: JobContext) -> Result<Outcome, Closing> {
    match ctx.attempt() {
        1 => Err(refused()),
        2 => Ok(Outcome::retry(refused())),
        _ => Ok(Outcome::bury(refused())),
    }
}

#[task(queue = "hopeless", max_attempts = 2)]
async fn hopeless() -> Result<(), String> {
    Err("no".to_owned())
}

#[task(queue = "panics", max_attempts = 1)]
async fn panics() {
    panic!("as it must");
}

#[task(queue = "late", max_attempts = 1, timeout = "50ms")]
async fn never_ends() {
    std::future::pending::<()>().await;
}

#[task(queue = "snooze", retention = "1h")]
async fn snoozes_twice(ctx: JobContext) -> Outcome {
    if ctx.snoozes() < 2 { Outcome::Snooze(Duration::from_millis(20)) } else { Outcome::Done }
}

#[task(queue = "rounds")]
async fn rounds(probe: Data<Probe>, ctx: JobContext) -> Outcome {
    assert_eq!((ctx.attempt(), ctx.snoozes()), (1, 0));
    probe.note("round");
    Outcome::Repeat(Duration::from_millis(10))
}

#[task(queue = "unwanted")]
async fn unwanted() -> Result<(), Outcome> {
    Err(Outcome::Cancel("nobody wants it".to_owned()))
}

#[task(queue = "buried")]
async fn buried() -> Outcome {
    Outcome::Bury("beyond repair".to_owned())
}

#[task(queue = "sync", blocking, retention = "1h")]
#[allow(clippy::needless_pass_by_value, reason = "the text is the payload")]
fn blocks(text: String) -> Result<usize, std::io::Error> {
    Ok(text.len())
}

#[task(queue = "long")]
async fn long(probe: Data<Probe>, ctx: JobContext) {
    probe.note("started");
    probe.note(format!("{:?}", ctx.cancelled().await));
}

#[task(queue = "after")]
async fn retries_after() -> Outcome {
    Outcome::RetryAfter(Duration::from_secs(3600), "not before an hour".into())
}

#[task(queue = "custom")]
async fn fails() -> Result<(), String> {
    Err("as always".to_owned())
}

#[task(queue = "ages")]
async fn sleeps_for_ages() -> Outcome {
    Outcome::Snooze(Duration::MAX)
}

#[task(queue = "newcomer", alias = "old_name", retention = "1h")]
async fn newcomer(text: String) -> Result<String, String> {
    Ok(text)
}

#[task(queue = "clock", timeout = "1h", retention = "1h")]
async fn tells_its_times(ctx: JobContext) -> Result<bool, String> {
    let deadline = ctx.deadline().ok_or("no deadline")?;
    Ok(ctx.lease_until() > Instant::now() && deadline > Instant::now() + Duration::from_secs(3000))
}

#[tokio::test]
async fn a_queue_keeps_no_more_done_jobs_than_the_worker_allows() {
    let (client, probe) = (memory().await, Arc::new(Probe::default()));
    client.enqueue_all((0..5).map(double::job)).await.unwrap();
    let inspector = client.inspector();
    let ended = async {
        common::until("five jobs to be done", || async { inspector.stats("ok").await.unwrap().total(Counter::Done) == 5 }).await;
        assert_eq!(inspector.list("ok", JobState::Done, 0, 10).await.unwrap().jobs.len(), 2);
    };
    run(worker(&client, &probe).queue("ok").retention_count(2), ended).await;
}

#[tokio::test]
async fn a_result_is_kept_where_it_is_asked_for() {
    let client = memory().await;
    let handle = double::job(21).enqueue(&client).await.unwrap();
    run(worker(&client, &Arc::default()), async { until_state(&handle, Some(JobState::Done)).await }).await;
    assert_eq!(handle.result().await.unwrap(), JobResult::Done(42));
}

#[tokio::test]
async fn a_failure_is_retried_until_it_succeeds() {
    let client = memory().await;
    let handle = third_time::job().enqueue(&client).await.unwrap();
    run(worker(&client, &Arc::default()), async { until_state(&handle, Some(JobState::Done)).await }).await;
    assert_eq!(handle.result().await.unwrap(), JobResult::Done(3));
    let record = client.inspector().show(handle.address()).await.unwrap();
    assert_eq!(record.errors.len(), 2);
    assert!(record.errors[0].message.contains("attempt 1"));
}

#[tokio::test]
async fn the_last_failure_buries_with_its_history() {
    let client = memory().await;
    let handle = hopeless::job().enqueue(&client).await.unwrap();
    run(worker(&client, &Arc::default()), async { until_state(&handle, Some(JobState::Dead)).await }).await;
    assert_eq!(handle.result().await.unwrap(), JobResult::Dead("failed: no".to_owned()));
    let record = client.inspector().show(handle.address()).await.unwrap();
    assert_eq!((record.failures, record.errors.len()), (2, 2));
}

#[tokio::test]
async fn a_panic_and_a_timeout_are_failures_of_their_job_alone() {
    let client = memory().await;
    let (panicked, late) = (panics::job().enqueue(&client).await.unwrap(), never_ends::job().enqueue(&client).await.unwrap());
    let fine = double::job(1).enqueue(&client).await.unwrap();
    run(worker(&client, &Arc::default()), async {
        until_state(&panicked, Some(JobState::Dead)).await;
        until_state(&late, Some(JobState::Dead)).await;
        until_state(&fine, Some(JobState::Done)).await;
    })
    .await;
    let record = client.inspector().show(panicked.address()).await.unwrap();
    let place = format!("panicked: as it must ({}:", file!());
    assert!(record.errors[0].message.starts_with(&place), "the file and the line are stored: {record:?}");
    assert_eq!(panicked.result().await.unwrap(), JobResult::Dead(format!("failed: {}", record.errors[0].message)));
    assert_eq!(late.result().await.unwrap(), JobResult::Dead("failed: timed out after 50ms".to_owned()));
}

#[tokio::test]
async fn snoozes_are_counted_apart_from_attempts() {
    let client = memory().await;
    let handle = snoozes_twice::job().enqueue(&client).await.unwrap();
    run(worker(&client, &Arc::default()), async { until_state(&handle, Some(JobState::Done)).await }).await;
    let record = client.inspector().show(handle.address()).await.unwrap();
    assert_eq!((record.failures, record.snoozes), (0, 2));
}

#[tokio::test]
async fn a_repeating_job_goes_round_with_clean_counters() {
    let (client, probe) = (memory().await, Arc::new(Probe::default()));
    let handle = rounds::job().enqueue(&client).await.unwrap();
    run(worker(&client, &probe), async { probe.noted("round", 5).await }).await;
    assert!(handle.status().await.unwrap().is_some_and(|state| !state.is_final()));
}

#[tokio::test]
async fn a_handler_can_cancel_or_bury_its_job() {
    let client = memory().await;
    let (one, other) = (unwanted::job().enqueue(&client).await.unwrap(), buried::job().enqueue(&client).await.unwrap());
    run(worker(&client, &Arc::default()), async {
        until_state(&one, Some(JobState::Cancelled)).await;
        until_state(&other, Some(JobState::Dead)).await;
    })
    .await;
    assert_eq!(one.result().await.unwrap(), JobResult::Cancelled);
    assert_eq!(other.result().await.unwrap(), JobResult::Dead("buried: beyond repair".to_owned()));
}

#[tokio::test]
async fn a_sync_function_runs_on_a_thread_of_its_own() {
    let client = memory().await;
    let handle = blocks::job("four".to_owned()).enqueue(&client).await.unwrap();
    run(worker(&client, &Arc::default()), async { until_state(&handle, Some(JobState::Done)).await }).await;
    assert_eq!(handle.result().await.unwrap(), JobResult::Done(4));
}

#[tokio::test]
async fn a_delayed_job_does_not_start_early() {
    let client = memory().await;
    let before = std::time::Instant::now();
    let handle = double::job(1).delay(Duration::from_millis(300)).enqueue(&client).await.unwrap();
    run(worker(&client, &Arc::default()), async { until_state(&handle, Some(JobState::Done)).await }).await;
    assert!(before.elapsed() >= Duration::from_millis(300));
}

#[tokio::test]
async fn cancelling_a_running_job_stops_its_handler() {
    let (client, probe) = (memory().await, Arc::new(Probe::default()));
    let handle = long::job().enqueue(&client).await.unwrap();
    let stopped = run(worker(&client, &probe).lease(Duration::from_secs(2)), async {
        probe.noted("started", 1).await;
        client.inspector().cancel(handle.address()).await.unwrap();
        probe.noted("Cancelled", 1).await;
    })
    .await;
    assert!(stopped.is_clean(), "{stopped:?}");
    assert_eq!(handle.status().await.unwrap(), Some(JobState::Cancelled));
}

#[tokio::test]
async fn a_retry_after_its_own_time_counts_an_attempt() {
    let client = memory().await;
    let handle = retries_after::job().enqueue(&client).await.unwrap();
    run(worker(&client, &Arc::default()), async { until_state(&handle, Some(JobState::Retry)).await }).await;
    let record = client.inspector().show(handle.address()).await.unwrap();
    assert_eq!((record.failures, record.errors[0].message.as_str()), (1, "not before an hour"));
    assert!(record.due_at.unwrap() - Duration::from_secs(3600) >= record.errors[0].at.unwrap());
}

#[tokio::test]
async fn a_custom_backoff_decides_and_one_that_panics_does_not() {
    let (client, probe) = (memory().await, Arc::new(Probe::default()));
    let handle = fails::job().enqueue(&client).await.unwrap();
    let reported = probe.clone();
    let worker = worker(&client, &probe).custom_backoff(move |failed| {
        reported.note(format!("{} {} {} {}", failed.queue, failed.task, failed.attempt, failed.error));
        match failed.attempt {
            1 => panic!("as it must"),
            2 => Duration::ZERO,
            _ => Duration::from_secs(7200),
        }
    });
    run(worker, async {
        probe.noted("custom fails 3 as always", 1).await;
        until_state(&handle, Some(JobState::Retry)).await;
    })
    .await;
    let record = client.inspector().show(handle.address()).await.unwrap();
    assert_eq!(record.failures, 3);
    assert!(record.due_at.unwrap() - Duration::from_secs(7200) >= record.errors[2].at.unwrap());
}

/// The chain of messages is stored. The custom backoff gets the error itself.
#[tokio::test]
async fn the_sources_of_an_error_are_kept_and_a_custom_backoff_sees_the_error_itself() {
    let (client, probe) = (memory().await, Arc::new(Probe::default()));
    let handle = meets_errors::job().enqueue(&client).await.unwrap();
    let reported = probe.clone();
    let worker = worker(&client, &probe).custom_backoff(move |failed| {
        let closing = failed.failure.error().is_some_and(|error| error.is::<Closing>());
        let kind = failed.failure.find::<std::io::Error>().map(std::io::Error::kind);
        reported.note(format!("{closing} {kind:?} {}", failed.error));
        Duration::ZERO
    });
    run(worker, async { until_state(&handle, Some(JobState::Dead)).await }).await;
    let text = "the order cannot be closed: the shop is closed";
    probe.noted(&format!("true Some(ConnectionRefused) {text}"), 2).await;
    let record = client.inspector().show(handle.address()).await.unwrap();
    let messages: Vec<&str> = record.errors.iter().map(|error| error.message.as_str()).collect();
    assert_eq!(messages, [text; 3]);
    assert_eq!(record.reason, Some(BuryReason::Buried));
}

#[tokio::test]
async fn a_call_enqueues_waits_and_gives_the_result_of_a_task_that_keeps_none() {
    let (client, calling) = (memory().await, Duration::from_secs(30));
    run(worker(&client, &Arc::default()), async {
        assert_eq!(triple::job(14).call(&client, calling).await.unwrap(), JobResult::Done(42));
        assert_eq!(double::job(21).call(&client, calling).await.unwrap(), JobResult::Done(42));
        assert!(matches!(panics::job().call(&client, calling).await.unwrap(), JobResult::Dead(why) if why.contains("as it must")));
        let begun = Instant::now();
        let late = waits_for_ever::job().id("late").call(&client, Duration::from_millis(100)).await.unwrap();
        assert!(late.is_pending() && begun.elapsed() >= Duration::from_millis(100));
        let late = client.inspector().find("calls/late").await.unwrap();
        client.inspector().cancel(&late).await.unwrap();
    })
    .await;
    // A longer retention of the task applies.
    let kept = client.inspector().list("ok", JobState::Done, 0, 10).await.unwrap();
    assert_eq!(kept.jobs.len(), 1);
}

#[tokio::test]
async fn a_job_whose_time_has_passed_expires_without_a_run() {
    let client = memory().await;
    let late = long::job().expires(Duration::from_millis(1)).enqueue(&client).await.unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await; // until it has passed
    run(worker(&client, &Arc::default()), async { until_state(&late, Some(JobState::Expired)).await }).await;
}

#[tokio::test]
async fn a_snooze_without_end_hurts_nobody() {
    let client = memory().await;
    let ages = sleeps_for_ages::job().enqueue(&client).await.unwrap();
    run(worker(&client, &Arc::default()), async { until_state(&ages, Some(JobState::Scheduled)).await }).await;
}

#[tokio::test]
async fn an_undecodable_payload_may_be_buried_at_once_with_its_bytes_and_its_neighbours_run() {
    let client = memory().await;
    let payload = b"\x81\xa6number\xa4four".to_vec();
    let (bad, _) = client.enqueue_raw(RawJob::new("double", payload.clone()).queue("ok")).await.unwrap();
    let fine = double::job(4).enqueue(&client).await.unwrap();
    run(worker(&client, &Arc::default()).unreadable_for(Duration::ZERO), async {
        address_in(&client, &bad, JobState::Dead).await;
        until_state(&fine, Some(JobState::Done)).await;
    })
    .await;
    let record = client.inspector().show(&bad).await.unwrap();
    assert_eq!(record.reason, Some(BuryReason::Undecodable));
    assert_eq!(Envelope::decode(record.stored()).unwrap().payload, payload);
    assert!(record.errors[0].message.contains("number"), "{:?}", record.errors);
}

#[tokio::test]
async fn bytes_that_are_no_envelope_are_buried_as_they_are() {
    let client = memory().await;
    let bad = enqueue_bytes(&client, "ok", b"\xc1 not MessagePack".to_vec()).await;
    let fine = double::job(4).enqueue(&client).await.unwrap();
    run(worker(&client, &Arc::default()), async {
        address_in(&client, &bad, JobState::Dead).await;
        until_state(&fine, Some(JobState::Done)).await;
    })
    .await;
    let record = client.inspector().show(&bad).await.unwrap();
    assert_eq!((record.reason, record.stored()), (Some(BuryReason::Undecodable), &b"\xc1 not MessagePack"[..]));
}

#[tokio::test]
async fn an_unknown_task_is_parked_uncharged_until_a_worker_knows_it() {
    let client = memory().await;
    let handle = newcomer::job("hello".to_owned()).enqueue(&client).await.unwrap();
    let mut old = Registry::empty();
    old.register::<double>();
    let of_yesterday = worker(&client, &Arc::default()).registry(old).queue("newcomer");
    run(of_yesterday, async { until_state(&handle, Some(JobState::Parked)).await }).await;
    let record = client.inspector().show(handle.address()).await.unwrap();
    assert_eq!((record.failures, record.crashes, record.snoozes), (0, 0, 0));

    run(worker(&client, &Arc::default()), async { until_state(&handle, Some(JobState::Done)).await }).await;
    assert_eq!(handle.result().await.unwrap(), JobResult::Done("hello".to_owned()));
}

#[tokio::test]
async fn a_job_of_an_earlier_name_runs() {
    let client = memory().await;
    let (job, _) = client.enqueue_raw(RawJob::new("old_name", b"\x81\xa4text\xa2hi".to_vec()).queue("newcomer")).await.unwrap();
    run(worker(&client, &Arc::default()), async { address_in(&client, &job, JobState::Done).await }).await;
}

#[tokio::test]
async fn a_handler_knows_its_deadline_and_its_lease() {
    let client = memory().await;
    let handle = tells_its_times::job().enqueue(&client).await.unwrap();
    run(worker(&client, &Arc::default()), async { until_state(&handle, Some(JobState::Done)).await }).await;
    assert_eq!(handle.result().await.unwrap(), JobResult::Done(true));
}

#[tokio::test]
async fn several_mistakes_are_reported_at_once() {
    let client = memory().await;
    let problems = worker(&client, &Arc::default()).concurrency(0).lease(Duration::MAX).queue("a b").check().unwrap_err().to_string();
    for part in ["concurrency `0`", "lease `", "queue `a b`"] {
        assert!(problems.contains(part), "{problems}");
    }
    let refused = worker(&client, &Arc::default()).grace(Duration::MAX).run(async {});
    assert!(wait("the worker to refuse").end_of(refused).await.is_err());
}
