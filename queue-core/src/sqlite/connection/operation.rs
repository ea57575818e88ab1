//! The input of the writer thread: an operation, its required commit, and the caller that waits for
//! the result.

use tokio::sync::oneshot;

use super::tx::{Failed, Tx};
use crate::error::{Error, Result};

/// The required commit of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commit {
    /// It adds jobs of this number of bytes. The answer is a promise as in `Synced`, and the
    /// operation is refused when the disk is full.
    Jobs(usize),
    /// The same for a caller that requires the jobs to be on disk, even if the database's
    /// durability is lower.
    ConfirmedJobs(usize),
    /// The answer is a promise: the commit is on disk first, unless the database's durability is
    /// lower.
    Synced,
    /// The commit survives the end of the process at once, and is on disk with the next synced
    /// commit. For data that the end of the machine invalidates anyway: claims, leases, names.
    /// Because the log keeps the order, no later commit survives without this one.
    Soon,
    /// It adds this number of bytes without a promise to the caller: as `Soon`, but refused when
    /// the disk is full.
    Extra(usize),
}

impl Commit {
    /// The number of bytes that it adds, for which a full disk has no room.
    pub(crate) fn added(self) -> Option<usize> {
        match self {
            Commit::Jobs(bytes) | Commit::ConfirmedJobs(bytes) | Commit::Extra(bytes) => Some(bytes),
            Commit::Synced | Commit::Soon => None,
        }
    }
}

/// An operation in a transaction. It may be run again if another operation of its group was
/// refused, or if the disk was full.
pub(crate) trait Op: Send {
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), Failed>;
    fn commit(&self) -> Commit;
    /// Answers the caller, after the commit or the failure.
    fn answer(self: Box<Self>, failure: Option<Error>);
}

/// The work of a caller that waits for its result.
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
        // A dropped caller does not need the answer.
        let _ = self.caller.send(result);
    }
}
