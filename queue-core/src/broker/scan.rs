//! How jobs are listed: pages of a state, and steps through all jobs of some states while the queue changes.

use serde::{Deserialize, Serialize};

use super::{JobState, StoredJob};
use crate::{
    codec,
    error::{Error, Result},
};

/// A page of a listing.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct StoredPage {
    /// The jobs, in the order in which they will start or have ended, as [`StoredJob::listed`] has them. There may be fewer jobs than
    /// asked for, or none, although the listing continues: some listings have gaps where jobs were removed.
    pub jobs: Vec<StoredJob>,
    /// The offset of the next page, which is larger than that of this one. Only `None` says that this was the last page. It need not be a
    /// number of jobs.
    pub next: Option<u64>,
}

/// The offset of the last page of a listing: it has the last jobs, as many as the page holds, and no `next`.
pub const LAST: u64 = u64::MAX;

impl StoredPage {
    /// A page.
    pub fn new(jobs: Vec<StoredJob>, next: Option<u64>) -> Self {
        StoredPage { jobs, next }
    }
}

/// One bounded step through the jobs of some states.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Scan {
    /// The queue.
    pub queue: String,
    /// The states.
    pub states: Vec<JobState>,
    /// The [`next`](Scanned::next) of the step before; `None` for the first step.
    pub after: Option<Vec<u8>>,
    /// How many places it looks at, at most: 1 to 500.
    pub limit: usize,
    /// Name and value of a tag: it looks at the jobs that have this tag, and at no other, in the order of their ids.
    pub tag: Option<(String, String)>,
}

impl Scan {
    /// The first step.
    pub fn new(queue: &str, states: &[JobState], limit: usize) -> Self {
        Scan { queue: queue.to_owned(), states: states.to_vec(), after: None, limit, tag: None }
    }

    /// The step behind another one.
    #[must_use]
    pub fn after(mut self, place: Option<Vec<u8>>) -> Self {
        self.after = place;
        self
    }

    /// Of the jobs with this tag alone.
    #[must_use]
    pub fn tagged(mut self, name: &str, value: &str) -> Self {
        self.tag = Some((name.to_owned(), value.to_owned()));
        self
    }
}

/// What a step has found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Scanned {
    /// Jobs in the states that were asked for, as [`StoredJob::listed`] has them. There may be none although the scan goes on.
    pub jobs: Vec<StoredJob>,
    /// Where it goes on; `None` alone says that it has ended. It names the last job that was looked at, so that no job that stays where it is is passed over,
    /// or seen twice, whatever comes and goes.
    pub next: Option<Vec<u8>>,
    /// Of each of the jobs, where a scan goes on behind it.
    pub places: Vec<Vec<u8>>,
    /// Of a scan by a tag: how many jobs of the queue have it. The first step says so.
    pub of: Option<u64>,
}

impl Scanned {
    /// A step: jobs, where a scan goes on behind each of them, and where this one goes on.
    pub fn new(jobs: Vec<(StoredJob, Vec<u8>)>, next: Option<Vec<u8>>) -> Self {
        let (jobs, places) = jobs.into_iter().unzip();
        Scanned { jobs, next, places, of: None }
    }
}

/// The bytes of a place.
pub(crate) fn place_to_bytes<T: Serialize>(place: &T) -> Result<Vec<u8>> {
    codec::encode(place).map_err(|problem| Error::Internal(format!("a place of a scan cannot be encoded: {problem}")))
}

/// The place that these bytes are of.
pub(crate) fn place_of_bytes<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    codec::decode(bytes).map_err(|_| Error::invalid("cursor", "", "is not a cursor of this broker; begin without one"))
}
