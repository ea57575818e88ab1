//! Checks the owners of the files next to a database.
//!
//! In a folder that other users can write to, such as `/tmp` or a shared volume, another user may
//! have created a file or a link under a name that we are about to use. That user could read our
//! jobs, or make us write to another file.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{ballast, file::logs_of};
use crate::error::{Error, Result};

/// Refuses a database with a file that belongs to another user, if other users can write to its
/// folder. Root's files are trusted.
#[cfg(unix)]
pub(crate) fn check(database: &Path) -> Result<()> {
    use std::os::unix::fs::MetadataExt;

    let own = rustix::process::geteuid().as_raw();
    for file in files_of(database) {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // If the file system does not answer, SQLite reports more about it later.
        let (Ok(folder), Ok(found)) = (fs::metadata(folder), fs::symlink_metadata(&file)) else { continue };
        let (by_group, by_all) = (folder.mode() & 0o020 != 0, folder.mode() & 0o002 != 0);
        // The owner of the folder can replace its files anyway.
        let is_trusted = [own, 0].contains(&found.uid()) || found.uid() == folder.uid() && !by_all;
        if !is_trusted && (by_group || by_all) {
            return Err(Error::Config(format!(
                "`{}` belongs to another user (uid {}; this process runs as uid {own}), in a folder that other users can write to: \
                 put the database into a folder of its own (`chmod go-w`), or remove the file if it should not be there",
                file.display(),
                found.uid()
            )));
        }
    }
    Ok(())
}

#[cfg(not(unix))]
pub(crate) fn check(_: &Path) -> Result<()> {
    Ok(())
}

/// The database, the target of its link, its logs, and its ballast.
#[cfg_attr(not(unix), allow(dead_code, reason = "files have no owner here"))]
fn files_of(database: &Path) -> Vec<PathBuf> {
    let real = fs::canonicalize(database).ok().filter(|real| real != database);
    let mut files: Vec<PathBuf> = std::iter::once(database.to_owned()).chain(real).collect();
    files.extend(logs_of(database));
    // This library writes none, and SQLite would roll back a journal of another user into the
    // database.
    let mut journal = fs::canonicalize(database).unwrap_or_else(|_| database.to_owned()).into_os_string();
    journal.push("-journal");
    files.push(journal.into());
    let whole = ballast::path_of(database);
    files.extend([ballast::part_of(&whole), whole]);
    files
}
