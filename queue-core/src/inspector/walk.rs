//! Complete listings, which follow the pages.

use super::{Filter, Inspector, JobRecord};
use crate::{
    address::check_queue,
    broker::{JobState, MAX_ITEMS, Scan},
    error::Result,
};

/// A walk through all jobs of a queue in one state. From [`Inspector::walk`].
///
/// ```no_run
/// # use queue_core::{Client, broker::JobState};
/// # async fn example(client: Client) -> queue_core::Result<()> {
/// let mut dead = client.inspector().walk("orders", JobState::Dead);
/// while let Some(jobs) = dead.next().await? {
///     for job in jobs {
///         println!("{} failed {} times", job.address, job.failures);
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Walk {
    inspector: Inspector,
    queue: String,
    state: JobState,
    filter: Filter,
    from: Option<u64>,
    left: u64,
    why: bool,
    /// For a filter with a tag: where the scan of the jobs with this tag continues, and the number
    /// of jobs before that.
    place: Option<Vec<u8>>,
    passed: u64,
    examined: u64,
}

impl Walk {
    /// Begins at this offset of the listing: 0, or the value of [`next_offset`](Self::next_offset).
    #[must_use]
    pub fn from(mut self, place: u64) -> Self {
        self.from = Some(place);
        self
    }

    /// Leaves out the jobs that do not match. `at_most` counts the matching ones. With a term
    /// `tag.NAME=VALUE` it examines only the jobs that have this tag: the list then has only these,
    /// in the order of their ids.
    #[must_use]
    pub fn matching(mut self, filter: Filter) -> Self {
        self.filter = filter;
        self
    }

    /// Adds to each job the reasons why it does not run: [`JobRecord::waiting`]. This costs two
    /// more calls for each 500 jobs. A filter with the term `waiting` does so too.
    #[must_use]
    pub fn with_reasons(mut self) -> Self {
        self.why = true;
        self
    }

    /// Ends after this many jobs.
    #[must_use]
    pub fn at_most(mut self, jobs: u64) -> Self {
        self.left = jobs;
        self
    }

    /// The next jobs of the list, 1 to [`MAX_ITEMS`]. `None`: there are no more.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a queue's name outside the grammar, and those
    /// of the broker.
    pub async fn next(&mut self) -> Result<Option<Vec<JobRecord>>> {
        loop {
            match self.step().await? {
                Some(jobs) if jobs.is_empty() => {}
                found => return Ok(found),
            }
        }
    }

    /// The matching jobs among the next 500 at most: the list may be empty although the walk has
    /// not ended. Between two steps a caller can report `examined`, or stop. `None`: there are no
    /// more.
    ///
    /// # Errors
    /// As for [`next`](Self::next).
    pub async fn step(&mut self) -> Result<Option<Vec<JobRecord>>> {
        if self.filter.tag().is_some() {
            return self.step_tagged().await;
        }
        let Some(from) = self.from.filter(|_| self.left > 0) else { return Ok(None) };
        let looks = if self.filter.is_empty() { page_of(self.left) } else { MAX_ITEMS };
        let page = self.inspector.list(&self.queue, self.state, from, looks).await?;
        let examined = page.jobs.len() as u64;
        let mut jobs = self.those_that_match(page.jobs).await?;
        self.from = page.next.filter(|next| *next > from);
        self.examined += examined;
        jobs.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= jobs.len() as u64;
        Ok(Some(jobs))
    }

    async fn step_tagged(&mut self) -> Result<Option<Vec<JobRecord>>> {
        check_queue(&self.queue)?;
        // A scan of the jobs with the tag would find none in this state. Callers that list all
        // states start a walk for each.
        if self.place.is_none() && self.from.is_some() && self.inspector.stats(&self.queue).await?.count(self.state) == 0 {
            self.from = None;
        }
        let Some(from) = self.from.filter(|_| self.left > 0) else { return Ok(None) };
        let request = Scan::new(&self.queue, &[self.state], MAX_ITEMS).after(self.place.clone()).matching(&self.filter).uncounted();
        let step = self.inspector.scanned(self.inspector.until(), &request).await?;
        let mut jobs = self.inspector.records(&self.queue, step.jobs).await?;
        let (begins, passed) = (from.max(self.passed), self.passed + jobs.len() as u64);
        let skipped = usize::try_from(begins - self.passed).map_or(jobs.len(), |skip| skip.min(jobs.len()));
        jobs.drain(..skipped);
        let offsets: Vec<_> = jobs.iter().map(|job| job.address.id.clone()).collect();
        let mut jobs = self.those_that_match(jobs).await?;
        // All of these are set together: after an error the next call repeats the same step.
        self.from = step.next.is_some().then(|| begins.max(passed));
        (self.examined, self.passed, self.place) = (self.examined + (passed - self.passed), passed, step.next);
        let most = usize::try_from(self.left).unwrap_or(usize::MAX);
        if jobs.len() > most {
            jobs.truncate(most);
            let last = jobs.last().and_then(|last| offsets.iter().position(|id| *id == last.address.id));
            self.from = last.map(|last| begins + last as u64 + 1);
        }
        self.left -= jobs.len() as u64;
        Ok(Some(jobs))
    }

    async fn those_that_match(&self, mut jobs: Vec<JobRecord>) -> Result<Vec<JobRecord>> {
        let now = self.inspector.broker.clock().now();
        if self.why || self.filter.needs_reasons() {
            self.inspector.add_reasons(&self.queue, &mut jobs).await?;
        }
        jobs.retain(|job| self.filter.matches(job, now));
        Ok(jobs)
    }

    /// How many jobs were examined so far.
    pub fn examined(&self) -> u64 {
        self.examined
    }

    /// The offset after the jobs that were returned; `None` if the list has ended.
    pub fn next_offset(&self) -> Option<u64> {
        self.from
    }
}

pub(super) fn page_of(left: u64) -> usize {
    usize::try_from(left).map_or(MAX_ITEMS, |left| left.clamp(1, MAX_ITEMS))
}

impl Inspector {
    /// A walk through all jobs of a queue in one state, in the order in which they will be served
    /// or have ended. Jobs that arrive or leave meanwhile may be missing, or appear twice.
    pub fn walk(&self, queue: &str, state: JobState) -> Walk {
        Walk {
            inspector: self.clone(),
            queue: queue.to_owned(),
            state,
            filter: Filter::default(),
            from: Some(0),
            left: u64::MAX,
            why: false,
            place: None,
            passed: 0,
            examined: 0,
        }
    }
}
