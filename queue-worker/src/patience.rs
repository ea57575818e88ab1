//! How one thing is tried again and again.

use std::time::Duration;

use crate::tuning::{FIRST_PAUSE, LONGEST_PAUSE};

/// Between the tries of one request: 50 ms, doubling up to a longest pause, the upper half of each
/// random.
pub(crate) struct Patience {
    tries: u32,
    longest: Duration,
}

impl Patience {
    pub(crate) fn new(longest: Duration) -> Self {
        Patience { tries: 0, longest }
    }

    /// Counts a failure.
    pub(crate) fn failed(&mut self) {
        self.tries += 1;
    }

    /// How many there were.
    pub(crate) fn tries(&self) -> u32 {
        self.tries
    }

    /// Whether the latest failure is logged: an outage is logged at its start, and then less and
    /// less often.
    pub(crate) fn is_logged(&self) -> bool {
        self.tries == 1 || (self.tries >= 8 && self.tries.is_power_of_two())
    }

    pub(crate) async fn pause(&self) {
        sleep_about(FIRST_PAUSE.saturating_mul(1 << self.tries.saturating_sub(1).min(16)).min(self.longest)).await;
    }

    pub(crate) async fn longest_pause(&self) {
        sleep_about(LONGEST_PAUSE).await;
    }
}

async fn sleep_about(pause: Duration) {
    tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
}
