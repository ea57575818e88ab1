//! Clients and workers while a server, a sentinel or a cluster fails, and what they make of its
//! replies.

mod announcements;
mod client_faults;
mod cluster_faults;
mod durability;
mod late_broker;
mod redis_faults;
mod redis_notes;
mod replies;
mod sentinel_faults;
mod topologies;
