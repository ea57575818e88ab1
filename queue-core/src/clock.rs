//! The clock of a broker and its clients.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::time::Instant;

/// The clock of the machine, or that of a test. Clones are the same clock.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<Own>>);

#[derive(Debug)]
struct Own {
    /// The time at which the clock is frozen, or started to run, in milliseconds since 1970.
    ms: AtomicU64,
    began: Option<Instant>,
}

impl Clock {
    /// A clock that shows this time, in whole milliseconds, until [`advance`](Self::advance) is
    /// called.
    pub fn frozen(at: SystemTime) -> Self {
        Clock::own(at, None)
    }

    /// A clock that shows this time now and runs as Tokio's does, which a test can pause.
    pub fn running(at: SystemTime) -> Self {
        Clock::own(at, Some(Instant::now()))
    }

    fn own(at: SystemTime, began: Option<Instant>) -> Self {
        let ms = AtomicU64::new(ms(at.duration_since(UNIX_EPOCH).unwrap_or_default()));
        Clock(Some(Arc::new(Own { ms, began })))
    }

    /// Whether the clock is frozen.
    pub fn is_frozen(&self) -> bool {
        self.0.as_ref().is_some_and(|own| own.began.is_none())
    }

    /// Whether it is Tokio's clock that moves it.
    #[cfg(feature = "sqlite")]
    pub(crate) fn is_running(&self) -> bool {
        self.0.as_ref().is_some_and(|own| own.began.is_some())
    }

    /// Whether it is not the clock of the machine.
    #[cfg(feature = "sqlite")]
    pub(crate) fn is_of_test(&self) -> bool {
        self.0.is_some()
    }

    /// Moves the clock of a test forward, by whole milliseconds, rounded up. The clock of the
    /// machine does not move.
    pub fn advance(&self, by: Duration) {
        if let Some(own) = &self.0 {
            own.ms.fetch_add(u64::try_from(by.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX), Ordering::SeqCst);
        }
    }

    /// The time since 1970.
    pub fn since_1970(&self) -> Duration {
        match &self.0 {
            Some(own) => Duration::from_millis(own.ms.load(Ordering::SeqCst)) + own.began.map(|began| began.elapsed()).unwrap_or_default(),
            None => SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
        }
    }

    /// The time.
    pub fn now(&self) -> SystemTime {
        UNIX_EPOCH + self.since_1970()
    }

    /// The time in milliseconds since 1970.
    pub fn now_ms(&self) -> i64 {
        i64::try_from(self.since_1970().as_millis()).unwrap_or(i64::MAX)
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_running_clock_moves_with_that_of_tokio() {
        let clock = Clock::running(UNIX_EPOCH);
        tokio::time::advance(Duration::from_secs(3600)).await;
        clock.advance(Duration::from_millis(1));
        assert_eq!((clock.now_ms(), clock.is_frozen()), (3_600_001, false));
    }

    #[test]
    fn a_frozen_clock_moves_only_when_it_is_advanced() {
        let clock = Clock::frozen(UNIX_EPOCH + Duration::from_micros(1_500));
        let same = clock.clone();
        assert_eq!(clock.now_ms(), 1);
        clock.advance(Duration::from_micros(1));
        assert_eq!((same.now_ms(), same.now()), (2, UNIX_EPOCH + Duration::from_millis(2)));
        let machine = Clock::default();
        let before = machine.now();
        machine.advance(Duration::from_secs(3600));
        assert!(!machine.is_frozen() && machine.now() < before + Duration::from_secs(1800));
    }
}
