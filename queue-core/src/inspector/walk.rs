//! Whole listings: nobody has to follow pages by hand, or to know what a change does to the places behind it.

use super::{Inspector, JobRecord};
use crate::{
    address::{JobId, check_name},
    broker::{CancelAnswer, JobState, MAX_ITEMS},
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
    from: Option<u64>,
    left: u64,
}

impl Walk {
    /// Begins at this offset of the listing: 0, or the value of [`goes_on_at`](Self::goes_on_at).
    #[must_use]
    pub fn from(mut self, place: u64) -> Self {
        self.from = Some(place);
        self
    }

    /// Ends after this many jobs.
    #[must_use]
    pub fn at_most(mut self, jobs: u64) -> Self {
        self.left = jobs;
        self
    }

    /// The next jobs of the listing, 1 to [`MAX_ITEMS`]. `None`: there are no more.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a queue's name outside the grammar, and those of the broker.
    pub async fn next(&mut self) -> Result<Option<Vec<JobRecord>>> {
        while let Some(from) = self.from.filter(|_| self.left > 0) {
            let page = self.inspector.list(&self.queue, self.state, from, page_of(self.left)).await?;
            self.from = page.next.filter(|next| *next > from);
            self.left = self.left.saturating_sub(page.jobs.len() as u64);
            if !page.jobs.is_empty() {
                return Ok(Some(page.jobs));
            }
        }
        Ok(None)
    }

    /// The offset behind the jobs that were returned; `None` if the listing has ended.
    pub fn goes_on_at(&self) -> Option<u64> {
        self.from
    }
}

fn page_of(left: u64) -> usize {
    usize::try_from(left).map_or(MAX_ITEMS, |left| left.clamp(1, MAX_ITEMS))
}

/// What is done to every job of a state.
#[derive(Clone, Copy, Debug)]
enum Verb {
    Cancel,
    Requeue,
    Promote,
    Delete,
}

impl Inspector {
    /// A walk through all jobs of a queue in one state, in the order in which they will be served or have ended. Jobs that arrive or
    /// leave meanwhile may be missing, or appear twice.
    pub fn walk(&self, queue: &str, state: JobState) -> Walk {
        Walk { inspector: self.clone(), queue: queue.to_owned(), state, from: Some(0), left: u64::MAX }
    }

    /// [`cancel`](Self::cancel) for all jobs of a queue in one state. Returns how many were cancelled.
    ///
    /// It cancels at most as many jobs as there were when it began, so that it ends although new jobs arrive.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a name outside the grammar, here and below, and those of the broker. Jobs that
    /// were cancelled before the error stay cancelled.
    pub async fn cancel_all(&self, queue: &str, state: JobState) -> Result<u64> {
        self.all(queue, state, Verb::Cancel).await
    }

    /// [`requeue`](Self::requeue) for all dead jobs of a queue, at most as many as there were when it began. Returns how many.
    ///
    /// # Errors
    /// Those of the broker.
    pub async fn requeue_all(&self, queue: &str) -> Result<u64> {
        self.all(queue, JobState::Dead, Verb::Requeue).await
    }

    /// [`promote`](Self::promote) for all jobs of a queue in one state, `scheduled` or `retry`, at most as many as there were when it
    /// began. Returns how many: none of another state.
    ///
    /// # Errors
    /// Those of the broker.
    pub async fn promote_all(&self, queue: &str, state: JobState) -> Result<u64> {
        self.all(queue, state, Verb::Promote).await
    }

    /// [`delete`](Self::delete) for all jobs of a queue in one state, at most as many as there were when it began. Returns how many.
    ///
    /// # Errors
    /// Those of the broker.
    pub async fn delete_all(&self, queue: &str, state: JobState) -> Result<u64> {
        self.all(queue, state, Verb::Delete).await
    }

    /// Changes page after page. A changed job leaves a gap in some listings, and in others those behind it move up: so each page is
    /// read again until nothing in it changes. Workers that claim meanwhile move jobs up behind the walk's back: so there is another
    /// walk until one changes nothing.
    async fn all(&self, queue: &str, state: JobState, verb: Verb) -> Result<u64> {
        check_name("queue", queue)?;
        let there = self.stats(queue).await?.count(state);
        let mut left = there;
        loop {
            let (before, mut place) = (left, Some(0));
            while let Some(from) = place.filter(|_| left > 0) {
                let page = self.list_stored(queue, state, from, page_of(left)).await?;
                let ids: Vec<JobId> = page.jobs.into_iter().map(|job| job.id).collect();
                let changed = if ids.is_empty() { 0 } else { self.many(queue, &ids, verb).await? };
                left = left.saturating_sub(changed);
                if changed == 0 {
                    place = page.next.filter(|next| *next > from);
                }
            }
            if left == 0 || left == before {
                return Ok(there - left);
            }
        }
    }

    /// How many of these were changed.
    async fn many(&self, queue: &str, ids: &[JobId], verb: Verb) -> Result<u64> {
        let changed = match verb {
            Verb::Cancel => self.cancel_many(queue, ids).await?.iter().filter(|answer| **answer != CancelAnswer::NotFound).count(),
            Verb::Requeue => self.requeue_many(queue, ids).await?.iter().filter(|changed| **changed).count(),
            Verb::Promote => self.promote_many(queue, ids).await?.iter().filter(|changed| **changed).count(),
            Verb::Delete => self.delete_many(queue, ids).await?.iter().filter(|changed| **changed).count(),
        };
        Ok(changed as u64)
    }
}
