//! The janitor sweeps and audits. A sweep buries parked jobs that no release could read in time. It
//! also removes idle producers, remembered ids, and kept jobs past their retention. An audit
//! repairs damage by other programs. It also restores the next ticks of schedules that a wrong
//! clock has set far ahead.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use queue_core::{
    broker::{Audit, BuryReason, Damage, DynBroker, SweepLimits, subscription_at, topic_address},
    schedule::clamp,
};

use super::Pass;
use crate::{
    history::History,
    letters,
    queues::Queues,
    time::now,
    tuning::{AUDIT, CALLS, CLAMPED, LOGGED_AT_ONCE, ROUND, SWEPT_AGAIN, SWEPT_FOR},
};

pub(crate) struct Janitor {
    broker: DynBroker,
    queues: Queues,
    history: Arc<History>,
    rounds: u32,
    /// By queue: the cursor of the next check of schedules that are due far ahead.
    ahead: Vec<u64>,
    /// Whether the last round has left expired entries.
    left: bool,
    limits: SweepLimits,
}

/// The result of one round over all queues.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Round {
    /// What was removed.
    pub(crate) removed: usize,
    /// Repairs of damage that another program did.
    pub(crate) repaired: usize,
    /// Calls that failed; the next round continues.
    pub(crate) failed: usize,
    /// Whether expired entries are left.
    pub(crate) left: bool,
}

/// Whether a queue has used its time in this round. If not, waits as long as the last call took, so
/// that the broker has half of its time for jobs.
async fn has_used_its_time(began: Instant, asked: Instant, round: &mut Round) -> bool {
    let answered = now();
    let is_over = answered.saturating_duration_since(began) >= SWEPT_FOR;
    if !is_over {
        tokio::time::sleep(answered.saturating_duration_since(asked)).await;
    }
    round.left |= is_over;
    is_over
}

impl Janitor {
    pub(crate) fn new(broker: DynBroker, queues: Queues, history: Arc<History>, limits: SweepLimits) -> Self {
        let ahead = vec![0; queues.len()];
        // The number of a sweeper is not zero.
        let limits = SweepLimits { sweeper: fastrand::u64(1..1 << 53), ..limits };
        Janitor { broker, queues, history, rounds: 0, ahead, left: false, limits }
    }

    async fn sweep(&self, at: usize, round: &mut Round) {
        let queue = &*self.queues[at].name;
        let began = now();
        loop {
            let asked = now();
            match self.broker.sweep(queue, &self.limits).await {
                Ok(swept) if swept.is_empty() || swept.elsewhere => return,
                Ok(swept) => {
                    letters::log_buried(&self.broker, queue, &swept.buried, BuryReason::Undecodable).await;
                    self.history.buried(at, swept.buried.len());
                    round.removed += swept.removed();
                    tracing::debug!(queue, ?swept, "sweep done");
                    if !swept.more || has_used_its_time(began, asked, round).await {
                        return;
                    }
                }
                Err(error) => {
                    round.failed += 1;
                    if error.is_transient() {
                        tracing::debug!(queue, %error, "a sweep failed, retrying in the next round");
                    } else {
                        tracing::warn!(queue, %error, "the broker rejected the sweep: this worker does not remove expired records");
                    }
                    return;
                }
            }
        }
    }

    /// Restores the next ticks of schedules that a wrong clock has set far ahead. Each round checks
    /// a part of the schedules.
    async fn clamp(&mut self, at: usize, round: &mut Round) {
        let queue = self.queues[at].name.clone();
        for _ in 0..CALLS {
            match clamp(&self.broker, &queue, self.ahead[at], CLAMPED, true).await {
                Ok(clamped) => {
                    round.repaired += clamped.schedules.len();
                    for schedule in clamped.schedules.iter().take(LOGGED_AT_ONCE) {
                        tracing::warn!(
                            queue = &*queue,
                            schedule,
                            "repaired the next tick of a schedule, which a wrong clock had set too far ahead"
                        );
                    }
                    self.ahead[at] = clamped.next.unwrap_or(0);
                    if clamped.next.is_none() {
                        return;
                    }
                }
                Err(error) => {
                    round.failed += 1;
                    tracing::debug!(queue = &*queue, %error, "cannot check the schedules, retrying in the next round");
                    return;
                }
            }
        }
    }

    /// Removes the idle producers of a topic, and events past the retention of the topic. One
    /// worker trims a topic at a time.
    async fn trim(&self, topic: &str, round: &mut Round) {
        let began = now();
        loop {
            let asked = now();
            match self.broker.sweep(&topic_address(topic), &self.limits).await {
                // Another worker trims this topic.
                Ok(swept) if swept.elsewhere => return,
                Ok(swept) => {
                    round.removed += swept.removed();
                    if !swept.more || has_used_its_time(began, asked, round).await {
                        break;
                    }
                }
                Err(error) => {
                    round.failed += 1;
                    tracing::debug!(topic, %error, "cannot sweep the producers of the topic, retrying in the next round");
                    break;
                }
            }
        }
        let began = now();
        loop {
            let asked = now();
            match self.broker.trim_topic(topic).await {
                Ok(trimmed) => {
                    round.removed += usize::try_from(trimmed.entries).unwrap_or(usize::MAX);
                    if trimmed.lost > 0 {
                        tracing::warn!(
                            topic,
                            lost = trimmed.lost,
                            "events were removed before slow subscriptions read them; `topics show` lists the subscriptions"
                        );
                    }
                    if !trimmed.more || has_used_its_time(began, asked, round).await {
                        return;
                    }
                }
                Err(error) => {
                    round.failed += 1;
                    tracing::debug!(topic, %error, "cannot trim the log of the topic, retrying in the next round");
                    return;
                }
            }
        }
    }

    async fn repair(&self, queue: &str, round: &mut Round) {
        match self.broker.audit(queue, Audit { repair: true, thorough: false }).await {
            Ok(damages) => {
                round.repaired += damages.len();
                for Damage { kind, subject } in damages.iter().take(LOGGED_AT_ONCE) {
                    tracing::warn!(queue, %kind, subject, "repaired damage that another program has caused");
                }
                if damages.len() > LOGGED_AT_ONCE {
                    tracing::warn!(queue, repaired = damages.len(), "repaired more damage; `doctor` searches the whole queue");
                }
            }
            Err(error) => {
                round.failed += 1;
                if error.is_transient() {
                    tracing::debug!(queue, %error, "an audit failed, retrying in the next round");
                } else {
                    tracing::warn!(queue, %error, "the broker rejected the audit: damage to this queue is not detected");
                }
            }
        }
    }
}

impl Pass for Janitor {
    const NAME: &'static str = "janitor";
    type Report = Round;

    /// The pause is random, so that workers that were started together do not sweep together.
    fn pause(&mut self) -> Duration {
        if self.left {
            return SWEPT_AGAIN;
        }
        ROUND.mul_f64(0.5 + fastrand::f64())
    }

    /// One round over all queues.
    async fn tick(&mut self) -> Round {
        let mut round = Round::default();
        // A round that only continues the last one does not audit.
        let audits = !self.left && self.rounds.is_multiple_of(AUDIT);
        self.rounds += u32::from(!self.left);
        for at in 0..self.queues.len() {
            self.sweep(at, &mut round).await;
            if audits {
                self.repair(&self.queues[at].name, &mut round).await;
                if self.queues[at].has_schedules.load(Ordering::Relaxed) {
                    self.clamp(at, &mut round).await;
                }
            }
        }
        let queues = self.queues.clone();
        let topics: BTreeSet<&str> = queues.iter().filter_map(|queue| subscription_at(&queue.name)).map(|(_, topic)| topic).collect();
        for topic in topics {
            self.trim(topic, &mut round).await;
        }
        self.left = round.left;
        round
    }
}

#[cfg(test)]
mod tests {
    use queue_core::{
        Client, RawJob,
        broker::{Ending, Finish, ProcessId, Register, Turn},
    };

    use super::*;
    use crate::queues::queues;

    fn janitor(client: &Client, queue: &str, limits: SweepLimits) -> Janitor {
        let (broker, queues) = (client.broker().clone(), queues([queue]));
        let history = History::new(broker.clone(), ProcessId::random(), "v7".into(), queues.clone());
        Janitor::new(broker, queues, history, limits)
    }

    #[tokio::test]
    async fn a_round_removes_what_was_kept_long_enough_and_reports_it() {
        let client = Client::connect("sqlite://:memory:").await.unwrap();
        let (broker, lease) = (client.broker().clone(), Duration::from_secs(30));
        let mut janitor = janitor(&client, "swept", SweepLimits::default());
        assert_eq!(janitor.tick().await, Round::default());
        client.enqueue_raw(RawJob::new("task", vec![0x80]).queue("swept")).await.unwrap();
        let lane = broker.register(&Register::lane("swept", ProcessId::random(), lease)).await.unwrap().name;
        let claimed = broker.turn(&Turn::new("swept", lane.clone(), 1, lease).claim(1)).await.unwrap();
        let kept = Ending::Ack { result: None, keep: Some(Duration::from_millis(1)) };
        let finish = Finish::new(&claimed.deliveries[0], kept);
        broker.turn(&Turn::new("swept", lane, 2, lease).finish(vec![finish])).await.unwrap();
        let mut rounds = Vec::new();
        while !rounds.iter().any(|round: &Round| round.removed > 0) {
            rounds.push(janitor.tick().await);
        }
        assert_eq!(rounds.pop(), Some(Round { removed: 1, ..Round::default() }));
    }

    /// Many processes have published to a topic and have ended. One round removes more producers
    /// than one call can.
    #[tokio::test]
    async fn a_round_removes_all_producers_of_a_topic_that_are_silent() {
        const PRODUCERS: usize = 250;
        let client = Client::connect("sqlite://:memory:").await.unwrap();
        let broker = client.broker().clone();
        let ours = SweepLimits { producers: Duration::ZERO, ..SweepLimits::default() };
        let mut janitor = janitor(&client, "mail@orders", ours);
        for _ in 0..PRODUCERS {
            broker.register(&Register::producer("@orders", ProcessId::random())).await.unwrap();
        }
        assert_eq!(janitor.tick().await.removed, PRODUCERS);
    }

    #[tokio::test]
    async fn a_worker_removes_nothing_while_another_one_sweeps() {
        const IDS: usize = 150;
        let client = Client::connect("sqlite://:memory:").await.unwrap();
        let (broker, lease) = (client.broker().clone(), Duration::from_secs(30));
        let ours = SweepLimits { remembered: Duration::ZERO, ..SweepLimits::default() };
        let mut janitor = janitor(&client, "swept", ours);
        for n in 0..IDS {
            let job = RawJob::new("task", vec![0x80]).queue("swept").id(format!("given-{n}"));
            client.enqueue_raw(job).await.unwrap();
        }
        let lane = broker.register(&Register::lane("swept", ProcessId::random(), lease)).await.unwrap().name;
        let claimed = broker.turn(&Turn::new("swept", lane.clone(), 1, lease).claim(IDS)).await.unwrap();
        let done = claimed.deliveries.iter().map(|job| Finish::new(job, Ending::Ack { result: None, keep: None })).collect();
        broker.turn(&Turn::new("swept", lane, 2, lease).finish(done)).await.unwrap();
        let theirs = SweepLimits { sweeper: 1, ..ours };
        let swept = broker.sweep("swept", &theirs).await.unwrap();
        assert!(swept.remembered == ours.items && swept.more, "{swept:?}");
        assert_eq!(janitor.tick().await, Round::default());
        assert_eq!(broker.sweep("swept", &theirs).await.unwrap().remembered, IDS - ours.items, "they are still there");
    }
}
