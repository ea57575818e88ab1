//! Changes of a schedule by a new definition, a pause or a resume.

use std::time::Duration;

use super::{
    facade::time,
    rules::ReadRules,
    step::{due, is_over},
};
use crate::{
    broker::{ScheduleBody, ScheduleDefinition, ScheduleEvent, ScheduleState},
    error::Result,
};

/// The reason of a schedule that an operator has paused.
pub const BY_PERSON: &str = "an operator has paused it";

/// The most counted ticks that were skipped for another reason than an outage.
const COUNTED: u64 = 10_000;

/// If a clock is set back by less than this, no tick is repeated: the next one comes at its time. A
/// clock that was further ahead was wrong, and the times that it set are ignored.
pub(super) const SET_BACK: Duration = Duration::from_secs(24 * 3600);

/// A schedule, as it is read and changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Changing {
    pub(super) definition: ScheduleDefinition,
    pub(super) state: ScheduleState,
}

impl Changing {
    /// Replaces the definition. Pause, last tick and runs are kept. It is not retroactive: ticks of
    /// the old expression whose jobs do not exist yet are skipped, and those of the new one begin
    /// now.
    pub(super) fn redefine(&mut self, name: &str, body: &ScheduleBody, now_ms: i64) -> Result<()> {
        let (old, is_new) = (std::mem::replace(&mut self.definition.body, body.clone()), self.state.first_ms == 0);
        if old == *body && !is_new {
            return Ok(());
        }
        let rules = ReadRules::of(name, body)?;
        let state = &mut self.state;
        state.revision += 1;
        state.pause_after = body.pause_after;
        let first = now_ms.max(body.start_ms.unwrap_or(0).saturating_sub(1));
        if is_new {
            state.first_ms = now_ms;
            // Jobs of an earlier schedule of this name have other numbers, and are not taken for
            // runs of this one when they end.
            state.runs = now_ms.unsigned_abs();
            state.next_ms = rules.next(first);
        } else if (&old.expression, &old.zone, old.start_ms) != (&body.expression, &body.zone, body.start_ms) {
            // A machine without the old zone cannot compute the old ticks.
            let passed = ReadRules::of(name, &old).ok().and_then(|old| old.passed(state.next_ms, now_ms, COUNTED));
            skip(state, now_ms, "skipped: the schedule was changed", passed);
            state.next_ms = rules.next(first);
        } else if state.next_ms.is_none() {
            state.next_ms = rules.next(first.max(state.last_ms.unwrap_or(0)));
        }
        state.next_ms = state.next_ms.filter(|next| body.end_ms.is_none_or(|end| *next <= end));
        if is_over(body, state) {
            state.next_ms = None;
        }
        Ok(())
    }

    /// Stops its ticks, for this reason. False: it is paused already.
    pub(super) fn pause(&mut self, why: &str, now_ms: i64) -> bool {
        if self.state.paused.is_some() {
            return false;
        }
        self.state.paused = Some(why.to_owned());
        self.state.happened(ScheduleEvent(now_ms, "paused".to_owned(), 0, 0, 0));
        true
    }

    /// Resumes a schedule. Ticks during the pause are skipped with any catch-up policy, because
    /// they were not missed. False: it is not paused.
    pub(super) fn resume(&mut self, name: &str, now_ms: i64) -> Result<bool> {
        if self.state.paused.take().is_none() {
            return Ok(false);
        }
        self.clamp(name, now_ms)?;
        let state = &mut self.state;
        state.dead = 0;
        let rules = ReadRules::of(name, &self.definition.body)?;
        if let Some(passed) = rules.passed(state.next_ms, now_ms, COUNTED) {
            skip(state, now_ms, "skipped: the schedule was paused", Some(passed));
            let mut next = rules.next(passed.1);
            while let Some(tick) = next.filter(|tick| rules.due(*tick) <= now_ms) {
                next = rules.next(tick.max(now_ms - i64::try_from(self.definition.body.jitter_ms).unwrap_or(0) - 1));
            }
            state.next_ms = next;
        }
        state.happened(ScheduleEvent(now_ms, "resumed".to_owned(), 0, 0, 0));
        Ok(true)
    }

    /// Repairs the next tick if it is further ahead than a clock that is at most [`SET_BACK`] ahead
    /// could have set it. True: it did.
    pub(super) fn clamp(&mut self, name: &str, now_ms: i64) -> Result<bool> {
        let Some(stored) = self.state.next_ms else { return Ok(false) };
        let rules = ReadRules::of(name, &self.definition.body)?;
        let start = self.definition.body.start_ms.unwrap_or(0).saturating_sub(1);
        let day = i64::try_from(SET_BACK.as_millis()).unwrap_or(i64::MAX);
        // A tick between that time and the stored one was made, or missed, by a clock that was
        // later.
        let Some(latest) = rules.next(start.max(now_ms.saturating_add(day))).filter(|latest| stored > *latest) else { return Ok(false) };
        self.state.next_ms = rules.next(start.max(now_ms)).or(Some(latest));
        let what = format!("repaired: a wrong clock had set the next tick to {}", shown(stored));
        self.state.happened(ScheduleEvent(now_ms, what, 0, 0, 0));
        Ok(true)
    }

    /// The time of its next check.
    pub(super) fn due(&self, name: &str, now_ms: i64) -> Result<Option<i64>> {
        Ok(due(&ReadRules::of(name, &self.definition.body)?, &self.state, now_ms))
    }
}

/// A time in milliseconds since 1970, for messages.
fn shown(ms: i64) -> String {
    time(ms).map_or_else(|| format!("{ms} ms after 1970"), |time| humantime::format_rfc3339_seconds(time).to_string())
}

fn skip(state: &mut ScheduleState, now_ms: i64, why: &str, passed: Option<(i64, i64, u64)>) {
    if let Some((from_ms, to_ms, ticks)) = passed {
        state.skipped += ticks;
        state.happened(ScheduleEvent(now_ms, why.to_owned(), from_ms, to_ms, ticks));
    }
}
