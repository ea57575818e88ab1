//! MessagePack in and out, bounded before serde sees a byte.
//!
//! Two forms: `encode` and `decode` are for values of the application, and represent them as
//! serde_json does. `pack` and `unpack` are for our own records, in the compact form of rmp-serde.
//!
//! rmp-serde bounds the depth of sequences and maps but not of enums, and 600 kB of nested variants
//! once overflowed the stack. So a scan that does not recurse walks the bytes first.

pub(crate) mod any_json;
mod read;
mod write;

use std::fmt;

use rmp_serde::config::BytesMode;
use serde::{
    Deserialize, Serialize,
    de::{self, DeserializeOwned},
    ser,
};

pub(crate) use self::{
    read::Reader,
    write::{Digits, Form, Writer, close_map, open_map, text_at},
};

/// Deepest nesting of arrays and maps; a variant with content is a map.
pub(crate) const DEPTH_MAX: usize = 64;

/// Most values in one message.
pub(crate) const ELEMENTS_MAX: usize = 1_000_000;

/// Room for most payloads, so that they are written without being moved.
pub(crate) const USUAL: usize = 256;

/// A payload parameter of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamDef {
    /// Its name: the key in the payload's map.
    pub name: &'static str,
    /// Its type as written.
    pub ty: &'static str,
    /// Whether a payload without it is undecodable: true unless it is an `Option` or has a default.
    pub required: bool,
    /// Whether it is an `Option` that is left out of a payload when it is `None`.
    pub option: bool,
}

/// Why a value cannot be encoded or decoded.
#[derive(Debug)]
pub(crate) struct Problem {
    /// The path in the value: `.lines[2].price`.
    pub(crate) path: String,
    pub(crate) message: String,
    /// Whether the problem concerns the whole value, and not a place in it.
    is_whole: bool,
}

impl Problem {
    pub(crate) fn too_deep() -> Self {
        Problem { path: String::new(), message: format!("it is nested more than {DEPTH_MAX} deep"), is_whole: true }
    }

    pub(crate) fn inside(mut self, key: &str) -> Self {
        if !self.is_whole {
            self.path = format!(".{key}{}", self.path);
        }
        self
    }

    pub(crate) fn at(mut self, index: usize) -> Self {
        if !self.is_whole {
            self.path = format!("[{index}]{}", self.path);
        }
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.trim_start_matches('.') {
            "" => f.write_str(&self.message),
            path => write!(f, "`{path}`: {}", self.message),
        }
    }
}

impl std::error::Error for Problem {}

impl ser::Error for Problem {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Problem { path: String::new(), message: message.to_string(), is_whole: false }
    }
}

impl de::Error for Problem {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Problem { path: String::new(), message: message.to_string(), is_whole: false }
    }
}

/// Encodes a value as serde_json represents it: human-readable forms, texts as keys of maps. Equal
/// values have equal bytes: maps and structs are in the order of their keys. Bytes, as of
/// `serde_bytes`, are binary.
///
/// # Errors
/// The error of the value's `Serialize`; a number that is not finite or has more than 64 bits; more
/// than 64 levels.
pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(USUAL);
    encode_into(&mut bytes, value, Form::Array).map_err(|problem| shortened(problem.to_string()))?;
    Ok(bytes)
}

/// Appends an encoded value to `bytes`.
pub(crate) fn encode_into<T: Serialize + ?Sized>(bytes: &mut Vec<u8>, value: &T, form: Form) -> Result<(), Problem> {
    value.serialize(&mut Writer::new(bytes, form))
}

/// Decodes a value that fills `bytes` to the last one, as serde_json would.
pub(crate) fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, String> {
    scan(bytes)?;
    decode_scanned(bytes).map_err(|problem| shortened(problem.to_string()))
}

/// The same of bytes that passed the scan.
pub(crate) fn decode_scanned<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Problem> {
    let mut reader = Reader::new(bytes);
    let value = T::deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// Decodes a value that passed the scan. The problem begins with the path inside the value, if
/// there is one, and `: `.
pub(crate) fn decode_placed<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    decode_scanned(bytes).map_err(|error| {
        // Only a failure needs the second, slower pass, which finds the path.
        match serde_path_to_error::deserialize::<_, T>(&mut Reader::new(bytes)) {
            Err(error) if error.path().iter().len() > 0 => format!("{}: {}", inside(error.path()), error.inner()),
            _ => format!(": {error}"),
        }
    })
}

/// The path inside a value, as it follows the name of the value.
fn inside(path: &serde_path_to_error::Path) -> String {
    let path = path.to_string();
    if path.starts_with('[') { path } else { format!(".{path}") }
}

/// Appends an encoded value to `bytes`, and checks that it can be decoded.
pub(crate) fn encode_readable<T: Serialize + DeserializeOwned>(bytes: &mut Vec<u8>, value: &T, form: Form) -> Result<(), Problem> {
    let start = bytes.len();
    let mut writer = Writer::new(bytes, form);
    value.serialize(&mut writer)?;
    if writer.is_doubtful { read_back::<T>(&bytes[start..]) } else { Ok(()) }
}

/// Checks that values which serde cannot decode everywhere can be decoded.
pub(crate) fn read_back<T: DeserializeOwned>(bytes: &[u8]) -> Result<(), Problem> {
    decode_placed::<T>(bytes).map(drop).map_err(|problem| {
        let (path, text) = problem.split_once(": ").unwrap_or(("", &problem));
        Problem { path: path.to_owned(), ..unread(&text) }
    })
}

/// Why a value cannot be read back.
pub(crate) fn unread(problem: &impl fmt::Display) -> Problem {
    ser::Error::custom(format_args!("it cannot be read back: {problem}"))
}

/// Encodes JSON as [`encode`] does. A map with the single key `$base64` is binary, as
/// [`JobRecord::payload_json`](crate::inspect::JobRecord::payload_json) shows it.
///
/// # Errors
/// The problem of the JSON.
pub fn from_json(json: &str) -> Result<Vec<u8>, String> {
    let value = any_json::read(json).map_err(|problem| problem.to_string())?;
    encode(&any_json::FromJson(&value))
}

/// Whether it is a map, as every payload is.
pub(crate) fn is_map(bytes: &[u8]) -> bool {
    matches!(bytes.first(), Some(0x80..=0x8f | 0xde | 0xdf))
}

/// Encodes one of our records: structs as maps by field name, bytes as binary.
pub(crate) fn pack<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(USUAL);
    pack_into(&mut bytes, value)?;
    Ok(bytes)
}

/// Appends an encoded value to `bytes`.
pub(crate) fn pack_into<T: Serialize + ?Sized>(bytes: &mut Vec<u8>, value: &T) -> Result<(), String> {
    let mut serializer = rmp_serde::Serializer::new(bytes).with_struct_map().with_bytes(BytesMode::ForceAll);
    value.serialize(&mut serializer).map_err(|error| error.to_string())
}

/// Decodes one that fills `bytes` to the last one.
pub(crate) fn unpack<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, String> {
    scan(bytes)?;
    rmp_serde::from_slice(bytes).map_err(|error| shortened(error.to_string()))
}

/// Shortens an error of serde, which may quote long input: it is stored with the job and shown to
/// operators.
pub(crate) fn shortened(problem: String) -> String {
    const PROBLEM_MAX: usize = 1024;
    crate::text::cut(problem, PROBLEM_MAX)
}

/// Walks one MessagePack value without recursion: it must be complete, at most [`DEPTH_MAX`] deep,
/// have at most [`ELEMENTS_MAX`] elements, and end where the bytes end.
///
/// # Errors
/// The problem, and the byte at which it is.
pub(crate) fn scan(bytes: &[u8]) -> Result<(), String> {
    match value_end(bytes, 0)? {
        end if end == bytes.len() => Ok(()),
        end => Err(format!("{} bytes follow its end", bytes.len() - end)),
    }
}

/// Walks the value that begins at byte `at`, within the same bounds, and returns its end.
pub(crate) fn value_end(bytes: &[u8], mut at: usize) -> Result<usize, String> {
    // How many values each open array or map still waits for.
    let mut open = [0usize; DEPTH_MAX];
    let mut depth = 0;
    let mut elements = 0;
    loop {
        let start = at;
        let marker = *bytes.get(at).ok_or_else(|| format!("it ends early, at byte {at}"))?;
        at += 1;
        // Values inside, and bytes to skip.
        let (inside, skip) = match marker {
            0x00..=0x7f | 0xe0..=0xff | 0xc0 | 0xc2 | 0xc3 => (0, 0),
            0x80..=0x8f => (usize::from(marker & 0x0f) * 2, 0),
            0x90..=0x9f => (usize::from(marker & 0x0f), 0),
            0xa0..=0xbf => (0, usize::from(marker & 0x1f)),
            0xc4 | 0xd9 => (0, length(bytes, &mut at, 1)?),
            0xc5 | 0xda => (0, length(bytes, &mut at, 2)?),
            0xc6 | 0xdb => (0, length(bytes, &mut at, 4)?),
            0xc7 => (0, length(bytes, &mut at, 1)? + 1),
            0xc8 => (0, length(bytes, &mut at, 2)? + 1),
            0xc9 => (0, length(bytes, &mut at, 4)? + 1),
            0xcc | 0xd0 => (0, 1),
            0xcd | 0xd1 | 0xd4 => (0, 2),
            0xd5 => (0, 3),
            0xca | 0xce | 0xd2 => (0, 4),
            0xd6 => (0, 5),
            0xcb | 0xcf | 0xd3 => (0, 8),
            0xd7 => (0, 9),
            0xd8 => (0, 17),
            0xdc => (length(bytes, &mut at, 2)?, 0),
            0xdd => (length(bytes, &mut at, 4)?, 0),
            0xde => (length(bytes, &mut at, 2)? * 2, 0),
            0xdf => (length(bytes, &mut at, 4)?.saturating_mul(2), 0),
            0xc1 => return Err(format!("byte {start} is 0xc1, which MessagePack never uses")),
        };
        at = at
            .checked_add(skip)
            .filter(|end| *end <= bytes.len())
            .ok_or_else(|| format!("the value at byte {start} is longer than the remaining bytes"))?;
        elements += 1;
        if elements > ELEMENTS_MAX || inside > ELEMENTS_MAX {
            return Err(format!("it has more than {ELEMENTS_MAX} elements"));
        }
        if inside > 0 {
            if depth == DEPTH_MAX {
                return Err(format!("it is nested more than {DEPTH_MAX} deep"));
            }
            open[depth] = inside;
            depth += 1;
            continue;
        }
        // A value is complete, and with it every container that waited for nothing else.
        while depth > 0 {
            open[depth - 1] -= 1;
            if open[depth - 1] > 0 {
                break;
            }
            depth -= 1;
        }
        if depth == 0 {
            return Ok(at);
        }
    }
}

fn length(bytes: &[u8], at: &mut usize, size: usize) -> Result<usize, String> {
    let end = *at + size;
    let digits = bytes.get(*at..end).ok_or_else(|| format!("it ends early, at byte {at}"))?;
    *at = end;
    Ok(digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)))
}

#[cfg(test)]
mod values;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_serde_writes_passes_the_scan() {
        let value = (1u8, -5i64, "text", vec![1.5f64; 20], Some(u64::MAX), (), std::collections::BTreeMap::from([("k", [true; 17])]));
        assert_eq!(scan(&encode(&value).unwrap()), Ok(()));
        assert_eq!(scan(&encode(&vec![0u8; 70_000]).unwrap()), Ok(()));
        assert_eq!(scan(&pack(&vec![0u8; 70_000]).unwrap()), Ok(()));
    }

    #[test]
    fn a_depth_bomb_is_refused_without_recursion() {
        let mut bomb = vec![0x91; 1_000_000];
        bomb.push(0xc0);
        assert!(scan(&bomb).unwrap_err().contains("deep"));
        let mut deepest = vec![0x91; DEPTH_MAX];
        deepest.push(0xc0);
        assert_eq!(scan(&deepest), Ok(()));
    }

    #[test]
    fn more_elements_than_may_be_are_refused_at_once() {
        let elements = |bytes: &[u8]| scan(bytes).unwrap_err().contains("elements");
        assert!(elements(&encode(&vec![0i32; ELEMENTS_MAX]).unwrap()), "with the array itself it is one too many");
        // The scan does not wait for the missing bytes of an announced length.
        assert!(elements(&[0xdd, 0xff, 0xff, 0xff, 0xff]) && elements(&[0xdf, 0xff, 0xff, 0xff, 0xff]));
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        for bytes in [
            &[0xdd, 0xff, 0xff, 0xff, 0xff][..],
            &[0xdf, 0xff, 0xff, 0xff, 0xff],
            &[0xc6, 0xff, 0xff, 0xff, 0xff, 0],
            &[0xa5, b'a'],
            &[0x92, 0xc0],
            &[],
            &[0xc1],
        ] {
            assert!(scan(bytes).is_err(), "{bytes:02x?}");
        }
        assert!(scan(&[0xc0, 0xc0]).unwrap_err().contains("follow"));
    }
}
