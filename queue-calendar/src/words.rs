//! A description of an expression in words.

use crate::{
    civil::{Fields, bits},
    field::Field,
    syntax::Expression,
};

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] =
    ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
const NTH: [&str; 6] = ["", "first", "second", "third", "fourth", "fifth"];

pub(crate) fn of(expression: &Expression) -> String {
    match expression {
        Expression::Every(interval) => format!("every {}", humantime::format_duration(*interval)),
        Expression::Cron(fields) => [Some(time(fields)), date(fields), month(fields)].into_iter().flatten().collect::<Vec<_>>().join(", "),
    }
}

/// The maximum number of times of day that are listed one by one.
const LISTED: u32 = 6;

fn time(fields: &Fields) -> String {
    let (seconds, minutes, hours) = (fields.seconds, fields.minutes, fields.hours);
    let times = seconds.count_ones() * minutes.count_ones() * hours.count_ones();
    if times <= LISTED && !fields.interval || times == 1 {
        let mut parts = Vec::new();
        for hour in bits(hours) {
            for minute in bits(minutes) {
                for second in bits(seconds) {
                    parts.push(if seconds == 1 { format!("{hour:02}:{minute:02}") } else { format!("{hour:02}:{minute:02}:{second:02}") });
                }
            }
        }
        return format!("at {}", joined(&parts, "and"));
    }
    let mut parts = Vec::new();
    if seconds != 1 {
        parts.push(numbers(seconds, 60, "second"));
    }
    // `every second` already includes every minute.
    if seconds == 1 || minutes != (1 << 60) - 1 {
        parts.push(numbers(minutes, 60, "minute"));
    }
    if hours != (1 << 24) - 1 {
        parts.push(numbers(hours, 24, "hour"));
    } else if minutes.count_ones() == 1 && seconds == 1 {
        return if minutes == 1 { "every hour".to_owned() } else { format!("every hour at minute {}", minutes.trailing_zeros()) };
    }
    parts.join(" of ")
}

/// A set of seconds, minutes or hours.
fn numbers(set: u64, size: u32, unit: &str) -> String {
    let all: Vec<u32> = bits(set).collect();
    if all.len() == size as usize {
        return format!("every {unit}");
    }
    if let [first, second, ..] = all[..]
        && first == 0
        && all.len() > 2
        && all.windows(2).all(|pair| pair[1] - pair[0] == second)
        && all[all.len() - 1] + second >= size
    {
        return format!("every {second} {unit}s");
    }
    let ranges = ranges(&all, |number| number.to_string());
    format!("{unit}{} {}", if all.len() == 1 { "" } else { "s" }, joined(&ranges, "and"))
}

/// Consecutive numbers as a range.
fn ranges(all: &[u32], name: impl Fn(u32) -> String) -> Vec<String> {
    let mut parts = Vec::new();
    let mut at = 0;
    while at < all.len() {
        let mut end = at;
        while end + 1 < all.len() && all[end + 1] == all[end] + 1 {
            end += 1;
        }
        if end - at >= 2 {
            parts.push(format!("{} to {}", name(all[at]), name(all[end])));
        } else {
            parts.extend(all[at..=end].iter().map(|number| name(*number)));
        }
        at = end + 1;
    }
    parts
}

fn joined(parts: &[String], and: &str) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [rest @ .., last] => format!("{} {and} {last}", rest.join(", ")),
    }
}

fn date(fields: &Fields) -> Option<String> {
    match (fields.day.any, fields.weekday.any) {
        (true, true) => None,
        (true, false) => Some(weekday(&fields.weekday)),
        (false, true) => Some(day(&fields.day)),
        (false, false) if fields.weekday.both => Some(format!("{} if it is {}", day(&fields.day), weekday(&fields.weekday))),
        (false, false) => Some(format!("{} or {}", day(&fields.day), weekday(&fields.weekday))),
    }
}

fn day(field: &Field) -> String {
    let mut parts = Vec::new();
    let all: Vec<u32> = bits(field.numbers).collect();
    if !all.is_empty() {
        parts.push(format!("on day{} {}", if all.len() == 1 { "" } else { "s" }, joined(&ranges(&all, |day| day.to_string()), "and")));
    }
    parts.extend(bits(field.nearest).map(|day| format!("on the workday nearest to day {day}")));
    if field.last {
        parts.push("on the last day of the month".to_owned());
    }
    if field.last_workday {
        parts.push("on the last workday of the month".to_owned());
    }
    joined(&parts, "and")
}

fn weekday(field: &Field) -> String {
    let mut parts = Vec::new();
    // Monday first, so that a weekend is one range.
    let all: Vec<u32> = bits(field.numbers >> 1 << 1 | (field.numbers & 1) << 7).collect();
    parts.extend(ranges(&all, |day| DAYS[day as usize % 7].to_owned()));
    for (day, nth) in field.nth.iter().enumerate() {
        parts.extend(bits(u64::from(*nth)).map(|nth| format!("the {} {} of the month", NTH[nth as usize], DAYS[day])));
    }
    parts.extend(bits(field.last_of).map(|day| format!("the last {} of the month", DAYS[day as usize])));
    format!("on {}", joined(&parts, "and"))
}

fn month(fields: &Fields) -> Option<String> {
    let all: Vec<u32> = bits(fields.months).collect();
    (all.len() < 12).then(|| format!("in {}", joined(&ranges(&all, |month| MONTHS[month as usize - 1].to_owned()), "and")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_described_in_words() {
        for (text, words) in [
            ("0 9 * * MON-FRI", "at 09:00, on Monday to Friday"),
            ("30 4 1,15 * FRI", "at 04:30, on days 1 and 15 or on Friday"),
            ("*/5 * * * *", "every 5 minutes"),
            ("* * * * *", "every minute"),
            ("* * * * * *", "every second"),
            ("*/15 * * * * *", "every 15 seconds"),
            ("0 * * * *", "every hour"),
            ("20 * * * *", "every hour at minute 20"),
            ("0,30 8-18 * * *", "minutes 0 and 30 of hours 8 to 18"),
            ("0 */6 * * *", "minute 0 of every 6 hours"),
            ("0 9,17 * * SAT,SUN", "at 09:00 and 17:00, on Saturday and Sunday"),
            ("0 18 LW * *", "at 18:00, on the last workday of the month"),
            ("0 18 L 2 *", "at 18:00, on the last day of the month, in February"),
            ("0 0 29 2 *", "at 00:00, on day 29, in February"),
            ("0 0 15W 1-3,12 *", "at 00:00, on the workday nearest to day 15, in January to March and December"),
            ("0 0 * * MON#1", "at 00:00, on the first Monday of the month"),
            ("0 0 * * FRI#L", "at 00:00, on the last Friday of the month"),
            ("0 0 13 * +FRI", "at 00:00, on day 13 if it is on Friday"),
            ("15 30 9 * * *", "at 09:30:15"),
            ("@every 90s", "every 1m 30s"),
            ("@daily", "at 00:00"),
        ] {
            assert_eq!(Expression::parse(text).unwrap().in_words(), words, "{text}");
        }
    }
}
