//! Selection of suspects: jobs whose worker process has crashed before. A process runs at most one
//! suspect, and the queues with waiting suspects are polled one after the other. A job that has run
//! longer than before its last crash is no longer a suspect, so other suspects do not wait for its
//! end.

use std::{collections::VecDeque, time::Instant};

use super::{Pump, lane::LaneId, reason::Reason};

#[derive(Default)]
pub(super) struct Suspects {
    /// The number of running suspects.
    running: usize,
    /// The time until which the running suspect is suspected, if known.
    until: Option<Instant>,
    /// The lane whose turn in flight requests a suspect.
    asked: Option<LaneId>,
    /// The queues with waiting suspects, as far as known.
    waiting: VecDeque<usize>,
}

impl Suspects {
    /// Whether a suspect may be requested.
    fn is_free(&self) -> bool {
        self.running == 0 && self.asked.is_none()
    }

    /// Whether a suspect runs. Another one must not start.
    pub(super) fn runs(&self) -> bool {
        self.running > 0
    }

    /// Whether a claim of this lane requests a suspect. A queue without waiting suspects is not
    /// asked while another queue has some.
    pub(super) fn ask(&mut self, lane: LaneId) -> bool {
        let asks = self.is_free() && (self.waiting.is_empty() || self.waiting.contains(&lane.queue));
        if asks {
            self.asked = Some(lane);
        }
        asks
    }

    /// The turn of this lane is answered, or is late.
    pub(super) fn answered(&mut self, lane: LaneId) {
        self.asked = self.asked.filter(|asked| *asked != lane);
    }

    /// Records whether suspects wait in a queue.
    pub(super) fn set_waiting(&mut self, queue: usize, wait: bool) {
        match self.waiting.iter().position(|known| *known == queue) {
            None if wait => self.waiting.push_back(queue),
            Some(at) if !wait => drop(self.waiting.remove(at)),
            _ => {}
        }
    }

    /// A suspect has started. It is suspected until this time at most.
    pub(super) fn began(&mut self, until: Option<Instant>) {
        (self.running, self.until) = (self.running + 1, until);
    }

    pub(super) fn ended(&mut self) {
        (self.running, self.until) = (self.running - 1, None);
    }

    /// Whether the running job is no longer suspected.
    pub(super) fn is_cleared(&self, now: Instant) -> bool {
        self.runs() && self.until.is_some_and(|until| until <= now)
    }

    /// The next queue with waiting suspects and with room for one.
    fn next(&mut self, has_room: impl Fn(usize) -> bool) -> Option<usize> {
        let at = self.waiting.iter().position(|queue| has_room(*queue)).filter(|_| self.is_free())?;
        let queue = self.waiting.remove(at)?;
        self.waiting.push_back(queue);
        Some(queue)
    }
}

impl Pump {
    /// A suspect that has run for long enough is treated like other jobs.
    pub(super) fn clear_suspect(&mut self, now: Instant) {
        if self.suspects.is_cleared(now) {
            self.slots.iter_mut().for_each(|held| held.suspect = false);
            self.suspects.ended();
            self.poll_for_suspect();
        }
    }

    /// If a suspect may run now, polls a queue with waiting suspects.
    pub(super) fn poll_for_suspect(&mut self) {
        let queues = &self.queues;
        if let Some(queue) = self.suspects.next(|queue| queues[queue].used < queues[queue].limit && queues[queue].can_send()) {
            self.queues[queue].work.ask(Reason::Suspects);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const fn lane(queue: usize) -> LaneId {
        LaneId { queue, lane: 0 }
    }

    #[test]
    fn one_runs_or_is_asked_for_at_a_time() {
        let mut suspects = Suspects::default();
        assert!(suspects.ask(lane(0)) && !suspects.ask(lane(1)));
        suspects.answered(lane(1));
        assert!(!suspects.is_free(), "the answer to another turn changes nothing");
        suspects.answered(lane(0));
        suspects.began(None);
        assert!(!suspects.ask(lane(1)));
        suspects.ended();
        assert!(suspects.ask(lane(1)));
    }

    #[test]
    fn one_that_has_run_for_long_enough_keeps_no_other_waiting() {
        let (mut suspects, began) = (Suspects::default(), Instant::now());
        let until = began + Duration::from_secs(60);
        suspects.began(Some(until));
        assert!(!suspects.is_cleared(began) && suspects.is_cleared(until));
        suspects.ended();
        assert!(!suspects.is_cleared(until));
        suspects.began(None);
        assert!(!suspects.is_cleared(until), "it is not known how long it ran before");
    }

    #[test]
    fn queues_in_which_some_wait_take_turns_and_others_leave_them_the_right() {
        let mut suspects = Suspects::default();
        for queue in [3, 5, 5, 7] {
            suspects.set_waiting(queue, true);
        }
        assert!(!suspects.ask(lane(0)));
        let turns: Vec<_> = (0..4).map(|_| suspects.next(|queue| queue != 5)).collect();
        assert_eq!(turns, [Some(3), Some(7), Some(3), Some(7)], "one without room is passed over");
        assert_eq!(suspects.next(|_| true), Some(5));
        assert!(suspects.ask(lane(5)));
        assert_eq!(suspects.next(|_| true), None, "one is asked for");
        suspects.answered(lane(5));
        for queue in [3, 5, 7, 9] {
            suspects.set_waiting(queue, false);
        }
        assert_eq!(suspects.next(|_| true), None);
        assert!(suspects.ask(lane(0)));
    }
}
