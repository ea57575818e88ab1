//! The traces of the web application (feature `otel`). The worker does not need this module,
//! because its command line has an export.

use std::error::Error;

use axum::{
    Router,
    extract::Request,
    middleware::{Next, from_fn},
};
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use tracing::Instrument;
use tracing_subscriber::{EnvFilter, prelude::*};

/// Exports the spans of this program to the collector in `OTEL_EXPORTER_OTLP_ENDPOINT`, if it is
/// set. Shut it down at the end, so that the last spans are exported.
///
/// # Errors
/// The error of the exporter, or if another subscriber is already set.
pub fn export() -> Result<Option<SdkTracerProvider>, Box<dyn Error + Send + Sync>> {
    if std::env::var_os("OTEL_EXPORTER_OTLP_ENDPOINT").is_none() {
        return Ok(None);
    }
    let exporter = SpanExporter::builder().with_http().build()?;
    let resource = Resource::builder().with_service_name("shop").build();
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build();
    let spans = tracing_opentelemetry::layer().with_tracer(provider.tracer("shop"));
    // The calls to the broker are spans of level `debug`.
    tracing_subscriber::registry().with(spans.with_filter(EnvFilter::new("info,queue_core::observe=debug"))).try_init()?;
    Ok(Some(provider))
}

/// A span around each request. The spans of its enqueues are its children.
pub fn around_requests(app: Router) -> Router {
    app.layer(from_fn(async |request: Request, next: Next| {
        let name = format!("{} {}", request.method(), request.uri().path());
        next.run(request).instrument(tracing::info_span!("request", otel.name = name, otel.kind = "server")).await
    }))
}
