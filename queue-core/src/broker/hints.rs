//! Hints: announcements that there is work.

use std::{
    borrow::Borrow,
    collections::{HashMap, VecDeque},
    hash::Hash,
    time::Instant,
};

use tokio::sync::watch;

/// A hint of [`Broker::hints`](super::Broker::hints).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hint {
    /// Grows with every announcement.
    pub count: u64,
    /// When the announced job is due; `None`: now.
    pub due: Option<Instant>,
    /// When it was announced, by a clock of the broker, in microseconds; `None`: unknown. If a
    /// later claim was [answered](super::TurnAnswer::as_of) and left no job, it has found the
    /// announced work.
    pub as_of: Option<i64>,
}

/// With this a broker announces work of one queue.
#[derive(Clone, Debug, Default)]
pub struct Announcer(watch::Sender<Latest>);

/// The hints of one queue. A waiter that was late gets one hint for all that it missed, with the
/// earliest of their times.
#[derive(Clone, Debug)]
pub struct Hints {
    latest: watch::Receiver<Latest>,
    /// The number of the latest announcement that it has received.
    seen: u64,
}

#[derive(Debug, Default)]
struct Latest {
    count: u64,
    /// The newest last.
    recent: VecDeque<Announcement>,
}

#[derive(Clone, Copy, Debug)]
struct Announcement {
    due: Option<Instant>,
    as_of: Option<i64>,
}

/// The number of announcements that are remembered for late waiters. A waiter that has missed more
/// polls at once.
const REMEMBERED: usize = 16;

/// Announcers by name. Those without listeners are removed.
#[derive(Clone, Debug)]
pub struct Announcers<K> {
    by_name: HashMap<K, Announcer>,
    /// They are cleaned up when there are this many.
    tidied_at: usize,
}

impl<K> Default for Announcers<K> {
    fn default() -> Self {
        Announcers { by_name: HashMap::new(), tidied_at: 64 }
    }
}

impl<K: Hash + Eq> Announcers<K> {
    /// Hints under this name from now on.
    pub fn hints(&mut self, name: K) -> Hints {
        if self.by_name.len() >= self.tidied_at {
            self.by_name.retain(|_, announcer| announcer.has_listeners());
            self.tidied_at = 64.max(2 * self.by_name.len());
        }
        self.by_name.entry(name).or_default().hints()
    }

    /// The announcer of this name, if there are listeners for it.
    pub fn get<Q: Hash + Eq + ?Sized>(&self, name: &Q) -> Option<&Announcer>
    where
        K: Borrow<Q>,
    {
        self.by_name.get(name)
    }

    /// Announces to all listeners that there may be work now.
    pub fn announce_all(&self) {
        self.by_name.values().for_each(|announcer| announcer.announce(None));
    }
}

impl Announcer {
    /// An announcer without listeners.
    pub fn new() -> Self {
        Announcer::default()
    }

    /// Announces that there is work now, or at this time.
    pub fn announce(&self, due: Option<Instant>) {
        self.push(Announcement { due, as_of: None });
    }

    /// Announces that there is work since this time of the broker's clock.
    pub fn announce_since(&self, as_of: i64) {
        self.push(Announcement { due: None, as_of: Some(as_of) });
    }

    fn push(&self, announcement: Announcement) {
        self.0.send_modify(|latest| {
            latest.count += 1;
            if latest.recent.len() == REMEMBERED {
                latest.recent.pop_front();
            }
            latest.recent.push_back(announcement);
        });
    }

    /// Whether there is a listener.
    pub fn has_listeners(&self) -> bool {
        !self.0.is_closed()
    }

    /// Hints from now on.
    pub fn hints(&self) -> Hints {
        let mut latest = self.0.subscribe();
        let seen = latest.borrow_and_update().count;
        Hints { latest, seen }
    }
}

impl Hints {
    /// Hints of a broker that announces nothing.
    pub fn silent() -> Self {
        Announcer::new().hints()
    }

    /// Waits for a hint that was not seen yet; for ever, if the announcer is gone.
    pub async fn next(&mut self) -> Hint {
        if self.latest.changed().await.is_err() {
            return std::future::pending().await;
        }
        let latest = self.latest.borrow_and_update();
        let count = latest.count;
        let missed = usize::try_from(count - self.seen).unwrap_or(usize::MAX);
        self.seen = count;
        let Some(first) = latest.recent.len().checked_sub(missed) else { return Hint { count, ..Hint::default() } };
        let new = || latest.recent.range(first..);
        // The time of the runtime's clock, which a test may have advanced.
        let now = tokio::time::Instant::now().into_std();
        let is_now = new().any(|one| one.due.is_none_or(|due| due <= now));
        let due = if is_now { None } else { new().filter_map(|one| one.due).min() };
        let as_of = new().map(|one| one.as_of).reduce(|one, other| Some(one?.max(other?))).flatten();
        Hint { count, due, as_of }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn work_for_now_is_not_hidden_by_work_for_later() {
        let announcer = Announcer::new();
        let mut hints = announcer.hints();
        let later = Instant::now() + HOUR;
        announcer.announce(None);
        announcer.announce(Some(later));
        assert_eq!(hints.next().await, Hint { count: 2, due: None, as_of: None });
        announcer.announce(Some(later + HOUR));
        announcer.announce(Some(later));
        announcer.announce(Some(later + HOUR));
        assert_eq!(hints.next().await.due, Some(later));
    }

    #[tokio::test]
    async fn a_late_listener_gets_the_newest_time_and_none_if_one_is_unknown() {
        let announcer = Announcer::new();
        let mut hints = announcer.hints();
        announcer.announce_since(7);
        announcer.announce_since(5);
        assert_eq!(hints.next().await, Hint { count: 2, due: None, as_of: Some(7) });
        announcer.announce_since(9);
        announcer.announce(None);
        assert_eq!(hints.next().await.as_of, None);
        announcer.announce_since(11);
        assert_eq!(hints.next().await.as_of, Some(11), "what was heard is over");
    }

    #[tokio::test]
    async fn announcers_without_listeners_are_removed() {
        let mut announcers = Announcers::default();
        let mut hints = announcers.hints(0);
        for name in 1..10_000 {
            drop(announcers.hints(name));
        }
        assert!(announcers.by_name.len() <= 65, "{}", announcers.by_name.len());
        announcers.get(&0).expect("it is heard").announce(None);
        assert_eq!(hints.next().await.count, 1);
    }

    #[tokio::test]
    async fn a_listener_that_missed_too_much_is_due_now() {
        let announcer = Announcer::new();
        let (mut late, mut too_late) = (announcer.hints(), announcer.hints());
        let later = Instant::now() + HOUR;
        (0..REMEMBERED).for_each(|_| announcer.announce(Some(later)));
        assert_eq!(late.next().await.due, Some(later));
        announcer.announce(Some(later));
        assert_eq!(too_late.next().await.due, None);
    }
}
