//! The four doors and the line `ready`: every change of a job's place goes through one of them, and
//! a job that is active leaves through two.
//!
//! ```text
//!            ready ──────────► admit ──────────► settle ───┬──► end
//!   (enqueue; the line)   (a lane claims)  (out of active) │
//!              ▲                                           │
//!              └─────────────────── back ◄─────────────────┘
//! ```
//!
//! | door | way | who passes it |
//! |---|---|---|
//! | [`ready`] | into the line and along it; out of it without a run | enqueue, what has become due, cancel, delete |
//! | [`admit`] | → `active` | the jobs that a turn claims: of the line, suspects, parked ones |
//! | [`settle`] | out of `active` | every ending, reclaim, cancel, repair |
//! | [`back`] | → `ready`, `scheduled`, `retry`, `parked` again | nack, snooze, repeat, release, park, reclaim, requeue, repair |
//! | [`end`] | → `done`, `dead`, `cancelled`, `expired`, or gone | ack, bury, cancel, expire, delete, eviction, repair |
//!
//! [`edit`] lets a job that waits be another one, which may change its place: out of the line, and
//! into it again.
//!
//! [`keys`] knows which job holds which key: the doors take keys there, and give them back.
//! [`watched`] knows who waits for the end of a job, [`transitions`] who follows a queue.
//! [`groups`] knows which groups may be served, and [`rotation`] which group is next: slots of
//! groups are taken and given back there. [`limits`] does the same for limits. [`tags`] is the
//! index of the tags that jobs have.
//!
//! No other code writes the column `state` of `queue_jobs`, the rows and counters that go with it,
//! or a place in the line: a test of this module reads the sources. So a feature that holds
//! something for a job (a slot) has one place where it is taken and one where it is given back.
//!
//! [`Leaving`] is the proof that a job has left its place: only doors make one, and `back` and
//! `end` take it.

pub(crate) mod admit;
pub(crate) mod aging;
pub(crate) mod back;
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
pub(crate) mod rotation;
pub(crate) mod row;
mod rules;
pub(crate) mod settle;
pub(crate) mod tags;
pub(crate) mod transitions;
mod virtual_time;
pub(crate) mod watched;

use rusqlite::types::{ToSqlOutput, ValueRef};

use crate::broker::Unreadable;

/// A job between two places: it has left one, by [`settle`] or [`ready`], and `back` or `end` gives
/// it another.
#[derive(Debug)]
#[must_use = "a job that leaves its place needs another one"]
pub(crate) struct Leaving<'a> {
    /// The stored value, which another program may have replaced by an invalid id.
    id: ValueRef<'a>,
    /// The digest of a given id.
    digest: Option<i64>,
    /// What the column of failures held when the job left `active`.
    failures: Option<Vec<u8>>,
    /// Which releases could not read the job when it left `active`.
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
