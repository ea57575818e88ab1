//! The storages of our brokers, for the conformance suite.

use std::path::PathBuf;

use async_trait::async_trait;
use queue_conformance::{conformance::Storage, failing::FailingBroker, folder::folder};
use queue_core::{
    __private::{RedisBroker, SqliteBroker},
    Client,
    broker::DynBroker,
    observe::Calls,
};
use redis::aio::MultiplexedConnection;
use tempfile::TempDir;

use crate::{
    cluster, sentinel,
    server::{self, Kind},
};

/// SQLite in memory: one broker for all processes, and a backup that is always empty.
#[derive(Debug, Default)]
pub struct SqliteMemory(Option<DynBroker>);

impl SqliteMemory {
    /// An empty one.
    pub fn new() -> Self {
        SqliteMemory::default()
    }
}

#[async_trait]
impl Storage for SqliteMemory {
    async fn open(&mut self) -> DynBroker {
        let fresh = || SqliteBroker::open("sqlite::memory:").expect("a database in memory can be opened") as DynBroker;
        self.0.get_or_insert_with(fresh).clone()
    }

    async fn save(&mut self) {}

    async fn restore(&mut self) {
        self.0 = None;
    }
}

/// A SQLite file in a separate folder.
#[derive(Debug)]
pub struct SqliteFile {
    folder: TempDir,
}

impl SqliteFile {
    /// A file that does not exist yet.
    pub fn new() -> Self {
        SqliteFile { folder: folder() }
    }

    /// The path of the file.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("queue.db")
    }

    /// A dropped broker closes the database in the background. The last one removes the log.
    async fn closed(&self) {
        let log = self.folder.path().join("queue.db-wal");
        crate::patience::until("the database to be closed", || async { !log.exists() }).await;
    }

    fn copy(&self, from: &str, to: &str) {
        let path = |name: &str| self.folder.path().join(name);
        for end in ["", "-wal", "-shm"] {
            let (from, to) = (path(&format!("{from}{end}")), path(&format!("{to}{end}")));
            // If the last broker has merged its log into the file, there is no log to copy, and the
            // next broker must not find an old one.
            if from.exists() {
                std::fs::copy(from, to).expect("a file can be copied");
            } else {
                let _ = std::fs::remove_file(to);
            }
        }
    }
}

impl Default for SqliteFile {
    fn default() -> Self {
        SqliteFile::new()
    }
}

#[async_trait]
impl Storage for SqliteFile {
    async fn open(&mut self) -> DynBroker {
        SqliteBroker::open_path(self.path()).expect("a new database can be opened")
    }

    async fn save(&mut self) {
        self.closed().await;
        self.copy("queue.db", "backup.db");
    }

    async fn restore(&mut self) {
        self.closed().await;
        self.copy("backup.db", "queue.db");
    }
}

/// Two wrappers around a broker: a foreign one that forwards every call, and one that counts the
/// calls.
#[derive(Debug, Default)]
pub struct Wrapped(SqliteMemory);

impl Wrapped {
    /// An empty one.
    pub fn new() -> Self {
        Wrapped::default()
    }
}

#[async_trait]
impl Storage for Wrapped {
    async fn open(&mut self) -> DynBroker {
        let failing = FailingBroker::new(self.0.open().await);
        Client::with_broker(failing).with_observer(Calls::default()).broker().clone()
    }

    async fn save(&mut self) {
        self.0.save().await;
    }

    async fn restore(&mut self) {
        self.0.restore().await;
    }
}

/// A Redis or Valkey deployment that all cases share, with a separate namespace.
#[derive(Debug)]
pub struct Server {
    url: String,
    /// The servers that accept writes.
    masters: Vec<String>,
    namespace: String,
    /// The saved data of each server.
    saved: Vec<Vec<(Vec<u8>, Vec<u8>)>>,
    /// Whether all calls use the full scripts.
    full: bool,
}

impl Server {
    /// One server.
    pub fn new(kind: Kind) -> Self {
        Server::at(&server::shared(kind))
    }

    /// One server with the full scripts for turns and enqueues, independent of the contents of the
    /// queue.
    pub fn by_full_scripts(kind: Kind) -> Self {
        Server { full: true, ..Server::new(kind) }
    }

    /// One server that the caller has started.
    pub fn at(url: &str) -> Self {
        Server::on(url.to_owned(), vec![url.to_owned()])
    }

    /// A master and its replica behind three sentinels.
    pub fn sentinel(kind: Kind) -> Self {
        let deployment = sentinel::shared(kind);
        Server::on(deployment.url(), vec![deployment.server(0).url()])
    }

    /// A cluster of three masters.
    pub fn cluster(kind: Kind) -> Self {
        let cluster = cluster::shared(kind);
        Server::on(cluster.url(), cluster.nodes()[..3].iter().map(server::Server::url).collect())
    }

    /// A unique namespace.
    fn on(url: String, masters: Vec<String>) -> Self {
        Server { url, masters, namespace: format!("suite-{:016x}", fastrand::u64(..)), saved: Vec::new(), full: false }
    }

    /// The namespace, which begins with `suite-`.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// A connection to each server that accepts writes.
    async fn connections(&self) -> Vec<MultiplexedConnection> {
        let mut connections = Vec::new();
        for url in &self.masters {
            connections.push(server::connect(url).await);
        }
        connections
    }

    async fn keys(&self, connection: &mut MultiplexedConnection) -> Vec<Vec<u8>> {
        redis::cmd("KEYS").arg(format!("{}:*", self.namespace)).query_async(connection).await.expect("keys can be listed")
    }
}

#[async_trait]
impl Storage for Server {
    async fn open(&mut self) -> DynBroker {
        let url = format!("{}?namespace={}", self.url, self.namespace);
        let broker = if self.full { RedisBroker::__by_full_scripts(&url).await } else { RedisBroker::connect(&url).await };
        broker.expect("the URL of a server of ours")
    }

    async fn save(&mut self) {
        self.saved.clear();
        for mut connection in self.connections().await {
            let mut saved = Vec::new();
            for key in self.keys(&mut connection).await {
                let dump = redis::cmd("DUMP").arg(&key).query_async(&mut connection).await.expect("a key can be dumped");
                saved.push((key, dump));
            }
            self.saved.push(saved);
        }
    }

    async fn restore(&mut self) {
        for (mut connection, saved) in self.connections().await.into_iter().zip(&self.saved) {
            for key in self.keys(&mut connection).await {
                let _: i64 = redis::cmd("DEL").arg(key).query_async(&mut connection).await.expect("a key can be deleted");
            }
            for (key, dump) in saved {
                let _: String =
                    redis::cmd("RESTORE").arg(key).arg(0).arg(dump).query_async(&mut connection).await.expect("a key can be restored");
            }
        }
    }
}
