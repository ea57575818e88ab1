//! The writer thread: one connection, and a commit for everything that gathered while the last one ran.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rusqlite::{Connection, ErrorCode};
use tokio::sync::{mpsc, oneshot};

use super::{
    ballast::Ballast,
    doorbell::Bell,
    schema,
    tx::{Failed, Tx},
};
use crate::{
    broker::CALL_DEADLINE,
    error::{Error, Result},
};

/// A commit takes in no more operations than this, and none after this time.
const GROUP: usize = 256;
const GROUP_TIME: Duration = Duration::from_millis(20);

/// What is done in a transaction. It may be run twice: when the disk turns out to be full, the group is tried again.
trait Op: Send {
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), Failed>;
    /// Whether it adds jobs, which a full disk refuses.
    fn adds(&self) -> bool;
    /// Answers the caller, after the commit or the failure.
    fn answer(self: Box<Self>, failure: Option<Error>);
}

struct Call<T, F> {
    work: F,
    adds: bool,
    result: Option<T>,
    caller: oneshot::Sender<Result<T>>,
}

impl<T: Send, F: FnMut(&mut Tx<'_>) -> Result<T, Failed> + Send> Op for Call<T, F> {
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), Failed> {
        self.result = Some((self.work)(tx)?);
        Ok(())
    }

    fn adds(&self) -> bool {
        self.adds
    }

    fn answer(self: Box<Self>, failure: Option<Error>) {
        let result = match failure {
            Some(error) => Err(error),
            None => self.result.ok_or_else(|| Error::Internal("an operation was committed without a result".to_owned())),
        };
        // A caller that was dropped has no use for the answer.
        let _ = self.caller.send(result);
    }
}

/// The way to a database thread.
#[derive(Clone)]
pub(super) struct Writer {
    ops: mpsc::UnboundedSender<Box<dyn Op>>,
    shown: String,
}

impl Writer {
    /// Opens the database on a thread of its own. `bell` rings for what was committed.
    pub(super) fn start(path: Option<&Path>, bell: Bell) -> Result<Self> {
        let shown = path.map_or_else(|| ":memory:".to_owned(), |path| path.display().to_string());
        let at = path.map(Path::to_owned);
        let ballast = Ballast::of(path);
        start("queue-sqlite-writer", shown, move || schema::open_writer(at.as_deref()), "BEGIN IMMEDIATE", bell, ballast)
    }

    /// Opens it for reading alone. Its operations see one snapshot each and write nothing.
    pub(super) fn start_reader(path: &Path) -> Result<Self> {
        let at = path.to_owned();
        start(
            "queue-sqlite-reader",
            path.display().to_string(),
            move || schema::open_reader(&at),
            "BEGIN",
            Bell::silent(),
            Ballast::of(None),
        )
    }

    /// Runs `work` in a transaction, together with what else is there, and answers after the commit.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        adds: bool,
        work: impl FnMut(&mut Tx<'_>) -> Result<T, Failed> + Send + 'static,
    ) -> Result<T> {
        let (caller, answer) = oneshot::channel();
        let gone = || Error::Unavailable { broker: self.shown.clone(), problem: "its thread has ended".to_owned() };
        self.ops.send(Box::new(Call { work, adds, result: None, caller })).map_err(|_| gone())?;
        match tokio::time::timeout(CALL_DEADLINE, answer).await {
            Ok(answer) => answer.map_err(|_| gone())?,
            Err(_) => Err(Error::Ambiguous { broker: self.shown.clone(), after: CALL_DEADLINE }),
        }
    }
}

fn start(
    name: &str,
    shown: String,
    open: impl FnOnce() -> Result<Connection> + Send + 'static,
    begin: &'static str,
    bell: Bell,
    ballast: Ballast,
) -> Result<Writer> {
    let (ops, receiver) = mpsc::unbounded_channel();
    let (opened, opening) = std::sync::mpsc::channel();
    let location = shown.clone();
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || match open() {
            Ok(connection) => {
                let _ = opened.send(Ok(()));
                Group { connection, begin, location, bell, ballast }.run(receiver);
            }
            Err(error) => drop(opened.send(Err(error))),
        })
        .map_err(|error| Error::Config(format!("cannot start the thread {name}: {error}")))?;
    let ended = || Error::Config(format!("the thread {name} ended while it opened {shown}"));
    opening.recv().map_err(|_| ended())??;
    Ok(Writer { ops, shown })
}

struct Group {
    connection: Connection,
    /// A reader must not ask for the write lock.
    begin: &'static str,
    location: String,
    bell: Bell,
    ballast: Ballast,
}

impl Group {
    /// Ends when the last handle is gone.
    fn run(mut self, mut receiver: mpsc::UnboundedReceiver<Box<dyn Op>>) {
        while let Some(first) = receiver.blocking_recv() {
            self.commit_group(first, &mut receiver);
        }
    }

    fn commit_group(&mut self, first: Box<dyn Op>, receiver: &mut mpsc::UnboundedReceiver<Box<dyn Op>>) {
        let mut answers: Vec<(Box<dyn Op>, Option<Error>)> = Vec::new();
        let until = Instant::now() + GROUP_TIME;
        let room = self.ballast.aboard();
        let mut next = Some(first);
        let outcome = self.transaction(|tx, refuse| {
            while let Some(mut op) = next.take() {
                let failure = if op.adds() && !room { Some(refuse()) } else { tx.isolated(|tx| op.run(tx))? };
                answers.push((op, failure));
                if answers.len() < GROUP && Instant::now() < until {
                    next = receiver.try_recv().ok();
                }
            }
            Ok(())
        });
        // The operation that met the full disk was not pushed yet.
        answers.extend(next.map(|op| (op, None)));
        match outcome {
            Ok(()) => {}
            Err(error) if is_full(&error) => {
                self.ballast.drop_it();
                self.commit_without_adding(&mut answers);
            }
            Err(error) => {
                let error = self.told(&error);
                answers.iter_mut().for_each(|(_, failure)| *failure = Some(error.duplicate()));
            }
        }
        for (op, failure) in answers {
            op.answer(failure);
        }
    }

    /// The group once more after the disk was full: without the enqueues, in the room that the ballast gave.
    fn commit_without_adding(&mut self, answers: &mut [(Box<dyn Op>, Option<Error>)]) {
        let outcome = self.transaction(|tx, refuse| {
            for (op, failure) in &mut *answers {
                *failure = if op.adds() { Some(refuse()) } else { tx.isolated(|tx| op.run(tx))? };
            }
            Ok(())
        });
        if let Err(error) = outcome {
            let error = self.told(&error);
            answers.iter_mut().filter(|(op, _)| !op.adds()).for_each(|(_, failure)| *failure = Some(error.duplicate()));
        }
    }

    /// Begins, works, commits, rings; rolls back on any error.
    fn transaction(&mut self, work: impl FnOnce(&mut Tx<'_>, &dyn Fn() -> Error) -> rusqlite::Result<()>) -> rusqlite::Result<()> {
        let location = self.location.clone();
        let full = move || Error::BrokerFull { broker: location.clone(), problem: "the disk is full".to_owned() };
        self.connection.prepare_cached(self.begin)?.execute([])?;
        let mut tx = Tx::new(&self.connection);
        let outcome = work(&mut tx, &full).and_then(|()| tx.finish()).and_then(|hints| {
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
                    // After this failure there is nothing left to undo, or SQLite has undone it.
                    let _ = self.connection.execute_batch("ROLLBACK");
                }
                Err(error)
            }
        }
    }

    fn told(&self, error: &rusqlite::Error) -> Error {
        let broker = self.location.clone();
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Error::Unavailable { broker, problem: "another process holds its write lock".to_owned() }
            }
            Some(ErrorCode::DiskFull) => Error::Unavailable { broker, problem: "the disk is full, and its ballast is spent".to_owned() },
            _ => Error::Unavailable { broker, problem: error.to_string() },
        }
    }
}

fn is_full(error: &rusqlite::Error) -> bool {
    // A disk that is full shows as an I/O error, too, when the write-ahead log cannot grow its index.
    matches!(error.sqlite_error_code(), Some(ErrorCode::DiskFull))
}
