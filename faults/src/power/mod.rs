//! A model of what a power cut leaves of files: everything up to the last time that a file was
//! waited for, and of what was written to it later any part.
//!
//! Processes run with a library around them that writes down every change of the database, its log
//! and the histories, in the order in which they happen (`bed/recorded.c`). From this [`Log`] a
//! [`Disk`] is played up to any moment, and says what could be there when the power comes back.
//! What had been promised to callers by then is in the histories of the same moment: `judge`
//! compares.

mod disk;
mod judge;
mod log;

pub use self::{
    disk::{Disk, Loss},
    judge::{Acts, Found, Keeps},
    log::{Change, Entry, Log},
};
