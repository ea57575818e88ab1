//! `exporter`: serves the metrics of every queue for Prometheus.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use queue_core::{
    __private::{Answer, CLIENTS, REFUSED_PAUSE, asked, error_text, respond},
    Client,
    inspect::Inspector,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Mutex, Semaphore},
};

use super::{
    exit::{Exit, Failure},
    log::Log,
    output::print,
    stop::asked_to_stop,
};

pub(super) const HELP: &str = "Examples:
  {bin} exporter                           at http://127.0.0.1:9465/metrics
  {bin} exporter --bind 10.0.0.5:9465      for a Prometheus on another machine

A worker reports only the queues that it serves. The exporter reports every queue of the broker:
without a worker, `queue_workers` of a queue is 0. It needs no token: bind it to an address that
only your monitoring can reach.";

/// Requests within this time share an answer.
const FRESH: Duration = Duration::from_secs(1);

/// The maximum time of a request, including the reads of all queues.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, clap::Args)]
pub(super) struct ExporterArgs {
    /// Listen on this address
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9465")]
    bind: SocketAddr,
}

pub(super) async fn exporter(client: &Client, args: &ExporterArgs) -> Result<(), Failure> {
    let log = Log::begin(None)?;
    let bound = TcpListener::bind(args.bind).await;
    let listener = bound.map_err(|error| {
        let text = format!("cannot listen on {}: {error}; choose another address with --bind", args.bind);
        Failure::new(Exit::Setup, text)
    })?;
    print(&format!("http://{}/metrics", listener.local_addr()?))?;
    let exporter = Arc::new(Exporter { inspector: client.inspector(), last: Mutex::new(None) });
    tokio::select! {
        () = serve(&listener, exporter) => {}
        () = asked_to_stop() => {}
    }
    log.end().await;
    Ok(())
}

struct Exporter {
    inspector: Inspector,
    last: Mutex<Option<(Instant, String)>>,
}

impl Exporter {
    /// Concurrent requests share the same figures.
    async fn metrics(&self) -> Answer {
        let mut last = self.last.lock().await;
        if let Some((_, body)) = last.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            return Answer::metrics(body.clone());
        }
        match self.inspector.exposition().await {
            Ok(body) => {
                *last = Some((Instant::now(), body.clone()));
                Answer::metrics(body)
            }
            Err(error) => {
                let error = error_text(&error);
                tracing::warn!(error, "cannot read the metrics of the queues");
                Answer::json("503 Service Unavailable", serde_json::json!({ "error": error }).to_string())
            }
        }
    }

    async fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let request = asked(&mut stream).await?;
        let answer = match request.path() {
            Some("/metrics") => self.metrics().await,
            Some(_) => Answer::json("404 Not Found", r#"{"error":"there is /metrics"}"#),
            None => Answer::json("405 Method Not Allowed", r#"{"error":"only GET"}"#),
        };
        respond(&mut stream, &request, answer).await
    }
}

async fn serve(listener: &TcpListener, exporter: Arc<Exporter>) {
    let room = Arc::new(Semaphore::new(CLIENTS));
    loop {
        let Ok(place) = room.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let exporter = exporter.clone();
                tokio::spawn(async move {
                    let _place = place;
                    // A client that disconnects is not reported.
                    let _ = tokio::time::timeout(PATIENCE, exporter.answer(stream)).await;
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection to the exporter");
                tokio::time::sleep(REFUSED_PAUSE).await;
            }
        }
    }
}
