//! The fault matrix: one row, one fault, and what must hold.
//!
//! A row defines how its run is laid out, what harm it does, and what must have happened. A run
//! whose fault missed its moment is [inconclusive](Unmet::Inconclusive): it does not pass, and is
//! repeated. That every promise held is for the [checker](crate::checker) to say, in every row.

mod bytes;
mod clocks;
mod crowds;
mod deaths;
mod failovers;
mod files;
mod foreign;
mod lines;
mod operations;
mod rules;
mod schedules;
mod servers;
mod soak;
mod starvation;
mod states;
mod topics;
mod watching;
mod workers;

use std::{fmt, future::Future, pin::Pin};

use crate::{
    bed::{Bed, Column, Problem, Setup},
    checker::Summary,
};

/// Harm being done.
pub type Harming<'a> = Pin<Box<dyn Future<Output = Result<(), Problem>> + 'a>>;

/// When a row must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// Before anyone relies on the system.
    S,
    /// Next.
    A,
}

/// One row.
pub struct Row {
    /// Its number in the matrix.
    pub number: &'static str,
    /// What fails.
    pub name: &'static str,
    /// When it must hold.
    pub grade: Grade,
    /// On what it is run.
    pub columns: &'static [Column],
    /// How a run is laid out.
    pub setup: fn() -> Setup,
    /// What is done to it.
    pub harm: for<'a> fn(&'a mut Bed) -> Harming<'a>,
    /// What must have happened, beside that every promise held.
    pub expect: fn(&Summary) -> Result<(), Unmet>,
}

/// What a row expected and did not see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unmet {
    /// Its fault missed its moment, such as a kill after the end of all jobs. The run shows
    /// nothing, and is repeated with another seed.
    Inconclusive(String),
    /// The row did not hold.
    Broken(String),
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unmet::Inconclusive(why) => write!(f, "inconclusive: {why}"),
            Unmet::Broken(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Unmet {}

impl From<String> for Unmet {
    fn from(what: String) -> Self {
        Unmet::Broken(what)
    }
}

/// The fault of a run missed its moment.
pub(crate) fn missed(why: impl Into<String>) -> Unmet {
    Unmet::Inconclusive(why.into())
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.number, self.name)
    }
}

const BOTH: &[Column] = &[Column::Redis, Column::Sqlite];
const EVERY: &[Column] = &Column::ALL;
const SEVERAL: &[Column] = &[Column::Sentinel, Column::Cluster];
const SENTINEL: &[Column] = &[Column::Sentinel];
const CLUSTER: &[Column] = &[Column::Cluster];
const REDIS: &[Column] = &[Column::Redis];
const SQLITE: &[Column] = &[Column::Sqlite];

/// All rows, in the order in which they are run.
pub fn all() -> Vec<&'static Row> {
    [
        workers::ROWS,
        deaths::ROWS,
        lines::ROWS,
        servers::ROWS,
        states::ROWS,
        foreign::ROWS,
        clocks::ROWS,
        crowds::ROWS,
        bytes::ROWS,
        files::ROWS,
        failovers::ROWS,
        schedules::ROWS,
        topics::ROWS,
        rules::ROWS,
        operations::ROWS,
        watching::ROWS,
        starvation::ROWS,
        soak::ROWS,
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Rows of the matrix that are not here, and why: where they are tested instead, or what is not
/// built.
pub const LEFT_OUT: [(&str, &str); 9] = [
    ("M10", "`a_handler_that_does_not_stop_is_shown_as_stuck`"),
    ("M11 M46 M65", "graded B: not built"),
    ("M12", "`a_custom_backoff_decides_and_one_that_panics_does_not`, `a_panic_and_a_timeout_are_failures_of_their_job_alone`"),
    ("M37", "`a_server_that_may_evict_jobs_is_refused`; what it would take away is M34"),
    ("M51 M64", "`cargo xtask bench`"),
    ("M58", "`one_conflict_in_a_batch_spoils_no_other`, `a_given_id_is_stored_once_and_another_payload_conflicts`"),
    ("M67", "`dropped_futures`: enqueues, cancels and workers, dropped at every await"),
    ("M69", "`a_duty_that_panics_is_started_again_while_the_others_go_on`"),
    ("M72", "the dashboard is not built"),
];

fn anything(_: &Summary) -> Result<(), Unmet> {
    Ok(())
}

/// The harm has taken jobs from somebody, and whoever lost one could change nothing any more.
fn taken_back(summary: &Summary) -> Result<(), Unmet> {
    match summary.duplicates.get("reclaim") {
        Some(_) => Ok(()),
        None => Err(missed("no job was taken back")),
    }
}

/// Nothing ran twice that its handler did not ask for.
fn no_duplicates(summary: &Summary) -> Result<(), Unmet> {
    if summary.duplicates.is_empty() { Ok(()) } else { Err(format!("jobs ran twice: {:?}", summary.duplicates).into()) }
}

/// Something was refused, and nothing ran twice.
fn refused(summary: &Summary) -> Result<(), Unmet> {
    if summary.refused == 0 {
        return Err(missed("nothing was refused"));
    }
    no_duplicates(summary)
}
