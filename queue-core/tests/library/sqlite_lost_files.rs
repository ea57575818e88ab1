//! What becomes of those who have a database open while it is deleted, moved or replaced; and of
//! those who look at none.

#![cfg(all(feature = "sqlite", unix))]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use queue_core::{
    __private::SqliteBroker,
    Client, Error, JobId,
    broker::{Broker, Enqueue, Extend, Inspect, JobState, NewJob, PartyName, ProcessId, Register, Turn},
};
use rusqlite::Connection;
use tempfile::TempDir;

const QUEUE: &str = "files";
const LEASE: Duration = Duration::from_secs(30);

struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        Place { folder: crate::folder::folder() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn open(&self) -> Arc<SqliteBroker> {
        SqliteBroker::open_path(self.path("queue.db")).unwrap()
    }

    fn names(&self) -> BTreeSet<String> {
        fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// As `rm queue.db*` does.
    fn remove_all(&self) {
        for name in self.names().into_iter().filter(|name| name.starts_with("queue.db")) {
            fs::remove_file(self.path(&name)).unwrap();
        }
    }
}

async fn producer(broker: &SqliteBroker) -> PartyName {
    broker.register(&Register::producer(QUEUE, ProcessId::random())).await.unwrap().name
}

fn request(producer: &PartyName, seq: u64) -> Enqueue {
    Enqueue::new(QUEUE, producer.clone(), seq, vec![NewJob::new(JobId::make(), b"envelope".to_vec())])
}

async fn ready(broker: &SqliteBroker) -> u64 {
    broker.stats(QUEUE).await.unwrap().count(JobState::Ready)
}

fn assert_lost<T: std::fmt::Debug>(answer: Result<T, Error>, says: &str) {
    let error = answer.expect_err("the file is gone");
    assert!(matches!(&error, Error::Unavailable { problem, .. } if problem.contains(says)), "{error}");
}

#[tokio::test]
async fn nothing_is_stored_in_a_deleted_file_and_no_new_one_is_made() {
    let place = Place::new();
    let broker = place.open();
    let name = producer(&broker).await;
    broker.enqueue(&request(&name, 1)).await.unwrap();
    assert_eq!(broker.condition().await.unwrap().trouble, None);
    place.remove_all();
    assert_lost(broker.enqueue(&request(&name, 2)).await, "deleted or moved");
    assert_lost(broker.stats(QUEUE).await, "deleted or moved");
    assert_lost(broker.turn(&Turn::new(QUEUE, name.clone(), 1, LEASE)).await, "deleted or moved");
    assert_lost(broker.extend(&[Extend::new(QUEUE, name, 0, LEASE)]).await.remove(0), "deleted or moved");
    assert!(broker.condition().await.unwrap().is_lost());
    drop(broker);
    assert_eq!(place.names(), BTreeSet::new(), "nothing was made");
}

#[tokio::test]
async fn a_file_that_is_put_back_is_worked_with_as_before() {
    let place = Place::new();
    let broker = place.open();
    let name = producer(&broker).await;
    broker.enqueue(&request(&name, 1)).await.unwrap();
    let again = request(&name, 2);
    fs::rename(place.path("queue.db"), place.path("moved.db")).unwrap();
    assert_lost(broker.enqueue(&again).await, "moved");
    assert!(broker.condition().await.unwrap().is_lost());
    // A fresh start would take the log away from it.
    let fresh = SqliteBroker::open_path(place.path("queue.db")).expect_err("its log is left");
    assert!(matches!(&fresh, Error::Config(problem) if problem.contains("queue.db-wal")), "{fresh}");
    let looked = SqliteBroker::open_existing(&url(&place.path("queue.db"))).expect_err("there is none");
    assert!(matches!(&looked, Error::NoDatabase { problem, .. } if problem.contains("queue.db-wal")), "{looked}");
    fs::rename(place.path("moved.db"), place.path("queue.db")).unwrap();
    broker.enqueue(&again).await.expect("its producer is known");
    assert_eq!((ready(&broker).await, broker.condition().await.unwrap().trouble), (2, None));
    drop(broker);
    assert_eq!(ready(&place.open()).await, 2);
}

#[tokio::test]
async fn a_file_that_somebody_makes_again_is_served_and_nobody_is_known_there() {
    let place = Place::new();
    let broker = place.open();
    let (name, lane) = (producer(&broker).await, broker.register(&Register::lane(QUEUE, ProcessId::random(), LEASE)).await.unwrap().name);
    broker.enqueue(&request(&name, 1)).await.unwrap();
    broker.turn(&Turn::new(QUEUE, lane.clone(), 1, LEASE).claim(1)).await.unwrap();
    place.remove_all();
    assert_lost(broker.enqueue(&request(&name, 2)).await, "deleted");
    let other = place.open();
    let others = producer(&other).await;
    other.enqueue(&request(&others, 1)).await.unwrap();
    assert!(matches!(broker.enqueue(&request(&name, 2)).await, Err(Error::Forgotten(_))));
    assert!(matches!(broker.turn(&Turn::new(QUEUE, lane, 2, LEASE)).await, Err(Error::Forgotten(_))));
    assert_eq!((ready(&broker).await, broker.condition().await.unwrap().trouble), (1, None));
    broker.enqueue(&request(&producer(&broker).await, 1)).await.unwrap();
    assert_eq!(ready(&other).await, 2, "both use the same file");
}

/// As `mv backup.db queue.db` does while somebody has the old one open: its log lies beside the new
/// one.
#[tokio::test]
async fn a_file_that_replaces_another_is_not_opened_with_the_log_of_the_old_one() {
    let place = Place::new();
    let backup = SqliteBroker::open_path(place.path("backup.db")).unwrap();
    let name = producer(&backup).await;
    for seq in 1..=3 {
        backup.enqueue(&request(&name, seq)).await.unwrap();
    }
    drop(backup);
    let before = fs::read(place.path("backup.db")).unwrap();
    let broker = place.open();
    let name = producer(&broker).await;
    broker.enqueue(&request(&name, 1)).await.unwrap();
    fs::rename(place.path("backup.db"), place.path("queue.db")).unwrap();
    assert_lost(broker.enqueue(&request(&name, 2)).await, "queue.db-wal");
    assert_lost(broker.stats(QUEUE).await, "queue.db-wal");
    assert_eq!(fs::read(place.path("queue.db")).unwrap(), before, "it is left alone");
    for log in ["queue.db-wal", "queue.db-shm"] {
        fs::remove_file(place.path(log)).unwrap();
    }
    assert!(matches!(broker.enqueue(&request(&name, 2)).await, Err(Error::Forgotten(_))));
    assert_eq!(ready(&broker).await, 3);
}

#[tokio::test]
async fn who_closes_a_deleted_file_leaves_the_log_of_the_new_one_alone() {
    let place = Place::new();
    let old = place.open();
    old.enqueue(&request(&producer(&old).await, 1)).await.unwrap();
    place.remove_all();
    let new = place.open();
    new.enqueue(&request(&producer(&new).await, 1)).await.unwrap();
    // It was asked for nothing since, and closes what it has open.
    drop(old);
    assert!(place.path("queue.db-wal").exists());
    assert_eq!((ready(&new).await, ready(&place.open()).await), (1, 1));
}

#[tokio::test]
async fn a_link_that_leads_elsewhere_is_a_replaced_file() {
    let place = Place::new();
    for name in ["one.db", "two.db"] {
        drop(SqliteBroker::open_path(place.path(name)).unwrap());
    }
    std::os::unix::fs::symlink(place.path("one.db"), place.path("queue.db")).unwrap();
    let broker = place.open();
    let name = producer(&broker).await;
    broker.enqueue(&request(&name, 1)).await.unwrap();
    std::os::unix::fs::symlink(place.path("two.db"), place.path("next")).unwrap();
    fs::rename(place.path("next"), place.path("queue.db")).unwrap();
    assert!(matches!(broker.enqueue(&request(&name, 2)).await, Err(Error::Forgotten(_))), "it is another database");
    assert_eq!(ready(&broker).await, 0);
    assert_eq!(ready(&SqliteBroker::open_path(place.path("one.db")).unwrap()).await, 1);
}

/// An enqueue of a client goes on to the new file by itself.
#[tokio::test]
async fn a_client_waits_for_the_file_within_its_deadline() {
    let place = Place::new();
    let client = Client::with_broker(place.open()).with_deadline(Duration::from_millis(300));
    let job = || queue_core::RawJob::new("task", vec![0x80]).queue(QUEUE);
    client.enqueue_raw(job()).await.unwrap();
    place.remove_all();
    let refused = client.enqueue_raw(job()).await.expect_err("there is no file");
    assert!(matches!(&refused, Error::Unavailable { problem, .. } if problem.contains("deleted")), "{refused}");
    drop(place.open());
    client.enqueue_raw(job()).await.unwrap();
    assert_eq!(ready(&place.open()).await, 1);
}

fn url(path: &Path) -> String {
    queue_core::Client::sqlite_url(path)
}

#[tokio::test]
async fn who_looks_makes_nothing() {
    let place = Place::new();
    let refusal = |name: &str| match SqliteBroker::open_existing(&url(&place.path(name))) {
        Err(Error::NoDatabase { problem, .. }) => problem,
        other => panic!("{other:?}"),
    };
    assert_eq!(refusal("queue.db"), "no such file");
    assert_eq!(refusal("folder/queue.db"), "no such file");
    assert_eq!(place.names(), BTreeSet::new());

    fs::write(place.path("empty.db"), "").unwrap();
    assert_eq!(refusal("empty.db"), "the file is empty");
    for mode in ["delete", "wal"] {
        let shop = format!("{mode}.db");
        let database = Connection::open(place.path(&shop)).unwrap();
        database.execute_batch(&format!("PRAGMA journal_mode = {mode}; CREATE TABLE orders (id INTEGER)")).unwrap();
        drop(database);
        let before = fs::read(place.path(&shop)).unwrap();
        assert_eq!(refusal(&shop), "it is a SQLite database without a queue in it");
        assert_eq!(fs::read(place.path(&shop)).unwrap(), before);
    }
    fs::write(place.path("letter.txt"), "Dear reader, this is no database. ".repeat(100)).unwrap();
    let letter = SqliteBroker::open_existing(&url(&place.path("letter.txt"))).unwrap_err();
    assert!(matches!(&letter, Error::Config(problem) if problem.contains("not a SQLite database")), "{letter}");
    let names = ["delete.db", "empty.db", "letter.txt", "wal.db"].map(str::to_owned);
    assert_eq!(place.names(), BTreeSet::from(names), "nothing was made beside them");
}

#[tokio::test]
async fn who_looks_at_a_database_sees_what_is_in_it_and_makes_no_ballast() {
    let place = Place::new();
    let broker = place.open();
    broker.enqueue(&request(&producer(&broker).await, 1)).await.unwrap();
    drop(broker);
    fs::remove_file(place.path("queue.db-ballast")).unwrap();
    let client = Client::connect_existing(&url(&place.path("queue.db"))).await.unwrap();
    assert_eq!(client.inspector().stats(QUEUE).await.unwrap().count(JobState::Ready), 1);
    client.inspector().pause(QUEUE).await.unwrap();
    assert_eq!(client.inspector().condition().await.unwrap().trouble, None, "there is room for it");
    drop(client);
    assert_eq!(place.names(), BTreeSet::from(["queue.db".to_owned()]));
}

/// Two connections that close at once take each other for one that goes on.
#[tokio::test]
async fn whoever_has_dropped_a_broker_finds_its_file_closed_and_merged() {
    for round in 1..=300 {
        let place = Place::new();
        let broker = place.open();
        broker.enqueue(&request(&producer(&broker).await, 1)).await.unwrap();
        assert_eq!(ready(&broker).await, 1);
        drop(broker);
        assert_eq!(place.names(), BTreeSet::from(["queue.db", "queue.db-ballast"].map(str::to_owned)), "round {round}");
    }
}
