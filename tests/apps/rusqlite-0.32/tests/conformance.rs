//! The conformance suite in memory, with SQLite 3.46.0.

use queue_core::{Client, __private::backup};
use queue_conformance::conformance;
use queue_tests::storages::SqliteMemory;

conformance!(on_sqlite_memory, SqliteMemory::new);

#[tokio::test]
async fn a_file_is_refused_and_not_touched() {
    assert_eq!(rusqlite::version(), "3.46.0");
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("queue.db");
    let url = |file: &std::path::Path| format!("sqlite://{}", file.display());
    let problem = Client::connect(&url(&missing)).await.unwrap_err().to_string();
    assert!(problem.contains("SQLite 3.46.0") && problem.contains("`cargo tree -i libsqlite3-sys`"), "{problem}");
    assert_eq!(folder.path().read_dir().unwrap().count(), 0, "nothing is made");

    // An existing file may have a log that another process writes.
    let there = folder.path().join("there.db");
    rusqlite::Connection::open(&there).unwrap().execute_batch("CREATE TABLE queue_meta (name TEXT)").unwrap();
    let before = std::fs::read(&there).unwrap();
    assert!(Client::connect(&url(&there)).await.is_err());
    assert!(Client::open(&url(&there)).await.is_err());
    assert!(backup(&there, &folder.path().join("copy.db")).unwrap_err().to_string().contains("3.46.0"));
    assert_eq!(std::fs::read(&there).unwrap(), before);
    assert_eq!(folder.path().read_dir().unwrap().count(), 1);
}
