//! `dashboard`: serves the dashboard for browsers.

use std::{io::IsTerminal, net::SocketAddr, path::PathBuf};

use queue_core::{Client, Error};
use queue_dashboard::{Options, Server};

use super::{
    exit::{Exit, Failure, note},
    log::Log,
    output::print,
    stop::asked_to_stop,
};

/// The environment variable with the token.
const TOKEN: &str = "QUEUE_DASHBOARD_TOKEN";

pub(super) const HELP: &str = "Examples:
  {bin} dashboard                              read-only, at http://127.0.0.1:7070
  {bin} dashboard --allow-actions              with buttons: pause, requeue, cancel, delete
  {bin} dashboard --bind 10.0.0.5:7070 --token-file token.txt --host queue.internal
  {bin} dashboard --base /ops/queue            behind a proxy, as https://shop.example.com/ops/queue

A visitor needs the token: of --token-file, else of QUEUE_DASHBOARD_TOKEN, else a random one,
which is part of the printed address. Another than a loopback address needs a token of yours.
The traffic is not encrypted: in a network put a proxy with TLS before it.
Every change is a line of the log.";

#[derive(Debug, clap::Args)]
pub(super) struct DashboardArgs {
    /// Listen on this address
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7070")]
    bind: SocketAddr,
    /// Allow visitors to pause queues and to requeue, promote, cancel and delete jobs
    #[arg(long)]
    allow_actions: bool,
    /// Read the token from this file, at least 16 characters
    #[arg(long, value_name = "FILE", conflicts_with = "insecure_no_auth")]
    token_file: Option<PathBuf>,
    /// Require no token; only on a loopback address. Every program and user of this machine can
    /// then use the dashboard
    #[arg(long)]
    insecure_no_auth: bool,
    /// Also accept this host name besides localhost, with the port in the browser's address bar if
    /// a proxy replaces the header Host; repeat the option for several
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// The path under which browsers see the dashboard behind a proxy, such as /ops/queue
    #[arg(long, value_name = "PATH", default_value = "")]
    base: String,
    /// Also hide the values of fields with this name, besides those that look like secrets; repeat
    /// the option for several
    #[arg(long, value_name = "FIELD")]
    hide: Vec<String>,
}

pub(super) async fn dashboard(look: impl AsyncFnOnce() -> Result<Client, Error>, args: DashboardArgs) -> Result<(), Failure> {
    let log = Log::begin(None)?;
    let mut options = Options::default();
    options.bind = args.bind;
    options.token = token(&args)?;
    options.no_auth = args.insecure_no_auth;
    options.allow_actions = args.allow_actions;
    options.hosts.clone_from(&args.host);
    options.base.clone_from(&args.base);
    options.hide.clone_from(&args.hide);
    let setup = |error: &dyn std::error::Error| Failure::new(Exit::Setup, error.to_string());
    let server = Server::bind(look().await?, options).await.map_err(|error| setup(&error))?;
    print(&server.url()?)?;
    if std::io::stderr().is_terminal() {
        note(if args.allow_actions { "Ctrl-C stops it" } else { "read-only; --allow-actions adds the buttons; Ctrl-C stops it" });
    }
    let ended = server.run(asked_to_stop()).await.map_err(|error| setup(&error));
    log.end().await;
    ended
}

fn token(args: &DashboardArgs) -> Result<Option<String>, Failure> {
    if args.insecure_no_auth {
        return Ok(None);
    }
    let token = match &args.token_file {
        Some(path) => {
            let read = std::fs::read_to_string(path);
            read.map_err(|error| Failure::new(Exit::Setup, format!("cannot read the token from {}: {error}", path.display())))?
        }
        None => match std::env::var(TOKEN) {
            Err(std::env::VarError::NotPresent) => return Ok(None),
            token => token.map_err(|error| Failure::new(Exit::Setup, format!("{TOKEN}: {error}; `openssl rand -hex 16` makes a token")))?,
        },
    };
    let token = token.trim();
    if token.is_empty() {
        let what = if args.token_file.is_some() { "the file of --token-file" } else { TOKEN };
        return Err(Failure::new(
            Exit::Setup,
            format!("{what} is empty: `openssl rand -hex 16` makes a token; without one, a random one is printed"),
        ));
    }
    Ok(Some(token.to_owned()))
}
