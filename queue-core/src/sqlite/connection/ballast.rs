//! Room for finishes on a full disk.
//!
//! A file next to the database is an 8 MiB placeholder. When the disk is full, it is deleted. The
//! freed space suffices to merge the write-ahead log into the database: at most 4 MB and one
//! commit, of which 2 MiB are jobs. From then on the log is restarted all the time, so acks and
//! heartbeats need almost no space. Enqueues are refused until the ballast can be created again.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

pub(super) const SIZE: usize = 8 * 1024 * 1024;

/// The interval between attempts to create the ballast again.
const RETRY: Duration = Duration::from_secs(1);

/// A partial file of this age was left behind by a process that was killed while it wrote: no write
/// takes this long.
const LEFT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Ballast {
    path: Option<PathBuf>,
    /// Whether a missing ballast is created.
    makes: bool,
    tried: Option<Instant>,
}

/// The path of the ballast of a database.
pub(super) fn path_of(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-ballast");
    PathBuf::from(name)
}

/// The name of an incomplete ballast.
pub(super) fn part_of(ballast: &Path) -> PathBuf {
    let mut name = ballast.as_os_str().to_owned();
    name.push("-new");
    PathBuf::from(name)
}

/// Whether a file is a complete ballast, and not a link to a file of that size.
pub(super) fn is_whole(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|ballast| ballast.is_file() && ballast.len() == SIZE as u64)
}

impl Ballast {
    /// The ballast of a database. It is created if it is missing.
    pub(crate) fn of(database: &Path) -> Self {
        Ballast { path: Some(path_of(database)), makes: true, tried: None }
    }

    /// The ballast of a database that is opened only for reading. A missing ballast is created by
    /// the processes that write.
    pub(crate) fn read_only(database: &Path) -> Self {
        Ballast { makes: false, ..Ballast::of(database) }
    }

    /// For a database in memory.
    pub(crate) fn none() -> Self {
        Ballast { path: None, makes: false, tried: None }
    }

    /// Whether there is room for enqueues. Creates the ballast if it is missing.
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
                // Another file under this name only takes space.
                let _ = fs::remove_file(path);
                false
            }
        }
    }

    /// Deletes the ballast to free its space. False: there was none.
    pub(crate) fn delete_ballast(&mut self) -> bool {
        self.tried = Some(Instant::now());
        self.path.as_ref().is_some_and(|path| fs::remove_file(path).is_ok())
    }
}

/// Writes the ballast under another name and renames it. If either name is a link, the link is
/// replaced, and its target is not changed.
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
    write_blocks(file).and_then(|()| fs::rename(&part, path)).inspect_err(|_| {
        let _ = fs::remove_file(&part);
    })
}

/// Creates a new file. An existing file or a link is an error.
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

/// Writes all bytes, because a sparse file would not reserve the blocks.
fn write_blocks(mut file: fs::File) -> io::Result<()> {
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
