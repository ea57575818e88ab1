//! What an assertion expects of a job, and in what a job differs from it.

use std::{
    collections::BTreeMap,
    fmt::Write,
    time::{Duration, SystemTime},
};

use queue_core::{__private::Envelope, JobState, Priority, Task, TaskDef, inspect::JobRecord};
use serde::Serialize;
use serde_json::Value;

use crate::queue::{Span, TestQueue};

/// What a delay or a time may differ by.
const TOLERANCE: Duration = Duration::from_secs(1);

/// Reads something of a job as a text, and says whether it is the expected one.
type Check = Box<dyn Fn(&JobRecord) -> (bool, String)>;

/// What an assertion expects.
#[allow(missing_debug_implementations, missing_docs, reason = "only the macros use it, which describe it")]
pub struct Expected {
    task: &'static TaskDef,
    fields: Vec<(&'static str, Value)>,
    no_others: bool,
    options: Vec<(String, String, Check)>,
    state: Option<JobState>,
    count: Option<usize>,
}

/// In what a job differs from what is expected.
struct Difference {
    of: String,
    expected: String,
    found: String,
}

#[allow(missing_docs, reason = "the macros describe these")]
impl Expected {
    pub fn of<T: Task>() -> Self {
        Expected { task: T::definition(), fields: Vec::new(), no_others: false, options: Vec::new(), state: None, count: None }
    }

    #[track_caller]
    pub fn field(&mut self, name: &'static str, value: &(impl Serialize + ?Sized)) {
        let name = name.strip_prefix("r#").unwrap_or(name);
        let known = || self.task.params.iter().map(|param| param.name);
        if !known().any(|known| known == name) {
            let near = queue_core::__private::nearest(name, known()).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            panic!("task `{}` has no parameter `{name}`{near} (it has: {})", self.task.name, known().collect::<Vec<_>>().join(", "));
        }
        self.fields.push((name, stored(value)));
    }

    pub fn no_others(&mut self) {
        self.no_others = true;
    }

    fn option(&mut self, of: &str, expected: String, found: impl Fn(&JobRecord) -> Option<String> + 'static) {
        let wanted = expected.clone();
        let check = move |job: &JobRecord| found(job).map_or((false, "none".to_owned()), |found| (found == wanted, found));
        self.options.push((of.to_owned(), expected, Box::new(check)));
    }

    pub fn queue(&mut self, queue: &str) {
        self.option("queue", queue.to_owned(), |job| Some(job.address.queue.to_string()));
    }

    pub fn delay(&mut self, delay: impl Span) {
        let delay = delay.span();
        let check = move |job: &JobRecord| {
            let waits = job.due_at.zip(job.enqueued_at).map(|(due, enqueued)| due.duration_since(enqueued).unwrap_or_default());
            // A job that is due already has its delay in its stored form alone.
            let found = waits.or_else(|| Envelope::decode(job.stored()).ok()?.delay_ms.map(Duration::from_millis));
            (found.is_some_and(|found| found.abs_diff(delay) <= TOLERANCE), found.map_or("none".to_owned(), shown))
        };
        self.options.push(("delay".to_owned(), shown(delay), Box::new(check)));
    }

    pub fn at(&mut self, time: SystemTime) {
        let text = |time| humantime::format_rfc3339_millis(time).to_string();
        let check = move |job: &JobRecord| {
            let apart = |due: SystemTime| due.duration_since(time).unwrap_or_else(|early| early.duration());
            (job.due_at.is_some_and(|due| apart(due) <= TOLERANCE), job.due_at.map_or("none".to_owned(), text))
        };
        self.options.push(("at".to_owned(), text(time), Box::new(check)));
    }

    pub fn priority(&mut self, priority: Priority) {
        self.option("priority", priority.to_string(), |job| Some(job.priority.to_string()));
    }

    pub fn group(&mut self, group: &str) {
        self.option("group", group.to_owned(), |job| job.group.as_ref().map(ToString::to_string));
    }

    pub fn max_attempts(&mut self, attempts: u32) {
        let of_task = self.task.max_attempts;
        self.option("max_attempts", attempts.to_string(), move |job| job.max_attempts.or(of_task).map(|attempts| attempts.to_string()));
    }

    pub fn id(&mut self, id: &str) {
        self.option("id", id.to_owned(), |job| Some(job.address.id.to_string()));
    }

    pub fn unique_key(&mut self, key: &str) {
        self.option("unique_key", key.to_owned(), |job| job.unique_key.clone());
    }

    pub fn tag(&mut self, (name, value): (&str, &str)) {
        let of = name.to_owned();
        self.option(&format!("tag {name}"), value.to_owned(), move |job| job.tags.get(&of).cloned());
    }

    pub fn header(&mut self, (name, value): (&str, &str)) {
        let of = name.to_owned();
        self.option(&format!("header {name}"), value.to_owned(), move |job| job.headers.get(&of).cloned());
    }

    pub fn state(&mut self, state: JobState) {
        self.state = Some(state);
        self.option("state", state.to_string(), |job| Some(job.state.to_string()));
    }

    pub fn count(&mut self, count: usize) {
        self.count = Some(count);
    }

    /// In what a job of the task differs.
    fn differences(&self, job: &JobRecord) -> Vec<Difference> {
        let mut found = Vec::new();
        match job.payload_json().map_err(|error| error.to_string()).and_then(|json| parsed(&json)) {
            Ok(payload) => {
                for (name, expected) in &self.fields {
                    let value = payload.get(*name);
                    // An `Option` that is `None` is not stored.
                    if !same(expected, value.unwrap_or(&Value::Null)) {
                        let found_text = value.map_or("not set".to_owned(), ToString::to_string);
                        found.push(Difference { of: (*name).to_owned(), expected: expected.to_string(), found: found_text });
                    }
                }
                let named = |name: &str| self.fields.iter().any(|(field, _)| *field == name);
                for (name, value) in payload.iter().filter(|(name, _)| self.no_others && !named(name)) {
                    let expected = "not named: name it, or end the pattern with `..`".to_owned();
                    found.push(Difference { of: name.clone(), expected, found: value.to_string() });
                }
            }
            Err(problem) => {
                found.push(Difference { of: "parameters".to_owned(), expected: "a readable payload".to_owned(), found: problem });
            }
        }
        for (of, expected, check) in &self.options {
            let (is_same, text) = check(job);
            if !is_same {
                found.push(Difference { of: of.clone(), expected: expected.clone(), found: text });
            }
        }
        found
    }

    fn is_of_task(&self, job: &JobRecord) -> bool {
        job.task.as_deref().is_some_and(|task| task == self.task.name || self.task.aliases.contains(&task))
    }

    /// The pattern as it was written, about.
    fn text(&self) -> String {
        let mut fields: Vec<String> = self.fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        if !self.no_others {
            fields.push("..".to_owned());
        }
        let options: Vec<String> = self.options.iter().map(|(of, expected, _)| format!("{of} {expected}")).collect();
        let options = if options.is_empty() { String::new() } else { format!(" with {}", options.join(", ")) };
        format!("{} {{ {} }}{options}", self.task.name, fields.join(", "))
    }
}

#[doc(hidden)]
#[track_caller]
pub fn __assert_enqueued(queue: &TestQueue, expected: &Expected) -> JobRecord {
    let all = queue.in_states(expected.state);
    let of_task: Vec<&JobRecord> = all.iter().filter(|job| expected.is_of_task(job)).collect();
    let (mut matching, mut others): (Vec<&JobRecord>, Vec<(&JobRecord, Vec<Difference>)>) = (Vec::new(), Vec::new());
    for job in of_task.iter().copied() {
        let differences = expected.differences(job);
        if differences.is_empty() { matching.push(job) } else { others.push((job, differences)) }
    }
    match (matching.first(), expected.count) {
        (Some(job), None) => return (*job).clone(),
        (Some(job), Some(count)) if matching.len() == count => return (*job).clone(),
        (Some(_), Some(count)) => {
            let jobs: String = matching.iter().map(|job| format!("\n    {}", line(job))).collect();
            panic!("{} jobs match, and not {count}: {}{jobs}", matching.len(), expected.text());
        }
        (None, _) => {}
    }
    let mut text = format!("no job matches: {}\n", expected.text());
    match others.into_iter().min_by_key(|(_, differences)| differences.len()) {
        Some((job, differences)) => {
            let jobs = if of_task.len() == 1 { "The only job" } else { "The nearest job" };
            let _ = write!(text, "{jobs} of this task is {} ({}):", job.address, job.state);
            for Difference { of, expected, found } in differences {
                let _ = write!(text, "\n    {of}\n        expected: {expected}\n        found:    {found}");
            }
        }
        None if all.is_empty() => text.push_str("No job waits."),
        None => {
            let mut tasks = BTreeMap::<&str, usize>::new();
            all.iter().for_each(|job| *tasks.entry(job.task.as_deref().unwrap_or("unreadable")).or_default() += 1);
            let tasks: Vec<String> = tasks.into_iter().map(|(task, jobs)| format!("`{task}` ({jobs})")).collect();
            let _ = write!(text, "No job of this task waits. Jobs of other tasks wait: {}.", tasks.join(", "));
        }
    }
    panic!("{text}");
}

#[doc(hidden)]
#[track_caller]
pub fn __refute_enqueued(queue: &TestQueue, expected: &Expected) {
    let all = queue.in_states(expected.state);
    let found: Vec<&JobRecord> = all.iter().filter(|job| expected.is_of_task(job) && expected.differences(job).is_empty()).collect();
    let jobs: String = found.iter().map(|job| format!("\n    {}", line(job))).collect();
    assert!(found.is_empty(), "a job matches, and none should: {}{jobs}", expected.text());
}

#[doc(hidden)]
#[track_caller]
pub fn __refute_any(queue: &TestQueue) {
    let jobs: String = queue.enqueued().iter().map(|job| format!("\n    {}", line(job))).collect();
    assert!(jobs.is_empty(), "jobs wait, and none should:{jobs}");
}

fn line(job: &JobRecord) -> String {
    let (task, payload) = (job.task.as_deref().unwrap_or("unreadable"), job.payload_json().unwrap_or_else(|error| error.to_string()));
    format!("{task} {payload} ({}, {})", job.address, job.state)
}

/// A value as it is shown once it was stored.
#[track_caller]
fn stored(value: &(impl Serialize + ?Sized)) -> Value {
    queue_core::__private::stored_json(value).unwrap_or_else(|problem| panic!("the expected value cannot be stored: {problem}"))
}

fn parsed(json: &str) -> Result<serde_json::Map<String, Value>, String> {
    match queue_core::__private::json(json)? {
        Value::Object(payload) => Ok(payload),
        other => Err(format!("no map: {other}")),
    }
}

/// Whether an expected value is the stored one. Binary is stored in another form than a list of
/// numbers, and an `f32` has fewer digits than a literal.
fn same(expected: &Value, found: &Value) -> bool {
    match (expected, found) {
        (Value::Array(numbers), Value::Object(binary)) if binary.len() == 1 && binary.contains_key("$base64") => {
            let bytes: Option<Vec<u8>> =
                numbers.iter().map(|number| number.as_u64().and_then(|number| u8::try_from(number).ok())).collect();
            bytes.is_some_and(|bytes| binary["$base64"] == base64(&bytes))
        }
        (Value::Array(expected), Value::Array(found)) => {
            expected.len() == found.len() && expected.iter().zip(found).all(|(expected, found)| same(expected, found))
        }
        (Value::Object(expected), Value::Object(found)) => {
            expected.len() == found.len() && expected.iter().all(|(name, value)| found.get(name).is_some_and(|found| same(value, found)))
        }
        (Value::Number(one), Value::Number(other)) => {
            // As floats of half the size, unless they are whole numbers.
            let alike = |(one, other): (f64, f64)| !(one.fract() == 0.0 && other.fract() == 0.0) && one as f32 == other as f32;
            one == other || one.as_f64().zip(other.as_f64()).is_some_and(alike)
        }
        (expected, found) => expected == found,
    }
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| (bits << 8) | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for at in 0..4 {
            text.push(if at <= chunk.len() { char::from(LETTERS[(bits >> (18 - 6 * at)) as usize & 63]) } else { '=' });
        }
    }
    text
}

fn shown(time: Duration) -> String {
    humantime::format_duration(Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))).to_string()
}
