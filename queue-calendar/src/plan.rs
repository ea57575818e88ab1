//! The ticks to make now, the skipped ticks, and the next tick, as a function of the stored next
//! tick and the time.

use std::{collections::VecDeque, time::Duration};

use crate::{
    calendar::{Calendar, jitter},
    policy::CatchUp,
};

/// A tick is on time if it is made within this time. A later tick was missed, and the catch-up
/// policy applies to it.
pub const ON_TIME_MS: i64 = 10_000;

/// The maximum number of ticks that are counted one by one. Beyond that, the count is a minimum.
const COUNTED: usize = 10_000;

/// Ticks that are skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The first skipped tick.
    pub from_ms: i64,
    /// The last skipped tick.
    pub to_ms: i64,
    /// The number of skipped ticks. If there are very many, it is a minimum.
    pub ticks: u64,
}

/// The result of planning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The ticks to make, in this order.
    pub make: Vec<i64>,
    /// The missed ticks that are skipped.
    pub skipped: Option<Skipped>,
    /// The next tick. `None` if there is none.
    pub next_ms: Option<i64>,
}

/// The parameters of a plan.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// The ticks.
    pub calendar: &'a Calendar,
    /// The name of the schedule, for its jitter.
    pub name: &'a str,
    /// The maximum delay of a tick.
    pub jitter: Duration,
    /// The catch-up policy for missed ticks.
    pub catch_up: CatchUp,
    /// The maximum age of a missed tick that is made.
    pub window: Option<Duration>,
    /// The last tick is not after this one.
    pub end_ms: Option<i64>,
    /// The maximum number of ticks of one plan. The next plan has the others.
    pub most: usize,
}

impl Rules<'_> {
    /// The time at which a tick is made.
    pub fn due(&self, tick_ms: i64) -> i64 {
        tick_ms.saturating_add(jitter(self.name, tick_ms, self.jitter))
    }

    /// The first tick after this time.
    pub fn next(&self, after_ms: i64) -> Option<i64> {
        self.calendar.next(after_ms).filter(|tick| self.end_ms.is_none_or(|end| *tick <= end))
    }

    /// The plan for a schedule whose next tick is `next_ms`.
    pub fn plan(&self, next_ms: Option<i64>, now_ms: i64) -> Plan {
        let mut plan = Plan::default();
        let mut at = next_ms;
        let mut missed = Missed::of(self.catch_up);
        // After a long outage, only the last ticks and the number of missed ticks matter.
        while let Some(tick) = at.filter(|tick| self.due(*tick) < now_ms - ON_TIME_MS) {
            if missed.ticks as usize == COUNTED {
                at = self.jump(tick, now_ms, &mut missed);
                break;
            }
            missed.add(tick);
            at = self.next(tick);
        }
        let on_time = |tick: &i64| self.due(*tick) <= now_ms;
        let is_on_time = at.as_ref().is_some_and(on_time);
        let oldest = self.window.map_or(i64::MIN, |window| now_ms.saturating_sub(i64::try_from(window.as_millis()).unwrap_or(i64::MAX)));
        plan.make.extend(missed.wanted(is_on_time).filter(|tick| *tick >= oldest));
        plan.skipped = missed.skipped(&plan.make);
        if plan.make.len() > self.most {
            // The first ticks are made now, and the others are planned again.
            plan.next_ms = Some(plan.make[self.most]);
            plan.make.truncate(self.most);
            return plan;
        }
        while let Some(tick) = at.filter(on_time).filter(|_| plan.make.len() < self.most) {
            plan.make.push(tick);
            at = self.next(tick);
        }
        plan.next_ms = at;
        plan
    }

    /// Skips ticks without counting them, and returns the first tick that was not missed.
    fn jump(&self, from_ms: i64, now_ms: i64, missed: &mut Missed) -> Option<i64> {
        let jitter = i64::try_from(self.jitter.as_millis()).unwrap_or(i64::MAX);
        let surely = now_ms.saturating_sub(ON_TIME_MS).saturating_sub(jitter).saturating_sub(1);
        let end = self.end_ms.map_or(surely, |end| end.min(surely));
        // Backwards from the last tick, as many as the policy keeps.
        let (mut last, mut until) = (Vec::new(), end);
        while last.len() < missed.keeps.max(1)
            && let Some(tick) = self.calendar.last(from_ms - 1, until)
        {
            last.push(tick);
            until = tick - 1;
        }
        last.iter().rev().for_each(|tick| missed.add(*tick));
        let mut at = self.next(last.first().copied().unwrap_or(from_ms));
        while let Some(tick) = at.filter(|tick| self.due(*tick) < now_ms - ON_TIME_MS) {
            missed.add(tick);
            at = self.next(tick);
        }
        at
    }
}

/// The missed ticks: their number, the first one, and the last few.
struct Missed {
    policy: CatchUp,
    keeps: usize,
    ticks: u64,
    first: Option<i64>,
    /// The last tick that is not kept.
    passed: Option<i64>,
    kept: VecDeque<i64>,
}

impl Missed {
    fn of(policy: CatchUp) -> Self {
        let keeps = match policy {
            CatchUp::Skip => 0,
            CatchUp::Last => 1,
            CatchUp::All(n) => n as usize,
        };
        Missed { policy, keeps, ticks: 0, first: None, passed: None, kept: VecDeque::new() }
    }

    fn add(&mut self, tick: i64) {
        self.ticks += 1;
        self.first = self.first.or(Some(tick));
        self.kept.push_back(tick);
        if self.kept.len() > self.keeps {
            self.passed = self.kept.pop_front();
        }
    }

    /// The missed ticks to make.
    fn wanted(&self, is_on_time: bool) -> impl Iterator<Item = i64> {
        let none = self.policy == CatchUp::Last && is_on_time;
        self.kept.iter().copied().filter(move |_| !none)
    }

    /// The missed ticks before the ones that are made.
    fn skipped(&self, made: &[i64]) -> Option<Skipped> {
        let ticks = self.ticks - made.len() as u64;
        let from_ms = self.first.filter(|_| ticks > 0)?;
        // A kept tick that is not made was too old, or is replaced by a tick that is on time.
        let passed = self.kept.iter().rev().find(|tick| !made.contains(tick)).copied();
        Some(Skipped { from_ms, to_ms: passed.or(self.passed).unwrap_or(from_ms), ticks })
    }
}
