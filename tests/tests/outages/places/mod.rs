//! A SQLite file that is not there, or is so no longer, and a broker without room: as those see it
//! who run a worker and type commands.

mod full;
mod scene;

use std::fs;

use queue_tests::patience::wait_for;

use self::scene::Place;

/// Every command that is not there to bring jobs, or to run them.
const LOOKS: &[&[&str]] = &[
    &["status"],
    &["status", "--json"],
    &["status", "--queue", "orders"],
    &["doctor"],
    &["doctor", "--repair"],
    &["jobs", "list"],
    &["jobs", "list", "--json"],
    &["jobs", "show", "orders/one"],
    &["jobs", "requeue", "orders/one"],
    &["jobs", "promote", "orders/one"],
    &["jobs", "cancel", "orders/one"],
    &["jobs", "cancel", "--all", "--state", "ready"],
    &["jobs", "delete", "orders/one"],
    &["queues", "list"],
    &["queues", "pause", "orders"],
    &["queues", "resume", "orders"],
    &["tasks", "paused"],
    &["tasks", "pause", "orders/greet"],
    &["tasks", "resume", "orders/greet"],
];

#[test]
fn who_only_looks_makes_no_database() {
    let place = Place::new();
    for arguments in LOOKS {
        let (code, stdout, stderr) = place.run(arguments);
        assert_eq!((code, stdout.as_str()), (3, ""), "{arguments:?}: {stderr}");
        let error = if arguments.contains(&"--json") { "{\"error\":\"" } else { "error: " };
        let says = format!("{error}no database at {}: no such file; `enqueue` or `work` creates one", place.file.display());
        assert!(stderr.starts_with(&says) && stderr.contains("--url"), "{arguments:?}: {stderr}");
        assert!(place.names().is_empty(), "{arguments:?}: {:?}", place.names());
        // In a folder that is not there, either.
        let elsewhere = [arguments, &["--url", "sqlite://missing/queue.db"][..]].concat();
        assert_eq!(place.run(&elsewhere).0, 3, "{elsewhere:?}");
        assert!(place.names().is_empty(), "{elsewhere:?}: {:?}", place.names());
    }
    place.greet("one");
    place.ok(&["status"]);
}

#[test]
fn reading_a_key_that_is_no_queue_is_an_error_and_changes_nothing() {
    let mut place = Place::new();
    place.file = place.folder.path().join("shop.db");
    rusqlite::Connection::open(&place.file).unwrap().execute_batch("CREATE TABLE orders (id INTEGER)").unwrap();
    let before = fs::read(&place.file).unwrap();
    for arguments in LOOKS {
        let (code, _, stderr) = place.run(arguments);
        assert_eq!(code, 3, "{arguments:?}: {stderr}");
        assert!(stderr.contains("a SQLite database without a queue in it"), "{arguments:?}: {stderr}");
        assert_eq!((fs::read(&place.file).unwrap(), place.names()), (before.clone(), vec!["shop.db".to_owned()]), "{arguments:?}");
    }
    fs::write(&place.file, "Dear reader, this is no database. ".repeat(100)).unwrap();
    for arguments in LOOKS {
        let (code, _, stderr) = place.run(arguments);
        assert_eq!(code, 6, "{arguments:?}: {stderr}");
        assert!(stderr.contains("is not a SQLite database"), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_worker_whose_file_is_deleted_reports_it_and_serves_the_one_that_is_made_next() {
    let place = Place::new();
    let worker = place.work();
    for name in place.names() {
        fs::remove_file(place.folder.path().join(name)).unwrap();
    }
    worker.until_ready("503 ", r#""status":"lost""#);
    worker.until_ready("503 ", "deleted or moved");
    let told = worker.told("deleted or moved while it was open");
    let errors = told.iter().filter(|line| line.contains("ERROR")).count();
    assert_eq!(errors, 1, "{told:#?}");
    assert!(told[0].contains("move it back before you start") && told[0].contains("queue.db"), "{told:#?}");
    assert_eq!(place.names(), Vec::<String>::new(), "the worker makes none");
    assert_eq!(place.run(&["status"]).0, 3);

    let job = place.greet("bo");
    wait_for("the job to be done", || place.is_done(&job).then_some(()));
    worker.until_ready("200 OK", r#""status":"ok""#);
    assert_eq!(worker.told("the database file was replaced and the new file was opened").len(), 1);
}

#[test]
fn a_worker_whose_file_is_moved_reports_it_and_goes_on_when_it_is_back() {
    let place = Place::new();
    place.greet("before");
    let worker = place.work();
    wait_for("the job to be done", || place.is_done("greetings/before").then_some(()));
    let moved = place.folder.path().join("moved.db");
    fs::rename(&place.file, &moved).unwrap();
    let (code, _, stderr) = place.run(&["status"]);
    assert_eq!(code, 3, "{stderr}");
    assert!(stderr.contains("only its log") && stderr.contains("queue.db-wal is left"), "{stderr}");
    worker.until_ready("503 ", r#""status":"lost""#);
    let (code, _, stderr) = place.run(&["enqueue", "greet", "--args", r#"{"name":"Bo"}"#]);
    assert_eq!(code, 6, "{stderr}");
    assert!(stderr.contains("restore the database"), "{stderr}");
    assert!(!place.file.exists(), "nobody makes a new one beside its log");

    fs::rename(&moved, &place.file).unwrap();
    worker.until_ready("200 OK", r#""status":"ok""#);
    assert!(place.is_done("greetings/before"), "what was acknowledged is there");
    let job = place.greet("after");
    wait_for("the job to be done", || place.is_done(&job).then_some(()));
    assert_eq!(worker.told("the database file is back").len(), 1);
}
