//! Requests to a worker's HTTP endpoint, like those of a probe or Prometheus.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use queue_conformance::patience::{patience, wait};
pub use queue_conformance::port::free_address;

/// The status line, the headers and the body of a path. Empty if there is no answer.
pub async fn ask(address: SocketAddr, path: &str) -> String {
    let mut answer = Vec::new();
    let asked = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes()).await?;
        // An incomplete answer is discarded.
        stream.read_to_end(&mut answer).await
    };
    let _ = tokio::time::timeout(patience(), asked).await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// Waits until `/ready` has this code and contains this text.
pub async fn until_ready(address: SocketAddr, code: u16, says: &str) {
    let code = format!("HTTP/1.1 {code} ");
    let ready = std::sync::Mutex::new(String::new());
    let seen = || ready.lock().map(|ready| ready.clone()).unwrap_or_default();
    let wait = wait(format!("/ready to be {code}with {says}")).seeing(seen);
    wait.until(async || {
        let answer = ask(address, "/ready").await;
        let is = answer.starts_with(&code) && answer.contains(says);
        ready.lock().map(|mut ready| *ready = answer).is_ok() && is
    })
    .await;
}
