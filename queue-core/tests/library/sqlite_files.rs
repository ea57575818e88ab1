//! What a SQLite broker makes of the files it is given, and how several of them share one.

#![cfg(feature = "sqlite")]

use std::{fs, path::Path, time::Duration};

use queue_core::{
    __private::SqliteBroker,
    Error, JobId,
    broker::{Broker, Counter, Ending, Enqueue, Enqueued, Finish, Inspect, JobState, NewJob, PartyName, ProcessId, Register, Turn},
};
use rusqlite::Connection;

use crate::{folder::folder, patience::patience};

const QUEUE: &str = "files";
const LEASE: Duration = Duration::from_secs(30);

fn jobs(n: usize) -> Vec<NewJob> {
    (0..n).map(|_| NewJob::new(JobId::make(), b"envelope".to_vec())).collect()
}

async fn producer(broker: &SqliteBroker) -> PartyName {
    broker.register(&Register::producer(QUEUE, ProcessId::random())).await.unwrap().name
}

async fn worker(broker: &SqliteBroker) -> PartyName {
    broker.register(&Register::lane(QUEUE, ProcessId::random(), LEASE)).await.unwrap().name
}

fn refusal(path: &Path) -> Error {
    SqliteBroker::open_path(path).expect_err("it is refused")
}

#[test]
fn a_folder_is_refused_as_such() {
    let folder = folder();
    let error = refusal(folder.path());
    assert!(matches!(error, Error::Invalid { .. }) && error.to_string().contains("is a folder"), "{error}");
}

#[test]
fn a_missing_folder_is_named() {
    let folder = folder();
    let error = refusal(&folder.path().join("missing/queue.db"));
    assert!(matches!(error, Error::Invalid { .. }) && error.to_string().contains("does not exist"), "{error}");
}

#[test]
fn a_file_of_something_else_is_refused_and_left_alone() {
    let folder = folder();
    let path = folder.path().join("letter.txt");
    let letter = "Dear reader, this is no database. ".repeat(100);
    fs::write(&path, &letter).unwrap();
    let error = refusal(&path);
    assert!(matches!(error, Error::Config(_)) && error.to_string().contains("not a SQLite database"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), letter);
}

#[cfg(unix)]
#[test]
fn a_link_to_nothing_is_refused() {
    let folder = folder();
    let path = folder.path().join("queue.db");
    std::os::unix::fs::symlink(folder.path().join("elsewhere.db"), &path).unwrap();
    let error = refusal(&path);
    assert!(matches!(error, Error::Invalid { .. }) && error.to_string().contains("link"), "{error}");
    assert!(!folder.path().join("elsewhere.db").exists());
}

#[cfg(unix)]
#[test]
fn a_new_database_is_private_to_its_user() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    let path = folder.path().join("queue.db");
    let _broker = SqliteBroker::open_path(&path).unwrap();
    for end in ["", "-wal", "-ballast"] {
        let mode = fs::metadata(format!("{}{end}", path.display())).map(|file| file.permissions().mode() & 0o777);
        assert!(matches!(mode, Ok(0o600)) || end == "-ballast", "{end}: {mode:?}");
    }
}

#[test]
fn a_newer_schema_is_refused_and_left_alone() {
    let folder = folder();
    let path = folder.path().join("queue.db");
    drop(SqliteBroker::open_path(&path).unwrap());
    Connection::open(&path).unwrap().execute_batch("UPDATE queue_meta SET value = 77").unwrap();
    let error = refusal(&path);
    assert!(matches!(error, Error::SchemaTooNew { found: 77, .. }), "{error}");
}

/// One of the time before the first release: nothing reads it, and nothing is written.
#[test]
fn an_older_schema_is_refused_and_left_alone() {
    let folder = folder();
    let path = folder.path().join("queue.db");
    Connection::open(&path)
        .unwrap()
        .execute_batch(
            "CREATE TABLE queue_meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL); INSERT INTO queue_meta VALUES ('schema', 3)",
        )
        .unwrap();
    let error = refusal(&path).to_string();
    let reported = format!("the database {} has schema 3, of a version before the first release", path.display());
    assert!(error.starts_with(&reported) && error.contains("move the file away, or name another one"), "{error}");
    let tables: u32 = Connection::open(&path)
        .unwrap()
        .query_row("SELECT count(*) FROM sqlite_schema WHERE type = 'table'", [], |row| row.get(0))
        .unwrap();
    assert_eq!(tables, 1);
}

/// What no program can store: values of another type, states that there are not, counts below zero.
#[test]
fn the_tables_refuse_what_they_cannot_hold() {
    let folder = folder();
    let path = folder.path().join("queue.db");
    drop(SqliteBroker::open_path(&path).unwrap());
    let file = Connection::open(&path).unwrap();
    let tables = "SELECT count(*), count(*) FILTER (WHERE strict) FROM pragma_table_list WHERE schema = 'main' AND name LIKE 'queue\\_%' ESCAPE '\\'";
    let (all, strict): (u32, u32) = file.query_row(tables, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert!(all > 40 && strict == all, "{strict} of {all} tables are strict");
    file.execute_batch("INSERT INTO queue_jobs (queue, id, state, rank, pos, priority, envelope) VALUES (1, x'3d61', 0, 2, 1, 2, x'')")
        .unwrap();
    for (column, value) in [
        ("state", "14"),
        ("state", "-1"),
        ("state", "'ready'"),
        ("priority", "4"),
        ("attempts", "-1"),
        ("attempts", "1.5"),
        ("crashes", "4294967296"),
        ("id", "x''"),
        ("id", "'text'"),
        ("envelope", "'text'"),
        ("note", "x'ff'"),
        ("pos", "NULL"),
    ] {
        let change = format!("UPDATE queue_jobs SET {column} = {value}");
        let error = file.execute(&change, []).expect_err(&change);
        assert_eq!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::ConstraintViolation), "{change}: {error}");
    }
}

#[tokio::test]
async fn a_newer_schema_that_another_process_brings_stops_this_one() {
    let folder = folder();
    let path = folder.path().join("queue.db");
    let broker = SqliteBroker::open_path(&path).unwrap();
    let producer = producer(&broker).await;
    Connection::open(&path).unwrap().execute_batch("UPDATE queue_meta SET value = 77").unwrap();
    let error = broker.enqueue(&Enqueue::new(QUEUE, producer, 1, jobs(1))).await.expect_err("it is refused");
    assert!(matches!(error, Error::SchemaTooNew { found: 77, .. }), "{error}");
    assert!(matches!(broker.stats(QUEUE).await, Err(Error::SchemaTooNew { .. })));
}

#[tokio::test]
async fn the_file_can_be_the_applications_own() {
    let folder = folder();
    let path = folder.path().join("shop.db");
    let shop = Connection::open(&path).unwrap();
    shop.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY, total INTEGER); INSERT INTO orders VALUES (1, 995)").unwrap();
    let broker = SqliteBroker::open_path(&path).unwrap();
    let producer = producer(&broker).await;
    broker.enqueue(&Enqueue::new(QUEUE, producer, 1, jobs(3))).await.unwrap();
    assert_eq!(shop.query_row("SELECT total FROM orders", [], |row| row.get::<_, i64>(0)).unwrap(), 995);
    let strangers: i64 = shop
        .query_row(
            "SELECT count(*) FROM sqlite_schema WHERE name NOT LIKE 'queue\\_%' ESCAPE '\\' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(strangers, 1, "all tables and indexes of ours begin with queue_");
}

#[test]
fn many_that_open_a_new_file_at_once_make_it_once() {
    for _ in 0..10 {
        let folder = folder();
        let path = folder.path().join("queue.db");
        let openers: Vec<_> = (0..8)
            .map(|_| {
                let path = path.clone();
                std::thread::spawn(move || SqliteBroker::open_path(&path).map(drop))
            })
            .collect();
        for opener in openers {
            opener.join().unwrap().unwrap();
        }
    }
}

#[tokio::test]
async fn what_was_answered_is_there_after_a_restart() {
    let folder = folder();
    let path = folder.path().join("queue.db");
    let broker = SqliteBroker::open_path(&path).unwrap();
    let name = producer(&broker).await;
    let request = Enqueue::new(QUEUE, name, 1, jobs(20));
    broker.enqueue(&request).await.unwrap();
    let lane = worker(&broker).await;
    let turn = Turn::new(QUEUE, lane.clone(), 1, LEASE).claim(5);
    let answer = broker.turn(&turn).await.unwrap();
    drop(broker);
    assert!(!folder.path().join("queue.db-wal").exists(), "the last handle leaves nothing open");

    let broker = SqliteBroker::open_path(&path).unwrap();
    assert_eq!(broker.enqueue(&request).await.unwrap(), vec![Enqueued::Stored; 20], "a replay stores nothing");
    assert_eq!(broker.turn(&turn).await.unwrap().deliveries, answer.deliveries, "a replay claims nothing");
    let stats = broker.stats(QUEUE).await.unwrap();
    assert_eq!((stats.count(JobState::Ready), stats.count(JobState::Active)), (15, 5));
    let finishes = answer.deliveries.iter().map(|job| Finish::new(job, Ending::Ack { result: None, keep: None }));
    let answer = broker.turn(&Turn::new(QUEUE, lane, 2, LEASE).finish(finishes.collect())).await.unwrap();
    assert!(answer.stale.is_empty());
    assert_eq!(broker.stats(QUEUE).await.unwrap().total(Counter::Done), 5);
}

#[tokio::test]
async fn a_waiting_broker_is_notified_of_jobs_that_another_one_stores() {
    let folder = folder();
    let path = folder.path().join("queue.db");
    let (shop, works) = (SqliteBroker::open_path(&path).unwrap(), SqliteBroker::open_path(&path).unwrap());
    let mut hints = works.hints(QUEUE);
    let name = producer(&shop).await;
    let mut later = jobs(1);
    later[0].due = queue_core::broker::Due::After(Duration::from_secs(60));
    shop.enqueue(&Enqueue::new(QUEUE, name.clone(), 1, later)).await.unwrap();
    let hint = tokio::time::timeout(patience(), hints.next()).await.expect("a job to run later is announced");
    assert!(hint.due.is_some());

    shop.enqueue(&Enqueue::new(QUEUE, name, 2, jobs(1))).await.unwrap();
    let hint = tokio::time::timeout(patience(), hints.next()).await.expect("a job to run now is announced");
    assert_eq!(hint.due, None);
}

#[tokio::test]
async fn a_commit_is_announced_once_within_its_own_process() {
    let folder = folder();
    let broker = SqliteBroker::open_path(folder.path().join("queue.db")).unwrap();
    let mut hints = broker.hints(QUEUE);
    let name = producer(&broker).await;
    for seq in 1..=5 {
        broker.enqueue(&Enqueue::new(QUEUE, name.clone(), seq, jobs(1))).await.unwrap();
        assert_eq!(hints.next().await.count, seq);
    }
}

/// Eight handles that commit without a pause, as eight processes would: each has its own connection
/// and locks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_refused_while_eight_write_at_once() {
    const ROUNDS: u64 = 40;
    let folder = folder();
    let path = folder.path().join("queue.db");
    let writers: Vec<_> = (0..8)
        .map(|_| {
            let broker = SqliteBroker::open_path(&path).unwrap();
            tokio::spawn(async move {
                let name = producer(&broker).await;
                for seq in 1..=ROUNDS {
                    broker.enqueue(&Enqueue::new(QUEUE, name.clone(), seq, jobs(2))).await.unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let broker = SqliteBroker::open_path(&path).unwrap();
    assert_eq!(broker.stats(QUEUE).await.unwrap().count(JobState::Ready), 8 * ROUNDS * 2);
}

#[tokio::test]
async fn the_holder_of_a_lock_for_too_long_is_reported() {
    let folder = folder();
    let path = folder.path().join("queue.db");
    let broker = SqliteBroker::open_path(&path).unwrap();
    let name = producer(&broker).await;
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = broker.enqueue(&Enqueue::new(QUEUE, name.clone(), 1, jobs(1))).await.expect_err("it cannot be stored");
    assert!(matches!(&error, Error::Unavailable { problem, .. } if problem.contains("another process")), "{error}");
    assert_eq!(broker.stats(QUEUE).await.unwrap().count(JobState::Ready), 0, "reading goes on");
    other.execute_batch("ROLLBACK").unwrap();
    broker.enqueue(&Enqueue::new(QUEUE, name, 1, jobs(1))).await.unwrap();
}

#[tokio::test]
async fn a_damaged_row_hurts_nobody_elses_request() {
    let folder = folder();
    let path = folder.path().join("queue.db");
    let broker = SqliteBroker::open_path(&path).unwrap();
    let name = producer(&broker).await;
    let mut given = jobs(1);
    given[0].id = JobId::given("invoice-1").unwrap();
    given[0].digest = 7;
    broker.enqueue(&Enqueue::new(QUEUE, name.clone(), 1, given.clone())).await.unwrap();
    Connection::open(&path).unwrap().execute_batch("UPDATE queue_jobs SET digest = digest + 1").unwrap();
    let second = producer(&broker).await;
    let (on_it, elsewhere) = (Enqueue::new(QUEUE, name, 2, given), Enqueue::new(QUEUE, second, 1, jobs(1)));
    let (torn, whole) = tokio::join!(broker.enqueue(&on_it), broker.enqueue(&elsewhere));
    // What cannot be compared is not taken for the same.
    assert_eq!(torn.unwrap(), vec![Enqueued::IdConflict]);
    assert_eq!(whole.unwrap(), vec![Enqueued::Stored]);
}

/// The file of another user is where others could have put it. Only root can give a file away, so
/// that the test needs it.
#[cfg(unix)]
#[test]
fn a_file_of_another_user_in_a_folder_for_all_is_refused() {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    let folder = folder();
    let path = folder.path().join("queue.db");
    drop(SqliteBroker::open_path(&path).unwrap());
    if chown(&path, Some(4242), None).is_err() {
        println!("not tested: only root can give files to another user");
        return;
    }
    // Nobody else can write to the folder.
    drop(SqliteBroker::open_path(&path).unwrap());
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    let refused = |file: &Path| {
        let error = refusal(&path).to_string();
        assert!(error.contains(&format!("`{}` belongs to another user (uid 4242;", file.display())), "{error}");
        assert!(error.contains("chmod go-w"), "{error}");
        assert!(SqliteBroker::open_existing(&format!("sqlite://{}", path.display())).is_err());
    };
    refused(&path);
    chown(&path, Some(0), None).unwrap();
    for end in ["-wal", "-shm", "-ballast", "-ballast-new"] {
        let beside = folder.path().join(format!("queue.db{end}"));
        let _ = fs::remove_file(&beside);
        fs::write(&beside, "").unwrap();
        chown(&beside, Some(4242), None).unwrap();
        refused(&beside);
        fs::remove_file(&beside).unwrap();
    }
    // A link that somebody else has put there, to a file of ours.
    let link = folder.path().join("link.db");
    symlink(&path, &link).unwrap();
    std::os::unix::fs::lchown(&link, Some(4242), None).unwrap();
    let error = SqliteBroker::open_path(&link).expect_err("it is refused").to_string();
    assert!(error.contains("link.db` belongs to another user"), "{error}");
    drop(SqliteBroker::open_path(&path).unwrap());
}

/// A socket has a short name only; who cannot be woken works all the same.
#[cfg(unix)]
#[tokio::test]
async fn a_broker_that_nobody_can_wake_reports_why() {
    let folder = folder();
    let broker = SqliteBroker::open_path(folder.path().join("queue.db")).unwrap();
    assert_eq!(broker.condition().await.unwrap().advice, []);
    let broker = SqliteBroker::open_path(folder.path().join("long".repeat(30))).unwrap();
    producer(&broker).await;
    let [advice] = &*broker.condition().await.unwrap().advice else { panic!("one thing is wrong") };
    assert!(advice.problem.contains("do not wake each other") && advice.problem.contains("long-wake: "), "{}", advice.problem);
    assert!(advice.advice.contains("shorter path"));
}
