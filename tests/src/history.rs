//! The history of every job from a journal, after the end of all jobs.

use std::{
    collections::BTreeMap,
    fmt::Write,
    path::Path,
    time::{Duration, SystemTime},
};

use crate::chronicle::micros;

/// The maximum time between an answer and its line in the journal, and between the line of an end
/// and its answer.
pub const JOURNALED: Duration = Duration::from_secs(2);

/// One job in the records of its producer and its workers. Times are in microseconds since 1970.
#[derive(Clone, Debug, Default)]
pub struct Story {
    /// When its enqueue began.
    pub sent: Option<u64>,
    /// When its enqueue was acknowledged.
    pub stored: Option<u64>,
    /// Whether it was acknowledged although no replica had it.
    pub unconfirmed: bool,
    /// When its handler started.
    pub starts: Vec<u64>,
    /// The processes of these starts.
    pub processes: Vec<u32>,
    /// When its handler ended.
    pub ends: Vec<u64>,
}

/// All jobs, by number.
#[derive(Clone, Debug, Default)]
pub struct History(BTreeMap<u32, Story>);

impl History {
    /// Reads a journal. An incomplete last line is skipped.
    ///
    /// # Panics
    /// If a line is invalid.
    pub fn read(path: &Path) -> History {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let mut stories: BTreeMap<u32, Story> = BTreeMap::new();
        for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            let words: Vec<&str> = line.split(' ').collect();
            let &[word, number, _attempt, _crashes, process, time] = &words[..] else { panic!("a line of the journal: {line}") };
            let story = stories.entry(number.parse().expect("a job's number")).or_default();
            let time = time.parse().expect("a time");
            match word {
                "sent" => story.sent = Some(time),
                "stored" => story.stored = Some(time),
                "unconfirmed" => story.unconfirmed = true,
                "start" => {
                    story.starts.push(time);
                    story.processes.push(process.parse().expect("a process"));
                }
                "end" => story.ends.push(time),
                // Jobs with a refused or unknown enqueue may have run.
                _ => {}
            }
        }
        History(stories)
    }

    /// The histories of some of the jobs.
    #[must_use]
    pub fn of(&self, chosen: impl Fn(u32) -> bool) -> History {
        History(self.0.iter().filter(|(number, _)| chosen(**number)).map(|(number, story)| (*number, story.clone())).collect())
    }

    /// Jobs that were acknowledged.
    pub fn stored(&self) -> usize {
        self.0.values().filter(|story| story.stored.is_some()).count()
    }

    /// Jobs that were acknowledged although no replica had them. They do not count as stored.
    pub fn unconfirmed(&self) -> usize {
        self.0.values().filter(|story| story.unconfirmed).count()
    }

    /// Jobs that were acknowledged, and never ended.
    pub fn lost(&self) -> Vec<(u32, &Story)> {
        self.0.iter().filter(|(_, story)| story.stored.is_some() && story.ends.is_empty()).map(|(number, story)| (*number, story)).collect()
    }

    /// Jobs that started more than once.
    pub fn doubled(&self) -> Vec<(u32, &Story)> {
        self.0.iter().filter(|(_, story)| story.starts.len() > 1).map(|(number, story)| (*number, story)).collect()
    }

    /// Jobs that started before their enqueue began.
    pub fn ghosts(&self) -> usize {
        self.0.values().filter(|story| story.starts.iter().any(|start| story.sent.is_none_or(|sent| *start < sent))).count()
    }

    /// The time from `after` to the first start.
    pub fn first_start(&self, after: SystemTime) -> Option<Duration> {
        let after = micros(after);
        let starts = self.0.values().flat_map(|story| &story.starts).copied();
        Some(Duration::from_micros(starts.filter(|start| *start > after).min()? - after))
    }

    /// The longest time without a start that ends within this period.
    pub fn longest_pause(&self, from: SystemTime, to: SystemTime) -> Duration {
        let mut starts: Vec<u64> = self.0.values().flat_map(|story| story.starts.iter().copied()).collect();
        starts.sort_unstable();
        let within = starts.windows(2).filter(|pair| (micros(from)..=micros(to)).contains(&pair[1]));
        Duration::from_micros(within.map(|pair| pair[1] - pair[0]).max().unwrap_or(0))
    }

    /// Whether a job that was enqueued after this time has ended.
    pub fn flows_since(&self, time: SystemTime) -> bool {
        let time = micros(time);
        self.0.values().any(|story| !story.ends.is_empty() && story.sent.is_some_and(|sent| sent > time))
    }

    /// Whether a process has started a job after this time.
    pub fn works_since(&self, process: u32, time: SystemTime) -> bool {
        let starts = self.0.values().flat_map(|story| story.starts.iter().zip(&story.processes));
        starts.into_iter().any(|(start, by)| *by == process && *start > micros(time))
    }

    /// Asserts the guarantees for faults that lose nothing: each acknowledged job ended, and ran
    /// once.
    ///
    /// # Panics
    /// If they do not hold.
    pub fn assert_flawless(&self) {
        assert_eq!(self.ghosts(), 0, "{}", self.summary());
        assert!(self.lost().is_empty() && self.doubled().is_empty(), "{}", self.summary());
    }

    /// Asserts that only jobs that were acknowledged (lost) or ran (doubled) in this period were
    /// lost or ran twice. A run ends with the answer to it, which is at most [`JOURNALED`] after
    /// its end.
    ///
    /// # Panics
    /// If that does not hold.
    /// When it does not hold.
    pub fn assert_flawless_but(&self, from: SystemTime, to: SystemTime) {
        let touched = micros(from)..=micros(to);
        assert_eq!(self.ghosts(), 0, "{}", self.summary());
        let lost = self.lost().into_iter().find(|(_, story)| story.stored.is_some_and(|stored| !touched.contains(&stored)));
        assert!(lost.is_none(), "lost beyond {touched:?}: {lost:?}; {}", self.summary());
        let is_touched = |story: &Story| {
            let ended = story.ends.first().map_or(u64::MAX, |end| end + u64::try_from(JOURNALED.as_micros()).expect("it is short"));
            ended >= *touched.start() && story.starts[0] <= *touched.end()
        };
        let doubled = self.doubled().into_iter().find(|(_, story)| !is_touched(story));
        assert!(doubled.is_none(), "doubled beyond {touched:?}: {doubled:?}; {}", self.summary());
    }

    /// A summary of the numbers.
    pub fn summary(&self) -> String {
        let (lost, doubled) = (self.lost(), self.doubled());
        let mut text = format!("{} jobs stored, {} lost, {} started again", self.stored(), lost.len(), doubled.len());
        for (number, story) in lost.iter().chain(&doubled).take(5) {
            let _ = write!(text, "; job {number}: {story:?}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOURNAL: &str = "\
sent 1 0 0 9 1000000\nstored 1 0 0 9 1100000\nstart 1 1 0 8 1200000\nend 1 1 0 8 1300000\n\
sent 2 0 0 9 2000000\nstored 2 0 0 9 2100000\nstart 2 1 0 8 2200000\n\
sent 3 0 0 9 3000000\nstored 3 0 0 9 3100000\nstart 3 1 0 8 3200000\nend 3 1 0 8 3300000\nstart 3 1 0 7 4200000\nend 3 1 0 7 4300000\n\
sent 4 0 0 9 5000000\nunknown 4 0 0 9 5100000\nsta";

    fn history(journal: &str) -> History {
        let folder = queue_conformance::folder::folder();
        let path = folder.path().join("journal");
        std::fs::write(&path, journal).unwrap();
        History::read(&path)
    }

    fn at(seconds: f64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs_f64(seconds)
    }

    fn fails(check: impl Fn() + std::panic::RefUnwindSafe) -> bool {
        std::panic::catch_unwind(&check).is_err()
    }

    #[test]
    fn a_journal_reports_what_was_lost_and_what_ran_twice() {
        let history = history(JOURNAL);
        let numbers = |stories: Vec<(u32, &Story)>| stories.into_iter().map(|(number, _)| number).collect::<Vec<_>>();
        assert_eq!((history.stored(), numbers(history.lost()), numbers(history.doubled())), (3, vec![2], vec![3]));
        assert_eq!(history.first_start(at(3.0)), Some(Duration::from_millis(200)));
        assert_eq!(history.first_start(at(1.3)), Some(Duration::from_millis(900)));
        assert_eq!(history.longest_pause(at(2.0), at(3.5)), Duration::from_secs(1));
        assert!(history.works_since(7, at(4.1)) && !history.works_since(8, at(4.1)));
        assert!(history.flows_since(at(2.9)) && !history.flows_since(at(3.1)));
    }

    #[test]
    fn every_check_can_fail() {
        let bad = history(JOURNAL);
        assert!(fails(|| bad.assert_flawless()));
        assert!(fails(|| bad.assert_flawless_but(at(2.15), at(3.25))), "a loss outside of it");
        assert!(fails(|| bad.assert_flawless_but(at(2.05), at(3.15))), "a second start outside of it");
        bad.assert_flawless_but(at(2.05), at(3.25));
        let doubled = bad.of(|number| number == 3);
        doubled.assert_flawless_but(at(5.2), at(6.0));
        assert!(fails(|| doubled.assert_flawless_but(at(5.4), at(6.0))), "a second start of a job that had ended before");
        let ghost = history("start 7 1 0 8 1200000\nend 7 1 0 8 1300000\n");
        assert!(fails(|| ghost.assert_flawless()) && fails(|| ghost.assert_flawless_but(at(0.0), at(9.0))));
        history("sent 1 0 0 9 10\nstored 1 0 0 9 11\nstart 1 1 0 8 12\nend 1 1 0 8 13\n").assert_flawless();
    }
}
