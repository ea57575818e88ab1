//! Numbers and times in readable form.

use std::time::{Duration, SystemTime};

/// A number with thousands separators: `1,234,567`.
pub(crate) fn number(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of things: `1 job`, `1,200 jobs`.
pub(crate) fn count(n: u64, one: &str) -> String {
    format!("{} {one}{}", number(n), if n == 1 { "" } else { "s" })
}

/// A duration in its largest unit, and in the next one where that is significant: `4 s`, `12 min`,
/// `3 h 20 min`, `5 d`.
pub(crate) fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0 => format!("{} ms", time.as_millis()),
        1..60 => format!("{seconds} s"),
        60..3600 => format!("{minutes} min"),
        3600..86_400 if minutes % 60 == 0 || hours >= 10 => format!("{hours} h"),
        3600..86_400 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d"),
    }
}

/// A rate per second: `0.4`, `12`, `1,300`.
pub(crate) fn rate(per_second: f64) -> String {
    match per_second {
        r if r < 0.05 => "0".to_owned(),
        r if r < 9.95 => format!("{r:.1}"),
        r => number(r.round() as u64),
    }
}

/// A time, with its distance from now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// RFC 3339, in UTC, with milliseconds.
    pub(crate) iso: String,
    /// `2026-11-24 23:12:01 UTC`.
    pub(crate) exact: String,
    /// `3 min ago`, `in 2 h`.
    pub(crate) relative: String,
}

impl Moment {
    /// The age without the word `ago`, for a column with the heading of an age.
    pub(crate) fn age(&self) -> &str {
        self.relative.strip_suffix(" ago").unwrap_or(&self.relative)
    }

    pub(crate) fn new(time: SystemTime, now: SystemTime) -> Self {
        // RFC 3339 has no form for years after 9999.
        let iso = match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) if since.as_secs() < 253_402_300_800 => humantime::format_rfc3339_millis(time).to_string(),
            _ => String::new(),
        };
        let exact =
            iso.split_once('.').map_or_else(|| "an impossible time".to_owned(), |(time, _)| format!("{} UTC", time.replace('T', " ")));
        let relative = match now.duration_since(time) {
            Ok(past) if past.as_secs() == 0 => "now".to_owned(),
            Ok(past) => format!("{} ago", span(past)),
            Err(ahead) if ahead.duration().as_secs() == 0 => "now".to_owned(),
            Err(ahead) => format!("in {}", span(ahead.duration())),
        };
        Moment { iso, exact, relative }
    }
}

/// The time since an event, such as the last heartbeat of a worker.
pub(crate) fn ago(time: Duration) -> String {
    if time.as_secs() == 0 { "now".to_owned() } else { format!("{} ago", span(time)) }
}

/// An id that fits into a column. A generated id is shortened to its ends.
pub(crate) fn short_id(id: &str) -> String {
    match (id.is_ascii(), id.len()) {
        (true, 36) => format!("{}…{}", &id[..8], &id[32..]),
        _ => short(id, 40),
    }
}

/// A text on one line, cut to `characters`.
pub(crate) fn short(text: &str, characters: usize) -> String {
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((cut, _)) = line.char_indices().nth(characters) {
        line.truncate(cut);
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_are_short() {
        assert_eq!([0, 999, 1000, 1_234_567].map(number), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([count(1, "job"), count(0, "job")], ["1 job", "0 jobs"]);
        let spans = [0, 59, 60, 3600, 12_000, 86_399, 500_000].map(|s| span(Duration::from_secs(s)));
        assert_eq!(spans, ["0 ms", "59 s", "1 min", "1 h", "3 h 20 min", "23 h", "5 d"]);
        assert_eq!([0.0, 0.42, 9.96, 1300.4].map(rate), ["0", "0.4", "10", "1,300"]);
        assert_eq!(short("a\n b   c", 3), "a b…");
    }

    #[test]
    fn a_time_that_no_calendar_has_is_no_panic() {
        let now = SystemTime::now();
        let far = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::from(u32::MAX) * 100);
        assert_eq!(Moment::new(far, now).exact, "an impossible time");
        assert_eq!(Moment::new(now, now).relative, "now");
        assert!(Moment::new(now - Duration::from_secs(130), now).relative.starts_with("2 min"));
    }
}
