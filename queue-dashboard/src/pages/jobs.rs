//! The page Jobs: the jobs of a state, of one queue or of all, filtered by task and text, and the
//! actions for the selected jobs.

use std::{sync::Arc, time::SystemTime};

use askama::Template;
use axum::{
    Extension,
    extract::{RawQuery, State},
    http::StatusCode,
    response::Response,
};
use queue_core::{
    JobState,
    broker::LAST,
    inspect::{Change, JobRecord},
};

use super::{Content, Stale, full_page, render};
use crate::{
    format::{Moment, number, short, short_id},
    guard::Viewer,
    jobs::{PAGES, Place, Text, Wanted, find, next_page},
    params::{Params, query},
    paths::path_of,
    problem::Problem,
    secrets::Secrets,
    shared::Shared,
    snapshot::Snapshot,
};

/// The maximum number of names in the selection of queues. Other names can be typed.
const CHOICES: usize = 500;

#[derive(Template)]
#[template(path = "jobs.html")]
struct Page<'a> {
    viewer: &'a Viewer,
    stale: Option<Stale>,
    tabs: Vec<Tab>,
    state: &'static str,
    queue: String,
    queues: Vec<String>,
    task: String,
    text: String,
    /// The reason why the text is not a valid filter, if it looks like one.
    hint: Option<String>,
    rows: Vec<Row>,
    has_errors: bool,
    /// Whether jobs in this state wait for a condition.
    waits: bool,
    verbs: Vec<Verb>,
    narrowed: bool,
    read: String,
    total_text: String,
    back: String,
    first: Option<String>,
    next: Option<String>,
    newest: Option<String>,
    /// The address of the next page, if the search continues automatically.
    continues: Option<String>,
    /// Whether all jobs of this queue and state can be changed at once.
    has_all: bool,
}

struct Tab {
    state: &'static str,
    count: String,
    is_empty: bool,
    query: String,
}

struct Row {
    address: String,
    path: String,
    id: String,
    short_id: String,
    queue: String,
    task: String,
    when: Option<Moment>,
    when_label: &'static str,
    failures: u32,
    crashes: u32,
    priority: &'static str,
    error: Option<String>,
    held_by: Option<String>,
    /// The reason why it waits, as a short text and as a sentence.
    waiting: Option<(String, String)>,
}

/// An action for jobs of a state.
#[derive(Clone, Copy)]
pub(crate) struct Verb {
    pub(crate) name: &'static str,
    pub(crate) is_harmful: bool,
}

/// The actions for a state that the viewer may use.
pub(crate) fn verbs(state: JobState, viewer: &Viewer) -> Vec<Verb> {
    let may = |change: &Change| if *change == Change::Delete { viewer.deletes() } else { viewer.operates() };
    let all = Change::ALL.into_iter().filter(|change| change.applies_to(state)).filter(may);
    all.map(|change| Verb { name: change.name(), is_harmful: matches!(change, Change::Cancel | Change::Delete) }).collect()
}

/// The result of a change, from the address of the page: only numbers, so that a link cannot inject
/// text.
pub(crate) struct Notice {
    pub(crate) text: String,
    pub(crate) is_good: bool,
}

impl Notice {
    pub(crate) fn of(params: &Params) -> Option<Notice> {
        let (n, of) = (params.number::<0, 100>("n").get(), params.number::<0, 100>("of").get());
        let did = params.get("did")?;
        let plain = |text: &str| Some(Notice { text: text.to_owned(), is_good: true });
        let did = match Change::ALL.into_iter().find(|change| change.name() == did) {
            Some(change) => change.done(),
            None if did == "edit" => return plain("The job was changed."),
            None if did == "edit-tags" => {
                return plain(
                    "The job was changed. Tags keep the values of the old parameters, because this program does not have the task.",
                );
            }
            None if did == "edit-none" => return plain("The job already has these values. Nothing was changed."),
            None if did == "duplicate" => return plain("This is the copy. The original job is unchanged."),
            None if did == "duplicate-unserved" => {
                let text = "This is the copy. No worker has ever served its queue: it waits until one does.".to_owned();
                return Some(Notice { text, is_good: false });
            }
            None if did == "pause" => return plain("The queue is paused."),
            None if did == "resume" => return plain("The queue is resumed."),
            None if did == "pause-task" => return plain("The task is paused: workers park its jobs."),
            None if did == "resume-task" => return plain("The task is resumed."),
            None => return None,
        };
        if params.get("all").is_some() {
            let (all, left) = (params.number::<0, { u64::MAX }>("all").get(), params.number::<0, { u64::MAX }>("left").get());
            let rest = match left {
                0 => String::new(),
                _ if params.get("more").is_some() => " There may be more: do it again for those.".to_owned(),
                _ => format!(" {} are left: do it again for those.", number(left)),
            };
            let jobs = if all == 1 { "job was" } else { "jobs were" };
            return Some(Notice { text: format!("{} {jobs} {did}.{rest}", number(all)), is_good: left == 0 });
        }
        let text = match (n, of) {
            (_, 0) => "No job was selected. Nothing was changed.".to_owned(),
            (0, 1) => format!("The job was not {did}: it is in another state now."),
            (0, of) => format!("None of the {of} jobs was {did}: they are in another state now."),
            (n, of) if n < of => format!("{n} of {of} jobs were {did}; the others are in another state now."),
            (1, _) => format!("1 job was {did}."),
            (n, _) => format!("{n} jobs were {did}."),
        };
        Some(Notice { text, is_good: n > 0 && n == of })
    }
}

/// The parameters of the address.
struct Asked {
    queue: String,
    state: JobState,
    task: String,
    text: String,
    from: Place,
    /// The number of jobs that the earlier pages of the same search have read.
    read: u64,
}

impl Asked {
    fn read(params: &Params, snapshot: Option<&Snapshot>) -> Result<Asked, Problem> {
        let queue = params.text::<128>("queue");
        let state = match params.get("state") {
            Some(state) => state.parse()?,
            None => default_state(snapshot, &queue),
        };
        let from = Place { queue: params.text::<128>("at"), offset: params.number::<0, { u64::MAX }>("offset").get() };
        let from = if queue.is_empty() { from } else { Place { queue: queue.clone(), ..from } };
        Ok(Asked {
            queue,
            state,
            task: params.text::<128>("task"),
            text: params.text::<200>("text"),
            from,
            read: params.number::<0, { u64::MAX }>("read").get(),
        })
    }

    fn query(&self, state: JobState, from: Option<&Place>) -> String {
        let (queue, task, text) = (self.queue.as_str(), self.task.as_str(), self.text.as_str());
        let at = from.map(|place| place.queue.clone()).filter(|_| queue.is_empty()).unwrap_or_default();
        let offset = from.map(|place| place.offset.to_string()).unwrap_or_default();
        query(&[("state", state.name()), ("queue", queue), ("task", task), ("text", text), ("at", &at), ("offset", &offset)])
    }
}

/// The state if the address has none: the first of the states that operators most often look for.
fn default_state(snapshot: Option<&Snapshot>, queue: &str) -> JobState {
    use JobState::{Active, Dead, Done, Parked, Ready, Retry, Scheduled};
    let queue = Some(queue).filter(|queue| !queue.is_empty());
    let has = |state: &JobState| snapshot.is_some_and(|snapshot| snapshot.count(queue, *state) > 0);
    [Dead, Parked, Retry, Active, Ready, Scheduled, Done].into_iter().find(has).unwrap_or(Ready)
}

pub(crate) async fn page(State(shared): State<Arc<Shared>>, Extension(viewer): Extension<Viewer>, RawQuery(query): RawQuery) -> Response {
    match content(&shared, &viewer, &Params::parse(query.unwrap_or_default().as_bytes())).await {
        Ok(content) => full_page(&shared, &viewer, &content),
        Err(problem) => problem.page(&viewer),
    }
}

pub(crate) async fn content(shared: &Shared, viewer: &Viewer, params: &Params) -> Result<Content, Problem> {
    let view = shared.view().await;
    let snapshot = view.snapshot.as_deref();
    let asked = Asked::read(params, snapshot)?;
    let names: Vec<String> = snapshot.map(|snapshot| snapshot.queues.iter().map(|queue| queue.name.clone()).collect()).unwrap_or_default();
    let chosen = if asked.queue.is_empty() {
        let has_some =
            |name: &&String| snapshot.is_some_and(|snapshot| snapshot.queue(name).is_some_and(|queue| queue.stats.count(asked.state) > 0));
        names.iter().filter(has_some).cloned().collect()
    } else {
        vec![asked.queue.clone()]
    };
    let _permit = shared.list_permit().await?;
    let (text, hint) = Text::read(&asked.text);
    let wanted = Wanted { state: asked.state, task: asked.task.clone(), text };
    let found = find(&shared.inspector, &chosen, &asked.from, &wanted, &shared.settings.secrets).await?;
    let mut jobs = found.jobs;
    for of_queue in jobs.chunk_by_mut(|one, other| one.address.queue == other.address.queue) {
        let queue = of_queue[0].address.queue.clone();
        shared.inspector.add_reasons(&queue, of_queue).await?;
    }
    let (now, of_one) = (SystemTime::now(), Some(asked.queue.as_str()).filter(|queue| !queue.is_empty()));
    let count = |state| snapshot.map_or(0, |snapshot| snapshot.count(of_one, state));
    let total = count(asked.state);
    let at_start = asked.from.offset == 0 && (asked.from.queue.is_empty() || !asked.queue.is_empty());
    let newest = (asked.state.is_final() && of_one.is_some() && total > 50 && found.next.is_some())
        .then(|| asked.query(asked.state, Some(&Place { queue: asked.queue.clone(), offset: LAST })));
    let narrowed = !asked.task.is_empty() || !asked.text.is_empty();
    let read = asked.read.saturating_add(found.read as u64);
    let continues = next_page(params, jobs.len(), narrowed && found.next.is_some());
    let next = |page: u64| {
        let here = asked.query(asked.state, Some(found.next.as_ref()?));
        if !narrowed {
            return Some(here);
        }
        Some(format!("{here}&{}", query(&[("read", &read.to_string()), ("pages", &page.to_string())])))
    };
    let page = Page {
        viewer,
        stale: Stale::of(&view),
        tabs: JobState::ALL
            .map(|state| Tab {
                state: state.name(),
                count: number(count(state)),
                is_empty: count(state) == 0,
                query: asked.query(state, None),
            })
            .into(),
        state: asked.state.name(),
        rows: jobs.iter().map(|job| Row::new(job, snapshot, &shared.settings.secrets, now)).collect(),
        hint,
        waits: !asked.state.is_final() && asked.state != JobState::Active,
        has_errors: matches!(asked.state, JobState::Dead | JobState::Retry | JobState::Cancelled),
        verbs: verbs(asked.state, viewer),
        narrowed,
        read: number(read),
        total_text: number(total),
        back: format!("jobs?{}", asked.query(asked.state, Some(&asked.from))),
        first: (!at_start).then(|| asked.query(asked.state, None)),
        // A link stops a search that continues automatically, or lets it continue for another
        // minute.
        next: next(if continues.is_some() { PAGES } else { 0 }),
        continues: continues.and_then(next),
        newest,
        has_all: of_one.is_some() && asked.task.is_empty() && asked.text.is_empty() && total > jobs.len() as u64,
        queues: names.into_iter().take(CHOICES).collect(),
        queue: asked.queue.clone(),
        task: asked.task.clone(),
        text: asked.text.clone(),
    };
    // A page of a search without results is not refreshed. A live page does not continue
    // automatically.
    let is_live = !narrowed || !jobs.is_empty() || found.next.is_none();
    let live = is_live.then(|| format!("/live/jobs?{}&read={}&pages={PAGES}", asked.query(asked.state, Some(&asked.from)), asked.read));
    Ok(Content {
        title: format!("Jobs, {}", asked.state),
        tab: "jobs",
        html: render(&page)?,
        status: StatusCode::OK,
        live,
        notice: Notice::of(params),
    })
}

impl Row {
    fn new(job: &JobRecord, snapshot: Option<&Snapshot>, secrets: &Secrets, now: SystemTime) -> Self {
        let id = job.address.id.to_string();
        let (when, when_label) = match (job.due_at, job.ended_at, job.enqueued_at) {
            _ if job.running.is_some() => (job.running.as_ref().map(|running| running.since), "runs since"),
            (Some(due), ..) => (Some(due), "due"),
            (_, Some(ended), _) => (Some(ended), "ended"),
            (.., enqueued) => (enqueued, "enqueued"),
        };
        let held_by = super::job::holder_name(job, snapshot);
        let error = secrets.error_of(job);
        Row {
            address: job.address.to_string(),
            path: path_of(&job.address),
            queue: job.address.queue.to_string(),
            task: job.task.clone().unwrap_or_else(|| "(cannot be decoded)".to_owned()),
            when: when.map(|when| Moment::new(when, now)),
            when_label,
            failures: job.failures,
            crashes: job.crashes,
            priority: match job.priority.name() {
                "normal" => "",
                other => other,
            },
            error: error.map(|error| short(&error, 140)),
            held_by,
            waiting: job.waiting.first().map(|reason| (short(&reason.brief(), 40), reason.to_string())),
            short_id: short_id(&id),
            id,
        }
    }
}
