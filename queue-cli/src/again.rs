//! Repeated output with `--watch`, and the common arguments of lists.

use std::{
    io::{IsTerminal, stdout},
    time::Duration,
};

use super::{
    args::Format,
    exit::{Exit, Failure, note},
    output::{Captured, Place, print_below, size, with_captured_output, wrap_within, write},
    stop::asked_to_stop,
};

#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(super) struct Again {
    /// Print the answer again every two seconds, or at this interval, until Ctrl-C
    #[arg(long, value_name = "EVERY", num_args = 0..=1, require_equals = true, default_missing_value = "2s", value_parser = parse_interval)]
    watch: Option<Duration>,
}

/// The arguments of most lists.
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
    #[arg(long, value_name = "QUEUE", value_parser = queue)]
    pub(super) queue: Option<String>,
    #[command(flatten)]
    pub(super) format: Format,
}

fn queue(name: &str) -> Result<String, queue_core::Error> {
    queue_core::__private::check_queue(name).map(|()| name.to_owned())
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    match super::args::duration(text)? {
        time if time < Duration::from_millis(100) => Err("it is shorter than 100ms".to_owned()),
        time => Ok(time),
    }
}

impl Again {
    /// Prints once, or repeatedly until the operator stops it. During an outage of the broker it
    /// prints a note and waits.
    pub(super) async fn print(self, answer: impl AsyncFn() -> Result<(), Failure>) -> Result<(), Failure> {
        let Some(every) = self.watch else { return answer().await };
        let stop = asked_to_stop();
        tokio::pin!(stop);
        let mut screen = stdout().is_terminal().then(Screen::default);
        let mut place = Place::default();
        loop {
            let next = async {
                match &screen {
                    // The previous answer stays until the next one is complete.
                    Some(_) => with_captured_output(answer()).await,
                    // A file gets each answer after the one before.
                    None => {
                        let answered;
                        (answered, place) = print_below(place, answer()).await;
                        (answered, Captured::default())
                    }
                }
            };
            let (answered, mut captured) = tokio::select! {
                done = next => done,
                _ = &mut stop => return Ok(()),
            };
            let ends = match answered {
                Err(failure) if failure.may_pass() => {
                    if let (_, Some(message)) = failure.into_parts() {
                        captured.stderr.extend(["error: ", &message, "\n"]);
                    }
                    None
                }
                other => other.err(),
            };
            if let Some(screen) = &mut screen {
                write(&screen.next(captured.answer, size()))?;
            }
            // After the answer.
            captured.stderr.lines().for_each(note);
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
    /// The text that shows an answer on a terminal of this many columns and rows. If the broker is
    /// unreachable, the answer is empty, and the last one stays on the screen.
    fn next(&mut self, answer: String, (columns, rows): (usize, usize)) -> String {
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        if !answer.is_empty() {
            self.last = answer;
        }
        // Each line replaces the old one and clears its rest. The lines after the last one are also
        // cleared. The screen is never empty in between.
        let clears = if is_first { "\u{1b}[2J" } else { "" };
        format!("{clears}\u{1b}[H{}\u{1b}[J", cut_to_terminal(&self.last, columns, rows).replace('\n', "\u{1b}[K\n"))
    }
}

/// The part of an answer that fits the terminal. A line that the terminal wraps, or a row below the
/// last, would move the others. The last row is reserved for standard error.
fn cut_to_terminal(answer: &str, columns: usize, rows: usize) -> String {
    let wrapped: Vec<String> = answer.lines().map(|line| wrap_within(columns, line)).collect();
    let lines: Vec<&str> = wrapped.iter().flat_map(|line| line.split('\n')).collect();
    let room = rows.saturating_sub(1).max(2);
    let shown = if lines.len() > room { room - 1 } else { lines.len() };
    let mut text: String = lines[..shown].iter().flat_map(|line| [line, "\n"]).collect();
    if lines.len() > shown {
        text += &format!("… {} more lines\n", lines.len() - shown);
    }
    text
}

impl Failure {
    /// Whether a later try may succeed.
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
        let mut next = |answer: &str| screen.next(answer.to_owned(), (80, 24));
        assert_eq!(next("one\ntwo\n"), "\u{1b}[2J\u{1b}[Hone\u{1b}[K\ntwo\u{1b}[K\n\u{1b}[J");
        assert_eq!(next("three\n"), "\u{1b}[Hthree\u{1b}[K\n\u{1b}[J", "the screen is not cleared");
        assert_eq!(next(""), "\u{1b}[Hthree\u{1b}[K\n\u{1b}[J", "an error stands below it");
    }

    #[test]
    fn an_answer_fits_its_terminal() {
        let answer: String = (0..40).map(|n| format!("{n:03} {} end\n", "x".repeat(74))).collect();
        let shown = cut_to_terminal(&answer, 80, 24);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!((lines.len(), lines[21], lines[22]), (23, "    end", "… 58 more lines"));
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{shown}");
        assert_eq!(cut_to_terminal("one\ntwo\n", 3, 3), "one\ntwo\n");
        assert_eq!(cut_to_terminal(&answer, usize::MAX, usize::MAX), answer);
    }
}
