//! The quickstart's own store: the digests of the files, and the progress of the run. A job may run
//! twice: writing a digest twice changes nothing.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rusqlite::{Connection, OptionalExtension, params};

use crate::{error::Result, scan::File};

const CREATE: &str = "
CREATE TABLE IF NOT EXISTS runs (run INTEGER PRIMARY KEY, left INTEGER, finished INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS files (
    run INTEGER NOT NULL, path BLOB NOT NULL, size INTEGER NOT NULL, modified INTEGER NOT NULL,
    scan INTEGER NOT NULL, done INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (run, path, size, modified)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS digests (
    path BLOB NOT NULL, size INTEGER NOT NULL, modified INTEGER NOT NULL, digest BLOB NOT NULL,
    PRIMARY KEY (path, size, modified)
) WITHOUT ROWID;
";

/// A group of identical files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) size: u64,
    pub(crate) paths: Vec<PathBuf>,
}

/// The database of files and runs.
#[derive(Debug)]
pub(crate) struct Store(Mutex<Connection>);

impl Store {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_secs(10))?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        // A digest that is lost in a power failure is computed again, so writes do not wait for the
        // disk.
        connection.pragma_update(None, "synchronous", "normal")?;
        connection.execute_batch(CREATE)?;
        Ok(Store(Mutex::new(connection)))
    }

    /// The unfinished run, or a new one.
    pub(crate) fn begin_run(&self) -> Result<i64> {
        let connection = self.lock();
        connection.execute("DELETE FROM files WHERE run IN (SELECT run FROM runs WHERE finished)", [])?;
        let unfinished = connection.query_row("SELECT max(run) FROM runs WHERE NOT finished", [], |row| row.get::<_, Option<i64>>(0))?;
        if let Some(run) = unfinished {
            return Ok(run);
        }
        // Its number is never used again. This also holds if this store was deleted and the queue
        // was not.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let run = i64::try_from(now.as_micros()).unwrap_or(i64::MAX);
        connection.execute("INSERT INTO runs (run) VALUES (?1)", [run])?;
        Ok(run)
    }

    /// Adds the files of a run. Files of an interrupted scan that were deleted in the meantime are
    /// removed from it.
    pub(crate) fn enter_files(&self, run: i64, files: &[File]) -> Result<()> {
        let mut connection = self.lock();
        let transaction = connection.transaction()?;
        let scan: i64 = transaction.query_row("SELECT ifnull(max(scan), 0) + 1 FROM files WHERE run = ?1", [run], |row| row.get(0))?;
        {
            let mut enter = transaction.prepare(
                "INSERT INTO files (run, path, size, modified, scan) VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT DO UPDATE SET scan = excluded.scan",
            )?;
            for file in files {
                enter.execute(params![run, bytes(&file.path), file.size.cast_signed(), file.modified.cast_signed(), scan])?;
            }
        }
        transaction.execute("DELETE FROM files WHERE run = ?1 AND scan < ?2", [run, scan])?;
        transaction.execute("UPDATE runs SET left = (SELECT count(*) FROM files WHERE run = ?1 AND NOT done) WHERE run = ?1", [run])?;
        Ok(transaction.commit()?)
    }

    /// The number of done files of a run.
    pub(crate) fn done(&self, run: i64) -> Result<u64> {
        Ok(self.lock().query_row("SELECT count(*) FROM files WHERE run = ?1 AND done", [run], |row| row.get::<_, i64>(0))?.cast_unsigned())
    }

    /// The number of remaining files of a run.
    pub(crate) fn left(&self, run: i64) -> Result<u64> {
        Ok(self.lock().query_row("SELECT ifnull(left, 0) FROM runs WHERE run = ?1", [run], |row| row.get::<_, i64>(0))?.cast_unsigned())
    }

    /// Whether the digest of a file is known.
    pub(crate) fn knows(&self, file: &File) -> Result<bool> {
        let known = self
            .lock()
            .prepare_cached("SELECT 1 FROM digests WHERE path = ?1 AND size = ?2 AND modified = ?3")?
            .exists(params![bytes(&file.path), file.size.cast_signed(), file.modified.cast_signed()])?;
        Ok(known)
    }

    /// Marks a file of the run as done, with its digest, or without one if it cannot be read.
    /// Returns false if it was already done.
    pub(crate) fn finish_file(&self, run: i64, file: &File, digest: Option<&[u8]>) -> Result<bool> {
        let mut connection = self.lock();
        let transaction = connection.transaction()?;
        let path = bytes(&file.path);
        if let Some(digest) = digest {
            transaction
                .prepare_cached("INSERT OR REPLACE INTO digests (path, size, modified, digest) VALUES (?1, ?2, ?3, ?4)")?
                .execute(params![path, file.size.cast_signed(), file.modified.cast_signed(), digest])?;
        }
        let changed = transaction
            .prepare_cached("UPDATE files SET done = 1 WHERE run = ?1 AND path = ?2 AND size = ?3 AND modified = ?4 AND NOT done")?
            .execute(params![run, path, file.size.cast_signed(), file.modified.cast_signed()])?;
        transaction.prepare_cached("UPDATE runs SET left = left - ?2 WHERE run = ?1")?.execute(params![run, i64::from(changed == 1)])?;
        transaction.commit()?;
        Ok(changed == 1)
    }

    /// Marks the run as finished.
    pub(crate) fn finish_run(&self, run: i64) -> Result<()> {
        self.lock().execute("UPDATE runs SET finished = 1 WHERE run = ?1", [run])?;
        Ok(())
    }

    /// The groups of a finished run, the most wasteful first.
    pub(crate) fn report(&self, run: i64) -> Result<Option<Vec<Group>>> {
        let connection = self.lock();
        let finished = connection.query_row("SELECT finished FROM runs WHERE run = ?1", [run], |row| row.get::<_, bool>(0)).optional()?;
        if finished != Some(true) {
            return Ok(None);
        }
        let mut files = connection.prepare(
            "SELECT digests.digest, files.size, files.path FROM files
             JOIN digests USING (path, size, modified) WHERE files.run = ?1 ORDER BY 1, 2, 3",
        )?;
        let rows = files.query_map([run], |row| Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, i64>(1)?, row.get::<_, Vec<u8>>(2)?)))?;
        let rows = rows.collect::<rusqlite::Result<Vec<_>>>()?;
        let same = rows.chunk_by(|one, other| (&one.0, one.1) == (&other.0, other.1)).filter(|group| group.len() > 1);
        let mut groups: Vec<Group> =
            same.map(|group| Group { size: group[0].1.cast_unsigned(), paths: group.iter().map(|row| path(&row.2)).collect() }).collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.size * (group.paths.len() as u64 - 1)));
        Ok(Some(groups))
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bytes of a path on this system, even if it is not valid UTF-8.
#[cfg(unix)]
pub(crate) fn bytes(path: &Path) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    path.as_os_str().as_bytes().to_vec()
}

/// The path of [`bytes`].
#[cfg(unix)]
pub(crate) fn path(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    OsStr::from_bytes(bytes).into()
}

#[cfg(not(unix))]
pub(crate) fn bytes(path: &Path) -> Vec<u8> {
    path.to_string_lossy().into_owned().into_bytes()
}

#[cfg(not(unix))]
pub(crate) fn path(bytes: &[u8]) -> PathBuf {
    OsStr::new(String::from_utf8_lossy(bytes).as_ref()).into()
}
