//! The distribution of the free slots.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::Pump;
use crate::tuning::{LEAD, MOST_PARTS};

/// The position of a queue on a scale that all queues share. It grows by the slots that the queue
/// gets, divided by its weight, in units that keep the largest weight exact.
pub(super) type Served = i128;

/// The growth for this number of jobs.
pub(super) fn served(jobs: usize, weight: u32) -> Served {
    ((jobs as i128) << 32) / i128::from(weight.max(1))
}

/// The input of one queue to the distribution of the free slots.
#[derive(Debug)]
struct Claimant {
    queue: usize,
    weight: u32,
    /// The number of jobs that its own limit still allows.
    room: usize,
    /// Whether a claim is in flight. The answer may show more work.
    claiming: bool,
    /// Whether there may be work.
    hungry: bool,
    /// The position of the queue. The lowest is served first.
    served: Served,
}

impl Pump {
    /// How the free slots are shared among the queues that may have work.
    pub(super) fn shares(&mut self, free: usize) -> Vec<(usize, usize)> {
        let part = self.pace.part().max(free / MOST_PARTS);
        let strict = self.shared.settings.strict_order;
        let mut least = None;
        let mut claimants = Vec::new();
        for (index, queue) in self.queues.all.iter_mut().enumerate() {
            // A queue whose server hangs takes no slots from the others. In strict order no queue
            // is skipped.
            let hungry = queue.may_have_work() && (strict || queue.can_send());
            let claiming = queue.claiming > 0;
            if !hungry && !claiming {
                continue;
            }
            let room = queue.limit - queue.used;
            if hungry && room > 0 {
                // Idle queues do not accumulate credit.
                queue.served = queue.served.max(self.queues.least_served);
                least = Some(least.map_or(queue.served, |least: Served| least.min(queue.served)));
            }
            // Endings travel with the next claim. A queue with endings therefore has a lead of a
            // few turns.
            let lead = if queue.dirty { served(part * LEAD, queue.weight) } else { 0 };
            claimants.push(Claimant { queue: index, weight: queue.weight, room, hungry, claiming, served: queue.served - lead });
        }
        self.queues.least_served = least.unwrap_or(self.queues.least_served);
        if strict { in_order(&claimants, free) } else { by_weight(&claimants, free, part) }
    }
}

/// Distributes the slots by weight, in parts: the queue that was served least gets the next part. A
/// full queue does not take part, so its share goes to the others. `part` is at least one job.
fn by_weight(claimants: &[Claimant], free: usize, part: usize) -> Vec<(usize, usize)> {
    if let [alone] = claimants {
        return given(claimants, &[if alone.hungry { alone.room.min(free) } else { 0 }]);
    }
    let mut shares = vec![0; claimants.len()];
    let mut left = free;
    let takes_part = |claimant: &Claimant| claimant.hungry && claimant.room > 0;
    let waiting = claimants.iter().enumerate().filter(|(_, claimant)| takes_part(claimant));
    let mut line: BinaryHeap<Reverse<(Served, usize)>> = waiting.map(|(index, claimant)| Reverse((claimant.served, index))).collect();
    while left > 0 {
        let Some(Reverse((before, index))) = line.pop() else { break };
        let claimant = &claimants[index];
        let given = part.min(left).min(claimant.room - shares[index]);
        shares[index] += given;
        left -= given;
        if shares[index] < claimant.room {
            line.push(Reverse((before + served(given, claimant.weight), index)));
        }
    }
    given(claimants, &shares)
}

/// Distributes the slots in strict order. A queue gets the slots that the queues before it cannot
/// use. It gets none while a claim of a queue before it may show more work.
fn in_order(claimants: &[Claimant], free: usize) -> Vec<(usize, usize)> {
    let mut shares = vec![0; claimants.len()];
    let mut left = free;
    for (share, claimant) in shares.iter_mut().zip(claimants) {
        if claimant.hungry {
            *share = claimant.room.min(left);
            left -= *share;
        }
        if left == 0 || (claimant.claiming && claimant.room > *share) {
            break;
        }
    }
    given(claimants, &shares)
}

fn given(claimants: &[Claimant], shares: &[usize]) -> Vec<(usize, usize)> {
    let given = claimants.iter().zip(shares).filter(|(_, share)| **share > 0);
    given.map(|(claimant, share)| (claimant.queue, *share)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claimants(of: &[(u32, usize, bool, bool)]) -> Vec<Claimant> {
        let claimant = |(queue, (weight, room, hungry, claiming)): (usize, &(u32, usize, bool, bool))| Claimant {
            queue,
            weight: *weight,
            room: *room,
            hungry: *hungry,
            claiming: *claiming,
            served: 0,
        };
        of.iter().enumerate().map(claimant).collect()
    }

    #[test]
    fn slots_are_shared_by_weight() {
        assert_eq!(by_weight(&claimants(&[(3, 99, true, false), (1, 99, true, false)]), 40, 1), [(0, 30), (1, 10)]);
    }

    /// The slots of two queues with weights 3 and 1, after `rounds` distributions of `free` slots.
    fn in_rounds(rounds: usize, free: usize, part: usize) -> [usize; 2] {
        let mut both = claimants(&[(3, 999, true, false), (1, 999, true, false)]);
        let mut got = [0; 2];
        for _ in 0..rounds {
            for (queue, share) in by_weight(&both, free, part) {
                got[queue] += share;
                both[queue].served += served(share, both[queue].weight);
            }
        }
        got
    }

    #[test]
    fn single_slots_add_up_to_the_weights() {
        assert_eq!(in_rounds(40, 1, 1), [30, 10]);
    }

    #[test]
    fn parts_of_any_size_add_up_to_the_weights() {
        let [heavy, light] = in_rounds(400, 7, 16);
        assert!((690..=710).contains(&light), "{light} of {}", heavy + light);
        let [heavy, light] = in_rounds(100, 40, 16);
        assert!((985..=1015).contains(&light), "{light} of {}", heavy + light);
    }

    #[test]
    fn a_thousand_queues_all_get_their_turn_before_one_gets_a_second() {
        let mut all = claimants(&[(1, 999, true, false); 1000]);
        let mut turns = vec![0; 1000];
        for _ in 0..250 {
            for (queue, share) in by_weight(&all, 64, 16) {
                assert_eq!(share, 16);
                turns[queue] += 1;
                all[queue].served += served(share, 1);
            }
        }
        assert!(turns.iter().all(|turns| *turns == 1));
    }

    #[test]
    fn what_a_limit_leaves_goes_to_the_others() {
        assert_eq!(by_weight(&claimants(&[(9, 2, true, false), (1, 99, true, false)]), 10, 1), [(0, 2), (1, 8)]);
        assert_eq!(in_order(&claimants(&[(1, 2, true, false), (1, 99, true, false)]), 10), [(0, 2), (1, 8)]);
    }

    #[test]
    fn a_queue_without_work_gets_nothing() {
        assert_eq!(by_weight(&claimants(&[(9, 99, false, false), (1, 99, true, false)]), 10, 1), [(1, 10)]);
        assert!(by_weight(&claimants(&[(1, 99, false, false)]), 10, 1).is_empty());
    }

    #[test]
    fn in_strict_order_the_next_waits_for_the_answer_of_the_first() {
        assert_eq!(in_order(&claimants(&[(1, 99, true, false), (1, 99, true, false)]), 10), [(0, 10)]);
        assert!(in_order(&claimants(&[(1, 99, false, true), (1, 99, true, false)]), 10).is_empty());
        assert_eq!(in_order(&claimants(&[(1, 99, false, false), (1, 99, true, false)]), 10), [(1, 10)]);
    }
}
