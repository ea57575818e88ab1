//! `GET /health`: whether the worker does its duties, served from the broker's I/O thread, so that it answers while handlers
//! block everything else.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::{
    future::BoxFuture,
    stream::{FuturesUnordered, StreamExt},
};
use serde::Serialize;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    duty::Pass,
    engine::Shared,
    tuning::{CLIENT_PATIENCE, CLIENTS, LONGEST_REQUEST, REFUSED_PAUSE},
};

#[derive(Serialize)]
struct Answer<'a> {
    status: &'static str,
    broker: String,
    queues: Vec<&'a str>,
    concurrency: usize,
    running: usize,
    stuck: usize,
    finished: u64,
    last_contact_ms: u128,
    /// Whether the broker refuses new jobs for lack of room. Those at hand are claimed and finished, so that the worker is well.
    full: bool,
    /// What is wrong with the broker, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    used_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    free_bytes: Option<u64>,
}

/// Takes the address, before the worker starts anything.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    tracing::info!(address = %listener.local_addr()?, "GET /health is answered");
    Ok(listener)
}

/// Answers clients. If the address cannot be listened on any more, it says so in the log, and answers nobody.
pub(crate) struct Health {
    shared: Arc<Shared>,
    listener: io::Result<tokio::net::TcpListener>,
    clients: FuturesUnordered<BoxFuture<'static, ()>>,
    refused: bool,
}

/// What happened.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// A client has come.
    Accepted,
    /// One has its answer, or has taken too long.
    Answered,
    /// None could be let in: out of file descriptors, perhaps.
    Refused,
}

impl Health {
    pub(crate) fn new(shared: Arc<Shared>, listener: io::Result<TcpListener>) -> Self {
        let listener = listener.and_then(tokio::net::TcpListener::from_std);
        if let Err(error) = &listener {
            tracing::error!(%error, "GET /health is not answered");
        }
        Health { shared, listener, clients: FuturesUnordered::new(), refused: false }
    }
}

impl Pass for Health {
    const NAME: &'static str = "health";
    type Report = Served;

    /// After a refusal, so that the next client may have more luck.
    fn pause(&mut self) -> Duration {
        if std::mem::take(&mut self.refused) { REFUSED_PAUSE } else { Duration::ZERO }
    }

    /// Waits until one thing has happened.
    async fn tick(&mut self) -> Served {
        let Ok(listener) = &self.listener else { return std::future::pending().await };
        tokio::select! {
            accepted = listener.accept(), if self.clients.len() < CLIENTS => match accepted {
                Ok((stream, _)) => {
                    let shared = self.shared.clone();
                    self.clients.push(Box::pin(async move {
                        drop(tokio::time::timeout(CLIENT_PATIENCE, answer(&shared, stream)).await);
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

async fn answer(shared: &Shared, mut stream: TcpStream) -> io::Result<()> {
    let request = read_request(&mut stream).await?;
    let mut words = request.split_whitespace();
    let (method, path) = (words.next(), words.next().map(|path| path.split('?').next().unwrap_or_default()));
    let (status, body) = match (method, path) {
        (Some("GET" | "HEAD"), Some("/health")) => health(shared),
        (Some("GET" | "HEAD"), Some(_)) => ("404 Not Found", r#"{"error":"there is only /health"}"#.to_owned()),
        _ => ("405 Method Not Allowed", r#"{"error":"only GET"}"#.to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\ncache-control: no-store\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    if method != Some("HEAD") {
        stream.write_all(body.as_bytes()).await?;
    }
    stream.shutdown().await
}

/// The request line. The headers are read, too: closing a socket with unread bytes would tear the answer from the client.
async fn read_request(stream: &mut TcpStream) -> io::Result<String> {
    let mut request = Vec::new();
    let mut chunk = [0; 1024];
    while request.len() < LONGEST_REQUEST && !request.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut chunk).await? {
            0 => break,
            n => request.extend_from_slice(&chunk[..n]),
        }
    }
    let line = request.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(String::from_utf8_lossy(line).into_owned())
}

fn health(shared: &Shared) -> (&'static str, String) {
    let (reached, isolated) = (shared.reached.load(Ordering::Relaxed), shared.is_isolated());
    let condition = shared.condition();
    let lost = condition.is_lost();
    let health = Answer {
        status: match (reached, isolated, shared.stopping.load(Ordering::Relaxed)) {
            (false, ..) => "waiting",
            _ if lost => "lost",
            (true, true, _) => "isolated",
            (true, false, true) => "stopping",
            (true, false, false) => "ok",
        },
        broker: shared.broker.info().location,
        queues: shared.queues.iter().map(AsRef::as_ref).collect(),
        concurrency: shared.settings.concurrency,
        running: shared.running.load(Ordering::Relaxed),
        stuck: shared.stuck.load(Ordering::Relaxed),
        finished: shared.finished.load(Ordering::Relaxed),
        last_contact_ms: shared.contact.until().elapsed().as_millis(),
        full: condition.is_full(),
        trouble: condition.trouble.as_ref().map(ToString::to_string),
        used_bytes: condition.used,
        limit_bytes: condition.limit,
        free_bytes: condition.free,
    };
    let body = serde_json::to_string(&health).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"));
    (if isolated || lost || !reached { "503 Service Unavailable" } else { "200 OK" }, body)
}
