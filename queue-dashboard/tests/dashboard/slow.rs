//! The server of command lines with slow clients.

use std::{net::SocketAddr, time::Duration};

use futures_util::future::join_all;
use queue_core::Client;
use queue_dashboard::{Options, Server};
use queue_tests::patience::wait;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::oneshot,
};

async fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.expect("the server listens")
}

/// Reads until the server closes the connection.
async fn closed(mut stream: TcpStream) {
    let mut answer = Vec::new();
    // A reset connection is closed as well.
    let _ = stream.read_to_end(&mut answer).await;
}

/// Sends the start of a request, and then one byte after the other until the server closes the
/// connection. Returns the answer.
async fn one_by_one(address: SocketAddr, start: String) -> String {
    let (mut read, mut write) = connect(address).await.into_split();
    write.write_all(start.as_bytes()).await.unwrap();
    let dribbles = async {
        while write.write_all(b"a").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let mut answer = Vec::new();
    let reads = async {
        let _ = read.read_to_end(&mut answer).await;
    };
    tokio::select! {
        () = dribbles => {}
        () = reads => {}
    }
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn clients_that_send_nothing_or_little_lose_their_places() {
    let client = Client::connect("sqlite://:memory:").await.unwrap();
    let mut options = Options::default();
    (options.bind, options.no_auth, options.allow_actions) = ("127.0.0.1:0".parse().unwrap(), true, true);
    let server = Server::bind(client, options).await.unwrap();
    let address = server.address().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(server.run(async move { drop(stopped.await) }));

    let heads = one_by_one(address, format!("GET / HTTP/1.1\r\nhost: {address}\r\nx-name: "));
    let form = "content-type: application/x-www-form-urlencoded\r\nsec-fetch-site: same-origin\r\ncontent-length: 100000\r\n\r\n";
    let bodies = one_by_one(address, format!("POST /jobs/cancel HTTP/1.1\r\nhost: {address}\r\n{form}"));
    let slow = tokio::spawn(async move { tokio::join!(heads, bodies) });
    // More connections than it accepts at once. They are opened one after the other, because the
    // system drops connections that come faster than it can queue them.
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(connect(address).await);
    }

    let asked = async {
        let mut stream = connect(address).await;
        stream.write_all(format!("GET / HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").as_bytes()).await.unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).await.unwrap();
        page
    };
    let page = wait("a page, beside clients that say nothing").end_of(asked).await;
    assert!(page.starts_with("HTTP/1.1 200 "), "{page}");
    wait("clients that say nothing to lose their places").end_of(join_all(silent.into_iter().map(closed))).await;
    let (head, body) = wait("clients that say little to lose theirs").end_of(slow).await.unwrap();
    assert!(!head.contains(" 200 "), "{head}");
    assert!(body.is_empty() || body.starts_with("HTTP/1.1 408 "), "{body}");
    drop(stop);
    wait("the end of the server").end_of(serving).await.unwrap().unwrap();
}
