//! The shared code of the tests of the workspace: real servers, sentinels and clusters, a proxy
//! that injects faults, and the [storages] on which the conformance suite of `queue-conformance`
//! runs.

pub mod apart;
pub mod browser;
pub mod chronicle;
pub mod cluster;
pub mod command_line;
pub mod fleet;
pub mod history;
pub mod log_lines;
pub mod patience;
pub mod postgres;
pub mod preload;
pub mod probe;
pub mod process;
pub mod proxy;
pub mod roles;
pub mod sentinel;
pub mod server;
pub mod storages;
pub mod watch;
pub mod wire;

pub use queue_conformance::{folder, port};
