//! What the writer thread is given: an operation, what its commit has to be, and who waits for its
//! result.

use tokio::sync::oneshot;

use super::tx::{Failed, Tx};
use crate::error::{Error, Result};

/// What an operation's commit has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commit {
    /// It adds jobs of this number of bytes: a promise like the next, and refused when the disk is
    /// full.
    Jobs(usize),
    /// The same for a caller who asked for it to be on disk, whatever the database's durability.
    ConfirmedJobs(usize),
    /// The answer is a promise: on disk before it, unless the database's durability is less.
    Synced,
    /// Safe from the end of the process at once, and on disk with the next synced commit. For what
    /// the end of the machine undoes anyway: claims, leases, names. The log keeps the order, so
    /// that no later commit survives without it.
    Soon,
    /// It adds this number of bytes, which no caller is promised: as `Soon`, and refused when the
    /// disk is full.
    Extra(usize),
}

impl Commit {
    /// How many bytes it adds that a full disk has no room for.
    pub(crate) fn added(self) -> Option<usize> {
        match self {
            Commit::Jobs(bytes) | Commit::ConfirmedJobs(bytes) | Commit::Extra(bytes) => Some(bytes),
            Commit::Synced | Commit::Soon => None,
        }
    }
}

/// What is done in a transaction. It may be run again: when another of its group was refused, or
/// the disk turned out to be full.
pub(crate) trait Op: Send {
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), Failed>;
    fn commit(&self) -> Commit;
    /// Answers the caller, after the commit or the failure.
    fn answer(self: Box<Self>, failure: Option<Error>);
}

/// What a caller who waits for its result wants done.
pub(crate) struct Call<T, F> {
    work: F,
    commit: Commit,
    result: Option<T>,
    caller: oneshot::Sender<Result<T>>,
}

impl<T: Send, F: FnMut(&mut Tx<'_>) -> Result<T, Failed> + Send> Call<T, F> {
    pub(crate) fn new(work: F, commit: Commit, caller: oneshot::Sender<Result<T>>) -> Self {
        Call { work, commit, result: None, caller }
    }
}

impl<T: Send, F: FnMut(&mut Tx<'_>) -> Result<T, Failed> + Send> Op for Call<T, F> {
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), Failed> {
        self.result = Some((self.work)(tx)?);
        Ok(())
    }

    fn commit(&self) -> Commit {
        self.commit
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
