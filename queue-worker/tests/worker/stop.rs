//! The stop of a worker, and its effect on running jobs.

use std::{sync::Arc, time::Instant};

use crate::common::{Probe, free_address, memory, patience, until, until_health, until_registered, until_state, wait, worker};
use queue_core::{broker::JobState, prelude::*};
use queue_worker::{Shutdown, Stopped, Worker, WorkerError};
use tokio::task::JoinHandle;

#[task(queue = "polite", retention = "1h")]
async fn ends_when_let(probe: Data<Probe>) {
    probe.note("started");
    probe.gate.passed().await;
}

#[task(queue = "deaf")]
async fn never_ends(probe: Data<Probe>) {
    probe.note("started");
    std::future::pending::<()>().await;
}

#[task(queue = "obedient")]
async fn ends_when_told(probe: Data<Probe>, ctx: JobContext) {
    probe.note("started");
    ctx.cancelled().await;
    probe.note("told");
}

#[task(queue = "complains")]
async fn complains(probe: Data<Probe>, ctx: JobContext) -> Result<(), String> {
    probe.note("started");
    Err(format!("interrupted: {:?}", ctx.cancelled().await))
}

#[task(queue = "rude")]
async fn blocks_its_thread(probe: Data<Probe>) {
    probe.note("started");
    probe.gate.block();
}

/// The number of tries. A time is measured again if the machine may have been suspended.
const TRIES: usize = 5;

/// The maximum difference between the clocks of two threads.
const MOMENT: Duration = Duration::from_millis(20);

fn start(worker: Worker, shutdown: &Shutdown) -> JoinHandle<Result<Stopped, WorkerError>> {
    tokio::spawn(worker.run_with(shutdown.clone()))
}

async fn ended(running: JoinHandle<Result<Stopped, WorkerError>>) -> Stopped {
    wait("the worker to end").end_of(running).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_draining_worker_lets_running_jobs_end_and_starts_no_others() {
    let (client, probe, shutdown) = (memory().await, Arc::new(Probe::default()), Shutdown::new());
    let running = start(worker(&client, &probe).concurrency(1), &shutdown);
    let first = ends_when_let::job().enqueue(&client).await.unwrap();
    probe.noted("started", 1).await;
    let second = ends_when_let::job().enqueue(&client).await.unwrap();
    shutdown.drain();
    probe.gate.open();
    let stopped = ended(running).await;
    assert!(stopped.is_clean(), "{stopped:?}");
    assert_eq!(first.status().await.unwrap(), Some(JobState::Done));
    assert_eq!(second.status().await.unwrap(), Some(JobState::Ready));
    assert_eq!(probe.count("started"), 1);
}

#[tokio::test]
async fn what_does_not_end_in_the_grace_time_is_given_back_uncharged() {
    let (client, probe, shutdown) = (memory().await, Arc::new(Probe::default()), Shutdown::new());
    let job = never_ends::job().enqueue(&client).await.unwrap();
    let running = start(worker(&client, &probe).grace(Duration::from_millis(100)), &shutdown);
    probe.noted("started", 1).await;
    shutdown.drain();
    let stopped = ended(running).await;
    assert_eq!((stopped.returned, stopped.stuck, stopped.is_clean()), (1, 0, false));
    let record = client.inspector().show(job.address()).await.unwrap();
    assert_eq!((record.state, record.failures, record.crashes), (JobState::Ready, 0, 0));
}

#[tokio::test]
async fn the_grace_time_is_what_it_says() {
    const GRACE: Duration = Duration::from_secs(2);
    let mut longest = Vec::new();
    for _ in 0..TRIES {
        let took = a_stop_within(GRACE).await;
        // A worker that waits for stuck handlers takes a second longer.
        if took < GRACE + Duration::from_millis(900) {
            return;
        }
        longest.push(took);
    }
    panic!("verdict: SLOW: a grace of {GRACE:?} took {longest:?}");
}

/// The duration of a stop with a handler that ends when it is cancelled, and one that never ends.
async fn a_stop_within(grace: Duration) -> Duration {
    let (client, probe, shutdown) = (memory().await, Arc::new(Probe::default()), Shutdown::new());
    never_ends::job().enqueue(&client).await.unwrap();
    ends_when_told::job().enqueue(&client).await.unwrap();
    let running = start(worker(&client, &probe).grace(grace), &shutdown);
    probe.noted("started", 2).await;
    let begun = Instant::now();
    shutdown.drain();
    probe.noted("told", 1).await;
    let reported = begun.elapsed();
    let stopped = ended(running).await;
    let took = begun.elapsed();
    assert!(reported >= grace.mul_f64(0.75) - MOMENT, "a handler is told to stop in the last quarter, and not after {reported:?}");
    assert!(took >= grace - MOMENT, "a grace of {grace:?} took {took:?}");
    assert_eq!(
        (stopped.finished, stopped.returned, stopped.stuck),
        (2, 1, 0),
        "one has ended well when it was told, the other was dropped"
    );
    took
}

#[tokio::test]
async fn the_second_stage_does_not_wait_for_the_grace_time() {
    let (client, probe, shutdown) = (memory().await, Arc::new(Probe::default()), Shutdown::new());
    let job = never_ends::job().enqueue(&client).await.unwrap();
    let running = start(worker(&client, &probe).grace(patience() * 2), &shutdown);
    probe.noted("started", 1).await;
    shutdown.drain();
    shutdown.cancel_handlers();
    assert_eq!(ended(running).await.returned, 1);
    assert_eq!(job.status().await.unwrap(), Some(JobState::Ready));
}

#[tokio::test]
async fn an_error_because_of_the_stop_is_not_charged() {
    let (client, probe, shutdown) = (memory().await, Arc::new(Probe::default()), Shutdown::new());
    let job = complains::job().enqueue(&client).await.unwrap();
    let running = start(worker(&client, &probe), &shutdown);
    probe.noted("started", 1).await;
    shutdown.cancel_handlers();
    assert_eq!(ended(running).await.returned, 1);
    let record = client.inspector().show(job.address()).await.unwrap();
    assert_eq!((record.state, record.failures, record.errors.len()), (JobState::Ready, 0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_job_that_had_no_thread_to_start_on_is_released_when_the_worker_stops() {
    let (client, probe, shutdown) = (memory().await, Arc::new(Probe::default()), Shutdown::new());
    client.enqueue_all((0..3).map(|_| blocks_its_thread::job())).await.unwrap();
    let address = free_address();
    // The first job blocks the only thread of the runtime. The test has another thread.
    let (other, switch, seen) = (client.clone(), shutdown.clone(), probe.clone());
    let stopper = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            seen.noted("started", 1).await;
            let active = || async { other.inspector().stats("rude").await.unwrap().count(JobState::Active) == 3 };
            until("all three to be claimed", active).await;
            switch.drain();
            until_health(address, r#""status":"stopping""#).await;
            seen.gate.open();
        });
    });
    let stopped = ended(start(worker(&client, &probe).concurrency(3).health(address), &shutdown)).await;
    queue_conformance::patience::joined(stopper);
    assert!(stopped.is_clean(), "{stopped:?}");
    assert_eq!(probe.count("started"), 1);
    let stats = client.inspector().stats("rude").await.unwrap();
    assert_eq!((stats.count(JobState::Ready), stats.count(JobState::Active)), (2, 0));
}

#[tokio::test]
async fn an_idle_worker_stops_at_once() {
    let (client, shutdown) = (memory().await, Shutdown::new());
    let running = start(worker(&client, &Arc::default()).grace(patience() * 2), &shutdown);
    until_registered(&client, "deaf").await;
    shutdown.drain();
    assert_eq!(ended(running).await, Stopped::default());
}

#[tokio::test]
async fn dropping_a_running_worker_gives_its_jobs_back() {
    let (client, probe) = (memory().await, Arc::new(Probe::default()));
    let job = never_ends::job().enqueue(&client).await.unwrap();
    let running = tokio::spawn(worker(&client, &probe).run(std::future::pending()));
    probe.noted("started", 1).await;
    running.abort();
    until_state(&job, Some(JobState::Ready)).await;
    assert_eq!(client.inspector().show(job.address()).await.unwrap().crashes, 0);
}

#[tokio::test]
async fn one_switch_stops_several_workers() {
    let (client, shutdown) = (memory().await, Shutdown::new());
    let workers = [start(worker(&client, &Arc::default()), &shutdown), start(worker(&client, &Arc::default()), &shutdown)];
    shutdown.drain();
    for worker in workers {
        ended(worker).await;
    }
}
