//! Room for finishes on a full disk.
//!
//! A file beside the database holds 8 MiB that nobody needs. When the disk is full it is removed. That makes room for
//! merging the write-ahead log into the database: at most 4 MB and one commit, of which 2 MiB are jobs. From then on acks
//! and beats need next to nothing, as the log is started over and over; until the ballast can be made again, enqueues are refused.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

pub(super) const SIZE: usize = 8 * 1024 * 1024;

/// How often making it again is tried.
const RETRY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Ballast {
    path: Option<PathBuf>,
    /// Whether it is made where it is missing.
    makes: bool,
    tried: Option<Instant>,
}

/// Where the ballast of a database is.
pub(super) fn path_of(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-ballast");
    PathBuf::from(name)
}

/// Whether a file is a whole ballast. A shorter one is half made: by another process just now, or by one that was killed over it.
pub(super) fn is_whole(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|ballast| ballast.len() == SIZE as u64)
}

impl Ballast {
    /// The ballast of a database, made where it is missing.
    pub(crate) fn of(database: &Path) -> Self {
        Ballast { path: Some(path_of(database)), makes: true, tried: None }
    }

    /// The ballast of a database that is only looked at: if it is missing, those who work will make it.
    pub(crate) fn looked_at(database: &Path) -> Self {
        Ballast { makes: false, ..Ballast::of(database) }
    }

    /// Of a database in memory.
    pub(crate) fn none() -> Self {
        Ballast { path: None, makes: false, tried: None }
    }

    /// Whether there is room for enqueues: makes the ballast if it is missing.
    pub(crate) fn aboard(&mut self) -> bool {
        let Some(path) = &self.path else { return true };
        if is_whole(path) || !self.makes {
            return true;
        }
        if self.tried.is_some_and(|tried| tried.elapsed() < RETRY) {
            return false;
        }
        self.tried = Some(Instant::now());
        match make(path) {
            Ok(()) => {
                self.tried = None;
                true
            }
            Err(_) => {
                // Half a ballast only takes room.
                let _ = fs::remove_file(path);
                false
            }
        }
    }

    /// Gives the room away. False when there was none to give.
    pub(crate) fn drop_it(&mut self) -> bool {
        self.tried = Some(Instant::now());
        self.path.as_ref().is_some_and(|path| fs::remove_file(path).is_ok())
    }
}

/// Written out, not sparse: the blocks must be ours.
fn make(path: &Path) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(&vec![0x55; SIZE])?;
    file.sync_data()
}
