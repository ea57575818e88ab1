//! The pages, one per file. `mod` has the frame of all pages.

pub(crate) mod act;
mod act_all;
pub(crate) mod act_groups;
pub(crate) mod act_limits;
pub(crate) mod act_schedules;
pub(crate) mod act_topics;
pub(crate) mod act_workers;
mod chart;
mod confirm;
pub(crate) mod edit;
pub(crate) mod failures;
pub(crate) mod group;
pub(crate) mod groups;
pub(crate) mod history;
pub(crate) mod job;
pub(crate) mod jobs;
pub(crate) mod limit;
pub(crate) mod limits;
pub(crate) mod metrics;
pub(crate) mod operation;
pub(crate) mod operations;
pub(crate) mod overview;
mod pauses;
pub(crate) mod queues;
pub(crate) mod schedule;
pub(crate) mod schedules;
pub(crate) mod search;
pub(crate) mod sign_in;
pub(crate) mod topic;
pub(crate) mod topics;
mod unread;
pub(crate) mod watch;
pub(crate) mod worker;
pub(crate) mod workers;

use std::time::SystemTime;

use askama::Template;
use axum::{
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};

use crate::{
    assets::{NAMES, Names},
    format::Moment,
    guard::Viewer,
    pages::jobs::Notice,
    problem::Problem,
    role::Role,
    shared::{Shared, View},
};

/// The maximum number of queues that one page of a list over all queues reads.
const QUEUES: usize = 320;

/// The number of queues that it reads concurrently.
const QUEUES_AT_ONCE: usize = 32;

/// The maximum number of queues in the selection of a filter.
const CHOICES: usize = 200;

/// The content of a page, without the frame.
pub(crate) struct Content {
    pub(crate) title: String,
    pub(crate) tab: &'static str,
    pub(crate) html: String,
    pub(crate) status: StatusCode,
    /// The address of the stream that updates it, relative to the base. `None`: it does not change.
    pub(crate) live: Option<String>,
    /// The result of the change that has led to this page.
    pub(crate) notice: Option<Notice>,
}

#[derive(Template)]
#[template(path = "layout.html")]
struct Layout<'a> {
    base: &'a str,
    home: &'a str,
    names: &'a Names,
    content: &'a Content,
    tab: &'static str,
    location: &'a str,
    /// The user who is signed in, and the role.
    person: String,
}

/// The complete page.
pub(crate) fn full_page(shared: &Shared, viewer: &Viewer, content: &Content) -> Response {
    let location = shared.client.info().location;
    with_frame(viewer, content, &location)
}

fn with_frame(viewer: &Viewer, content: &Content, location: &str) -> Response {
    let person = viewer.person.as_ref().map(|person| {
        let may = if viewer.read_only { "read-only".to_owned() } else { format!("role {}", person.role()) };
        if person.name() == "-" { may } else { format!("{}, {may}", person.name()) }
    });
    let layout = Layout {
        base: &viewer.base,
        home: viewer.home(),
        names: &NAMES,
        content,
        tab: content.tab,
        location,
        person: person.unwrap_or_default(),
    };
    answer(content.status, layout.render())
}

/// The page of a problem.
pub(crate) fn problem(viewer: &Viewer, problem: &Problem) -> Response {
    #[derive(Template)]
    #[template(path = "problem.html")]
    struct Page<'a> {
        viewer: &'a Viewer,
        problem: &'a Problem,
    }
    let page = Page { viewer, problem };
    match page.render() {
        Ok(html) => with_frame(
            viewer,
            &Content { title: problem.title.to_owned(), tab: "", html, status: problem.status, live: None, notice: None },
            "",
        ),
        Err(error) => answer(problem.status, Err(error)),
    }
}

fn answer(status: StatusCode, html: askama::Result<String>) -> Response {
    match html {
        Ok(html) => (status, [(CONTENT_TYPE, "text/html; charset=utf-8")], html).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("the page cannot be written: {error}")).into_response(),
    }
}

/// The banner that the script shows above an open page that cannot be rendered now. The script has
/// the time of the last rendering.
pub(crate) fn stale_page_message(problem: &Problem) -> String {
    #[derive(Template)]
    #[template(path = "late.html")]
    struct Banner<'a> {
        problem: &'a Problem,
    }
    Banner { problem }.render().unwrap_or_else(|_| problem.title.to_owned())
}

/// The banner above a page with old or missing figures.
pub(crate) struct Stale {
    pub(crate) problem: String,
    /// The time of the figures.
    pub(crate) since: Option<Moment>,
}

impl Stale {
    pub(crate) fn of(view: &View) -> Option<Stale> {
        let since = view.snapshot.as_ref().map(|snapshot| Moment::new(snapshot.at, SystemTime::now()));
        view.problem.clone().map(|problem| Stale { problem, since })
    }
}

/// Whether a browser resolves this address on the same host. `//host` and `/\\host` name another
/// host.
pub(crate) fn is_local(address: &str) -> bool {
    address.starts_with('/') && !address.starts_with("//") && address.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
}

impl Viewer {
    /// The address of the overview: a router that is nested at `/queue` has no page at `/queue/`.
    pub(crate) fn home(&self) -> &str {
        if self.base.is_empty() { "/" } else { &self.base }
    }

    /// The address for a browser of a path that starts with `/`. The base itself with a trailing
    /// slash is also passed as such a path.
    pub(crate) fn address(&self, page: &str) -> String {
        let (path, query) = page.split_at(page.find('?').unwrap_or(page.len()));
        let path = path.trim_end_matches('/');
        let path = if path == self.base { "" } else { path };
        let address = if path.is_empty() { format!("{}{query}", self.home()) } else { format!("{}{path}{query}", self.base) };
        if is_local(&address) { address } else { self.home().to_owned() }
    }

    /// Whether to show actions that need this role.
    pub(crate) fn may(&self, role: Role) -> bool {
        !self.read_only && self.person.as_ref().is_some_and(|person| person.role() >= role)
    }

    pub(crate) fn operates(&self) -> bool {
        self.may(Role::Operate)
    }

    pub(crate) fn deletes(&self) -> bool {
        self.may(Role::Admin)
    }
}

/// Renders a template. An error is returned as a problem.
pub(crate) fn render(template: &impl Template) -> Result<String, Problem> {
    template.render().map_err(|error| Problem::invalid(format!("The page cannot be written: {error}")))
}
