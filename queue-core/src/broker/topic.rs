//! Topics: logs of events, and the subscriptions that are fed from them.
//!
//! A topic has a log. Events are appended to it by [`Broker::enqueue`](super::Broker::enqueue) at
//! the [address](topic_address) of the topic, under the same producer names and numbers as jobs, so
//! that an event whose answer was lost is appended once.
//!
//! A subscription is a queue, `SUBSCRIPTION@TOPIC`, with a cursor in the log. A
//! [turn](super::Broker::turn) that claims its jobs first reads further entries of the log, while
//! fewer jobs could start than it requests, and makes a job of each entry. If it requests
//! [`READS_AHEAD`] or more, the broker may also read for later turns. From then on the job is like
//! every other.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde::{Serialize, Serializer};

use crate::{
    address::{JobId, check_name},
    error::{Error, Result},
    json,
};
pub use crate::{
    address::{subscription_address, subscription_at, topic_address, topic_at},
    begin::{Begin, Unknown},
};

/// Most jobs of a subscription that have not ended. While it has this number, it reads no further.
pub const MOST_TAKEN: usize = 10_000;

/// A turn that claims at least this number of jobs of a subscription may read entries for later
/// turns. A turn that claims fewer reads only for itself.
pub const READS_AHEAD: usize = 16;

/// Most entries that one call of [`Inspect::read_topic`](super::Inspect::read_topic) returns.
pub const ENTRIES_READ: usize = 100;

/// Most entries that one call of [`Broker::trim_topic`](super::Broker::trim_topic) examines.
pub const TRIM_STEP: usize = 500;

/// How long a topic keeps an event by default.
pub const DEFAULT_AGE: Duration = Duration::from_secs(7 * 24 * 3600);

/// How long a topic waits for its slowest subscription by default.
pub const DEFAULT_LAG: Duration = Duration::from_secs(7 * 24 * 3600);

/// Creates a subscription, or adds the types of event that its workers handle.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Subscribe {
    /// The topic.
    pub topic: Arc<str>,
    /// The name of the subscription.
    pub name: Arc<str>,
    /// Where it begins, if it does not exist yet.
    pub begin: Begin,
    /// The types of event that its workers handle, in addition to the known ones. Empty:
    /// unspecified.
    pub types: Vec<String>,
    /// The handling of events of other types. `None` to keep the stored value.
    pub unknown: Option<Unknown>,
}

impl Subscribe {
    /// A subscription to a topic.
    pub fn new(topic: impl Into<Arc<str>>, name: impl Into<Arc<str>>, begin: Begin) -> Self {
        Subscribe { topic: topic.into(), name: name.into(), begin, types: Vec::new(), unknown: None }
    }

    /// The same with the handling of events of unknown types.
    #[must_use]
    pub fn unknown(mut self, unknown: Unknown) -> Self {
        self.unknown = Some(unknown);
        self
    }

    /// The same with the types that its workers know.
    #[must_use]
    pub fn types(mut self, types: Vec<String>) -> Self {
        self.types = types;
        self
    }

    /// For brokers: whether it can be taken.
    ///
    /// # Errors
    /// [`Error::Invalid`] for names outside the grammar.
    pub fn check(&self) -> Result<()> {
        check_name("topic", &self.topic)?;
        check_name("subscription", &self.name)?;
        self.types.iter().try_for_each(|event| check_name("event", event))
    }
}

/// The retention of a topic. A field of `None` is not changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Retention {
    /// Remove events older than this.
    #[serde(rename = "age_ms", serialize_with = "age_or_default")]
    pub age: Option<Duration>,
    /// Keep at most this number of events; the oldest are removed first.
    pub count: Option<u64>,
    /// The largest size of the log in bytes; the oldest events are removed first. The size of a log
    /// is known only approximately.
    pub bytes: Option<u64>,
    /// How long an event is kept for subscriptions that have not read it.
    #[serde(rename = "lag_ms", serialize_with = "lag_or_default")]
    pub lag: Option<Duration>,
}

fn age_or_default<S: Serializer>(age: &Option<Duration>, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    json::ms(&age.unwrap_or(DEFAULT_AGE), serializer)
}

fn lag_or_default<S: Serializer>(lag: &Option<Duration>, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    json::ms(&lag.unwrap_or(DEFAULT_LAG), serializer)
}

impl Retention {
    /// The age after which events are removed.
    pub fn age(&self) -> Duration {
        self.age.unwrap_or(DEFAULT_AGE)
    }

    /// How long an event is kept for subscriptions.
    pub fn lag(&self) -> Duration {
        self.lag.unwrap_or(DEFAULT_LAG)
    }

    /// The result of applying these fields.
    #[must_use]
    pub fn with(self, changed: Retention) -> Retention {
        Retention {
            age: changed.age.or(self.age),
            count: changed.count.or(self.count),
            bytes: changed.bytes.or(self.bytes),
            lag: changed.lag.or(self.lag),
        }
    }

    /// For brokers: whether an event with the age `old` may be removed. With it the log would still
    /// have `left` events of `bytes` bytes. `waited_for`: a subscription has not read it.
    pub fn drops(&self, old: Duration, left: u64, bytes: u64, waited_for: bool) -> bool {
        let is_large = self.bytes.is_some_and(|most| bytes > most);
        let over = old > self.age() || self.count.is_some_and(|most| left > most) || is_large;
        over && (!waited_for || old > self.lag())
    }

    /// For brokers: whether it can be taken.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a count or bytes of 0, or times beyond a hundred years.
    pub fn check(&self) -> Result<()> {
        if self.count == Some(0) {
            return Err(Error::invalid("count", "0", "would keep nothing; use 1 or more"));
        }
        if self.bytes == Some(0) {
            return Err(Error::invalid("bytes", "0", "would keep nothing; use 1 or more"));
        }
        for (field, time) in [("age", self.age), ("lag", self.lag)] {
            if let Some(time) = time.filter(|time| *time > super::LONGEST) {
                return Err(Error::invalid(field, format!("{time:?}"), "is more than a hundred years"));
            }
        }
        Ok(())
    }
}

/// The result of a [trim](super::Broker::trim_topic).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trimmed {
    /// The number of removed entries.
    pub entries: u64,
    /// How often a subscription had not read a removed entry.
    pub lost: u64,
    /// Whether more entries may be removed.
    pub more: bool,
}

impl Trimmed {
    /// The result.
    pub fn new(entries: u64, lost: u64, more: bool) -> Self {
        Trimmed { entries, lost, more }
    }
}

/// A topic.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredTopic {
    /// Its name.
    pub name: String,
    /// The broker's time, in milliseconds since 1970.
    pub now_ms: i64,
    /// The number of events in its log.
    pub entries: u64,
    /// The number of events that were ever added.
    pub added: u64,
    /// The approximate size of the log in bytes.
    pub bytes: u64,
    /// Whether no further event can be added, because another program has added one with the
    /// largest possible id.
    pub is_closed: bool,
    /// When the oldest event of the log was added.
    pub first_ms: Option<i64>,
    /// Its retention.
    pub retention: Retention,
    /// Its subscriptions, by name.
    pub subscriptions: Vec<StoredSubscription>,
}

impl StoredTopic {
    /// A topic without subscriptions.
    pub fn new(name: impl Into<String>, now_ms: i64) -> Self {
        let retention = Retention::default();
        StoredTopic {
            name: name.into(),
            now_ms,
            entries: 0,
            added: 0,
            bytes: 0,
            is_closed: false,
            first_ms: None,
            retention,
            subscriptions: Vec::new(),
        }
    }
}

/// A subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredSubscription {
    /// Its name.
    pub name: String,
    /// The position of the last entry that it has read.
    pub cursor: String,
    /// Where it began.
    pub begin: Begin,
    /// When it was made, in broker milliseconds since 1970.
    pub made_ms: i64,
    /// The types of event that its workers know, or have known.
    pub types: Vec<String>,
    /// The handling of events of other types.
    pub unknown: Unknown,
    /// The number of entries that it has skipped, because none of its workers knew their type.
    pub skipped: u64,
    /// The number of unread entries. `None`: it began at a time on Redis, and has not reached the
    /// end of the log since then.
    pub behind: Option<u64>,
    /// When the oldest unread entry was added.
    pub next_ms: Option<i64>,
    /// The number of entries that were removed before it read them, or had a damaged id.
    pub lost: u64,
    /// Whether a [rewind](super::Rewind) of it is running: it reads nothing until the rewind has
    /// ended.
    pub rewinding: bool,
}

impl StoredSubscription {
    /// A new subscription.
    pub fn new(name: impl Into<String>, cursor: impl Into<String>, begin: Begin, made_ms: i64) -> Self {
        let (name, cursor) = (name.into(), cursor.into());
        StoredSubscription {
            name,
            cursor,
            begin,
            made_ms,
            types: Vec::new(),
            unknown: Unknown::Park,
            skipped: 0,
            behind: Some(0),
            next_ms: None,
            lost: 0,
            rewinding: false,
        }
    }

    /// The age of the oldest unread entry; zero if it has read all.
    pub fn lag(&self, now_ms: i64) -> Duration {
        let age = self.next_ms.map_or(0, |next| now_ms.saturating_sub(next));
        Duration::from_millis(u64::try_from(age).unwrap_or(0))
    }
}

/// An entry of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredEvent {
    /// Its position in the log: [`Inspect::read_topic`](super::Inspect::read_topic) continues after
    /// it.
    pub position: String,
    /// When it was added, in broker milliseconds since 1970.
    pub at_ms: i64,
    /// The id that its jobs have. `None` for an entry that another program has added without one,
    /// or whose id it has damaged.
    pub id: Option<JobId>,
    /// Its type, empty if the entry has none.
    pub event: String,
    /// Its group.
    pub group: Option<String>,
    /// Its payload: MessagePack, or JSON if another program has added it.
    pub payload: Vec<u8>,
    /// Its headers.
    pub headers: BTreeMap<String, String>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

impl StoredEvent {
    /// An entry with only its position and time.
    pub fn new(position: impl Into<String>, at_ms: i64) -> Self {
        StoredEvent {
            position: position.into(),
            at_ms,
            id: None,
            event: String::new(),
            group: None,
            payload: Vec::new(),
            headers: BTreeMap::new(),
            tags: BTreeMap::new(),
        }
    }

    /// For brokers: the entry of an enqueue at the address of a topic.
    pub fn of_envelope(
        position: impl Into<String>,
        at_ms: i64,
        id: Option<JobId>,
        group: Option<&super::GroupName>,
        envelope: &[u8],
    ) -> Self {
        let mut event = StoredEvent::new(position, at_ms);
        event.id = id;
        event.group = group.map(ToString::to_string);
        if let Ok(envelope) = crate::envelope::Envelope::decode(envelope) {
            event.event = envelope.task.into_owned();
            event.payload = envelope.payload.to_vec();
            event.headers = envelope.headers;
            event.tags = envelope.tags;
        }
        event
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    #[test]
    fn an_event_that_a_subscription_waits_for_goes_when_the_limit_of_its_lag_is_over() {
        let kept = Retention { age: Some(DAY), count: Some(10), bytes: Some(1000), lag: Some(3 * DAY) };
        assert!(!kept.drops(DAY, 10, 1000, false), "it is neither too old nor one too many");
        assert!(kept.drops(2 * DAY, 1, 1, false) && kept.drops(Duration::ZERO, 11, 1, false) && kept.drops(Duration::ZERO, 1, 1001, false));
        assert!(!kept.drops(2 * DAY, 11, 1, true) && kept.drops(4 * DAY, 11, 1, true));
        assert!(!Retention::default().drops(6 * DAY, 1_000_000, u64::MAX, false) && Retention::default().drops(8 * DAY, 1, 1, true));
    }

    #[test]
    fn names_and_bounds_are_checked() {
        assert!(Subscribe::new("orders", "bill@ing", Begin::Now).check().is_err());
        assert!(Subscribe::new("orders", "billing", Begin::Now).types(vec!["Order Paid".into()]).check().is_err());
        assert!(Retention { count: Some(0), ..Retention::default() }.check().is_err());
        assert!(Retention { age: Some(super::super::LONGEST + DAY), ..Retention::default() }.check().is_err());
    }
}
