//! Supervision of connections.
//!
//! A link is one connection that reconnects in four cases: when the connection breaks, when two
//! calls in a row get no answer (a socket that discards everything looks alive), when the server is
//! a replica or has moved, and after half an hour. A link never repeats a call: only its caller
//! knows whether the call may be repeated.

use std::{
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use redis::{
    Cmd, ProtocolVersion, RedisError, RedisResult, ServerErrorKind, Value,
    aio::{ConnectionLike, MultiplexedConnection},
};
use tokio::{
    runtime::Handle,
    time::{timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{endpoint::Endpoint, probe, refusal::Refusal, servers::deadline};
use crate::{
    broker::CALL_DEADLINE,
    error::{Error, Result},
};

/// A connection is replaced after this time, so that a changed address is noticed.
const MAX_AGE: Duration = Duration::from_secs(30 * 60);

/// A TLS handshake that takes longer is examined.
const HANDSHAKE: Duration = Duration::from_secs(1);

/// Callers that waited for an attempt to connect get its failure if it is not older than this.
const FRESH: Duration = Duration::from_millis(50);

/// Unanswered calls in a row after which a connection is abandoned, if the first was sent
/// [`SILENCE`] ago.
const TIMEOUTS: u32 = 2;

/// A server that pauses for less than this keeps its connections.
const SILENCE: Duration = Duration::from_secs(1);

/// A caller that waited for less than this is not evidence against the connection.
const PATIENT: Duration = Duration::from_millis(50);

/// Whenever a call takes longer by this time, the addresses of the servers are checked.
const SLOW: Duration = Duration::from_millis(500);

/// One supervised connection. Calls may come from any runtime; its I/O runs on the broker's
/// runtime.
#[derive(Debug)]
pub(in crate::redis) struct Link {
    ends: Arc<Ends>,
    io: Handle,
    connecting: Arc<tokio::sync::Mutex<()>>,
}

/// The data of an attempt to connect. The attempt continues when no caller waits for it any more,
/// because the next caller may have more time.
#[derive(Debug)]
struct Ends {
    endpoint: Arc<Endpoint>,
    state: Mutex<State>,
}

/// A call that is sent as a unit.
#[derive(Clone, Copy)]
pub(in crate::redis) struct Message<'a> {
    pub(in crate::redis) command: &'a Cmd,
    /// The call goes to a node of a cluster that is taking over the command's slot.
    pub(in crate::redis) asking: bool,
    /// Commands that follow it on the same connection, even if it fails.
    pub(in crate::redis) then: &'a [Cmd],
    /// The deadline of its answer, if it is before [`CALL_DEADLINE`].
    pub(in crate::redis) until: Option<Instant>,
}

#[derive(Debug, Default)]
struct State {
    established: Option<Established>,
    /// Calls in a row without an answer, and when the first of them was sent.
    timeouts: u32,
    silent: Option<Instant>,
    /// Why the last attempt to connect failed, for the callers that waited for it.
    failed: Option<(Instant, Error)>,
}

#[derive(Clone)]
struct Established {
    connection: MultiplexedConnection,
    since: Instant,
    /// Cancelled when the connection is abandoned: no caller waits for its requests in flight.
    over: CancellationToken,
}

impl std::fmt::Debug for Established {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Established").field("since", &self.since).finish_non_exhaustive()
    }
}

impl Link {
    pub(in crate::redis) fn new(endpoint: Arc<Endpoint>, io: Handle) -> Self {
        Link { ends: Arc::new(Ends { endpoint, state: Mutex::default() }), io, connecting: Arc::default() }
    }

    /// Sends a command once.
    pub(in crate::redis) async fn send(&self, command: &Cmd) -> Result<Value, Refusal> {
        self.exchange(Message { command, asking: false, then: &[], until: None }).await.map(|(value, _)| value)
    }

    /// Sends a message once. Also returns the answers to the commands that follow; errors are
    /// values in them.
    pub(in crate::redis) async fn exchange(&self, message: Message<'_>) -> Result<(Value, Vec<Value>), Refusal> {
        let Ends { endpoint, .. } = &*self.ends;
        let established = match timeout_at(deadline(message.until).into(), self.open_or_connect()).await {
            Ok(connected) => connected.map_err(Refusal::Unconnected)?,
            Err(_) => return Err(Refusal::Unconnected(endpoint.unreachable("it does not answer a connection attempt in time"))),
        };
        let (begun, end) = (Instant::now(), deadline(message.until));
        // A caller may be dropped while it waits. Its short wait must not make a dead connection
        // look alive.
        let mut waits = Waits { ends: &self.ends, established: &established, begun, answered: false };
        let mut connection = established.connection.clone();
        let mut answer = pin!(message.exchange(&mut connection));
        let in_time = async {
            loop {
                let left = end.saturating_duration_since(Instant::now());
                match timeout(SLOW.min(left), &mut answer).await {
                    // Repeated, because the successor of a silent server may be unknown at first.
                    Err(_) if left > SLOW => endpoint.request_refresh(),
                    outcome => return outcome,
                }
            }
        };
        let outcome = tokio::select! {
            biased;
            outcome = in_time => outcome,
            () = established.over.cancelled() => {
                waits.answered = true;
                return Err(Refusal::Unanswered("its connection was abandoned".to_owned(), None));
            }
        };
        waits.answered = outcome.is_ok();
        match outcome {
            Ok(Ok(value)) => {
                self.ends.lock().record_answer();
                Ok(value)
            }
            Ok(Err(error)) => {
                if error.kind() == redis::ErrorKind::Server(ServerErrorKind::ReadOnly) {
                    endpoint.disconnect_all();
                }
                if breaks_connection(&error) {
                    self.ends.drop_connection(&established);
                }
                Err(match error.is_io_error() || error.is_connection_dropped() {
                    true => Refusal::Unanswered(format!("the connection broke ({error})"), Some(error)),
                    false => Refusal::Server(error),
                })
            }
            Err(_) => Err(Refusal::Unanswered(format!("waited {:.1?}", begun.elapsed()), None)),
        }
    }

    async fn open_or_connect(&self) -> Result<Established> {
        if let Some(established) = self.ends.established() {
            return Ok(established);
        }
        let alone = self.connecting.clone().lock_owned().await;
        if let Some(established) = self.ends.established() {
            return Ok(established);
        }
        if let Some((_, error)) = self.ends.lock().failed.as_ref().filter(|(when, _)| when.elapsed() < FRESH) {
            return Err(error.duplicate());
        }
        let ends = self.ends.clone();
        // Spawned on the broker's runtime: the connection's driver stays on the runtime on which it
        // was made.
        let made = self.io.spawn(async move {
            let _alone = alone;
            let outcome = timeout(CALL_DEADLINE, ends.connect()).await;
            let silent = |_| Err(ends.endpoint.unreachable("it does not answer a connection attempt"));
            let outcome = outcome.unwrap_or_else(silent);
            if let Err(error) = &outcome {
                ends.lock().failed = Some((Instant::now(), error.duplicate()));
                ends.endpoint.request_refresh();
            }
            outcome
        });
        made.await.unwrap_or_else(|_| Err(self.ends.endpoint.unavailable("the I/O thread of its broker has ended")))
    }
}

impl Ends {
    async fn connect(&self) -> Result<Established> {
        let (client, config, era) = self.endpoint.client(ProtocolVersion::RESP2)?;
        let asks_role = self.endpoint.may_be_replica();
        let made = async {
            let config = config.set_response_timeout(None).set_connection_timeout(Some(CALL_DEADLINE)).set_pipeline_buffer_size(1024);
            let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
            let role = if asks_role { Some(connection.req_packed_command(&redis::cmd("ROLE")).await) } else { None };
            RedisResult::Ok((connection, role))
        };
        let mut made = pin!(made);
        let outcome = match timeout(HANDSHAKE, &mut made).await {
            Ok(outcome) => outcome,
            // A server without TLS may wait for the end of a command.
            Err(_) => match probe::tls_mismatch_error(&self.endpoint).await {
                Some(error) => return Err(error),
                None => made.await,
            },
        };
        let (connection, role) = match outcome {
            Ok(made) => made,
            Err(error) => return Err(probe::explain_connect_error(&self.endpoint, error).await),
        };
        // Sentinels may report a change late, and a former master may have returned as a replica.
        // Reads from a replica would be stale.
        if let Some(Ok(Value::Array(role))) = role
            && matches!(role.first(), Some(Value::BulkString(role)) if role != b"master")
        {
            return Err(self.endpoint.unavailable("its master has become a replica, and the new master is not known yet"));
        }
        let established = Established { connection, since: Instant::now(), over: era.child_token() };
        let mut state = self.lock();
        state.record_answer();
        state.failed = None;
        state.established = Some(established.clone());
        Ok(established)
    }

    fn established(&self) -> Option<Established> {
        let mut state = self.lock();
        // Requests in flight keep the handle of a connection that is too old.
        if state.established.as_ref().is_some_and(|established| established.over.is_cancelled() || established.since.elapsed() > MAX_AGE) {
            state.established = None;
        }
        state.established.clone()
    }

    /// Other callers of this connection stop waiting.
    fn drop_connection(&self, established: &Established) {
        established.over.cancel();
        self.endpoint.request_refresh();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The server has answered.
    fn record_answer(&mut self) {
        (self.timeouts, self.silent) = (0, None);
    }
}

/// A caller that waits for an answer. If it leaves without one, a connection that was silent for
/// long is abandoned.
struct Waits<'a> {
    ends: &'a Ends,
    established: &'a Established,
    begun: Instant,
    answered: bool,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        if self.answered || self.begun.elapsed() < PATIENT {
            return;
        }
        let is_dead = {
            let mut state = self.ends.lock();
            state.timeouts += 1;
            let silent = *state.silent.get_or_insert(self.begun);
            state.timeouts >= TIMEOUTS && silent.elapsed() >= SILENCE
        };
        if is_dead {
            self.ends.drop_connection(self.established);
        }
    }
}

impl Message<'_> {
    async fn exchange(&self, connection: &mut MultiplexedConnection) -> RedisResult<(Value, Vec<Value>)> {
        if !self.asking && self.then.is_empty() {
            return Ok((connection.req_packed_command(self.command).await?.extract_error()?, Vec::new()));
        }
        let mut pipeline = redis::pipe();
        if self.asking {
            pipeline.cmd("ASKING");
        }
        pipeline.add_command(self.command.clone());
        for command in self.then {
            pipeline.add_command(command.clone());
        }
        let answers = connection.req_packed_commands(&pipeline, usize::from(self.asking), 1 + self.then.len()).await?;
        let mut answers = answers.into_iter();
        let answer = answers.next().unwrap_or(Value::Nil).extract_error()?;
        Ok((answer, answers.collect()))
    }
}

/// Whether a new connection may avoid this error.
fn breaks_connection(error: &RedisError) -> bool {
    error.is_io_error() || error.is_connection_dropped() || error.is_unrecoverable_error()
}
