//! What a list over queues could not read: it does not claim that there is nothing.

use queue_core::{__private::error_text, Error};

use crate::{shared::View, snapshot::Unreadable};

/// Most queues that are named.
const NAMED: usize = 5;

/// The queues that a list left out.
pub(crate) struct Unread {
    /// The first of them, each with its problem.
    pub(crate) queues: Vec<(String, String)>,
    /// How many there are.
    all: usize,
    is_stale: bool,
}

impl Unread {
    /// Those that the look could not read, of all or of the chosen one.
    pub(crate) fn of(view: &View, chosen: &str) -> Self {
        let mut unread = Unread { queues: Vec::new(), all: 0, is_stale: view.problem.is_some() };
        for Unreadable { queue, problem, .. } in view.snapshot.iter().flat_map(|snapshot| &snapshot.unreadable) {
            if chosen.is_empty() || chosen == queue {
                unread.push(queue, problem.clone());
            }
        }
        unread
    }

    /// The answer of a queue; without one it is noted.
    pub(crate) fn or_note<T>(&mut self, queue: &str, answer: Result<T, Error>) -> Option<T> {
        answer.map_err(|error| self.push(queue, error_text(&error))).ok()
    }

    fn push(&mut self, queue: &str, problem: String) {
        self.all += 1;
        if self.queues.len() < NAMED {
            self.queues.push((queue.to_owned(), problem));
        }
    }

    /// Whether there may be more than is listed.
    pub(crate) fn hides(&self) -> bool {
        self.is_stale || self.all > 0
    }

    /// How many are not named.
    pub(crate) fn more(&self) -> usize {
        self.all - self.queues.len()
    }
}
