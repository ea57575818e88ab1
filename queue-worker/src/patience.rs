//! The pauses between the tries of one operation.

use std::time::Duration;

use crate::tuning::{FIRST_PAUSE, LONGEST_PAUSE};

/// The pauses between the tries of one request. They start at 50 ms and double up to a longest
/// pause. The upper half of each is random.
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

    /// The number of failures.
    pub(crate) fn tries(&self) -> u32 {
        self.tries
    }

    /// Whether the latest failure is logged. An outage is logged at its start, and then at growing
    /// intervals.
    pub(crate) fn is_logged(&self) -> bool {
        self.tries == 1 || (self.tries >= 8 && self.tries.is_power_of_two())
    }

    pub(crate) async fn pause(&self) {
        sleep_with_jitter(FIRST_PAUSE.saturating_mul(1 << self.tries.saturating_sub(1).min(16)).min(self.longest)).await;
    }

    pub(crate) async fn longest_pause(&self) {
        sleep_with_jitter(LONGEST_PAUSE).await;
    }
}

async fn sleep_with_jitter(pause: Duration) {
    tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
}
