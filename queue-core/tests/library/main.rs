//! The library's own tests: its layers, and SQLite files.

// Both belong to `queue-conformance`, which is built with this crate.
#[cfg(feature = "sqlite")]
#[allow(dead_code, unreachable_pub, reason = "these tests use a part of it")]
#[path = "../../../queue-conformance/src/folder.rs"]
mod folder;
#[cfg(feature = "sqlite")]
#[allow(dead_code, unreachable_pub, reason = "these tests use a part of it")]
#[path = "../../../queue-conformance/src/patience/span.rs"]
mod patience;

mod client_sqlite;
mod layers;
mod sqlite_files;
mod sqlite_kill;
mod sqlite_lost_files;
mod sqlite_smoke;
