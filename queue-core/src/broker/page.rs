//! A page of a listing.

use super::StoredJob;

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
