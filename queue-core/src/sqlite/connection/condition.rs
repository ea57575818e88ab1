//! How the disk of a database is.

use std::path::Path;

use super::ballast::{SIZE, is_whole, path_of};
use crate::broker::{Condition, Trouble, bytes};

/// How a database's disk is: what is free, and whether new jobs are refused until there is room for the ballast.
pub(crate) fn condition(database: &Path) -> Condition {
    let free = free(database);
    // Whoever works makes it as soon as there is room.
    let full = !is_whole(&path_of(database)) && free.is_none_or(|free| free < SIZE as u64);
    let why = || format!("the disk is full ({} free); they are taken again when {} are", bytes(free.unwrap_or(0)), bytes(SIZE as u64));
    Condition { free, trouble: full.then(|| Trouble::Full(why())), ..Condition::default() }
}

/// What an ordinary user can still write to the disk of a file; `None` where the system does not tell.
#[cfg(unix)]
fn free(database: &Path) -> Option<u64> {
    let folder = database.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(not(unix))]
fn free(_: &Path) -> Option<u64> {
    None
}
