//! The page Failures: failures of runs, with similar ones in one row, and the actions for all jobs
//! of a row.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc, time::SystemTime};

use askama::Template;
use axum::{
    Extension,
    extract::{RawQuery, State},
    http::StatusCode,
    response::Response,
};
use futures_util::FutureExt;
use queue_core::{
    JobId, JobState,
    broker::history::JOBS_NAMED,
    inspect::{FailurePattern, Fingerprint},
};
use tokio::time::timeout;

use super::{CHOICES, Content, Stale, full_page, jobs::Notice, render, unread::Unread};
use crate::{
    format::{Moment, number, short, short_id},
    guard::Viewer,
    params::{Params, query},
    paths::job_path,
    problem::Problem,
    secrets::Secrets,
    shared::{DEADLINE, Shared},
    snapshot::{Snapshot, together},
};

/// Kinds of failures on one page.
const PAGE: usize = 50;

/// The maximum number of queues that are read for a page: those with the most dead and retrying
/// jobs.
const QUEUES: usize = 100;

#[derive(Template)]
#[template(path = "failures.html")]
struct Page<'a> {
    viewer: &'a Viewer,
    stale: Option<Stale>,
    unread: Unread,
    rows: Vec<Row>,
    queue: &'a str,
    queues: Vec<String>,
    all: usize,
    left_out: usize,
    back: String,
    first: Option<String>,
    next: Option<String>,
}

struct Row {
    queue: String,
    fingerprint: String,
    /// Whether a filter can find its jobs.
    is_one: bool,
    pattern: String,
    message: String,
    count: String,
    first: Moment,
    last: Moment,
    tasks: Vec<(String, String)>,
    releases: Vec<(String, String)>,
    jobs: Vec<(String, String)>,
    /// The lists of its jobs that are dead, waiting for another attempt, or parked, and whether
    /// there may be any.
    dead: String,
    retry: String,
    parked: String,
    has_dead: bool,
    has_retry: bool,
    has_parked: bool,
}

impl Row {
    fn new(
        queue: &str,
        failure: &FailurePattern,
        secrets: &Secrets,
        states: &States,
        snapshot: Option<&Snapshot>,
        now: SystemTime,
    ) -> Self {
        let is_one = failure.fingerprint != Fingerprint::OTHERS;
        let names = |names: &[(String, u64)]| names.iter().rev().map(|(name, n)| (short(name, 40), number(*n))).collect();
        let listed =
            |state: JobState| query(&[("state", state.name()), ("queue", queue), ("text", &format!("failure={}", failure.fingerprint))]);
        // If a pattern has more jobs than are kept, the others are unknown. Any job of the queue
        // may be one of them.
        let known = states.get(queue).filter(|_| failure.jobs.len() < JOBS_NAMED);
        let has = |state| match known {
            Some(states) => is_one && failure.jobs.iter().any(|id| states.get(id) == Some(&state)),
            None => is_one && snapshot.is_none_or(|snapshot| snapshot.count(Some(queue), state) > 0),
        };
        Row {
            queue: queue.to_owned(),
            fingerprint: failure.fingerprint.to_string(),
            is_one,
            pattern: if is_one {
                short(&secrets.text(&failure.pattern), 200)
            } else {
                "Other failures with too many different messages".to_owned()
            },
            message: short(&secrets.text(&failure.message), 500),
            count: number(failure.count),
            first: Moment::new(failure.first_at, now),
            last: Moment::new(failure.last_at, now),
            tasks: names(&failure.tasks),
            releases: names(&failure.releases),
            jobs: failure.jobs.iter().rev().map(|id| (job_path(queue, &id.to_string()), short_id(&id.to_string()))).collect(),
            dead: listed(JobState::Dead),
            retry: listed(JobState::Retry),
            parked: listed(JobState::Parked),
            has_dead: has(JobState::Dead),
            has_retry: has(JobState::Retry),
            has_parked: has(JobState::Parked),
        }
    }
}

pub(crate) async fn page(State(shared): State<Arc<Shared>>, Extension(viewer): Extension<Viewer>, RawQuery(query): RawQuery) -> Response {
    match content(&shared, &viewer, &Params::parse(query.unwrap_or_default().as_bytes())).await {
        Ok(content) => full_page(&shared, &viewer, &content),
        Err(problem) => problem.page(&viewer),
    }
}

pub(crate) async fn content(shared: &Shared, viewer: &Viewer, params: &Params) -> Result<Content, Problem> {
    let queue = params.text::<128>("queue");
    let from = usize::try_from(params.number::<0, 100_000>("from").get()).unwrap_or(0);
    let view = shared.view().await;
    let snapshot = view.snapshot.as_deref();
    let names: Vec<String> = snapshot.map(|snapshot| snapshot.queues.iter().map(|queue| queue.name.clone()).collect()).unwrap_or_default();
    let mut chosen: Vec<&String> = names.iter().filter(|name| queue.is_empty() || **name == queue).collect();
    let failed = |name: &str| {
        let count = |state| snapshot.map_or(0, |snapshot| snapshot.count(Some(name), state));
        count(JobState::Dead).saturating_add(count(JobState::Retry))
    };
    chosen.sort_by_key(|name| Reverse(failed(name)));
    let left_out = chosen.len().saturating_sub(QUEUES);
    chosen.truncate(QUEUES);
    let _permit = shared.list_permit().await?;
    let calls = chosen.into_iter().map(|name| shared.inspector.failures(name).map(move |kinds| (name, kinds)).boxed());
    let mut found: Vec<(&String, FailurePattern)> = Vec::new();
    let mut unread = Unread::of(&view, &queue);
    for (name, kinds) in together(calls.collect()).await {
        found.extend(unread.take_or_record(name, kinds).into_iter().flatten().map(|failure| (name, failure)));
    }
    found.sort_by_key(|(_, failure)| Reverse(failure.last_at));
    let shown: Vec<(&String, FailurePattern)> = found.iter().skip(from).take(PAGE).cloned().collect();
    let states = states_of_jobs(shared, &shown).await;
    let now = SystemTime::now();
    let asked = |from: usize| query(&[("queue", &queue), ("from", &if from == 0 { String::new() } else { from.to_string() })]);
    let next = from.saturating_add(PAGE);
    let page = Page {
        viewer,
        stale: Stale::of(&view),
        unread,
        rows: shown.iter().map(|(name, failure)| Row::new(name, failure, &shared.settings.secrets, &states, snapshot, now)).collect(),
        queues: names.iter().take(CHOICES).cloned().collect(),
        all: found.len(),
        left_out,
        back: format!("failures?{}", asked(from)),
        first: (from > 0).then(|| asked(0)),
        next: (next < found.len()).then(|| asked(next)),
        queue: &queue,
    };
    let status = if snapshot.is_some() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let live = format!("/live/failures?{}", asked(from));
    Ok(Content {
        title: "Failures".to_owned(),
        tab: "failures",
        html: render(&page)?,
        status,
        live: Some(live),
        notice: Notice::of(params),
    })
}

/// The states of jobs, by queue and id.
type States = BTreeMap<String, BTreeMap<JobId, JobState>>;

/// The present states of the last jobs of these patterns, without jobs that were deleted. A queue
/// without an answer is left out.
async fn states_of_jobs(shared: &Shared, kinds: &[(&String, FailurePattern)]) -> States {
    let mut ids = BTreeMap::<&String, Vec<JobId>>::new();
    for (queue, failure) in kinds {
        ids.entry(*queue).or_default().extend(failure.jobs.iter().cloned());
    }
    let calls = ids.into_iter().map(|(queue, ids)| {
        async move {
            let diagnosis = timeout(DEADLINE, shared.client.broker().diagnose(queue, &ids)).await.ok()?.ok()?;
            let states = diagnosis.into_iter().flatten().map(|diagnosis| (diagnosis.job.id.clone(), diagnosis.job.state));
            Some((queue.clone(), states.collect()))
        }
        .boxed()
    });
    together(calls.collect()).await.into_iter().flatten().collect()
}
