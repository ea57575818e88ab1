//! Code of the application around every run.

use std::{fmt::Debug, sync::Arc};

use crate::common::{self, Probe, address_in, free_address, memory, run, until, until_health, until_state, worker};
use queue_core::{__private::Encoded, CancelCause, Draft, Middleware, Next, RawJob, TaskOutput, broker::JobState, prelude::*};
use serde::de::DeserializeOwned;

#[task(queue = "plain", retention = "1h", max_attempts = 1)]
async fn plain(probe: Data<Probe>) -> Result<u32, String> {
    probe.note("handler");
    Ok(7)
}

#[task(queue = "plain", max_attempts = 1)]
async fn panics() {
    panic!("as it must");
}

#[task(queue = "plain", max_attempts = 1)]
async fn undecodable(_number: u32) {}

#[task(queue = "plain", max_attempts = 1, timeout = "50ms")]
async fn never_ends() {
    std::future::pending::<()>().await;
}

#[task(queue = "plain", blocking, timeout = "20ms")]
#[allow(clippy::needless_pass_by_value, reason = "it is injected")]
fn blocks(probe: Data<Probe>) {
    probe.note("begun");
    probe.gate.block();
    probe.note("returned");
}

/// Records the calls and outcomes that pass through it.
struct Notes(&'static str, Arc<Probe>);

impl Middleware for Notes {
    async fn run(&self, context: &JobContext, next: Next<'_>) -> Outcome {
        let Notes(name, probe) = self;
        probe.note(format!("{name} of {}", context.task()));
        let outcome = next.run().await;
        probe.note(format!("{name}: {outcome:?}"));
        outcome
    }
}

/// Changes nothing.
struct Nothing;

impl Middleware for Nothing {}

/// Returns the outcome of the test without calling the handler.
struct Instead(fn() -> Outcome);

impl Middleware for Instead {
    async fn run(&self, _: &JobContext, _: Next<'_>) -> Outcome {
        self.0()
    }
}

async fn dead<T: Task>(handle: &Handle<T>) -> String
where
    TaskOutput<T>: DeserializeOwned + Debug,
{
    match handle.wait(common::patience()).await.unwrap() {
        JobResult::Dead(why) => why,
        other => panic!("it is not dead: {other:?}"),
    }
}

#[tokio::test]
async fn the_first_that_was_added_is_the_outermost() {
    let (client, probe) = (memory().await, Arc::new(Probe::default()));
    let handle = plain::job().enqueue(&client).await.unwrap();
    let worker = worker(&client, &probe)
        .middleware(Notes("outer", probe.clone()))
        .middleware(Arc::new(Nothing))
        .middleware(Notes("inner", probe.clone()));
    run(worker, async { until_state(&handle, Some(JobState::Done)).await }).await;
    let result = format!("{:?}", Outcome::DoneWith(Encoded::of(&7)));
    let reported = ["outer of plain", "inner of plain", "handler", &format!("inner: {result}"), &format!("outer: {result}")];
    assert_eq!(probe.notes(), reported);
    assert_eq!(handle.result().await.unwrap(), JobResult::Done(7));
}

#[tokio::test]
async fn an_outcome_can_be_read_and_changed() {
    struct Doubles;
    impl Middleware for Doubles {
        async fn run(&self, _: &JobContext, next: Next<'_>) -> Outcome {
            match next.run().await {
                Outcome::DoneWith(result) => Outcome::DoneWith(Encoded::of(&(2 * result.decode::<u32>().unwrap()))),
                other => other,
            }
        }
    }
    let (client, probe) = (memory().await, Arc::new(Probe::default()));
    let handle = plain::job().enqueue(&client).await.unwrap();
    run(worker(&client, &probe).middleware(Doubles), async { until_state(&handle, Some(JobState::Done)).await }).await;
    assert_eq!(handle.result().await.unwrap(), JobResult::Done(14));
}

#[tokio::test]
async fn a_middleware_can_end_a_job_without_its_handler() {
    let (client, probe) = (memory().await, Arc::new(Probe::default()));
    let handle = plain::job().enqueue(&client).await.unwrap();
    let worker = worker(&client, &probe).middleware(Instead(|| Outcome::Cancel("not today".to_owned())));
    run(worker, async { until_state(&handle, Some(JobState::Cancelled)).await }).await;
    assert_eq!(probe.count("handler"), 0);
}

#[tokio::test]
async fn an_error_of_a_middleware_is_treated_like_the_handlers() {
    let (client, probe) = (memory().await, Arc::new(Probe::default()));
    let handle = plain::job().max_attempts(2).enqueue(&client).await.unwrap();
    let worker = worker(&client, &probe).middleware(Instead(|| Outcome::failed(std::io::Error::other("disk on fire"))));
    run(worker, async { assert_eq!(dead(&handle).await, "failed: disk on fire") }).await;
    assert_eq!(client.inspector().show(handle.address()).await.unwrap().failures, 2, "it was retried");
}

#[tokio::test]
async fn an_outcome_that_a_middleware_throws_as_an_error_steers() {
    let (client, probe) = (memory().await, Arc::new(Probe::default()));
    let handle = plain::job().enqueue(&client).await.unwrap();
    let worker = worker(&client, &probe).middleware(Instead(|| Outcome::failed(Outcome::Bury("sold".to_owned()))));
    run(worker, async { assert_eq!(dead(&handle).await, "buried: sold") }).await;
}

#[tokio::test]
async fn a_panic_of_a_middleware_is_a_failure_of_its_job_and_seen_by_those_outside() {
    let (client, probe) = (memory().await, Arc::new(Probe::default()));
    let handle = plain::job().enqueue(&client).await.unwrap();
    let worker = worker(&client, &probe).middleware(Notes("outer", probe.clone())).middleware(Instead(|| panic!("no middleware")));
    run(worker, async { assert!(dead(&handle).await.starts_with("failed: panicked: no middleware (")) }).await;
    let place = format!("outer: Panicked(\"no middleware ({}:", file!());
    let notes = probe.notes();
    assert!(notes.len() == 2 && notes[0] == "outer of plain" && notes[1].starts_with(&place), "{notes:?}");
}

#[tokio::test]
async fn a_panic_of_the_outermost_middleware_is_a_failure_of_its_job_alone() {
    let (client, probe) = (memory().await, Arc::new(Probe::default()));
    let handle = plain::job().enqueue(&client).await.unwrap();
    let worker = worker(&client, &probe).middleware(Instead(|| panic!("no middleware")));
    let stopped = run(worker, async { assert!(dead(&handle).await.starts_with("failed: panicked: no middleware (")) }).await;
    assert!(stopped.is_clean(), "{stopped:?}");
}

#[tokio::test]
async fn what_becomes_of_a_handler_that_fails_is_seen() {
    let (client, probe) = (memory().await, Arc::new(Probe::default()));
    let panicked = panics::job().enqueue(&client).await.unwrap();
    let (bad, _) = client.enqueue_raw(RawJob::new("undecodable", vec![0x80]).queue("plain")).await.unwrap();
    run(worker(&client, &probe).middleware(Notes("notes", probe.clone())), async {
        assert!(dead(&panicked).await.starts_with("failed: panicked: as it must ("));
        address_in(&client, &bad, JobState::Parked).await;
    })
    .await;
    assert_eq!(probe.notes().iter().filter(|note| note.starts_with(r#"notes: Panicked("as it must ("#)).count(), 1);
    assert_eq!(probe.count(r#"notes: Undecodable("parameter `_number` is missing")"#), 1, "{:?}", probe.notes());
}

/// Waits before the handler until it is cancelled.
struct Waits(Arc<Probe>);

impl Middleware for Waits {
    async fn run(&self, context: &JobContext, next: Next<'_>) -> Outcome {
        self.0.note("waits");
        self.0.note(format!("{:?}", context.cancelled().await));
        next.run().await
    }
}

#[tokio::test]
async fn the_timeout_covers_middleware_and_a_run_that_was_asked_to_stop_does_not_begin() {
    let (client, probe) = (memory().await, Arc::new(Probe::default()));
    let handle = plain::job().timeout(Duration::from_millis(50)).enqueue(&client).await.unwrap();
    let worker = worker(&client, &probe).middleware(Notes("outer", probe.clone())).middleware(Waits(probe.clone()));
    run(worker, async { assert_eq!(dead(&handle).await, "failed: timed out after 50ms") }).await;
    assert_eq!(probe.notes(), ["outer of plain", "waits", "TimedOut", "outer: Stopped(TimedOut)"]);
}

#[tokio::test]
async fn a_middleware_is_notified_of_a_cancel() {
    let (client, probe) = (memory().await, Arc::new(Probe::default()));
    let handle = plain::job().enqueue(&client).await.unwrap();
    run(worker(&client, &probe).lease(Duration::from_secs(2)).middleware(Waits(probe.clone())), async {
        probe.noted("waits", 1).await;
        client.inspector().cancel(handle.address()).await.unwrap();
        probe.noted("Cancelled", 1).await;
    })
    .await;
    assert_eq!(handle.status().await.unwrap(), Some(JobState::Cancelled));
    assert_eq!(probe.count("handler"), 0);
}

#[tokio::test]
async fn a_handler_that_does_not_stop_is_dropped_with_its_middleware() {
    struct Held(Arc<Probe>);
    impl Middleware for Held {
        async fn run(&self, _: &JobContext, next: Next<'_>) -> Outcome {
            let _inside = self.0.enter();
            self.0.note("held");
            next.run().await
        }
    }
    let (client, probe) = (memory().await, Arc::new(Probe::default()));
    let handle = never_ends::job().enqueue(&client).await.unwrap();
    run(worker(&client, &probe).middleware(Held(probe.clone())), async {
        assert_eq!(dead(&handle).await, "failed: timed out after 50ms");
    })
    .await;
    assert_eq!((probe.count("held"), probe.inside()), (1, 0));
}

/// Drops the handler as soon as it has begun.
struct GivesUp(Arc<Probe>);

impl Middleware for GivesUp {
    async fn run(&self, _: &JobContext, next: Next<'_>) -> Outcome {
        tokio::select! {
            outcome = next.run() => outcome,
            () = self.0.noted("begun", 1) => {
                self.0.note("given up");
                Outcome::Done
            }
        }
    }
}

#[tokio::test]
async fn a_blocking_handler_that_a_middleware_gives_up_keeps_its_job_until_it_returns() {
    let (client, probe) = (memory().await, Arc::new(Probe::default()));
    let handle = blocks::job().enqueue(&client).await.unwrap();
    run(worker(&client, &probe).middleware(GivesUp(probe.clone())), async {
        probe.noted("given up", 1).await;
        // When another job has ended, an ending of the first one would have been submitted.
        let other = plain::job().enqueue(&client).await.unwrap();
        until_state(&other, Some(JobState::Done)).await;
        assert_eq!(handle.status().await.unwrap(), Some(JobState::Active));
        probe.gate.open();
        until("the job to be done", || async { handle.status().await.unwrap().is_none() }).await;
        assert_eq!(probe.count("returned"), 1);
    })
    .await;
}

#[tokio::test]
async fn a_blocking_handler_that_outlives_its_timeout_is_waited_for_within_middleware() {
    let (client, probe) = (memory().await, Arc::new(Probe::default()));
    let handle = blocks::job().enqueue(&client).await.unwrap();
    let address = free_address();
    run(worker(&client, &probe).health(address).middleware(Notes("notes", probe.clone())), async {
        // By then, a handler that can be dropped has ended.
        until_health(address, r#""stuck":1"#).await;
        assert_eq!(handle.status().await.unwrap(), Some(JobState::Active));
        probe.gate.open();
        probe.noted("notes: Done", 1).await;
    })
    .await;
}

#[tokio::test]
async fn a_run_that_claims_it_was_stopped_and_was_not_has_failed() {
    let (client, probe) = (memory().await, Arc::new(Probe::default()));
    let handle = plain::job().enqueue(&client).await.unwrap();
    let worker = worker(&client, &probe).middleware(Instead(|| Outcome::Stopped(CancelCause::Shutdown)));
    run(worker, async { assert_eq!(dead(&handle).await, "failed: stopped: the worker is stopping") }).await;
}

tokio::task_local! {
    static TENANT: String;
}

/// Carries the tenant from the producer to the run.
struct Tenants;

impl Middleware for Tenants {
    fn enqueue(&self, draft: &mut Draft<'_>) -> queue_core::Result<()> {
        let tenant = TENANT.try_with(String::clone).map_err(|_| draft.refused("it has no tenant"))?;
        draft.set_header("tenant", tenant);
        Ok(())
    }

    async fn run(&self, context: &JobContext, next: Next<'_>) -> Outcome {
        let tenant = context.header("tenant").unwrap_or_default().to_owned();
        TENANT.scope(tenant, next.run()).await
    }
}

#[task(queue = "plain")]
async fn orders(probe: Data<Probe>, context: JobContext) -> Result<(), queue_core::Error> {
    delivers::job().enqueue(context.client()).await?;
    probe.note(format!("ordered by {}", TENANT.get()));
    Ok(())
}

#[task(queue = "plain")]
async fn delivers(probe: Data<Probe>) {
    probe.note(format!("delivered to {}", TENANT.get()));
}

#[tokio::test]
async fn what_a_middleware_adds_at_enqueue_it_reads_at_the_run_and_adds_to_follow_up_jobs() {
    let (client, probe) = (memory().await, Arc::new(Probe::default()));
    let tenants = Arc::new(Tenants);
    let producer = client.with_middleware(tenants.clone());
    TENANT.scope("Ada".to_owned(), async { orders::job().enqueue(&producer).await.unwrap() }).await;
    assert!(orders::job().enqueue(&producer).await.unwrap_err().to_string().ends_with("it has no tenant"));
    let worker = worker(&client, &probe).middleware(tenants.clone()).map_client(|client| client.with_middleware(tenants));
    run(worker, async { probe.noted("delivered to Ada", 1).await }).await;
    assert_eq!(probe.count("ordered by Ada"), 1);
}
