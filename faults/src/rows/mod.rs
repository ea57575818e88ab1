//! The fault matrix: one row, one fault, and what must hold.
//!
//! A row says how its run is laid out, what harm it does, and what must have happened, so that a fault that has hit nothing does not
//! pass for one that was survived. That every promise held is for the [checker](crate::checker) to say, in every row.

mod bytes;
mod crowds;
mod failovers;
mod files;
mod lines;
mod servers;
mod soak;
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
    pub expect: fn(&Summary) -> Result<(), String>,
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
    [workers::ROWS, lines::ROWS, servers::ROWS, crowds::ROWS, bytes::ROWS, files::ROWS, failovers::ROWS, soak::ROWS]
        .into_iter()
        .flatten()
        .collect()
}

/// Rows of the matrix that are not here, and why.
pub const LEFT_OUT: [(&str, &str); 8] = [
    ("M18", "who a process is, is random at each start; M1 starts workers again"),
    ("M33 M37 M42 M45 M46", "graded A and B: not yet built, or tested with one process"),
    ("M54 M55", "schedules are not built"),
    ("M56 M57", "unique jobs are not built"),
    ("M62 M64 M65", "files under power cuts and long readers are tested with the SQLite broker alone"),
    ("M67", "futures that are dropped are tested within one process"),
    ("M69", "a duty that dies is tested within one process"),
    ("M72", "the dashboard is not built"),
];

fn anything(_: &Summary) -> Result<(), String> {
    Ok(())
}

/// The harm has taken jobs from somebody, and whoever lost one could change nothing any more.
fn taken_back(summary: &Summary) -> Result<(), String> {
    match summary.duplicates.get("reclaim") {
        Some(_) => Ok(()),
        None => Err("no job was taken back: the harm has hit nothing".to_owned()),
    }
}

/// Nothing ran twice that its handler did not ask for.
fn no_duplicates(summary: &Summary) -> Result<(), String> {
    if summary.duplicates.is_empty() { Ok(()) } else { Err(format!("jobs ran twice: {:?}", summary.duplicates)) }
}

/// Something was refused, and nothing ran twice.
fn refused(summary: &Summary) -> Result<(), String> {
    if summary.refused == 0 {
        return Err("nothing was refused: the harm has hit nothing".to_owned());
    }
    no_duplicates(summary)
}
