//! The rotation over several worker processes that are killed repeatedly.

use std::{
    collections::HashSet,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use poller::{Accounts, Check};
use queue_core::{Client, broker::JobState};
use queue_tests::{
    folder::folder,
    patience::{exit, wait},
    server::{Kind, Server},
};
use tempfile::TempDir;

const N: usize = 12;
const WORKERS: usize = 3;

/// Accounts, a queue, and the processes that work on them.
struct World {
    folder: TempDir,
    url: String,
    accounts: Accounts,
    workers: Vec<Child>,
    killed: HashSet<u32>,
}

impl World {
    fn new(url: impl FnOnce(&Path) -> String) -> Self {
        let folder = folder();
        let url = url(folder.path());
        let accounts = Accounts::open(&folder.path().join("accounts.db")).unwrap();
        World { folder, url, accounts, workers: Vec::new(), killed: HashSet::new() }
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).env("QUEUE_URL", &self.url).env_remove("POLLER_ACCOUNTS");
        command.env("POLLER_PAUSE", "50ms").env("POLLER_ANSWER", "30ms").env("POLLER_LEASE", "1500ms");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn add_accounts(&self) {
        let names = (0..N).map(|n| format!("account-{n}"));
        assert!(self.command(env!("CARGO_BIN_EXE_accounts")).arg("add").args(names).status().unwrap().success());
    }

    fn start_worker(&mut self) {
        let worker = self.command(env!("CARGO_BIN_EXE_poller")).args(["work", "--concurrency", "4"]).spawn().unwrap();
        self.workers.push(worker);
    }

    /// Kills a worker with `kill -9` while it holds an account.
    fn kill_worker(&mut self, which: usize) {
        let mut worker = self.workers.remove(which);
        self.wait_for("a check of the worker to be killed", |checks| {
            checks.iter().flatten().any(|check| check.process == worker.id() && check.ended.is_none())
        });
        worker.kill().unwrap();
        exit(&mut worker);
        self.killed.insert(worker.id());
    }

    fn checks(&self) -> Vec<Vec<Check>> {
        self.accounts.all().unwrap().iter().map(|account| self.accounts.checks(&account.name).unwrap()).collect()
    }

    fn wait_for(&self, what: &str, seen: impl Fn(&[Vec<Check>]) -> bool) {
        let accounts = || format!("{:?}", self.checks());
        wait(what).every(Duration::from_millis(10)).seeing(accounts).block_until(|| seen(&self.checks()));
    }

    /// Waits until every account was checked twice more, because the first of these checks may have
    /// begun before.
    fn wait_for_a_whole_round(&self) {
        let ended = |checks: &[Check]| checks.iter().filter(|check| check.ended.is_some()).count();
        let before: Vec<usize> = self.checks().iter().map(|checks| ended(checks)).collect();
        assert_eq!(before.len(), N);
        self.wait_for("a whole round", |now| now.iter().zip(&before).all(|(checks, before)| ended(checks) >= before + 2));
    }

    /// Checks that each account was checked by one process at a time, and that every check without
    /// an end was in a killed process.
    fn assert_never_doubled(&self) {
        for checks in self.checks() {
            for two in checks.windows(2) {
                match two[0].ended {
                    Some(ended) => assert!(ended <= two[1].began, "two at a time: {two:?}"),
                    None => assert!(self.killed.contains(&two[0].process), "a check was given up by a living process: {two:?}"),
                }
            }
        }
    }

    /// Checks that one job per account is in the rotation, and that there are no other jobs.
    async fn assert_nothing_lost(&self) {
        let stats = Client::connect(&self.url).await.unwrap().inspector().stats("accounts").await.unwrap();
        let rotating: u64 = JobState::ALL.into_iter().filter(|state| !state.is_final()).map(|state| stats.count(state)).sum();
        assert_eq!(rotating, N as u64, "{stats:?}");
        assert_eq!(stats.count(JobState::Dead), 0, "{stats:?}");
        assert_eq!(stats.jobs(), N as u64, "{stats:?}");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            let _ = worker.kill();
            let _ = worker.wait();
        }
    }
}

async fn every_account_survives(mut world: World) {
    world.add_accounts();
    (0..WORKERS).for_each(|_| world.start_worker());
    world.wait_for_a_whole_round();

    // One worker after the other, and more often than a job may crash by default.
    for round in 0..5 {
        world.kill_worker(round % WORKERS);
        world.add_accounts(); // an impatient user: it does no harm
        world.start_worker();
        world.wait_for_a_whole_round();
    }
    // All of them at once.
    (0..WORKERS).for_each(|_| world.kill_worker(0));
    world.assert_nothing_lost().await;
    world.start_worker();
    world.wait_for_a_whole_round();

    world.assert_never_doubled();
    world.assert_nothing_lost().await;
}

#[tokio::test]
async fn every_account_survives_the_death_of_any_worker_on_sqlite() {
    every_account_survives(World::new(|folder| format!("sqlite://{}", folder.join("queue.db").display()))).await;
}

#[tokio::test]
async fn every_account_survives_the_death_of_any_worker_on_redis() {
    let server = Server::start(Kind::Redis);
    every_account_survives(World::new(|_| server.url())).await;
}

#[test]
fn an_account_that_cannot_rotate_is_not_added() {
    let world = World::new(|folder| format!("sqlite://{}", folder.join("queue.db").display()));
    let added = world.command(env!("CARGO_BIN_EXE_accounts")).args(["add", "ada", "two words"]).status().unwrap();
    assert_eq!(added.code(), Some(1));
    assert_eq!(world.accounts.all().unwrap(), []);
}
