//! Walks a folder.

use std::{
    collections::HashSet,
    fs::{self, Metadata},
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

/// A regular file with content.
#[derive(Clone, Debug)]
pub(crate) struct File {
    pub(crate) path: PathBuf,
    pub(crate) size: u64,
    /// Nanoseconds since 1970.
    pub(crate) modified: u64,
}

/// The result of a walk.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) files: Vec<File>,
    /// The files that could not be read, with the errors.
    pub(crate) skipped: Vec<String>,
}

/// Every regular file below `folder`, in the order of their names. Links are not followed, empty
/// files are ignored, and build output (`target`) is left out.
pub(crate) fn scan(folder: &Path, left_out: &[PathBuf]) -> Found {
    let mut found = Found::default();
    let mut seen = HashSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) => {
                found.skipped.push(format!("{}: {error}", folder.display()));
                continue;
            }
        };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| !left_out.contains(path)).collect();
        paths.sort();
        for path in paths {
            match fs::symlink_metadata(&path) {
                Ok(meta) if meta.is_dir() => {
                    if path.file_name().is_none_or(|name| name != "target") {
                        folders.push(path);
                    }
                }
                // Two names of one file use its space only once.
                Ok(meta) if meta.is_file() && meta.len() > 0 && seen.insert(identity(&path, &meta)) => {
                    let modified = meta.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
                    found.files.push(File { path, size: meta.len(), modified: u64::try_from(modified.as_nanos()).unwrap_or(0) });
                }
                Ok(_) => {}
                Err(error) => found.skipped.push(format!("{}: {error}", path.display())),
            }
        }
    }
    found
}

#[cfg(unix)]
fn identity(_: &Path, meta: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (meta.dev(), meta.ino())
}

#[cfg(not(unix))]
fn identity(path: &Path, _: &Metadata) -> PathBuf {
    path.to_owned()
}
