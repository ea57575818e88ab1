//! An expression as text: the five or six fields of cron, `@hourly` and the like, and `@every 90s`.
//!
//! Parsing takes time and memory in proportion to the length of the text, which is bounded. A field
//! is a set of at most 60 numbers.

use std::{fmt, ops::Range, time::Duration};

use crate::{
    civil::Fields,
    field::{self, Field, Kind},
};

/// The maximum length of an expression, in bytes.
pub const LONGEST_TEXT: usize = 256;

/// The longest interval of `@every`: ten years.
pub const LONGEST_EVERY: Duration = Duration::from_secs(3653 * 24 * 3600);

/// The shortest interval of `@every`.
const SHORTEST_EVERY: Duration = Duration::from_secs(1);

/// A problem of a text, and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// The bytes of the text with the problem.
    pub at: Range<usize>,
    /// The problem and the fix.
    pub problem: String,
}

impl SyntaxError {
    pub(crate) fn new(at: Range<usize>, problem: impl Into<String>) -> Self {
        SyntaxError { at, problem: problem.into() }
    }

    pub(crate) fn moved(mut self, by: usize) -> Self {
        self.at = self.at.start + by..self.at.end + by;
        self
    }

    /// The text, with a line below it that marks the position.
    pub fn marked(&self, text: &str) -> String {
        let before = text.get(..self.at.start).map_or(0, |before| before.chars().count());
        let marked = text.get(self.at.clone()).map_or(1, |marked| marked.chars().count().max(1));
        format!("{text}\n{}{}", " ".repeat(before), "^".repeat(marked))
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)
    }
}

impl std::error::Error for SyntaxError {}

/// A parsed expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// `@every 90s`: the instants since 1970 that are multiples of this interval.
    Every(Duration),
    /// Fields of cron.
    Cron(Fields),
}

/// Short names, with their expressions.
const NICKNAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * SUN"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

impl Expression {
    /// Parses an expression.
    ///
    /// # Errors
    /// The problem and its position. An expression that never ticks is also an error.
    pub fn parse(text: &str) -> Result<Expression, SyntaxError> {
        if text.len() > LONGEST_TEXT {
            return Err(SyntaxError::new(
                LONGEST_TEXT.min(text.len())..text.len(),
                format!("an expression has at most {LONGEST_TEXT} bytes"),
            ));
        }
        let words = words(text);
        let Some(first) = words.first() else {
            return Err(SyntaxError::new(0..text.len(), "an expression is empty; write for example `0 9 * * MON-FRI` or `@every 90s`"));
        };
        if !text[first.clone()].starts_with('@') {
            let nickname = format!("@{}", text[first.clone()].to_ascii_lowercase());
            if words.len() == 1 && NICKNAMES.iter().any(|(known, _)| *known == nickname) {
                return Err(SyntaxError::new(first.clone(), format!("write `{nickname}`")));
            }
            return fields(text, &words).map(Expression::Cron);
        }
        if text[first.clone()].eq_ignore_ascii_case("@every") {
            let rest = words.get(1).map_or(text.len()..text.len(), |second| second.start..words[words.len() - 1].end);
            return every(&text[rest.clone()]).map(Expression::Every).map_err(|error| error.moved(rest.start));
        }
        let name = text[first.clone()].to_ascii_lowercase();
        let Some((_, cron)) = NICKNAMES.iter().find(|(known, _)| *known == name) else {
            let known = NICKNAMES.map(|(name, _)| format!("`{name}`")).join(", ");
            return Err(SyntaxError::new(first.clone(), format!("`{name}` is unknown; there are {known} and `@every 90s`")));
        };
        if let Some(more) = words.get(1) {
            return Err(SyntaxError::new(more.start..text.len(), format!("nothing follows `{name}`")));
        }
        Expression::parse(cron)
    }

    /// An interval.
    ///
    /// # Errors
    /// An interval below a second or above ten years.
    pub fn every(interval: Duration) -> Result<Expression, SyntaxError> {
        let range = 0..humantime::format_duration(interval).to_string().len();
        if interval < SHORTEST_EVERY {
            return Err(SyntaxError::new(range, "an interval is a second or longer"));
        }
        if interval > LONGEST_EVERY {
            return Err(SyntaxError::new(range, "an interval is ten years or shorter"));
        }
        if !interval.subsec_nanos().is_multiple_of(1_000_000) {
            return Err(SyntaxError::new(range, "an interval has whole milliseconds"));
        }
        Ok(Expression::Every(interval))
    }

    /// A description in words without the time zone: `at 09:00, Monday to Friday`.
    pub fn in_words(&self) -> String {
        crate::words::of(self)
    }
}

fn every(text: &str) -> Result<Duration, SyntaxError> {
    let all = 0..text.len();
    if text.is_empty() {
        return Err(SyntaxError::new(all, "an interval is missing; write `@every 90s`"));
    }
    let interval = humantime::parse_duration(text).map_err(|error| {
        SyntaxError::new(all.clone(), format!("`{text}` is not an interval ({error}); write for example `90s` or `1h 30m`"))
    })?;
    Expression::every(interval).map(|_| interval).map_err(|error| SyntaxError::new(all, error.problem))
}

/// The words of a text, as ranges of bytes.
fn words(text: &str) -> Vec<Range<usize>> {
    let mut words: Vec<Range<usize>> = Vec::new();
    let mut inside = false;
    for (at, c) in text.char_indices() {
        match (inside, c.is_whitespace()) {
            (false, false) => words.push(at..at + c.len_utf8()),
            (true, false) => words.last_mut().expect("a word has begun").end = at + c.len_utf8(),
            _ => {}
        }
        inside = !c.is_whitespace();
    }
    words
}

fn fields(text: &str, words: &[Range<usize>]) -> Result<Fields, SyntaxError> {
    let kinds = match words.len() {
        5 => &Kind::ALL[1..],
        6 => &Kind::ALL[..],
        n => {
            let all = words[0].start..words[n - 1].end;
            let problem = format!(
                "an expression has 5 fields (minute, hour, day, month, weekday) or 6 with the second before them; this one has {n}"
            );
            return Err(SyntaxError::new(all, problem));
        }
    };
    let mut read: Vec<Field> = Vec::with_capacity(6);
    if kinds.len() == 5 {
        read.push(Field::of_numbers(1));
    }
    for (kind, word) in kinds.iter().zip(words) {
        read.push(field::parse(*kind, &text[word.clone()]).map_err(|error| error.moved(word.start))?);
    }
    let fields = Fields::of(&read);
    if fields.never() {
        let days = &words[words.len() - 3];
        let months = &words[words.len() - 2];
        let (day, month) = (&text[days.clone()], &text[months.clone()]);
        return Err(SyntaxError::new(
            days.start..months.end,
            format!("day `{day}` never comes in month `{month}`, so it would never tick"),
        ));
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> (String, String) {
        let error = Expression::parse(text).expect_err(text);
        (error.problem.clone(), text.get(error.at.clone()).unwrap_or_default().to_owned())
    }

    #[test]
    fn an_error_reports_what_is_wrong_and_where() {
        for (text, place, words) in [
            ("", "", "is empty"),
            ("   ", "   ", "is empty"),
            ("* * * *", "* * * *", "this one has 4"),
            ("0 0 9 * * MON 2026", "0 0 9 * * MON 2026", "this one has 7"),
            ("60 * * * *", "60", "0 to 59"),
            ("0 24 * * *", "24", "0 to 23"),
            ("0 0 0 * *", "0", "1 to 31"),
            ("0 0 * 13 *", "13", "1 to 12"),
            ("0 0 * * 8", "8", "0 to 7"),
            ("0 9 * * MON-FRY", "FRY", "`FRY` is not a weekday"),
            ("0 9 * JANE *", "JANE", "`JANE` is not a month"),
            ("0 9 * * FRI-MON", "FRI-MON", "goes backwards"),
            ("5-1 * * * *", "5-1", "goes backwards"),
            ("*/0 * * * *", "0", "step"),
            ("*/61 * * * *", "61", "step"),
            ("0/10 * * * *", "0/10", "*/10"),
            ("/10 * * * *", "/10", "*/10"),
            ("1--100000000 * * * *", "", "number is missing"),
            ("1-100000000 * * * *", "100000000", "0 to 59"),
            ("1-99999999999999999999999999 * * * *", "99999999999999999999999999", "0 to 59"),
            ("1,,2 * * * *", "", "number is missing"),
            ("1, * * * *", "", "number is missing"),
            ("L * * * *", "L", "`L` is not a number"),
            ("0 0 W * *", "W", "15W"),
            ("0 0 1-5W * *", "1-5W", "15W"),
            ("0 0 32W * *", "32", "1 to 31"),
            ("0 0 L-3 * *", "L-3", "`L`"),
            ("0 0 * * L", "L", "FRI#L"),
            ("0 0 * * MON#6", "6", "1 to 5"),
            ("0 0 * * #2", "#2", "weekday"),
            ("0 0 30 2 *", "30 2", "never"),
            ("0 0 31 4,6,9,11 *", "31 4,6,9,11", "never"),
            ("0 0 31W 2 *", "31W 2", "never"),
            ("@fortnightly", "@fortnightly", "unknown"),
            ("@hourly 5", "5", "nothing follows"),
            ("Daily", "Daily", "write `@daily`"),
            ("@every", "", "missing"),
            ("@every soon", "soon", "not an interval"),
            ("@every 10ms", "10ms", "a second"),
            ("@every 100years", "100years", "ten years"),
            ("0 0 9 * * ü", "ü", "`ü` is not a weekday"),
        ] {
            let (problem, at) = problem(text);
            assert!(problem.contains(words), "{text}: {problem}");
            assert_eq!(at, place, "{text}: {problem}");
        }
        assert!(problem(&"*,".repeat(200)).0.contains("256 bytes"));
    }

    #[test]
    fn what_croner_and_vixie_read_is_read() {
        for text in [
            "* * * * *",
            "0 9 * * MON-FRI",
            "0 9 * * mon-fri",
            "0 9 * * Mon,Wed,5",
            "*/5 8-18 * * *",
            "10-50/20 * * * *",
            "0 0 ? * MON",
            "0 0 L * ?",
            "0 18 LW * *",
            "0 0 15W * *",
            "0 0 1,15W,L * *",
            "0 0 * * 5L",
            "0 0 * * FRI#L",
            "0 0 * * FRIL",
            "0 0 * * MON#1,WED#3",
            "0 0 * * SAT-SUN",
            "0 0 * * 5-7",
            "0 0 * * 0",
            "0 0 13 * +FRI",
            "0 0 1 JAN-MAR,DEC *",
            "*/15 * * * * *",
            "0 0 29 2 *",
            "0 0 31 1,2 *",
            "0 0 30 2 MON",
            "@hourly",
            "@Daily",
            "@every 90s",
            "@every 1h 30m",
            "  0   9 * *\tMON  ",
        ] {
            Expression::parse(text).unwrap_or_else(|error| panic!("{text}: {error} at {:?}", error.at));
        }
        assert_eq!(Expression::parse("@weekly"), Expression::parse("0 0 * * 7"));
    }

    #[test]
    fn an_error_marks_its_place() {
        let error = Expression::parse("0 25 * * *").unwrap_err();
        assert_eq!(error.marked("0 25 * * *"), "0 25 * * *\n  ^^");
    }
}
