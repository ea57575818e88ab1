//! The client in an application whose runtime is not ours, or that has none.

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

use queue_core::{broker::State, prelude::*};
use queue_tests::server::{Kind, Server};

#[task(queue = "anywhere")]
async fn number(n: u64) {
    let _ = n;
}

/// Wakes the thread that waits.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The smallest executor: this thread, without a clock or sockets.
fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

async fn enqueue_and_look(client: Client) {
    for n in 0..5 {
        number::job(n).enqueue(&client).await.unwrap();
    }
    let stats = client.inspector().stats("anywhere").await.unwrap();
    assert_eq!(stats.depth[&State::Ready], 5);
}

#[test]
fn redis_without_a_runtime() {
    let server = Server::start(Kind::Redis);
    block_on(async { enqueue_and_look(Client::connect(&server.url()).await.unwrap()).await });
}

#[test]
fn sqlite_without_a_runtime() {
    block_on(async { enqueue_and_look(Client::connect("sqlite://:memory:").await.unwrap()).await });
}

#[test]
fn a_runtime_without_a_clock() {
    let server = Server::start(Kind::Redis);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async { enqueue_and_look(Client::connect(&server.url()).await.unwrap()).await });
}

/// A lone caller sends by itself; what comes of it when nobody answers is not its own affair.
#[test]
fn a_server_that_is_down_for_a_while() {
    let mut server = Server::durable(Kind::Redis);
    block_on(async {
        let client = Client::connect(&server.url()).await.unwrap().with_deadline(Duration::from_secs(30));
        number::job(0).enqueue(&client).await.unwrap();
        number::job(1).enqueue(&client).await.unwrap();
        server.kill();
        let restarted = thread::spawn(move || {
            server.restart();
            server
        });
        number::job(2).enqueue(&client).await.unwrap();
        let _server = restarted.join().unwrap();
        assert_eq!(client.inspector().stats("anywhere").await.unwrap().depth[&State::Ready], 3);
    });
}
