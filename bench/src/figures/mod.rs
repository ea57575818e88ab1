//! The figures, a module per idea; each has a list of its own.

mod bounds;
mod cancel;
mod cluster;
mod cost;
mod enqueue;
mod follow;
mod groups;
mod growth;
mod instructions;
mod latency;
mod lateness;
mod limits;
mod memory;
#[cfg(feature = "observed")]
pub(crate) mod observed;
mod operations;
mod outbox;
mod process;
mod scale;
mod schedules;
mod search;
mod sqlite;
mod topics;
mod turns;
mod unique;
mod watching;

use crate::frame::Figure;

/// Every figure, in the order of the report.
pub(crate) fn all() -> Vec<Figure> {
    let lists = [
        process::figures(),
        enqueue::figures(),
        unique::figures(),
        groups::figures(),
        limits::figures(),
        topics::figures(),
        latency::figures(),
        lateness::figures(),
        schedules::figures(),
        memory::figures(),
        cost::figures(),
        turns::figures(),
        scale::figures(),
        growth::figures(),
        search::figures(),
        operations::figures(),
        outbox::figures(),
        bounds::figures(),
        instructions::figures(),
        sqlite::figures(),
        cluster::figures(),
        watching::figures(),
        cancel::figures(),
        follow::figures(),
        #[cfg(feature = "observed")]
        observed::figures(),
    ];
    lists.into_iter().flatten().collect()
}
