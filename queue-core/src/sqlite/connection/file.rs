//! Whether the path of a database still leads to the file that is open.
//!
//! SQLite continues with its open file when that is deleted, moved or replaced: jobs would be
//! stored where no worker runs them, and the write-ahead log, which is found by its name, would
//! come to lie beside a database that it does not belong to. So device and inode of the path are
//! compared with those of the open file before each commit and after one that is a promise. From
//! the moment on which they differ, this process writes nothing to the old file, nor to its log,
//! and every call is answered [`Error::Unavailable`]. SQLite itself neither merges nor removes the
//! log of a file that has moved, when its connection is closed. This process makes no new file
//! where one has vanished. When there is a database at the path again, it is opened: the old file,
//! put back, or another one, in which this process is not registered.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use rusqlite::Connection;

use super::{owners, schema};
use crate::error::{Error, Result};

/// How a connection of ours is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// By the writer, which makes the file if it is missing.
    Make,
    /// By the writer, to a database that has to be there: by those who only look.
    Existing,
    /// By the reader, beside a writer of this process.
    Read,
}

/// Why the file cannot be used; nothing while it can. Set by the writer, read by those who ask how
/// the broker is.
pub(crate) type Lost = Arc<Mutex<Option<String>>>;

/// The file of a connection.
#[derive(Debug)]
pub(crate) struct File {
    path: PathBuf,
    access: Access,
    /// Which it was when it was opened; nothing where the file system does not answer the same
    /// twice.
    database: Option<Identity>,
    /// Its write-ahead log and the index of that, as they were then.
    beside: Vec<(PathBuf, Identity)>,
    lost: bool,
    reported: Lost,
}

/// What distinguishes a file from all others that exist at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum There {
    Nothing,
    File(Identity),
    /// The file system gives no answer.
    Unknown,
}

/// What came of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checked {
    Same,
    /// The connection is another one than before.
    Reopened,
}

/// Why there is no usable database.
struct Problem {
    problem: String,
    /// Another process may be creating one now.
    making: bool,
}

const ADVICE: &str = "move it back before you start or restart a worker, which would create an empty database";

/// How often a path is looked at before it is said not to answer the same twice. A layered file
/// system gives a file another inode when it is first opened for writing.
const LOOKS: usize = 3;

impl File {
    /// Opens the database at a path, and notes which file that is.
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
        let mut before = there(&self.path);
        for look in 1.. {
            let connection = match self.access {
                Access::Make if !self.lost => schema::open_writer(Some(&self.path))?,
                Access::Make | Access::Existing => schema::open_existing(&self.path)?,
                Access::Read => schema::open_reader(&self.path)?,
            };
            let after = there(&self.path);
            if before == after || look == LOOKS {
                self.database = match after {
                    There::File(identity) if before == after => Some(identity),
                    _ => None,
                };
                self.beside = beside(&self.path);
                return Ok(connection);
            }
            before = after;
        }
        unreachable!("the last look returns")
    }

    /// Whether the path leads to the open file. A file system that does not answer is believed to
    /// have it.
    pub(crate) fn is_there(&self) -> bool {
        match there(&self.path) {
            There::Nothing => false,
            There::File(found) => self.database.is_none_or(|opened| found == opened),
            There::Unknown => true,
        }
    }

    /// Looks where the file is. If it has gone, `connection` is not used any more; if there is a
    /// database at its path again, it becomes a connection to that.
    ///
    /// # Errors
    /// [`Error::Unavailable`] while there is none.
    pub(crate) fn check(&mut self, connection: &mut Connection) -> Result<Checked> {
        if !self.lost && self.is_there() {
            return Ok(Checked::Same);
        }
        self.lost = true;
        match self.reopen() {
            Ok(new) => {
                // The old one was kept until now: while it is open, no other file can have its
                // inode.
                *connection = new;
                self.lost = false;
                self.report(None, false);
                Ok(Checked::Reopened)
            }
            Err(Problem { problem, making }) => {
                self.report(Some(&problem), making);
                Err(Error::unavailable(schema::shown(Some(&self.path)), problem))
            }
        }
    }

    fn reopen(&mut self) -> Result<Connection, Problem> {
        let (old, found) = (self.database, there(&self.path));
        let lost = |problem: String| Err(Problem { problem, making: false });
        if found == There::Nothing {
            return lost(format!("its file was deleted or moved while it was open; {ADVICE}"));
        }
        let is_old = matches!((found, old), (There::File(found), Some(old)) if found == old);
        // The log of another database would be taken for that of this one, and destroy it.
        let left = beside(&self.path).into_iter().find(|log| !is_old && self.beside.contains(log));
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

    /// Reports it in the log, once, and in the condition of the broker.
    fn report(&self, problem: Option<&str>, making: bool) {
        if self.access == Access::Read {
            return;
        }
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        match (problem, reported.as_deref()) {
            (Some(problem), None) => {
                tracing::error!(broker = %self.path.display(), "the database is lost, all reads and writes fail: {problem}");
            }
            // A file that is being made has no queue in it yet. Its final state is reported by the
            // next check.
            (Some(problem), Some(before)) if problem != before && !making => {
                tracing::warn!(broker = %self.path.display(), "the database is still lost: {problem}");
            }
            _ => {}
        }
        *reported = problem.map(str::to_owned);
    }
}

/// What is at a path, behind all links.
fn there(path: &Path) -> There {
    match fs::metadata(path) {
        Ok(found) => There::File(identity(&found)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::StaleNetworkFileHandle) => {
            There::Nothing
        }
        Err(_) => There::Unknown,
    }
}

/// The write-ahead log of a database and its index, as far as they exist. SQLite puts them beside
/// the file itself, not beside a link.
fn beside(path: &Path) -> Vec<(PathBuf, Identity)> {
    let logs = logs_of(path);
    logs.into_iter().filter_map(|log| if let There::File(found) = there(&log) { Some((log, found)) } else { None }).collect()
}

/// Where the write-ahead log of a database is, and the index of that.
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

/// Here an open file can be neither deleted nor moved.
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
                    tx.queue_made("orders")?;
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
