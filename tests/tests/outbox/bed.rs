//! A database of an application with an outbox, and a broker.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use queue_conformance::{conformance::Lane, failing::FailingBroker, folder::folder, patience::wait};
use queue_core::{
    __private::{RedisBroker, SqliteBroker},
    Client, JobId, JobState, RawJob,
    broker::DynBroker,
};
use queue_outbox::{Dialect, Outbox, Relay, Relayed, Result, postgres, sqlite};
use queue_tests::{
    postgres::{Postgres, connect, shared},
    server::{self, Kind},
};
use rusqlite::{Connection, TransactionBehavior};
use tempfile::TempDir;

/// Which database, and which broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    PostgresRedis,
    PostgresSqlite,
    SqliteRedis,
}

pub(crate) enum Database {
    Postgres { url: String },
    Sqlite { path: PathBuf, _folder: TempDir },
}

pub(crate) struct Bed {
    pub(crate) database: Database,
    pub(crate) broker: Arc<FailingBroker>,
    pub(crate) client: Client,
}

/// A job with no parameters.
pub(crate) fn job() -> RawJob {
    RawJob::new("mail.send", vec![0x80])
}

/// A connection to a file.
pub(crate) fn open(path: &Path) -> Connection {
    let connection = Connection::open(path).expect("the file can be opened");
    connection.busy_timeout(queue_tests::patience::patience()).expect("a timeout can be set");
    connection
}

impl Database {
    pub(crate) async fn postgres() -> Database {
        Database::in_server(shared()).await
    }

    pub(crate) async fn in_server(server: &Postgres) -> Database {
        let url = server.database().await;
        connect(&url).await.batch_execute(&Dialect::Postgres.migration("public").unwrap()).await.expect("the migration runs");
        Database::Postgres { url }
    }

    pub(crate) fn sqlite() -> Database {
        let folder = folder();
        let path = folder.path().join("app.db");
        let connection = open(&path);
        connection.pragma_update(None, "journal_mode", "WAL").expect("it can be set");
        connection.execute_batch(Dialect::Sqlite.migration("main").unwrap().as_str()).expect("the migration runs");
        Database::Sqlite { path, _folder: folder }
    }

    /// Puts jobs into the outbox within one transaction, and commits it or not.
    pub(crate) async fn put(&self, jobs: Vec<RawJob>, commits: bool) -> Result<Vec<JobId>> {
        let addresses = match self {
            Database::Postgres { url } => {
                use postgres::EnqueueAllIn;
                let mut client = connect(url).await;
                let outbox = Outbox::postgres(&client).await?;
                let tx = client.transaction().await?;
                let addresses = jobs.enqueue_all_in(&outbox, &tx).await?;
                if commits {
                    tx.commit().await?
                } else {
                    tx.rollback().await?
                }
                outbox.wake();
                addresses
            }
            Database::Sqlite { path, .. } => {
                use sqlite::EnqueueAllIn;
                let mut connection = open(path);
                let outbox = Outbox::sqlite(&connection)?;
                let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
                let addresses = jobs.enqueue_all_in(&outbox, &tx)?;
                if commits {
                    tx.commit()?
                } else {
                    tx.rollback()?
                }
                outbox.wake();
                addresses
            }
        };
        Ok(addresses.into_iter().map(|address| address.id).collect())
    }

    /// A time to which a row is put off.
    pub(crate) fn soon(&self) -> &'static str {
        match self {
            Database::Postgres { .. } => "now() + interval '50 s'",
            Database::Sqlite { .. } => "created_at + 50000",
        }
    }

    /// The type of bytes.
    pub(crate) fn bytes(&self) -> &'static str {
        match self {
            Database::Postgres { .. } => "bytea",
            Database::Sqlite { .. } => "blob",
        }
    }

    pub(crate) async fn execute(&self, sql: &str) {
        match self {
            Database::Postgres { url } => connect(url).await.batch_execute(sql).await.expect("the statement runs"),
            Database::Sqlite { path, .. } => open(path).execute_batch(sql).expect("the statement runs"),
        }
    }

    /// A number that a statement selects.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        match self {
            Database::Postgres { url } => connect(url).await.query_one(sql, &[]).await.expect("the query runs").get(0),
            Database::Sqlite { path, .. } => open(path).query_row(sql, (), |row| row.get(0)).expect("the query runs"),
        }
    }

    /// Rows that are not refused.
    pub(crate) async fn waiting(&self) -> i64 {
        self.number("SELECT count(*) FROM queue_outbox WHERE refused IS NULL").await
    }

    pub(crate) async fn refused(&self) -> i64 {
        self.number("SELECT count(*) FROM queue_outbox WHERE refused IS NOT NULL").await
    }

    pub(crate) fn relay(&self) -> Relay {
        match self {
            Database::Postgres { url } => Relay::postgres(url).expect("the URL of a server of ours"),
            Database::Sqlite { path, .. } => Relay::sqlite(path),
        }
    }

    /// Keeps a replica that lags from now on, or a backup. A server is the one that it is in.
    pub(crate) fn is_copied(&self, server: &mut Option<Postgres>) {
        match (server, self) {
            (Some(server), _) => server.copy(),
            (None, Database::Sqlite { path, .. }) => {
                let copy = path.with_extension("copy");
                open(path).execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).expect("it can be copied");
            }
            _ => unreachable!("it has a server"),
        }
    }

    /// What was committed since the copy is lost.
    pub(crate) fn is_set_back(&self, server: &mut Option<Postgres>) {
        match (server, self) {
            (Some(server), _) => server.promote_copy(),
            (None, Database::Sqlite { path, .. }) => {
                open(&path.with_extension("copy")).pragma_update(None, "journal_mode", "WAL").unwrap();
                for log in ["-wal", "-shm"] {
                    let _ = std::fs::remove_file(format!("{}{log}", path.display()));
                }
                std::fs::rename(path.with_extension("copy"), path).unwrap();
            }
            _ => unreachable!("it has a server"),
        }
    }

    /// Runs a relay until all rows are sent or refused.
    pub(crate) async fn drain(&self, client: &Client) -> Relayed {
        self.relay().run(client, wait("the outbox to be empty").on(client.broker()).until(async || self.waiting().await == 0)).await
    }
}

impl Bed {
    pub(crate) async fn new(place: Place) -> Bed {
        let database = if place == Place::SqliteRedis { Database::sqlite() } else { Database::postgres().await };
        Bed::with_database(place, database).await
    }

    pub(crate) async fn with_database(place: Place, database: Database) -> Bed {
        let inner: DynBroker = match place {
            Place::PostgresSqlite => SqliteBroker::open("sqlite::memory:").expect("memory can be opened"),
            _ => {
                let url = format!("{}?namespace=outbox-{:016x}", server::shared(Kind::Redis), fastrand::u64(..));
                RedisBroker::connect(&url).await.expect("the URL of a server of ours")
            }
        };
        let broker = FailingBroker::new(inner);
        let client = Client::with_broker(broker.clone());
        Bed { database, broker, client }
    }

    pub(crate) async fn put(&self, jobs: usize) -> Vec<JobId> {
        self.database.put((0..jobs).map(|_| job()).collect(), true).await.expect("they are inserted")
    }

    pub(crate) async fn drain(&self) -> Relayed {
        self.database.drain(&self.client).await
    }

    /// Starts a relay, which runs until it is aborted.
    pub(crate) fn run_relay(&self) -> tokio::task::JoinHandle<Relayed> {
        let (relay, client) = (self.database.relay(), self.client.clone());
        tokio::spawn(async move { relay.run(&client, std::future::pending::<()>()).await })
    }

    /// Claims and acknowledges jobs, at most this many, and gives their ids.
    pub(crate) async fn runs(&self, jobs: usize) -> Vec<JobId> {
        let broker: DynBroker = self.broker.clone();
        let (mut lane, mut ids) = (Lane::on(&broker, "default").await, Vec::new());
        while ids.len() < jobs {
            let Some(delivery) = lane.claim(1).await.pop() else { break };
            lane.ack(std::slice::from_ref(&delivery)).await;
            ids.push(delivery.id);
        }
        ids
    }

    /// The ids of a queue that wait, sorted.
    pub(crate) async fn ready(&self, queue: &str) -> Vec<JobId> {
        let (mut ids, mut walk) = (Vec::new(), self.client.inspector().walk(queue, JobState::Ready));
        while let Some(jobs) = walk.next().await.expect("jobs can be listed") {
            ids.extend(jobs.into_iter().map(|job| job.address.id));
        }
        ids
    }

    /// Each of these waits once in the queue, and nothing else does.
    pub(crate) async fn has_exactly(&self, mut ids: Vec<JobId>) {
        let mut ready = self.ready("default").await;
        ready.sort();
        ids.sort();
        assert_eq!(ready.len(), ids.len(), "the number of jobs");
        assert!(ready == ids, "other jobs");
    }
}

/// Makes a test of each of these cases in each place, with a bed.
macro_rules! places {
    ($($case:ident)*) => {
        mod with_bed {
            $(pub(super) async fn $case(place: $crate::bed::Place) {
                super::$case($crate::bed::Bed::new(place).await).await;
            })*
        }

        $crate::bed::in_places! { with_bed $($case)* }
    };
}

/// Makes a test of each of these cases of a module in each place.
macro_rules! in_places {
    ($from:ident $($case:ident)*) => {
        mod on_postgres {
            mod on_redis {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    super::super::$from::$case($crate::bed::Place::PostgresRedis).await;
                })*
            }

            mod on_sqlite {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    super::super::$from::$case($crate::bed::Place::PostgresSqlite).await;
                })*
            }
        }

        mod in_sqlite_and_on_redis {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$from::$case($crate::bed::Place::SqliteRedis).await;
            })*
        }
    };
}
pub(crate) use in_places;
pub(crate) use places;
