//! Accepts a bounded number of clients. Each has a bounded time to send its request and to receive
//! its answer.

use std::{
    io::{self, ErrorKind},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{Sleep, sleep},
};

/// The maximum number of concurrent clients. Further ones wait. A browser opens up to six
/// connections for all of its pages.
const CLIENTS: u32 = 256;

/// The time that a client has for a request, and for the next one on the same connection.
pub(crate) const ASKS: Duration = Duration::from_secs(10);

/// The maximum time in which a client receives no byte of its answer.
const TAKES: Duration = Duration::from_secs(30);

/// The pause after a failed accept.
const REFUSED: Duration = Duration::from_millis(100);

/// Serves until a future is ready, and then until the present requests are answered.
pub(crate) async fn serve(listener: TcpListener, app: Router, until: impl Future<Output = ()> + Clone + Send + 'static) {
    let room = Arc::new(Semaphore::new(CLIENTS as usize));
    let mut stop = pin!(until.clone());
    loop {
        let next = async {
            let place = room.clone().acquire_owned().await;
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => break (place, stream),
                    // For example, the process is out of file descriptors.
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection to the dashboard");
                        sleep(REFUSED).await;
                    }
                }
            }
        };
        let (place, stream) = tokio::select! {
            () = &mut stop => break,
            next = next => next,
        };
        let (app, until) = (app.clone(), until.clone());
        tokio::spawn(async move {
            let _place = place;
            answer(stream, app, until).await;
        });
    }
    drop(listener);
    // The semaphore is never closed.
    drop(room.acquire_many(CLIENTS).await);
}

async fn answer(stream: TcpStream, app: Router, until: impl Future<Output = ()>) {
    // Small answers are sent at once.
    let _ = stream.set_nodelay(true);
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(ASKS);
    let client = TokioIo::new(Client { stream, stalled: None });
    let mut connection = pin!(builder.serve_connection(client, TowerToHyperService::new(app)));
    // The client has disconnected, so an error cannot be reported.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = until => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// A connection that fails if its client receives no byte for [`TAKES`].
struct Client {
    stream: TcpStream,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Client {
    fn in_time<T>(&mut self, context: &mut Context<'_>, taken: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if taken.is_ready() {
            self.stalled = None;
            return taken;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(TAKES)));
        stalled.as_mut().poll(context).map(|()| Err(ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Client {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Client {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let taken = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.in_time(context, taken)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, context: &mut Context<'_>, parts: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let taken = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.in_time(context, taken)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let taken = Pin::new(&mut self.stream).poll_flush(context);
        self.in_time(context, taken)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let taken = Pin::new(&mut self.stream).poll_shutdown(context);
        self.in_time(context, taken)
    }
}
