//! The locations of the queue and the digests, in the user's cache folder, under the name of the
//! searched folder.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use queue_core::broker::BrokerInfo;

use crate::error::{Failure, Result};

/// The locations for one searched folder.
pub(crate) struct Places {
    /// The queue of this folder's jobs. A shared server may have the queues of several folders.
    pub(crate) queue: String,
    home: PathBuf,
}

impl Places {
    pub(crate) fn of(folder: &Path) -> Result<Self> {
        let home = cache().ok_or_else(|| Failure("there is no cache folder: set XDG_CACHE_HOME or HOME".to_owned()))?;
        let name = name_of(folder);
        let home = home.join("queue-quickstart").join(&name);
        fs::create_dir_all(&home).map_err(|error| Failure(format!("cannot create {}: {error}", home.display())))?;
        Ok(Places { queue: format!("quickstart-{name}"), home })
    }

    /// `QUEUE_URL`, or a file in the cache folder.
    pub(crate) fn queue_url(&self) -> Result<String> {
        match env::var_os("QUEUE_URL") {
            Some(_) => Ok(queue_core::Client::url_from_env()?),
            None => Ok(queue_core::Client::sqlite_url(self.home.join("queue.db"))),
        }
    }

    /// The data of the files and the progress of the run, for each queue.
    pub(crate) fn digests(&self) -> PathBuf {
        let queue = env::var("QUEUE_URL").unwrap_or_default();
        if queue.is_empty() { self.home.join("digests.db") } else { self.home.join(format!("digests-{}.db", short_hash(queue.as_bytes()))) }
    }

    /// Paths that are not searched: the files of this program.
    pub(crate) fn left_out(&self, broker: &BrokerInfo) -> Vec<PathBuf> {
        let mut left_out = vec![self.home.clone()];
        if broker.kind == "sqlite" {
            left_out.extend(["", "-wal", "-shm", "-ballast"].map(|tail| PathBuf::from(format!("{}{tail}", broker.location))));
        }
        left_out
    }
}

fn cache() -> Option<PathBuf> {
    let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("XDG_CACHE_HOME").or_else(|| {
        if cfg!(windows) {
            variable("LOCALAPPDATA")
        } else if cfg!(target_os = "macos") {
            variable("HOME").map(|home| home.join("Library/Caches"))
        } else {
            variable("HOME").map(|home| home.join(".cache"))
        }
    })
}

/// The path of the folder in letters that every file system supports, with a hash of the complete
/// path.
fn name_of(folder: &Path) -> String {
    let text = folder.to_string_lossy();
    let letters: String = text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let letters = letters.trim_matches('-');
    let tail = &letters[letters.len().saturating_sub(80)..];
    format!("{tail}-{}", short_hash(folder.as_os_str().as_encoded_bytes()))
}

fn short_hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex()[..8].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_a_name_of_its_own() {
        assert!(name_of(Path::new("/home/ada/pictures")).starts_with("home-ada-pictures-"));
        assert_ne!(name_of(Path::new("/a/b")), name_of(Path::new("/a-b")));
    }
}
