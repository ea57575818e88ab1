//! Tests that no code bypasses the doors. They read the sources, so that they include new files.

use std::{
    fs,
    path::{Path, PathBuf},
};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sqlite")
}

/// The Rust and SQL files of this broker, by their paths in its folder, without tables, triggers
/// and tests.
fn sources() -> Vec<(String, String)> {
    let (mut found, mut folders) = (Vec::new(), vec![folder()]);
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder()).unwrap().to_string_lossy().replace('\\', "/");
            if path.is_dir() {
                folders.push(path);
            } else if !(name.ends_with("tests.rs") || name.starts_with("connection/") && name.ends_with(".sql")) {
                found.push((name, fs::read_to_string(path).unwrap()));
            }
        }
    }
    found
}

/// The words of a source before each mention of a table, the nearest first.
fn before(source: &str, table: &str) -> Vec<Vec<String>> {
    let lower = source.to_ascii_lowercase();
    let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    lower
        .match_indices(table)
        .map(|(at, _)| lower[..at].split(word).rev().filter(|word| !word.is_empty()).take(3).map(str::to_owned).collect())
        .collect()
}

/// Whether a statement in a source changes a table.
fn writes(source: &str, table: &str) -> bool {
    before(source, table).iter().any(|words| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        matches!(words[..], ["into" | "update", ..] | ["from", "delete", ..] | [_, "or", "update"])
    })
}

#[test]
fn a_place_is_written_by_doors_alone() {
    let tables = ["queue_jobs", "queue_parked", "queue_remembered", "queue_counters"];
    for (name, source) in sources() {
        let is_door = name.starts_with("doors/") || name == "connection/tx.rs";
        for table in tables {
            assert!(is_door || !writes(&source, table), "{name} changes {table}: a job's place is changed by a door");
        }
        // The counters belong to the change. `Tx` only adds them up.
        assert!(is_door || !source.contains("tx.count("), "{name} counts: that is for the door that changes the place");
    }
}

#[test]
fn each_door_writes_only_what_it_is_for() {
    let state = |source: &str| source.to_ascii_lowercase().matches("set state =").count();
    let mut files: Vec<(String, usize)> = sources().iter().map(|(name, source)| (name.clone(), state(source))).collect();
    files.retain(|(_, statements)| *statements > 0);
    files.sort();
    let files: Vec<(&str, usize)> = files.iter().map(|(name, statements)| (name.as_str(), *statements)).collect();
    // `settle` leaves the place for `return_jobs` or `end`.
    let doors =
        [("doors/admit.rs", 1), ("doors/end.rs", 3), ("doors/groups.rs", 2), ("doors/ready.rs", 1), ("doors/return_to_waiting.sql", 1)];
    assert_eq!(files, doors, "state is written nowhere else");
}

/// The numbers of the inputs (`?1`) in a text.
fn inputs(text: &str) -> Vec<u32> {
    let number = |rest: &str| rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok();
    let mut inputs: Vec<u32> = text.split('?').skip(1).filter_map(number).collect();
    inputs.sort_unstable();
    inputs.dedup();
    inputs
}

#[test]
fn each_file_opens_with_its_contract_and_names_its_inputs() {
    let mut statements = 0;
    for (name, source) in sources().into_iter().filter(|(name, _)| name.ends_with(".sql")) {
        let statement = crate::sqlite::connection::statement::body(&source);
        let contract = source.strip_suffix(statement).unwrap();
        assert!(contract.lines().count() >= 2, "{name} says what it does, and then its inputs");
        assert_eq!(inputs(contract), inputs(statement), "{name} names its inputs");
        statements += 1;
    }
    assert!(statements > 10, "the statements were found");
}

/// The statements in the texts of a Rust source, except for those with formatted parts.
fn statements(source: &str) -> Vec<String> {
    let starts = ["SELECT ", "INSERT ", "UPDATE ", "DELETE ", "WITH "];
    let begins = source.match_indices('"').filter(|(at, _)| starts.iter().any(|start| source[at + 1..].starts_with(start)));
    let text = |(at, _): (usize, &str)| {
        let mut text = String::new();
        let mut rest = source[at + 1..].chars();
        while let Some(letter) = rest.next().filter(|letter| *letter != '"') {
            match letter {
                '\\' if rest.as_str().starts_with('\n') => rest = rest.as_str().trim_start().chars(),
                '\\' => text.extend(rest.next().filter(|escaped| *escaped != 'n')),
                letter => text.push(letter),
            }
        }
        text
    };
    begins.map(text).filter(|text| text.contains("queue_") && !text.contains('{')).collect()
}

#[test]
fn each_statement_names_tables_and_columns_of_the_schema() {
    let connection = rusqlite::Connection::open_in_memory().unwrap();
    connection.execute_batch(&fs::read_to_string(folder().join("connection/schema.sql")).unwrap()).unwrap();
    let mut prepared = 0;
    for (name, source) in sources() {
        let texts = if name.ends_with(".sql") { vec![source] } else { statements(&source) };
        for text in texts {
            if let Err(problem) = connection.prepare(&text) {
                panic!("{name}: {problem}");
            }
            prepared += 1;
        }
    }
    assert!(prepared > 300, "the statements were found: {prepared}");
}

#[test]
fn what_goes_past_the_doors_is_found() {
    for statement in [
        "UPDATE queue_jobs SET state = 1",
        "DELETE FROM\n    queue_jobs WHERE",
        "insert into queue_jobs (queue)",
        "INSERT OR IGNORE INTO queue_jobs",
        "REPLACE INTO queue_jobs",
        "UPDATE OR IGNORE queue_jobs SET",
    ] {
        assert!(writes(statement, "queue_jobs"), "{statement}");
    }
    for statement in ["SELECT 1 FROM queue_jobs WHERE", "UPDATE queue_lanes SET deadline = (SELECT 1 FROM queue_jobs)"] {
        assert!(!writes(statement, "queue_jobs"), "{statement}");
    }
}

/// The steps of SQLite's virtual machine in which the statement for suspects finds nothing. A
/// number of groups are eligible, and a number of suspects are in the line of one that is not.
fn steps_among(groups: u32, suspects: u32) -> i32 {
    let connection = rusqlite::Connection::open_in_memory().unwrap();
    connection.execute_batch(&fs::read_to_string(folder().join("connection/schema.sql")).unwrap()).unwrap();
    for line in 0..groups {
        connection.execute("INSERT INTO queue_groups (line, queue, name, eligible) VALUES (?1, 1, CAST(?1 AS BLOB), 1)", [line]).unwrap();
    }
    connection.execute("INSERT INTO queue_groups (line, queue, name, eligible) VALUES (-1, 1, x'ff', 0)", []).unwrap();
    for suspect in 0..suspects {
        let place =
            "INSERT INTO queue_jobs (queue, id, state, rank, pos, priority, envelope) VALUES (1, CAST(?1 AS BLOB), ?2, -1, ?1, 2, x'')";
        connection.execute(place, rusqlite::params![suspect, super::row::LINED_SUSPECT]).unwrap();
    }
    let mut statement = connection.prepare(super::rotation::GROUPS_SUSPECT).unwrap();
    assert!(!statement.exists(rusqlite::params![1, super::row::LINED_SUSPECT, i64::MIN, [0_u8; 0], i64::MIN, 201]).unwrap());
    statement.get_status(rusqlite::StatementStatus::VmStep)
}

#[test]
fn a_claim_that_finds_no_suspect_has_examined_few_groups_and_jobs() {
    assert_eq!(steps_among(1_000, 0), steps_among(10, 0));
    assert_eq!(steps_among(10, 1_000), steps_among(10, 10), "suspects that may not start are passed over with their line");
}
