//! Searches: pages of the jobs of all queues that match a filter, which stay right while the queues
//! change.

use std::{collections::BTreeMap, pin::pin};

use futures_util::future::join_all;
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};

use self::cursor::{At, check, check_queues};
use super::{Filter, Inspector, JobRecord};
use crate::{
    address::{JobAddress, check_queue},
    broker::{DynBroker, JobState, MAX_ITEMS, Scan, Scanned, StoredJob, after},
    error::{Error, Result},
};

mod cursor;

/// The default number of jobs that one page examines.
const LOOKS: u64 = 5_000;

/// Most steps of one page.
const STEPS: usize = 100;

/// The most queues whose numbers of jobs are read at the same time.
const ASKED_AT_ONCE: usize = 16;

/// A queue that has not answered within this part of the time is read in parallel to the next ones.
const PATIENCE: u32 = 64;

/// The result of a step: the matching jobs, the number of examined jobs, and where the next step
/// begins.
type Step = (Vec<JobRecord>, u64, Option<Vec<u8>>);

/// A search for jobs, page by page. From [`Inspector::search`].
///
/// A page examines a bounded number of jobs, and reports the progress of the search. The position
/// is a [cursor](Found::cursor), a string with which another process can continue. A matching job
/// that does not move is found once, even if many jobs come and go between two pages. A job that
/// changes its state meanwhile may be found twice, or not at all.
///
/// ```no_run
/// # use queue_core::Client;
/// # async fn example(client: Client) -> queue_core::Result<()> {
/// let mut search = client.inspector().search("task=send_mail attempts>=3 error~timeout".parse()?);
/// while let Some(page) = search.next().await? {
///     for job in &page.jobs {
///         println!("{} failed {} times", job.address, job.failures);
///     }
///     eprintln!("examined {} of {} jobs", page.examined, page.total);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Search {
    inspector: Inspector,
    filter: Filter,
    queues: Vec<String>,
    at: Option<At>,
    limit: usize,
    looks: u64,
    adds_reasons: bool,
    examined: u64,
    /// The readable queues, and how many jobs each has in the requested states.
    open: Option<BTreeMap<String, u64>>,
    /// The queues that cannot be read, until a page has reported them.
    unreadable: Vec<(String, Error)>,
}

/// A page of a [`Search`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Found {
    /// The jobs that match, queue by queue, as [`Inspector::list`] has them. The list may be empty
    /// although the search has not ended.
    pub jobs: Vec<JobRecord>,
    /// How many jobs were examined since the search began.
    pub examined: u64,
    /// How many jobs there are now to examine, in the readable queues.
    pub total: u64,
    /// The position to continue from, for [`Search::from`]. `None` if all jobs were examined,
    /// except those of `unreadable` queues.
    pub cursor: Option<String>,
    /// The queues that were left out, because their server is unreachable, or another program has
    /// replaced one of their keys. Each is listed once.
    pub unreadable: Vec<(String, Error)>,
}

impl Search {
    /// Searches only this queue, or several if it is called repeatedly. Without it, all queues are
    /// searched.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queues.push(queue.into());
        self
    }

    /// Continues where another search with the same filter and the same queues has stopped.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a string that is not a [cursor](Found::cursor), or belongs to another
    /// filter. [`next`](Self::next) refuses a cursor of other queues.
    pub fn from(mut self, cursor: &str) -> Result<Self> {
        let at = At::read(cursor)
            .ok_or_else(|| Error::invalid("cursor", cursor, "is not a valid cursor; use the one that the previous page returned"))?;
        if at.filter != check(&self.filter) {
            return Err(Error::invalid(
                "cursor",
                cursor,
                "belongs to another filter; continue with the same filter, or start without a cursor",
            ));
        }
        self.examined = at.examined;
        self.at = Some(at);
        Ok(self)
    }

    /// Most jobs of a page. Range: 1 to 500. Default: 50.
    #[must_use]
    pub fn page(mut self, jobs: usize) -> Self {
        self.limit = jobs.clamp(1, MAX_ITEMS);
        self
    }

    /// Most jobs that a page examines. Default: 5,000.
    #[must_use]
    pub fn examine_at_most(mut self, jobs: u64) -> Self {
        self.looks = jobs.max(1);
        self
    }

    /// Adds to each job the reasons why it does not run, as
    /// [`Walk::with_reasons`](crate::inspect::Walk::with_reasons) does.
    #[must_use]
    pub fn with_reasons(mut self) -> Self {
        self.adds_reasons = true;
        self
    }

    /// How many jobs the pages have examined so far, including those before the
    /// [cursor](Self::from).
    pub fn examined(&self) -> u64 {
        self.examined
    }

    /// The next page. `None`: the search has ended.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a queue's name outside the grammar, and for a cursor of other queues;
    /// those of the broker, except for those that concern one queue, which are in
    /// [`Found::unreadable`]. After an error the same page can be requested again.
    pub async fn next(&mut self) -> Result<Option<Found>> {
        let Some(mut at) = self.at.clone() else { return Ok(None) };
        let (states, mut found) = (self.filter.states(), Found::default());
        // Half of the time is for servers that do not answer.
        let until = self.inspector.until();
        let half = after(self.inspector.deadline / 2);
        let open = match self.open.take() {
            Some(open) => open,
            None => self.begin(half, &states).await?,
        };
        found.total = open.values().sum();
        at.queues = Some(check_queues(&self.queues));
        let exact = self.filter.id();
        let (mut looks, mut steps) = (self.looks, 0);
        let names: Vec<&String> = open.keys().filter(|name| **name >= at.queue).collect();
        let mut left = names.iter();
        let mut queue = left.next();
        while let Some(name) = queue {
            if **name != at.queue {
                (at.queue, at.place) = ((*name).clone(), None);
            }
            let room = self.limit - found.jobs.len();
            let step = match &exact {
                Some(id) => self.one(until, JobAddress { queue: name.as_str().into(), id: id.clone() }).await,
                None => self.step(until, name, &states, at.place.take(), room, looks).await,
            };
            steps += 1;
            match step {
                Ok((jobs, examined, next)) => {
                    found.jobs.extend(jobs);
                    at.examined += examined;
                    looks = looks.saturating_sub(examined);
                    at.place = next;
                }
                Err(error @ (Error::Unavailable { .. } | Error::WrongType { .. })) => {
                    found.unreadable.push(((*name).clone(), error));
                    at.place = None;
                }
                Err(error) => {
                    self.open = Some(open);
                    return Err(error);
                }
            }
            if at.place.is_none() {
                queue = left.next();
                at.queue = queue.map(|name| (*name).clone()).unwrap_or_default();
            }
            if found.jobs.len() >= self.limit || looks == 0 || steps >= STEPS || Instant::now() >= half {
                break;
            }
        }
        self.at = queue.is_some().then_some(at.clone());
        (found.examined, self.examined) = (at.examined, at.examined);
        found.total = found.total.max(found.examined);
        found.cursor = self.at.as_ref().map(At::text);
        self.open = Some(open);
        found.unreadable.splice(..0, std::mem::take(&mut self.unreadable));
        Ok(Some(found))
    }

    /// The queues that can be read, and their numbers of jobs. A server that does not answer keeps
    /// no other waiting.
    async fn begin(&mut self, until: Instant, states: &[JobState]) -> Result<BTreeMap<String, u64>> {
        self.queues.iter().try_for_each(|queue| check_queue(queue))?;
        if let Some(cursor) = self.at.as_ref().filter(|at| at.queues.is_some_and(|queues| queues != check_queues(&self.queues))) {
            return Err(Error::invalid(
                "cursor",
                cursor.text(),
                "belongs to other queues; continue with the same queues, or start without a cursor",
            ));
        }
        let mut queues = self.queues.clone();
        if queues.is_empty() {
            queues = self.inspector.ask(until, |broker| async move { broker.queues().await }).await?;
        }
        queues.retain(|queue| self.filter.allows_queue(queue));
        let (asked, patience) = (Semaphore::new(ASKED_AT_ONCE), until.saturating_duration_since(Instant::now()) / PATIENCE);
        let (asked, search) = (&asked, &*self);
        let counts = queues.iter().map(|queue| async move {
            let permit = asked.acquire().await;
            let mut count = pin!(search.count(until, queue, states));
            let count = match timeout(patience, &mut count).await {
                Ok(count) => count,
                Err(_) => {
                    drop(permit);
                    count.await
                }
            };
            (count, queue)
        });
        let (mut open, mut unreadable) = (BTreeMap::new(), Vec::new());
        for (count, queue) in join_all(counts).await {
            match count {
                Ok(count) => drop(open.insert(queue.clone(), count)),
                Err(error @ (Error::Unavailable { .. } | Error::WrongType { .. })) => unreadable.push((queue.clone(), error)),
                Err(error) => return Err(error),
            }
        }
        self.unreadable = unreadable;
        Ok(open)
    }

    /// The number of jobs of a queue that have to be examined.
    async fn count(&self, until: Instant, queue: &str, states: &[JobState]) -> Result<u64> {
        if self.filter.tag().is_some() {
            let request = Scan::new(queue, states, 1).matching(&self.filter);
            return Ok(self.inspector.scanned(until, &request).await?.of.unwrap_or_default());
        }
        let name = queue.to_owned();
        let ask = move |broker: DynBroker| {
            let name = name.clone();
            async move { broker.stats(&name).await }
        };
        let stats = self.inspector.ask(until, ask).await?;
        Ok(states.iter().map(|state| stats.count(*state)).sum())
    }

    /// One step.
    async fn step(
        &self,
        until: Instant,
        queue: &str,
        states: &[JobState],
        place: Option<Vec<u8>>,
        room: usize,
        looks: u64,
    ) -> Result<Step> {
        let most = if self.filter.is_empty() { room } else { MAX_ITEMS };
        let most = most.min(usize::try_from(looks).unwrap_or(most)).max(1);
        let mut request = Scan::new(queue, states, most).after(place).matching(&self.filter).uncounted();
        if request.tag.is_some() {
            // All jobs with the tag count as examined.
            request.states = JobState::ALL.to_vec();
        }
        let mut step = self.inspector.scanned(until, &request).await?;
        let (jobs, last) = self.matching(queue, step.jobs, room).await?;
        // If more jobs match than fit, the page ends with the last one that has a position.
        match last.and_then(|last| Some((last, step.places.get_mut(last)?))) {
            Some((last, place)) => Ok((jobs, last as u64 + 1, Some(std::mem::take(place)))),
            None => Ok((jobs, step.examined, step.next)),
        }
    }

    /// The matching jobs, as many as fit, and the index of the last of them among the examined jobs
    /// if more match.
    async fn matching(&self, queue: &str, jobs: Vec<StoredJob>, room: usize) -> Result<(Vec<JobRecord>, Option<usize>)> {
        let now = self.inspector.broker.clock().now();
        let jobs = self.inspector.records(queue, jobs).await?;
        let all_else = jobs.into_iter().enumerate().filter(|(_, job)| self.filter.matches_without_reasons(job, now));
        let (mut places, mut jobs): (Vec<usize>, Vec<JobRecord>) = all_else.unzip();
        // Whether there are more than there is room for is seen by one more.
        if !self.filter.needs_reasons() {
            jobs.truncate(room + 1);
        }
        if self.adds_reasons || self.filter.needs_reasons() {
            self.inspector.add_reasons(queue, &mut jobs).await?;
        }
        let mut matches = jobs.iter().map(|job| self.filter.matches(job, now));
        places.truncate(jobs.len());
        places.retain(|_| matches.next().unwrap_or(false));
        jobs.retain(|job| self.filter.matches(job, now));
        let last = (jobs.len() > room).then(|| places[room - 1]);
        jobs.truncate(room);
        Ok((jobs, last))
    }

    /// The job of a filter that names one.
    async fn one(&self, until: Instant, job: JobAddress) -> Result<Step> {
        let stored = self.inspector.stored(until, &job).await?.map(StoredJob::listed);
        let examined = u64::from(stored.is_some());
        let (jobs, _) = self.matching(&job.queue, stored.into_iter().collect(), 1).await?;
        Ok((jobs, examined, None))
    }
}

/// Bytes as hexadecimal digits.
pub(super) fn text_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2).map(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
    digits.collect::<Option<_>>().filter(|_| text.len().is_multiple_of(2))
}

impl Scan {
    /// Selects the jobs with the tag that the filter names, if it names one.
    pub(super) fn matching(self, filter: &Filter) -> Self {
        match filter.tag() {
            Some((name, value)) => self.tagged(name, value),
            None => self,
        }
    }
}

impl Inspector {
    /// One step of a scan.
    pub(super) async fn scanned(&self, until: Instant, request: &Scan) -> Result<Scanned> {
        let request = request.clone();
        let ask = move |broker: DynBroker| {
            let request = request.clone();
            async move { broker.scan(&request).await }
        };
        self.ask(until, ask).await
    }

    /// A search for the jobs that match, in all queues or in [some](Search::queue).
    ///
    /// A filter with `id=` examines only the job with this id in each queue. A filter with
    /// `tag.NAME=VALUE` examines the jobs that have this tag, in the order of their ids. All others
    /// examine every job in the [states](Filter::states) of the filter.
    pub fn search(&self, filter: Filter) -> Search {
        let at = At { filter: check(&filter), ..At::default() };
        let inspector = self.clone();
        Search {
            inspector,
            filter,
            queues: Vec::new(),
            at: Some(at),
            limit: 50,
            looks: LOOKS,
            adds_reasons: false,
            examined: 0,
            open: None,
            unreadable: Vec::new(),
        }
    }
}
