//! What a Redis queue notes of itself, so that most requests read few keys: its feature bits, its
//! last claim number, who has sent.

use std::time::Duration;

use queue_conformance::{
    Changes as _,
    conformance::{envelope, eventually, finish},
};
use queue_core::{
    Error, JobId,
    broker::{
        Audit, Broker, BuryReason, Counter, CrashRule, Damage, DamageKind, Delivery, Due, Ending, Enqueue, Inspect, NewJob, PartyName,
        Priority, ProcessId, Register, SetPause, SweepLimits, Turn,
    },
};
use queue_tests::{
    on_servers,
    server::{Kind, Server},
};

const LEASE: Duration = Duration::from_secs(60);

on_servers! {
    what_other_hands_have_brought_is_found_after_housekeeping
    what_other_hands_have_brought_beside_a_dead_job_is_found_after_housekeeping
    bits_are_set_by_whoever_writes_and_cleared_by_housekeeping
    a_queue_without_readable_bits_has_all_of_them
    a_feature_that_is_not_known_is_refused_by_its_name
    a_feature_waits_for_the_last_lane_that_does_not_know_it
    the_auditor_finds_what_has_no_bit
    a_claim_takes_sixty_four_large_jobs
    a_paused_queue_lets_due_jobs_wait_whose_time_is_not_noted
    a_turn_that_stops_half_way_has_set_its_bit
    claim_numbers_grow_whatever_the_clock_says
    a_producer_that_sends_between_two_looks_is_not_forgotten
    a_producer_is_examined_once_in_its_time
    a_dead_job_that_crashed_sets_no_bit
}

/// A turn of a plain queue reads few keys, and the bits are set by our own scripts only.
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
    let producer = broker.register(&Register::producer("notes", ProcessId::random())).await.unwrap().name;
    if beside_a_dead_job {
        let other = broker.register(&Register::lane("notes", ProcessId::random(), LEASE)).await.unwrap().name;
        broker.enqueue(&Enqueue::new("notes", producer.clone(), 1, jobs(1))).await.unwrap();
        let held = broker.turn(&Turn::new("notes", other.clone(), 1, LEASE).claim(1)).await.unwrap().deliveries;
        let ending = Ending::Bury { reason: BuryReason::Failed, error: Some("x".to_owned()) };
        broker.turn(&Turn::new("notes", other, 2, LEASE).finish(vec![finish(&held[0], ending)])).await.unwrap();
    }
    let worker = broker.register(&Register::lane("notes", ProcessId::random(), LEASE)).await.unwrap().name;
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

/// A queue with a producer and a lane, on a server of its own.
struct Scene {
    server: Server,
    broker: std::sync::Arc<queue_core::__private::RedisBroker>,
    producer: PartyName,
    worker: PartyName,
}

impl Scene {
    async fn new(kind: Kind) -> Self {
        let server = Server::start(kind);
        let broker = server.broker().await;
        let producer = broker.register(&Register::producer("notes", ProcessId::random())).await.unwrap().name;
        let worker = broker.register(&Register::lane("notes", ProcessId::random(), LEASE)).await.unwrap().name;
        Scene { server, broker, producer, worker }
    }

    /// The stored bits, in the order of the alphabet.
    fn bits(&self) -> String {
        let mut letters: Vec<char> = self.meta("bits").chars().collect();
        letters.sort_unstable();
        letters.into_iter().collect()
    }

    fn meta(&self, field: &str) -> String {
        self.server.command(&["HGET", "queue:{notes}:meta", field]).trim_end().to_owned()
    }

    async fn enqueue(&self, seq: u64, jobs: Vec<NewJob>) -> Result<(), Error> {
        self.broker.enqueue(&Enqueue::new("notes", self.producer.clone(), seq, jobs)).await.map(drop)
    }

    fn turn(&self, seq: u64) -> Turn {
        Turn::new("notes", self.worker.clone(), seq, LEASE)
    }

    async fn claim(&self, seq: u64, claim: usize) -> Vec<Delivery> {
        self.broker.turn(&self.turn(seq).claim(claim)).await.unwrap().deliveries
    }

    async fn finish(&self, seq: u64, delivery: &Delivery, ending: Ending) {
        self.broker.turn(&self.turn(seq).finish(vec![finish(delivery, ending)])).await.unwrap();
    }

    async fn housekeeping(&self) {
        self.broker.sweep("notes", &SweepLimits::default()).await.unwrap();
    }
}

const NONE_WAITS: &str = "4503599627370496";

async fn bits_are_set_by_whoever_writes_and_cleared_by_housekeeping(kind: Kind) {
    let scene = Scene::new(kind).await;
    assert_eq!((scene.bits().as_str(), scene.meta("due").as_str()), ("", NONE_WAITS), "who registers has looked");
    scene.enqueue(1, jobs(4)).await.unwrap();
    let held = scene.claim(1, 4).await;
    assert_eq!(scene.bits(), "", "ordinary jobs need none");
    scene.finish(2, &held[0], Ending::Nack { delay: Duration::from_secs(60), error: "x".to_owned() }).await;
    assert_eq!(scene.bits(), "f");
    assert_ne!(scene.meta("due"), NONE_WAITS);
    scene.finish(3, &held[1], Ending::Snooze { delay: Duration::from_secs(60) }).await;
    scene.finish(4, &held[2], Ending::Ack { result: None, keep: Some(Duration::from_secs(60)) }).await;
    scene.finish(5, &held[3], Ending::Park { task: "later".to_owned() }).await;
    assert_eq!(scene.bits(), "afkz");
    let high = high();
    let large = NewJob::new(JobId::make(), vec![0; 2049]);
    let (high_id, large_id) = (high.id.clone(), large.id.clone());
    scene.enqueue(2, vec![high, large]).await.unwrap();
    assert_eq!(scene.bits(), "afklpz");
    scene.broker.cancel("notes", &[high_id]).await.unwrap();
    scene.broker.set_pause(&SetPause::of_queue("notes", true)).await.unwrap();
    assert_eq!(scene.bits(), "afhklptz");
    scene.housekeeping().await;
    assert_eq!(scene.bits(), "afhklptz", "all of it is still there");
    scene.broker.set_pause(&SetPause::of_queue("notes", false)).await.unwrap();
    let all: Vec<JobId> = held.iter().map(|delivery| delivery.id.clone()).chain([large_id]).collect();
    scene.broker.delete("notes", &all).await.unwrap();
    assert_eq!(scene.claim(6, 1).await.len(), 0);
    scene.housekeeping().await;
    assert_eq!(scene.bits(), "kl", "the cancelled job is kept, and nobody reads sizes to see that no job is large");
    assert_eq!(scene.meta("due"), NONE_WAITS);
}

/// Whoever took them away may have taken anything.
async fn a_queue_without_readable_bits_has_all_of_them(kind: Kind) {
    let scene = Scene::new(kind).await;
    for (seq, bits) in [(1, None), (2, Some("7?")), (3, Some("F"))] {
        scene.enqueue(2 * seq - 1, vec![high()]).await.unwrap();
        match bits {
            None => scene.server.command(&["HDEL", "queue:{notes}:meta", "bits"]),
            Some(bits) => scene.server.command(&["HSET", "queue:{notes}:meta", "bits", bits]),
        };
        assert_eq!(scene.claim(2 * seq - 1, 1).await.len(), 1, "{bits:?}");
        scene.enqueue(2 * seq, jobs(1)).await.unwrap();
        assert_eq!(scene.claim(2 * seq, 1).await.len(), 1, "{bits:?}");
        scene.housekeeping().await;
        assert!(scene.bits().contains('p'), "who looks knows: {}", scene.bits());
    }
}

/// What a newer library has stored would be ignored by this one.
async fn a_feature_that_is_not_known_is_refused_by_its_name(kind: Kind) {
    let scene = Scene::new(kind).await;
    scene.enqueue(1, jobs(1)).await.unwrap();
    scene.server.command(&["HSET", "queue:{notes}:meta", "bits", "fx", "feature:x", "fair groups"]);
    let refused = |error: Error| matches!(error, Error::FeatureUnknown { feature, by: "this library", .. } if feature == "fair groups");
    assert!(refused(scene.broker.turn(&scene.turn(1).claim(1)).await.unwrap_err()));
    assert!(refused(scene.enqueue(2, jobs(1)).await.unwrap_err()));
    assert!(refused(scene.broker.register(&Register::lane("notes", ProcessId::random(), LEASE)).await.unwrap_err()));
    assert!(refused(scene.broker.cancel("notes", &[JobId::make()]).await.unwrap_err()));
    assert_eq!(scene.bits(), "fx", "nothing was written");
    scene.server.command(&["HSET", "queue:{notes}:meta", "bits", "f"]);
    assert_eq!(scene.claim(1, 2).await.len(), 1, "nor stored");
}

/// An older lane would not serve it, or ignore what it says.
async fn a_feature_waits_for_the_last_lane_that_does_not_know_it(kind: Kind) {
    let scene = Scene::new(kind).await;
    let other = scene.broker.register(&Register::lane("notes", ProcessId::random(), LEASE)).await.unwrap().name;
    scene.server.command(&["HSET", "queue:{notes}:knows", other.as_str(), "lf"]);
    let error = scene.enqueue(1, vec![high()]).await.unwrap_err();
    assert!(matches!(&error, Error::FeatureUnknown { feature, by: "a worker of the queue", .. } if feature == "priority"), "{error}");
    assert!(error.to_string().contains("a worker of the queue at"), "{error}");
    assert_eq!((scene.bits(), scene.claim(1, 1).await.len()), (String::new(), 0), "nothing was stored");
    scene.enqueue(1, jobs(1)).await.expect("others are");
    scene.server.command(&["HSET", "queue:{notes}:knows", "a-lane-that-is-no-more.1.1", "l"]);
    // The lane ends.
    scene.server.command(&["ZADD", "queue:{notes}:leases", "1", other.as_str()]);
    let overdue = scene.broker.overdue("notes", 0, 10).await.unwrap().expired;
    assert_eq!(scene.broker.fence("notes", &overdue).await.unwrap(), [true]);
    scene.enqueue(2, vec![high()]).await.expect("every lane knows it now");
    assert_eq!(scene.claim(2, 2).await.len(), 2);
}

/// Turns do not read a key whose bit is not set: somebody has to find what another program has put
/// there.
async fn the_auditor_finds_what_has_no_bit(kind: Kind) {
    let scene = Scene::new(kind).await;
    scene.enqueue(1, jobs(1)).await.unwrap();
    let moved = ["EVAL", "return redis.call('LMOVE', KEYS[1], KEYS[2], 'LEFT', 'RIGHT') and 1", "2"];
    scene.server.command(&[&moved[..], &["queue:{notes}:ready:2", "queue:{notes}:ready:0"]].concat());
    assert_eq!(scene.claim(1, 1).await.len(), 0, "no turn reads that list");
    let audit = async |repair| scene.broker.audit("notes", Audit { repair, thorough: false }).await.unwrap();
    let told = Damage { kind: DamageKind::FeatureUnnoted, subject: "priority".to_owned() };
    assert_eq!(audit(false).await, std::slice::from_ref(&told));
    assert_eq!(audit(true).await, [told]);
    assert!(audit(false).await.is_empty());
    assert_eq!(scene.claim(2, 1).await.len(), 1);
}

/// The size of each is read, so that the script stays short. A large job alone is not out of the
/// ordinary.
async fn a_claim_takes_sixty_four_large_jobs(kind: Kind) {
    let scene = Scene::new(kind).await;
    for (round, bits) in [(1, "l"), (2, "hl")] {
        scene.enqueue(round, (0..70).map(|n| NewJob::new(JobId::make(), vec![n; 2049])).collect()).await.unwrap();
        if round == 2 {
            // As if it were paused, which it is not.
            scene.server.command(&["HSET", "queue:{notes}:meta", "bits", bits]);
        }
        assert_eq!(scene.bits(), bits);
        for (seq, (jobs, more)) in [(2 * round - 1, (64, true)), (2 * round, (6, false))] {
            let answer = scene.broker.turn(&scene.turn(seq).claim(100)).await.unwrap();
            assert_eq!((answer.deliveries.len(), answer.more), (jobs, more), "bits: {bits}");
        }
    }
}

/// Whoever took the note away may have made a job due.
async fn a_paused_queue_lets_due_jobs_wait_whose_time_is_not_noted(kind: Kind) {
    let scene = Scene::new(kind).await;
    let mut later = NewJob::new(JobId::make(), envelope("later"));
    later.due = Due::After(LEASE);
    scene.enqueue(1, vec![later]).await.unwrap();
    scene.broker.set_pause(&SetPause::of_queue("notes", true)).await.unwrap();
    let moved = "redis.call('ZADD', KEYS[1], 1, redis.call('ZRANGE', KEYS[1], 0, 0)[1]) return redis.call('HDEL', KEYS[2], 'due')";
    scene.server.command(&["EVAL", moved, "2", "queue:{notes}:scheduled", "queue:{notes}:meta"]);
    assert_eq!(scene.claim(1, 1).await.len(), 0);
    assert_eq!(scene.server.command(&["ZCARD", "queue:{notes}:scheduled"]).trim_end(), ":1");
    scene.broker.set_pause(&SetPause::of_queue("notes", false)).await.unwrap();
    assert_eq!(scene.claim(2, 1).await.len(), 1);
}

/// The bit goes before anything that it tells of.
async fn a_turn_that_stops_half_way_has_set_its_bit(kind: Kind) {
    let scene = Scene::new(kind).await;
    scene.enqueue(1, jobs(1)).await.unwrap();
    let held = scene.claim(1, 1).await;
    scene.server.command(&["SET", "queue:{notes}:retry", "no set"]);
    let ending = Ending::Nack { delay: Duration::ZERO, error: "x".to_owned() };
    scene.broker.turn(&scene.turn(2).finish(vec![finish(&held[0], ending)])).await.unwrap_err();
    assert_eq!(scene.bits(), "f");
    assert_ne!(scene.meta("due"), NONE_WAITS);
}

/// A handler may fence its own storage with the number, also when the server's clock was set back.
async fn claim_numbers_grow_whatever_the_clock_says(kind: Kind) {
    let server = Server::start(kind);
    let broker = server.broker().await;
    let producer = broker.register(&Register::producer("notes", ProcessId::random())).await.unwrap().name;
    let worker = broker.register(&Register::lane("notes", ProcessId::random(), LEASE)).await.unwrap().name;
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
    let producer = broker.register(&Register::producer("notes", ProcessId::random())).await.unwrap().name;
    let limits = SweepLimits { producers: Duration::ZERO, ..SweepLimits::default() };
    let send = async |seq| broker.enqueue(&Enqueue::new("notes", producer.clone(), seq, jobs(1))).await;
    for seq in 1..=3 {
        send(seq).await.unwrap();
        assert_eq!(broker.sweep("notes", &limits).await.unwrap().producers, 0, "it has sent");
        send(seq).await.expect("a replay is no new enqueue, and known after the look");
    }
    assert_eq!(broker.sweep("notes", &limits).await.unwrap().producers, 1, "it has sent nothing");
    assert!(matches!(send(4).await, Err(Error::Forgotten(_))));
    assert_eq!(broker.stats("notes").await.unwrap().total(Counter::Enqueued), 3);
}

/// From a look on its time begins anew, whether it sends or not.
async fn a_producer_is_examined_once_in_its_time(kind: Kind) {
    let server = Server::start(kind);
    let broker = server.broker().await;
    let producer = broker.register(&Register::producer("notes", ProcessId::random())).await.unwrap().name;
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

fn high() -> NewJob {
    let mut job = jobs(1).remove(0);
    job.priority = Priority::High;
    job
}

/// Its crashes are kept for people, for as long as it is. A claim needs not ask for suspects
/// meanwhile.
async fn a_dead_job_that_crashed_sets_no_bit(kind: Kind) {
    const SHORT: Duration = Duration::from_millis(1);
    let scene = Scene::new(kind).await;
    let job = jobs(1).remove(0);
    let id = job.id.clone();
    scene.enqueue(1, vec![job]).await.unwrap();
    let dying = scene.broker.register(&Register::lane("notes", ProcessId::random(), SHORT)).await.unwrap().name;
    assert_eq!(scene.broker.turn(&Turn::new("notes", dying, 1, SHORT).claim(1)).await.unwrap().deliveries.len(), 1);
    let overdue = eventually("its lease ends", async || {
        let overdue = scene.broker.overdue("notes", 0, 1).await.unwrap().expired;
        (!overdue.is_empty()).then_some(overdue)
    })
    .await;
    assert_eq!(scene.broker.fence("notes", &overdue).await.unwrap(), [true]);
    let rule = CrashRule { max_crashes: 1, ..CrashRule::default() };
    assert_eq!(scene.broker.reclaim("notes", &rule).await.unwrap().buried, std::slice::from_ref(&id));
    assert!(scene.bits().contains('c'), "{}", scene.bits());
    scene.housekeeping().await;
    assert!(!scene.bits().contains('c'), "{}", scene.bits());
    assert_eq!(scene.broker.audit("notes", Audit { repair: false, thorough: true }).await.unwrap(), []);
    assert_eq!(scene.broker.show("notes", &id).await.unwrap().unwrap().crashes, 1);
    assert_eq!(scene.broker.requeue("notes", std::slice::from_ref(&id)).await.unwrap(), [true]);
    let again = scene.claim(1, 1).await.remove(0);
    assert_eq!((again.id, again.crashes), (id, 0));
    scene.housekeeping().await;
    assert!(!scene.bits().contains('c'), "{}", scene.bits());
    assert_eq!(scene.server.command(&["EXISTS", "queue:{notes}:crashes"]), ":0\r\n");
}
