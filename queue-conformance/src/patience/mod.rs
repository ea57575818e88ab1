//! Waits of tests: each has a timeout, and each timeout has a verdict.
//!
//! A wait that times out looks twice, two seconds apart, at what it waits for. If nothing has
//! changed, the verdict is [`STUCK`](Verdict::Stuck): a lost wake-up, a stuck job or a starved
//! group looks exactly like this. If something has changed, the verdict is [`SLOW`](Verdict::Slow),
//! and the test may pass on a machine that has more time for it. The message of the panic begins
//! with the verdict, which the test runner reads: `verdict: SLOW: the job to be done`.
//!
//! ```
//! # use queue_conformance::patience::wait;
//! # async fn example(broker: queue_core::broker::DynBroker) {
//! // Looks at all queues of a broker: audit, counters, jobs with their tags and wait reasons.
//! wait("the queue to be empty").on(&broker).until(async || broker.stats("mail").await.unwrap().jobs() == 0).await;
//! // Looks at a text.
//! let log = || std::fs::read_to_string("worker.log").unwrap_or_default();
//! wait("the worker to start").seeing(log).block_until(|| log().contains("started"));
//! # }
//! ```
//!
//! A wait that names no broker looks at those that its thread [watches](watch), too. Without
//! anything to look at the verdict is `STUCK`, because nothing shows that the test would pass
//! later.

mod look;
mod process;
mod span;

use std::{
    cell::RefCell,
    fmt,
    panic::Location,
    sync::Weak,
    thread,
    time::{Duration, Instant},
};

use futures_util::future::{Either, select};
use queue_core::{
    Client,
    broker::{Broker, DynBroker},
};

use self::look::{changes, queues};
pub use self::{
    process::{Lines, exit, finished, joined, output},
    span::{STRETCH, patience},
};

/// How far apart the two looks are.
const APART: Duration = Duration::from_secs(2);

/// How long a broker may take to answer one look.
const ANSWER: Duration = Duration::from_secs(10);

/// What two looks at a wait that timed out have shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing has changed between them.
    Stuck,
    /// Something has changed.
    Slow,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Verdict::Stuck { "STUCK" } else { "SLOW" })
    }
}

/// A wait that timed out. Its text begins with `verdict: STUCK: NAME` or `verdict: SLOW: NAME`, on
/// a line of its own.
#[derive(Clone, Debug)]
pub struct Late {
    /// The verdict.
    pub verdict: Verdict,
    what: String,
    patience: Duration,
    at: &'static Location<'static>,
    first: String,
    changed: String,
}

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.what.split_whitespace().collect::<Vec<_>>().join(" ");
        writeln!(f, "verdict: {}: {name}", self.verdict)?;
        writeln!(f, "waited {:?} at {} for: {}", self.patience, self.at, self.what)?;
        writeln!(f, "first look:\n{}", self.first.trim_end())?;
        write!(f, "{APART:?} later:\n{}", self.changed.trim_end())
    }
}

impl std::error::Error for Late {}

thread_local! {
    /// Weak: a broker that a test has dropped must close its files.
    static WATCHED: RefCell<Vec<Weak<dyn Broker>>> = const { RefCell::new(Vec::new()) };
}

/// From now on, waits of this thread that name no broker look at all queues of this one, as long as
/// the test has it open.
pub fn watch(broker: &DynBroker) {
    WATCHED.with_borrow_mut(|watched| {
        watched.retain(|broker| broker.strong_count() > 0);
        watched.push(std::sync::Arc::downgrade(broker));
    });
}

/// The short form of [`watch`] for a client that a test has just made.
pub trait WatchBroker {
    /// From now on, waits of this thread look at its broker.
    #[must_use]
    fn watched(self) -> Self;
}

impl WatchBroker for Client {
    fn watched(self) -> Self {
        watch(self.broker());
        self
    }
}

/// A wait for an event. Begins when one of its last methods is called: [`until`](Self::until),
/// [`some`](Self::some), [`end_of`](Self::end_of), or, without a runtime,
/// [`block_until`](Self::block_until) or [`block_some`](Self::block_some).
#[must_use = "it does not wait before `until` or one of its like is called"]
pub struct Wait<'a> {
    what: String,
    at: &'static Location<'static>,
    patience: Duration,
    every: Duration,
    brokers: Vec<(DynBroker, Option<String>)>,
    /// The test has named them for this wait.
    named: bool,
    texts: Vec<Box<dyn FnMut() -> String + Send + 'a>>,
}

impl fmt::Debug for Wait<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait").field("what", &self.what).field("at", &self.at).finish_non_exhaustive()
    }
}

/// A wait for this event, such as `the job to be done`.
#[track_caller]
pub fn wait<'a>(what: impl Into<String>) -> Wait<'a> {
    let at = Location::caller();
    let every = Duration::from_millis(5);
    Wait { what: what.into(), at, patience: patience(), every, brokers: Vec::new(), named: false, texts: Vec::new() }
}

impl<'a> Wait<'a> {
    /// Looks at all queues of this broker.
    pub fn on(mut self, broker: &DynBroker) -> Self {
        self.brokers.push((broker.clone(), None));
        self.named = true;
        self
    }

    /// Looks at one queue of this broker, which has queues of other tests.
    pub fn on_queue(mut self, broker: &DynBroker, queue: &str) -> Self {
        self.brokers.push((broker.clone(), Some(queue.to_owned())));
        self.named = true;
        self
    }

    /// Looks at this text, such as a page or a log. If the wait names a broker and that answers,
    /// the text is shown, and does not count.
    pub fn seeing(mut self, text: impl FnMut() -> String + Send + 'a) -> Self {
        self.texts.push(Box::new(text));
        self
    }

    /// May take this many times as long as other waits: it waits for a series of events.
    pub fn times(mut self, times: u32) -> Self {
        self.patience *= times;
        self
    }

    /// Waits this long instead of [`patience`].
    pub fn within(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Asks again after this time, instead of 5 ms.
    pub fn every(mut self, every: Duration) -> Self {
        self.every = every;
        self
    }

    /// Asks until the answer is true.
    ///
    /// # Panics
    /// With the verdict when it times out; so do the others.
    pub fn until<F: Future<Output = bool>>(self, mut holds: impl FnMut() -> F) -> impl Future<Output = ()> {
        // Not by `some`: the future of an asynchronous closure is not known to be `Send`.
        let every = self.every;
        self.end_of(async move {
            while !holds().await {
                tokio::time::sleep(every).await;
            }
        })
    }

    /// Asks until there is an answer.
    pub fn some<T>(self, ask: impl AsyncFnMut() -> Option<T>) -> impl Future<Output = T> {
        let answer = self.try_some(ask);
        async { answer.await.unwrap_or_else(|late| panic!("{late}")) }
    }

    /// Asks until there is an answer.
    ///
    /// # Errors
    /// The verdict when it times out.
    pub fn try_some<T>(self, mut ask: impl AsyncFnMut() -> Option<T>) -> impl Future<Output = Result<T, Late>> {
        let every = self.every;
        self.try_end_of(async move {
            loop {
                if let Some(answer) = ask().await {
                    return answer;
                }
                tokio::time::sleep(every).await;
            }
        })
    }

    /// Waits for the end of a future.
    pub fn end_of<T>(self, future: impl Future<Output = T>) -> impl Future<Output = T> {
        let end = self.try_end_of(future);
        async { end.await.unwrap_or_else(|late| panic!("{late}")) }
    }

    /// Waits for the end of a future.
    ///
    /// # Errors
    /// The verdict when it times out.
    pub fn try_end_of<T>(mut self, future: impl Future<Output = T>) -> impl Future<Output = Result<T, Late>> {
        // A future that is moved from call to call would take up the stack once per call, and waits
        // are nested.
        let mut future = Box::pin(future);
        async move {
            if let Ok(answer) = tokio::time::timeout(self.patience, &mut future).await {
                return Ok(answer);
            }
            self.add_watched();
            let looks = async {
                let first = self.look().await;
                tokio::time::sleep(APART).await;
                (first, self.look().await)
            };
            // The future is polled on: it may be what makes the difference between the looks.
            let looked = match select(Box::pin(looks), future).await {
                Either::Left((looks, _)) => Some(looks),
                Either::Right(_) => None,
            };
            Err(looked.map_or_else(|| self.came_late(), |(first, second)| self.judge(&first, &second)))
        }
    }

    /// Asks until the answer is true, and blocks the thread meanwhile.
    pub fn block_until(self, mut holds: impl FnMut() -> bool) {
        self.block_some(|| holds().then_some(()));
    }

    /// Asks until there is an answer, and blocks the thread meanwhile.
    pub fn block_some<T>(self, ask: impl FnMut() -> Option<T>) -> T {
        self.try_block_some(ask).unwrap_or_else(|late| panic!("{late}"))
    }

    /// Asks until there is an answer, and blocks the thread meanwhile.
    ///
    /// # Errors
    /// The verdict when it times out.
    pub fn try_block_some<T>(mut self, mut ask: impl FnMut() -> Option<T>) -> Result<T, Late> {
        let end = Instant::now() + self.patience;
        loop {
            if let Some(answer) = ask() {
                return Ok(answer);
            }
            if Instant::now() >= end {
                break;
            }
            thread::sleep(self.every);
        }
        self.add_watched();
        let first = self.look_from_thread();
        let second_at = Instant::now() + APART;
        while Instant::now() < second_at {
            if ask().is_some() {
                return Err(self.came_late());
            }
            thread::sleep(self.every);
        }
        let second = self.look_from_thread();
        Err(self.judge(&first, &second))
    }

    fn add_watched(&mut self) {
        if !self.named {
            let watched = WATCHED.with_borrow(|watched| watched.iter().filter_map(Weak::upgrade).collect::<Vec<_>>());
            self.brokers.extend(watched.into_iter().map(|broker| (broker, None)));
        }
    }

    async fn look(&mut self) -> Look {
        let queues = look_at(&self.brokers).await;
        Look { queues, texts: self.texts.iter_mut().map(|text| text()).collect() }
    }

    /// A runtime may be running on this thread.
    fn look_from_thread(&mut self) -> Look {
        let brokers = &self.brokers;
        let looked = thread::scope(|scope| {
            let looker = scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be started");
                runtime.block_on(look_at(brokers))
            });
            looker.join()
        });
        let queues = looked.unwrap_or_else(|_| vec![Err("the look at the broker panicked".to_owned())]);
        Look { queues, texts: self.texts.iter_mut().map(|text| text()).collect() }
    }

    fn came_late(&self) -> Late {
        self.late(Verdict::Slow, String::new(), "the event has happened".to_owned())
    }

    fn judge(&self, first: &Look, second: &Look) -> Late {
        let queues = |look: &Look| look.queues.iter().map(|queues| queues.as_ref().ok().cloned()).collect::<Vec<_>>();
        let (before, after) = (queues(first), queues(second));
        let decides = self.named && before.iter().chain(&after).all(Option::is_some);
        let changed = before != after || (!decides && first.texts != second.texts);
        let changes = changes(&first.to_string(), &second.to_string());
        let verdict = if changed { Verdict::Slow } else { Verdict::Stuck };
        self.late(verdict, first.to_string(), if changes.is_empty() { "no change".to_owned() } else { changes })
    }

    fn late(&self, verdict: Verdict, first: String, changed: String) -> Late {
        Late { verdict, what: self.what.clone(), patience: self.patience, at: self.at, first, changed }
    }
}

/// What was seen at one time.
struct Look {
    queues: Vec<Result<String, String>>,
    texts: Vec<String>,
}

async fn look_at(brokers: &[(DynBroker, Option<String>)]) -> Vec<Result<String, String>> {
    let mut looks = Vec::new();
    for (broker, queue) in brokers {
        let look = tokio::time::timeout(ANSWER, queues(broker, queue.as_deref())).await;
        looks.push(look.unwrap_or_else(|_| Err(format!("no answer within {ANSWER:?}"))));
    }
    looks
}

impl fmt::Display for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.queues.is_empty() && self.texts.is_empty() {
            return f.write_str("this wait has nothing to look at\n");
        }
        for queues in &self.queues {
            match queues {
                Ok(queues) => f.write_str(queues)?,
                Err(error) => writeln!(f, "the broker does not answer: {error}")?,
            }
        }
        self.texts.iter().try_for_each(|text| writeln!(f, "{}", text.trim_end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(wait: Wait<'_>) -> Late {
        wait.within(Duration::from_millis(20)).try_block_some(|| None::<()>).unwrap_err()
    }

    #[test]
    fn a_text_that_changes_is_slow_and_one_that_does_not_is_stuck() {
        let late = judged(wait("a text\nto grow").seeing(|| "the same".to_owned()));
        assert_eq!(late.verdict, Verdict::Stuck);
        let said = late.to_string();
        assert_eq!(said.lines().next(), Some("verdict: STUCK: a text to grow"));
        assert!(said.contains(file!()) && said.contains("the same") && said.ends_with("no change"), "{said}");
        let mut looks = 0;
        let late = judged(wait("a text to grow").seeing(move || {
            looks += 1;
            format!("a page\nlook {looks}\nits end")
        }));
        let said = late.to_string();
        assert_eq!(said.lines().next(), Some("verdict: SLOW: a text to grow"));
        assert!(said.ends_with("2s later:\n- look 1\n+ look 2"), "{said}");
    }

    #[test]
    fn without_anything_to_look_at_it_is_stuck() {
        let late = judged(wait("nothing"));
        assert_eq!(late.verdict, Verdict::Stuck);
        assert!(late.to_string().contains("nothing to look at"), "{late}");
    }

    #[test]
    fn what_comes_between_the_snapshots_was_slow() {
        let end = Instant::now() + Duration::from_millis(200);
        let asked = wait("the end").within(Duration::from_millis(20)).try_block_some(|| (Instant::now() > end).then_some(()));
        assert_eq!(asked.unwrap_err().verdict, Verdict::Slow);
    }
}
