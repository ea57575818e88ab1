//! One suite for every broker: plain async functions with a [`Bed`], one per required behavior.
//!
//! `conformance!(on_sqlite_file, SqliteFile::new)` generates a module `on_sqlite_file` with a
//! `#[test]` per case.

pub mod aging;
mod bed;
pub mod bulk;
mod cases;
pub mod changes;
pub mod copies;
pub mod declared;
pub mod diagnoses;
pub mod drained;
pub mod drains;
pub mod edits;
pub mod endings;
pub mod enqueues;
pub mod failures;
pub mod floods;
pub mod groups;
pub mod history;
pub mod keys;
pub mod leases;
pub mod limits;
pub mod lines;
pub mod lists;
pub mod operations;
pub mod pauses;
pub mod people;
pub mod progress;
pub mod rates;
pub mod reclaims;
pub mod records;
pub mod relays;
pub mod requeues;
pub mod retained;
pub mod rewinds;
pub mod schedules;
pub mod searches;
pub mod slots;
pub mod stories;
pub mod suspects;
pub mod tags;
pub mod times;
pub mod topics;
pub mod transitions;
pub mod turns;
pub mod unique;
pub mod unreadables;
pub mod walks;
pub mod watches;
pub mod workers;

use std::pin::Pin;

use crate::patience::wait;

pub use self::bed::{Bed, Lane, Producer, Storage, ack, envelope, eventually, finish, nack};

/// A case, as a parameter of [`run`].
pub type Case = fn(Bed) -> Pin<Box<dyn Future<Output = ()>>>;

/// Runs one case on a new storage.
///
/// Both parameters are function pointers: a generic function would be compiled once per test, with
/// all of the runtime.
pub fn run(storage: fn() -> Box<dyn Storage>, case: Case) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be started");
    runtime.block_on(async {
        let bed = Bed::new(storage()).await;
        // A case has its own waits, whose messages are more specific.
        wait("the case to end").times(3).end_of(case(bed)).await;
    });
}

/// Generates the suite for a broker: a module of this name with one test per case.
///
/// The second argument creates a new [`Storage`](crate::conformance::Storage) for each case.
#[macro_export]
macro_rules! conformance {
    ($name:ident, $storage:expr) => {
        $crate::__conformance_cases!([$crate::__conformance_module], $name, $storage);
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_module {
    ($name:ident, $storage:expr, $($group:ident: $($case:ident)*;)*) => {
        mod $name {
            #[allow(unused_imports, reason = "a storage may be named by its whole path")]
            use super::*;

            #[cfg(test)]
            fn storage() -> Box<dyn $crate::conformance::Storage> {
                Box::new(($storage)())
            }

            $(mod $group {
                $(#[test]
                fn $case() {
                    $crate::conformance::run(super::storage, $crate::conformance::__boxed::$group::$case);
                })*
            })*
        }
    };
}

macro_rules! boxed_cases {
    (all, $($group:ident: $($case:ident)*;)*) => {
        /// Every case as a [`Case`]. Its future is compiled once here, and not in each program that
        /// runs the suite.
        #[doc(hidden)]
        pub mod __boxed {
            $(pub mod $group {
                $(pub fn $case(bed: crate::conformance::Bed) -> std::pin::Pin<Box<dyn Future<Output = ()>>> {
                    Box::pin(crate::conformance::$group::$case(bed))
                })*
            })*
        }
    };
}

crate::__conformance_cases!([boxed_cases], all);
