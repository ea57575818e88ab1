//! The processes of a run, which do not outlive it.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use super::{Problem, broker::Line};
use crate::process::{Orders, ProducerOrders, WorkerOrders};

/// A worker process.
#[derive(Debug)]
pub struct Worker {
    pub(super) line: Line,
    name: String,
    history: PathBuf,
    /// How long its history was when it was looked at.
    marked: u64,
    child: Child,
    over: bool,
}

/// What a renewal looks like in a history.
const RENEW: &[u8] = b"\"renew\"";

/// A producer process.
#[derive(Debug)]
pub(super) struct Producer {
    pub(super) line: Line,
    child: Child,
}

fn spawn(program: &Path, orders: &Orders) -> Result<Child, Problem> {
    let orders = serde_json::to_string(orders)?;
    let mut command = Command::new(program);
    command.args(["process", &orders]).stdin(Stdio::null()).env_remove("RUST_LOG");
    Ok(command.spawn()?)
}

impl Worker {
    pub(super) fn start(program: &Path, orders: WorkerOrders, line: Line) -> Result<Worker, Problem> {
        let (name, history) = (orders.common.name.clone(), orders.common.history.clone());
        Ok(Worker { child: spawn(program, &Orders::Work(orders))?, line, name, history, marked: 0, over: false })
    }

    /// Its name in the history.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether nobody has seen its end.
    pub fn is_alive(&self) -> bool {
        !self.over
    }

    /// True once, when it has ended.
    pub(super) fn has_just_ended(&mut self) -> bool {
        let ended = !self.over && !matches!(self.child.try_wait(), Ok(None));
        self.over |= ended;
        ended
    }

    /// Whether it has renewed a lease since it was marked: every turn and every beat does that.
    pub(super) fn has_spoken(&self) -> bool {
        let history = std::fs::read(&self.history).unwrap_or_default();
        let new = history.get(usize::try_from(self.marked).unwrap_or(usize::MAX)..).unwrap_or_default();
        new.windows(RENEW.len()).any(|window| window == RENEW)
    }

    pub(super) fn mark(&mut self) {
        self.marked = std::fs::metadata(&self.history).map_or(0, |history| history.len());
    }

    pub(super) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.over = true;
    }

    /// Sends a signal, if it lives.
    pub fn signal(&self, signal: &str) {
        if !self.over {
            let _ = Command::new("kill").args([signal, &self.child.id().to_string()]).stderr(Stdio::null()).status();
        }
    }

    /// SIGTERM; its exit code.
    ///
    /// # Errors
    /// When it does not end in time.
    pub async fn terminate(&mut self, time: Duration) -> Result<Option<i32>, Problem> {
        if self.over {
            return Ok(None);
        }
        self.signal("-TERM");
        let end = Instant::now() + time;
        loop {
            if let Some(status) = self.child.try_wait()? {
                self.over = true;
                return Ok(status.code());
            }
            if Instant::now() > end {
                return Err(format!("worker {} did not stop within {time:?}", self.name).into());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// How many files it has open; none where that cannot be seen.
    pub(super) fn descriptors(&self) -> u64 {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).map_or(0, |files| files.count() as u64)
    }
}

impl Producer {
    pub(super) fn start(program: &Path, orders: ProducerOrders, line: Line) -> Result<Producer, Problem> {
        Ok(Producer { child: spawn(program, &Orders::Produce(orders))?, line })
    }

    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
