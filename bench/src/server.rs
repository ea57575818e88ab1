//! A server of our own, and what it does without us.

use std::{
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::Error;

/// A redis-server on a free port that keeps nothing on disk; stopped on drop.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl Server {
    pub(crate) fn start(binary: &Path) -> Result<Self, Error> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let folder = TempDir::new()?;
        let child = Command::new(binary)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .arg("--dir")
            .arg(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}; install redis-server, or name one with --server", binary.display()))?;
        let server = Server { child, port, _folder: folder };
        let until = Instant::now() + Duration::from_secs(10);
        while server.connection().is_err() {
            if Instant::now() > until {
                return Err("the server did not answer within 10 s".into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
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

    /// CPU time that it has used, in microseconds.
    pub(crate) fn cpu_us(&self) -> Result<f64, Error> {
        Ok((self.info("cpu", "used_cpu_user")? + self.info("cpu", "used_cpu_sys")?) * 1e6)
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
