//! What the tests of the workspace share: real servers, a proxy that does them harm, and the one conformance suite.

pub mod conformance;
pub mod patience;
pub mod proxy;
pub mod server;
