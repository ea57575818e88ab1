//! How slots are shared: concurrency, weights, strict order, limits.

use std::sync::Arc;

use crate::common::{Probe, memory, run, until, until_registered, worker};
use queue_core::{
    broker::Counter,
    inspect::{PauseOf, Pausing},
    prelude::*,
};
use queue_worker::QueueConfig;

#[task(queue = "heavy")]
async fn work(probe: Data<Probe>, ctx: JobContext) {
    let probe = noted(probe, &ctx);
    let _inside = probe.enter();
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// Records the queue of the job that starts.
fn noted(probe: Data<Probe>, ctx: &JobContext) -> Arc<Probe> {
    probe.note(ctx.queue());
    probe.into_inner()
}

#[task(queue = "narrow")]
async fn waits(probe: Data<Probe>, ctx: JobContext) {
    let probe = noted(probe, &ctx);
    let _inside = probe.enter();
    probe.gate.passed().await;
}

#[task(queue = "busy")]
async fn nothing() {}

/// The number of tries, most of which have to be quick. A suspended machine delays some tries, and
/// a poll would delay all of them.
const TRIES: usize = 5;

/// Fails if the slowest of the quick tries was too slow.
fn most_are_quick(mut took: Vec<Duration>, bound: Duration) {
    took.sort();
    let most = took[took.len() * 3 / 4 - 1];
    assert!(most < bound, "verdict: SLOW: a poll has found what a hint should have: {took:?}");
}

/// Drains a queue of many short jobs, and waits until the jobs of the queue `other` have ended.
/// They end long before the short ones.
async fn beside_a_busy_queue(other: QueueConfig, jobs: usize) {
    let (client, probe) = (memory().await, Arc::new(Probe::default()));
    client.enqueue_all((0..50_000).map(|_| nothing::job())).await.unwrap();
    client.enqueue_all((0..jobs).map(|_| nothing::job().queue("other"))).await.unwrap();
    let inspector = client.inspector();
    let done = async |queue| inspector.stats(queue).await.unwrap().total(Counter::Done);
    run(worker(&client, &probe).register::<nothing>().queue("busy").queue(other).concurrency(256), async {
        until("the end of the other queue", || async { done("other").await == jobs as u64 }).await;
        let busy = done("busy").await;
        assert!(busy < 40_000, "{busy} jobs of the busy queue had ended before");
    })
    .await;
}

async fn preload(client: &Client, queue: &str, jobs: usize) {
    client.enqueue_all((0..jobs).map(|_| work::job().queue(queue))).await.unwrap();
}

#[tokio::test]
async fn no_more_than_the_concurrency_runs_at_once_and_everything_runs() {
    let (client, probe) = (memory().await, Arc::new(Probe::default()));
    preload(&client, "heavy", 300).await;
    let stopped = run(worker(&client, &probe).queue("heavy").concurrency(7), async { probe.noted("heavy", 300).await }).await;
    assert!(probe.most() <= 7, "{}", probe.most());
    assert_eq!(stopped.finished, 300);
    assert!(stopped.is_clean(), "{stopped:?}");
}

#[tokio::test]
async fn a_limit_bounds_its_queue_and_leaves_the_slots_to_the_others() {
    let (client, probe) = (memory().await, Arc::new(Probe::default()));
    client.enqueue_all((0..10).map(|_| waits::job())).await.unwrap();
    preload(&client, "heavy", 50).await;
    let limited = worker(&client, &probe).queue(QueueConfig::new("narrow").limit(2)).queue("heavy").concurrency(4);
    run(limited, async {
        probe.noted("heavy", 50).await;
        assert_eq!(probe.count("narrow"), 2);
        probe.gate.open();
        probe.noted("narrow", 10).await;
    })
    .await;
}

#[tokio::test]
async fn the_last_ending_of_a_queue_does_not_wait_for_a_busy_one() {
    beside_a_busy_queue(QueueConfig::new("other"), 1).await;
}

#[tokio::test]
async fn a_queue_with_a_low_limit_does_not_wait_for_a_busy_one() {
    beside_a_busy_queue(QueueConfig::new("other").limit(2), 100).await;
}

#[tokio::test]
async fn queues_with_work_are_served_by_their_weights() {
    let (client, probe) = (memory().await, Arc::new(Probe::default()));
    preload(&client, "heavy", 600).await;
    preload(&client, "light", 600).await;
    let weighted = worker(&client, &probe).queue(QueueConfig::new("heavy").weight(3)).queue("light").concurrency(8);
    run(weighted, async { probe.noted("heavy", 300).await }).await;
    let notes = probe.notes();
    let light = notes.iter().take(400).filter(|note| *note == "light").count();
    assert!((60..=140).contains(&light), "{light} of the first 400 starts, where 100 are due");
}

#[tokio::test]
async fn in_strict_order_a_queue_waits_for_those_before_it() {
    let (client, probe) = (memory().await, Arc::new(Probe::default()));
    preload(&client, "second", 200).await;
    preload(&client, "first", 200).await;
    let strict = worker(&client, &probe).queue("first").queue("second").strict_order().concurrency(8);
    run(strict, async { probe.noted("second", 200).await }).await;
    let notes = probe.notes();
    let second = notes.iter().take(200).filter(|note| *note == "second").count();
    assert!(second <= 8, "{second} of the second queue among the first 200 starts");
}

#[tokio::test]
async fn a_job_that_comes_to_an_idle_worker_starts_without_a_poll() {
    let (client, probe) = (memory().await, Arc::new(Probe::default()));
    run(worker(&client, &probe).queue("heavy"), async {
        until_registered(&client, "heavy").await;
        let mut took = Vec::new();
        for round in 1..=20 {
            let before = std::time::Instant::now();
            work::job().enqueue(&client).await.unwrap();
            probe.noted("heavy", round).await;
            took.push(before.elapsed());
        }
        most_are_quick(took, Duration::from_millis(600));
    })
    .await;
}

#[tokio::test]
async fn jobs_that_become_due_while_others_are_claimed_are_not_late() {
    let (client, probe) = (memory().await, Arc::new(Probe::default()));
    run(worker(&client, &probe).queue("heavy").concurrency(2), async {
        let mut late = Vec::new();
        for round in 1..=TRIES {
            let before = std::time::Instant::now();
            for delay in 1..=100 {
                work::job().delay(Duration::from_millis(delay * 3)).enqueue(&client).await.unwrap();
                work::job().enqueue(&client).await.unwrap();
            }
            let spent = before.elapsed();
            probe.noted("heavy", round * 200).await;
            late.push(before.elapsed().saturating_sub(spent + Duration::from_millis(300)));
        }
        most_are_quick(late, Duration::from_millis(500));
    })
    .await;
}

#[tokio::test]
async fn a_job_that_becomes_due_at_an_idle_worker_starts_without_a_poll() {
    const DELAY: Duration = Duration::from_millis(200);
    let (client, probe) = (memory().await, Arc::new(Probe::default()));
    run(worker(&client, &probe).queue("heavy"), async {
        let mut took = Vec::new();
        for round in 1..=8 {
            // A claim that found no job has just been answered. The next poll follows almost a
            // second later.
            work::job().enqueue(&client).await.unwrap();
            probe.noted("heavy", 2 * round - 1).await;
            let before = std::time::Instant::now();
            work::job().delay(DELAY).enqueue(&client).await.unwrap();
            probe.noted("heavy", 2 * round).await;
            took.push(before.elapsed());
        }
        assert!(took.iter().all(|took| *took >= DELAY), "early: {took:?}");
        most_are_quick(took, DELAY * 3);
    })
    .await;
}

#[task(queue = "pausing")]
async fn pauses(probe: Data<Probe>) {
    probe.note("pauses");
}

#[task(queue = "pausing")]
async fn goes_on(probe: Data<Probe>) {
    probe.note("goes on");
}

/// A turn requests parked jobs at most once a second. The turn that ends the pause comes in
/// between.
#[tokio::test]
async fn jobs_of_a_paused_task_start_as_soon_as_its_pause_ends() {
    const PAUSE: Duration = Duration::from_millis(1300);
    let mut late = Duration::MAX;
    // Repeats the test, because the machine may have been suspended.
    for _ in 0..10 {
        late = late.min(beyond_a_pause_of(PAUSE).await);
        if late < Duration::from_millis(400) {
            return;
        }
    }
    panic!("verdict: SLOW: {late:?} late: a later turn has found what one in between should have");
}

/// The time between the end of the pause and the run of the job.
async fn beyond_a_pause_of(pause: Duration) -> Duration {
    let (client, probe) = (memory().await, Arc::new(Probe::default()));
    let mut lasted = Duration::ZERO;
    run(worker(&client, &probe).queue("pausing"), async {
        until_registered(&client, "pausing").await;
        let begun = std::time::Instant::now();
        let of = PauseOf::Task("pauses".into());
        client.inspector().pause_as("pausing", of, Pausing::new().lasting(pause)).await.unwrap();
        pauses::job().enqueue(&client).await.unwrap();
        // Other jobs cause turns all the time.
        until("the job to run", || async {
            goes_on::job().enqueue(&client).await.unwrap();
            probe.count("pauses") == 1
        })
        .await;
        lasted = begun.elapsed();
    })
    .await;
    assert!(lasted >= pause, "{lasted:?}");
    lasted - pause
}
