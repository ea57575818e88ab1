//! The reason to request jobs of a queue.

/// The reason to request jobs of a queue. A claim consumes the reason; [`Backlog`](Reason::Backlog)
/// stays until an answer clears it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// The worker has started, and the state of the queue is unknown.
    Began,
    /// A job is due, or it is time for a poll.
    Clock,
    /// A poll of the queue has found jobs, or was not answered.
    Polled,
    /// Suspects wait in the queue, and one may run now.
    Suspects,
    /// A lane was lost or abandoned, and its jobs are in the queue again.
    Lost,
    /// The broker has announced work, as of this time of its clock, if known. A later answer
    /// supersedes the announcement.
    Announced(Option<i64>),
    /// The latest answer reported more jobs.
    Backlog,
}

impl Reason {
    /// The time of the broker's clock from which on an answer includes this work. `None`: no answer
    /// does.
    fn as_of(self) -> Option<i64> {
        if let Reason::Announced(as_of) = self { as_of } else { None }
    }
}

/// The latest answer to a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Latest {
    /// The queue has more jobs.
    Backlog,
    /// The queue has no ready jobs, suspects, parked jobs or jobs with a due time. No job was
    /// announced since the answer.
    Calm,
    /// Any other answer, or no answer yet.
    #[default]
    Other,
}

/// The state of the work in a queue.
pub(super) struct Work {
    news: Option<Reason>,
    latest: Latest,
    /// The time of the broker's clock at the latest claim that has left no jobs.
    found_all: Option<i64>,
}

impl Work {
    pub(super) fn new() -> Self {
        Work { news: Some(Reason::Began), latest: Latest::Other, found_all: None }
    }

    /// The reason to request jobs; `None`: no request is needed.
    pub(super) fn reason(&self) -> Option<Reason> {
        self.news.or_else(|| self.has_backlog().then_some(Reason::Backlog))
    }

    pub(super) fn has_backlog(&self) -> bool {
        self.latest == Latest::Backlog
    }

    pub(super) fn is_calm(&self) -> bool {
        self.latest == Latest::Calm
    }

    /// There may be work, independent of the answers up to now.
    pub(super) fn ask(&mut self, reason: Reason) {
        self.news = Some(reason);
    }

    /// The broker announces work.
    pub(super) fn announced(&mut self, as_of: Option<i64>) {
        if as_of.is_some() && as_of < self.found_all {
            return;
        }
        self.end_calm();
        self.news = match self.news {
            None => Some(Reason::Announced(as_of)),
            Some(Reason::Announced(known)) => Some(Reason::Announced(known.zip(as_of).map(|(one, other)| one.max(other)))),
            other => other,
        };
    }

    /// The queue has new jobs, or will have some. It is no longer calm.
    pub(super) fn end_calm(&mut self) {
        if self.is_calm() {
            self.latest = Latest::Other;
        }
    }

    /// A claim is sent.
    pub(super) fn claim_sent(&mut self) {
        self.news = None;
    }

    /// A claim has been answered, as of this time of the broker's clock. If it has left no jobs, it
    /// has found the work that was announced before.
    pub(super) fn answered(&mut self, latest: Latest, as_of: Option<i64>, found_all: bool) {
        self.latest = latest;
        if found_all {
            self.found_all = as_of;
            self.news = self.news.filter(|news| news.as_of().is_none() || news.as_of() >= as_of);
        } else {
            // If the broker's clock was set back, earlier times are no longer comparable.
            self.found_all = self.found_all.min(as_of);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The state after a claim with this answer.
    fn after(latest: Latest, as_of: i64, found_all: bool) -> Work {
        let mut work = Work::new();
        work.claim_sent();
        work.answered(latest, Some(as_of), found_all);
        work
    }

    #[test]
    fn a_reason_is_spent_by_a_claim_and_a_backlog_by_its_answer() {
        let mut work = Work::new();
        assert_eq!(work.reason(), Some(Reason::Began));
        work.claim_sent();
        assert_eq!(work.reason(), None);
        let mut work = after(Latest::Backlog, 5, false);
        work.ask(Reason::Clock);
        assert_eq!(work.reason(), Some(Reason::Clock));
        work.claim_sent();
        assert_eq!(work.reason(), Some(Reason::Backlog));
        work.answered(Latest::Other, Some(6), true);
        assert_eq!(work.reason(), None);
    }

    #[test]
    fn an_answer_takes_along_what_was_announced_before_it_and_nothing_else() {
        let reason_after = |news: fn(&mut Work)| {
            let mut work = after(Latest::Other, 1, false);
            news(&mut work);
            work.answered(Latest::Calm, Some(10), true);
            work.reason()
        };
        assert_eq!(reason_after(|work| work.announced(Some(9))), None);
        assert_eq!(reason_after(|work| work.announced(Some(10))), Some(Reason::Announced(Some(10))));
        assert_eq!(reason_after(|work| work.announced(None)), Some(Reason::Announced(None)));
        assert_eq!(reason_after(|work| work.ask(Reason::Lost)), Some(Reason::Lost));
        let both = |work: &mut Work| {
            work.announced(Some(9));
            work.announced(Some(11));
        };
        assert_eq!(reason_after(both), Some(Reason::Announced(Some(11))), "the later of two counts");
        let unknown = |work: &mut Work| {
            work.ask(Reason::Clock);
            work.announced(Some(9));
        };
        assert_eq!(reason_after(unknown), Some(Reason::Clock), "what no answer counts for stays");
    }

    #[test]
    fn what_has_been_found_is_no_news_and_leaves_the_queue_calm() {
        let mut work = after(Latest::Calm, 10, true);
        work.announced(Some(9));
        assert!(work.reason().is_none() && work.is_calm());
        work.announced(Some(10));
        assert!(work.reason().is_some() && !work.is_calm());
        let mut work = after(Latest::Calm, 10, true);
        work.answered(Latest::Other, Some(3), false);
        work.announced(Some(5));
        assert!(work.reason().is_some(), "the clock was put back");
    }
}
