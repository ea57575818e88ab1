//! Valid uses of the macros. They compile without a warning.
#![deny(warnings)]
#![allow(unreachable_pub, reason = "tasks are declared as applications declare them")]

mod events;
mod mistakes;
mod names;
mod serde_attributes;
mod shapes;
mod unique;
