//! The decoder for the output of `write.rs`. Types read the same values as from serde_json. Keys of
//! maps are strings, including keys that are read as numbers, bools or variants.

use serde::{
    Deserializer,
    de::{
        self, DeserializeSeed, EnumAccess, Error as _, IntoDeserializer, MapAccess, SeqAccess, Unexpected, VariantAccess, Visitor,
        value::{MapDeserializer, SeqDeserializer, StrDeserializer},
    },
    forward_to_deserialize_any,
};

use super::{Problem, value_end, write::RAW};

/// Reads values from bytes that passed the scan.
pub(crate) struct Reader<'de> {
    bytes: &'de [u8],
    /// If the next map is a payload: the parameters that are read as nil where they are missing.
    nils: &'static [(&'static str, bool)],
}

/// A value, by its head.
#[derive(Clone, Copy)]
enum Value<'de> {
    Nil,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Single(f32),
    Double(f64),
    Text(&'de str),
    Binary(&'de [u8]),
    List(usize),
    Map(usize),
}

impl<'de> Reader<'de> {
    pub(crate) fn new(bytes: &'de [u8]) -> Self {
        Reader { bytes, nils: &[] }
    }

    /// For the fields of a payload.
    pub(crate) fn of_payload(bytes: &'de [u8], nils: &'static [(&'static str, bool)]) -> Self {
        Reader { bytes, nils }
    }

    /// Refuses bytes that follow the value.
    pub(crate) fn end(&self) -> Result<(), Problem> {
        if self.bytes.is_empty() { Ok(()) } else { Err(Problem::custom(format_args!("{} bytes follow its end", self.bytes.len()))) }
    }

    fn take(&mut self, length: usize) -> Result<&'de [u8], Problem> {
        let (taken, rest) = self.bytes.split_at_checked(length).ok_or_else(|| Problem::custom("it ends early"))?;
        self.bytes = rest;
        Ok(taken)
    }

    /// Returns a whole value.
    fn skip(&mut self) -> Result<&'de [u8], Problem> {
        let length = value_end(self.bytes, 0).map_err(Problem::custom)?;
        self.take(length)
    }

    fn number<const N: usize>(&mut self) -> Result<[u8; N], Problem> {
        let mut number = [0; N];
        number.copy_from_slice(self.take(N)?);
        Ok(number)
    }

    fn length(&mut self, width: usize) -> Result<usize, Problem> {
        Ok(self.take(width)?.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)))
    }

    fn text(&mut self, length: usize) -> Result<Value<'de>, Problem> {
        str::from_utf8(self.take(length)?).map(Value::Text).map_err(|_| Problem::custom("a text is not UTF-8"))
    }

    fn binary(&mut self, length: usize) -> Result<Value<'de>, Problem> {
        self.take(length).map(Value::Binary)
    }

    /// Decodes a head, or a whole value that has no entries.
    fn value(&mut self) -> Result<Value<'de>, Problem> {
        let [marker] = self.number()?;
        Ok(match marker {
            0x00..=0x7f => Value::Unsigned(marker.into()),
            0xe0..=0xff => Value::Signed(marker.cast_signed().into()),
            0x80..=0x8f => Value::Map(usize::from(marker & 0x0f)),
            0x90..=0x9f => Value::List(usize::from(marker & 0x0f)),
            0xa0..=0xbf => self.text(usize::from(marker & 0x1f))?,
            0xc0 => Value::Nil,
            0xc2 => Value::Bool(false),
            0xc3 => Value::Bool(true),
            0xc4..=0xc6 => {
                let length = self.length(1 << (marker - 0xc4))?;
                self.binary(length)?
            }
            0xca => Value::Single(f32::from_be_bytes(self.number()?)),
            0xcb => Value::Double(f64::from_be_bytes(self.number()?)),
            0xcc => Value::Unsigned(u8::from_be_bytes(self.number()?).into()),
            0xcd => Value::Unsigned(u16::from_be_bytes(self.number()?).into()),
            0xce => Value::Unsigned(u32::from_be_bytes(self.number()?).into()),
            0xcf => Value::Unsigned(u64::from_be_bytes(self.number()?)),
            0xd0 => Value::Signed(i8::from_be_bytes(self.number()?).into()),
            0xd1 => Value::Signed(i16::from_be_bytes(self.number()?).into()),
            0xd2 => Value::Signed(i32::from_be_bytes(self.number()?).into()),
            0xd3 => Value::Signed(i64::from_be_bytes(self.number()?)),
            0xd9..=0xdb => {
                let length = self.length(1 << (marker - 0xd9))?;
                self.text(length)?
            }
            0xdc | 0xdd => Value::List(self.length(2 << (marker - 0xdc))?),
            0xde | 0xdf => Value::Map(self.length(2 << (marker - 0xde))?),
            0xc1 | 0xc7..=0xc9 | 0xd4..=0xd8 => {
                return Err(Problem::custom(format_args!("the marker {marker:#x} has no meaning in a payload")));
            }
        })
    }

    fn visit<V: Visitor<'de>>(&mut self, value: Value<'de>, visitor: V) -> Result<V::Value, Problem> {
        match value {
            Value::Nil => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(value),
            Value::Unsigned(value) => visitor.visit_u64(value),
            Value::Signed(value) => visitor.visit_i64(value),
            Value::Single(value) => visitor.visit_f64(shortest(value)),
            Value::Double(value) => visitor.visit_f64(value),
            Value::Text(text) => visitor.visit_borrowed_str(text),
            Value::Binary(bytes) => visitor.visit_borrowed_bytes(bytes),
            Value::List(left) => {
                let mut entries = Entries { reader: self, left, read: 0 };
                let value = visitor.visit_seq(&mut entries)?;
                entries.end("list")?;
                Ok(value)
            }
            Value::Map(left) => {
                let nils = std::mem::take(&mut self.nils);
                let mut entries = Entries { reader: self, left, read: 0 };
                if nils.is_empty() {
                    let value = visitor.visit_map(&mut entries)?;
                    entries.end("map")?;
                    Ok(value)
                } else {
                    let all = (entries.reader.bytes, entries.left);
                    visitor.visit_map(Params { entries, nils: nils.iter(), all })
                }
            }
        }
    }
}

/// The number that the shortest text of an `f32` has, as JSON shows it.
fn shortest(value: f32) -> f64 {
    value.to_string().parse().unwrap_or_else(|_| value.into())
}

fn unexpected<'v>(value: &Value<'v>) -> Unexpected<'v> {
    match value {
        Value::Nil => Unexpected::Unit,
        Value::Bool(value) => Unexpected::Bool(*value),
        Value::Unsigned(value) => Unexpected::Unsigned(*value),
        Value::Signed(value) => Unexpected::Signed(*value),
        Value::Single(value) => Unexpected::Float(shortest(*value)),
        Value::Double(value) => Unexpected::Float(*value),
        Value::Text(text) => Unexpected::Str(text),
        Value::Binary(bytes) => Unexpected::Bytes(bytes),
        Value::List(_) => Unexpected::Seq,
        Value::Map(_) => Unexpected::Map,
    }
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = Problem;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        let value = self.value()?;
        self.visit(value, visitor)
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match self.value()? {
            Value::Single(value) => visitor.visit_f32(value),
            value => self.visit(value, visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        if self.bytes.first() == Some(&0xc0) {
            self.take(1)?;
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Problem> {
        if name != RAW {
            return visitor.visit_newtype_struct(self);
        }
        // The form for display is not suitable, because it changes the keys of some maps.
        let value: serde_json::Value = super::decode_scanned(self.skip()?)?;
        visitor.visit_map(MapDeserializer::new([(RAW, value.to_string())].into_iter()))
    }

    // Binary is read as a list of bytes by types that want one.
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match self.value()? {
            Value::Binary(bytes) => visitor.visit_seq(SeqDeserializer::new(bytes.iter().copied())),
            value => self.visit(value, visitor),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Problem> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(self, _: &'static str, _: usize, visitor: V) -> Result<V::Value, Problem> {
        self.deserialize_seq(visitor)
    }

    /// Serde decodes a tag and its content as a struct. The content that it reads before the tag
    /// has lost its types.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        match (fields, self.bytes) {
            ([tag, content], [0x82, entries @ ..]) if self.nils.is_empty() => {
                let end = |at| value_end(entries, at).map_err(Problem::custom);
                let second = end(end(0)?)?;
                let entries = [&entries[..second], &entries[second..end(end(second)?)?]];
                let is_named = |entry, name: &str| matches!(Reader::new(entry).value(), Ok(Value::Text(key)) if key == name);
                if is_named(entries[0], content) && is_named(entries[1], tag) {
                    self.bytes = &self.bytes[1 + entries[0].len() + entries[1].len()..];
                    return visitor.visit_map(TagFirst { reader: Reader::new(entries[1]), content: Some(entries[0]) });
                }
                self.deserialize_any(visitor)
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(self, _: &'static str, _: &'static [&'static str], visitor: V) -> Result<V::Value, Problem> {
        match self.value()? {
            Value::Text(variant) => visitor.visit_enum(StrDeserializer::new(variant)),
            Value::Map(1) => visitor.visit_enum(Variant(self)),
            Value::Map(_) => Err(Problem::custom("a variant with content is a map of one entry")),
            value => Err(Problem::invalid_type(unexpected(&value), &"the name of a variant, or a map of one entry")),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        self.skip()?;
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f64 char str string bytes byte_buf unit unit_struct map identifier
    }
}

/// Two entries of which the second is read first.
struct TagFirst<'de> {
    reader: Reader<'de>,
    content: Option<&'de [u8]>,
}

impl<'de> MapAccess<'de> for TagFirst<'de> {
    type Error = Problem;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Problem> {
        if self.reader.bytes.is_empty() {
            let Some(content) = self.content.take() else { return Ok(None) };
            self.reader = Reader::new(content);
        }
        seed.deserialize(Key(&mut self.reader)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Problem> {
        seed.deserialize(&mut self.reader)
    }
}

/// The entries of a list or a map.
struct Entries<'r, 'de> {
    reader: &'r mut Reader<'de>,
    left: usize,
    read: usize,
}

impl Entries<'_, '_> {
    /// All entries have to be read.
    fn end(&self, what: &str) -> Result<(), Problem> {
        match self.left {
            0 => Ok(()),
            left => Err(Problem::custom(format_args!("the {what} has {left} more entries than the {} of its type", self.read))),
        }
    }

    fn next(&mut self) -> bool {
        let has_next = self.left > 0;
        if has_next {
            (self.left, self.read) = (self.left - 1, self.read + 1);
        }
        has_next
    }
}

impl<'de> SeqAccess<'de> for &mut Entries<'_, 'de> {
    type Error = Problem;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Problem> {
        if self.next() { seed.deserialize(&mut *self.reader).map(Some) } else { Ok(None) }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

impl<'de> MapAccess<'de> for &mut Entries<'_, 'de> {
    type Error = Problem;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Problem> {
        if self.next() { seed.deserialize(Key(&mut *self.reader)).map(Some) } else { Ok(None) }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Problem> {
        seed.deserialize(&mut *self.reader)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

/// The entries of a payload, and then a nil for each parameter that is missing and is `None` by
/// that.
struct Params<'r, 'de> {
    entries: Entries<'r, 'de>,
    nils: std::slice::Iter<'static, (&'static str, bool)>,
    /// The bytes of all entries, and how many they are.
    all: (&'de [u8], usize),
}

impl<'de> MapAccess<'de> for Params<'_, 'de> {
    type Error = Problem;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Problem> {
        let (bytes, count) = self.all;
        let has = |name: &str| {
            let mut reader = Reader::new(bytes);
            (0..count).any(|_| matches!(reader.value(), Ok(Value::Text(key)) if key == name) || reader.skip().is_err())
        };
        let mut entries = &mut self.entries;
        if entries.left > 0 {
            return entries.next_key_seed(seed);
        }
        match self.nils.find(|(name, is_option)| *is_option && !has(name)) {
            Some((name, _)) => {
                entries.reader.bytes = &[0xc0];
                seed.deserialize(StrDeserializer::new(name)).map(Some)
            }
            None => Ok(None),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Problem> {
        seed.deserialize(&mut *self.entries.reader)
    }
}

/// A variant with content: its name is next, and then the content.
struct Variant<'r, 'de>(&'r mut Reader<'de>);

impl<'de> EnumAccess<'de> for Variant<'_, 'de> {
    type Error = Problem;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Problem> {
        Ok((seed.deserialize(&mut *self.0)?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_, 'de> {
    type Error = Problem;

    fn unit_variant(self) -> Result<(), Problem> {
        de::Deserialize::deserialize(self.0)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Problem> {
        seed.deserialize(self.0)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Problem> {
        self.0.deserialize_tuple(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Problem> {
        self.0.deserialize_struct("", fields, visitor)
    }
}

/// The key of a map. A key that is not text, which another program has written, is read by its
/// type.
struct Key<'r, 'de>(&'r mut Reader<'de>);

impl<'de> Key<'_, 'de> {
    /// Decodes a text as `T`, or returns the value itself.
    fn read<T: std::str::FromStr + IntoDeserializer<'de, Problem>, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match self.0.value()? {
            Value::Text(text) => match text.parse::<T>() {
                Ok(value) => value.into_deserializer().deserialize_any(visitor),
                Err(_) => Err(Problem::invalid_type(Unexpected::Str(text), &visitor)),
            },
            value => self.0.visit(value, visitor),
        }
    }
}

macro_rules! read_as {
    ($($method:ident $ty:ty),*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
            self.read::<$ty, V>(visitor)
        }
    )*};
}

impl<'de> Deserializer<'de> for Key<'_, 'de> {
    type Error = Problem;

    read_as!(
        deserialize_bool bool, deserialize_i8 i64, deserialize_i16 i64, deserialize_i32 i64, deserialize_i64 i64, deserialize_i128 i128,
        deserialize_u8 u64, deserialize_u16 u64, deserialize_u32 u64, deserialize_u64 u64, deserialize_u128 u128,
        deserialize_f32 f32, deserialize_f64 f64
    );

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        self.0.deserialize_any(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        self.0.deserialize_enum(name, variants, visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        self.0.deserialize_ignored_any(visitor)
    }

    forward_to_deserialize_any! {
        char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier
    }
}
