//! A server of our own, and what it does without us.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use queue_tests::{patience::wait, preload, server::Port};
use tempfile::TempDir;

use crate::{Error, frame::Reading, stats::percentile};

/// A redis-server on a free port that keeps nothing on disk; stopped on drop.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    port: Port,
    by_cpu: bool,
    folder: TempDir,
}

impl Server {
    pub(crate) fn start(binary: &Path) -> Result<Self, Error> {
        Server::launch(binary, false)
    }

    /// One that measures its commands by the CPU time that they take.
    pub(crate) fn by_cpu(binary: &Path) -> Result<Self, Error> {
        Server::launch(binary, true)
    }

    fn launch(binary: &Path, by_cpu: bool) -> Result<Self, Error> {
        let folder = TempDir::new()?;
        let mut command = Command::new(binary);
        if by_cpu {
            command.env(preload::VARIABLE, preload::cpu_clock(folder.path())?);
        }
        let mut server = Server::run(command, folder)?;
        server.by_cpu = by_cpu;
        Ok(server)
    }

    /// Runs in this folder, with what is saved there.
    pub(crate) fn run(mut command: Command, folder: TempDir) -> Result<Self, Error> {
        let port = Port::reserve();
        let child = command
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .arg("--dir")
            .arg(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start {command:?}: {error}; install redis-server, or name one with --server"))?;
        let server = Server { child, port, by_cpu: false, folder };
        // In Valgrind, with a million jobs, it takes most of a minute.
        let started = wait("the server to start").times(5).every(Duration::from_millis(20));
        started.try_block_some(|| server.info("persistence", "loading").is_ok_and(|loading| loading == 0.0).then_some(()))?;
        Ok(server)
    }

    /// The folder in which it keeps what it saves.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port.number()
    }

    pub(crate) fn connection(&self) -> Result<redis::Connection, Error> {
        Ok(redis::Client::open(self.url())?.get_connection()?)
    }

    /// A number from `INFO`.
    pub(crate) fn info(&self, section: &str, field: &str) -> Result<f64, Error> {
        let text: String = redis::cmd("INFO").arg(section).query(&mut self.connection()?)?;
        let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        Ok(line.ok_or_else(|| format!("INFO {section} has no {field}"))?.trim().parse()?)
    }

    /// Milliseconds that an `LPUSH` takes a client which does nothing but that, and rests between
    /// two of them: the median.
    pub(crate) fn idle_round_trip(&self, rest: Duration) -> Result<f64, Error> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port()))?;
        stream.set_nodelay(true)?;
        let request = format!("*3\r\n$5\r\nLPUSH\r\n$4\r\nidle\r\n$100\r\n{}\r\n", "x".repeat(100));
        let mut millis = Vec::new();
        for _ in 0..500 {
            std::thread::sleep(rest);
            let sent = Instant::now();
            stream.write_all(request.as_bytes())?;
            let mut reply = [0; 64];
            let size = stream.read(&mut reply)?;
            millis.push(sent.elapsed().as_secs_f64() * 1e3);
            if !reply[..size].starts_with(b":") {
                return Err(format!("LPUSH was answered by {}", String::from_utf8_lossy(&reply[..size])).into());
            }
        }
        Ok(percentile(&mut millis, 50.0))
    }

    /// CPU time that it has used, in microseconds.
    pub(crate) fn cpu_us(&self) -> Result<f64, Error> {
        Ok((self.info("cpu", "used_cpu_user")? + self.info("cpu", "used_cpu_sys")?) * 1e6)
    }

    /// How often each command was called, from scripts too.
    pub(crate) fn calls(&self) -> Result<BTreeMap<String, u64>, Error> {
        let text: String = redis::cmd("INFO").arg("commandstats").query(&mut self.connection()?)?;
        let stats = text.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(":calls="));
        stats.map(|(name, rest)| Ok((name.to_owned(), rest.split(',').next().unwrap_or(rest).parse()?))).collect()
    }

    /// Requests for scripts since the last look, and how long they took together, in microseconds.
    pub(crate) fn scripts(&self) -> Result<(f64, f64), Error> {
        let mut connection = self.connection()?;
        let text: String = redis::cmd("INFO").arg("commandstats").query(&mut connection)?;
        redis::cmd("CONFIG").arg("RESETSTAT").query::<()>(&mut connection)?;
        let (mut calls, mut us) = (0.0, 0.0);
        for line in text.lines().filter(|line| line.starts_with("cmdstat_eval")) {
            let number = |field: &str| line.split([':', ',']).find_map(|part| part.strip_prefix(field)?.strip_prefix('='));
            let both = number("calls").zip(number("usec")).ok_or_else(|| format!("{line} has no calls, or no usec"))?;
            (calls, us) = (calls + both.0.parse::<f64>()?, us + both.1.parse::<f64>()?);
        }
        Ok((calls, us))
    }

    /// Begins to look for requests that take long.
    pub(crate) fn watch_slow(&self) -> Result<(), Error> {
        let mut connection = self.connection()?;
        redis::cmd("CONFIG").arg(&["SET", "slowlog-log-slower-than", "200", "slowlog-max-len", "100000"]).query::<()>(&mut connection)?;
        Ok(redis::cmd("SLOWLOG").arg("RESET").query(&mut connection)?)
    }

    /// The longest script since then: its CPU time, which is held against 5 ms; or its time on the
    /// wall, which lasts as long as others use the processor in the middle of it, where the server
    /// can be measured by no other clock. 0 if none took 0.2 ms.
    pub(crate) fn longest_script(&self) -> Result<Reading, Error> {
        let info: String = redis::cmd("INFO").arg("server").query(&mut self.connection()?)?;
        let ms = self.slowest_us()? / 1e3;
        if self.by_cpu && preload::asks_for_the_time(&info) {
            return Ok(Reading::new("_script", ms, "ms"));
        }
        Ok(Reading::new("_script_on_the_wall", ms, "ms"))
    }

    fn slowest_us(&self) -> Result<f64, Error> {
        type Entry = (i64, i64, f64, Vec<redis::Value>, String, String);
        let entries: Vec<Entry> = redis::cmd("SLOWLOG").arg(&["GET", "-1"]).query(&mut self.connection()?)?;
        let is_script = |words: &[redis::Value]| {
            let name: String = words.first().and_then(|word| redis::from_redis_value_ref(word).ok()).unwrap_or_default();
            name.to_ascii_uppercase().starts_with("EVAL")
        };
        Ok(entries.iter().filter(|entry| is_script(&entry.3)).map(|entry| entry.2).fold(0.0, f64::max))
    }

    /// Has the hashes of jobs moved to the tables that they are growing into: one bucket of the old
    /// one with each command on them. A table grows when it has as many fields as buckets, and
    /// those are a power of two.
    pub(crate) fn end_growth(&self) -> Result<(), Error> {
        const STEPS: u64 = 50_000;
        let mut connection = self.connection()?;
        let hashes: Vec<String> = redis::cmd("KEYS").arg("queue:{*}:jobs").query(&mut connection)?;
        for hash in hashes {
            let fields: u64 = redis::cmd("HLEN").arg(&hash).query(&mut connection)?;
            let looks = format!("for _ = 1, {STEPS} do redis.call('HEXISTS', KEYS[1], '') end");
            for _ in 0..fields.next_power_of_two().div_ceil(STEPS) {
                redis::cmd("EVAL").arg(&looks).arg(1).arg(&hash).query::<()>(&mut connection)?;
            }
        }
        Ok(())
    }

    /// Appends each write to a file from now on, and syncs it as this word of `appendfsync` says.
    pub(crate) fn append(&self, fsync: &str) -> Result<(), Error> {
        redis::cmd("CONFIG").arg(&["SET", "appendfsync", fsync, "appendonly", "yes"]).query::<()>(&mut self.connection()?)?;
        let begun = wait("the server to append").every(Duration::from_millis(20));
        let is_begun = || (self.info("persistence", "aof_rewrite_in_progress").ok()? == 0.0).then_some(());
        Ok(begun.try_block_some(is_begun)?)
    }

    pub(crate) fn flush(&self) -> Result<(), Error> {
        Ok(redis::cmd("FLUSHALL").query(&mut self.connection()?)?)
    }

    /// `LPUSH` per second with `clients` clients and no pipeline, by redis-benchmark.
    pub(crate) fn raw(&self, clients: usize) -> Result<f64, Error> {
        let requests = if clients == 1 { 20_000 } else { 100_000 };
        let output = Command::new("redis-benchmark")
            .args(["-p", &self.port.to_string(), "-t", "lpush", "-n", &requests.to_string(), "-c", &clients.to_string(), "--csv"])
            .output()
            .map_err(|error| format!("cannot run redis-benchmark: {error}; install redis-tools"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let line = text.lines().find(|line| line.contains("LPUSH")).ok_or("redis-benchmark printed no LPUSH line")?;
        let rate = line.split(',').nth(1).ok_or("redis-benchmark printed no rate")?.trim_matches('"').parse()?;
        redis::cmd("DEL").arg("mylist").query::<()>(&mut self.connection()?)?;
        Ok(rate)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
