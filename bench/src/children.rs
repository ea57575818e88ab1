//! Processes that a figure starts: this program again, in another role.

use std::{
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use queue_core::Client;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

#[cfg(feature = "observed")]
use crate::figures::observed;
use crate::{
    Error, contest,
    tasks::{Counter, now_us},
    worker::Running,
};

/// A process that runs a worker, and waits for the start command.
#[derive(Debug)]
pub(crate) struct WorkerProcess {
    child: Child,
    orders: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl WorkerProcess {
    /// Starts it on these queues, or on those of all tasks if there are none. When this returns, it
    /// is connected and claims nothing.
    pub(crate) async fn ready(url: &str, concurrency: usize, queues: &str) -> Result<Self, Error> {
        WorkerProcess::start(&["worker", url, &concurrency.to_string(), queues]).await
    }

    /// Starts a process with this role and its arguments.
    pub(crate) async fn start(part: &[&str]) -> Result<Self, Error> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("--child")
            .args(part)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let orders = child.stdin.take().ok_or("the child has no input")?;
        let lines = BufReader::new(child.stdout.take().ok_or("the child has no output")?).lines();
        let mut process = WorkerProcess { child, orders, lines };
        match process.line().await?.as_str() {
            "ready" => Ok(process),
            other => Err(format!("the child said {other:?} instead of ready").into()),
        }
    }

    pub(crate) async fn go(&mut self) -> Result<(), Error> {
        Ok(self.orders.write_all(b"go\n").await?)
    }

    /// Its next line. For `noop` jobs, the line has the number of jobs that were run, and the time
    /// in microseconds since 1970. For an `age` job it has the age of the job.
    pub(crate) async fn line(&mut self) -> Result<String, Error> {
        let line = tokio::time::timeout(Duration::from_secs(120), self.lines.next_line()).await;
        Ok(line.map_err(|_| "a worker process said nothing for 120 s")??.ok_or("a worker process ended")?)
    }

    /// The peak memory of the process.
    pub(crate) fn peak_kib(&self) -> Result<f64, Error> {
        let id = self.child.id().ok_or("the child has ended")?;
        let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("/proc tells no VmHWM")?;
        Ok(line.trim().trim_end_matches(" kB").parse()?)
    }

    /// Kills it, as SIGKILL does.
    pub(crate) async fn kill(&mut self) -> Result<(), Error> {
        Ok(self.child.kill().await?)
    }
}

/// The next line of any of these processes.
pub(crate) async fn any_line(processes: &mut [WorkerProcess]) -> Result<String, Error> {
    let lines = processes.iter_mut().map(|process| Box::pin(process.line()));
    futures_util::future::select_all(lines).await.0
}

/// Lets waiting processes drain `n` jobs. Returns jobs per second.
pub(crate) async fn drain(processes: &mut [WorkerProcess], n: usize) -> Result<f64, Error> {
    let begun = now_us();
    for process in processes.iter_mut() {
        process.go().await?;
    }
    let mut progress: Vec<(usize, u64)> = vec![(0, begun); processes.len()];
    let deadline = Instant::now() + Duration::from_secs(300);
    while progress.iter().map(|(seen, _)| seen).sum::<usize>() < n {
        if Instant::now() > deadline {
            return Err(format!("only {progress:?} of {n} jobs ran within 300 s").into());
        }
        let lines = processes.iter_mut().map(|process| Box::pin(process.lines.next_line()));
        let (line, which, _) = futures_util::future::select_all(lines).await;
        let line = line?.ok_or("a worker process ended")?;
        let (seen, at) = line.split_once(' ').ok_or("a worker process said something else than numbers")?;
        progress[which] = (seen.parse()?, at.parse()?);
    }
    let ended = progress.iter().map(|(_, at)| *at).max().unwrap_or(begun);
    Ok(n as f64 / ((ended - begun) as f64 / 1e6))
}

/// Runs a role, in the process that was started for it.
pub(crate) async fn play(part: &str, arguments: &[String]) -> Result<(), Error> {
    match (part, arguments) {
        ("worker", [url, concurrency, queues]) => {
            let queues: Vec<String> = queues.split(',').filter(|queue| !queue.is_empty()).map(str::to_owned).collect();
            worker(url, |client| Ok(Running::serving(client, concurrency.parse()?, &queues))).await
        }
        #[cfg(feature = "observed")]
        (observed::PART, [url, concurrency, how]) => {
            worker(url, |client| {
                let concurrency = concurrency.parse()?;
                match how.as_str() {
                    "neither" => {}
                    "metrics" => return Ok(Running::with(client, concurrency, |worker| worker.health(([127, 0, 0, 1], 0).into()))),
                    endpoint => observed::export(endpoint)?,
                }
                Ok(Running::start(client, concurrency))
            })
            .await
        }
        (contest::PART, _) => contest::play(arguments).await,
        _ => Err(format!("there is no part {part} with {} arguments", arguments.len()).into()),
    }
}

async fn worker(url: &str, run: impl FnOnce(&Client) -> Result<Running, Error>) -> Result<(), Error> {
    let client = Client::connect(url).await?;
    println!("ready");
    let mut order = String::new();
    BufReader::new(tokio::io::stdin()).read_line(&mut order).await?;
    if order != "go\n" {
        return Ok(());
    }
    let running = run(&client)?;
    tokio::spawn(tell(running.counter.clone()));
    running.forever().await;
    Ok(())
}

/// Prints the count when it has changed, with the time.
async fn tell(counter: Arc<Counter>) {
    let mut told = 0;
    loop {
        let seen = counter.seen();
        if seen != told {
            println!("{seen} {}", now_us());
            told = seen;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
