//! How servers are reached: one connection each for requests and for heartbeats, which we supervise
//! ourselves. `link` is a connection, `endpoint` a server as all our connections to it see it.
//! `servers` finds the server that holds a queue, with the help of `sentinel` and `cluster`, and
//! decides how long a call keeps trying. `hints` listens to announcements. `refusal` and `probe`
//! say why a server did not do what it was asked.

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
