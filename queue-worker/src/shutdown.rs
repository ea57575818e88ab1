//! Stopping in two stages, and the end of the process.

#[cfg(unix)]
use std::task::{Context, Poll};
use std::{
    io, mem, process,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread,
    time::Duration,
};

use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The stages of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// It claims and runs.
    Running,
    /// It claims nothing; what runs may end within the grace time.
    Draining,
    /// The grace time has ended or was skipped: running jobs are released.
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

    /// The second stage: handlers are cancelled, and jobs that do not end soon are released
    /// uncharged.
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

    /// Another handle of the same worker, which does not stop it when dropped.
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

/// A process that is asked to exit and does not is aborted after this time.
const ABORT: Duration = Duration::from_secs(1);

/// Exits the process with this code after this time, even if other threads hang, unless the
/// returned guard is dropped before.
pub(crate) fn exit_after(time: Duration, code: i32) -> mpsc::Sender<()> {
    let (armed, disarmed) = mpsc::channel();
    let ends = move || {
        if disarmed.recv_timeout(time) == Err(mpsc::RecvTimeoutError::Timeout) {
            // `exit` runs what C libraries have registered for it, and flushes standard output, which may block.
            let _ = thread::Builder::new().spawn(|| {
                thread::sleep(ABORT);
                process::abort();
            });
            process::exit(code);
        }
    };
    if let Err(error) = thread::Builder::new().name("queue-exit".to_owned()).spawn(ends) {
        tracing::error!(%error, "cannot start the thread that ends this process after the grace time; it ends when its handlers have ended");
    }
    armed
}

/// The same without a way back.
pub(crate) fn exit_soon(time: Duration, code: i32) {
    mem::forget(exit_after(time, code));
}

/// Stops a worker at the first signal, and hurries at the second. With an exit code, the process ends in time even if the thread of the broker is blocked.
pub(crate) async fn stop_at(mut signals: Signals, shutdown: Shutdown, grace: Duration, exit: Option<i32>) {
    let Signal { name, .. } = signals.next().await;
    shutdown.drain();
    let _late = exit.map(|code| exit_after(grace + EXIT, code));
    tracing::info!("{name}: no new jobs; running jobs may finish within the grace time (repeat the signal to skip the wait)");
    let Signal { name, .. } = signals.next().await;
    shutdown.hurry();
    let _later = exit.map(|code| exit_after(EXIT, code));
    tracing::warn!("{name} again: releasing the running jobs");
    std::future::pending::<()>().await;
}

/// Listens for the signals that end a process, until what it returns is dropped. It has a thread of its own: a handler that blocks its
/// runtime delays no signal.
pub(crate) fn listen<F: Future<Output = ()>>(serve: impl FnOnce(Signals) -> F + Send + 'static) -> io::Result<DropGuard> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let signals = {
        let _inside = runtime.enter();
        Signals::new()?
    };
    let over = CancellationToken::new();
    let ends = over.clone();
    thread::Builder::new().name("queue-signals".to_owned()).spawn(move || {
        runtime.block_on(ends.run_until_cancelled(serve(signals)));
    })?;
    Ok(over.drop_guard())
}

/// A signal that ends a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signal {
    pub(crate) name: &'static str,
    #[cfg_attr(not(feature = "cli"), expect(dead_code, reason = "commands exit with it"))]
    pub(crate) number: i32,
}

/// SIGTERM, SIGINT, SIGHUP and SIGQUIT, as often as they come.
#[cfg(unix)]
pub(crate) struct Signals(Vec<(Signal, tokio::signal::unix::Signal)>);

#[cfg(unix)]
impl Signals {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let kinds = [
            ("SIGTERM", SignalKind::terminate()),
            ("SIGINT", SignalKind::interrupt()),
            ("SIGHUP", SignalKind::hangup()),
            ("SIGQUIT", SignalKind::quit()),
        ];
        let kinds = kinds.into_iter().filter(|(_, kind)| *kind != SignalKind::hangup() || !is_ignored(*kind));
        let listens = |(name, kind): (_, SignalKind)| Ok((Signal { name, number: kind.as_raw_value() }, signal(kind)?));
        Ok(Signals(kinds.map(listens).collect::<io::Result<_>>()?))
    }

    /// The next one.
    pub(crate) async fn next(&mut self) -> Signal {
        let next = |context: &mut Context<'_>| {
            let came = self.0.iter_mut().find_map(|(kind, signal)| signal.poll_recv(context).is_ready().then_some(*kind));
            came.map_or(Poll::Pending, Poll::Ready)
        };
        std::future::poll_fn(next).await
    }
}

/// Whether this process was started with the signal ignored, as by `nohup`. Known on Linux alone.
#[cfg(unix)]
fn is_ignored(kind: tokio::signal::unix::SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    ignored.is_some_and(|ignored| ignored >> (kind.as_raw_value() - 1) & 1 == 1)
}

#[cfg(not(unix))]
pub(crate) struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Signals)
    }

    pub(crate) async fn next(&mut self) -> Signal {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Signal { name: "Ctrl-C", number: 2 }
    }
}
