//! The four doors, and the line `ready` behind them. Nothing else changes the place of a job.
//!
//! ```text
//!             arrive ──► ┌─────────────┐       admit        ┌────────┐
//!                        │ it waits    │ ─────────────────► │ active │
//!              back ───► │             │                    └────────┘
//!                │       └─────────────┘                         │ settle
//!                │              │ leave                          │
//!                └─────────── out of its place ◄─────────────────┘
//!                               │ end
//!                               ▼
//!                   done, dead, cancelled, expired, gone
//! ```
//!
//! - `admit` decides whether a job may start, and makes it active.
//! - `settle` takes a job out of `active`, whatever way.
//! - `end` is passed by every job that ends, and gives back what the job holds.
//! - `back` puts a job where it waits: a new one, and one that comes back.
//! - `edit` lets a job that waits be another one, which may change its place.
//! - `ready` is the order of those that wait for a free slot, `groups` whose turn it is, `keys` who holds which key, `limits` what
//!   holds a job back.
//!
//! A job that leaves its place is handed on as an `Out`, which only these modules can make, and which only `back` and `end` take.

mod admit;
mod aging;
mod back;
mod edit;
mod end;
mod groups;
mod job;
mod keys;
mod limits;
mod ready;
mod settle;

use queue_core::JobId;

pub(super) use self::{
    admit::{Admitted, Room},
    back::Back,
    end::End,
    groups::Picks,
    keys::Held,
    settle::By,
};
pub use self::{
    groups::Groups,
    job::{Job, Jobs, Place},
    keys::JobKey,
    limits::Limits,
    ready::Ready,
};
use super::Model;

/// A job that has left its place, and has to go through [`Model::back`] or [`Model::end`] in the same transition.
#[derive(Debug)]
#[must_use = "a job that left its place has to get another"]
pub(super) struct Out(JobId);

impl Model {
    /// Takes a job out of any place but `active`, whose only way out is `settle`. An id that is cut out of a line may find its old place again when it comes back.
    pub(super) fn leave(&mut self, id: &JobId) -> Out {
        match self.jobs[id].place {
            Place::Active { .. } => unreachable!("an active job leaves by `settle`"),
            Place::Ready => {
                match self.jobs[id].group.clone() {
                    Some(group) => self.cut_grouped(id, &group),
                    None => self.ready.cut(id),
                }
                self.rest(id);
            }
            Place::Held(_) => self.unhold(id),
            _ => {}
        }
        Out(id.clone())
    }
}
