//! Serves `GET /health`, `GET /ready` and `GET /metrics` from the broker's I/O thread, so that they are answered while handlers block everything else.
//! `health` computes the contents of the answers.

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
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::oneshot,
};

use crate::{
    duty::Pass,
    engine::Shared,
    health, metrics,
    tuning::{CLIENT_PATIENCE, CLIENTS, LONGEST_REQUEST, REFUSED_PAUSE},
};

/// An answer: the status line, the type of the body, and the body.
pub(crate) struct Answer {
    pub(crate) status: &'static str,
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(status: &'static str, body: impl Into<String>) -> Self {
        Answer { status, content_type: "application/json", body: body.into() }
    }

    /// The text format of Prometheus.
    #[cfg(any(feature = "cli", feature = "prometheus"))]
    pub(crate) fn metrics(body: String) -> Self {
        Answer { status: "200 OK", content_type: "text/plain; version=0.0.4; charset=utf-8", body }
    }
}

/// Takes the address, before the worker starts anything.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    tracing::info!(address = %listener.local_addr()?, "GET /health and GET /ready are answered");
    Ok(listener)
}

/// Answers clients. If it cannot listen on the address any more, it logs that, and stops answering.
pub(crate) struct Http {
    shared: Arc<Shared>,
    listener: io::Result<tokio::net::TcpListener>,
    clients: FuturesUnordered<BoxFuture<'static, ()>>,
    /// A sender for each client, in the order in which they came. A client without its sender gives its place up.
    places: VecDeque<oneshot::Sender<Infallible>>,
    refused: bool,
}

/// What happened.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// A client has come.
    Accepted,
    /// One has its answer, has taken too long, or has given its place up.
    Answered,
    /// None could be let in: out of file descriptors, perhaps.
    Refused,
}

impl Http {
    pub(crate) fn new(shared: Arc<Shared>, listener: io::Result<TcpListener>) -> Self {
        let listener = listener.and_then(tokio::net::TcpListener::from_std);
        if let Err(error) = &listener {
            tracing::error!(%error, "GET /health and GET /ready are not answered");
        }
        Http { shared, listener, clients: FuturesUnordered::new(), places: VecDeque::new(), refused: false }
    }
}

impl Pass for Http {
    const NAME: &'static str = "http";
    type Report = Served;

    /// After a refusal, so that the next client may have more luck.
    fn pause(&mut self) -> Duration {
        if std::mem::take(&mut self.refused) { REFUSED_PAUSE } else { Duration::ZERO }
    }

    /// Waits until one thing has happened.
    async fn tick(&mut self) -> Served {
        let Ok(listener) = &self.listener else { return std::future::pending().await };
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    // Whoever asks is answered at once. Those who have not asked for the longest time make room: they could keep everybody else waiting.
                    self.places.retain(|place| !place.is_closed());
                    while self.places.len() >= CLIENTS {
                        self.places.pop_front();
                    }
                    let (place, lost) = oneshot::channel();
                    self.places.push_back(place);
                    let shared = self.shared.clone();
                    self.clients.push(Box::pin(async move {
                        tokio::select! {
                            _ = tokio::time::timeout(CLIENT_PATIENCE, answer(&shared, stream)) => {}
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

async fn answer(shared: &Shared, mut stream: TcpStream) -> io::Result<()> {
    let request = asked(&mut stream).await?;
    let answer = match request.path() {
        Some("/health") => health::live(shared),
        Some("/ready") => health::ready(shared),
        Some("/metrics") => metrics::answer().unwrap_or_else(|| {
            let problem = r#"{"error":"the program has no exporter: build it with the feature `prometheus`"}"#;
            Answer::json("404 Not Found", problem)
        }),
        Some(_) => Answer::json("404 Not Found", r#"{"error":"there are /health, /ready and /metrics"}"#),
        None => Answer::json("405 Method Not Allowed", r#"{"error":"only GET"}"#),
    };
    respond(&mut stream, &request, answer).await
}

/// A request line.
pub(crate) struct Asked(String);

impl Asked {
    fn method(&self) -> Option<&str> {
        self.0.split_whitespace().next()
    }

    /// The path of a request for a page; `None`: it is another request.
    pub(crate) fn path(&self) -> Option<&str> {
        let path = self.0.split_whitespace().nth(1)?;
        matches!(self.method(), Some("GET" | "HEAD")).then(|| path.split('?').next().unwrap_or_default())
    }
}

/// Reads the request of a client.
pub(crate) async fn asked(stream: &mut TcpStream) -> io::Result<Asked> {
    Ok(Asked(read_request(stream).await?))
}

/// Answers a client, and closes the connection.
pub(crate) async fn respond(stream: &mut TcpStream, request: &Asked, answer: Answer) -> io::Result<()> {
    let Answer { status, content_type, body } = answer;
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\ncache-control: no-store\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    if request.method() != Some("HEAD") {
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
