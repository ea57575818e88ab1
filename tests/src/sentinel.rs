//! Three sentinels that watch a master and its replica: real processes, which end with the test.

use std::{
    collections::HashMap,
    ops::Range,
    path::Path,
    sync::OnceLock,
    time::{Duration, SystemTime},
};

use redis::{RedisResult, Value};

use queue_conformance::patience::{Wait, wait};

use crate::server::{Kind, Server};

/// The service name of the servers at the sentinels.
pub const SERVICE: &str = "jobs";

/// Sentinels and their servers. One of the servers is the master, and the other one is its replica.
/// They change roles at a failover.
#[derive(Debug)]
pub struct Sentinels {
    kind: Kind,
    servers: Vec<Server>,
    sentinels: Vec<Server>,
}

impl Sentinels {
    /// Starts two servers without persistence, and sentinels that consider a server down after this
    /// time.
    pub fn start(kind: Kind, down_after: Duration) -> Sentinels {
        Sentinels::with(kind, down_after, &["--appendonly", "no"])
    }

    /// Starts servers with further options. They are ready when every sentinel knows the others and
    /// a replica in sync.
    ///
    /// # Panics
    /// If they are not ready in time.
    pub fn with(kind: Kind, down_after: Duration, options: &[&str]) -> Sentinels {
        Sentinels::of(kind, down_after, options, Server::with)
    }

    /// The same with servers whose clocks can be [moved](Server::move_clock).
    ///
    /// # Panics
    /// If they are not ready in time, or there is no C compiler.
    pub fn with_own_clocks(kind: Kind, down_after: Duration) -> Sentinels {
        Sentinels::of(kind, down_after, &["--appendonly", "no"], Server::with_own_clock)
    }

    fn of(kind: Kind, down_after: Duration, options: &[&str], start: fn(Kind, &[&str]) -> Server) -> Sentinels {
        let options = [&["--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"], options].concat();
        let master = start(kind, &options);
        let port = master.port().to_string();
        let replica = start(kind, &[&options[..], &["--replicaof", "127.0.0.1", &port]].concat());
        let config = |folder: &Path| config(folder, &port, down_after);
        let sentinels: Vec<Server> = (0..3).map(|_| Server::launched(kind, config)).collect();
        for sentinel in &sentinels {
            hurry(sentinel).expect("a sentinel can be told how often to look");
        }
        let all = Sentinels { kind, servers: vec![master, replica], sentinels };
        all.wait_for_sync();
        all.wait_for_sentinels();
        for sentinel in &all.sentinels {
            calm(sentinel).expect("a sentinel can be told how often to talk");
        }
        all
    }

    /// The URL for a broker.
    pub fn url(&self) -> String {
        let addresses: Vec<String> = self.sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port())).collect();
        format!("redis+sentinel://{}/{SERVICE}", addresses.join(","))
    }

    /// A server by its number, 0 or 1.
    pub fn server(&self, number: usize) -> &Server {
        &self.servers[number]
    }

    /// A sentinel by its number, 0 to 2.
    pub fn sentinel(&self, number: usize) -> &Server {
        &self.sentinels[number]
    }

    /// The number of the server that most sentinels name as the master.
    pub fn master(&self) -> usize {
        self.wait_for("two sentinels to name the same master").block_some(|| {
            let named = |number: &usize| self.sentinels.iter().filter(|sentinel| self.named_by(sentinel) == Some(*number)).count();
            (0..self.servers.len()).find(|number| named(number) >= 2)
        })
    }

    /// The number of the other server.
    pub fn replica(&self) -> usize {
        1 - self.master()
    }

    /// A failover by a sentinel while the master is healthy. The old master accepts writes until
    /// the sentinels make it a replica, about ten seconds later. Those writes are lost.
    pub fn fail_over(&self) -> Promotion {
        self.promote(self.replica(), &[])
    }

    /// A failover that loses nothing, as a careful operator does it: the master stops writes, its
    /// replica catches up and is promoted, and the old master becomes its replica before it goes
    /// on.
    pub fn hand_over(&self) -> Promotion {
        let (old, new) = (self.master(), self.replica());
        let paused: String = self.servers[old].ask(&["CLIENT", "PAUSE", "60000", "WRITE"]).expect("a master can be paused");
        assert_eq!(paused, "OK");
        self.wait_for_offset(new, old);
        let promotion = self.promote(new, &[]);
        self.follow(old, new);
        self.wait_until_named(new);
        promotion
    }

    /// A sentinel of Valkey 9 performs the steps of [`hand_over`](Self::hand_over).
    pub fn hand_over_coordinated(&self) -> Promotion {
        self.promote(self.replica(), &["COORDINATED"])
    }

    /// Requests a failover from a sentinel, and again if the sentinel aborts it. On a slow machine,
    /// the sentinel may find the replica too old or the promotion too slow. Then it changes
    /// nothing.
    fn promote(&self, new: usize, how: &[&str]) -> Promotion {
        let failover = [&["SENTINEL", "FAILOVER", SERVICE], how].concat();
        let mut promoted = None;
        let at = self.wait_for("the replica to be promoted").block_some(|| {
            promoted = is_master(&self.servers[new]).then(|| promoted.unwrap_or_else(SystemTime::now));
            if !self.is_failing_over(new) {
                self.sentinels.iter().find_map(|sentinel| sentinel.ask::<String>(&failover).ok());
            }
            promoted.filter(|_| self.sentinels.iter().any(|sentinel| self.named_by(sentinel) == Some(new)))
        });
        Promotion { number: new, at }
    }

    /// Whether a sentinel is failing over, or has already named this server as the master.
    fn is_failing_over(&self, new: usize) -> bool {
        self.sentinels.iter().any(|sentinel| {
            let seen: HashMap<String, String> = sentinel.ask(&["SENTINEL", "MASTER", SERVICE]).unwrap_or_default();
            seen.get("flags").is_some_and(|flags| flags.contains("failover_in_progress")) || self.named_by(sentinel) == Some(new)
        })
    }

    /// Kills the master. Returns its number.
    pub fn kill_master(&mut self) -> usize {
        let master = self.master();
        self.servers[master].kill();
        master
    }

    /// Starts a killed server as the replica of the other one, and waits until it is one.
    pub fn bring_back(&mut self, number: usize) {
        let port = self.servers[1 - number].port().to_string();
        self.servers[number].restart_with(&["--replicaof", "127.0.0.1", &port]);
        self.wait_for_sync();
        self.wait_until_named(1 - number);
    }

    /// Makes a server the replica of another one, and closes its client connections.
    pub fn follow(&self, number: usize, master: usize) {
        let port = self.servers[master].port().to_string();
        let server = &self.servers[number];
        let follows: String = server.ask(&["REPLICAOF", "127.0.0.1", &port]).expect("a server can be told to follow");
        assert!(follows.starts_with("OK"), "{follows}");
        for class in ["normal", "pubsub"] {
            server.ask::<i64>(&["CLIENT", "KILL", "TYPE", class, "SKIPME", "yes"]).expect("clients can be cut off");
        }
        server.ask::<String>(&["CLIENT", "UNPAUSE"]).expect("a server can go on");
    }

    /// Suspends these sentinels.
    pub fn pause_sentinels(&self, numbers: Range<usize>) {
        self.sentinels[numbers].iter().for_each(Server::pause);
    }

    /// Resumes these sentinels.
    pub fn resume_sentinels(&self, numbers: Range<usize>) {
        self.sentinels[numbers].iter().for_each(Server::resume);
    }

    /// Waits until the server is a master, and returns the time at which that was seen.
    pub fn wait_for_promotion(&self, number: usize) -> Promotion {
        let at = self.wait_for("the replica to be promoted").block_some(|| is_master(&self.servers[number]).then(SystemTime::now));
        Promotion { number, at }
    }

    /// Waits until most sentinels name this server as the master.
    pub fn wait_until_named(&self, number: usize) {
        self.wait_for("the sentinels to name the new master").block_some(|| (self.master() == number).then_some(()));
    }

    /// Waits until the sentinels know each other and a replica, and could fail over.
    pub fn wait_for_sentinels(&self) {
        let settled = |sentinel: &Server| {
            let known = |what: &str| sentinel.ask::<Vec<Value>>(&["SENTINEL", what, SERVICE]).map_or(0, |known| known.len());
            let fit = sentinel.ask::<String>(&["SENTINEL", "CKQUORUM", SERVICE]).is_ok_and(|said| said.starts_with("OK 3"));
            fit && known("SENTINELS") == 2 && known("REPLICAS") >= 1
        };
        self.wait_for("the sentinels to know each other and the replica").block_some(|| self.sentinels.iter().all(settled).then_some(()));
    }

    /// Waits until one server is the replica of the other, and is in sync.
    pub fn wait_for_sync(&self) {
        let (master, replica) = self.wait_for("a master and a replica").block_some(|| {
            let (first, second) = (is_master(&self.servers[0]), is_master(&self.servers[1]));
            let (master, replica) = if first { (0, 1) } else { (1, 0) };
            (first != second && follows(&self.servers[replica], self.servers[master].port())).then_some((master, replica))
        });
        self.wait_for_offset(replica, master);
    }

    /// Waits until the replica has all present data of the master.
    fn wait_for_offset(&self, replica: usize, master: usize) {
        let wrote = self.wait_for("the master to say how much it has written").block_some(|| offset(&self.servers[master]));
        self.wait_for("the replica to catch up")
            .block_some(|| offset(&self.servers[replica]).is_some_and(|has| has >= wrote).then_some(()));
    }

    /// A wait for an event of the deployment, which reports the servers and the master that the
    /// sentinels name.
    #[track_caller]
    fn wait_for(&self, what: &str) -> Wait<'_> {
        wait(what).seeing(|| {
            let servers = self.servers.iter().map(|server| format!("{}\n", server.seen()));
            let named = self.sentinels.iter().map(|sentinel| format!("sentinel names server {:?}\n", self.named_by(sentinel)));
            servers.chain(named).collect()
        })
    }

    fn named_by(&self, sentinel: &Server) -> Option<usize> {
        let address: (String, u16) = sentinel.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE]).ok()?;
        self.servers.iter().position(|server| server.port() == address.1)
    }

    /// The kind of the servers.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

/// A promoted server.
#[derive(Clone, Copy, Debug)]
pub struct Promotion {
    /// Its number.
    pub number: usize,
    /// The time at which that was seen, a few milliseconds after the promotion.
    pub at: SystemTime,
}

/// Sentinels and servers for all tests of a process that do not cause failovers.
pub fn shared(kind: Kind) -> &'static Sentinels {
    static REDIS: OnceLock<Sentinels> = OnceLock::new();
    static VALKEY: OnceLock<Sentinels> = OnceLock::new();
    let cell = if kind == Kind::Redis { &REDIS } else { &VALKEY };
    cell.get_or_init(|| Sentinels::start(kind, Duration::from_secs(60)))
}

/// Whether it reports that it is a master.
pub(crate) fn is_master(server: &Server) -> bool {
    info(server, "role").is_ok_and(|role| role.as_deref() == Some("master"))
}

/// Whether it is in sync with the master on this port.
pub(crate) fn follows(server: &Server, port: u16) -> bool {
    let is = |field: &str, value: &str| info(server, field).is_ok_and(|found| found.as_deref() == Some(value));
    is("master_port", &port.to_string()) && is("master_link_status", "up")
}

/// The replication offset.
pub(crate) fn offset(server: &Server) -> Option<u64> {
    let field = if is_master(server) { "master_repl_offset" } else { "slave_repl_offset" };
    info(server, field).ok().flatten()?.parse().ok()
}

fn info(server: &Server, field: &str) -> RedisResult<Option<String>> {
    let info: String = server.ask(&["INFO", "replication"])?;
    Ok(info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).map(|value| value.trim().to_owned()))
}

/// A sentinel stores its state in its configuration, which must therefore be a file.
fn config(folder: &Path, master: &str, down_after: Duration) -> Vec<String> {
    let path = folder.join("sentinel.conf");
    let text = format!(
        "sentinel monitor {SERVICE} 127.0.0.1 {master} 2\n\
         sentinel down-after-milliseconds {SERVICE} {}\n\
         sentinel failover-timeout {SERVICE} 4000\n",
        down_after.as_millis()
    );
    std::fs::write(&path, text).expect("a file can be written");
    vec![path.display().to_string(), "--sentinel".to_owned()]
}

/// Sets ten times shorter periods for checks and messages, so that sentinels soon recover after a
/// suspension.
fn hurry(sentinel: &Server) -> RedisResult<String> {
    let periods = ["info-period", "500", "ping-period", "200", "ask-period", "200", "publish-period", "200"];
    let recovery = ["min-link-reconnect-period", "500", "tilt-trigger", "5000", "tilt-period", "1000"];
    sentinel.ask(&[&["SENTINEL", "DEBUG"], &periods[..], &recovery[..]].concat())
}

/// Sets the usual period for sentinels that know each other. A sentinel without news of a promotion
/// for four periods undoes it, and on a busy machine a second is too short.
fn calm(sentinel: &Server) -> RedisResult<String> {
    sentinel.ask(&["SENTINEL", "DEBUG", "publish-period", "2000"])
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::on_servers! {
        a_value_outlives_two_careful_failovers_and_a_death
    }

    /// A suspended replica cannot be promoted: the sentinel aborts after four seconds.
    #[test]
    fn a_failover_that_was_given_up_is_asked_for_again() {
        let all = Sentinels::start(Kind::Redis, Duration::from_secs(60));
        let (old, new) = (all.master(), all.replica());
        all.server(new).pause();
        all.sentinel(0).ask::<String>(&["SENTINEL", "FAILOVER", SERVICE]).unwrap();
        all.wait_for("the sentinel to give up").block_some(|| (!all.is_failing_over(new)).then_some(()));
        all.server(new).resume();
        all.hand_over();
        assert_eq!(all.master(), new);
        assert!(!is_master(all.server(old)));
    }

    async fn a_value_outlives_two_careful_failovers_and_a_death(kind: Kind) {
        let mut all = Sentinels::start(kind, Duration::from_millis(1000));
        let set = |server: &Server, value: &str| server.ask::<String>(&["SET", "value", value]);
        for value in ["first", "second"] {
            let master = all.master();
            set(all.server(master), value).unwrap();
            let promotion = all.hand_over();
            assert_eq!(promotion.number, 1 - master);
            assert_eq!(all.server(promotion.number).ask::<String>(&["GET", "value"]).unwrap(), value);
            assert!(set(all.server(master), "in vain").unwrap_err().to_string().contains("ReadOnly"), "the old master follows");
            all.wait_for_sync();
            all.wait_for_sentinels();
        }
        let dead = all.kill_master();
        let promotion = all.wait_for_promotion(1 - dead);
        assert_eq!(all.server(promotion.number).ask::<String>(&["GET", "value"]).unwrap(), "second");
        all.bring_back(dead);
        assert!(set(all.server(dead), "in vain").is_err());
        assert_eq!(all.master(), promotion.number);
    }
}
