//! The number at which a relay begins to read a queue. While a session has an old snapshot, the
//! index keeps the entries of rows that were sent. A take from the start would read all of them
//! again.
//!
//! A floor is a number below which a queue has no row that can be sent, and will have none. Rows
//! can become visible late, so the lowest number that a take has seen is a floor only when every
//! transaction of that moment has ended. An INSERT draws the number of its transaction before that
//! of its row. So the transactions of that moment have lower numbers than that of the next take.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// All queues are read from the start after this time. The numbers of rows may start again, and
/// rows may be changed by hand.
const FROM_START: Duration = Duration::from_secs(5);

/// The minimum interval is also a multiple of the time that the last such round took in the
/// database. The relay must have time for other work if a round takes too long for a statement.
const AT_MOST: u32 = 10;

/// With more queues than this, all floors are forgotten.
const MOST: usize = 1000;

#[derive(Debug, Default)]
pub(super) struct Floors {
    of: BTreeMap<String, Floor>,
    /// The earliest start of the next round that reads from the start, and how long the current one
    /// has read, if it does.
    next: Option<Instant>,
    from_start: Option<Duration>,
}

#[derive(Debug)]
struct Floor {
    proved: i64,
    seen: Seen,
}

impl Default for Floor {
    fn default() -> Self {
        Floor { proved: i64::MIN, seen: Seen::Nothing }
    }
}

/// The lowest number in a take.
#[derive(Clone, Copy, Debug)]
enum Seen {
    Nothing,
    Now(i64),
    /// The lowest number, and the number of the transaction of the next take.
    Before(i64, i64),
}

impl Floors {
    pub(super) fn begin_round(&mut self) {
        if self.of.len() > MOST {
            self.of.clear();
        }
        let now = Instant::now();
        if let Some(read) = self.from_start.take() {
            self.next = Some(now + FROM_START.max(AT_MOST * read));
        }
        if self.next.is_none_or(|next| now >= next) {
            self.from_start = Some(Duration::ZERO);
        }
    }

    /// The round has read from the database for this time.
    pub(super) fn note_read(&mut self, time: Duration) {
        if let Some(read) = &mut self.from_start {
            *read += time;
        }
    }

    /// The number at which a take of this queue begins.
    pub(super) fn of(&self, queue: &str) -> i64 {
        self.of.get(queue).filter(|_| self.from_start.is_none()).map_or(i64::MIN, |floor| floor.proved)
    }

    /// The queues with a floor, and their floors. None, while a round reads from the start.
    pub(super) fn all(&self) -> (Vec<&str>, Vec<i64>) {
        if self.from_start.is_some() { Default::default() } else { self.known() }
    }

    /// The queues with a floor, and their floors, in every round.
    pub(super) fn known(&self) -> (Vec<&str>, Vec<i64>) {
        self.of.iter().map(|(queue, floor)| (queue.as_str(), floor.proved)).unzip()
    }

    /// A take has seen `lowest` as the lowest number of the queue. Its transaction has the number
    /// `own`, and all transactions with lower numbers than `ended` have ended.
    pub(super) fn note_lowest(&mut self, queue: &str, lowest: i64, own: i64, ended: i64) {
        let floor = self.of.entry(queue.to_owned()).or_default();
        floor.proved = floor.proved.min(lowest);
        let (seen, bound) = match floor.seen {
            Seen::Nothing => return floor.seen = Seen::Now(lowest),
            Seen::Now(seen) => (seen.min(lowest), own),
            // Numbers only increase, unless the database was restored into another cluster.
            Seen::Before(_, bound) if own <= bound => return floor.seen = Seen::Now(lowest),
            Seen::Before(seen, bound) => (seen.min(lowest), bound),
        };
        floor.seen = if ended >= bound {
            floor.proved = seen;
            Seen::Now(lowest)
        } else {
            Seen::Before(seen, bound)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floors() -> Floors {
        let mut floors = Floors::default();
        floors.begin_round();
        floors.begin_round();
        floors
    }

    #[test]
    fn a_number_is_a_floor_when_the_transactions_of_its_moment_have_ended() {
        let mut floors = floors();
        floors.note_lowest("a", 10, 100, 90);
        floors.note_lowest("a", 20, 105, 90);
        assert_eq!(floors.of("a"), i64::MIN, "a transaction below 105 may insert a row below 10");
        floors.note_lowest("a", 30, 110, 104);
        assert_eq!(floors.of("a"), i64::MIN);
        floors.note_lowest("a", 40, 115, 105);
        assert_eq!((floors.of("a"), floors.of("b")), (10, i64::MIN));
        floors.note_lowest("a", 50, 120, 120);
        assert_eq!(floors.of("a"), 40);
    }

    #[test]
    fn numbers_of_another_cluster_begin_again() {
        let mut floors = floors();
        floors.note_lowest("a", 10, 100, 90);
        floors.note_lowest("a", 20, 105, 90);
        floors.note_lowest("a", 30, 50, 49);
        floors.note_lowest("a", 40, 55, 55);
        assert_eq!(floors.of("a"), 30);
    }

    #[test]
    fn a_lower_number_lowers_the_floor() {
        let mut floors = floors();
        (1..5).for_each(|n| floors.note_lowest("a", 10 * n, 100 + n, 200));
        assert_eq!(floors.of("a"), 30);
        floors.note_lowest("a", 7, 110, 200);
        assert_eq!(floors.of("a"), 7);
    }

    #[test]
    fn a_round_that_reads_from_the_start_forgets_no_floor() {
        let mut floors = floors();
        (1..5).for_each(|n| floors.note_lowest("a", 10 * n, 100 + n, 200));
        floors.next = Some(Instant::now());
        floors.begin_round();
        assert_eq!((floors.of("a"), floors.all(), floors.known()), (i64::MIN, (vec![], vec![]), (vec!["a"], vec![30])));
        floors.begin_round();
        assert_eq!(floors.all(), (vec!["a"], vec![30]));
    }

    #[test]
    fn rounds_that_read_from_the_start_take_a_tenth_of_the_time() {
        let mut floors = floors();
        for (reads, pause) in [([0, 0], 5), ([2, 3], 50)] {
            floors.next = None;
            floors.begin_round();
            reads.into_iter().for_each(|seconds| floors.note_read(Duration::from_secs(seconds)));
            floors.begin_round();
            let left = floors.next.unwrap() - Instant::now();
            assert!(left > Duration::from_secs(pause - 1) && left < Duration::from_secs(pause + 1), "{left:?}");
        }
    }
}
