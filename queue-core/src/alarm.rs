//! A timer that is more exact than the runtime's.
//!
//! The runtime's clock counts whole milliseconds and rounds up, so a job would start one or two of
//! them late. A thread waits for the end of the time instead. The operating system wakes the thread
//! within a tenth of a millisecond.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::Notify;

/// How long before the end of the wait the thread takes over from the runtime's clock.
const LAST_STEP: Duration = Duration::from_millis(5);

/// Waits for a time. Belongs to one task.
#[derive(Debug, Default)]
pub struct Alarm {
    /// `None`: as exact as the runtime's clock.
    exact: Option<OnceLock<Option<Ringer>>>,
}

impl Alarm {
    /// An exact one. Its thread starts when it is first needed, and ends with it.
    #[must_use]
    pub fn exact() -> Self {
        Alarm { exact: Some(OnceLock::new()) }
    }

    /// Waits until this time. Dropping the future has no effect on later waits.
    pub async fn until(&self, time: Instant) {
        let before = time.checked_sub(LAST_STEP).unwrap_or(time);
        if self.exact.is_some() && before > Instant::now() {
            tokio::time::sleep_until(before.into()).await;
        }
        match self.exact.as_ref().and_then(|ringer| ringer.get_or_init(Ringer::start).as_ref()) {
            Some(ringer) => ringer.wait(time).await,
            None => tokio::time::sleep_until(time.into()).await,
        }
    }
}

/// A thread that rings at a time.
#[derive(Debug)]
struct Ringer(Arc<Bell>);

#[derive(Debug, Default)]
struct Bell {
    order: Mutex<Order>,
    changed: Condvar,
    rings: Notify,
}

#[derive(Debug, Default)]
struct Order {
    at: Option<Instant>,
    over: bool,
}

impl Ringer {
    fn start() -> Option<Self> {
        let bell = Arc::new(Bell::default());
        let its = bell.clone();
        match std::thread::Builder::new().name("queue-alarm".to_owned()).spawn(move || its.run()) {
            Ok(_) => Some(Ringer(bell)),
            Err(error) => {
                tracing::warn!(%error, "cannot start the timer thread: due jobs start up to 2 ms late");
                None
            }
        }
    }

    async fn wait(&self, time: Instant) {
        while Instant::now() < time {
            {
                let mut order = self.0.lock();
                if order.at.is_none_or(|at| time < at) {
                    order.at = Some(time);
                    self.0.changed.notify_one();
                }
            }
            // It may have fired for a time that no caller waits for any more.
            self.0.rings.notified().await;
        }
    }
}

impl Drop for Ringer {
    fn drop(&mut self) {
        self.0.lock().over = true;
        self.0.changed.notify_one();
    }
}

impl Bell {
    fn run(&self) {
        let mut order = self.lock();
        while !order.over {
            let left = order.at.map(|at| at.saturating_duration_since(Instant::now()));
            order = match left {
                None => self.changed.wait(order).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => {
                    order.at = None;
                    self.rings.notify_one();
                    order
                }
                Some(left) => self.changed.wait_timeout(order, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, Order> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_never_rings_early_and_can_be_set_again() {
        for alarm in [Alarm::exact(), Alarm::default()] {
            for wait in [0, 300, 1_700, 6_200, 40] {
                let time = Instant::now() + Duration::from_micros(wait);
                alarm.until(time).await;
                assert!(Instant::now() >= time);
            }
        }
    }

    #[tokio::test]
    async fn one_that_was_left_rings_for_the_next() {
        let alarm = Alarm::exact();
        for wait in [900, 2_000, 300] {
            tokio::select! {
                () = alarm.until(Instant::now() + Duration::from_micros(wait)) => {}
                () = tokio::task::yield_now() => {}
            }
            let time = Instant::now() + Duration::from_millis(2);
            alarm.until(time).await;
            assert!(Instant::now() >= time);
        }
    }

    #[tokio::test]
    async fn its_thread_ends_with_it() {
        let alarm = Alarm::exact();
        alarm.until(Instant::now() + Duration::from_millis(1)).await;
        let ringer = alarm.exact.as_ref().and_then(|ringer| ringer.get()?.as_ref()).expect("it was needed");
        let bell = Arc::downgrade(&ringer.0);
        drop(alarm);
        while bell.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
    }
}
