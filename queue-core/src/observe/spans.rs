//! The spans of `tracing`: one for each enqueue, for each run of a job, and for each call to the
//! broker that is made within another span. With the feature `otel`, a job also carries the trace
//! of its producer: see `docs/tracing.md`.
//!
//! A span without an interested subscriber costs one check of a flag.

use std::collections::BTreeMap;

use tracing::{Span, field::Empty};

use crate::outcome::Outcome;

/// The span of an enqueue.
pub(crate) fn enqueue(task: &str, queue: &str) -> Span {
    #[cfg(not(feature = "otel"))]
    let span = tracing::info_span!("enqueue", task, queue, job = Empty, error = Empty);
    #[cfg(feature = "otel")]
    let span = {
        let name = format_args!("send {queue}");
        tracing::info_span!("enqueue", otel.name = %name, otel.kind = "producer", otel.status_code = Empty, task, queue, job = Empty, error = Empty)
    };
    #[cfg(feature = "otel")]
    super::otel::describe(&span, "send", queue);
    span
}

/// The span of a call of `enqueue_all`, whose jobs may go to several queues.
pub(crate) fn enqueue_all(task: &str) -> Span {
    #[cfg(not(feature = "otel"))]
    let span = tracing::info_span!("enqueue_all", task, jobs = Empty, error = Empty);
    #[cfg(feature = "otel")]
    let span = tracing::info_span!("enqueue_all", otel.kind = "producer", otel.status_code = Empty, task, jobs = Empty, error = Empty);
    span
}

/// The headers of the trace of a job.
const TRACE_HEADERS: [&str; 2] = ["traceparent", "tracestate"];

/// Begins the trace of a tick of a schedule, and replaces the headers of the trace in which the
/// schedule was defined. With the feature `otel` and a subscriber, the tick is a span that is
/// linked to both; its header is returned.
pub(crate) fn tick(headers: &mut BTreeMap<String, String>, queue: &str, schedule: &str, last: Option<&str>) -> Option<String> {
    let [defined, _] = TRACE_HEADERS.map(|name| headers.remove(name));
    #[cfg(feature = "otel")]
    let traced = super::otel::tick(headers, queue, schedule, last.into_iter().chain(defined.as_deref()));
    #[cfg(not(feature = "otel"))]
    let traced = {
        let _ = (queue, schedule, last, defined);
        None
    };
    traced
}

/// The span of a run.
#[doc(hidden)]
pub fn run(job: &dyn std::fmt::Display, queue: &str, task: &str, attempt: u32, trace: Option<&str>) -> Span {
    #[cfg(not(feature = "otel"))]
    let span = {
        let _ = queue;
        tracing::info_span!("job", %job, task, attempt, traceparent = trace, outcome = Empty)
    };
    #[cfg(feature = "otel")]
    let span = {
        let name = format_args!("process {queue}");
        tracing::info_span!("job", otel.name = %name, otel.kind = "consumer", otel.status_code = Empty, %job, task, attempt, traceparent = trace, outcome = Empty)
    };
    #[cfg(feature = "otel")]
    super::otel::describe(&span, "process", queue);
    span
}

/// Notes how a run has ended.
#[doc(hidden)]
pub fn ended(span: &Span, outcome: &Outcome) {
    if span.is_disabled() {
        return;
    }
    span.record("outcome", tracing::field::display(outcome));
    if !matches!(
        outcome,
        Outcome::Done
            | Outcome::DoneWith(_)
            | Outcome::Snooze(_)
            | Outcome::RateLimited(_)
            | Outcome::RateLimitedBy(..)
            | Outcome::Repeat(_)
            | Outcome::Cancel(_)
    ) {
        failed(span);
    }
}

/// Notes an error.
pub(crate) fn refused(span: &Span, error: &dyn std::error::Error) {
    if !span.is_disabled() {
        span.record("error", tracing::field::display(error));
        failed(span);
    }
}

fn failed(span: &Span) {
    if cfg!(feature = "otel") {
        span.record("otel.status_code", "ERROR");
    }
}
