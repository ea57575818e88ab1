//! Room for finishes on a full disk.
//!
//! A file next to the database is an 8 MiB placeholder. When the disk is full, it is removed.
//! That makes room for merging the write-ahead log into the database: at most 4 MB and one commit,
//! of which 2 MiB are jobs. From then on acks and heartbeats need next to nothing, as the log is
//! started over and over; until the ballast can be made again, enqueues are refused.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

pub(super) const SIZE: usize = 8 * 1024 * 1024;

/// How often making it again is tried.
const RETRY: Duration = Duration::from_secs(1);

/// A part of this age was left behind by a process that was killed while it wrote: no write takes
/// this long.
const LEFT: Duration = Duration::from_secs(60);

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

/// Its name while it is made.
pub(super) fn part_of(ballast: &Path) -> PathBuf {
    let mut name = ballast.as_os_str().to_owned();
    name.push("-new");
    PathBuf::from(name)
}

/// Whether a file is a whole ballast, and not a link to some file of that size.
pub(super) fn is_whole(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|ballast| ballast.is_file() && ballast.len() == SIZE as u64)
}

impl Ballast {
    /// The ballast of a database, made where it is missing.
    pub(crate) fn of(database: &Path) -> Self {
        Ballast { path: Some(path_of(database)), makes: true, tried: None }
    }

    /// The ballast of a database that is only looked at: if it is missing, those who work will make
    /// it.
    pub(crate) fn read_only(database: &Path) -> Self {
        Ballast { makes: false, ..Ballast::of(database) }
    }

    /// Of a database in memory.
    pub(crate) fn none() -> Self {
        Ballast { path: None, makes: false, tried: None }
    }

    /// Whether there is room for enqueues: makes the ballast if it is missing.
    pub(crate) fn ensure_ballast(&mut self) -> bool {
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
            Err(_) if is_whole(path) => true,
            Err(_) => {
                // What is under its name, and is no ballast, only takes room.
                let _ = fs::remove_file(path);
                false
            }
        }
    }

    /// Gives the room away. False when there was none to give.
    pub(crate) fn delete_ballast(&mut self) -> bool {
        self.tried = Some(Instant::now());
        self.path.as_ref().is_some_and(|path| fs::remove_file(path).is_ok())
    }
}

/// Writes it under another name and renames it: a link under either name is replaced, and what it
/// leads to stays as it is.
fn make(path: &Path) -> io::Result<()> {
    let part = part_of(path);
    let file = match create(&part) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let made = match fs::symlink_metadata(&part) {
                // Another process has just finished it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                found => found?.modified()?,
            };
            if made.elapsed().is_ok_and(|age| age < LEFT) {
                // Another process is making it.
                return Ok(());
            }
            fs::remove_file(&part)?;
            create(&part)?
        }
        created => created?,
    };
    written(file).and_then(|()| fs::rename(&part, path)).inspect_err(|_| {
        let _ = fs::remove_file(&part);
    })
}

/// A new file: one that is there, or a link, is an error.
fn create(part: &Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    }
    options.open(part)
}

/// Written out, not sparse: the blocks must be ours.
fn written(mut file: fs::File) -> io::Result<()> {
    file.write_all(&vec![0x55; SIZE])?;
    file.sync_data()
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_under_its_name_is_replaced_and_its_target_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (database, letter) = (folder.path().join("queue.db"), folder.path().join("letter.txt"));
        for content in ["Dear reader".to_owned().into_bytes(), vec![7; SIZE]] {
            fs::write(&letter, &content).unwrap();
            let _ = fs::remove_file(path_of(&database));
            symlink(&letter, path_of(&database)).unwrap();
            assert!(!is_whole(&path_of(&database)), "a link is no ballast");
            assert!(Ballast::of(&database).ensure_ballast());
            assert!(is_whole(&path_of(&database)));
            assert_eq!(fs::read(&letter).unwrap(), content);
            assert!(Ballast::of(&database).delete_ballast() && letter.exists());
        }
    }

    #[test]
    fn a_link_under_the_name_of_its_part_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (database, letter) = (folder.path().join("queue.db"), folder.path().join("letter.txt"));
        fs::write(&letter, "Dear reader").unwrap();
        symlink(&letter, part_of(&path_of(&database))).unwrap();
        Ballast::of(&database).ensure_ballast();
        assert_eq!(fs::read(&letter).unwrap(), b"Dear reader");
    }

    #[test]
    fn a_part_that_was_left_behind_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = path_of(&folder.path().join("queue.db"));
        let left = fs::File::create(part_of(&path)).unwrap();
        left.set_modified(std::time::SystemTime::now() - 2 * LEFT).unwrap();
        make(&path).unwrap();
        assert!(is_whole(&path) && !part_of(&path).exists());
    }
}
