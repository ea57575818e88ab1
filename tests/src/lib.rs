//! What the tests of the workspace share: real servers, sentinels and clusters, a proxy that does them harm, a broker that fails
//! on demand, and the one conformance suite. The author of another broker implements [`Storage`](conformance::Storage) and
//! writes `conformance!(on_mine, Mine::new)`.

pub mod chronicle;
pub mod cluster;
pub mod conformance;
pub mod failing;
pub mod fleet;
pub mod history;
pub mod log_lines;
pub mod lossy_enqueues;
pub mod memory_broker;
pub mod model;
pub mod patience;
pub mod preload;
pub mod process;
pub mod proxy;
pub mod roles;
pub mod sentinel;
pub mod server;
pub mod storages;
pub mod watch;
pub mod wire;
