//! Announcements: there is something to do.

use std::time::{Duration, Instant};

use tokio::sync::watch;

/// A hint of [`Broker::hints`](super::Broker::hints).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hint {
    /// Grows with every announcement.
    pub count: u64,
    /// When the announced job is due; `None`: now.
    pub due: Option<Instant>,
}

/// The end of a broker at which it announces work of one queue.
#[derive(Clone, Debug, Default)]
pub struct Announcer(watch::Sender<Latest>);

/// Announcements of one queue. A waiter that was late hears once of all that it missed, by the earliest time among them.
#[derive(Clone, Debug)]
pub struct Hints(watch::Receiver<Latest>);

#[derive(Debug, Default)]
struct Latest {
    count: u64,
    /// When the job is due, and when that was announced.
    times: Option<(Instant, Instant)>,
}

/// A waiter sees the latest announcement alone. For so long an earlier time is told along with it: by then all have seen it.
const MISSED: Duration = Duration::from_millis(100);

impl Announcer {
    /// One that nobody listens to yet.
    pub fn new() -> Self {
        Announcer::default()
    }

    /// Tells those who listen that there is work now, or at this time.
    pub fn announce(&self, due: Option<Instant>) {
        let now = Instant::now();
        let due = due.unwrap_or(now);
        self.0.send_modify(|latest| {
            latest.count += 1;
            let stands = latest.times.is_some_and(|(earlier, told)| earlier <= due && (earlier > now || told + MISSED > now));
            if !stands {
                latest.times = Some((due, now));
            }
        });
    }

    /// Listens from now on.
    pub fn hints(&self) -> Hints {
        Hints(self.0.subscribe())
    }
}

impl Hints {
    /// A source that never announces anything.
    pub fn silent() -> Self {
        Announcer::new().hints()
    }

    /// Waits for an announcement that was not seen yet; forever, if the announcer is gone.
    pub async fn next(&mut self) -> Hint {
        if self.0.changed().await.is_err() {
            return std::future::pending().await;
        }
        let latest = self.0.borrow_and_update();
        let due = latest.times.map(|(due, _)| due).filter(|due| *due > Instant::now());
        Hint { count: latest.count, due }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn work_for_now_is_not_hidden_by_work_for_later() {
        let announcer = Announcer::new();
        let mut hints = announcer.hints();
        let later = Instant::now() + HOUR;
        announcer.announce(None);
        announcer.announce(Some(later));
        assert_eq!(hints.next().await, Hint { count: 2, due: None });
        announcer.announce(Some(later + HOUR));
        announcer.announce(Some(later));
        announcer.announce(Some(later + HOUR));
        assert_ne!(hints.next().await.due, Some(later + HOUR));
    }

    #[tokio::test]
    async fn what_all_have_seen_is_not_told_for_ever() {
        let announcer = Announcer::new();
        let mut hints = announcer.hints();
        announcer.announce(None);
        let later = Instant::now() + HOUR;
        let heard = async {
            loop {
                announcer.announce(Some(later));
                if hints.next().await.due == Some(later) {
                    return;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(10), heard).await.expect("the first one is forgotten");
        announcer.announce(None);
        assert_eq!(hints.next().await.due, None);
    }
}
