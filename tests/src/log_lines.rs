//! The log lines of a process, for tests of lines on which operators rely.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Mutex, Once, PoisonError},
};

use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{Layer, layer::Context, prelude::*};

/// One line.
#[derive(Clone, Debug)]
pub struct Line {
    /// The level of the line.
    pub level: Level,
    /// The crate and module that logged it.
    pub target: &'static str,
    /// The message.
    pub message: String,
    /// The fields.
    pub fields: BTreeMap<&'static str, String>,
}

impl Line {
    /// A field, or an empty text.
    pub fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }
}

static LINES: Mutex<Vec<Line>> = Mutex::new(Vec::new());

/// From now on, records the lines of this process at `info` or above. Its tests share them: each
/// searches for its own queues and brokers.
pub fn note() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let notes = Notes.with_filter(tracing_subscriber::filter::LevelFilter::INFO);
        tracing_subscriber::registry().with(notes).init();
    });
}

/// The matching lines up to now, in order.
pub fn lines(like: impl Fn(&Line) -> bool) -> Vec<Line> {
    LINES.lock().unwrap_or_else(PoisonError::into_inner).iter().filter(|line| like(line)).cloned().collect()
}

struct Notes;

impl<S: Subscriber> Layer<S> for Notes {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let mut line = Line { level: *metadata.level(), target: metadata.target(), message: String::new(), fields: BTreeMap::new() };
        event.record(&mut line);
        line.message = line.fields.remove("message").unwrap_or_default();
        LINES.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }
}
