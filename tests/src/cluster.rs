//! A cluster of three masters with a replica each: real processes, which end with the test.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    sync::OnceLock,
    time::{Duration, Instant, SystemTime},
};

use redis::RedisResult;

use queue_conformance::patience::{Wait, wait};

use crate::{
    sentinel::{Promotion, follows, is_master, offset},
    server::{Kind, Port, Server},
};

/// Slots of every cluster.
pub const SLOTS: u16 = 16_384;

/// Six nodes. The first three start as masters with a third of the slots each. Node `n + 3` starts
/// as the replica of `n`.
#[derive(Debug)]
pub struct Cluster {
    kind: Kind,
    nodes: Vec<Server>,
    ids: Vec<String>,
    /// The ports of the cluster bus.
    _ports: Vec<Port>,
}

impl Cluster {
    /// Starts a cluster without persistence that considers a node down after this time.
    pub fn start(kind: Kind, node_timeout: Duration) -> Cluster {
        Cluster::with(kind, node_timeout, &["--appendonly", "no"])
    }

    /// Starts nodes with further options. They are ready when each knows that all slots are served
    /// and all replicas are in sync.
    ///
    /// # Panics
    /// If they are not ready in time.
    pub fn with(kind: Kind, node_timeout: Duration, options: &[&str]) -> Cluster {
        let timeout = node_timeout.as_millis().to_string();
        let ports = RefCell::new(Vec::new());
        let nodes = (0..6).map(|_| {
            Server::launched(kind, |_| {
                let port = Port::reserve();
                let bus = port.to_string();
                ports.borrow_mut().push(port);
                let cluster = ["--cluster-enabled", "yes", "--cluster-node-timeout", &timeout, "--cluster-port", &bus];
                let replicas = ["--cluster-replica-validity-factor", "0", "--cluster-allow-replica-migration", "no"];
                let sync = ["--save", "", "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"];
                [&cluster[..], &replicas, &sync, options].concat().into_iter().map(str::to_owned).collect()
            })
        });
        let nodes: Vec<Server> = nodes.collect();
        let ids = nodes.iter().map(|node| node.ask(&["CLUSTER", "MYID"]).expect("a node knows itself")).collect();
        let cluster = Cluster { kind, nodes, ids, _ports: ports.take() };
        cluster.join().expect("the nodes do as they are told");
        cluster.wait_for_agreement();
        cluster.wait_for_sync();
        cluster
    }

    /// The URL for a broker: three of its nodes.
    pub fn url(&self) -> String {
        let addresses: Vec<String> = self.nodes[..3].iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        format!("redis+cluster://{}", addresses.join(","))
    }

    /// The kind of the servers.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// A node by its number, 0 to 5.
    pub fn node(&self, number: usize) -> &Server {
        &self.nodes[number]
    }

    /// All nodes.
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// The slot of a queue, as a node computes it.
    pub fn slot(&self, queue: &str) -> u16 {
        self.anyone().ask(&["CLUSTER", "KEYSLOT", &format!("{{{queue}}}")]).expect("a node can tell a slot")
    }

    /// The name of a queue whose slot is served by this node.
    pub fn queue_on(&self, master: usize) -> String {
        let mut names = (0..).map(|number| format!("chronicle-{number}"));
        names.find(|name| self.master(self.slot(name)) == master).expect("every node serves some")
    }

    /// The number of the node that serves a slot.
    pub fn master(&self, slot: u16) -> usize {
        self.wait_for("a master of the slot")
            .block_some(|| self.view(self.anyone()).into_iter().find(|(_, seen)| seen.serves(slot)).map(|(node, _)| node))
    }

    /// The numbers of all masters.
    pub fn masters(&self) -> Vec<usize> {
        let view = self.view(self.anyone());
        let mut masters: Vec<usize> = view.into_iter().filter(|(_, seen)| !seen.slots.is_empty()).map(|(node, _)| node).collect();
        masters.sort_unstable();
        masters
    }

    /// The number of the replica of a node.
    pub fn replica(&self, master: usize) -> usize {
        self.wait_for("a replica")
            .block_some(|| self.view(self.anyone()).into_iter().find(|(_, seen)| seen.master == self.ids[master]).map(|(node, _)| node))
    }

    /// A planned failover: the replica of the slot's master catches up and takes over, without a
    /// loss. It is requested again if it has not ended within the five seconds of a node's time
    /// limit.
    pub fn hand_over(&self, slot: u16) -> Promotion {
        const GIVEN_UP: Duration = Duration::from_secs(6);
        let new = self.replica(self.master(slot));
        let mut asked: Option<Instant> = None;
        let at = self.wait_for("the replica to be promoted").block_some(|| {
            if is_master(&self.nodes[new]) {
                return Some(SystemTime::now());
            }
            if asked.is_none_or(|asked| asked.elapsed() > GIVEN_UP) {
                asked = self.nodes[new].ask::<String>(&["CLUSTER", "FAILOVER"]).ok().map(|_| Instant::now());
            }
            None
        });
        Promotion { number: new, at }
    }

    /// Kills the master of a slot. Returns its number and that of its replica.
    pub fn kill_master(&mut self, slot: u16) -> (usize, usize) {
        let master = self.master(slot);
        let replica = self.replica(master);
        self.nodes[master].kill();
        (master, replica)
    }

    /// Kills a node.
    pub fn kill(&mut self, number: usize) {
        self.nodes[number].kill();
    }

    /// Starts a killed node again. It reads the cluster from its file, and follows its successor.
    pub fn bring_back(&mut self, number: usize) {
        self.nodes[number].restart();
        self.wait_for_agreement();
        self.wait_for_sync();
    }

    /// Moves a slot with its keys to another master, key by key as `--cluster reshard` does, with a
    /// pause after each key. Scripts that need several keys of the slot are refused in the
    /// meantime.
    ///
    /// # Errors
    /// The error of a node.
    pub fn move_slot(&self, slot: u16, to: usize, rest: Duration) -> RedisResult<usize> {
        let from = self.master(slot);
        let (source, target, name) = (&self.nodes[from], &self.nodes[to], slot.to_string());
        let port = target.port().to_string();
        target.ask::<String>(&["CLUSTER", "SETSLOT", &name, "IMPORTING", &self.ids[from]])?;
        source.ask::<String>(&["CLUSTER", "SETSLOT", &name, "MIGRATING", &self.ids[to]])?;
        let mut moved = 0;
        loop {
            let keys: Vec<String> = source.ask(&["CLUSTER", "GETKEYSINSLOT", &name, "1"])?;
            let Some(key) = keys.first() else { break };
            // A large key takes some time, in which neither node serves other requests.
            source.ask_patiently::<String>(&["MIGRATE", "127.0.0.1", &port, key, "0", "60000"], Duration::from_secs(60))?;
            moved += 1;
            std::thread::sleep(rest);
        }
        // The new owner is told first, so that it is ready for redirected clients.
        for node in [target, source].into_iter().chain(&self.nodes) {
            if node.is_up() && is_master(node) {
                node.ask::<String>(&["CLUSTER", "SETSLOT", &name, "NODE", &self.ids[to]])?;
            }
        }
        Ok(moved)
    }

    /// Whether the servers can move a slot as a whole (Valkey 9).
    pub fn moves_slots_whole(&self) -> bool {
        self.anyone().ask::<Vec<String>>(&["CLUSTER", "HELP"]).is_ok_and(|help| help.iter().any(|line| line.starts_with("MIGRATESLOTS")))
    }

    /// Moves a slot as a whole (`CLUSTER MIGRATESLOTS`). It is served all the time, except for a
    /// moment at the end.
    ///
    /// # Errors
    /// The error of a node.
    pub fn move_slot_whole(&self, slot: u16, to: usize) -> RedisResult<()> {
        let (from, name) = (self.master(slot), slot.to_string());
        self.nodes[from].ask::<String>(&["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", &name, &name, "NODE", &self.ids[to]])?;
        self.wait_for("the slot to have moved").block_some(|| (self.master(slot) == to).then_some(()));
        Ok(())
    }

    /// Waits until a node is a master, and returns the time at which that was seen.
    pub fn wait_for_promotion(&self, number: usize) -> Promotion {
        let at = self.wait_for("the replica to be promoted").block_some(|| is_master(&self.nodes[number]).then(SystemTime::now));
        Promotion { number, at }
    }

    /// Waits until all live nodes agree on the owners of all slots.
    pub fn wait_for_agreement(&self) {
        self.wait_for("the nodes to agree").block_some(|| {
            let fit = |node: &&Server| node.ask::<String>(&["CLUSTER", "INFO"]).is_ok_and(|info| info.contains("cluster_state:ok"));
            let up: Vec<&Server> = self.nodes.iter().filter(|node| node.is_up()).collect();
            let first = self.view(up[0]);
            let known = first.len() == self.nodes.len();
            (known && up.iter().all(fit) && up.iter().all(|node| self.view(node) == first)).then_some(())
        });
    }

    /// Waits until all live replicas are in sync with their masters.
    pub fn wait_for_sync(&self) {
        self.wait_for("the replicas to be in sync").block_some(|| {
            let view = self.view(self.anyone());
            let in_sync = |(number, seen): (&usize, &Seen)| {
                let Some(master) = self.ids.iter().position(|id| *id == seen.master) else { return true };
                let (replica, master) = (&self.nodes[*number], &self.nodes[master]);
                !replica.is_up() || (follows(replica, master.port()) && offset(replica) >= offset(master))
            };
            view.iter().all(in_sync).then_some(())
        });
    }

    /// A wait for an event of the cluster, which reports the state of its nodes.
    #[track_caller]
    fn wait_for(&self, what: &str) -> Wait<'_> {
        wait(what).seeing(|| {
            let seen = |node: &Server| {
                let view: BTreeMap<usize, Seen> = if node.is_up() { self.view(node).into_iter().collect() } else { BTreeMap::new() };
                format!("{}; its view: {view:?}\n", node.seen())
            };
            self.nodes.iter().map(seen).collect()
        })
    }

    /// A live node.
    fn anyone(&self) -> &Server {
        self.nodes.iter().find(|node| node.is_up() && node.ask::<String>(&["PING"]).is_ok()).expect("a node is up")
    }

    fn join(&self) -> RedisResult<()> {
        let cluster = |number: usize, words: &[&str]| self.nodes[number].ask::<String>(&[&["CLUSTER"], words].concat());
        let mut buses = Vec::new();
        for (number, node) in self.nodes.iter().enumerate() {
            // Different numbers from the start: two masters with the same number would have to
            // resolve that first.
            cluster(number, &["SET-CONFIG-EPOCH", &(number + 1).to_string()])?;
            buses.push(node.ask::<Vec<String>>(&["CONFIG", "GET", "cluster-port"])?.remove(1));
        }
        self.wait_for("the nodes to meet").block_some(|| {
            let known = self.view(&self.nodes[0]);
            // Repeated, because a node forgets a met node if the handshake takes longer than the
            // node timeout.
            for (number, node) in self.nodes.iter().enumerate().filter(|(number, _)| !known.contains_key(number)) {
                cluster(0, &["MEET", "127.0.0.1", &node.port().to_string(), &buses[number]]).ok()?;
            }
            (known.len() == self.nodes.len()).then_some(())
        });
        for number in 0..3u16 {
            let (first, end) = (SLOTS / 3 * number, if number == 2 { SLOTS } else { SLOTS / 3 * (number + 1) });
            cluster(number.into(), &["ADDSLOTSRANGE", &first.to_string(), &(end - 1).to_string()])?;
        }
        for number in 3..6 {
            self.wait_for("the replica to know its master").block_some(|| cluster(number, &["REPLICATE", &self.ids[number - 3]]).ok());
        }
        Ok(())
    }

    /// The cluster in the view of a node.
    fn view(&self, node: &Server) -> HashMap<usize, Seen> {
        let said: String = node.ask(&["CLUSTER", "NODES"]).unwrap_or_default();
        let lines = said.lines().filter_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let number = self.ids.iter().position(|id| id == words[0])?;
            let slots = words[8..].iter().filter(|word| !word.starts_with('[')).map(|range| {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                (first.parse().expect("a slot"), last.parse().expect("a slot"))
            });
            Some((number, Seen { master: words[3].to_owned(), slots: slots.collect() }))
        });
        lines.collect()
    }
}

/// The state of another node in the view of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    /// The id of its master, or `-`.
    master: String,
    slots: Vec<(u16, u16)>,
}

impl Seen {
    fn serves(&self, slot: u16) -> bool {
        self.slots.iter().any(|(first, last)| (*first..=*last).contains(&slot))
    }
}

/// A cluster for all tests of a process that do not cause failures or moves.
pub fn shared(kind: Kind) -> &'static Cluster {
    static REDIS: OnceLock<Cluster> = OnceLock::new();
    static VALKEY: OnceLock<Cluster> = OnceLock::new();
    let cell = if kind == Kind::Redis { &REDIS } else { &VALKEY };
    cell.get_or_init(|| Cluster::start(kind, Duration::from_secs(60)))
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::on_servers! {
        a_value_outlives_a_move_a_failover_and_a_death
    }

    async fn a_value_outlives_a_move_a_failover_and_a_death(kind: Kind) {
        let mut cluster = Cluster::start(kind, Duration::from_millis(1000));
        let slot = cluster.slot("orders");
        let value = |cluster: &Cluster| cluster.node(cluster.master(slot)).ask::<String>(&["GET", "{orders}value"]).unwrap();
        let first = cluster.master(slot);
        cluster.node(first).ask::<String>(&["SET", "{orders}value", "kept"]).unwrap();
        let other = cluster.masters().into_iter().find(|master| *master != first).unwrap();
        assert_eq!(cluster.move_slot(slot, other, Duration::ZERO).unwrap(), 1);
        cluster.wait_for_agreement();
        assert_eq!((cluster.master(slot), value(&cluster)), (other, "kept".to_owned()));
        assert_eq!(cluster.moves_slots_whole(), kind == Kind::Valkey);
        if cluster.moves_slots_whole() {
            cluster.move_slot_whole(slot, first).unwrap();
            cluster.wait_for_agreement();
            assert_eq!(value(&cluster), "kept");
        }
        cluster.wait_for_sync();
        let promotion = cluster.hand_over(slot);
        cluster.wait_for_agreement();
        assert_eq!((cluster.master(slot), value(&cluster)), (promotion.number, "kept".to_owned()));
        cluster.wait_for_sync();
        let (dead, heir) = cluster.kill_master(slot);
        assert_eq!(dead, promotion.number);
        cluster.wait_for_promotion(heir);
        cluster.bring_back(dead);
        assert_eq!((cluster.master(slot), value(&cluster)), (heir, "kept".to_owned()));
    }
}
