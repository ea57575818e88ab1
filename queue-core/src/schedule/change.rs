//! What a new definition, a pause and a resume change in a schedule.

use super::{
    rules::ReadRules,
    step::{due, is_over},
};
use crate::{
    broker::{ScheduleBody, ScheduleDefinition, ScheduleEvent, ScheduleState},
    error::Result,
};

/// Why a schedule is paused that a person has paused.
pub const BY_PERSON: &str = "a person has paused it";

/// So many ticks are counted that were not made for another reason than an outage.
const COUNTED: u64 = 10_000;

/// A schedule, as it is read and changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Changing {
    pub(super) definition: ScheduleDefinition,
    pub(super) state: ScheduleState,
}

impl Changing {
    /// Lets another definition hold from now on. Pause, last tick and runs stay. It is not retroactive: ticks of the old expression that nobody
    /// has made are skipped, and those of the new one begin now.
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
            state.next_ms = rules.next(first);
        } else if (&old.expression, &old.zone, old.start_ms) != (&body.expression, &body.zone, body.start_ms) {
            // On a machine without the old zone nobody knows what was to be.
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

    /// Lets it tick again. What would have ticked meanwhile is skipped, whatever its catch-up policy: nobody has missed it. False: it is not
    /// paused.
    pub(super) fn resume(&mut self, name: &str, now_ms: i64) -> Result<bool> {
        let state = &mut self.state;
        if state.paused.take().is_none() {
            return Ok(false);
        }
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

    /// When it is looked at next.
    pub(super) fn due(&self, name: &str, now_ms: i64) -> Result<Option<i64>> {
        Ok(due(&ReadRules::of(name, &self.definition.body)?, &self.state, now_ms))
    }
}

fn skip(state: &mut ScheduleState, now_ms: i64, why: &str, passed: Option<(i64, i64, u64)>) {
    if let Some((from_ms, to_ms, ticks)) = passed {
        state.skipped += ticks;
        state.happened(ScheduleEvent(now_ms, why.to_owned(), from_ms, to_ms, ticks));
    }
}
