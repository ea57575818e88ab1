//! With the feature `otel`, a job carries the trace of whoever enqueued it.
#![cfg(feature = "otel")]

use std::time::Duration;

use opentelemetry::{
    Value,
    trace::{SpanKind, Status, TracerProvider},
};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use queue_core::prelude::*;
use queue_worker::Worker;
use tracing::Instrument;
use tracing_subscriber::{EnvFilter, prelude::*};

#[task(queue = "orders", retention = "1h", max_attempts = 2, backoff(base = "1ms", max = "1ms"))]
async fn pack(order: u64, context: JobContext) -> Result<(), std::io::Error> {
    if order == 13 && context.attempt() == 1 {
        return Err(std::io::Error::other("no box"));
    }
    if order == 1 {
        pack::job(2).enqueue(context.client()).await.map_err(std::io::Error::other)?;
    }
    Ok(())
}

/// What is found of a span by its name and an attribute.
fn find<'a>(spans: &'a [SpanData], name: &str, job: &str) -> Vec<&'a SpanData> {
    let of_job =
        |span: &&SpanData| span.attributes.iter().any(|known| known.key.as_str() == "job" && known.value == Value::from(job.to_owned()));
    spans.iter().filter(|span| span.name == name).filter(of_job).collect()
}

#[tokio::test]
async fn a_run_is_linked_to_its_enqueue_and_in_its_trace_if_it_had_not_to_wait() {
    let exported = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exported.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    tracing_subscriber::registry().with(layer.with_filter(EnvFilter::new("info,queue_core::observe=debug"))).init();

    let queue = Client::connect("sqlite://:memory:").await.unwrap();
    let stored = async {
        let at_once = pack::job(1).id("at-once").enqueue(&queue).await.unwrap();
        let later = pack::job(7).id("later").delay(Duration::from_millis(1)).enqueue(&queue).await.unwrap();
        let fails = pack::job(13).id("fails").enqueue(&queue).await.unwrap();
        let foreign = pack::job(9)
            .id("foreign")
            .header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
            .enqueue(&queue)
            .await
            .unwrap();
        [at_once, later, fails, foreign]
    }
    .instrument(tracing::info_span!("request"))
    .await;
    let alone = pack::job(20).id("alone").enqueue(&queue).await.unwrap();
    let done = async move {
        for handle in stored.into_iter().chain([alone]) {
            assert_eq!(handle.wait(Duration::from_secs(20)).await.unwrap(), JobResult::Done(()));
        }
    };
    Worker::new(queue).run(done).await.unwrap();

    let spans = exported.get_finished_spans().unwrap();
    let request = spans.iter().find(|span| span.name == "request").unwrap();
    let trace = request.span_context.trace_id();
    let sends = |job: &str| find(&spans, "send orders", job)[0].clone();
    let runs = |job: &str| find(&spans, "process orders", job);

    let send = sends("orders/at-once");
    assert_eq!(
        (send.span_context.trace_id(), send.parent_span_id, &send.span_kind),
        (trace, request.span_context.span_id(), &SpanKind::Producer)
    );
    let run = runs("orders/at-once")[0];
    assert_eq!(
        (run.span_context.trace_id(), run.parent_span_id, &run.span_kind),
        (trace, send.span_context.span_id(), &SpanKind::Consumer)
    );
    assert_eq!(run.links.links[0].span_context, remote(&send));
    assert_eq!(run.status, Status::Unset);
    // What it enqueues is of the same trace.
    let child = spans.iter().find(|span| span.name == "send orders" && span.parent_span_id == run.span_context.span_id()).unwrap();
    assert_eq!(child.span_context.trace_id(), trace);

    let (send, run) = (sends("orders/later"), runs("orders/later")[0]);
    assert_ne!(run.span_context.trace_id(), trace, "a job that waits begins a trace of its own");
    assert_eq!(run.links.links[0].span_context, remote(&send));

    let attempts = runs("orders/fails");
    assert_eq!(attempts.len(), 2);
    assert!(matches!(attempts[0].status, Status::Error { .. }), "{:?}", attempts[0].status);
    assert_eq!(attempts[1].status, Status::Unset);

    let foreign = runs("orders/foreign")[0];
    assert_eq!(foreign.span_context.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c", "the header of the application holds");
    assert!(sends("orders/alone").parent_span_id == opentelemetry::trace::SpanId::INVALID, "it has begun a trace");
}

/// How a span is known elsewhere.
fn remote(span: &SpanData) -> opentelemetry::trace::SpanContext {
    let context = &span.span_context;
    opentelemetry::trace::SpanContext::new(
        context.trace_id(),
        context.span_id(),
        context.trace_flags(),
        true,
        context.trace_state().clone(),
    )
}
