//! Leases: registration, heartbeats, and the reclaim of the jobs of lanes whose lease has expired
//! (R1, R6, R7).
//!
//! A reclaimer reads the `overdue` lanes, calls `fence` for those that are unchanged at its second
//! check, and `reclaim` to return their jobs.

mod extend;
mod fence;
mod overdue;
mod reclaim;
mod register;

pub(crate) use self::{extend::extend, fence::fence, overdue::overdue, reclaim::reclaim, register::register};
