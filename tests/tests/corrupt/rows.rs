//! What other hands do to the rows of SQLite.

use std::{path::Path, sync::Arc};

use async_trait::async_trait;
use queue_core::{__private::SqliteBroker, Error, broker::DynBroker};
use queue_tests::folder::folder;
use rusqlite::{Connection, ErrorCode};

use super::{
    HANDS,
    deeds::{self, Deed},
    none_of,
    state::{Case, Hands, Scene},
    verdict::{self, Harm},
};

/// Every column that is no key, and names.
const COLUMNS: &[(&str, &[&str])] = &[
    ("queue_queues", &["claim", "registrations", "head", "tail"]),
    (
        "queue_jobs",
        &[
            "state",
            "rank",
            "pos",
            "priority",
            "envelope",
            "digest",
            "attempts",
            "crashes",
            "first_crash",
            "ran",
            "snoozes",
            "returns",
            "returned",
            "failures",
            "note",
        ],
    ),
    ("queue_lanes", &["name", "process", "seq", "deadline", "fenced", "answer"]),
    ("queue_workers", &["record"]),
    ("queue_loads", &["load", "number", "asked"]),
    ("queue_gone", &["id"]),
    ("queue_producers", &["seq", "seen", "answers"]),
    ("queue_remembered", &["digest", "ended"]),
    ("queue_counters", &["name", "value"]),
    ("queue_topics", &["added", "size", "age", "most", "bytes", "lag"]),
    ("queue_log", &["at", "id", "grouped", "digest", "envelope"]),
    ("queue_subscriptions", &["cursor", "lost", "made", "begin", "types", "unknown", "skipped", "rewind", "upto"]),
];

/// Requests that between them read and write every column.
const DEEDS: [Deed; 9] =
    [Deed::Endings, Deed::Replay, Deed::Enqueue, Deed::Extend, Deed::Cancel, Deed::SweepFenced, Deed::Sweep, Deed::People, Deed::Topic];

/// What is put there, in SQL. Sums in the columns end at 2^32 - 1 or at 2^53; the last is a text
/// that is not UTF-8.
const VALUES: [&str; 8] =
    ["-5", "4294967295", "9007199254740992", "9223372036854775807", "1e300", "'garbage'", "x'ff00c1'", "CAST(x'ff00c1' AS TEXT)"];

#[derive(Clone)]
struct Row {
    table: &'static str,
    column: &'static str,
    value: &'static str,
}

impl Harm for Row {
    fn takes_bodies(&self) -> bool {
        false
    }

    fn may_double(&self) -> bool {
        false
    }

    fn may_interrupt(&self) -> bool {
        false
    }

    fn explains(&self, error: &Error) -> bool {
        match error {
            Error::Forgotten(_) | Error::Old { .. } => matches!(self.table, "queue_lanes" | "queue_producers"),
            _ => false,
        }
    }
}

impl Row {
    /// Everything that is tried.
    fn all() -> Vec<Row> {
        let columns = COLUMNS.iter().flat_map(|(table, columns)| columns.iter().map(|column| (*table, *column)));
        columns.flat_map(|(table, column)| VALUES.map(|value| Row { table, column, value })).collect()
    }

    /// Puts the value into all rows that can hold it, and gives how many these are.
    fn store(&self, file: &Connection) -> rusqlite::Result<usize> {
        file.execute(&format!("UPDATE OR IGNORE {} SET {} = {}", self.table, self.column, self.value), [])
    }

    /// Whether the tables can hold it: columns have types, and some have checks.
    fn is_possible(&self, file: &Connection) -> bool {
        file.execute_batch("SAVEPOINT probe").expect("a savepoint can be set");
        let stored = self.store(file);
        file.execute_batch("ROLLBACK TO probe; RELEASE probe").expect("a savepoint can be undone");
        match stored {
            Ok(changed) => changed > 0,
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => false,
            Err(error) => panic!("{}.{}: {error}", self.table, self.column),
        }
    }
}

/// The hand that has the file open.
struct Owner(Connection);

impl Owner {
    /// Another number for each commit of others.
    fn version(&self) -> i64 {
        self.0.query_row("PRAGMA data_version", [], |row| row.get(0)).expect("the file can be read")
    }
}

#[async_trait]
impl Hands for Owner {
    async fn end_leases(&mut self, _: &Case) {
        self.0.execute("UPDATE queue_lanes SET deadline = 1 WHERE NOT fenced", []).expect("the file can be written");
    }

    async fn make_due(&mut self, _: &Case) {
        self.0.execute("UPDATE queue_jobs SET pos = 1 WHERE state IN (2, 3)", []).expect("the file can be written");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_sqlite_file_no_strange_row_loses_doubles_or_wedges_a_job() {
    let folder = folder();
    let scene = {
        let broker: DynBroker = SqliteBroker::open_path(folder.path().join("scene.db")).expect("a file can be made");
        let scene = Scene::build_on(&broker).await;
        deeds::topic(&broker).await.expect("a topic can be made");
        Arc::new(scene)
    };
    // What the last writer left in its log is part of it.
    let written = Connection::open(folder.path().join("scene.db")).expect("the file is there");
    written.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("the log is merged");
    for (table, _) in COLUMNS {
        assert!(written.prepare(&format!("SELECT 1 FROM {table}")).unwrap().exists([]).unwrap(), "{table} is empty");
    }
    let mut possible = Row::all();
    possible.retain(|row| row.is_possible(&written));
    drop(written);

    let wanted = std::env::var("QUEUE_TEST_CORRUPT").ok();
    let name = |row: &Row, deed: Deed| format!("{}.{} is {}, {deed:?}", row.table, row.column, row.value);
    let (part, parts) = crate::part();
    let all = possible.into_iter().flat_map(|row| DEEDS.map(|deed| (row.clone(), deed))).enumerate();
    let chosen = all.filter(|(number, _)| wanted.is_some() || number % parts == part % parts);
    let mut cases: Vec<(Row, Deed)> = chosen.map(|(_, case)| case).collect();
    cases.retain(|(row, deed)| wanted.as_ref().is_none_or(|wanted| name(row, *deed).contains(wanted.as_str())));
    assert!(!cases.is_empty(), "no case has such a name");
    let hands = (0..HANDS).map(|hand| {
        let (scene, cases, scene_file) = (&scene, &cases, folder.path().join("scene.db"));
        // One file after the other in the same place, where the ballast of the first is that of
        // all.
        let file = folder.path().join(hand.to_string()).join("case.db");
        async move {
            let mut problems = Vec::new();
            for (row, deed) in cases.iter().skip(hand).step_by(HANDS) {
                let verdict = case(&scene_file, &file, scene, row, *deed).await;
                problems.extend(verdict.err().map(|problem| format!("{}: {problem}", name(row, *deed))));
            }
            problems
        }
    });
    let problems = futures_util::future::join_all(hands).await.concat();
    none_of(problems, cases.len());
}

async fn case(scene_file: &Path, path: &Path, scene: &Arc<Scene>, row: &Row, deed: Deed) -> Result<(), String> {
    std::fs::create_dir_all(path.parent().expect("it lies in a folder")).expect("a folder can be made");
    // Of the case before, if it left any.
    for log in ["db-wal", "db-shm"] {
        let _ = std::fs::remove_file(path.with_extension(log));
    }
    std::fs::copy(scene_file, path).expect("a file can be copied");
    let mut owner = Owner(Connection::open(path).expect("the file is there"));
    owner.0.pragma_update(None, "synchronous", "off").expect("it is no matter of the disk");
    row.store(&owner.0).expect("rows can be changed");
    let url = format!("{}?durability=process-crash", queue_core::Client::sqlite_url(path));
    let broker: DynBroker = SqliteBroker::open(&url).expect("the file can be opened");
    let case = Case { broker, queue: scene.queue.as_str().into(), scene: scene.clone() };
    let before = owner.version();
    let done = deed.run(&case).await;
    verdict::judge_answer(row, done, owner.version() != before)?;
    verdict::judge(&case, &mut owner, row, deed).await
}
