//! The expected instants of expressions, for zones with unusual changes of the clock.
#![cfg(feature = "zones")]

use std::time::Duration;

use queue_calendar::{Calendar, CatchUp, Expression, Plan, Rules, Skipped, jitter};

fn ms(text: &str) -> i64 {
    text.parse::<jiff::Timestamp>().unwrap_or_else(|error| panic!("{text}: {error}")).as_millisecond()
}

fn shown(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).unwrap().to_string()
}

fn calendar(expression: &str, zone: &str) -> Calendar {
    Calendar::new(Expression::parse(expression).unwrap(), zone).unwrap()
}

/// The ticks after a time.
fn ticks(expression: &str, zone: &str, after: &str, n: usize) -> Vec<String> {
    let calendar = calendar(expression, zone);
    let mut at = ms(after);
    let next = || {
        at = calendar.next(at)?;
        Some(shown(at))
    };
    std::iter::from_fn(next).take(n).collect()
}

#[track_caller]
fn check(expression: &str, zone: &str, after: &str, expected: &[&str]) {
    assert_eq!(ticks(expression, zone, after, expected.len()), expected, "{expression} in {zone} after {after}");
}

#[test]
fn a_fixed_time_in_the_gap_ticks_at_its_end_and_once() {
    // 02:00 to 03:00 does not exist on 29 March.
    check("30 2 * * *", "Europe/Berlin", "2026-03-27T12:00:00Z", &["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]);
    check("0 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", &["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"]);
    // Both times of the list are in the gap. The end of the gap is one instant, which is also that
    // of 03:00.
    check("0,30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", &["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"]);
    check(
        "0,30 2,3 * * *",
        "Europe/Berlin",
        "2026-03-28T12:00:00Z",
        &["2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z", "2026-03-30T00:00:00Z"],
    );
    check("30 2 * * *", "America/New_York", "2026-03-07T12:00:00Z", &["2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"]);
    // Half an hour is missing on Lord Howe: 02:00 to 02:30.
    check("15 2 * * *", "Australia/Lord_Howe", "2026-10-02T16:00:00Z", &["2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"]);
    check("45 2 * * *", "Australia/Lord_Howe", "2026-10-02T16:30:00Z", &["2026-10-03T15:45:00Z"]);
    // In Casablanca, the clock goes forward at the end of Ramadan.
    check("30 2 * * *", "Africa/Casablanca", "2026-03-21T12:00:00Z", &["2026-03-22T02:00:00Z", "2026-03-23T01:30:00Z"]);
    // In São Paulo, midnight did not exist on this day.
    check("0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00Z", &["2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"]);
}

#[test]
fn a_fixed_time_that_comes_twice_ticks_the_first_time() {
    // 02:00 to 03:00 occurs twice on 25 October.
    check("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", &["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]);
    check(
        "0,30 2 * * *",
        "Europe/Berlin",
        "2026-10-24T12:00:00Z",
        &["2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:00:00Z"],
    );
    check("30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", &["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"]);
    check("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00:00Z", &["2026-04-04T14:45:00Z", "2026-04-05T15:15:00Z"]);
    check("30 2 * * *", "Africa/Casablanca", "2026-02-14T12:00:00Z", &["2026-02-15T01:30:00Z", "2026-02-16T02:30:00Z"]);
    // The search starts in the second hour, after the tick of the first.
    check("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", &["2026-10-26T01:30:00Z"]);
}

#[test]
fn wildcards_and_steps_run_by_real_time() {
    check("0 * * * *", "Europe/Berlin", "2026-10-24T23:30:00Z", &["2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"]);
    check("0 * * * *", "Europe/Berlin", "2026-03-29T00:30:00Z", &["2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"]);
    let twice = ["00:00", "00:20", "00:40", "01:00", "01:20", "01:40"].map(|time| format!("2026-10-25T{time}:00Z"));
    assert_eq!(ticks("*/20 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 6), twice);
    check("*/20 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", &["2026-03-30T00:00:00Z"]);
    let howe = ["14:40", "14:50", "15:00", "15:10", "15:20", "15:30"].map(|time| format!("2026-04-04T{time}:00Z"));
    assert_eq!(ticks("*/10 * * * *", "Australia/Lord_Howe", "2026-04-04T14:30:00Z", 6), howe);
    check("*/10 * * * *", "Australia/Lord_Howe", "2026-10-03T15:20:00Z", &["2026-10-03T15:30:00Z", "2026-10-03T15:40:00Z"]);
}

#[test]
fn a_day_that_a_country_skips_is_a_gap() {
    // There was no 30 December 2011 in Samoa. A fixed time of that day ticks at the start of the
    // 31st.
    check(
        "0 9 * * *",
        "Pacific/Apia",
        "2011-12-28T20:00:00Z",
        &["2011-12-29T19:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T19:00:00Z", "2011-12-31T19:00:00Z"],
    );
    check("0 9 30 * *", "Pacific/Apia", "2011-12-01T00:00:00Z", &["2011-12-30T10:00:00Z", "2012-01-29T19:00:00Z"]);
    check("0 * * * *", "Pacific/Apia", "2011-12-30T08:30:00Z", &["2011-12-30T09:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T11:00:00Z"]);
}

#[test]
fn leap_days_and_last_workdays_come_when_they_do() {
    check("0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", &["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]);
    check("0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", &["2104-02-29T00:00:00Z"]);
    check("0 0 29 2 +MON", "UTC", "2026-01-01T00:00:00Z", &["2044-02-29T00:00:00Z", "2072-02-29T00:00:00Z"]);
    check(
        "0 18 LW * *",
        "Europe/Berlin",
        "2026-01-01T00:00:00Z",
        &["2026-01-30T17:00:00Z", "2026-02-27T17:00:00Z", "2026-03-31T16:00:00Z"],
    );
    check("0 18 L * *", "UTC", "2028-02-01T00:00:00Z", &["2028-02-29T18:00:00Z", "2028-03-31T18:00:00Z"]);
    // The 15th was a Sunday in February and March 2026. The 1st was a Sunday as well, and its
    // nearest workday of the month is the 2nd.
    check("0 0 15W * *", "UTC", "2026-02-01T00:00:00Z", &["2026-02-16T00:00:00Z", "2026-03-16T00:00:00Z", "2026-04-15T00:00:00Z"]);
    check("0 0 1W * *", "UTC", "2026-07-31T00:00:00Z", &["2026-08-03T00:00:00Z", "2026-09-01T00:00:00Z"]);
    check("0 0 * * FRI#L", "UTC", "2026-01-01T00:00:00Z", &["2026-01-30T00:00:00Z", "2026-02-27T00:00:00Z"]);
    check("0 0 * * MON#5", "UTC", "2026-01-01T00:00:00Z", &["2026-03-30T00:00:00Z", "2026-06-29T00:00:00Z"]);
    check("0 0 13 * FRI", "UTC", "2026-01-01T00:00:00Z", &["2026-01-02T00:00:00Z", "2026-01-09T00:00:00Z", "2026-01-13T00:00:00Z"]);
    check("0 0 31 * *", "UTC", "2026-01-31T00:00:00Z", &["2026-03-31T00:00:00Z"]);
}

#[test]
fn seconds_and_intervals() {
    check("*/15 * * * * *", "UTC", "2026-01-01T00:00:00Z", &["2026-01-01T00:00:15Z", "2026-01-01T00:00:30Z"]);
    check("*/15 * * * * *", "UTC", "2026-01-01T00:00:14.999Z", &["2026-01-01T00:00:15Z"]);
    check("30 59 23 31 12 *", "Asia/Tokyo", "2026-01-01T00:00:00Z", &["2026-12-31T14:59:30Z"]);
    check("@every 90s", "UTC", "1970-01-01T00:00:00Z", &["1970-01-01T00:01:30Z", "1970-01-01T00:03:00Z"]);
    check("@every 90s", "Europe/Berlin", "2026-01-01T00:00:00Z", &["2026-01-01T00:01:30Z"]);
}

#[test]
fn a_zone_that_does_not_exist_is_named() {
    for zone in ["Europe/Bonn", "", "../etc/passwd", "CEST!"] {
        let problem = Calendar::new(Expression::parse("0 9 * * *").unwrap(), zone).unwrap_err().problem;
        assert!(problem.contains("is not a time zone") && problem.contains(zone), "{problem}");
    }
}

struct Case {
    expression: &'static str,
    catch_up: CatchUp,
    window: Option<Duration>,
    next: &'static str,
    now: &'static str,
}

impl Case {
    fn plan(&self) -> Plan {
        let calendar = calendar(self.expression, "Europe/Berlin");
        let rules = Rules {
            calendar: &calendar,
            name: "nightly",
            jitter: Duration::ZERO,
            catch_up: self.catch_up,
            window: self.window,
            end_ms: None,
            most: 100,
        };
        rules.plan(Some(ms(self.next)), ms(self.now))
    }
}

fn skipped(from: &str, to: &str, ticks: u64) -> Option<Skipped> {
    Some(Skipped { from_ms: ms(from), to_ms: ms(to), ticks })
}

/// 26 hours, from 08:30 to 10:30 of the next day, over a change of the clock.
#[test]
fn an_outage_of_26_hours() {
    let outage = |catch_up, window| {
        let case = Case { expression: "0 */4 * * *", catch_up, window, next: "2026-03-28T11:00:00Z", now: "2026-03-29T08:30:00Z" };
        case.plan()
    };
    // The missed ticks: 12:00, 16:00, 20:00 and 0:00, then 4:00 and 8:00 in summer time.
    let missed = [
        "2026-03-28T11:00:00Z",
        "2026-03-28T15:00:00Z",
        "2026-03-28T19:00:00Z",
        "2026-03-28T23:00:00Z",
        "2026-03-29T02:00:00Z",
        "2026-03-29T06:00:00Z",
    ];
    let next_ms = Some(ms("2026-03-29T10:00:00Z"));
    assert_eq!(outage(CatchUp::Skip, None), Plan { make: vec![], skipped: skipped(missed[0], missed[5], 6), next_ms });
    assert_eq!(outage(CatchUp::Last, None), Plan { make: vec![ms(missed[5])], skipped: skipped(missed[0], missed[4], 5), next_ms });
    let all = missed.map(ms).to_vec();
    assert_eq!(outage(CatchUp::All(10), None), Plan { make: all.clone(), skipped: None, next_ms });
    assert_eq!(outage(CatchUp::All(2), None), Plan { make: all[4..].to_vec(), skipped: skipped(missed[0], missed[3], 4), next_ms });
    let window = Some(Duration::from_secs(7 * 3600));
    assert_eq!(outage(CatchUp::All(10), window), Plan { make: all[4..].to_vec(), skipped: skipped(missed[0], missed[3], 4), next_ms });
    let short = Some(Duration::from_secs(3600));
    assert_eq!(outage(CatchUp::Last, short), Plan { make: vec![], skipped: skipped(missed[0], missed[5], 6), next_ms });
}

#[test]
fn what_is_on_time_is_made_whatever_the_policy() {
    let plan = |catch_up, now| Case { expression: "* * * * * *", catch_up, window: None, next: "2026-06-01T00:00:00Z", now }.plan();
    for catch_up in [CatchUp::Skip, CatchUp::Last, CatchUp::All(1)] {
        assert_eq!(plan(catch_up, "2026-06-01T00:00:02.500Z").make.len(), 3);
        assert_eq!(
            plan(catch_up, "2026-05-31T23:59:59.999Z"),
            Plan { make: vec![], skipped: None, next_ms: Some(ms("2026-06-01T00:00:00Z")) }
        );
    }
    // A delay of twenty seconds: eleven of the ticks are on time.
    let late = "2026-06-01T00:00:20Z";
    assert_eq!(plan(CatchUp::Skip, late).make.len(), 11);
    assert_eq!(plan(CatchUp::Last, late).make.len(), 11, "a tick that is on time makes up for those before it");
    assert_eq!(plan(CatchUp::Last, late).skipped, skipped("2026-06-01T00:00:00Z", "2026-06-01T00:00:09Z", 10));
    assert_eq!(plan(CatchUp::All(3), late).make.len(), 14);
    assert_eq!(plan(CatchUp::All(3), late).skipped, skipped("2026-06-01T00:00:00Z", "2026-06-01T00:00:06Z", 7));
}

#[test]
fn a_long_outage_of_a_frequent_schedule_costs_little_and_makes_the_last_ticks() {
    let began = std::time::Instant::now();
    let case =
        |catch_up| Case { expression: "* * * * * *", catch_up, window: None, next: "2020-01-01T00:00:00Z", now: "2026-06-01T00:00:30Z" };
    let plan = case(CatchUp::Last).plan();
    assert_eq!((plan.make.len(), plan.next_ms), (11, Some(ms("2026-06-01T00:00:31Z"))));
    assert!(plan.skipped.unwrap().ticks >= 10_000);
    let mut plan = case(CatchUp::All(250)).plan();
    assert_eq!((plan.make.len(), plan.make[0]), (100, ms("2026-06-01T00:00:20Z") - 250_000), "a hundred at a time");
    let next = plan.next_ms.take().unwrap();
    assert_eq!(next, plan.make[99] + 1000);
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn several_plans_of_one_outage_make_each_tick_once() {
    let calendar = calendar("*/10 * * * * *", "UTC");
    let rules =
        Rules { calendar: &calendar, name: "n", jitter: Duration::ZERO, catch_up: CatchUp::All(50), window: None, end_ms: None, most: 7 };
    let (mut next, now, mut made) = (Some(ms("2026-01-01T00:00:00Z")), ms("2026-01-01T01:00:00Z"), Vec::new());
    while next.is_some_and(|next| next <= now) {
        let plan = rules.plan(next, now);
        made.extend(plan.make);
        next = plan.next_ms;
    }
    // Fifty missed ticks, and the two that are on time.
    let expected: Vec<i64> = (0..52).rev().map(|n| now - n * 10_000).collect();
    assert_eq!(made, expected);
}

#[test]
fn jitter_is_always_the_same_and_delays_what_it_was_given_for() {
    let most = Duration::from_secs(300);
    let (tick, other) = (ms("2026-01-01T00:00:00Z"), ms("2026-01-01T01:00:00Z"));
    assert_eq!(jitter("nightly", tick, most), jitter("nightly", tick, most));
    assert_ne!(jitter("nightly", tick, most), jitter("weekly", tick, most));
    assert_ne!(jitter("nightly", tick, most), jitter("nightly", other, most));
    assert_eq!(jitter("nightly", tick, Duration::ZERO), 0);
    let mean = (0..1000).map(|n| jitter("nightly", tick + n * 3_600_000, most)).sum::<i64>() / 1000;
    assert!((120_000..180_000).contains(&mean), "{mean}");
    let calendar = calendar("@hourly", "UTC");
    let rules = Rules { calendar: &calendar, name: "nightly", jitter: most, catch_up: CatchUp::Skip, window: None, end_ms: None, most: 9 };
    let due = rules.due(tick);
    assert_eq!(rules.plan(Some(tick), due - 1).make, []);
    assert_eq!(rules.plan(Some(tick), due).make, [tick]);
    assert_eq!(rules.plan(Some(tick), due + 10_000).make, [tick], "what is on time counts from there");
    assert_eq!(rules.plan(Some(tick), due + 10_001).make, []);
}

#[test]
fn no_tick_comes_after_the_end() {
    let calendar = calendar("@hourly", "UTC");
    let end_ms = Some(ms("2026-01-01T02:00:00Z"));
    let rules = Rules { calendar: &calendar, name: "n", jitter: Duration::ZERO, catch_up: CatchUp::All(9), window: None, end_ms, most: 9 };
    let plan = rules.plan(Some(ms("2026-01-01T01:00:00Z")), ms("2026-01-02T00:00:00Z"));
    assert_eq!((plan.make.len(), plan.next_ms), (2, None));
}
