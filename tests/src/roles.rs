//! A broker whose calls are made by four users, each of whom may do no more than its access-control file allows.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use async_trait::async_trait;
use queue_core::{
    BoxFuture, JobId, Result,
    alarm::Alarm,
    broker::{
        Audit, Broker, BrokerInfo, CancelAnswer, Condition, Confirm, Confirmed, CrashRule, Damage, Durability, DynBroker, Enqueue,
        Enqueued, Extend, Extended, Hints, Inspect, JobRecord, JobState, Page, Party, PartyName, QueueStats, Reclaimed, Register, Suspect,
        Suspects, SweepLimits, Swept, Turn, TurnAnswer, sealed,
    },
    redis::RedisBroker,
};
use queue_testing::conformance::Storage;

use crate::{
    server::{Kind, Server},
    storages,
};

/// Who there is: the names of the files in `docs/acl`, and their lines.
const FILES: [(&str, &str); 4] = [
    ("producer", include_str!("../../docs/acl/producer.acl")),
    ("worker", include_str!("../../docs/acl/worker.acl")),
    ("admin", include_str!("../../docs/acl/admin.acl")),
    ("dashboard", include_str!("../../docs/acl/dashboard.acl")),
];

/// Lets the four users in, for namespaces that begin with this.
///
/// # Panics
/// When the server does not take a file.
pub fn admit(server: &Server, namespace: &str) {
    for (role, line) in FILES {
        let line = line.replace("~queue:", &format!("~{namespace}*:")).replace("&queue:", &format!("&{namespace}*:"));
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[1], format!("queue-{role}"), "the user has the name of its file");
        let command: Vec<&str> = ["ACL", "SETUSER"].into_iter().chain(words[1..].iter().copied()).collect();
        let reply = server.command(&command);
        assert!(reply.starts_with("+OK"), "{role}: {reply}");
    }
}

/// The URL of one of them.
pub fn url(server: &Server, role: &str) -> String {
    server.url().replace("redis://", &format!("redis://queue-{role}:change-me@"))
}

/// Four connections, of which each call takes the one of whoever makes such calls.
pub struct RolesBroker {
    producer: Arc<RedisBroker>,
    worker: Arc<RedisBroker>,
    admin: Arc<RedisBroker>,
    dashboard: Arc<RedisBroker>,
}

impl RolesBroker {
    /// Connects all four.
    ///
    /// # Panics
    /// When a URL cannot be used.
    pub async fn connect(server: &Server, namespace: &str) -> DynBroker {
        let connect = async |role| {
            let url = format!("{}?namespace={namespace}", url(server, role));
            RedisBroker::connect(&url).await.expect("the URL of a server of ours")
        };
        Arc::new(RolesBroker {
            producer: connect("producer").await,
            worker: connect("worker").await,
            admin: connect("admin").await,
            dashboard: connect("dashboard").await,
        })
    }
}

impl fmt::Debug for RolesBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RolesBroker").finish_non_exhaustive()
    }
}

#[async_trait]
impl Broker for RolesBroker {
    fn info(&self) -> BrokerInfo {
        self.worker.info()
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.worker.spawn(task);
    }

    fn alarm(&self) -> Alarm {
        self.worker.alarm()
    }

    async fn check(&self) -> Result<()> {
        for broker in [&self.producer, &self.worker, &self.admin, &self.dashboard] {
            broker.check().await?;
        }
        Ok(())
    }

    async fn register(&self, request: &Register) -> Result<PartyName> {
        match request.party {
            Party::Producer => self.producer.register(request).await,
            _ => self.worker.register(request).await,
        }
    }

    async fn enqueue(&self, request: &Enqueue) -> Result<Vec<Enqueued>> {
        self.producer.enqueue(request).await
    }

    async fn enqueue_confirmed(&self, request: &Enqueue, confirm: &Confirm) -> Result<(Vec<Enqueued>, Confirmed)> {
        self.producer.enqueue_confirmed(request, confirm).await
    }

    async fn durability(&self) -> Result<Durability> {
        self.dashboard.durability().await
    }

    async fn condition(&self) -> Result<Condition> {
        self.worker.condition().await
    }

    async fn turn(&self, turn: &Turn) -> Result<TurnAnswer> {
        self.worker.turn(turn).await
    }

    async fn look(&self, queue: &str) -> Result<bool> {
        self.worker.look(queue).await
    }

    async fn extend(&self, lanes: &[Extend]) -> Vec<Result<Extended>> {
        self.worker.extend(lanes).await
    }

    async fn suspects(&self, queue: &str, limit: usize) -> Result<Suspects> {
        self.worker.suspects(queue, limit).await
    }

    async fn fence(&self, queue: &str, suspects: &[Suspect]) -> Result<Vec<bool>> {
        self.worker.fence(queue, suspects).await
    }

    async fn sweep_fenced(&self, queue: &str, rule: &CrashRule) -> Result<Reclaimed> {
        self.worker.sweep_fenced(queue, rule).await
    }

    async fn cancel(&self, queue: &str, ids: &[JobId]) -> Result<Vec<CancelAnswer>> {
        self.admin.cancel(queue, ids).await
    }

    async fn requeue(&self, queue: &str, ids: &[JobId]) -> Result<Vec<bool>> {
        self.admin.requeue(queue, ids).await
    }

    async fn sweep(&self, queue: &str, limits: &SweepLimits) -> Result<Swept> {
        self.worker.sweep(queue, limits).await
    }

    fn hints(&self, queue: &str) -> Hints {
        self.worker.hints(queue)
    }

    fn __sealed(&self, _: sealed::Seal) {}
}

#[async_trait]
impl Inspect for RolesBroker {
    async fn queues(&self) -> Result<Vec<String>> {
        self.dashboard.queues().await
    }

    async fn stats(&self, queue: &str) -> Result<QueueStats> {
        self.dashboard.stats(queue).await
    }

    async fn list(&self, queue: &str, state: JobState, offset: u64, limit: usize) -> Result<Page> {
        self.dashboard.list(queue, state, offset, limit).await
    }

    async fn show(&self, queue: &str, id: &JobId) -> Result<Option<JobRecord>> {
        self.dashboard.show(queue, id).await
    }

    async fn delete(&self, queue: &str, ids: &[JobId]) -> Result<Vec<bool>> {
        self.admin.delete(queue, ids).await
    }

    async fn audit(&self, queue: &str, how: Audit) -> Result<Vec<Damage>> {
        // The janitor's and the doctor's.
        let broker = if how.thorough { &self.admin } else { &self.worker };
        broker.audit(queue, how).await
    }

    async fn audit_queues(&self, repair: bool) -> Result<Vec<Damage>> {
        self.admin.audit_queues(repair).await
    }

    async fn set_paused(&self, queue: &str, paused: bool) -> Result<()> {
        self.admin.set_paused(queue, paused).await
    }
}

/// The storage of the conformance suite: a server that lets nobody else in.
#[derive(Debug)]
pub struct Roles {
    server: &'static Server,
    storage: storages::Server,
}

impl Roles {
    /// A namespace that nobody else uses, on a server shared by all cases.
    pub fn new(kind: Kind) -> Self {
        static REDIS: OnceLock<Server> = OnceLock::new();
        static VALKEY: OnceLock<Server> = OnceLock::new();
        let server = if kind == Kind::Redis { &REDIS } else { &VALKEY };
        let server = server.get_or_init(|| {
            let server = Server::start(kind);
            admit(&server, "suite-");
            server
        });
        Roles { server, storage: storages::Server::at(&server.url()) }
    }
}

#[async_trait]
impl Storage for Roles {
    async fn open(&mut self) -> DynBroker {
        RolesBroker::connect(self.server, self.storage.namespace()).await
    }

    async fn save(&mut self) {
        self.storage.save().await;
    }

    async fn restore(&mut self) {
        self.storage.restore().await;
    }
}
