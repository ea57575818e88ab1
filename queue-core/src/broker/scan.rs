//! How jobs are listed: pages of a state, and steps through all jobs of some states while the queue
//! changes.

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
    /// The jobs, in the order in which they will start or have ended, in the form of
    /// [`StoredJob::listed`]. There may be fewer jobs than requested, or none, although the list
    /// continues: some lists have gaps where jobs were removed.
    pub jobs: Vec<StoredJob>,
    /// The offset of the next page, which is larger than that of this one. Only `None` marks the
    /// last page. It need not be a number of jobs.
    pub next: Option<u64>,
}

/// The offset of the last page of a list: it has the last jobs, as many as fit on the page, and no
/// `next`.
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
    /// The [`next`](Scanned::next) of the previous step; `None` for the first step.
    pub after: Option<Vec<u8>>,
    /// The most places to examine: 1 to 500. A step that [scans all](Self::scans_whole_queue) jobs
    /// may examine some more, because the broker reads them in pieces. A step ends earlier when its
    /// jobs have a mebibyte.
    pub limit: usize,
    /// Name and value of a tag: only jobs that have this tag are examined, in the order of their
    /// ids.
    pub tag: Option<(String, String)>,
    /// Whether it includes moving jobs: see [`including_moved`](Self::including_moved).
    pub includes_moved: bool,
    /// With a tag: whether the first step returns the number of jobs with it.
    pub counts: bool,
}

impl Scan {
    /// The first step.
    pub fn new(queue: &str, states: &[JobState], limit: usize) -> Self {
        Scan { queue: queue.to_owned(), states: states.to_vec(), after: None, limit, tag: None, includes_moved: false, counts: true }
    }

    /// The step after another one.
    #[must_use]
    pub fn after(mut self, place: Option<Vec<u8>>) -> Self {
        self.after = place;
        self
    }

    /// It also finds a job that moves meanwhile from one of the states to another, or to another
    /// place of its state, unless the job has failed or ended since the scan began. The order is
    /// then one that no move of a job changes, and a job may be found twice. A scan by a tag always
    /// includes moving jobs.
    #[must_use]
    pub fn including_moved(mut self) -> Self {
        self.includes_moved = true;
        self
    }

    /// For brokers: whether it has to go through all jobs of the queue. A scan by state would miss
    /// a job that moves from a state that is not scanned yet to a state that is scanned already.
    pub fn scans_whole_queue(&self) -> bool {
        self.tag.is_none() && self.includes_moved && scans_whole_queue(&self.states)
    }

    /// Does not count the jobs that have the tag: a broker may read all of their entries for that.
    #[must_use]
    pub fn uncounted(mut self) -> Self {
        self.counts = false;
        self
    }

    /// Only jobs with this tag.
    #[must_use]
    pub fn tagged(mut self, name: &str, value: &str) -> Self {
        self.tag = Some((name.to_owned(), value.to_owned()));
        self
    }
}

/// Ready jobs move between lists, and a waiting or active job may move to any other place of these
/// states. Only the order of `retry` and `scheduled` is known. A job that moves to `retry` has
/// failed since the scan began. For this reason only jobs that move from `retry` to `scheduled`
/// have to be found.
pub(crate) fn scans_whole_queue(states: &[JobState]) -> bool {
    let mut places = states.iter().filter(|state| !state.is_final());
    let are_due = |state: &&JobState| matches!(state, JobState::Scheduled | JobState::Retry);
    states.contains(&JobState::Ready) || places.clone().count() > 1 && !places.all(|state| are_due(&state))
}

/// The result of a step.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Scanned {
    /// Jobs in the requested states, in the form of [`StoredJob::listed`]. The list may be empty
    /// although the scan has not ended.
    pub jobs: Vec<StoredJob>,
    /// The position to continue from; only `None` means that it has ended. The cursor is the last
    /// job examined. A job that does not move is returned exactly once, even if other jobs come and
    /// go.
    pub next: Option<Vec<u8>>,
    /// The position after each of the jobs. A broker may leave it empty for a scan that [includes
    /// moving jobs](Scan::including_moved), whose order may have no position for a single job.
    pub places: Vec<Vec<u8>>,
    /// The number of examined jobs. A scan that [goes through all](Scan::scans_whole_queue) jobs
    /// counts the jobs of all states. A scan by a tag counts the jobs with the tag. Other scans
    /// count the jobs in the states.
    pub examined: u64,
    /// How many jobs were read, including those in other states, if they are more than were
    /// examined.
    pub read: u64,
    /// For a scan by a tag: the number of jobs of the queue with the tag. The first step returns
    /// it, unless it is [disabled](Scan::uncounted).
    pub of: Option<u64>,
}

impl Scanned {
    /// A step: jobs, the position after each of them, and the position to continue from.
    pub fn new(jobs: Vec<(StoredJob, Vec<u8>)>, next: Option<Vec<u8>>) -> Self {
        let (jobs, places): (Vec<_>, Vec<_>) = jobs.into_iter().unzip();
        Scanned { examined: jobs.len() as u64, read: 0, jobs, next, places, of: None }
    }

    /// A step of a scan that has also examined other jobs.
    #[must_use]
    pub fn with_examined(mut self, jobs: u64) -> Self {
        self.examined = jobs;
        self
    }
}

/// The bytes of a place.
pub(crate) fn place_to_bytes<T: Serialize>(place: &T) -> Result<Vec<u8>> {
    codec::pack(place).map_err(|problem| Error::Internal(format!("a place of a scan cannot be encoded: {problem}")))
}

/// Decodes a place from its bytes.
pub(crate) fn place_of_bytes<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    codec::unpack(bytes).map_err(|_| Error::invalid("cursor", "", "is not a cursor of this broker; start without one"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_goes_through_all_where_jobs_may_come_to_a_place_behind_it() {
        use JobState::{Active, Cancelled, Dead, Held, Parked, Ready, Retry, Scheduled};
        let through_all = |states: &[JobState]| Scan::new("q", states, 1).including_moved().scans_whole_queue();
        for states in [&[Ready][..], &[Dead, Ready], &[Active, Scheduled], &[Retry, Active], &[Held, Parked], &[Scheduled, Parked]] {
            assert!(through_all(states), "{states:?}");
        }
        for states in [&[][..], &[Scheduled, Retry], &[Active], &[Held, Dead], &[Dead, Cancelled, Retry]] {
            assert!(!through_all(states), "{states:?}");
        }
        assert!(!Scan::new("q", &[Ready], 1).scans_whole_queue(), "without those that move each place is read by itself");
        assert!(
            !Scan::new("q", &[Ready], 1).including_moved().tagged("order", "17").scans_whole_queue(),
            "the index of tags has no places"
        );
    }
}
