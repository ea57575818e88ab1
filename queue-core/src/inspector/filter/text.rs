//! The text form of a filter.

use std::{fmt, str::FromStr};

use super::{
    COMPARES, FIELDS, Field, Filter, How, LONGEST, Term,
    problems::{no_operator, no_reason, unknown},
};
use crate::{
    broker::{JobState, Priority},
    envelope::tags::check_tag_name,
    error::{Error, Result},
    fingerprint::Fingerprint,
    inspector::Reason,
};

impl Filter {
    /// A value in the form of a filter: in quotes if it needs them.
    ///
    /// ```
    /// use queue_core::inspect::Filter;
    ///
    /// assert_eq!(Filter::quoted("acme"), "acme");
    /// assert_eq!(Filter::quoted(r#"the "A" team"#), r#""the \"A\" team""#);
    /// ```
    pub fn quoted(value: &str) -> String {
        if !value.contains(|c: char| c == '"' || c.is_whitespace()) {
            return value.to_owned();
        }
        format!("\"{}\"", value.replace('\\', r"\\").replace('"', r#"\""#))
    }
}

impl FromStr for Filter {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text.len() > LONGEST {
            return Err(Error::invalid("filter", format!("{} bytes", text.len()), format!("is longer than {LONGEST} bytes")));
        }
        Ok(Filter { terms: words(text)?.iter().map(|word| term(word)).collect::<Result<_>>()? })
    }
}

/// The words of a text, separated by spaces. A text in double quotes is one word, without the
/// quotes. In quotes `\"` is a double quote, and `\\` a backslash.
fn words(text: &str) -> Result<Vec<String>> {
    let (mut words, mut quoted) = (vec![String::new()], false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let is_escape = quoted && c == '\\';
        let escaped = chars.next_if(|next| is_escape && matches!(next, '"' | '\\'));
        match c {
            '"' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => words.push(String::new()),
            c => words.last_mut().expect("there is always one").push(escaped.unwrap_or(c)),
        }
    }
    if quoted {
        return Err(Error::invalid(
            "filter",
            text,
            r#"has a double quote that is not closed; in quotes `\"` is a double quote, and `\\` a backslash"#,
        ));
    }
    words.retain(|word| !word.is_empty());
    Ok(words)
}

fn term(word: &str) -> Result<Term> {
    let at = word.find(['=', '~', '!', '<', '>']).ok_or_else(|| no_operator(word))?;
    let (name, rest) = word.split_at(at);
    if name == "attempts" {
        let compares = COMPARES.into_iter().find_map(|(sign, compares)| Some((rest.strip_prefix(sign)?, compares)));
        let number = compares.and_then(|(value, compares)| Some(Term::Attempts(compares, value.parse().ok()?)));
        return number.ok_or_else(|| Error::invalid("filter", word, "is not a number of attempts; write `attempts>=3` or `attempts=0`"));
    }
    if rest.starts_with(['<', '>']) && field(name).is_none() && !matches!(name, "older" | "newer") {
        return Err(Error::invalid("filter", word, unknown(name)));
    }
    let operators = [("!=", How::IsNot), ("!~", How::ContainsNot), ("=", How::Is), ("~", How::Contains)];
    let (value, how) =
        operators.into_iter().find_map(|(sign, how)| Some((rest.strip_prefix(sign)?, how))).ok_or_else(|| no_operator(word))?;
    if let "older" | "newer" = name {
        let age = humantime::parse_duration(value).ok().filter(|_| how == How::Is);
        let age =
            age.ok_or_else(|| Error::invalid("filter", word, format!("is not a duration; write `{name}=2d`, `{name}=1h 30m` in quotes")))?;
        return Ok(if name == "older" { Term::Older(age) } else { Term::Newer(age) });
    }
    let field = field(name).ok_or_else(|| Error::invalid("filter", word, unknown(name)))?;
    if let How::Is | How::IsNot = how {
        match field {
            Field::State => drop(value.parse::<JobState>()?),
            Field::Priority => drop(value.parse::<Priority>()?),
            // `failure=` is a job that has not failed.
            Field::Failure if !value.is_empty() => drop(value.parse::<Fingerprint>()?),
            Field::Waiting if !Reason::NAMES.contains(&value) => return Err(Error::invalid("filter", word, no_reason(value))),
            _ => {}
        }
    }
    Ok(Term::Text { field, how, value: value.to_owned() })
}

fn field(name: &str) -> Option<Field> {
    if let Some(header) = name.strip_prefix("header.").filter(|header| !header.is_empty()) {
        return Some(Field::Header(header.to_owned()));
    }
    if let Some(tag) = name.strip_prefix("tag.").filter(|tag| check_tag_name(tag).is_ok()) {
        return Some(Field::Tag(tag.to_owned()));
    }
    FIELDS.iter().find(|(known, _)| *known == name).map(|(_, field)| field.clone())
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, term) in self.terms.iter().enumerate() {
            let space = if at == 0 { "" } else { " " };
            match term {
                Term::Older(age) => write!(f, "{space}older=\"{}\"", humantime::format_duration(*age))?,
                Term::Newer(age) => write!(f, "{space}newer=\"{}\"", humantime::format_duration(*age))?,
                Term::Attempts(compares, number) => {
                    let sign = COMPARES.iter().find(|(_, known)| known == compares).map_or("", |(sign, _)| sign);
                    write!(f, "{space}attempts{sign}{number}")?;
                }
                Term::Text { field, how, value } => {
                    let name = match field {
                        Field::Header(name) => format!("header.{name}"),
                        Field::Tag(name) => format!("tag.{name}"),
                        field => FIELDS.iter().find(|(_, known)| known == field).map_or("", |(name, _)| name).to_owned(),
                    };
                    let sign = match how {
                        How::Is => "=",
                        How::IsNot => "!=",
                        How::Contains => "~",
                        How::ContainsNot => "!~",
                    };
                    write!(f, "{space}{name}{sign}{}", Filter::quoted(value))?;
                }
            }
        }
        Ok(())
    }
}
