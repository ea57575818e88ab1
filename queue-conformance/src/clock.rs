//! The clock of a broker in memory.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use tokio::time::Instant;

/// A clock that belongs to the test. It runs with tokio's: under paused time it stands still while a task can run, and jumps to the next
/// timer when none can. A clone shows the same time.
#[derive(Clone, Debug)]
pub struct Clock {
    began: Instant,
    /// What it showed, in milliseconds since 1970, when it began; moves with every [`shift`](Clock::shift).
    base_ms: Arc<AtomicI64>,
}

impl Clock {
    /// A clock that begins with this machine's.
    pub fn new() -> Clock {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
        Clock::at(i64::try_from(now).unwrap_or(i64::MAX))
    }

    /// A clock that shows this time now, in milliseconds since 1970.
    pub fn at(now_ms: i64) -> Clock {
        Clock { began: Instant::now(), base_ms: Arc::new(AtomicI64::new(now_ms)) }
    }

    /// What it shows, in milliseconds since 1970.
    pub fn now_ms(&self) -> i64 {
        let elapsed = i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX);
        self.base_ms.load(Ordering::SeqCst).saturating_add(elapsed)
    }

    /// Sets it forward by so many milliseconds, or back if the number is negative: what happens to a server whose time was wrong. No timer
    /// runs out by it.
    pub fn shift(&self, by_ms: i64) {
        self.base_ms.fetch_add(by_ms, Ordering::SeqCst);
    }
}

impl Default for Clock {
    fn default() -> Self {
        Clock::new()
    }
}
