//! One field of an expression: a set of numbers, and special values of days.

use std::ops::Range;

use crate::syntax::SyntaxError;

/// The kind of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Second,
    Minute,
    Hour,
    Day,
    Month,
    Weekday,
}

const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

impl Kind {
    /// In the order of an expression.
    pub(crate) const ALL: [Kind; 6] = [Kind::Second, Kind::Minute, Kind::Hour, Kind::Day, Kind::Month, Kind::Weekday];

    /// The lowest and the highest number. The weekday 7 is Sunday, like 0.
    fn bounds(self) -> (u32, u32) {
        match self {
            Kind::Second | Kind::Minute => (0, 59),
            Kind::Hour => (0, 23),
            Kind::Day => (1, 31),
            Kind::Month => (1, 12),
            Kind::Weekday => (0, 7),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Second => "second",
            Kind::Minute => "minute",
            Kind::Hour => "hour",
            Kind::Day => "day",
            Kind::Month => "month",
            Kind::Weekday => "weekday",
        }
    }

    /// The name with its article.
    fn one(self) -> &'static str {
        match self {
            Kind::Second => "a second",
            Kind::Minute => "a minute",
            Kind::Hour => "an hour",
            Kind::Day => "a day",
            Kind::Month => "a month",
            Kind::Weekday => "a weekday",
        }
    }

    fn names(self) -> &'static [&'static str] {
        match self {
            Kind::Month => &MONTHS,
            Kind::Weekday => &WEEKDAYS,
            _ => &[],
        }
    }
}

/// A parsed field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Field {
    /// The numbers, as bits.
    pub(crate) numbers: u64,
    /// Whether it is only `*` or `?`.
    pub(crate) any: bool,
    /// Whether it has a `*` or a step.
    pub(crate) interval: bool,
    /// Days: `L`, the last of the month.
    pub(crate) last: bool,
    /// Days: `LW`, the last of the month that is not a Saturday or Sunday.
    pub(crate) last_workday: bool,
    /// Days: `15W`, the workday nearest to this day in its month, as bits.
    pub(crate) nearest: u64,
    /// Weekdays: `MON#2`, a bit for each of the first to the fifth, by weekday.
    pub(crate) nth: [u8; 7],
    /// Weekdays: `FRI#L`, as bits.
    pub(crate) last_of: u64,
    /// Weekdays: a `+` before it. Both day and weekday have to match.
    pub(crate) both: bool,
}

impl Field {
    /// A field of these numbers.
    pub(crate) fn of_numbers(numbers: u64) -> Self {
        Field { numbers, ..Field::default() }
    }
}

/// Parses a field. Error positions are relative to its text.
pub(crate) fn parse(kind: Kind, text: &str) -> Result<Field, SyntaxError> {
    let mut field = Field::default();
    let mut from = 0;
    if kind == Kind::Weekday && text.starts_with('+') {
        (field.both, from) = (true, 1);
    }
    field.any = matches!(&text[from..], "*" | "?");
    for item in text[from..].split(',') {
        let at = from..from + item.len();
        Item { kind, text: item, at }.read(&mut field)?;
        from += item.len() + 1;
    }
    if kind == Kind::Weekday {
        // Sunday is 0 and 7.
        field.numbers = (field.numbers | field.numbers >> 7) & 0x7f;
    }
    Ok(field)
}

/// A part between commas.
struct Item<'a> {
    kind: Kind,
    text: &'a str,
    at: Range<usize>,
}

impl Item<'_> {
    fn read(&self, field: &mut Field) -> Result<(), SyntaxError> {
        let (least, greatest) = self.kind.bounds();
        if self.text.is_empty() {
            return Err(self.problem(format!("a number is missing: write {}, or remove the comma", self.kind.one())));
        }
        if self.kind == Kind::Day && self.special_day(field)? || self.kind == Kind::Weekday && self.special_weekday(field)? {
            return Ok(());
        }
        let (range, step) = match self.text.split_once('/') {
            Some((range, step)) => (range, Some(self.step(step, range.len() + 1)?)),
            None => (self.text, None),
        };
        let (from, to) = if range == "*" || range == "?" && self.may_ask() {
            field.interval = true;
            (least, if self.kind == Kind::Weekday { 6 } else { greatest })
        } else if let Some((from, to)) = range.split_once('-') {
            let (from, mut to) = (self.number(from, 0)?, self.number(to, from.len() + 1)?);
            if self.kind == Kind::Weekday && to == 0 && from > 0 {
                to = 7;
            }
            if from > to {
                let place = self.at.start..self.at.start + range.len();
                return Err(SyntaxError::new(place, format!("`{range}` goes backwards; write two ranges, with a comma between them")));
            }
            (from, to)
        } else if step.is_some() {
            let step = &self.text[range.len() + 1..];
            let problem = format!(
                "`{}` has a step without a range; write `*/{step}`, or a range as `{}-{greatest}/{step}`",
                self.text,
                first(range, least)
            );
            return Err(self.problem(problem));
        } else {
            let number = self.number(range, 0)?;
            (number, number)
        };
        field.interval |= step.is_some();
        let mut number = from;
        while number <= to {
            field.numbers |= 1 << number;
            number += step.unwrap_or(1);
        }
        Ok(())
    }

    /// `L`, `LW`, `15W`.
    fn special_day(&self, field: &mut Field) -> Result<bool, SyntaxError> {
        let upper = self.text.to_ascii_uppercase();
        if upper == "L" {
            field.last = true;
        } else if upper == "LW" || upper == "WL" {
            field.last_workday = true;
        } else if let Some(day) = upper.strip_suffix('W') {
            if day.is_empty() || day.contains(['-', '/', '*']) {
                return Err(self.problem("`W` follows a single day, as in `15W`: the workday nearest to the 15th".to_owned()));
            }
            field.nearest |= 1 << self.number(day, 0)?;
        } else if upper.contains('L') {
            return Err(self.problem("`L` stands alone (the last day of the month), or in `LW` (its last workday)".to_owned()));
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// `MON#2`, `FRI#L`, `5L`.
    fn special_weekday(&self, field: &mut Field) -> Result<bool, SyntaxError> {
        let upper = self.text.to_ascii_uppercase();
        let (day, nth) = match (upper.split_once('#'), upper.strip_suffix('L')) {
            (Some((day, nth)), _) => (day, nth),
            (None, Some(day)) => (day, "L"),
            _ => return Ok(false),
        };
        if day.is_empty() {
            return Err(self.problem(
                "a weekday is missing: write `FRI#L` for the last Friday of the month, `MON#2` for its second Monday".to_owned(),
            ));
        }
        let day = self.number(day, 0)? % 7;
        if nth == "L" {
            field.last_of |= 1 << day;
            return Ok(true);
        }
        let start = self.at.start + upper.len() - nth.len();
        match nth.parse::<u8>() {
            Ok(number @ 1..=5) => field.nth[day as usize] |= 1 << number,
            _ => return Err(SyntaxError::new(start..self.at.end, "`#` is followed by 1 to 5, or by `L` for the last".to_owned())),
        }
        Ok(true)
    }

    fn step(&self, text: &str, from: usize) -> Result<u32, SyntaxError> {
        let place = self.at.start + from..self.at.end;
        let (least, greatest) = self.kind.bounds();
        match text.parse::<u32>() {
            Ok(step) if step > 0 && step <= greatest - least => Ok(step),
            _ => Err(SyntaxError::new(place, format!("a step of {}s is a number from 1 to {}", self.kind.name(), greatest - least))),
        }
    }

    /// A number or a name.
    fn number(&self, text: &str, from: usize) -> Result<u32, SyntaxError> {
        let place = self.at.start + from..self.at.start + from + text.len();
        let (least, greatest) = self.kind.bounds();
        let (kind, one) = (self.kind.name(), self.kind.one());
        if text.is_empty() {
            return Err(SyntaxError::new(place, format!("a number is missing: {one} is {least} to {greatest}")));
        }
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            let number = text.parse::<u32>().ok().filter(|number| (least..=greatest).contains(number));
            return number.ok_or_else(|| SyntaxError::new(place, format!("{one} is {least} to {greatest}")));
        }
        // A range may begin with text that is not a number. The error position is that of its first
        // part.
        let (text, place) = match text.find('-') {
            Some(0) => ("", place.start..place.start),
            Some(end) => (&text[..end], place.start..place.start + end),
            None => (text, place),
        };
        if text.is_empty() {
            return Err(SyntaxError::new(place, format!("a number is missing: {one} is {least} to {greatest}")));
        }
        let upper = text.to_ascii_uppercase();
        if let Some(at) = self.kind.names().iter().position(|name| *name == upper) {
            return Ok(u32::try_from(at).unwrap_or_default() + least);
        }
        let names = self.kind.names();
        let problem = match (names.first(), names.last()) {
            (Some(first), Some(last)) => format!("`{text}` is not a {kind}; write {least} to {greatest}, or `{first}` to `{last}`"),
            _ => format!("`{text}` is not a number; {one} is {least} to {greatest}"),
        };
        Err(SyntaxError::new(place, problem))
    }

    fn may_ask(&self) -> bool {
        matches!(self.kind, Kind::Day | Kind::Weekday)
    }

    fn problem(&self, problem: String) -> SyntaxError {
        SyntaxError::new(self.at.clone(), problem)
    }
}

fn first(range: &str, least: u32) -> String {
    if range.is_empty() { least.to_string() } else { range.to_owned() }
}
