//! What can be wrong with a SQLite file, and several who use it at once.

use std::{collections::HashSet, path::Path, time::Duration};

use queue_conformance::conformance::{Lane, Producer, ack, finish};
use queue_core::{
    __private::{Envelope, SqliteBroker},
    Client, Error, JobId,
    broker::{Broker, Counter, DynBroker, Inspect, JobState, NewJob, ProcessId, Register, Scan, Turn},
    prelude::task,
};
use queue_tests::{
    apart::heeds_permissions,
    folder::folder,
    patience::{WatchBroker, wait},
};

const LEASE: Duration = Duration::from_secs(60);

#[task(queue = "faults")]
async fn note(number: u32) {
    let _ = number;
}

fn open(path: &Path) -> Result<(), String> {
    SqliteBroker::open_path(path).map(drop).map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_path_that_cannot_be_a_database_is_refused_with_the_reason() {
    let folder = folder();
    let problem = |path: &Path| open(path).unwrap_err();
    assert!(problem(folder.path()).contains("is a folder"));
    assert!(problem(&folder.path().join("missing/queue.db")).contains("folder that does not exist"));
    let text = folder.path().join("notes.txt");
    std::fs::write(&text, "this is a text, and long enough that nobody could take it for the header of a database file. ".repeat(20))
        .unwrap();
    assert!(problem(&text).contains("not a SQLite database"));
    assert!(std::fs::read_to_string(&text).unwrap().starts_with("this is a text"), "it is left alone");
}

#[tokio::test]
async fn a_newer_schema_is_left_alone() {
    let folder = folder();
    let path = folder.path().join("queue.db");
    open(&path).unwrap();
    let database = rusqlite::Connection::open(&path).unwrap();
    // Far beyond any that is known, to learn the newest one that is; then the next.
    let opened_with = |schema: u64| {
        database.execute("UPDATE queue_meta SET value = ?1 WHERE name = 'schema'", [schema.cast_signed()]).unwrap();
        match SqliteBroker::open_path(&path) {
            Err(Error::SchemaTooNew { found, known, .. }) if found == schema => Err(known),
            Err(other) => panic!("{other:?}"),
            Ok(_) => Ok(()),
        }
    };
    let newest = opened_with(1_000_000).unwrap_err();
    assert_eq!(opened_with(newest), Ok(()));
    assert_eq!(opened_with(newest + 1), Err(newest));
    let found: i64 = database.query_row("SELECT value FROM queue_meta WHERE name = 'schema'", [], |row| row.get(0)).unwrap();
    assert_eq!(found, newest.cast_signed() + 1);
}

/// The file may be the application's own.
#[tokio::test]
async fn tables_of_the_application_are_left_alone() {
    let folder = folder();
    let path = folder.path().join("shop.db");
    let database = rusqlite::Connection::open(&path).unwrap();
    database.execute_batch("CREATE TABLE orders (id INTEGER); INSERT INTO orders VALUES (7); PRAGMA user_version = 42").unwrap();
    let client = Client::connect(&format!("sqlite://{}", path.display())).await.unwrap().watched();
    note::job(1).enqueue(&client).await.unwrap();
    let version: u32 = database.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    let orders: u32 = database.query_row("SELECT id FROM orders", [], |row| row.get(0)).unwrap();
    assert_eq!((version, orders), (42, 7));
    let mut names = database.prepare("SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' AND name <> 'orders'").unwrap();
    let names: Vec<String> = names.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert!(!names.is_empty() && names.iter().all(|name| name.starts_with("queue_")), "{names:?}");
}

/// Several who write at once wait for each other; nobody gets an error, and nothing is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_of_several_connections_take_turns() {
    const EACH: u32 = 300;
    let folder = folder();
    let url = format!("sqlite://{}", folder.path().join("queue.db").display());
    let mut tasks = Vec::new();
    for writer in 0..4 {
        let client = Client::connect(&url).await.unwrap().watched();
        tasks.push(tokio::spawn(async move {
            for number in 0..EACH {
                note::job(writer * EACH + number).enqueue(&client).await.unwrap();
            }
        }));
    }
    let mut taken = HashSet::new();
    let broker = SqliteBroker::open(&url).unwrap();
    let worker = broker.register(&Register::lane("faults", ProcessId::random(), LEASE)).await.unwrap().name;
    let mut turn = Turn::new("faults", worker, 0, LEASE).claim(50);
    while taken.len() < (4 * EACH) as usize {
        turn.seq += 1;
        // Four others write: one who did not get the lock in time asks again.
        let mut answer = broker.turn(&turn).await;
        while answer.as_ref().is_err_and(Error::is_transient) {
            answer = broker.turn(&turn).await;
        }
        let answer = answer.unwrap();
        turn.finishes = answer.deliveries.iter().map(|delivery| finish(delivery, ack())).collect();
        for delivery in answer.deliveries {
            assert!(taken.insert(delivery.id.clone()), "{} was delivered twice", delivery.id);
        }
        if turn.finishes.is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(broker.stats("faults").await.unwrap().total(Counter::Enqueued), u64::from(4 * EACH));
}

/// Operations are committed in groups, and each has its own time: a delay begins when it is asked
/// for, not before.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_delay_in_a_crowd_is_not_a_millisecond_too_short() {
    const DELAY_MS: u64 = 60_000;
    let folder = folder();
    let client = Client::connect(&format!("sqlite://{}", folder.path().join("queue.db").display())).await.unwrap().watched();
    // Large requests make groups that take their time, and others join them while they run.
    let crowd = (0..4).map(|n| {
        let client = client.clone();
        tokio::spawn(async move {
            for _ in 0..5 {
                client.enqueue_all((0..2000).map(|number| note::job(number).queue(format!("crowd-{n}")))).await.unwrap();
            }
        })
    });
    let crowd: Vec<_> = crowd.collect();
    let mut number = 0;
    while crowd.iter().any(|caller| !caller.is_finished()) {
        number += 1;
        let asked = std::time::SystemTime::now();
        let job = note::job(number).delay(Duration::from_millis(DELAY_MS)).enqueue(&client).await.unwrap();
        let due = client.inspector().show(job.address()).await.unwrap().due_at.unwrap();
        // A stored time has whole milliseconds.
        let waits = (due + Duration::from_millis(1)).duration_since(asked).unwrap();
        assert!(waits >= Duration::from_millis(DELAY_MS), "{waits:?} of {DELAY_MS} ms");
    }
}

/// A transaction of another process that does not end in time is an error that can be tried again,
/// not a hang.
#[tokio::test]
async fn a_lock_that_is_held_too_long_is_reported_in_time_and_nothing_is_lost() {
    let folder = folder();
    let path = folder.path().join("queue.db");
    let client = Client::connect(&format!("sqlite://{}", path.display())).await.unwrap().with_deadline(Duration::from_secs(1));
    note::job(1).enqueue(&client).await.unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let waiting = wait("the enqueue to be refused").end_of(note::job(2).id("second").enqueue(&client)).await;
    let refused = waiting.unwrap_err();
    assert!(matches!(refused, Error::Unavailable { .. } | Error::Unknown(_)), "{refused:?}");
    // Who only looks is not held up.
    assert_eq!(client.inspector().stats("faults").await.unwrap().count(JobState::Ready), 1);
    other.execute_batch("ROLLBACK").unwrap();
    match refused {
        Error::Unknown(pending) => drop(pending.retry().await.unwrap()),
        _ => drop(note::job(2).id("second").enqueue(&client).await.unwrap()),
    }
    assert_eq!(client.inspector().stats("faults").await.unwrap().count(JobState::Ready), 2);
}

/// Everything that was acknowledged is there when the file is opened again.
#[tokio::test]
async fn a_file_that_is_opened_again_has_everything() {
    let folder = folder();
    let url = format!("sqlite://{}", folder.path().join("queue.db").display());
    for round in 0..5 {
        let client = Client::connect(&url).await.unwrap().watched();
        let ready = client.inspector().stats("faults").await.map_or(0, |stats| stats.count(JobState::Ready));
        assert_eq!(ready, 10 * round);
        client.enqueue_all((0..10).map(note::job)).await.unwrap();
    }
}

/// A job whose row cannot be read for an error of the file is not taken for one that is not there.
#[tokio::test]
async fn an_error_of_the_file_is_reported_by_every_walk_through_jobs() {
    let folder = folder();
    let path = folder.path().join("queue.db");
    let broker: DynBroker = SqliteBroker::open_path(&path).unwrap();
    let mut envelope = Envelope::new("a.task", b"\x80");
    envelope.tags.insert("order".to_owned(), "17".to_owned());
    let job = NewJob::new(JobId::make(), envelope.encode().unwrap());
    Producer::on(&broker, "faults").await.stored(vec![job]).await;
    Lane::on(&broker, "faults").await.claim_one().await;
    let in_order = Scan::new("faults", &[JobState::Active], 10);
    let scans = [in_order.clone(), in_order.clone().including_moved(), in_order.tagged("order", "17")];
    for scan in &scans {
        assert_eq!(broker.scan(scan).await.unwrap().jobs.len(), 1, "{scan:?}");
    }
    let database = rusqlite::Connection::open(&path).unwrap();
    database.execute("ALTER TABLE queue_lanes RENAME TO away", []).unwrap();
    for scan in &scans {
        assert!(broker.scan(scan).await.is_err(), "{scan:?}");
    }
    assert!(broker.list("faults", JobState::Active, 0, 10).await.is_err());
}

#[cfg(target_os = "linux")]
#[test]
fn a_read_only_database_is_refused_with_what_to_change() {
    use std::os::unix::fs::PermissionsExt;
    if !heeds_permissions(&a_read_only_database_is_refused_with_what_to_change) {
        return;
    }
    let folder = folder();
    let path = folder.path().join("queue.db");
    drop(SqliteBroker::open_path(&path).unwrap());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o400)).unwrap();
    let error = SqliteBroker::open_path(&path).expect_err("it is refused");
    assert!(matches!(error, Error::Config(_)) && error.to_string().contains("read-only"), "{error}");
}
