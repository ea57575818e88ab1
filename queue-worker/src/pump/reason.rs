//! Why a queue is asked for work.

/// Why a queue is asked. A claim consumes the reason; [`Backlog`](Reason::Backlog) stays until an
/// answer clears it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// The worker has started, and the state of the queue is unknown.
    Began,
    /// A job is due, or it is time for a poll.
    Clock,
    /// A poll of the queue has found something, or was not answered.
    Polled,
    /// Suspects wait in it, and one may run now.
    Suspects,
    /// A lane was lost or abandoned: its jobs are in the queue again.
    Lost,
    /// The broker has announced work, as of this time of its clock, if known: a later answer
    /// supersedes it.
    Announced(Option<i64>),
    /// The latest answer reported more jobs.
    Backlog,
}

impl Reason {
    /// The time of the broker's clock that an answer has to be of to have found what this speaks
    /// of; `None`: no answer counts.
    fn as_of(self) -> Option<i64> {
        if let Reason::Announced(as_of) = self { as_of } else { None }
    }
}

/// The latest answer to a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Latest {
    /// There is more.
    Backlog,
    /// There is nothing: no work, no suspects, no parked job, none that will be due. Nothing
    /// has been announced since.
    Calm,
    /// Something in between, or no claim was answered yet.
    #[default]
    Other,
}

/// What is known of the work in a queue.
pub(super) struct Work {
    news: Option<Reason>,
    latest: Latest,
    /// As of when, by the broker's clock, the latest claim has left nothing.
    found_all: Option<i64>,
}

impl Work {
    pub(super) fn new() -> Self {
        Work { news: Some(Reason::Began), latest: Latest::Other, found_all: None }
    }

    /// Why the queue is asked; `None`: it is not.
    pub(super) fn reason(&self) -> Option<Reason> {
        self.news.or_else(|| self.has_backlog().then_some(Reason::Backlog))
    }

    pub(super) fn has_backlog(&self) -> bool {
        self.latest == Latest::Backlog
    }

    pub(super) fn is_calm(&self) -> bool {
        self.latest == Latest::Calm
    }

    /// There may be work, independent of the answers so far.
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

    /// The queue has new jobs, or will have some: it is not calm any more.
    pub(super) fn end_calm(&mut self) {
        if self.is_calm() {
            self.latest = Latest::Other;
        }
    }

    /// A claim is sent.
    pub(super) fn claim_sent(&mut self) {
        self.news = None;
    }

    /// A claim has been answered, as of this time of the broker's clock. If it has left nothing, it
    /// has found what was announced before.
    pub(super) fn answered(&mut self, latest: Latest, as_of: Option<i64>, found_all: bool) {
        self.latest = latest;
        if found_all {
            self.found_all = as_of;
            self.news = self.news.filter(|news| news.as_of().is_none() || news.as_of() >= as_of);
        } else {
            // If the broker's clock was set back, earlier times are not comparable any more.
            self.found_all = self.found_all.min(as_of);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After a claim that was answered so.
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
