//! A process that is killed at any time loses nothing that it was told is stored.

#![cfg(all(feature = "sqlite", unix))]

use std::{
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use queue_core::{
    __private::SqliteBroker,
    JobId,
    broker::{Broker, Counter, Ending, Enqueue, Finish, Inspect, NewJob, ProcessId, Register, Turn},
};
use tempfile::TempDir;

const QUEUE: &str = "kill";
const LEASE: Duration = Duration::from_secs(30);
/// Where the child finds the file.
const CHILD: &str = "QUEUE_CORE_KILLED_CHILD";

#[tokio::test]
async fn a_killed_process_loses_nothing_that_was_answered() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("queue.db");
    let (mut stored, mut done) = (Vec::new(), Vec::new());
    for round in 0..12 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "sqlite_kill::child", "--ignored", "--nocapture"])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // Somewhere in the middle of its work, each time elsewhere.
        let mut until = None;
        let mut note = |line: &str| match line.split_once(' ') {
            Some(("stored", id)) => stored.push(id.parse::<JobId>().unwrap()),
            Some(("done", id)) => done.push(id.parse::<JobId>().unwrap()),
            _ => {}
        };
        while let Some(Ok(line)) = lines.next() {
            note(&line);
            let until = *until.get_or_insert_with(|| {
                Instant::now() + Duration::from_millis(20 + 17 * round) + Duration::from_micros(fastrand::u64(..5_000))
            });
            if line.contains(' ') && Instant::now() > until {
                break;
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        lines.map_while(Result::ok).for_each(|line| note(&line));
    }
    assert!(stored.len() > 100 && done.len() > 10, "the children worked: {} stored, {} done", stored.len(), done.len());

    let broker = SqliteBroker::open_path(&path).unwrap();
    let done: std::collections::HashSet<_> = done.into_iter().collect();
    for id in &done {
        assert!(broker.show(QUEUE, id).await.unwrap().is_none(), "{id} was acknowledged and is back");
    }
    // A child that was killed after a commit and before its line leaves a job more done than was
    // told.
    let missing = {
        let mut missing = 0;
        for id in stored.iter().filter(|id| !done.contains(*id)) {
            missing += usize::from(broker.show(QUEUE, id).await.unwrap().is_none());
        }
        missing as u64
    };
    let stats = broker.stats(QUEUE).await.unwrap();
    let untold_done = stats.total(Counter::Done) - done.len() as u64;
    // Such a job may be one whose enqueue was not told either.
    let untold_stored = stats.total(Counter::Enqueued) - stored.len() as u64;
    assert!(
        (missing..=missing + untold_stored).contains(&untold_done),
        "what is neither there nor told done was done in a last, untold commit: {missing} are missing, {untold_done} done, {untold_stored} stored"
    );
    let whole: String = rusqlite::Connection::open(&path).unwrap().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(whole, "ok");
}

/// Not a test of its own: stores and finishes jobs, and tells each after its answer, until it is
/// killed.
#[tokio::test]
#[ignore = "the test above starts it as a process"]
async fn child() {
    let path = std::env::var_os(CHILD).expect("the test above names the file");
    let broker = SqliteBroker::open_path(path).unwrap();
    let producer = broker.register(&Register::producer(QUEUE, ProcessId::random())).await.unwrap().name;
    let lane = broker.register(&Register::lane(QUEUE, ProcessId::random(), LEASE)).await.unwrap().name;
    let mut finishes: Vec<Finish> = Vec::new();
    for seq in 1.. {
        let jobs: Vec<_> = (0..5).map(|_| NewJob::new(JobId::make(), vec![7; 300])).collect();
        let ids: Vec<_> = jobs.iter().map(|job| job.id.clone()).collect();
        broker.enqueue(&Enqueue::new(QUEUE, producer.clone(), seq, jobs)).await.unwrap();
        tell("stored", ids.iter());
        let turn = Turn::new(QUEUE, lane.clone(), seq, LEASE).claim(2).finish(finishes.clone());
        let answer = broker.turn(&turn).await.unwrap();
        assert!(answer.stale.is_empty());
        tell("done", finishes.iter().map(|finish| &finish.id));
        finishes = answer.deliveries.into_iter().map(|job| Finish::new(&job, Ending::Ack { result: None, keep: None })).collect();
    }
}

fn tell<'a>(what: &str, ids: impl Iterator<Item = &'a JobId>) {
    let text: String = ids.map(|id| format!("{what} {id}\n")).collect();
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).expect("somebody reads");
}
