//! A backup that is made while a worker works, and restored.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use queue_core::{JobState, Registry, inspect::Counter, prelude::*};
use queue_tests::{
    folder::folder,
    patience::{WatchBroker, output, until},
};
use queue_worker::Worker;

#[task(queue = "work")]
async fn step(number: u64) {
    assert!(number < u64::MAX);
}

#[task(queue = "later")]
async fn stays(number: u64) {
    assert!(number < u64::MAX);
}

fn url(path: &Path) -> String {
    format!("sqlite://{}", path.display())
}

/// A command of a worker binary: its exit code, and what it prints.
fn command(database: &Path, arguments: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shop_worker"));
    let output = output(command.args(arguments).env("QUEUE_URL", url(database)).env_remove("RUST_LOG")).unwrap();
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    (output.status.code().expect("it ends by itself"), text)
}

fn paths() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let folder = folder();
    let (database, copy) = (folder.path().join("queue.db"), folder.path().join("copy.db"));
    (folder, database, copy)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_has_every_job_of_its_moment_while_a_worker_works() {
    let (_folder, database, copy) = paths();
    let queue = Client::connect(&url(&database)).await.unwrap().watched();
    queue.enqueue_all((0..200).map(|number| stays::job(number).delay(Duration::from_secs(3600)))).await.unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let working =
        Worker::new(queue.clone()).registry(Registry::empty()).queue("work").register::<step>().lease(Duration::from_secs(2)).run({
            let over = over.clone();
            async move { until("the end", || async { over.load(Ordering::Acquire) }).await }
        });
    let backing = async {
        for number in 0..100 {
            step::job(number).enqueue(&queue).await.unwrap();
        }
        let (database, copy) = (database.clone(), copy.clone());
        let enqueuing = async {
            for number in 100..1000 {
                step::job(number).enqueue(&queue).await.unwrap();
            }
        };
        let made = tokio::task::spawn_blocking(move || command(&database, &["backup", copy.to_str().unwrap()]));
        let (made, ()) = tokio::join!(made, enqueuing);
        over.store(true, Ordering::Release);
        made.unwrap()
    };
    let (worked, (code, said)) = tokio::join!(working, backing);
    worked.unwrap();
    assert_eq!(code, 0, "{said}");
    assert!(!copy.with_file_name("copy.db-wal").exists(), "the copy is one file");
    #[cfg(unix)]
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&fs::metadata(&copy).unwrap()) & 0o777, 0o600, "it belongs to its user alone");

    let restored = Client::connect(&url(&copy)).await.unwrap().watched();
    let stats = restored.inspector().stats("later").await.unwrap();
    assert_eq!(stats.count(JobState::Scheduled), 200);
    let stats = restored.inspector().stats("work").await.unwrap();
    let (stored, done) = (stats.total(Counter::Enqueued), stats.total(Counter::Done));
    assert!((100..=1000).contains(&stored), "{stored} were enqueued before the copy was whole");
    assert_eq!(stats.jobs() + done, stored, "each is done or there");
    let (code, said) = command(&copy, &["doctor"]);
    assert_eq!(code, 0, "{said}");
    // What was there, ready or held by the worker of then, runs.
    let left = stats.jobs();
    let worker =
        Worker::new(restored.clone()).registry(Registry::empty()).queue("work").register::<step>().lease(Duration::from_secs(2)).run(
            async {
                until("the rest of the jobs", || async {
                    restored.inspector().stats("work").await.is_ok_and(|stats| stats.total(Counter::Done) == stored)
                })
                .await;
            },
        );
    assert_eq!(worker.await.unwrap().finished, left);
}

#[test]
fn a_copy_of_the_file_alone_may_be_empty_and_a_backup_is_not() {
    let (folder, database, copy) = paths();
    let (code, said) = command(&database, &["enqueue", "greet", "--args", "{\"name\":\"Ada\"}"]);
    assert_eq!(code, 0, "{said}");
    // A process that has the database open keeps its log: it is merged into the file by the last
    // one that leaves.
    let open = tokio::runtime::Runtime::new().unwrap().block_on(async {
        let queue = Client::connect(&url(&database)).await.unwrap().watched();
        stays::job(1).enqueue(&queue).await.unwrap();
        queue
    });
    let plain = folder.path().join("plain.db");
    fs::copy(&database, &plain).unwrap();
    assert_eq!(command(&database, &["backup", copy.to_str().unwrap()]).0, 0);
    let jobs = |file: &Path| command(file, &["jobs", "list", "--queue", "later", "--json"]).1;
    assert!(!jobs(&plain).contains("stays"), "what was committed last is in the log alone");
    assert!(jobs(&copy).contains("stays"), "{}", jobs(&copy));
    drop(open);
}

#[test]
fn a_backup_replaces_no_file_and_needs_a_database() {
    let (folder, database, copy) = paths();
    let backup = || command(&database, &["backup", copy.to_str().unwrap()]);
    assert_eq!(backup().0, 3, "there is no database");
    assert_eq!(command(&database, &["enqueue", "greet", "--args", "{\"name\":\"Ada\"}"]).0, 0);
    fs::write(&copy, "precious").unwrap();
    let (code, said) = backup();
    assert!(code == 2 && said.contains("is there already"), "{said}");
    assert_eq!(fs::read_to_string(&copy).unwrap(), "precious");
    let missing = folder.path().join("none/copy.db");
    let (code, said) = command(&database, &["backup", missing.to_str().unwrap()]);
    assert!(code == 2 && said.contains("cannot be made"), "{said}");
    let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(!names.iter().any(|name| name.ends_with(".part")), "{names:?}");
    let (code, said) = command(Path::new(":memory:"), &["backup", copy.to_str().unwrap()]);
    assert!(code != 0 && !said.is_empty(), "{said}");
}
