//! The fault suite: does a queue keep its promise while everything around it fails?
//!
//! Processes write down what they do ([`history`]); afterwards a [`checker`] reads all their histories and the final state of the
//! broker, and names every promise that was broken, with the timeline of the job it was broken for.

pub mod checker;
pub mod history;
