//! Values pass through the stored form as through serde_json.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fmt::Debug,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::*;
use crate::codec::any_json::to_json;

/// It is shown as serde_json writes it, and read as it was written, from the stored form and from
/// JSON.
#[allow(clippy::needless_pass_by_value, reason = "the calls are shorter")]
fn same<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: T) {
    let stored = encode(&value).unwrap();
    let json = to_json(&stored).unwrap();
    let read = |json: &str| serde_json::from_str::<serde_json::Value>(json).unwrap();
    assert_eq!(read(&json), read(&serde_json::to_string(&value).unwrap()), "{value:?}");
    assert_eq!(decode::<T>(&stored).unwrap(), value, "{json}");
    let again = from_json(&json).unwrap();
    assert_eq!(decode::<T>(&again).unwrap(), value, "{json}");
    assert_eq!(encode(&decode::<T>(&again).unwrap()).unwrap(), stored, "{json}");
}

#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Clone, Copy, Serialize, Deserialize)]
enum Size {
    Small,
    Large,
}

#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
struct Sku(u64);

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Unit;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum External {
    Unit,
    New(IpAddr),
    Tuple(u8, f32),
    Struct { zulu: Option<u8>, alpha: SocketAddr },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
enum Internal {
    Unit,
    New(BTreeMap<String, IpAddr>),
    Struct { zulu: u64, alpha: IpAddr },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "of")]
enum Adjacent {
    Unit,
    New(IpAddr),
    Tuple(i8, char),
    Struct { zulu: SocketAddr, alpha: u8 },
}

/// Its content is stored before its tag.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
enum ContentFirst {
    Unit,
    Counts(BTreeMap<u64, bool>),
    Wide { size: u128, inner: Box<ContentFirst> },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Untagged {
    Small(u8),
    Address(IpAddr),
    Float(f64),
    Struct { inner: Option<Vec<i64>> },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Flat {
    zulu: u8,
    #[serde(flatten)]
    rest: BTreeMap<String, IpAddr>,
    alpha: Option<Option<u8>>,
}

#[test]
fn every_type_is_what_it_is_to_serde_json() {
    let address: IpAddr = "10.0.0.1".parse().unwrap();
    let socket: SocketAddr = "[::1]:80".parse().unwrap();
    for value in [0, 1, 127, 128, 255, 256, 65_535, 65_536, u64::from(u32::MAX), 1 << 32, u64::MAX] {
        same(value);
    }
    for value in [0, -1, -32, -33, -128, -129, -32_768, -32_769, i64::from(i32::MIN), i64::from(i32::MIN) - 1, i64::MIN, i64::MAX] {
        same(value);
    }
    same((u8::MAX, u16::MAX, u32::MAX, i8::MIN, i16::MIN, i32::MIN));
    same((u128::from(u64::MAX), i128::from(i64::MIN), usize::MAX, isize::MIN));
    for value in [0.1_f32, -0.0, 1.0, 16_777_217.0, f32::MIN_POSITIVE, f32::MAX, 1e-45, 3.402_823e38] {
        same(value);
    }
    for value in [0.1_f64, 0.1 + 0.2, -0.0, 1.0, 5e-324, f64::MAX, 1e300] {
        same(value);
    }
    same((true, 'ü', "text".to_owned(), "x".repeat(40), "x".repeat(300), "x".repeat(70_000)));
    same(((), Unit, Some(7), None::<u8>, [1, 2, 3], vec![0_u8, 255], Vec::<u8>::new()));
    same((vec![7; 15], vec![7; 16], vec![300; 70_000]));
    same((address, socket, PathBuf::from("/tmp/x"), Duration::from_millis(1500), UNIX_EPOCH + Duration::from_secs(7)));
    same((Box::new(7), Cow::<'static, str>::Borrowed("cow"), std::sync::Arc::<str>::from("shared").to_string(), Sku(7)));
    same(BTreeMap::from([(10, "ten".to_owned()), (9, "nine".to_owned()), (-1, "minus".to_owned())]));
    same((BTreeMap::from([(Size::Small, 1), (Size::Large, 2)]), BTreeMap::from([(Sku(10), 1), (Sku(9), 2)])));
    same((BTreeMap::from([('x', 1)]), BTreeMap::from([(true, 1)]), BTreeMap::from([(address, 1)]), BTreeMap::from([(u128::MAX, 1)])));
    same((0..20).map(|n| (n, Size::Large)).collect::<HashMap<u64, Size>>());
    same((BTreeSet::from([3, 1, 2]), HashSet::from([7])));
    same(vec![External::Unit, External::New(address), External::Tuple(1, 0.1), External::Struct { zulu: None, alpha: socket }]);
    same(vec![Internal::Unit, Internal::New(BTreeMap::from([("a".into(), address)])), Internal::Struct { zulu: u64::MAX, alpha: address }]);
    same(vec![Adjacent::Unit, Adjacent::New(address), Adjacent::Tuple(-1, 'x'), Adjacent::Struct { zulu: socket, alpha: 1 }]);
    same((vec![ContentFirst::Unit, ContentFirst::Counts(BTreeMap::from([(7, true)]))], 7));
    let inner = Box::new(ContentFirst::Counts(BTreeMap::from([(1, false)])));
    same((ContentFirst::Wide { size: 7, inner }, "behind it".to_owned()));
    same(vec![Untagged::Small(7), Untagged::Address(address), Untagged::Float(0.5), Untagged::Struct { inner: Some(vec![-1]) }]);
    same(Flat { zulu: 1, rest: BTreeMap::from([("m".into(), address)]), alpha: Some(Some(1)) });
    same(serde_json::json!({"z": [1, -1, 1.5, null, {"b": 1, "a": []}], "a": "x"}));
}

#[test]
fn an_f32_is_read_by_its_shortest_text() {
    let stored = encode(&0.1_f32).unwrap();
    assert_eq!((stored.len(), to_json(&stored).unwrap().as_str(), decode::<f64>(&stored)), (5, "0.1", Ok(0.1)));
    assert_eq!(decode::<f32>(&encode(&0.1_f64).unwrap()), Ok(0.1));
}

#[test]
fn equal_values_have_equal_bytes() {
    #[derive(Serialize)]
    struct Disordered {
        zulu: BTreeMap<String, u8>,
        alpha: External,
    }
    let socket = "[::1]:80".parse().unwrap();
    let (one, other): (HashMap<u64, u8>, HashMap<u64, u8>) = ((0..100).map(|n| (n, 1)).collect(), (0..100).rev().map(|n| (n, 1)).collect());
    assert_eq!(encode(&one).unwrap(), encode(&other).unwrap());
    let value = Disordered { zulu: BTreeMap::new(), alpha: External::Struct { zulu: None, alpha: socket } };
    let json = r#"{"alpha":{"Struct":{"alpha":"[::1]:80","zulu":null}},"zulu":{}}"#;
    assert_eq!(to_json(&encode(&value).unwrap()).unwrap(), json);
    assert_eq!(encode(&value).unwrap(), from_json(r#"{"zulu":{},"alpha":{"Struct":{"zulu":null,"alpha":"[::1]:80"}}}"#).unwrap());
    // Keys are compared by their bytes, independent of their length.
    assert_eq!(
        &encode(&[("b".repeat(40), 1), ("a".repeat(300), 2)].into_iter().collect::<HashMap<_, _>>()).unwrap()[1..4],
        b"\xda\x01\x2c"
    );
    let sorted = |set: &HashSet<&str>| {
        let mut bytes = Vec::new();
        encode_into(&mut bytes, set, Form::Sorted).unwrap();
        bytes
    };
    assert_eq!(sorted(&HashSet::from(["b", "a", "c"])), b"\x93\xa1a\xa1b\xa1c");
}

#[test]
fn bytes_are_binary_and_read_from_lists_too() {
    struct Bytes;
    impl Serialize for Bytes {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_bytes(&[0, 200])
        }
    }
    let mut of_parameter = Vec::new();
    encode_into(&mut of_parameter, &vec![0_u8, 200], Form::Bytes).unwrap();
    assert_eq!((encode(&Bytes).unwrap(), of_parameter), (vec![0xc4, 2, 0, 200], vec![0xc4, 2, 0, 200]));
    assert_eq!(decode::<Vec<u8>>(&[0xc4, 2, 0, 200]).unwrap(), decode::<Vec<u8>>(&encode(&[0, 200]).unwrap()).unwrap());
    let mut large = Vec::new();
    encode_into(&mut large, &(0..70_000).map(|n| n.to_string().len().to_le_bytes()[0]).collect::<Vec<u8>>(), Form::Bytes).unwrap();
    assert_eq!((large.len(), scan(&large)), (70_005, Ok(())));
}

#[test]
fn what_json_does_not_have_is_refused_with_its_place() {
    #[derive(Serialize)]
    struct Line<N> {
        price: N,
    }
    #[derive(Serialize)]
    struct Order<N> {
        lines: Vec<Line<N>>,
    }
    fn problem<N: Serialize>(price: N) -> String {
        encode(&Order { lines: vec![Line { price }] }).unwrap_err()
    }
    for wrong in [problem(f64::NAN), problem(f32::INFINITY), problem(Some(f64::NEG_INFINITY)), problem(BTreeMap::from([("a", f64::NAN)]))] {
        assert!(wrong.starts_with("`lines[0].price") && wrong.contains("cannot be a JSON number"), "{wrong}");
    }
    for wrong in [problem(u128::MAX), problem(i128::MIN)] {
        assert!(wrong.starts_with("`lines[0].price`: ") && wrong.contains("not fit into 64 bits"), "{wrong}");
    }
    assert!(encode(&HashMap::from([(vec![1], 1)])).unwrap_err().contains("key of a map"));
}

#[test]
fn two_entries_with_one_key_are_refused_by_the_key() {
    #[derive(Serialize)]
    struct Flat {
        note: u8,
        #[serde(flatten)]
        rest: BTreeMap<&'static str, u8>,
    }
    #[derive(Serialize)]
    #[serde(tag = "kind")]
    enum Internal {
        New(BTreeMap<&'static str, u8>),
    }
    let flat = |key| encode(&[Flat { note: 1, rest: BTreeMap::from([("z", 1), (key, 2)]) }]);
    assert!(flat("other").is_ok());
    let problem = flat("note").unwrap_err();
    assert!(problem.starts_with("`[0]`: two entries have the key `note`"), "{problem}");
    let problem = encode(&Internal::New(BTreeMap::from([("kind", 2)]))).unwrap_err();
    assert!(problem.starts_with("two entries have the key `kind`"), "{problem}");
}

#[test]
fn deep_values_are_refused_before_the_stack_ends() {
    #[derive(Serialize)]
    struct Deep(Vec<Deep>);
    let mut deep = Deep(Vec::new());
    for _ in 0..DEPTH_MAX + 1 {
        deep = Deep(vec![deep]);
    }
    assert!(encode(&deep).unwrap_err().contains("deep"));
}

/// The values that serde_json passes to other serializers if its features `arbitrary_precision` and
/// `raw_value` are on.
#[test]
fn numbers_and_raw_values_of_serde_json_are_values() {
    #[derive(Serialize)]
    #[serde(rename = "$serde_json::private::Number")]
    struct Number {
        #[serde(rename = "$serde_json::private::Number")]
        text: &'static str,
    }
    #[derive(Serialize)]
    #[serde(rename = "$serde_json::private::RawValue")]
    struct Raw {
        #[serde(rename = "$serde_json::private::RawValue")]
        text: &'static str,
    }
    for (text, json) in [("7", "7"), ("-7", "-7"), ("18446744073709551615", "18446744073709551615"), ("1.50", "1.5"), ("1e3", "1000.0")] {
        assert_eq!(to_json(&encode(&[Number { text }]).unwrap()).unwrap(), format!("[{json}]"));
    }
    for text in ["18446744073709551616", "1e400", "0.1234567890123456789"] {
        assert!(encode(&[Number { text }]).unwrap_err().starts_with("`[0]`: "), "{text}");
    }
    let raw = encode(&(Raw { text: r#"{"b": 1, "a": [1.5 ]}"# }, 7)).unwrap();
    assert_eq!(to_json(&raw).unwrap(), r#"[{"a":[1.5],"b":1},7]"#);
}

#[test]
fn what_does_not_fit_is_refused() {
    assert!(decode::<u8>(&encode(&256).unwrap()).is_err());
    assert!(decode::<u8>(&encode("7").unwrap()).is_err(), "only a key is read from a text");
    assert!(decode::<(u8, u8)>(&encode(&[1, 2, 3]).unwrap()).is_err());
    assert!(decode::<External>(&encode("New").unwrap()).is_err());
    assert!(decode::<External>(&[0x82, 0xa4, b'U', b'n', b'i', b't', 0xc0, 0xa1, b'x', 0xc0]).is_err());
    assert!(decode::<String>(&[0xa1, 0xff]).is_err());
    assert!(decode::<BTreeMap<u8, u8>>(&encode(&BTreeMap::from([("x", 1)])).unwrap()).is_err());
    assert_eq!(decode::<BTreeMap<u8, u8>>(&[0x81, 7, 1]), Ok(BTreeMap::from([(7, 1)])), "another program wrote a number");
    let _: SystemTime = decode(&encode(&SystemTime::now()).unwrap()).unwrap();
}
