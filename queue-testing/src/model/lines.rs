//! The lists of `ready`: the suspects, which are served first and one at a time, and one for each priority.

use std::collections::VecDeque;

use queue_core::{JobId, broker::Priority};

/// The suspects, then the four priorities.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines([VecDeque<JobId>; 5]);

/// A job's priority, and whether it is a suspect.
pub(super) type Line = (Priority, bool);

fn number((priority, suspect): Line) -> usize {
    if suspect { 0 } else { 1 + usize::from(priority.number()) }
}

impl Lines {
    pub(super) fn push(&mut self, line: Line, id: &JobId, head: bool) {
        let line = &mut self.0[number(line)];
        if head { line.push_front(id.clone()) } else { line.push_back(id.clone()) }
    }

    pub(super) fn remove(&mut self, id: &JobId) {
        for line in &mut self.0 {
            // What is taken is nearly always at the head.
            if let Some(position) = line.iter().position(|other| other == id) {
                line.remove(position);
                return;
            }
        }
    }

    /// In the order of service.
    pub(super) fn all(&self) -> Vec<JobId> {
        self.0.iter().flatten().cloned().collect()
    }

    pub(super) fn suspects(&self) -> &VecDeque<JobId> {
        &self.0[0]
    }

    pub(super) fn priorities(&self) -> &[VecDeque<JobId>] {
        &self.0[1..]
    }

    /// Brings every line into the order in which its members are here.
    pub(super) fn reorder(&mut self, seen: &[JobId]) {
        let place = |id: &JobId| seen.iter().position(|other| other == id).unwrap_or(usize::MAX);
        for line in &mut self.0 {
            line.make_contiguous().sort_by_key(place);
        }
    }
}
