//! Topics: their contents, and the progress of their subscriptions.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::Inspector;
use crate::{
    address::{JobId, check_name, subscription_address},
    broker::{
        Begin, ENTRIES_READ, JobState, MOST_TAKEN, QueueStats, Retention, StoredEvent, StoredSubscription, Subscribe, Trimmed, Unknown,
    },
    codec::any_json,
    error::{Error, Result},
    json, payload,
};

/// A topic in decoded form. From [`Inspector::topic`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TopicInfo {
    /// Its name.
    #[serde(rename = "topic")]
    pub name: String,
    /// How many events are in its log.
    pub events: u64,
    /// How many were ever added.
    pub added: u64,
    /// About how many bytes its log has.
    pub bytes: u64,
    /// Whether no event can be added any more: another program has added one with the largest id
    /// that there is.
    pub is_closed: bool,
    /// When the oldest event of the log was added.
    #[serde(serialize_with = "json::utc")]
    pub first: Option<SystemTime>,
    /// Its retention.
    pub retention: Retention,
    /// Its subscriptions, by name.
    pub subscriptions: Vec<SubscriptionInfo>,
}

/// A subscription in decoded form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SubscriptionInfo {
    /// Its name.
    #[serde(rename = "subscription")]
    pub name: String,
    /// Its queue, `SUBSCRIPTION@TOPIC`.
    pub queue: String,
    /// The place where it began.
    #[serde(rename = "from")]
    pub begin: Begin,
    /// When it was made.
    #[serde(serialize_with = "json::utc")]
    pub made: SystemTime,
    /// The types of event that its workers know, or have known.
    pub types: Vec<String>,
    /// The handling of events of other types.
    pub unknown: Unknown,
    /// The number of events that it has skipped, because none of its workers knew their type.
    pub skipped: u64,
    /// The number of unread events. `None`: unknown until it has reached the end of the log for the
    /// first time.
    pub behind: Option<u64>,
    /// The age of the oldest unread event.
    #[serde(rename = "lag_ms", serialize_with = "json::ms")]
    pub lag: Duration,
    /// How many events were gone before it read them, or had a damaged id.
    pub lost: u64,
    /// The number of its jobs that have not ended: `waiting`, `active`, `retry` and `parked`.
    pub open: u64,
    /// The number of its jobs that wait for a worker: they are ready, scheduled, or held by a
    /// unique key.
    pub waiting: u64,
    /// The number of its running jobs.
    pub active: u64,
    /// The number of its jobs that have failed and wait for their next attempt.
    pub retry: u64,
    /// The number of its parked jobs: none of its workers knows their type.
    pub parked: u64,
    /// The number of its dead jobs.
    pub dead: u64,
    /// Whether it is paused.
    pub paused: bool,
    /// Whether a [rewind](Inspector::rewind) of it is running: it reads nothing until the rewind
    /// has ended.
    pub rewinding: bool,
    /// The number of its workers.
    pub workers: u64,
    /// Why it reads no further although there are events, if there is a reason.
    pub stop_reason: Option<String>,
}

impl SubscriptionInfo {
    fn new(topic: &str, now_ms: i64, stored: StoredSubscription, stats: &QueueStats) -> Self {
        let open = [JobState::Scheduled, JobState::Ready, JobState::Active, JobState::Retry, JobState::Parked, JobState::Held];
        let info = SubscriptionInfo {
            queue: subscription_address(&stored.name, topic),
            lag: stored.lag(now_ms),
            begin: stored.begin,
            made: time(stored.made_ms),
            types: stored.types,
            unknown: stored.unknown,
            skipped: stored.skipped,
            behind: stored.behind,
            lost: stored.lost,
            open: open.into_iter().map(|state| stats.count(state)).sum(),
            waiting: [JobState::Scheduled, JobState::Ready, JobState::Held].into_iter().map(|state| stats.count(state)).sum(),
            active: stats.count(JobState::Active),
            retry: stats.count(JobState::Retry),
            parked: stats.count(JobState::Parked),
            dead: stats.count(JobState::Dead),
            paused: stats.paused,
            rewinding: stored.rewinding,
            workers: stats.workers,
            name: stored.name,
            stop_reason: None,
        };
        SubscriptionInfo { stop_reason: info.stop_reason(), ..info }
    }

    fn stop_reason(&self) -> Option<String> {
        if self.rewinding {
            return Some(format!(
                "a rewind is under way; if the program that ran it has crashed, run it again: `topics rewind {} --to ..`",
                self.queue
            ));
        }
        if self.behind == Some(0) {
            return None;
        }
        if self.paused {
            return Some("it is paused".to_owned());
        }
        if self.open >= MOST_TAKEN as u64 {
            let parked =
                if self.parked > 0 { format!(", {} of them of types that none of its workers knows", self.parked) } else { String::new() };
            return Some(format!("{} events that it has read have not ended{parked}; it stops reading at {MOST_TAKEN}", self.open));
        }
        (self.workers == 0).then(|| "no live worker serves it".to_owned())
    }
}

/// An event of a log in decoded form. From [`Inspector::events`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct EventInfo {
    /// Its position in the log.
    pub position: String,
    /// When it was added.
    #[serde(serialize_with = "json::utc")]
    pub at: SystemTime,
    /// The id that its jobs have; `None` if another program has added it without one.
    pub id: Option<JobId>,
    /// Its type, empty if it has none.
    #[serde(rename = "type")]
    pub event: String,
    /// Its group.
    pub group: Option<String>,
    /// Its headers.
    pub headers: BTreeMap<String, String>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// Its payload as JSON, or why that cannot be read.
    #[serde(flatten, serialize_with = "payload_or_problem")]
    pub payload: std::result::Result<String, String>,
}

fn payload_or_problem<S: Serializer>(payload: &std::result::Result<String, String>, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Json {
        payload: Option<Value>,
        problem: Option<String>,
    }
    let read = payload.clone().and_then(|payload| json::text(&payload));
    Json { problem: read.as_ref().err().cloned(), payload: read.ok() }.serialize(serializer)
}

impl From<StoredEvent> for EventInfo {
    fn from(stored: StoredEvent) -> Self {
        let is_json = stored.payload.first() == Some(&b'{');
        let payload = if is_json {
            str::from_utf8(&stored.payload)
                .map_err(|problem| problem.to_string())
                .and_then(|json| any_json::read(json).map_err(|problem| problem.to_string()))
                .map(|value| value.to_string())
        } else {
            payload::to_json(&stored.payload)
        };
        EventInfo {
            position: stored.position,
            at: time(stored.at_ms),
            id: stored.id,
            event: stored.event,
            group: stored.group,
            headers: stored.headers,
            tags: stored.tags,
            payload,
        }
    }
}

impl Inspector {
    /// The topics that have events or subscriptions, by name.
    ///
    /// # Errors
    /// Those of the broker, here and below.
    pub async fn topics(&self) -> Result<Vec<TopicInfo>> {
        let mut topics = Vec::new();
        for name in self.ask(self.until(), |broker| async move { broker.topics().await }).await? {
            topics.extend(self.topic(&name).await?);
        }
        Ok(topics)
    }

    /// A topic with its subscriptions; `None` if it does not exist.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a name outside the grammar, here and below.
    pub async fn topic(&self, topic: &str) -> Result<Option<TopicInfo>> {
        check_name("topic", topic)?;
        let name = topic.to_owned();
        let asked = self.ask(self.until(), move |broker| {
            let name = name.clone();
            async move { broker.topic(&name).await }
        });
        let Some(stored) = asked.await? else { return Ok(None) };
        let mut subscriptions = Vec::with_capacity(stored.subscriptions.len());
        for subscription in stored.subscriptions {
            let stats = self.stats_of(&subscription_address(&subscription.name, topic)).await?;
            subscriptions.push(SubscriptionInfo::new(topic, stored.now_ms, subscription, &stats));
        }
        let is_closed = stored.is_closed;
        let (events, added, bytes, first) = (stored.entries, stored.added, stored.bytes, stored.first_ms.map(time));
        Ok(Some(TopicInfo { name: stored.name, events, added, bytes, is_closed, first, retention: stored.retention, subscriptions }))
    }

    /// Events of the log of a topic after this position, or from the oldest on, at most `limit` (1
    /// to 100).
    ///
    /// # Errors
    /// [`Error::Invalid`] for a limit out of range, and for a position that is not in this log.
    pub async fn events(&self, topic: &str, after: Option<&str>, limit: usize) -> Result<Vec<EventInfo>> {
        check_name("topic", topic)?;
        if !(1..=ENTRIES_READ).contains(&limit) {
            return Err(Error::invalid("limit", limit.to_string(), format!("is not between 1 and {ENTRIES_READ}")));
        }
        let (topic, after) = (topic.to_owned(), after.map(str::to_owned));
        let asked = self.ask(self.until(), move |broker| {
            let (topic, after) = (topic.clone(), after.clone());
            async move { broker.read_topic(&topic, after.as_deref(), limit).await }
        });
        Ok(asked.await?.into_iter().map(EventInfo::from).collect())
    }

    /// Makes a subscription before its first worker does. False if it exists; it keeps its
    /// position.
    ///
    /// ```
    /// use queue_core::{prelude::*, topics::Begin};
    ///
    /// # async fn example() -> queue_core::Result<()> {
    /// let client = Client::connect("sqlite://:memory:").await?;
    /// assert!(client.inspector().subscribe("orders", "billing", Begin::Start).await?);
    /// assert!(!client.inspector().subscribe("orders", "billing", Begin::Now).await?);
    /// # Ok(()) }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Error::BrokerFull`].
    pub async fn subscribe(&self, topic: &str, subscription: &str, begin: Begin) -> Result<bool> {
        let request = Subscribe::new(topic, subscription, begin);
        request.check()?;
        self.run(move |broker| async move { broker.subscribe(&request).await }).await
    }

    /// Removes a subscription, which then reads no further events. Its jobs stay in its queue.
    /// False: the subscription does not exist.
    ///
    /// # Errors
    /// [`Error::Config`] while a worker serves it, which would make it again.
    pub async fn unsubscribe(&self, topic: &str, subscription: &str) -> Result<bool> {
        check_name("topic", topic)?;
        check_name("subscription", subscription)?;
        let queue = subscription_address(subscription, topic);
        let workers = self.stats_of(&queue).await?.workers;
        if workers > 0 {
            let problem = format!(
                "{workers} of its workers would create the subscription `{queue}` again; stop them, or pause it with `queues pause {queue}`"
            );
            return Err(Error::Config(problem));
        }
        let (topic, subscription) = (topic.to_owned(), subscription.to_owned());
        self.run(move |broker| async move { broker.unsubscribe(&topic, &subscription).await }).await
    }

    /// Sets the retention of a topic. A field of `None` is not changed.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a retention that would keep nothing.
    pub async fn set_retention(&self, topic: &str, retention: Retention) -> Result<()> {
        check_name("topic", topic)?;
        retention.check()?;
        let topic = topic.to_owned();
        self.run(move |broker| async move { broker.set_retention(&topic, retention).await }).await
    }

    /// Applies the retention of a topic now, in bounded steps. Workers of its subscriptions do so
    /// regularly.
    ///
    /// # Errors
    /// Those of the broker.
    pub async fn trim_topic(&self, topic: &str) -> Result<Trimmed> {
        check_name("topic", topic)?;
        let mut all = Trimmed::default();
        loop {
            let topic = topic.to_owned();
            let step = self.run(move |broker| async move { broker.trim_topic(&topic).await }).await?;
            all.entries += step.entries;
            all.lost += step.lost;
            if !step.more {
                return Ok(all);
            }
        }
    }
}

fn time(ms: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}
