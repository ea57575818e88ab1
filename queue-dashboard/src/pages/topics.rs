//! The page Topics: the number of stored events of each topic, and the progress of its
//! subscriptions.

use std::{sync::Arc, time::SystemTime};

use askama::Template;
use axum::{
    Extension,
    extract::{RawQuery, State},
    http::StatusCode,
    response::Response,
};
use queue_core::topics::{SubscriptionInfo, TopicInfo};

use super::{Content, Stale, full_page, render};
use crate::{
    format::{Moment, count, number, span},
    guard::Viewer,
    params::{Params, query},
    problem::Problem,
    shared::Shared,
};

/// Topics on one page.
const PAGE: usize = 100;

#[derive(Template)]
#[template(path = "topics.html")]
struct Page<'a> {
    viewer: &'a Viewer,
    stale: Option<Stale>,
    rows: Vec<Row>,
    /// The number of topics that are not shown.
    more: usize,
}

struct Row {
    topic: String,
    /// The address of its page.
    page: String,
    events: String,
    first: Option<Moment>,
    subscriptions: usize,
    /// The subscription that is furthest behind, and its backlog.
    slowest: Option<(String, String)>,
    is_stopped: bool,
    lost: u64,
}

impl Row {
    fn new(topic: TopicInfo, now: SystemTime) -> Self {
        let backlog = |of: &SubscriptionInfo| of.behind.unwrap_or(0) + of.open;
        let has_backlog = |of: &&SubscriptionInfo| !of.lag.is_zero() || backlog(of) > 0;
        let slowest = topic.subscriptions.iter().filter(has_backlog).max_by_key(|of| (of.lag, backlog(of)));
        Row {
            page: of_topic(&topic.name),
            events: number(topic.events),
            first: topic.first.map(|first| Moment::new(first, now)),
            subscriptions: topic.subscriptions.len(),
            slowest: slowest.map(|of| {
                let unread = if of.lag.is_zero() { String::new() } else { format!("; the oldest is unread for {}", span(of.lag)) };
                (of.name.clone(), format!("{} not ended{unread}", count(backlog(of), "event")))
            }),
            is_stopped: topic.subscriptions.iter().any(|of| of.stop_reason.is_some()),
            lost: topic.subscriptions.iter().map(|of| of.lost).sum(),
            topic: topic.name,
        }
    }
}

/// The address of the page of a topic, relative to the base.
pub(super) fn of_topic(topic: &str) -> String {
    format!("topic?{}", query(&[("topic", topic)]))
}

pub(crate) async fn page(State(shared): State<Arc<Shared>>, Extension(viewer): Extension<Viewer>, RawQuery(query): RawQuery) -> Response {
    match content(&shared, &viewer, &Params::parse(query.unwrap_or_default().as_bytes())).await {
        Ok(content) => full_page(&shared, &viewer, &content),
        Err(problem) => problem.page(&viewer),
    }
}

pub(crate) async fn content(shared: &Shared, viewer: &Viewer, _: &Params) -> Result<Content, Problem> {
    let view = shared.view().await;
    let _permit = shared.list_permit().await?;
    let (topics, now) = (shared.inspector.topics().await?, SystemTime::now());
    let more = topics.len().saturating_sub(PAGE);
    let rows = topics.into_iter().take(PAGE).map(|topic| Row::new(topic, now)).collect();
    let html = render(&Page { viewer, stale: Stale::of(&view), rows, more })?;
    let live = Some("/live/topics".to_owned());
    Ok(Content { title: "Topics".to_owned(), tab: "topics", html, status: StatusCode::OK, live, notice: None })
}
