//! Who follows a queue, and what is told of its transitions.

use std::time::Duration;

use queue_core::broker::{FOLLOWED, Followed, StoredTransition, TRANSITIONS_KEPT, Transitions, reason_told};

use super::{Model, doors::Place};

impl Model {
    /// Marks the queue as one that a watcher follows, for `stands`.
    pub fn follow(&mut self, stands: Duration) -> Followed {
        let stood = self.followed > self.now;
        self.followed = self.after(stands.min(FOLLOWED)).max(if stood { self.followed } else { 0 });
        self.follows_begun += u64::from(!stood);
        self.jobs.follows = true;
        Followed::new(self.transition, stood, self.follows_begun.to_string())
    }

    /// Keeps the transitions of the operation that ends here, if a watcher follows the queue.
    pub fn tell_transitions(&mut self) {
        let moved = self.jobs.take_moved();
        if self.followed <= self.now {
            if self.jobs.follows {
                self.jobs.follows = false;
                self.transitions.clear();
            }
            return;
        }
        for moved in moved {
            self.transition += 1;
            let place = self.jobs.get(&moved.id).map(|job| (job.place(), job.note.as_deref()));
            let mut told = StoredTransition::new(self.transition, self.now, moved.id.clone());
            told.reason = match place.filter(|(place, _)| Some(place.state()) == moved.to) {
                Some((Place::Dead { reason, .. }, _)) => Some(reason.name().to_owned()),
                Some((Place::Ended { .. }, note)) => note.map(|note| reason_told(note).to_owned()).filter(|told| !told.is_empty()),
                _ => None,
            };
            (told.task, told.from, told.to, told.attempts) = (moved.task, moved.from, moved.to, moved.attempts);
            self.transitions.push_back(told);
        }
        let old = self.transitions.len().saturating_sub(usize::try_from(TRANSITIONS_KEPT).unwrap_or(usize::MAX));
        self.transitions.drain(..old);
    }

    /// Transitions behind that of a number.
    pub fn transitions(&self, after: u64, limit: usize) -> Transitions {
        let told: Vec<_> = self.transitions.iter().filter(|told| told.number > after).take(limit).cloned().collect();
        let is_all = told.len() < limit;
        Transitions::read(told, after, self.transition, is_all).of_life(self.follows_begun.to_string())
    }
}
