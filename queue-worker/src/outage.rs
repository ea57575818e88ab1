//! Outages of the broker: one log line at the beginning and one at the end, independent of the
//! number of affected queues, lanes and heartbeats. It is not a duty: other parts report outages to
//! it.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use queue_core::{Error, broker::DynBroker};

use crate::{
    metrics,
    time::now,
    tuning::{LOGGED_AFTER, LOGGED_AGAIN},
};

/// Whether the broker answers, as far as this worker knows.
pub(crate) struct Outage {
    broker: DynBroker,
    /// A copy of the state without a lock, for frequent callers.
    is_on: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    begun: Option<Begun>,
    /// The end of the latest outage.
    ended: Option<Instant>,
    /// Requests that were affected by the outage and have no answer yet.
    waiting: usize,
    /// When a loss of data was last reported.
    loss_logged: Option<Instant>,
}

struct Begun {
    since: Instant,
    error: String,
    logged: bool,
}

/// A request that was affected by the outage. The outage lasts as long as such a request exists,
/// because only a part of the broker may answer.
pub(crate) struct Waiting(Arc<Outage>);

impl Outage {
    pub(crate) fn new(broker: DynBroker) -> Arc<Self> {
        Arc::new(Outage { broker, is_on: AtomicBool::new(false), state: Mutex::default() })
    }

    /// A request that was sent at this time has no answer. It will be sent again.
    pub(crate) fn begin_waiting(self: &Arc<Self>, sent: Instant, error: &Error) -> Waiting {
        let mut state = self.lock();
        state.waiting += 1;
        // A request that was sent during the latest outage and fails now does not start a new one.
        let since = state.ended.map_or(sent, |ended| sent.max(ended));
        state.begun.get_or_insert_with(|| Begun { since, error: error.to_string(), logged: false });
        self.is_on.store(true, Ordering::Relaxed);
        Waiting(self.clone())
    }

    /// Logs an outage that has lasted long enough.
    pub(crate) fn log_if_lasting(&self, now: Instant) {
        if !self.is_on.load(Ordering::Relaxed) {
            return;
        }
        let mut state = self.lock();
        let Some(begun) = &mut state.begun else { return };
        if !begun.logged && now.saturating_duration_since(begun.since) >= LOGGED_AFTER {
            begun.logged = true;
            let (broker, error) = (self.broker.info().location, &begun.error);
            tracing::warn!(broker, error, "the broker does not answer; running jobs continue, and the worker retries until it answers");
        }
    }

    /// Ends the outage, unless other requests still have no answer.
    pub(crate) fn answered(&self) {
        if !self.is_on.load(Ordering::Relaxed) {
            return;
        }
        let mut state = self.lock();
        if state.waiting > 0 {
            return;
        }
        self.is_on.store(false, Ordering::Relaxed);
        state.ended = Some(now());
        if let Some(Begun { since, logged: true, .. }) = state.begun.take() {
            let lasted = Duration::from_millis(u64::try_from(now().saturating_duration_since(since).as_millis()).unwrap_or(u64::MAX));
            metrics::reconnected();
            tracing::warn!(broker = self.broker.info().location, ?lasted, "the broker answers again");
        }
    }

    /// The broker does not know a lane whose lease has not expired. Logs one line for all lanes and
    /// queues.
    pub(crate) fn log_data_loss(&self, now: Instant) {
        if self.lock().loss_logged.replace(now).is_some_and(|logged| now.saturating_duration_since(logged) < LOGGED_AGAIN) {
            return;
        }
        tracing::error!(
            broker = self.broker.info().location,
            "the broker has lost data or was restored from an older copy (flush, backup, failover): it does not know this worker, whose lease has not expired. Jobs enqueued since that copy may be missing. Jobs finished since then may run again. Running jobs start a second time"
        );
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.lock().waiting -= 1;
    }
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use queue_core::Client;

    use super::*;

    #[tokio::test]
    async fn an_outage_is_over_when_no_request_waits_for_an_answer_any_more() {
        let client = Client::connect("sqlite://:memory:").await.unwrap();
        let outage = Outage::new(client.broker().clone());
        let is_over = || outage.lock().begun.is_none();
        let problem = Error::Internal("no answer".to_owned());
        let (one, other) = (outage.begin_waiting(now(), &problem), outage.begin_waiting(now(), &problem));
        drop(one);
        outage.answered();
        assert!(!is_over(), "the broker answers some requests, and others wait");
        drop(other);
        outage.answered();
        assert!(is_over());
    }
}
