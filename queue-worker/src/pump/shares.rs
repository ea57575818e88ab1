//! Who gets the free slots.

/// What one queue brings into the division of the free slots.
#[derive(Debug)]
pub(super) struct Claimant<'a> {
    pub(super) weight: i64,
    /// What is left of its own limit.
    pub(super) room: usize,
    /// Whether there may be work.
    pub(super) hungry: bool,
    /// Whether a claim of it is under way, whose answer may ask for more.
    pub(super) claiming: bool,
    /// What it was passed over for, so far.
    pub(super) credit: &'a mut i64,
}

/// By weight: smooth weighted round robin, as nginx does it, in grains that bound the work. A queue that is full does not
/// take part, so its share goes to the others.
pub(super) fn by_weight(claimants: &mut [Claimant<'_>], free: usize) -> Vec<(usize, usize)> {
    let grain = (free / 64).max(1);
    let mut shares = vec![0; claimants.len()];
    let mut left = free;
    while left > 0 {
        let mut best: Option<usize> = None;
        let mut total = 0;
        for index in 0..claimants.len() {
            if !claimants[index].hungry || shares[index] >= claimants[index].room {
                continue;
            }
            *claimants[index].credit += claimants[index].weight;
            total += claimants[index].weight;
            if best.is_none_or(|best| *claimants[best].credit < *claimants[index].credit) {
                best = Some(index);
            }
        }
        let Some(best) = best else { break };
        *claimants[best].credit -= total;
        let given = grain.min(left).min(claimants[best].room - shares[best]);
        shares[best] += given;
        left -= given;
    }
    given(&shares)
}

/// In strict order: a queue gets what those before it cannot use, and nothing while they may still ask for it.
pub(super) fn in_order(claimants: &[Claimant<'_>], free: usize) -> Vec<(usize, usize)> {
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
    given(&shares)
}

fn given(shares: &[usize]) -> Vec<(usize, usize)> {
    shares.iter().copied().enumerate().filter(|(_, share)| *share > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claimants<'a>(of: &[(i64, usize, bool, bool)], credits: &'a mut [i64]) -> Vec<Claimant<'a>> {
        of.iter()
            .zip(credits)
            .map(|((weight, room, hungry, claiming), credit)| Claimant {
                weight: *weight,
                room: *room,
                hungry: *hungry,
                claiming: *claiming,
                credit,
            })
            .collect()
    }

    #[test]
    fn slots_are_shared_by_weight() {
        let mut credits = [0; 2];
        assert_eq!(by_weight(&mut claimants(&[(3, 99, true, false), (1, 99, true, false)], &mut credits), 40), [(0, 30), (1, 10)]);
    }

    #[test]
    fn single_slots_add_up_to_the_weights() {
        let (mut credits, mut got) = ([0; 2], [0; 2]);
        for _ in 0..40 {
            for (queue, share) in by_weight(&mut claimants(&[(3, 99, true, false), (1, 99, true, false)], &mut credits), 1) {
                got[queue] += share;
            }
        }
        assert_eq!(got, [30, 10]);
    }

    #[test]
    fn what_a_limit_leaves_goes_to_the_others() {
        let mut credits = [0; 2];
        assert_eq!(by_weight(&mut claimants(&[(9, 2, true, false), (1, 99, true, false)], &mut credits), 10), [(0, 2), (1, 8)]);
        assert_eq!(in_order(&claimants(&[(1, 2, true, false), (1, 99, true, false)], &mut credits), 10), [(0, 2), (1, 8)]);
    }

    #[test]
    fn a_queue_without_work_gets_nothing() {
        let mut credits = [0; 2];
        assert_eq!(by_weight(&mut claimants(&[(9, 99, false, false), (1, 99, true, false)], &mut credits), 10), [(1, 10)]);
        assert!(by_weight(&mut claimants(&[(1, 99, false, false)], &mut credits), 10).is_empty());
    }

    #[test]
    fn in_strict_order_the_next_waits_for_the_answer_of_the_first() {
        let mut credits = [0; 2];
        assert_eq!(in_order(&claimants(&[(1, 99, true, false), (1, 99, true, false)], &mut credits), 10), [(0, 10)]);
        assert!(in_order(&claimants(&[(1, 99, false, true), (1, 99, true, false)], &mut credits), 10).is_empty());
        assert_eq!(in_order(&claimants(&[(1, 99, false, false), (1, 99, true, false)], &mut credits), 10), [(1, 10)]);
    }
}
