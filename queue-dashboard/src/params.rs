//! The parameters of a request. The bounds of every text and number are checked when it is read.

use std::str::FromStr;

/// The maximum number of pairs of one request. Further pairs are ignored.
const PAIRS_MAX: usize = 600;

/// The pairs of a query or of a form.
#[derive(Clone, Debug, Default)]
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    pub(crate) fn parse(text: &[u8]) -> Self {
        Params(form_urlencoded::parse(text).take(PAIRS_MAX).map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
    }

    /// The first value of a name, unless it is empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// All values of a name.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A text without control characters, of at most `MAX` characters.
    pub(crate) fn text<const MAX: usize>(&self, name: &str) -> String {
        text_of::<MAX>(self.get(name).unwrap_or_default())
    }

    /// A number within its bounds; `MIN` if it is missing.
    pub(crate) fn number<const MIN: u64, const MAX: u64>(&self, name: &str) -> Bounded<MIN, MAX> {
        self.get(name).unwrap_or_default().parse().unwrap_or_default()
    }
}

/// A text without control characters, of at most `MAX` characters.
pub(crate) fn text_of<const MAX: usize>(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX).collect::<String>().trim().to_owned()
}

/// A number from `MIN` to `MAX`. Any text can be parsed: a number becomes the nearest one within
/// the bounds, and other text becomes `MIN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounded<const MIN: u64, const MAX: u64>(u64);

impl<const MIN: u64, const MAX: u64> Bounded<MIN, MAX> {
    pub(crate) fn get(self) -> u64 {
        self.0
    }
}

impl<const MIN: u64, const MAX: u64> Default for Bounded<MIN, MAX> {
    fn default() -> Self {
        Bounded(MIN)
    }
}

impl<const MIN: u64, const MAX: u64> FromStr for Bounded<MIN, MAX> {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.strip_prefix('+').unwrap_or(text);
        let number = match digits.parse::<u64>() {
            Ok(number) => number,
            // The number has too many digits for a `u64`.
            Err(_) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => MAX,
            Err(_) => MIN,
        };
        Ok(Bounded(number.clamp(MIN, MAX)))
    }
}

/// Writes the pairs of a query, without those with an empty value.
pub(crate) fn query(pairs: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(pairs.iter().filter(|(_, value)| !value.is_empty()));
    query.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_within_its_bounds_whatever_is_written() {
        let read = |text: &str| text.parse::<Bounded<1, 180>>().unwrap().get();
        for (text, number) in [
            ("7", 7),
            ("+7", 7),
            ("0", 1),
            ("181", 180),
            ("-1", 1),
            ("9223372036854775807", 180),
            ("-9223372036854775808", 1),
            ("99999999999999999999999999", 180),
            ("1e9", 1),
            ("NaN", 1),
            ("", 1),
            ("7 OR 1=1", 1),
        ] {
            assert_eq!(read(text), number, "{text}");
        }
    }

    #[test]
    fn texts_lose_their_control_characters_and_what_is_too_long() {
        let params = Params::parse(b"text=a%00%0a%1bb%20&text=c&long=0123456789&none=");
        assert_eq!((params.text::<10>("text"), params.text::<4>("long")), ("ab".to_owned(), "0123".to_owned()));
        assert_eq!((params.get("none"), params.all("text").count()), (None, 2));
    }
}
