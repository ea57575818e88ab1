//! Changes of one job, of several, or of all jobs in a state.

use tokio::time::Instant;

use super::{Filter, Inspector, Page, walk::page_of};
use crate::{
    address::{JobAddress, JobId, check_queue},
    broker::{Change, Changed, JobState, KeyHolder, KeyPage, MAX_ITEMS, UniqueKey},
    error::{Error, Result},
};

impl Inspector {
    /// Cancels a job in any state that is not final, for the reason that was given with
    /// [`because`](Self::because), if any. The result of a running job is discarded, and its
    /// handler is cancelled: the answer is [`Changed::WhileActive`] then.
    ///
    /// # Errors
    /// [`Error::NoSuchJob`]; [`Error::WrongState`] when it has ended.
    pub async fn cancel(&self, job: &JobAddress) -> Result<Changed> {
        self.change(Change::Cancel, job).await
    }

    /// Lets a dead, cancelled or expired job run again: → `ready`, with clean counters and without
    /// an expiry.
    ///
    /// # Errors
    /// [`Error::NoSuchJob`]; [`Error::WrongState`] when it is in another state; [`Error::KeyHeld`]
    /// when another job holds its unique key.
    pub async fn requeue(&self, job: &JobAddress) -> Result<()> {
        self.change(Change::Requeue, job).await.map(drop)
    }

    /// Lets a scheduled or retrying job start now: → the tail of `ready`, as if it were due. It
    /// keeps its counters and its history.
    ///
    /// # Errors
    /// [`Error::NoSuchJob`]; [`Error::WrongState`] when it does not wait for a time.
    pub async fn promote(&self, job: &JobAddress) -> Result<()> {
        self.change(Change::Promote, job).await.map(drop)
    }

    /// Removes a job that is not running, with its record.
    ///
    /// # Errors
    /// [`Error::NoSuchJob`]; [`Error::WrongState`] when it is running: cancel it first.
    pub async fn delete(&self, job: &JobAddress) -> Result<()> {
        self.change(Change::Delete, job).await.map(drop)
    }

    /// The holder of a unique key in a queue; `None` if it is free. The key is
    /// [`JobRecord::unique`](crate::inspect::JobRecord::unique).
    ///
    /// # Errors
    /// [`Error::Invalid`] for a name outside the grammar; those of the broker.
    pub async fn key_holder(&self, queue: &str, key: UniqueKey) -> Result<Option<KeyHolder>> {
        check_queue(queue)?;
        let queue = queue.to_owned();
        self.run_until(self.until(), |broker| async move { broker.key_holder(&queue, &key).await }).await
    }

    /// Held unique keys of a queue, and the jobs that hold them: the first ones, or those after a
    /// [`KeyPage::next`]. About `limit`, at most 500.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a name outside the grammar or an invalid cursor; those of the broker.
    pub async fn keys(&self, queue: &str, after: Option<&str>, limit: usize) -> Result<KeyPage> {
        check_queue(queue)?;
        let (queue, after) = (queue.to_owned(), after.map(str::to_owned));
        self.run_until(self.until(), |broker| async move { broker.keys(&queue, after.as_deref(), limit).await }).await
    }

    /// Releases a unique key, and returns the job that held it. That job continues. The next job
    /// with this key is stored, and a job that is `held` for it may start.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a name outside the grammar; those of the broker.
    pub async fn release_key(&self, queue: &str, key: UniqueKey) -> Result<Option<KeyHolder>> {
        check_queue(queue)?;
        let queue = queue.to_owned();
        self.run_until(self.until(), |broker| async move { broker.release_key(&queue, &key).await }).await
    }

    /// Removes an unused queue: its name, and its history. Returns what uses the queue, which is
    /// empty if the queue was removed. Uses are jobs, live workers, schedules, rules, limits,
    /// pauses, aging, a subscription, remembered ids and unique keys, and outboxes.
    ///
    /// # Errors
    /// [`Error::NoSuchQueue`]; [`Error::Invalid`] for a name outside the grammar; those of the
    /// broker.
    pub async fn remove_queue(&self, queue: &str) -> Result<Vec<String>> {
        check_queue(queue)?;
        self.found_of(queue, (), true).await?;
        if let Some((subscription, topic)) = queue.split_once('@')
            && let Some(topic) = self.broker.topic(topic).await?
            && topic.subscriptions.iter().any(|stored| stored.name == subscription)
        {
            return Ok(vec!["a subscription".to_owned()]);
        }
        let queue = queue.to_owned();
        self.run_until(self.until(), |broker| async move { broker.remove_queue(&queue).await }).await
    }

    /// Changes one job. Never answers [`Changed::No`] or [`Changed::Held`].
    ///
    /// # Errors
    /// [`Error::NoSuchJob`]; [`Error::WrongState`] when the change does not
    /// [apply](Change::applies_to) to the job's state; [`Error::KeyHeld`] when another job holds
    /// the key of a job that is to be requeued.
    pub async fn change(&self, change: Change, job: &JobAddress) -> Result<Changed> {
        let until = self.until();
        match self.change_until(until, &job.queue, change, std::slice::from_ref(&job.id)).await?.first() {
            Some(Changed::No) | None => Err(match self.stored(until, job).await? {
                Some(stored) => Error::WrongState { job: job.clone(), verb: change.name(), state: stored.state.name() },
                None => Error::NoSuchJob(job.to_string()),
            }),
            Some(Changed::Held(holder)) => Err(Error::KeyHeld { job: job.clone(), verb: "requeue", holder: holder.clone() }),
            Some(changed) => Ok(changed.clone()),
        }
    }

    /// Changes at most [`MAX_ITEMS`] jobs of a queue at once. One answer per id, in order.
    ///
    /// # Errors
    /// [`Error::Invalid`] for more ids, and for a name outside the grammar; those of the broker.
    pub async fn change_many(&self, queue: &str, change: Change, ids: &[JobId]) -> Result<Vec<Changed>> {
        self.change_until(self.until(), queue, change, ids).await
    }

    async fn change_until(&self, until: Instant, queue: &str, change: Change, ids: &[JobId]) -> Result<Vec<Changed>> {
        check_queue(queue)?;
        if ids.len() > MAX_ITEMS {
            return Err(Error::invalid("ids", ids.len().to_string(), format!("are more than {MAX_ITEMS} at once")));
        }
        let (queue, ids, reason) = (queue.to_owned(), ids.to_vec(), self.reason.clone());
        self.run_until(until, |broker| async move { broker.change(&queue, change, reason.as_deref(), &ids).await }).await
    }

    /// Changes all jobs of a queue in one state. Returns how many were changed: none if the change
    /// does not [apply](Change::applies_to) to the state.
    ///
    /// It changes at most as many jobs as existed when it began, so that it ends even if new jobs
    /// arrive.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a name outside the grammar, and those of the broker. Jobs that were
    /// changed before the error stay changed.
    ///
    /// ```no_run
    /// # use queue_core::{Client, JobState, inspect::Change};
    /// # async fn example(client: Client) -> queue_core::Result<()> {
    /// let again = client.inspector().change_all("orders", Change::Requeue, JobState::Dead).await?;
    /// println!("{again} dead jobs run again");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn change_all(&self, queue: &str, change: Change, state: JobState) -> Result<u64> {
        self.change_matching(queue, change, state, &Filter::default()).await
    }

    /// Changes those jobs of a queue in one state that match. As [`change_all`](Self::change_all)
    /// otherwise.
    ///
    /// # Errors
    /// Those of [`change_all`](Self::change_all).
    // Page after page. A changed job leaves a gap in some listings; in others the later jobs move
    // up. Each page is therefore read again until nothing in it changes. Workers that claim
    // meanwhile move jobs to pages already read. The walk is therefore repeated until no job is
    // left, or two walks have changed nothing.
    pub async fn change_matching(&self, queue: &str, change: Change, state: JobState, filter: &Filter) -> Result<u64> {
        check_queue(queue)?;
        let there = self.stats(queue).await?.count(state);
        let (mut left, mut fruitless) = (there, 0);
        loop {
            let (before, mut place) = (left, Some(0));
            while let Some(from) = place.filter(|_| left > 0) {
                let Page { mut jobs, next } = self.list(queue, state, from, page_of(left)).await?;
                if filter.needs_reasons() {
                    self.add_reasons(queue, &mut jobs).await?;
                }
                let now = self.broker.clock().now();
                let ids: Vec<JobId> = jobs.into_iter().filter(|job| filter.matches(job, now)).map(|job| job.address.id).collect();
                let answers = if ids.is_empty() { Vec::new() } else { self.change_many(queue, change, &ids).await? };
                let changed = answers.into_iter().filter(|answer| answer.done()).count() as u64;
                left = left.saturating_sub(changed);
                if changed == 0 {
                    place = next.filter(|next| *next > from);
                }
            }
            fruitless = if left == before { fruitless + 1 } else { 0 };
            if left == 0 || fruitless == 2 || self.stats(queue).await?.count(state) == 0 {
                return Ok(there - left);
            }
        }
    }
}
