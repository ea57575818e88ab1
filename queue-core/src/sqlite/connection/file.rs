//! Detects that the path of a database leads to another file than the open one.
//!
//! SQLite continues with its open file when that is deleted, moved or replaced. Jobs would be
//! stored in a file that no worker uses. The write-ahead log is found by its name, so it would be
//! next to another database. For this reason device and inode of the path are compared with those
//! of the open file, before each commit and after a commit that has to be durable. If they differ,
//! this process stops to write to the old file and its log, and every call gets
//! [`Error::Unavailable`]. When the connection is closed, SQLite neither merges nor deletes the log
//! of a file that has moved. This process does not create a new file in place of a missing one.
//! When the path has a database again, the process opens it. It may be the old file, or another one
//! in which this process is not registered.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use rusqlite::Connection;

use super::{owners, schema};
use crate::error::{Error, Result};

/// The use of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// The writer, which creates a missing file.
    Make,
    /// The writer of a program that only inspects: the database has to exist.
    Existing,
    /// The reader, in addition to a writer of this process.
    Read,
}

/// Why the file cannot be used; `None` while it can. The writer sets it, and the condition of the
/// broker reports it.
pub(crate) type Lost = Arc<Mutex<Option<String>>>;

/// The file of a connection.
#[derive(Debug)]
pub(crate) struct File {
    path: PathBuf,
    access: Access,
    /// Its identity when it was opened; `None` if the file system does not report the same identity
    /// twice.
    database: Option<Identity>,
    /// Its write-ahead log and the index of the log, with their identities at that time.
    beside: Vec<(PathBuf, Identity)>,
    lost: bool,
    reported: Lost,
}

/// Distinguishes a file from all others that exist at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

/// The result of reading the metadata of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum There {
    Nothing,
    File(Identity),
    /// The file system does not answer.
    Unknown,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checked {
    Same,
    /// The connection was replaced.
    Reopened,
}

/// Why there is no usable database.
struct Problem {
    problem: String,
    /// Another process may be creating a database now.
    making: bool,
}

const ADVICE: &str = "move it back before you start or restart a worker, which would create an empty database";

/// The number of tries before the identity of a path counts as unstable. A layered file system
/// gives a file another inode when it is first opened for writing.
const LOOKS: usize = 3;

impl File {
    /// Opens the database at a path, and stores the identity of the file.
    pub(crate) fn open(path: &Path, access: Access, reported: Lost) -> Result<(Connection, File)> {
        let mut file = File { path: path.to_owned(), access, database: None, beside: Vec::new(), lost: false, reported };
        if access == Access::Make {
            schema::make_file(path)?;
        }
        let connection = file.connect()?;
        Ok((connection, file))
    }

    fn connect(&mut self) -> Result<Connection> {
        owners::check(&self.path)?;
        let mut before = look_up(&self.path);
        for look in 1.. {
            let connection = match self.access {
                Access::Make if !self.lost => schema::open_writer(Some(&self.path))?,
                Access::Make | Access::Existing => schema::open_existing(&self.path)?,
                Access::Read => schema::open_reader(&self.path)?,
            };
            let after = look_up(&self.path);
            if before == after || look == LOOKS {
                self.database = match after {
                    There::File(identity) if before == after => Some(identity),
                    _ => None,
                };
                self.beside = existing_logs(&self.path);
                return Ok(connection);
            }
            before = after;
        }
        unreachable!("the last look returns")
    }

    /// Whether the path leads to the open file. If the file system does not answer, this is
    /// assumed.
    pub(crate) fn exists_at_path(&self) -> bool {
        match look_up(&self.path) {
            There::Nothing => false,
            There::File(found) => self.database.is_none_or(|opened| found == opened),
            There::Unknown => true,
        }
    }

    /// Checks the file. If it is gone, `connection` is not used any more. If the path has a
    /// database again, it becomes a connection to that.
    ///
    /// # Errors
    /// [`Error::Unavailable`] while there is no database.
    pub(crate) fn check(&mut self, connection: &mut Connection) -> Result<Checked> {
        if !self.lost && self.exists_at_path() {
            return Ok(Checked::Same);
        }
        self.lost = true;
        match self.reopen() {
            Ok(new) => {
                // The old connection was kept until now: while it is open, no other file can have
                // its inode.
                *connection = new;
                self.lost = false;
                self.report(None, false);
                Ok(Checked::Reopened)
            }
            Err(Problem { problem, making }) => {
                self.report(Some(&problem), making);
                Err(Error::unavailable(schema::display_path(Some(&self.path)), problem))
            }
        }
    }

    fn reopen(&mut self) -> Result<Connection, Problem> {
        let (old, found) = (self.database, look_up(&self.path));
        let lost = |problem: String| Err(Problem { problem, making: false });
        if found == There::Nothing {
            return lost(format!("its file was deleted or moved while it was open; {ADVICE}"));
        }
        let is_old = matches!((found, old), (There::File(found), Some(old)) if found == old);
        // SQLite would apply the log of another database to this one, which would corrupt it.
        let left = existing_logs(&self.path).into_iter().find(|log| !is_old && self.beside.contains(log));
        if let Some((log, _)) = left {
            let log = log.display();
            return lost(format!(
                "its file was replaced while it was open, and {log} still belongs to the old file; stop all processes that use this database, remove its -wal and -shm, and start them again"
            ));
        }
        let connection = match self.connect() {
            Ok(connection) => connection,
            Err(Error::NoDatabase { problem, .. }) => {
                let problem = format!(
                    "its file was deleted or moved while it was open, and the file at its path is not a database of this library ({problem}); {ADVICE}"
                );
                return Err(Problem { problem, making: true });
            }
            Err(error) => return lost(format!("its file was replaced while it was open, by one that cannot be used: {error}")),
        };
        if self.access != Access::Read {
            if is_old {
                tracing::warn!(broker = %self.path.display(), "the database file is back and is used again");
            } else {
                tracing::warn!(
                    broker = %self.path.display(),
                    "the database file was replaced and the new file was opened: it lacks the jobs of the old file, and their leases are lost"
                );
            }
        }
        Ok(connection)
    }

    /// Reports a problem once in the log, and in the condition of the broker.
    fn report(&self, problem: Option<&str>, making: bool) {
        if self.access == Access::Read {
            return;
        }
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        match (problem, reported.as_deref()) {
            (Some(problem), None) => {
                tracing::error!(broker = %self.path.display(), "the database is lost, all reads and writes fail: {problem}");
            }
            // A file that is being created has no queue yet. The next check reports its final
            // state.
            (Some(problem), Some(before)) if problem != before && !making => {
                tracing::warn!(broker = %self.path.display(), "the database is still lost: {problem}");
            }
            _ => {}
        }
        *reported = problem.map(str::to_owned);
    }
}

/// The file at a path, after all links.
fn look_up(path: &Path) -> There {
    match fs::metadata(path) {
        Ok(found) => There::File(identity(&found)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::StaleNetworkFileHandle) => {
            There::Nothing
        }
        Err(_) => There::Unknown,
    }
}

/// The write-ahead log of a database and its index, if they exist. SQLite creates them next to the
/// file itself, not next to a link.
fn existing_logs(path: &Path) -> Vec<(PathBuf, Identity)> {
    let logs = logs_of(path);
    logs.into_iter().filter_map(|log| if let There::File(found) = look_up(&log) { Some((log, found)) } else { None }).collect()
}

/// The paths of the write-ahead log of a database and of its index.
pub(crate) fn logs_of(path: &Path) -> [PathBuf; 2] {
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    ["-wal", "-shm"].map(|end| {
        let mut name = real.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    })
}

#[cfg(unix)]
fn identity(found: &fs::Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;
    Identity { device: found.dev(), inode: found.ino() }
}

/// On this system an open file can be neither deleted nor moved.
#[cfg(not(unix))]
fn identity(_: &fs::Metadata) -> Identity {
    Identity { device: 0, inode: 0 }
}

#[cfg(all(test, unix))]
mod tests {
    use super::{
        super::{
            ballast::Ballast,
            doorbell::Bell,
            operation::Commit,
            writer::{Opened, Writer},
        },
        *,
    };
    use crate::broker::Durability;

    #[tokio::test]
    async fn a_promise_is_not_given_for_a_file_that_goes_during_its_commit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("queue.db");
        let (connection, file) = File::open(&path, Access::Make, Lost::default()).unwrap();
        let opened = Opened { connection, file: Some(file), location: "here".to_owned() };
        let (writer, thread) = Writer::start(opened, Ballast::none(), Durability::PowerLoss, Bell::silent()).unwrap();
        let moved = folder.path().join("moved.db");
        let answer = writer
            .call(Commit::Jobs(1), {
                let path = path.clone();
                move |tx| {
                    tx.queue_or_create("orders")?;
                    fs::rename(&path, &moved).expect("it is there");
                    Ok(())
                }
            })
            .await;
        assert!(matches!(answer, Err(Error::Ambiguous { .. })), "{answer:?}");
        let next = writer.call(Commit::Soon, |_| Ok(())).await;
        assert!(matches!(next, Err(Error::Unavailable { .. })), "{next:?}");
        drop(writer);
        thread.join().unwrap();
    }
}
