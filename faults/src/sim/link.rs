//! What lies between a simulated process and the store: requests and replies are lost, late, or torn.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use fastrand::Rng;
use queue_core::{
    BoxFuture, Error, JobId, Result,
    broker::{
        Broker, BrokerInfo, CALL_DEADLINE, CancelAnswer, CrashRule, Enqueue, Enqueued, Extend, Extended, Hints, Inspect, JobRecord, Page,
        PartyName, QueueStats, Reclaimed, Register, State, Suspect, Suspects, SweepLimits, Swept, Turn, TurnAnswer, sealed,
    },
};
use tokio::task::AbortHandle;

use super::store::{Shared, Store};

/// What all links of a simulation share.
#[derive(Debug)]
pub(super) struct Weather {
    /// Whether harm is done at all.
    pub(super) foul: AtomicBool,
    rng: Mutex<Rng>,
}

impl Weather {
    pub(super) fn new(seed: u64) -> Arc<Weather> {
        Arc::new(Weather { foul: AtomicBool::new(true), rng: Mutex::new(Rng::with_seed(seed)) })
    }

    /// A number below this one.
    pub(super) fn below(&self, n: u64) -> u64 {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner).u64(..n)
    }
}

/// The broker of one process.
pub(super) struct Link {
    store: Shared,
    weather: Arc<Weather>,
    /// Whether this process reaches nobody.
    pub(super) cut: AtomicBool,
    tasks: Mutex<Vec<AbortHandle>>,
}

impl Link {
    pub(super) fn new(store: Shared, weather: Arc<Weather>) -> Arc<Link> {
        Arc::new(Link { store, weather, cut: AtomicBool::new(false), tasks: Mutex::default() })
    }

    /// Ends everything that the process does on its I/O thread, at once.
    pub(super) fn kill(&self) {
        self.cut.store(true, Ordering::SeqCst);
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).drain(..).for_each(|task| task.abort());
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries a request to the store, or not, and its reply back, or not.
    async fn call<T: Send + 'static>(&self, request: impl Fn(&mut Store) -> Result<T> + Send + 'static) -> Result<T> {
        let foul = self.weather.foul.load(Ordering::SeqCst);
        let cut = self.cut.load(Ordering::SeqCst);
        let wait = async |ms: u64| tokio::time::sleep(Duration::from_millis(self.weather.below(ms + 1))).await;
        let dice = if cut {
            90 + self.weather.below(2)
        } else if foul {
            self.weather.below(100)
        } else {
            0
        };
        match dice {
            // Refused, or lost on the way there: at once, or without a word.
            90 => {
                wait(20).await;
                Err(Error::unavailable("simulated", "refused"))
            }
            91 | 92 => {
                tokio::time::sleep(CALL_DEADLINE).await;
                Err(ambiguous())
            }
            93 => {
                wait(20).await;
                Err(ambiguous())
            }
            // Carried out, and nobody hears of it.
            94..=96 => {
                wait(20).await;
                let _ = request(&mut self.store());
                wait(if dice == 94 { 5_000 } else { 20 }).await;
                Err(ambiguous())
            }
            // Given up, and carried out much later.
            97 | 98 => {
                let (store, late) = (self.store.clone(), self.weather.below(8_000));
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(late)).await;
                    let _ = request(&mut store.lock().unwrap_or_else(PoisonError::into_inner));
                });
                wait(5_000).await;
                Err(ambiguous())
            }
            99 => {
                wait(4_000).await;
                let reply = request(&mut self.store());
                wait(900).await;
                reply
            }
            _ => {
                wait(4).await;
                let reply = request(&mut self.store());
                wait(4).await;
                reply
            }
        }
    }
}

fn ambiguous() -> Error {
    Error::ambiguous("simulated", format!("{CALL_DEADLINE:?} have passed"))
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("cut", &self.cut).finish_non_exhaustive()
    }
}

#[async_trait]
impl Broker for Link {
    fn info(&self) -> BrokerInfo {
        BrokerInfo::new("simulated", "simulated")
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.retain(|task| !task.is_finished());
        tasks.push(tokio::spawn(task).abort_handle());
    }

    async fn check(&self) -> Result<()> {
        self.call(|_| Ok(())).await
    }

    async fn register(&self, request: &Register) -> Result<PartyName> {
        let request = request.clone();
        self.call(move |store| Ok(store.register(&request))).await
    }

    async fn enqueue(&self, request: &Enqueue) -> Result<Vec<Enqueued>> {
        let request = request.clone();
        self.call(move |store| store.enqueue(&request)).await
    }

    async fn turn(&self, turn: &Turn) -> Result<TurnAnswer> {
        let turn = turn.clone();
        self.call(move |store| store.turn(&turn)).await
    }

    /// Torn: each lane fares for itself.
    async fn extend(&self, lanes: &[Extend]) -> Vec<Result<Extended>> {
        let beats = lanes.iter().map(|lane| {
            let lane = lane.clone();
            self.call(move |store| store.extend(&lane))
        });
        futures_util::future::join_all(beats).await
    }

    async fn suspects(&self, _: &str, limit: usize) -> Result<Suspects> {
        self.call(move |store| Ok(store.suspects(limit))).await
    }

    async fn fence(&self, _: &str, suspects: &[Suspect]) -> Result<Vec<bool>> {
        let suspects = suspects.to_vec();
        self.call(move |store| Ok(store.fence(&suspects))).await
    }

    async fn sweep_fenced(&self, _: &str, rule: &CrashRule) -> Result<Reclaimed> {
        let rule = *rule;
        self.call(move |store| Ok(store.sweep_fenced(&rule))).await
    }

    async fn cancel(&self, _: &str, _: &[JobId]) -> Result<Vec<CancelAnswer>> {
        Err(unused())
    }

    async fn requeue(&self, _: &str, _: &[JobId]) -> Result<Vec<bool>> {
        Err(unused())
    }

    async fn sweep(&self, _: &str, _: &SweepLimits) -> Result<Swept> {
        Ok(Swept::default())
    }

    fn hints(&self, _: &str) -> Hints {
        // Every other process hears of nothing.
        if self.weather.below(2) == 0 { Hints::silent() } else { self.store().hints() }
    }

    fn __sealed(&self, _: sealed::Seal) {}
}

/// People are not simulated.
fn unused() -> Error {
    Error::Internal("this is not simulated".to_owned())
}

#[async_trait]
impl Inspect for Link {
    async fn queues(&self) -> Result<Vec<String>> {
        Err(unused())
    }

    async fn stats(&self, _: &str) -> Result<QueueStats> {
        Err(unused())
    }

    async fn list(&self, _: &str, _: State, _: u64, _: usize) -> Result<Page> {
        Err(unused())
    }

    async fn show(&self, _: &str, _: &JobId) -> Result<Option<JobRecord>> {
        Err(unused())
    }

    async fn delete(&self, _: &str, _: &[JobId]) -> Result<Vec<bool>> {
        Err(unused())
    }

    async fn set_paused(&self, _: &str, _: bool) -> Result<()> {
        Err(unused())
    }
}
