//! A shop of several processes, which tests stop and kill: see the program `till`.

use std::{path::PathBuf, process::Command};

use queue_conformance::patience::wait;
use queue_core::JobState;
use queue_tests::{
    postgres::Postgres,
    process::Process,
    server::{self, Kind},
};
use tempfile::TempDir;

use crate::bed::{Database, Place};

pub(crate) struct Till {
    /// Its own, so that it can be killed.
    pub(crate) server: Option<Postgres>,
    pub(crate) database: Database,
    pub(crate) broker: String,
    /// How many orders there shall be.
    pub(crate) orders: u64,
    /// Of a transaction.
    pub(crate) at_once: u32,
    /// The longest pause between two steps, in milliseconds.
    pub(crate) step_ms: u64,
    folder: TempDir,
}

/// A process that has stopped at a step.
pub(crate) struct Stopped {
    pub(crate) process: Process,
    file: PathBuf,
}

impl Stopped {
    /// Lets it go on.
    pub(crate) fn goes_on(self) -> Process {
        std::fs::remove_file(&self.file).expect("the file is there");
        self.process
    }

    /// `kill -9`, before it can go on.
    pub(crate) fn kill(self) {
        self.process.kill();
        std::fs::remove_file(&self.file).expect("the file is there");
    }
}

impl Till {
    /// In a place, with a server of its own if it is given.
    pub(crate) async fn new(place: Place, server: Option<Postgres>) -> Till {
        let database = match &server {
            Some(server) => Database::in_server(server).await,
            None if place == Place::SqliteRedis => Database::sqlite(),
            None => Database::postgres().await,
        };
        Till::of(database, server, place == Place::PostgresSqlite).await
    }

    /// With files alone.
    pub(crate) async fn in_files() -> Till {
        Till::of(Database::sqlite(), None, true).await
    }

    async fn of(database: Database, server: Option<Postgres>, in_file: bool) -> Till {
        let folder = queue_conformance::folder::folder();
        let broker = match in_file {
            true => format!("sqlite://{}", folder.path().join("queue.db").display()),
            false => format!("{}?namespace=till-{:016x}", server::shared(Kind::Redis), fastrand::u64(..)),
        };
        let numbered = match database {
            Database::Postgres { .. } => "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
            Database::Sqlite { .. } => "INTEGER PRIMARY KEY AUTOINCREMENT",
        };
        let tables =
            "CREATE TABLE effects (n BIGINT NOT NULL); CREATE INDEX effects_n ON effects (n); CREATE TABLE runs (n BIGINT NOT NULL)";
        database.execute(&format!("CREATE TABLE orders (n {numbered}); {tables}")).await;
        if server.is_some() {
            // Where commits may be forgotten, the tables are not.
            database.execute("CHECKPOINT").await;
        }
        Till { server, database, broker, orders: 0, at_once: 1, step_ms: 0, folder }
    }

    fn command(&self, part: &str) -> Command {
        let database = match &self.database {
            Database::Postgres { url } => url.clone(),
            Database::Sqlite { path, .. } => path.display().to_string(),
        };
        let mut command = Command::new(env!("CARGO_BIN_EXE_till"));
        command.arg(part).env("DATABASE", database).env("QUEUE_URL", &self.broker).env("ORDERS", self.orders.to_string());
        command.env("STEP_MS", self.step_ms.to_string()).env("AT_ONCE", self.at_once.to_string());
        command
    }

    pub(crate) fn start(&self, part: &str) -> Process {
        Process::start(&mut self.command(part))
    }

    /// Starts a part, one of whose jobs runs at a time, and waits until it has stopped at this
    /// step.
    pub(crate) async fn stopped(&self, part: &str, step: &str) -> Stopped {
        let file = self.folder.path().join("stopped");
        let process = Process::start(self.command(part).env("CONCURRENCY", "1").env("STOP_AT", step).env("STOP_FILE", &file));
        wait(format!("`{part}` to stop at the step `{step}`")).until(async || file.exists()).await;
        Stopped { process, file }
    }

    /// Stores orders until there are this many more.
    pub(crate) async fn order(&mut self, orders: u64) {
        self.orders += orders;
        self.all_ordered(self.start("orders")).await;
    }

    pub(crate) async fn all_ordered(&self, mut process: Process) {
        let ended = wait("all orders to be stored").some(async || process.ended()).await;
        assert!(ended.success(), "{ended}");
    }

    /// The lease of a relay that was killed only saves work; it would be over in half a minute.
    pub(crate) async fn free(&self) {
        self.database.execute("UPDATE queue_relay SET holder = NULL, until = NULL").await;
    }

    /// Runs that there must be: orders, and the second rounds of every tenth.
    pub(crate) async fn rounds(&self) -> i64 {
        self.database.number("SELECT count(*) + count(CASE WHEN n % 10 = 0 THEN 1 END) FROM orders").await
    }

    pub(crate) async fn runs(&self) -> i64 {
        self.database.number("SELECT count(*) FROM runs").await
    }

    /// Waits until every job has ended.
    pub(crate) async fn is_drained(&self) {
        let client = queue_core::Client::open(&self.broker).await.expect("the URL of a server of ours");
        let figures = async || {
            let rows = self.database.number("SELECT count(*) FROM queue_outbox").await;
            let stats = client.inspector().stats("till").await.ok()?;
            let states = [JobState::Ready, JobState::Scheduled, JobState::Retry, JobState::Active, JobState::Parked, JobState::Dead];
            Some((rows, states.map(|state| stats.count(state))))
        };
        // For as long as something changes.
        let mut seen = None;
        while seen != Some((0, [0; 6])) {
            let changed = wait("all orders to be paid and their jobs to be gone").on(client.broker());
            seen = changed.some(async || Some(figures().await).filter(|now| now.is_some() && *now != seen)).await;
        }
    }

    /// Effects = commits: nothing is lost, and nothing doubled.
    pub(crate) async fn effects_are_commits(&self) {
        let counted = "(SELECT o.n, CASE WHEN o.n % 10 = 0 THEN 2 ELSE 1 END AS expected, (SELECT count(*) FROM effects e WHERE e.n = o.n) AS found FROM orders o) c";
        let lost = self.database.number(&format!("SELECT count(*) FROM {counted} WHERE found < expected")).await;
        let doubled = self.database.number(&format!("SELECT count(*) FROM {counted} WHERE found > expected")).await;
        let strangers =
            self.database.number("SELECT count(*) FROM effects e WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.n = e.n)").await;
        let orders = self.database.number("SELECT count(*) FROM orders").await;
        let endings = self.database.number("SELECT count(*) FROM queue_effects").await;
        assert_eq!((lost, doubled, strangers), (0, 0, 0), "lost, doubled, of no order");
        assert!(orders >= self.orders.cast_signed());
        assert_eq!(endings, orders, "one ending for each order");
    }

    pub(crate) async fn settles(&self) {
        self.is_drained().await;
        self.effects_are_commits().await;
    }
}
