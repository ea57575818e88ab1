//! The page Queues: the number of jobs in each state, their age, their rate, and the pause of each
//! queue.

use std::{
    sync::{Arc, PoisonError},
    time::SystemTime,
};

use askama::Template;
use axum::{
    Extension,
    extract::{RawQuery, State},
    http::StatusCode,
    response::Response,
};
use queue_core::JobState;

use super::{Content, Stale, full_page, jobs::Notice, pauses::describe_pause, render};
use crate::{
    format::{Moment, number, rate},
    guard::Viewer,
    history::History,
    params::{Params, query},
    problem::Problem,
    shared::Shared,
    snapshot::{Queue, Snapshot, Unreadable},
};

/// Queues on one page.
const PAGE: usize = 50;

/// A queue as a row of a table.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) states: Vec<Count>,
    pub(crate) oldest: Option<Moment>,
    pub(crate) is_late: bool,
    pub(crate) rate: Option<String>,
    pub(crate) failing: Option<String>,
    pub(crate) workers: u64,
    pub(crate) unserved: bool,
    pub(crate) paused: bool,
    /// The end, the operator and the reason of the pause.
    pub(crate) pause: String,
    /// Its paused tasks, with the same text for each.
    pub(crate) tasks: Vec<(String, String)>,
}

/// The number of jobs of a queue in a state.
pub(crate) struct Count {
    pub(crate) state: &'static str,
    pub(crate) jobs: u64,
    pub(crate) text: String,
}

impl Row {
    pub(crate) fn new(snapshot: &Snapshot, queue: &Queue, history: &History, now: SystemTime) -> Self {
        let rates = history.rates_of(&queue.name);
        let oldest = queue.stats.oldest;
        Row {
            name: queue.name.clone(),
            states: JobState::ALL
                .map(|state| {
                    let jobs = queue.stats.count(state);
                    Count { state: state.name(), jobs, text: number(jobs) }
                })
                .into(),
            is_late: oldest.is_some_and(|age| age.as_secs() >= 300),
            oldest: oldest.and_then(|age| Some(Moment::new(snapshot.at.checked_sub(age)?, now))),
            rate: rates.map(|rates| rate(rates.done)),
            failing: rates.filter(|rates| rates.failed >= 0.05).map(|rates| rate(rates.failed)),
            workers: queue.stats.workers,
            unserved: queue.stats.workers == 0 && queue.stats.count(JobState::Ready) > 0,
            paused: queue.stats.paused,
            pause: queue.stats.pause.as_ref().map(describe_pause).unwrap_or_default(),
            tasks: queue.paused_tasks.iter().map(|(task, pause)| (task.clone(), describe_pause(pause))).collect(),
        }
    }

    /// The number of jobs in a state.
    pub(crate) fn of(&self, state: &str) -> &Count {
        // Templates use only the names of states.
        self.states.iter().find(|count| count.state == state).unwrap_or(&self.states[0])
    }
}

#[derive(Template)]
#[template(path = "queues.html")]
struct Page<'a> {
    viewer: &'a Viewer,
    stale: Option<Stale>,
    unreadable: Vec<Unreadable>,
    rows: Vec<Row>,
    text: String,
    all: usize,
    found: usize,
    from: usize,
    back: String,
    next: Option<String>,
    first: Option<String>,
}

pub(crate) async fn page(State(shared): State<Arc<Shared>>, Extension(viewer): Extension<Viewer>, RawQuery(query): RawQuery) -> Response {
    match content(&shared, &viewer, &Params::parse(query.unwrap_or_default().as_bytes())).await {
        Ok(content) => full_page(&shared, &viewer, &content),
        Err(problem) => problem.page(&viewer),
    }
}

pub(crate) async fn content(shared: &Shared, viewer: &Viewer, params: &Params) -> Result<Content, Problem> {
    let text = params.text::<128>("text");
    let from = usize::try_from(params.number::<0, 100_000>("from").get()).unwrap_or(0);
    let view = shared.view().await;
    let now = SystemTime::now();
    let mut page = Page {
        viewer,
        stale: Stale::of(&view),
        unreadable: Vec::new(),
        rows: Vec::new(),
        all: 0,
        found: 0,
        from,
        back: format!("queues?{}", query(&[("text", &text), ("from", &from.to_string())])),
        next: None,
        first: (from > 0).then(|| query(&[("text", &text)])),
        text,
    };
    if let Some(snapshot) = &view.snapshot {
        let history = shared.history.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = page.text.to_lowercase();
        let found: Vec<_> = snapshot.queues.iter().filter(|queue| queue.name.to_lowercase().contains(&wanted)).collect();
        page.unreadable.clone_from(&snapshot.unreadable);
        (page.all, page.found) = (snapshot.queues.len(), found.len());
        page.rows = found.into_iter().skip(from).take(PAGE).map(|queue| Row::new(snapshot, queue, &history, now)).collect();
        let next = from + page.rows.len();
        page.next = (next < page.found).then(|| query(&[("text", &page.text), ("from", &next.to_string())]));
    }
    let status = if view.snapshot.is_some() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let live = format!("/live/queues?{}", query(&[("text", &page.text), ("from", &from.to_string())]));
    Ok(Content { title: "Queues".to_owned(), tab: "queues", html: render(&page)?, status, live: Some(live), notice: Notice::of(params) })
}
