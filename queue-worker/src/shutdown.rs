//! Stopping in two stages.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

/// The stages of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// It claims and runs.
    Running,
    /// It claims nothing; what runs may end within the grace time.
    Draining,
    /// The grace time is over, or nobody waits for it: what runs is given back.
    Hurrying,
}

/// Tells workers to stop, from anywhere: clones are the same switch, and one may stop several workers.
///
/// ```standalone_crate
/// # use queue_core::prelude::*;
/// use queue_worker::{Shutdown, Worker};
///
/// # #[task] async fn greet() {}
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let shutdown = Shutdown::new();
/// let worker = tokio::spawn(Worker::new(Client::connect("sqlite://:memory:").await?).run_with(shutdown.clone()));
///
/// shutdown.drain();       // no new jobs; running ones may end within the grace time
/// shutdown.hurry();       // now: what still runs is given back
/// worker.await??;
/// # Ok(()) }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Shutdown(Arc<Mutex<Switch>>);

#[derive(Debug)]
struct Switch {
    stage: Stage,
    /// The workers that run with it.
    workers: Vec<watch::Sender<Stage>>,
}

impl Shutdown {
    /// A switch that was not used yet.
    pub fn new() -> Self {
        Shutdown(Arc::new(Mutex::new(Switch { stage: Stage::Running, workers: Vec::new() })))
    }

    /// The first stage: no job is started, and running jobs may end within the grace time.
    pub fn drain(&self) {
        self.switch().advance(Stage::Draining);
    }

    /// The second stage: handlers are told to stop, and jobs that do not end soon are released uncharged.
    pub fn hurry(&self) {
        self.switch().advance(Stage::Hurrying);
    }

    /// Stops `worker` as well, at once if the switch was used before.
    pub(crate) fn attach(&self, worker: watch::Sender<Stage>) {
        let mut switch = self.switch();
        switch.workers.push(worker);
        let stage = switch.stage;
        switch.advance(stage);
    }

    fn switch(&self) -> MutexGuard<'_, Switch> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Switch {
    fn advance(&mut self, to: Stage) {
        self.stage = self.stage.max(to);
        self.workers.retain(|worker| !worker.is_closed());
        self.workers.iter().for_each(|worker| advance(worker, to));
    }
}

impl Default for Shutdown {
    fn default() -> Self {
        Shutdown::new()
    }
}

/// The same for one worker. Dropping it is the second stage.
#[derive(Debug)]
pub(crate) struct Control(watch::Sender<Stage>);

impl Control {
    pub(crate) fn new() -> (Self, watch::Receiver<Stage>) {
        let (sender, receiver) = watch::channel(Stage::Running);
        (Control(sender), receiver)
    }

    /// What tells the same worker, and does not stop it when dropped.
    pub(crate) fn sender(&self) -> watch::Sender<Stage> {
        self.0.clone()
    }

    pub(crate) fn drain(&self) {
        advance(&self.0, Stage::Draining);
    }

    pub(crate) fn hurry(&self) {
        advance(&self.0, Stage::Hurrying);
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.hurry();
    }
}

/// There is no way back.
fn advance(stage: &watch::Sender<Stage>, to: Stage) {
    stage.send_if_modified(|stage| {
        let later = to > *stage;
        *stage = to.max(*stage);
        later
    });
}

/// SIGTERM and SIGINT, as often as they come.
#[cfg(unix)]
pub(crate) struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
pub(crate) fn signals() -> io::Result<Signals> {
    use tokio::signal::unix::{SignalKind, signal};
    Ok(Signals { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
}

#[cfg(unix)]
impl Signals {
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

#[cfg(not(unix))]
pub(crate) struct Signals;

#[cfg(not(unix))]
pub(crate) fn signals() -> io::Result<Signals> {
    Ok(Signals)
}

#[cfg(not(unix))]
impl Signals {
    pub(crate) async fn next(&mut self) -> &'static str {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        "Ctrl-C"
    }
}
