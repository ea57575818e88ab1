//! The connection to the broker: when it last answered, and its condition.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use queue_core::{
    __private::LeaseClock,
    broker::{Condition, DynBroker},
};

use crate::{outage::Outage, time::now};

pub(crate) struct Connection {
    pub(crate) broker: DynBroker,
    pub(crate) outage: Arc<Outage>,
    last_answer: LeaseClock,
    /// A worker without an answer for this time is isolated.
    isolated_after: Duration,
    /// The condition of the broker at the last check.
    condition: Mutex<Condition>,
}

impl Connection {
    /// A worker that has missed the answers to three heartbeats is isolated.
    pub(crate) fn new(broker: DynBroker, heartbeat: Duration) -> Arc<Self> {
        Arc::new(Connection {
            outage: Outage::new(broker.clone()),
            last_answer: LeaseClock::default(),
            isolated_after: heartbeat * 3,
            condition: Mutex::default(),
            broker,
        })
    }

    /// Notes that the broker has answered.
    pub(crate) fn answered(&self) {
        self.last_answer.set(now());
        self.outage.answered();
    }

    pub(crate) fn last_answer(&self) -> Instant {
        self.last_answer.until()
    }

    pub(crate) fn is_isolated(&self) -> bool {
        self.last_answer().elapsed() > self.isolated_after
    }

    pub(crate) fn set_condition(&self, condition: Condition) {
        *self.condition.lock().unwrap_or_else(PoisonError::into_inner) = condition;
    }

    pub(crate) fn condition(&self) -> Condition {
        self.condition.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
