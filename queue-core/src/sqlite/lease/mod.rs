//! Leases: names and their terms, beats, and what becomes of the jobs of a lane that lost its own (R1, R6, R7).
//!
//! A reclaimer asks for `suspects`, asks `fence` to end those that are the same at its second look, and has `sweep_fenced`
//! take their jobs back.

mod extend;
mod fence;
mod register;
mod suspects;
mod sweep_fenced;

pub(crate) use self::{extend::extend, fence::fence, register::register, suspects::suspects, sweep_fenced::sweep_fenced};
