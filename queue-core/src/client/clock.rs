//! The broker's time, as a producer estimates it between two registrations.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// The broker's time when the producer registered, and when that was by the clock of this machine,
/// which cannot be set.
#[derive(Clone, Copy, Debug)]
pub(super) struct BrokerClock {
    broker_ms: i64,
    read_at: Instant,
    moment: Moment,
}

/// A moment by the clock that stops while the machine sleeps, and by the one that runs on and can
/// be set.
#[derive(Clone, Copy, Debug)]
struct Moment {
    awake: std::time::Instant,
    wall: SystemTime,
}

/// The difference that is tolerated.
const DRIFT: Duration = Duration::from_secs(1);

impl BrokerClock {
    pub(super) fn at(broker_ms: i64) -> Self {
        BrokerClock { broker_ms, read_at: Instant::now(), moment: Moment::now() }
    }

    pub(super) fn now_ms(self) -> i64 {
        self.broker_ms.saturating_add(i64::try_from(self.read_at.elapsed().as_millis()).unwrap_or(i64::MAX))
    }

    /// Whether the machine has slept since, or its clock was set: then the broker has to be asked
    /// again.
    pub(super) fn is_doubtful(self) -> bool {
        self.moment.differs(Moment::now())
    }
}

impl Moment {
    fn now() -> Self {
        Moment { awake: std::time::Instant::now(), wall: SystemTime::now() }
    }

    fn differs(self, now: Self) -> bool {
        let awake = now.awake.saturating_duration_since(self.awake);
        now.wall.duration_since(self.wall).map_or(true, |wall| wall.abs_diff(awake) > DRIFT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_has_slept_asks_the_broker_for_the_time() {
        let before = Moment::now();
        let later = |awake: u64, wall: u64| Moment {
            awake: before.awake + Duration::from_millis(awake),
            wall: before.wall + Duration::from_millis(wall),
        };
        for (awake, wall) in [(0, 0), (60_000, 60_500), (60_000, 59_500)] {
            assert!(!before.differs(later(awake, wall)), "{awake} {wall}");
        }
        assert!(before.differs(later(60_000, 3_660_000)), "it has slept for an hour");
        assert!(before.differs(later(60_000, 30_000)), "its clock was set back");
        assert!(later(0, 10).differs(before), "its clock was set back at once");
        assert!(!BrokerClock::at(17).is_doubtful());
    }
}
