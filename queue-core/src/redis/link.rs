//! Our own supervision of connections.
//!
//! A link is one connection that is made again when it breaks, when it does not answer twice in a row (a socket that swallows
//! everything looks alive), when the server turns out to be a replica or to have moved, and after half an hour. Nothing is sent
//! again here: that is decided by those who know whether it may be repeated.

use std::{
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use redis::{
    AsyncConnectionConfig, Cmd, ProtocolVersion, RedisError, RedisResult, ServerErrorKind, Value,
    aio::{ConnectionLike, MultiplexedConnection},
};
use tokio::{runtime::Handle, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{endpoint::Endpoint, refusal::Refusal};
use crate::{
    broker::CALL_DEADLINE,
    error::{Error, Result},
};

/// A connection is replaced after this time, so that a changed address is noticed.
const MAX_AGE: Duration = Duration::from_secs(30 * 60);

/// Callers who waited for an attempt to connect that failed so lately share its failure.
const FRESH: Duration = Duration::from_millis(50);

/// Unanswered calls in a row after which a connection is given up.
const TIMEOUTS: u32 = 2;

/// Whenever a call has taken so much longer, we look whether the servers are where they were.
const SLOW: Duration = Duration::from_millis(500);

/// One supervised connection. Calls may come from any runtime; its I/O happens on the broker's.
#[derive(Debug)]
pub(super) struct Link {
    endpoint: Arc<Endpoint>,
    io: Handle,
    state: Mutex<State>,
    connecting: tokio::sync::Mutex<()>,
}

/// What travels together.
#[derive(Clone, Copy)]
pub(super) struct Message<'a> {
    pub(super) command: &'a Cmd,
    /// It goes to a node of a cluster that is taking over the command's slot.
    pub(super) asking: bool,
    /// Commands that follow it on the same connection, whatever becomes of it.
    pub(super) then: &'a [Cmd],
}

#[derive(Debug, Default)]
struct State {
    standing: Option<Standing>,
    timeouts: u32,
    /// Why the last attempt to connect failed, for those who waited for it.
    failed: Option<(Instant, Error)>,
}

#[derive(Clone)]
struct Standing {
    connection: MultiplexedConnection,
    since: Instant,
    /// Cancelled when it is given up: what is in flight on it will not be waited for.
    over: CancellationToken,
}

impl std::fmt::Debug for Standing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Standing").field("since", &self.since).finish_non_exhaustive()
    }
}

impl Link {
    pub(super) fn new(endpoint: Arc<Endpoint>, io: Handle) -> Self {
        Link { endpoint, io, state: Mutex::default(), connecting: tokio::sync::Mutex::new(()) }
    }

    /// Sends a command once.
    pub(super) async fn send(&self, command: &Cmd) -> Result<Value, Refusal> {
        self.exchange(Message { command, asking: false, then: &[] }).await.map(|(value, _)| value)
    }

    /// Sends a message once. Gives the answers to what follows the command, too: errors are in there as values.
    pub(super) async fn exchange(&self, message: Message<'_>) -> Result<(Value, Vec<Value>), Refusal> {
        let standing = match timeout(CALL_DEADLINE, self.standing_or_new()).await {
            Ok(connected) => connected.map_err(Refusal::Unconnected)?,
            Err(_) => return Err(Refusal::Unconnected(self.endpoint.unavailable("it does not answer a connection attempt"))),
        };
        let mut connection = standing.connection.clone();
        let mut answer = pin!(message.exchange(&mut connection));
        let in_time = async {
            let end = Instant::now() + CALL_DEADLINE;
            loop {
                let left = end.saturating_duration_since(Instant::now());
                match timeout(SLOW.min(left), &mut answer).await {
                    // Again and again: who takes the place of a server that stands still is not known at once.
                    Err(_) if left > SLOW => self.endpoint.suspect(),
                    outcome => return outcome,
                }
            }
        };
        let outcome = tokio::select! {
            biased;
            outcome = in_time => outcome,
            () = standing.over.cancelled() => return Err(Refusal::Unanswered),
        };
        match outcome {
            Ok(Ok(value)) => {
                self.lock().timeouts = 0;
                Ok(value)
            }
            Ok(Err(error)) => {
                if error.kind() == redis::ErrorKind::Server(ServerErrorKind::ReadOnly) {
                    self.endpoint.start_over();
                }
                if breaks_connection(&error) {
                    self.give_up(&standing);
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
                    self.give_up(&standing);
                }
                Err(Refusal::Unanswered)
            }
        }
    }

    async fn standing_or_new(&self) -> Result<Standing> {
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
            self.endpoint.suspect();
        }
        outcome
    }

    async fn connect(&self) -> Result<Standing> {
        let (client, era) = self.endpoint.client(ProtocolVersion::RESP2)?;
        let asks_role = self.endpoint.may_be_replica();
        // On the broker's runtime: the connection's driver stays where it was made.
        let made = self.io.spawn(async move {
            let config = AsyncConnectionConfig::new()
                .set_response_timeout(None)
                .set_connection_timeout(Some(CALL_DEADLINE))
                .set_pipeline_buffer_size(1024);
            let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
            let role = if asks_role { Some(connection.req_packed_command(&redis::cmd("ROLE")).await) } else { None };
            RedisResult::Ok((connection, role))
        });
        let (connection, role) = match made.await {
            Ok(Ok(made)) => made,
            Ok(Err(error)) => return Err(Refusal::Server(error).told(&self.endpoint)),
            Err(_) => return Err(self.endpoint.unavailable("the I/O thread of its broker has ended")),
        };
        // Sentinels may be late, and a server that was a master may have come back as a replica, which would be read from.
        if let Some(Ok(Value::Array(role))) = role
            && matches!(role.first(), Some(Value::BulkString(role)) if role != b"master")
        {
            return Err(self.endpoint.unavailable("its master has become a replica, and no other is known yet"));
        }
        let standing = Standing { connection, since: Instant::now(), over: era.child_token() };
        let mut state = self.lock();
        state.timeouts = 0;
        state.failed = None;
        state.standing = Some(standing.clone());
        Ok(standing)
    }

    fn standing(&self) -> Option<Standing> {
        let mut state = self.lock();
        // Of a connection that is too old, what is in flight still has its handle.
        if state.standing.as_ref().is_some_and(|standing| standing.over.is_cancelled() || standing.since.elapsed() > MAX_AGE) {
            state.standing = None;
        }
        state.standing.clone()
    }

    /// Whoever else waits on it need not wait any longer.
    fn give_up(&self, standing: &Standing) {
        standing.over.cancel();
        self.endpoint.suspect();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Whether another connection may fare better.
fn breaks_connection(error: &RedisError) -> bool {
    error.is_io_error() || error.is_connection_dropped() || error.is_unrecoverable_error()
}
