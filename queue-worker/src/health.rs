//! `GET /health`: whether the worker does its duties, served from the broker's I/O thread, so that it answers while handlers
//! block everything else.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use serde::Serialize;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

use crate::engine::Shared;

/// A client gets this long to ask, and as long to listen.
const PATIENCE: Duration = Duration::from_secs(5);

/// Longest request line.
const LONGEST_LINE: u64 = 4096;

#[derive(Serialize)]
struct Health<'a> {
    status: &'static str,
    broker: String,
    queues: Vec<&'a str>,
    concurrency: usize,
    running: usize,
    stuck: usize,
    finished: u64,
    last_contact_ms: u128,
}

/// Takes the address, before the worker starts anything.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    tracing::info!("health on http://{}/health", listener.local_addr()?);
    Ok(listener)
}

pub(crate) async fn serve(shared: Arc<Shared>, listener: io::Result<TcpListener>) {
    let listener = match listener.and_then(tokio::net::TcpListener::from_std) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!("no health is served: {error}");
            return;
        }
    };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // One at a time: a slow client is given up before long.
                let _ = tokio::time::timeout(PATIENCE, answer(&shared, stream)).await;
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn answer(shared: &Shared, mut stream: TcpStream) -> io::Result<()> {
    let mut line = String::new();
    {
        use tokio::io::AsyncReadExt;
        BufReader::new((&mut stream).take(LONGEST_LINE)).read_line(&mut line).await?;
    }
    let mut words = line.split_whitespace();
    let (status, body) = match (words.next(), words.next()) {
        (Some("GET" | "HEAD"), Some("/health")) => health(shared),
        (Some("GET" | "HEAD"), Some(_)) => ("404 Not Found", r#"{"error":"there is only /health"}"#.to_owned()),
        _ => ("405 Method Not Allowed", r#"{"error":"only GET"}"#.to_owned()),
    };
    let response = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\ncache-control: no-store\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(response.as_bytes()).await?;
    stream.shutdown().await
}

fn health(shared: &Shared) -> (&'static str, String) {
    let isolated = shared.is_isolated();
    let health = Health {
        status: if isolated { "isolated" } else { "ok" },
        broker: shared.broker.info().location,
        queues: shared.queues.iter().map(AsRef::as_ref).collect(),
        concurrency: shared.settings.concurrency,
        running: shared.running.load(Ordering::Relaxed),
        stuck: shared.stuck.load(Ordering::Relaxed),
        finished: shared.finished.load(Ordering::Relaxed),
        last_contact_ms: shared.contact.until().elapsed().as_millis(),
    };
    let body = serde_json::to_string(&health).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"));
    (if isolated { "503 Service Unavailable" } else { "200 OK" }, body)
}
