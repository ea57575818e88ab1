//! A signal ends every command. This also works for the first process of a container, which has no
//! default actions of signals.

use std::{
    process,
    sync::{
        LazyLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use queue_core::__private::{exit_soon, listen};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::exit::{Exit, Failure};

/// The time that a command has for an orderly end.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whether this process has a stop request.
static STOPPED: LazyLock<CancellationToken> = LazyLock::new(CancellationToken::new);

/// Whether the command ends in order after a stop request.
static ENDS: AtomicBool = AtomicBool::new(false);

/// Ends this process at a signal, until the returned guard is dropped. The process ends at once,
/// with the exit code of a shell, unless the command listens with `asked_to_stop`.
///
/// # Errors
/// If the system cannot start a thread, or does not support signals.
pub fn exit_at_signal() -> Result<DropGuard, Failure> {
    let listening = listen(async |mut signals| {
        let code = 128 + signals.next().await.number;
        if !ENDS.load(Ordering::SeqCst) {
            process::exit(code);
        }
        STOPPED.cancel();
        exit_soon(PATIENCE, code);
        // A second signal ends the process at once.
        signals.next().await;
        process::exit(code);
    });
    listening.map_err(|error| Failure::new(Exit::Unforeseen, format!("cannot listen for signals: {error}")))
}

/// Waits for a stop request. After that, the command has to end soon.
pub(super) async fn asked_to_stop() {
    ENDS.store(true, Ordering::SeqCst);
    STOPPED.cancelled().await;
}
