//! A subscription begins again at a target, in bounded steps.

use std::collections::VecDeque;

use super::Inspector;
use crate::{
    address::{JobId, check_name, subscription_address},
    broker::{Begin, JobState, MAX_ITEMS, ProcessId, Rewind, RewindStep, RewindTarget, Rewound},
    error::{Error, Result},
};

/// States of jobs that wait.
const WAITING: [JobState; 5] = [JobState::Ready, JobState::Scheduled, JobState::Retry, JobState::Parked, JobState::Held];

/// The most passes over the waiting jobs.
const PASSES: u32 = 5;

/// The preview of a rewind. From [`Inspector::preview_rewind`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RewindPreview {
    /// How many events that it has read would be read again.
    pub again: u64,
    /// How many jobs that wait would be cancelled.
    pub waiting: u64,
    /// Whether events of the target are gone, or may be: it begins at the oldest then.
    pub is_short: bool,
}

/// A rewind of a subscription, in steps of at most [`MAX_ITEMS`] jobs. From [`Inspector::rewind`].
///
/// While it is under way the subscription reads nothing. If it is dropped before its end, or its
/// process crashes, the subscription stays stopped, and [`SubscriptionInfo::rewinding`] reports it.
/// Another rewind then repeats all steps.
///
/// [`SubscriptionInfo::rewinding`]: crate::topics::SubscriptionInfo::rewinding
#[derive(Debug)]
pub struct Rewinding {
    inspector: Inspector,
    topic: String,
    subscription: String,
    target: RewindTarget,
    token: String,
    /// The token of the previous rewind, once it is known.
    after: Option<String>,
    begun: Option<(String, bool)>,
    /// The number of further passes over the waiting jobs, and the rest of this one.
    passes: u32,
    waiting: VecDeque<Waiting>,
    cancelled: u64,
    forgotten: u64,
    ended: bool,
}

/// Jobs of a state that a pass is to cancel.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    state: JobState,
    /// How many, at most.
    left: u64,
    /// The place of the next page.
    from: u64,
}

impl Rewinding {
    /// The number of waiting jobs that it has cancelled so far.
    pub fn cancelled(&self) -> u64 {
        self.cancelled
    }

    /// The number of events so far that will be read again.
    pub fn again(&self) -> u64 {
        self.forgotten
    }

    /// Whether events of the target are gone, or may be, so that it begins at the oldest. Known
    /// after the first step.
    pub fn is_short(&self) -> bool {
        self.begun.as_ref().is_some_and(|(_, is_short)| *is_short)
    }

    /// The next step. False: it was the last.
    ///
    /// # Errors
    /// [`Error::Config`] if there is no such subscription, or another rewind has taken over;
    /// [`Error::Invalid`] for a target that is not in this log. After an error of the broker the
    /// next step tries again.
    pub async fn step(&mut self) -> Result<bool> {
        if self.ended {
            return Ok(false);
        }
        let Some((position, is_short)) = self.begun.clone() else {
            let Some(after) = self.after.clone() else {
                let look = RewindStep::Look(self.target.clone());
                if let Rewound::Target { token, .. } = self.inspector.rewind_step(&self.topic, &self.subscription, look).await? {
                    self.after = Some(token);
                }
                return Ok(true);
            };
            let begin = RewindStep::Begin { target: self.target.clone(), token: self.token.clone(), after };
            if let Rewound::Target { from, is_short, .. } = self.inspector.rewind_step(&self.topic, &self.subscription, begin).await? {
                self.begun = Some((from, is_short));
                if cancels_nothing(&self.target, is_short) {
                    self.passes = 0;
                }
            }
            return Ok(true);
        };
        if let Some(of) = self.waiting.front().copied() {
            self.cancel(of).await?;
            return Ok(true);
        }
        if self.passes > 0 {
            self.pass().await?;
            return Ok(true);
        }
        let forget = RewindStep::Forget(position, self.token.clone());
        if let Rewound::Passed { entries, next } = self.inspector.rewind_step(&self.topic, &self.subscription, forget).await? {
            self.forgotten += entries;
            if let Some(next) = next {
                self.begun = Some((next, is_short));
                return Ok(true);
            }
        }
        let end = RewindStep::End(self.token.clone(), self.forgotten);
        // A request without an answer that is sent again may have ended the rewind before.
        self.inspector.rewind_step(&self.topic, &self.subscription, end).await?;
        self.ended = true;
        Ok(false)
    }

    /// One page of a state. A cancelled job leaves a gap in some lists, and in others the later
    /// jobs move up: so a page is read again until nothing in it changes.
    async fn cancel(&mut self, of: Waiting) -> Result<()> {
        let queue = subscription_address(&self.subscription, &self.topic);
        let most = usize::try_from(of.left).map_or(MAX_ITEMS, |left| left.min(MAX_ITEMS));
        let page = self.inspector.list(&queue, of.state, of.from, most).await?;
        let ids: Vec<JobId> = page.jobs.into_iter().map(|job| job.address.id).collect();
        let mut changed = 0;
        if !ids.is_empty() {
            let reason = self.inspector.reason.as_deref().map(str::to_owned);
            let cancel = RewindStep::Cancel { token: self.token.clone(), reason, ids };
            if let Rewound::Cancelled(cancelled) = self.inspector.rewind_step(&self.topic, &self.subscription, cancel).await? {
                changed = cancelled;
            }
        }
        self.cancelled += changed;
        let from = if changed > 0 { Some(of.from) } else { page.next.filter(|next| *next > of.from) };
        let left = of.left.saturating_sub(changed);
        self.waiting.pop_front();
        if let Some(from) = from.filter(|_| left > 0) {
            self.waiting.push_front(Waiting { left, from, ..of });
        }
        Ok(())
    }

    /// Begins another pass, or none if no job waits. A pass cancels at most as many jobs as waited
    /// when it began: jobs of events that are handled meanwhile may fail, and wait again.
    async fn pass(&mut self) -> Result<()> {
        let stats = self.inspector.stats_of(&subscription_address(&self.subscription, &self.topic)).await?;
        self.waiting =
            WAITING.into_iter().map(|state| Waiting { state, left: stats.count(state), from: 0 }).filter(|of| of.left > 0).collect();
        self.passes = if self.waiting.is_empty() { 0 } else { self.passes - 1 };
        Ok(())
    }
}

impl Inspector {
    /// Lets a subscription begin again at a target: the oldest event, the next one, a time, or the
    /// position of an event. It then reads each event from the target on, including handled events.
    /// Its waiting jobs are cancelled, and its running jobs continue. A rewind to the oldest event
    /// cancels no jobs: jobs of events that have left the log still wait, and the others are
    /// replaced.
    ///
    /// ```
    /// use queue_core::{prelude::*, topics::Begin};
    ///
    /// # async fn example() -> queue_core::Result<()> {
    /// let client = Client::connect("sqlite://:memory:").await?;
    /// let inspector = client.inspector();
    /// inspector.subscribe("orders", "billing", Begin::Now).await?;
    /// let mut rewinding = inspector.rewind("orders", "billing", Begin::Start);
    /// while rewinding.step().await? {}
    /// assert_eq!((rewinding.again(), rewinding.cancelled()), (0, 0));
    /// # Ok(()) }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn rewind(&self, topic: &str, subscription: &str, to: impl Into<RewindTarget>) -> Rewinding {
        Rewinding {
            inspector: self.clone(),
            topic: topic.to_owned(),
            subscription: subscription.to_owned(),
            target: to.into(),
            token: ProcessId::random().to_string(),
            after: None,
            begun: None,
            passes: PASSES,
            waiting: VecDeque::new(),
            cancelled: 0,
            forgotten: 0,
            ended: false,
        }
    }

    /// The preview of a rewind; nothing is changed.
    ///
    /// # Errors
    /// Those of [`Rewinding::step`].
    pub async fn preview_rewind(&self, topic: &str, subscription: &str, to: impl Into<RewindTarget>) -> Result<RewindPreview> {
        let to = to.into();
        let found = self.rewind_step(topic, subscription, RewindStep::Look(to.clone())).await?;
        let Rewound::Target { from, upto, is_short, .. } = found else { return Err(no_subscription(topic, subscription)) };
        let (mut again, mut from) = (0, Some(from));
        while let Some(position) = from.take() {
            let count = RewindStep::Count(position, upto.clone());
            if let Rewound::Passed { entries, next } = self.rewind_step(topic, subscription, count).await? {
                again += entries;
                from = next;
            }
        }
        let is_start = cancels_nothing(&to, is_short);
        let stats = self.stats_of(&subscription_address(subscription, topic)).await?;
        let waiting = if is_start { 0 } else { WAITING.into_iter().map(|state| stats.count(state)).sum() };
        Ok(RewindPreview { again, waiting, is_short })
    }

    async fn rewind_step(&self, topic: &str, subscription: &str, step: RewindStep) -> Result<Rewound> {
        check_name("topic", topic)?;
        check_name("subscription", subscription)?;
        let request = Rewind::new(topic, subscription, step);
        match self.run(move |broker| async move { broker.rewind(&request).await }).await? {
            Rewound::NotFound => Err(no_subscription(topic, subscription)),
            Rewound::Other => {
                let problem =
                    format!("another rewind of `{subscription}@{topic}` has taken over, or ended this one; see `topics show {topic}`");
                Err(Error::Config(problem))
            }
            done => Ok(done),
        }
    }
}

/// Events before the oldest one have left the log: jobs of such events may still wait, and would
/// not be created again.
fn cancels_nothing(target: &RewindTarget, is_short: bool) -> bool {
    is_short || *target == RewindTarget::At(Begin::Start)
}

fn no_subscription(topic: &str, subscription: &str) -> Error {
    Error::Config(format!("topic `{topic}` has no subscription `{subscription}`; see `topics show {topic}`"))
}
