//! The pauses between the tries of a call.

use std::time::{Duration, Instant};

/// Each pause is about twice as long as the one before, with jitter, up to a longest.
#[derive(Debug)]
pub(crate) struct Pauses {
    next: Duration,
    longest: Duration,
}

impl Pauses {
    /// Pauses from `first` to `longest`.
    pub(crate) fn new(first: Duration, longest: Duration) -> Self {
        Pauses { next: first, longest }
    }

    /// Whether a call that has to end at `until` has time for another pause.
    #[cfg_attr(not(feature = "redis"), allow(dead_code, reason = "only calls to servers ask"))]
    pub(crate) fn fits(&self, until: Instant) -> bool {
        Instant::now() + self.next < until
    }

    /// The next pause: half to all of the present interval.
    pub(crate) fn pause(&mut self) -> Duration {
        let pause = self.next.mul_f64(0.5 + fastrand::f64() / 2.0);
        self.next = (self.next * 2).min(self.longest);
        pause
    }

    /// Pauses before the next try of a call that ends at `end`, and ends the pause early where that
    /// leaves `last_try` for one more.
    pub(crate) async fn sleep(&mut self, end: tokio::time::Instant, last_try: Duration) {
        let now = tokio::time::Instant::now();
        let wake = (now + self.pause()).min(end);
        let last = end.checked_sub(last_try).filter(|last| now < *last && wake > *last);
        tokio::time::sleep_until(last.unwrap_or(wake)).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    const LAST_TRY: Duration = Duration::from_millis(100);

    #[test]
    fn pauses_double_up_to_the_longest() {
        let mut pauses = Pauses::new(Duration::from_millis(25), Duration::from_millis(400));
        for most in [25, 50, 100, 200, 400, 400] {
            let pause = pauses.pause().as_millis();
            assert!(pause >= most / 2 && pause <= most, "{pause} ms of {most}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_use_the_whole_time_and_leave_room_for_a_last_try() {
        for millis in [50, 200, 1_000, 15_000] {
            let (begun, mut pauses) = (Instant::now(), Pauses::new(Duration::from_millis(50), Duration::from_secs(2)));
            let end = begun + Duration::from_millis(millis);
            let mut tries = vec![begun];
            while Instant::now() < end {
                pauses.sleep(end, LAST_TRY).await;
                tries.push(Instant::now());
            }
            assert!(end.elapsed() <= Duration::from_millis(1), "{millis} ms: {:?} too late", end.elapsed());
            let last = tries[tries.len() - 2];
            assert!(end - last <= Duration::from_millis(101), "{millis} ms: the last try came {:?} before the end", end - last);
        }
    }
}
