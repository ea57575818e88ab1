//! The selection of the endings of one turn.

use std::mem;

use queue_core::broker::{Ending, Finish, MAX_BYTES};

use super::lane::Lane;
use crate::tuning::MOST_WORK;

impl Lane {
    /// Takes the endings that fit into one turn. The others stay for the next turn.
    pub(super) fn take_finishes(&mut self) -> Vec<Finish> {
        let rest = self.finishes.split_off(self.endings_per_turn());
        mem::replace(&mut self.finishes, rest)
    }

    /// The number of endings that fit into one turn.
    pub(super) fn endings_per_turn(&self) -> usize {
        let (mut bytes, mut done) = (0, 0);
        let fit = self.finishes.iter().take_while(|finish| {
            bytes += size(finish);
            done += work(finish);
            bytes <= MAX_BYTES && done <= MOST_WORK
        });
        fit.count().max(1).min(self.finishes.len())
    }
}

/// The approximate cost of an ending for the broker, in plain acks. The broker processes plain acks
/// together, and other endings one by one.
fn work(finish: &Finish) -> usize {
    match &finish.ending {
        _ if finish.used.is_some() => 4,
        Ending::Ack { keep: None, .. } => 1,
        Ending::Ack { keep: Some(_), .. } => 2,
        _ => 4,
    }
}

/// The approximate size of an ending in bytes.
fn size(finish: &Finish) -> usize {
    const REST: usize = 64;
    let limits = finish.used.as_ref().map_or(0, |used| 1 + used.named().len());
    REST * (1 + limits)
        + match &finish.ending {
            Ending::Ack { result, .. } => result.as_ref().map_or(0, Vec::len),
            Ending::Nack { error, .. } => error.len(),
            Ending::Bury { error, .. } => error.as_ref().map_or(0, String::len),
            Ending::Cancel { reason } => reason.len(),
            Ending::Park { task } => task.len(),
            Ending::Unreadable { task, release, error, .. } => task.len() + release.len() + error.len(),
            _ => 0,
        }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use queue_core::JobId;

    use super::*;

    fn acks(n: usize, bytes: usize) -> Lane {
        let finish = |claim| Finish {
            id: JobId::make(),
            claim,
            size: 0,
            ending: Ending::Ack { result: Some(vec![0; bytes]), keep: None },
            used: None,
        };
        Lane { finishes: (0..n as u64).map(finish).collect(), ..Lane::default() }
    }

    #[test]
    fn a_turn_is_bounded_in_work_and_in_bytes_and_nothing_is_left_behind() {
        let mut small = acks(MOST_WORK + 7, 0);
        assert_eq!(small.take_finishes().len(), MOST_WORK);
        assert_eq!(small.take_finishes().len(), 7);
        assert!(small.take_finishes().is_empty());

        let mut large = acks(40, 64 * 1024);
        let first = large.take_finishes();
        assert!(first.len() < 16 && !first.is_empty(), "{}", first.len());
        assert_eq!(first.len() + large.finishes.len(), 40);
    }

    #[test]
    fn endings_that_take_longer_fill_a_turn_sooner() {
        let mut lane = acks(MOST_WORK, 0);
        let failed = Ending::Nack { delay: Duration::ZERO, error: String::new() };
        lane.finishes.iter_mut().for_each(|finish| finish.ending = failed.clone());
        assert_eq!(lane.take_finishes().len(), MOST_WORK / 4);
        assert_eq!(lane.finishes.len(), MOST_WORK - MOST_WORK / 4);
        let mut lane = acks(MOST_WORK, 0);
        lane.finishes.iter_mut().for_each(|finish| finish.used = Some(Box::default()));
        assert_eq!(lane.take_finishes().len(), MOST_WORK / 4);
    }

    #[test]
    fn an_ending_larger_than_a_turn_travels_alone() {
        let mut lane = acks(2, MAX_BYTES + 1);
        assert_eq!(lane.take_finishes().len(), 1);
        assert_eq!(lane.take_finishes().len(), 1);
    }
}
