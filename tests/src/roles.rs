//! A broker whose calls are made by four users, with only the permissions in their access-control
//! files.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use async_trait::async_trait;
use queue_conformance::conformance::Storage;
use queue_core::{
    __private::RedisBroker,
    Result,
    broker::{
        Audit, Broker, Caller, Damage, DynBroker, Inspect, Operate, Operated, OperationDeed, Party, Register, Registered, Scan, Scanned,
        VERBS, Wrapper,
    },
};

use crate::{
    server::{Kind, Server},
    storages,
};

/// The users: the names of the files in `docs/acl`, and their lines.
const FILES: [(&str, &str); 4] = [
    ("producer", include_str!("../../docs/acl/producer.acl")),
    ("worker", include_str!("../../docs/acl/worker.acl")),
    ("admin", include_str!("../../docs/acl/admin.acl")),
    ("dashboard", include_str!("../../docs/acl/dashboard.acl")),
];

/// Creates the four users, for namespaces with this prefix.
///
/// # Panics
/// If the server rejects a file.
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

/// The URL of one user.
pub fn url(server: &Server, role: &str) -> String {
    server.url().replace("redis://", &format!("redis://queue-{role}:change-me@"))
}

/// Four connections. Each call uses the connection of the user that makes such calls.
pub struct RolesBroker {
    producer: Arc<RedisBroker>,
    worker: Arc<RedisBroker>,
    admin: Arc<RedisBroker>,
    dashboard: Arc<RedisBroker>,
}

impl RolesBroker {
    /// Connects all four users.
    ///
    /// # Panics
    /// If a URL cannot be used.
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

/// A call is made by the user with the fewest rights that makes such calls, except for the calls
/// below.
impl Wrapper for RolesBroker {
    fn inner(&self) -> &dyn Broker {
        &*self.worker
    }

    fn route(&self, verb: &'static str) -> &dyn Broker {
        let verb = VERBS.iter().find(|known| known.name == verb).expect("the list has every verb");
        match verb.callers[0] {
            Caller::Producer => &*self.producer,
            Caller::Viewer => &*self.dashboard,
            Caller::Operator => &*self.admin,
            _ => &*self.worker,
        }
    }

    async fn check(&self) -> Result<()> {
        for broker in [&self.producer, &self.worker, &self.admin, &self.dashboard] {
            broker.check().await?;
        }
        Ok(())
    }

    async fn register(&self, request: &Register) -> Result<Registered> {
        match request.party {
            Party::Producer => self.producer.register(request).await,
            _ => self.worker.register(request).await,
        }
    }

    /// The dashboard searches and previews operations. An admin that runs one, or a worker that
    /// continues it, also finds moved jobs.
    async fn scan(&self, request: &Scan) -> Result<Scanned> {
        let broker = match (request.includes_moved, &request.after) {
            (false, _) | (true, None) => &self.dashboard,
            (true, Some(after)) if after.len() % 2 == 0 => &self.admin,
            (true, Some(_)) => &self.worker,
        };
        broker.scan(request).await
    }

    /// Both take steps: the user that has started it, and a worker that continues it.
    async fn operate(&self, request: &Operate) -> Result<Operated> {
        let broker = match &request.deed {
            OperationDeed::Step(step) if step.step % 2 == 1 => &self.worker,
            OperationDeed::Take { .. } => &self.worker,
            _ => &self.admin,
        };
        broker.operate(request).await
    }

    async fn audit(&self, queue: &str, how: Audit) -> Result<Vec<Damage>> {
        // Audits of the janitor and of `doctor`.
        let broker = if how.thorough { &self.admin } else { &self.worker };
        broker.audit(queue, how).await
    }
}

/// The storage of the conformance suite: a server without other users.
#[derive(Debug)]
pub struct Roles {
    server: &'static Server,
    storage: storages::Server,
}

impl Roles {
    /// A unique namespace on a server that all cases share.
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
