//! The trace that a job carries from its enqueue to its runs, in the headers of the W3C
//! recommendation *Trace Context*.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Mutex, PoisonError},
};

use opentelemetry::{
    propagation::{Extractor, Injector, TextMapPropagator},
    trace::{SpanContext, TraceContextExt},
};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// The header that names the trace and the span of the enqueue.
const PARENT: &str = "traceparent";

/// Sets the attributes of the conventions for messaging.
pub(super) fn describe(span: &Span, operation: &'static str, queue: &str) {
    if span.is_disabled() {
        return;
    }
    span.set_attribute("messaging.system", "queue");
    span.set_attribute("messaging.operation.name", operation);
    span.set_attribute("messaging.operation.type", operation);
    span.set_attribute("messaging.destination.name", queue.to_owned());
}

/// The span of a call to the broker, for calls that belong to something. Those of a worker's
/// duties, which never end, have none.
pub(super) fn call(verb: &'static str) -> Span {
    if Span::current().is_disabled() {
        return Span::none();
    }
    tracing::debug_span!("call", otel.name = verb, otel.kind = "client", verb)
}

/// Adds the current trace to the headers of a job, unless they have one already. Without a trace it
/// adds nothing.
pub(crate) fn inject(headers: &mut BTreeMap<String, String>) {
    if headers.contains_key(PARENT) {
        return;
    }
    let context = Span::current().context();
    if context.span().span_context().is_valid() {
        TraceContextPropagator::new().inject_context(&context, &mut Headers(headers));
    }
}

/// A tick of a schedule: a new trace, which is linked to those in the headers. The job gets its
/// headers.
pub(super) fn tick<'a>(
    headers: &mut BTreeMap<String, String>,
    queue: &str,
    schedule: &str,
    links: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    let name = format_args!("send {queue}");
    let span = tracing::info_span!(parent: None, "tick", otel.name = %name, otel.kind = "producer", queue, schedule);
    if span.is_disabled() {
        return None;
    }
    describe(&span, "send", queue);
    // An operator who runs or backfills a schedule has a trace, too.
    let caller = Span::current().context().span().span_context().clone();
    let linked = links.into_iter().map(|header| named(&[(PARENT.to_owned(), header.to_owned())].into()));
    linked.chain([caller]).filter(SpanContext::is_valid).for_each(|linked| span.add_link(linked));
    let context = span.context();
    if context.span().span_context().is_valid() {
        TraceContextPropagator::new().inject_context(&context, &mut Headers(headers));
    }
    headers.get(PARENT).cloned()
}

/// The span that headers name.
fn named(headers: &BTreeMap<String, String>) -> SpanContext {
    TraceContextPropagator::new().extract(&Carried(headers)).span().span_context().clone()
}

/// Rounds of repeating jobs that are remembered, at most.
const ROUNDS: usize = 10_000;

/// The last rounds of jobs that repeat and have run in this process, to which their next ones are
/// linked.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct Rounds(Mutex<(HashMap<String, SpanContext>, VecDeque<String>)>);

impl Rounds {
    /// A round of this job has ended, and another one follows. If there are too many, the oldest is
    /// removed.
    pub fn ended(&self, job: String, span: &Span) {
        let round = span.context().span().span_context().clone();
        if !round.is_valid() {
            return;
        }
        let (rounds, order) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if rounds.insert(job.clone(), round).is_none() {
            order.push_back(job);
        }
        while order.len() > ROUNDS {
            order.pop_front().map(|oldest| rounds.remove(&oldest));
        }
    }

    /// Links the span of a round to the round before, if that has run in this process.
    pub fn link(&self, job: &str, span: &Span) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).0.get(job).cloned();
        let is_known = known.is_some();
        known.into_iter().for_each(|round| span.add_link(round));
        is_known
    }
}

/// Links the span of a run to the enqueue of its job. A job without a delay runs in the trace of
/// its enqueue. A job with a delay has a new trace, because otherwise a trace could last for weeks.
/// It must be called before the span is entered.
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
        // It fails only without a subscriber, or if it is too late. The link exists nevertheless.
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
