//! A stored value of any kind as JSON, for people: what `serde_json::Value` does not take (binary, keys that are no text) becomes the nearest
//! that JSON has.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value};

/// The JSON of a value.
pub(crate) struct AnyJson(pub(crate) Value);

impl<'de> Deserialize<'de> for AnyJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Any)
    }
}

struct Any;

/// Binary as an array of numbers, which a parameter of that kind also takes.
fn numbers(bytes: &[u8]) -> AnyJson {
    AnyJson(bytes.iter().copied().map(Value::from).collect())
}

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
        Ok(numbers(value))
    }

    fn visit_unit<E>(self) -> Result<AnyJson, E> {
        Ok(AnyJson(Value::Null))
    }

    fn visit_none<E>(self) -> Result<AnyJson, E> {
        Ok(AnyJson(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<AnyJson, D::Error> {
        AnyJson::deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<AnyJson, D::Error> {
        AnyJson::deserialize(deserializer)
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
        Ok(AnyJson(Value::Object(map)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn json(bytes: &[u8]) -> String {
        rmp_serde::from_slice::<AnyJson>(bytes).unwrap().0.to_string()
    }

    #[test]
    fn binary_is_an_array_of_numbers_and_a_key_that_is_no_text_becomes_one() {
        assert_eq!(json(&[0xc4, 2, 0, 255]), "[0,255]");
        let keys = BTreeMap::from([(17, ("a", None::<u8>, 1.5, f64::NAN)), (18, ("b", Some(2), -1.0, 0.5))]);
        let expected = r#"{"17":["a",null,1.5,null],"18":["b",2,-1.0,0.5]}"#;
        assert_eq!(json(&rmp_serde::to_vec_named(&keys).unwrap()), expected);
    }
}
