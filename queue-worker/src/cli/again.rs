//! Printing an answer again and again, for a person who stays; and what lists take besides.

use std::{
    io::{IsTerminal, stdout},
    time::Duration,
};

use super::{
    args::Format,
    exit::{Exit, Failure, tell},
    output::write,
};

#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(super) struct Again {
    /// Print the answer again every two seconds, or as often as is said, until Ctrl-C
    #[arg(long, value_name = "EVERY", num_args = 0..=1, require_equals = true, default_missing_value = "2s", value_parser = every)]
    watch: Option<Duration>,
}

/// What most lists take.
#[derive(Debug, clap::Args)]
pub(super) struct Listing {
    #[command(flatten)]
    pub(super) format: Format,
    #[command(flatten)]
    pub(super) again: Again,
}

#[derive(Debug, clap::Args)]
pub(super) struct QueueArgs {
    /// Only this queue
    #[arg(long, value_name = "QUEUE")]
    pub(super) queue: Option<String>,
    #[command(flatten)]
    pub(super) format: Format,
}

fn every(text: &str) -> Result<Duration, String> {
    match super::args::duration(text)? {
        time if time < Duration::from_millis(100) => Err("it is shorter than 100ms".to_owned()),
        time => Ok(time),
    }
}

impl Again {
    /// Prints once, or until the person has seen enough. An outage of the broker is told, and waited for.
    pub(super) async fn print(self, answer: impl AsyncFn() -> Result<(), Failure>) -> Result<(), Failure> {
        let Some(every) = self.watch else { return answer().await };
        let stop = tokio::signal::ctrl_c();
        tokio::pin!(stop);
        let mut is_first = true;
        loop {
            // A terminal shows the newest answer; a file gets all of them, one below the other.
            if stdout().is_terminal() {
                write("\u{1b}[H\u{1b}[2J")?;
            } else if !is_first {
                write("\n")?;
            }
            is_first = false;
            let answered = tokio::select! {
                answered = answer() => answered,
                _ = &mut stop => return Ok(()),
            };
            match answered {
                Err(failure) if failure.may_pass() => {
                    if let (_, Some(message)) = failure.into_parts() {
                        tell(&message);
                    }
                }
                other => other?,
            }
            tokio::select! {
                _ = &mut stop => return Ok(()),
                () = tokio::time::sleep(every) => {}
            }
        }
    }
}

impl Failure {
    /// Whether a later answer may be better.
    fn may_pass(&self) -> bool {
        matches!(self.exit(), Exit::Unavailable | Exit::Unknown | Exit::Sick)
    }
}
