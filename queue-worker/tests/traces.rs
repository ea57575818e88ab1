//! With the feature `otel`, a job carries the trace of its producer.
#![cfg(feature = "otel")]

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use opentelemetry::{
    Value,
    trace::{SpanKind, Status, TracerProvider},
};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use queue_core::{prelude::*, schedule::Schedule};
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

/// Runs three rounds.
#[task(queue = "orders", retention = "1h")]
async fn poll(context: JobContext) -> Outcome {
    static ROUND: AtomicU32 = AtomicU32::new(0);
    drop(context);
    if ROUND.fetch_add(1, Ordering::SeqCst) < 2 { Outcome::Repeat(Duration::from_millis(1)) } else { Outcome::Done }
}

/// The spans with this name and this job.
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
    let rounds = poll::job().id("rounds").enqueue(&queue).instrument(tracing::info_span!("request")).await.unwrap();
    let ticks = Schedule::every("often", Duration::from_secs(1)).max_ticks(3).job(pack::job(30));
    let schedule = queue.schedules().upsert(ticks).instrument(tracing::info_span!("define")).await.unwrap().schedule;
    let schedules = queue.schedules();
    let alone = pack::job(20).id("alone").enqueue(&queue).await.unwrap();
    let done = async move {
        for handle in stored.into_iter().chain([alone]) {
            assert_eq!(handle.wait(Duration::from_secs(20)).await.unwrap(), JobResult::Done(()));
        }
        assert_eq!(rounds.wait(Duration::from_secs(20)).await.unwrap(), JobResult::Done(()));
        let ended = async || {
            let record = schedules.get(&schedule).await.unwrap().unwrap();
            record.runs.iter().filter(|run| run.outcome.as_deref() == Some("done")).count() == 3
        };
        queue_conformance::patience::wait("three ticks to be done").until(ended).await;
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
    // The jobs that it enqueues belong to the same trace.
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
    each_round_has_a_trace_of_its_own_with_a_link_to_the_one_before(&spans);
    each_tick_has_a_trace_of_its_own_with_a_link_to_the_one_before(&spans);
    assert!(sends("orders/alone").parent_span_id == opentelemetry::trace::SpanId::INVALID, "it has begun a trace");
}

fn trace_of(span: &SpanData) -> String {
    span.span_context.trace_id().to_string()
}

fn links(span: &SpanData) -> Vec<String> {
    span.links.links.iter().map(|link| link.span_context.trace_id().to_string()).collect()
}

fn each_round_has_a_trace_of_its_own_with_a_link_to_the_one_before(spans: &[SpanData]) {
    let rounds = find(spans, "process orders", "orders/rounds");
    assert_eq!(rounds.len(), 3);
    let traces: BTreeSet<String> = rounds.iter().map(|round| trace_of(round)).collect();
    assert_eq!(traces.len(), 3, "{traces:?}");
    for pair in rounds.windows(2) {
        assert!(links(pair[1]).contains(&trace_of(pair[0])), "{:?}", links(pair[1]));
    }
}

fn each_tick_has_a_trace_of_its_own_with_a_link_to_the_one_before(spans: &[SpanData]) {
    let of_schedule = |span: &&SpanData| span.attributes.iter().any(|known| known.key.as_str() == "schedule");
    let ticks: Vec<&SpanData> = spans.iter().filter(of_schedule).collect();
    assert_eq!(ticks.len(), 3);
    let define = spans.iter().find(|span| span.name == "define").unwrap();
    let traces: BTreeSet<String> = ticks.iter().copied().chain([define]).map(trace_of).collect();
    assert_eq!(traces.len(), 4, "no tick is in the trace of another one, or of the definition");
    for (at, tick) in ticks.iter().enumerate() {
        assert_eq!((tick.parent_span_id, &tick.span_kind), (opentelemetry::trace::SpanId::INVALID, &SpanKind::Producer));
        let run = spans.iter().find(|span| span.parent_span_id == tick.span_context.span_id()).unwrap();
        assert_eq!((run.name.as_ref(), trace_of(run)), ("process orders", trace_of(tick)));
        if at > 0 {
            assert!(links(tick).contains(&trace_of(ticks[at - 1])), "{:?}", links(tick));
        }
    }
}

/// The span context as a remote process receives it.
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
