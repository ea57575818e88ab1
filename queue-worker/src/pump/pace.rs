//! The minimum size of a turn. Each turn has a fixed cost for the broker. A worker with many queues
//! therefore serves few of them at a time if jobs are short. If jobs are long, it serves them one
//! after the other, because a turn per job is then cheap.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::lane::LaneId;
use crate::tuning::{GAIN, LONGEST_HELD, PARTS, PATIENCE, TURNS, UNKNOWN_HELD, YOUNG};

/// The average time in which jobs hold their slots, and the turns in flight.
pub(super) struct Pace {
    slots: usize,
    /// Average seconds that the latest jobs have held their slots.
    held: f64,
    /// Average seconds until a turn is answered.
    turn: f64,
    /// Recent turns in flight, in the order in which they were sent.
    young: VecDeque<(Instant, LaneId)>,
    /// The next check of waiting queues if none of the turns is answered before.
    waits: Option<Instant>,
    /// The start of the delay if the distribution of a few free slots is postponed.
    sharing_waits: Option<Instant>,
}

impl Pace {
    pub(super) fn new(slots: usize) -> Self {
        Pace { slots, held: UNKNOWN_HELD, turn: 0.0, young: VecDeque::new(), waits: None, sharing_waits: None }
    }

    /// A job has released its slot.
    pub(super) fn ended(&mut self, held: Duration) {
        self.held += (held.as_secs_f64().min(LONGEST_HELD) - self.held) * GAIN;
    }

    /// The minimum number of jobs for which a turn is sent. A slot is held by a turn, then by a
    /// job, and then by the next turn.
    pub(super) fn part(&self) -> usize {
        let per_second = self.slots as f64 / (self.held + self.turn).max(1e-6);
        ((per_second / TURNS) as usize).clamp(1, (self.slots / PARTS).max(1))
    }

    pub(super) fn sent(&mut self, at: Instant, lane: LaneId) {
        self.young.push_back((at, lane));
    }

    pub(super) fn answered(&mut self, lane: LaneId, took: Duration) {
        self.young.retain(|(_, young)| *young != lane);
        self.turn += (took.as_secs_f64().min(LONGEST_HELD) - self.turn) * GAIN;
    }

    /// Removes old entries before turns are planned.
    pub(super) fn begin(&mut self, now: Instant) {
        while self.young.front().is_some_and(|(sent, _)| now >= *sent + YOUNG) {
            self.young.pop_front();
        }
        self.waits = None;
    }

    /// Whether a turn with `items` items is sent now. It is sent if it is large, or if no turn of
    /// its queue is in flight (`idle`) and there is room for it, or if it has waited for
    /// [`PATIENCE`] since `waits`. A turn of the queue has at most `most` items.
    pub(super) fn may_send(&mut self, items: usize, most: usize, idle: bool, waits: &mut Option<Instant>, now: Instant) -> bool {
        let much = self.part().max(self.slots.div_ceil(8)).min(most);
        let until = waits.unwrap_or(now) + PATIENCE;
        if items >= much || (idle && self.has_room(items)) || until <= now {
            *waits = None;
            return true;
        }
        waits.get_or_insert(now);
        self.waits = Some(self.waits.map_or(until, |other| other.min(until)));
        false
    }

    /// Whether the free slots are shared among the queues now.
    pub(super) fn may_share(&mut self, free: usize, now: Instant) -> bool {
        let mut waits = self.sharing_waits;
        let may = self.may_send(free, usize::MAX, true, &mut waits, now);
        self.sharing_waits = waits;
        may
    }

    /// Whether fewer turns are in flight than the rate [`TURNS`] allows. With a
    /// nearby server, that is one turn.
    fn has_room(&self, items: usize) -> bool {
        let at_once = ((self.turn * TURNS) as usize).max(1);
        self.young.len() < at_once || items >= self.part()
    }

    /// When to plan again for waiting queues.
    pub(super) fn next(&self) -> Option<Instant> {
        self.waits
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
        (0..200).for_each(|_| pace.answered(lane, Duration::from_millis(31)));
        assert!((7..=8).contains(&pace.part()), "{}", pace.part());
        let beside = (0..40).take_while(|_| {
            pace.sent(now, lane);
            pace.may_send(1, 256, true, &mut None, now)
        });
        assert!((29..=31).contains(&beside.count()), "and more of them are under way");
    }

    /// The pace with short jobs and a turn in flight.
    fn busy(now: Instant) -> Pace {
        let mut pace = after(200, Duration::from_micros(100));
        pace.sent(now, LaneId { queue: 0, lane: 0 });
        pace
    }

    #[test]
    fn what_is_little_waits_for_turns_that_are_young() {
        let now = Instant::now();
        let goes = |pace: &mut Pace, items| pace.may_send(items, 256, true, &mut None, now);
        assert!(goes(&mut after(200, Duration::from_micros(100)), 1));
        let mut pace = busy(now);
        assert!(!goes(&mut pace, 127) && goes(&mut pace, 128));
        let other = LaneId { queue: 7, lane: 0 };
        pace.sent(now, other);
        pace.answered(other, Duration::from_micros(100));
        assert!(!goes(&mut pace, 1));
        pace.answered(LaneId { queue: 0, lane: 0 }, Duration::from_micros(100));
        assert!(goes(&mut pace, 1));
        let mut pace = busy(now);
        pace.begin(now + YOUNG);
        assert!(goes(&mut pace, 1), "a server that stands still is waited for");
    }

    #[test]
    fn all_that_a_queue_may_have_is_much() {
        let now = Instant::now();
        assert!(busy(now).may_send(2, 2, false, &mut None, now));
        assert!(!busy(now).may_send(1, 2, false, &mut None, now));
    }

    #[test]
    fn nothing_waits_for_long() {
        let (now, mut waits) = (Instant::now(), None);
        let mut pace = busy(now);
        assert!(!pace.may_send(1, 256, true, &mut waits, now));
        assert_eq!(pace.next(), Some(now + PATIENCE));
        pace.begin(now);
        assert_eq!(pace.next(), None);
        assert!(!pace.may_send(1, 256, true, &mut waits, now + PATIENCE / 2));
        assert_eq!(pace.next(), Some(now + PATIENCE), "it waits since then");
        assert!(pace.may_send(1, 256, true, &mut waits, now + PATIENCE) && waits.is_none());
    }

    #[test]
    fn a_turn_for_each_of_some_long_jobs_waits_for_nothing() {
        let (now, mut pace) = (Instant::now(), after(200, Duration::from_secs(1)));
        (0..100).for_each(|queue| pace.sent(now, LaneId { queue, lane: 0 }));
        assert!(pace.may_send(1, 256, true, &mut None, now));
    }
}
