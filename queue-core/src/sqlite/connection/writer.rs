//! The writer thread: one connection, and one commit for all operations that arrived during the
//! previous commit.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rusqlite::{Connection, ErrorCode};
use tokio::sync::{mpsc, oneshot};

use super::{
    ballast::Ballast,
    busy,
    doorbell::Bell,
    file::{Checked, File},
    operation::{Call, Commit, Op},
    schema,
    tx::{Failed, Tx},
};
use crate::{
    broker::{CALL_DEADLINE, Durability},
    error::{Error, Result},
};

/// A commit includes at most this number of operations. It accepts no further ones after this time,
/// or when it has this number of bytes of jobs.
const GROUP: usize = 256;
const GROUP_TIME: Duration = Duration::from_millis(20);
const GROUP_BYTES: usize = 2 * 1024 * 1024;

/// The handle of a database thread. The thread ends after the last clone is dropped, when it has
/// completed its operations.
#[derive(Clone)]
pub(crate) struct Writer {
    ops: mpsc::UnboundedSender<Box<dyn Op>>,
    shown: String,
    /// A database without a thread: callers run their own operations.
    own: Option<Own>,
}

/// Begins a read-only transaction. Its first statement takes the snapshot.
const READ: &str = "BEGIN";

type Own = Arc<Mutex<(Group, mpsc::UnboundedReceiver<Box<dyn Op>>)>>;

impl Writer {
    /// Starts a thread for an opened database. `bell` announces what was committed. Commits that
    /// have to survive a power loss are synced before their answers.
    pub(crate) fn start(opened: Opened, ballast: Ballast, durability: Durability, bell: Bell) -> Result<(Self, JoinHandle<()>)> {
        start("queue-sqlite-writer", Group::writing(opened, ballast, durability, bell))
    }

    /// The same without a thread, for the database in memory of one test: each caller runs its own
    /// operation, and does not wait for other callers.
    pub(crate) fn inline(opened: Opened, bell: Bell) -> Self {
        let (ops, receiver) = mpsc::unbounded_channel();
        let group = Group::writing(opened, Ballast::none(), Durability::Volatile, bell);
        Writer { ops, shown: group.location.clone(), own: Some(Arc::new(Mutex::new((group, receiver)))) }
    }

    /// The same for a connection that only reads. An operation sees everything that was committed
    /// before it was requested.
    pub(crate) fn start_reader(opened: Opened) -> Result<(Self, JoinHandle<()>)> {
        let Opened { connection, file, location } = opened;
        let group = Group {
            connection,
            file,
            begin: READ,
            location,
            bell: Bell::silent(),
            ballast: Ballast::none(),
            roomy: true,
            durability: Durability::Volatile,
            syncs: true,
            waiting: VecDeque::new(),
        };
        start("queue-sqlite-reader", group)
    }

    /// Runs `work` in a transaction, together with other waiting operations, and answers after the
    /// commit.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        commit: Commit,
        work: impl FnMut(&mut Tx<'_>) -> Result<T, Failed> + Send + 'static,
    ) -> Result<T> {
        self.call_until(None, commit, work).await
    }

    /// The same for a caller that waits at most until then. The operation is carried out even if
    /// the caller has stopped waiting.
    pub(crate) async fn call_until<T: Send + 'static>(
        &self,
        until: Option<Instant>,
        commit: Commit,
        work: impl FnMut(&mut Tx<'_>) -> Result<T, Failed> + Send + 'static,
    ) -> Result<T> {
        let (caller, answer) = oneshot::channel();
        let gone = || Error::unavailable(&self.shown, "its thread has ended");
        self.ops.send(Box::new(Call::new(work, commit, caller))).map_err(|_| gone())?;
        if let Some(own) = &self.own {
            {
                let mut own = own.lock().unwrap_or_else(PoisonError::into_inner);
                let (group, receiver) = &mut *own;
                group.commit_waiting(receiver);
            }
            return answer.await.map_err(|_| gone())?;
        }
        let wait = until.map_or(CALL_DEADLINE, |until| until.saturating_duration_since(Instant::now()).min(CALL_DEADLINE));
        match tokio::time::timeout(wait, answer).await {
            Ok(answer) => answer.map_err(|_| gone())?,
            Err(_) => Err(Error::ambiguous(
                &self.shown,
                format!("its writer has been busy, or another process has held its lock, for {wait:.1?}"),
            )),
        }
    }
}

fn start(name: &str, group: Group) -> Result<(Writer, JoinHandle<()>)> {
    let (ops, receiver) = mpsc::unbounded_channel();
    let shown = group.location.clone();
    let thread = thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || group.run(receiver))
        .map_err(|error| Error::Config(format!("cannot start the thread {name}: {error}")))?;
    Ok((Writer { ops, shown, own: None }, thread))
}

/// An opened database.
pub(crate) struct Opened {
    pub(crate) connection: Connection,
    /// `None` for a database in memory.
    pub(crate) file: Option<File>,
    pub(crate) location: String,
}

struct Group {
    connection: Connection,
    /// The open file; `None` for a database in memory.
    file: Option<File>,
    /// A reader must not request the write lock.
    begin: &'static str,
    location: String,
    bell: Bell,
    ballast: Ballast,
    /// Whether the ballast existed at the last check.
    roomy: bool,
    durability: Durability,
    /// Whether commits of this connection currently wait for the disk.
    syncs: bool,
    waiting: VecDeque<Box<dyn Op>>,
}

impl Group {
    /// For a connection that writes.
    fn writing(opened: Opened, ballast: Ballast, durability: Durability, bell: Bell) -> Self {
        let Opened { connection, file, location } = opened;
        Group {
            connection,
            file,
            begin: "BEGIN IMMEDIATE",
            location,
            bell,
            ballast,
            roomy: true,
            durability,
            syncs: true,
            waiting: VecDeque::new(),
        }
    }

    /// Commits the waiting operations.
    fn commit_waiting(&mut self, receiver: &mut mpsc::UnboundedReceiver<Box<dyn Op>>) {
        while !self.waiting.is_empty() || !receiver.is_empty() {
            self.commit_group(receiver);
        }
    }

    /// Ends when the last handle is dropped.
    fn run(mut self, mut receiver: mpsc::UnboundedReceiver<Box<dyn Op>>) {
        while !self.waiting.is_empty() || self.wait(&mut receiver) {
            self.commit_group(&mut receiver);
        }
    }

    fn wait(&mut self, receiver: &mut mpsc::UnboundedReceiver<Box<dyn Op>>) -> bool {
        self.waiting.extend(receiver.blocking_recv());
        !self.waiting.is_empty()
    }

    fn commit_group(&mut self, receiver: &mut mpsc::UnboundedReceiver<Box<dyn Op>>) {
        while self.waiting.len() < GROUP
            && let Ok(op) = receiver.try_recv()
        {
            self.waiting.push_back(op);
        }
        if let Err(error) = self.find_file() {
            self.waiting.drain(..).for_each(|op| op.answer(Some(error.duplicate())));
            return;
        }
        let durability = self.durability;
        let waits = |op: &dyn Op| match op.commit() {
            Commit::Soon | Commit::Extra(_) => false,
            Commit::ConfirmedJobs(_) => true,
            Commit::Jobs(_) | Commit::Synced => durability == Durability::PowerLoss,
        };
        let synced = self.waiting.iter().any(|op| waits(&**op));
        let mut answers: Vec<(Box<dyn Op>, Option<Error>)> = Vec::new();
        let room = self.check_room();
        let mut bytes = 0;
        let only_reads = self.begin == READ;
        let mut waiting = std::mem::take(&mut self.waiting);
        let mut current = None;
        let mut refused = false;
        let mut outcome = self.sync_commits(synced).and_then(|()| {
            self.transaction(|tx, refuse| {
                let until = Instant::now() + GROUP_TIME;
                while answers.is_empty() || answers.len() < GROUP && bytes < GROUP_BYTES && Instant::now() < until {
                    // A read that arrives meanwhile must see the earlier commits of its caller, so
                    // it needs a later snapshot.
                    if waiting.is_empty() && !only_reads {
                        waiting.extend(receiver.try_recv());
                    }
                    // An operation that arrived meanwhile and has to be on disk gets a later
                    // commit.
                    if waiting.front().is_none_or(|op| !synced && waits(&**op)) {
                        break;
                    }
                    current = waiting.pop_front();
                    let Some(op) = &mut current else { break };
                    let failure = match op.commit().added() {
                        Some(_) if !room => Some(refuse()),
                        added => {
                            bytes += added.unwrap_or(0);
                            if let Some(error) = tx.attempt(|tx| op.run(tx))? {
                                refused = true;
                                return Err(error.into());
                            }
                            None
                        }
                    };
                    answers.extend(current.take().map(|op| (op, failure)));
                }
                Ok(())
            })
        });
        // The failed operation was not pushed yet.
        answers.extend(current.map(|op| (op, None)));
        if answers.is_empty() {
            // The transaction did not even begin. All waiting operations fail, so that their
            // callers do not wait for further attempts in turn.
            answers.extend(waiting.drain(..).map(|op| (op, None)));
        }
        self.waiting = waiting;
        if refused {
            outcome = self.commit_with_savepoints(&mut answers, room);
        }
        match outcome {
            Ok(()) => {}
            Err(Failed::Sqlite(error)) if is_full(&error) => {
                self.make_room();
                self.commit_without_adding(&mut answers);
            }
            Err(error) => {
                let error = self.error_of(error);
                answers.iter_mut().for_each(|(_, failure)| *failure = Some(error.duplicate()));
            }
        }
        if answers.iter().any(|(op, _)| op.commit() != Commit::Soon) && self.file.as_ref().is_some_and(|file| !file.exists_at_path()) {
            // The commit is in a file that is no longer at this path. The file may have been moved,
            // and be opened elsewhere.
            let lost = || Error::ambiguous(self.location.clone(), "its file was deleted or moved while the call was carried out");
            answers.iter_mut().filter(|(_, failure)| failure.is_none()).for_each(|(_, failure)| *failure = Some(lost()));
        }
        for (op, failure) in answers {
            op.answer(failure);
        }
    }

    /// Checks whether the database is still at its path. If it was lost, opens the database that is
    /// at the path now.
    fn find_file(&mut self) -> Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        if file.check(&mut self.connection)? == Checked::Reopened {
            // The state of a new connection.
            (self.roomy, self.syncs) = (true, true);
        }
        Ok(())
    }

    /// Repeats the group with a savepoint per operation, so that a refused operation undoes its
    /// writes. Refusals are rare: without them, no pages are copied.
    fn commit_with_savepoints(&mut self, answers: &mut [(Box<dyn Op>, Option<Error>)], room: bool) -> Result<(), Failed> {
        self.transaction(|tx, refuse| {
            for (op, failure) in answers {
                *failure = if !room && op.commit().added().is_some() { Some(refuse()) } else { tx.isolated(|tx| op.run(tx))? };
            }
            Ok(())
        })
    }

    /// Repeats the group after the disk was full, without the enqueues and in the space that the
    /// ballast has freed.
    fn commit_without_adding(&mut self, answers: &mut [(Box<dyn Op>, Option<Error>)]) {
        let outcome = self.commit_with_savepoints(answers, false);
        if let Err(error) = outcome {
            let error = self.error_of(error);
            for (op, failure) in answers {
                // An enqueue is answered that the disk is full, even if another operation caused
                // the failed commit.
                let full = matches!((op.commit().added(), &failure), (Some(_), Some(Error::BrokerFull { .. })));
                *failure = Some(if full { self.full() } else { error.duplicate() });
            }
        }
    }

    /// Sets whether the next commit waits for the disk.
    fn sync_commits(&mut self, synced: bool) -> Result<(), Failed> {
        if synced != self.syncs {
            self.connection.pragma_update(None, "synchronous", if synced { "full" } else { "normal" })?;
            self.syncs = synced;
        }
        Ok(())
    }

    /// Whether there is room for enqueues.
    fn check_room(&mut self) -> bool {
        let roomy = self.ballast.ensure_ballast();
        if roomy != self.roomy {
            self.roomy = roomy;
            // Without the ballast the write-ahead log must stay small: it is merged and restarted
            // all the time.
            let pages = if roomy { schema::CHECKPOINT_PAGES } else { schema::CHECKPOINT_PAGES / 16 };
            if let Err(error) = self.connection.pragma_update(None, "wal_autocheckpoint", pages) {
                tracing::warn!(broker = self.location, %error, "cannot set the checkpoint interval of the write-ahead log");
            }
        }
        roomy
    }

    /// Deletes the ballast, and uses its space to merge the write-ahead log, which can then be
    /// restarted.
    fn make_room(&mut self) {
        if self.ballast.delete_ballast() {
            tracing::warn!(broker = self.location, "the disk is full: new jobs are refused, running jobs can still finish");
        }
        self.check_room();
        // The following commits show whether it succeeded.
        let _ = self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
    }

    /// Begins, works, commits, and announces the result. Rolls back on any error.
    fn transaction(&mut self, work: impl FnOnce(&mut Tx<'_>, &dyn Fn() -> Error) -> Result<(), Failed>) -> Result<(), Failed> {
        let full = || self.full();
        self.connection.prepare_cached(self.begin)?.execute([])?;
        let outcome = schema::read_noted(&self.connection).map_err(Failed::from).and_then(|noted| {
            // A newer library in another process may have upgraded the file.
            schema::check(noted.schema, &self.location)?;
            let mut tx = Tx::new(&self.connection, noted, self.bell.clock());
            work(&mut tx, &full)?;
            let hints = tx.finish()?;
            self.connection.prepare_cached("COMMIT")?.execute([])?;
            Ok(hints)
        });
        match outcome {
            Ok(hints) => {
                self.bell.ring(hints);
                Ok(())
            }
            Err(error) => {
                if !self.connection.is_autocommit() {
                    // After this failure there is nothing to undo, or SQLite has undone it.
                    let _ = self.connection.execute_batch("ROLLBACK");
                }
                Err(error)
            }
        }
    }

    fn full(&self) -> Error {
        Error::BrokerFull { broker: self.location.clone(), problem: "the disk is full".to_owned() }
    }

    fn error_of(&self, error: Failed) -> Error {
        let broker = self.location.clone();
        let error = match error {
            Failed::Refused(error) => return error,
            Failed::Sqlite(error) => error,
        };
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                schema::unavailable(&broker, format!("another process has held its write lock for {:?}", busy::PATIENCE), &error)
            }
            Some(ErrorCode::DiskFull) => schema::unavailable(&broker, "the disk is full, and the reserved space is used up", &error),
            _ => schema::unavailable(&broker, error.to_string(), &error),
        }
    }
}

fn is_full(error: &rusqlite::Error) -> bool {
    // The index of the write-ahead log is a file too. If it cannot grow, SQLite reports an I/O
    // error.
    let index = error.sqlite_error().is_some_and(|error| error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE);
    index || matches!(error.sqlite_error_code(), Some(ErrorCode::DiskFull))
}

#[cfg(test)]
mod tests;
