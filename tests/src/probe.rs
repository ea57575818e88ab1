//! Asks a worker's HTTP endpoint, as a probe or a Prometheus does.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{patience::until, server::free_port};

/// An address at which nobody listens yet.
pub fn free_address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

/// The status line, the headers and the body of a path. Empty while nobody answers.
pub async fn ask(address: SocketAddr, path: &str) -> String {
    let mut answer = Vec::new();
    let Ok(mut stream) = TcpStream::connect(address).await else { return String::new() };
    if stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes()).await.is_ok() {
        // What came before the connection broke is as good as nothing.
        let _ = stream.read_to_end(&mut answer).await;
    }
    String::from_utf8_lossy(&answer).into_owned()
}

/// Waits until `/ready` has this code and says this.
pub async fn until_ready(address: SocketAddr, code: u16, says: &str) {
    let code = format!("HTTP/1.1 {code} ");
    until(&format!("/ready to be {code}with {says}"), async || {
        let ready = ask(address, "/ready").await;
        ready.starts_with(&code) && ready.contains(says)
    })
    .await;
}
