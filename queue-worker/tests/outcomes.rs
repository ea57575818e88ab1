//! How handlers end, and what becomes of their jobs.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use queue_core::{broker::State as JobState, prelude::*};
use queue_worker::{Stopped, Worker};
use tokio::sync::Notify;

const PATIENCE: Duration = Duration::from_secs(20);

async fn memory() -> Client {
    Client::connect("sqlite://:memory:").await.unwrap()
}

/// Runs a worker until `until` is ready.
async fn run(client: &Client, shape: impl FnOnce(Worker) -> Worker, until: impl Future<Output = ()> + Send) -> Stopped {
    let backoff = Backoff { base: Duration::from_millis(20), max: Duration::from_millis(40) };
    let worker = shape(Worker::new(client.clone()).state(Probe::default()).backoff(backoff).grace(Duration::from_secs(5)));
    tokio::time::timeout(PATIENCE, worker.run(until)).await.expect("the worker ends").unwrap()
}

async fn until_state<T: Send + 'static>(handle: &Handle<T>, state: Option<JobState>) {
    tokio::time::timeout(PATIENCE, async {
        while handle.status().await.unwrap() != state {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap_or_else(|_| panic!("job {} has not become {state:?}", handle.address()));
}

#[derive(Default)]
struct Probe {
    runs: AtomicU32,
    started: Notify,
}

#[task(queue = "ok", retention = "1h")]
async fn double(number: u32) -> Result<u32, std::io::Error> {
    Ok(number * 2)
}

#[task(queue = "retry", retention = "1h")]
async fn third_time(ctx: JobContext) -> Result<u32, String> {
    if ctx.attempt() < 3 { Err(format!("attempt {} is too early", ctx.attempt())) } else { Ok(ctx.attempt()) }
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
async fn rounds(probe: State<Probe>, ctx: JobContext) -> Outcome {
    assert_eq!((ctx.attempt(), ctx.snoozes()), (1, 0));
    if probe.runs.fetch_add(1, Ordering::SeqCst) == 4 {
        probe.started.notify_one();
    }
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
fn blocks(text: String) -> Result<usize, std::io::Error> {
    Ok(text.len())
}

#[task(queue = "long")]
async fn long(probe: State<Probe>, ctx: JobContext) {
    probe.runs.fetch_add(1, Ordering::SeqCst);
    probe.started.notify_one();
    ctx.cancelled().await;
}

#[tokio::test]
async fn a_result_is_kept_where_it_is_asked_for() {
    let client = memory().await;
    let handle = double::job(21).enqueue(&client).await.unwrap();
    run(&client, |worker| worker, async { until_state(&handle, Some(JobState::Done)).await }).await;
    assert_eq!(handle.result().await.unwrap(), JobResult::Done(42));
}

#[tokio::test]
async fn a_failure_is_retried_until_it_succeeds() {
    let client = memory().await;
    let handle = third_time::job().enqueue(&client).await.unwrap();
    run(&client, |worker| worker, async { until_state(&handle, Some(JobState::Done)).await }).await;
    assert_eq!(handle.result().await.unwrap(), JobResult::Done(3));
    let record = client.inspector().show(handle.address()).await.unwrap();
    assert_eq!(record.failures.len(), 2);
    assert!(record.failures[0].message.contains("attempt 1"));
}

#[tokio::test]
async fn the_last_failure_buries_with_its_history() {
    let client = memory().await;
    let handle = hopeless::job().enqueue(&client).await.unwrap();
    run(&client, |worker| worker, async { until_state(&handle, Some(JobState::Dead)).await }).await;
    assert_eq!(handle.result().await.unwrap(), JobResult::Dead("failed: no".to_owned()));
    let record = client.inspector().show(handle.address()).await.unwrap();
    assert_eq!((record.attempts, record.failures.len()), (2, 2));
}

#[tokio::test]
async fn a_panic_and_a_timeout_are_failures_of_their_job_alone() {
    let client = memory().await;
    let (panicked, late) = (panics::job().enqueue(&client).await.unwrap(), never_ends::job().enqueue(&client).await.unwrap());
    let fine = double::job(1).enqueue(&client).await.unwrap();
    run(&client, |worker| worker, async {
        until_state(&panicked, Some(JobState::Dead)).await;
        until_state(&late, Some(JobState::Dead)).await;
        until_state(&fine, Some(JobState::Done)).await;
    })
    .await;
    assert_eq!(panicked.result().await.unwrap(), JobResult::Dead("failed: panicked: as it must".to_owned()));
    assert_eq!(late.result().await.unwrap(), JobResult::Dead("failed: timed out after 50ms".to_owned()));
}

#[tokio::test]
async fn snoozes_are_counted_apart_from_attempts() {
    let client = memory().await;
    let handle = snoozes_twice::job().enqueue(&client).await.unwrap();
    run(&client, |worker| worker, async { until_state(&handle, Some(JobState::Done)).await }).await;
    let record = client.inspector().show(handle.address()).await.unwrap();
    assert_eq!((record.attempts, record.snoozes), (0, 2));
}

#[tokio::test]
async fn a_repeating_job_goes_round_with_clean_counters() {
    let client = memory().await;
    let handle = rounds::job().enqueue(&client).await.unwrap();
    let probe = std::sync::Arc::new(Probe::default());
    let seen = probe.clone();
    run(&client, |worker| worker.shared_state(probe), async move { seen.started.notified().await }).await;
    assert!(handle.status().await.unwrap().is_some_and(|state| !state.is_final()));
}

#[tokio::test]
async fn a_handler_can_cancel_or_bury_its_job() {
    let client = memory().await;
    let (one, other) = (unwanted::job().enqueue(&client).await.unwrap(), buried::job().enqueue(&client).await.unwrap());
    run(&client, |worker| worker, async {
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
    run(&client, |worker| worker, async { until_state(&handle, Some(JobState::Done)).await }).await;
    assert_eq!(handle.result().await.unwrap(), JobResult::Done(4));
}

#[tokio::test]
async fn a_delayed_job_does_not_start_early() {
    let client = memory().await;
    let before = std::time::Instant::now();
    let handle = double::job(1).delay(Duration::from_millis(300)).enqueue(&client).await.unwrap();
    run(&client, |worker| worker, async { until_state(&handle, Some(JobState::Done)).await }).await;
    assert!(before.elapsed() >= Duration::from_millis(300));
}

#[tokio::test]
async fn cancelling_a_running_job_stops_its_handler() {
    let client = memory().await;
    let handle = long::job().enqueue(&client).await.unwrap();
    let probe = std::sync::Arc::new(Probe::default());
    let seen = probe.clone();
    let stopped = run(&client, |worker| worker.shared_state(probe).lease(Duration::from_millis(600)), async {
        seen.started.notified().await;
        client.inspector().cancel(handle.address()).await.unwrap();
    })
    .await;
    assert!(stopped.is_clean(), "{stopped:?}");
    assert_eq!(handle.status().await.unwrap(), Some(JobState::Cancelled));
}

#[tokio::test]
async fn what_does_not_end_in_the_grace_time_is_given_back_uncharged() {
    let client = memory().await;
    let handle = long::job().enqueue(&client).await.unwrap();
    let probe = std::sync::Arc::new(Probe::default());
    let seen = probe.clone();
    let stopped =
        run(&client, |worker| worker.shared_state(probe).grace(Duration::from_millis(100)), async move { seen.started.notified().await })
            .await;
    let record = client.inspector().show(handle.address()).await;
    // `long` ends by itself when it is told to stop, which is done; a handler that ignores it is released.
    assert!(stopped.is_clean() || stopped.released == 1);
    assert!(record.is_err() || record.unwrap().attempts == 0);
}
