//! A dashboard for the queues of [`queue_core`]: counts of waiting, running and failed jobs,
//! problems, and the actions that fix them.
//!
//! In an application with axum it is one line. Say for each request who makes it and what they may
//! do:
//!
//! ```no_run
//! use axum::{Router, http::request::Parts};
//! use queue_core::Client;
//! use queue_dashboard::{Person, Role};
//!
//! /// What a layer of the application has found out about the visitor.
//! #[derive(Clone)]
//! struct User {
//!     name: String,
//!     on_call: bool,
//! }
//!
//! fn role_of(request: &Parts) -> Option<Person> {
//!     let user = request.extensions.get::<User>()?;
//!     Some(Person::new(&user.name, if user.on_call { Role::Operate } else { Role::View }))
//! }
//!
//! # fn example(client: Client) -> Router {
//! Router::new().nest("/queue", queue_dashboard::router(client).authorize(role_of))
//! # }
//! ```
//!
//! Without an application, `shop-worker dashboard` and `queue dashboard` serve it on the loopback
//! address ([`Server`]).
//!
//! Pages are made on the server and work without script. A small script keeps them up to date while
//! their tab is visible. Styles and script are part of the binary; a page loads nothing from
//! elsewhere. The dashboard uses [`Client`](queue_core::Client) and
//! [`Inspector`](queue_core::inspect::Inspector) only, and costs nothing while nobody looks.
//!
//! # Safety
//!
//! - A request without a role gets nothing but the style sheet and the script.
//! - [`Role::View`] reads, [`Role::Operate`] also pauses queues, pauses, runs and backfills
//!   schedules, and requeues, promotes and cancels jobs, [`Role::Admin`] also deletes jobs. The
//!   server checks the role of each route. With [`Dashboard::read_only`] the routes that change
//!   something do not exist.
//! - The `Host` of a request must be a loopback name, or one of [`Dashboard::hosts`]: so another
//!   site cannot reach the dashboard under a name of its own (DNS rebinding).
//! - A change needs a request from a page of the dashboard: its `Sec-Fetch-Site` or `Origin`, and a
//!   token in form and cookie, are compared.
//! - Texts of jobs are escaped by the templates, and the content security policy allows no inline
//!   script.
//! - Values of parameters, results and headers whose names look like secrets are hidden, see
//!   [`Dashboard::hide`].
//! - Each change is a log line with the target `queue_dashboard::audit`: who, what, which jobs.

mod assets;
mod cookie;
mod findings;
mod format;
mod guard;
mod history;
mod jobs;
mod live;
mod pages;
mod params;
mod paths;
mod problem;
mod role;
mod router;
mod routes;
mod secrets;
mod serve;
mod server;
mod shared;
mod snapshot;

pub use self::{
    role::{Person, Role},
    router::{Authorized, Dashboard, MissingAuthorize, router},
    server::{Options, Server, SetupError},
};

// The examples of the chapter compile.
#[cfg(doctest)]
#[doc = include_str!("../../docs/dashboard.md")]
struct Chapter;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

// So do those about web applications, which need axum.
#[cfg(doctest)]
#[doc = include_str!("../../docs/web.md")]
struct AboutWebApplications;

/// What the tests of this crate compare with: each route with its method, its path and the role
/// that it needs.
#[doc(hidden)]
pub fn __routes(read_only: bool, signs_in: bool) -> Vec<(&'static str, &'static str, Option<Role>)> {
    routes::table(read_only, signs_in).into_iter().map(|route| (route.method, route.path, route.least)).collect()
}
