//! What becomes of the other queues while one of them is not answered, or refused.

use queue_core::{
    broker::{Counter, CrashRule, JobState, ProcessId, Register, Turn},
    prelude::*,
};
use queue_tests::{
    patience::{WatchBroker, until},
    server::{Kind, Server},
};

use super::scene::{LEASE, Scene, long, quick, slow};

#[tokio::test]
async fn a_queue_that_is_not_answered_takes_no_slot_from_the_others() {
    let scene = Scene::new();
    let running = scene.start(scene.worker().concurrency(1));
    quick::job(1).enqueue(&scene.sound).await.unwrap();
    scene.seen(1, "start").await;
    scene.cut.hold(Some("slow"));
    let late = slow::job(2).enqueue(&scene.sound).await.unwrap();
    until("a turn to be kept", async || scene.cut.holding() > 0).await;
    long::job(3).enqueue(&scene.sound).await.unwrap();
    scene.seen(3, "start").await;
    // The answer comes after all, and finds no slot.
    scene.cut.hold(None);
    until("the job to go back", async || scene.returned("slow").await == 1).await;
    scene.seen.open.send_replace(true);
    until("its end", async || late.status().await.unwrap() == Some(JobState::Done)).await;
    assert_eq!(scene.seen.of(2), ["start", "end"]);
    assert_eq!(scene.sound.inspector().show(late.address()).await.unwrap().failures, 0);
    scene.end(running).await;
}

#[tokio::test]
async fn queues_whose_server_is_away_keep_no_other_from_being_served() {
    let scene = Scene::new();
    scene.cut.hold(Some("away"));
    let away = (0..200).map(|number| format!("away-{number}"));
    let worker = away.fold(scene.worker(), |worker, queue| worker.queue(queue.as_str())).queue("quick");
    quick::job(1).enqueue(&scene.sound).await.unwrap();
    quick::job(2).queue("away-150").enqueue(&scene.sound).await.unwrap();
    let running = scene.start(worker);
    scene.seen(1, "start").await;
    assert_eq!(scene.seen.of(2), [""; 0]);
    scene.cut.hold(None);
    scene.seen(2, "start").await;
    scene.end(running).await;
}

/// A worker that claims a job of a queue and is never heard of again.
async fn claim_and_die(client: &Client, queue: &str) {
    let lease = Duration::from_millis(50);
    let name = client.broker().register(&Register::lane(queue, ProcessId::random(), lease)).await.unwrap().name;
    let answer = client.broker().turn(&Turn::new(queue, name, 1, lease).claim(1)).await.unwrap();
    assert_eq!(answer.deliveries.len(), 1);
}

/// Makes the only job of a queue a suspect.
async fn make_suspect(client: &Client, queue: &str) {
    claim_and_die(client, queue).await;
    let broker = client.broker();
    until("its lease to run out", async || !broker.overdue(queue, 0, 10).await.unwrap().expired.is_empty()).await;
    let lapsed = broker.overdue(queue, 0, 10).await.unwrap().expired;
    assert_eq!(broker.fence(queue, &lapsed).await.unwrap(), [true]);
    let at_once = CrashRule { delay: Duration::ZERO, ..CrashRule::default() };
    assert_eq!(broker.reclaim(queue, &at_once).await.unwrap().charged, 1);
}

#[tokio::test]
async fn a_claim_that_is_not_answered_keeps_no_suspect_of_another_queue_from_running() {
    let scene = Scene::new();
    let inspector = scene.sound.inspector();
    long::job(2).enqueue(&scene.sound).await.unwrap();
    make_suspect(&scene.sound, "quick").await;
    inspector.pause("quick").await.unwrap();
    let running = scene.start(scene.worker().queue("away").queue("quick"));
    let serves = async |queue: &str| inspector.stats(queue).await.is_ok_and(|stats| stats.lanes > 0);
    until("it to serve both", async || serves("away").await && serves("quick").await).await;
    scene.cut.hold(Some("away"));
    long::job(1).queue("away").enqueue(&scene.sound).await.unwrap();
    until("a claim to be on its way", async || scene.cut.holding() > 0).await;
    make_suspect(&scene.sound, "away").await;
    inspector.resume("quick").await.unwrap();
    scene.seen(2, "start").await;
    // What the late answer brings must not run beside the other.
    scene.cut.hold(None);
    until("it to be given back", async || scene.returned("away").await == 1).await;
    assert_eq!(scene.seen.of(1), [""; 0]);
    scene.seen.open.send_replace(true);
    scene.seen(1, "start").await;
    scene.end(running).await;
}

/// The claims of one that is away are small, as others leave little, so that it keeps room for more
/// than it can ask for.
#[tokio::test]
async fn a_queue_whose_claims_all_hang_keeps_no_slot_from_another() {
    let scene = Scene::new();
    let serves = async |queue: &str| scene.sound.inspector().stats(queue).await.is_ok_and(|stats| stats.lanes > 0);
    let running = scene.start(scene.worker().queue("away").queue("quick"));
    until("it to serve both", async || serves("away").await && serves("quick").await).await;
    scene.sound.enqueue_all((0..15).map(long::job)).await.unwrap();
    until("one slot to be left", async || scene.seen.starts() == 15).await;
    scene.cut.hold(Some("away"));
    until("no further claim to be possible", async || {
        quick::job(99).queue("away").enqueue(&scene.sound).await.unwrap();
        scene.cut.holding() == 4
    })
    .await;
    scene.seen.open.send_replace(true);
    until("the others to end", async || scene.sound.inspector().stats("quick").await.unwrap().total(Counter::Done) == 15).await;
    scene.seen.open.send_replace(false);
    scene.sound.enqueue_all((100..116).map(long::job)).await.unwrap();
    until("all slots to be used", async || scene.seen.starts() == 31).await;
    scene.seen.open.send_replace(true);
    scene.cut.hold(None);
    scene.end(running).await;
}

/// On a server, as other hands can make it refuse what concerns one queue.
#[tokio::test]
async fn a_queue_that_is_refused_keeps_the_jobs_of_the_dead_in_no_other() {
    let server = Server::start(Kind::Redis);
    let client = Client::connect(&server.url()).await.unwrap().watched();
    let scene = Scene::new();
    server.command(&["SET", "queue:{broken}:fenced", "no set"]);
    quick::job(1).enqueue(&client).await.unwrap();
    claim_and_die(&client, "quick").await;
    let running = scene.start(scene.worker_of(client).lease(LEASE).queue("broken").queue("quick"));
    scene.seen(1, "start").await;
    scene.end(running).await;
}
