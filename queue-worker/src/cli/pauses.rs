//! What is said of a pause on the command line: why, and until when.

use std::{
    env,
    time::{Duration, SystemTime},
};

use queue_core::{Pause, Pausing};

use super::{
    args::{duration, time},
    output::short,
};

#[derive(Debug, clap::Args)]
pub(super) struct PauseArgs {
    /// Why: it is told until they go on
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
    /// They go on by themselves: so long from now, or at a time, by the broker's clock
    #[arg(long, value_name = "TIME", value_parser = until)]
    until: Option<Until>,
}

/// When a pause ends by itself.
#[derive(Clone, Copy, Debug)]
enum Until {
    After(Duration),
    At(SystemTime),
}

fn until(text: &str) -> Result<Until, String> {
    if let Ok(at) = time(text) {
        return Ok(Until::At(at));
    }
    let way_out = "write a time to wait as `30m`, or a time as `2030-01-31T08:00:00Z` (UTC)";
    duration(text).map(Until::After).map_err(|_| format!("it is neither a time to wait nor a time: {way_out}"))
}

impl PauseArgs {
    /// What is said of the pause, with the name of this user.
    pub(super) fn pausing(&self) -> Pausing {
        let pausing = Pausing::new().because(&self.reason).by(env::var("USER").unwrap_or_default());
        match self.until {
            Some(Until::After(time)) => pausing.lasting(time),
            Some(Until::At(at)) => pausing.until(at),
            None => pausing,
        }
    }
}

/// A pause in a column or a line: `yes`, or what is said of it; empty where there is none.
pub(super) fn told(pause: Option<&Pause>, most: usize) -> String {
    let Some(pause) = pause else { return String::new() };
    let said = pause.to_string();
    let said = said.strip_prefix("paused").unwrap_or(&said).trim_start_matches([' ', ':']);
    if said.is_empty() { "yes".to_owned() } else { short(said, most) }
}
