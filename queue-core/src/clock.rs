//! The clock of a broker and its clients.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The clock of the machine, or one that stands until a test advances it. Clones are the same clock.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<AtomicU64>>); // milliseconds since 1970

impl Clock {
    /// A clock that shows this time, in whole milliseconds, until [`advance`](Self::advance) is called.
    pub fn frozen(at: SystemTime) -> Self {
        Clock(Some(Arc::new(AtomicU64::new(ms(at.duration_since(UNIX_EPOCH).unwrap_or_default())))))
    }

    /// Whether it is not the clock of the machine.
    pub fn is_frozen(&self) -> bool {
        self.0.is_some()
    }

    /// Moves a frozen clock forward, by whole milliseconds, rounded up. The clock of the machine does not move.
    pub fn advance(&self, by: Duration) {
        if let Some(shown) = &self.0 {
            shown.fetch_add(u64::try_from(by.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX), Ordering::SeqCst);
        }
    }

    /// The time since 1970.
    pub fn since_1970(&self) -> Duration {
        match &self.0 {
            Some(shown) => Duration::from_millis(shown.load(Ordering::SeqCst)),
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
