//! Conversion of any stored value to JSON, for printing and editing, and back. Values that JSON
//! lacks are converted to the nearest JSON value: keys of maps become strings, and binary becomes
//! base64 under a marker, which is converted back to binary.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, MapAccess, SeqAccess, Visitor},
    ser::Error as _,
};
use serde_json::{Map, Number, Value, value::RawValue};

use crate::codec::{self, Digits, Problem};

/// The key of the single entry of a map that represents binary.
const MARKER: &str = "$base64";

/// Whether a key would be taken for the marker, or for one that was escaped: `$base64`, `$$base64`,
/// ...
fn is_marker(key: &str) -> bool {
    key.starts_with('$') && key.trim_start_matches('$') == &MARKER[1..]
}

/// The JSON of a value.
pub(crate) struct AnyJson(pub(crate) Value);

impl<'de> Deserialize<'de> for AnyJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Any)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = AnyJson;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<AnyJson, E> {
        Ok(AnyJson(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<AnyJson, E> {
        Ok(AnyJson(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<AnyJson, E> {
        Ok(AnyJson(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<AnyJson, E> {
        Ok(AnyJson(Number::from_f64(value).map_or(Value::Null, Value::Number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<AnyJson, E> {
        Ok(AnyJson(value.into()))
    }

    fn visit_bytes<E>(self, value: &[u8]) -> Result<AnyJson, E> {
        Ok(AnyJson(Value::Object(Map::from_iter([(MARKER.to_owned(), Value::String(base64(value)))]))))
    }

    fn visit_unit<E>(self) -> Result<AnyJson, E> {
        Ok(AnyJson(Value::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<AnyJson, A::Error> {
        let mut array = Vec::new();
        while let Some(AnyJson(item)) = items.next_element()? {
            array.push(item);
        }
        Ok(AnyJson(Value::Array(array)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<AnyJson, A::Error> {
        let mut map = Map::new();
        while let Some((AnyJson(key), AnyJson(value))) = entries.next_entry()? {
            let key = if let Value::String(text) = key { text } else { key.to_string() };
            map.insert(key, value);
        }
        if let Some(key) = map.keys().next().filter(|key| map.len() == 1 && is_marker(key)) {
            // A map of the application that looks like binary.
            let (key, value) = (format!("${key}"), map.values().next().cloned().unwrap_or_default());
            map = Map::from_iter([(key, value)]);
        }
        Ok(AnyJson(Value::Object(map)))
    }
}

/// Decodes JSON, and each number from its text. Without its feature `float_roundtrip`, serde_json
/// decodes some floats as their neighbors. Without `arbitrary_precision`, it decodes integers
/// beyond 64 bits as floats. It also reserves some keys.
///
/// # Errors
/// The problem of the JSON; the place of a number that cannot be represented.
pub(crate) fn read(json: &str) -> Result<Value, Problem> {
    exact(serde_json::from_str(json).map_err(de::Error::custom)?, 0)
}

/// Deepest nesting that is read, as of serde_json.
const DEPTH: usize = 127;

fn exact(raw: &RawValue, depth: usize) -> Result<Value, Problem> {
    let json = raw.get();
    if depth > DEPTH {
        return Err(Problem::too_deep());
    }
    Ok(match json.as_bytes().first() {
        Some(b'{') => {
            let entries: BTreeMap<String, &RawValue> = serde_json::from_str(json).map_err(de::Error::custom)?;
            let read = |(key, raw): (String, _)| exact(raw, depth + 1).map_err(|problem| problem.inside(&key)).map(|value| (key, value));
            Value::Object(entries.into_iter().map(read).collect::<Result<_, _>>()?)
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(json).map_err(de::Error::custom)?;
            let read = |(at, raw)| exact(raw, depth + 1).map_err(|problem| problem.at(at));
            Value::Array(items.into_iter().enumerate().map(read).collect::<Result<_, _>>()?)
        }
        Some(b'-' | b'0'..=b'9') => Value::Number(match Digits::of(json)? {
            Digits::Unsigned(value) => value.into(),
            Digits::Signed(value) => value.into(),
            Digits::Float(value) => Number::from_f64(value).ok_or_else(|| Digits::beyond(json))?,
        }),
        _ => serde_json::from_str(json).map_err(de::Error::custom)?,
    })
}

/// JSON that an operator has written, in the form to store: marked base64 becomes binary again.
pub(crate) struct FromJson<'v>(pub(crate) &'v Value);

impl Serialize for FromJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(map) => match map.iter().next().filter(|(key, _)| map.len() == 1 && is_marker(key)) {
                Some((key, value)) if key == MARKER => match value.as_str().and_then(bytes_of) {
                    Some(bytes) => serializer.serialize_bytes(&bytes),
                    None => Err(S::Error::custom(format_args!(
                        "`{MARKER}` is a text in base64, with the alphabet `A-Za-z0-9+/` and `=` at the end"
                    ))),
                },
                Some((key, value)) => serializer.collect_map([(&key[1..], FromJson(value))]),
                None => serializer.collect_map(map.iter().map(|(key, value)| (key, FromJson(value)))),
            },
            Value::Array(items) => serializer.collect_seq(items.iter().map(FromJson)),
            value => value.serialize(serializer),
        }
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base64 of RFC 4648.
fn base64(bytes: &[u8]) -> String {
    let digits = |group: &[u8]| {
        let whole = (0..3).fold(0, |whole, at| whole << 8 | usize::from(group.get(at).copied().unwrap_or(0)));
        let length = group.len();
        (0..4).map(move |at| if at > length { '=' } else { char::from(ALPHABET[whole >> (18 - 6 * at) & 63]) })
    };
    bytes.chunks(3).flat_map(digits).collect()
}

/// The bytes of a text in base64.
fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let digits = text.trim_end_matches('=').as_bytes();
    if !text.len().is_multiple_of(4) || text.len() - digits.len() > 2 {
        return None;
    }
    for group in digits.chunks(4) {
        let mut whole = 0_u32;
        for at in 0..4 {
            let value = group.get(at).map_or(Some(0), |digit| ALPHABET.iter().position(|known| known == digit))?;
            whole = whole << 6 | u32::try_from(value).ok()?;
        }
        let length = group.len() - 1;
        let (kept, lost) = (&whole.to_be_bytes()[1..], 8 * (3 - length));
        if length == 0 || lost > 0 && whole << (32 - lost) != 0 {
            return None;
        }
        bytes.extend_from_slice(&kept[..length]);
    }
    Some(bytes)
}

/// A payload or result as JSON, for display. Binary is base64 under the key `$base64`.
///
/// # Errors
/// The problem of the bytes.
pub fn to_json(bytes: &[u8]) -> Result<String, String> {
    to_value(bytes).map(|value| value.to_string())
}

/// The same as a value.
pub(crate) fn to_value(bytes: &[u8]) -> Result<serde_json::Value, String> {
    codec::decode::<AnyJson>(bytes).map(|AnyJson(value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_is_base64_under_a_marker_and_is_read_back() {
        for (bytes, json) in [(&[][..], r#"{"$base64":""}"#), (&[0, 255], r#"{"$base64":"AP8="}"#), (b"abc", r#"{"$base64":"YWJj"}"#)] {
            let stored = [&[0xc4, u8::try_from(bytes.len()).unwrap()], bytes].concat();
            assert_eq!(to_json(&stored).unwrap(), json);
            assert_eq!(codec::from_json(json).unwrap(), stored);
        }
        for wrong in ["[]", "7", "\"a\"", "\"ab=\"", "\"YR==\"", "\"YQ===\"", "\"Y Q=\"", "\"=\"", "\"====\""] {
            let problem = codec::from_json(&format!("{{\"a\":{{\"$base64\":{wrong}}}}}")).unwrap_err();
            assert!(problem.starts_with("`a`: `$base64` is a text in base64"), "{wrong}: {problem}");
        }
    }

    #[test]
    fn a_number_is_what_its_text_says() {
        let numbers = [0.1 + 0.2, 7.038_531e-26, 1.797_693_134_862_315_7e308, 5e-324, 123_456_789_012_345_680_000.0, -0.0, 1.5];
        // They include floats that serde_json decodes as their neighbors without `float_roundtrip`.
        let random =
            std::iter::successors(Some(0x9e37_79b9_7f4a_7c15_u64), |seed| Some(seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1)));
        for number in numbers.into_iter().chain(random.map(f64::from_bits).filter(|number| number.is_finite()).take(1_000)) {
            let json = format!(r#"{{"a":[{number:?}]}}"#);
            let stored = codec::encode(&std::collections::BTreeMap::from([("a", [number])])).unwrap();
            assert_eq!(codec::from_json(&json).unwrap(), stored, "{json}");
            assert_eq!(codec::from_json(&to_json(&stored).unwrap()).unwrap(), stored, "{json}");
        }
        for wrong in ["18446744073709551616", "-9223372036854775809", "1e400"] {
            let problem = codec::from_json(&format!(r#"{{"a":[1.5,{wrong}]}}"#)).unwrap_err();
            assert!(problem.contains("not fit into 64 bits") && problem.starts_with("`a[1]`: "), "{problem}");
        }
        let problem = codec::from_json(r#"{"a":{"pi":[3.141592653589793238]}}"#).unwrap_err();
        assert_eq!(
            problem,
            "`a.pi[0]`: 3.141592653589793238 has more than 17 digits, and a number keeps no more; round it, or send it as a text"
        );
        codec::from_json("[3.14159265358979300000, 0.000000000000000000001, 1e20]").unwrap();
    }

    /// serde_json decodes a map with one of these keys as a number or as other JSON.
    #[test]
    fn keys_of_serde_json_are_refused() {
        for key in ["$serde_json::private::Number", "$serde_json::private::RawValue", r"\u0024serde_json::private::RawValue"] {
            for value in [r#""[1]""#, "7", "{}"] {
                let problem = codec::from_json(&format!(r#"{{"a":[{{"{key}":{value}}}]}}"#)).unwrap_err();
                assert!(problem.starts_with("`a[0]`: the key `$serde_json::private::"), "{key}: {value}: {problem}");
            }
        }
        let map = std::collections::BTreeMap::from([("$serde_json::private::Number", "7")]);
        assert!(codec::encode(&map).unwrap_err().contains("rename it"));
    }

    #[test]
    fn deep_json_is_refused_without_recursion() {
        for json in ["[".repeat(100_000), "[".repeat(100_000) + &"]".repeat(100_000), r#"{"a":"#.repeat(100_000)] {
            assert!(read(&json).is_err());
        }
    }

    #[test]
    fn a_map_that_looks_like_binary_stays_one() {
        for key in ["$base64", "$$base64", "$$$base64"] {
            let stored = codec::encode(&std::collections::BTreeMap::from([(key, "YQ==")])).unwrap();
            let json = to_json(&stored).unwrap();
            assert_eq!(json, format!(r#"{{"${key}":"YQ=="}}"#));
            assert_eq!(codec::from_json(&json).unwrap(), stored);
        }
    }

    #[test]
    fn a_key_that_is_no_text_becomes_one() {
        assert_eq!(
            to_json(&[0x81, 0x11, 0x93, 0xa1, b'a', 0xc0, 0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0]).unwrap(),
            r#"{"17":["a",null,null]}"#
        );
    }
}
