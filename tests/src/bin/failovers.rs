//! Measures failovers: the time from the promotion of the new master to the first job that starts,
//! and the lost and repeated jobs.
//!
//! `failovers [N] [redis|valkey]`: N failovers of each sort, 20 by default. Producers and workers
//! are the processes of the tests. Their journal is checked after every failover.

use std::{
    path::PathBuf,
    process::ExitCode,
    time::{Duration, SystemTime},
};

use queue_tests::{
    cluster::Cluster,
    fleet::Fleet,
    sentinel::{Promotion, Sentinels},
    server::Kind,
};

/// The time without an answer after which a server is considered down.
const DOWN_AFTER: Duration = Duration::from_millis(1500);

const QUEUE: &str = "chronicle";

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let n = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(20);
    let kind = if arguments.iter().any(|argument| argument == "valkey") { Kind::Valkey } else { Kind::Redis };
    let Some(program) = chronicler() else {
        eprintln!("build its companion first: cargo build --release -p queue-tests --bins");
        return ExitCode::FAILURE;
    };
    println!(
        "{:<10} {:<10} {:<10} {:>5} {:>9} {:>9} {:>8} {:>6} {:>8}",
        "server", "behind", "fault", "times", "p50", "p99", "stored", "lost", "doubled"
    );
    sentinels(kind, n, &program).await;
    cluster(kind, n, &program).await;
    ExitCode::SUCCESS
}

/// The program is in the folder of this one.
fn chronicler() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?.with_file_name("chronicler");
    program.exists().then_some(program)
}

async fn sentinels(kind: Kind, n: usize, program: &PathBuf) {
    let mut all = Sentinels::start(kind, DOWN_AFTER);
    let (mut planned, mut deaths) = (Figures::default(), Figures::default());
    for _ in 0..n {
        let fleet = start(program, &all.url()).await;
        let promotion = all.hand_over();
        all.wait_for_sync();
        planned.add(fleet, promotion).await;

        all.wait_for_sentinels();
        let fleet = start(program, &all.url()).await;
        let dead = all.kill_master();
        let promotion = all.wait_for_promotion(1 - dead);
        all.bring_back(dead);
        deaths.add(fleet, promotion).await;
        all.wait_for_sentinels();
    }
    planned.print(kind, "sentinels", "planned");
    deaths.print(kind, "sentinels", "kill -9");
}

async fn cluster(kind: Kind, n: usize, program: &PathBuf) {
    let mut cluster = Cluster::start(kind, DOWN_AFTER);
    let slot = cluster.slot(QUEUE);
    let (mut planned, mut deaths, mut moves) = (Figures::default(), Figures::default(), Figures::default());
    for _ in 0..n {
        let fleet = start(program, &cluster.url()).await;
        let promotion = cluster.hand_over(slot);
        cluster.wait_for_agreement();
        cluster.wait_for_sync();
        planned.add(fleet, promotion).await;

        let fleet = start(program, &cluster.url()).await;
        let (dead, heir) = cluster.kill_master(slot);
        let promotion = cluster.wait_for_promotion(heir);
        cluster.bring_back(dead);
        deaths.add(fleet, promotion).await;

        let fleet = start(program, &cluster.url()).await;
        let here = cluster.master(slot);
        let there = cluster.masters().into_iter().find(|master| *master != here).expect("there are three");
        cluster.move_slot(slot, there, Duration::ZERO).expect("a slot can be moved");
        let moved = Promotion { number: there, at: SystemTime::now() };
        cluster.wait_for_agreement();
        cluster.wait_for_sync();
        moves.add(fleet, moved).await;
    }
    planned.print(kind, "a cluster", "planned");
    deaths.print(kind, "a cluster", "kill -9");
    moves.print(kind, "a cluster", "reshard");
}

/// A fleet that has worked for a second.
async fn start(program: &PathBuf, url: &str) -> Fleet {
    let fleet = Fleet::start(program, url, &[QUEUE]).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    fleet
}

/// The figures of one sort of failover.
#[derive(Default)]
struct Figures {
    first_starts: Vec<Duration>,
    stored: usize,
    lost: usize,
    doubled: usize,
}

impl Figures {
    async fn add(&mut self, fleet: Fleet, promotion: Promotion) {
        fleet.flows().await;
        let history = fleet.finish().await;
        self.first_starts.push(history.first_start(promotion.at).expect("jobs start after the promotion"));
        self.stored += history.stored();
        self.lost += history.lost().len();
        self.doubled += history.doubled().len();
    }

    fn print(mut self, kind: Kind, behind: &str, fault: &str) {
        self.first_starts.sort_unstable();
        let last = self.first_starts.len().saturating_sub(1);
        let percentile = |percent: usize| self.first_starts.get((last * percent).div_ceil(100)).copied().unwrap_or_default().as_millis();
        println!(
            "{:<10} {behind:<10} {fault:<10} {:>5} {:>6} ms {:>6} ms {:>8} {:>6} {:>8}",
            format!("{kind:?}"),
            self.first_starts.len(),
            percentile(50),
            percentile(99),
            self.stored,
            self.lost,
            self.doubled
        );
    }
}
