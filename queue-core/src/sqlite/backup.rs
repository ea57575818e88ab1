//! Copies a database while processes use it. The copy is one file with the state of one moment.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::connection::schema;
use crate::error::{Error, Result};

/// Copies the database at a path into a new file, and returns the number of bytes. The copy has
/// every commit up to a moment during the call, and has no separate log. The file appears under its
/// name when it is complete and on disk. Only its user can access it.
///
/// It reads the whole database, and writes the part that is in use. Other processes are not blocked
/// meanwhile.
///
/// # Errors
/// [`Error::NoDatabase`], [`Error::Invalid`] for a file that exists or cannot be created,
/// [`Error::BrokerFull`] without room for the copy.
pub fn backup(database: &Path, to: &Path) -> Result<u64> {
    let unusable = |problem: String| Error::invalid("backup file", to.to_string_lossy(), problem);
    if to.exists() {
        return Err(unusable("is there already; name a new file".to_owned()));
    }
    let connection = schema::open_existing(database)?;
    let part = part_path(to);
    // Private from its first byte. SQLite fills an empty file.
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(&part).map_err(|error| unusable(format!("cannot be made: {error}")))?;
    let copied = copy(&connection, database, &part);
    let size = copied.and_then(|()| move_into_place(&part, to).map_err(|error| unusable(format!("cannot be written: {error}"))));
    if size.is_err() {
        let _ = fs::remove_file(&part);
    }
    size
}

fn copy(connection: &rusqlite::Connection, database: &Path, part: &Path) -> Result<()> {
    let path = part.to_str().ok_or_else(|| Error::invalid("backup file", part.to_string_lossy(), "is not in UTF-8; name another file"))?;
    let copied = connection.execute("VACUUM INTO ?1", [path]);
    copied.map(drop).map_err(|error| schema::open_error(&schema::display_path(Some(database)), &error))
}

/// Moves the complete file to its final name and syncs it. An existing file is not replaced.
fn move_into_place(part: &Path, to: &Path) -> io::Result<u64> {
    let file = fs::File::open(part)?;
    file.sync_all()?;
    let size = file.metadata()?.len();
    fs::hard_link(part, to)?;
    fs::remove_file(part)?;
    #[cfg(unix)]
    fs::File::open(to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")))?.sync_all()?;
    Ok(size)
}

/// The temporary name of the copy.
fn part_path(to: &Path) -> PathBuf {
    let mut name = to.as_os_str().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    PathBuf::from(name)
}
