//! The page of one limit: its effective values, the holders of its keys, the time until each key
//! lets a job start, and its setting.

use std::{sync::Arc, time::SystemTime};

use askama::Template;
use axum::{
    Extension,
    extract::{RawQuery, State},
    http::StatusCode,
    response::Response,
};
use queue_core::inspect::{LimitInfo, LimitKey, LimitKeyInfo, LimitRule};

use super::{
    Content, Stale, full_page,
    limits::{notice, source_of},
    render,
};
use crate::{
    format::{Moment, number, short, short_id},
    guard::Viewer,
    params::{Params, query},
    paths::path_of,
    problem::Problem,
    shared::Shared,
};

/// Keys on one page.
const PAGE: usize = 50;

/// The number of holders of a key that are shown.
const HOLDERS: usize = 3;

#[derive(Template)]
#[template(path = "limit.html")]
struct Page<'a> {
    viewer: &'a Viewer,
    stale: Option<Stale>,
    queue: &'a str,
    limit: &'a str,
    facts: Vec<(&'static str, String)>,
    keys: Vec<Key>,
    next: Option<String>,
    is_set: bool,
    concurrency: String,
    rate: String,
    burst: String,
    declared: RuleFields,
}

/// The value from code for each field.
struct RuleFields {
    concurrency: String,
    rate: String,
    burst: String,
}

struct Key {
    by: String,
    held: String,
    holders: Vec<(String, String)>,
    more: u64,
    waiting: String,
    opens: Option<Moment>,
}

impl Key {
    fn new(key: &LimitKeyInfo, now: SystemTime) -> Self {
        let shown = key.holders.iter().take(HOLDERS);
        let holders: Vec<(String, String)> = shown.map(|job| (path_of(job), short_id(&job.id.to_string()))).collect();
        Key {
            by: match key.text.as_deref() {
                Some("") => "(the queue)".to_owned(),
                Some(text) => short(text, 60),
                None => key.key.to_string(),
            },
            held: key.rule.concurrency.map_or_else(|| number(key.held), |most| format!("{} / {most}", number(key.held))),
            more: key.held.saturating_sub(holders.len() as u64),
            holders,
            waiting: number(key.waiting),
            opens: key.until.map(|until| Moment::new(until, now)),
        }
    }
}

pub(crate) async fn page(State(shared): State<Arc<Shared>>, Extension(viewer): Extension<Viewer>, RawQuery(query): RawQuery) -> Response {
    match content(&shared, &viewer, &Params::parse(query.unwrap_or_default().as_bytes())).await {
        Ok(content) => full_page(&shared, &viewer, &content),
        Err(problem) => problem.page(&viewer),
    }
}

/// The queue and the limit of the request.
pub(super) async fn limit_of_request(shared: &Shared, params: &Params) -> Result<(String, LimitInfo), Problem> {
    let none = || Problem::not_found("There is no such limit. Nothing was changed.");
    let (queue, name) = (params.text::<128>("queue"), params.text::<128>("limit"));
    if !shared.inspector.queues().await?.contains(&queue) {
        return Err(none());
    }
    let found = shared.inspector.limit(&queue, &name).await.map_err(|_| none())?;
    found.map(|limit| (queue, limit)).ok_or_else(none)
}

fn fields(rule: LimitRule) -> RuleFields {
    let text = |number: Option<u32>| number.map(|number| number.to_string()).unwrap_or_default();
    RuleFields {
        concurrency: text(rule.concurrency),
        rate: rule.rate.map(|rate| rate.to_string()).unwrap_or_default(),
        burst: text(rule.burst),
    }
}

pub(crate) async fn content(shared: &Shared, viewer: &Viewer, params: &Params) -> Result<Content, Problem> {
    let (queue, limit) = limit_of_request(shared, params).await?;
    let after: Option<LimitKey> = params.get("after").and_then(|key| key.parse().ok());
    let _permit = shared.list_permit().await?;
    let keys = shared.inspector.limit_keys(&queue, &limit.name, after, PAGE).await?;
    let view = shared.view().await;
    let here = query(&[("queue", &queue), ("limit", &limit.name), ("after", &after.map(|key| key.to_string()).unwrap_or_default())]);
    let next = keys.last().filter(|_| keys.len() == PAGE).map(|last| last.key.to_string());
    let next = next.map(|after| query(&[("queue", &queue), ("limit", &limit.name), ("after", &after)]));
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "none".to_owned());
    let mut facts = vec![
        ("Running at once", or_none(limit.rule.concurrency.map(|most| number(most.into())))),
        ("Starts", or_none(limit.rule.rate.map(|rate| rate.to_string()))),
    ];
    facts.extend(limit.rule.rate.map(|_| ("Burst", limit.rule.burst().to_string())));
    facts.extend([
        ("Slots held", number(limit.held)),
        ("Waiting", number(limit.full + limit.rated)),
        ("Source", source_of(&limit).to_owned()),
    ]);
    let (set, declared) = (fields(limit.set.unwrap_or_default()), fields(limit.declared.unwrap_or_default()));
    let now = SystemTime::now();
    let page = Page {
        viewer,
        stale: Stale::of(&view),
        queue: &queue,
        limit: &limit.name,
        facts,
        keys: keys.iter().map(|key| Key::new(key, now)).collect(),
        next,
        is_set: limit.set.is_some(),
        concurrency: set.concurrency,
        rate: set.rate,
        burst: set.burst,
        declared,
    };
    let live = Some(format!("/live/limit?{here}"));
    let (title, html) = (format!("{queue} · {}", limit.name), render(&page)?);
    Ok(Content { title, tab: "limits", html, status: StatusCode::OK, live, notice: notice(params) })
}
