//! Where tests keep their files.

use std::path::PathBuf;

use tempfile::TempDir;

/// The room that a file system in memory must have before tests use it.
#[cfg(target_os = "linux")]
const ROOM: u64 = 1 << 30;

/// A folder of a test, in memory where the system has a file system there with a GiB of room, from
/// which libraries can be loaded. A disk that stalls delays whatever a test measures, and is not
/// what it tests: tests of a disk use [`on_disk`].
///
/// # Panics
/// When it cannot be made.
pub fn folder() -> TempDir {
    TempDir::new_in(root()).expect("a temporary folder can be made")
}

/// A folder of a test that is about durability, a full disk or the like, or that writes more than
/// fits into memory.
///
/// # Panics
/// When it cannot be made.
pub fn on_disk() -> TempDir {
    tempfile::tempdir().expect("a temporary folder can be made")
}

/// Where [`folder`] makes folders: the `TMPDIR` of programs that make temporary folders themselves.
pub fn root() -> PathBuf {
    in_memory().unwrap_or_else(std::env::temp_dir)
}

#[cfg(target_os = "linux")]
fn in_memory() -> Option<PathBuf> {
    let memory = PathBuf::from("/dev/shm");
    let room = rustix::fs::statvfs(&memory).ok()?;
    let is_large = room.f_bavail.saturating_mul(room.f_frsize) >= ROOM;
    let loads = !room.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC);
    (is_large && loads && TempDir::new_in(&memory).is_ok()).then_some(memory)
}

#[cfg(not(target_os = "linux"))]
fn in_memory() -> Option<PathBuf> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_can_be_written_to_and_goes() {
        for folder in [folder(), on_disk()] {
            let path = folder.path().to_owned();
            std::fs::write(path.join("file"), "text").unwrap();
            drop(folder);
            assert!(!path.exists());
        }
    }
}
