//! A small file system in memory, which only root can mount.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
    process::Command,
};

use queue_conformance::folder::folder;
use tempfile::TempDir;

use super::Problem;

/// A disk that can be completely filled.
#[derive(Debug)]
pub struct Disk {
    folder: TempDir,
    megabytes: usize,
}

impl Disk {
    pub(super) fn mount(megabytes: u32) -> Result<Disk, Problem> {
        let folder = folder();
        let options = format!("size={megabytes}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(folder.path()).output()?;
        if mounted.status.success() {
            Ok(Disk { folder, megabytes: megabytes as usize })
        } else {
            Err("no file system can be mounted here: that takes root".into())
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Fills the free space.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn fill(&self) -> Result<(), Problem> {
        let mut file = File::options().create(true).append(true).open(self.path().join("films"))?;
        // At most the size of the disk: the disk below it must not be filled.
        let mut left = self.megabytes << 20;
        for size in [64 * 1024, 4096, 512, 1] {
            while left >= size && file.write(&vec![1; size]).is_ok_and(|written| written > 0) {
                left -= size;
            }
        }
        Ok(())
    }

    /// Frees the space again.
    pub fn free(&self) {
        let _ = fs::remove_file(self.path().join("films"));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}
