//! The builder of a dashboard.

use std::{fmt, marker::PhantomData, sync::Arc};

use axum::{Router, http::request::Parts};
use futures_util::FutureExt;
use queue_core::Client;

use crate::{
    role::Person,
    routes,
    secrets::Secrets,
    shared::{Hosts, Settings, Shared},
};

/// A dashboard for the queues of this client. [`authorize`](Dashboard::authorize) turns it into a
/// router.
pub fn router(client: Client) -> Dashboard<MissingAuthorize> {
    let settings =
        Settings { hosts: Hosts::These(Vec::new()), base: None, read_only: false, secrets: Secrets::default(), sign_in: None, until: None };
    Dashboard { client, settings, access: PhantomData }
}

/// A dashboard without access control, which does not serve requests yet. From [`router`].
///
/// A compiler error names [`authorize`](Self::authorize) if it is missing:
///
/// ```compile_fail,E0277
/// # fn example(client: queue_core::Client) -> axum::Router {
/// axum::Router::new().merge(queue_dashboard::router(client))
/// # }
/// ```
#[must_use = "`authorize` makes a router of it"]
pub struct Dashboard<Access> {
    client: Client,
    pub(crate) settings: Settings,
    access: PhantomData<Access>,
}

/// The state of a [`Dashboard`] without [`authorize`](Dashboard::authorize).
#[derive(Debug)]
pub struct MissingAuthorize(());

/// Authorization of a dashboard. No type implements it: `authorize` returns a [`Router`].
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "the dashboard is mounted without `.authorize(..)`, which controls access",
    label = "call `.authorize(..)` on it first",
    note = "for example `queue_dashboard::router(client).authorize(|request| role_of(request))`, which gives an `axum::Router`; \
            `role_of` takes `&axum::http::request::Parts` and gives an `Option<queue_dashboard::Role>`"
)]
pub trait Authorized {}

/// For the message of the compiler.
impl<S, Access: Authorized> From<Dashboard<Access>> for Router<S> {
    fn from(_: Dashboard<Access>) -> Self {
        unreachable!("nothing implements `Authorized`")
    }
}

impl<Access> Dashboard<Access> {
    /// Disables all changes: their routes do not exist. Default: the role of the user decides.
    pub fn read_only(mut self) -> Self {
        self.settings.read_only = true;
        self
    }

    /// Further host names of the dashboard, such as `["shop.example.com"]`. A request with another
    /// `Host` is refused (421). The port of `Host` does not matter. If a proxy replaces `Host`,
    /// name the host and port in the browser's address bar: changes from pages of that address are
    /// then accepted. Default: only `localhost` and loopback addresses.
    pub fn hosts<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        let names = names.into_iter().map(|name| name.into().to_ascii_lowercase());
        match &mut self.settings.hosts {
            Hosts::These(hosts) => hosts.extend(names),
            hosts @ Hosts::Any => *hosts = Hosts::These(names.collect()),
        }
        self
    }

    /// Accepts requests with any `Host`. Use it only behind a proxy or a layer that checks the
    /// host, or if the answer of [`authorize`](Self::authorize) depends on a cookie or a header.
    pub fn any_host(mut self) -> Self {
        self.settings.hosts = Hosts::Any;
        self
    }

    /// Also hides the values of parameters, results and headers with these names. Case, `_` and `-`
    /// are ignored. Always hidden: names that contain `password`, `secret`, `token`, `api_key`,
    /// `authorization`, `cookie`, `credential` or a few similar words.
    pub fn hide<T: AsRef<str>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        names.into_iter().for_each(|name| self.settings.secrets.add(name.as_ref()));
        self
    }

    /// The path of the dashboard in browsers, such as `/ops/queue`, if a proxy removes a part of
    /// it. Default: the path at which the router is nested.
    pub fn base(mut self, path: impl Into<String>) -> Self {
        self.settings.base = Some(path_of_base(&path.into()));
        self
    }

    /// Ends the streams of live pages when this future is ready. Pass the future that stops your
    /// server, because a graceful stop waits for open streams. Default: each stream ends after a
    /// minute, and the page opens another one.
    pub fn until(mut self, stop: impl Future<Output = ()> + Send + 'static) -> Self {
        self.settings.until = Some(stop.boxed().shared());
        self
    }

    /// The router. For each request, `role_of` returns the user and the permissions: a [`Person`],
    /// or a [`Role`](crate::Role) if the name is not known. `None` denies access (401).
    ///
    /// It receives the headers, and the extensions that your layers have set, and must not block.
    /// The dashboard trusts its answer.
    pub fn authorize<S, P>(self, role_of: impl Fn(&Parts) -> Option<P> + Send + Sync + 'static) -> Router<S>
    where
        S: Clone + Send + Sync + 'static,
        P: Into<Person>,
    {
        let role_of = Box::new(move |request: &Parts| role_of(request).map(Into::into));
        routes::router(Arc::new(Shared::new(&self.client, role_of, self.settings)))
    }
}

/// A path as a prefix of others: empty, or as `/ops/queue`.
pub(crate) fn path_of_base(path: &str) -> String {
    let path = path.trim_matches('/');
    if path.is_empty() { String::new() } else { format!("/{path}") }
}

impl<Access> fmt::Debug for Dashboard<Access> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dashboard").field("client", &self.client).field("settings", &self.settings).finish()
    }
}
