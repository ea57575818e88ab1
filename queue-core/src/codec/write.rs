//! The encoder of payloads, results and progress values: the data model of serde_json, in
//! MessagePack. Maps and structs are written in the order of their keys, so equal values have equal
//! bytes.

use std::{
    fmt::{self, Display, Write as _},
    ops::Range,
};

use serde::{
    Serialize, Serializer,
    ser::{self, Impossible, SerializeMap, SerializeSeq, SerializeStruct},
};

use super::{DEPTH_MAX, ParamDef, Problem, value_end};
use crate::text::cut;

/// The names of serde_json for a number and a raw value that it passes to other serializers.
const NUMBER: &str = "$serde_json::private::Number";
pub(super) const RAW: &str = "$serde_json::private::RawValue";

/// The prefix of the keys that serde_json reserves.
const PRIVATE: &[u8] = b"$serde_json::private::";

/// The names of newtypes that set the [`Form`] of their content.
const BYTES: &str = "$queue::bytes";
const SORTED: &str = "$queue::sorted";

/// How the next sequence is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// As an array.
    #[default]
    Array,
    /// As binary: its elements are bytes.
    Bytes,
    /// As an array whose elements are sorted by their bytes.
    Sorted,
}

impl Form {
    pub(crate) const fn of(bytes: bool, sorted: bool) -> Self {
        match (bytes, sorted) {
            (true, _) => Form::Bytes,
            (_, true) => Form::Sorted,
            _ => Form::Array,
        }
    }

    /// Passes a value in this form through any serializer to a [`Writer`].
    pub(crate) fn pass<T: Serialize, S: Serializer>(self, value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Form::Array => value.serialize(serializer),
            Form::Bytes => serializer.serialize_newtype_struct(BYTES, value),
            Form::Sorted => serializer.serialize_newtype_struct(SORTED, value),
        }
    }
}

/// Appends encoded values to `out`.
pub(crate) struct Writer<'o> {
    out: &'o mut Vec<u8>,
    depth: usize,
    form: Form,
    /// The parameters, if the next struct or map is a payload: those that are `None` are left out.
    params: Option<&'static [ParamDef]>,
    /// Whether the value has an integer of 128 bits, a map key that is not text, or raw JSON:
    /// inside some enums and flattened structs, serde writes these and does not read them.
    pub(crate) is_doubtful: bool,
}

impl<'o> Writer<'o> {
    pub(crate) fn new(out: &'o mut Vec<u8>, form: Form) -> Self {
        Writer { out, depth: 0, form, params: None, is_doubtful: false }
    }

    /// For the fields of a payload.
    pub(crate) fn of_payload(out: &'o mut Vec<u8>, params: &'static [ParamDef]) -> Self {
        Writer { out, depth: 0, form: Form::Array, params: Some(params), is_doubtful: false }
    }

    fn deeper(&mut self) -> Result<(), Problem> {
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(Problem::too_deep()) } else { Ok(()) }
    }

    fn unsigned(&mut self, value: u64) {
        let bytes = value.to_be_bytes();
        match value {
            0..=0x7f => self.out.push(bytes[7]),
            0x80..=0xff => self.out.extend_from_slice(&[0xcc, bytes[7]]),
            0x100..=0xffff => self.tail(0xcd, &bytes[6..]),
            0x1_0000..=0xffff_ffff => self.tail(0xce, &bytes[4..]),
            _ => self.tail(0xcf, &bytes),
        }
    }

    fn signed(&mut self, value: i64) {
        let bytes = value.to_be_bytes();
        match value {
            0.. => self.unsigned(value.unsigned_abs()),
            -0x20..=-1 => self.out.push(bytes[7]),
            -0x80..=-0x21 => self.out.extend_from_slice(&[0xd0, bytes[7]]),
            -0x8000..=-0x81 => self.tail(0xd1, &bytes[6..]),
            -0x8000_0000..=-0x8001 => self.tail(0xd2, &bytes[4..]),
            _ => self.tail(0xd3, &bytes),
        }
    }

    fn tail(&mut self, marker: u8, bytes: &[u8]) {
        self.out.push(marker);
        self.out.extend_from_slice(bytes);
    }

    fn text(&mut self, text: &str) -> Result<(), Problem> {
        let head = Head::of(Kind::Text, text.len())?;
        self.out.extend_from_slice(head.bytes());
        self.out.extend_from_slice(text.as_bytes());
        Ok(())
    }

    /// A number that serde_json has as text, because its feature `arbitrary_precision` is on.
    fn number(&mut self, text: &str) -> Result<(), Problem> {
        match Digits::of(text)? {
            Digits::Unsigned(value) => self.unsigned(value),
            Digits::Signed(value) => self.signed(value),
            Digits::Float(value) => self.tail(0xcb, &value.to_be_bytes()),
        }
        Ok(())
    }

    /// Begins a map or a list of about `expected` entries.
    fn open(&mut self, kind: Kind, expected: Option<usize>) -> Result<Open, Problem> {
        self.deeper()?;
        let head = Head::of(kind, expected.unwrap_or(0))?;
        let start = self.out.len();
        self.out.extend_from_slice(head.bytes());
        Ok(Open { start, body: self.out.len(), count: 0 })
    }

    fn close(&mut self, kind: Kind, open: Open) -> Result<(), Problem> {
        self.depth -= 1;
        let head = Head::of(kind, open.count)?;
        if head.length == open.body - open.start {
            self.out[open.start..open.body].copy_from_slice(head.bytes());
        } else {
            self.out.splice(open.start..open.body, head.bytes().iter().copied());
        }
        Ok(())
    }
}

/// Significant digits, at most, that a float of 64 bits keeps.
const KEPT: usize = 17;

/// Digits of a number that an error shows.
const SHOWN: usize = 60;

/// A number, from its text in JSON.
pub(crate) enum Digits {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
}

impl Digits {
    pub(crate) fn of(text: &str) -> Result<Self, Problem> {
        let whole = || text.parse().map(Digits::Unsigned).or_else(|_| text.parse().map(Digits::Signed)).ok();
        let float = || text.parse().ok().filter(|value: &f64| value.is_finite()).map(Digits::Float);
        if !text.contains(['.', 'e', 'E']) {
            return whole().ok_or_else(|| Digits::beyond(text));
        }
        let significant: String = text.chars().take_while(|c| !matches!(c, 'e' | 'E')).filter(char::is_ascii_digit).collect();
        match significant.trim_matches('0').len() {
            ..=KEPT => float().ok_or_else(|| Digits::beyond(text)),
            _ => Err(ser::Error::custom(format_args!(
                "{} has more than {KEPT} digits, and a number keeps no more; round it, or send it as a text",
                cut(text.to_owned(), SHOWN)
            ))),
        }
    }

    /// Why a number cannot be stored.
    pub(crate) fn beyond(number: impl Display) -> Problem {
        let number = cut(number.to_string(), SHOWN);
        ser::Error::custom(format_args!("{number} does not fit into 64 bits; send it as a string"))
    }
}

fn no_number(number: impl Display) -> Problem {
    ser::Error::custom(format_args!("{number} cannot be a JSON number; use an `Option`, or a string"))
}

/// The kind of value after a head.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Binary,
    List,
    Map,
}

/// The marker and the length before a value.
struct Head {
    bytes: [u8; 5],
    length: usize,
}

impl Head {
    fn of(kind: Kind, count: usize) -> Result<Self, Problem> {
        let count = u32::try_from(count).map_err(|_| -> Problem { ser::Error::custom("it is longer than 4 GiB") })?;
        let (fix, fixed, one, two, four) = match kind {
            Kind::Text => (0xa0, 31, Some(0xd9), 0xda, 0xdb),
            Kind::Binary => (0, 0, Some(0xc4), 0xc5, 0xc6),
            Kind::List => (0x90, 15, None, 0xdc, 0xdd),
            Kind::Map => (0x80, 15, None, 0xde, 0xdf),
        };
        let [a, b, c, d] = count.to_be_bytes();
        let (bytes, length) = match (count, one) {
            (..=31, _) if fix != 0 && count <= fixed => ([fix | d, 0, 0, 0, 0], 1),
            (..=0xff, Some(one)) => ([one, d, 0, 0, 0], 2),
            (..=0xffff, _) => ([two, c, d, 0, 0], 3),
            _ => ([four, a, b, c, d], 5),
        };
        Ok(Head { bytes, length })
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// A list or map that is being written.
#[derive(Clone, Copy)]
struct Open {
    /// The start of its head (`start`) and of its entries (`body`).
    start: usize,
    body: usize,
    count: usize,
}

/// The text that begins at a place in `out`.
pub(crate) fn text_at(out: &[u8], at: usize) -> &[u8] {
    let long = |width: usize| {
        let length = out[at + 1..=at + width].iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
        &out[at + 1 + width..at + 1 + width + length]
    };
    match out[at] {
        marker @ 0xa0..=0xbf => &out[at + 1..at + 1 + usize::from(marker & 0x1f)],
        0xd9 => long(1),
        0xda => long(2),
        _ => long(4),
    }
}

/// Sorts the entries from `body` on. Each has `values` values, and is sorted by the part of its
/// bytes that `key` returns. Two entries of a map have different keys.
fn sort(out: &mut [u8], body: usize, values: usize, key: for<'k> fn(&'k [u8]) -> &'k [u8]) -> Result<(), Problem> {
    let (mut entries, mut at) = (Vec::new(), body);
    while at < out.len() {
        let mut end = at;
        for _ in 0..values {
            end = value_end(out, end).map_err(|problem| -> Problem { ser::Error::custom(problem) })?;
        }
        entries.push(at..end);
        at = end;
    }
    entries.sort_by(|one, other| key(&out[one.clone()]).cmp(key(&out[other.clone()])));
    if values == 2 {
        let key_of = |entry: &Range<usize>| key(&out[entry.clone()]);
        if let Some(pair) = entries.windows(2).find(|pair| key_of(&pair[0]) == key_of(&pair[1])) {
            return Err(twice(key_of(&pair[0])));
        }
    }
    let mut sorted = Vec::with_capacity(out.len() - body);
    for entry in entries {
        sorted.extend_from_slice(&out[entry]);
    }
    out[body..].copy_from_slice(&sorted);
    Ok(())
}

fn twice(key: &[u8]) -> Problem {
    let key = String::from_utf8_lossy(key);
    ser::Error::custom(format_args!(
        "two entries have the key `{key}`, and only one of them could be read back: rename a field or a key of a flattened map"
    ))
}

/// Begins a map of `expected` entries at the end of `out`.
pub(crate) fn open_map(out: &mut Vec<u8>, expected: usize) -> Result<(), Problem> {
    out.extend_from_slice(Head::of(Kind::Map, expected)?.bytes());
    Ok(())
}

/// Ends the map at the end of `out`, whose entries begin at `body`.
pub(crate) fn close_map(out: &mut Vec<u8>, body: usize, count: usize, is_sorted: bool) -> Result<(), Problem> {
    if !is_sorted {
        sort(out, body, 2, |entry| text_at(entry, 0))?;
    }
    Writer { out, depth: 1, form: Form::Array, params: None, is_doubtful: false }.close(Kind::Map, Open { start: 0, body, count })
}

impl<'w, 'o> Serializer for &'w mut Writer<'o> {
    type Ok = ();
    type Error = Problem;
    type SerializeSeq = List<'w, 'o>;
    type SerializeTuple = List<'w, 'o>;
    type SerializeTupleStruct = List<'w, 'o>;
    type SerializeTupleVariant = List<'w, 'o>;
    type SerializeMap = Map<'w, 'o>;
    type SerializeStruct = Struct<'w, 'o>;
    type SerializeStructVariant = Struct<'w, 'o>;

    fn serialize_bool(self, value: bool) -> Result<(), Problem> {
        self.out.push(if value { 0xc3 } else { 0xc2 });
        Ok(())
    }

    fn serialize_i8(self, value: i8) -> Result<(), Problem> {
        self.serialize_i64(value.into())
    }

    fn serialize_i16(self, value: i16) -> Result<(), Problem> {
        self.serialize_i64(value.into())
    }

    fn serialize_i32(self, value: i32) -> Result<(), Problem> {
        self.serialize_i64(value.into())
    }

    fn serialize_i64(self, value: i64) -> Result<(), Problem> {
        self.signed(value);
        Ok(())
    }

    fn serialize_i128(self, value: i128) -> Result<(), Problem> {
        self.is_doubtful = true;
        match (u64::try_from(value), i64::try_from(value)) {
            (Ok(value), _) => self.serialize_u64(value),
            (_, Ok(value)) => self.serialize_i64(value),
            _ => Err(Digits::beyond(value)),
        }
    }

    fn serialize_u8(self, value: u8) -> Result<(), Problem> {
        self.serialize_u64(value.into())
    }

    fn serialize_u16(self, value: u16) -> Result<(), Problem> {
        self.serialize_u64(value.into())
    }

    fn serialize_u32(self, value: u32) -> Result<(), Problem> {
        self.serialize_u64(value.into())
    }

    fn serialize_u64(self, value: u64) -> Result<(), Problem> {
        self.unsigned(value);
        Ok(())
    }

    fn serialize_u128(self, value: u128) -> Result<(), Problem> {
        self.is_doubtful = true;
        u64::try_from(value).map_err(|_| Digits::beyond(value)).and_then(|value| self.serialize_u64(value))
    }

    fn serialize_f32(self, value: f32) -> Result<(), Problem> {
        if !value.is_finite() {
            return Err(no_number(value));
        }
        self.tail(0xca, &value.to_be_bytes());
        Ok(())
    }

    fn serialize_f64(self, value: f64) -> Result<(), Problem> {
        if !value.is_finite() {
            return Err(no_number(value));
        }
        self.tail(0xcb, &value.to_be_bytes());
        Ok(())
    }

    fn serialize_char(self, value: char) -> Result<(), Problem> {
        self.text(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<(), Problem> {
        self.text(value)
    }

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<(), Problem> {
        struct Text<'o>(&'o mut Vec<u8>);
        impl fmt::Write for Text<'_> {
            fn write_str(&mut self, part: &str) -> fmt::Result {
                self.0.extend_from_slice(part.as_bytes());
                Ok(())
            }
        }
        let start = self.out.len();
        self.out.push(0);
        write!(Text(self.out), "{value}").map_err(|_| -> Problem { ser::Error::custom("its `Display` fails") })?;
        let head = Head::of(Kind::Text, self.out.len() - start - 1)?;
        self.out.splice(start..=start, head.bytes().iter().copied());
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Problem> {
        let head = Head::of(Kind::Binary, value.len())?;
        self.out.extend_from_slice(head.bytes());
        self.out.extend_from_slice(value);
        Ok(())
    }

    fn serialize_none(self) -> Result<(), Problem> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Problem> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Problem> {
        self.out.push(0xc0);
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Problem> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Problem> {
        self.text(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, name: &'static str, value: &T) -> Result<(), Problem> {
        match name {
            BYTES => self.form = Form::Bytes,
            SORTED => self.form = Form::Sorted,
            _ => return value.serialize(self),
        }
        value.serialize(&mut *self)?;
        self.form = Form::Array;
        Ok(())
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Problem> {
        self.form = Form::Array;
        let open = self.open(Kind::Map, Some(1))?;
        self.text(variant)?;
        value.serialize(&mut *self).map_err(|problem| problem.inside(variant))?;
        self.close(Kind::Map, Open { count: 1, ..open })
    }

    fn serialize_seq(self, len: Option<usize>) -> Result<List<'w, 'o>, Problem> {
        let form = std::mem::take(&mut self.form);
        let open = self.open(Kind::List, len)?;
        Ok(List { writer: self, open, form, is_variant: false })
    }

    fn serialize_tuple(self, len: usize) -> Result<List<'w, 'o>, Problem> {
        self.serialize_seq(Some(len))
    }

    fn serialize_tuple_struct(self, _: &'static str, len: usize) -> Result<List<'w, 'o>, Problem> {
        self.serialize_seq(Some(len))
    }

    fn serialize_tuple_variant(self, _: &'static str, _: u32, variant: &'static str, len: usize) -> Result<List<'w, 'o>, Problem> {
        self.variant(variant)?;
        let list = self.serialize_tuple(len)?;
        Ok(List { is_variant: true, ..list })
    }

    fn serialize_map(self, len: Option<usize>) -> Result<Map<'w, 'o>, Problem> {
        self.form = Form::Array;
        let params = self.params.take();
        let open = self.open(Kind::Map, len)?;
        Ok(Map { writer: self, open, last: None, key: 0, is_sorted: true, params, left_out: 0 })
    }

    fn serialize_struct(self, name: &'static str, len: usize) -> Result<Struct<'w, 'o>, Problem> {
        match name {
            NUMBER => Ok(Struct::Number(self)),
            RAW => {
                self.is_doubtful = true;
                Ok(Struct::Raw(self))
            }
            _ => Ok(Struct::Fields(self.serialize_map(Some(len))?, false)),
        }
    }

    fn serialize_struct_variant(self, _: &'static str, _: u32, variant: &'static str, len: usize) -> Result<Struct<'w, 'o>, Problem> {
        self.variant(variant)?;
        Ok(Struct::Fields(self.serialize_map(Some(len))?, true))
    }
}

impl Writer<'_> {
    /// Begins a map of one entry, whose key is the variant.
    fn variant(&mut self, variant: &str) -> Result<(), Problem> {
        self.form = Form::Array;
        self.open(Kind::Map, Some(1))?;
        self.text(variant)
    }
}

/// A list on its way.
pub(crate) struct List<'w, 'o> {
    writer: &'w mut Writer<'o>,
    open: Open,
    form: Form,
    is_variant: bool,
}

impl SerializeSeq for List<'_, '_> {
    type Ok = ();
    type Error = Problem;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Problem> {
        value.serialize(&mut *self.writer).map_err(|problem| problem.at(self.open.count))?;
        self.open.count += 1;
        Ok(())
    }

    fn end(self) -> Result<(), Problem> {
        let List { writer, open, form, is_variant } = self;
        match form {
            Form::Bytes => {
                // Each number is one byte, or a byte after a marker.
                let mut end = open.body;
                let mut at = open.body;
                while at < writer.out.len() {
                    at += usize::from(writer.out[at] > 0x7f);
                    writer.out[end] = writer.out[at];
                    (at, end) = (at + 1, end + 1);
                }
                writer.out.truncate(end);
                return writer.close(Kind::Binary, Open { count: end - open.body, ..open });
            }
            Form::Sorted => sort(writer.out, open.body, 1, |entry| entry)?,
            Form::Array => {}
        }
        writer.depth -= usize::from(is_variant);
        writer.close(Kind::List, open)
    }
}

macro_rules! as_sequence {
    ($($kind:ident $method:ident),*) => {$(
        impl ser::$kind for List<'_, '_> {
            type Ok = ();
            type Error = Problem;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Problem> {
                SerializeSeq::serialize_element(self, value)
            }

            fn end(self) -> Result<(), Problem> {
                SerializeSeq::end(self)
            }
        }
    )*};
}

as_sequence!(SerializeTuple serialize_element, SerializeTupleStruct serialize_field, SerializeTupleVariant serialize_field);

/// A map on its way.
pub(crate) struct Map<'w, 'o> {
    writer: &'w mut Writer<'o>,
    open: Open,
    /// The start of the last entry that was kept (`last`), and of the one that is being written
    /// (`key`).
    last: Option<usize>,
    key: usize,
    is_sorted: bool,
    params: Option<&'static [ParamDef]>,
    /// A bit for each parameter that is `None`: a flattened map may have its name.
    left_out: u64,
}

impl Map<'_, '_> {
    fn key_is_written(&self) -> &[u8] {
        text_at(self.writer.out, self.key)
    }

    fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Problem> {
        let at = self.writer.out.len();
        value.serialize(&mut *self.writer).map_err(|problem| problem.inside(&String::from_utf8_lossy(self.key_is_written())))?;
        let is_none = self.params.is_some() && self.writer.out[at..] == [0xc0];
        if is_none || self.left_out > 0 {
            let is_this = |param: &ParamDef| param.option && param.name.as_bytes() == self.key_is_written();
            // If there are more parameters than bits, only the first ones are compared with the
            // following names.
            let index = self.params.into_iter().flatten().position(is_this);
            let bit = index.map(|index| u32::try_from(index).ok().and_then(|index| 1_u64.checked_shl(index)).unwrap_or(0));
            match bit {
                Some(bit) if is_none => {
                    self.left_out |= bit;
                    self.writer.out.truncate(self.key);
                    return Ok(());
                }
                Some(bit) if self.left_out & bit > 0 => return Err(twice(self.key_is_written())),
                _ => {}
            }
        }
        if self.is_sorted && self.last.is_some_and(|last| text_at(self.writer.out, last) >= self.key_is_written()) {
            self.is_sorted = false;
        }
        self.last = Some(self.key);
        self.open.count += 1;
        Ok(())
    }

    fn end(self, is_variant: bool) -> Result<(), Problem> {
        if !self.is_sorted {
            sort(self.writer.out, self.open.body, 2, |entry| text_at(entry, 0))?;
        }
        self.writer.depth -= usize::from(is_variant);
        self.writer.close(Kind::Map, self.open)
    }
}

impl SerializeMap for Map<'_, '_> {
    type Ok = ();
    type Error = Problem;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Problem> {
        self.key = self.writer.out.len();
        key.serialize(Key(self.writer))?;
        if self.key_is_written().starts_with(PRIVATE) {
            let key = String::from_utf8_lossy(self.key_is_written());
            return Err(ser::Error::custom(format_args!("the key `{key}` has a meaning of its own for serde_json: rename it")));
        }
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Problem> {
        self.value(value)
    }

    fn end(self) -> Result<(), Problem> {
        Map::end(self, false)
    }
}

/// A struct on its way.
pub(crate) enum Struct<'w, 'o> {
    /// As a map; whether it is the content of a variant.
    Fields(Map<'w, 'o>, bool),
    /// A number of serde_json as text.
    Number(&'w mut Writer<'o>),
    /// Raw JSON.
    Raw(&'w mut Writer<'o>),
}

impl SerializeStruct for Struct<'_, '_> {
    type Ok = ();
    type Error = Problem;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Problem> {
        let text = || {
            let mut bytes = Vec::new();
            value.serialize(&mut Writer::new(&mut bytes, Form::Array))?;
            super::decode::<String>(&bytes).map_err(|problem| -> Problem { ser::Error::custom(problem) })
        };
        match self {
            Struct::Fields(map, _) => {
                map.key = map.writer.out.len();
                map.writer.text(key)?;
                map.value(value)
            }
            Struct::Number(writer) => writer.number(&text()?),
            Struct::Raw(writer) => super::any_json::read(&text()?)?.serialize(&mut **writer),
        }
    }

    fn end(self) -> Result<(), Problem> {
        match self {
            Struct::Fields(map, is_variant) => map.end(is_variant),
            Struct::Number(_) | Struct::Raw(_) => Ok(()),
        }
    }
}

impl ser::SerializeStructVariant for Struct<'_, '_> {
    type Ok = ();
    type Error = Problem;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Problem> {
        SerializeStruct::serialize_field(self, key, value)
    }

    fn end(self) -> Result<(), Problem> {
        SerializeStruct::end(self)
    }
}

/// The key of a map, which is a text as in JSON.
struct Key<'w, 'o>(&'w mut Writer<'o>);

fn no_key() -> Problem {
    ser::Error::custom("the key of a map is a text, a number, a bool or the name of a variant, as in JSON")
}

macro_rules! keys_as_text {
    ($($method:ident $ty:ty),*) => {$(
        fn $method(self, value: $ty) -> Result<(), Problem> {
            self.0.is_doubtful = true;
            self.0.collect_str(&value)
        }
    )*};
}

impl Serializer for Key<'_, '_> {
    type Ok = ();
    type Error = Problem;
    type SerializeSeq = Impossible<(), Problem>;
    type SerializeTuple = Impossible<(), Problem>;
    type SerializeTupleStruct = Impossible<(), Problem>;
    type SerializeTupleVariant = Impossible<(), Problem>;
    type SerializeMap = Impossible<(), Problem>;
    type SerializeStruct = Impossible<(), Problem>;
    type SerializeStructVariant = Impossible<(), Problem>;

    keys_as_text!(
        serialize_bool bool, serialize_i8 i8, serialize_i16 i16, serialize_i32 i32, serialize_i64 i64, serialize_i128 i128,
        serialize_u8 u8, serialize_u16 u16, serialize_u32 u32, serialize_u64 u64, serialize_u128 u128
    );

    fn serialize_f32(self, value: f32) -> Result<(), Problem> {
        self.0.is_doubtful = true;
        if value.is_finite() { self.0.collect_str(&format_args!("{value:?}")) } else { Err(no_number(value)) }
    }

    fn serialize_f64(self, value: f64) -> Result<(), Problem> {
        self.0.is_doubtful = true;
        if value.is_finite() { self.0.collect_str(&format_args!("{value:?}")) } else { Err(no_number(value)) }
    }

    fn serialize_char(self, value: char) -> Result<(), Problem> {
        value.serialize(self.0)
    }

    fn serialize_str(self, value: &str) -> Result<(), Problem> {
        self.0.text(value)
    }

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<(), Problem> {
        self.0.collect_str(value)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Problem> {
        self.0.text(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), Problem> {
        value.serialize(self)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Problem> {
        value.serialize(self)
    }

    fn serialize_bytes(self, _: &[u8]) -> Result<(), Problem> {
        Err(no_key())
    }

    fn serialize_none(self) -> Result<(), Problem> {
        Err(no_key())
    }

    fn serialize_unit(self) -> Result<(), Problem> {
        Err(no_key())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Problem> {
        Err(no_key())
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(self, _: &'static str, _: u32, _: &'static str, _: &T) -> Result<(), Problem> {
        Err(no_key())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq, Problem> {
        Err(no_key())
    }

    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, Problem> {
        Err(no_key())
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeTupleStruct, Problem> {
        Err(no_key())
    }

    fn serialize_tuple_variant(self, _: &'static str, _: u32, _: &'static str, _: usize) -> Result<Self::SerializeTupleVariant, Problem> {
        Err(no_key())
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, Problem> {
        Err(no_key())
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeStruct, Problem> {
        Err(no_key())
    }

    fn serialize_struct_variant(self, _: &'static str, _: u32, _: &'static str, _: usize) -> Result<Self::SerializeStructVariant, Problem> {
        Err(no_key())
    }
}
