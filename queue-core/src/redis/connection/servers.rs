//! Finds the server that holds a queue, and retries calls.
//!
//! All keys of a queue are on one server, because they have one hash tag. If a server certainly did
//! not carry out a call, the call is repeated at the current server until the call's deadline. If
//! the server may have carried it out, the caller gets the error and decides about a repetition.

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use redis::{Cmd, RedisError, Value};
use tokio::{
    runtime::Handle,
    sync::{Notify, watch},
};

use super::{
    condition,
    endpoint::Endpoint,
    link::{Link, Message},
    misfits,
    refusal::Refusal,
    settings::{self, Role},
    url::Engine,
};
use crate::{
    broker::{CALL_DEADLINE, Condition, Durability},
    error::{Error, Result},
    io::IoThread,
    pauses::Pauses,
    redis::{
        keys::{Keys, tag_of},
        script::Script,
    },
};

/// The first pause between two tries of a call.
const FIRST_PAUSE: Duration = Duration::from_millis(25);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_millis(400);

/// Selects one of our connections to a server.
#[derive(Clone, Copy, Debug)]
pub(in crate::redis) enum Purpose {
    /// Turns and enqueues.
    Requests,
    /// Heartbeats, reclaims, and requests of operators: never behind a large turn.
    Heartbeats,
    /// Enqueues that wait for replicas or a disk, and the calls behind them.
    Confirmed,
}

/// A server and our connections to it. Each connection is made when it is first used.
#[derive(Debug)]
pub(in crate::redis) struct Node {
    pub(in crate::redis) endpoint: Arc<Endpoint>,
    requests: Link,
    heartbeats: Link,
    confirmed: Link,
}

impl Node {
    pub(in crate::redis) fn new(endpoint: &Arc<Endpoint>, io: &Handle) -> Arc<Self> {
        let link = || Link::new(endpoint.clone(), io.clone());
        Arc::new(Node { endpoint: endpoint.clone(), requests: link(), heartbeats: link(), confirmed: link() })
    }

    pub(in crate::redis) fn link(&self, purpose: Purpose) -> &Link {
        match purpose {
            Purpose::Requests => &self.requests,
            Purpose::Heartbeats => &self.heartbeats,
            Purpose::Confirmed => &self.confirmed,
        }
    }
}

/// Which servers exist, and which queues they hold.
#[async_trait]
pub(in crate::redis) trait Topology: Send + Sync + std::fmt::Debug {
    /// Whether the map of the servers is known. If not, the caller calls `find` first.
    fn is_known(&self) -> bool {
        true
    }

    /// Reads the map of the servers.
    async fn find(&self) -> Result<()> {
        Ok(())
    }

    /// The node that holds a hash tag, as far as is known.
    fn node(&self, tag: &str) -> Result<Arc<Node>>;

    /// All servers that hold queues.
    async fn masters(&self) -> Result<Vec<Arc<Node>>>;

    /// Checks every server that holds queues: version, role, mode and eviction.
    async fn check(&self) -> Result<()>;

    /// The node to which an error redirects the call, if it does.
    fn redirected(&self, _error: &RedisError, _by: &Node) -> Option<Redirect> {
        None
    }
}

/// A redirection of a cluster node, which has not carried out the command.
#[cfg_attr(not(feature = "cluster"), allow(dead_code, reason = "only a cluster redirects"))]
pub(in crate::redis) enum Redirect {
    /// The slot has moved, and the map is updated.
    Moved,
    /// Only this command goes to another node.
    Ask(Arc<Node>),
}

/// The deadline of a call whose answer is wanted by then.
pub(in crate::redis) fn deadline(wanted: Option<Instant>) -> Instant {
    let latest = Instant::now() + CALL_DEADLINE;
    wanted.map_or(latest, |wanted| wanted.min(latest))
}

/// One server without sentinels or a cluster.
#[derive(Debug)]
struct Standalone(Arc<Node>);

#[async_trait]
impl Topology for Standalone {
    fn node(&self, _tag: &str) -> Result<Arc<Node>> {
        Ok(self.0.clone())
    }

    async fn masters(&self) -> Result<Vec<Arc<Node>>> {
        Ok(vec![self.0.clone()])
    }

    async fn check(&self) -> Result<()> {
        settings::check(&self.0, Role::Standalone).await
    }
}

/// The servers of a broker.
#[derive(Debug)]
pub(in crate::redis) struct Servers {
    location: Arc<str>,
    keys: Keys,
    topology: Arc<dyn Topology>,
    /// Counts the times at which a queue may have moved to another server.
    moves: watch::Receiver<u64>,
    /// A call has been answered: from now on an outage is waited out.
    reached: AtomicBool,
}

impl Servers {
    /// Opens no connection yet.
    pub(in crate::redis) fn start(keys: Keys, engine: Engine, location: &Arc<str>, io: &IoThread) -> Result<Self> {
        let (moved, moves) = watch::channel(0);
        let topology: Arc<dyn Topology> = match engine {
            Engine::Standalone(access, address) => {
                drop(moved);
                let endpoint = Endpoint::fixed(location.clone(), access, address, Arc::new(Notify::new()));
                Arc::new(Standalone(Node::new(&endpoint, io.handle())))
            }
            #[cfg(feature = "sentinel")]
            Engine::Sentinel { sentinels, service, servers } => {
                super::sentinel::Sentinels::start(sentinels, service, servers, location, moved, io)
            }
            #[cfg(feature = "cluster")]
            Engine::Cluster { seeds, nodes } => super::cluster::Cluster::start(seeds, nodes, location.clone(), moved, io),
            #[cfg(not(feature = "sentinel"))]
            Engine::Sentinel { .. } => return Err(Error::FeatureOff { scheme: "redis+sentinel".to_owned(), feature: "sentinel" }),
            #[cfg(not(feature = "cluster"))]
            Engine::Cluster { .. } => return Err(Error::FeatureOff { scheme: "redis+cluster".to_owned(), feature: "cluster" }),
        };
        Ok(Servers { location: location.clone(), keys, topology, moves, reached: AtomicBool::new(false) })
    }

    /// Calls a script on the server of a queue. If the server does not know the script, its text is
    /// sent.
    pub(in crate::redis) async fn script(&self, purpose: Purpose, queue: &str, script: &Script, call: Cmd) -> Result<Value> {
        self.script_until(None, purpose, queue, script, call).await
    }

    /// The same for a caller that waits at most until then.
    pub(in crate::redis) async fn script_until(
        &self,
        until: Option<Instant>,
        purpose: Purpose,
        queue: &str,
        script: &Script,
        call: Cmd,
    ) -> Result<Value> {
        self.call(until, purpose, queue, Some(script), call, &[]).await.map(|(answer, _)| answer)
    }

    /// The same, followed by commands on the same connection. Also returns their answers; errors
    /// are values in them.
    pub(in crate::redis) async fn script_then(
        &self,
        until: Option<Instant>,
        purpose: Purpose,
        queue: &str,
        script: &Script,
        call: Cmd,
        then: &[Cmd],
    ) -> Result<(Value, Vec<Value>)> {
        self.call(until, purpose, queue, Some(script), call, then).await
    }

    /// Sends a command to the server of a queue, or of another hash tag.
    pub(in crate::redis) async fn command(&self, purpose: Purpose, tag: &str, command: &Cmd) -> Result<Value> {
        self.command_until(None, purpose, tag, command).await
    }

    /// The same for a caller that waits at most until then.
    pub(in crate::redis) async fn command_until(
        &self,
        until: Option<Instant>,
        purpose: Purpose,
        tag: &str,
        command: &Cmd,
    ) -> Result<Value> {
        self.call(until, purpose, tag, None, command.clone(), &[]).await.map(|(answer, _)| answer)
    }

    /// The durability of the least durable server.
    pub(in crate::redis) async fn durability(&self) -> Result<Durability> {
        let mut least = Err(Error::Internal("there are no masters".to_owned()));
        for node in self.topology.masters().await? {
            least = match settings::durability(&node).await {
                Ok(durability) => Ok(least.map_or(durability, |least| durability.min(least))),
                // An unreachable server does not affect the result of the others.
                Err(error) if error.is_transient() => least.or(Err(error)),
                Err(error) => return Err(error),
            };
        }
        least
    }

    /// The condition of the server that is worst off.
    pub(in crate::redis) async fn condition(&self) -> Result<Condition> {
        let mut worst = Err(Error::Internal("there are no masters".to_owned()));
        for node in self.topology.masters().await? {
            // An unreachable server does not affect the result of the others.
            worst = match (worst, condition::read_condition(&node).await) {
                (Ok(worst), Ok(condition)) => Ok(condition::worse(worst, condition)),
                (Err(_), answer) => answer,
                (worst, Err(_)) => worst,
            };
        }
        worst
    }

    /// Checks every server that holds queues.
    pub(in crate::redis) async fn check(&self) -> Result<()> {
        self.topology.check().await?;
        self.reached.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Reads the map of the servers if it is unknown.
    pub(in crate::redis) async fn ensure_known(&self) -> Result<()> {
        if self.topology.is_known() { Ok(()) } else { self.topology.find().await }
    }

    /// The server of a queue, as far as is known.
    pub(in crate::redis) fn endpoint(&self, queue: &str) -> Option<Arc<Endpoint>> {
        self.topology.node(tag_of(queue)).ok().map(|node| node.endpoint.clone())
    }

    /// Notifies when a queue may have moved to another server.
    pub(in crate::redis) fn moves(&self) -> watch::Receiver<u64> {
        self.moves.clone()
    }

    async fn call(
        &self,
        wanted: Option<Instant>,
        purpose: Purpose,
        tag: &str,
        script: Option<&Script>,
        mut command: Cmd,
        then: &[Cmd],
    ) -> Result<(Value, Vec<Value>)> {
        let until = deadline(wanted);
        let mut moves = self.moves.clone();
        let mut pauses = Pauses::new(FIRST_PAUSE, LONGEST_PAUSE);
        let mut moved = false;
        let mut with_body = false;
        // The node that is taking over the queue's slot.
        let mut asked: Option<Arc<Node>> = None;
        loop {
            moves.mark_unchanged();
            let mut goes_with_moves = true;
            let error = match self.node(tag, asked.as_ref(), wanted).await {
                Err(error) if !self.is_retried(&error) => return Err(error),
                Err(error) => error,
                Ok(node) => {
                    let refusal = match node
                        .link(purpose)
                        .exchange(Message { command: &command, asking: asked.is_some(), then, until: wanted })
                        .await
                    {
                        Ok(answers) => {
                            self.reached.store(true, Ordering::Relaxed);
                            return Ok(answers);
                        }
                        Err(refusal) => refusal,
                    };
                    if let (Some("NOSCRIPT"), Some(script), false) = (refusal.code(), script, with_body) {
                        command = script.with_body(&command);
                        with_body = true;
                        continue;
                    }
                    match self.redirected(&refusal, &node) {
                        Some(Redirect::Moved) if !mem::replace(&mut moved, true) => {
                            asked = None;
                            continue;
                        }
                        Some(Redirect::Ask(node)) if asked.is_none() => {
                            asked = Some(node);
                            continue;
                        }
                        _ => asked = None,
                    }
                    if refusal.code() == Some("WRONGTYPE")
                        && let Some(error) =
                            Box::pin(misfits::wrong_type_error(&self.keys, tag, node.link(purpose), node.endpoint.shown())).await
                    {
                        return Err(error);
                    }
                    // Two nodes that redirect to each other get time to agree.
                    goes_with_moves = !matches!(refusal.code(), Some("MOVED" | "ASK"));
                    let waits = refusal.is_temporary() || !goes_with_moves;
                    let unreached = matches!(&refusal, Refusal::Unconnected(error) if !self.is_retried(error));
                    let error = refusal.into_error(&node.endpoint);
                    if !waits || unreached {
                        return Err(error);
                    }
                    error
                }
            };
            if !pauses.fits(until) {
                return Err(error);
            }
            let moved = async {
                // A single server never reports moves.
                if !goes_with_moves || moves.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            let _ = tokio::time::timeout(pauses.pause(), moved).await;
        }
    }

    /// Whether a connection error is waited out. The error of the very first call is not, because
    /// the URL may be wrong.
    fn is_retried(&self, error: &Error) -> bool {
        error.is_transient() && self.reached.load(Ordering::Relaxed)
    }

    async fn node(&self, queue: &str, asked: Option<&Arc<Node>>, wanted: Option<Instant>) -> Result<Arc<Node>> {
        if let Some(node) = asked {
            return Ok(node.clone());
        }
        match wanted {
            Some(wanted) if !self.topology.is_known() => {
                let late = || Error::unavailable(&*self.location, "none of the servers that the URL names has answered in time");
                tokio::time::timeout_at(wanted.into(), self.topology.find()).await.map_err(|_| late())??;
            }
            _ => self.ensure_known().await?,
        }
        self.topology.node(tag_of(queue))
    }

    fn redirected(&self, refusal: &Refusal, by: &Node) -> Option<Redirect> {
        match refusal {
            Refusal::Server(error) => self.topology.redirected(error, by),
            _ => None,
        }
    }
}
