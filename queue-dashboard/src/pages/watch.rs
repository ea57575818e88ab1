//! The page Watch: state transitions of jobs as they happen, newest first.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use askama::Template;
use axum::{
    Extension,
    extract::{RawQuery, State},
    http::StatusCode,
    response::Response,
};
use queue_core::{
    __private::error_text,
    Client, JobId, JobState,
    inspect::{Filter, Transition, Watch, Watched},
};

use super::{Content, Stale, full_page, render};
use crate::{
    format::{Moment, short, short_id},
    guard::Viewer,
    params::{Params, query},
    paths::path_of,
    problem::Problem,
    shared::Shared,
};

/// Most rows of the page.
pub(crate) const ROWS: usize = 200;

/// The maximum number of transitions in one read.
const READ: usize = 20_000;

/// The maximum wait for the first transition, and the time for collecting others after that.
const WAIT: Duration = Duration::from_millis(1_000);
const GATHER: Duration = Duration::from_millis(100);

/// The part of a read that may have been waiting.
pub(crate) const IDLE: Duration = WAIT.saturating_add(GATHER);

/// How long the position of a page is kept for its next stream, and the maximum number of kept
/// pages.
const KEPT: Duration = Duration::from_secs(600);
const MOST_KEPT: usize = 64;

#[derive(Template)]
#[template(path = "watch.html")]
struct Page<'a> {
    viewer: &'a Viewer,
    stale: Option<Stale>,
    filter: &'a str,
    /// Why the text is not a valid filter of transitions, or why no transitions can be shown now.
    problem: Option<String>,
    /// The transitions with their numbers.
    rows: Vec<(u64, Row)>,
}

enum Row {
    Change(Box<Change>),
    Lost(String),
}

/// A state transition of a job.
struct Change {
    path: String,
    address: String,
    short_id: String,
    queue: String,
    task: String,
    from: &'static str,
    to: &'static str,
    reason: String,
    at: Moment,
}

/// The transitions of a page, from one read to the next.
pub(crate) struct Watching {
    filter: String,
    watch: Watch,
    /// The transitions with their numbers, by which the browser identifies a row.
    seen: VecDeque<(u64, Watched)>,
    numbers: u64,
}

impl Watching {
    pub(crate) fn new(client: &Client, filter: &str) -> Result<Watching, Problem> {
        let watch = client.watch(filter.parse::<Filter>()?)?;
        Ok(Watching { filter: filter.to_owned(), watch, seen: VecDeque::new(), numbers: 0 })
    }

    /// Reads the next transitions. With `waits`, waits a short time for the first one. Returns an
    /// error if they cannot be read now.
    pub(crate) async fn read(&mut self, waits: bool) -> Result<(), String> {
        let mut wait = if waits { WAIT } else { GATHER };
        for _ in 0..READ {
            let Some(watched) = self.watch.next_within(wait).await.map_err(|error| error_text(&error))? else { break };
            if self.seen.len() == ROWS {
                self.seen.pop_back();
            }
            self.numbers += 1;
            self.seen.push_front((self.numbers, watched));
            wait = if wait == WAIT { GATHER } else { Duration::ZERO };
        }
        Ok(())
    }
}

/// The positions of pages whose stream has ended. The next stream of the same page continues there.
#[derive(Default)]
pub(crate) struct Kept(Mutex<HashMap<String, (Instant, Watching)>>);

impl Kept {
    pub(crate) fn put(&self, page: String, watching: Watching) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|_, (at, _)| at.elapsed() < KEPT);
        if kept.len() < MOST_KEPT {
            kept.insert(page, (Instant::now(), watching));
        }
    }

    pub(crate) fn take(&self, page: &str, filter: &str) -> Option<Watching> {
        let (_, watching) = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(page)?;
        Some(watching).filter(|watching| watching.filter == filter)
    }
}

pub(crate) async fn page(State(shared): State<Arc<Shared>>, Extension(viewer): Extension<Viewer>, RawQuery(query): RawQuery) -> Response {
    match content(&shared, &viewer, &Params::parse(query.unwrap_or_default().as_bytes()), None, None).await {
        Ok(content) => full_page(&shared, &viewer, &content),
        Err(problem) => problem.page(&viewer),
    }
}

/// `hindered`: the reason why no transitions can be shown now.
pub(crate) async fn content(
    shared: &Shared,
    viewer: &Viewer,
    params: &Params,
    watching: Option<&Watching>,
    hindered: Option<&str>,
) -> Result<Content, Problem> {
    let filter = params.text::<1000>("filter");
    let view = shared.view().await;
    let problem = filter.parse::<Filter>().and_then(|filter| shared.client.watch(filter)).err().map(|error| error.to_string());
    let page = params.get("of").map_or_else(|| JobId::make().to_string(), str::to_owned);
    let live = problem.is_none().then(|| format!("/live/watch?{}", query(&[("filter", &filter), ("of", &page)])));
    let problem = problem.or_else(|| hindered.map(str::to_owned));
    let now = SystemTime::now();
    let rows = watching.into_iter().flat_map(|watching| &watching.seen);
    let rows = rows.filter_map(|(number, watched)| Some((*number, Row::new(watched, now)?))).collect();
    let page = Page { viewer, stale: Stale::of(&view), filter: &filter, problem, rows };
    Ok(Content { title: "Watch".to_owned(), tab: "watch", html: render(&page)?, status: StatusCode::OK, live, notice: None })
}

impl Row {
    fn new(watched: &Watched, now: SystemTime) -> Option<Row> {
        match watched {
            Watched::Transition(Transition { at, job, task, from, to, reason, .. }) => {
                let id = job.id.to_string();
                Some(Row::Change(Box::new(Change {
                    path: path_of(job),
                    address: job.to_string(),
                    short_id: short_id(&id),
                    queue: job.queue.to_string(),
                    task: if task.is_empty() { "(cannot be decoded)".to_owned() } else { task.clone() },
                    from: from.map_or("new", JobState::name),
                    to: to.map_or("removed", JobState::name),
                    reason: short(reason.as_deref().unwrap_or_default(), 140),
                    at: Moment::new(*at, now),
                })))
            }
            Watched::Lost(lost) => Some(Row::Lost(lost.to_string())),
            _ => None,
        }
    }
}
