//! The figures, a module per idea; each has a list of its own.

mod cluster;
mod enqueue;
mod growth;
mod latency;
mod lateness;
mod memory;
mod process;
mod sqlite;

use crate::frame::Figure;

/// Every figure, in the order of the report.
pub(crate) fn all() -> Vec<Figure> {
    let lists = [
        process::figures(),
        enqueue::figures(),
        latency::figures(),
        lateness::figures(),
        memory::figures(),
        growth::figures(),
        sqlite::figures(),
        cluster::figures(),
    ];
    lists.into_iter().flatten().collect()
}
