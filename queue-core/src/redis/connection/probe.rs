//! Finds out why a server rejected a connection, with another connection. A server that rejects a
//! connection sends the reason and closes it. If we had sent data meanwhile, the operating system
//! would discard the reason ("Connection reset by peer"). For this reason the probe sends nothing
//! before it has read the reason.

use std::time::Duration;

use redis::RedisError;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::{endpoint::Endpoint, refusal::error_of_code};
use crate::error::Error;

/// The timeout for the reason.
const ANSWER: Duration = Duration::from_millis(500);

/// Longer than any such reason.
const LONGEST: usize = 2048;

/// The reason why no connection could be made. `error` is that of the client library.
pub(super) async fn explain_connect_error(endpoint: &Endpoint, error: RedisError) -> Error {
    if (error.is_io_error() || error.is_connection_dropped()) && !error.is_connection_refusal() {
        if let Some(plain) = tls_mismatch_error(endpoint).await {
            return plain;
        }
        if let Some(error) = plain_reply(endpoint).await {
            return error;
        }
    }
    super::refusal::Refusal::Server(error).into_error(endpoint)
}

/// The error, if TLS was tried with a server that does not use it.
pub(super) async fn tls_mismatch_error(endpoint: &Endpoint) -> Option<Error> {
    if !endpoint.uses_tls() {
        return None;
    }
    let line = first_line(endpoint, b"PING\r\n").await?;
    let plain = line.starts_with('+') || line.starts_with('-');
    plain.then(|| {
        let problem = "answers without TLS on this port: write `redis` instead of `rediss` in the URL, or use its TLS port";
        Error::Config(format!("the server at {} {problem}", endpoint.shown()))
    })
}

/// The refusal that a server sends right after the connection is made, if there is one.
async fn plain_reply(endpoint: &Endpoint) -> Option<Error> {
    let line = first_line(endpoint, b"").await?;
    let (code, detail) = line.strip_prefix('-')?.split_once(' ')?;
    Some(error_of_code(code, detail, endpoint))
}

async fn first_line(endpoint: &Endpoint, request: &[u8]) -> Option<String> {
    let address = endpoint.address().filter(|address| !address.is_socket())?;
    let exchange = async {
        let mut stream = TcpStream::connect((address.host.as_str(), address.port)).await.ok()?;
        stream.write_all(request).await.ok()?;
        let mut reply = Vec::new();
        while !reply.contains(&b'\n') && reply.len() < LONGEST {
            match stream.read_buf(&mut reply).await {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
        }
        let line = reply.split(|byte| *byte == b'\n').next()?;
        Some(String::from_utf8_lossy(line).trim_end().to_owned())
    };
    timeout(ANSWER, exchange).await.ok().flatten()
}
