//! The serde attributes on the fields of a payload struct and of an event have the same effect as
//! in serde.

use std::collections::{BTreeMap, HashMap, HashSet};

use queue_core::{
    __private::{Fields, Runnable, codec},
    Error, Event, Task,
    prelude::*,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

mod cents {
    use super::*;

    pub fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{value:.2}"))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Rest {
    zip: String,
    #[serde(flatten)]
    others: BTreeMap<String, u8>,
}

type Maybe = Option<u32>;
type Tags = HashSet<String>;
type Blob = Vec<u8>;

#[derive(Task, Clone, Debug, PartialEq)]
#[task(tag(order = order_id, price), group = tenant_name, unique(by = [order_id]))]
#[serde(rename_all = "camelCase")]
struct Ship {
    order_id: u64,
    #[serde(rename = "tenant")]
    tenant_name: String,
    #[serde(with = "cents")]
    price: f64,
    #[serde(skip)]
    cached: Option<std::time::Instant>,
    #[serde(default = "three")]
    tries: u8,
    #[default("here".to_owned())]
    place: String,
    #[serde(alias = "comment")]
    note: Option<u32>,
    floor: Maybe,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    lines: Vec<u16>,
    tags: Tags,
    data: Blob,
    more: HashMap<u16, u8>,
}

/// `Some(None)` is stored, and `None` is not.
mod twice {
    use super::*;

    pub fn serialize<S: Serializer>(value: &Option<Option<u8>>, serializer: S) -> Result<S::Ok, S::Error> {
        value.unwrap_or_default().serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<u8>>, D::Error> {
        Option::deserialize(deserializer).map(Some)
    }
}

/// Stored names with a dot, a required parameter with an alias, and fields that are left out.
#[derive(Task, Clone, Debug, PartialEq, Default)]
#[task(unique, tag(order), group = tenant, limit(name = "dots", by = [order], concurrency = 1))]
struct Dots {
    #[serde(rename = "order.id")]
    order: u64,
    #[serde(rename = "tenant.id", alias = "tenant")]
    tenant: u8,
    #[serde(with = "twice", default, skip_serializing_if = "Option::is_none")]
    floor: Option<Option<u8>>,
    note: Maybe,
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Maybe,
    #[serde(skip_serializing, default)]
    cached: u8,
    #[serde(skip_serializing, skip_deserializing)]
    skipped: u8,
    #[serde(flatten, skip_serializing_if = "BTreeMap::is_empty")]
    rest: BTreeMap<String, String>,
}

impl Handler for Dots {
    type Output = ();

    async fn run(self, _: JobContext) {}
}

#[test]
fn some_none_is_stored() {
    for floor in [None, Some(None), Some(Some(1))] {
        let dots = Dots { floor, ..Dots::default() };
        assert_eq!(queue_core::__private::read_fields::<Dots, _>(&stored(&dots)).unwrap(), dots);
    }
}

#[test]
fn a_flattened_map_has_no_name_of_a_field() {
    for (name, note) in [("order.id", None), ("note", None), ("note", Some(1))] {
        let dots = Dots { note, rest: BTreeMap::from([(name.to_owned(), "x".to_owned())]), ..Dots::default() };
        let problem = queue_core::__private::PayloadWriter::of(&dots).finish("dots").unwrap_err().to_string();
        assert!(problem.contains("dots") && problem.contains(&format!("two entries have the key `{name}`")), "{problem}");
    }
}

#[test]
fn a_required_parameter_has_its_alias_in_json() {
    let def = Dots::definition();
    assert_eq!((def.group, def.tags, def.limits[0].by), (Some("tenant.id"), &[("order", "order.id")][..], &["order.id"][..]));
    let payload = (def.payload_from_json)(r#"{"order.id":1,"tenant":3}"#).unwrap();
    assert_eq!(queue_core::__private::to_json(&payload).unwrap(), r#"{"order.id":1,"tenant.id":3}"#);
    (def.check_payload)(&codec::from_json(r#"{"order.id":1,"tenant":3}"#).unwrap()).unwrap();
    let problem = (def.payload_from_json)(r#"{"order.id":1}"#).unwrap_err().to_string();
    assert!(problem.contains("`tenant.id` is missing"), "{problem}");
    let problem = format!("{:?}", queue_core::__private::read_fields::<Dots, _>(b"\x80").unwrap_err());
    assert!(problem.contains("parameter `order.id` is missing"), "{problem}");
}

fn three() -> u8 {
    3
}

impl Handler for Ship {
    type Output = ();

    async fn run(self, _: JobContext) {}
}

#[derive(Task, Clone, Debug, PartialEq)]
struct Move {
    from: String,
    #[serde(flatten)]
    rest: Rest,
}

impl Handler for Move {
    type Output = ();

    async fn run(self, _: JobContext) {}
}

#[derive(Event, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[event(topic = "orders", tag(order = order_id))]
#[serde(rename_all = "SCREAMING-KEBAB-CASE", deny_unknown_fields, default)]
struct OrderPaid {
    order_id: u64,
    note: Option<String>,
}

impl Default for OrderPaid {
    fn default() -> Self {
        OrderPaid { order_id: 7, note: Some("none".to_owned()) }
    }
}

fn ship() -> Ship {
    Ship {
        order_id: 17,
        tenant_name: "acme".to_owned(),
        price: 1.5,
        cached: None,
        tries: 3,
        place: "there".to_owned(),
        note: None,
        floor: None,
        lines: Vec::new(),
        tags: HashSet::from(["b".to_owned(), "a".to_owned(), "c".to_owned()]),
        data: vec![0, 255],
        more: HashMap::from([(10, 1), (9, 2)]),
    }
}

fn stored<F: Fields<Of>, Of>(fields: &F) -> Vec<u8> {
    queue_core::__private::PayloadWriter::of(fields).finish("task").unwrap()
}

const JSON: &str = r#"{"data":{"$base64":"AP8="},"more":{"10":1,"9":2},"orderId":17,"place":"there","price":"1.50","tags":["a","b","c"],"tenant":"acme","tries":3}"#;

#[test]
fn a_field_is_stored_as_serde_says() {
    let ship = ship();
    let payload = stored(&ship);
    assert_eq!(queue_core::__private::to_json(&payload).unwrap(), JSON);
    assert_eq!(queue_core::__private::read_fields::<Ship, _>(&payload).unwrap(), ship);
    assert_eq!((Ship::definition().payload_from_json)(JSON).unwrap(), payload);
    (Ship::definition().check_payload)(&payload).unwrap();
    let short = (Ship::definition().payload_from_json)(
        r#"{"orderId":17,"tenant":"acme","price":"1.5","comment":4,"tags":[],"data":[1],"more":{},"lines":[300]}"#,
    );
    let read = queue_core::__private::read_fields::<Ship, _>(&short.unwrap()).unwrap();
    assert_eq!((read.tries, &*read.place, read.note, read.lines, read.data), (3, "here", Some(4), vec![300], vec![1]));
}

#[test]
fn what_does_not_fit_names_the_parameter_as_it_is_stored() {
    let problem = |json: &str| (Ship::definition().payload_from_json)(json).unwrap_err().to_string();
    let whole = |change: &str, to: &str| problem(&JSON.replace(change, to));
    assert!(whole(r#""orderId":17,"#, "").contains("`orderId` is missing"), "{}", whole(r#""orderId":17,"#, ""));
    assert!(whole("tenant", "tennant").contains("`tennant` is unknown"), "{}", whole("tenant", "tennant"));
    assert!(whole("17", "-17").contains("orderId` does not fit `u64`"), "{}", whole("17", "-17"));
    assert!(whole(r#""9":2"#, r#""9":256"#).contains("more.9` does not fit"), "{}", whole(r#""9":2"#, r#""9":256"#));
    assert!(whole("1.50", "x").contains("price` does not fit"), "{}", whole("1.50", "x"));
    let read = |payload: &[u8]| format!("{:?}", queue_core::__private::read_fields::<Ship, _>(payload).unwrap_err());
    assert!(read(b"\x80").contains("parameter `data` is missing"), "the first in the order of the names: {}", read(b"\x80"));
    let wrong = codec::from_json(&JSON.replace(r#""9":2"#, r#""9":"x""#)).unwrap();
    assert!(read(&wrong).contains("parameter `more`.9: "), "{}", read(&wrong));
}

#[test]
fn group_tag_and_key_are_found_under_the_stored_names() {
    let def = Ship::definition();
    assert_eq!((def.group, def.tags), (Some("tenant"), &[("order", "orderId"), ("price", "price")][..]));
    assert_eq!(def.unique.unwrap().by, Some(&["orderId"][..]));
    let names: Vec<_> = def.params.iter().map(|param| (param.name, param.required, param.option)).collect();
    assert!(!names.iter().any(|(name, ..)| *name == "cached"));
    for expected in [
        ("orderId", true, false),
        ("tries", false, false),
        ("place", false, false),
        ("note", false, true),
        ("floor", false, true),
        ("lines", false, false),
    ] {
        assert!(names.contains(&expected), "{expected:?} in {names:?}");
    }
    let _ = Ship::handler();
}

#[test]
fn flattened_fields_are_parameters() {
    let fields = Move {
        from: "a".to_owned(),
        rest: Rest { zip: "1".to_owned(), others: BTreeMap::from([("floor".to_owned(), 3), ("x".to_owned(), 4)]) },
    };
    let payload = stored(&fields);
    assert_eq!(queue_core::__private::to_json(&payload).unwrap(), r#"{"floor":3,"from":"a","x":4,"zip":"1"}"#);
    assert_eq!(queue_core::__private::read_fields::<Move, _>(&payload).unwrap(), fields);
    assert_eq!((Move::definition().payload_from_json)(r#"{"zip":"1","x":4,"from":"a","floor":3}"#).unwrap(), payload);
}

#[test]
fn events_have_the_attributes_of_their_struct() {
    let event = OrderPaid { order_id: 17, note: None };
    let payload = stored(&event);
    assert_eq!(queue_core::__private::to_json(&payload).unwrap(), r#"{"NOTE":null,"ORDER-ID":17}"#, "its default is not `None`");
    assert_eq!(OrderPaid::decode(&payload).unwrap(), event);
    assert_eq!(OrderPaid::decode(b"\x80").unwrap(), OrderPaid::default());
    assert_eq!(OrderPaid::TAGS, &[("order", "ORDER-ID")]);
    assert!(OrderPaid::decode(b"\x81\xa1x\x01").is_err(), "it denies unknown fields");
    assert!(matches!(OrderPaid::check_payload(b"\x81\xa1x\x01"), Err(Error::Invalid { .. })));
}

/// A struct that is a task and an event.
#[derive(Task, Event, Clone, Debug, PartialEq)]
#[task(tag(order))]
#[event(topic = "orders", name = "order.closed", tag(order))]
#[serde(rename_all = "UPPERCASE", default)]
struct Close {
    order: u64,
    #[default(2)]
    copies: u8,
    note: Maybe,
}

impl Default for Close {
    fn default() -> Self {
        Close { order: 7, copies: 3, note: None }
    }
}

impl Handler for Close {
    type Output = ();

    async fn run(self, _: JobContext) {}
}

#[test]
fn a_struct_is_a_task_and_an_event() {
    let close = Close { order: 17, copies: 1, note: Some(1) };
    let json = r#"{"COPIES":1,"NOTE":1,"ORDER":17}"#;
    let payload = (Close::definition().payload_from_json)(json).unwrap();
    assert_eq!(Close::payload_from_json(json).unwrap(), payload);
    assert_eq!(Close::decode(&payload).unwrap(), close);
    assert_eq!((Close::TYPE, Close::definition().name), ("order.closed", "Close"));
    drop((close.clone().event(), close.job()));
}

#[task(unique)]
async fn aliases(note: Maybe, tags: Tags, data: Blob, #[default(Some(1))] level: Option<u8>) {
    drop((note, tags, data, level));
}

#[test]
fn parameters_of_functions_are_stored_by_their_type_and_not_its_name() {
    let def = aliases::definition();
    let json = r#"{"data":{"$base64":"AQ=="},"level":null,"tags":["a","b"]}"#;
    for given in [json, r#"{"tags":["b","a"],"level":null,"note":null,"data":[1]}"#] {
        let payload = (def.payload_from_json)(given).unwrap();
        assert_eq!(queue_core::__private::to_json(&payload).unwrap(), json);
        (def.check_payload)(&payload).unwrap();
    }
    assert_eq!(def.params.iter().map(|param| param.required).collect::<Vec<_>>(), [false, true, true, false]);
    drop(aliases::job(None, HashSet::new(), vec![1], None));
}

#[derive(Task, Debug, PartialEq)]
#[task(schedule(every = "1h"), schedule(every = "2h", name = "all", args(retries = 5, price = 1.5, rest = rest(), dash_ed = 7)))]
#[serde(rename_all = "kebab-case")]
struct Sweep {
    #[serde(default)]
    retries: u32,
    #[serde(with = "cents", default)]
    price: f64,
    #[serde(flatten)]
    rest: BTreeMap<String, u8>,
    floor: Maybe,
    #[serde(default = "three")]
    dash_ed: u8,
}

fn rest() -> BTreeMap<String, u8> {
    BTreeMap::from([("x".to_owned(), 1)])
}

impl Handler for Sweep {
    type Output = ();

    async fn run(self, _: JobContext) {}
}

#[derive(Task)]
#[task(schedule(every = "1h"), schedule(every = "2h", name = "whole", args(rest = Rest { zip: "1".to_owned(), others: BTreeMap::new() })))]
struct Send {
    #[serde(flatten)]
    rest: Rest,
}

impl Handler for Send {
    type Output = ();

    async fn run(self, _: JobContext) {
        drop(self.rest);
    }
}

#[task(schedule(every = "1h"))]
async fn of_defaults(note: Maybe) {
    let _ = note;
}

/// A schedule stores the same payload as an enqueue. Fields that it leaves out have a default.
#[test]
fn the_payload_of_a_schedule_is_what_serde_derives() {
    let payload = |def: &queue_core::TaskDef, at: usize| (def.schedules[at].payload)();
    let shown = |payload: Vec<u8>| queue_core::__private::to_json(&payload).unwrap();
    assert_eq!(shown(payload(Sweep::definition(), 0).unwrap()), "{}");
    let all = payload(Sweep::definition(), 1).unwrap();
    assert_eq!(shown(all.clone()), r#"{"dash-ed":7,"price":"1.50","retries":5,"x":1}"#);
    let sweep: Sweep = queue_core::__private::read_fields(&all).unwrap();
    assert_eq!(sweep, Sweep { retries: 5, price: 1.5, rest: rest(), floor: None, dash_ed: 7 });
    let told = (Sweep::definition().payload_from_json)(r#"{"x":1,"y":"two","retries":1}"#).unwrap_err().to_string();
    assert!(told.starts_with("parameter `y` does not fit task `Sweep`: "), "{told}");
    let missing = payload(Send::definition(), 0).unwrap_err().to_string();
    assert!(missing.contains("Send") && missing.contains("missing field `zip`"), "{missing}");
    assert_eq!(shown(payload(Send::definition(), 1).unwrap()), r#"{"zip":"1"}"#);
    assert_eq!(shown(payload(of_defaults::definition(), 0).unwrap()), "{}");
}
