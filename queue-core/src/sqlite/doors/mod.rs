//! The four doors and the line `ready`. Every change of a job's place goes through one of them, and
//! a job that leaves `active` goes through two.
//!
//! ```text
//!            ready ──────────► admit ──────────► settle ───┬──► end
//!   (enqueue; the line)   (a lane claims)  (out of active) │
//!              ▲                                           │
//!              └──────────────── return_jobs ◄─────────────┘
//! ```
//!
//! | door | way | passing jobs |
//! |---|---|---|
//! | [`ready`] | into the line; out of it without a run | enqueued and due jobs; cancel, delete |
//! | [`admit`] | → `active` | the jobs that a turn claims: of the line, suspects, parked ones |
//! | [`settle`] | out of `active` | every ending, reclaim, cancel, repair |
//! | [`return_jobs`] | → `ready`, `scheduled`, `retry`, `parked` again | nack, snooze, repeat, release, park, reclaim, requeue, repair |
//! | [`end`] | → `done`, `dead`, `cancelled`, `expired`, or gone | ack, bury, cancel, expire, delete, eviction, repair |
//!
//! [`edit`] changes a waiting job. If its place changes, the job leaves the line and joins it
//! again.
//!
//! [`keys`] has the holders of unique keys: the doors acquire and release them there. [`watched`]
//! has the callers that wait for the end of a job, and [`transitions`] the watchers of a queue.
//! [`groups`] has the groups that may be served, and [`rotation`] selects the next one: slots of
//! groups are acquired and released there. [`limits`] does the same for limits. [`tags`] is the
//! index of tags.
//!
//! Only the doors write the column `state` of `queue_jobs`, the rows and counters that belong to
//! it, and places in the line. A test of this module checks the sources. For this reason a feature
//! that holds a resource for a job (a slot) has one place where it is acquired and one where it is
//! released.
//!
//! [`Leaving`] is the proof that a job has left its place: only doors create one, and `return_jobs`
//! and `end` consume it.

pub(crate) mod admit;
pub(crate) mod aging;
mod chains;
pub(crate) mod edit;
pub(crate) mod end;
pub(crate) mod groups;
pub(crate) mod keys;
pub(crate) mod ledger;
pub(crate) mod limits;
pub(crate) mod page;
pub(crate) mod pauses;
pub(crate) mod ready;
pub(crate) mod return_jobs;
pub(crate) mod rotation;
pub(crate) mod row;
mod rules;
pub(crate) mod settle;
pub(crate) mod tags;
pub(crate) mod transitions;
pub(crate) mod turns;
mod virtual_time;
pub(crate) mod watched;

use rusqlite::types::{ToSqlOutput, ValueRef};

use crate::broker::Unreadable;

/// A job between two places: [`settle`] or [`ready`] has removed it from one, and `return_jobs` or
/// `end` puts it into another.
#[derive(Debug)]
#[must_use = "a job that leaves its place needs another one"]
pub(crate) struct Leaving<'a> {
    /// The stored value, which another program may have replaced by an invalid id.
    id: ValueRef<'a>,
    /// The digest of a given id.
    digest: Option<i64>,
    /// The column of failures at the time at which the job left `active`.
    failures: Option<Vec<u8>>,
    /// The releases that could not read the job when it left `active`.
    unreadable: Option<Unreadable>,
}

impl<'a> Leaving<'a> {
    /// A job of which only the id matters.
    fn only(id: impl Into<ValueRef<'a>>) -> Self {
        Leaving { id: id.into(), digest: None, failures: None, unreadable: None }
    }

    /// The id as a parameter of a statement.
    fn id(&self) -> ToSqlOutput<'a> {
        ToSqlOutput::Borrowed(self.id)
    }

    /// The same for the statement that gives the job its next place.
    fn arrives(self) -> ToSqlOutput<'a> {
        self.id()
    }
}

#[cfg(test)]
mod tests;
