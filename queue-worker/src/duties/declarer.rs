//! Declares the limits, the rules of groups, the subscriptions, the aging and the schedules of this
//! worker's code again and again: a rollback takes effect, and a schedule that no live worker
//! declares is paused.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use queue_core::{
    __private::{declare_aging, declare_groups, declare_limits},
    broker::DynBroker,
    schedule::declare,
};

use super::Pass;
use crate::{
    declarations::Declarations,
    queues::Queues,
    tuning::{CALL_PATIENCE, DECLARED_AGAIN},
};

pub(crate) struct Declarer {
    broker: DynBroker,
    release: String,
    declarations: Arc<Declarations>,
    queues: Queues,
    began: bool,
    /// The last pass met a problem.
    failed: bool,
}

impl Declarer {
    pub(crate) fn new(broker: DynBroker, release: String, declarations: Arc<Declarations>, queues: Queues) -> Self {
        Declarer { broker, release, declarations, queues, began: false, failed: false }
    }
}

impl Pass for Declarer {
    const NAME: &'static str = "declarer";
    /// How many schedules were changed.
    type Report = usize;

    /// At once, and then about once a minute; sooner after a problem.
    fn pause(&mut self) -> Duration {
        match (std::mem::replace(&mut self.began, true), self.failed) {
            (false, _) => Duration::ZERO,
            (true, true) => Duration::from_secs(2),
            (true, false) => DECLARED_AGAIN.mul_f64(0.75 + fastrand::f64() / 2.0),
        }
    }

    async fn tick(&mut self) -> usize {
        let mut changed = 0;
        let Declarer { broker, release, declarations, queues, .. } = &*self;
        let mut failed = false;
        for (queue, limits) in &declarations.limits {
            match tokio::time::timeout(CALL_PATIENCE, declare_limits(broker, queue, release, limits)).await {
                Ok(Ok(changed)) => {
                    for limit in changed {
                        tracing::info!(queue = &**queue, limit, "limit updated from its declaration");
                    }
                }
                Ok(Err(error)) => {
                    failed = true;
                    tracing::debug!(queue = &**queue, %error, "cannot declare the limits of this worker yet, retrying");
                }
                Err(_) => failed = true,
            }
        }
        for (queue, rule) in &declarations.groups {
            match tokio::time::timeout(CALL_PATIENCE, declare_groups(broker, queue, release, rule)).await {
                Ok(Ok(None)) => {}
                Ok(Ok(Some(rule))) => {
                    tracing::info!(queue = &**queue, %rule, "rule of all groups updated from its declaration");
                }
                Ok(Err(error)) => {
                    failed = true;
                    tracing::debug!(queue = &**queue, %error, "cannot declare the group rule of this worker yet, retrying");
                }
                Err(_) => failed = true,
            }
        }
        // A failover may have lost one that was just made.
        for subscription in &declarations.subscriptions {
            match tokio::time::timeout(CALL_PATIENCE, broker.subscribe(subscription)).await {
                Ok(Ok(false)) => {}
                Ok(Ok(true)) => {
                    let (topic, begin) = (&*subscription.topic, subscription.begin.stored());
                    tracing::warn!(topic, subscription = &*subscription.name, begin, "a subscription was missing and was created again");
                }
                Ok(Err(error)) => {
                    failed = true;
                    tracing::debug!(topic = &*subscription.topic, subscription = &*subscription.name, %error, "cannot declare a subscription yet, retrying");
                }
                Err(_) => failed = true,
            }
        }
        for queue in queues.iter().map(|queue| &queue.name) {
            let Some(every) = declarations.aging.get(&**queue) else { continue };
            match tokio::time::timeout(CALL_PATIENCE, declare_aging(broker, queue, release, *every)).await {
                Ok(Ok(None)) => {}
                Ok(Ok(Some(every))) => {
                    let every = every.map_or_else(|| "never".to_owned(), |every| format!("{every:?}"));
                    tracing::info!(queue = &**queue, every, "aging of the queue updated from its declaration");
                }
                Ok(Err(error)) => {
                    failed = true;
                    if error.is_transient() {
                        tracing::debug!(queue = &**queue, %error, "cannot declare the aging of a queue yet, retrying");
                    } else {
                        tracing::warn!(queue = &**queue, %error, "cannot declare the aging of a queue");
                    }
                }
                Err(_) => failed = true,
            }
        }
        for served in queues.iter() {
            let queue = &served.name;
            let is_own = declarations.schedules.iter().any(|schedule| schedule.queue == *queue);
            if !is_own && !served.has_schedules.load(Ordering::Relaxed) {
                continue;
            }
            let asked = declare(broker, queue, release, &declarations.schedules);
            match tokio::time::timeout(CALL_PATIENCE, asked).await {
                Ok(Ok(declared)) => {
                    changed += declared.changed.len();
                    for schedule in &declared.paused {
                        tracing::warn!(queue = &**queue, schedule, "a schedule is paused: no live worker declares it");
                    }
                }
                Ok(Err(error)) => {
                    failed = true;
                    if error.is_transient() {
                        tracing::debug!(queue = &**queue, %error, "cannot declare the schedules of this worker yet, retrying");
                    } else {
                        tracing::warn!(queue = &**queue, %error, "cannot declare the schedules of this worker");
                    }
                }
                Err(_) => failed = true,
            }
        }
        self.failed = failed;
        changed
    }
}
