//! I29: a subscription gets every event of its span, and none from before its begin.
//!
//! The span begins where the subscription was created, or where an operator has rewound it. The
//! events that its topic removed before the subscription had read them are counted. At most that
//! many events may be missing. For a broker that may lose acknowledged data, only the events in its
//! final log are checked.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
};

use super::{
    HeldSubscription, Invariant,
    existence::may_have_ended,
    facts::{About, Enqueued, Facts, Fate, Finding, Job, Marked, Subscription, broken},
};
use crate::history::Mark;

/// An event, with the id of its jobs.
struct Event<'a> {
    id: &'a str,
    publish: &'a Enqueued<'a>,
    /// Whether it is in the final log.
    in_log: bool,
    /// Whether it surely is or was in the log.
    stands: bool,
}

pub(super) fn check(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    let events = events(facts);
    for held in &facts.snapshot.subscriptions {
        let Some(of) = facts.subscriptions.get(held.queue.as_str()) else { continue };
        complete(facts, held, of, &events, found);
        nothing_before(facts, held, of, &events, found);
        handled_again(facts, held, of, &events, found);
    }
}

/// The number of jobs that the subscriptions have surely created from events, and the possible
/// number.
pub(super) fn fed(facts: &Facts<'_>) -> RangeInclusive<usize> {
    let (events, mut sure, mut possible) = (events(facts), 0, 0);
    for held in &facts.snapshot.subscriptions {
        sure += events.iter().filter(|event| facts.jobs.contains_key(&*name(held, event.id))).count();
        let published = facts.publishes.values().flatten().filter(|publish| publish.fate != Fate::Refused);
        let times = 1 + facts.subscriptions.get(held.queue.as_str()).map_or(0, |of| of.rewinds.len());
        possible += published.count() * times;
    }
    sure..=possible
}

fn events<'a>(facts: &'a Facts<'_>) -> Vec<Event<'a>> {
    let log: BTreeSet<&str> = facts.snapshot.log.iter().map(String::as_str).collect();
    let event = |publishes: &'a Vec<Enqueued<'_>>| {
        let publish = publishes.first()?;
        let id = publishes.iter().find_map(|publish| publish.id)?;
        let in_log = log.contains(id);
        Some(Event { id, publish, in_log, stands: in_log || !facts.terms.volatile && publish.fate == Fate::Happened })
    };
    facts.publishes.values().filter_map(event).collect()
}

fn name(held: &HeldSubscription, id: &str) -> String {
    format!("{}/{id}", held.queue)
}

fn job_of<'a, 'b>(facts: &'a Facts<'b>, held: &HeldSubscription, id: &str) -> Option<&'a Job<'b>> {
    facts.jobs.get(&*name(held, id))
}

/// The time from which the subscription surely existed.
fn since(of: &Subscription<'_>) -> Option<u64> {
    of.made.iter().filter(|made| made.fate != Fate::Open).filter_map(|made| made.span.to_us).min()
}

/// Whether an event may be before a mark that was set at that time.
fn may_lie_before(publish: &Enqueued<'_>, mark: &Marked<'_>) -> bool {
    match mark.mark {
        Mark::Start => false,
        Mark::Now => mark.span.to_us.is_none_or(|to| publish.span.from_us <= to),
        Mark::AtMs(at) => publish.span.from_us / 1000 <= at.max(0).unsigned_abs(),
    }
}

/// Whether an event is surely before it.
fn lies_before(publish: &Enqueued<'_>, mark: &Marked<'_>) -> bool {
    let Some(to) = publish.span.to_us.filter(|_| publish.fate == Fate::Happened) else { return false };
    match mark.mark {
        Mark::Start => false,
        Mark::Now => to < mark.span.from_us,
        Mark::AtMs(at) => to / 1000 < at.max(0).unsigned_abs(),
    }
}

/// Every event that is surely in the log is handled, exists as a job, or is counted as lost.
fn complete(facts: &Facts<'_>, held: &HeldSubscription, of: &Subscription<'_>, events: &[Event<'_>], found: &mut Vec<Finding>) {
    let Some(since) = since(of) else { return };
    let is_of_span = |event: &&Event<'_>| {
        let begins = of.made.iter().filter(|made| made.fate != Fate::Refused);
        let was_there = event.publish.span.from_us > since;
        // A subscription that begins at the oldest event gets the earlier events that were not
        // removed.
        let is_after_begin =
            was_there || event.in_log && begins.clone().next().is_some() && begins.clone().all(|made| made.mark == Mark::Start);
        let passed = of.rewinds.iter().any(|rewind| rewind.fate != Fate::Refused && may_lie_before(event.publish, rewind));
        event.stands && is_after_begin && !passed
    };
    let has = |event: &Event<'_>| job_of(facts, held, event.id).is_some_and(|job| !job.held.is_empty() || may_have_ended(job));
    let missing: Vec<&Event<'_>> = events.iter().filter(is_of_span).filter(|event| !has(event)).collect();
    if let Some(first) = missing.first().filter(|_| missing.len() as u64 > held.lost) {
        let what = format!(
            "has not had {} events of its span, and {} are counted as lost: event {}, for one",
            missing.len(),
            held.lost,
            first.publish.key
        );
        broken(found, Invariant::Subscriptions, &name(held, first.id), format!("subscription {} {what}", held.queue));
    }
    // An event that it has never received may be lost. An event that was published twice is in the
    // log twice.
    let unheard = facts.publishes.values().flatten().filter(|publish| publish.fate != Fate::Refused);
    let unheard = unheard.filter(|publish| publish.existing || publish.id.is_none_or(|id| job_of(facts, held, id).is_none())).count();
    if of.rewinds.is_empty() && held.lost > unheard as u64 {
        let what = format!("subscription {} counts {} lost events, and has not heard of {unheard}", held.queue, held.lost);
        found.push(Finding { invariant: Invariant::Subscriptions, about: About::Nothing, what });
    }
}

/// No event starts that is before all positions where the subscription has begun by then.
fn nothing_before(facts: &Facts<'_>, held: &HeldSubscription, of: &Subscription<'_>, events: &[Event<'_>], found: &mut Vec<Finding>) {
    let begun: Vec<&Marked<'_>> = of.made.iter().chain(&of.rewinds).filter(|marked| marked.fate != Fate::Refused).collect();
    if of.made.iter().all(|made| made.fate == Fate::Refused) {
        // There is no record of its creation.
        return;
    }
    for event in events {
        let Some(first) = job_of(facts, held, event.id).and_then(|job| job.deliveries.values().next()) else { continue };
        let so_far = || begun.iter().filter(|marked| marked.span.from_us <= first.claimed_us);
        // An event that was published again is in the log twice.
        let mut published = facts.publishes.get(&event.publish.key).into_iter().flatten().filter(|publish| publish.fate != Fate::Refused);
        if published.all(|publish| so_far().all(|marked| lies_before(publish, marked))) {
            let what = format!("subscription {} had event {} from before its begin", held.queue, event.publish.key);
            broken(found, Invariant::Subscriptions, &name(held, event.id), what);
        }
    }
}

/// After a rewind, every event from its mark on that is still in the log is handled again. There
/// are two exceptions: an event whose job ran in the meantime, and one that was published twice.
/// The subscription may not have read the second entry yet, and then skips it. A later rewind may
/// have skipped the events before its own mark.
fn handled_again(facts: &Facts<'_>, held: &HeldSubscription, of: &Subscription<'_>, events: &[Event<'_>], found: &mut Vec<Finding>) {
    let rewinds: BTreeMap<u64, &Marked<'_>> =
        of.rewinds.iter().filter(|rewind| rewind.fate == Fate::Happened).map(|rewind| (rewind.span.from_us, rewind)).collect();
    let Some((_, last)) = rewinds.last_key_value() else { return };
    let is_later = |rewind: &&Marked<'_>| rewind.fate == Fate::Open && rewind.span.from_us > last.span.from_us;
    let marks: Vec<&Marked<'_>> = of.rewinds.iter().filter(is_later).chain([*last]).collect();
    let is_again = |event: &&Event<'_>| {
        // An event that was published while the rewind began is in its span in both cases.
        let is_before = event.publish.span.to_us.is_some_and(|to| to < last.span.from_us);
        event.in_log
            && facts.entries_of(event.publish.key) == 1
            && is_before
            && !marks.iter().any(|mark| may_lie_before(event.publish, mark))
    };
    let has = |event: &Event<'_>| {
        job_of(facts, held, event.id).is_some_and(|job| {
            // The job continued to run, or exists at the end.
            let since = |us: u64| us >= last.span.from_us;
            let ran = job
                .deliveries
                .values()
                .any(|one| since(one.claimed_us) || one.accepted().and_then(|finish| finish.span.to_us).is_none_or(since));
            ran || job.held.iter().any(|held| !matches!(held.state.as_str(), "done" | "dead" | "cancelled"))
        })
    };
    let missing: Vec<&Event<'_>> = events.iter().filter(is_again).filter(|event| !has(event)).collect();
    if let Some(first) = missing.first() {
        let what = format!(
            "subscription {} was rewound, and has not had {} events again: event {}, for one",
            held.queue,
            missing.len(),
            first.publish.key
        );
        broken(found, Invariant::Subscriptions, &name(held, first.id), what);
    }
}
