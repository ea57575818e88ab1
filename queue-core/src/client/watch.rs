//! Watching queues: state transitions of jobs as they happen.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::Serialize;
use tokio::time::Instant;

use self::round::{Answer, Feed, Round, RoundAnswers, in_order};
use super::Client;
use crate::{
    address::{JobAddress, check_address},
    broker::{DynBroker, JobState, StoredTransition, after, on_broker},
    error::{Error, Result},
    inspector::Filter,
    json,
    text::plain,
};

mod round;

/// The longest pause after which a queue without events is polled again.
const IDLE: Duration = Duration::from_millis(250);

/// The minimum interval between two requests to all queues together: with many queues, each is
/// polled less often.
const PER_QUEUE: Duration = Duration::from_millis(2);

/// The interval between searches for new queues, and for those that could not be watched.
const NEW_QUEUES: Duration = Duration::from_secs(2);

/// The pause after which a queue is polled again after a temporary failure.
const AFTER_FAILURE: Duration = Duration::from_millis(500);

/// The longest wait for an answer: a server that hangs does not delay the queues of other servers
/// longer than this.
const ROUND: Duration = Duration::from_secs(2);

/// The news of a [`Watch`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Watched {
    /// A job went from one state to another.
    Transition(Transition),
    /// Some transitions of a queue were not seen, whether they match the filter or not: the watcher
    /// was too slow, a request changed more jobs than it can report, the server was replaced, or
    /// the queue [cannot be watched](Lost::problem).
    Lost(Lost),
}

/// A job went from one state to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Transition {
    /// When, by the broker's clock.
    #[serde(serialize_with = "json::utc")]
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
    /// Why it is dead, or why it was cancelled; at most 200 bytes, as whole characters.
    pub reason: Option<String>,
}

/// Transitions that were not seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Lost {
    /// The queue.
    pub queue: String,
    /// The number of lost transitions; `None`: unknown.
    pub transitions: Option<u64>,
    /// Why the queue cannot be watched. This is reported once. The watch continues with the other
    /// queues, and retries this one every two seconds.
    pub problem: Option<String>,
}

impl Transition {
    fn new(queue: &str, stored: StoredTransition) -> Self {
        let StoredTransition { at_ms, id, task, from, to, attempts, reason, .. } = stored;
        let at = UNIX_EPOCH + Duration::from_millis(u64::try_from(at_ms).unwrap_or(0));
        Transition { at, job: JobAddress { queue: queue.into(), id }, task, from, to, attempts, reason }
    }
}

impl fmt::Display for Transition {
    /// `orders/close-17 close_order active -> dead (max_attempts)`, on one line, without terminal
    /// control characters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |state: Option<JobState>, none| state.map_or(none, JobState::name);
        write!(f, "{} {} {} -> {}", self.job, plain(&self.task), name(self.from, "new"), name(self.to, "removed"))?;
        self.reason.as_ref().map_or(Ok(()), |reason| write!(f, " ({})", plain(reason)))
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(problem) = &self.problem {
            return write!(f, "{} cannot be watched, its transitions are lost: {problem}", self.queue);
        }
        match self.transitions {
            Some(1) => write!(f, "1 transition of {} was lost", self.queue),
            Some(lost) => write!(f, "{lost} transitions of {} were lost", self.queue),
            None => write!(f, "an unknown number of transitions of {} may be lost", self.queue),
        }
    }
}

impl Client {
    /// Watches the jobs of all queues that match a filter: a [`Watch`] returns each change of a
    /// job's state, in the order of its queue, at most a quarter of a second later. New queues are
    /// found within two seconds.
    ///
    /// A transition matches on the fields `queue`, `task`, `id`, `attempts`, `reason`, `note`, and
    /// `state`, which is the new state of the job.
    ///
    /// While at least one watcher watches a queue, its broker notes each transition of its jobs;
    /// without a watcher it notes none. The broker keeps the last 10,000 transitions of a queue: a
    /// program that reads more slowly than jobs change loses the oldest, and
    /// [`Lost`](Watched::Lost) reports how many. A watcher never slows a worker. On Redis its user
    /// has to be allowed to write.
    ///
    /// ```no_run
    /// use queue_core::{inspect::Watched, prelude::*};
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
    /// [`Error::Invalid`] for a filter with a term that no transition can answer.
    pub fn watch(&self, filter: Filter) -> Result<Watch> {
        filter.check_of_transitions()?;
        let mut watch = Watch {
            broker: self.broker().clone(),
            deadline: self.deadline(),
            filter,
            chosen: false,
            feeds: BTreeMap::new(),
            lists_at: Instant::now(),
            round: None,
            has_begun: false,
            ready: VecDeque::new(),
        };
        if let Some(queue) = watch.filter.queue() {
            watch = watch.queue(&queue)?;
        }
        Ok(watch)
    }
}

/// The transitions of jobs, as they happen. From [`Client::watch`].
pub struct Watch {
    broker: DynBroker,
    deadline: Duration,
    filter: Filter,
    /// Whether the queues were named: otherwise it looks for new ones.
    chosen: bool,
    feeds: BTreeMap<String, Feed>,
    /// The time of the next search for queues.
    lists_at: Instant,
    /// The round that is in progress.
    round: Option<Round>,
    /// Whether the initial queues have answered.
    has_begun: bool,
    ready: VecDeque<Watched>,
}

impl Watch {
    /// Only this queue, and others that are given in the same way. It need not exist yet.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for an invalid name of a queue.
    pub fn queue(mut self, queue: &str) -> Result<Watch> {
        check_address(queue)?;
        self.chosen = true;
        self.feeds.insert(queue.to_owned(), Feed::new(false));
        Ok(self)
    }

    /// Waits for the next matching transition, or for news of lost transitions. The first call
    /// starts the watch: it returns no earlier transition.
    ///
    /// Call it again soon: a program that does not call it for ten seconds loses the transitions of
    /// that time.
    ///
    /// # Errors
    /// [`Error::AccessDenied`](crate::Error::AccessDenied) for a user without write permission;
    /// [`Error::FeatureUnknown`](crate::Error::FeatureUnknown) while a worker of an older release
    /// serves a queue that was named. A queue that was not named does not end the watch:
    /// [`Lost`](Lost::problem) reports why it cannot be watched, unless the user may not watch any
    /// queue. An outage of the broker is waited out. After an error the call may be repeated.
    pub async fn next(&mut self) -> Result<Watched> {
        loop {
            if let Some(watched) = self.next_within(NEW_QUEUES).await? {
                return Ok(watched);
            }
        }
    }

    /// The same for at most `time`; `None`: no transition has happened. The first call waits until
    /// the watch has started, even if that takes longer.
    ///
    /// # Errors
    /// Those of [`next`](Self::next).
    pub async fn next_within(&mut self, time: Duration) -> Result<Option<Watched>> {
        let end = after(time);
        loop {
            if let Some(watched) = self.ready.pop_front() {
                return Ok(Some(watched));
            }
            if self.has_begun && Instant::now() >= end {
                return Ok(None);
            }
            self.read(end).await?;
            if self.ready.is_empty() {
                let next = self.feeds.values().map(|feed| feed.next).min();
                let until = next.into_iter().chain((!self.chosen).then_some(self.lists_at)).min().map_or(end, |next| next.min(end));
                // A timer is made where a runtime is.
                on_broker(&self.broker, async move { tokio::time::sleep_until(until).await }).await?;
            }
        }
    }

    /// Reads all queues whose time has come. Answers that arrive after the end of the call are used
    /// by the next call.
    async fn read(&mut self, end: Instant) -> Result<()> {
        if self.round.is_none() {
            self.round = self.begin();
        }
        let Some(round) = &mut self.round else { return Ok(()) };
        let answered = round.wait(&self.broker, self.has_begun.then_some(end)).await;
        if !matches!(answered, Ok(None)) {
            self.round = None;
        }
        let Some(RoundAnswers { found, answers }) = answered? else { return Ok(()) };
        let has_asked = !answers.is_empty();
        let read = self.take(answers);
        let found = found.map_or(Ok(()), |found| self.find(found));
        self.has_begun |= has_asked || self.feeds.is_empty();
        read.and(found)
    }

    /// Starts a round: reads the queues whose time has come, and searches for new ones.
    fn begin(&self) -> Option<Round> {
        let now = Instant::now();
        let lists = !self.chosen && now >= self.lists_at;
        let due: Vec<(String, Feed)> =
            self.feeds.iter().filter(|(_, feed)| feed.next <= now).map(|(name, feed)| (name.clone(), feed.clone())).collect();
        (lists || !due.is_empty()).then(|| Round::begin(&self.broker, lists, due, ROUND.min(self.deadline)))
    }

    /// Continues with the queues that exist.
    fn find(&mut self, found: Result<Vec<String>>) -> Result<()> {
        self.lists_at = Instant::now() + NEW_QUEUES;
        match found {
            Ok(names) => {
                let is_late = self.has_begun;
                for name in names.into_iter().filter(|name| self.filter.allows_queue(name)) {
                    self.feeds.entry(name).or_insert_with(|| Feed::new(is_late));
                }
                Ok(())
            }
            Err(error) if error.is_transient() => {
                self.lists_at = Instant::now() + AFTER_FAILURE;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Continues with the answers of the queues.
    fn take(&mut self, answers: Vec<(String, Result<Answer>)>) -> Result<()> {
        let (mut found, mut failed, mut refused) = (Vec::new(), None, Vec::new());
        let idle = IDLE.max(PER_QUEUE * u32::try_from(self.feeds.len()).unwrap_or(u32::MAX));
        for (queue, answer) in answers {
            let Some(feed) = self.feeds.get_mut(&queue) else { continue };
            match answer {
                Ok(answer) => {
                    let (lost, transitions) = feed.take(answer, idle);
                    self.ready.extend(lost.map(|transitions| Watched::Lost(Lost { queue: queue.clone(), transitions, problem: None })));
                    let wanted = transitions.into_iter().filter(|transition| self.filter.matches_transition(&queue, transition));
                    found.push(wanted.map(|transition| Transition::new(&queue, transition)).collect());
                }
                Err(error) if error.is_transient() => feed.fail(AFTER_FAILURE),
                Err(error) if self.chosen => {
                    feed.fail(AFTER_FAILURE);
                    failed = Some(error);
                }
                Err(error) => {
                    feed.fail(NEW_QUEUES);
                    refused.push((queue, error, feed.refuse()));
                }
            }
        }
        self.ready.extend(in_order(found).into_iter().map(Watched::Transition));
        // A user without the right to watch any queue gets an error.
        if let Some(at) = refused.iter().position(|(_, error, _)| matches!(error, Error::AccessDenied { .. }))
            && self.feeds.values().all(|feed| feed.is_refused)
        {
            return Err(refused.swap_remove(at).1);
        }
        for (queue, error, is_news) in refused {
            if is_news {
                self.ready.push_back(Watched::Lost(Lost { queue, transitions: None, problem: Some(error.to_string()) }));
            }
        }
        failed.map_or(Ok(()), Err)
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

    #[test]
    fn a_transition_is_one_line_without_what_a_terminal_would_obey() {
        let mut stored = StoredTransition::new(1, 0, "close-17".parse().unwrap());
        (stored.task, stored.from, stored.to) = ("close\torder".to_owned(), Some(JobState::Active), Some(JobState::Dead));
        stored.reason = Some("a\nb \u{1b}[31mred".to_owned());
        assert_eq!(Transition::new("orders", stored).to_string(), "orders/close-17 close order active -> dead (a b  [31mred)");
    }
}
