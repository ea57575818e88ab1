//! The figures that workers count for the jobs of one task.

use serde::Serialize;

use super::Times;
use crate::codec;

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts of jobs in a period, as the workers counted them.
        /// [`QueueStats`](crate::inspect::QueueStats) has the broker's own counters since the queue
        /// was created.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
        #[non_exhaustive]
        pub struct RunCounts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl RunCounts {
            /// In the order in which they are stored. Only ever added to.
            fn numbers(&self) -> Vec<u64> {
                vec![$(self.$name),*]
            }

            /// Reads stored numbers. A newer library may have stored more of them.
            fn of_numbers(numbers: &[u64]) -> Self {
                let mut numbers = numbers.iter().copied();
                RunCounts { $($name: numbers.next().unwrap_or(0)),* }
            }

            /// Adds all of another.
            pub fn merge(&mut self, other: &RunCounts) {
                $(self.$name = self.$name.saturating_add(other.$name);)*
            }
        }
    };
}

counts! {
    /// Runs whose handler began.
    started,
    /// Jobs that were done.
    done,
    /// Runs that failed: with an error, a panic or a timeout. Each was retried, or its job is in
    /// `dead` as well.
    failed,
    /// Jobs that became dead letters.
    dead,
    /// Jobs of dead workers that were charged with a crash.
    crashed,
    /// Snoozes.
    snoozed,
    /// Rounds of repeating jobs.
    repeated,
    /// Jobs that their handler cancelled.
    cancelled,
    /// Jobs that expired.
    expired,
    /// Jobs that were parked.
    parked,
    /// Jobs that were returned without an outcome: their worker stopped, or they were cancelled
    /// while they ran.
    returned,
    /// Runs whose ending was discarded, because the lease was lost.
    lost,
}

/// The counts of the jobs of one task in a period.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The counts of events.
    pub counts: RunCounts,
    /// How long jobs waited for their first start, from the time at which they could start.
    pub wait: Times,
    /// How long runs took.
    pub run: Times,
}

impl Tally {
    /// Adds all of another.
    pub fn merge(&mut self, other: &Tally) {
        self.counts.merge(&other.counts);
        self.wait.merge(&other.wait);
        self.run.merge(&other.run);
    }

    /// Whether nothing has happened.
    pub fn is_empty(&self) -> bool {
        self.counts == RunCounts::default() && self.wait.count() == 0 && self.run.count() == 0
    }

    /// Makes it empty, and keeps its memory.
    pub fn clear(&mut self) {
        self.counts = RunCounts::default();
        self.wait.clear();
        self.run.clear();
    }

    /// A MessagePack array: the counts; of waits and of runs the sum in microseconds and the bucket
    /// and count of each bucket that has any.
    pub fn encoded(&self) -> Vec<u8> {
        codec::pack(&(self.counts.numbers(), self.wait.flat(), self.run.flat())).expect("numbers can be encoded")
    }

    /// Decodes the output of [`encoded`](Self::encoded). `None` if it has another form.
    pub fn decoded(bytes: &[u8]) -> Option<Self> {
        let (counts, wait, run): (Vec<u64>, Vec<u64>, Vec<u64>) = codec::unpack(bytes).ok()?;
        Some(Tally::of(&counts, &wait, &run))
    }

    /// The same with the number of its period before it.
    pub fn encoded_in(&self, period: u64) -> Vec<u8> {
        codec::pack(&(period, self.counts.numbers(), self.wait.flat(), self.run.flat())).expect("numbers can be encoded")
    }

    /// Decodes the output of [`encoded_in`](Self::encoded_in), also after a script has changed it.
    /// `None` if it has another form.
    pub fn decoded_in(bytes: &[u8]) -> Option<(u64, Self)> {
        let (period, counts, wait, run): (u64, Vec<u64>, Vec<u64>, Vec<u64>) = codec::unpack(bytes).ok()?;
        Some((period, Tally::of(&counts, &wait, &run)))
    }

    fn of(counts: &[u64], wait: &[u64], run: &[u64]) -> Self {
        Tally { counts: RunCounts::of_numbers(counts), wait: Times::of_flat(wait), run: Times::of_flat(run) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn tally() -> Tally {
        let mut tally = Tally::default();
        (tally.counts.started, tally.counts.lost) = (300, 1);
        tally.wait.add(Duration::from_micros(130));
        tally.run.add(Duration::from_millis(20));
        tally
    }

    #[test]
    fn a_tally_comes_back_as_it_was_written() {
        assert_eq!(Tally::decoded(&tally().encoded()), Some(tally()));
        assert_eq!(Tally::decoded_in(&tally().encoded_in(7)), Some((7, tally())));
        assert_eq!(Tally::decoded(&Tally::default().encoded()), Some(Tally::default()));
        assert_eq!(Tally::decoded(b"theirs"), None);
    }

    #[test]
    fn the_form_of_a_tally_is_what_the_documents_say() {
        let bytes = b"\x94\x07\x9c\xcd\x01\x2c\0\0\0\0\0\0\0\0\0\0\x01\x93\xcc\x82\x01\x01\x93\xcd\x4e\x20\x1d\x01";
        assert_eq!(tally().encoded_in(7), bytes);
    }

    #[test]
    fn what_a_newer_library_counts_is_skipped() {
        let newer = codec::pack(&(vec![1u64; 40], vec![0u64], vec![0u64])).unwrap();
        let counts = Tally::decoded(&newer).unwrap().counts;
        assert_eq!((counts.started, counts.lost), (1, 1));
        let older = codec::pack(&(vec![1u64], vec![0u64], vec![0u64])).unwrap();
        assert_eq!(Tally::decoded(&older).unwrap().counts, RunCounts { started: 1, ..RunCounts::default() });
    }

    #[test]
    fn an_empty_tally_is_one_in_which_nothing_has_happened() {
        let mut one = tally();
        one.merge(&tally());
        assert_eq!((one.counts.started, one.run.count(), one.is_empty()), (600, 2, false));
        one.clear();
        assert!(one.is_empty());
    }
}
