//! The row of a job.

pub(crate) mod row;
