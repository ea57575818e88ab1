//! The condition of the disk of a database.

use std::{fs, path::Path};

use super::{
    ballast::{SIZE, is_whole, path_of},
    file::logs_of,
};
use crate::broker::{Advice, Condition, Trouble, bytes};

/// The condition of a database's disk: the free space, and whether new jobs are refused until the
/// ballast fits again.
pub(crate) fn condition(database: &Path) -> Condition {
    let free = free(database);
    // Processes that write create it as soon as there is space.
    let full = !is_whole(&path_of(database)) && free.is_none_or(|free| free < SIZE as u64);
    let why = || {
        format!("the disk is full ({} free); new jobs are accepted again when {} are free", bytes(free.unwrap_or(0)), bytes(SIZE as u64))
    };
    let (log, readers) = large_log(database, LARGE_LOG).unzip();
    Condition { free, trouble: full.then(|| Trouble::Full(why())), log, readers: readers.unwrap_or_default(), ..Condition::default() }
}

/// Problems with the location of a database.
pub(crate) fn advice(database: &Path) -> Vec<Advice> {
    let network = network_file_system(database).map(|name| Advice {
        problem: format!(
            "the database is on a network file system ({name}), on which the locks of SQLite do not protect it from corruption"
        ),
        advice: "move it to a local disk, or use Redis for several machines",
    });
    network.into_iter().collect()
}

/// The reason why other processes cannot wake this one.
#[cfg(unix)]
pub(crate) fn no_notifications(problem: &str) -> Advice {
    Advice {
        problem: format!("the processes that use the database do not wake each other, and find jobs by polling ({problem})"),
        advice: "put the database into a local folder with a shorter path, in which each process may create files",
    }
}

/// The name of a database's file system, if it is a network file system.
#[cfg(target_os = "linux")]
fn network_file_system(database: &Path) -> Option<&'static str> {
    let file_system = rustix::fs::statfs(database).ok()?.f_type;
    // See `man 2 statfs`. FUSE is not in the list, because it has local file systems as well. The
    // type is signed on some machines.
    let names = [(0x6969, "NFS"), (0x517b, "SMB"), (0xff53_4d42, "SMB"), (0xfe53_4d42, "SMB"), (0x00c3_6400, "Ceph"), (0x5346_414f, "AFS")];
    names.into_iter().find(|(number, _)| file_system & 0xffff_ffff == *number).map(|(_, name)| name)
}

#[cfg(not(target_os = "linux"))]
fn network_file_system(_: &Path) -> Option<&'static str> {
    None
}

/// A write-ahead log of this size has not been reset for long: it is truncated to a quarter of this
/// size whenever that is possible.
const LARGE_LOG: u64 = 64 << 20;

/// The size of the write-ahead log if it has at least this number of bytes, and which processes
/// read the file. The files are not opened: to close one would release the locks of this process.
fn large_log(database: &Path, least: u64) -> Option<(u64, Vec<u32>)> {
    let [log, index] = logs_of(database);
    let size = fs::metadata(log).ok()?.len();
    (size >= least).then(|| (size, readers(&index)))
}

/// The processes that hold a reader's lock in the index of a write-ahead log: bytes 123 to 127 in
/// the [file format](https://sqlite.org/walformat.html#wal_locks).
#[cfg(target_os = "linux")]
fn readers(index: &Path) -> Vec<u32> {
    use std::os::unix::fs::MetadataExt;
    let (Ok(found), Ok(locks)) = (fs::metadata(index), fs::read_to_string("/proc/locks")) else { return Vec::new() };
    let file = format!(":{}", found.ino());
    // `1: POSIX  ADVISORY  READ 4321 fe:00:131 124 124`
    let reader = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().filter(|field| *field != "->").collect();
        let [_, "POSIX", _, "READ", process, inode, first, ..] = fields[..] else { return None };
        let is_reader = inode.ends_with(&file) && (123..=127).contains(&first.parse().unwrap_or(0));
        process.parse().ok().filter(|process| is_reader && *process > 0)
    };
    let mut readers: Vec<u32> = locks.lines().filter_map(reader).collect();
    readers.sort_unstable();
    readers.dedup();
    readers
}

#[cfg(not(target_os = "linux"))]
fn readers(_: &Path) -> Vec<u32> {
    Vec::new()
}

/// The space on the disk of a file that is free for ordinary users; `None` if the system does not
/// report it.
#[cfg(unix)]
fn free(database: &Path) -> Option<u64> {
    let folder = database.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(not(unix))]
fn free(_: &Path) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_reads_a_file_whose_log_is_large_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.db");
        let connections: [rusqlite::Connection; 2] = std::array::from_fn(|_| rusqlite::Connection::open(&path).unwrap());
        let [writes, reads] = &connections;
        writes
            .execute_batch("PRAGMA journal_mode = wal; CREATE TABLE lines (line BLOB); INSERT INTO lines VALUES (zeroblob(100000))")
            .unwrap();
        assert_eq!(large_log(&path, 10 << 20), None);
        assert_eq!(large_log(&path, 1).unwrap().1, [0; 0]);
        reads.execute_batch("BEGIN; SELECT count(*) FROM lines").unwrap();
        let (size, readers) = large_log(&path, 1).unwrap();
        assert!(size >= 100_000);
        if cfg!(target_os = "linux") {
            assert_eq!(readers, [std::process::id()]);
        }
    }
}
