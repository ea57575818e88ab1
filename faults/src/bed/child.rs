//! The processes of a run, which end with it.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use queue_conformance::patience::wait;
use queue_core::broker::DynBroker;
use queue_tests::{preload, proxy::Harm};

use super::{Problem, broker::Line};
use crate::{
    events::Subscriber,
    history::CLOCK,
    process::{OperatorOrders, Orders, ProducerOrders, WorkerOrders},
};

/// A worker process.
#[derive(Debug)]
pub struct Worker {
    pub(super) line: Line,
    name: String,
    subscribers: Vec<Subscriber>,
    history: PathBuf,
    /// The length of its history at the last mark.
    marked: u64,
    child: Child,
    over: bool,
}

/// The environment of a process: a preloaded library replaces system calls, and limits apply.
#[derive(Debug, Default)]
pub(super) struct Around {
    /// The error of its wall clock.
    pub(super) moved_ms: i64,
    /// Its process id, if it is not the real one.
    pub(super) pid: Option<u32>,
    /// The maximum address space in megabytes.
    pub(super) memory_mb: Option<u64>,
    /// The file in which it records its file operations.
    pub(super) disk: Option<PathBuf>,
}

impl Around {
    /// Starts a program in this environment. The library is compiled into this folder.
    fn command(&self, program: &Path, folder: &Path) -> Result<Command, Problem> {
        let mut command = match self.memory_mb {
            Some(megabytes) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &format!("ulimit -v {}; exec \"$0\" \"$@\"", megabytes * 1024)]).arg(program);
                shell
            }
            None => Command::new(program),
        };
        if self.moved_ms != 0 || self.pid.is_some() {
            command
                .env(preload::VARIABLE, preload::library(folder, "believed", include_str!("believed.c"))?)
                .env(CLOCK, self.moved_ms.to_string());
        }
        if let Some(disk) = &self.disk {
            command.env(preload::VARIABLE, preload::library(folder, "recorded", include_str!("recorded.c"))?).env(DISK, disk);
        }
        command.envs(self.pid.map(|pid| (PID, pid.to_string())));
        Ok(command)
    }
}

/// The variable with its process id.
const PID: &str = "FAULTS_PID";

/// The variable with the file in which it records its file operations.
const DISK: &str = "FAULTS_DISK";

/// The text of a renewal in a history.
const RENEW: &[u8] = b"\"renew\"";

/// A producer process.
#[derive(Debug)]
pub(super) struct Producer {
    pub(super) line: Line,
    child: Child,
}

/// A process that executes the steps of an operation.
#[derive(Debug)]
pub struct Operator {
    line: Line,
    child: Child,
}

fn spawn(program: &Path, orders: &Orders, folder: &Path, around: &Around) -> Result<Child, Problem> {
    let orders = serde_json::to_string(orders)?;
    Ok(around.command(program, folder)?.args(["process", &orders]).stdin(Stdio::null()).env_remove("RUST_LOG").spawn()?)
}

impl Worker {
    pub(super) fn start(program: &Path, orders: WorkerOrders, line: Line, around: &Around) -> Result<Worker, Problem> {
        let (name, history, subscribers) = (orders.common.name.clone(), orders.common.history.clone(), orders.subscribers.clone());
        let folder = history.parent().ok_or("a history lies in a folder")?;
        let child = spawn(program, &Orders::Work(orders), folder, around)?;
        Ok(Worker { child, line, name, subscribers, history, marked: 0, over: false })
    }

    /// Its name in the history.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The subscriptions that it serves.
    pub fn subscribers(&self) -> &[Subscriber] {
        &self.subscribers
    }

    /// Whether its end was not seen yet.
    pub fn is_alive(&self) -> bool {
        !self.over
    }

    /// True once after it has ended.
    pub(super) fn has_just_ended(&mut self) -> bool {
        let ended = !self.over && !matches!(self.child.try_wait(), Ok(None));
        self.over |= ended;
        ended
    }

    /// Whether it has renewed a lease since the mark: every turn and every heartbeat does that.
    pub fn has_spoken(&self) -> bool {
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

    /// Sends a signal, if it is alive.
    pub fn signal(&self, signal: &str) {
        if !self.over {
            let _ = Command::new("kill").args([signal, &self.child.id().to_string()]).stderr(Stdio::null()).status();
        }
    }

    /// Sends SIGTERM and returns the exit code.
    ///
    /// # Errors
    /// If it does not end in time.
    pub(super) async fn terminate(&mut self, broker: &DynBroker) -> Result<Option<i32>, Problem> {
        if self.over {
            return Ok(None);
        }
        self.signal("-TERM");
        let wait = wait(format!("worker {} to stop", self.name)).on(broker);
        let status = wait.try_some(async || self.child.try_wait().transpose()).await??;
        self.over = true;
        Ok(status.code())
    }

    /// The number of its open files; zero if that is unknown.
    pub(super) fn descriptors(&self) -> u64 {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).map_or(0, |files| files.count() as u64)
    }
}

impl Producer {
    pub(super) fn start(program: &Path, orders: ProducerOrders, line: Line, around: &Around) -> Result<Producer, Problem> {
        let folder = orders.common.history.clone();
        let folder = folder.parent().ok_or("a history lies in a folder")?;
        Ok(Producer { child: spawn(program, &Orders::Produce(orders), folder, around)?, line })
    }

    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

impl Operator {
    pub(super) fn start(program: &Path, orders: OperatorOrders, line: Line) -> Result<Operator, Problem> {
        let folder = orders.common.history.clone();
        let folder = folder.parent().ok_or("a history lies in a folder")?;
        Ok(Operator { child: spawn(program, &Orders::Operate(orders), folder, &Around::default())?, line })
    }

    /// From now on, its requests arrive late, if it has a proxy.
    pub fn slow(&self) {
        self.line.set(Harm::Slow);
    }

    /// Kills it (`kill -9`).
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.kill();
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
