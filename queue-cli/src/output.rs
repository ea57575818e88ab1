//! Tables, times and JSON on standard output.

use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
    io::{self, IsTerminal, Write},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Row, Table, presets};
use queue_core::__private::is_control;
pub(super) use queue_core::__private::plain;
use serde::Serialize;

/// Prints lines. If the reader has closed the pipe, this returns an error of kind `BrokenPipe` and
/// does not panic.
pub(super) fn print(text: &str) -> io::Result<()> {
    write(text)?;
    if text.ends_with('\n') { Ok(()) } else { write("\n") }
}

/// The output of a command.
#[derive(Debug, Default)]
pub(super) struct Captured {
    /// The output on standard output.
    pub(super) answer: String,
    /// The output on standard error.
    pub(super) stderr: String,
}

/// The position of the next part of an answer, if a file gets several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Place {
    /// The file is empty.
    #[default]
    First,
    /// After another answer.
    Behind,
    /// Within this answer.
    Within,
}

impl Place {
    /// The text to print for a part. An empty line separates two answers. An answer without text is
    /// skipped.
    fn part<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        if text.is_empty() {
            return Cow::Borrowed(text);
        }
        match std::mem::replace(self, Place::Within) {
            Place::Behind => format!("\n{text}").into(),
            Place::First | Place::Within => Cow::Borrowed(text),
        }
    }

    fn ended(self) -> Self {
        if self == Place::Within { Place::Behind } else { self }
    }
}

tokio::task_local! {
    static CAPTURED: RefCell<Captured>;
    static PLACE: Cell<Place>;
}

/// Prints the output of this work after the earlier answers. Also returns the position of the next
/// answer.
pub(super) async fn print_below<T>(place: Place, work: impl Future<Output = T>) -> (T, Place) {
    PLACE
        .scope(Cell::new(place), async {
            let done = work.await;
            (done, PLACE.with(Cell::get).ended())
        })
        .await
}

/// Captures the output of this work.
pub(super) async fn with_captured_output<T>(work: impl Future<Output = T>) -> (T, Captured) {
    CAPTURED
        .scope(RefCell::default(), async {
            let done = work.await;
            (done, CAPTURED.with(RefCell::take))
        })
        .await
}

/// Prints a part of a line, or several lines.
pub(super) fn write(text: &str) -> io::Result<()> {
    if CAPTURED.try_with(|captured| captured.borrow_mut().answer.push_str(text)).is_ok() {
        return Ok(());
    }
    let part = PLACE.try_with(|at| {
        let mut place = at.get();
        let part = place.part(text);
        at.set(place);
        part
    });
    let mut stdout = io::stdout().lock();
    stdout.write_all(part.unwrap_or(Cow::Borrowed(text)).as_bytes())?;
    stdout.flush()
}

/// Prints a line on standard error, without control characters. Errors are ignored, because
/// standard error may be closed.
pub(super) fn print_stderr(line: &str) {
    let line = &without_control_characters(line);
    if CAPTURED.try_with(|captured| captured.borrow_mut().stderr.extend([line, "\n"])).is_err() {
        let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
    }
}

/// Prints a value as indented JSON.
pub(super) fn print_json(value: &impl Serialize) -> io::Result<()> {
    print(&serde_json::to_string_pretty(value).map_err(io::Error::other)?)
}

/// A table without lines, which fits the terminal. Columns whose heading begins with `#` contain
/// numbers and are aligned to the right.
pub(super) fn table<R: IntoIterator<Item = String>>(headings: &[impl AsRef<str>], rows: impl IntoIterator<Item = R>) -> String {
    let columns = if io::stdout().is_terminal() { size().0 } else { usize::MAX };
    table_within(columns, headings, rows)
}

/// The space between two columns.
const GAP: u16 = 2;

/// The minimum width to which a text is shortened.
const TEXT: usize = 12;

/// The minimum width of the first column. It is the length of the address of a job with a generated
/// id and a short queue, because addresses are copied.
const ADDRESS: usize = 44;

/// If the terminal has no room for all columns, the others follow below, each time after the first
/// column.
fn table_within<R: IntoIterator<Item = String>>(columns: usize, headings: &[impl AsRef<str>], rows: impl IntoIterator<Item = R>) -> String {
    let headings: Vec<&str> = headings.iter().map(AsRef::as_ref).collect();
    let mut rows: Vec<Vec<String>> = rows.into_iter().map(|row| row.into_iter().map(|cell| plain(&cell)).collect()).collect();
    let gap = usize::from(GAP);
    let title = |at: usize| headings[at].trim_start_matches('#').chars().count();
    let width = |rows: &[Vec<String>], at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0).max(title(at));
    let whole: usize = (0..headings.len()).map(|at| width(&rows, at) + gap).sum();
    if whole.saturating_sub(gap) <= columns {
        return part(None, &headings, &rows, &(0..headings.len()).collect::<Vec<_>>());
    }
    let first = (columns / 2).max(ADDRESS).min(columns);
    for row in &mut rows {
        if row[0].chars().count() > first {
            row[0] = cut(&row[0], first - 1);
        }
    }
    let least = |at: usize| match at == 0 || headings[at].starts_with('#') {
        true => width(&rows, at),
        false => width(&rows, at).min(title(at).max(TEXT)),
    };
    let mut parts = vec![vec![0]];
    let mut taken = least(0);
    for at in 1..headings.len() {
        if taken + gap + least(at) > columns && parts.last().is_some_and(|part| part.len() > 1) {
            parts.push(vec![0]);
            taken = least(0);
        }
        taken += gap + least(at);
        parts.last_mut().expect("it has a first part").push(at);
    }
    parts.iter().map(|chosen| part(Some(columns), &headings, &rows, chosen)).collect::<Vec<_>>().join("\n")
}

/// A table of these columns.
fn part(columns: Option<usize>, headings: &[&str], rows: &[Vec<String>], chosen: &[usize]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_truncation_indicator("…");
    table.set_header(chosen.iter().map(|at| headings[*at].trim_start_matches('#')));
    for row in rows {
        let mut row = Row::from(chosen.iter().map(|at| &row[*at]));
        row.max_height(1);
        table.add_row(row);
    }
    if let Some(columns) = columns.and_then(|columns| u16::try_from(columns).ok()) {
        // There is no space after the last column.
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(columns.saturating_add(GAP));
    }
    for (column, at) in table.column_iter_mut().zip(chosen) {
        column.set_padding((0, GAP));
        let is_number = headings[*at].starts_with('#');
        if is_number {
            column.set_cell_alignment(CellAlignment::Right);
        }
        if *at == 0 || is_number {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
}

/// Wraps lines to the width of the terminal.
pub(super) fn wrap(text: &str) -> String {
    if !io::stdout().is_terminal() {
        return text.to_owned();
    }
    let columns = size().0;
    text.lines().map(|line| wrap_within(columns, line)).collect::<Vec<_>>().join("\n")
}

/// The same for a terminal of this many columns.
pub(super) fn wrap_within(columns: usize, line: &str) -> String {
    if line.chars().count() <= columns {
        return line.to_owned();
    }
    let (mut text, mut taken) = (String::new(), 0);
    for word in line.split(' ') {
        if taken > 0 && taken + 1 + word.chars().count() > columns {
            text.push_str("\n    ");
            taken = 4;
        } else if taken > 0 {
            text.push(' ');
            taken += 1;
        }
        let room = columns.saturating_sub(taken);
        let word = if word.chars().count() > room { cut(word, room.saturating_sub(1)) } else { word.to_owned() };
        taken += word.chars().count();
        text.push_str(&word);
    }
    text
}

/// A text of one or several lines, without control characters.
pub(super) fn without_control_characters(text: &str) -> String {
    text.replace(|c| is_control(c) && c != '\n', " ")
}

/// The columns and rows of the terminal.
#[cfg(unix)]
pub(super) fn size() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
    size.map_or((usize::MAX, usize::MAX), |size| (size.ws_col.into(), size.ws_row.into()))
}

#[cfg(not(unix))]
pub(super) fn size() -> (usize, usize) {
    (usize::MAX, usize::MAX)
}

/// A text of at most `max` characters on a terminal, and the whole text elsewhere.
pub(super) fn short(text: &str, max: usize) -> String {
    if io::stdout().is_terminal() { cut(text, max) } else { text.to_owned() }
}

/// A text of at most `max` characters, with a mark if it was cut.
pub(super) fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A time of the broker, relative to now: `in 9m 12s`, `3s ago`.
pub(super) fn relative_time(time: SystemTime, now: SystemTime) -> String {
    match (time.duration_since(now), now.duration_since(time)) {
        (Ok(left), _) if left >= Duration::from_secs(1) => format!("in {}", rounded_duration(left)),
        (_, Ok(past)) if past >= Duration::from_secs(1) => format!("{} ago", rounded_duration(past)),
        _ => "now".to_owned(),
    }
}

/// A duration by its two largest units, from seconds up.
pub(super) fn rounded_duration(duration: Duration) -> String {
    let whole = Duration::from_secs(duration.as_secs());
    let text = humantime::format_duration(whole).to_string();
    text.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

/// A duration in full: `1h 30m`, `250ms`.
pub(super) fn exact_duration(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}

/// A time of the broker in UTC, with milliseconds. `None` for years after 9999, which have no such
/// form.
pub(super) fn utc(time: SystemTime) -> Option<String> {
    const LAST: Duration = Duration::from_millis(253_402_300_799_999);
    let since = time.duration_since(UNIX_EPOCH).ok().filter(|since| *since <= LAST)?;
    Some(humantime::format_rfc3339_millis(UNIX_EPOCH + since).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_to_the_right_and_terminals_are_not_obeyed() {
        let text = table(&["queue", "#ready"], [["a\u{1b}[31m".to_owned(), "7".to_owned()], ["mail".to_owned(), "12345".to_owned()]]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[1].ends_with("    7"), "{text}");
        assert!(!text.contains('\u{1b}'));
    }

    #[test]
    fn a_table_fits_its_terminal_and_is_whole_elsewhere() {
        let row = || [["orders/1".to_owned(), "an error that is far too long for it".to_owned(), "17".to_owned()]];
        let within = |columns| table_within(columns, &["job", "error", "#count"], row());
        let narrow = within(40);
        assert!(narrow.lines().all(|line| line.chars().count() <= 40), "{narrow}");
        assert!(narrow.lines().count() == 2 && narrow.contains("orders/1") && narrow.contains('…') && narrow.contains("17"), "{narrow}");
        assert!(within(usize::MAX).contains("an error that is far too long for it"));
    }

    #[test]
    fn columns_without_room_follow_below() {
        let headings: Vec<String> = ["queue".to_owned()].into_iter().chain((1..=14).map(|n| format!("#heading{n}"))).collect();
        for name in ["mail", &"long".repeat(40)] {
            let row = || [[name.to_owned()].into_iter().chain((1..=14).map(|n| (n * 1_000_003).to_string()))];
            let narrow = table_within(80, &headings, row());
            assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
            assert!((1..=14).all(|n| narrow.contains(&(n * 1_000_003).to_string())), "{narrow}");
            let start: String = name.chars().take(4).collect();
            assert!(narrow.lines().skip(1).step_by(2).all(|line| line.starts_with(&start)), "each part begins with the queue: {narrow}");
            assert_eq!(table_within(usize::MAX, &headings, row()).lines().count(), 2);
        }
    }

    #[test]
    fn a_line_without_room_goes_on_below() {
        let line = "17:22:45.123 orders/1 close_order active -> dead (max_attempts)";
        let narrow = wrap_within(40, line);
        assert_eq!(narrow, "17:22:45.123 orders/1 close_order active\n    -> dead (max_attempts)");
        assert_eq!(wrap_within(80, line), line);
        let long = wrap_within(20, &format!("at {} is dead", "x".repeat(100)));
        assert!(long.lines().all(|line| line.chars().count() <= 20) && long.ends_with("is dead"), "{long}");
    }

    #[tokio::test]
    async fn an_error_line_has_nothing_that_a_terminal_obeys() {
        let hostile = "no job `a\u{1b}]0;owned\u{7}\u{202e}b`\r\nsecond line";
        let ((), captured) = with_captured_output(async { print_stderr(hostile) }).await;
        assert_eq!(captured.stderr, "no job `a ]0;owned  b` \nsecond line\n");
    }

    #[test]
    fn a_file_has_an_empty_line_between_two_answers_and_nowhere_else() {
        let mut place = Place::default();
        // The second answer is empty: the broker could not be reached.
        let printed = [&["", "one\n", "two\n"][..], &[""], &["three\n"], &["four\n", "five\n"]].map(|parts| {
            let text: String = parts.iter().map(|part| place.part(part).into_owned()).collect();
            place = place.ended();
            text
        });
        assert_eq!(printed, ["one\ntwo\n", "", "\nthree\n", "\nfour\nfive\n"]);
        let mut late = Place::default();
        assert_eq!((late.part("").into_owned(), late.ended()), (String::new(), Place::First));
        assert_eq!(late.part("one\n"), "one\n", "the first answer is the first that there is");
    }

    #[test]
    fn times_are_written_as_people_say_them() {
        let now = UNIX_EPOCH + Duration::from_secs(1_000_000);
        assert_eq!(relative_time(now + Duration::from_millis(552_300), now), "in 9m 12s");
        assert_eq!(relative_time(now - Duration::from_secs(3), now), "3s ago");
        for near in [now, now + Duration::from_millis(10), now - Duration::from_millis(999)] {
            assert_eq!(relative_time(near, now), "now");
        }
        assert_eq!(rounded_duration(Duration::from_millis(90_061_500)), "1day 1h");
        assert_eq!(utc(UNIX_EPOCH).unwrap(), "1970-01-01T00:00:00.000Z");
        assert_eq!(utc(UNIX_EPOCH + Duration::from_secs(300_000_000_000)), None);
    }
}
