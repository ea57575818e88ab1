//! Tags, by which operators find jobs.

use std::collections::BTreeMap;

use super::Envelope;
use crate::{
    address::check_name,
    error::{Error, Result},
};

/// Most tags of a job.
pub(crate) const TAGS_MAX: usize = 8;

/// Longest name of a tag, in bytes.
pub(crate) const TAG_NAME_MAX: usize = 64;

/// Longest value of a tag, in bytes.
pub(crate) const TAG_VALUE_MAX: usize = 256;

/// Whether a job may have these tags.
pub(crate) fn check_tags(tags: &BTreeMap<String, String>) -> Result<()> {
    if tags.len() > TAGS_MAX {
        return Err(Error::invalid("tags", tags.len().to_string(), format!("are more than the {TAGS_MAX} that a job may have")));
    }
    for (name, value) in tags {
        check_tag_name(name)?;
        let problem = match value.len() {
            0 => "has no value; leave the tag out instead".to_owned(),
            bytes if bytes > TAG_VALUE_MAX => {
                format!("has a value of {bytes} bytes; at most {TAG_VALUE_MAX} are allowed, put the rest into a parameter or a header")
            }
            // A filter puts a value with a space into double quotes.
            _ if value.contains(|c: char| c.is_control() || c == '"') => {
                "has a value with a control character or a double quote; remove it".to_owned()
            }
            _ => continue,
        };
        return Err(Error::invalid("tag", format!("{name}={value}"), problem));
    }
    Ok(())
}

/// Whether a tag may have this name: 1 to 64 letters, digits, `.`, `_` and `-`.
pub(crate) fn check_tag_name(name: &str) -> Result<()> {
    check_name("tag", name)?;
    if name.len() > TAG_NAME_MAX {
        return Err(Error::invalid("tag", name, format!("has a name of {} characters; use 1 to {TAG_NAME_MAX}", name.len())));
    }
    Ok(())
}

/// The beginning of an envelope's map, after the name of its task and its time.
fn map_of(envelope: &[u8]) -> Option<&[u8]> {
    envelope.get(8 + usize::from(*envelope.get(1)?)..)
}

/// Whether an envelope has the field of tags. Its other fields are skipped: most jobs have no tags.
pub(crate) fn has_tags(envelope: &[u8]) -> bool {
    map_of(envelope).and_then(has_field_of_tags).unwrap_or(false)
}

fn has_field_of_tags(map: &[u8]) -> Option<bool> {
    let (fields, mut rest) = match map.split_first()? {
        (head @ 0x80..=0x8f, rest) => (usize::from(head & 0x0f), rest),
        (0xde, rest) => (number(rest, 2)?, rest.get(2..)?),
        _ => return None,
    };
    for _ in 0..fields {
        if rest.starts_with(b"\xa1g") {
            return Some(true);
        }
        rest = behind(behind(rest)?)?;
    }
    Some(false)
}

/// The bytes after the next value of MessagePack, including its nested values.
fn behind(mut bytes: &[u8]) -> Option<&[u8]> {
    let mut values = 1usize;
    while values > 0 {
        let (head, rest) = bytes.split_first()?;
        // The size of a length field, what the length counts, and the size of the rest.
        let (width, nests, more) = match head {
            0x80..=0x8f => (0, 2 * usize::from(head & 0x0f), 0),
            0x90..=0x9f => (0, usize::from(head & 0x0f), 0),
            0xa0..=0xbf => (0, 0, usize::from(head & 0x1f)),
            0xc4 | 0xd9 => (1, 0, number(rest, 1)?),
            0xc5 | 0xda => (2, 0, number(rest, 2)?),
            0xc6 | 0xdb => (4, 0, number(rest, 4)?),
            0xc7 => (1, 0, 1 + number(rest, 1)?),
            0xc8 => (2, 0, 1 + number(rest, 2)?),
            0xc9 => (4, 0, 1 + number(rest, 4)?),
            0xcc | 0xd0 => (0, 0, 1),
            0xcd | 0xd1 => (0, 0, 2),
            0xca | 0xce | 0xd2 => (0, 0, 4),
            0xcb | 0xcf | 0xd3 => (0, 0, 8),
            0xd4..=0xd8 => (0, 0, 1 + (1 << (head - 0xd4))),
            0xdc => (2, number(rest, 2)?, 0),
            0xdd => (4, number(rest, 4)?, 0),
            0xde => (2, 2 * number(rest, 2)?, 0),
            0xdf => (4, 2 * number(rest, 4)?, 0),
            _ => (0, 0, 0),
        };
        values = values - 1 + nests;
        bytes = rest.get(width + more..)?;
    }
    Some(bytes)
}

/// A number of `width` bytes, the high byte first.
fn number(bytes: &[u8], width: usize) -> Option<usize> {
    Some(bytes.get(..width)?.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
}

/// A tag in an index: the first 8 bytes of a SHA-256 over its name, `=` and its value.
#[cfg(any(feature = "sqlite", test))]
pub(crate) fn tag_digest(name: &str, value: &str) -> [u8; 8] {
    let digest = crate::digest::sha256(format!("{name}={value}").as_bytes());
    std::array::from_fn(|at| digest[at])
}

/// The tags of an envelope, as an index has them.
#[cfg(any(feature = "sqlite", test))]
pub(crate) fn tag_digests(envelope: &[u8]) -> Vec<[u8; 8]> {
    indexed_tags(envelope).iter().map(|(name, value)| tag_digest(name, value)).collect()
}

/// The tags of an envelope that an index has.
pub(crate) fn indexed_tags(envelope: &[u8]) -> BTreeMap<String, String> {
    let tags =
        if has_tags(envelope) { Envelope::decode(envelope).map(|envelope| envelope.tags).unwrap_or_default() } else { BTreeMap::new() };
    if tags.len() > TAGS_MAX { BTreeMap::new() } else { tags }
}

/// Whether an envelope has a tag. This verifies the entries of an index.
pub(crate) fn is_tagged(envelope: &[u8], name: &str, value: &str) -> bool {
    has_tags(envelope) && Envelope::decode(envelope).is_ok_and(|envelope| envelope.tags.get(name).is_some_and(|own| own == value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_reports_whether_it_has_tags_whatever_else_it_has() {
        let long = vec![0xa1; 70_000];
        for payload in [&b"\x81\xa1g\xa11"[..], b"", &long[..300], &long] {
            let mut envelope = Envelope::new("a.task", payload);
            envelope.headers = (0..20).map(|n| (format!("g{n}"), "g".repeat(n))).collect();
            (envelope.max_attempts, envelope.timeout_ms, envelope.at_ms) = (Some(70_000), Some(1 << 40), Some(-1));
            (envelope.cost, envelope.delay_ms, envelope.unique) = (Some(200), Some(7), Some("\u{a1}g".into()));
            envelope.limits = BTreeMap::from([("g".to_owned(), "g".to_owned())]);
            let plain = envelope.encode().unwrap();
            assert!(!has_tags(&plain) && tag_digests(&plain).is_empty());
            envelope.tags = BTreeMap::from([("order".to_owned(), "17".to_owned()), ("a".to_owned(), "b".to_owned())]);
            let tagged = envelope.encode().unwrap();
            assert!(has_tags(&tagged) && is_tagged(&tagged, "order", "17") && !is_tagged(&tagged, "order", "1"));
            assert_eq!(tag_digests(&tagged), [tag_digest("a", "b"), tag_digest("order", "17")]);
            for cut in 0..plain.len().min(400) {
                assert!(!has_tags(&plain[..cut]), "{cut}");
            }
        }
        // Nested values, extensions, and false lengths.
        let map = |rest: &[u8]| [b"\x01\x01t\0\0\0\0\0\0", rest].concat();
        assert!(has_tags(&map(b"\xde\0\x02\xa1z\x92\xd4\x01\x02\x81\xa1g\xc0\xa1g\x80")));
        assert!(!has_tags(&map(b"\x81\xa1z\x92\xc7\x02\x01ab\x81\xa1g\xc0")));
        for lie in [&b"\x82\xa1z\xdf\xff\xff\xff\xff"[..], b"\x82\xa1z\xc6\xff\xff\xff\xff", b"\x8f", b"\xa1g", b""] {
            assert!(!has_tags(&map(lie)), "{lie:?}");
        }
    }

    #[test]
    fn what_is_no_tag_is_reported_with_advice() {
        let (long, longer) = ("n".repeat(TAG_NAME_MAX), "v".repeat(TAG_VALUE_MAX));
        let problem = |name: &str, value: &str| check_tags(&BTreeMap::from([(name.to_owned(), value.to_owned())])).err();
        assert!(problem(&long, &longer).is_none());
        assert!(problem("order.line_1-a", "Łódź, 17 = x \u{1f4e6}").is_none());
        for (name, value, part) in [
            ("", "1", "use 1 to 128"),
            ("a b", "1", "contains ' '"),
            ("a=b", "1", "contains '='"),
            (&format!("{long}n"), "1", "use 1 to 64"),
            ("order", "", "leave the tag out"),
            ("order", &format!("{longer}v"), "at most 256 are allowed"),
            ("order", "1\n2", "control character"),
            ("order", "1\"2", "double quote"),
        ] {
            let text = problem(name, value).unwrap_or_else(|| panic!("{name}={value} is taken")).to_string();
            assert!(text.contains(part), "{text}");
        }
        let many: BTreeMap<String, String> = (0..=TAGS_MAX).map(|n| (format!("t{n}"), "1".to_owned())).collect();
        assert!(check_tags(&many).unwrap_err().to_string().contains("more than the 8"));
    }
}
