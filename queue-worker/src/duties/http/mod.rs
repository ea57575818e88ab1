//! Serves `GET /health`, `GET /ready` and `GET /metrics` from the broker's I/O thread, so that they
//! are answered while handlers block everything else. `health` computes the contents of the
//! answers.

mod health;

pub(crate) use self::health::Health;

use std::{
    collections::VecDeque,
    convert::Infallible,
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

use futures_util::{
    future::BoxFuture,
    stream::{FuturesUnordered, StreamExt},
};
use queue_core::__private::{Answer, CLIENTS, REFUSED_PAUSE, asked, respond};
use tokio::{net::TcpStream, sync::oneshot};

use super::Pass;
use crate::{metrics, tuning::CLIENT_PATIENCE};

/// Binds the address, before the worker starts anything.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    tracing::info!(address = %listener.local_addr()?, "GET /health and GET /ready are answered");
    Ok(listener)
}

/// Answers clients. If it can no longer listen on the address, it logs that and stops answering.
pub(crate) struct Http {
    health: Arc<Health>,
    listener: io::Result<tokio::net::TcpListener>,
    clients: FuturesUnordered<BoxFuture<'static, ()>>,
    /// A sender for each client, in the order in which the clients connected. Dropping the sender
    /// ends the connection of its client.
    places: VecDeque<oneshot::Sender<Infallible>>,
    refused: bool,
}

/// What happened.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// A client has come.
    Accepted,
    /// A client was answered, has timed out, or has lost its place.
    Answered,
    /// No client could be accepted, for example because the process is out of file descriptors.
    Refused,
}

impl Http {
    pub(crate) fn new(health: Arc<Health>, listener: io::Result<TcpListener>) -> Self {
        let listener = listener.and_then(tokio::net::TcpListener::from_std);
        if let Err(error) = &listener {
            tracing::error!(%error, "GET /health and GET /ready are not answered");
        }
        Http { health, listener, clients: FuturesUnordered::new(), places: VecDeque::new(), refused: false }
    }
}

impl Pass for Http {
    const NAME: &'static str = "http";
    type Report = Served;

    /// Pauses after a refusal, because the next client would probably be refused as well.
    fn pause(&mut self) -> Duration {
        if std::mem::take(&mut self.refused) { REFUSED_PAUSE } else { Duration::ZERO }
    }

    /// Waits for one event.
    async fn tick(&mut self) -> Served {
        let Ok(listener) = &self.listener else { return std::future::pending().await };
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    // Every new client gets a place at once. The oldest open connections lose
                    // theirs: clients that send no request could block the others.
                    self.places.retain(|place| !place.is_closed());
                    while self.places.len() >= CLIENTS {
                        self.places.pop_front();
                    }
                    let (place, lost) = oneshot::channel();
                    self.places.push_back(place);
                    let health = self.health.clone();
                    self.clients.push(Box::pin(async move {
                        tokio::select! {
                            _ = tokio::time::timeout(CLIENT_PATIENCE, answer(&health, stream)) => {}
                            _ = lost => {}
                        }
                    }));
                    Served::Accepted
                }
                Err(_) => {
                    self.refused = true;
                    Served::Refused
                }
            },
            Some(()) = self.clients.next() => Served::Answered,
        }
    }
}

async fn answer(health: &Health, mut stream: TcpStream) -> io::Result<()> {
    let request = asked(&mut stream).await?;
    let answer = match request.path() {
        Some("/health") => health.liveness(),
        Some("/ready") => health.ready(),
        Some("/metrics") => metrics::answer().unwrap_or_else(|| {
            let problem = r#"{"error":"the program has no exporter: build it with the feature `prometheus`"}"#;
            Answer::json("404 Not Found", problem)
        }),
        Some(_) => Answer::json("404 Not Found", r#"{"error":"there are /health, /ready and /metrics"}"#),
        None => Answer::json("405 Method Not Allowed", r#"{"error":"only GET"}"#),
    };
    respond(&mut stream, &request, answer).await
}
