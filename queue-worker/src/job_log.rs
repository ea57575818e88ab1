//! A layer of `tracing` that copies the events of a running job into the log of the job.

use std::{
    cell::RefCell,
    fmt::{self, Write},
    sync::atomic::{AtomicBool, Ordering},
};

use queue_core::{JobContext, LogLevel};
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id},
};
use tracing_subscriber::{Layer, layer::Context, registry::LookupSpan};

/// Copies `tracing` events to the log of a job, together with the lines of [`JobContext::log`]. It
/// copies all events within the span of the run. These include events of functions without access
/// to the job, and of tasks that run within the span.
///
/// ```
/// use queue_worker::JobLogLayer;
/// use tracing_subscriber::prelude::*;
///
/// let subscriber = tracing_subscriber::registry().with(JobLogLayer::new()).with(tracing_subscriber::fmt::layer());
/// # drop(subscriber);
/// ```
///
/// Events of the crate `log` are also copied if `tracing-log` forwards them to `tracing`. The
/// fields with their origin are left out.
///
/// By default, these are the events of level `info` and above. If a filter of the whole subscriber
/// disables spans of level `info`, no event can be copied. Events of this library itself are not
/// copied.
#[derive(Debug)]
#[must_use = "it goes into a subscriber: `registry().with(JobLogLayer::new())`"]
pub struct JobLogLayer {
    level: LogLevel,
}

/// The job of a span.
struct Job(JobContext);

thread_local! {
    /// The job whose span is being created on this thread.
    static OPENS: RefCell<Option<JobContext>> = const { RefCell::new(None) };
}

/// Whether the program has created such a layer.
static WANTED: AtomicBool = AtomicBool::new(false);

/// Creates the span of a run, and passes its job to the layer.
pub(crate) fn opening<T>(context: &JobContext, open: impl FnOnce() -> T) -> T {
    if !WANTED.load(Ordering::Relaxed) {
        return open();
    }
    OPENS.set(Some(context.clone()));
    let opened = open();
    OPENS.set(None);
    opened
}

impl JobLogLayer {
    /// A layer for events of level `info` and above.
    pub fn new() -> Self {
        WANTED.store(true, Ordering::Relaxed);
        JobLogLayer { level: LogLevel::Info }
    }

    /// Events of this level and above.
    pub fn level(mut self, level: LogLevel) -> Self {
        self.level = level;
        self
    }
}

impl Default for JobLogLayer {
    fn default() -> Self {
        JobLogLayer::new()
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for JobLogLayer {
    fn on_new_span(&self, _: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(job) = OPENS.with_borrow(Clone::clone)
            && let Some(span) = context.span(id)
        {
            span.extensions_mut().replace(Job(job));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let level = level_of(*event.metadata().level());
        if level > self.level || is_internal(event.metadata().target()) {
            return;
        }
        let of = |span: tracing_subscriber::registry::SpanRef<'_, S>| span.extensions().get::<Job>().map(|Job(job)| job.clone());
        if let Some(job) = context.event_scope(event).and_then(|mut spans| spans.find_map(of)) {
            let mut text = Text::default();
            event.record(&mut text);
            if !is_internal(&text.target) {
                job.log_at(level, text.whole());
            }
        }
    }
}

fn level_of(level: Level) -> LogLevel {
    match level {
        Level::ERROR => LogLevel::Error,
        Level::WARN => LogLevel::Warn,
        Level::INFO => LogLevel::Info,
        Level::DEBUG => LogLevel::Debug,
        _ => LogLevel::Trace,
    }
}

/// Events of the worker about a job are not part of the job's log.
fn is_internal(target: &str) -> bool {
    ["queue_core", "queue_worker", "queue_cli"].contains(&target.split("::").next().unwrap_or_default())
}

/// Whether the field is one that `tracing-log` adds, with the origin of a line of the crate `log`.
fn is_of_log(field: &str) -> bool {
    matches!(field, "log.target" | "log.module_path" | "log.file" | "log.line")
}

/// The message of an event, followed by its fields.
#[derive(Default)]
struct Text {
    /// The target of the original line, if `tracing-log` has created the event from a line of the
    /// crate `log`.
    target: String,
    message: String,
    fields: String,
}

impl Text {
    fn whole(self) -> String {
        if self.message.is_empty() { self.fields.trim_start().to_owned() } else { self.message + &self.fields }
    }
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a String cannot fail.
        let _ = match field.name() {
            name if is_of_log(name) => Ok(()),
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let _ = match field.name() {
            "log.target" => write!(self.target, "{value}"),
            name if is_of_log(name) => Ok(()),
            "message" => write!(self.message, "{value}"),
            name => write!(self.fields, " {name}={value}"),
        };
    }
}
