//! How long tests wait. `queue-core`, whose tests cannot use this crate, includes this file.

use std::{sync::LazyLock, time::Duration};

/// The environment variable that stretches [`patience`] on slow machines: with
/// `QUEUE_TEST_PATIENCE=3` each wait may take three times as long.
pub const STRETCH: &str = "QUEUE_TEST_PATIENCE";

/// How long a test waits for an event: a minute, times [`STRETCH`]. The slowest event that tests
/// wait for is that a crashed worker's jobs are reclaimed after a failover, which takes 15 seconds
/// on an idle machine.
///
/// # Panics
/// When [`STRETCH`] is not a number from 1 to 100.
pub fn patience() -> Duration {
    static PATIENCE: LazyLock<Duration> = LazyLock::new(|| stretched(std::env::var(STRETCH).ok().as_deref()));
    *PATIENCE
}

fn stretched(by: Option<&str>) -> Duration {
    let factor = by.map_or(Some(1.0), |by| by.parse::<f64>().ok().filter(|factor| (1.0..=100.0).contains(factor)));
    let factor = factor.unwrap_or_else(|| {
        panic!("{STRETCH} is `{}`: set it to a number from 1 to 100, by which each wait is stretched", by.unwrap_or_default())
    });
    Duration::from_secs(60).mul_f64(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_patience_is_stretched_by_a_factor() {
        assert_eq!(stretched(None), Duration::from_secs(60));
        assert_eq!(stretched(Some("1.5")), Duration::from_secs(90));
        for wrong in ["0.5", "fast", "101", "NaN", ""] {
            let said = std::panic::catch_unwind(|| stretched(Some(wrong))).unwrap_err();
            assert!(said.downcast_ref::<String>().unwrap().contains("from 1 to 100"), "{wrong}");
        }
    }
}
