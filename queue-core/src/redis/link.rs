//! Our own supervision of connections.
//!
//! A link is one connection that is made again when it breaks, when it does not answer twice in a row (a socket that swallows
//! everything looks alive), when the server turns out to be a replica, and after half an hour. Nothing is sent again inside:
//! callers know whether a request may be repeated. Replies are sorted into what the caller can do about them.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, RedisError, ServerErrorKind, Value,
    aio::{ConnectionLike, MultiplexedConnection},
};
use tokio::runtime::Handle;

use super::{keys::Keys, script::Script};
use crate::{
    broker::CALL_DEADLINE,
    error::{Error, Result},
};

/// A connection is replaced after this time, so that a changed address is noticed.
const MAX_AGE: Duration = Duration::from_secs(30 * 60);

/// Callers who waited for an attempt to connect that failed so lately share its failure.
const FRESH: Duration = Duration::from_millis(100);

/// Unanswered calls in a row after which a connection is given up.
const TIMEOUTS: u32 = 2;

/// One supervised connection. Calls may come from any runtime; its I/O happens on the broker's.
#[derive(Debug)]
pub(super) struct Link {
    client: redis::Client,
    /// Without secrets.
    location: Arc<str>,
    io: Handle,
    /// Grows when the server turns out to be the wrong one: every link to it starts over.
    endpoint: Arc<AtomicU64>,
    state: Mutex<State>,
    connecting: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    connection: Option<MultiplexedConnection>,
    /// Which connection this is: whoever gives one up must mean this one.
    epoch: u64,
    since: Option<Instant>,
    timeouts: u32,
    endpoint: u64,
    /// Why the last attempt to connect failed, for those who waited for it.
    failed: Option<(Instant, Error)>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("epoch", &self.epoch).field("connected", &self.connection.is_some()).finish_non_exhaustive()
    }
}

impl Link {
    pub(super) fn new(client: redis::Client, location: Arc<str>, io: Handle, endpoint: Arc<AtomicU64>) -> Self {
        Link { client, location, io, endpoint, state: Mutex::default(), connecting: tokio::sync::Mutex::new(()) }
    }

    /// Calls a script, with its text where the server does not have it.
    pub(super) async fn script(&self, script: &Script, call: Cmd) -> Result<Value> {
        match self.send(&call).await {
            Err(Refusal::Server(error)) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                self.told(self.send(&script.with_body(&call)).await)
            }
            outcome => self.told(outcome),
        }
    }

    /// Sends a command.
    pub(super) async fn command(&self, command: &Cmd) -> Result<Value> {
        self.told(self.send(command).await)
    }

    async fn send(&self, command: &Cmd) -> Result<Value, Refusal> {
        let connected = tokio::time::timeout(CALL_DEADLINE, self.connection()).await;
        let (mut connection, epoch) = match connected {
            Ok(connected) => connected.map_err(Refusal::Unconnected)?,
            Err(_) => return Err(Refusal::Unconnected(self.unavailable("it does not answer a connection attempt"))),
        };
        let sent = tokio::time::timeout(CALL_DEADLINE, connection.req_packed_command(command)).await;
        match sent.map(|sent| sent.and_then(Value::extract_error)) {
            Ok(Ok(value)) => {
                self.lock().timeouts = 0;
                Ok(value)
            }
            Ok(Err(error)) => {
                if error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly) {
                    self.endpoint.fetch_add(1, Ordering::Relaxed);
                }
                if gives_up_connection(&error) {
                    self.give_up(epoch);
                }
                Err(if error.is_io_error() || error.is_connection_dropped() { Refusal::Unanswered } else { Refusal::Server(error) })
            }
            Err(_) => {
                let timeouts = {
                    let mut state = self.lock();
                    state.timeouts += 1;
                    state.timeouts
                };
                if timeouts >= TIMEOUTS {
                    self.give_up(epoch);
                }
                Err(Refusal::Unanswered)
            }
        }
    }

    /// The connection that stands, or a new one.
    async fn connection(&self) -> Result<(MultiplexedConnection, u64)> {
        if let Some(standing) = self.standing() {
            return Ok(standing);
        }
        let _alone = self.connecting.lock().await;
        if let Some(standing) = self.standing() {
            return Ok(standing);
        }
        if let Some((_, error)) = self.lock().failed.as_ref().filter(|(when, _)| when.elapsed() < FRESH) {
            return Err(error.duplicate());
        }
        let outcome = self.connect().await;
        if let Err(error) = &outcome {
            self.lock().failed = Some((Instant::now(), error.duplicate()));
        }
        outcome
    }

    async fn connect(&self) -> Result<(MultiplexedConnection, u64)> {
        let endpoint = self.endpoint.load(Ordering::Relaxed);
        let client = self.client.clone();
        // On the broker's runtime: the connection's driver stays where it was made.
        let made = self.io.spawn(async move {
            let config = AsyncConnectionConfig::new()
                .set_response_timeout(None)
                .set_connection_timeout(Some(CALL_DEADLINE))
                .set_pipeline_buffer_size(1024);
            client.get_multiplexed_async_connection_with_config(&config).await
        });
        let connection = match made.await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return Err(self.sorted(&error)),
            Err(_) => return Err(self.unavailable("the I/O thread of its broker has ended")),
        };
        let mut state = self.lock();
        state.epoch += 1;
        state.timeouts = 0;
        state.endpoint = endpoint;
        state.failed = None;
        state.since = Some(Instant::now());
        state.connection = Some(connection.clone());
        Ok((connection, state.epoch))
    }

    fn standing(&self) -> Option<(MultiplexedConnection, u64)> {
        let mut state = self.lock();
        let wrong = state.endpoint != self.endpoint.load(Ordering::Relaxed);
        if wrong || state.since.is_some_and(|since| since.elapsed() > MAX_AGE) {
            // What is in flight on it still has its handle.
            state.connection = None;
        }
        state.connection.clone().map(|connection| (connection, state.epoch))
    }

    fn give_up(&self, epoch: u64) {
        let mut state = self.lock();
        if state.epoch == epoch {
            state.connection = None;
            state.timeouts = 0;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn told(&self, outcome: Result<Value, Refusal>) -> Result<Value> {
        outcome.map_err(|refusal| match refusal {
            Refusal::Unconnected(error) => error,
            Refusal::Unanswered => Error::Ambiguous { broker: self.location.to_string(), after: CALL_DEADLINE },
            Refusal::Server(error) => self.sorted(&error),
        })
    }

    fn unavailable(&self, problem: impl Into<String>) -> Error {
        Error::Unavailable { broker: self.location.to_string(), problem: problem.into() }
    }

    /// What an error reply means to whoever asked.
    fn sorted(&self, error: &RedisError) -> Error {
        let broker = self.location.to_string();
        let detail = error.detail().unwrap_or_default().to_owned();
        match error.code() {
            Some("FORGOTTEN") => Error::Forgotten(detail),
            Some("OLD") => match detail.rsplit_once(' ').map(|(name, seq)| (name, seq.parse())) {
                Some((name, Ok(seq))) => Error::Old { name: name.to_owned(), seq },
                _ => Error::Internal(format!("OLD {detail}")),
            },
            Some("SCHEMA") => Error::SchemaTooNew { queue: broker, found: detail.parse().unwrap_or(u64::MAX), known: super::SCHEMA },
            Some("OOM") => Error::BrokerFull { broker, problem: "its `maxmemory` is reached".to_owned() },
            Some("NOAUTH") => Error::AccessDenied { broker, problem: "it wants a password; write redis://user:password@host".to_owned() },
            Some("WRONGPASS") => Error::AccessDenied { broker, problem: "wrong user name or password".to_owned() },
            Some("ERR") if detail.contains("user executing the script") => Error::AccessDenied { broker, problem: detail },
            Some("NOPERM") => Error::AccessDenied { broker, problem: detail },
            Some(code @ ("READONLY" | "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" | "BUSY" | "MISCONF" | "NOREPLICAS")) => {
                self.unavailable(format!("{code} {detail}"))
            }
            Some("ERR") if detail.contains("max number of clients") => self.unavailable(detail),
            Some(code) => Error::Internal(format!("{code} {detail}")),
            None if error.kind() == ErrorKind::AuthenticationFailed => {
                Error::AccessDenied { broker, problem: "wrong user name or password".to_owned() }
            }
            None => self.unavailable(error.to_string()),
        }
    }
}

/// Why a call brought nothing.
enum Refusal {
    /// It was never sent.
    Unconnected(Error),
    /// It may have been carried out.
    Unanswered,
    /// The server said no.
    Server(RedisError),
}

/// Whether another connection may fare better.
fn gives_up_connection(error: &RedisError) -> bool {
    error.is_io_error() || error.is_connection_dropped() || error.is_unrecoverable_error()
}

/// A command on one key of a queue.
pub(super) fn on(verb: &str, keys: &Keys, queue: &str, kind: super::keys::Kind) -> Cmd {
    let mut command = redis::cmd(verb);
    command.arg(keys.of(queue, kind));
    command
}
