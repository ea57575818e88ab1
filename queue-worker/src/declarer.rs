//! Declares the limits, the rules of groups, the aging and the schedules of this worker's code, and looks after those that code has declared: which release is right, and which schedules no live
//! worker declares any more.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use queue_core::{
    __private::{declare_aging, declare_groups, declare_limits},
    schedule::declare,
};

use crate::{
    duty::Pass,
    engine::Shared,
    tuning::{CALL_PATIENCE, DECLARED_AGAIN},
};

pub(crate) struct Declarer {
    shared: Arc<Shared>,
    began: bool,
    /// The last pass met a problem.
    failed: bool,
}

impl Declarer {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Declarer { shared, began: false, failed: false }
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
        self.failed = false;
        let (mut changed, shared) = (0, self.shared.clone());
        let release = shared.info.release();
        for (queue, limits) in &shared.limits {
            match tokio::time::timeout(CALL_PATIENCE, declare_limits(&shared.broker, queue, &release, limits)).await {
                Ok(Ok(changed)) => {
                    for limit in changed {
                        tracing::info!(queue = &**queue, limit, "limit updated from its declaration");
                    }
                }
                Ok(Err(error)) => {
                    self.failed = true;
                    tracing::debug!(queue = &**queue, %error, "cannot declare the limits of this worker yet, retrying");
                }
                Err(_) => self.failed = true,
            }
        }
        for (queue, rule) in &shared.groups {
            match tokio::time::timeout(CALL_PATIENCE, declare_groups(&shared.broker, queue, &release, rule)).await {
                Ok(Ok(None)) => {}
                Ok(Ok(Some(rule))) => {
                    tracing::info!(queue = &**queue, %rule, "rule of all groups updated from its declaration");
                }
                Ok(Err(error)) => {
                    self.failed = true;
                    tracing::debug!(queue = &**queue, %error, "cannot declare the group rule of this worker yet, retrying");
                }
                Err(_) => self.failed = true,
            }
        }
        // A failover may have lost one that was just made.
        for subscription in &shared.subscriptions {
            match tokio::time::timeout(CALL_PATIENCE, shared.broker.subscribe(subscription)).await {
                Ok(Ok(false)) => {}
                Ok(Ok(true)) => {
                    let (topic, begin) = (&*subscription.topic, subscription.begin.stored());
                    tracing::warn!(topic, subscription = &*subscription.name, begin, "a subscription was missing and was created again");
                }
                Ok(Err(error)) => {
                    self.failed = true;
                    tracing::debug!(topic = &*subscription.topic, subscription = &*subscription.name, %error, "cannot declare a subscription yet, retrying");
                }
                Err(_) => self.failed = true,
            }
        }
        for queue in &shared.queues {
            let Some(every) = shared.aging.get(&**queue) else { continue };
            match tokio::time::timeout(CALL_PATIENCE, declare_aging(&shared.broker, queue, &release, *every)).await {
                Ok(Ok(None)) => {}
                Ok(Ok(Some(every))) => {
                    let every = every.map_or_else(|| "never".to_owned(), |every| format!("{every:?}"));
                    tracing::info!(queue = &**queue, every, "aging of the queue updated from its declaration");
                }
                Ok(Err(error)) => {
                    self.failed = true;
                    if error.is_transient() {
                        tracing::debug!(queue = &**queue, %error, "cannot declare the aging of a queue yet, retrying");
                    } else {
                        tracing::warn!(queue = &**queue, %error, "cannot declare the aging of a queue");
                    }
                }
                Err(_) => self.failed = true,
            }
        }
        for (at, queue) in shared.queues.iter().enumerate() {
            let is_own = shared.schedules.iter().any(|schedule| schedule.queue == *queue);
            if !is_own && !shared.has_schedules[at].load(Ordering::Relaxed) {
                continue;
            }
            let asked = declare(&shared.broker, queue, &release, &shared.schedules);
            match tokio::time::timeout(CALL_PATIENCE, asked).await {
                Ok(Ok(declared)) => {
                    changed += declared.changed.len();
                    for schedule in &declared.paused {
                        tracing::warn!(queue = &**queue, schedule, "a schedule is paused: no live worker declares it");
                    }
                }
                Ok(Err(error)) => {
                    self.failed = true;
                    if error.is_transient() {
                        tracing::debug!(queue = &**queue, %error, "cannot declare the schedules of this worker yet, retrying");
                    } else {
                        tracing::warn!(queue = &**queue, %error, "cannot declare the schedules of this worker");
                    }
                }
                Err(_) => self.failed = true,
            }
        }
        changed
    }
}
