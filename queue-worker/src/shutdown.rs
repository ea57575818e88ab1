//! Stopping in two stages.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use queue_core::__private::{Signal, Signals, exit_after};
use tokio::sync::watch;

/// The stages of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// The worker claims and runs jobs.
    Running,
    /// The worker claims no jobs. Running jobs may end within the grace time.
    Draining,
    /// The grace time has ended or was skipped: running jobs are returned.
    Cancelling,
}

/// Stops workers from any thread. Clones share one state, and one `Shutdown` can stop several
/// workers.
///
/// ```standalone_crate
/// # use queue_core::prelude::*;
/// use queue_worker::{Shutdown, Worker};
///
/// # #[task] async fn greet() {}
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let shutdown = Shutdown::new();
/// let worker =
/// tokio::spawn(Worker::new(Client::connect("sqlite://:memory:").await?).run_with(shutdown.clone()));
///
/// shutdown.drain();       // no new jobs; running ones may end within the grace time
/// shutdown.cancel_handlers();       // now: what still runs is given back
/// worker.await??;
/// # Ok(()) }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Shutdown(Arc<Mutex<Switch>>);

#[derive(Debug)]
struct Switch {
    stage: Stage,
    /// The workers that this switch stops.
    workers: Vec<watch::Sender<Stage>>,
}

impl Shutdown {
    /// A switch that was not used yet.
    pub fn new() -> Self {
        Shutdown(Arc::new(Mutex::new(Switch { stage: Stage::Running, workers: Vec::new() })))
    }

    /// The first stage: no job is started, and running jobs may end within the grace time.
    pub fn drain(&self) {
        self.lock().advance(Stage::Draining);
    }

    /// The second stage: handlers are cancelled, and jobs that do not end soon are returned
    /// uncharged.
    pub fn cancel_handlers(&self) {
        self.lock().advance(Stage::Cancelling);
    }

    /// Stops `worker` as well. If the switch was used before, this takes effect at once.
    pub(crate) fn attach(&self, worker: watch::Sender<Stage>) {
        let mut switch = self.lock();
        switch.workers.push(worker);
        let stage = switch.stage;
        switch.advance(stage);
    }

    fn lock(&self) -> MutexGuard<'_, Switch> {
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

/// The result of a worker when it has stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stopped {
    /// Handlers that ended while the worker ran, with any outcome.
    pub finished: u64,
    /// Jobs that were returned because they had not ended within the grace time.
    pub returned: u64,
    /// Jobs whose handlers could not be stopped. They run again when their lease expires.
    pub stuck: u64,
    /// Results that the broker did not confirm in time. Their jobs run again when their lease
    /// expires, unless the result had arrived.
    pub unconfirmed: u64,
}

impl Stopped {
    /// True if every job has ended without being stopped, and the broker has confirmed its ending.
    pub fn is_clean(&self) -> bool {
        self.returned + self.stuck + self.unconfirmed == 0
    }
}

/// The switch of one worker. Dropping it requests the second stage.
#[derive(Debug)]
pub(crate) struct Control(watch::Sender<Stage>);

impl Control {
    pub(crate) fn new() -> (Self, watch::Receiver<Stage>) {
        let (sender, receiver) = watch::channel(Stage::Running);
        (Control(sender), receiver)
    }

    /// Another handle of the same worker, which does not stop it when dropped.
    pub(crate) fn sender(&self) -> watch::Sender<Stage> {
        self.0.clone()
    }

    pub(crate) fn drain(&self) {
        advance(&self.0, Stage::Draining);
    }

    pub(crate) fn cancel_handlers(&self) {
        advance(&self.0, Stage::Cancelling);
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.cancel_handlers();
    }
}

/// A stop cannot be undone.
fn advance(stage: &watch::Sender<Stage>, to: Stage) {
    stage.send_if_modified(|stage| {
        let later = to > *stage;
        *stage = to.max(*stage);
        later
    });
}

/// A stopping process exits within this time after its grace time, or after the second signal.
const EXIT: Duration = Duration::from_secs(3);

/// Stops a worker at the first signal, and requests the second stage at the second signal. With an
/// exit code, the process ends in time even if the thread of the broker is blocked.
pub(crate) async fn stop_at_signal(mut signals: Signals, shutdown: Shutdown, grace: Duration, exit: Option<i32>) {
    let Signal { name, .. } = signals.next().await;
    shutdown.drain();
    let _late = exit.map(|code| exit_after(grace + EXIT, code));
    tracing::info!("{name}: no new jobs; running jobs may finish within the grace time (repeat the signal to skip the wait)");
    let Signal { name, .. } = signals.next().await;
    shutdown.cancel_handlers();
    let _later = exit.map(|code| exit_after(EXIT, code));
    tracing::warn!("{name} again: returning the running jobs");
    std::future::pending::<()>().await;
}
