//! The decoded history of a queue.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::Serialize;

use super::{HistorySpan, OTHERS, RunCounts, SAMPLE, Tally, Times};
use crate::json;

/// The events of a queue, minute by minute or hour by hour. From
/// [`Inspector::history`](crate::inspect::Inspector::history).
///
/// There is a row for every period of the span, oldest first, also for those in which nothing
/// happened. The last row is the current period, which has not ended. Times are those of the
/// broker.
///
/// Workers report about every ten seconds, and a report counts in the period in which it arrives.
/// The last interval of a worker that was killed is missing.
///
/// It is [`Serialize`](serde::Serialize): `queue`, `step_ms`, `rows`, and `tasks` by name, each a
/// list of rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct History {
    /// The queue. Empty if several were [merged](Self::merged).
    pub queue: String,
    /// How long a row is: a minute or an hour.
    #[serde(rename = "step_ms", serialize_with = "json::ms")]
    pub step: Duration,
    /// The rows of all tasks together.
    pub rows: Vec<HistoryRow>,
    /// The rows of each task with events, by name: as many rows as above, for the same periods. `*`
    /// has all jobs whose task has no separate history: jobs that cannot be decoded, jobs of tasks
    /// that their worker did not know, jobs of crashed workers, and tasks beyond the first hundred.
    pub tasks: BTreeMap<String, Vec<HistoryRow>>,
    /// Which releases of workers were first seen in this time, the earliest first.
    pub releases: Vec<ReleaseSeen>,
}

/// A release, and when a worker of it registered first with a queue. It is
/// [`Serialize`](serde::Serialize): `release`, and `at` in UTC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ReleaseSeen {
    /// The release, as set for the worker or derived from its executable.
    pub release: String,
    /// When, by the broker's clock.
    #[serde(serialize_with = "json::utc")]
    pub at: SystemTime,
}

/// A minute or an hour of a [`History`].
///
/// It is [`Serialize`](serde::Serialize): `at` in UTC, each count by its name, `wait` and `run` as
/// [`Times`], `ready` and `enqueued`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct HistoryRow {
    /// When it begins, by the broker's clock.
    #[serde(serialize_with = "json::utc")]
    pub at: SystemTime,
    /// The events of its jobs.
    #[serde(flatten)]
    pub counts: RunCounts,
    /// How long jobs waited for their first start, from the time at which they could start. A job
    /// that runs again, because it failed, snoozed or crashed, does not count. A requeued job
    /// counts from its enqueue. Waits are unknown for tasks whose jobs repeat.
    pub wait: Times,
    /// How long runs took, however they ended.
    pub run: Times,
    /// The most ready jobs that were seen; only in rows of all tasks together. `None`: unknown,
    /// because no worker has reported.
    pub ready: Option<u64>,
    /// The number of jobs that were stored in this period; only in rows of all tasks together.
    /// `None`: unknown, because no worker has reported in this period or in the previous one.
    pub enqueued: Option<u64>,
}

/// The stored form of a history.
#[derive(Clone, Debug, Default)]
pub struct StoredHistory {
    /// The broker's time.
    pub now_ms: i64,
    /// Task, number of the period, and tally. Rows outside of the span are skipped.
    pub rows: Vec<(String, u64, Tally)>,
    /// Releases, and when each was first seen, in milliseconds since 1970. Those outside of the
    /// span are skipped.
    pub releases: Vec<(String, i64)>,
}

/// The data of the queue itself in a period. It is stored in the counts of a tally of the task
/// [`SAMPLE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Most ready jobs.
    pub ready: u64,
    /// The counter of stored jobs, at the last report.
    pub enqueued: u64,
}

impl Sample {
    /// The sample in a row.
    pub fn of(tally: &Tally) -> Self {
        Sample { ready: tally.counts.started, enqueued: tally.counts.done }
    }

    /// The row of a sample.
    pub fn tally(self) -> Tally {
        let mut tally = Tally::default();
        (tally.counts.started, tally.counts.done) = (self.ready, self.enqueued);
        tally
    }

    /// Merges a later sample of the same period.
    #[must_use]
    pub fn and(self, later: Sample) -> Self {
        Sample { ready: self.ready.max(later.ready), enqueued: later.enqueued }
    }
}

impl HistoryRow {
    /// A row in which nothing happened.
    fn at(at: SystemTime) -> Self {
        HistoryRow { at, counts: RunCounts::default(), wait: Times::default(), run: Times::default(), ready: None, enqueued: None }
    }

    /// Adds another row. Depths are added too: rows of one period and several queues become a row
    /// of all of them.
    pub fn merge(&mut self, other: &HistoryRow) {
        self.add(&other.counts, &other.wait, &other.run);
        let sum = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.saturating_add(other)),
            (one, other) => one.or(other),
        };
        self.ready = sum(self.ready, other.ready);
        self.enqueued = sum(self.enqueued, other.enqueued);
    }

    fn add(&mut self, counts: &RunCounts, wait: &Times, run: &Times) {
        self.counts.merge(counts);
        self.wait.merge(wait);
        self.run.merge(run);
    }
}

impl History {
    /// Decodes the stored form of a broker.
    pub fn read(queue: &str, span: HistorySpan, stored: StoredHistory) -> Self {
        let (periods, step) = (span.periods(stored.now_ms), span.step());
        let times = periods.clone().map(|period| {
            let since = step.checked_mul(u32::try_from(period).unwrap_or(u32::MAX)).unwrap_or_default();
            UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH)
        });
        let empty: Vec<HistoryRow> = times.map(HistoryRow::at).collect();
        let mut history = History { queue: queue.to_owned(), step, rows: empty.clone(), tasks: BTreeMap::new(), releases: Vec::new() };
        history.add_releases(stored.releases.into_iter().map(|(release, at_ms)| {
            let at = UNIX_EPOCH.checked_add(Duration::from_millis(at_ms.max(0).unsigned_abs())).unwrap_or(UNIX_EPOCH);
            ReleaseSeen { release, at }
        }));
        let mut samples: BTreeMap<u64, Sample> = BTreeMap::new();
        for (task, period, tally) in stored.rows {
            if task == SAMPLE {
                samples.insert(period, Sample::of(&tally));
            } else if periods.contains(&period) {
                let at = usize::try_from(period - periods.start()).expect("a span has few rows");
                let rows = history.tasks.entry(task).or_insert_with(|| empty.clone());
                for row in [&mut rows[at], &mut history.rows[at]] {
                    row.add(&tally.counts, &tally.wait, &tally.run);
                }
            }
        }
        for (row, period) in history.rows.iter_mut().zip(periods) {
            let Some(sample) = samples.get(&period) else { continue };
            row.ready = Some(sample.ready);
            let before = period.checked_sub(1).and_then(|before| samples.get(&before));
            // A counter that went back was lost, or restored.
            row.enqueued = before.and_then(|before| sample.enqueued.checked_sub(before.enqueued));
        }
        history
    }

    /// Adds releases that were first seen in this time. If several queues have seen a release, the
    /// earliest time is kept.
    fn add_releases(&mut self, seen: impl IntoIterator<Item = ReleaseSeen>) {
        let begin = self.rows.first().map_or(UNIX_EPOCH, |row| row.at);
        for one in seen {
            match self.releases.iter_mut().find(|known| known.release == one.release) {
                Some(known) => known.at = known.at.min(one.at),
                None => self.releases.push(one),
            }
        }
        self.releases.retain(|seen| seen.at >= begin && !seen.release.is_empty());
        self.releases.sort_by(|one, other| (one.at, &one.release).cmp(&(other.at, &other.release)));
    }

    /// All rows together: one row that begins with the first. Its `ready` is the largest of the
    /// span.
    pub fn total(&self) -> HistoryRow {
        total(&self.rows)
    }

    /// All rows of a task together. `None` if nothing happened to the task.
    pub fn total_of(&self, task: &str) -> Option<HistoryRow> {
        self.tasks.get(task).map(|rows| total(rows))
    }

    /// The histories of several queues as one, without tasks. All must be of one span. `None` if
    /// there is none.
    pub fn merged(histories: impl IntoIterator<Item = History>) -> Option<History> {
        let mut histories = histories.into_iter();
        let mut all = histories.next()?;
        all.queue.clear();
        all.tasks.clear();
        for history in histories {
            // They may have been read in two periods.
            let mut rows: BTreeMap<SystemTime, HistoryRow> = all.rows.drain(..).map(|row| (row.at, row)).collect();
            for row in history.rows {
                rows.entry(row.at).or_insert_with(|| HistoryRow::at(row.at)).merge(&row);
            }
            all.rows = rows.into_values().collect();
            all.add_releases(history.releases);
        }
        Some(all)
    }

    /// The jobs whose task has no separate history.
    pub fn others(&self) -> Option<HistoryRow> {
        self.total_of(OTHERS)
    }
}

fn total(rows: &[HistoryRow]) -> HistoryRow {
    let mut total = HistoryRow::at(rows.first().map_or(UNIX_EPOCH, |row| row.at));
    for row in rows {
        total.merge(row);
    }
    total.ready = rows.iter().filter_map(|row| row.ready).max();
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_030_000;
    const MINUTE: u64 = 1_700_000_030 / 60;

    fn tally(done: u64, ms: u64) -> Tally {
        let mut tally = Tally::default();
        tally.counts.done = done;
        tally.run.add(Duration::from_millis(ms));
        tally
    }

    fn history(queue: &str, rows: Vec<(String, u64, Tally)>) -> History {
        History::read(queue, HistorySpan::HOUR, StoredHistory { now_ms: NOW, rows, releases: Vec::new() })
    }

    #[test]
    fn releases_of_the_span_are_reported_in_their_order_and_once() {
        let of = |queue, releases: &[(&str, i64)]| {
            let releases = releases.iter().map(|(release, ago)| ((*release).to_owned(), NOW - ago)).collect();
            History::read(queue, HistorySpan::HOUR, StoredHistory { now_ms: NOW, rows: Vec::new(), releases })
        };
        let names = |history: &History| history.releases.iter().map(|seen| seen.release.clone()).collect::<Vec<_>>();
        let mail = of("mail", &[("v3", 1_000), ("v1", 4_000_000), ("v2", 60_000), ("", 5)]);
        assert_eq!(names(&mail), ["v2", "v3"]);
        let both = History::merged([mail, of("orders", &[("v3", 90_000), ("v4", 0)])]).unwrap();
        assert_eq!(names(&both), ["v3", "v2", "v4"]);
        assert_eq!(
            serde_json::to_value(&both.releases[2]).unwrap(),
            serde_json::json!({ "release": "v4", "at": "2023-11-14T22:13:50.000Z" })
        );
    }

    #[test]
    fn every_period_of_the_span_has_a_row_and_what_is_outside_is_skipped() {
        let row = |task: &str, ago: u64, done| (task.to_owned(), MINUTE - ago, tally(done, 20));
        let history = history("mail", vec![row("a", 0, 1), row("a", 59, 2), row("b", 59, 4), row("a", 60, 8), row("b", 0, 16)]);
        assert_eq!((history.rows.len(), history.step), (60, Duration::from_secs(60)));
        assert_eq!(history.rows[0].at, UNIX_EPOCH + Duration::from_secs((MINUTE - 59) * 60));
        assert_eq!((history.rows[0].counts.done, history.rows[59].counts.done, history.rows[30].counts.done), (6, 17, 0));
        assert_eq!(history.tasks["b"].iter().map(|row| row.counts.done).sum::<u64>(), 20);
        assert_eq!((history.total().counts.done, history.total_of("a").unwrap().run.count()), (23, 2));
        assert_eq!((history.total_of("c"), history.others()), (None, None));
    }

    #[test]
    fn depth_is_known_where_a_worker_reported_and_enqueues_where_one_did_before() {
        let sample = |ago, ready, enqueued| (SAMPLE.to_owned(), MINUTE - ago, Sample { ready, enqueued }.tally());
        let history = history("mail", vec![sample(3, 10, 100), sample(2, 20, 130), sample(0, 5, 150), sample(1, 7, 140)]);
        let last: Vec<_> = history.rows[55..].iter().map(|row| (row.ready, row.enqueued)).collect();
        assert_eq!(last, [(None, None), (Some(10), None), (Some(20), Some(30)), (Some(7), Some(10)), (Some(5), Some(10))]);
        assert_eq!((history.total().ready, history.total().enqueued), (Some(20), Some(50)));
        assert!(history.tasks.is_empty());
    }

    #[test]
    fn histories_of_several_queues_are_added() {
        let of = |queue, done| history(queue, vec![("a".to_owned(), MINUTE, tally(done, 20))]);
        let all = History::merged([of("mail", 1), of("orders", 2)]).unwrap();
        assert_eq!((all.rows.len(), all.total().counts.done, all.queue.as_str(), all.tasks.len()), (60, 3, "", 0));
        assert_eq!(History::merged([]), None);
    }

    #[test]
    fn a_history_is_printed_with_its_quantiles() {
        let json = serde_json::to_value(history("mail", vec![("a".to_owned(), MINUTE, tally(3, 20))])).unwrap();
        let row = &json["tasks"]["a"][59];
        assert_eq!((&row["done"], &row["at"], &json["step_ms"]), (&3.into(), &"2023-11-14T22:13:00.000Z".into(), &60_000.into()));
        assert_eq!(
            (&row["run"]["count"], &row["run"]["mean_ms"], &row["wait"]["p50_ms"]),
            (&1.into(), &20.0.into(), &serde_json::Value::Null)
        );
        let p95 = row["run"]["p95_ms"].as_f64().unwrap();
        assert!((p95 - 20.0).abs() <= 2.5, "{p95}");
    }

    #[test]
    fn a_later_sample_of_a_period_keeps_the_largest_depth_and_the_newest_counter() {
        let sample = Sample { ready: 9, enqueued: 5 }.and(Sample { ready: 3, enqueued: 8 });
        assert_eq!(Sample::of(&sample.tally()), Sample { ready: 9, enqueued: 8 });
    }
}
