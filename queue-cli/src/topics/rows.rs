//! Topics and events as JSON.

use std::{
    collections::BTreeMap,
    time::{Duration, UNIX_EPOCH},
};

use queue_core::topics::{Begin, EventInfo, SubscriptionInfo, TopicInfo};
use serde::Serialize;

use crate::output::utc;

/// A topic, as JSON.
#[derive(Serialize)]
pub(super) struct Row {
    topic: String,
    events: u64,
    added: u64,
    bytes: u64,
    first: Option<String>,
    age_seconds: u64,
    count: Option<u64>,
    bytes_limit: Option<u64>,
    lag_limit_seconds: u64,
    subscriptions: Vec<Subscription>,
}

#[derive(Serialize)]
struct Subscription {
    subscription: String,
    queue: String,
    from: String,
    behind: Option<u64>,
    lag_seconds: u64,
    open: u64,
    waiting: u64,
    active: u64,
    retry: u64,
    parked: u64,
    dead: u64,
    lost: u64,
    workers: u64,
    paused: bool,
    rewinding: bool,
    types: Vec<String>,
    unknown: &'static str,
    skipped: u64,
    stands_because: Option<String>,
}

/// An event, as JSON.
#[derive(Serialize)]
pub(super) struct Event {
    position: String,
    at: Option<String>,
    id: Option<String>,
    #[serde(rename = "type")]
    event: String,
    group: Option<String>,
    headers: BTreeMap<String, String>,
    tags: BTreeMap<String, String>,
    payload: Option<serde_json::Value>,
    problem: Option<String>,
}

fn from(begin: Begin) -> String {
    match begin {
        Begin::Now => "now".to_owned(),
        Begin::Start => "start".to_owned(),
        Begin::AtMs(at) => utc(UNIX_EPOCH + Duration::from_millis(u64::try_from(at).unwrap_or(0))).unwrap_or_default(),
    }
}

fn subscription(of: SubscriptionInfo) -> Subscription {
    Subscription {
        stands_because: of.stands_because(),
        from: from(of.begin),
        subscription: of.name,
        queue: of.queue,
        behind: of.behind,
        lag_seconds: of.lag.as_secs(),
        open: of.open,
        waiting: of.waiting,
        active: of.active,
        retry: of.retry,
        parked: of.parked,
        dead: of.dead,
        lost: of.lost,
        workers: of.workers,
        paused: of.paused,
        rewinding: of.rewinding,
        types: of.types,
        unknown: of.unknown.name(),
        skipped: of.skipped,
    }
}

pub(super) fn row(topic: TopicInfo) -> Row {
    Row {
        topic: topic.name,
        events: topic.events,
        added: topic.added,
        bytes: topic.bytes,
        first: topic.first.and_then(utc),
        age_seconds: topic.retention.age().as_secs(),
        count: topic.retention.count,
        bytes_limit: topic.retention.bytes,
        lag_limit_seconds: topic.retention.lag().as_secs(),
        subscriptions: topic.subscriptions.into_iter().map(subscription).collect(),
    }
}

pub(super) fn event(event: EventInfo) -> Event {
    let (payload, problem) = match event.payload {
        Ok(json) => (queue_core::__private::json(&json).ok(), None),
        Err(problem) => (None, Some(problem)),
    };
    Event {
        position: event.position,
        at: utc(event.at),
        id: event.id.map(|id| id.to_string()),
        event: event.event,
        group: event.group,
        headers: event.headers,
        tags: event.tags,
        payload,
        problem,
    }
}
