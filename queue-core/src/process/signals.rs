//! The signals that end a process, and its end.

#[cfg(unix)]
use std::task::{Context, Poll};
use std::{io, mem, process, sync::mpsc, thread, time::Duration};

use tokio_util::sync::{CancellationToken, DropGuard};

/// A process that is asked to exit and does not is aborted after this time.
const ABORT: Duration = Duration::from_secs(1);

/// Exits the process with this code after this time, even if other threads hang, unless the
/// returned guard is dropped before.
pub fn exit_after(time: Duration, code: i32) -> mpsc::Sender<()> {
    let (armed, disarmed) = mpsc::channel();
    let ends = move || {
        if disarmed.recv_timeout(time) == Err(mpsc::RecvTimeoutError::Timeout) {
            // `exit` runs the registered functions of C libraries, and flushes standard output,
            // which may block.
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
pub fn exit_soon(time: Duration, code: i32) {
    mem::forget(exit_after(time, code));
}

/// Listens for the signals that end a process, until the returned guard is dropped. It has its own
/// thread, so a handler that blocks its runtime delays no signal.
///
/// # Errors
/// If the system cannot start a thread, or does not report its signals.
pub fn listen<F: Future<Output = ()>>(serve: impl FnOnce(Signals) -> F + Send + 'static) -> io::Result<DropGuard> {
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
pub struct Signal {
    /// Its name, as in `SIGTERM`.
    pub name: &'static str,
    /// Its number; a command exits with 128 more.
    pub number: i32,
}

/// SIGTERM, SIGINT, SIGHUP and SIGQUIT, each time that they arrive.
#[cfg(unix)]
#[derive(Debug)]
pub struct Signals(Vec<(Signal, tokio::signal::unix::Signal)>);

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
    pub async fn next(&mut self) -> Signal {
        let next = |context: &mut Context<'_>| {
            let came = self.0.iter_mut().find_map(|(kind, signal)| signal.poll_recv(context).is_ready().then_some(*kind));
            came.map_or(Poll::Pending, Poll::Ready)
        };
        std::future::poll_fn(next).await
    }
}

/// Whether this process was started with the signal ignored, as by `nohup`. Known only on Linux.
#[cfg(unix)]
fn is_ignored(kind: tokio::signal::unix::SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    ignored.is_some_and(|ignored| ignored >> (kind.as_raw_value() - 1) & 1 == 1)
}

/// Ctrl-C, each time that it arrives.
#[cfg(not(unix))]
#[derive(Debug)]
pub struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Signals)
    }

    /// The next one.
    pub async fn next(&mut self) -> Signal {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Signal { name: "Ctrl-C", number: 2 }
    }
}
