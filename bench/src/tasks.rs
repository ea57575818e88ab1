//! The jobs that are measured.

use std::{
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use queue_core::prelude::*;
use tokio::sync::Notify;

/// Counts runs and tells when all have been seen.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    seen: AtomicUsize,
    wanted: AtomicUsize,
    first: OnceLock<Instant>,
    all: Notify,
}

impl Counter {
    pub(crate) fn want(&self, n: usize) {
        self.seen.store(0, Ordering::Relaxed);
        self.wanted.store(n, Ordering::Relaxed);
    }

    /// How many have run.
    pub(crate) fn seen(&self) -> usize {
        self.seen.load(Ordering::Relaxed)
    }

    /// When the first of all ran.
    pub(crate) fn first(&self) -> Option<Instant> {
        self.first.get().copied()
    }

    /// One more has run.
    pub(crate) fn seen_one(&self) {
        self.count();
    }

    fn count(&self) {
        let before = self.seen.fetch_add(1, Ordering::Relaxed);
        if before == 0 {
            self.first.get_or_init(Instant::now);
        }
        if before + 1 == self.wanted.load(Ordering::Relaxed) {
            self.all.notify_one();
        }
    }

    /// Waits for the last one; an error names how many came.
    pub(crate) async fn all(&self, deadline: Duration) -> Result<(), crate::Error> {
        tokio::time::timeout(deadline, self.all.notified()).await.map_err(|_| {
            format!("only {} of {} jobs ran within {deadline:?}", self.seen.load(Ordering::Relaxed), self.wanted.load(Ordering::Relaxed))
                .into()
        })
    }
}

/// When jobs started, by number.
#[derive(Debug, Default)]
pub(crate) struct Starts(pub(crate) Mutex<Vec<(u64, Instant)>>);

/// Microseconds between due and start.
#[derive(Debug, Default)]
pub(crate) struct Lateness(Mutex<Vec<f64>>);

impl Lateness {
    pub(crate) fn len(&self) -> usize {
        self.0.lock().expect("no holder panics").len()
    }

    /// All of them, in milliseconds.
    pub(crate) fn take_ms(&self) -> Vec<f64> {
        std::mem::take(&mut *self.0.lock().expect("no holder panics")).into_iter().map(|us| us / 1e3).collect()
    }
}

/// A payload whose encoding has 100 bytes: one parameter of one letter.
pub(crate) fn hundred_bytes() -> String {
    parameter(100)
}

/// The same for a payload of so many bytes, at least 38 and at most 200.
pub(crate) fn parameter(bytes: usize) -> String {
    "x".repeat(bytes - 5)
}

/// Does nothing.
#[task(queue = "bench")]
pub(crate) async fn noop(d: String, counter: Data<Arc<Counter>>) {
    std::hint::black_box(d);
    counter.count();
}

/// Does nothing, as the only one of its number.
#[task(queue = "bench", unique(by = [n]))]
pub(crate) async fn unique(n: u64, d: String, counter: Data<Arc<Counter>>) {
    std::hint::black_box((n, d));
    counter.count();
}

/// Does nothing, in the group of its number.
#[task(queue = "bench", group = n)]
pub(crate) async fn grouped(n: u64, d: String, counter: Data<Arc<Counter>>) {
    std::hint::black_box((n, d));
    counter.count();
}

/// Notes when it started, in the group of its number.
#[task(queue = "bench", group = n)]
pub(crate) async fn grouped_stamp(n: u64, starts: Data<Arc<Starts>>, counter: Data<Arc<Counter>>) {
    starts.0.lock().expect("no holder panics").push((n, Instant::now()));
    counter.count();
}

/// Does nothing, without a parameter.
#[task(queue = "bench")]
pub(crate) async fn nothing(counter: Data<Arc<Counter>>) {
    counter.count();
}

/// Notes when it started.
#[task(queue = "bench")]
pub(crate) async fn stamp(n: u64, starts: Data<Arc<Starts>>, counter: Data<Arc<Counter>>) {
    starts.0.lock().expect("no holder panics").push((n, Instant::now()));
    counter.count();
}

/// Notes how late it started.
#[task(queue = "bench")]
pub(crate) async fn due(at_us: u64, lateness: Data<Arc<Lateness>>, counter: Data<Arc<Counter>>) {
    lateness.0.lock().expect("no holder panics").push(now_us() as f64 - at_us as f64);
    counter.count();
}

/// When jobs of schedules started: the number, the tick and the start, in microseconds since 1970.
#[derive(Debug, Default)]
pub(crate) struct Ticks(Mutex<Vec<(u64, f64, f64)>>);

impl Ticks {
    pub(crate) fn take(&self) -> Vec<(u64, f64, f64)> {
        std::mem::take(&mut *self.0.lock().expect("no holder panics"))
    }
}

/// Notes which tick it is of, and when it started.
#[task(queue = "bench")]
pub(crate) async fn ticked(n: u64, ticks: Data<Arc<Ticks>>, counter: Data<Arc<Counter>>, ctx: JobContext) {
    let start = now_us() as f64;
    let tick = ctx.scheduled_for().and_then(|tick| tick.duration_since(SystemTime::UNIX_EPOCH).ok()).unwrap_or_default();
    ticks.0.lock().expect("no holder panics").push((n, tick.as_secs_f64() * 1e6, start));
    counter.count();
}

/// Fails: until tomorrow, or for good.
#[task(queue = "bench")]
pub(crate) async fn fails(again: bool, counter: Data<Arc<Counter>>) -> Outcome {
    counter.count();
    if again {
        Outcome::RetryAfter(Duration::from_secs(24 * 3600), "tomorrow".into())
    } else {
        Outcome::Bury("nothing to be done".to_owned())
    }
}

/// Prints how long ago, in microseconds, it was enqueued: for a worker in another process.
#[task(queue = "bench")]
pub(crate) async fn age(enqueued_us: u64) {
    println!("{}", now_us().saturating_sub(enqueued_us));
}

/// Wall-clock microseconds since 1970; comparable between processes of one machine.
pub(crate) fn now_us() -> u64 {
    u64::try_from(SystemTime::UNIX_EPOCH.elapsed().expect("the clock is past 1970").as_micros()).expect("fits for ages")
}
