//! What a broker has to do, and how to test it.
//!
//! The author of a broker implements [`Storage`](conformance::Storage), which opens the broker on
//! fresh storage, and gets the whole [conformance](mod@conformance) suite, one test per behaviour:
//!
//! ```ignore
//! queue_conformance::conformance!(on_sqlite_file, SqliteFile::new);
//! ```
//!
//! [`failing`] wraps any broker and lets calls fail on demand: requests and answers that are lost,
//! a full broker, a forgotten worker.
//!
//! All tests use the same [waits](patience), [folders](mod@folder) and [ports](port).

mod changes;
// The unit tests do without the suite, which takes longer to compile than all the rest.
#[cfg(test)]
#[path = "conformance/cases.rs"]
mod cases;
#[cfg(not(test))]
pub mod conformance;
pub mod failing;
pub mod folder;
pub mod patience;
pub mod port;

pub use self::changes::Changes;
