//! Leases: names and their durations, heartbeats, and what becomes of the jobs of a lane that lost
//! its own (R1, R6, R7).
//!
//! A reclaimer asks for `overdue`, asks `fence` to end those that are the same at its second look,
//! and has `reclaim` take their jobs back.

mod extend;
mod fence;
mod overdue;
mod reclaim;
mod register;

pub(crate) use self::{extend::extend, fence::fence, overdue::overdue, reclaim::reclaim, register::register};
