//! How much a turn has to carry. Each costs the broker something, whatever it brings; so a worker with many queues serves few of
//! them at a time where jobs are short, and one after the other where they are long and nobody minds a turn for each.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::lane::LaneId;

/// About as many turns a second as a worker makes, however short its jobs are and however many queues it has.
const TURNS: f64 = 1000.0;

/// Turns of fewer queues than these wait for each other.
const AT_ONCE: usize = 2;

/// A turn that has not been answered for so long is not waited for: its server may stand still.
const YOUNG: Duration = Duration::from_millis(20);

/// What is known of a worker's jobs before the first has ended, and the longest that counts, in seconds.
const UNKNOWN: f64 = 1.0;
const LONGEST: f64 = 10.0;

/// The share of a single job in what is known.
const GAIN: f64 = 1.0 / 16.0;

/// How long jobs hold their slots, and the turns that are on their way.
pub(super) struct Pace {
    slots: usize,
    /// Seconds, on average, of the latest jobs.
    held: f64,
    /// Seconds, on average, until a turn is answered.
    turn: f64,
    /// In the order in which they were sent.
    young: VecDeque<(Instant, LaneId)>,
    /// Something waits for one of them.
    waits: bool,
}

impl Pace {
    pub(super) fn new(slots: usize) -> Self {
        Pace { slots, held: UNKNOWN, turn: 0.0, young: VecDeque::new(), waits: false }
    }

    /// A job has given back its slot.
    pub(super) fn ended(&mut self, held: Duration) {
        self.held += (held.as_secs_f64().min(LONGEST) - self.held) * GAIN;
    }

    /// Jobs that make a turn of their own worth while. A slot is with a turn, then with a job, and so on.
    pub(super) fn part(&self) -> usize {
        let per_second = self.slots as f64 / (self.held + self.turn).max(1e-6);
        ((per_second / TURNS) as usize).clamp(1, (self.slots / AT_ONCE).max(1))
    }

    pub(super) fn sent(&mut self, at: Instant, lane: LaneId) {
        self.young.push_back((at, lane));
    }

    pub(super) fn answered(&mut self, lane: LaneId, now: Instant) {
        let at = self.young.iter().position(|(_, young)| *young == lane);
        if let Some((sent, _)) = at.and_then(|at| self.young.remove(at)) {
            self.turn += (now.saturating_duration_since(sent).as_secs_f64() - self.turn) * GAIN;
        }
    }

    /// Plans are made: what is no longer young is forgotten.
    pub(super) fn begin(&mut self, now: Instant) {
        while self.young.front().is_some_and(|(sent, _)| now >= *sent + YOUNG) {
            self.young.pop_front();
        }
        self.waits = false;
    }

    /// Whether a turn with so many items should go out now: beside one that is under way, what is little waits for it.
    pub(super) fn is_worth(&mut self, items: usize) -> bool {
        let worth = self.young.is_empty() || items >= self.part();
        self.waits |= !worth;
        worth
    }

    /// When to make plans again for what waits, should none of the turns be answered.
    pub(super) fn next(&self) -> Option<Instant> {
        self.young.front().filter(|_| self.waits).map(|(sent, _)| *sent + YOUNG)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(jobs: usize, held: Duration) -> Pace {
        let mut pace = Pace::new(256);
        (0..jobs).for_each(|_| pace.ended(held));
        pace
    }

    #[test]
    fn turns_carry_more_the_shorter_jobs_are() {
        assert_eq!(Pace::new(256).part(), 1);
        assert_eq!(after(200, Duration::from_secs(3600)).part(), 1);
        assert_eq!(after(200, Duration::from_millis(10)).part(), 25);
        assert_eq!(after(200, Duration::from_micros(10)).part(), 128);
        assert_eq!(Pace::new(1).part(), 1);
    }

    #[test]
    fn turns_carry_less_the_longer_their_answers_take() {
        let (now, mut pace) = (Instant::now(), after(200, Duration::from_millis(1)));
        let lane = LaneId { queue: 0, lane: 0 };
        for _ in 0..200 {
            pace.sent(now, lane);
            pace.answered(lane, now + Duration::from_millis(7));
        }
        assert!((31..=32).contains(&pace.part()), "{}", pace.part());
    }

    #[test]
    fn what_is_little_waits_for_turns_that_are_young() {
        let now = Instant::now();
        let mut pace = after(200, Duration::from_millis(1));
        let lane = |lane| LaneId { queue: 0, lane };
        assert!(pace.is_worth(1));
        pace.sent(now, lane(0));
        assert!(!pace.is_worth(127) && pace.is_worth(128));
        pace.sent(now, lane(1));
        assert_eq!(pace.next(), Some(now + YOUNG));
        pace.answered(lane(1), now);
        assert!(!pace.is_worth(1));
        pace.answered(lane(0), now);
        assert!(pace.is_worth(1));
        pace.sent(now, lane(0));
        pace.begin(now + YOUNG);
        assert!(pace.is_worth(1), "a server that stands still is waited for");
    }

    #[test]
    fn a_turn_for_each_of_some_long_jobs_waits_for_nothing() {
        let (now, mut pace) = (Instant::now(), after(200, Duration::from_secs(1)));
        (0..100).for_each(|queue| pace.sent(now, LaneId { queue, lane: 0 }));
        assert!(pace.is_worth(1));
    }
}
