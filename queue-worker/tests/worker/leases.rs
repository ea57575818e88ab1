//! Leases: the jobs of dead workers are reclaimed, and those of living workers are not.

use std::{sync::Arc, time::Instant};

use crate::common::{Probe, claim_and_die, memory, patience, run, until, until_state, worker};
use queue_core::{
    broker::{BuryReason, JobState},
    prelude::*,
};

/// The lease of these tests. It is long enough for a loaded machine.
const LEASE: Duration = Duration::from_secs(2);

#[task(queue = "blocked", retention = "1h")]
async fn blocks_everything(probe: Data<Probe>) {
    probe.note("started");
    std::thread::sleep(LEASE * 3);
}

#[task(queue = "orphans", retention = "1h")]
async fn orphan(probe: Data<Probe>, ctx: JobContext) {
    let probe = probe.into_inner();
    let _inside = probe.enter();
    probe.note(format!("after {} crashes, attempt {}", ctx.crashes(), ctx.attempt()));
    tokio::time::sleep(Duration::from_millis(100)).await;
}

#[task(queue = "patient")]
async fn waits_for_its_cancel(probe: Data<Probe>, ctx: JobContext) {
    probe.note("started");
    probe.note(format!("{:?}", ctx.cancelled().await));
}

#[task(queue = "poison", retention = "1h")]
async fn poison() {}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_handler_that_blocks_every_thread_of_its_runtime_keeps_its_lease() {
    let (client, probe) = (memory().await, Arc::new(Probe::default()));
    let job = blocks_everything::job().enqueue(&client).await.unwrap();
    // Another worker on separate threads, which would claim the job if its lease expired.
    let (other, watching) = (client.clone(), probe.clone());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let rival = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            watching.noted("started", 1).await;
            let rival = worker(&other, &watching).lease(LEASE).queue("blocked");
            run(rival, async { drop(stopped.await) }).await;
        });
    });
    // The only slot is taken, so no turn renews the lease. Only the heartbeat does.
    run(worker(&client, &probe).lease(LEASE).concurrency(1), async { until_state(&job, Some(JobState::Done)).await }).await;
    drop(stop);
    queue_conformance::patience::joined(rival);
    assert_eq!(probe.count("started"), 1);
    assert_eq!(client.inspector().show(job.address()).await.unwrap().crashes, 0);
}

#[tokio::test]
async fn jobs_of_a_dead_worker_run_again_one_suspect_at_a_time() {
    let (client, probe) = (memory().await, Arc::new(Probe::default()));
    let mut jobs = Vec::new();
    for _ in 0..4 {
        jobs.push(orphan::job().enqueue(&client).await.unwrap());
    }
    claim_and_die(&client, "orphans", 4).await;
    run(worker(&client, &probe).lease(LEASE).concurrency(4), async {
        for job in &jobs {
            until_state(job, Some(JobState::Done)).await;
        }
    })
    .await;
    assert_eq!(probe.notes(), ["after 1 crashes, attempt 1"; 4]);
    assert_eq!(probe.most(), 1, "suspects must not run together");
}

/// The two checks are a fifth of a lease apart.
#[tokio::test]
async fn nobody_is_taken_for_dead_at_the_first_look() {
    let (client, probe) = (memory().await, Arc::new(Probe::default()));
    orphan::job().enqueue(&client).await.unwrap();
    claim_and_die(&client, "orphans", 1).await;
    let expired = || async { !client.broker().overdue("orphans", 0, 10).await.unwrap().expired.is_empty() };
    until("its lease to run out", expired).await;
    let began = Instant::now();
    run(worker(&client, &probe).lease(LEASE * 5), until("it to be fenced", || async { !expired().await })).await;
    assert!(began.elapsed() >= LEASE, "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_crash_too_many_buries() {
    let client = memory().await;
    let job = poison::job().enqueue(&client).await.unwrap();
    claim_and_die(&client, "poison", 1).await;
    run(worker(&client, &Arc::default()).lease(LEASE).max_crashes(1), async { until_state(&job, Some(JobState::Dead)).await }).await;
    let record = client.inspector().show(job.address()).await.unwrap();
    assert_eq!((record.reason, record.failures), (Some(BuryReason::Crashed), 0));
}

/// The interval of heartbeats is at most five seconds. A third of the lease would be longer than
/// the test waits.
#[tokio::test]
async fn a_handler_is_notified_of_its_cancel_soon_however_long_the_lease() {
    let (client, probe) = (memory().await, Arc::new(Probe::default()));
    let job = waits_for_its_cancel::job().enqueue(&client).await.unwrap();
    // The only slot is taken, so no turn can receive the cancel.
    run(worker(&client, &probe).lease(Duration::from_secs(3600)).concurrency(1), async {
        probe.noted("started", 1).await;
        client.inspector().cancel(job.address()).await.unwrap();
        probe.noted("Cancelled", 1).await;
    })
    .await;
}

#[tokio::test]
async fn what_a_stopped_worker_leaves_is_not_waited_for() {
    let (client, probe) = (memory().await, Arc::new(Probe::default()));
    let job = orphan::job().enqueue(&client).await.unwrap();
    run(worker(&client, &probe).lease(patience()), async { until_state(&job, Some(JobState::Done)).await }).await;
    let left = client.broker().overdue("orphans", 0, 10).await.unwrap();
    assert!(!left.expired.is_empty(), "its leases ended with it: {left:?}");
}

/// The queues are checked in groups, one after the other.
#[tokio::test]
async fn the_jobs_of_a_dead_worker_come_back_in_every_one_of_many_queues() {
    const QUEUES: usize = 80;
    let (client, probe) = (memory().await, Arc::new(Probe::default()));
    let names: Vec<String> = (0..QUEUES).map(|number| format!("orphans-{number}")).collect();
    for name in &names {
        orphan::job().queue(name).enqueue(&client).await.unwrap();
        claim_and_die(&client, name, 1).await;
    }
    let living = names.iter().fold(worker(&client, &probe).lease(LEASE).concurrency(QUEUES), |worker, name| worker.queue(name.as_str()));
    run(living, probe.noted("after 1 crashes, attempt 1", QUEUES)).await;
}
