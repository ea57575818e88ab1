//! I13: each tick of a schedule creates one job, or is skipped and counted.

use std::collections::BTreeMap;

use super::{
    HeldSchedule, Invariant, Ticks,
    facts::{About, Facts, Fate, Finding, broken},
};

/// The number of times that a tick has created a job, and the possible number.
#[derive(Clone, Copy, Default)]
struct Seen {
    sure: usize,
    possible: usize,
}

pub(super) fn check(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    let mut seen: BTreeMap<&str, BTreeMap<i64, Seen>> = BTreeMap::new();
    for (id, ticks) in &facts.ticks {
        for tick in ticks {
            let seen = seen.entry(tick.schedule).or_default().entry(tick.tick_ms).or_default();
            seen.sure += usize::from(tick.fate == Fate::Happened);
            seen.possible += usize::from(tick.fate != Fate::Refused);
        }
        let made = ticks.iter().filter(|tick| tick.fate == Fate::Happened).count();
        if made > 1 {
            broken(found, Invariant::Schedules, id, format!("its tick has made it {made} times"));
        }
        // A worker without an answer may have created it. No job may have been created twice.
        let acked = facts
            .jobs
            .get(id)
            .map_or(0, |job| job.deliveries.values().filter(|one| one.accepted().is_some_and(|end| end.ending.is_final())).count());
        if acked > 1 {
            broken(found, Invariant::Schedules, id, format!("the job of a tick has ended {acked} times"));
        }
    }
    for schedule in &facts.snapshot.schedules {
        let seen = seen.remove(schedule.name.as_str()).unwrap_or_default();
        for what in account(schedule, &seen) {
            found.push(Finding {
                invariant: Invariant::Schedules,
                about: About::Nothing,
                what: format!("schedule {}: {what}", schedule.name),
            });
        }
    }
}

/// The problems of the ticks of a schedule.
fn account(schedule: &HeldSchedule, seen: &BTreeMap<i64, Seen>) -> Vec<String> {
    let mut wrong = Vec::new();
    let (sure, possible) = seen.values().fold((0, 0), |(sure, possible), seen| (sure + seen.sure, possible + seen.possible.min(1)));
    if (schedule.made as usize) < sure || schedule.made as usize > possible {
        wrong.push(format!("it says that it has made {} ticks, and {sure} to {possible} were seen", schedule.made));
    }
    let is_tick = |tick: i64| match &schedule.ticks {
        Ticks::Every { period_ms, first_ms, next_ms } => tick % period_ms == 0 && (*first_ms..*next_ms).contains(&tick),
        Ticks::Made(ticks) => ticks.contains(&tick),
    };
    wrong.extend(seen.iter().filter(|(tick, seen)| seen.sure > 0 && !is_tick(**tick)).map(|(tick, _)| format!("{tick} is no tick of it")));
    match &schedule.ticks {
        Ticks::Every { period_ms, first_ms, next_ms } => {
            let ticks = u64::try_from((next_ms - first_ms) / period_ms).unwrap_or(0);
            if schedule.made + schedule.skipped != ticks {
                let (made, skipped) = (schedule.made, schedule.skipped);
                wrong.push(format!("of {ticks} ticks, {made} were made and {skipped} skipped: some are not accounted for"));
            }
        }
        Ticks::Made(ticks) => {
            let missing = ticks.iter().filter(|tick| seen.get(tick).is_none_or(|seen| seen.possible == 0));
            wrong.extend(missing.map(|tick| format!("the tick {tick} was not made")));
        }
    }
    wrong
}
