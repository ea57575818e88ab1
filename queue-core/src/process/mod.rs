//! Code that worker binaries and the program `queue` share: the signals that end a process, its
//! end, and answers to probes.

mod http;
mod signals;

use std::sync::atomic::AtomicU64;

pub use self::{
    http::{Answer, Asked, CLIENTS, REFUSED_PAUSE, asked, respond},
    signals::{Signal, Signals, exit_after, exit_soon, listen},
};

/// Lines of the log of this process that were dropped, because standard error was not read in time.
pub static DROPPED_LINES: AtomicU64 = AtomicU64::new(0);
