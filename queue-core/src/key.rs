//! Derives the key of a job from its parameters. The input is the encoded payload, so that a job
//! that is enqueued by the name of its task has the same key.

mod value;

use std::fmt::Write;

pub(crate) use self::value::{group_of_payload, tag_of_payload};
use crate::{
    codec::{any_json, value_end},
    error::{Error, Result},
    group::GroupName,
    limit::{LimitDef, LimitKey},
    text::cut,
    unique::{Hold, OF_PARAMETERS, OnConflict, UniqueKey},
};

/// The longest key that an application sets, and the longest text of a key, in bytes.
pub(crate) const KEY_MAX: usize = 256;

/// Declares that the jobs of a task are unique, and how. Written by the macros, for
/// `#[task(unique)]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UniqueDef {
    /// The parameters that make the key, or fields in them: `order.id`. `None`: all parameters.
    pub by: Option<&'static [&'static str]>,
    /// For how long a job holds its key.
    pub hold: Hold,
    /// The conflict handling if another job holds the key.
    pub on_conflict: OnConflict,
    /// Whether [`OnConflict::Replace`] keeps the first payload.
    pub keep_payload: bool,
}

impl UniqueDef {
    /// By all parameters, until the job has ended; a second job is skipped.
    pub const DEFAULT: UniqueDef = UniqueDef { by: None, hold: Hold::UntilEnded, on_conflict: OnConflict::Skip, keep_payload: false };
}

impl Default for UniqueDef {
    fn default() -> Self {
        UniqueDef::DEFAULT
    }
}

/// The key that an application sets, and its text.
///
/// # Errors
/// [`Error::Invalid`] for an empty one, and for one over [`KEY_MAX`].
pub(crate) fn given(task: &str, key: &str) -> Result<(UniqueKey, String)> {
    if key.is_empty() || key.len() > KEY_MAX {
        let problem = format!("has {} bytes; use 1 to {KEY_MAX}, or leave it out for a job without a key", key.len());
        return Err(Error::invalid("unique_key", key, problem));
    }
    Ok((UniqueKey::given(task, key), key.to_owned()))
}

/// The key of a job from its parameters, and its text.
///
/// # Errors
/// [`Error::Invalid`] naming the parameter that cannot be part of a key.
pub(crate) fn of_payload(task: &str, by: Option<&[&str]>, payload: &[u8]) -> Result<(UniqueKey, String)> {
    let refused = |path: &str, problem: &str| {
        Error::invalid(
            "unique key",
            format!("{task}: {path}"),
            format!("{problem}; name others with `unique(by = [..])`, or give the job a key with `.unique_key(..)`"),
        )
    };
    let (mut bytes, mut text) = (vec![OF_PARAMETERS], String::new());
    let entries = entries(payload, 0).map_err(|problem| refused("payload", &problem))?;
    let mut values = Vec::with_capacity(by.map_or(entries.len(), <[_]>::len));
    match by {
        Some(by) => {
            for path in by {
                let value = find_in(&entries, path).map_err(|problem| refused(path, &problem))?;
                let is_inside = path.contains('.') && !entries.iter().any(|(name, _)| name == path);
                values.push((*path, value.filter(|value| is_inside || *value != [0xc0])));
            }
        }
        // A parameter that is `None` is left out. Another program may have written it.
        None => values.extend(entries.iter().filter(|(_, value)| *value != [0xc0]).map(|(name, value)| (*name, Some(*value)))),
    }
    values.sort_unstable();
    for (path, value) in values {
        bytes.extend(u32::try_from(path.len()).unwrap_or(u32::MAX).to_be_bytes());
        bytes.extend(path.as_bytes());
        bytes.push(u8::from(value.is_some()));
        if let Some(value) = value {
            let mut at = String::from(path);
            canonical(&mut bytes, value, 0, &mut at).map_err(|problem| refused(&at, &problem))?;
            if text.len() < KEY_MAX {
                let space = if text.is_empty() { "" } else { " " };
                let shown = any_json::to_json(value).unwrap_or_else(|_| "?".to_owned());
                // Writing to a String cannot fail.
                let _ = write!(text, "{space}{path}={shown}");
            }
        }
    }
    Ok((UniqueKey::of(task, &bytes), cut(text, KEY_MAX)))
}

/// The limit key of a job, and its text for operators. `None` if the parameter of the limit is
/// `None`: the limit does not apply to the job.
///
/// # Errors
/// [`Error::Invalid`] naming the parameter that cannot be a key.
pub(crate) fn limit_of_payload(
    task: &str,
    limit: &LimitDef,
    payload: &[u8],
    group: Option<&GroupName>,
) -> Result<Option<(LimitKey, String)>> {
    let refused = |path: &str, problem: &str| {
        let advice = "name others with `limit(by = [..])`, or give the job a key with `.limit(..)`";
        Error::invalid("limit", format!("{task}: {path}"), format!("{problem}; {advice}"))
    };
    let (mut bytes, mut text, mut known) = (Vec::new(), String::new(), limit.by.is_empty() && !limit.by_group);
    let mut say = |part: &str| {
        text.push_str(if text.is_empty() { "" } else { " " });
        text.push_str(part);
    };
    for path in limit.by {
        let value = find(payload, path).map_err(|problem| refused(path, &problem))?.filter(|value| *value != [0xc0]);
        let mut at = String::from(*path);
        // The names of parameters are not part of the key: tasks that share a limit may use
        // different names.
        canonical(&mut bytes, value.unwrap_or(&[0xc0]), 0, &mut at).map_err(|problem| refused(&at, &problem))?;
        if let Some(value) = value {
            known = true;
            say(&rmp_serde::from_slice::<String>(value).or_else(|_| any_json::to_json(value)).unwrap_or_else(|_| "?".to_owned()));
        }
    }
    if limit.by_group {
        let Some(group) = group else { return Ok(None) };
        known = true;
        bytes.push(b'g');
        bytes.extend(group.stored());
        say(group.as_str());
    }
    Ok(known.then(|| (LimitKey::of(limit.name, &bytes), cut(text, KEY_MAX))))
}

/// The limit key of a text that an application sets: that of a parameter with this text.
pub(crate) fn limit_by_text(name: &str, text: &str) -> LimitKey {
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes();
    LimitKey::of(name, &[b"s", &length[..], text.as_bytes()].concat())
}

/// The value at a path of names, if it exists. A name may contain a `.`: the longest existing name
/// is taken.
pub(crate) fn find<'a>(payload: &'a [u8], path: &str) -> Result<Option<&'a [u8]>, String> {
    // `None` has no fields.
    if payload == [0xc0] { Ok(None) } else { find_in(&entries(payload, 0)?, path) }
}

/// The value at a path of names in the `count` entries of a map.
pub(crate) fn find_entry<'a>(bytes: &'a [u8], count: usize, path: &str) -> Result<Option<&'a [u8]>, String> {
    find_in(&entries_at(bytes, 0, count)?, path)
}

fn find_in<'a>(entries: &[Named<'a>], path: &str) -> Result<Option<&'a [u8]>, String> {
    let value = |name: &str| entries.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
    if let Some(value) = value(path) {
        return Ok(Some(value));
    }
    match path.rmatch_indices('.').find_map(|(at, _)| Some((value(&path[..at])?, &path[at + 1..]))) {
        Some((value, rest)) => find(value, rest),
        None => Ok(None),
    }
}

/// An entry of a map whose names are texts: its name and its value.
type Named<'a> = (&'a str, &'a [u8]);

/// The entries of a map whose names are texts.
fn entries(bytes: &[u8], at: usize) -> Result<Vec<Named<'_>>, String> {
    let (count, at) = match bytes.get(at..) {
        Some([marker @ 0x80..=0x8f, ..]) => (usize::from(marker & 0x0f), at + 1),
        Some([0xde, high, low, ..]) => (usize::from(u16::from_be_bytes([*high, *low])), at + 3),
        Some([0xdf, a, b, c, d, ..]) => (u32::from_be_bytes([*a, *b, *c, *d]) as usize, at + 5),
        _ => return Err("has no fields".to_owned()),
    };
    entries_at(bytes, at, count)
}

fn entries_at(bytes: &[u8], mut at: usize, count: usize) -> Result<Vec<Named<'_>>, String> {
    let mut entries = Vec::with_capacity(count.min(64));
    for _ in 0..count {
        let key = value_end(bytes, at)?;
        let end = value_end(bytes, key)?;
        let name = rmp_serde::from_slice(&bytes[at..key]).map_err(|_| "has a field whose name is not a string".to_owned())?;
        entries.push((name, &bytes[key..end]));
        at = end;
    }
    Ok(entries)
}

/// Writes the value at a position in its canonical form: whole numbers by their value and not their
/// width, maps sorted by their keys. Returns the end of the value. On an error, `path` names the
/// field.
fn canonical(out: &mut Vec<u8>, bytes: &[u8], at: usize, path: &mut String) -> Result<usize, String> {
    let end = value_end(bytes, at)?;
    let value = &bytes[at..end];
    let number = |width: usize| value[1..=width].iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    let positive = |out: &mut Vec<u8>, number: u64| {
        out.push(b'i');
        out.extend(number.to_be_bytes());
    };
    let signed = |out: &mut Vec<u8>, number: i64| {
        // A number that is not negative is written as an unsigned one.
        out.push(if number < 0 { b'n' } else { b'i' });
        out.extend(number.to_be_bytes());
    };
    let list = |out: &mut Vec<u8>, kind: u8, length: usize| {
        out.push(kind);
        out.extend(u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    };
    let text = |out: &mut Vec<u8>, kind: u8, skip: usize| {
        list(out, kind, value.len() - skip);
        out.extend(&value[skip..]);
    };
    match value[0] {
        marker @ 0x00..=0x7f => positive(out, u64::from(marker)),
        marker @ 0xe0..=0xff => signed(out, i64::from(marker.cast_signed())),
        0xcc => positive(out, number(1)),
        0xcd => positive(out, number(2)),
        0xce => positive(out, number(4)),
        0xcf => positive(out, number(8)),
        0xd0 => signed(out, i64::from(value[1].cast_signed())),
        0xd1 => signed(out, i64::from(i16::from_be_bytes([value[1], value[2]]))),
        0xd2 => signed(out, i64::from(i32::from_be_bytes([value[1], value[2], value[3], value[4]]))),
        0xd3 => signed(out, number(8).cast_signed()),
        marker @ (0xc0 | 0xc2 | 0xc3) => out.push(marker),
        0xca | 0xcb => return Err("is a float; floats that look equal may differ".to_owned()),
        0xa0..=0xbf => text(out, b's', 1),
        0xd9 => text(out, b's', 2),
        0xda => text(out, b's', 3),
        0xdb => text(out, b's', 5),
        0xc4 => text(out, b'b', 2),
        0xc5 => text(out, b'b', 3),
        0xc6 => text(out, b'b', 5),
        0x90..=0x9f | 0xdc | 0xdd => {
            let (count, mut at) = match value {
                [0xdc, high, low, ..] => (usize::from(u16::from_be_bytes([*high, *low])), at + 3),
                [0xdd, a, b, c, d, ..] => (u32::from_be_bytes([*a, *b, *c, *d]) as usize, at + 5),
                _ => (usize::from(value[0] & 0x0f), at + 1),
            };
            list(out, b'a', count);
            for n in 0..count {
                let length = path.len();
                let _ = write!(path, "[{n}]");
                at = canonical(out, bytes, at, path)?;
                path.truncate(length);
            }
        }
        0x80..=0x8f | 0xde | 0xdf => {
            let mut entries = map_entries(value)?;
            list(out, b'm', entries.len());
            entries.sort();
            for (key, entry) in entries {
                let length = path.len();
                let _ = write!(path, ".{}", String::from_utf8_lossy(key.get(5..).unwrap_or_default()));
                out.extend(key);
                canonical(out, entry, 0, path)?;
                path.truncate(length);
            }
        }
        // An extension: its type and bytes.
        _ => {
            list(out, b'x', value.len());
            out.extend(value);
        }
    }
    Ok(end)
}

/// An entry of a map: the canonical form of its key, and its value.
type Entry<'a> = (Vec<u8>, &'a [u8]);

/// The entries of a map.
fn map_entries(value: &[u8]) -> Result<Vec<Entry<'_>>, String> {
    let (count, mut at) = match value {
        [0xde, high, low, ..] => (usize::from(u16::from_be_bytes([*high, *low])), 3),
        [0xdf, a, b, c, d, ..] => (u32::from_be_bytes([*a, *b, *c, *d]) as usize, 5),
        _ => (usize::from(value[0] & 0x0f), 1),
    };
    let mut entries = Vec::with_capacity(count.min(64));
    for _ in 0..count {
        let mut key = Vec::new();
        let behind = canonical(&mut key, value, at, &mut String::new())?;
        let end = value_end(value, behind)?;
        entries.push((key, &value[behind..end]));
        at = end;
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Serialize;

    use super::*;

    fn key(by: Option<&[&str]>, payload: &impl Serialize) -> UniqueKey {
        of_payload("task", by, &crate::codec::encode(payload).unwrap()).unwrap().0
    }

    #[derive(Serialize)]
    struct Order {
        id: u64,
        note: Option<&'static str>,
    }

    #[derive(Serialize)]
    struct Parameters {
        user: i64,
        order: Order,
    }

    fn parameters(user: i64, id: u64, note: Option<&'static str>) -> Parameters {
        Parameters { user, order: Order { id, note } }
    }

    #[test]
    fn the_named_parameters_make_the_key_in_any_order() {
        let by: Option<&[&str]> = Some(&["user", "order.id"]);
        assert_eq!(key(by, &parameters(1, 2, None)), key(Some(&["order.id", "user"]), &parameters(1, 2, Some("x"))));
        assert_ne!(key(by, &parameters(1, 2, None)), key(by, &parameters(1, 3, None)));
        assert_ne!(key(by, &parameters(1, 2, None)), key(by, &parameters(2, 1, None)));
        assert_ne!(key(by, &parameters(1, 2, None)), key(Some(&["user"]), &parameters(1, 2, None)));
        assert_eq!(key(Some(&[]), &parameters(1, 2, None)), key(Some(&[]), &parameters(3, 4, None)));
    }

    #[test]
    fn empty_missing_and_default_values_are_distinguished() {
        let note: Option<&[&str]> = Some(&["order.note"]);
        let empty = key(note, &parameters(1, 2, Some("")));
        let none = key(note, &parameters(1, 2, None));
        let missing = key(note, &BTreeMap::from([("order", BTreeMap::from([("id", 2)]))]));
        assert!(empty != none && none != missing && empty != missing);
        assert_eq!(missing, key(note, &BTreeMap::from([("order", None::<u8>)])), "what is not there has no fields");
        assert_ne!(key(Some(&["a"]), &BTreeMap::from([("a", 0)])), key(Some(&["a"]), &BTreeMap::from([("a", false)])));
        assert_ne!(key(Some(&["a"]), &BTreeMap::from([("a", "")])), key(Some(&["a"]), &BTreeMap::from([("a", serde_bytes_of(b""))])));
    }

    fn serde_bytes_of(bytes: &'static [u8]) -> impl Serialize {
        struct Bytes(&'static [u8]);
        impl Serialize for Bytes {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_bytes(self.0)
            }
        }
        Bytes(bytes)
    }

    /// A map of MessagePack in any order, with numbers of any width.
    #[test]
    fn equal_values_have_one_form() {
        let of = |payload: &[u8]| of_payload("task", None, payload).unwrap().0;
        assert_eq!(of(b"\x82\xa1a\x01\xa1b\x02"), of(b"\x82\xa1b\xd3\0\0\0\0\0\0\0\x02\xa1a\xcc\x01"));
        assert_eq!(of(b"\x81\xa1a\x82\xa1x\x01\xa1y\xff"), of(b"\x81\xa1a\xde\0\x02\xa1y\xd1\xff\xff\xa1x\xcd\0\x01"));
        assert_ne!(of(b"\x81\xa1a\x92\x01\x02"), of(b"\x81\xa1a\x92\x02\x01"));
        assert_ne!(of(b"\x81\xa1a\x7f"), of(b"\x81\xa1a\xff"));
    }

    #[test]
    fn a_stored_name_may_have_a_dot() {
        let map = |pairs: &[(&'static str, Option<u8>)]| pairs.iter().copied().collect::<BTreeMap<_, _>>();
        let of = |by: Option<&[&str]>, pairs: &[(&'static str, Option<u8>)]| key(by, &map(pairs));
        assert_ne!(of(None, &[("utm.source", Some(1))]), of(None, &[("utm.source", Some(2))]));
        assert_eq!(of(None, &[("utm.source", None)]), of(None, &[]));
        let by: Option<&[&str]> = Some(&["order.id"]);
        assert_ne!(of(by, &[("order.id", Some(1))]), of(by, &[("order.id", Some(2))]));
        assert_eq!(of(by, &[("order.id", None)]), of(by, &[]), "as a parameter that is left out");
        let nested = crate::codec::encode(&BTreeMap::from([("a.b", BTreeMap::from([("c.d", 7)]))])).unwrap();
        assert_eq!(find(&nested, "a.b.c.d"), Ok(Some(&[7][..])));
        assert_eq!(find(&nested, "a.b.c"), Ok(None));
        let flat = crate::codec::encode(&BTreeMap::from([("order.id", "x")])).unwrap();
        assert_eq!(tag_of_payload("task", "order.id", &flat).unwrap().as_deref(), Some("x"));
        assert_eq!(group_of_payload("task", "order.id", &flat).unwrap().unwrap().as_str(), "x");
    }

    #[test]
    fn a_float_is_refused_by_its_name() {
        let problem = |by: Option<&[&str]>, payload: &[u8]| of_payload("task", by, payload).unwrap_err().to_string();
        let nested = b"\x81\xa1a\x81\xa4rate\xca\x3f\x80\0\0";
        assert!(problem(None, nested).contains("task: a.rate` is a float"), "{}", problem(None, nested));
        assert!(problem(Some(&["a.rate"]), nested).contains("unique(by = [..])"));
        assert!(problem(None, b"\x81\xa1a\x91\xca\x3f\x80\0\0").contains("task: a[0]`"));
        assert!(problem(Some(&["a.b"]), b"\x81\xa1a\x01").contains("task: a.b` has no fields"));
    }

    #[test]
    fn a_key_has_a_text_for_people() {
        let payload = crate::codec::encode(&parameters(7, 2, Some("x"))).unwrap();
        let text = |by: Option<&[&str]>| of_payload("task", by, &payload).unwrap().1;
        assert_eq!(text(Some(&["user", "order.note"])), "order.note=\"x\" user=7");
        assert_eq!(text(None), "order={\"id\":2,\"note\":\"x\"} user=7");
        assert_eq!(text(Some(&[])), "");
        let (long, text) = given("task", &"x".repeat(KEY_MAX)).unwrap();
        assert_eq!((text.len(), long == given("other", &text).unwrap().0), (KEY_MAX, false));
        for wrong in [String::new(), "x".repeat(KEY_MAX + 1)] {
            assert!(given("task", &wrong).unwrap_err().to_string().starts_with("unique_key"));
        }
    }
}
