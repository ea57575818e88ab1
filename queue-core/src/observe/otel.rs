//! The trace that a job carries from its enqueue to its runs, in the headers of the W3C recommendation *Trace Context*.

use std::collections::BTreeMap;

use opentelemetry::{
    propagation::{Extractor, Injector, TextMapPropagator},
    trace::TraceContextExt,
};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// The header that names the trace and the span of the enqueue.
const PARENT: &str = "traceparent";

/// What the conventions for messaging ask for.
pub(super) fn describe(span: &Span, operation: &'static str, queue: &str) {
    if span.is_disabled() {
        return;
    }
    span.set_attribute("messaging.system", "queue");
    span.set_attribute("messaging.operation.name", operation);
    span.set_attribute("messaging.operation.type", operation);
    span.set_attribute("messaging.destination.name", queue.to_owned());
}

/// The span of a call to the broker, for calls that belong to something. Those of a worker's duties, which never end, have none.
pub(super) fn call(verb: &'static str) -> Span {
    if Span::current().is_disabled() {
        return Span::none();
    }
    tracing::debug_span!("call", otel.name = verb, otel.kind = "client", verb)
}

/// Adds the current trace to the headers of a job, unless somebody has set one. Without a trace it adds nothing.
pub(crate) fn inject(headers: &mut BTreeMap<String, String>) {
    if headers.contains_key(PARENT) {
        return;
    }
    let context = Span::current().context();
    if context.span().span_context().is_valid() {
        TraceContextPropagator::new().inject_context(&context, &mut Headers(headers));
    }
}

/// Links the span of a run to the enqueue of its job. A job that was to start at once runs in the trace of its enqueue; one that waited for a
/// time has a trace of its own, for otherwise a trace could last for weeks. It must be called before the span is entered.
#[doc(hidden)]
pub fn follow(span: &Span, headers: &BTreeMap<String, String>, waits: bool) {
    if span.is_disabled() || !headers.contains_key(PARENT) {
        return;
    }
    let context = TraceContextPropagator::new().extract(&Carried(headers));
    let enqueue = context.span().span_context().clone();
    if !enqueue.is_valid() {
        return;
    }
    if !waits {
        // It fails only where nobody listens, or too late; the link is there all the same.
        let _ = span.set_parent(context);
    }
    span.add_link(enqueue);
}

struct Headers<'a>(&'a mut BTreeMap<String, String>);

impl Injector for Headers<'_> {
    fn set(&mut self, key: &str, value: String) {
        // An empty `tracestate` is ignored.
        if !value.is_empty() {
            self.0.insert(key.to_owned(), value);
        }
    }
}

struct Carried<'a>(&'a BTreeMap<String, String>);

impl Extractor for Carried<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }
}
