//! Fingerprints of failures: their message without numbers, ids and quoted values.
//! `docs/failures.md` describes the rules. They must not change, because data stored under a
//! fingerprint outlives a release.

use std::{fmt, net::Ipv6Addr, str::FromStr};

use crate::{
    address::serde_as_text,
    digest::sha256,
    error::{Error, Result},
};

/// How much of a text counts, in bytes. A list of jobs has a little more of an error, so that a
/// fingerprint is the same from there.
const EXAMINED: usize = 500;

/// Longest pattern, in bytes.
const LONGEST: usize = 200;

/// Replaces a value.
const VALUE: char = '*';

/// Identifies a failure pattern: 16 hexadecimal digits, derived from the text of a failure without
/// numbers, ids and quoted values.
///
/// The texts of failures with one fingerprint differ only in such values. `docs/failures.md` of the
/// repository has the rules. They never change.
///
/// ```
/// use queue_core::inspect::Fingerprint;
///
/// let one = Fingerprint::of("order 17 of shop \"acme\": timed out after 30s");
/// assert_eq!(one, Fingerprint::of("order 4711 of shop \"initech\": timed out after 5s"));
/// assert_ne!(one, Fingerprint::of("order 17 of shop \"acme\": connection refused"));
/// assert_eq!(Fingerprint::pattern("order 17 of shop \"acme\""), "order * of shop \"*\"");
/// assert_eq!(one.to_string().parse::<Fingerprint>()?, one);
/// # Ok::<(), queue_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// The fingerprint of failures whose texts differ too much: failures beyond the bound of a
    /// report are counted under it. No text has this fingerprint.
    pub const OTHERS: Fingerprint = Fingerprint(0);

    /// Of the text of a failure.
    pub fn of(text: &str) -> Self {
        Fingerprint::of_pattern(&Fingerprint::pattern(text))
    }

    /// The text of a failure with `*` for each number, id and quoted value, at most 200 bytes of
    /// it.
    pub fn pattern(text: &str) -> String {
        let head = head(text, EXAMINED);
        let is_cut = head.len() < text.len();
        let mut scan = Scan { text: unquoted(head.trim()), at: 0, is_cut, pattern: String::new() };
        while scan.step() {}
        let mut pattern = scan.pattern;
        if is_cut && pattern.len() < LONGEST {
            // Its last word may be the beginning of one.
            pattern.truncate(pattern.rfind(' ').unwrap_or(pattern.len()));
        }
        pattern.truncate(head_len(&pattern, LONGEST));
        pattern.truncate(pattern.trim_end().len());
        pattern
    }

    /// The fingerprint of a [`pattern`](Self::pattern): the first eight bytes of its SHA-256.
    #[doc(hidden)]
    pub fn of_pattern(pattern: &str) -> Self {
        let digest = sha256(pattern.as_bytes());
        let (first, _) = digest.split_first_chunk().expect("it has 32 bytes");
        Fingerprint(u64::from_be_bytes(*first).max(1))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for Fingerprint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let is_one = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u64::from_str_radix(text, 16).ok().filter(|_| is_one);
        number
            .map(Fingerprint)
            .ok_or_else(|| Error::invalid("fingerprint", text, "is not 16 hexadecimal digits, as `failures` prints them"))
    }
}

serde_as_text!(Fingerprint);

/// The first bytes of a text, at most `most`, up to the end of a character.
fn head(text: &str, most: usize) -> &str {
    &text[..head_len(text, most)]
}

fn head_len(text: &str, most: usize) -> usize {
    (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0)
}

/// The content of a text that is one quotation: `{:?}` prints a failure that is a text in this
/// form.
fn unquoted(text: &str) -> &str {
    let inner = text.strip_prefix('"').map(|inner| inner.strip_suffix('"').unwrap_or(inner));
    inner.filter(|inner| !inner.contains('"')).unwrap_or(text)
}

/// Scans a text from left to right.
struct Scan<'a> {
    text: &'a str,
    at: usize,
    is_cut: bool,
    pattern: String,
}

impl Scan<'_> {
    /// False at the end.
    fn step(&mut self) -> bool {
        let rest = &self.text[self.at..];
        let Some(c) = rest.chars().next() else { return false };
        let begins = !self.text[..self.at].chars().next_back().is_some_and(is_of_word);
        if let Some((open, close, len)) = quoted(rest, self.is_cut).filter(|_| begins || c != '\'') {
            self.quotation(open, close);
            self.at += len;
        } else if let Some(len) = begins.then(|| uuid(rest).or_else(|| ipv6(rest))).flatten() {
            self.value();
            self.at += len;
        } else if is_of_word(c) {
            let word = &rest[..rest.find(|c| !is_of_word(c)).unwrap_or(rest.len())];
            self.at += word.len();
            self.word(word);
        } else {
            self.at += c.len_utf8();
            if !c.is_whitespace() {
                self.pattern.push(c);
            } else if !self.pattern.ends_with(' ') && !self.pattern.is_empty() {
                self.pattern.push(' ');
            }
        }
        true
    }

    /// Values that follow each other, with nothing but punctuation between, are one: a date, an
    /// address, a list.
    fn value(&mut self) {
        let before = self.pattern.len();
        for between in [", ", ",", ".", ":", "/", "-"] {
            if self.pattern.ends_with(between) && self.pattern[..before - between.len()].ends_with(VALUE) {
                self.pattern.truncate(before - between.len());
                return;
            }
        }
        self.pattern.push(VALUE);
    }

    fn quotation(&mut self, open: char, close: char) {
        let whole = format!("{open}{VALUE}{close}");
        for between in [", ", ","] {
            if self.pattern.strip_suffix(between).is_some_and(|before| before.ends_with(&whole)) {
                self.pattern.truncate(self.pattern.len() - between.len());
                return;
            }
        }
        self.pattern.push_str(&whole);
    }

    fn word(&mut self, word: &str) {
        if is_id(word) {
            return self.value();
        }
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            self.drop_sign();
        }
        for (at, part) in word.split('_').enumerate() {
            if at > 0 {
                self.pattern.push('_');
            }
            match at > 0 && is_id_part(part) {
                true => self.value(),
                false => self.numbers(part),
            }
        }
    }

    /// Replaces each run of digits.
    fn numbers(&mut self, word: &str) {
        let mut rest = word;
        while let Some(from) = rest.find(|c: char| c.is_ascii_digit()) {
            self.pattern.push_str(&rest[..from]);
            let digits = rest[from..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - from);
            self.value();
            rest = &rest[from + digits..];
        }
        self.pattern.push_str(rest);
    }

    /// The sign of a number belongs to it.
    fn drop_sign(&mut self) {
        if let Some(before) = self.pattern.strip_suffix(['-', '+'])
            && before.chars().next_back().is_none_or(|c| c.is_whitespace() || "(=[:,<>".contains(c))
        {
            let end = before.len();
            self.pattern.truncate(end);
        }
    }
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// A quotation at the beginning of a text: its marks and its length. One without a closing
/// mark does not count, unless the text was truncated.
fn quoted(text: &str, is_cut: bool) -> Option<(char, char, usize)> {
    let open = text.chars().next()?;
    let close = match open {
        '"' | '\'' | '`' => open,
        '“' => '”',
        '‘' => '’',
        '«' => '»',
        _ => return None,
    };
    let mut inner = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = inner.next() {
        let follows = inner.peek().map(|(_, c)| *c);
        if c == '\\' {
            inner.next();
        } else if c == close && !(close == '\'' && follows.is_some_and(is_of_word)) {
            return Some((open, close, at + c.len_utf8()));
        }
    }
    (is_cut && open != '\'').then_some((open, close, text.len()))
}

/// The length of a UUID at the beginning of a text.
fn uuid(text: &str) -> Option<usize> {
    const LENGTH: usize = 36;
    let head = text.get(..LENGTH)?;
    let is_one =
        head.bytes().enumerate().all(|(at, byte)| if matches!(at, 8 | 13 | 18 | 23) { byte == b'-' } else { byte.is_ascii_hexdigit() });
    (is_one && !text[LENGTH..].starts_with(is_of_word)).then_some(LENGTH)
}

/// The length of an IPv6 address at the beginning of a text.
fn ipv6(text: &str) -> Option<usize> {
    let run = &text[..text.find(|c: char| !c.is_ascii_hexdigit() && c != ':' && c != '.').unwrap_or(text.len())];
    if text[run.len()..].starts_with(is_of_word) || !run.contains(|c: char| c.is_ascii_digit()) {
        return None;
    }
    // A sentence may continue after it.
    let ends = [run, run.trim_end_matches(['.', ':'])];
    ends.into_iter().find(|run| run.parse::<Ipv6Addr>().is_ok()).map(str::len)
}

/// Whether a word is an id as a whole: a number in hexadecimal, or many letters and digits mixed.
fn is_id(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let prefixed = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"));
    prefixed.is_some_and(is_hex)
        || (word.len() >= 8 && digits > 0 && is_hex(word))
        || (word.len() >= 16 && digits >= 4 && word.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

/// Whether the part after the prefix of a word is an id, as in `req_6299d0` and
/// `cus_9s6XKzkNRiz8i3`.
fn is_id_part(part: &str) -> bool {
    let digits = part.bytes().filter(u8::is_ascii_digit).count();
    (part.len() >= 6 && digits > 0 && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
        || (part.len() >= 10 && digits >= 3 && part.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Data that is stored under these fingerprints outlives a release: no line here may ever
    /// change.
    #[test]
    fn the_rules_are_those_that_are_written_down() {
        for (text, pattern, print) in [
            ("connection refused", "connection refused", "25a84382140b11ac"),
            ("order 17 of shop \"acme\": timed out after 30.5s", "order * of shop \"*\": timed out after *s", "227b60eefcb13be8"),
            ("job 0191f3a2-7c31-7d1e-9a4b-52f0c6d8e9ab at 2026-11-25T10:00:03Z", "job * at *T*Z", "6b469e0c75732c77"),
            ("", "", "e3b0c44298fc1c14"),
        ] {
            assert_eq!((Fingerprint::pattern(text).as_str(), Fingerprint::of(text).to_string().as_str()), (pattern, print));
        }
    }

    #[test]
    fn what_differs_from_job_to_job_is_taken_out() {
        for (text, pattern) in [
            // Numbers.
            ("HTTP 503 from 10.0.0.17:8443", "HTTP * from *"),
            ("-5 is below 0; x=+3, x-3 is x-3", "* is below *; x=*, x-* is x-*"),
            ("took 1,234.5 ms (99%)", "took * ms (*%)"),
            ("rows 1, 2, 3 and 4/5", "rows * and *"),
            ("job17 on node-3 as utf8", "job* on node-* as utf*"),
            ("E0277 in v2_parser", "E* in v*_parser"),
            // Ids.
            ("no blob 0xDEADbeef", "no blob *"),
            ("commit 9fceb02d0ae5 is gone", "commit * is gone"),
            ("deadbeef is a word, and so is effaced", "deadbeef is a word, and so is effaced"),
            ("upload 01ARZ3NDEKTSV4RRFFQ69G5FAV failed", "upload * failed"),
            ("request req_6299d0 of cus_9s6XKzkNRiz8i3", "request req_* of cus_*"),
            ("req_3fa9c1d27b_eu1", "req_*_eu*"),
            ("no table orders_v2 or _decade, pool_bad", "no table orders_v* or _decade, pool_bad"),
            ("AuthenticationV2Handler failed", "AuthenticationV*Handler failed"),
            ("urn:0191F3A2-7C31-7D1E-9A4B-52F0C6D8E9AB.", "urn:*."),
            ("[2001:db8::ff00:42:8329]:443 and fe80::1: refused", "[*]:* and *: refused"),
            ("serde::de::Error, ab::cd", "serde::de::Error, ab::cd"),
            // Quotations.
            ("no column 'a b' in \"t\", `x` or “y”", "no column '*' in \"*\", `*` or “*”"),
            ("can't open Ada's file, don't", "can't open Ada's file, don't"),
            ("the users' names in the lists' ends", "the users' names in the lists' ends"),
            ("one of 'a', 'b','c' is 'it's'", "one of '*' is '*'"),
            (r#"Err("a \"b\" c") 5" long"#, r#"Err("*") *" long"#),
            ("\"timed out\"", "timed out"),
            ("\"a\" is not \"b\"", "\"*\" is not \"*\""),
            // Space.
            ("  a\n\tb   c ", "a b c"),
        ] {
            assert_eq!(Fingerprint::pattern(text), pattern, "{text}");
        }
    }

    /// A list of jobs has the first 512 bytes of a text, or less by a character.
    #[test]
    fn a_text_that_is_cut_has_the_fingerprint_of_the_whole() {
        let words = "the quick brown fox is at 17 and jumps over 'the lazy dog', ".repeat(200);
        let letters = "ä".repeat(4000);
        let unclosed = format!("it said \"{}\" and went", "x ".repeat(2000));
        let ids = "0191f3a2-7c31-7d1e-9a4b-52f0c6d8e9ab ".repeat(100);
        for text in [words, letters, unclosed, ids] {
            for most in [505, 508, 509, 512, 4000] {
                let cut = format!("{}…", head(&text, most - 3));
                assert_eq!(Fingerprint::pattern(&cut), Fingerprint::pattern(&text), "{most}: {text}");
            }
            assert!(Fingerprint::pattern(&text).len() <= LONGEST);
        }
        let cut_word = format!("\"{}\" refused-by-the-server-of-the-peer", "x".repeat(480));
        assert_eq!(Fingerprint::pattern(&cut_word), "\"*\"");
        let of = |shop: &str| format!("shop {shop}: {}", "what the server says of it, ".repeat(30));
        assert_eq!(Fingerprint::of(&of("1")), Fingerprint::of(&of("123456789012")), "a longer number takes nothing away behind it");
    }

    #[test]
    fn a_fingerprint_is_read_as_it_is_printed() {
        let print = Fingerprint::of("timed out");
        assert_eq!(print.to_string().parse::<Fingerprint>().unwrap(), print);
        assert_eq!("0000000000000000".parse::<Fingerprint>().unwrap(), Fingerprint::OTHERS);
        for wrong in ["", "abc", "+123456789abcdef", "0123456789abcdefg", "zzzzzzzzzzzzzzzz"] {
            assert!(wrong.parse::<Fingerprint>().unwrap_err().to_string().contains("16 hexadecimal digits"), "{wrong}");
        }
    }
}
