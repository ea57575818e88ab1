//! The export of spans to an OpenTelemetry collector, with OTLP over HTTP. The environment
//! variables are those of OpenTelemetry.

use std::{path::Path, time::Duration};

use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use tracing_subscriber::{EnvFilter, Layer, Registry, layer::Layered};

use super::{
    exit::{Exit, Failure},
    log::AllEvents,
};

/// The destination of spans. Without one of these variables, no spans are exported.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];

/// The exported spans: those of the application and of the queue, and the calls to the broker
/// within them.
const EXPORTED: &str = "info,queue_core::observe=debug";

/// A part of the program's subscriber.
type Spans = Box<dyn Layer<Layered<Option<AllEvents>, Registry>> + Send + Sync>;

/// The spans that wait for the export.
#[derive(Debug)]
pub(super) struct Traces(SdkTracerProvider);

/// The maximum time for the export of the last spans.
const LAST_SPANS: Duration = Duration::from_millis(700);

impl Traces {
    /// Starts the export, if a variable has a destination. The layer is for the program's
    /// subscriber.
    pub(super) fn begin() -> Result<Option<(Traces, Spans)>, Failure> {
        let set = |variable: &&&str| std::env::var_os(variable).is_some_and(|value| !value.is_empty());
        let Some(variable) = ENDPOINTS.iter().find(set) else { return Ok(None) };
        let exporter = SpanExporter::builder().with_http().build();
        let exporter =
            exporter.map_err(|error| Failure::new(Exit::Setup, format!("cannot export spans to the target in {variable}: {error}")))?;
        let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource()).build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("queue")).with_filter(EnvFilter::new(EXPORTED));
        Ok(Some((Traces(provider), layer.boxed())))
    }

    /// Exports the remaining spans, within the time that a program has for its end. Spans that
    /// cannot be exported are lost, which is logged.
    pub(super) async fn end(self) {
        // The shutdown blocks until the exporting thread has ended.
        let ended = tokio::task::spawn_blocking(move || self.0.shutdown_with_timeout(LAST_SPANS)).await;
        if let Ok(Err(error)) = ended {
            tracing::warn!(%error, "cannot export the last spans");
        }
    }
}

/// The name of the service is that of the program, unless `OTEL_SERVICE_NAME` or
/// `OTEL_RESOURCE_ATTRIBUTES` sets it.
fn resource() -> Resource {
    let named = ["OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"].iter().any(|variable| {
        std::env::var(variable).is_ok_and(|value| *variable == "OTEL_SERVICE_NAME" && !value.is_empty() || value.contains("service.name="))
    });
    let program = std::env::args().next().and_then(|program| Some(Path::new(&program).file_stem()?.to_string_lossy().into_owned()));
    match program.filter(|_| !named) {
        Some(program) => Resource::builder().with_service_name(program).build(),
        None => Resource::builder().build(),
    }
}
