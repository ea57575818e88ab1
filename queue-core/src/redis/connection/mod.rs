//! Connections to servers. Each server has one connection for requests and one for heartbeats,
//! which this module supervises. `link` is a connection. `endpoint` is a server that all our
//! connections to it share. `servers` finds the server that holds a queue, with `sentinel` and
//! `cluster`, and decides how long a call is retried. `hints` listens to announcements. `refusal`
//! and `probe` report why a server did not carry out a call.
//!
//! A failed call is of one of three kinds:
//!
//! - *Not carried out* (no connection, `READONLY`, `LOADING`, `CLUSTERDOWN`, `TRYAGAIN`, `MOVED`,
//!   `ASK`): it is repeated at the right server, until its deadline.
//! - *Perhaps carried out* (no answer, a broken connection): the caller gets an error. Turns and
//!   enqueues are sent again under the same number.
//! - *Refused* (no memory, no permission): an error for the operator.
//!
//! When a server is demoted, replaced, or loses its slots, all connections to it are dropped. The
//! client library's own cluster modes repeat what may have been carried out, so they are not used.

#[cfg(feature = "cluster")]
pub(in crate::redis) mod cluster;
mod condition;
mod endpoint;
pub(in crate::redis) mod hints;
mod link;
pub(in crate::redis) mod misfits;
mod probe;
pub(in crate::redis) mod refusal;
#[cfg(feature = "sentinel")]
pub(in crate::redis) mod sentinel;
pub(in crate::redis) mod servers;
pub(in crate::redis) mod settings;
pub(in crate::redis) mod url;
