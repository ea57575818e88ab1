//! What it costs to be observed: metrics for Prometheus, and a span for each run. It needs the
//! feature `observed`.

use std::{
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures_util::FutureExt;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::trace::SdkTracerProvider;
use queue_core::Client;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};
use tracing_subscriber::{Layer, layer::SubscriberExt, util::SubscriberInitExt};

use crate::{
    Error,
    children::{self, WorkerProcess},
    frame::{Figure, Reading, Readings, When},
    server::Server,
    worker::jobs,
};

/// The part of a worker process that is observed.
pub(crate) const PART: &str = "observed";

pub(crate) fn figures() -> Vec<Figure> {
    let about = "200,000 preloaded no-op jobs, drained by a worker process of concurrency 256 that answers `GET /metrics`, and by one that exports a span \
                 for each run to a collector (at most 2,048 spans wait for it; the others are dropped), beside one that does neither, in the same run. \
                 The features `prometheus` and `otel` are compiled in for all three.";
    vec![Figure::redis("observed", about, |server| observed(server).boxed()).when(When::Named)]
}

async fn observed(server: &Server) -> Readings {
    let n = 200_000;
    let collector = Collector::start().await?;
    let mut rates = Vec::new();
    for how in ["neither", "metrics", &collector.endpoint] {
        server.flush()?;
        Client::connect(&server.url()).await?.enqueue_all(jobs(n)).await?;
        let worker = WorkerProcess::start(&[PART, &server.url(), "256", how]).await?;
        rates.push(children::drain(&mut [worker], n).await?);
    }
    if collector.exports.load(Ordering::Relaxed) == 0 {
        return Err("no span was exported".into());
    }
    let [neither, metrics, traces] = rates[..] else { return Err("three rates were measured".into()) };
    let beside = |reading: Reading| reading.beside(neither, "neither in the same run");
    Ok(vec![
        Reading::new("_neither", neither, "jobs/s"),
        beside(Reading::new("_metrics", metrics, "jobs/s")),
        beside(Reading::new("_traces", traces, "jobs/s")),
    ])
}

/// Begins to export spans to this endpoint, until the end of the process.
pub(crate) fn export(endpoint: &str) -> Result<(), Error> {
    use opentelemetry_otlp::{SpanExporter, WithExportConfig};
    let exporter = SpanExporter::builder().with_http().with_endpoint(endpoint).build()?;
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("queue"));
    // As a worker binary does it.
    tracing_subscriber::registry()
        .with(layer.with_filter(tracing_subscriber::EnvFilter::new("info,queue_core::observe=debug")))
        .try_init()?;
    // Nothing is exported any more when the last one is dropped.
    std::mem::forget(provider);
    Ok(())
}

/// Takes what is exported, and keeps nothing of it.
struct Collector {
    endpoint: String,
    exports: Arc<AtomicUsize>,
}

impl Collector {
    async fn start() -> Result<Self, Error> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let endpoint = format!("http://{}/v1/traces", listener.local_addr()?);
        let exports = Arc::new(AtomicUsize::new(0));
        let counted = exports.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let counted = counted.clone();
                tokio::spawn(async move {
                    // The exporter closes its connection when it ends.
                    let _ = take(stream, &counted).await;
                });
            }
        });
        Ok(Collector { endpoint, exports })
    }
}

/// Answers the exports of a connection.
async fn take(stream: TcpStream, exports: &AtomicUsize) -> Result<(), Error> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            let line = line.trim().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse()?;
            } else if line.is_empty() {
                break;
            }
        }
        stream.read_exact(&mut vec![0; length]).await?;
        exports.fetch_add(1, Ordering::Relaxed);
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n").await?;
    }
}
