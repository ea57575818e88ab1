//! Short answers to `GET`, for probes and metrics.

use std::{io, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Bytes, at most, of an HTTP request that are read.
const LONGEST_REQUEST: usize = 8192;

/// HTTP clients, at most, at once.
pub const CLIENTS: usize = 32;

/// The pause after an HTTP client could not be accepted. Without it, a process without free file
/// descriptors would use a whole core.
pub const REFUSED_PAUSE: Duration = Duration::from_millis(100);
/// An answer: the status line, the type of the body, and the body.
#[derive(Debug)]
pub struct Answer {
    /// The status line without the version.
    pub status: &'static str,
    /// The type of the body.
    pub content_type: &'static str,
    /// The body.
    pub body: String,
}

impl Answer {
    /// JSON.
    pub fn json(status: &'static str, body: impl Into<String>) -> Self {
        Answer { status, content_type: "application/json", body: body.into() }
    }

    /// The text format of Prometheus.
    pub fn metrics(body: String) -> Self {
        Answer { status: "200 OK", content_type: "text/plain; version=0.0.4; charset=utf-8", body }
    }
}

/// A request line.
#[derive(Debug)]
pub struct Asked(String);

impl Asked {
    fn method(&self) -> Option<&str> {
        self.0.split_whitespace().next()
    }

    /// The path of a request for a page; `None`: it is another request.
    pub fn path(&self) -> Option<&str> {
        let path = self.0.split_whitespace().nth(1)?;
        matches!(self.method(), Some("GET" | "HEAD")).then(|| path.split('?').next().unwrap_or_default())
    }
}

/// Reads the request of a client.
///
/// # Errors
/// Those of the connection.
pub async fn asked(stream: &mut TcpStream) -> io::Result<Asked> {
    Ok(Asked(read_request(stream).await?))
}

/// Answers a client, and closes the connection.
///
/// # Errors
/// Those of the connection.
pub async fn respond(stream: &mut TcpStream, request: &Asked, answer: Answer) -> io::Result<()> {
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

/// The request line. The headers are read, too: closing a socket with unread bytes would tear the
/// answer from the client.
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
