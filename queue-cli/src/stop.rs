//! A signal ends every command, also as the first process of a container, for which the system ends
//! nothing by itself.

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

/// How long a command may take that ends in order.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whether this process was asked to stop.
static STOPPED: LazyLock<CancellationToken> = LazyLock::new(CancellationToken::new);

/// Whether the command ends in order when it is asked to stop.
static ENDS: AtomicBool = AtomicBool::new(false);

/// Ends this process at a signal, until what it returns is dropped: at once, with the code of a
/// shell, unless the command listens with `asked_to_stop`.
///
/// # Errors
/// When the system gives no thread, or does not report its signals.
pub fn at_signals() -> Result<DropGuard, Failure> {
    let listening = listen(async |mut signals| {
        let code = 128 + signals.next().await.number;
        if !ENDS.load(Ordering::SeqCst) {
            process::exit(code);
        }
        STOPPED.cancel();
        exit_soon(PATIENCE, code);
        // Who sends another one has no patience.
        signals.next().await;
        process::exit(code);
    });
    listening.map_err(|error| Failure::new(Exit::Unforeseen, format!("cannot listen for signals: {error}")))
}

/// Waits until this process is asked to stop. From then on, the command has to end soon.
pub(super) async fn asked_to_stop() {
    ENDS.store(true, Ordering::SeqCst);
    STOPPED.cancelled().await;
}
