//! A run with a dashboard, `--dashboard`: this process serves the dashboard, and two other
//! processes work slowly. One of them may be killed.

use std::{
    io::Read,
    mem,
    path::{Path, PathBuf},
    pin::pin,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use indicatif::ProgressBar;
use queue_core::Client;
use queue_dashboard::{Options, Server, SetupError};
use queue_worker::Worker;
use tokio::{sync::oneshot, task::JoinHandle};

use crate::{
    LEASE,
    error::{Failure, Result},
    places::Places,
    store::Store,
    tasks::Desk,
};

/// The approximate duration of a run with more files than slots.
const LENGTH: Duration = Duration::from_secs(60);

/// The maximum pause of a job.
const LONGEST: Duration = Duration::from_secs(1);

const PROCESSES: usize = 2;
const CONCURRENCY: usize = 4;

/// The number of failures, which give a few seconds in which the job waits for its next attempt.
const HICCUPS: u32 = 3;

/// A running dashboard, and the two workers.
pub(crate) struct Watched {
    folder: PathBuf,
    pause: Duration,
    workers: Vec<Child>,
    /// Ends the dashboard when it is dropped.
    stop: oneshot::Sender<()>,
    serving: JoinHandle<std::result::Result<(), SetupError>>,
}

impl Watched {
    /// Starts the dashboard and the workers, and prints the address.
    pub(crate) async fn begin(client: &Client, folder: &Path, files: usize) -> Result<Self> {
        let mut options = Options::default();
        options.allow_actions = true;
        let server = match Server::bind(client.clone(), options.clone()).await {
            Ok(server) => server,
            // Another program uses the port, so a free one is chosen.
            Err(_) => {
                options.bind.set_port(0);
                Server::bind(client.clone(), options).await?
            }
        };
        eprintln!("watch it at {}", server.url()?);
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(server.run(async { drop(stopped.await) }));
        let slots = u32::try_from(PROCESSES * CONCURRENCY).unwrap_or(u32::MAX);
        let pause = (LENGTH * slots / u32::try_from(files.max(1)).unwrap_or(u32::MAX)).min(LONGEST);
        let mut watched = Watched { folder: folder.to_owned(), pause, workers: Vec::new(), stop, serving };
        for _ in 0..PROCESSES {
            let worker = watched.start()?;
            watched.workers.push(worker);
        }
        let kill = watched.workers[0].id();
        eprintln!("kill a worker with `kill -9 {kill}`: its jobs run again some seconds after its lease of 5 s is over");
        Ok(watched)
    }

    /// Keeps both workers alive.
    pub(crate) async fn until(&mut self, finished: impl Future<Output = ()>) -> Result<()> {
        let mut finished = pin!(finished);
        loop {
            tokio::select! {
                () = &mut finished => return Ok(()),
                () = tokio::time::sleep(Duration::from_millis(200)) => {}
            }
            for at in 0..self.workers.len() {
                if let Some(status) = self.workers[at].try_wait()? {
                    let next = self.start()?;
                    let dead = mem::replace(&mut self.workers[at], next).id();
                    eprintln!("worker {dead} has ended ({status}); worker {} takes its place", self.workers[at].id());
                }
            }
        }
    }

    /// The dashboard stays after the run.
    pub(crate) async fn stay(&mut self) -> Result<()> {
        eprintln!("the run has ended; the dashboard stays until Ctrl-C");
        self.until(async { drop(tokio::signal::ctrl_c().await) }).await
    }

    /// Stops the workers and the dashboard.
    pub(crate) async fn end(mut self) -> Result<()> {
        for worker in &mut self.workers {
            drop(worker.stdin.take());
        }
        for worker in &mut self.workers {
            worker.wait()?;
        }
        drop(self.stop);
        Ok(self.serving.await??)
    }

    fn start(&self) -> Result<Child> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--worker").arg(self.pause.as_millis().to_string()).arg(&self.folder);
        Ok(command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?)
    }
}

/// One of the two workers. It runs until its standard input ends, which happens when the process of
/// the dashboard ends.
pub(crate) async fn in_a_process_of_its_own(client: Client, places: &Places, store: Arc<Store>, pause: Duration) -> Result<bool> {
    let (ended, end) = oneshot::channel::<()>();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        drop(ended);
    });
    let desk = Desk { store, bar: ProgressBar::hidden(), hiccups: HICCUPS, pause };
    let worker = Worker::new(client).queue(places.queue.as_str()).data(desk).concurrency(CONCURRENCY);
    // Done jobs are kept for a while, so that the dashboard shows them.
    let worker = worker.lease(LEASE).grace(Duration::from_secs(3)).retention(Duration::from_secs(3600));
    // Ctrl-C reaches every process of a terminal. This one ends after the other.
    tokio::spawn(tokio::signal::ctrl_c());
    worker.run(async { drop(end.await) }).await.map(|_| true).map_err(|error| Failure(error.to_string()))
}
