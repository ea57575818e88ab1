//! `ready`: the order of the jobs that wait for a free slot. The suspects come first, which are served one at a time, then a line for each
//! priority. Only this file knows how the jobs are ordered.

use std::collections::{BTreeSet, VecDeque};

use queue_core::{JobId, broker::Priority};

/// The lines.
#[derive(Clone, Debug, Default)]
pub struct Ready {
    /// The suspects, then the four priorities.
    lines: [VecDeque<JobId>; 5],
    /// Where an id was cut out of a line, a broker may leave a tomb, and the id that comes back may find its old place again: nobody
    /// promises the place of these ids.
    pub loose: BTreeSet<JobId>,
}

/// A job's priority, and whether it is a suspect.
pub(super) type Line = (Priority, bool);

fn number((priority, suspect): Line) -> usize {
    if suspect { 0 } else { 1 + usize::from(priority.number()) }
}

impl Ready {
    pub(super) fn push(&mut self, line: Line, id: &JobId, head: bool) {
        let line = &mut self.lines[number(line)];
        if head { line.push_front(id.clone()) } else { line.push_back(id.clone()) }
    }

    /// Takes an id at or near the head, which is about to start.
    pub(super) fn pop(&mut self, id: &JobId) {
        for line in &mut self.lines {
            // What is taken is nearly always at the head.
            if let Some(position) = line.iter().position(|other| other == id) {
                line.remove(position);
                return;
            }
        }
    }

    /// Takes an id to the tail of the line of a priority. From a head that is one it leaves nothing behind.
    pub(super) fn lift(&mut self, id: &JobId, to: Priority) {
        let is_first = self.lines.iter().any(|line| line.front() == Some(id));
        self.pop(id);
        if !is_first || !self.loose.is_empty() {
            self.loose.insert(id.clone());
        }
        self.push((to, false), id, false);
    }

    /// Takes an id out of the middle of a line.
    pub(super) fn cut(&mut self, id: &JobId) {
        self.pop(id);
        self.loose.insert(id.clone());
    }

    /// The ids in the order of service, from this one on.
    pub fn page(&self, offset: usize) -> impl Iterator<Item = &JobId> {
        self.lines.iter().flatten().skip(offset)
    }

    /// How many jobs wait here.
    pub fn depth(&self) -> usize {
        self.lines.iter().map(VecDeque::len).sum()
    }

    /// The suspects, in order.
    pub fn suspects(&self) -> &VecDeque<JobId> {
        &self.lines[0]
    }

    /// The lines of the priorities, the highest first.
    pub fn priorities(&self) -> &[VecDeque<JobId>] {
        &self.lines[1..]
    }

    /// Brings every line into the order in which its members are here: a broker was free to choose it.
    pub fn reorder(&mut self, seen: &[JobId]) {
        let place = |id: &JobId| seen.iter().position(|other| other == id).unwrap_or(usize::MAX);
        for line in &mut self.lines {
            line.make_contiguous().sort_by_key(place);
        }
    }
}
