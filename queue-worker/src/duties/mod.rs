//! The common form of background duties, and their supervisor.
//!
//! A duty is a struct that is built from its configuration. Most duties work in passes: see
//! [`Pass`]. `Hints` waits for announcements and has no passes, so it is only a [`Duty`]. The pump
//! is neither: it streams turns, heartbeats and checks. A crashed pump is not restarted, because
//! only the pump knows which jobs the worker holds. The heartbeat is part of the pump.

pub(crate) mod declarer;
#[cfg(feature = "metrics")]
pub(crate) mod gauges;
pub(crate) mod hints;
pub(crate) mod historian;
pub(crate) mod http;
pub(crate) mod janitor;
pub(crate) mod monitor;
pub(crate) mod operator;
pub(crate) mod reclaimer;
#[cfg(feature = "outbox")]
pub(crate) mod relays;
pub(crate) mod scribe;
pub(crate) mod ticker;

use std::{
    collections::BTreeMap,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use futures_util::FutureExt;
use queue_core::{__private::panic_text, broker::DynBroker};
use tokio_util::sync::CancellationToken;

use crate::{
    time::now,
    tuning::{LASTING, MOST_RESTARTS, RESTART},
};

/// A continuous activity of a worker, on the broker's I/O thread.
pub(crate) trait Duty: Send + 'static {
    /// The name in log lines.
    const NAME: &'static str;

    /// Runs until the worker ends, or until no work is left.
    fn run(self, shutdown: CancellationToken) -> impl Future<Output = ()> + Send;
}

/// A duty that works in passes. A test creates one and calls [`tick`](Self::tick) directly, without
/// a timer.
pub(crate) trait Pass: Send + 'static {
    /// The name in log lines.
    const NAME: &'static str;

    /// The result of one pass.
    type Report: Send;

    /// The pause before the next pass; zero for none.
    fn pause(&mut self) -> Duration;

    /// One pass.
    fn tick(&mut self) -> impl Future<Output = Self::Report> + Send;
}

impl<P: Pass> Duty for P {
    const NAME: &'static str = P::NAME;

    async fn run(mut self, shutdown: CancellationToken) {
        let passes = async {
            loop {
                let pause = self.pause();
                if !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                }
                self.tick().await;
            }
        };
        shutdown.run_until_cancelled(passes).await;
    }
}

/// Starts duties, and restarts a duty that panics.
pub(crate) struct Supervisor {
    broker: DynBroker,
    shutdown: CancellationToken,
    restarts: Arc<Restarts>,
}

/// For each duty that has panicked: the number of panics in a row, and the time of the last one. A
/// panic [`LASTING`] after the previous one starts a new row.
#[derive(Debug, Default)]
pub(crate) struct Restarts(Mutex<BTreeMap<&'static str, (u32, Instant)>>);

impl Restarts {
    /// Records a panic of a duty.
    pub(crate) fn panicked(&self, duty: &'static str, now: Instant) {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (row, last) = rows.entry(duty).or_insert((0, now));
        *row = if now < *last + LASTING { row.saturating_add(1) } else { 1 };
        *last = now;
    }

    /// The failing duties: those that panicked more than [`MOST_RESTARTS`] times in a row, and
    /// whose last panic was recent.
    pub(crate) fn failing(&self, now: Instant) -> Vec<&'static str> {
        let rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rows.iter().filter(|(_, (row, last))| *row > MOST_RESTARTS && now < *last + LASTING).map(|(duty, _)| *duty).collect()
    }
}

impl Supervisor {
    pub(crate) fn new(broker: DynBroker, shutdown: CancellationToken, restarts: Arc<Restarts>) -> Self {
        Supervisor { broker, shutdown, restarts }
    }

    /// Runs a duty until the worker ends. After a panic it is rebuilt from `parts` and restarted.
    pub(crate) fn start<P: Send + Sync + 'static, D: Duty>(&self, parts: &Arc<P>, make: impl Fn(&P) -> D + Send + 'static) {
        let (shutdown, over, restarts, parts) = (self.shutdown.clone(), self.shutdown.clone(), self.restarts.clone(), parts.clone());
        self.broker.spawn(Box::pin(async move {
            let again_and_again = async move {
                while let Err(panic) = AssertUnwindSafe(make(&parts).run(shutdown.clone())).catch_unwind().await {
                    restarts.panicked(D::NAME, now());
                    let error = panic_text(panic);
                    tracing::error!(duty = D::NAME, error, "a background duty of the worker panicked and was restarted");
                    tokio::time::sleep(RESTART).await;
                }
            };
            over.run_until_cancelled(again_and_again).await;
        }));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use queue_core::Client;
    use tokio::sync::mpsc;

    use super::*;

    /// Panics in its second pass, and counts the passes.
    struct Clumsy {
        passes: usize,
        ticked: mpsc::UnboundedSender<usize>,
    }

    impl Pass for Clumsy {
        const NAME: &'static str = "clumsy";
        type Report = ();

        fn pause(&mut self) -> Duration {
            Duration::ZERO
        }

        async fn tick(&mut self) {
            self.passes += 1;
            assert!(self.passes < 2, "as it must");
            let _ = self.ticked.send(self.passes);
        }
    }

    #[tokio::test]
    async fn a_duty_that_panics_is_made_again_until_the_worker_is_over() {
        let client = Client::connect("sqlite://:memory:").await.unwrap();
        let (shutdown, made) = (CancellationToken::new(), Arc::new(AtomicUsize::new(0)));
        let (ticked, mut passes) = mpsc::unbounded_channel();
        let restarts = Arc::<Restarts>::default();
        Supervisor::new(client.broker().clone(), shutdown.clone(), restarts.clone()).start(&made, move |made| {
            made.fetch_add(1, Ordering::Relaxed);
            Clumsy { passes: 0, ticked: ticked.clone() }
        });
        assert_eq!((passes.recv().await, passes.recv().await), (Some(1), Some(1)));
        assert!(made.load(Ordering::Relaxed) >= 2);
        assert!(restarts.0.lock().unwrap()["clumsy"].0 >= 1);
        shutdown.cancel();
        // The duty and its constructor are dropped.
        while passes.recv().await.is_some() {}
    }
}
