//! A stored definition that was read: its calendar and its policies.

use std::time::Duration;

use queue_calendar::{Calendar, CatchUp, Expression, Overlap, Plan, Rules, SyntaxError};

use crate::{
    broker::{MAX_BYTES, ScheduleBody, TICK_JOBS},
    error::{Error, Result},
};

/// The rules of a schedule.
pub(super) struct ReadRules<'a> {
    name: &'a str,
    calendar: Calendar,
    jitter: Duration,
    catch_up: CatchUp,
    window: Option<Duration>,
    end_ms: Option<i64>,
    most: usize,
    pub(super) overlap: Overlap,
}

impl<'a> ReadRules<'a> {
    /// Those of a stored definition, on this machine.
    pub(super) fn of(name: &'a str, body: &ScheduleBody) -> Result<Self> {
        let fits = MAX_BYTES / body.envelope.len().max(1);
        Ok(ReadRules {
            name,
            calendar: Self::calendar(&body.expression, &body.zone)?,
            jitter: Duration::from_millis(body.jitter_ms),
            catch_up: CatchUp::parse(&body.catch_up).map_err(|error| invalid("catch_up", &body.catch_up, error))?,
            window: body.window_ms.map(Duration::from_millis),
            end_ms: body.end_ms,
            most: fits.clamp(1, TICK_JOBS - 1),
            overlap: Overlap::parse(&body.overlap).map_err(|error| invalid("overlap", &body.overlap, error))?,
        })
    }

    /// An expression in a zone.
    pub(super) fn calendar(expression: &str, zone: &str) -> Result<Calendar> {
        let read = Expression::parse(expression).map_err(|error| {
            let place = error.at.start + 1;
            let problem = format!("at column {place}: {}\n{}", error.problem, error.marked(expression));
            Error::invalid("schedule expression", expression, problem)
        })?;
        let named = format!("`{zone}` ");
        let unnamed = |problem: String| problem.strip_prefix(&named).map(str::to_owned).unwrap_or(problem);
        Calendar::new(read, zone).map_err(|error| Error::invalid("time zone", zone, unnamed(error.problem)))
    }

    fn rules(&self) -> Rules<'_> {
        Rules {
            calendar: &self.calendar,
            name: self.name,
            jitter: self.jitter,
            catch_up: self.catch_up,
            window: self.window,
            end_ms: self.end_ms,
            most: self.most,
        }
    }

    /// When a tick is made.
    pub(super) fn due(&self, tick_ms: i64) -> i64 {
        self.rules().due(tick_ms)
    }

    /// The first tick after this time.
    pub(super) fn next(&self, after_ms: i64) -> Option<i64> {
        self.rules().next(after_ms)
    }

    /// The ticks from one time to another, both included: at most `most`.
    pub(super) fn between(&self, from_ms: i64, to_ms: i64, most: usize) -> Vec<i64> {
        let (mut ticks, mut next) = (Vec::new(), self.next(from_ms.saturating_sub(1)));
        while let Some(tick) = next.filter(|tick| *tick <= to_ms && ticks.len() < most) {
            ticks.push(tick);
            next = self.next(tick);
        }
        ticks
    }

    /// Which ticks are made now.
    pub(super) fn plan(&self, next_ms: Option<i64>, now_ms: i64) -> Plan {
        self.rules().plan(next_ms, now_ms)
    }

    /// The ticks from `next_ms` on that are due by now: the first, the last, and how many, at most
    /// `most`.
    pub(super) fn passed(&self, next_ms: Option<i64>, now_ms: i64, most: u64) -> Option<(i64, i64, u64)> {
        let (mut at, mut passed) = (next_ms, None);
        while let Some(tick) = at.filter(|tick| self.due(*tick) <= now_ms) {
            let (first, _, ticks) = passed.unwrap_or((tick, tick, 0));
            passed = Some((first, tick, ticks + 1));
            if ticks + 1 == most {
                break;
            }
            at = self.next(tick);
        }
        passed
    }

    /// Whether a tick that has waited is too old to be made.
    pub(super) fn is_too_old(&self, tick_ms: i64, now_ms: i64) -> bool {
        let age = Duration::from_millis(u64::try_from(now_ms - tick_ms).unwrap_or(0));
        self.window.is_some_and(|window| age > window)
    }
}

fn invalid(field: &'static str, value: &str, error: SyntaxError) -> Error {
    Error::invalid(field, value, error.problem)
}
