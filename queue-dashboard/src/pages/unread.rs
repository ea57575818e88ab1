//! The queues that a list could not read. The list then shows that it is incomplete.

use queue_core::{__private::error_text, Error};

use crate::{shared::View, snapshot::Unreadable};

/// The maximum number of queues that are named.
const NAMED: usize = 5;

/// The queues that a list left out.
pub(crate) struct Unread {
    /// The first queues, each with its problem.
    pub(crate) queues: Vec<(String, String)>,
    /// The number of all queues that were left out.
    all: usize,
    is_stale: bool,
}

impl Unread {
    /// The queues that the snapshot could not read: all, or only the selected one.
    pub(crate) fn of(view: &View, chosen: &str) -> Self {
        let mut unread = Unread { queues: Vec::new(), all: 0, is_stale: view.problem.is_some() };
        for Unreadable { queue, problem, .. } in view.snapshot.iter().flat_map(|snapshot| &snapshot.unreadable) {
            if chosen.is_empty() || chosen == queue {
                unread.push(queue, problem.clone());
            }
        }
        unread
    }

    /// Returns the answer of a queue, or records its error.
    pub(crate) fn take_or_record<T>(&mut self, queue: &str, answer: Result<T, Error>) -> Option<T> {
        answer.map_err(|error| self.push(queue, error_text(&error))).ok()
    }

    fn push(&mut self, queue: &str, problem: String) {
        self.all += 1;
        if self.queues.len() < NAMED {
            self.queues.push((queue.to_owned(), problem));
        }
    }

    /// Whether the list may be incomplete.
    pub(crate) fn may_be_incomplete(&self) -> bool {
        self.is_stale || self.all > 0
    }

    /// The number of queues that are not named.
    pub(crate) fn more(&self) -> usize {
        self.all - self.queues.len()
    }
}
