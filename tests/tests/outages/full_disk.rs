//! A full disk refuses jobs, and nothing else; and once there is room again, all is as before. It
//! is a small file system in memory.

#![cfg(target_os = "linux")]

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
    process::Command,
    time::Duration,
};

use queue_core::{
    __private::SqliteBroker,
    Error, JobId,
    broker::{Broker, Counter, Ending, Enqueue, Enqueued, Extend, Finish, Inspect, NewJob, ProcessId, Register, Turn},
};
use queue_tests::apart::may_mount;
use tempfile::TempDir;

const QUEUE: &str = "full";
const LEASE: Duration = Duration::from_secs(30);

struct Disk(TempDir);

impl Disk {
    fn mount(megabytes: u32) -> Self {
        let folder = TempDir::new().unwrap();
        let size = format!("size={megabytes}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(folder.path()).status().unwrap();
        assert!(mounted.success());
        Disk(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Takes what is left, to the last byte.
    fn fill(&self) {
        let mut file = File::options().create(true).append(true).open(self.path().join("films")).unwrap();
        for size in [64 * 1024, 4096, 512, 1] {
            while file.write(&vec![1; size]).is_ok_and(|written| written > 0) {}
        }
    }

    fn free(&self) {
        fs::remove_file(self.path().join("films")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

/// What meets the full disk in one commit with the enqueue that fills it is not refused with it.
#[tokio::test]
async fn who_shares_a_commit_with_the_job_that_does_not_fit_is_answered() {
    if !may_mount(&who_shares_a_commit_with_the_job_that_does_not_fit_is_answered) {
        return;
    }
    let disk = Disk::mount(40);
    let broker = SqliteBroker::open_path(disk.path().join("queue.db")).unwrap();
    let producer = broker.register(&Register::producer(QUEUE, ProcessId::random())).await.unwrap().name;
    let mut lanes = Vec::new();
    for _ in 0..20 {
        let lane = broker.register(&Register::lane(QUEUE, ProcessId::random(), LEASE)).await.unwrap().name;
        lanes.push(Extend::new(QUEUE, lane, 0, LEASE));
    }
    let mut seq = 0;
    // Whether they share a commit is up to the threads: in about every second round they do.
    for _ in 0..8 {
        disk.fill();
        loop {
            seq += 1;
            let request = Enqueue::new(QUEUE, producer.clone(), seq, jobs(20));
            let (answer, heartbeats) = tokio::join!(broker.enqueue(&request), broker.extend(&lanes));
            for heartbeat in heartbeats {
                assert!(heartbeat.is_ok(), "{heartbeat:?}");
            }
            if let Err(error) = answer {
                assert!(matches!(error, Error::BrokerFull { .. }), "{error}");
                disk.free();
                stored_when_there_is_room(&broker, &request).await;
                break;
            }
        }
    }
}

/// Sends again what was refused, until it is stored: a commit that was on its way may meet the full
/// disk yet.
async fn stored_when_there_is_room(broker: &SqliteBroker, refused: &Enqueue) {
    let stored = async {
        loop {
            match broker.enqueue(refused).await {
                Ok(answers) => break answers,
                Err(error) => assert!(matches!(error, Error::BrokerFull { .. }), "{error}"),
            }
        }
    };
    let answers = tokio::time::timeout(Duration::from_secs(20), stored).await.expect("there is room");
    assert_eq!(answers, vec![Enqueued::Stored; refused.jobs.len()]);
}

fn jobs(n: usize) -> Vec<NewJob> {
    (0..n).map(|_| NewJob::new(JobId::make(), vec![7; 500])).collect()
}

#[tokio::test]
async fn a_full_disk_refuses_jobs_and_lets_all_others_be_finished() {
    if !may_mount(&a_full_disk_refuses_jobs_and_lets_all_others_be_finished) {
        return;
    }
    let disk = Disk::mount(40);
    let broker = SqliteBroker::open_path(disk.path().join("queue.db")).unwrap();
    let producer = broker.register(&Register::producer(QUEUE, ProcessId::random())).await.unwrap().name;
    let lane = broker.register(&Register::lane(QUEUE, ProcessId::random(), LEASE)).await.unwrap().name;
    let (mut stored, mut seq) = (0, 0);
    // The other files on the disk grow now and then, until there is no room at all.
    let refused = loop {
        seq += 1;
        match broker.enqueue(&Enqueue::new(QUEUE, producer.clone(), seq, jobs(100))).await {
            Ok(answers) => stored += answers.len(),
            Err(error) => break error,
        }
        if stored == 8_000 {
            disk.fill();
        }
    };
    assert!(matches!(refused, Error::BrokerFull { .. }), "{refused}");
    assert!(stored >= 8_000, "{stored}");

    // Everything stored is run to its end on the full disk, with heartbeats between.
    let (mut finished, mut turn_seq, mut finishes) = (0, 0, Vec::new());
    loop {
        turn_seq += 1;
        let turn = Turn::new(QUEUE, lane.clone(), turn_seq, LEASE).claim(50).finish(std::mem::take(&mut finishes));
        let answer = broker.turn(&turn).await.expect("a full disk lets jobs be claimed and finished");
        finished += turn.finishes.len();
        assert!(answer.stale.is_empty());
        if answer.deliveries.is_empty() {
            break;
        }
        finishes = answer.deliveries.into_iter().map(|job| Finish::new(&job, Ending::Ack { result: None, keep: None })).collect();
        let heartbeat = broker.extend(&[Extend::new(QUEUE, lane.clone(), turn_seq, LEASE)]).await;
        assert!(heartbeat[0].is_ok(), "{heartbeat:?}");
        // Whoever tries meanwhile hears the same, and takes no room from the others.
        if turn_seq % 20 == 0 {
            let refused = broker.enqueue(&Enqueue::new(QUEUE, producer.clone(), seq, jobs(1))).await;
            assert!(matches!(refused, Err(Error::BrokerFull { .. })), "{refused:?}");
        }
    }
    assert_eq!(finished, stored, "a refused request leaves no job behind");
    let stats = broker.stats(QUEUE).await.unwrap();
    assert_eq!((stats.total(Counter::Enqueued), stats.total(Counter::Done)), (stored as u64, stored as u64));

    disk.free();
    stored_when_there_is_room(&broker, &Enqueue::new(QUEUE, producer, seq, jobs(1))).await;
}
