//! Waiting for what must come, with an end.

use std::{
    future::Future,
    time::{Duration, Instant},
};

/// How long a test waits for what must happen.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until `what` is true, looking again and again.
///
/// # Panics
/// When it has not become true in [`PATIENCE`].
pub async fn until<F: Future<Output = bool>>(name: &str, mut what: impl FnMut() -> F) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while !what().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(waited.await.is_ok(), "waited {PATIENCE:?} for: {name}");
}

/// Waits until `what` is there, on this thread.
///
/// # Panics
/// When it has not come in [`PATIENCE`].
pub fn wait_for<T>(name: &str, mut what: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = what() {
            return found;
        }
        assert!(Instant::now() < end, "waited {PATIENCE:?} for: {name}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
