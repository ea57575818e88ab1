//! The fault suite: does a queue keep its promise while everything around it fails?
//!
//! `cargo xtask faults` runs it. Each [row](rows) of the matrix lays out a [run](bed): a real
//! broker, real worker and producer [processes](process), lines between them that can be harmed.
//! They write down what they do ([`history`]); when all harm has ended and the queue has drained, a
//! [`checker`] reads all their histories and the final state of the broker, and names every promise
//! that was broken, with the timeline of the job it was broken for. The same checker judges the
//! [simulation](sim) of worker and client in virtual time.

pub mod bed;
pub mod checker;
pub mod events;
pub mod history;
pub mod page;
pub mod power;
pub mod process;
pub mod recording;
pub mod report;
pub mod rows;
pub mod run;
pub mod sim;
pub mod work;
