//! A dashboard with its own server, for command lines: on the loopback address, and with a token.

use std::{fmt, io, net::SocketAddr, sync::Arc};

use axum::{
    Router,
    http::{Method, Uri, request::Parts},
    routing::get,
};
use queue_core::Client;
use tokio::net::TcpListener;

use crate::{
    cookie::{cookie, is_same_secret, secret},
    guard::bearer,
    params::Params,
    role::{Person, Role},
    router,
    router::path_of_base,
    serve::serve,
};

/// The minimum length of a token.
const SHORTEST: usize = 16;

/// The options of a server.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// The address on which it listens. Default: `127.0.0.1:7070`. Any other address than a
    /// loopback address needs an explicit [`token`](Self::token), because every client in the
    /// network can reach it.
    pub bind: SocketAddr,
    /// The token that visitors need: at least 16 characters. Default: a random token, which is part
    /// of [`Server::url`].
    pub token: Option<String>,
    /// Accepts all visitors that can reach the address, which must be a loopback address. Default:
    /// false.
    pub no_auth: bool,
    /// Allows visitors to pause queues and change jobs. Default: false, the dashboard is read-only.
    pub allow_actions: bool,
    /// Further host names of the dashboard, in addition to `localhost` and loopback addresses, see
    /// [`Dashboard::hosts`](crate::Dashboard::hosts).
    pub hosts: Vec<String>,
    /// The path of the dashboard in browsers, such as `/ops/queue`. A proxy may pass this path on
    /// or remove it. Default: none.
    pub base: String,
    /// Further names of fields whose values are hidden, see
    /// [`Dashboard::hide`](crate::Dashboard::hide).
    pub hide: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        let bind = SocketAddr::from(([127, 0, 0, 1], 7070));
        Options { bind, token: None, no_auth: false, allow_actions: false, hosts: Vec::new(), base: String::new(), hide: Vec::new() }
    }
}

impl fmt::Debug for Options {
    /// The token is left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options { bind, no_auth, allow_actions, hosts, base, .. } = self;
        f.debug_struct("Options")
            .field("bind", bind)
            .field("no_auth", no_auth)
            .field("allow_actions", allow_actions)
            .field("hosts", hosts)
            .field("base", base)
            .finish()
    }
}

/// The reason why a dashboard cannot be served: its options are unsafe, or it cannot listen on the
/// address.
#[derive(Debug)]
pub struct SetupError(String);

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SetupError {}

/// A dashboard that listens on its address.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    client: Client,
    options: Options,
    token: Option<String>,
}

impl Server {
    /// Checks the options, and listens.
    ///
    /// # Errors
    /// [`SetupError`] if the options would give access to everyone in the network, or if it cannot
    /// listen on the address.
    pub async fn bind(client: Client, options: Options) -> Result<Server, SetupError> {
        let bind = options.bind;
        if !bind.ip().is_loopback() && (options.no_auth || options.token.is_none()) {
            let why =
                if options.no_auth { "without a token, everyone on the network could use it" } else { "it requires a token that you set" };
            return Err(SetupError(format!(
                "the dashboard does not listen on {bind}: {why}; set QUEUE_DASHBOARD_TOKEN or --token-file, or bind a loopback address as 127.0.0.1:{}",
                bind.port()
            )));
        }
        if !options.base.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._~-".contains(&byte)) {
            return Err(SetupError(format!(
                "the base `{}` has other characters than letters, digits, `/`, `.`, `_`, `~` and `-`; name a path such as /ops/queue",
                options.base
            )));
        }
        if options.token.as_deref().is_some_and(|token| token.chars().count() < SHORTEST) {
            return Err(SetupError(format!(
                "the token of the dashboard is shorter than {SHORTEST} characters; `openssl rand -hex 16` makes one"
            )));
        }
        let token = match (&options.token, options.no_auth) {
            (_, true) => None,
            (Some(token), _) => Some(token.clone()),
            (None, _) => Some(random()?),
        };
        let listener = TcpListener::bind(bind)
            .await
            .map_err(|error| SetupError(format!("cannot listen on {bind}: {error}; choose another address with --bind")))?;
        Ok(Server { listener, client, options, token })
    }

    /// The address on which it listens.
    ///
    /// # Errors
    /// Those of the system.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The address for a browser. It contains the token if the token is random. Opening it signs
    /// the visitor in.
    ///
    /// # Errors
    /// Those of the system.
    pub fn url(&self) -> io::Result<String> {
        let (address, base) = (self.address()?, path_of_base(&self.options.base));
        let slash = if base.is_empty() { "/" } else { "" };
        Ok(match &self.token {
            Some(token) if self.options.token.is_none() => format!("http://{address}{base}{slash}?token={token}"),
            _ => format!("http://{address}{base}{slash}"),
        })
    }

    /// Serves the dashboard until a future is ready, for at most 256 concurrent connections. A
    /// client has 10 s for each request. Open pages do not delay the end.
    ///
    /// # Errors
    /// [`SetupError`] if the system cannot provide random numbers.
    pub async fn run(self, until: impl Future<Output = ()> + Send + 'static) -> Result<(), SetupError> {
        use futures_util::FutureExt;
        let until = until.boxed().shared();
        let address = self.address().map_err(|error| SetupError(error.to_string()))?;
        let role = if self.options.allow_actions { Role::Admin } else { Role::View };
        let mut hosts = self.options.hosts.clone();
        if !address.ip().is_unspecified() {
            hosts.push(address.to_string());
        }
        let mut dashboard = router(self.client).hosts(hosts).hide(&self.options.hide).until(until.clone());
        if !self.options.allow_actions {
            dashboard = dashboard.read_only();
        }
        if let Some(token) = &self.token {
            dashboard.settings.sign_in = Some(SignIn::new(token, address.port())?);
        }
        let who = if self.token.is_some() { "token" } else { "anybody" };
        let base = path_of_base(&self.options.base);
        let mut app = dashboard.base(&*base).authorize(move |_: &Parts| Some(Person::new(who, role)));
        // This route has no guard: a probe does not sign in, and its `Host` is the address of a
        // container.
        app = app.route("/health", get(async || "ok\n"));
        if !base.is_empty() {
            app = Router::new().nest(&base, app.clone()).fallback_service(app);
        }
        serve(self.listener, app, until).await;
        Ok(())
    }
}

/// Accepts visitors with the token. A browser stores a random cookie instead, which is valid until
/// this process ends.
#[derive(Clone)]
pub(crate) struct SignIn(Arc<Inner>);

struct Inner {
    token: String,
    session: String,
    cookie: String,
}

impl SignIn {
    fn new(token: &str, port: u16) -> Result<Self, SetupError> {
        // A browser sends the cookies of a host to all of its ports, so the name contains the port.
        Ok(SignIn(Arc::new(Inner { token: token.to_owned(), session: random()?, cookie: format!("queue_session_{port}") })))
    }

    pub(crate) fn cookie(&self) -> &str {
        &self.0.cookie
    }

    pub(crate) fn is_signed_in(&self, parts: &Parts) -> bool {
        cookie(&parts.headers, &self.0.cookie).is_some_and(|session| is_same_secret(session, &self.0.session))
            || bearer(parts).is_some_and(|token| is_same_secret(token, &self.0.token))
    }

    /// The cookie for a visitor with the token.
    pub(crate) fn open(&self, token: &str) -> Option<String> {
        is_same_secret(token, &self.0.token).then(|| self.0.session.clone())
    }

    /// The same for a link with the token. Also returns the address of its page, without the token.
    pub(crate) fn by_link(&self, parts: &Parts) -> Option<(String, String)> {
        let reads = parts.method == Method::GET || parts.method == Method::HEAD;
        let query = parts.uri.query().filter(|_| reads)?;
        Some((self.open(Params::parse(query.as_bytes()).get("token")?)?, without_token(&parts.uri)))
    }
}

/// The path and the query of an address, without a token.
pub(crate) fn without_token(uri: &Uri) -> String {
    let is_token = |pair: &str| form_urlencoded::parse(pair.as_bytes()).next().is_some_and(|(name, _)| name == "token");
    let rest: Vec<&str> = uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty() && !is_token(pair)).collect();
    if rest.is_empty() { uri.path().to_owned() } else { format!("{}?{}", uri.path(), rest.join("&")) }
}

impl fmt::Debug for SignIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SignIn")
    }
}

fn random() -> Result<String, SetupError> {
    secret().map_err(|error| SetupError(format!("cannot get random numbers from the operating system: {error}")))
}
