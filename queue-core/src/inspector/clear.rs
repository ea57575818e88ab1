//! Jobs of a group, cancelled in bounded steps.

use std::collections::VecDeque;

use super::Inspector;
use crate::{
    address::JobId,
    broker::{Change, GroupName, JobState, MAX_ITEMS},
    error::Result,
};

/// Which jobs of a group are cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleared {
    /// Waiting jobs: they are ready, scheduled, wait for a retry or for a key, or are parked.
    /// Running jobs continue.
    Waiting,
    /// Running jobs as well.
    All,
}

/// A place of jobs in a group.
#[derive(Clone, Copy, Debug)]
enum Place {
    Line,
    State(JobState),
}

/// A cancel of the jobs of a group, in steps of at most [`MAX_ITEMS`] jobs. From
/// [`Inspector::clear_group`].
///
/// It has no stored state: after an error, or in another process, a new one continues with the
/// remaining jobs. In each state it cancels at most as many jobs as there are when it begins with
/// that state, so that it ends even if new jobs arrive. Jobs that are enqueued meanwhile may be
/// among the cancelled ones.
#[derive(Debug)]
pub struct ClearGroup {
    inspector: Inspector,
    queue: String,
    group: GroupName,
    places: VecDeque<Place>,
    /// For the first place: how many jobs may be cancelled, and where its listing continues.
    /// `None`: the listing has not started.
    begun: Option<(u64, u64)>,
    cancelled: u64,
}

impl ClearGroup {
    pub(super) fn new(inspector: Inspector, queue: &str, group: GroupName, which: Cleared) -> Self {
        let states = [JobState::Scheduled, JobState::Retry, JobState::Parked, JobState::Held];
        let running = (which == Cleared::All).then_some(JobState::Active);
        // The line is processed again at the end, because jobs may have joined it.
        let states = states.into_iter().chain(running).map(Place::State);
        let places = [Place::Line].into_iter().chain(states).chain([Place::Line]).collect();
        ClearGroup { inspector, queue: queue.to_owned(), group, places, begun: None, cancelled: 0 }
    }

    /// How many jobs it has cancelled so far.
    pub fn cancelled(&self) -> u64 {
        self.cancelled
    }

    /// Examines up to [`MAX_ITEMS`] jobs, and cancels those of the group. False: it was the last
    /// step.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a name outside the grammar, and those of the
    /// broker. The next step tries again.
    pub async fn step(&mut self) -> Result<bool> {
        let Some(place) = self.places.front().copied() else { return Ok(false) };
        let (left, from) = match self.begun {
            Some(begun) => begun,
            None => (self.there(place).await?, 0),
        };
        let (left, next) = if left == 0 { (0, None) } else { self.some(place, left, from).await? };
        self.begun = next.filter(|_| left > 0).map(|next| (left, next));
        if self.begun.is_none() {
            self.places.pop_front();
        }
        Ok(!self.places.is_empty())
    }

    async fn there(&self, place: Place) -> Result<u64> {
        match place {
            Place::Line => Ok(self.inspector.group(&self.queue, &self.group).await?.ready),
            Place::State(state) => Ok(self.inspector.stats(&self.queue).await?.count(state)),
        }
    }

    /// Returns how many may be cancelled after that, and where the listing continues.
    async fn some(&mut self, place: Place, left: u64, from: u64) -> Result<(u64, Option<u64>)> {
        let most = usize::try_from(left).map_or(MAX_ITEMS, |left| left.min(MAX_ITEMS));
        let (ids, next): (Vec<JobId>, _) = match place {
            Place::Line => (self.inspector.group_line(&self.queue, &self.group, most).await?, None),
            Place::State(state) => {
                let page = self.inspector.list(&self.queue, state, from, MAX_ITEMS).await?;
                let mine = page.jobs.into_iter().filter(|job| job.group.as_ref() == Some(&self.group));
                (mine.map(|job| job.address.id).take(most).collect(), page.next.filter(|next| *next > from))
            }
        };
        if ids.is_empty() {
            return Ok((left, next));
        }
        let answers = self.inspector.change_many(&self.queue, Change::Cancel, &ids).await?;
        let changed = answers.into_iter().filter(|answer| answer.done()).count() as u64;
        self.cancelled += changed;
        // The jobs after them have moved up: the same place is examined again, unless nothing has
        // changed there.
        Ok((left.saturating_sub(changed), if changed > 0 { Some(from) } else { next }))
    }
}
