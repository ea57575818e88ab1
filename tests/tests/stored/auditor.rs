//! What other hands break is found, told and repaired, and nothing else is touched.

use std::{collections::BTreeSet, time::Duration};

use queue_conformance::{
    Changes as _,
    conformance::{Lane, Producer, ack, envelope},
};
use queue_core::{
    __private::{Envelope, RedisBroker, SqliteBroker},
    JobId,
    broker::{
        Audit, BuryReason, Changed, Counter, Damage, DamageKind, DynBroker, Ending, JobState, MAX_BYTES, NewJob, PauseOf, Pausing, SetPause,
    },
};
use queue_tests::{
    folder::folder,
    on_servers,
    server::{Kind, Server},
};

on_servers! {
    a_lane_whose_lease_was_deleted_gets_one_that_is_over
    a_lane_whose_lease_never_ends_gets_one_that_is_over
    a_job_whose_lane_was_deleted_is_taken_back
    a_record_whose_lanes_were_deleted_is_removed
    a_worker_whose_record_is_gone_or_damaged_gets_one_that_reports_nothing
    ids_without_a_job_are_taken_out_wherever_they_wait
    a_job_that_waits_nowhere_is_found_and_runs
    damage_that_is_balanced_is_found_by_a_thorough_look
    an_id_that_is_twice_in_ready_is_left_there_once
    an_id_of_a_paused_task_that_is_twice_in_ready_is_parked_once_and_handed_out_never
    an_id_in_ready_of_a_job_that_is_elsewhere_is_taken_out
    doubles_are_found_in_long_lists_while_others_push_and_claim
    a_claim_hands_out_no_job_that_runs
    a_claim_hands_out_no_job_that_has_ended_and_is_kept
}

const QUEUE: &str = "audited";
const LOOK: Audit = Audit { repair: false, thorough: false };
const REPAIR: Audit = Audit { repair: true, thorough: false };

struct Place {
    server: Server,
    broker: DynBroker,
}

impl Place {
    async fn on(kind: Kind) -> Place {
        let server = Server::start(kind);
        let broker: DynBroker = RedisBroker::connect(&server.url()).await.unwrap();
        Place { server, broker }
    }

    async fn put(&self, jobs: usize) -> Vec<JobId> {
        let mut producer = Producer::on(&self.broker, QUEUE).await;
        let jobs: Vec<NewJob> = (0..jobs).map(|number| NewJob::new(JobId::make(), envelope(&number.to_string()))).collect();
        let ids = jobs.iter().map(|job| job.id.clone()).collect();
        producer.send(jobs).await;
        ids
    }

    /// Jobs with ids that a command can name.
    async fn put_given(&self, jobs: usize) -> Vec<JobId> {
        let mut producer = Producer::on(&self.broker, QUEUE).await;
        let ids: Vec<JobId> = (0..jobs).map(|number| JobId::given(&format!("job-{number}")).unwrap()).collect();
        for some in ids.chunks(500) {
            producer.stored(some.iter().map(|id| NewJob::new(id.clone(), envelope("x"))).collect()).await;
        }
        ids
    }

    /// Breaks something, as whoever has the server's command line can.
    fn command(&self, verb: &str, kind: &str, arguments: &[&str]) -> String {
        let key = format!("queue:{{{QUEUE}}}:{kind}");
        let mut words = vec![verb, &key];
        words.extend(arguments);
        self.server.command(&words)
    }

    async fn audit(&self, how: Audit) -> Vec<DamageKind> {
        self.broker.audit(QUEUE, how).await.unwrap().into_iter().map(|damage| damage.kind).collect()
    }

    async fn depth(&self, state: JobState) -> u64 {
        self.broker.stats(QUEUE).await.unwrap().count(state)
    }

    async fn repaired(&self) -> u64 {
        self.broker.stats(QUEUE).await.unwrap().total(Counter::Repaired)
    }

    /// Finds, repairs, and finds nothing any more.
    async fn mends(&self, damages: &[DamageKind]) {
        assert_eq!(self.audit(LOOK).await, damages, "found");
        assert_eq!(self.audit(LOOK).await, damages, "a look changes nothing");
        assert_eq!(self.audit(REPAIR).await, damages, "repaired");
        assert_eq!(self.audit(Audit { thorough: true, ..LOOK }).await, [], "nothing is left");
        assert_eq!(self.repaired().await, damages.len() as u64);
    }
}

async fn a_lane_whose_lease_was_deleted_gets_one_that_is_over(kind: Kind) {
    let place = Place::on(kind).await;
    place.put(1).await;
    let mut lane = Lane::on(&place.broker, QUEUE).await;
    assert_eq!(lane.claim(1).await.len(), 1);
    place.command("DEL", "leases", &[]);
    place.mends(&[DamageKind::LaneWithoutLease]).await;
    // From here on it is like every lane that fell silent.
    assert_eq!(place.broker.overdue(QUEUE, 0, 10).await.unwrap().expired.len(), 1);
}

async fn a_lane_whose_lease_never_ends_gets_one_that_is_over(kind: Kind) {
    let place = Place::on(kind).await;
    place.put(1).await;
    let mut lane = Lane::on(&place.broker, QUEUE).await;
    assert_eq!(lane.claim(1).await.len(), 1);
    for end in ["+inf", "1e300"] {
        place.command("ZADD", "leases", &["XX", end, lane.name.as_str()]);
        assert_eq!(place.audit(LOOK).await, [DamageKind::LaneWithoutLease], "{end}");
    }
    place.mends(&[DamageKind::LaneWithoutLease]).await;
    assert_eq!(place.broker.overdue(QUEUE, 0, 10).await.unwrap().expired.len(), 1);
}

async fn a_job_whose_lane_was_deleted_is_taken_back(kind: Kind) {
    let place = Place::on(kind).await;
    place.put(2).await;
    let mut lane = Lane::on(&place.broker, QUEUE).await;
    assert_eq!(lane.claim(2).await.len(), 2);
    place.command("DEL", "lanes", &[]);
    place.command("DEL", "leases", &[]);
    let found = [DamageKind::RecordWithoutLane, DamageKind::HeldByNobody, DamageKind::HeldByNobody];
    assert_eq!(place.audit(LOOK).await, found);
    assert_eq!(place.audit(REPAIR).await[..2], found[..2]);
    place.broker.reclaim(QUEUE, &queue_core::broker::CrashRule::default()).await.unwrap();
    assert_eq!(place.audit(LOOK).await, []);
    assert_eq!((place.depth(JobState::Active).await, place.depth(JobState::Retry).await), (0, 2));
}

async fn a_record_whose_lanes_were_deleted_is_removed(kind: Kind) {
    let place = Place::on(kind).await;
    let (lost, lives) = (Lane::on(&place.broker, QUEUE).await, Lane::on(&place.broker, QUEUE).await);
    for key in ["leases", "durations"] {
        place.command("ZREM", key, &[lost.name.as_str()]);
    }
    place.command("HDEL", "lanes", &[lost.name.as_str()]);
    place.command("HSET", "workers", &["theirs", "garbage"]);
    place.mends(&[DamageKind::RecordWithoutLane; 2]).await;
    let left = place.broker.workers(QUEUE).await.unwrap();
    assert_eq!(left.iter().map(|worker| worker.id.to_string()).collect::<Vec<_>>(), [lives.name.process()]);
    assert_eq!(place.command("HLEN", "workers", &[]).trim_end(), ":1");
}

async fn a_worker_whose_record_is_gone_or_damaged_gets_one_that_reports_nothing(kind: Kind) {
    let place = Place::on(kind).await;
    let (sound, mut harmed) = (Lane::on(&place.broker, QUEUE).await, Vec::new());
    // One whose record is of a newer library has nothing that could be repaired.
    for damage in [None, Some("garbage"), Some(""), Some("\x07"), Some("\u{7f}")] {
        let lane = Lane::on(&place.broker, QUEUE).await;
        match damage {
            None => place.command("HDEL", "workers", &[lane.name.process()]),
            Some(damage) => place.command("HSET", "workers", &[lane.name.process(), damage]),
        };
        harmed.push(lane);
    }
    let newer = Lane::on(&place.broker, QUEUE).await;
    place.server.command(&["EVAL", NEWER, "1", &format!("queue:{{{QUEUE}}}:workers"), newer.name.process()]);
    let workers = place.broker.workers(QUEUE).await.unwrap();
    assert_eq!(workers.len(), 7, "all are listed");
    let known: Vec<String> = workers.iter().filter(|worker| worker.since.is_some()).map(|worker| worker.id.to_string()).collect();
    assert_eq!(known, [sound.name.process()]);
    let found = place.broker.audit(QUEUE, LOOK).await.unwrap();
    let (mut named, mut expected): (Vec<&str>, Vec<&str>) =
        (found.iter().map(|damage| damage.subject.as_str()).collect(), harmed.iter().map(|lane| lane.name.process()).collect());
    named.sort_unstable();
    expected.sort_unstable();
    assert_eq!(named, expected);
    place.mends(&[DamageKind::WorkerWithoutRecord; 5]).await;
    let workers = place.broker.workers(QUEUE).await.unwrap();
    assert_eq!(workers.iter().filter(|worker| worker.since.is_none()).count(), 1, "what a newer library says stays as it is");
    // Lanes live as before, and take their records with them.
    for mut lane in harmed {
        lane.claim(0).await;
        lane.lease = Duration::from_millis(1);
        lane.claim(0).await;
        queue_conformance::conformance::eventually("its lease ends", async || {
            let seen = place.broker.overdue(QUEUE, 0, 10).await.unwrap().expired;
            let fenced = place.broker.fence(QUEUE, &seen).await.unwrap();
            (fenced == [true]).then_some(())
        })
        .await;
    }
    assert_eq!(place.command("HLEN", "workers", &[]).trim_end(), ":2");
}

/// Stores the record of a newer library.
const NEWER: &str = "redis.call('HSET', KEYS[1], ARGV[1], '\\147\\2\\161h\\161x')";

async fn ids_without_a_job_are_taken_out_wherever_they_wait(kind: Kind) {
    let place = Place::on(kind).await;
    place.put(3).await;
    place.command("RPUSH", "ready:2", &["=ghost-1"]);
    place.command("RPUSH", "ready:0", &["=ghost-2"]);
    place.command("ZADD", "scheduled", &["99999999999999", "=ghost-3"]);
    place.command("ZADD", "retry", &["99999999999999", "=ghost-4"]);
    place.command("ZADD", "dead", &["1", "=ghost-5"]);
    let [ghost, unnoted] = [DamageKind::IdWithoutJob, DamageKind::FeatureUnnoted];
    place.mends(&[unnoted, ghost, ghost, ghost, ghost, ghost]).await;
    assert_eq!(place.depth(JobState::Ready).await, 3, "the others are untouched");
}

async fn a_job_that_waits_nowhere_is_found_and_runs(kind: Kind) {
    let place = Place::on(kind).await;
    place.put(20).await;
    let mut lane = Lane::on(&place.broker, QUEUE).await;
    let held = lane.claim(3).await;
    place.command("DEL", "ready:2", &[]);
    place.mends(&[DamageKind::JobWithoutPlace; 17]).await;
    // Those that run are left alone, and all others run.
    assert!(lane.end(&held[0], ack()).await);
    assert_eq!(lane.claim(100).await.len(), 17);
}

/// As many jobs too many as ids too many: the balance does not show it.
async fn damage_that_is_balanced_is_found_by_a_thorough_look(kind: Kind) {
    let place = Place::on(kind).await;
    place.put(2).await;
    place.command("LPOP", "ready:2", &[]);
    place.command("RPUSH", "ready:2", &["=ghost"]);
    assert_eq!(place.audit(LOOK).await, []);
    let found = place.audit(Audit { repair: true, thorough: true }).await;
    assert_eq!(found, [DamageKind::IdWithoutJob, DamageKind::JobWithoutPlace]);
    assert_eq!(place.depth(JobState::Ready).await, 2);
}

async fn an_id_that_is_twice_in_ready_is_left_there_once(kind: Kind) {
    let place = Place::on(kind).await;
    let ids = place.put_given(5).await;
    place.command("RPUSH", "ready:2", &["=job-0"]);
    place.command("LPUSH", "ready:2", &["=job-1", "=job-1"]);
    place.command("RPUSH", "ready:0", &["=job-2", "=job-2"]);
    place.command("RPUSH", "suspect", &["=job-3"]);
    let found = place.broker.audit(QUEUE, LOOK).await.unwrap();
    let mut named: Vec<&str> = found.iter().map(|damage| damage.subject.as_str()).collect();
    named.sort_unstable();
    assert_eq!(named, ["crashed", "job-0", "job-1", "job-2", "job-3", "priority"]);
    let [twice, unnoted] = [DamageKind::IdInTwoPlaces, DamageKind::FeatureUnnoted];
    place.mends(&[unnoted, unnoted, twice, twice, twice, twice]).await;
    assert_eq!(place.depth(JobState::Ready).await, 5);
    // One that is cancelled now, and one that comes back, are where they belong once more.
    assert_eq!(place.broker.cancel(QUEUE, &ids[1..2]).await.unwrap(), [Changed::Yes]);
    let mut lane = Lane::on(&place.broker, QUEUE).await;
    let held = lane.claim(100).await;
    let mut served: Vec<String> = held.iter().map(|delivery| delivery.id.to_string()).collect();
    served.sort_unstable();
    assert_eq!(served, ["job-0", "job-2", "job-3", "job-4"]);
    let (answer, looked) = (lane.claim(100).await, place.audit(Audit { thorough: true, ..LOOK }).await);
    assert_eq!((answer.len(), looked, place.depth(JobState::Ready).await), (0, vec![], 0));
}

async fn an_id_of_a_paused_task_that_is_twice_in_ready_is_parked_once_and_handed_out_never(kind: Kind) {
    let place = Place::on(kind).await;
    let ids = place.put_given(3).await;
    place.command("LPUSH", "ready:2", &["=job-0", "=job-1"]);
    let task = Envelope::decode(&envelope("x")).unwrap().task.into();
    place.broker.set_pause(&SetPause::pause(QUEUE, PauseOf::Task(task), Pausing::new())).await.unwrap();
    let mut lane = Lane::on(&place.broker, QUEUE).await;
    let turn = lane.next().claim(100);
    let answer = lane.send(&turn).await;
    let (mut aside, none) = (answer.aside, answer.deliveries.len());
    aside.sort_unstable();
    assert_eq!((aside, none), (ids, 0));
    assert_eq!([place.depth(JobState::Parked).await, place.depth(JobState::Active).await, place.repaired().await], [3, 0, 2]);
    assert_eq!(place.audit(Audit { thorough: true, ..LOOK }).await, []);
}

async fn an_id_in_ready_of_a_job_that_is_elsewhere_is_taken_out(kind: Kind) {
    let place = Place::on(kind).await;
    place.put_given(5).await;
    let mut lane = Lane::on(&place.broker, QUEUE).await;
    let held = lane.claim(5).await;
    let ends = [
        Ending::Ack { result: None, keep: Some(Duration::from_secs(60)) },
        Ending::Nack { error: "not yet".to_owned(), delay: Duration::from_secs(60) },
        Ending::Bury { reason: BuryReason::Buried, error: None },
        Ending::Park { task: "unknown".to_owned() },
    ];
    for (delivery, end) in held.iter().zip(ends) {
        assert!(lane.end(delivery, end).await);
    }
    for id in ["=job-0", "=job-1", "=job-2", "=job-3", "=job-4"] {
        place.command("RPUSH", "ready:2", &[id]);
    }
    // It lies there already, under a tombstone.
    let cancelled = JobId::given("cancelled").unwrap();
    Producer::on(&place.broker, QUEUE).await.stored(vec![NewJob::new(cancelled.clone(), envelope("x"))]).await;
    assert_eq!(place.broker.cancel(QUEUE, &[cancelled]).await.unwrap(), [Changed::Yes]);
    place.command("RPUSH", "ready:2", &["=cancelled"]);
    place.mends(&[DamageKind::IdInTwoPlaces; 6]).await;
    assert_eq!(place.depth(JobState::Ready).await, 0);
    assert_eq!((lane.claim(10).await.len(), place.command("EXISTS", "tomb", &[]).trim_end()), (0, ":0"));
    // The one that runs goes back once.
    assert!(lane.end(&held[4], Ending::Return).await);
    assert_eq!((place.depth(JobState::Ready).await, lane.claim(10).await.len()), (1, 1));
}

/// Neither what others push and claim meanwhile, nor the border between two reads, is taken for a
/// double.
async fn doubles_are_found_in_long_lists_while_others_push_and_claim(kind: Kind) {
    const DOUBLES: usize = 200;
    let place = Place::on(kind).await;
    let ids = place.put_given(12_000).await;
    let doubled: Vec<&JobId> = ids.iter().skip(6_000).step_by(17).take(DOUBLES).collect();
    for id in &doubled {
        place.command("RPUSH", "ready:2", &[&format!("={id}")]);
    }
    let is_over = std::cell::Cell::new(false);
    let audits = async {
        let mut found = Vec::new();
        // What is not found again in time is left to the next audit.
        for _ in 0..20 {
            found.extend(place.broker.audit(QUEUE, REPAIR).await.unwrap());
            if found.len() >= DOUBLES {
                break;
            }
        }
        is_over.set(true);
        found
    };
    let others = async {
        let (mut lane, mut producer, mut held) = (Lane::on(&place.broker, QUEUE).await, Producer::on(&place.broker, QUEUE).await, 0);
        while !is_over.get() {
            producer.send((0..50).map(|_| NewJob::new(JobId::make(), envelope("x"))).collect()).await;
            held += lane.claim(20).await.len();
            // An audit that is outrun gives up.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        held
    };
    let (found, held) = tokio::join!(audits, others);
    assert!(held > 0 && held < 5_000, "the doubles were not claimed: {held}");
    let mut named: Vec<&str> = found.iter().map(|damage| damage.subject.as_str()).collect();
    let mut expected: Vec<String> = doubled.iter().map(ToString::to_string).collect();
    named.sort_unstable();
    expected.sort_unstable();
    assert_eq!(named, expected);
    assert_eq!(place.audit(Audit { thorough: true, ..LOOK }).await, []);
}

/// Whatever a turn looks at: nothing else, failures, or all.
async fn a_claim_hands_out_no_job_that_runs(kind: Kind) {
    for (trace, size) in [("", 10), ("attempts", 10), ("snoozes", 10), ("", 3_000), ("snoozes", 3_000)] {
        let place = Place::on(kind).await;
        let mut producer = Producer::on(&place.broker, QUEUE).await;
        let ids: Vec<JobId> = (0..20).map(|number| JobId::given(&format!("job-{number}")).unwrap()).collect();
        producer.stored(ids.iter().map(|id| NewJob::new(id.clone(), vec![7; size])).collect()).await;
        if !trace.is_empty() {
            place.command("HSET", trace, &["=other", "5"]);
        }
        // Twice in one claim, and once more in the next.
        place.command("LPUSH", "ready:2", &["=job-0"]);
        place.command("RPUSH", "ready:2", &["=job-1", "=job-2"]);
        let mut lane = Lane::on(&place.broker, QUEUE).await;
        lane.claim(0).await;
        let mut answers = vec![lane.send(&lane.next().claim(11)).await];
        // And a third time, at the head, while it runs.
        place.command("LPUSH", "ready:2", &["=job-0"]);
        answers.push(lane.send(&lane.next().claim(5)).await);
        assert!(answers.iter().all(|answer| answer.more), "{trace:?}, {size}");
        while answers.last().is_some_and(|answer| answer.more) {
            answers.push(lane.send(&lane.next().claim(11)).await);
        }
        let held: Vec<_> = answers.iter().flat_map(|answer| &answer.deliveries).collect();
        let served: BTreeSet<&JobId> = held.iter().map(|delivery| &delivery.id).collect();
        assert_eq!((served.len(), held.len(), place.repaired().await), (20, 20, 4), "{trace:?}, {size}");
        for delivery in held {
            assert!(delivery.envelope.len() == size && lane.end(delivery, ack()).await, "each finish counts");
        }
        let stats = place.broker.stats(QUEUE).await.unwrap();
        assert_eq!((stats.total(Counter::Done), stats.jobs()), (20, 0));
        assert_eq!(place.audit(Audit { thorough: true, ..LOOK }).await, []);
    }
}

#[tokio::test]
async fn rows_that_were_deleted_from_a_sqlite_file_are_mended() {
    let folder = folder();
    let path = folder.path().join("queue.db");
    let broker: DynBroker = SqliteBroker::open_path(&path).unwrap();
    let mut producer = Producer::on(&broker, QUEUE).await;
    producer.send((0..3).map(|number| NewJob::new(JobId::make(), envelope(&number.to_string()))).collect()).await;
    let mut lane = Lane::on(&broker, QUEUE).await;
    let held = lane.claim(2).await;
    let parked = queue_core::broker::Ending::Park { task: "unknown".into() };
    assert!(lane.end(&held[1], parked).await);

    let other = rusqlite::Connection::open(&path).unwrap();
    other
        .execute_batch("DELETE FROM queue_lanes; DELETE FROM queue_parked; INSERT INTO queue_parked VALUES (1, 'unknown', x'3d41')")
        .unwrap();
    let found: Vec<Damage> = broker.audit(QUEUE, REPAIR).await.unwrap();
    let kinds: Vec<DamageKind> = found.iter().map(|damage| damage.kind).collect();
    let lost = [DamageKind::RecordWithoutLane, DamageKind::HeldByNobody, DamageKind::JobWithoutPlace, DamageKind::IdWithoutJob];
    assert_eq!(kinds, lost);
    assert_eq!(broker.audit(QUEUE, LOOK).await.unwrap(), []);
    broker.reclaim(QUEUE, &queue_core::broker::CrashRule::default()).await.unwrap();
    let stats = broker.stats(QUEUE).await.unwrap();
    assert_eq!([JobState::Active, JobState::Ready, JobState::Retry].map(|state| stats.count(state)), [0, 2, 1]);
}

#[tokio::test]
async fn records_of_workers_in_a_sqlite_file_are_mended() {
    let folder = folder();
    let path = folder.path().join("queue.db");
    let broker: DynBroker = SqliteBroker::open_path(&path).unwrap();
    let lanes = [Lane::on(&broker, QUEUE).await, Lane::on(&broker, QUEUE).await, Lane::on(&broker, QUEUE).await];
    let [gone, damaged, sound] = lanes.each_ref().map(|lane| lane.name.process());
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute("DELETE FROM queue_workers WHERE process = ?1", [gone]).unwrap();
    other.execute("UPDATE queue_workers SET record = x'7374' WHERE process = ?1", [damaged]).unwrap();
    other.execute("INSERT INTO queue_workers SELECT queue, 'theirs', record FROM queue_workers LIMIT 1", []).unwrap();
    // As a library leaves it that knows no loads.
    other.execute("INSERT INTO queue_loads (queue, process, load) SELECT queue, 'left', x'01' FROM queue_workers LIMIT 1", []).unwrap();
    let known = async || {
        let workers = broker.workers(QUEUE).await.unwrap();
        assert_eq!(workers.len(), 3, "all are listed");
        workers.into_iter().filter(|worker| worker.since.is_some()).map(|worker| worker.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(known().await, [sound]);
    let without = |kind| [kind, kind];
    let found = [without(DamageKind::RecordWithoutLane), without(DamageKind::WorkerWithoutRecord)].concat();
    for how in [LOOK, REPAIR] {
        let kinds: Vec<DamageKind> = broker.audit(QUEUE, how).await.unwrap().into_iter().map(|damage| damage.kind).collect();
        assert_eq!(kinds, found);
    }
    assert_eq!(broker.audit(QUEUE, LOOK).await.unwrap(), []);
    assert_eq!((known().await.len(), broker.stats(QUEUE).await.unwrap().total(Counter::Repaired)), (3, 4));
}

/// A turn that meets an id without a job passes it over, and says so, whatever else it has to look
/// at: nothing, failures or all. What was known of the job goes along.
#[tokio::test]
async fn on_redis_an_id_without_a_job_stops_no_claim() {
    for traces in [&[][..], &["errors"], &["attempts", "errors"], &["snoozes", "attempts", "errors"]] {
        let place = Place::on(Kind::Redis).await;
        let ids = ["one", "two"].map(|id| JobId::given(id).unwrap());
        let mut producer = Producer::on(&place.broker, QUEUE).await;
        producer.send(vec![NewJob::new(ids[0].clone(), envelope("1"))]).await;
        place.command("RPUSH", "ready:2", &["=ghost"]);
        producer.send(vec![NewJob::new(ids[1].clone(), envelope("2"))]).await;
        for trace in traces {
            place.command("HSET", trace, &["=ghost", "5"]);
        }
        let counted = u32::from(traces.contains(&"attempts"));
        if counted > 0 {
            place.command("HSET", "attempts", &["=one", "1", "=two", "2"]);
        }
        let mut lane = Lane::on(&place.broker, QUEUE).await;
        // From now on it knows what it has to look at.
        lane.claim(0).await;
        let held = lane.claim(10).await;
        let served: Vec<(&JobId, u32)> = held.iter().map(|delivery| (&delivery.id, delivery.attempts)).collect();
        assert_eq!((served, place.repaired().await), (vec![(&ids[0], counted), (&ids[1], 2 * counted)], 1), "{traces:?}");
        for trace in traces {
            assert_eq!(place.command("HEXISTS", trace, &["=ghost"]).trim_end(), ":0", "{trace} of {traces:?}");
        }
    }
}

/// A claim that asks for a job gets one, also where what stands before a job beyond the bound of
/// bytes is none.
#[tokio::test]
async fn on_redis_an_id_without_a_job_leaves_no_answer_empty() {
    for trace in ["", "snoozes"] {
        let place = Place::on(Kind::Redis).await;
        let mut producer = Producer::on(&place.broker, QUEUE).await;
        place.command("RPUSH", "ready:2", &["=ghost"]);
        producer.stored(vec![NewJob::new(JobId::make(), vec![7; MAX_BYTES + 1])]).await;
        if !trace.is_empty() {
            place.command("HSET", trace, &["=other", "5"]);
        }
        let mut lane = Lane::on(&place.broker, QUEUE).await;
        lane.claim(0).await;
        let answer = lane.send(&lane.next().claim(10)).await;
        assert_eq!((answer.deliveries.len(), answer.more), (1, false), "with {trace:?}");
    }
}

/// Its envelope is there as well, so nothing but its record tells that it has run.
async fn a_claim_hands_out_no_job_that_has_ended_and_is_kept(kind: Kind) {
    for snoozes in [false, true] {
        let place = Place::on(kind).await;
        place.put_given(4).await;
        let (mut lane, mut other) = (Lane::on(&place.broker, QUEUE).await, Lane::on(&place.broker, QUEUE).await);
        let held = lane.claim(4).await;
        if snoozes {
            // A job out of the ordinary has turns go by the whole script.
            assert!(lane.end(&held[3], Ending::Snooze { delay: Duration::from_secs(600) }).await);
        }
        let keep = Some(Duration::from_secs(60));
        for delivery in &held[..3] {
            assert!(lane.end(delivery, Ending::Ack { result: None, keep }).await);
        }
        place.command("RPUSH", "ready:2", &["=job-0", "=job-1"]);
        place.command("LPUSH", "ready:2", &["=job-2"]);
        place.put(1).await;
        let (first, second) = (other.claim(100).await, lane.claim(100).await);
        assert_eq!((first.len(), second.len()), (1, 0), "{first:?}");
        assert_eq!(place.broker.stats(QUEUE).await.unwrap().total(Counter::Done), 3);
        assert_eq!(place.depth(JobState::Done).await, 3, "they are kept as they were");
    }
}
