//! The reason and the end of a pause on the command line.

use std::time::{Duration, SystemTime};

use queue_core::{
    __private::next_time_of_day,
    inspect::{Pause, Pausing},
};

use super::{
    args::{duration, time},
    output::{exact_duration, short, utc},
    person,
};

#[derive(Debug, clap::Args)]
pub(super) struct PauseArgs {
    /// The reason, which is shown until the pause ends
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
    /// The end of the pause, by the broker's clock: a duration (`30m`), a time of day (`09:00`,
    /// UTC) or a time (`2030-01-31T08:00:00Z`)
    #[arg(long, value_name = "TIME", value_parser = parse_until)]
    until: Option<Until>,
}

/// The automatic end of a pause.
#[derive(Clone, Copy, Debug)]
enum Until {
    After(Duration),
    At(SystemTime),
}

fn parse_until(text: &str) -> Result<Until, String> {
    if let Ok(at) = time(text) {
        return Ok(Until::At(at));
    }
    if let Some(at) = next_time_of_day(text, SystemTime::now()) {
        return Ok(Until::At(at));
    }
    let advice = "write a duration as `30m`, a time of day as `09:00` (UTC), or a time as `2030-01-31T08:00:00Z` (UTC)";
    duration(text).map(Until::After).map_err(|_| format!("it is neither a duration nor a time: {advice}"))
}

impl PauseArgs {
    /// The end of the pause, as text after `is paused`. It is empty if the pause has no end.
    pub(super) fn end(&self) -> String {
        match self.until {
            Some(Until::After(time)) => format!(" for {}", exact_duration(time)),
            Some(Until::At(at)) => utc(at).map_or_else(String::new, |at| format!(" until {at}")),
            None => String::new(),
        }
    }

    /// The pause with its reason and the name of this user.
    pub(super) fn pausing(&self) -> Pausing {
        let pausing = Pausing::new().because(&self.reason).by(person::name());
        match self.until {
            Some(Until::After(time)) => pausing.lasting(time),
            Some(Until::At(at)) => pausing.until(at),
            None => pausing,
        }
    }
}

/// A pause in a column or a line: its description, or `yes` if it has none; empty without a pause.
pub(super) fn describe_pause(pause: Option<&Pause>, most: usize) -> String {
    let Some(pause) = pause else { return String::new() };
    let text = pause.to_string();
    let text = text.strip_prefix("paused").unwrap_or(&text).trim_start_matches([' ', ':']);
    if text.is_empty() { "yes".to_owned() } else { short(text, most) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_day_is_the_next_one_in_utc() {
        let at = |text| time(text).unwrap();
        let now = at("2030-01-31T08:00:00Z");
        assert_eq!(next_time_of_day("09:30", now), Some(at("2030-01-31T09:30:00Z")));
        assert_eq!(next_time_of_day("08:00", now), Some(at("2030-02-01T08:00:00Z")), "it is 08:00 already");
        assert_eq!(next_time_of_day("00:00", now), Some(at("2030-02-01T00:00:00Z")));
        for text in ["24:00", "09:60", "9:00", "+9:00", "09:00:00", "0900", ""] {
            assert_eq!(next_time_of_day(text, now), None, "{text}");
        }
    }
}
