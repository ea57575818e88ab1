//! Waiting for the write lock that another process holds.
//!
//! SQLite's own handler soon tries only ten times per second. If eight processes commit without a
//! pause, the lock is free only for microseconds at a time, and such a waiter may fail for minutes.
//! This handler tries about every millisecond, with jitter. It gives up early enough to report the
//! reason to its caller.

use std::{
    cell::Cell,
    thread,
    time::{Duration, Instant},
};

use rusqlite::Connection;

/// How long a statement waits for another process's transaction. Less than the deadline of a call.
pub(crate) const PATIENCE: Duration = Duration::from_secs(4);

thread_local! {
    /// When this thread's present wait began.
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Makes a connection wait for locks. rusqlite requires `&mut` from 0.40 on.
pub(crate) fn handle(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.busy_handler(Some(wait))
}

/// SQLite calls this whenever the lock is held. `seen` counts the calls of one wait. False gives
/// up.
fn wait(seen: i32) -> bool {
    let began = BEGAN.get().filter(|_| seen > 0).unwrap_or_else(Instant::now);
    BEGAN.set(Some(began));
    if began.elapsed() >= PATIENCE {
        return false;
    }
    // A commit takes about a millisecond. The first tries are frequent, and the later ones leave
    // the processor to the holder of the lock.
    let micros = if seen < 8 { 100..400 } else { 400..2_000 };
    thread::sleep(Duration::from_micros(fastrand::u64(micros)));
    true
}
