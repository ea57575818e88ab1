//! Stopping in two stages.

use std::io;

use tokio::sync::watch;

/// How far a worker is on its way to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// It claims and runs.
    Running,
    /// It claims nothing; what runs may end within the grace time.
    Draining,
    /// The grace time is over, or nobody waits for it: what runs is given back.
    Hurrying,
}

/// Tells a running worker to stop. Dropping it is the second stage.
#[derive(Debug)]
pub(crate) struct Shutdown(watch::Sender<Stage>);

impl Shutdown {
    pub(crate) fn new() -> (Self, watch::Receiver<Stage>) {
        let (sender, receiver) = watch::channel(Stage::Running);
        (Shutdown(sender), receiver)
    }

    pub(crate) fn drain(&self) {
        self.advance(Stage::Draining);
    }

    pub(crate) fn hurry(&self) {
        self.advance(Stage::Hurrying);
    }

    fn advance(&self, to: Stage) {
        self.0.send_if_modified(|stage| {
            let later = to > *stage;
            *stage = to.max(*stage);
            later
        });
    }
}

impl Drop for Shutdown {
    fn drop(&mut self) {
        self.hurry();
    }
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
