//! What a Redis queue notes of itself, so that most requests need look at little: that it is plain, its last claim number, who has sent.

use std::time::Duration;

use queue_core::{
    Error, JobId,
    broker::{Broker, BuryReason, Ending, Enqueue, Inspect, NewJob, ProcessId, Register, SweepLimits, Turn},
};
use queue_testing::conformance::{ack, envelope, eventually, finish};
use queue_tests::{
    on_servers,
    server::{Kind, Server},
};

const LEASE: Duration = Duration::from_secs(60);

on_servers! {
    what_other_hands_have_brought_is_found_after_housekeeping
    what_other_hands_have_brought_beside_a_dead_job_is_found_after_housekeeping
    a_queue_is_known_to_be_plain_after_housekeeping
    a_claim_takes_sixty_four_large_jobs
    a_turn_that_stops_half_way_leaves_no_note
    claim_numbers_grow_whatever_the_clock_says
    a_producer_that_sends_between_two_looks_is_not_forgotten
    a_producer_is_looked_at_once_in_its_time
}

/// A turn of a plain queue looks at few keys, and what is plain is noted by our own scripts only.
async fn what_other_hands_have_brought_is_found_after_housekeeping(kind: Kind) {
    found_after_housekeeping(kind, false).await;
}

/// So does one of a queue that is plain but for a job that has failed, and is dead.
async fn what_other_hands_have_brought_beside_a_dead_job_is_found_after_housekeeping(kind: Kind) {
    found_after_housekeeping(kind, true).await;
}

async fn found_after_housekeeping(kind: Kind, beside_a_dead_job: bool) {
    let server = Server::start(kind);
    let broker = server.broker().await;
    let producer = broker.register(&Register::producer("notes", ProcessId::random())).await.unwrap();
    if beside_a_dead_job {
        let other = broker.register(&Register::worker("notes", ProcessId::random(), LEASE)).await.unwrap();
        broker.enqueue(&Enqueue::new("notes", producer.clone(), 1, jobs(1))).await.unwrap();
        let held = broker.turn(&Turn::new("notes", other.clone(), 1, LEASE).claim(1)).await.unwrap().deliveries;
        let ending = Ending::Bury { reason: BuryReason::Failed, error: Some("x".to_owned()) };
        broker.turn(&Turn::new("notes", other, 2, LEASE).finish(vec![finish(&held[0], ending)])).await.unwrap();
    }
    let worker = broker.register(&Register::worker("notes", ProcessId::random(), LEASE)).await.unwrap();
    broker.enqueue(&Enqueue::new("notes", producer, 2, jobs(1))).await.unwrap();
    let moved = server.command(&[
        "EVAL",
        "return redis.call('ZADD', KEYS[2], 1, redis.call('LPOP', KEYS[1]))",
        "2",
        "queue:{notes}:ready:2",
        "queue:{notes}:scheduled",
    ]);
    assert_eq!(moved.trim_end(), ":1");
    let claim = async |seq| broker.turn(&Turn::new("notes", worker.clone(), seq, LEASE).claim(1)).await.unwrap().deliveries.len();
    assert_eq!(claim(1).await, 0);
    broker.sweep("notes", &SweepLimits::default()).await.unwrap();
    assert_eq!(claim(2).await, 1);
}

/// Housekeeping is not sure, and the next turn is.
async fn a_queue_is_known_to_be_plain_after_housekeeping(kind: Kind) {
    let server = Server::start(kind);
    let broker = server.broker().await;
    let producer = broker.register(&Register::producer("notes", ProcessId::random())).await.unwrap();
    let worker = broker.register(&Register::worker("notes", ProcessId::random(), LEASE)).await.unwrap();
    let says = |field| server.command(&["HGET", "queue:{notes}:meta", field]).trim_end().to_owned();
    let noted = || says("plain") == "4503599627370496";
    assert!(noted(), "who registers has looked");
    broker.sweep("notes", &SweepLimits::default()).await.unwrap();
    assert!(!noted());
    broker.turn(&Turn::new("notes", worker.clone(), 1, LEASE).claim(1)).await.unwrap();
    assert!(noted());
    broker.enqueue(&Enqueue::new("notes", producer.clone(), 1, jobs(3))).await.unwrap();
    let held = broker.turn(&Turn::new("notes", worker.clone(), 2, LEASE).claim(3)).await.unwrap().deliveries;
    assert!(noted(), "ordinary jobs leave it so");
    let endings = vec![finish(&held[0], Ending::Nack { delay: Duration::ZERO, error: "x".to_owned() }), finish(&held[1], ack())];
    broker.turn(&Turn::new("notes", worker.clone(), 3, LEASE).finish(endings)).await.unwrap();
    assert_eq!(says("failed"), "1", "one has failed");
    let mut seq = 3;
    let retried = eventually("it is due", async || {
        seq += 1;
        broker.turn(&Turn::new("notes", worker.clone(), seq, LEASE).claim(1)).await.unwrap().deliveries.pop()
    })
    .await;
    let ending = Ending::Ack { result: None, keep: Some(Duration::from_secs(60)) };
    broker.turn(&Turn::new("notes", worker.clone(), seq + 1, LEASE).finish(vec![finish(&retried, ending)])).await.unwrap();
    assert!(noted() && says("failed") == "1", "who looks at little does not see that it was the last");
    let stale = broker.turn(&Turn::new("notes", worker.clone(), seq + 2, LEASE).finish(vec![finish(&retried, ack())])).await.unwrap().stale;
    assert!(stale == [0] && noted() && says("failed") == "0", "who looks at all does");
    let ending = Ending::Snooze { delay: Duration::from_millis(1) };
    broker.turn(&Turn::new("notes", worker.clone(), seq + 3, LEASE).finish(vec![finish(&held[2], ending)])).await.unwrap();
    assert!(!noted(), "one is snoozed");
    seq += 3;
    let snoozed = eventually("it is due", async || {
        seq += 1;
        broker.turn(&Turn::new("notes", worker.clone(), seq, LEASE).claim(1)).await.unwrap().deliveries.pop()
    })
    .await;
    broker.turn(&Turn::new("notes", worker.clone(), seq + 1, LEASE).finish(vec![finish(&snoozed, ack())])).await.unwrap();
    broker.turn(&Turn::new("notes", worker, seq + 2, LEASE)).await.unwrap();
    assert!(noted() && says("failed") == "0", "and is gone");
}

/// The size of each is looked at, so that the script stays short, whichever of the two it is. A large job alone is not out of the ordinary.
async fn a_claim_takes_sixty_four_large_jobs(kind: Kind) {
    let server = Server::start(kind);
    let broker = server.broker().await;
    let producer = broker.register(&Register::producer("notes", ProcessId::random())).await.unwrap();
    let worker = broker.register(&Register::worker("notes", ProcessId::random(), LEASE)).await.unwrap();
    let is_noted = || server.command(&["HEXISTS", "queue:{notes}:meta", "plain"]).trim_end() == ":1";
    for (round, plain) in [(1, true), (2, false)] {
        let large = (0..70).map(|n| NewJob::new(JobId::make(), vec![n; 2049])).collect();
        broker.enqueue(&Enqueue::new("notes", producer.clone(), round, large)).await.unwrap();
        if !plain {
            broker.set_paused("notes", true).await.unwrap();
            broker.set_paused("notes", false).await.unwrap();
        }
        assert_eq!(is_noted(), plain);
        for (seq, (jobs, more)) in [(2 * round - 1, (64, true)), (2 * round, (6, false))] {
            let answer = broker.turn(&Turn::new("notes", worker.clone(), seq, LEASE).claim(100)).await.unwrap();
            assert_eq!((answer.deliveries.len(), answer.more), (jobs, more), "plain: {plain}");
        }
    }
}

/// The note goes before anything else is stored.
async fn a_turn_that_stops_half_way_leaves_no_note(kind: Kind) {
    let server = Server::start(kind);
    let broker = server.broker().await;
    let producer = broker.register(&Register::producer("notes", ProcessId::random())).await.unwrap();
    let worker = broker.register(&Register::worker("notes", ProcessId::random(), LEASE)).await.unwrap();
    broker.enqueue(&Enqueue::new("notes", producer, 1, jobs(1))).await.unwrap();
    let held = broker.turn(&Turn::new("notes", worker.clone(), 1, LEASE).claim(1)).await.unwrap().deliveries;
    server.command(&["SET", "queue:{notes}:retry", "no set"]);
    let ending = Ending::Nack { delay: Duration::ZERO, error: "x".to_owned() };
    broker.turn(&Turn::new("notes", worker, 2, LEASE).finish(vec![finish(&held[0], ending)])).await.unwrap_err();
    assert_eq!(server.command(&["HEXISTS", "queue:{notes}:meta", "plain"]).trim_end(), ":0");
}

/// A handler may fence its own storage with the number, also when the server's clock was set back.
async fn claim_numbers_grow_whatever_the_clock_says(kind: Kind) {
    let server = Server::start(kind);
    let broker = server.broker().await;
    let producer = broker.register(&Register::producer("notes", ProcessId::random())).await.unwrap();
    let worker = broker.register(&Register::worker("notes", ProcessId::random(), LEASE)).await.unwrap();
    broker.enqueue(&Enqueue::new("notes", producer, 1, jobs(3))).await.unwrap();
    let last = 4_000_000_000_000;
    server.command(&["HSET", "queue:{notes}:meta", "claim", &last.to_string()]);
    for seq in 1..=3 {
        let held = broker.turn(&Turn::new("notes", worker.clone(), seq, LEASE).claim(1)).await.unwrap().deliveries;
        assert_eq!(held[0].claim, last + seq);
    }
}

/// An enqueue does not say when it was: housekeeping finds out who has sent since it last looked.
async fn a_producer_that_sends_between_two_looks_is_not_forgotten(kind: Kind) {
    let server = Server::start(kind);
    let broker = server.broker().await;
    let producer = broker.register(&Register::producer("notes", ProcessId::random())).await.unwrap();
    let limits = SweepLimits { producers: Duration::ZERO, ..SweepLimits::default() };
    let send = async |seq| broker.enqueue(&Enqueue::new("notes", producer.clone(), seq, jobs(1))).await;
    for seq in 1..=3 {
        send(seq).await.unwrap();
        assert_eq!(broker.sweep("notes", &limits).await.unwrap().producers, 0, "it has sent");
        send(seq).await.expect("a replay is no new enqueue, and known after the look");
    }
    assert_eq!(broker.sweep("notes", &limits).await.unwrap().producers, 1, "it has sent nothing");
    assert!(matches!(send(4).await, Err(Error::Forgotten(_))));
    assert_eq!(broker.stats("notes").await.unwrap().counters["enqueued"], 3);
}

/// From a look on its time begins anew, whether it sends or not.
async fn a_producer_is_looked_at_once_in_its_time(kind: Kind) {
    let server = Server::start(kind);
    let broker = server.broker().await;
    let producer = broker.register(&Register::producer("notes", ProcessId::random())).await.unwrap();
    broker.enqueue(&Enqueue::new("notes", producer.clone(), 1, jobs(1))).await.unwrap();
    let entry = || server.command(&["HGET", "queue:{notes}:producers", producer.as_str()]);
    server.command(&["ZADD", "queue:{notes}:seen", "1", producer.as_str()]);
    for _ in 0..3 {
        assert_eq!(broker.sweep("notes", &SweepLimits::default()).await.unwrap().producers, 0);
        assert!(entry().contains("1?"), "{}", entry());
    }
    server.command(&["ZADD", "queue:{notes}:seen", "1", producer.as_str()]);
    assert_eq!(broker.sweep("notes", &SweepLimits::default()).await.unwrap().producers, 1);
}

fn jobs(n: usize) -> Vec<NewJob> {
    (0..n).map(|n| NewJob::new(JobId::make(), envelope(&n.to_string()))).collect()
}
