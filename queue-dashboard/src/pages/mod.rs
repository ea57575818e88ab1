//! One page a file. `mod` has the frame around all of them.

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

/// Most queues that a list over all queues asks for one page.
const QUEUES: usize = 320;

/// How many of them it asks at once.
const QUEUES_AT_ONCE: usize = 32;

/// Most queues that a filter offers as choices.
const CHOICES: usize = 200;

/// What a page shows, without the frame.
pub(crate) struct Content {
    pub(crate) title: String,
    pub(crate) tab: &'static str,
    pub(crate) html: String,
    pub(crate) status: StatusCode,
    /// Where the stream that keeps it up to date is, behind the base; `None`: it does not change.
    pub(crate) live: Option<String>,
    /// What the change has done that led here.
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
    /// Who is signed in, and what they may do.
    person: String,
}

/// The page whole.
pub(crate) fn whole(shared: &Shared, viewer: &Viewer, content: &Content) -> Response {
    let location = shared.client.info().location;
    framed(viewer, content, &location)
}

fn framed(viewer: &Viewer, content: &Content, location: &str) -> Response {
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

/// The page of an error.
pub(crate) fn problem(viewer: &Viewer, problem: &Problem) -> Response {
    #[derive(Template)]
    #[template(path = "problem.html")]
    struct Page<'a> {
        viewer: &'a Viewer,
        problem: &'a Problem,
    }
    let page = Page { viewer, problem };
    match page.render() {
        Ok(html) => framed(
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

/// What the script puts above an open page that cannot be made anew now. It knows when the page was
/// made.
pub(crate) fn late(problem: &Problem) -> String {
    #[derive(Template)]
    #[template(path = "late.html")]
    struct Banner<'a> {
        problem: &'a Problem,
    }
    Banner { problem }.render().unwrap_or_else(|_| problem.title.to_owned())
}

/// What stands above a page when its figures are old or missing.
pub(crate) struct Stale {
    pub(crate) problem: String,
    /// When the figures are from.
    pub(crate) since: Option<Moment>,
}

impl Stale {
    pub(crate) fn of(view: &View) -> Option<Stale> {
        let since = view.snapshot.as_ref().map(|snapshot| Moment::new(snapshot.at, SystemTime::now()));
        view.problem.clone().map(|problem| Stale { problem, since })
    }
}

/// Whether a browser looks for this address on the same host: `//host` and `/\\host` name another
/// one.
pub(crate) fn is_local(address: &str) -> bool {
    address.starts_with('/') && !address.starts_with("//") && address.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
}

impl Viewer {
    /// The address of the overview: a router that is nested at `/queue` has no page at `/queue/`.
    pub(crate) fn home(&self) -> &str {
        if self.base.is_empty() { "/" } else { &self.base }
    }

    /// The address for a browser of a path that starts with `/`. The base itself with a slash
    /// behind it comes here as a path.
    pub(crate) fn address(&self, page: &str) -> String {
        let (path, query) = page.split_at(page.find('?').unwrap_or(page.len()));
        let path = path.trim_end_matches('/');
        let path = if path == self.base { "" } else { path };
        let address = if path.is_empty() { format!("{}{query}", self.home()) } else { format!("{}{path}{query}", self.base) };
        if is_local(&address) { address } else { self.home().to_owned() }
    }

    /// Whether to offer what needs this role.
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

/// A template that cannot be written says so as a problem.
pub(crate) fn written(template: &impl Template) -> Result<String, Problem> {
    template.render().map_err(|error| Problem::invalid(format!("The page cannot be written: {error}")))
}
