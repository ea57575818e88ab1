//! The table of types. `values/mod.rs` passes it through the library, `values_worker` through the
//! command line, and the tests of the dashboard through its pages.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fmt,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use queue_core::prelude::*;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use serde_json::value::RawValue;
use uuid::Uuid;

pub const ID: Uuid = Uuid::from_u128(0x550e_8400_e29b_41d4_a716_4466_5544_0000);

/// A second after 1,795,000,000 s, with a fraction.
const SECONDS: i64 = 1_795_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Size {
    VerySmall,
    Large,
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Size::Large { "large" } else { "very-small" })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Sku(pub u32);

impl fmt::Display for Sku {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unit;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum External {
    Unit,
    New(Uuid),
    Tuple(u8, f32),
    Struct { zulu: Option<u8>, alpha: IpAddr },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum Internal {
    Unit,
    New(BTreeMap<String, IpAddr>),
    Struct { zulu: u64, alpha: Uuid },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "of")]
pub enum Adjacent {
    Unit,
    New(SocketAddr),
    Tuple(i8, char),
    Struct { zulu: Uuid, alpha: u8 },
}

/// Its content is stored before its tag.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
pub enum ContentFirst {
    Unit,
    Counts(BTreeMap<u64, bool>),
    Wide { size: u128, uuid: Uuid },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Untagged {
    Small(u8),
    Address(IpAddr),
    Float(f64),
    Id { id: Uuid, inner: Option<Vec<i64>> },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flat {
    pub zulu: u8,
    #[serde(flatten)]
    pub rest: BTreeMap<String, Uuid>,
    pub alpha: Option<Option<u8>>,
}

/// Any JSON, as its text is.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Raw(pub Box<RawValue>);

impl PartialEq for Raw {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}

/// Each type once.
#[derive(Task, Event, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[task(queue = "values", name = "all", group = uuid, unique(by = [uuid, address]), tag(order = uuid), limit(name = "each", by = [uuid], concurrency = 5))]
#[event(topic = "values", name = "all", tag(order = uuid))]
pub struct All {
    pub uuid: Uuid,
    pub address: IpAddr,
    pub socket: SocketAddr,
    pub chrono:
        (chrono::DateTime<chrono::Utc>, chrono::DateTime<chrono::FixedOffset>, chrono::NaiveDate, chrono::NaiveDateTime, chrono::NaiveTime),
    pub jiff: (jiff::Timestamp, jiff::civil::Date, jiff::civil::DateTime, jiff::SignedDuration),
    pub time: (time::OffsetDateTime, time::Date, time::PrimitiveDateTime, time::Duration),
    pub decimals: Vec<Decimal>,
    pub narrow: (u8, u16, u32, i8, i16, i32),
    pub wide: (u64, i64, u128, i128, usize, isize),
    pub single: f32,
    pub singles: Vec<f32>,
    pub doubles: Vec<f64>,
    pub yes: bool,
    pub bytes: ByteBuf,
    pub data: Vec<u8>,
    pub maybe_data: Option<Vec<u8>>,
    pub more: Vec<Vec<u8>>,
    pub external: Vec<External>,
    pub internal: Vec<Internal>,
    pub adjacent: Vec<Adjacent>,
    pub content_first: Vec<ContentFirst>,
    pub untagged: Vec<Untagged>,
    pub flat: Flat,
    pub texts: HashMap<String, u8>,
    pub numbers: HashMap<i16, Uuid>,
    pub sizes: HashMap<Size, u8>,
    pub skus: BTreeMap<Sku, u8>,
    pub ids: HashMap<Uuid, Option<Option<u8>>>,
    pub set: HashSet<String>,
    pub ordered: BTreeSet<i32>,
    pub value: serde_json::Value,
    pub raw: Raw,
    pub path: PathBuf,
    pub lasts: Duration,
    pub unit: ((), Unit),
    pub list: [u16; 3],
    pub boxed: Box<Uuid>,
    pub text: Cow<'static, str>,
    pub short: Box<str>,
    pub missing: Option<Uuid>,
    pub there: Option<Uuid>,
    #[serde(rename = "letter")]
    pub renamed: char,
    pub note: u8,
}

pub fn all() -> All {
    let address: IpAddr = "10.0.0.1".parse().unwrap();
    let socket: SocketAddr = "[::1]:80".parse().unwrap();
    let instant = chrono::DateTime::from_timestamp(SECONDS, 250_000_000).unwrap();
    let timestamp = jiff::Timestamp::new(SECONDS, 250_000_000).unwrap();
    let civil = timestamp.to_zoned(jiff::tz::TimeZone::UTC).datetime();
    let offset = time::OffsetDateTime::from_unix_timestamp(SECONDS).unwrap();
    All {
        uuid: ID,
        address,
        socket,
        chrono: (
            instant,
            instant.with_timezone(&chrono::FixedOffset::east_opt(3600).unwrap()),
            instant.date_naive(),
            instant.naive_utc(),
            instant.time(),
        ),
        jiff: (timestamp, civil.date(), civil, jiff::SignedDuration::from_millis(-1500)),
        time: (offset, offset.date(), time::PrimitiveDateTime::new(offset.date(), offset.time()), time::Duration::milliseconds(1500)),
        decimals: ["19.90", "-0.001", "79228162514264337593543950335"].map(|text| text.parse().unwrap()).into(),
        narrow: (u8::MAX, u16::MAX, u32::MAX, i8::MIN, i16::MIN, i32::MIN),
        wide: (u64::MAX, i64::MIN, u128::from(u64::MAX), i128::from(i64::MIN), usize::MAX, isize::MIN),
        single: 0.1,
        singles: vec![-0.0, 1.0, 16_777_217.0, f32::MIN_POSITIVE, f32::MAX, 3.402_823e38],
        // serde_json reads some of these as their neighbors without its feature `float_roundtrip`.
        doubles: vec![0.1 + 0.2, -0.0, 1.0, 5e-324, f64::MAX, 7.038_531e-26, 1.234_567_890_123_456_7e-7, 9_007_199_254_740_992.0],
        yes: true,
        bytes: ByteBuf::from([0, 255]),
        data: vec![1, 200],
        maybe_data: Some(vec![0]),
        more: vec![vec![1, 200], vec![]],
        external: vec![External::Unit, External::New(ID), External::Tuple(1, 0.1), External::Struct { zulu: None, alpha: address }],
        internal: vec![
            Internal::Unit,
            Internal::New(BTreeMap::from([("a".to_owned(), address)])),
            Internal::Struct { zulu: u64::MAX, alpha: ID },
        ],
        adjacent: vec![Adjacent::Unit, Adjacent::New(socket), Adjacent::Tuple(-1, 'x'), Adjacent::Struct { zulu: ID, alpha: 1 }],
        content_first: vec![
            ContentFirst::Unit,
            ContentFirst::Counts(BTreeMap::from([(10, true), (9, false)])),
            ContentFirst::Wide { size: 7, uuid: ID },
        ],
        untagged: vec![
            Untagged::Small(7),
            Untagged::Address(address),
            Untagged::Float(0.5),
            Untagged::Id { id: ID, inner: Some(vec![-1]) },
        ],
        flat: Flat { zulu: 1, rest: BTreeMap::from([("extra".to_owned(), ID)]), alpha: Some(Some(1)) },
        texts: ["b", "a", "c"].map(|key| (key.to_owned(), 1)).into(),
        numbers: (0..20).map(|number| (number - 10, ID)).collect(),
        sizes: HashMap::from([(Size::Large, 1), (Size::VerySmall, 2)]),
        skus: BTreeMap::from([(Sku(10), 1), (Sku(9), 2)]),
        ids: HashMap::from([(ID, None), (Uuid::nil(), Some(Some(1)))]),
        set: ["b", "a", "c"].map(str::to_owned).into(),
        ordered: BTreeSet::from([3, -1, 2]),
        value: serde_json::json!({"z": 1, "a": [1.5, null, -1, u64::MAX], "$base64": {"$base64": "AA=="}}),
        raw: Raw(RawValue::from_string(r#"{"a":[1.5,"ü"],"b":{"$base64":"AA=="}}"#.to_owned()).unwrap()),
        path: PathBuf::from("/tmp/x"),
        lasts: Duration::from_millis(1500),
        unit: ((), Unit),
        list: [1, 2, 300],
        boxed: Box::new(ID),
        text: "ü \"quoted\" \n".into(),
        short: "short".into(),
        missing: None,
        there: Some(ID),
        renamed: 'x',
        note: 1,
    }
}

impl Handler for All {
    type Output = Result<All, String>;

    async fn run(self, ctx: JobContext) -> Self::Output {
        ctx.progress_value(&self).map_err(|error| error.to_string())?;
        Ok(self)
    }
}
