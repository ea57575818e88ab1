//! The effects of ticks, definitions, pauses and releases on a schedule, with a clock that the test
//! controls.

use std::collections::BTreeSet;

use queue_calendar::Overlap;

use super::{
    change::{BY_PERSON, Changing},
    declare::UNDECLARED_AFTER,
    define::Prepared,
    step::{Of, Step, step},
};
use crate::{
    broker::{ScheduleBody, ScheduleState},
    envelope::Envelope,
};

const HOUR: i64 = 3_600_000;
/// 1 January 2026, 00:30 in UTC.
const NOW: i64 = 1_767_227_400_000;
/// No tick.
const NONE: [i64; 0] = [];
/// The ticks of `@hourly` after that.
const ONE: i64 = NOW + HOUR / 2;

fn body(expression: &str) -> ScheduleBody {
    ScheduleBody {
        expression: expression.to_owned(),
        zone: "UTC".to_owned(),
        envelope: Envelope::new("report", b"\x80").encode().unwrap(),
        priority: 2,
        overlap: "allow".to_owned(),
        catch_up: "last".to_owned(),
        ..ScheduleBody::default()
    }
}

fn overlapping(overlap: Overlap) -> ScheduleBody {
    ScheduleBody { overlap: overlap.name().to_owned(), ..body("@hourly") }
}

fn defined(body: &ScheduleBody, now: i64) -> Changing {
    let mut changing = Changing::default();
    changing.redefine("nightly", body, now).unwrap();
    changing
}

impl Changing {
    fn step(&mut self, now: i64) -> Step {
        let body = self.definition.body.clone();
        step(Of { queue: "reports", name: "nightly", body: &body }, &mut self.state, now).unwrap()
    }

    /// The ticks that are made now.
    fn ticks(&mut self, now: i64) -> Vec<i64> {
        let made = self.step(now).jobs;
        made.iter().map(|tick| Envelope::decode(&tick.job.envelope).unwrap().tick_ms.unwrap()).collect()
    }

    fn last_ends(&mut self, how: &str, now: i64) -> bool {
        let run = self.state.running.expect("a job runs");
        self.state.ended(run, how, now)
    }

    fn events(&self) -> Vec<(&str, i64, i64, u64)> {
        self.state.events.iter().map(|event| (event.1.as_str(), event.2, event.3, event.4)).collect()
    }
}

#[test]
fn a_new_schedule_is_not_filled_and_makes_each_tick_once() {
    let mut hourly = defined(&body("@hourly"), NOW);
    assert_eq!(hourly.state.next_ms, Some(ONE));
    assert_eq!(hourly.ticks(ONE - 1), NONE);
    let made = hourly.step(ONE + 3);
    let envelope = Envelope::decode(&made.jobs[0].job.envelope).unwrap();
    assert_eq!((envelope.tick_ms, envelope.schedule.as_deref(), envelope.enqueued_ms), (Some(ONE), Some("nightly"), Some(ONE + 3)));
    assert_eq!((made.late_ms, made.due_ms), (vec![3], Some(ONE + HOUR)));
    assert_eq!(hourly.ticks(ONE + 3), NONE);
    assert_eq!((hourly.state.made, hourly.state.last_ms), (1, Some(ONE)));
}

#[test]
fn an_upsert_of_the_same_changes_nothing_and_a_change_is_not_retroactive() {
    let mut schedule = defined(&body("@hourly"), NOW);
    let before = schedule.clone();
    schedule.redefine("nightly", &body("@hourly"), NOW + HOUR).unwrap();
    assert_eq!(schedule, before);
    // Two ticks were due and not made; the new expression begins now.
    schedule.redefine("nightly", &body("*/20 * * * *"), ONE + HOUR + 60_000).unwrap();
    assert_eq!(schedule.state.next_ms, Some(ONE + HOUR + HOUR / 3));
    assert_eq!(schedule.events(), [("skipped: the schedule was changed", ONE, ONE + HOUR, 2)]);
}

#[test]
fn an_upsert_keeps_pause_and_last_tick() {
    let mut schedule = defined(&body("@hourly"), NOW);
    schedule.ticks(ONE);
    schedule.pause(BY_PERSON, ONE);
    schedule.redefine("nightly", &body("@daily"), ONE + 1).unwrap();
    assert_eq!((schedule.state.paused.as_deref(), schedule.state.last_ms, schedule.state.made), (Some(BY_PERSON), Some(ONE), 1));
    assert_eq!(schedule.due("nightly", ONE + 1).unwrap(), None);
}

#[test]
fn a_change_or_a_pause_between_a_tick_and_its_jitter_loses_nothing() {
    let jittered = ScheduleBody { jitter_ms: 1_800_000, ..body("@hourly") };
    let mut schedule = defined(&jittered, NOW);
    let due = schedule.due("nightly", NOW).unwrap().unwrap();
    assert!(due > ONE && due < ONE + 1_800_000, "{}", due - ONE);
    schedule.redefine("nightly", &ScheduleBody { priority: 1, ..jittered }, ONE + 1).unwrap();
    schedule.pause(BY_PERSON, ONE + 2);
    assert!(schedule.resume("nightly", ONE + 3).unwrap());
    assert_eq!(schedule.ticks(due - 1), NONE);
    assert_eq!(schedule.ticks(due), [ONE]);
}

#[test]
fn what_would_have_ticked_during_a_pause_is_skipped_and_reported() {
    let mut schedule = defined(&ScheduleBody { catch_up: "all(100)".to_owned(), ..body("@hourly") }, NOW);
    schedule.pause(BY_PERSON, NOW);
    assert!(!schedule.pause(BY_PERSON, NOW), "it is paused already");
    assert_eq!(schedule.ticks(ONE + 5 * HOUR), NONE);
    assert!(schedule.resume("nightly", ONE + 5 * HOUR + 1).unwrap());
    assert_eq!(schedule.events()[1..], [("skipped: the schedule was paused", ONE, ONE + 5 * HOUR, 6), ("resumed", 0, 0, 0)]);
    assert_eq!(schedule.ticks(ONE + 5 * HOUR + 2), NONE);
    assert_eq!(schedule.ticks(ONE + 6 * HOUR), [ONE + 6 * HOUR]);
}

#[test]
fn overlap_skip_makes_one_event_of_a_range() {
    let mut schedule = defined(&overlapping(Overlap::Skip), NOW);
    assert_eq!(schedule.ticks(ONE), [ONE]);
    for n in 1..4 {
        assert_eq!(schedule.ticks(ONE + n * HOUR), NONE);
    }
    assert_eq!(schedule.events(), [("skipped: the last job has not ended", ONE + HOUR, ONE + 3 * HOUR, 3)]);
    assert!(!schedule.last_ends("done", ONE + 4 * HOUR - 1), "nothing has waited");
    assert_eq!(schedule.ticks(ONE + 4 * HOUR), [ONE + 4 * HOUR]);
}

#[test]
fn overlap_buffer_one_keeps_one_tick_for_the_end() {
    let mut schedule = defined(&overlapping(Overlap::BufferOne), NOW);
    assert_eq!(schedule.ticks(ONE), [ONE]);
    for n in 1..4 {
        assert_eq!(schedule.ticks(ONE + n * HOUR), NONE);
    }
    assert_eq!((schedule.state.buffered_ms, schedule.state.skipped), (Some(ONE + HOUR), 2));
    assert!(schedule.last_ends("done", ONE + 3 * HOUR + 7), "the tick that has waited is due");
    assert_eq!(schedule.due("nightly", ONE + 3 * HOUR + 7).unwrap(), Some(ONE + 3 * HOUR + 7));
    assert_eq!(schedule.ticks(ONE + 3 * HOUR + 8), [ONE + HOUR]);
}

#[test]
fn a_tick_that_has_waited_past_the_window_is_dropped() {
    let mut schedule = defined(&ScheduleBody { window_ms: Some(7_200_000), ..overlapping(Overlap::BufferOne) }, NOW);
    schedule.ticks(ONE);
    schedule.ticks(ONE + HOUR);
    schedule.last_ends("done", ONE + 4 * HOUR - 9_000);
    assert_eq!(schedule.ticks(ONE + 4 * HOUR - 9_000), [ONE + 3 * HOUR], "and the last that was missed takes its place");
    assert!(schedule.events().contains(&("skipped: it waited too long", ONE + HOUR, ONE + HOUR, 1)));
}

#[test]
fn overlap_cancel_running_stops_the_last_job_and_waits_for_its_end() {
    let mut schedule = defined(&overlapping(Overlap::CancelRunning), NOW);
    let first = schedule.step(ONE).jobs.remove(0).job.id;
    let second = schedule.step(ONE + HOUR);
    assert_eq!((second.jobs.len(), second.stop), (0, Some(first.clone())));
    assert_eq!(schedule.step(ONE + 2 * HOUR).stop, Some(first), "a newer tick takes the place of the one that waits");
    assert_eq!((schedule.state.buffered_ms, schedule.state.skipped), (Some(ONE + 2 * HOUR), 1));
    assert!(schedule.last_ends("cancelled", ONE + 2 * HOUR + 1));
    assert_eq!(schedule.ticks(ONE + 2 * HOUR + 1), [ONE + 2 * HOUR]);
}

#[test]
fn several_ticks_of_one_outage_do_not_overlap_each_other() {
    let mut schedule = defined(&ScheduleBody { catch_up: "all(9)".to_owned(), ..overlapping(Overlap::CancelRunning) }, NOW);
    let step = schedule.step(ONE + 3 * HOUR);
    assert_eq!((step.jobs.len(), step.stop), (1, None), "a job that is stored only now is not cancelled");
    assert_eq!(schedule.state.buffered_ms, Some(ONE + 3 * HOUR));
}

#[test]
fn jobs_that_die_in_a_row_pause_it_and_a_resume_begins_again() {
    let mut schedule = defined(&ScheduleBody { pause_after: 2, ..body("@hourly") }, NOW);
    for n in 0..2 {
        schedule.ticks(ONE + n * HOUR);
        schedule.last_ends("dead", ONE + n * HOUR + 1);
    }
    assert_eq!(schedule.state.paused.as_deref(), Some("2 of its jobs died in a row"));
    schedule.resume("nightly", ONE + HOUR + 2).unwrap();
    schedule.ticks(ONE + 2 * HOUR);
    schedule.last_ends("dead", ONE + 2 * HOUR + 1);
    assert_eq!(schedule.state.paused, None);
}

#[test]
fn it_ends_after_so_many_ticks_and_begins_not_before_its_start() {
    let mut schedule = defined(&ScheduleBody { most: Some(2), start_ms: Some(ONE + 2 * HOUR), ..body("@hourly") }, NOW);
    assert_eq!(schedule.state.next_ms, Some(ONE + 2 * HOUR), "a tick at its start is one");
    schedule.ticks(ONE + 2 * HOUR);
    assert_eq!(schedule.step(ONE + 3 * HOUR).due_ms, None);
    assert_eq!((schedule.state.made, schedule.state.next_ms), (2, None));
}

#[test]
fn a_clock_that_steps_makes_no_tick_twice() {
    let mut schedule = defined(&body("@hourly"), NOW);
    assert_eq!(schedule.ticks(ONE), [ONE]);
    assert_eq!(schedule.ticks(ONE - 2 * HOUR), NONE, "back");
    assert_eq!(schedule.ticks(ONE), NONE);
    assert_eq!(schedule.ticks(ONE + 9 * HOUR), [ONE + 9 * HOUR], "forth: what lies between was missed");
    assert_eq!(schedule.events(), [("skipped: missed", ONE + HOUR, ONE + 8 * HOUR, 8)]);
}

#[test]
fn the_last_run_is_remembered_however_many_people_have_started() {
    let mut state = ScheduleState::default();
    state.running = Some(state.begun(1, "first".to_owned()));
    for _ in 0..30 {
        state.begun(2, "by hand".to_owned());
    }
    assert_eq!((state.last_runs.len(), state.last_runs[0].2.as_str()), (10, "first"));
    assert_eq!(ScheduleState::decode(&state.encode()).unwrap(), state);
}

fn prepared(body: &ScheduleBody) -> Prepared {
    Prepared { queue: "reports".into(), name: "nightly".to_owned(), body: body.clone(), limits: Vec::new() }
}

fn live(releases: &[&str]) -> BTreeSet<String> {
    releases.iter().map(|release| (*release).to_owned()).collect()
}

#[test]
fn the_release_that_was_first_seen_latest_is_right_and_a_rollback_takes_effect() {
    let (old, new) = (body("@hourly"), body("@daily"));
    let mut schedule = Changing::default();
    schedule.declare("v1", &prepared(&old), NOW);
    schedule.apply_declared("nightly", &live(&["v1"]), NOW).unwrap();
    assert_eq!(schedule.definition.body, old);
    schedule.declare("v2", &prepared(&new), NOW + 10);
    schedule.apply_declared("nightly", &live(&["v1", "v2"]), NOW + 10).unwrap();
    assert_eq!(schedule.definition.body, new);
    // The old release continues to declare while both run.
    schedule.declare("v1", &prepared(&old), NOW + 20);
    schedule.apply_declared("nightly", &live(&["v1", "v2"]), NOW + 20).unwrap();
    assert_eq!(schedule.definition.body, new);
    assert!(!schedule.miss("nightly", &live(&["v1"]), None, NOW + 30).unwrap());
    assert_eq!(schedule.definition.body, old, "no worker of v2 lives");
}

#[test]
fn what_a_person_has_set_outlives_what_code_declares() {
    let mut schedule = defined(&body("@daily"), NOW);
    schedule.definition.by_person = true;
    schedule.declare("v1", &prepared(&body("@hourly")), NOW);
    schedule.apply_declared("nightly", &live(&["v1"]), NOW).unwrap();
    assert_eq!(schedule.definition.body, body("@daily"));
    assert!(!schedule.miss("nightly", &live(&["v2"]), None, NOW + 99 * HOUR).unwrap());
    assert_eq!(schedule.state.paused, None);
}

#[test]
fn what_nobody_declares_for_an_hour_is_paused_and_ticks_again_when_declared() {
    let hour = i64::try_from(UNDECLARED_AFTER.as_millis()).unwrap();
    let mut schedule = Changing::default();
    schedule.declare("v1", &prepared(&body("@hourly")), NOW);
    schedule.apply_declared("nightly", &live(&["v1"]), NOW).unwrap();
    assert!(!schedule.miss("nightly", &live(&["v2"]), None, NOW).unwrap());
    assert_eq!(schedule.definition.undeclared_ms, Some(NOW));
    assert!(!schedule.miss("nightly", &live(&["v2"]), None, NOW + hour - 1).unwrap());
    assert!(schedule.miss("nightly", &live(&["v2"]), None, NOW + hour).unwrap());
    schedule.declare("v3", &prepared(&body("@hourly")), NOW + 2 * hour);
    schedule.apply_declared("nightly", &live(&["v3"]), NOW + 2 * hour).unwrap();
    assert_eq!((schedule.state.paused.as_deref(), schedule.definition.undeclared_ms), (None, None));
    // A schedule that moved to another queue does not tick in both.
    assert!(schedule.miss("nightly", &live(&["v4"]), Some("it is declared in queue `b` now".to_owned()), NOW + 2 * hour).unwrap());
}

/// The ticks of a clock that was an hour ahead are kept; those of a clock that was a year ahead are
/// ignored.
#[test]
fn a_next_tick_that_lies_too_far_ahead_is_brought_back() {
    const DAY: i64 = 24 * HOUR;
    for (expression, ahead, is_wrong) in [
        ("@hourly", HOUR, false),
        ("@hourly", DAY - HOUR, false),
        ("@hourly", DAY + 2 * HOUR, true),
        ("@monthly", 365 * DAY, true),
        ("@every 90s", 365 * DAY, true),
        // The next yearly tick is rightly far ahead.
        ("0 0 1 1 *", 0, false),
        ("0 0 29 2 *", HOUR, false),
        ("0 0 29 2 *", 3 * 365 * DAY, true),
    ] {
        let right = defined(&body(expression), NOW).state.next_ms;
        let mut schedule = defined(&body(expression), NOW);
        // Its ticks up to there are made, or missed, by the clock that is wrong.
        while ahead > 0 && schedule.state.next_ms.is_some_and(|next| next <= NOW + ahead) {
            let next = schedule.state.next_ms.unwrap().max(NOW + ahead - HOUR);
            schedule.ticks(next);
        }
        let (stored, made) = (schedule.state.next_ms, schedule.state.made);
        assert_eq!(schedule.clamp("nightly", NOW).unwrap(), is_wrong, "{expression}, {ahead}");
        assert_eq!(schedule.state.next_ms, if is_wrong { right } else { stored }, "{expression}, {ahead}");
        assert_eq!(schedule.state.made, made);
        let was_repaired = schedule.events().iter().any(|event| event.0.starts_with("repaired: a wrong clock had set the next tick to 20"));
        assert_eq!(was_repaired, is_wrong, "{:?}", schedule.events());
        assert!(!schedule.clamp("nightly", NOW).unwrap(), "once");
    }
    let later = ScheduleBody { start_ms: Some(NOW + 40 * DAY), ..body("@hourly") };
    assert!(!defined(&later, NOW).clamp("nightly", NOW).unwrap(), "it begins then");
}

/// A pause ends with a next tick that a right clock could have set.
#[test]
fn a_resume_brings_the_next_tick_back() {
    let mut schedule = defined(&body("@hourly"), NOW + 365 * 24 * HOUR);
    schedule.pause(BY_PERSON, NOW);
    assert!(schedule.resume("nightly", NOW).unwrap());
    assert_eq!(schedule.state.next_ms, Some(ONE));
}

/// A schedule with the name of a removed one does not get the jobs of that one.
#[test]
fn a_schedule_that_is_made_again_has_other_runs() {
    let run = |now| {
        let mut schedule = defined(&body("@hourly"), now);
        schedule.ticks(now + HOUR);
        schedule.state.running.unwrap()
    };
    assert_ne!(run(NOW), run(NOW + 5_000));
}
