//! The page of one topic: the progress of each subscription, the reason why one is stopped, and the
//! requested part of the log.

use std::{sync::Arc, time::SystemTime};

use askama::Template;
use axum::{
    Extension,
    extract::{RawQuery, State},
    http::StatusCode,
    response::Response,
};
use queue_core::topics::{EventInfo, SubscriptionInfo, TopicInfo};

use super::{Content, Notice, Stale, full_page, render};
use crate::{
    format::{Moment, ago, number, short, span},
    guard::Viewer,
    params::{Params, query},
    problem::Problem,
    shared::Shared,
};

/// Events on one page.
const PAGE: usize = 50;

#[derive(Template)]
#[template(path = "topic.html")]
struct Page<'a> {
    viewer: &'a Viewer,
    stale: Option<Stale>,
    topic: &'a str,
    facts: Vec<(&'static str, String)>,
    subscriptions: Vec<Subscription>,
    events: Vec<Event>,
    first: Option<String>,
    next: Option<String>,
}

struct Subscription {
    name: String,
    /// The address of the list of its jobs.
    jobs: String,
    behind: String,
    lag: String,
    /// Events that were read and have not ended: ready, scheduled, running, parked, or waiting for
    /// a retry.
    waiting: String,
    active: String,
    retry: u64,
    parked: u64,
    dead: u64,
    lost: u64,
    workers: u64,
    stop_reason: Option<String>,
    /// The number of skipped events.
    skipped: Option<String>,
}

impl Subscription {
    fn new(of: SubscriptionInfo) -> Self {
        Subscription {
            behind: of.behind.map_or_else(|| "?".to_owned(), number),
            lag: if of.lag.is_zero() { "–".to_owned() } else { ago(of.lag) },
            waiting: number(of.waiting),
            active: number(of.active),
            retry: of.retry,
            parked: of.parked,
            dead: of.dead,
            lost: of.lost,
            workers: of.workers,
            stop_reason: of.stop_reason.clone(),
            skipped: (of.skipped > 0).then(|| number(of.skipped)),
            jobs: format!("jobs?{}", query(&[("queue", &of.queue)])),
            name: of.name,
        }
    }
}

struct Event {
    position: String,
    at: Moment,
    event: String,
    group: String,
    payload: String,
}

impl Event {
    fn new(event: EventInfo, shared: &Shared, now: SystemTime) -> Self {
        let payload = event.payload.and_then(|json| shared.settings.secrets.json(&json));
        // The JSON on one line.
        let payload = payload.map(|json| json.split_whitespace().collect::<Vec<_>>().join(" "));
        Event {
            position: event.position,
            at: Moment::new(event.at, now),
            event: event.event,
            group: short(&event.group.unwrap_or_default(), 40),
            payload: short(&payload.unwrap_or_else(|problem| format!("({problem})")), 120),
        }
    }
}

/// The result of the change that has led to this page.
fn notice(params: &Params) -> Option<Notice> {
    if params.get("did") != Some("rewound") {
        return None;
    }
    let [n, cancelled, left] = ["n", "cancelled", "left"].map(|name| params.number::<0, { u64::MAX }>(name).get());
    let events = if n == 1 { "event is" } else { "events are" };
    let rest = if left > 0 { " The rewind continues: until it has ended, the subscription reads nothing." } else { "" };
    Some(Notice {
        text: format!("{} {events} read again, and {} waiting jobs were cancelled.{rest}", number(n), number(cancelled)),
        is_good: true,
    })
}

pub(crate) async fn page(State(shared): State<Arc<Shared>>, Extension(viewer): Extension<Viewer>, RawQuery(query): RawQuery) -> Response {
    match content(&shared, &viewer, &Params::parse(query.unwrap_or_default().as_bytes())).await {
        Ok(content) => full_page(&shared, &viewer, &content),
        Err(problem) => problem.page(&viewer),
    }
}

fn facts(topic: &TopicInfo) -> Vec<(&'static str, String)> {
    let kept = &topic.retention;
    vec![
        ("Events", number(topic.events)),
        ("Ever added", number(topic.added)),
        ("Bytes, about", number(topic.bytes)),
        ("Keeps for", span(kept.age())),
        ("At most", kept.count.map_or_else(|| "any number".to_owned(), number)),
        ("Bytes at most", kept.bytes.map_or_else(|| "any number".to_owned(), number)),
        ("Waits for the slowest", span(kept.lag())),
    ]
}

pub(crate) async fn content(shared: &Shared, viewer: &Viewer, params: &Params) -> Result<Content, Problem> {
    let none = || Problem::not_found("There is no such topic.");
    let (name, after) = (params.text::<128>("topic"), params.text::<64>("after"));
    let view = shared.view().await;
    let _permit = shared.list_permit().await?;
    let found = shared.inspector.topic(&name).await.map_err(|_| none())?.ok_or_else(none)?;
    let asked = (!after.is_empty()).then_some(after.as_str());
    let events = shared.inspector.events(&name, asked, PAGE).await?;
    let here = |after: &str| query(&[("topic", &name), ("after", after)]);
    let next = events.last().filter(|_| events.len() == PAGE).map(|last| here(&last.position));
    let now = SystemTime::now();
    let page = Page {
        viewer,
        stale: Stale::of(&view),
        topic: &name,
        facts: facts(&found),
        subscriptions: found.subscriptions.into_iter().map(Subscription::new).collect(),
        events: events.into_iter().map(|event| Event::new(event, shared, now)).collect(),
        first: asked.map(|_| here("")),
        next,
    };
    let live = Some(format!("/live/topic?{}", here(&after)));
    Ok(Content { title: name.clone(), tab: "topics", html: render(&page)?, status: StatusCode::OK, live, notice: notice(params) })
}
