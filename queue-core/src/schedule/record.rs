//! The decoded form of a schedule.

use std::{
    fmt,
    str::FromStr,
    sync::Arc,
    time::{Duration, SystemTime},
};

use serde::Serialize;

use super::{
    define::{ms, task_of},
    facade::time,
    rules::ReadRules,
};
use crate::{
    address::{JobAddress, check_name, check_queue, serde_as_text},
    broker::{ScheduleBody, ScheduleDefinition, ScheduleState, StoredSchedule},
    envelope::Envelope,
    error::{Error, Result},
    json, payload,
};

/// The address of a schedule: `queue/name`, as it is printed and as commands take it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScheduleAddress {
    /// The queue of its jobs.
    pub queue: Arc<str>,
    /// Its name within it.
    pub name: String,
}

impl ScheduleAddress {
    /// The schedule of this name in a queue.
    ///
    /// # Errors
    /// [`Error::Invalid`] for names outside the grammar.
    pub fn new(queue: &str, name: &str) -> Result<Self> {
        check_queue(queue)?;
        check_name("schedule", name)?;
        Ok(ScheduleAddress { queue: queue.into(), name: name.to_owned() })
    }
}

impl fmt::Display for ScheduleAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.queue, self.name)
    }
}

impl FromStr for ScheduleAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let Some((queue, name)) = text.split_once('/') else {
            return Err(Error::invalid("schedule", text, "has no `/`; write QUEUE/NAME"));
        };
        ScheduleAddress::new(queue, name)
    }
}

serde_as_text!(ScheduleAddress);

/// Everything about a schedule. It is [`Serialize`], and the command line prints this form with
/// `--json`: times as RFC 3339 in UTC, durations in milliseconds.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ScheduleRecord {
    /// Its address.
    pub schedule: ScheduleAddress,
    /// The task of its jobs.
    pub task: String,
    /// Their parameters, as JSON.
    pub args: Option<serde_json::Value>,
    /// The expression, as it was written.
    pub expression: String,
    /// Its time zone.
    pub tz: String,
    /// The expression in words.
    pub words: String,
    /// The policy for a tick while the job of the last one has not ended.
    pub overlap: String,
    /// The policy for missed ticks.
    pub catch_up: String,
    /// The maximum age of a missed tick that is still caught up, in milliseconds.
    pub catch_up_window_ms: Option<u64>,
    /// The longest delay of a tick, in milliseconds.
    pub jitter_ms: u64,
    /// The first tick is not before this time.
    #[serde(serialize_with = "json::utc")]
    pub start: Option<SystemTime>,
    /// The last tick is not after this time.
    #[serde(serialize_with = "json::utc")]
    pub end: Option<SystemTime>,
    /// The schedule stops after this number of ticks.
    pub max_ticks: Option<u64>,
    /// The schedule is paused after this number of dead letters in a row; 0: never.
    pub pause_after_dead: u64,
    /// Why it is paused.
    pub paused: Option<String>,
    /// The next tick. `None` if the schedule has ended.
    #[serde(serialize_with = "json::utc")]
    pub next: Option<SystemTime>,
    /// The last tick that was made.
    #[serde(serialize_with = "json::utc")]
    pub last: Option<SystemTime>,
    /// A tick that waits for the end of the last job.
    #[serde(serialize_with = "json::utc")]
    pub waiting: Option<SystemTime>,
    /// How many ticks were made.
    pub made: u64,
    /// How many were skipped.
    pub skipped: u64,
    /// How many of its jobs became dead letters in a row.
    pub dead_in_a_row: u64,
    /// Whether it was set at run time, so that declarations of code do not change it.
    pub set_at_run_time: bool,
    /// The releases that declare it.
    pub declared_by: Vec<String>,
    /// Since when no live worker declares it, although code did.
    #[serde(serialize_with = "json::utc")]
    pub undeclared_since: Option<SystemTime>,
    /// The last runs, the newest first.
    pub runs: Vec<ScheduleRan>,
    /// The last events, the newest first.
    pub events: Vec<ScheduleHappened>,
    /// The part that cannot be read, in general or on this machine.
    pub problem: Option<String>,
    #[serde(skip)]
    body: ScheduleBody,
    #[serde(skip)]
    next_ms: Option<i64>,
}

/// A run of a schedule.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ScheduleRan {
    /// Its tick, or the time at which an operator started it.
    #[serde(serialize_with = "json::utc")]
    pub tick: Option<SystemTime>,
    /// Its job.
    pub job: Option<JobAddress>,
    /// The state in which the job has ended, `parked`, or `deleted`. `None`: it has not ended.
    pub outcome: Option<String>,
    /// When.
    #[serde(serialize_with = "json::utc")]
    pub ended: Option<SystemTime>,
}

/// Something that happened to a schedule.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ScheduleHappened {
    /// When.
    #[serde(serialize_with = "json::utc")]
    pub at: Option<SystemTime>,
    /// The event: `paused`, `resumed`, or `skipped` with the reason.
    pub what: String,
    /// The first tick that was skipped.
    #[serde(serialize_with = "json::utc")]
    pub from: Option<SystemTime>,
    /// The last one.
    #[serde(serialize_with = "json::utc")]
    pub to: Option<SystemTime>,
    /// How many.
    pub ticks: u64,
}

impl ScheduleRecord {
    pub(super) fn read(queue: &Arc<str>, stored: &StoredSchedule) -> ScheduleRecord {
        let (definition, mut problem) = or_problem(ScheduleDefinition::decode(&stored.definition));
        let (state, unread) = or_problem(ScheduleState::decode(&stored.state));
        problem = problem.or(unread);
        let body = definition.body;
        let envelope = Envelope::decode(&body.envelope).ok();
        let args = envelope.and_then(|envelope| payload::to_value(envelope.payload).ok());
        let expression = queue_calendar::Expression::parse(&body.expression);
        problem = problem.or_else(|| ReadRules::of(&stored.name, &body).err().map(|error| error.to_string()));
        let run = |run: &crate::broker::ScheduleRun| ScheduleRan {
            tick: time(run.1),
            job: run.2.parse().ok().map(|id| JobAddress { queue: queue.clone(), id }),
            outcome: Some(run.3.clone()).filter(|outcome| !outcome.is_empty()),
            ended: Some(run.4).filter(|at| *at > 0).and_then(time),
        };
        let event = |event: &crate::broker::ScheduleEvent| {
            let range = |at: i64| Some(at).filter(|_| event.4 > 0 && event.2 > 0).and_then(time);
            ScheduleHappened { at: time(event.0), what: event.1.clone(), from: range(event.2), to: range(event.3), ticks: event.4 }
        };
        ScheduleRecord {
            schedule: ScheduleAddress { queue: queue.clone(), name: stored.name.clone() },
            task: task_of(&body),
            args,
            words: expression.map(|expression| expression.in_words()).unwrap_or_default(),
            expression: body.expression.clone(),
            tz: body.zone.clone(),
            overlap: body.overlap.clone(),
            catch_up: body.catch_up.clone(),
            catch_up_window_ms: body.window_ms,
            jitter_ms: body.jitter_ms,
            start: body.start_ms.and_then(time),
            end: body.end_ms.and_then(time),
            max_ticks: body.most,
            pause_after_dead: body.pause_after,
            paused: state.paused.clone(),
            next: state.next_ms.and_then(time),
            last: state.last_ms.and_then(time),
            waiting: state.buffered_ms.and_then(time),
            made: state.made,
            skipped: state.skipped,
            dead_in_a_row: state.dead,
            set_at_run_time: definition.by_person,
            declared_by: definition.declared.into_iter().map(|declared| declared.release).collect(),
            undeclared_since: definition.undeclared_ms.and_then(time),
            runs: state.last_runs.iter().rev().map(run).collect(),
            events: state.events.iter().rev().map(event).collect(),
            problem,
            next_ms: state.next_ms.filter(|_| state.paused.is_none()),
            body,
        }
    }

    /// Its next `n` ticks.
    ///
    /// # Errors
    /// [`Error::Invalid`] if this machine does not know its time zone.
    pub fn next_ticks(&self, n: usize) -> Result<Vec<SystemTime>> {
        let rules = ReadRules::of(&self.schedule.name, &self.body)?;
        let left = self.body.most.map_or(n, |most| n.min(usize::try_from(most.saturating_sub(self.made)).unwrap_or(n)));
        let mut at = self.next_ms;
        let next = || {
            let tick = at?;
            at = rules.next(tick);
            time(rules.due(tick))
        };
        Ok(std::iter::from_fn(next).take(left).collect())
    }

    /// Its ticks from `from` to `to`, both included, at most the given number: those for which a
    /// [backfill](super::Schedules::backfill) creates jobs.
    ///
    /// # Errors
    /// Those of [`next_ticks`](Self::next_ticks).
    pub fn ticks_between(&self, from: SystemTime, to: SystemTime, most: usize) -> Result<Vec<SystemTime>> {
        let ticks = ReadRules::of(&self.schedule.name, &self.body)?.between(ms(from), ms(to), most);
        Ok(ticks.into_iter().filter_map(time).collect())
    }

    /// How much later than their time ticks are made, at most.
    pub fn jitter(&self) -> Duration {
        Duration::from_millis(self.jitter_ms)
    }
}

fn or_problem<T: Default>(read: Result<T>) -> (T, Option<String>) {
    match read {
        Ok(value) => (value, None),
        Err(error) => (T::default(), Some(error.to_string())),
    }
}
