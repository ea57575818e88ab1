//! A copy of a database that runs: one file, as it was at one moment, while other processes work.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::connection::schema;
use crate::error::{Error, Result};

/// Copies the database at a path into a new file, and gives the number of bytes. The copy has every
/// commit up to a moment during the call, without a log beside it. The file appears under its name
/// when it is whole and on the disk, and belongs to its user alone.
///
/// It reads as much as the database has, and writes as much as is used of it; processes that work
/// meanwhile are not held up.
///
/// # Errors
/// [`Error::NoDatabase`], [`Error::Invalid`] for a file that is there or cannot be made,
/// [`Error::BrokerFull`] without room for the copy.
pub fn backup(database: &Path, to: &Path) -> Result<u64> {
    let unusable = |problem: String| Error::invalid("backup file", to.to_string_lossy(), problem);
    if to.exists() {
        return Err(unusable("is there already; name a new file".to_owned()));
    }
    let connection = schema::open_existing(database)?;
    let part = beside(to);
    // Private from its first byte. SQLite fills an empty file.
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(&part).map_err(|error| unusable(format!("cannot be made: {error}")))?;
    let copied = copy(&connection, database, &part);
    let size = copied.and_then(|()| placed(&part, to).map_err(|error| unusable(format!("cannot be written: {error}"))));
    if size.is_err() {
        let _ = fs::remove_file(&part);
    }
    size
}

fn copy(connection: &rusqlite::Connection, database: &Path, part: &Path) -> Result<()> {
    let path = part.to_str().ok_or_else(|| Error::invalid("backup file", part.to_string_lossy(), "is not in UTF-8; name another file"))?;
    let copied = connection.execute("VACUUM INTO ?1", [path]);
    copied.map(drop).map_err(|error| schema::refused(&schema::shown(Some(database)), &error))
}

/// Puts the whole file under its name, for good. A file that has come there meanwhile stays.
fn placed(part: &Path, to: &Path) -> io::Result<u64> {
    let file = fs::File::open(part)?;
    file.sync_all()?;
    let size = file.metadata()?.len();
    fs::hard_link(part, to)?;
    fs::remove_file(part)?;
    #[cfg(unix)]
    fs::File::open(to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")))?.sync_all()?;
    Ok(size)
}

/// The name of the copy while it is made.
fn beside(to: &Path) -> PathBuf {
    let mut name = to.as_os_str().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    PathBuf::from(name)
}
