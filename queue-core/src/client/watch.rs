//! Watching queues: what jobs go from which state to which, as it happens.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures_util::future::join_all;
use serde::Serialize;
use tokio::time::Instant;

use super::Client;
use crate::{
    address::{JobAddress, check_address},
    broker::{DynBroker, FOLLOWED, Followed, JobState, StoredTransition, Transitions, after, on_broker, on_broker_until},
    error::Result,
    inspector::Filter,
};

/// The mark of who follows is renewed so often.
const RENEWED: Duration = Duration::from_secs(5);
const _: () = assert!(RENEWED.as_millis() * 2 < FOLLOWED.as_millis());

/// A queue in which something happens is asked again after so long, and one in which nothing happens less and less often, down to [`IDLE`].
const BUSY: Duration = Duration::from_millis(20);
const IDLE: Duration = Duration::from_millis(250);

/// With many queues each is asked less often: all of them together so often.
const PER_QUEUE: Duration = Duration::from_millis(2);

/// After so long it looks for new queues.
const NEW_QUEUES: Duration = Duration::from_secs(2);

/// After a failure that may pass, a queue is asked again after so long.
const AFTER_FAILURE: Duration = Duration::from_millis(500);

/// Most transitions of one answer.
const PAGE: usize = 1_000;

/// What a [`Watch`] gives.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Watched {
    /// A job went from one state to another.
    Transition(Transition),
    /// Some transitions of a queue were not seen, whether they match the filter or not: the watcher was too slow, a request changed more jobs than it may tell of, or
    /// the server was replaced.
    Lost(Lost),
}

/// A job went from one state to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Transition {
    /// When, by the broker's clock.
    #[serde(serialize_with = "crate::inspector::utc_time")]
    pub at: SystemTime,
    /// The job.
    pub job: JobAddress,
    /// Its task; empty if that cannot be read.
    pub task: String,
    /// In which state it was; `None`: it is new.
    pub from: Option<JobState>,
    /// In which state it is; `None`: it was deleted before its end.
    pub to: Option<JobState>,
    /// How many of its attempts have failed.
    pub attempts: u32,
    /// Why it is dead, or why it was cancelled; at most 200 bytes.
    pub reason: Option<String>,
}

/// Transitions that were not seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Lost {
    /// The queue.
    pub queue: String,
    /// How many; `None`: that is not known.
    pub transitions: Option<u64>,
}

impl Transition {
    fn new(queue: &str, told: StoredTransition) -> Self {
        let StoredTransition { at_ms, id, task, from, to, attempts, reason, .. } = told;
        let at = UNIX_EPOCH + Duration::from_millis(u64::try_from(at_ms).unwrap_or(0));
        Transition { at, job: JobAddress { queue: queue.into(), id }, task, from, to, attempts, reason }
    }
}

impl fmt::Display for Transition {
    /// `orders/close-17 close_order active -> dead (max_attempts)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |state: Option<JobState>, none| state.map_or(none, JobState::name);
        write!(f, "{} {} {} -> {}", self.job, self.task, name(self.from, "new"), name(self.to, "removed"))?;
        self.reason.as_ref().map_or(Ok(()), |reason| write!(f, " ({reason})"))
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.transitions {
            Some(1) => write!(f, "1 transition of {} was lost", self.queue),
            Some(lost) => write!(f, "{lost} transitions of {} were lost", self.queue),
            None => write!(f, "transitions of {} may be lost, it is not known how many", self.queue),
        }
    }
}

impl Client {
    /// Watches the jobs of all queues that match a filter: a [`Watch`] gives each change of the state of one, in the order of its queue, a quarter of a second later at most.
    /// New queues are found within two seconds.
    ///
    /// A transition answers for the fields `queue`, `task`, `id`, `attempts`, `reason`, `note`, and `state`, which is that to which the job has gone.
    ///
    /// While somebody watches a queue, its broker notes each transition of its jobs; while nobody does, it notes none. The broker keeps the last 10,000 of a queue: a program
    /// that reads more slowly than jobs change loses the oldest, and is [told](Watched::Lost) how many. It never slows a worker. On Redis the user has to be allowed to
    /// write.
    ///
    /// ```no_run
    /// use queue_core::{Watched, prelude::*};
    ///
    /// # async fn example(queue: Client) -> queue_core::Result<()> {
    /// let mut watch = queue.watch("queue=orders state=dead".parse()?)?;
    /// loop {
    ///     match watch.next().await? {
    ///         Watched::Transition(transition) => println!("{transition}"),
    ///         Watched::Lost(lost) => eprintln!("{lost}"),
    ///         _ => {}
    ///     }
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a filter with a term that no transition can answer.
    pub fn watch(&self, filter: Filter) -> Result<Watch> {
        filter.check_of_transitions()?;
        let mut watch = Watch {
            broker: self.broker().clone(),
            deadline: self.deadline(),
            filter,
            chosen: false,
            feeds: BTreeMap::new(),
            looks_at: Instant::now(),
            ready: VecDeque::new(),
        };
        if let Some(queue) = watch.filter.queue().map(str::to_owned) {
            watch = watch.queue(&queue)?;
        }
        Ok(watch)
    }
}

/// What jobs go from which state to which, as it happens. From [`Client::watch`].
pub struct Watch {
    broker: DynBroker,
    deadline: Duration,
    filter: Filter,
    /// Whether the queues were named: otherwise it looks for new ones.
    chosen: bool,
    feeds: BTreeMap<String, Feed>,
    /// When it looks for queues the next time.
    looks_at: Instant,
    ready: VecDeque<Watched>,
}

/// How far a queue was read.
#[derive(Clone, Debug)]
struct Feed {
    /// The number of the last transition that was read; `None` before the first answer.
    after: Option<u64>,
    /// The life of the server that gave this number.
    life: String,
    /// When the mark was set.
    marked: Option<Instant>,
    /// When it is asked the next time, and how long after that.
    next: Instant,
    pause: Duration,
    /// The queue was made while others were watched, or did not exist: its first transitions were not seen.
    is_late: bool,
}

/// What an answer says of a queue.
struct Answer {
    followed: Option<Followed>,
    read: Option<Transitions>,
}

impl Watch {
    /// Only this queue, and others that are given in the same way. It need not exist yet.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for what cannot be the name of a queue.
    pub fn queue(mut self, queue: &str) -> Result<Watch> {
        check_address(queue)?;
        self.chosen = true;
        self.feeds.insert(queue.to_owned(), Feed::new(false));
        Ok(self)
    }

    /// Waits for the next transition that matches, or for news that some were lost. The first call begins to watch: it gives no transition from before.
    ///
    /// Call it again soon: who does not call it for ten seconds loses what happens meanwhile.
    ///
    /// # Errors
    /// [`Error::AccessDenied`](crate::Error::AccessDenied) for a user who may not write; [`Error::FeatureUnknown`](crate::Error::FeatureUnknown) while a worker of an older release serves a queue. An outage of the broker is
    /// waited for. After an error it may be called again.
    pub async fn next(&mut self) -> Result<Watched> {
        loop {
            if let Some(watched) = self.next_within(NEW_QUEUES).await? {
                return Ok(watched);
            }
        }
    }

    /// The same for at most so long; `None`: nothing has happened.
    ///
    /// # Errors
    /// Those of [`next`](Self::next).
    pub async fn next_within(&mut self, time: Duration) -> Result<Option<Watched>> {
        let end = after(time);
        loop {
            if let Some(watched) = self.ready.pop_front() {
                return Ok(Some(watched));
            }
            if Instant::now() >= end {
                return Ok(None);
            }
            self.look_for_queues().await?;
            self.read().await?;
            if self.ready.is_empty() {
                let next = self.feeds.values().map(|feed| feed.next).min();
                let until = next.into_iter().chain((!self.chosen).then_some(self.looks_at)).min().map_or(end, |next| next.min(end));
                on_broker(&self.broker, tokio::time::sleep_until(until)).await?;
            }
        }
    }

    /// Finds the queues that exist.
    async fn look_for_queues(&mut self) -> Result<()> {
        if self.chosen || Instant::now() < self.looks_at {
            return Ok(());
        }
        let is_first = self.feeds.is_empty();
        let broker = self.broker.clone();
        let found = on_broker_until(&self.broker, after(self.deadline), async move { broker.queues().await }).await;
        self.looks_at = Instant::now() + NEW_QUEUES;
        match found {
            Ok(names) => {
                for name in names.into_iter().filter(|name| self.filter.allows_queue(name)) {
                    self.feeds.entry(name).or_insert_with(|| Feed::new(!is_first));
                }
                Ok(())
            }
            Err(error) if error.is_transient() => {
                self.looks_at = Instant::now() + AFTER_FAILURE;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Reads on in all queues whose time has come.
    async fn read(&mut self) -> Result<()> {
        let now = Instant::now();
        let due: Vec<(String, Feed)> =
            self.feeds.iter().filter(|(_, feed)| feed.next <= now).map(|(name, feed)| (name.clone(), feed.clone())).collect();
        if due.is_empty() {
            return Ok(());
        }
        let until = after(self.deadline);
        let answers = join_all(due.into_iter().map(|(queue, feed)| {
            let (broker, own, asked) = (&self.broker, self.broker.clone(), queue.clone());
            async move { (queue, on_broker_until(broker, until, async move { ask(&own, &asked, &feed).await }).await) }
        }));
        let (answers, mut told, mut failed) = (answers.await, Vec::new(), None);
        let idle = IDLE.max(PER_QUEUE * u32::try_from(self.feeds.len()).unwrap_or(u32::MAX));
        for (queue, answer) in answers {
            let Some(feed) = self.feeds.get_mut(&queue) else { continue };
            match answer {
                Ok(answer) => {
                    let (lost, transitions) = feed.take(answer, idle);
                    self.ready.extend(lost.map(|transitions| Watched::Lost(Lost { queue: queue.clone(), transitions })));
                    let wanted = transitions.into_iter().filter(|told| self.filter.matches_transition(&queue, told));
                    told.extend(wanted.map(|told| Transition::new(&queue, told)));
                }
                Err(error) => {
                    // The server may be another one then: the next mark says so.
                    (feed.marked, feed.next) = (None, Instant::now() + AFTER_FAILURE);
                    if !error.is_transient() {
                        failed = Some(error);
                    }
                }
            }
        }
        // Those of a queue stay in their order.
        told.sort_by_key(|told| told.at);
        self.ready.extend(told.into_iter().map(Watched::Transition));
        failed.map_or(Ok(()), Err)
    }
}

/// Renews the mark where that is due, and reads on.
async fn ask(broker: &DynBroker, queue: &str, feed: &Feed) -> Result<Answer> {
    let is_due = feed.marked.is_none_or(|marked| marked.elapsed() >= RENEWED);
    let followed = if is_due { Some(broker.follow(queue, FOLLOWED).await?) } else { None };
    let read = match feed.after {
        Some(after) => Some(broker.transitions(queue, after, PAGE).await?),
        None => None,
    };
    Ok(Answer { followed, read })
}

impl Feed {
    fn new(is_late: bool) -> Self {
        Feed { after: None, life: String::new(), marked: None, next: Instant::now(), pause: BUSY, is_late }
    }

    /// Goes on by an answer. Gives how many transitions were lost, if any, and those that were read.
    fn take(&mut self, Answer { followed, read }: Answer, idle: Duration) -> (Option<Option<u64>>, Vec<StoredTransition>) {
        let now = Instant::now();
        let mut is_broken = false;
        if let Some(Followed { last, stood, life, .. }) = followed {
            let Some(last) = last else {
                // Nobody has used the queue yet, or it is gone.
                (self.after, self.marked, self.is_late, self.next) = (None, None, true, now + idle);
                return (None, Vec::new());
            };
            self.marked = Some(now);
            if self.after.is_none() {
                (self.after, self.life, self.next) = (Some(last), life, now + BUSY);
                return (std::mem::take(&mut self.is_late).then_some(None), Vec::new());
            }
            is_broken = !stood || life != self.life;
            self.life = life;
        }
        let Some(read) = read else { return (None, Vec::new()) };
        let is_full = read.told.len() >= PAGE;
        self.pause = if read.told.is_empty() { (self.pause * 2).min(idle) } else { BUSY };
        self.next = if is_full { now } else { now + self.pause };
        self.after = Some(read.upto);
        let lost = match read.lost {
            None => Some(None),
            Some(_) if is_broken => Some(None),
            Some(0) => None,
            Some(lost) => Some(Some(lost)),
        };
        (lost, read.told)
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("filter", &self.filter).field("queues", &self.feeds.keys()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::JobId;

    fn begun() -> Feed {
        let mut feed = Feed::new(false);
        let begin = Answer { followed: Some(Followed::new(7, false, "one".to_owned())), read: None };
        assert_eq!(feed.take(begin, IDLE).0, None, "it begins");
        feed
    }

    fn read(numbers: &[u64], after: u64, last: u64) -> Option<Transitions> {
        let told = numbers.iter().map(|number| StoredTransition::new(*number, 0, JobId::make())).collect();
        Some(Transitions::read(told, after, last, true))
    }

    #[test]
    fn what_is_lost_is_told_once() {
        let mut feed = begun();
        let mut take = |followed: Option<(bool, &str)>, read| {
            let followed = followed.map(|(stood, life)| Followed::new(0, stood, life.to_owned()));
            feed.take(Answer { followed, read }, IDLE).0
        };
        assert_eq!(take(None, read(&[8], 7, 8)), None);
        assert_eq!(take(Some((true, "one")), read(&[9], 8, 9)), None, "the mark was renewed");
        assert_eq!(take(None, read(&[12], 9, 12)), Some(Some(2)));
        assert_eq!(take(Some((true, "two")), read(&[13], 12, 13)), Some(None), "another server may lack the last");
        assert_eq!(take(Some((false, "two")), read(&[], 13, 13)), Some(None), "no mark stood");
        assert_eq!(take(None, read(&[], 13, 2)), Some(None), "the numbers are those of an older copy");
        assert_eq!(take(None, read(&[3], 2, 3)), None);
    }

    #[test]
    fn a_queue_that_did_not_exist_begins_with_a_loss() {
        let mut feed = Feed::new(false);
        assert_eq!(feed.take(Answer { followed: Some(Followed::default()), read: None }, IDLE).0, None);
        let begin = Answer { followed: Some(Followed::new(7, false, String::new())), read: None };
        assert_eq!(feed.take(begin, IDLE).0, Some(None));
        assert_eq!(feed.after, Some(7));
    }
}
