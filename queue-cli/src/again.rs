//! Repeated output with `--watch`, and the common arguments of lists.

use std::{
    io::{IsTerminal, stdout},
    time::Duration,
};

use super::{
    args::Format,
    exit::{Exit, Failure, note},
    output::{Place, Said, below, held_back, write},
    stop::asked_to_stop,
};

#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(super) struct Again {
    /// Print the answer again every two seconds, or at this interval, until Ctrl-C
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
        let stop = asked_to_stop();
        tokio::pin!(stop);
        let mut screen = stdout().is_terminal().then(Screen::default);
        let mut place = Place::default();
        loop {
            let next = async {
                match &screen {
                    // The answer before stays until the new one is there.
                    Some(_) => held_back(answer()).await,
                    // A file gets each answer as it comes, one below the other.
                    None => {
                        let answered;
                        (answered, place) = below(place, answer()).await;
                        (answered, Said::default())
                    }
                }
            };
            let (answered, mut said) = tokio::select! {
                told = next => told,
                _ = &mut stop => return Ok(()),
            };
            let ends = match answered {
                Err(failure) if failure.may_pass() => {
                    if let (_, Some(message)) = failure.into_parts() {
                        said.remarks.extend(["error: ", &message, "\n"]);
                    }
                    None
                }
                other => other.err(),
            };
            if let Some(screen) = &mut screen {
                write(&screen.next(said.answer))?;
            }
            // Below the answer.
            said.remarks.lines().for_each(note);
            if let Some(failure) = ends {
                return Err(failure);
            }
            tokio::select! {
                _ = &mut stop => return Ok(()),
                () = tokio::time::sleep(every) => {}
            }
        }
    }
}

/// A terminal shows the newest answer.
#[derive(Debug, Default)]
struct Screen {
    is_begun: bool,
    last: String,
}

impl Screen {
    /// What to print of an answer. Without one, as the broker cannot be reached, it goes on with the last.
    fn next(&mut self, answer: String) -> String {
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        if !answer.is_empty() {
            self.last = answer;
        }
        // Each line takes the place of the old one, whose rest goes; what is below the last goes too. The screen is never empty in between.
        let clears = if is_first { "\u{1b}[2J" } else { "" };
        format!("{clears}\u{1b}[H{}\u{1b}[J", self.last.replace('\n', "\u{1b}[K\n"))
    }
}

impl Failure {
    /// Whether a later answer may be better.
    fn may_pass(&self) -> bool {
        matches!(self.exit(), Exit::Unavailable | Exit::Unknown | Exit::Sick)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_keeps_the_last_answer_until_there_is_another() {
        let mut screen = Screen::default();
        assert_eq!(screen.next("one\ntwo\n".to_owned()), "\u{1b}[2J\u{1b}[Hone\u{1b}[K\ntwo\u{1b}[K\n\u{1b}[J");
        assert_eq!(screen.next("three\n".to_owned()), "\u{1b}[Hthree\u{1b}[K\n\u{1b}[J", "the screen is not cleared");
        assert_eq!(screen.next(String::new()), "\u{1b}[Hthree\u{1b}[K\n\u{1b}[J", "an error stands below it");
    }
}
