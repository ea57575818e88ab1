//! Pauses: reads the form of a pause, and describes a stored pause.

use std::time::{Duration, SystemTime};

use queue_core::{
    __private::next_time_of_day,
    inspect::{Pause, Pausing},
};

use super::act::user_and_role;
use crate::{format::short, guard::Viewer, params::Params, problem::Problem};

/// The reason and the end in a form, and its sender.
pub(super) fn pause_of_form(viewer: &Viewer, form: &Params) -> Result<Pausing, Problem> {
    let mut pausing = Pausing::new().because(form.text::<1024>("reason"));
    let (who, _) = user_and_role(viewer);
    if who != "-" {
        pausing = pausing.by(who);
    }
    let text = form.text::<40>("until");
    if text.is_empty() {
        return Ok(pausing);
    }
    let time: Option<SystemTime> = humantime::parse_rfc3339_weak(&text).ok();
    let time = time.or_else(|| next_time_of_day(&text, SystemTime::now()));
    let span: Option<Duration> = humantime::parse_duration(&text).ok();
    match (time, span) {
        (Some(time), _) => Ok(pausing.until(time)),
        (None, Some(span)) => Ok(pausing.lasting(span)),
        (None, None) => {
            let advice = "write a duration as `30m`, a time of day as `09:00` (UTC), or a time as `2030-01-31T08:00:00Z` (UTC)";
            Err(Problem::invalid(format!("The time `{text}` cannot be read: {advice}. Nothing was changed.")))
        }
    }
}

/// The end, the operator and the reason of a pause, as a short text.
pub(super) fn describe_pause(pause: &Pause) -> String {
    let text = pause.to_string();
    short(text.strip_prefix("paused").unwrap_or(&text).trim_start_matches([' ', ':']), 200)
}
