//! Outboxes: the reports of relays, and their decoded form.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Serialize, Serializer};

use super::{TEXT_MAX, worker::between};
use crate::{
    codec,
    error::{Error, Result},
    json,
    text::cut,
};

/// The most outboxes whose reports a queue keeps. A new outbox replaces the one with the oldest
/// report.
pub const OUTBOXES: usize = 16;

/// Most queues of an outbox in a report. The others are added up as [`OTHER_QUEUES`].
pub const OUTBOX_QUEUES: usize = 50;

/// The name under which the queues beyond [`OUTBOX_QUEUES`] are added up. No queue has this name.
pub const OTHER_QUEUES: &str = "*";

/// The name of a report among the counters of a queue, before the identity of its database.
pub const OUTBOX: &str = ".outbox:";

/// Relays report every ten seconds. An outbox with an older report has no relay, or one that
/// reaches neither the database nor the broker.
const STALE: Duration = Duration::from_secs(60);

/// An outbox that was not reported for longer is not shown.
const FORGOTTEN: Duration = Duration::from_secs(14 * 24 * 3600);

/// Rows of this age are worth a finding.
const OLD: Duration = Duration::from_secs(60);

/// The first element of a report.
const VERSION: u64 = 1;

/// An outbox, as a relay has reported it last. In
/// [`QueueStats::outboxes`](super::QueueStats::outboxes).
///
/// It is [`Serialize`](serde::Serialize): `outbox` (the identity), `database`, the sums `waiting`,
/// `refused` and `in_flight`, `oldest_ms`, `max_rows`, `max_age_ms`, `queues`, `reported_at` as RFC
/// 3339 in UTC, `report_age_ms` and `stale`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(remote = "Self")]
#[non_exhaustive]
pub struct OutboxRecord {
    /// The identity of its database, in hexadecimal.
    #[serde(rename = "outbox")]
    pub id: String,
    /// The name of its database, without a password.
    pub database: String,
    /// New rows of a queue are refused if it has this number of rows.
    pub max_rows: u64,
    /// New rows of a queue are refused while its oldest row is older than this.
    #[serde(rename = "max_age_ms", serialize_with = "json::ms")]
    pub max_age: Option<Duration>,
    /// Its queues and topics, sorted by name: at most [`OUTBOX_QUEUES`], those with the most rows,
    /// and the others as [`OTHER_QUEUES`].
    pub queues: Vec<OutboxDepth>,
    /// When it was reported, by the broker's clock.
    #[serde(serialize_with = "json::utc")]
    pub reported_at: SystemTime,
    /// How long ago that was, by the broker's clock.
    #[serde(rename = "report_age_ms", serialize_with = "json::ms")]
    pub age: Duration,
}

/// A queue of an [`OutboxRecord`].
///
/// It is [`Serialize`](serde::Serialize): `queue`, `waiting`, `refused`, `in_flight`, `oldest_ms`,
/// `holder` and `full`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OutboxDepth {
    /// Its name, or `@` and the name of a topic.
    pub queue: String,
    /// Rows that are not sent yet.
    pub waiting: u64,
    /// Rows that can never be sent.
    pub refused: u64,
    /// Rows of the request in flight.
    pub in_flight: u64,
    /// The age of the oldest row that is not sent, by the clock of the database.
    #[serde(rename = "oldest_ms", serialize_with = "json::ms")]
    pub oldest: Option<Duration>,
    /// The relay that has the lease: its host and process.
    pub holder: Option<String>,
    /// Whether new rows are refused.
    pub full: bool,
}

type StoredDepth = (String, u64, u64, u64, Option<u64>, Option<String>, bool);

/// As stored: a MessagePack array. The time is the last element, so that a broker can append it.
type Stored = (u64, String, u64, Option<u64>, Vec<StoredDepth>, i64);

impl OutboxDepth {
    /// A queue without rows.
    pub fn new(queue: impl Into<String>) -> Self {
        OutboxDepth { queue: queue.into(), ..OutboxDepth::default() }
    }

    fn rows(&self) -> u64 {
        self.waiting.saturating_add(self.refused)
    }

    fn stored(self) -> StoredDepth {
        let holder = self.holder.map(|holder| cut(holder, TEXT_MAX));
        (cut(self.queue, TEXT_MAX), self.waiting, self.refused, self.in_flight, self.oldest.map(millis), holder, self.full)
    }

    fn read((queue, waiting, refused, in_flight, oldest_ms, holder, full): StoredDepth) -> Self {
        OutboxDepth { queue, waiting, refused, in_flight, oldest: oldest_ms.map(Duration::from_millis), holder, full }
    }
}

impl OutboxRecord {
    /// A report of the outbox in the database with this identity.
    pub fn new(id: &[u8], database: impl Into<String>, max_rows: u64, max_age: Option<Duration>, mut queues: Vec<OutboxDepth>) -> Self {
        queues.sort_by_key(|depth| std::cmp::Reverse(depth.rows()));
        let others = queues.split_off(queues.len().min(OUTBOX_QUEUES));
        queues.sort_by(|one, other| one.queue.cmp(&other.queue));
        queues.extend(others.into_iter().reduce(|all, one| OutboxDepth {
            queue: OTHER_QUEUES.to_owned(),
            waiting: all.waiting.saturating_add(one.waiting),
            refused: all.refused.saturating_add(one.refused),
            in_flight: all.in_flight.saturating_add(one.in_flight),
            oldest: all.oldest.max(one.oldest),
            holder: all.holder.or(one.holder),
            full: all.full || one.full,
        }));
        if let Some(last) = queues.get_mut(OUTBOX_QUEUES) {
            OTHER_QUEUES.clone_into(&mut last.queue);
        }
        let id = id.iter().take(TEXT_MAX / 2).map(|byte| format!("{byte:02x}")).collect();
        let database = cut(database.into(), TEXT_MAX);
        OutboxRecord { id, database, max_rows, max_age, queues, reported_at: UNIX_EPOCH, age: Duration::ZERO }
    }

    /// Its name among the counters of a queue. For brokers.
    #[doc(hidden)]
    pub fn name(&self) -> String {
        format!("{OUTBOX}{}", self.id)
    }

    /// As stored, up to the last element: the time follows. For brokers.
    #[doc(hidden)]
    pub fn encoded(&self) -> Vec<u8> {
        let queues = self.queues.iter().cloned().map(OutboxDepth::stored).collect();
        let stored: Stored = (VERSION, self.database.clone(), self.max_rows, self.max_age.map(millis), queues, 0);
        let mut encoded = codec::pack(&stored).expect("texts and numbers can be encoded");
        // The time: a zero is one byte.
        encoded.pop();
        encoded
    }

    /// As stored, with the broker's time in milliseconds since 1970. For brokers.
    #[doc(hidden)]
    pub fn stored(&self, now_ms: i64) -> Vec<u8> {
        let mut stored = self.encoded();
        codec::pack_into(&mut stored, &now_ms).expect("a number can be encoded");
        stored
    }

    /// When a report was stored, in milliseconds since 1970; 0 if it is damaged. For brokers.
    #[doc(hidden)]
    pub fn stored_at(stored: &[u8]) -> i64 {
        codec::unpack(stored).map_or(0, |stored: Stored| stored.5)
    }

    /// Decodes a report that is stored among the counters, at this time. A report that is damaged,
    /// of a newer library, or older than two weeks is left out. For brokers.
    #[doc(hidden)]
    pub fn read(name: &str, stored: &[u8], now_ms: i64) -> Option<Self> {
        let id = name.strip_prefix(OUTBOX)?.to_owned();
        let (version, database, max_rows, max_age_ms, queues, at_ms): Stored = codec::unpack(stored).ok()?;
        let age = between(at_ms, now_ms);
        let reported_at = UNIX_EPOCH.checked_add(Duration::from_millis(u64::try_from(at_ms).ok()?))?;
        (version == VERSION && age < FORGOTTEN).then(|| OutboxRecord {
            id,
            database,
            max_rows,
            max_age: max_age_ms.map(Duration::from_millis),
            queues: queues.into_iter().map(OutboxDepth::read).collect(),
            reported_at,
            age,
        })
    }

    /// Merges the reports of several queues: the newest report of each outbox, sorted by the name
    /// of the database.
    pub fn merged(records: impl IntoIterator<Item = OutboxRecord>) -> Vec<OutboxRecord> {
        let mut newest: BTreeMap<String, OutboxRecord> = BTreeMap::new();
        for record in records {
            match newest.get(&record.id) {
                Some(known) if known.age <= record.age => {}
                _ => drop(newest.insert(record.id.clone(), record)),
            }
        }
        let mut all: Vec<_> = newest.into_values().collect();
        all.sort_by(|one, other| (&one.database, &one.id).cmp(&(&other.database, &other.id)));
        all
    }

    /// Rows of all queues that are not sent yet.
    pub fn waiting(&self) -> u64 {
        self.queues.iter().map(|depth| depth.waiting).sum()
    }

    /// Rows of all queues that can never be sent.
    pub fn refused(&self) -> u64 {
        self.queues.iter().map(|depth| depth.refused).sum()
    }

    /// Rows in flight of all queues.
    pub fn in_flight(&self) -> u64 {
        self.queues.iter().map(|depth| depth.in_flight).sum()
    }

    /// The age of the oldest row that is not sent, when it was reported.
    pub fn oldest(&self) -> Option<Duration> {
        self.queues.iter().filter_map(|depth| depth.oldest).max()
    }

    /// Whether no relay has reported it for a minute. Its figures are old, and its rows may not be
    /// sent.
    pub fn is_stale(&self) -> bool {
        self.age >= STALE
    }

    /// The problems of the outbox, each with the recommended action.
    pub fn problems(&self) -> Vec<(String, &'static str)> {
        let (mut problems, database) = (Vec::new(), &self.database);
        if self.is_stale() {
            let since = humantime::format_rfc3339_seconds(self.reported_at);
            problems.push((
                format!("the outbox in {database}: not reported since {since}; it had {} rows then", self.waiting()),
                "run a relay (`Worker::outbox`) that reaches both the database and the broker",
            ));
        }
        for depth in self.queues.iter().filter(|depth| depth.full) {
            problems.push((
                format!("the outbox in {database} is full for {} and refuses new rows", depth.queue),
                "see the log of the relay for the cause, or raise `Relay::max_rows` or `Relay::max_age`",
            ));
        }
        for depth in self.queues.iter().filter(|depth| depth.refused > 0) {
            problems.push((
                format!("the outbox in {database} has {} refused rows of {}, which are not sent", depth.refused, depth.queue),
                "`outbox list --refused` shows the reasons, `outbox retry` sends them again, `outbox drop` deletes them",
            ));
        }
        // An old report does not show the present age.
        let old = |depth: &&OutboxDepth| !self.is_stale() && depth.oldest.is_some_and(|age| age >= OLD);
        if let Some(depth) = self.queues.iter().filter(old).max_by_key(|depth| depth.oldest) {
            let age = humantime::format_duration(Duration::from_secs(depth.oldest.unwrap_or_default().as_secs()));
            problems.push((
                format!("the oldest row of {} in the outbox in {database} has waited for {age}", depth.queue),
                "see the log of the relay for the cause",
            ));
        }
        problems
    }
}

/// For brokers: whether a report can be stored.
pub(super) fn check(record: &OutboxRecord) -> Result<()> {
    if record.queues.len() > OUTBOX_QUEUES + 1 || record.id.is_empty() || record.id.len() > TEXT_MAX {
        let problem = format!("has no identity, or more than {OUTBOX_QUEUES} queues; make it with `OutboxRecord::new`");
        return Err(Error::invalid("outbox", &record.id, problem));
    }
    Ok(())
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Serialize for OutboxRecord {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Whole<'a> {
            #[serde(flatten, serialize_with = "OutboxRecord::serialize")]
            record: &'a OutboxRecord,
            waiting: u64,
            refused: u64,
            in_flight: u64,
            oldest_ms: Option<u64>,
            stale: bool,
        }
        Whole {
            record: self,
            waiting: self.waiting(),
            refused: self.refused(),
            in_flight: self.in_flight(),
            oldest_ms: self.oldest().map(millis),
            stale: self.is_stale(),
        }
        .serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depth(queue: &str, waiting: u64) -> OutboxDepth {
        OutboxDepth { waiting, ..OutboxDepth::new(queue) }
    }

    #[test]
    fn a_report_comes_back_as_it_was_reported() {
        let mail = OutboxDepth {
            refused: 2,
            in_flight: 3,
            oldest: Some(Duration::from_millis(1_234)),
            holder: Some("web-1 pid 7".to_owned()),
            full: true,
            ..depth("mail", 5)
        };
        let record = OutboxRecord::new(b"\x01\xab", "shop.db", 9, Some(Duration::from_secs(60)), vec![mail, depth("@orders", 0)]);
        let stored = record.stored(1_700_000_000_000);
        assert!(stored.starts_with(&record.encoded()));
        assert_eq!(OutboxRecord::stored_at(&stored), 1_700_000_000_000);
        let read = OutboxRecord::read(".outbox:01ab", &stored, 1_700_000_002_000).unwrap();
        let reported_at = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        assert_eq!(read, OutboxRecord { age: Duration::from_secs(2), reported_at, ..record.clone() });
        assert_eq!(record.name(), ".outbox:01ab");
        assert_eq!((read.waiting(), read.refused(), read.in_flight(), read.oldest()), (5, 2, 3, Some(Duration::from_millis(1_234))));
    }

    #[test]
    fn what_is_damaged_of_a_newer_library_or_two_weeks_old_is_not_shown() {
        let whole = OutboxRecord::new(b"\x01", "shop.db", 9, None, Vec::new()).stored(6);
        assert!(OutboxRecord::read(".outbox:01", &whole, 10).is_some());
        let newer = [&b"\x96\x02"[..], &whole[2..]].concat();
        for other in [&b""[..], b"17", &whole[..whole.len() - 1], &[&whole[..], b"\x01"].concat(), &newer] {
            assert_eq!(OutboxRecord::read(".outbox:01", other, 10), None, "{other:?}");
        }
        assert_eq!(OutboxRecord::read("enqueued", &whole, 10), None);
        assert_eq!(OutboxRecord::read(".outbox:01", &whole, 6 + 14 * 24 * 3_600_000), None);
    }

    #[test]
    fn a_report_is_bounded_and_loses_no_row() {
        let queues = (0..500).map(|n| depth(&format!("queue-{n:03}"), n)).collect();
        let record = OutboxRecord::new(&[7; 16], "x".repeat(9_999), 1, None, queues);
        assert_eq!((record.queues.len(), record.waiting()), (OUTBOX_QUEUES + 1, (0..500).sum()));
        assert_eq!((record.queues[0].queue.as_str(), record.queues[OUTBOX_QUEUES].queue.as_str()), ("queue-450", OTHER_QUEUES));
        assert!(record.stored(1).len() < 4_000 && check(&record).is_ok());
        let one_more = (0..=OUTBOX_QUEUES).map(|n| depth(&format!("queue-{n:03}"), 1)).collect();
        assert_eq!(OutboxRecord::new(b"\x01", "a", 1, None, one_more).queues[OUTBOX_QUEUES].queue, OTHER_QUEUES);
    }

    #[test]
    fn the_newest_report_counts() {
        let of = |id: &[u8], database: &str, age: u64| {
            let record = OutboxRecord::new(id, database, 1, None, Vec::new());
            OutboxRecord { age: Duration::from_secs(age), ..record }
        };
        let merged = OutboxRecord::merged([of(b"\x02", "b", 1), of(b"\x01", "c", 9), of(b"\x01", "a", 3), of(b"\x01", "d", 5)]);
        let names: Vec<_> = merged.iter().map(|record| (record.database.as_str(), record.age.as_secs())).collect();
        assert_eq!(names, [("a", 3), ("b", 1)]);
    }

    #[test]
    fn each_problem_is_reported_with_advice() {
        let of = |depth: OutboxDepth, age: u64| {
            let record = OutboxRecord::new(b"\x01", "shop.db", 1, None, vec![depth]);
            OutboxRecord { age: Duration::from_secs(age), ..record }.problems()
        };
        assert_eq!(of(depth("mail", 5), 59), []);
        let problems = of(depth("mail", 5), 60);
        assert!(
            problems.len() == 1 && problems[0].0.contains("not reported since 1970-01-01T00:00:00Z; it had 5 rows then"),
            "{problems:?}"
        );
        let mail = OutboxDepth { refused: 2, full: true, oldest: Some(Duration::from_millis(90_500)), ..depth("mail", 5) };
        let problems: Vec<String> = of(mail, 0).into_iter().map(|(problem, _)| problem).collect();
        let found = ["is full for mail", "2 refused rows of mail", "oldest row of mail in the outbox in shop.db has waited for 1m 30s"];
        assert!(problems.len() == 3 && problems.iter().zip(found).all(|(problem, found)| problem.contains(found)), "{problems:?}");
    }
}
