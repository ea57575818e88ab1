//! A dashboard for the queues of [`queue_core`]: counts of waiting, running and failed jobs,
//! problems, and the actions that fix them.
//!
//! In an application with axum, adding it takes one line. Return for each request the user and
//! their role:
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
//! Pages are rendered on the server and work without a script. A small script updates them while
//! their tab is visible. Styles and script are part of the binary, and a page loads no other files.
//! The dashboard uses only [`Client`](queue_core::Client) and
//! [`Inspector`](queue_core::inspect::Inspector), and sends no requests while no page is open.
//!
//! # Safety
//!
//! - A request without a role gets only the style sheet and the script.
//! - [`Role::View`] reads. [`Role::Operate`] also pauses queues, pauses, runs and backfills
//!   schedules, and requeues, promotes and cancels jobs. [`Role::Admin`] also deletes jobs. The
//!   server checks the role of each route. With [`Dashboard::read_only`], routes that make changes
//!   do not exist.
//! - The `Host` of a request must be a loopback name, or one of [`Dashboard::hosts`]. Another site
//!   can therefore not reach the dashboard under its own name (DNS rebinding).
//! - A change must come from a page of the dashboard. Its `Sec-Fetch-Site` or `Origin` is checked,
//!   and the token in the form must equal the one in the cookie.
//! - Texts of jobs are escaped by the templates, and the content security policy allows no inline
//!   script.
//! - Values of parameters, results and headers whose names look like secrets are hidden, see
//!   [`Dashboard::hide`].
//! - Each change is a log line with the target `queue_dashboard::audit`: the user, the action and
//!   the jobs.

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

// The examples about web applications need axum.
#[cfg(doctest)]
#[doc = include_str!("../../docs/web.md")]
struct AboutWebApplications;

/// The routes that the tests of this crate compare: each with its method, its path and its role.
#[doc(hidden)]
pub fn __routes(read_only: bool, signs_in: bool) -> Vec<(&'static str, &'static str, Option<Role>)> {
    routes::table(read_only, signs_in).into_iter().map(|route| (route.method, route.path, route.least)).collect()
}
