//! The line on standard error that shows the progress of a long command.

use std::{
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

use super::exit::note;

/// The interval at which a terminal is updated, and the interval of lines in a log.
const SHOWN_EVERY: Duration = Duration::from_millis(200);
const PRINTED_EVERY: Duration = Duration::from_secs(5);

pub(super) struct Line {
    is_terminal: bool,
    printed: Instant,
    is_open: bool,
}

impl Line {
    pub(super) fn new() -> Self {
        Line { is_terminal: io::stderr().is_terminal(), printed: Instant::now(), is_open: false }
    }

    /// Whether the next call of `show` prints a line.
    pub(super) fn is_due(&self) -> bool {
        self.printed.elapsed() >= if self.is_terminal { SHOWN_EVERY } else { PRINTED_EVERY }
    }

    pub(super) fn show(&mut self, text: impl FnOnce() -> String) {
        if !self.is_due() {
            return;
        }
        self.printed = Instant::now();
        if self.is_terminal {
            self.is_open = true;
            let _ = write!(io::stderr(), "\r{}\u{1b}[K", text());
        } else {
            note(&text());
        }
    }

    /// Clears the line.
    pub(super) fn end(&mut self) {
        if std::mem::take(&mut self.is_open) {
            let _ = write!(io::stderr(), "\r\u{1b}[K");
        }
    }
}
