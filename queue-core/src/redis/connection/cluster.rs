//! Which node of a cluster holds which hash slot.
//!
//! Some nodes are asked for the map at the same time, and the newest map is used. The map is
//! refreshed periodically, and when a node redirects a call, drops a connection or is slow.
//! Connections to nodes without slots are closed, and their calls in flight are abandoned. See
//! <https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/>.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::{ErrorKind, RedisError, ServerErrorKind, Value, cluster_routing::Slot};
use tokio::{
    runtime::Handle,
    sync::{Notify, watch},
    time::timeout,
};

use super::{
    endpoint::Endpoint,
    refusal::Refusal,
    servers::{Node, Purpose, Redirect, Topology},
    settings::{self, Role},
    url::{Access, Address},
};
use crate::{
    error::{Error, Result},
    io::IoThread,
    redis::values::{array, number, text},
};

const SLOTS: u16 = 16_384;

/// The interval of refreshes while no problem is reported.
const ROUTINE: Duration = Duration::from_secs(10);

/// The shortest interval between two refreshes.
const RATE: Duration = Duration::from_millis(100);

/// The timeout for the map of a node.
const ANSWER: Duration = Duration::from_secs(1);

/// How long the first map waits for maps of other nodes, which may be newer.
const OTHERS: Duration = Duration::from_millis(200);

/// How many nodes are asked at once.
const ASKED_AT_ONCE: usize = 3;

/// The nodes of a cluster.
#[derive(Debug)]
pub(in crate::redis) struct Cluster {
    location: Arc<str>,
    access: Access,
    seeds: Vec<Address>,
    io: Handle,
    trouble: Arc<Notify>,
    map: RwLock<Map>,
    asking: tokio::sync::Mutex<()>,
    moved: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Map {
    nodes: HashMap<Address, Arc<Node>>,
    slots: HashMap<Slot, Arc<Node>>,
}

/// The view that one node has of the cluster.
struct View {
    /// The node sees a majority.
    is_sound: bool,
    epoch: u64,
    ranges: Vec<(u16, u16, Address)>,
}

impl Cluster {
    pub(in crate::redis) fn start(
        seeds: Vec<Address>,
        access: Access,
        location: Arc<str>,
        moved: watch::Sender<u64>,
        io: &IoThread,
    ) -> Arc<Self> {
        let trouble = Arc::new(Notify::new());
        let this = Arc::new(Cluster {
            location,
            access,
            seeds,
            io: io.handle().clone(),
            trouble: trouble.clone(),
            map: RwLock::default(),
            asking: tokio::sync::Mutex::new(()),
            moved,
        });
        let watching = this.clone();
        io.spawn(Box::pin(async move {
            loop {
                let _ = timeout(ROUTINE.mul_f64(0.75 + fastrand::f64() / 2.0), trouble.notified()).await;
                if watching.is_known()
                    && let Err(error) = watching.refresh().await
                {
                    tracing::debug!(%error, "cannot read the slots of the cluster");
                }
                tokio::time::sleep(RATE).await;
            }
        }));
        this
    }

    /// All nodes that hold slots.
    fn holders(&self) -> Vec<Arc<Node>> {
        let map = self.read();
        let mut seen = HashSet::new();
        map.slots.values().filter(|node| seen.insert(Arc::as_ptr(node))).cloned().collect()
    }

    /// Asks a few nodes at a time until some return the map.
    async fn refresh(&self) -> Result<()> {
        let _alone = self.asking.lock().await;
        let mut problems = Vec::new();
        for nodes in self.nodes_to_ask().chunks(ASKED_AT_ONCE) {
            let mut asked: FuturesUnordered<_> = nodes.iter().map(|node| self.request_view(node)).collect();
            let mut newest: Option<View> = None;
            let mut until = Instant::now() + ANSWER;
            loop {
                match timeout(until.saturating_duration_since(Instant::now()), asked.next()).await {
                    Ok(Some(Ok(view))) => {
                        until = until.min(Instant::now() + OTHERS);
                        if newest.as_ref().is_none_or(|newest| (view.is_sound, view.epoch) > (newest.is_sound, newest.epoch)) {
                            newest = Some(view);
                        }
                    }
                    Ok(Some(Err(problem))) => problems.push(problem),
                    Ok(None) => break,
                    Err(_) => {
                        if newest.is_none() {
                            problems
                                .push(Error::unreachable(&*self.location, format!("{} of its nodes do not answer in time", asked.len())));
                        }
                        break;
                    }
                }
            }
            if let Some(view) = newest {
                self.apply_map(&view.ranges);
                return Ok(());
            }
        }
        // Errors that an operator has to fix come first.
        if let Some(error) = problems.iter().find(|error| !error.is_transient()) {
            return Err(error.duplicate());
        }
        let unreachable = problems.iter().all(Error::is_unreachable);
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let problem = format!("none of its nodes answers: {}", problems.join("; "));
        Err(if unreachable { Error::unreachable(&*self.location, problem) } else { self.unavailable(problem) })
    }

    /// The nodes to ask, in any order: known nodes, and those that the URL names.
    fn nodes_to_ask(&self) -> Vec<Arc<Node>> {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        for seed in &self.seeds {
            self.node_at(&mut map, seed);
        }
        let mut nodes: Vec<Arc<Node>> = map.nodes.values().cloned().collect();
        fastrand::shuffle(&mut nodes);
        nodes
    }

    async fn request_view(&self, node: &Node) -> Result<View> {
        let ask = async |what: &str| {
            let answer = node.link(Purpose::Heartbeats).send(redis::cmd("CLUSTER").arg(what)).await;
            answer.map_err(|refusal| match &refusal {
                Refusal::Server(error) if error.detail().is_some_and(is_not_cluster) => {
                    let advice = "is not part of a cluster; use `redis://` for a single server";
                    Error::invalid("server", node.endpoint.shown(), advice)
                }
                _ => refusal.into_error(&node.endpoint),
            })
        };
        let info = text(ask("INFO").await?)?;
        let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
        let asked = node.endpoint.shown().rsplit_once(':').map_or("", |(host, _)| host).trim_matches(['[', ']']);
        let ranges = array(ask("SLOTS").await?)?.into_iter().map(|range| self::parse_range(range, asked));
        Ok(View {
            is_sound: field("cluster_state") == Some("ok"),
            epoch: field("cluster_current_epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or(0),
            ranges: ranges.collect::<Result<_>>()?,
        })
    }

    /// Applies a map of the cluster. Nodes without slots are disconnected, so that no caller waits
    /// for them.
    fn apply_map(&self, ranges: &[(u16, u16, Address)]) {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        let mut slots = HashMap::with_capacity(usize::from(SLOTS));
        for (first, last, address) in ranges {
            let node = self.node_at(&mut map, address);
            slots.extend((*first..=*last).filter_map(Slot::new).map(|slot| (slot, node.clone())));
        }
        let is_same = |(slot, node): (&Slot, &Arc<Node>)| map.slots.get(slot).is_some_and(|known| Arc::ptr_eq(known, node));
        if slots.len() == map.slots.len() && slots.iter().all(is_same) {
            return;
        }
        map.slots = slots;
        let holders: HashSet<&Address> = ranges.iter().map(|(_, _, address)| address).collect();
        let gone: Vec<Arc<Node>> = map.nodes.extract_if(|address, _| !holders.contains(address)).map(|(_, node)| node).collect();
        drop(map);
        tracing::debug!(broker = &*self.location, nodes = holders.len(), "the slots of the cluster have moved to other nodes");
        for node in gone {
            node.endpoint.close();
        }
        self.moved.send_modify(|moves| *moves += 1);
    }

    fn node_at(&self, map: &mut Map, address: &Address) -> Arc<Node> {
        if let Some(node) = map.nodes.get(address) {
            return node.clone();
        }
        let endpoint = Endpoint::fixed(address.to_string(), self.access.clone(), address.clone(), self.trouble.clone());
        let node = Node::new(&endpoint, &self.io);
        map.nodes.insert(address.clone(), node.clone());
        node
    }

    /// The ranges of slots that no node holds.
    fn uncovered_ranges(&self) -> Vec<(u16, u16)> {
        let map = self.read();
        let mut ranges: Vec<(u16, u16)> = Vec::new();
        for slot in (0..SLOTS).filter(|slot| Slot::new(*slot).is_some_and(|slot| !map.slots.contains_key(&slot))) {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == slot => *last = slot,
                _ => ranges.push((slot, slot)),
            }
        }
        ranges
    }

    fn unavailable(&self, problem: String) -> Error {
        Error::unavailable(&*self.location, problem)
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Map> {
        self.map.read().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Topology for Cluster {
    fn is_known(&self) -> bool {
        !self.read().slots.is_empty()
    }

    async fn find(&self) -> Result<()> {
        self.refresh().await
    }

    fn node(&self, tag: &str) -> Result<Arc<Node>> {
        let slot = Slot::for_key(tag);
        let node = self.read().slots.get(&slot).cloned();
        node.ok_or_else(|| {
            self.trouble.notify_one();
            self.unavailable(format!("no node of the cluster holds the slot of `{tag}`"))
        })
    }

    async fn masters(&self) -> Result<Vec<Arc<Node>>> {
        self.refresh().await?;
        Ok(self.holders())
    }

    async fn check(&self) -> Result<()> {
        self.refresh().await?;
        let uncovered = self.uncovered_ranges();
        if !uncovered.is_empty() {
            let shown: Vec<String> = uncovered.iter().take(5).map(|(first, last)| format!("{first}-{last}")).collect();
            let more = if uncovered.len() > shown.len() { ", …" } else { "" };
            let shown = shown.join(", ");
            return Err(self.unavailable(format!("no node holds the slots {shown}{more}; assign them (`redis-cli --cluster fix`)")));
        }
        let mut checked = Err(self.unavailable("it has no masters".to_owned()));
        for node in self.holders() {
            checked = match settings::check(&node, Role::Node).await {
                // An unreachable node does not block the queues of the others.
                Err(error) if error.is_transient() => checked.or(Err(error)),
                answer => Ok(answer?),
            };
        }
        checked
    }

    fn redirected(&self, error: &RedisError, by: &Node) -> Option<Redirect> {
        let (address, slot) = error.redirect_node()?;
        let (host, port) = address.rsplit_once(':')?;
        // A node that does not know its own name means the name that we use for it.
        let host = if matches!(host, "" | "?") { by.endpoint.shown().rsplit_once(':')?.0 } else { host };
        let address = Address { host: host.trim_matches(['[', ']']).to_owned(), port: port.parse().ok()? };
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        let node = self.node_at(&mut map, &address);
        if error.kind() == ErrorKind::Server(ServerErrorKind::Ask) {
            return Some(Redirect::Ask(node));
        }
        map.slots.insert(Slot::new(slot)?, node);
        drop(map);
        self.trouble.notify_one();
        self.moved.send_modify(|moves| *moves += 1);
        Some(Redirect::Moved)
    }
}

/// The reply of a single server or a sentinel.
fn is_not_cluster(detail: &str) -> bool {
    detail.contains("cluster support disabled") || detail.contains("unknown command")
}

/// One entry of `CLUSTER SLOTS`: first, last, and the master before its replicas. An empty host is
/// the host of the asked node.
pub(in crate::redis) fn parse_range(value: Value, asked: &str) -> Result<(u16, u16, Address)> {
    let strange = || Error::Internal("the answer to `CLUSTER SLOTS` has an unknown form".to_owned());
    let mut parts = array(value)?.into_iter();
    let mut part = || parts.next().ok_or_else(strange);
    let (first, last) = (number(part()?)?, number(part()?)?);
    let mut master = array(part()?)?.into_iter();
    let mut part = || master.next().ok_or_else(strange);
    let host = text(part()?)?;
    let port = number(part()?)?;
    let host = if matches!(host.as_str(), "" | "?") { asked.to_owned() } else { host };
    Ok((first, last, Address { host, port }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(first: i64, last: i64, host: Value, port: i64) -> Value {
        let node = |host, port| Value::Array(vec![host, Value::Int(port), Value::BulkString(b"id".to_vec())]);
        let replica = node(Value::BulkString(b"replica".to_vec()), 1);
        Value::Array(vec![Value::Int(first), Value::Int(last), node(host, port), replica])
    }

    #[test]
    fn a_range_is_held_by_its_master() {
        let read = parse_range(entry(0, 5460, Value::BulkString(b"one".to_vec()), 7000), "asked").unwrap();
        assert_eq!(read, (0, 5460, Address { host: "one".to_owned(), port: 7000 }));
        let nameless = parse_range(entry(5461, 16383, Value::Nil, 7001), "asked").unwrap();
        assert_eq!(nameless, (5461, 16383, Address { host: "asked".to_owned(), port: 7001 }));
        assert!(parse_range(Value::Array(vec![Value::Int(1)]), "asked").is_err());
    }
}
